"""Simultaneous upper bounds of the false discovery proportion of the k best candidates, for all k at once.

A false discovery rate is an average over selections at a level fixed beforehand. Here one event, of probability at
least ``confidence``, makes all bounds true together, so the user may look at the scores and then choose how many
candidates to name. The event is that at no rank too many non-members score above the calibration.

Its probability does not depend on the scores. If ``k`` non-members are exchangeable with ``n`` calibration scores,
every order of the two is equally likely for any distribution, and the numbers of non-members between calibration scores
are a uniform composition of ``k`` (a Pólya urn). The probability of a whole path can be counted, or paths drawn. From
there the bounds are arithmetic: in any set of best candidates, the non-members are at most those outside the ``r`` best
and as many as the band allows among the ``r`` best.

Sources: Song, Jin & Candès, "Everywhere valid bounds on false discovery proportions in conformal inference", arXiv
2605.20726 (the idea of an envelope by the joint law; the curves and the bound on the number of non-members are ours);
Genovese & Wasserman, "Exceedance control of the false discovery proportion", 2006; Blanchard, Neuvial & Roquain, "Post
hoc confidence bounds on false positives using reference families", 2020; Gazin, Blanchard & Roquain, "Transductive
conformal inference with adaptive scores", AISTATS 2024 (the joint law of conformal p-values).
"""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from divulge import seeds, statistics
from divulge.decisions import counts as counting
from divulge.decisions import fdr
from divulge.decisions.counts import Counts
from divulge.errors import InputError
from divulge.types import Guarantee, ShortRepr
from divulge.validation import check_integer, check_number, check_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from divulge.decisions.methods import StepUp
    from divulge.types import Floats, Ints, Standing

_MAX_CONFIDENCE = 0.999  # A greater one would need more simulated paths than are drawn.


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """Upper bounds of the false discovery proportion of the ``k`` best candidates, valid for all ``k`` at once.

    ``np.asarray(envelope)`` has the bound of the ``k`` best at ``[k - 1]``, ``[m]``, between 0 and 1. Candidates that
    tie with the ``k``-th best may be counted or not: the bound holds for either.

    Args:
        sizes: numbers of best candidates with a bound of their own, ascending to ``m``, ``[r]``.
        max_nonmembers: upper bounds of the non-members among these, ``[r]``.
        confidence: with which all bounds hold together.
        method: how the bounds were computed.
        guarantee: the claim and its assumptions.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> best = envelope(rng.normal(size=500), np.append(rng.normal(3, 1, 200), rng.normal(size=200)))
        >>> best.false(100), best.largest(0.2), best.members
        (8, 208, 167)
    """

    sizes: Ints
    max_nonmembers: Ints
    confidence: float
    method: str
    guarantee: Guarantee

    def __len__(self) -> int:
        return int(self.sizes[-1])

    def __repr__(self) -> str:
        return f"Envelope({len(self)} candidates, at most {self.nonmembers} of them non-members; {self.guarantee})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        bounds, start = np.empty(len(self)), 0
        min_members = np.append(0, self._min_members[:-1])
        # Each further candidate raises the number of non-members by at most 1, up to the bound of the next size.
        for end, max_false, members_before in zip(
            self.sizes.tolist(), self.max_nonmembers.tolist(), min_members.tolist(), strict=True
        ):
            number = np.arange(start + 1.0, end + 1.0)
            bounds[start:end] = np.minimum(number - members_before, max_false) / number
            start = end
        return bounds.astype(dtype or np.float64, copy=False)

    def capped_at(self, standing: Standing) -> Envelope:
        """Return these bounds, with a guarantee whose standing is at most ``standing``.

        Examples:
            >>> print(envelope(range(99), [120.0] * 30).capped_at("void").guarantee.says)
            False
        """
        return replace(self, guarantee=self.guarantee.capped_at(standing))

    @property
    def nonmembers(self) -> int:
        """Upper bound of the non-members among all candidates."""
        return int(self.max_nonmembers[-1])

    @property
    def members(self) -> int:
        """Lower bound of the members among all candidates."""
        return len(self) - self.nonmembers

    @property
    def _min_members(self) -> Ints:
        """Lower bounds of the members among the ``sizes`` best candidates."""
        return np.maximum.accumulate(self.sizes - self.max_nonmembers)

    def false(self, k: int) -> int:
        """Return an upper bound of the non-members among the ``k`` best candidates.

        Raises:
            divulge.InputError: ``k`` below 1, or more than there are.
        """
        check_integer(k, "k", minimum=1, maximum=len(self))
        i = int(np.searchsorted(self.sizes, k))
        min_members = int(self._min_members[i - 1]) if i else 0
        return int(min(self.max_nonmembers[i], k - min_members))

    def bound(self, k: int) -> float:
        """Return an upper bound of the false discovery proportion of the ``k`` best candidates.

        Raises:
            divulge.InputError: ``k`` below 1, or more than there are.
        """
        return self.false(k) / k

    def largest(self, fdp: float) -> int:
        """Return the largest ``k`` whose bound is at most ``fdp``; 0 if there is none.

        The share may be chosen after looking at all bounds.

        Raises:
            divulge.InputError: a share outside [0, 1].
        """
        level = check_number(fdp, "fdp", above=0, below=1, closed=True)
        if level >= 1:
            return len(self)
        # Between two sizes the bound on non-members first increases with every candidate and then is constant, so the
        # answer is a size, or the last candidate of an increasing stretch within the level.
        sizes_within = self.sizes[self.max_nonmembers <= level * self.sizes * (1 + 1e-12)]
        increasing = np.floor(self._min_members / (1 - level) * (1 + 1e-12))
        increasing = np.minimum(increasing, np.append(self.sizes[1:], len(self))).astype(np.int64)
        return int(max(np.max(sizes_within, initial=0), np.max(increasing[increasing >= self.sizes], initial=0)))


