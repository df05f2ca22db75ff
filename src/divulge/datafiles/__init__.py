"""A file into records or labels."""

from divulge.datafiles.layout import DataFile, FileLayout
from divulge.datafiles.tables import NamedRows, read_labels, read_named_rows, read_records, require_labels

__all__ = ["DataFile", "FileLayout", "NamedRows", "read_records", "read_labels", "read_named_rows", "require_labels"]
