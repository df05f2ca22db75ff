"""The ROC curve, the TPR at a given FPR, the TNR at a given FNR, and the advantage, each with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import statistics
from divulge.errors import InputError
from divulge.statistics import check_fpr, count_above, min_nonmembers, split_scores
from divulge.types import Estimate
from divulge.validation import check_number

if TYPE_CHECKING:
    from divulge.types import Floats

TPR = "clopper-pearson, threshold by order statistics"
# Maximum number of FPR levels at which the band of a curve is computed; each takes about 15 µs.
BAND = 2000


@dataclass(frozen=True, slots=True, eq=False)
class ROC:
    """An ROC curve with a pointwise band; ``p`` points from (0, 0) to (1, 1).

    Attributes:
        fpr: share of non-members selected at each threshold, ``[p]``, ascending.
        tpr: share of members selected, ``[p]``.
        thresholds: a record is selected if its score is ≥ this; the first is infinity, ``[p]``.
        low: lower end of the band for the true TPR at a true FPR of ``fpr``, ``[p]``.
        high: upper end, ``[p]``.
        confidence: coverage of the band at each point (not of the whole curve at once).
        method: by which the band was computed.
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
    """Return the ROC curve, with one point per distinct score, so that records that tie are selected together.

    Draw it in steps: between two points there is no threshold, and the chord claims a power that only a random choice
    among ties would have. The band has the meaning and the method of `tpr_at_fpr`.

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
    # Both ends of the band increase with the FPR, so between two levels of the grid the outer ones are valid.
    levels = np.unique(fpr)
    grid = levels[np.unique(np.geomspace(1, len(levels), BAND).round().astype(int)) - 1]
    low, high = _band(inside, outside, grid, error)
    low, high = low[np.searchsorted(grid, fpr, side="right") - 1], high[np.searchsorted(grid, fpr, side="left")]
    return ROC(fpr, tpr, np.r_[np.inf, distinct], low, high, confidence, TPR)


def tpr_at_fpr(scores: object, members: object, fpr: float, confidence: float = 0.95) -> Estimate:
    """Return the true-positive rate at a false-positive rate of at most ``fpr``.

    The value is conservative: the TPR at the lowest threshold whose empirical FPR is ≤ ``fpr``, without interpolation.
        The
    interval covers the true TPR at the true threshold, which is estimated from finitely many non-members: order
    statistics of the non-members bracket the threshold, Clopper-Pearson the share of members above either bracket, and
    each of the four steps errs with at most a quarter of the error. An interval for the TPR alone, as usually printed,
    is too short. With few non-members above the threshold the lower end is 0.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        fpr: the false-positive rate, in (0, 1).
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
    # The (floor(fpr n) + 1)-th largest non-member is the first that must not be selected.
    allowed = int(np.floor(level * len(outside) + 1e-9))
    value = float(count_above(inside, outside[-1 - allowed])) / len(inside)
    low, high = _band(inside, outside, np.array([level]), error)
    return Estimate(value, float(low[0]), float(high[0]), confidence, TPR)


def tnr_at_fnr(scores: object, members: object, fnr: float, confidence: float = 0.95) -> Estimate:
    """Return the true-negative rate at a false-negative rate of at most ``fnr``; `tpr_at_fpr` with the sides exchanged.

    Dodd et al. 2025 (arXiv:2510.19773) use that of the LOSS attack as a proxy of the TPR of LiRA at a low FPR, since
    records that a model memorised no longer have large losses. It is an estimate of another attack's power and no bound
    on it; the documentation measures how far the two agree.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        fnr: the false-negative rate, in (0, 1).
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
    """Return the largest TPR - FPR over all thresholds (Yeom et al. 2018), with an interval for a maximum.

    The maximum of a noisy curve is biased upwards, so an interval for the best threshold alone would not cover. The
    error of the maximum is at most the sum of the errors of the two empirical distribution functions, which Massart's
    form of the Dvoretzky-Kiefer-Wolfowitz inequality bounds for all thresholds at once.

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
    # Either end of the interval uses two distribution functions, each with a quarter of the error.
    reach = sum(np.sqrt(np.log(4 / error) / (2 * len(half))) for half in (inside, outside))
    return Estimate(value, max(0.0, value - reach), min(1.0, value + reach), confidence, "dvoretzky-kiefer-wolfowitz")


def _band(inside: Floats, outside: Floats, fpr: Floats, error: float) -> tuple[Floats, Floats]:
    """Return bounds of the true TPR at each true FPR; each end errs with at most ``error / 2``."""
    step = error / 4
    m = len(inside)
    # -inf means that no order statistic is low enough, +inf that none is high enough.
    padded = np.r_[-np.inf, outside, np.inf]
    highest = padded[len(outside) + 1 - statistics.upper_bound_rank(len(outside), fpr, step).astype(int)]
    lowest = padded[len(outside) + 1 - statistics.lower_bound_rank(len(outside), fpr, step).astype(int)]
    low = statistics.clopper_pearson_lower(count_above(inside, highest), m, step)
    high = statistics.clopper_pearson_upper(count_above(inside, lowest), m, step)
    return low, high