def envelope(calibration: object, candidates: object, *, confidence: float = 0.95, seed: int = 0) -> Envelope:
    """Bound the false discovery proportion of the ``k`` best candidates from above, for all ``k`` at once.

    With probability at least ``confidence`` over calibration and candidates, all bounds hold. Scores need not be
    continuous (ties count against the candidates), and nothing is assumed about the number or the scores of members.
    The same event bounds the number of non-members, and all other bounds use it.

    Args:
        calibration: scores ``[n]`` of known non-members; larger means more like a member.
        candidates: scores ``[m]``.
        confidence: of all bounds together; at most 0.999.
        seed: of the simulated orders of non-members and calibration, which depend on ``n``, ``m``, confidence and seed
            alone.

    Raises:
        divulge.InputError: empty, NaN or infinity, a confidence outside (0, 0.999].

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> bounds = np.asarray(envelope(rng.normal(size=500), rng.normal(2, 1, 100)))
        >>> bounds[[9, 49, 99]].round(2)
        array([0.2 , 0.08, 0.16])
    """
    empty_counts = Counts.empty(calibration)
    return envelope_from_counts(
        empty_counts.add(check_vector(candidates, "candidates")), confidence=confidence, seed=seed
    )


def envelope_from_counts(counts: Counts, *, confidence: float = 0.95, seed: int = 0) -> Envelope:
    """Return the `envelope` from counts of candidates above each calibration score.

    Raises:
        divulge.InputError: no candidates, a confidence outside (0, 0.999].

    Examples:
        >>> envelope_from_counts(Counts.empty(range(99)).add([120.0] * 30)).false(30)
        0
    """
    counting.check_counts(counts)
    if check_number(confidence, "confidence", above=0, below=1) > _MAX_CONFIDENCE:
        raise InputError(f"confidence: at most {_MAX_CONFIDENCE} can be simulated, got {confidence:g}")
    check_integer(seed, "seed", minimum=0)
    n, m = len(counts.calibration), counts.total
    bands = simultaneous_bands(n, m, float(confidence), int(seed))
    sizes = counts.above[n - bands.ranks]
    # The band for the true number of non-members holds and bounds that number. Bands for more are no lower.
    nonmembers = np.minimum(bands.sizes, m - np.max(sizes - bands.max_above, axis=1))
    i = int(np.argmax(nonmembers > np.append(bands.sizes[1:], -1)))
    sizes, max_nonmembers = np.append(sizes, m), np.append(bands.max_above[i], nonmembers[i])
    # A set has at most as many non-members as any larger one; of equal sizes the first rank has the lowest bound.
    max_nonmembers = np.minimum(np.minimum.accumulate(np.minimum(max_nonmembers, sizes)[::-1])[::-1], nonmembers[i])
    sizes, first_index = np.unique(sizes, return_index=True)
    origin = "counted exactly" if bands.is_exact else "simulated, with an allowance for that"
    method = f"simultaneous band of {len(bands.ranks)} calibration ranks; its confidence is {origin}"
    guarantee = Guarantee("chance that any of these bounds fails", round(1 - confidence, 12), fdr.ASSUMES)
    return Envelope(sizes, max_nonmembers[first_index], float(confidence), method, guarantee)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Choices(ShortRepr):
    """Every selection of best candidates that a threshold on p-values can make, with both kinds of bound.

    Args:
        sizes: numbers of candidates, ascending to ``m``, ``[r]``.
        bounds: simultaneous upper bounds of the false discovery proportion, ``[r]``.
        q_values: the smallest FDR level at which the method selects that many, ``[r]``; 1 if no level below 1 does.
    """

    sizes: Ints
    bounds: Floats
    q_values: Floats


