"""How large a share of the candidates was used for training, from counts alone.

Among candidates that score no higher than some calibration score, non-members are expected at the rate
of the calibration itself; so the share of non-members is at most the candidates' share there over the
calibration's (Storey 2002, on the conformal grid), with equality when no member scores that low. Where
scores of known members can be had as well, the candidates are a mixture of two known kinds.
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
_GRID = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
# Standard errors by which a wider region may disagree with a narrower one (Lepski's method).
_TOLERANCE = 2.0
# Where the scores of members are known: regions beside the best single cut, pseudo-observations shared out
# over them, and shares of members that the interval tries.
_REGIONS = 5
_PSEUDO = 2.0
_TRIED = 4001


def share(counts: Counts, members: object = None, *, confidence: float = 0.95) -> Estimate:
    """The estimated share of members among the candidates.

    With ``members`` it is that of a mixture of two known kinds, see `mixture`. Without, a wide region of
    low scores is precise but may contain members, a narrow one is the reverse; the widest that agrees with
    all narrower ones is taken (Lepski's method). The lower end is then a proven bound whatever the members
    score: Clopper-Pearson for the candidates and the Beta law of an order statistic for the calibration,
    shared out over the whole grid. The upper end is of the same make but rests on an assumption that no
    data can check: members do not score among the lowest tenth of non-members. Without it the only upper
    bound is 1.

    Args:
        counts: candidates above each calibration score.
        members: scores of documents known to have been used, ``[k]``: planted ones, or those of a twin
            model whose training set is known.
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: a confidence outside (0, 1), NaN or infinity.

    Examples:
        >>> from divulge.decisions.counts import Counts
        >>> rng = np.random.default_rng(0)
        >>> scores = np.append(rng.normal(4, 1, 300), rng.normal(size=700))
        >>> counts = Counts.empty(rng.normal(size=1000)).add(scores)
        >>> print(share(counts))
        0.2856 [0.2348, 0.6296]
        >>> print(share(counts, rng.normal(4, 1, 200)))
        0.2930 [0.2550, 0.3340]
    """
    checks.number(confidence, "confidence", above=0, below=1)
    if members is not None:
        return mixture(counts, members, confidence=confidence)
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
    for i in range(len(k)):
        # What the narrower regions would scatter by if this one were right; their own estimates are too noisy to say.
        here = min(nulls[i], 1.0)
        variance = np.maximum(1 - expected, 0) / expected * (here / m + here**2 / n)
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


def mixture(counts: Counts, members: object, *, confidence: float = 0.95) -> Estimate:
    """The share of members among candidates that are a mixture of two kinds with known scores.

    Most likely share given the numbers of candidates in a few regions of the score: five of equal weight,
    cut once more where members and non-members differ most. With that one cut alone, and the rates of
    non-members taken from a twin instead of the calibration, it is DUCI's estimator (Tong et al.,
    "How much of my dataset did you use?", ICLR 2025). The interval holds the shares that a score test
    does not reject, with the scatter of candidates, members and calibration taken into account.

    Args:
        counts: candidates above each calibration score.
        members: scores of documents known to have been used, ``[k]``. Members among the candidates
            must score like them; under a twin model that means a twin trained alike.
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: a confidence outside (0, 1), NaN or infinity.

    Examples:
        >>> from divulge.decisions.counts import Counts
        >>> counts = Counts.empty(range(100)).add([*range(50), *range(200, 250)])
        >>> round(mixture(counts, range(200, 300)).value, 2)
        0.5
    """
    from scipy.special import ndtri

    checks.number(confidence, "confidence", above=0, below=1)
    known = np.sort(checks.vector(members, "members"))
    at = _cuts(counts.calibration, known)
    edges = counts.calibration[at]
    up = [counts.above[at], _above(known, edges), _above(counts.calibration, edges)]
    sizes = (counts.total, len(known), len(counts.calibration))
    held = [-np.diff([size, *above, 0]) for size, above in zip(sizes, up, strict=True)]
    ones = (held[1] + _PSEUDO / len(at)) / (sizes[1] + _PSEUDO * (1 + 1 / len(at)))
    # Cuts at calibration scores leave 1 / (n + 1) above the largest: the one of the conformal p-value.
    zeros = np.append(held[2][:-1], held[2][-1] + 1) / (sizes[2] + 1)
    value = _most_likely(held[0], ones, zeros)
    tried = np.linspace(0, 1, _TRIED)[:, None]
    weight = (ones - zeros) / (tried * ones + (1 - tried) * zeros)
    score = weight @ held[0] / counts.total
    expected = tried * ones + (1 - tried) * zeros
    scatter = _variance(weight, expected) / sizes[0]
    scatter += tried[:, 0] ** 2 * _variance(weight, ones) / sizes[1]
    scatter += (1 - tried[:, 0]) ** 2 * _variance(weight, zeros) / sizes[2]
    # One cut was chosen by the same scores, from about as many as there are regions.
    limit = ndtri(1 - (1 - confidence) / (2 * _REGIONS))
    kept = tried[np.abs(score) <= limit * np.sqrt(scatter), 0]
    low, high = (float(kept[0]), float(kept[-1])) if len(kept) else (value, value)
    return Estimate(
        value,
        min(low, value),
        max(high, value),
        confidence,
        "most likely mixture of known members and calibration, score interval; assumes members score like the known",
    )


def _cuts(calibration: Floats, members: Floats) -> np.ndarray:
    """Places in the calibration where the score is cut: quantiles of both kinds, and the best single cut."""
    both = np.sort(np.append(calibration, members))
    wanted = both[(len(both) * np.arange(1, _REGIONS)) // _REGIONS]
    places = np.maximum(np.searchsorted(calibration, wanted, side="right") - 1, 0)
    gap = _above(members, calibration) / len(members) - _above(calibration, calibration) / len(calibration)
    found = calibration[[*places, int(np.argmax(gap))]]
    return np.searchsorted(calibration, np.unique(found), side="left")


def _above(ordered: Floats, cuts: Floats) -> np.ndarray:
    return len(ordered) - np.searchsorted(ordered, cuts, side="right")


def _most_likely(held: np.ndarray, ones: Floats, zeros: Floats) -> float:
    """The share in [0, 1] where the concave log-likelihood is largest, by bisection of its slope."""

    def slope(value: float) -> float:
        return float(held @ ((ones - zeros) / (value * ones + (1 - value) * zeros)))

    low, high = 0.0, 1.0
    if slope(low) <= 0 or slope(high) >= 0:
        return low if slope(low) <= 0 else high
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return (low + high) / 2


def _variance(weight: Floats, p: Floats) -> Floats:
    mean = np.sum(weight * p, axis=1)
    return np.sum(weight**2 * p, axis=1) - mean**2
