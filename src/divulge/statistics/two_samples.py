"""Whether two samples come from one distribution.

The p-values are valid for any sizes, lopsided ones too, and for scores with ties: a normal approximation
of the rank sum is not when most scores are one value and few others decide.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from scipy import stats

from divulge import seeds

if TYPE_CHECKING:
    from divulge.types import Array, Floats

Alternative: TypeAlias = Literal["two-sided", "greater"]

_EXACT = 1000  # scores on a side up to which Smirnov's distribution is counted out
_GROUPS = 32  # of neighbouring scores; the rank sum of groups loses a thousandth of the power
_DIVISIONS = (999, 9_999)  # the second where the first come out below a tenth, and matter


def differ(known: Floats, other: Floats, *, seed: int = 0) -> float:
    """The smaller p-value of Smirnov's test (any difference) and of the rank sum (a shift), doubled.

    Args:
        known: scores ``[n]``.
        other: scores ``[h]``.
        seed: of the divisions that `rank_sum` draws.

    Examples:
        >>> differ(np.arange(10.0), np.arange(10.0) + 0.5) > 0.9, differ(np.arange(50.0), np.arange(50.0) + 30) < 1e-6
        (True, True)
    """
    return min(1.0, 2 * min(smirnov(known, other), rank_sum(known, other, seed=seed)))


def smirnov(known: Floats, other: Floats) -> float:
    """Kolmogorov and Smirnov's two-sided p-value; ties make it larger, never smaller, than it should be."""
    method = "exact" if max(len(known), len(other)) <= _EXACT else "asymp"
    with warnings.catch_warnings():  # samples as alike as can be: SciPy counts a hair more than 1, and then says 1
        warnings.filterwarnings("ignore", "ks_2samp: Exact calculation unsuccessful", RuntimeWarning)
        return float(stats.ks_2samp(known, other, method=method).pvalue)


def rank_sum(known: Floats, other: Floats, *, alternative: Alternative = "two-sided", seed: int = 0) -> float:
    """Mann and Whitney's p-value; "greater" asks whether ``other`` scores higher.

    Without ties it is the normal approximation with a continuity correction, which errs to the safe side
    for every size. With ties the rank sum is compared with those of random divisions of the pooled scores
    (999, and 9,999 where these come out below a tenth), so its smallest value is 1e-4; more than 32 different
    scores are grouped by rank.

    Args:
        known: scores ``[n]``.
        other: scores ``[h]``.
        alternative: "two-sided" or "greater".
        seed: of the divisions.

    Examples:
        >>> rare = np.repeat([0.0, 1.0], [990, 10]), np.repeat([0.0, 1.0], [18, 2])
        >>> 0.01 < rank_sum(*rare) < 0.05  # a normal approximation says 2e-4
        True
    """
    pooled = np.concatenate([known, other])
    if len(np.unique(pooled)) == len(pooled):
        return float(stats.mannwhitneyu(other, known, alternative=alternative, method="asymptotic").pvalue)
    rank = stats.rankdata(pooled)
    _, group, size = np.unique(_grouped(pooled, rank), return_inverse=True, return_counts=True)
    score = np.bincount(group, weights=rank) / size
    part = np.bincount(group[len(known) :], minlength=len(size))
    rng = seeds.generator(seed, "rank sum")
    fastest = "count" if len(pooled) < 16 * len(size) else "marginals"
    middle, slack = len(other) * (len(pooled) + 1) / 2, 1e-9 * len(pooled)
    seen = float(part @ score) - middle
    p = 0.0
    for divisions in _DIVISIONS:
        sums = rng.multivariate_hypergeometric(size, len(other), size=divisions, method=fastest) @ score - middle
        beyond = sums >= seen - slack if alternative == "greater" else np.abs(sums) >= abs(seen) - slack
        p = (1 + int(beyond.sum())) / (divisions + 1)
        if p > 0.1:
            break
    return p


def _grouped(pooled: Floats, rank: Floats) -> Array:
    """The scores themselves, or the groups they fall into by rank; equal scores stay together."""
    if len(np.unique(pooled)) <= _GROUPS:
        return pooled
    return np.floor((rank - 0.5) / len(pooled) * _GROUPS)
