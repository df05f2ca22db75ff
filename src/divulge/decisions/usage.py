"""Estimates of the share of candidates that were used for training, from counts alone.

Among candidates below some calibration score, non-members are expected at the rate of the calibration itself. So the
share of non-members is at most the candidates' rate there over the calibration's (Storey 2002, on the conformal grid),
with equality if no member scores that low. If scores of known members are available as well, the candidates are a
mixture of two known distributions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge import statistics
from divulge.types import Estimate
from divulge.validation import check_number, check_vector

if TYPE_CHECKING:
    from divulge.decisions.counts import Counts
    from divulge.types import Floats

# Grid points λ; the region of each is the lowest share 1 - λ of the calibration.
_GRID = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
# Number of standard errors by which a wider region may differ from a narrower one (Lepski's method).
_TOLERANCE = 2.0
# Ratio to its nominal size up to which ties may enlarge the lowest tenth; beyond, members cannot be assumed to avoid
# it.
_MAX_TIE_RATIO = 2.0
# For known members: cuts, as the share above them of an equal mixture of members and calibration; pseudo-observations
# distributed over the regions, and put on either side of a cut; number of shares tried for the interval.
_CUTS = (0.8, 0.5, 0.25, 0.1, 0.03)
_PSEUDO_COUNTS = 2.0
_PSEUDO_PER_SIDE = 1.5
_N_SHARES = 4001


def share(counts: Counts, members: object = None, *, confidence: float = 0.95) -> Estimate:
    """Return the estimated share of members among the candidates.

    With ``members``, see `mixture`. Without, a wide region of low scores has a small variance but may contain members,
    a narrow one the reverse; the widest that agrees with all narrower ones is taken (Lepski's method).

    The lower end is a proven bound for any distribution of members' scores: Clopper-Pearson for the candidates and the
    Beta distribution of an order statistic for the calibration, with the error divided over the whole grid. The upper
    end is computed alike but rests on an assumption that no data can check: members do not score among the lowest tenth
    of non-members. It is 1 where ties make that tenth more than a fifth, or where more candidates score that low than
    any share of such members allows.

    Args:
        counts: candidates above each calibration score.
        members: scores of documents known to have been used, ``[k]``: planted ones, or training documents of a similar
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
        0.2856 [0.2348, 0.6328]
        >>> print(share(counts, rng.normal(4, 1, 200)))
        0.2929 [0.2580, 0.3290]
    """
    check_number(confidence, "confidence", above=0, below=1)
    if members is not None:
        return mixture(counts, members, confidence=confidence)
    m, n = counts.total, len(counts.calibration)
    places = np.unique([n + 1 - min(max(math.floor(lam * (n + 1) + 1e-9), 2), n + 1) for lam in _GRID])[::-1]
    region_sizes = np.searchsorted(counts.calibration, counts.calibration[places], side="right")
    n_low = m - counts.above[places]
    nonmembers = _lepski_nonmember_share(n_low, region_sizes, m, n)
    error = (1 - confidence) / 2
    # Of each region, that at least ``places + 1`` calibration scores lie in it holds with or without ties.
    each = error / (2 * len(places))
    highest_rates = statistics.clopper_pearson_upper(n_low, m, each)
    low = float(np.max(1 - highest_rates / statistics.clopper_pearson_lower(places + 1, n, each), initial=0.0))
    assumption = f"assumes members score above the lowest {region_sizes[-1] / n:.0%} of non-members"
    # If the narrowest region holds no member; below 0 if more candidates score low than any share allows.
    lowest_rate = statistics.clopper_pearson_lower(int(n_low[-1]), m, error / 2)
    high = 1 - float(lowest_rate / statistics.clopper_pearson_upper(int(region_sizes[-1]), n, error / 2))
    if region_sizes[-1] > _MAX_TIE_RATIO * (places[-1] + 1):
        high, assumption = 1.0, "unknown, as too many low scores tie"
    elif high < 0:  # Members score low, or non-members do not score like the calibration.
        high, assumption = 1.0, "unknown, as more candidates than non-members score low"
    value = min(max(1 - nonmembers, 0.0), 1.0)
    method = f"ratio of low scores (Lepski); low end proven, high end {assumption}"
    return Estimate(value, min(low, value), max(high, value), confidence, method)


def _lepski_nonmember_share(low_scoring: np.ndarray, region: np.ndarray, m: int, n: int) -> float:
    """Return the share of non-members by the widest region that agrees with all narrower ones; widest first."""
    expected = region / (n + 1)
    nonmembers = low_scoring / (m * expected)
    for i in range(len(region)):
        # The variance of the narrower regions if this estimate were right; their own estimates are too noisy for it.
        nonmember_share = min(nonmembers[i], 1.0)
        variance = np.maximum(1 - expected, 0) / expected * (nonmember_share / m + nonmember_share**2 / n)
        spread = np.sqrt(np.maximum(variance[i + 1 :] - variance[i], 0))
        if np.all(nonmembers[i] - nonmembers[i + 1 :] <= _TOLERANCE * spread):
            return float(nonmembers[i])
    return float(nonmembers[-1])


def mixture(counts: Counts, members: object, *, confidence: float = 0.95) -> Estimate:
    """Return the share of members among candidates that score as a mixture of known members and calibration.

    The estimate is the maximum-likelihood share given the numbers of candidates in a few regions of the score, cut at
    quantiles of an equal mixture of both. With a single cut, where members and non-members differ most, and the rates
    of non-members taken from a similar model instead of the calibration, it is DUCI's estimator (Tong et al., "How much
    of my dataset did you use?", ICLR 2025). The interval contains the shares that no cut rejects: at each cut the rate
    of candidates above it must be a mixture of the rates of members and calibration, within the standard error of all
    three (Fieller's method, with pseudo-observations on either side of the cut as in Agresti and Caffo, the error
    divided over the cuts). Cuts are not placed where the two differ most, as few known members differ somewhere by
    chance.

    Args:
        counts: candidates above each calibration score.
        members: scores of documents known to have been used, ``[k]``. Members among the candidates must score like
            them; scores of another model need one trained in the same way.
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: a confidence outside (0, 1), NaN or infinity.

    Examples:
        >>> from divulge.decisions.counts import Counts
        >>> counts = Counts.empty(range(100)).add([*range(0, 100, 2), *range(200, 250)])
        >>> print(mixture(counts, range(200, 300)))
        0.5049 [0.3845, 0.6155]
    """
    check_number(confidence, "confidence", above=0, below=1)
    member_scores = np.sort(check_vector(members, "members"))
    # The cuts lie where shares `_CUTS` of an equal mixture of calibration and known members are above them.
    share_above = (
        _count_above(counts.calibration, counts.calibration) / len(counts.calibration)
        + _count_above(member_scores, counts.calibration) / len(member_scores)
    ) / 2
    cuts = counts.calibration[[int(np.argmin(np.abs(share_above - target))) for target in _CUTS]]
    cut_places = np.searchsorted(counts.calibration, np.unique(cuts), side="left")
    edges = counts.calibration[cut_places]
    n_above = [counts.above[cut_places], _count_above(member_scores, edges), _count_above(counts.calibration, edges)]
    sizes = (counts.total, len(member_scores), len(counts.calibration))
    bin_counts = [-np.diff([size, *above, 0]) for size, above in zip(sizes, n_above, strict=True)]
    member_rates = (bin_counts[1] + _PSEUDO_COUNTS / len(cut_places)) / (
        sizes[1] + _PSEUDO_COUNTS * (1 + 1 / len(cut_places))
    )
    # One pseudo-observation lies above the largest calibration score, as in the conformal p-value.
    calibration_rates = np.append(bin_counts[2][:-1], bin_counts[2][-1] + 1) / (sizes[2] + 1)
    value = _most_likely(bin_counts[0], member_rates, calibration_rates)
    # The interval holds the shares that no cut rejects.
    shares = np.linspace(0, 1, _N_SHARES)
    rates = [
        (counts[:, None] + _PSEUDO_PER_SIDE) / (size + 2 * _PSEUDO_PER_SIDE)
        for counts, size in zip(n_above, sizes, strict=True)
    ]
    variances = [rate * (1 - rate) / (size + 2 * _PSEUDO_PER_SIDE) for rate, size in zip(rates, sizes, strict=True)]
    differences = rates[0] - shares * rates[1] - (1 - shares) * rates[2]
    variance = variances[0] + shares**2 * variances[1] + (1 - shares) ** 2 * variances[2]
    limit = special.ndtri(1 - (1 - confidence) / (2 * len(rates[0])))
    compatible_shares = shares[np.all(differences**2 <= limit**2 * variance, axis=0)]
    step = 1 / (_N_SHARES - 1)  # The end of the interval lies between the last compatible share and the next.
    low, high = (
        (max(compatible_shares[0] - step, 0.0), min(compatible_shares[-1] + step, 1.0))
        if len(compatible_shares)
        else (1.0, 0.0)
    )
    assumption = "assumes that all members score like the known ones"
    if low > high:
        low, high, assumption = 0.0, 1.0, "no share fits the candidates: their members do not score like the known ones"
    method = f"most likely mixture of known members and calibration, Fieller's interval; {assumption}"
    return Estimate(value, min(low, value), max(high, value), confidence, method)


def _count_above(ordered: Floats, cuts: Floats) -> np.ndarray:
    return len(ordered) - np.searchsorted(ordered, cuts, side="right")


def _most_likely(candidate_counts: np.ndarray, member_rates: Floats, calibration_rates: Floats) -> float:
    """Return the share in [0, 1] that maximises the concave log-likelihood, by bisection of its slope."""

    def slope(value: float) -> float:
        return float(
            candidate_counts
            @ ((member_rates - calibration_rates) / (value * member_rates + (1 - value) * calibration_rates))
        )

    low, high = 0.0, 1.0
    if slope(low) <= 0 or slope(high) >= 0:
        return low if slope(low) <= 0 else high
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return (low + high) / 2
