"""The most exposed records, kept as they are so that a report can show them later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import columns
from divulge.attacks import Need
from divulge.results import HeatStrip
from divulge.targets import GivesTokens, token_statistics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.auditing.prepared import PreparedAudit
    from divulge.evidence import Measurements
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


# What the target's log-probability of a token is held against: the first of these that there is.
_BASELINES = {
    Need.REFERENCES_OUT: "the mean of the reference models",
    Need.REFERENCES_BASE: "the model it was fine-tuned from",
    Need.REFERENCES_IN_AND_OUT: "the mean of the reference models",
}
_DIGITS = 3


def compute_heat(
    case: PreparedAudit, measured: Measurements, exhibits: Mapping[int, Array | str]
) -> dict[int, HeatStrip]:
    """Row → the values of its tokens, for each document that is shown and whose tokens have a place in its text.

    Without any model to hold the target against, there are none: likely tokens are not exposed ones.
    """
    logs = measured.tokens
    if logs is None or not isinstance(case.target, GivesTokens):
        return {}
    kind = next((kind for kind in _BASELINES if kind in measured.models), None)
    others = None if kind is None else measured.models[kind].tokens
    if kind is None or others is None:
        return {}
    made = {}
    for row, text in exhibits.items():
        own = slice(int(logs.offsets[row]), int(logs.offsets[row + 1]))
        ends = token_statistics.token_ends(case.target, str(case.given.candidates.x[row]))
        if ends is None or len(ends) != own.stop - own.start:
            continue
        values = logs.target[own] - others[:, own].mean(axis=0, dtype=np.float64)
        kept = [(end, round(float(value), _DIGITS)) for end, value in zip(ends, values, strict=True)]
        inside = [(end, value) for end, value in kept if end <= len(text)]
        made[row] = HeatStrip(tuple(end for end, _ in inside), tuple(value for _, value in inside), _BASELINES[kind])
    return made
