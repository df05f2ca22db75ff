"""Rows of a finished ``selection.parquet``, of which never more are held than are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import tables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def highest(path: Path, names: Sequence[str], count: int, *, selected: bool = False) -> list[dict[str, Any]]:
    """Return the rows with the highest scores, those of the lowest ids where scores tie; best first.

    Args:
        path: of the file.
        names: of the columns wanted, among them "id" and "score".
        count: of rows, at most.
        selected: only those that were selected.

    Raises:
        divulge.InputError: missing or damaged file.
    """
    rows = tables.open_parquet(path)
    if selected:
        rows = rows.filter("selected")
    with tables.table_errors(str(path)):
        scores = rows.select("score").collect().to_series().to_numpy()
        if len(scores) > count:
            least = np.partition(scores, -count)[-count]
            rows = rows.filter(pl.col("score") >= least)  # with all that tie there
        best = rows.select(names).sort("score", "id", descending=[True, False], nulls_last=True)
        return best.head(count).collect().to_dicts()


def every(path: Path, names: Sequence[str], step: int) -> pl.DataFrame:
    """Return the columns of the first row and of every ``step``-th one after it; errors as for `highest`."""
    rows = tables.open_parquet(path).select(names)
    with tables.table_errors(str(path)):
        return rows.gather_every(step).collect()
