"""Files into records or labels."""

from divulge.datafiles.records import (
    DataFile,
    FileLayout,
    NamedRows,
    read_labels,
    read_named_rows,
    read_records,
    require_labels,
)

__all__ = ["DataFile", "FileLayout", "NamedRows", "read_labels", "read_named_rows", "read_records", "require_labels"]
