"""Intervals of rates and of the AUC, and tests whether two samples come from one distribution.

The p-values are valid for all sample sizes, also very unequal ones, and for scores with ties. (The normal approximation
of the rank sum is not valid if most scores are equal.)
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from scipy import special

from divulge import lazy, seeds
from divulge.errors import InputError
from divulge.types import Estimate
from divulge.validation import (
    as_list,
    check_integer,
    check_mask,
    check_number,
    check_strings,
    check_vector,
    format_value,
    to_numpy,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike
    from scipy import optimize, stats
    from sklearn.feature_extraction import text as sklearn_text

    from divulge.types import Array, Bools, Floats, Ints
else:
    optimize = lazy.module("scipy.optimize")
    stats = lazy.module("scipy.stats")
    sklearn_text = lazy.module("sklearn.feature_extraction.text")

Alternative: TypeAlias = Literal["two-sided", "greater"]

# Names of the methods of intervals.
EXACT = "exact unconditional (Buehler), tables ordered by pooled z"
PAIRED = "clopper-pearson on the trials that differ"
DELONG = "delong, logit scale, Brunner-Munzel degrees of freedom; Gaffke's bound as far as placements repeat"
CHERNOFF = "chernoff-hoeffding bound for U-statistics"

# Of `rate_difference`.
_TOLERANCE, _RELATIVE_TOLERANCE = 2e-4, 5e-3  # of the bound; the second is multiplied by the range searched
_ERROR_SHARE = 0.05  # share of the error that is spent on the interval of the second rate
_SPREAD = 8.0  # standard deviations of the second count that are summed; counts outside are taken to be extreme
_MAX_TRIALS = 10**6
_PRECISION = 1e-6  # of the first rate

# Of the two-sample tests.
_MAX_EXACT = 1000  # sample size up to which Smirnov's exact distribution is used
_GROUPS = 32  # of neighbouring scores; the rank sum of groups loses 0.1 % of the power
_DIVISIONS = (999, 9_999)  # permutations; the second number if the first gives a p-value of at most 0.1
_MIN_TEXTS = 5  # texts that must contain a word for it to be tested
_MAX_SHOWN_CHARACTERS = 40  # of a word in a description
_YEAR = re.compile(r"\b(?:1[5-9]|20)\d\d\b")
_MISSING_BY_CHANCE = 0.001  # probability, over all classes, below which a class is not missing by chance


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, error: float) -> Floats:
    """Return the Clopper-Pearson lower bound of a rate; P(rate < bound) ≤ ``error``.

    Examples:
        >>> clopper_pearson_lower(10, 10, 0.05).round(4)
        np.float64(0.7411)
    """
    k, n = np.asarray(successes, np.float64), np.asarray(trials, np.float64)
    return np.where(k > 0, special.betaincinv(np.maximum(k, 1), n - k + 1, error), 0.0)[()]


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, error: float) -> Floats:
    """Return the Clopper-Pearson upper bound of a rate; P(rate > bound) ≤ ``error``."""
    k, n = np.asarray(successes, np.float64), np.asarray(trials, np.float64)
    return 1 - clopper_pearson_lower(n - k, n, error)


def proportion(successes: int, trials: int, confidence: float = 0.95) -> Estimate:
    """Return a rate with its exact (Clopper-Pearson) interval.

    Raises:
        divulge.InputError: no trials, or more successes than trials.

    Examples:
        >>> print(proportion(0, 100))
        0.0000 [0.0000, 0.0362]
    """
    n = check_integer(trials, "trials", minimum=1, maximum=10**15)
    k = int(check_number(successes, "successes", above=0, below=n, closed=True))
    error = (1 - check_number(confidence, "confidence", above=0, below=1)) / 2
    return Estimate(
        k / n,
        float(clopper_pearson_lower(k, n, error)),
        float(clopper_pearson_upper(k, n, error)),
        confidence,
        "clopper-pearson",
    )


def mean_estimate(
    values: object, confidence: float = 0.95, method: str = "Student's t over records, models as they are"
) -> Estimate:
    """Return the mean of values with Student's interval; that of a single value has no ends.

    Examples:
        >>> print(mean_estimate([1.0, 2.0, 3.0]), mean_estimate([1.0]))
        2.0000 [-0.4841, 4.4841] 1.0000 [-inf, inf]
    """
    array = check_vector(values, "values").astype(np.float64, copy=False)
    mean = float(array.mean())
    if len(array) < 2:
        return Estimate(mean, -np.inf, np.inf, confidence, "a single record has no interval")
    reach = float(special.stdtrit(len(array) - 1, 0.5 + confidence / 2)) * float(array.std(ddof=1)) / len(array) ** 0.5
    return Estimate(mean, mean - reach, mean + reach, confidence, method)


def find_missing_classes(labels: Ints, other_labels: Ints) -> Ints:
    """Return the classes of records that others lack, where that is no chance.

    Of records and others that are drawn alike, one or more such classes are found with a probability of at most 0.1 %.

    Examples:
        >>> find_missing_classes(np.array([0, 1] * 20), np.array([0] * 20 + [2])).tolist()
        [1]
        >>> find_missing_classes(np.array([0, 1] + [0] * 38), np.array([0] * 20)).tolist()
        []
    """
    if not len(labels):
        return labels
    classes, counts = np.unique(labels, return_counts=True)
    chances = stats.hypergeom.pmf(0, len(labels) + len(other_labels), counts, len(other_labels))
    return classes[(chances < _MISSING_BY_CHANCE / len(classes)) & ~np.isin(classes, other_labels)]


def upper_bound_rank(n: int, rate: ArrayLike, error: float) -> Floats:
    """Return the largest rank r from the top whose order statistic bounds a quantile from above; 0 if there is none.

    The r-th largest of n draws is at least the upper ``rate``-quantile except with probability ``error``,
    for any distribution, with or without ties: P(Binomial(n, rate) < r) ≤ error.
    """
    return _binomial_quantile(error, n, rate)


def lower_bound_rank(n: int, rate: ArrayLike, error: float) -> Floats:
    """Return the smallest rank r from the top whose order statistic bounds a quantile from below; n + 1 if none does.

    The r-th largest of n draws is at most the upper ``rate``-quantile except with probability ``error``:
    P(Binomial(n, rate) ≥ r) ≤ error.
    """
    return _binomial_quantile(1 - error, n, rate) + 1


def _binomial_quantile(level: float, n: int, rate: ArrayLike) -> Floats:
    """Return the smallest k with P(Binomial(n, rate) ≤ k) ≥ level."""
    p = np.clip(np.asarray(rate, np.float64), 1e-300, 1 - 1e-16)
    # bdtrik solves for a real k; NaN stands for "below zero".
    k = np.ceil(np.nan_to_num(special.bdtrik(level, n, p), nan=0.0))
    k = np.where(special.bdtr(np.maximum(k - 1, 0), n, p) >= level, np.maximum(k - 1, 0), k)
    return np.where(np.asarray(rate) >= 1, float(n), np.minimum(k, n))


def rate_difference(
    successes: int, trials: int, other_successes: int, other_trials: int, confidence: float = 0.95
) -> Estimate:
    """Return the first rate minus the second, with an interval that is exact for all sample sizes and rates.

    Buehler's bound: the smallest difference among all pairs of rates under which tables as extreme as the observed one
    have at least the allowed probability. Tables are ordered by the pooled z statistic, as in the exact unconditional
    test (Suissa & Shuster 1985). The second rate is searched in an interval that misses it with a twentieth of the
    error (Berger & Boos 1994). The search uses bounds that are valid for whole cells, so the result does not depend on
    a grid.

    Args:
        successes: of the first sample.
        trials: size of the first sample.
        other_successes: of the second sample.
        other_trials: size of the second sample.
        confidence: coverage of the interval; either end errs with half of the rest.

    Raises:
        divulge.InputError: no trials, or more successes than trials.

    References:
        Buehler 1957; Suissa & Shuster 1985; Berger & Boos 1994; Lloyd & Kabaila 2003.

    Examples:
        >>> print(rate_difference(8, 10, 1, 10))
        0.7000 [0.2338, 0.9349]
    """
    n = check_integer(trials, "trials", minimum=1, maximum=_MAX_TRIALS)
    m = check_integer(other_trials, "other_trials", minimum=1, maximum=_MAX_TRIALS)
    k = check_integer(successes, "successes", minimum=0, maximum=n)
    j = check_integer(other_successes, "other_successes", minimum=0, maximum=m)
    error = (1 - check_number(confidence, "confidence", above=0, below=1)) / 2
    low, high = _difference_lower_bound(k, n, j, m, error), -_difference_lower_bound(j, m, k, n, error)
    return Estimate(k / n - j / m, low, high, confidence, EXACT)


def paired_rate_difference(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Return the first rate minus the second on the same trials, from those where they differ.

    The shares of trials with the first alone and with the second alone each have Clopper-Pearson's interval, with half
    of the error; their difference is exact for all sample sizes, and never too short.

    Args:
        first: bool ``[n]``.
        second: bool ``[n]``.
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: no trials, lengths that differ.

    Examples:
        >>> print(paired_rate_difference([True] * 30 + [False] * 70, [True] * 20 + [False] * 80))
        0.1000 [0.0010, 0.1878]
    """
    n = int(np.size(to_numpy(first, "first")))
    if not n:
        raise InputError("first: at least 1 trial is needed, got 0")
    first_trials, second_trials = check_mask(first, "first", (n,)), check_mask(second, "second", (None,))
    if len(second_trials) != n:
        raise InputError(f"second: {n} values are needed (one per trial), got {len(second_trials)}")
    error = (1 - check_number(confidence, "confidence", above=0, below=1)) / 4
    only_one, only_other = int((first_trials & ~second_trials).sum()), int((second_trials & ~first_trials).sum())
    low = clopper_pearson_lower(only_one, n, error) - clopper_pearson_upper(only_other, n, error)
    high = clopper_pearson_upper(only_one, n, error) - clopper_pearson_lower(only_other, n, error)
    return Estimate((only_one - only_other) / n, float(low), float(high), confidence, PAIRED)


