"""A file into records or labels."""

from divulge.datafiles.tables import DataFile, FileLayout, NamedRows, read, read_labels, read_rows, refuse_unlabelled

__all__ = ["DataFile", "FileLayout", "NamedRows", "read", "read_labels", "read_rows", "refuse_unlabelled"]
