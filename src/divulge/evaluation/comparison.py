"""Statistics by name, and the difference between two runs on the same records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.evaluation.curve import advantage, tpr_at_fpr
from divulge.evaluation.epsilon import epsilon_lower_bound
from divulge.statistics import intervals, ranking
from divulge.statistics.ranking import auc, check_fpr, check_scores
from divulge.types import Estimate
from divulge.validation import check_number, check_string, check_vector, format_value

if TYPE_CHECKING:
    from divulge.statistics.ranking import Placements
    from divulge.types import Bools, Floats

STATISTICS = ("auc", "advantage", "epsilon", "tpr@fpr=…")
PAIRED = "two AUC intervals and their correlation; Gaffke's bound as far as differences repeat"
SEPARATE = "two intervals, each at half the error"
DISCORDANT = "clopper-pearson on discordant members, threshold by order statistics"


def measure(
    scores: object, members: object, statistic: str, confidence: float = 0.95, *, baseline: object = None
) -> Estimate:
    """Return a statistic by its name: "auc", "advantage", "epsilon" (δ = 0) or "tpr@fpr=0.01".

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        statistic: its name.
        confidence: coverage of the interval.
        baseline: scores ``[n]`` of a classifier that never saw the model; the result is then by how much the statistic
            of ``scores`` exceeds that of ``baseline``, see `paired_difference`. For a verdict, see `against_baseline`.

    Raises:
        divulge.InputError: an unknown name, a false-positive rate that is not a number in (0, 1); "epsilon" beside a
            baseline, as lower bounds have no difference.

    Examples:
        >>> measure([0.1, 0.9], [False, True], "auc").value
        1.0
        >>> measure([0.1, 0.9], [False, True], "auc", baseline=[0.2, 0.8]).value
        0.0
    """
    if baseline is not None:
        if check_string(statistic, "statistic") == "epsilon":
            raise InputError(
                "statistic: scores bound ε from below only, so 'epsilon' has no difference from a baseline; compare "
                "'auc', 'advantage' or 'tpr@fpr=…'"
            )
        return paired_difference(scores, baseline, members, statistic, confidence)
    simple = {"auc": auc, "advantage": advantage}
    if check_string(statistic, "statistic") in simple:
        return simple[statistic](scores, members, confidence)
    if statistic == "epsilon":
        return epsilon_lower_bound(scores, members, confidence=confidence)
    return tpr_at_fpr(scores, members, asked_fpr(statistic), confidence)


def asked_fpr(statistic: str) -> float:
    """Return the level in "tpr@fpr=0.01".

    Examples:
        >>> asked_fpr("tpr@fpr=0.01")
        0.01
    """
    head, _, tail = check_string(statistic, "statistic").partition("=")
    if head != "tpr@fpr":
        raise InputError(f"statistic: {format_value(statistic)} is unknown (known: {', '.join(STATISTICS)})")
    try:
        level = float(tail)
    except ValueError:
        raise InputError(f"statistic: a number is needed after 'tpr@fpr=', got {tail!r}") from None
    return check_number(level, "statistic: fpr", above=0, below=1)


def paired_difference(
    scores_a: object, scores_b: object, members: object, statistic: str = "auc", confidence: float = 0.95
) -> Estimate:
    """Return how much more run A leaks than run B, on the same records: statistic(A) - statistic(B).

    Runs on the same records are correlated, so two separate intervals that overlap prove nothing.

    - "auc": the intervals of both AUCs, joined by the correlation of the two (Zou & Donner 2008): one shared
      record in the wrong place moves both. Records that most often add the same to both say little of those
      that do not; the ends then move out to Gaffke's bound, as for `auc`. Two runs that rank all records
      alike differ by 0, but only up to what so few records can show.
    - "advantage": the two intervals, each at half the error. Exact, and takes no profit from the pairing.
    - "tpr@fpr=0.01": each run's threshold is bracketed by order statistics of its non-members; the share
      of members found by one run and not by the other is bounded by Clopper-Pearson. Exact, and shorter
      than two separate intervals when the runs find the same members.

    Args:
        scores_a: ``[n]``, before a defence, say.
        scores_b: ``[n]``, after it; the same records in the same order.
        members: bool ``[n]``.
        statistic: "auc", "advantage" or "tpr@fpr=…".
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: lengths that differ, an unknown statistic, and as for the statistic.

    Examples:
        >>> members = np.arange(8) < 4
        >>> print(paired_difference(members * 1.0, members * 2.0, members))
        0.0000 [-0.7822, 0.7822]
    """
    values_a, truth = check_scores(scores_a, members, "scores_a")
    values_b = check_vector(scores_b, "scores_b", length=len(values_a))
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    if check_string(statistic, "statistic") == "auc":
        return _auc_difference(values_a, values_b, truth, error)
    if statistic == "advantage":
        a, b = (advantage(values, truth, 1 - error / 2) for values in (values_a, values_b))
        return Estimate(a.value - b.value, max(a.low - b.high, -1.0), min(a.high - b.low, 1.0), 1 - error, SEPARATE)
    pairs = (values_a[truth], values_a[~truth]), (values_b[truth], values_b[~truth])
    level = check_fpr(int((~truth).sum()), asked_fpr(statistic))
    return _tpr_difference(*pairs, level, error)


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """The AUC of one run, with what its comparison with another takes.

    Attributes:
        placed: placements, the same records in the same order as in the other run.
        low: lower end of its interval, ``[...]``.
        high: upper end, ``[...]``.
    """

    placed: Placements
    low: Floats
    high: Floats


def _auc_difference(values_a: Floats, values_b: Floats, truth: Bools, error: float) -> Estimate:
    a, b = _area(values_a, truth, error), _area(values_b, truth, error)
    low, high = (float(end) for end in difference_bounds(a, b, error))
    value = float(a.placed.value - b.placed.value)
    return Estimate(value, low, high, 1 - error, PAIRED)


def _area(values: Floats, truth: Bools, error: float) -> Area:
    placed, level = ranking.placements_from_scores(values, truth)
    return Area(ranking.placements_per_record(placed, level, truth), *ranking.auc_bounds(placed, error))


def difference_bounds(a: Area, b: Area, error: float) -> tuple[Floats, Floats]:
    """Both ends of the interval of AUC(a) - AUC(b), ``[...]`` each; either errs with half the ``error``."""
    repeated = (a.placed - b.placed).repeated
    return _lower_difference(a, b, repeated, error), -_lower_difference(b, a, repeated, error)


def _lower_difference(a: Area, b: Area, repeated: Floats, error: float) -> Floats:
    shared, v, w = (
        sum(ranking.placement_covariance(x.placed, y.placed, null=0.5)) for x, y in ((a, b), (a, a), (b, b))
    )
    varies = (v > 0) & (w > 0) & np.isfinite(v + w)
    correlation = np.where(varies, np.where(varies, shared, 0.0) / np.sqrt(np.where(varies, v * w, 1.0)), 0.0)
    down, up = a.placed.value - a.low, b.high - b.placed.value
    reach = np.sqrt(np.maximum(down**2 + up**2 - 2 * correlation * down * up, 0.0))
    gap = b.placed - a.placed
    return -np.minimum(ranking.widen_for_ties(gap.value + reach, gap, repeated, 1.0, error / 2), 1.0)


def _tpr_difference(a: tuple[Floats, Floats], b: tuple[Floats, Floats], fpr: float, error: float) -> Estimate:
    m = len(a[0])
    # An end can fail in four ways: either threshold, either share.
    step = error / 8
    strict_a, asked_a, loose_a = _selections(*a, fpr, step)
    strict_b, asked_b, loose_b = _selections(*b, fpr, step)
    value = float(asked_a.mean() - asked_b.mean())
    low = _net_gain_lower_bound(strict_a, loose_b, m, step)
    high = -_net_gain_lower_bound(strict_b, loose_a, m, step)
    return Estimate(value, low, high, 1 - error, DISCORDANT)


def _net_gain_lower_bound(winner: np.ndarray, loser: np.ndarray, m: int, step: float) -> float:
    """Lower bound of P(winner finds it, loser does not) - P(loser finds it, winner does not)."""
    gain = intervals.clopper_pearson_lower((winner & ~loser).sum(), m, step)
    return float(gain - intervals.clopper_pearson_upper((loser & ~winner).sum(), m, step))


def _selections(inside: Floats, outside: Floats, fpr: float, step: float) -> tuple[np.ndarray, ...]:
    """Members surely above the true threshold, above the empirical one, and possibly above the true one."""
    n = len(outside)
    padded = np.r_[-np.inf, np.sort(outside), np.inf]
    ranks = (
        intervals.upper_bound_rank(n, fpr, step),
        np.floor(fpr * n + 1e-9) + 1,
        intervals.lower_bound_rank(n, fpr, step),
    )
    return tuple(inside > padded[n + 1 - int(rank)] for rank in ranks)