@dataclass(frozen=True, slots=True, eq=False)
class _ExtremeTables:
    """The tables at least as extreme as the observed one: those with ``min_count[j]`` or more in the first sample.

    Args:
        min_count: by the count of the second sample, ``[m + 1]``, ascending; n + 1 if no count is extreme.
        n: size of the first sample.
        m: size of the second sample.
        log_choose: logarithm of the binomial coefficient of each count of the second sample, ``[m + 1]``.
    """

    min_count: Ints
    n: int
    m: int
    log_choose: Floats

    def first_rate(self, second_rate: float, error: float, low: float = 0.0, high: float = 1.0) -> float:
        """Return the first rate at which these tables have probability ``error``; infinity if there is none.

        It increases with ``second_rate``, so the results of neighbours limit the search. The result is too low by at
        most `_PRECISION`, and never too high.
        """
        reach = _SPREAD * math.sqrt(self.m * second_rate * (1 - second_rate)) + _SPREAD
        j = np.arange(
            max(0, int(self.m * second_rate - reach)), min(self.m, math.ceil(self.m * second_rate + reach)) + 1
        )
        weights = np.exp(self.log_choose[j] + special.xlogy(j, second_rate) + special.xlog1py(self.m - j, -second_rate))
        left_out = max(0.0, 1 - float(weights.sum()))
        min_count = self.min_count[j]
        possible = min_count <= self.n
        weights, min_count = weights[possible], min_count[possible]
        if weights.sum() + left_out <= error:
            return math.inf

        shape, is_certain = (np.maximum(min_count, 1), self.n - min_count + 1), min_count <= 0

        def excess(rate: float) -> float:
            return float(weights @ np.where(is_certain, 1.0, special.betainc(*shape, rate))) + left_out - error

        high = min(high, 1.0)
        if high - low <= _PRECISION or excess(low) > 0:
            return low
        if excess(high) <= 0:
            return high
        root = optimize.brentq(excess, low, high, xtol=_PRECISION / 2)
        return max(low, root - _PRECISION / 2)


