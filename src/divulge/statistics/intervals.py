"""Confidence intervals for shares and for ranks."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge.types import Estimate
from divulge.validation import check_integer, check_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from divulge.types import Floats, Ints


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, error: float) -> Floats:
    """Clopper-Pearson lower bound of a share; P(share < bound) ≤ ``error``.

    Examples:
        >>> clopper_pearson_lower(10, 10, 0.05).round(4)
        np.float64(0.7411)
    """
    k, n = np.asarray(successes, np.float64), np.asarray(trials, np.float64)
    return np.where(k > 0, special.betaincinv(np.maximum(k, 1), n - k + 1, error), 0.0)[()]


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, error: float) -> Floats:
    """Clopper-Pearson upper bound of a share; P(share > bound) ≤ ``error``."""
    k, n = np.asarray(successes, np.float64), np.asarray(trials, np.float64)
    return 1 - clopper_pearson_lower(n - k, n, error)


def proportion(successes: int, trials: int, confidence: float = 0.95) -> Estimate:
    """A share with its exact (Clopper-Pearson) interval.

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
    """Largest rank r, from the top, whose order statistic is surely high enough; 0 when there is none.

    The r-th largest of n draws is at least the upper ``rate``-quantile except with probability ``error``,
    for any distribution, with or without ties: P(Binomial(n, rate) < r) ≤ error.
    """
    return _binomial_quantile(error, n, rate)


def lower_bound_rank(n: int, rate: ArrayLike, error: float) -> Floats:
    """Smallest rank r, from the top, whose order statistic is surely low enough; n + 1 when there is none.

    The r-th largest of n draws is at most the upper ``rate``-quantile except with probability ``error``:
    P(Binomial(n, rate) ≥ r) ≤ error.
    """
    return _binomial_quantile(1 - error, n, rate) + 1


def _binomial_quantile(level: float, n: int, rate: ArrayLike) -> Floats:
    """Smallest k with P(Binomial(n, rate) ≤ k) ≥ level."""
    p = np.clip(np.asarray(rate, np.float64), 1e-300, 1 - 1e-16)
    # bdtrik solves for a real k; NaN stands for "below zero".
    k = np.ceil(np.nan_to_num(special.bdtrik(level, n, p), nan=0.0))
    k = np.where(special.bdtr(np.maximum(k - 1, 0), n, p) >= level, np.maximum(k - 1, 0), k)
    return np.where(np.asarray(rate) >= 1, float(n), np.minimum(k, n))


EXACT = "exact unconditional (Buehler), tables ordered by pooled z"
_LOOSE, _LOOSER = 2e-4, 5e-3  # how far below the best bound the reported one may lie; the second, by range searched
_SPENT = 0.05  # share of the error that goes to where the second share lies
_SPREAD = 8.0  # standard deviations of the second count that are looked at; what lies outside counts as extreme
_MOST = 10**6
_CLOSE = 1e-6


