"""Finished runs as a table, or in a browser on this machine: read, compared, and asked for other thresholds."""

from divulge.viewing.server import application, serve
from divulge.viewing.shelf import Entry, Shelf
from divulge.viewing.table import RunRow, format_rows, list_runs, tabulate

__all__ = ["Entry", "RunRow", "Shelf", "application", "format_rows", "list_runs", "serve", "tabulate"]
