"""Whether two samples come from one distribution.

The p-values are valid for any sizes, lopsided ones too, and for scores with ties: a normal approximation
of the rank sum is not when most scores are one value and few others decide.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from divulge import lazy, seeds

if TYPE_CHECKING:
    from scipy import stats

    from divulge.types import Array, Bools, Floats
else:
    stats = lazy.module("scipy.stats")

Alternative: TypeAlias = Literal["two-sided", "greater"]

_EXACT = 1000  # scores on a side up to which Smirnov's distribution is counted out
_GROUPS = 32  # of neighbouring scores; the rank sum of groups loses a thousandth of the power
_ALIKE = 10  # records that are taken for alike
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


def among_equals(scores: Floats, inside: Bools, by: Floats) -> float:
    """Van Elteren's two-sided p-value: do records ``inside`` score otherwise than others that are alike in ``by``?

    Records are put into groups of about ten by ``by``, equal ones into one, and rank sums of the groups are added, each
    over the size of its group plus 1. The normal approximation has the mean and variance of random divisions within
    groups. Where no group has records of both kinds, or all scores are one, nothing can be told: 1.

    Args:
        scores: ``[n]``.
        inside: bool ``[n]``.
        by: ``[n]``.

    References:
        van Elteren 1960, On the combination of independent two-sample tests of Wilcoxon.

    Examples:
        >>> length = np.repeat(np.arange(10.0), 20)
        >>> inside = np.random.default_rng(0).permutation(200) < 10 + 9 * length
        >>> rank_sum(length[~inside], length[inside]) < 1e-3, among_equals(length, inside, length)
        (True, 1.0)
    """
    group = np.floor((stats.rankdata(by) - 0.5) / _ALIKE)
    total = variance = 0.0
    for one in np.unique(group):
        rows = group == one
        n, m = int(rows.sum()), int(inside[rows].sum())
        if m in (0, n):
            continue
        ranks = stats.rankdata(scores[rows]) - (n + 1) / 2
        total += float(ranks[inside[rows]].sum()) / (n + 1)
        variance += m * (n - m) * float((ranks**2).sum()) / (n * (n - 1) * (n + 1) ** 2)
    return 2 * float(stats.norm.sf(abs(total) / variance**0.5)) if variance > 0 else 1.0


def _grouped(pooled: Floats, rank: Floats) -> Array:
    """The scores themselves, or the groups they fall into by rank; equal scores stay together."""
    if len(np.unique(pooled)) <= _GROUPS:
        return pooled
    return np.floor((rank - 0.5) / len(pooled) * _GROUPS)