def rate_difference(
    successes: int, trials: int, other_successes: int, other_trials: int, confidence: float = 0.95
) -> Estimate:
    """The first share less the second, with an interval that holds for any sizes and any two shares.

    Buehler's bound: of all pairs of shares that make tables as extreme as the one seen likely enough, the smallest
    difference. Tables are ordered by the pooled z statistic, as in the exact unconditional test (Suissa & Shuster
    1985). The second share is sought in an interval that misses it with a twentieth of the error (Berger & Boos
    1994), cell by cell, each with a bound that holds for the whole cell: nothing rests on a grid being fine enough.

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
    n = check_integer(trials, "trials", least=1, most=_MOST)
    m = check_integer(other_trials, "other_trials", least=1, most=_MOST)
    k = check_integer(successes, "successes", least=0, most=n)
    j = check_integer(other_successes, "other_successes", least=0, most=m)
    error = (1 - check_number(confidence, "confidence", above=0, below=1)) / 2
    low, high = _lower(k, n, j, m, error), -_lower(j, m, k, n, error)
    return Estimate(k / n - j / m, low, high, confidence, EXACT)


@dataclass(frozen=True, slots=True, eq=False)
class _Extreme:
    """The tables at least as extreme as the one seen: those with ``least[j]`` or more in the first sample.

    Args:
        least: by the count of the second sample, ``[m + 1]``, rising; n + 1 where no count is enough.
        n: size of the first sample.
        m: size of the second one.
    """

    least: Ints
    n: int
    m: int

    def first_share(self, second: float, error: float, low: float = 0.0, high: float = 1.0) -> float:
        """The share of the first sample at which these tables have probability ``error``; infinite where none has.

        It rises with ``second``, so neighbours give the ends between which it is sought. It comes out too low by
        `_CLOSE` at most, never too high.
        """
        reach = _SPREAD * math.sqrt(self.m * second * (1 - second)) + _SPREAD
        j = np.arange(max(0, int(self.m * second - reach)), min(self.m, math.ceil(self.m * second + reach)) + 1)
        weights = np.exp(_log_binomial(j, self.m, second))
        rest = max(0.0, 1 - float(weights.sum()))
        least = self.least[j]
        possible = least <= self.n
        weights, least = weights[possible], least[possible]
        if weights.sum() + rest <= error:
            return math.inf
        high = min(high, 1.0)
        while high - low > _CLOSE:
            middle = (low + high) / 2
            above = np.where(least > 0, special.betainc(np.maximum(least, 1), self.n - least + 1, middle), 1.0)
            low, high = (low, middle) if weights @ above + rest > error else (middle, high)
        return low


@functools.lru_cache(maxsize=4096)  # of one model and two sets the same counts come back, and each takes long
def _lower(k: int, n: int, j: int, m: int, error: float) -> float:
    """Lower bound of the first share less the second, which errs with at most ``error``."""
    extreme = _Extreme(_frontier(k, n, j, m), n, m)
    spent = error * _SPENT
    ends = float(clopper_pearson_lower(j, m, spent / 2)), float(clopper_pearson_upper(j, m, spent / 2))
    shares = {end: extreme.first_share(end, error - spent) for end in ends}
    cells, tolerance = [ends], _LOOSE + _LOOSER * (ends[1] - ends[0])
    while True:
        # The first share rises with the second, so nowhere in a cell is their difference below that of its ends.
        a, b = min(cells, key=lambda cell: shares[cell[0]] - cell[1])
        best = min(share - end for end, share in shares.items())
        bound = shares[a] - b
        if best - bound <= tolerance:
            return max(-1.0, bound)
        middle = (a + b) / 2
        shares[middle] = extreme.first_share(middle, error - spent, shares[a], shares[b])
        cells.remove((a, b))
        cells += [(a, middle), (middle, b)]


def _frontier(k: int, n: int, j: int, m: int) -> Ints:
    """For each count of the second sample, the least count of the first that is as extreme as k and j, ``[m + 1]``."""
    seen = _pooled(np.array([k]), n, np.array([j]), m)[0] - 1e-9
    other = np.arange(m + 1)
    low, high = np.full(m + 1, -1), np.full(m + 1, n + 1)  # not extreme, extreme
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = _pooled(np.clip(middle, 0, n), n, other, m) >= seen
        open_ = high - low > 1
        high = np.where(open_ & enough, middle, high)
        low = np.where(open_ & ~enough, middle, low)
    return high


def _pooled(k: Ints, n: int, j: Ints, m: int) -> Floats:
    """The pooled z statistic, which rises with k and falls with j; 0 where all or none are successes."""
    share = (k + j) / (n + m)
    variance = share * (1 - share) * (1 / n + 1 / m)
    return np.where(variance > 0, (k / n - j / m) / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)


def _log_binomial(k: Ints, n: int, share: float) -> Floats:
    choose = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return choose + special.xlogy(k, share) + special.xlog1py(n - k, -share)
