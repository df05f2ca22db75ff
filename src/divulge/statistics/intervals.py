"""Confidence intervals for shares and for ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge.types import Estimate
from divulge.validation import check_integer, check_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from divulge.types import Floats


def lower(successes: ArrayLike, trials: ArrayLike, error: float) -> Floats:
    """Clopper-Pearson lower bound of a share; P(share < bound) ≤ ``error``.

    Examples:
        >>> lower(10, 10, 0.05).round(4)
        np.float64(0.7411)
    """
    k, n = np.asarray(successes, np.float64), np.asarray(trials, np.float64)
    return np.where(k > 0, special.betaincinv(np.maximum(k, 1), n - k + 1, error), 0.0)[()]


def upper(successes: ArrayLike, trials: ArrayLike, error: float) -> Floats:
    """Clopper-Pearson upper bound of a share; P(share > bound) ≤ ``error``."""
    k, n = np.asarray(successes, np.float64), np.asarray(trials, np.float64)
    return 1 - lower(n - k, n, error)


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
    return Estimate(k / n, float(lower(k, n, error)), float(upper(k, n, error)), confidence, "clopper-pearson")


def rank_below(n: int, rate: ArrayLike, error: float) -> Floats:
    """Largest rank r, from the top, whose order statistic is surely high enough; 0 when there is none.

    The r-th largest of n draws is at least the upper ``rate``-quantile except with probability ``error``,
    for any distribution, with or without ties: P(Binomial(n, rate) < r) ≤ error.
    """
    return _binomial_quantile(error, n, rate)


def rank_above(n: int, rate: ArrayLike, error: float) -> Floats:
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
