"""The ROC curve and what is read off it: TPR at an asked FPR, and the largest advantage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.statistics import intervals
from divulge.statistics.ranking import check_fpr, count_above, min_nonmembers, split_scores
from divulge.types import Estimate
from divulge.validation import check_number

if TYPE_CHECKING:
    from divulge.types import Floats

TPR = "clopper-pearson, threshold by order statistics"
# Levels of FPR at which the band of a curve is computed, at most; each costs some 15 µs.
BAND = 2000


@dataclass(frozen=True, slots=True, eq=False)
class ROC:
    """An ROC curve with a pointwise band; ``p`` points from (0, 0) to (1, 1).

    Attributes:
        fpr: share of non-members selected at each threshold, ``[p]``, rising.
        tpr: share of members selected, ``[p]``.
        thresholds: a record is selected when its score is ≥ this; the first is infinity, ``[p]``.
        low: lower end of the band for the true TPR at a true FPR of ``fpr``, ``[p]``.
        high: upper end, ``[p]``.
        confidence: coverage of the band at each point (not of the whole curve at once).
        method: how the band was made.
    """

    fpr: Floats
    tpr: Floats
    thresholds: Floats
    low: Floats
    high: Floats
    confidence: float
    method: str

    def __len__(self) -> int:
        return len(self.fpr)


def roc(scores: object, members: object, confidence: float = 0.95) -> ROC:
    """Return the ROC curve: one point a distinct score, so records that tie enter together.

    Steps are the honest reading: between two points no threshold exists, and drawing the chord claims a
    power that only coin-tossing among ties would give. The band has the meaning, and the method, of
    `tpr_at_fpr`.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        confidence: coverage of the band at each point.

    Raises:
        divulge.InputError: NaN or infinity, lengths that differ, members or non-members only.

    Examples:
        >>> curve = roc([0.9, 0.5, 0.5, 0.1], [True, True, False, False])
        >>> curve.fpr, curve.tpr, curve.thresholds
        (array([0. , 0. , 0.5, 1. ]), array([0. , 0.5, 1. , 1. ]), array([inf, 0.9, 0.5, 0.1]))
    """
    inside, outside = split_scores(scores, members)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    distinct = np.unique(np.r_[inside, outside])[::-1]
    # Selected at a threshold t (score ≥ t) are the scores strictly above the next smaller one.
    below = np.r_[distinct, -np.inf]
    fpr, tpr = count_above(outside, below) / len(outside), count_above(inside, below) / len(inside)
    # The ends of the band rise with the FPR: between two levels of the grid the outer ones hold.
    levels = np.unique(fpr)
    grid = levels[np.unique(np.geomspace(1, len(levels), BAND).round().astype(int)) - 1]
    low, high = _band(inside, outside, grid, error)
    low, high = low[np.searchsorted(grid, fpr, side="right") - 1], high[np.searchsorted(grid, fpr, side="left")]
    return ROC(fpr, tpr, np.r_[np.inf, distinct], low, high, confidence, TPR)


def tpr_at_fpr(scores: object, members: object, fpr: float, confidence: float = 0.95) -> Estimate:
    """Return the share of members found when at most a share ``fpr`` of non-members is.

    The value is conservative: the TPR at the lowest threshold whose empirical FPR is ≤ ``fpr``, never
    interpolated. The interval covers the true TPR at the true threshold, whose place is known only from
    finitely many non-members: order statistics of the non-members bracket the threshold, Clopper-Pearson
    brackets the share of members above either bracket, and each of the four steps may err with a
    quarter of the allowed probability. An interval for the TPR alone, as usually printed, is too short.
    With few non-members above the threshold the lower end is 0: the data cannot say more.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        fpr: the asked false-positive rate, in (0, 1).
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: fewer than ``1/fpr - 1`` non-members, and as for `roc`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> members = np.arange(2000) < 1000
        >>> print(tpr_at_fpr(rng.normal(size=2000) + 2.0 * members, members, fpr=0.05))
        0.6290 [0.5211, 0.6895]
    """
    inside, outside = split_scores(scores, members)
    level = check_fpr(len(outside), check_number(fpr, "fpr", above=0, below=1))
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    # The (floor(fpr n) + 1)-th largest non-member is the first that must stay below the threshold.
    allowed = int(np.floor(level * len(outside) + 1e-9))
    value = float(count_above(inside, outside[-1 - allowed])) / len(inside)
    low, high = _band(inside, outside, np.array([level]), error)
    return Estimate(value, float(low[0]), float(high[0]), confidence, TPR)


def tnr_at_fnr(scores: object, members: object, fnr: float, confidence: float = 0.95) -> Estimate:
    """The share of non-members ruled out when at most a share ``fnr`` of members is: `tpr_at_fpr` of the other side.

    Dodd et al. 2025 (arXiv:2510.19773) take it, of the LOSS attack, as a sign of what LiRA would find at a low FPR,
    since records that a model had to memorise no longer have large losses. It is an estimate of another attack's power
    and not a bound on it; how far the two agree is measured in the docs.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        fnr: the asked false-negative rate, in (0, 1).
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: fewer than ``1/fnr - 1`` members, and as for `roc`.

    Examples:
        >>> losses = np.r_[np.linspace(0, 1, 100), np.linspace(0, 2, 100)]
        >>> tnr_at_fnr(-losses, np.arange(200) < 100, fnr=0.05).value
        0.52
    """
    inside, outside = split_scores(scores, members)
    check_number(fnr, "fnr", above=0, below=1)
    if len(inside) < (min_members := min_nonmembers(fnr)):
        raise InputError(f"fnr: {fnr:g} needs at least {min_members} members, got {len(inside)}")
    return tpr_at_fpr(-np.r_[inside, outside], np.arange(len(inside) + len(outside)) >= len(inside), fnr, confidence)


def advantage(scores: object, members: object, confidence: float = 0.95) -> Estimate:
    """Return the largest TPR - FPR over all thresholds (Yeom et al. 2018), with an interval that knows it is a maximum.

    The maximum of a noisy curve is biased upwards, so the interval of a share at the best threshold
    would not hold. The maximum moves by no more than the two empirical distribution functions do, and
    Massart's form of the Dvoretzky-Kiefer-Wolfowitz inequality bounds those for all thresholds at once.

    Raises:
        divulge.InputError: as for `roc`.

    Examples:
        >>> print(advantage([3.0, 4.0, 1.0, 2.0], [True, True, False, False]))
        1.0000 [0.0000, 1.0000]
    """
    inside, outside = split_scores(scores, members)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    cuts = np.r_[inside, outside]
    gaps = count_above(inside, cuts) / len(inside) - count_above(outside, cuts) / len(outside)
    value = max(0.0, float(gaps.max()))
    # One side of the interval: each of two distribution functions errs with a quarter of the error.
    reach = sum(np.sqrt(np.log(4 / error) / (2 * len(half))) for half in (inside, outside))
    return Estimate(value, max(0.0, value - reach), min(1.0, value + reach), confidence, "dvoretzky-kiefer-wolfowitz")


def _band(inside: Floats, outside: Floats, fpr: Floats, error: float) -> tuple[Floats, Floats]:
    """Bounds of the true TPR at each true FPR; each end errs with at most ``error / 2``."""
    step = error / 4
    m = len(inside)
    # -inf stands for "no order statistic is low enough", +inf for "none is high enough".
    padded = np.r_[-np.inf, outside, np.inf]
    highest = padded[len(outside) + 1 - intervals.upper_bound_rank(len(outside), fpr, step).astype(int)]
    lowest = padded[len(outside) + 1 - intervals.lower_bound_rank(len(outside), fpr, step).astype(int)]
    low = intervals.clopper_pearson_lower(count_above(inside, highest), m, step)
    high = intervals.clopper_pearson_upper(count_above(inside, lowest), m, step)
    return low, high
