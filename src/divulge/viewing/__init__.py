"""Finished runs in a browser on this machine: read, compared, and asked for other thresholds."""

from divulge.viewing.server import application, serve
from divulge.viewing.shelf import Entry, Shelf

__all__ = ["Entry", "Shelf", "application", "serve"]
