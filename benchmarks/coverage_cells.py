"""Distributions of scores on which intervals are tried, and the intervals that were used before."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit, rel_entr, stdtrit
from scipy.stats import binom, norm

from divulge import statistics

FINE = 200


def _bins(edges, mean):
    return np.diff(norm.cdf(np.r_[-np.inf, edges, np.inf], mean))


def rounded(levels, area):
    """Normal scores of a given AUC, rounded to so many levels: shares of members and of non-members at each."""
    distance = norm.ppf(area) * 2**0.5
    edges = np.linspace(-2, 2 + distance, levels + 1)[1:-1]
    return _bins(edges, distance), _bins(edges, 0.0)


def zeros(share, distance, members=None):
    """Zeros among normal scores; so many of the members', the same share unless given."""
    edges = np.linspace(-4, 4 + distance, FINE)
    zero_index = np.searchsorted(edges, 0.0)
    pmfs = []
    for mean, zero in ((distance, share if members is None else members), (0.0, share)):
        pmf = (1 - zero) * _bins(edges, mean)
        pmf[zero_index] += zero
        pmfs.append(pmf)
    return tuple(pmfs)


def saturated(members, nonmembers, distance):
    """Normal scores of which a share stands at the upper end of the scale."""
    edges = np.linspace(-4, 4 + distance, FINE)
    shares = ((members, distance), (nonmembers, 0.0))
    return tuple(np.r_[(1 - top) * _bins(edges, mean), top] for top, mean in shares)


def outliers(share, distance):
    """Normal scores; a share of members ranks below all others, a share of non-members above."""
    edges = np.linspace(-4, 4 + distance, FINE)
    members = np.r_[share, (1 - share) * _bins(edges, distance), 0.0]
    return members, np.r_[0.0, (1 - share) * _bins(edges, 0.0), share]


def two(members, nonmembers=None):
    """Zeros and ones, so many ones among members and among non-members."""
    rates = members, members if nonmembers is None else nonmembers
    return tuple(np.array([1 - rate, rate]) for rate in rates)


CELLS = (
    {f"two-valued, rate {rate}": two(rate) for rate in (0.5, 0.1, 0.02, 0.002)}
    | {f"two-valued, {a} and {b}": two(a, b) for a, b in ((0.1, 0.0), (0.5, 0.02), (0.9, 0.1), (0.999, 0.001))}
    | {f"zeros, {share:.0%}": zeros(share, 0.0) for share in (0.8, 0.98)}
    | {f"zeros, {share:.0%}, the rest apart": zeros(share, 3.0) for share in (0.8, 0.98)}
    | {"zeros, 98% and 1% of members": zeros(0.98, 2.0, 0.01)}
    | {f"saturated, {a:.0%} and {b:.0%}": saturated(a, b, 0.0) for a, b in ((0.7, 0.7), (0.99, 0.9))}
    | {f"{k} levels, AUC {a}": rounded(k, a) for k in (2, 5, 20) for a in (0.5, 0.75, 0.9, 0.99, 0.999)}
    | {f"outliers, {share:.0%}": outliers(share, 3.0) for share in (0.01, 0.1)}
    | {f"continuous, AUC {a}": a for a in (0.5, 0.75, 0.9, 0.99, 0.999)}
)


def truth(cell):
    if isinstance(cell, float):
        return cell
    p, q = (pmf / pmf.sum() for pmf in cell)
    return float(p @ (q.cumsum() - q / 2))


def exact(cell):
    """Whether every table of it is weighed by its probability."""
    return isinstance(cell, tuple) and isinstance(cell[0], np.ndarray) and len(cell[0]) == 2


def draw(rng, cell, m, n, draws):
    """Tables of counts, members and non-members ``[draws, k]`` each, and the weight of each table."""
    if isinstance(cell, float):
        inside, outside = rng.normal(norm.ppf(cell) * 2**0.5, size=(draws, m)), rng.normal(size=(draws, n))
        member = np.argsort(np.hstack([inside, outside]), -1) < m
        return member, ~member, np.full(draws, 1 / draws)
    if exact(cell):
        return _all_tables(cell, m, n)
    inside, outside = (rng.multinomial(k, pmf / pmf.sum(), draws) for k, pmf in zip((m, n), cell, strict=True))
    return inside, outside, np.full(draws, 1 / draws)


def _all_tables(cell, m, n):
    """Every table of zeros and ones that is not too rare, with its probability: no simulation error."""
    ones = []
    for k, pmf in zip((m, n), cell, strict=True):
        x = np.arange(k + 1)
        chance = binom.pmf(x, k, pmf[1])
        ones.append((x[chance > 1e-8], chance[chance > 1e-8]))
    a, b = (part.ravel() for part in np.meshgrid(ones[0][0], ones[1][0], indexing="ij"))
    return np.stack([m - a, a], -1), np.stack([n - b, b], -1), np.outer(ones[0][1], ones[1][1]).ravel()


def delong_alone(placements, error):
    """What the AUC's interval was: DeLong's on the logit scale, Chernoff's bound where that does not exist."""
    value = placements.value
    m, n = placements.members.size, placements.nonmembers.size
    v, w = statistics.placement_covariance(placements, placements, null=0.5)
    exists = (value > 0) & (value < 1) & (np.minimum(m, n) > 1) & (v + w > 1e-20)
    with np.errstate(all="ignore"):
        freedom = np.where(exists, statistics.degrees_of_freedom(v, w, m, n), 1.0)
        reach = stdtrit(freedom, 1 - error / 2) * np.sqrt(v + w) / (value * (1 - value))
        ends = [expit(logit(value) + side * reach) for side in (-1, 1)]
    return tuple(
        np.where(exists, end, _chernoff(value, np.minimum(m, n), error, end_point))
        for end, end_point in zip(ends, (0.0, 1.0), strict=True)
    )


def _chernoff(value, blocks, error, furthest):
    within, without = value, np.full_like(value, furthest)
    for _ in range(50):
        middle = (within + without) / 2
        out = blocks * (rel_entr(value, middle) + rel_entr(1 - value, 1 - middle)) > np.log(2 / error)
        within, without = np.where(out, within, middle), np.where(out, middle, without)
    return np.where(value == furthest, furthest, without)


def paired_delong(a, b, error):
    """What the paired interval was: DeLong's paired variance, no width where both runs rank all records alike."""
    gap = a.placed - b.placed
    m, n = gap.members.size, gap.nonmembers.size
    v, w = statistics.placement_covariance(gap, gap, null=0.0)
    with np.errstate(all="ignore"):
        reach = stdtrit(statistics.degrees_of_freedom(v, w, m, n), 1 - error / 2) * np.sqrt(v + w)
    same_ranking = (gap.members.values == 0).all(-1) & (gap.nonmembers.values == 0).all(-1)
    hoeffding = np.sqrt(2 * np.log(2 / error) / np.minimum(m, n))
    reach = np.where(v + w > 1e-20, reach, np.where(same_ranking, 0.0, hoeffding))
    return np.maximum(gap.value - reach, -1.0), np.minimum(gap.value + reach, 1.0)
