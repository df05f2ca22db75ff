"""A file into records or labels."""

from divulge.datafiles.layout import DataFile, FileLayout
from divulge.datafiles.tables import NamedRows, read, read_labels, read_rows, refuse_unlabelled

__all__ = ["DataFile", "FileLayout", "NamedRows", "read", "read_labels", "read_rows", "refuse_unlabelled"]
