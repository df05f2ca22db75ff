"""Rows of a finished ``selection.parquet``, of which never more are held than are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import frames
from divulge.identification import shards

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from divulge.frames import Frame


def highest(path: Path, names: Sequence[str], count: int, *, selected: bool = False) -> list[dict[str, Any]]:
    """The rows with the highest scores, those of the lowest ids where scores tie; best first.

    Args:
        path: of the file.
        names: of the columns wanted, among them "id" and "score".
        count: of rows, at most.
        selected: only those that were selected.
    """
    best: Frame | None = None
    for piece in shards.parquet(path, [*names, "selected"]):
        rows = piece.where(piece["selected"]) if selected else piece
        best = _cut(rows if best is None else frames.concat([best, rows]), count)
    return [] if best is None else list(best.select(names).rows())


def every(path: Path, names: Sequence[str], step: int) -> Frame:
    """The columns of the first row and of every ``step``-th one after it."""
    at, sample = 0, []
    for piece in shards.parquet(path, names):
        sample.append(piece.where(np.arange(-at % step, len(piece), step)))
        at += len(piece)
    return frames.concat(sample)


def _cut(rows: Frame, count: int) -> Frame:
    scores = rows["score"]
    if len(rows) > count:
        least = np.partition(scores, -count)[-count]
        rows = rows.where(scores >= least)  # with all that tie there
    keys = zip((-rows["score"]).tolist(), rows["id"].tolist(), strict=True)
    order = sorted(range(len(rows)), key=[(score, one is None, one) for score, one in keys].__getitem__)
    return rows.where(np.array(order[:count], np.int64))