@functools.lru_cache(maxsize=4096)  # Each bound takes long, and reports of one model need the same counts again.
def _difference_lower_bound(k: int, n: int, j: int, m: int, error: float) -> float:
    """Return a lower bound of the first rate minus the second, which errs with at most ``error``."""
    counts = np.arange(m + 1)
    log_choose = special.gammaln(m + 1) - special.gammaln(counts + 1) - special.gammaln(m - counts + 1)
    extreme = _ExtremeTables(_min_extreme_counts(k, n, j, m), n, m, log_choose)
    rate_error = error * _ERROR_SHARE
    ends = float(clopper_pearson_lower(j, m, rate_error / 2)), float(clopper_pearson_upper(j, m, rate_error / 2))
    shares = {end: extreme.first_rate(end, error - rate_error) for end in ends}
    cells, tolerance = [ends], _TOLERANCE + _RELATIVE_TOLERANCE * (ends[1] - ends[0])
    while True:
        # The first rate increases with the second, so in a cell their difference is at least first(a) - b.
        a, b = min(cells, key=lambda cell: shares[cell[0]] - cell[1])
        best = min(share - end for end, share in shares.items())
        bound = shares[a] - b
        if best - bound <= tolerance:
            return max(-1.0, bound)
        middle = (a + b) / 2
        shares[middle] = extreme.first_rate(middle, error - rate_error, shares[a], shares[b])
        cells.remove((a, b))
        cells += [(a, middle), (middle, b)]


def _min_extreme_counts(k: int, n: int, j: int, m: int) -> Ints:
    """Return the smallest first count that is as extreme as k and j, for each second count, ``[m + 1]``."""
    observed = _pooled_z(np.array([k]), n, np.array([j]), m)[0] - 1e-9
    second_counts = np.arange(m + 1)
    low, high = np.full(m + 1, -1), np.full(m + 1, n + 1)  # not extreme, extreme
    while (high - low > 1).any():
        middle = (low + high) // 2
        is_extreme = _pooled_z(np.clip(middle, 0, n), n, second_counts, m) >= observed
        is_open = high - low > 1
        high = np.where(is_open & is_extreme, middle, high)
        low = np.where(is_open & ~is_extreme, middle, low)
    return high


def _pooled_z(k: Ints, n: int, j: Ints, m: int) -> Floats:
    """Return the pooled z statistic, which increases with k and decreases with j; 0 if all or none are successes."""
    share = (k + j) / (n + m)
    variance = share * (1 - share) * (1 / n + 1 / m)
    return np.where(variance > 0, (k / n - j / m) / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)


