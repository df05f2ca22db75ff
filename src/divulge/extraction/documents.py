"""Documents from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import checks, lazy, store
from divulge.identification import score_files
from divulge.types import Records

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl
else:
    pl = lazy.module("polars")


def read(path: Path, name: str, text: str = "text") -> Records:
    """The documents of a table: CSV, JSON lines or Parquet, or a folder of them.

    Their ids are those of a column called ``id``, if there is one; a missing text is an empty one.

    Args:
        path: the file or folder.
        name: of the argument, for errors.
        text: column of the documents.

    Raises:
        divulge.InputError: no such file, an unknown kind, no such column, no rows, ids that occur twice.
    """
    frame = score_files.scan([path], name)
    known = score_files.schema(frame, name)
    score_files.require(known, [text], name)
    with store.tables(name):
        columns = frame.select(pl.col(text).cast(pl.String).fill_null(""), *(["id"] if "id" in known else [])).collect()
    if columns.is_empty():
        raise checks.InputError(f"{name}: {path}: at least 1 document is needed, got 0")
    ids = columns["id"].to_numpy() if "id" in known and text != "id" else None
    try:
        return Records(np.array(columns[text].to_list(), dtype=object), ids=ids)
    except checks.InputError as error:
        raise checks.InputError(f"{name}: {path}: {error}") from None
