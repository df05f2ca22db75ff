"""Confidence intervals for rates, differences of rates, and order statistics."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge.errors import InputError
from divulge.types import Estimate
from divulge.validation import check_integer, check_mask, check_number, to_numpy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from divulge.types import Floats, Ints


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
    n = check_integer(trials, "trials", least=1, most=10**15)
    k = int(check_number(successes, "successes", above=0, below=n, closed=True))
    error = (1 - check_number(confidence, "confidence", above=0, below=1)) / 2
    return Estimate(
        k / n,
        float(clopper_pearson_lower(k, n, error)),
        float(clopper_pearson_upper(k, n, error)),
        confidence,
        "clopper-pearson",
    )


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


EXACT = "exact unconditional (Buehler), tables ordered by pooled z"
PAIRED = "clopper-pearson on the trials that differ"
_TOLERANCE, _RELATIVE_TOLERANCE = 2e-4, 5e-3  # of the bound; the second is multiplied by the range searched
_ERROR_SHARE = 0.05  # share of the error that is spent on the interval of the second rate
_SPREAD = 8.0  # standard deviations of the second count that are summed; counts outside are taken to be extreme
_MAX_TRIALS = 10**6
_PRECISION = 1e-6  # of the first rate


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
    n = check_integer(trials, "trials", least=1, most=_MAX_TRIALS)
    m = check_integer(other_trials, "other_trials", least=1, most=_MAX_TRIALS)
    k = check_integer(successes, "successes", least=0, most=n)
    j = check_integer(other_successes, "other_successes", least=0, most=m)
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
        0.1000 [-0.0013, 0.1891]
    """
    n = int(np.size(to_numpy(first, "first")))
    if not n:
        raise InputError("first: at least 1 trial is needed, got 0")
    one, other = check_mask(first, "first", (n,)), check_mask(second, "second", (n,))
    error = (1 - check_number(confidence, "confidence", above=0, below=1)) / 4
    only_one, only_other = int((one & ~other).sum()), int((other & ~one).sum())
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
    """

    min_count: Ints
    n: int
    m: int

    def first_rate(self, second: float, error: float, low: float = 0.0, high: float = 1.0) -> float:
        """Return the first rate at which these tables have probability ``error``; infinity if there is none.

        It increases with ``second``, so the results of neighbours limit the search. The result is too low by at most
        `_PRECISION`, and never too high.
        """
        reach = _SPREAD * math.sqrt(self.m * second * (1 - second)) + _SPREAD
        j = np.arange(max(0, int(self.m * second - reach)), min(self.m, math.ceil(self.m * second + reach)) + 1)
        weights = np.exp(_log_binomial(j, self.m, second))
        rest = max(0.0, 1 - float(weights.sum()))
        min_count = self.min_count[j]
        possible = min_count <= self.n
        weights, min_count = weights[possible], min_count[possible]
        if weights.sum() + rest <= error:
            return math.inf
        high = min(high, 1.0)
        while high - low > _PRECISION:
            middle = (low + high) / 2
            above = np.where(
                min_count > 0, special.betainc(np.maximum(min_count, 1), self.n - min_count + 1, middle), 1.0
            )
            low, high = (low, middle) if weights @ above + rest > error else (middle, high)
        return low


@functools.lru_cache(maxsize=4096)  # Each bound takes long, and reports of one model need the same counts again.
def _difference_lower_bound(k: int, n: int, j: int, m: int, error: float) -> float:
    """Return a lower bound of the first rate minus the second, which errs with at most ``error``."""
    extreme = _ExtremeTables(_min_extreme_counts(k, n, j, m), n, m)
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


def _log_binomial(k: Ints, n: int, share: float) -> Floats:
    choose = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return choose + special.xlogy(k, share) + special.xlog1py(n - k, -share)