def auc(scores: object, members: object, confidence: float = 0.95) -> Estimate:
    """Return the AUC, P(a member outscores a non-member) + ½ P(they tie), with an interval, in O(n log n).

    - DeLong's variance from placements (mid-ranks, so ties count one half), on the logit scale so that the
      interval stays in (0, 1), with Brunner & Munzel's t degrees of freedom so that it holds in small samples,
      and with one pseudo-placement of ½ a side.
    - If most placements are equal, that variance rests on the few exceptions in the sample. Gaffke's bound allows for
      unobserved ones; the ends are moved towards it in proportion to the share of pairs of records with equal
      placements. Continuous scores hardly move them.
    - The ends never lie outside the Chernoff-Hoeffding bound for two-sample U-statistics, which holds for every
      distribution and sample size. It is the whole interval if the AUC is 0 or 1, or with a single member or
      non-member.

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
    values, truth = check_scores(scores, members)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    placed, _ = placements_from_scores(values, truth)
    low, high = auc_bounds(placed, error)
    has_variance = _is_interior(placed.value) and (placed.scarcer > 1 or placed.repeated >= 1)
    method = DELONG if has_variance else CHERNOFF
    return Estimate(float(placed.value), float(low), float(high), confidence, method)


def auc_bounds(placed: Placements, error: float) -> tuple[Floats, Floats]:
    """Return both ends of the AUC's interval, ``[...]`` each; either errs with half the ``error``."""
    repeated = placed.repeated
    low, high = _delong(placed, _is_interior(placed.value) & (repeated >= 1), error)
    high = widen_for_ties(high, placed, repeated, 1.0, error / 2)
    low = -widen_for_ties(-low, -placed, repeated, 0.0, error / 2)
    # Chernoff's bound always holds, so the ends need not lie further out.
    value, blocks, limit = placed.value, placed.scarcer, math.log(2 / error)
    return _limit_by_chernoff(value, blocks, limit, low, 0.0), _limit_by_chernoff(value, blocks, limit, high, 1.0)


def _is_interior(value: Floats) -> Bools:
    return (value > 0) & (value < 1)


def _delong(placed: Placements, constant: Bools, error: float) -> tuple[Floats, Floats]:
    """Return the interval on the logit scale; where it does not exist, [0, 1], or ½ alone if all scores tie."""
    regular = _is_interior(placed.value) & (placed.scarcer > 1) & ~constant
    value = np.where(regular, placed.value, 0.5)
    v, w = (np.where(regular, part, 1.0) for part in placement_covariance(placed, placed, null=0.5))
    m, n = (np.maximum(side.size, 2) for side in placed.sides)
    reach = special.stdtrit(degrees_of_freedom(v, w, m, n), 1 - error / 2) * np.sqrt(v + w) / (value * (1 - value))
    unknown = np.where(constant, 0.5, 0.0)
    low, high = special.expit(special.logit(value) - reach), special.expit(special.logit(value) + reach)
    return np.where(regular, low, unknown), np.where(regular, high, 1 - unknown)


def _limit_by_chernoff(value: Floats, blocks: Floats, limit: float, end: Floats, furthest: float) -> Floats:
    """Return the end, or the last p towards ``furthest`` with ``blocks · KL(value ‖ p) ≤ limit`` if that is nearer.

    A two-sample U-statistic averages averages of min(m, n) independent pairs, so Chernoff's bound for
    that many Bernoulli draws holds for it (Hoeffding 1963, eq. 5.7 ff.).
    """

    def exceeds_limit(p: Floats) -> Bools:
        return blocks * (special.rel_entr(value, p) + special.rel_entr(1 - value, 1 - p)) > limit

    if not exceeds_limit(end).any():
        return end
    # Bisection between the value, which is inside, and the end of the scale.
    inner, outer = np.asarray(value), np.full_like(value, furthest)
    for _ in range(60):
        middle = (inner + outer) / 2
        is_beyond = exceeds_limit(middle)
        inner, outer = np.where(is_beyond, inner, middle), np.where(is_beyond, middle, outer)
    return np.where(exceeds_limit(end), outer, end)


@dataclass(frozen=True, eq=False)  # without slots, as what follows from the fields is kept
class Side:
    """Contributions of the members, or of the non-members, to a mean.

    Attributes:
        values: contribution of a record at each level, ``[..., k]``.
        counts: number of records at each level, ``[..., k]``.
    """

    values: Floats
    counts: Floats

    @functools.cached_property
    def size(self) -> Floats:
        """Number of records, ``[...]``."""
        return self.counts.sum(-1)

    @functools.cached_property
    def mean(self) -> Floats:
        """Mean over the records, ``[...]``."""
        return (self.values * self.counts).sum(-1) / self.size

    @functools.cached_property
    def repeated(self) -> Floats:
        """Share of pairs of records with equal contributions, ``[...]``; 1 if there is a single record."""
        order = np.argsort(self.values, axis=-1, kind="stable")
        values, counts = (np.take_along_axis(part, order, -1) for part in (self.values, self.counts))
        # Equal contributions may differ by rounding; different placements differ by more than 1e-9.
        is_edge = np.diff(values, axis=-1) > 1e-9
        cumulative = counts.cumsum(-1)
        before = np.maximum.accumulate(np.where(is_edge, cumulative[..., :-1], 0.0), axis=-1)
        run = cumulative - np.concatenate([np.zeros_like(cumulative[..., :1]), before], -1)
        is_last = np.concatenate([is_edge, np.ones_like(cumulative[..., :1], bool)], -1)
        pairs = np.where(is_last, run * (run - 1), 0.0).sum(-1)
        return np.where(self.size > 1, pairs / np.maximum(self.size * (self.size - 1), 1), 1.0)


