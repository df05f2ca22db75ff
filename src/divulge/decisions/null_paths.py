"""The joint law of conformal nulls: how many non-members score above each calibration score, all ranks at once.

If ``k`` non-members are exchangeable with ``n`` calibration scores, every order of the two kinds is equally likely,
whatever their distribution. So the numbers of non-members between calibration scores are a uniform composition of
``k`` (a Pólya urn): probabilities of whole paths can be counted, or paths drawn, without a single score.
"""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge import seeds
from divulge.statistics import intervals

if TYPE_CHECKING:
    from divulge.types import Ints

# Shares of the candidates that may be non-members at most; each has a band of its own.
_SHARES = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.22, 0.15, 0.1, 0.05)
_LEVELS = np.arange(0.0, 8.5, 0.05)  # of the curves that a band is chosen from, as normal quantiles
_EXACT_LIMITS = (3000, 3_000_000)  # calibration scores, and these times candidates, up to which paths are counted
_LARGE = 1e200  # numbers of orders are divided by themselves from here on
_PATHS, _PER_ERROR = 4000, 20  # drawn elsewhere for each band: at least the former, and the latter over the error
_UNLUCKY = 1e-6  # chance, over the seed, that the paths drawn make a band too narrow
_TOP, _BOTTOM = 192, 24  # ranks looked at there, in the upper and the lower half of the calibration


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Upper bounds of the number of non-members above calibration scores, each band for all its ranks at once.

    Args:
        ranks: which calibration scores, counted from the largest, ascending from 1, ``[r]``.
        sizes: how many non-members there are at most, descending from ``m``, ``[s]``.
        most: non-members above each of these calibration scores, ``[s, r]``; not ascending along ``s``, not
            descending along ``r``.
        counted: whether the confidence is exact; else paths were drawn.
    """

    ranks: Ints
    sizes: Ints
    most: Ints
    counted: bool


@functools.lru_cache(maxsize=64)
def bands(n: int, m: int, confidence: float, seed: int) -> Bands:
    """Return the bands for ``n`` calibration scores and at most ``m`` non-members.

    A band is the least strict of a family of curves that a path keeps with probability ``confidence``. The curves are
    quantiles of one level at every rank, by a beta approximation, which is but a choice of curves: the probability of
    keeping one is counted exactly. Where that takes too long, paths are drawn, and Clopper and Pearson's upper bound
    of the share that crosses the curve, at one in a million, must be at most ``1 - confidence``.

    A band for ``k`` non-members holds for fewer, as leaving some out only lowers the path.
    """
    sizes = np.unique([math.ceil(share * m) for share in _SHARES])[::-1]
    is_exact = n <= _EXACT_LIMITS[0] and n * m <= _EXACT_LIMITS[1]
    if is_exact:
        ranks = np.arange(1, n + 1)
        max_above = np.array([_exact_band(n, size, confidence) for size in sizes.tolist()])
    else:
        ranks = _sample_ranks(n)
        max_above = _simulated_bands(ranks, n, sizes, confidence, seeds.generator(seed, "null paths", n, m))
    # A larger curve holds where a smaller one does, and the largest of these is in order.
    max_above = np.maximum.accumulate(max_above[::-1], axis=0)[::-1]
    for array in (ranks, sizes, max_above):
        array.setflags(write=False)
    return Bands(ranks, sizes, max_above, is_exact)


def probability_below(max_above: Ints, size: int) -> float:
    """Return the probability that at most so many of ``size`` non-members lie above the 1st, 2nd, … calibration score.

    Examples:
        >>> round(probability_below(np.array([0, 1]), 1), 9)  # of three orders, one has the non-member on top
        0.666666667
    """
    path_counts, scale = np.zeros(size + 1), 0.0  # orders down to a calibration score, by the non-members above it
    path_counts[0] = 1.0
    for limit in max_above.tolist():
        within = path_counts[: limit + 1]
        np.add.accumulate(within, out=within)
        if within[-1] > _LARGE:
            scale += math.log(within[-1])
            within /= within[-1]
    n, n_kept = len(max_above), float(path_counts[: max_above[-1] + 1].sum())
    return min(n_kept * math.exp(scale - math.lgamma(n + size + 1) + math.lgamma(n + 1) + math.lgamma(size + 1)), 1.0)


def _exact_band(n: int, size: int, confidence: float) -> Ints:
    """Return the band for ``size`` non-members, at every rank."""
    ranks = np.arange(1, n + 1)
    n_levels = len(_LEVELS)
    level_index = bisect.bisect_left(
        range(n_levels),
        confidence + 1e-9,
        key=lambda level: probability_below(_quantile_curves(ranks, n, size, _LEVELS[level])[0], size),
    )
    return np.full(n, size) if level_index == n_levels else _quantile_curves(ranks, n, size, _LEVELS[level_index])[0]


def _simulated_bands(ranks: Ints, n: int, sizes: Ints, confidence: float, rng: np.random.Generator) -> Ints:
    """Return the bands of all sizes, at some ranks."""
    draws = math.ceil(max(_PATHS, _PER_ERROR / (1 - confidence)))
    gaps = rng.standard_gamma(np.diff([0, *ranks, n + 1]), size=(draws, len(ranks) + 1))
    gaps /= gaps.sum(axis=1, keepdims=True)
    crossing = intervals.clopper_pearson_upper(np.arange(draws + 1), draws, _UNLUCKY)
    allowed = int(np.searchsorted(crossing, 1 - confidence, side="right")) - 1
    max_above = np.empty((len(sizes), len(ranks)), np.int64)
    for row, size in zip(max_above, sizes.tolist(), strict=True):
        curves = np.vstack([_quantile_curves(ranks, n, size, _LEVELS), np.full(len(ranks), size)])
        required_level = np.zeros(draws, np.int64)
        for curve, above in zip(curves.T, rng.multinomial(size, gaps)[:, :-1].cumsum(axis=1).T, strict=True):
            np.maximum(required_level, np.searchsorted(curve, above), out=required_level)
        row[:] = curves[np.sort(required_level)[draws - 1 - allowed]]
    return max_above


def _sample_ranks(n: int) -> Ints:
    """Ranks in steps of equal ratio from either end of the calibration."""
    half = (n + 1) / 2
    top, bottom = np.geomspace(1, half, _TOP), n + 1 - np.geomspace(half, max(n / 200, 1), _BOTTOM)
    return np.unique(np.clip(np.round([*top, *bottom]), 1, n).astype(np.int64))


def _quantile_curves(ranks: Ints, n: int, size: int, levels: np.ndarray | float) -> Ints:
    """Quantiles of the number of non-members above each rank, ``[levels, r]``."""
    # The count is beta-binomial. A beta variable of this concentration times the size has its mean and variance.
    spread = max((size * (n + 2) / (n + 1 + size) - 1) / (n + 1), 1e-3)
    level = special.ndtr(np.atleast_1d(levels))[:, None]
    quantiles = special.betaincinv(ranks * spread, (n + 1 - ranks) * spread, level)
    return np.floor(size * quantiles + 0.5).astype(np.int64)