def choices(counts: Counts, *, method: StepUp | str = "storey", confidence: float = 0.95, seed: int = 0) -> Choices:
    """Return the possible selections from counts of candidates above each calibration score, for tables and sliders.

    Args:
        counts: candidates above each calibration score.
        method: of the q-values, see `divulge.decisions.fdr.decide`.
        confidence: of the bounds.
        seed: of the bounds, see `envelope`.

    Raises:
        divulge.InputError: no candidates, a confidence outside (0, 0.999], a method that does not apply.

    Examples:
        >>> table = choices(Counts.empty(range(99)).add([98.5, 120.0, 121.0, 7.0]), method="bh")
        >>> table.sizes.tolist(), table.q_values.round(3).tolist()
        ([3, 4], [0.013, 0.93])
    """
    bounds = envelope_from_counts(counts, confidence=confidence, seed=seed)
    q_values = fdr.decide(counts, fdr=1 - 1e-9, method=method).q_values
    sizes, first_index = np.unique(counts.reached, return_index=True)
    sizes, first_index = sizes[sizes > 0], first_index[sizes > 0]
    return Choices(sizes, np.asarray(bounds)[sizes - 1], q_values[first_index])


# Maximum shares of non-members among the candidates; each has a band of its own.
_SHARES = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.22, 0.15, 0.1, 0.05)
_LEVELS = np.arange(0.0, 8.5, 0.05)  # levels of the curves from which a band is chosen, as normal quantiles
_EXACT_LIMITS = (3000, 3_000_000)  # n, and n times m, up to which paths are counted exactly
_RESCALE_ABOVE = 1e200  # numbers of paths are rescaled from here on, as they would overflow
_MIN_DRAWS, _DRAWS_PER_ERROR = 4000, 20  # paths drawn otherwise: at least these, the latter over 1 - confidence
_SIMULATION_ERROR = 1e-6  # probability, over the seed, that the simulated band is too narrow
_N_TOP_RANKS, _N_BOTTOM_RANKS = 192, 24  # ranks of a simulated band in the upper and the lower half of the calibration


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Upper bounds of the number of non-members above calibration scores; each band holds for all its ranks at once.

    Args:
        ranks: of the calibration scores, counted from the largest, ascending from 1, ``[r]``.
        sizes: maximum numbers of non-members, descending from ``m``, ``[s]``.
        max_above: upper bounds of the non-members above each of these calibration scores, ``[s, r]``, non-increasing
            along ``s`` and non-decreasing along ``r``.
        is_exact: whether the confidence was counted exactly; otherwise paths were drawn.
    """

    ranks: Ints
    sizes: Ints
    max_above: Ints
    is_exact: bool


@functools.lru_cache(maxsize=64)
def simultaneous_bands(n: int, m: int, confidence: float, seed: int) -> Bands:
    """Return the bands for ``n`` calibration scores and at most ``m`` non-members.

    A band is the lowest curve of a family below which a path stays with probability at least ``confidence``. The curves
    are quantiles of one level at every rank, by a beta approximation. The approximation affects the choice of curves
    alone: the probability of staying below one is counted exactly. Where that takes too long, paths are drawn, and
    Clopper and Pearson's upper bound of the share of paths that cross the curve, at one in a million, must be at most
    ``1 - confidence``.

    A band for ``k`` non-members holds for fewer, as leaving some out only lowers the path.
    """
    sizes = np.unique([math.ceil(share * m) for share in _SHARES])[::-1]
    is_exact = n <= _EXACT_LIMITS[0] and n * m <= _EXACT_LIMITS[1]
    if is_exact:
        ranks = np.arange(1, n + 1)
        max_above = np.array([_exact_band(n, size, confidence) for size in sizes.tolist()])
    else:
        # Ranks in steps of equal ratio from either end of the calibration, where curves bend.
        half = (n + 1) / 2
        bottom = n + 1 - np.geomspace(half, max(n / 200, 1), _N_BOTTOM_RANKS)
        sampled = np.round([*np.geomspace(1, half, _N_TOP_RANKS), *bottom])
        ranks = np.unique(np.clip(sampled, 1, n).astype(np.int64))
        max_above = _simulated_bands(ranks, n, sizes, confidence, seeds.generator(seed, "null paths", n, m))
    # A larger curve holds where a smaller one does, so bands may be made monotone along the sizes.
    max_above = np.maximum.accumulate(max_above[::-1], axis=0)[::-1]
    for array in (ranks, sizes, max_above):
        array.setflags(write=False)
    return Bands(ranks, sizes, max_above, is_exact)


def probability_below(max_above: Ints, size: int) -> float:
    """Return the probability that at most ``max_above[i]`` of ``size`` non-members exceed the ``i``-th calibration.

    Examples:
        >>> round(probability_below(np.array([0, 1]), 1), 9)  # of three orders, one has the non-member on top
        0.666666667
    """
    path_counts, scale = np.zeros(size + 1), 0.0  # paths down to a calibration score, by the non-members above it
    path_counts[0] = 1.0
    for limit in max_above.tolist():
        within = path_counts[: limit + 1]
        np.add.accumulate(within, out=within)
        if within[-1] > _RESCALE_ABOVE:
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
    """Return the bands of all sizes, at the given ranks."""
    draws = math.ceil(max(_MIN_DRAWS, _DRAWS_PER_ERROR / (1 - confidence)))
    gaps = rng.standard_gamma(np.diff([0, *ranks, n + 1]), size=(draws, len(ranks) + 1))
    gaps /= gaps.sum(axis=1, keepdims=True)
    crossing = statistics.clopper_pearson_upper(np.arange(draws + 1), draws, _SIMULATION_ERROR)
    allowed = int(np.searchsorted(crossing, 1 - confidence, side="right")) - 1
    max_above = np.empty((len(sizes), len(ranks)), np.int64)
    for row, size in zip(max_above, sizes.tolist(), strict=True):
        curves = np.vstack([_quantile_curves(ranks, n, size, _LEVELS), np.full(len(ranks), size)])
        required_level = np.zeros(draws, np.int64)
        for curve, above in zip(curves.T, rng.multinomial(size, gaps)[:, :-1].cumsum(axis=1).T, strict=True):
            np.maximum(required_level, np.searchsorted(curve, above), out=required_level)
        row[:] = curves[np.sort(required_level)[draws - 1 - allowed]]
    return max_above


def _quantile_curves(ranks: Ints, n: int, size: int, levels: np.ndarray | float) -> Ints:
    """Return quantiles of the number of non-members above each rank, ``[levels, r]``."""
    # The number is beta-binomial. A beta variable of this concentration times the size has the same mean and variance.
    spread = max((size * (n + 2) / (n + 1 + size) - 1) / (n + 1), 1e-3)
    level = special.ndtr(np.atleast_1d(levels))[:, None]
    quantiles = special.betaincinv(ranks * spread, (n + 1 - ranks) * spread, level)
    return np.floor(size * quantiles + 0.5).astype(np.int64)