@dataclass(frozen=True, eq=False)  # without slots, as what follows from the fields is kept
class Placements:
    """A mean over members that equals a mean over non-members.

    Attributes:
        members: contributions of members; for the AUC the share of non-members below each.
        nonmembers: contributions of non-members; for the AUC the share of members above each.
    """

    members: Side
    nonmembers: Side

    @property
    def sides(self) -> tuple[Side, Side]:
        """Members, non-members."""
        return self.members, self.nonmembers

    @property
    def value(self) -> Floats:
        """The mean, ``[...]``."""
        return self.members.mean

    @property
    def scarcer(self) -> Floats:
        """Number of members or of non-members, whichever is smaller, ``[...]``."""
        return np.minimum(self.members.size, self.nonmembers.size)

    @functools.cached_property
    def repeated(self) -> Floats:
        """Geometric mean of the shares of pairs with equal contributions, from 0 to 1, ``[...]``."""
        return np.sqrt(self.members.repeated * self.nonmembers.repeated)

    def __neg__(self) -> Placements:
        return Placements(*(Side(-side.values, side.counts) for side in self.sides))

    def __sub__(self, other: Placements) -> Placements:
        pairs = zip(self.sides, other.sides, strict=True)
        return Placements(*(Side(x.values - y.values, x.counts) for x, y in pairs))


def placements_from_counts(inside: Array, outside: Array) -> Placements:
    """Return placements from counts at ascending levels; ties count one half, so the mean is the AUC.

    Args:
        inside: members at each level, ``[..., k]``.
        outside: non-members at each level, ``[..., k]``.

    Examples:
        >>> placed = placements_from_counts(np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0]))
        >>> placed.members.values[[1, 3]], placed.nonmembers.values[[0, 2]], placed.value
        (array([0.5, 1. ]), array([1. , 0.5]), np.float64(0.75))
    """
    a, b = np.asarray(inside, np.float64), np.asarray(outside, np.float64)
    m, n = a.sum(-1, keepdims=True), b.sum(-1, keepdims=True)
    below, above = (b.cumsum(-1) - b / 2) / n, (m - a.cumsum(-1) + a / 2) / m
    return Placements(Side(below, a), Side(above, b))


def placements_from_scores(values: Floats, truth: Bools) -> tuple[Placements, Array]:
    """Return placements at each distinct score, ascending, and the level of each record.

    Args:
        values: scores, ``[n]``.
        truth: True for members, ``[n]``.
    """
    levels, level = np.unique(values, return_inverse=True)
    inside = np.bincount(level[truth], minlength=len(levels))
    return placements_from_counts(inside, np.bincount(level, minlength=len(levels)) - inside), level


def placements_per_record(placed: Placements, level: Array, truth: Bools) -> Placements:
    """Return the same placements with one level per record, in the order of ``level``."""
    inside = truth.astype(np.float64)
    return Placements(Side(placed.members.values[level], inside), Side(placed.nonmembers.values[level], 1 - inside))


def placement_covariance(first: Placements, second: Placements, null: float) -> tuple[Floats, Floats]:
    """Return the covariance of two means over the same records, by members and non-members, ``[...]`` each.

    DeLong, DeLong & Clarke-Pearson 1988, with one pseudo-placement on either side at ``null``, the value without a
    leak. (Without these, the coverage with few members near an AUC of 1 is .915 instead of .95.) A part with a single
    record is infinite.
    """
    a, b = first.value, second.value
    shrunk = (a - null) * (b - null)

    def part(x: Side, y: Side) -> Floats:
        spread = (x.counts * (x.values - a[..., None]) * (y.values - b[..., None])).sum(-1) + shrunk
        return np.where(x.size > 1, spread / np.maximum(x.size - 1, 1) / x.size, np.inf)

    return part(first.members, second.members), part(first.nonmembers, second.nonmembers)


def degrees_of_freedom(v: ArrayLike, w: ArrayLike, m: ArrayLike, n: ArrayLike) -> Floats:
    """Return the degrees of freedom of a variance ``v + w`` from m and n records (Brunner & Munzel 2000)."""
    v, w, m, n = (np.asarray(part, np.float64) for part in (v, w, m, n))
    return (v + w) ** 2 / (v**2 / (m - 1) + w**2 / (n - 1))


