"""The most exposed records, kept as they are so that a report can show them later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.types import Array, Bools, Floats, Records

PER_RECIPE = 12
_LONGEST_TEXT = 2000


def choose_exhibits(
    candidates: Records, truth: Bools, scores: Mapping[str, Floats], *, texts: bool = True
) -> dict[int, Array | str]:
    """Row → value of the members that any recipe ranks among its `SHOWN` highest.

    Args:
        candidates: ``n`` records.
        truth: bool ``[n]``, True for members.
        scores: recipe name → ``[n]``.
        texts: whether documents may be kept; without, none is.
    """
    if candidates.x.dtype == object and not texts:
        return {}
    inside = np.flatnonzero(truth)
    rows = {int(row) for one in scores.values() for row in inside[np.argsort(-one[inside], kind="stable")[:PER_RECIPE]]}
    if (table := candidates.table) is not None:
        return {row: columns.describe_row(table, row)[:_LONGEST_TEXT] for row in sorted(rows)}
    return {row: _shorten_text(candidates.x[row]) for row in sorted(rows)}


def _shorten_text(value: Array | str) -> Array | str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else np.asarray(value)
