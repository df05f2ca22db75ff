"""Which tokens of an exposed document the target knows better than it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.attacks import Need
from divulge.results import HeatStrip
from divulge.targets import GivesTokens, token_statistics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.auditing.case import Case
    from divulge.evidence import Measurements
    from divulge.types import Array

# What the target's log-probability of a token is held against: the first of these that there is.
_AGAINST = {
    Need.REFERENCES_OUT: "the mean of the reference models",
    Need.REFERENCES_BASE: "the model it was fine-tuned from",
    Need.REFERENCES_IN_AND_OUT: "the mean of the reference models",
}
_DIGITS = 3


def strips(case: Case, measured: Measurements, exhibits: Mapping[int, Array | str]) -> dict[int, HeatStrip]:
    """Row → the values of its tokens, for each document that is shown and whose tokens have a place in its text.

    Without any model to hold the target against, there are none: likely tokens are not exposed ones.
    """
    logs = measured.tokens
    if logs is None or not isinstance(case.target, GivesTokens):
        return {}
    kind = next((kind for kind in _AGAINST if kind in measured.models), None)
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
        made[row] = HeatStrip(tuple(end for end, _ in inside), tuple(value for _, value in inside), _AGAINST[kind])
    return made