def widen_for_ties(end: Floats, mean: Placements, weight: Floats, max_value: float, error: float) -> Floats:
    """Move an upper end towards `gaffke_bound` in proportion to the share of pairs with equal contributions.

    If nearly all contributions are equal, the variance rests on the few exceptions in the sample. The end is moved all
    the way if half of the pairs are equal, and not at all if none are.

    Args:
        end: upper end by the variance, ``[...]``.
        mean: the mean.
        weight: `Placements.repeated` of the mean, the same for both ends.
        max_value: largest contribution of a record.
        error: probability that the end is too low.
    """
    if not weight.any():
        return end
    return end + np.minimum(2 * weight, 1.0) * np.maximum(gaffke_bound(mean, weight, max_value, error) - end, 0.0)


def gaffke_bound(mean: Placements, weight: Floats, max_value: float, error: float) -> Floats:
    """Return an upper bound of the mean that allows for values that were not observed.

    Members and non-members each get an additional record of weight ``weight`` with the largest contribution, and
    records are weighted at random (Dirichlet, the Bayesian bootstrap): the bound is a quantile of the mean over such
    weights. For one sample and a weight of 1 it is Gaffke's bound, and for zeros and ones Clopper & Pearson's. The
    quantile is that of a gamma distribution with the first three moments of the mean.

    References:
        Gaffke 2005; Learned-Miller & Thomas 2019 (one sample); Fay, Proschan & Brittain 2015 (two);
        Wilson & Hilferty 1931 (the quantile).
    """
    m, n = mean.members.size, mean.nonmembers.size
    sides = (
        _bootstrap_moments(mean.members, n, weight, max_value),
        _bootstrap_moments(mean.nonmembers, m, weight, max_value),
    )
    variance = sides[0][1] + sides[1][1]
    varies = variance > 1e-30
    spread = np.sqrt(np.where(varies, variance, 1.0))
    skewness = (sides[0][2] + sides[1][2]) / spread**3
    # The quantile of a gamma distribution of mean 0, variance 1 and this skewness (Wilson & Hilferty 1931).
    z, is_symmetric = special.ndtri(1 - error), np.abs(skewness) < 1e-6
    g = np.where(is_symmetric, 1.0, skewness)
    quantile = np.where(is_symmetric, z, (2 / g) * (np.maximum(1 + g * z / 6 - g**2 / 36, 0.0) ** 3 - 1))
    return sides[0][0] + np.where(varies, spread * quantile, 0.0)


def _bootstrap_moments(
    side: Side, opposite_size: Floats, weight: Floats, max_value: float
) -> tuple[Floats, Floats, Floats]:
    """Return mean, variance and third central moment over random weights, with one record added to either side."""
    # The opposite side, too, has an additional record with the largest contribution.
    values = (side.values * opposite_size[..., None] + (weight * max_value)[..., None]) / (opposite_size + weight)[
        ..., None
    ]
    total = side.size + weight
    mean = ((side.counts * values).sum(-1) + weight * max_value) / total
    gaps, gap = values - mean[..., None], max_value - mean
    second_moment = ((side.counts * gaps**2).sum(-1) + weight * gap**2) / total
    third_moment = ((side.counts * gaps**3).sum(-1) + weight * gap**3) / total
    return mean, second_moment / (total + 1), 2 * third_moment / ((total + 1) * (total + 2))


def check_scores(scores: object, members: object, name: str = "scores") -> tuple[Floats, Bools]:
    """Return checked scores ``[n]`` and membership ``[n]``, with at least one member and one non-member.

    Raises:
        divulge.InputError: NaN or infinity, nothing, lengths that differ, members or non-members only.
    """
    values = check_vector(scores, name)
    truth = check_mask(members, "members", (None,))
    if truth.shape != values.shape:
        raise InputError(f"members: {len(values)} values are needed (one per score), got {len(truth)}")
    count = int(truth.sum())
    if count in (0, len(truth)):
        raise InputError(
            f"members: at least 1 member and 1 non-member are needed, got {count} and {len(truth) - count}"
        )
    return values, truth


def split_scores(scores: object, members: object) -> tuple[Floats, Floats]:
    """Return the sorted scores of members and of non-members.

    Examples:
        >>> split_scores([0.1, 0.9, 0.4], [False, True, False])
        (array([0.9]), array([0.1, 0.4]))
    """
    values, truth = check_scores(scores, members)
    return np.sort(values[truth]), np.sort(values[~truth])


def count_above(ordered: Floats, thresholds: Floats) -> Floats:
    """Return how many of the sorted scores lie strictly above each threshold."""
    return (len(ordered) - np.searchsorted(ordered, thresholds, side="right")).astype(np.float64)


def min_nonmembers(fpr: float) -> int:
    """Return the smallest number of non-members that can resolve a false-positive rate of ``fpr``.

    Examples:
        >>> min_nonmembers(0.01)
        99
    """
    level = check_number(fpr, "fpr", above=0, below=1)
    return math.ceil(1 / Fraction(str(level))) - 1


