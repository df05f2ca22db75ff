"""Statistics by name, and the difference between two runs on the same records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import checks
from divulge.evaluation import intervals
from divulge.evaluation.curve import advantage, tpr_at_fpr
from divulge.evaluation.epsilon import epsilon_lower_bound
from divulge.evaluation.ranking import auc, placements, standard_error
from divulge.evaluation.tables import supported, table
from divulge.types import Estimate

if TYPE_CHECKING:
    from divulge.types import Floats

STATISTICS = ("auc", "advantage", "epsilon", "tpr@fpr=…")
DISCORDANT = "clopper-pearson on discordant members, threshold by order statistics"


def measure(scores: object, members: object, statistic: str, confidence: float = 0.95) -> Estimate:
    """A statistic by its name: "auc", "advantage", "epsilon" (δ = 0) or "tpr@fpr=0.01".

    Raises:
        divulge.InputError: an unknown name, a false-positive rate that is not a number in (0, 1).

    Examples:
        >>> measure([0.1, 0.9], [False, True], "auc").value
        1.0
    """
    simple = {"auc": auc, "advantage": advantage}
    if statistic in simple:
        return simple[statistic](scores, members, confidence)
    if statistic == "epsilon":
        return epsilon_lower_bound(scores, members, confidence=confidence)
    return tpr_at_fpr(scores, members, asked_fpr(statistic), confidence)


def asked_fpr(statistic: str) -> float:
    """The level in "tpr@fpr=0.01".

    Examples:
        >>> asked_fpr("tpr@fpr=0.01")
        0.01
    """
    head, _, tail = statistic.partition("=")
    if head != "tpr@fpr":
        raise checks.InputError(f"statistic: {statistic!r} is unknown (known: {', '.join(STATISTICS)})")
    try:
        level = float(tail)
    except ValueError:
        raise checks.InputError(f"statistic: a number is needed after 'tpr@fpr=', got {tail!r}") from None
    return checks.number(level, "statistic: fpr", above=0, below=1)


def paired_difference(
    scores_a: object, scores_b: object, members: object, statistic: str = "auc", confidence: float = 0.95
) -> Estimate:
    """How much more run A leaks than run B, on the same records: statistic(A) - statistic(B).

    Runs on the same records are correlated, so two separate intervals that overlap prove nothing.

    - "auc": DeLong's paired variance (placements of A minus placements of B, record by record), t
      degrees of freedom. Exactly 0 when both runs rank all records alike.
    - "tpr@fpr=0.01": each run's threshold is bracketed by order statistics of its non-members; the share
      of members found by one run and not by the other is bounded by Clopper-Pearson. Exact, and shorter
      than two separate intervals when the runs find the same members.

    Args:
        scores_a: ``[n]``, before a defence, say.
        scores_b: ``[n]``, after it; the same records in the same order.
        members: bool ``[n]``.
        statistic: "auc" or "tpr@fpr=…".
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: lengths that differ, an unknown statistic, and as for the statistic.

    Examples:
        >>> members = np.arange(8) < 4
        >>> print(paired_difference(members * 1.0, members * 2.0, members))
        0.0000 [0.0000, 0.0000]
    """
    first, truth = table(scores_a, members)
    second = checks.vector(scores_b, "scores_b", length=len(first))
    error = 1 - checks.number(confidence, "confidence", above=0, below=1)
    pairs = (first[truth], first[~truth]), (second[truth], second[~truth])
    if statistic == "auc":
        return _auc_difference(*pairs, error)
    level = supported(int((~truth).sum()), asked_fpr(statistic))
    return _tpr_difference(*pairs, level, error)


def _auc_difference(a: tuple[Floats, Floats], b: tuple[Floats, Floats], error: float) -> Estimate:
    from scipy.special import stdtrit

    members, nonmembers = (x - y for x, y in zip(placements(*a), placements(*b), strict=True))
    value = float(members.mean())
    deviation, freedom = standard_error(members, nonmembers, null=0.0)
    if deviation > 0:
        reach, method = float(stdtrit(freedom, 1 - error / 2)) * deviation, "paired delong"
    elif not members.any() and not nonmembers.any():
        reach, method = 0.0, "paired delong (both runs rank all records alike)"
    else:
        # A difference of indicators spans [-1, 1]; Hoeffding over min(m, n) independent pairs.
        reach, method = float(np.sqrt(2 * np.log(2 / error) / min(len(members), len(nonmembers)))), "hoeffding"
    return Estimate(value, max(-1.0, value - reach), min(1.0, value + reach), 1 - error, method)


def _tpr_difference(a: tuple[Floats, Floats], b: tuple[Floats, Floats], fpr: float, error: float) -> Estimate:
    m = len(a[0])
    # An end can fail in four ways: either threshold, either share.
    step = error / 8
    strict_a, asked_a, loose_a = _selections(*a, fpr, step)
    strict_b, asked_b, loose_b = _selections(*b, fpr, step)
    value = float(asked_a.mean() - asked_b.mean())
    low = _gap(strict_a, loose_b, m, step)
    high = -_gap(strict_b, loose_a, m, step)
    return Estimate(value, low, high, 1 - error, DISCORDANT)


def _gap(winner: np.ndarray, loser: np.ndarray, m: int, step: float) -> float:
    """Lower bound of P(winner finds it, loser does not) - P(loser finds it, winner does not)."""
    gain = intervals.lower((winner & ~loser).sum(), m, step)
    return float(gain - intervals.upper((loser & ~winner).sum(), m, step))


def _selections(inside: Floats, outside: Floats, fpr: float, step: float) -> tuple[np.ndarray, ...]:
    """Members surely above the true threshold, above the empirical one, and possibly above the true one."""
    n = len(outside)
    padded = np.r_[-np.inf, np.sort(outside), np.inf]
    ranks = intervals.rank_below(n, fpr, step), np.floor(fpr * n + 1e-9) + 1, intervals.rank_above(n, fpr, step)
    return tuple(inside > padded[n + 1 - int(rank)] for rank in ranks)
