"""Named columns as NumPy arrays, and the files that hold them: Parquet, CSV and Arrow streams."""

from divulge.frames.files import (
    Scan,
    csv,
    header,
    ipc_stream,
    ipc_streams,
    parquet,
    write_csv,
    write_parquet,
)
from divulge.frames.frame import Frame, concat

__all__ = [
    "Frame",
    "Scan",
    "concat",
    "csv",
    "header",
    "ipc_stream",
    "ipc_streams",
    "parquet",
    "write_csv",
    "write_parquet",
]