def check_fpr(nonmembers: int, fpr: float) -> float:
    """Return ``fpr`` if so many non-members can resolve it.

    Raises:
        divulge.InputError: fewer than ``1/fpr - 1`` non-members.
    """
    n_required = min_nonmembers(fpr)
    if nonmembers < n_required:
        raise InputError(f"fpr: {n_required} non-members are needed for an FPR of {fpr:g}, got {nonmembers}")
    return float(fpr)


def two_sample_p_value(scores: Floats, other_scores: Floats, *, seed: int = 0) -> float:
    """Return twice the smaller p-value of Smirnov's test (any difference) and of the rank-sum test (a shift).

    Args:
        scores: of the first sample, ``[n]``.
        other_scores: of the second, ``[h]``.
        seed: of the permutations of `rank_sum_p_value`.

    Examples:
        >>> two_sample_p_value(np.arange(10.0), np.arange(10.0) + 0.5) > 0.9
        True
        >>> two_sample_p_value(np.arange(50.0), np.arange(50.0) + 30) < 1e-6
        True
    """
    return min(1.0, 2 * min(smirnov_p_value(scores, other_scores), rank_sum_p_value(scores, other_scores, seed=seed)))


def smirnov_p_value(scores: Floats, other_scores: Floats) -> float:
    """Return the two-sided p-value of Kolmogorov and Smirnov's test; with ties it is conservative."""
    method = "exact" if max(len(scores), len(other_scores)) <= _MAX_EXACT else "asymp"
    with warnings.catch_warnings():  # SciPy warns if rounding takes the p-value of equal samples above 1.
        warnings.filterwarnings("ignore", "ks_2samp: Exact calculation unsuccessful", RuntimeWarning)
        return float(stats.ks_2samp(scores, other_scores, method=method).pvalue)


def rank_sum_p_value(
    scores: Floats, other_scores: Floats, *, alternative: Alternative = "two-sided", seed: int = 0
) -> float:
    """Return the p-value of Mann and Whitney's test; "greater" tests whether ``other_scores`` scores higher.

    Without ties it is the normal approximation with continuity correction, which is conservative for all sizes. With
    ties it is a permutation p-value (999 permutations; 9,999 if these give at most 0.1), so its smallest value is 1e-4;
    more than 32 distinct scores are grouped by rank.

    Args:
        scores: of the first sample, ``[n]``.
        other_scores: of the second, ``[h]``.
        alternative: "two-sided" or "greater".
        seed: of the permutations.

    Examples:
        >>> rare = np.repeat([0.0, 1.0], [990, 10]), np.repeat([0.0, 1.0], [18, 2])
        >>> 0.01 < rank_sum_p_value(*rare) < 0.05  # a normal approximation says 2e-4
        True
    """
    pooled = np.concatenate([scores, other_scores])
    if len(np.unique(pooled)) == len(pooled):
        return float(stats.mannwhitneyu(other_scores, scores, alternative=alternative, method="asymptotic").pvalue)
    rank = stats.rankdata(pooled)
    # Many distinct scores are grouped by rank; equal scores share a group.
    is_grouped = len(np.unique(pooled)) > _GROUPS
    levels = np.floor((rank - 0.5) / len(pooled) * _GROUPS) if is_grouped else pooled
    _, group, size = np.unique(levels, return_inverse=True, return_counts=True)
    score = np.bincount(group, weights=rank) / size
    part = np.bincount(group[len(scores) :], minlength=len(size))
    rng = seeds.generator(seed, "rank sum")
    method = "count" if len(pooled) < 16 * len(size) else "marginals"
    mean, tolerance = len(other_scores) * (len(pooled) + 1) / 2, 1e-9 * len(pooled)
    observed = float(part @ score) - mean
    p = 0.0
    for divisions in _DIVISIONS:
        sums = rng.multivariate_hypergeometric(size, len(other_scores), size=divisions, method=method) @ score - mean
        as_extreme = sums >= observed - tolerance
        if alternative == "two-sided":
            as_extreme = np.abs(sums) >= abs(observed) - tolerance
        p = (1 + int(as_extreme.sum())) / (divisions + 1)
        if p > 0.1:
            break
    return p


@dataclass(frozen=True, slots=True)
class TextDifference:
    """One difference between two sets of texts.

    Args:
        description: the difference in words.
        p_value: of the difference, corrected for the number of tests.
        is_larger_in_first: whether a word is more frequent, years are later or texts longer in the first set.

    Examples:
        >>> print(TextDifference("“yes” is in 40 % of the members and 3 % of the non-members", 1e-9, True))
        “yes” is in 40 % of the members and 3 % of the non-members
    """

    description: str
    p_value: float
    is_larger_in_first: bool

    def __str__(self) -> str:
        return self.description


