"""Most exposed records and token heat, stored in the run directory for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import columns
from divulge.attacks import Need
from divulge.results import HeatStrip
from divulge.targets import GivesTokens, token_statistics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.auditing.inputs import PreparedAudit
    from divulge.evidence import Measurements
    from divulge.types import Array, Bools, Floats, Records

PER_RECIPE = 12
_LONGEST_TEXT = 2000


def choose_exhibits(
    candidates: Records, truth: Bools, scores: Mapping[str, Floats], *, texts: bool = True
) -> dict[int, Array | str]:
    """Map the row of each member that any recipe ranks among its `PER_RECIPE` highest to its value.

    Args:
        candidates: ``n`` records.
        truth: bool ``[n]``, True for members.
        scores: recipe name → ``[n]``.
        texts: whether documents may be kept; without, none is.
    """
    if candidates.x.dtype == object and not texts:
        return {}
    member_rows = np.flatnonzero(truth)
    rows = {
        int(row)
        for recipe_scores in scores.values()
        for row in member_rows[np.argsort(-recipe_scores[member_rows], kind="stable")[:PER_RECIPE]]
    }
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
    audit: PreparedAudit, measured: Measurements, exhibits: Mapping[int, Array | str]
) -> dict[int, HeatStrip]:
    """Map the row of each shown document to the values of its tokens.

    Without any model to hold the target against, there are none: likely tokens are not exposed ones.
    """
    logs = measured.tokens
    if logs is None or not isinstance(audit.target, GivesTokens):
        return {}
    baseline = next((baseline for baseline in _BASELINES if baseline in measured.models), None)
    baseline_logs = None if baseline is None else measured.models[baseline].tokens
    if baseline is None or baseline_logs is None:
        return {}
    strips = {}
    for row, text in exhibits.items():
        token_rows = slice(int(logs.offsets[row]), int(logs.offsets[row + 1]))
        ends = token_statistics.token_ends(audit.target, str(audit.inputs.candidates.x[row]))
        if ends is None or len(ends) != token_rows.stop - token_rows.start:
            continue
        values = logs.target[token_rows] - baseline_logs[:, token_rows].mean(axis=0, dtype=np.float64)
        token_values = [(end, round(float(value), _DIGITS)) for end, value in zip(ends, values, strict=True)]
        shown_tokens = [(end, value) for end, value in token_values if end <= len(text)]
        strips[row] = HeatStrip(
            tuple(end for end, _ in shown_tokens), tuple(value for _, value in shown_tokens), _BASELINES[baseline]
        )
    return strips
