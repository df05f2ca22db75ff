"""How large a share of the candidates was used for training, from counts alone.

Among candidates that score no higher than some calibration score, non-members are expected at the rate
of the calibration itself; so the share of non-members is at most the candidates' share there over the
calibration's (Storey 2002, on the conformal grid), with equality when no member scores that low.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks
from divulge.types import Estimate

if TYPE_CHECKING:
    from divulge.decisions.counts import Counts
    from divulge.types import Floats

# Grid points λ; the region of each is the lowest 1 - λ of calibration.
_GRID = (0.1, 0.25, 0.5, 0.75, 0.9)
# Standard errors by which a wider region may disagree with a narrower one (Lepski's method).
_TOLERANCE = 2.0


def share(counts: Counts, *, confidence: float = 0.95) -> Estimate:
    """The estimated share of members among the candidates.

    A wide region of low scores is precise but may contain members, a narrow one is the reverse; the
    widest that agrees with all narrower ones is taken (Lepski's method). The lower end is a proven
    bound whatever the members score: Clopper-Pearson for the candidates and the Beta law of an order
    statistic for the calibration, shared out over the whole grid. The upper end is of the same make but
    rests on an assumption that no data can check: members do not score among the lowest tenth of
    non-members. Without it the only upper bound is 1.

    Args:
        counts: candidates above each calibration score.
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: a confidence outside (0, 1).

    Examples:
        >>> from divulge.decisions.counts import Counts
        >>> rng = np.random.default_rng(0)
        >>> scores = np.append(rng.normal(4, 1, 300), rng.normal(size=700))
        >>> print(share(Counts.empty(rng.normal(size=1000)).add(scores)))
        0.2787 [0.2073, 0.6296]
    """
    checks.number(confidence, "confidence", above=0, below=1)
    m, n = counts.total, len(counts.calibration)
    k = np.unique([min(max(math.floor(lam * (n + 1) + 1e-9), 2), n + 1) for lam in _GRID])
    low_scoring = m - counts.above[-(k - 1)]
    nulls = _lepski(low_scoring, k, m, n)
    error = (1 - confidence) / 2
    low = _proven(low_scoring, k, m, n, error / (2 * len(k)))
    high = _pure(int(low_scoring[-1]), int(k[-1]), m, n, error / 2)
    value = min(max(1 - nulls, 0.0), 1.0)
    return Estimate(
        value,
        min(low, value),
        max(high, value),
        confidence,
        "ratio of low scores (Lepski); low end proven, high end assumes members score above the lowest tenth "
        "of non-members",
    )


def _lepski(low_scoring: np.ndarray, k: np.ndarray, m: int, n: int) -> float:
    expected = (n + 2 - k) / (n + 1)
    nulls = low_scoring / (m * expected)
    rate = np.clip(low_scoring / m, 1 / m, 1)
    variance = nulls**2 * ((1 - rate) / (rate * m) + np.maximum(1 - expected, 0) / (expected * n))
    for i in range(len(k)):
        spread = np.sqrt(np.maximum(variance[i + 1 :] - variance[i], 0))
        if np.all(nulls[i] - nulls[i + 1 :] <= _TOLERANCE * spread):
            return float(nulls[i])
    return float(nulls[-1])


def _proven(low_scoring: np.ndarray, k: np.ndarray, m: int, n: int, error: float) -> float:
    from scipy.special import betaincinv

    upper: Floats = betaincinv(low_scoring + 1.0, np.maximum(m - low_scoring, 1), 1 - error)
    candidates = np.where(low_scoring < m, upper, 1.0)
    calibration = betaincinv(n + 2.0 - k, k - 1.0, error)
    return float(np.max(1 - candidates / calibration, initial=0.0))


def _pure(low_scoring: int, k: int, m: int, n: int, error: float) -> float:
    from scipy.special import betaincinv

    candidates = float(betaincinv(low_scoring, m - low_scoring + 1.0, error)) if low_scoring else 0.0
    return max(1 - candidates / float(betaincinv(n + 2.0 - k, k - 1.0, 1 - error)), 0.0)