def text_differences(
    texts: Sequence[str],
    other_texts: Sequence[str],
    *,
    names: tuple[str, str] = ("members", "non-members"),
    false_alarm: float = 0.01,
    max_differences: int = 8,
    seed: int = 0,
) -> tuple[TextDifference, ...]:
    """Return the words, years and lengths by which two sets of texts differ, most significant first.

    Every word in five or more texts is tested by the number of texts with it (Fisher's exact test), years and lengths
    by their ranks (Mann and Whitney). Words share half of ``false_alarm`` by Bonferroni's correction, years and lengths
    the other half. So a difference between exchangeable sets is reported with probability at most ``false_alarm``.

    Args:
        texts: of the first set.
        other_texts: of the second set.
        names: of the two sets, for the descriptions.
        false_alarm: probability of reporting any difference between exchangeable sets.
        max_differences: maximum number of differences.
        seed: of the permutations that are used if ranks tie.

    Raises:
        divulge.InputError: something that is not a list of texts, no texts, numbers out of range.

    Examples:
        >>> old, new = [f"the king of {i}" for i in range(40)], [f"a tweet of {i}" for i in range(40)]
        >>> print(text_differences(old, new, names=("old", "new"))[0])
        “a” is in 0 % of the old and 100 % of the new
    """
    first_texts, second_texts = check_strings(texts, "texts"), check_strings(other_texts, "other_texts")
    for name, checked_texts in (("texts", first_texts), ("other_texts", second_texts)):
        if not checked_texts:
            raise InputError(f"{name}: at least 1 text is needed, got none")
    bound = check_number(false_alarm, "false_alarm", above=0, below=1)
    max_differences = check_integer(max_differences, "max_differences", minimum=1)
    checked_seed = check_integer(seed, "seed", minimum=0)
    if len(as_list(names, "names")) != 2:
        raise InputError(f"names: two are needed, got {format_value(names)}")
    word_tests = list(_compare_words(first_texts, second_texts, names))
    rank_tests = list(_compare_years_and_lengths(first_texts, second_texts, names, checked_seed))
    differences = [
        TextDifference(test.description, 2 * len(family) * test.p_value, test.is_larger_in_first)
        for family in (word_tests, rank_tests)
        for test in family
    ]
    significant = [difference for difference in differences if difference.p_value <= bound]
    return tuple(sorted(significant, key=lambda test: (test.p_value, test.description))[:max_differences])


def _compare_words(
    texts: Sequence[str], other_texts: Sequence[str], names: tuple[str, str]
) -> Iterator[TextDifference]:
    """Compare each word by the number of texts that contain it."""
    counter = sklearn_text.CountVectorizer(binary=True, token_pattern=r"\w+", min_df=_MIN_TEXTS)  # noqa: S106 - no password
    try:
        table = counter.fit_transform([*texts, *other_texts])
    except ValueError:  # No word is in so many texts.
        return
    n, m = len(texts), len(other_texts)
    n_first = np.asarray(table[:n].sum(axis=0)).ravel().astype(np.int64)
    n_total = np.asarray(table.sum(axis=0)).ravel().astype(np.int64)
    # Fisher's exact test, as twice the smaller tail.
    high = stats.hypergeom.sf(n_first - 1, n + m, n_total, n)
    low = stats.hypergeom.cdf(n_first, n + m, n_total, n)
    p_values = np.minimum(2 * np.minimum(high, low), 1.0)
    for word, count, p in zip(counter.get_feature_names_out(), n_first, p_values, strict=True):
        second_count = n_total[counter.vocabulary_[word]] - count
        shortened = word if len(word) <= _MAX_SHOWN_CHARACTERS else f"{word[:_MAX_SHOWN_CHARACTERS]}…"
        text = f"“{shortened}” is in {count / n:.0%} of the {names[0]} and {second_count / m:.0%} of the {names[1]}"
        yield TextDifference(text.replace("%", " %"), float(p), bool(count / n > second_count / m))


def _compare_years_and_lengths(
    texts: Sequence[str], other_texts: Sequence[str], names: tuple[str, str], seed: int
) -> Iterator[TextDifference]:
    """Compare the newest year that each text names, and the lengths of the texts."""
    sides = texts, other_texts
    years = [[max(map(int, matches)) for text in side if (matches := _YEAR.findall(text))] for side in sides]
    lengths = [[len(text) for text in side] for side in sides]
    for (first_values, second_values), template in (
        (years, "the newest year named is {:.0f} in the median of the {} and {:.0f} in that of the {}"),
        (lengths, "the median length is {:.0f} characters of the {} and {:.0f} of the {}"),
    ):
        if min(len(first_values), len(second_values)) < _MIN_TEXTS:
            continue
        x, y = np.asarray(first_values, dtype=np.float64), np.asarray(second_values, dtype=np.float64)
        p_value = rank_sum_p_value(y, x, seed=seed)
        is_first_larger = bool(stats.mannwhitneyu(x, y).statistic > len(x) * len(y) / 2)
        text = template.format(np.median(x), names[0], np.median(y), names[1])
        if round(np.median(x)) == round(np.median(y)):
            text += f" (on the whole, it is the larger one of the {names[not is_first_larger]})"
        yield TextDifference(text, p_value, is_first_larger)
