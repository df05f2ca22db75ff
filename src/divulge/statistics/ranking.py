"""The area under the ROC curve, by ranks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge.statistics import placements
from divulge.statistics.tables import table
from divulge.types import Estimate
from divulge.validation import check_number

if TYPE_CHECKING:
    from divulge.statistics.placements import Placements
    from divulge.types import Bools, Floats

DELONG = "delong, logit scale, Brunner-Munzel degrees of freedom; Gaffke's bound as far as placements repeat"
CHERNOFF = "chernoff-hoeffding bound for U-statistics"


def auc(scores: object, members: object, confidence: float = 0.95) -> Estimate:
    """P(a member outscores a non-member) + ½ P(they tie), with an interval; O(n log n).

    - DeLong's variance from placements (mid-ranks, so ties count one half), on the logit scale so that the
      interval stays in (0, 1), with Brunner & Munzel's t degrees of freedom so that it holds in small samples,
      and with one pseudo-placement of ½ a side.
    - Where most records tie, or all but a few stand in the same place, that variance sees the few exceptions
      of the sample, or none. Gaffke's bound reckons with unseen ones; the ends move out towards it in
      proportion to the share of pairs of records that stand in the same place. Continuous scores hardly
      move them.
    - No end lies outside the Chernoff-Hoeffding bound for two-sample U-statistics, which holds for any
      distribution and sample size. It is the whole interval where the AUC is 0 or 1 or there is one record
      of a kind.

    ``method`` names which.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``, True for members.
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: NaN or infinity, lengths that differ, members or non-members only.

    References:
        DeLong, DeLong & Clarke-Pearson 1988; Sun & Xu 2014 (fast form); Brunner & Munzel 2000;
        Pauly, Asendorf & Konietschke 2016 (logit scale); Gaffke 2005; Hoeffding 1963, §5.

    Examples:
        >>> print(auc([0.1, 0.2, 0.3, 0.4], [False, False, True, False]))
        0.6667 [0.0015, 1.0000]
    """
    values, truth = table(scores, members)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    placed, _ = placements.of_scores(values, truth)
    low, high = bounds(placed, error)
    known = _inner(placed.value) and (placed.scarcer > 1 or placed.repeated >= 1)
    method = DELONG if known else CHERNOFF
    return Estimate(float(placed.value), float(low), float(high), confidence, method)


def bounds(placed: Placements, error: float) -> tuple[Floats, Floats]:
    """Both ends of the AUC's interval, ``[...]`` each; either errs with half the ``error``."""
    repeated = placed.repeated
    low, high = _delong(placed, _inner(placed.value) & (repeated >= 1), error)
    high = placements.moved_out(high, placed, repeated, 1.0, error / 2)
    low = -placements.moved_out(-low, -placed, repeated, 0.0, error / 2)
    # Chernoff's bound always holds: no end need lie further out.
    value, blocks, limit = placed.value, placed.scarcer, math.log(2 / error)
    return _no_further(value, blocks, limit, low, 0.0), _no_further(value, blocks, limit, high, 1.0)


def _inner(value: Floats) -> Bools:
    return (value > 0) & (value < 1)


def _delong(placed: Placements, constant: Bools, error: float) -> tuple[Floats, Floats]:
    """The interval on the logit scale; where it does not exist all of [0, 1], or nothing but ½ if all tie."""
    regular = _inner(placed.value) & (placed.scarcer > 1) & ~constant
    value = np.where(regular, placed.value, 0.5)
    v, w = (np.where(regular, part, 1.0) for part in placements.covariance(placed, placed, null=0.5))
    m, n = (np.maximum(side.size, 2) for side in placed.sides)
    reach = special.stdtrit(placements.freedom(v, w, m, n), 1 - error / 2) * np.sqrt(v + w) / (value * (1 - value))
    unknown = np.where(constant, 0.5, 0.0)
    low, high = special.expit(special.logit(value) - reach), special.expit(special.logit(value) + reach)
    return np.where(regular, low, unknown), np.where(regular, high, 1 - unknown)


def _no_further(value: Floats, blocks: Floats, limit: float, end: Floats, furthest: float) -> Floats:
    """The end, or the last p towards ``furthest`` with ``blocks · KL(value ‖ p) ≤ limit`` if that is nearer.

    A two-sample U-statistic averages averages of min(m, n) independent pairs, so Chernoff's bound for
    that many Bernoulli draws holds for it (Hoeffding 1963, eq. 5.7 ff.).
    """

    def beyond(p: Floats) -> Bools:
        return blocks * (special.rel_entr(value, p) + special.rel_entr(1 - value, 1 - p)) > limit

    if not beyond(end).any():
        return end
    # Bisection between the value (within) and the end of the scale.
    within, without = np.asarray(value), np.full_like(value, furthest)
    for _ in range(60):
        middle = (within + without) / 2
        out = beyond(middle)
        within, without = np.where(out, within, middle), np.where(out, middle, without)
    return np.where(beyond(end), without, end)
