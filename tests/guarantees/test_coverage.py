"""Intervals of an AUC, and of the difference of two, cover where DeLong's variance alone does not, and are no longer
where it does: ties, constants, saturated scores, few records, lopsided sets.

The whole table: `benchmarks/coverage.py`.
"""

import numpy as np
import pytest
from scipy.special import expit, logit, ndtr, ndtri
from scipy.stats import binom, norm, rankdata
from scipy.stats import t as student

from divulge import statistics
from divulge.evaluation import comparison

ERROR = 0.05
SIZES = ((5, 5), (5, 500), (500, 5), (20, 20), (100, 10), (500, 50), (1000, 99), (2000, 500))


def covers(low, high, true):
    return (low <= true + 1e-9) & (true - 1e-9 <= high)


def likely(hits, draws):
    """Whether so many hits are likely of an interval that covers: false with probability 1e-5 although it does."""
    return hits >= binom.ppf(1e-5, draws, 1 - ERROR)


@pytest.mark.parametrize(("m", "n"), SIZES)
@pytest.mark.parametrize(
    ("p", "q"), [(0.5, 0.5), (0.1, 0.1), (0.02, 0.02), (0.002, 0.002), (0.1, 0.0), (0.9, 0.1), (0.999, 0.001)]
)
def test_an_auc_of_two_valued_scores_is_covered_exactly(p, q, m, n):
    """Every table is weighed by its probability: nothing is drawn, and nothing fails by chance.

    A verdict over eight recipes shares its error among 24 intervals.
    """
    (a, chance_a), (b, chance_b) = (
        (np.arange(k + 1), binom.pmf(np.arange(k + 1), k, rate)) for k, rate in ((m, p), (n, q))
    )
    (a, chance_a), (b, chance_b) = (
        (x[chance > 1e-9], chance[chance > 1e-9]) for x, chance in ((a, chance_a), (b, chance_b))
    )
    a, b = (part.ravel() for part in np.meshgrid(a, b, indexing="ij"))
    placements = statistics.placements_from_counts(np.stack([m - a, a], -1), np.stack([n - b, b], -1))
    weights = np.outer(chance_a, chance_b).ravel()
    for error in (ERROR, ERROR / 24):
        cover = weights @ covers(*statistics.auc_bounds(placements, error), 0.5 + (p - q) / 2)
        assert cover >= 1 - error - 1e-6, error


def zeros(rng, size, shift):
    return np.where(rng.random(size) < 0.98, 0.0, rng.normal(shift, 1, size))


def levels(rng, size, shift):
    return rng.normal(shift, 1, size).round()


def saturated(rng, size, shift):
    return np.minimum(rng.normal(shift, 1, size), 0.0)


def smooth(rng, size, shift):
    return rng.normal(shift, 1, size)


def area(shape, shift):
    """The true AUC."""
    if shape is smooth:
        return ndtr(shift / 2**0.5)
    if shape is levels:
        edges = np.arange(-20.5, 20.5)
        member, nonmember = (np.diff(norm.cdf(edges, mean)) for mean in (shift, 0.0))
        return member @ (nonmember.cumsum() - nonmember / 2)
    if shape is zeros:
        # The 2 % on either side that are not zero, against zeros and against one another.
        above = ndtr(shift) - 0.5
        return 0.5 + 0.02 * 0.98 * above + 0.02**2 * (ndtr(shift / 2**0.5) - 0.5)
    x = np.linspace(-12, 0, 60_001)
    below = np.trapezoid(norm.pdf(x, shift) * norm.cdf(x), x)
    return below + ndtr(shift) * (0.5 + 0.5 * 0.5)


@pytest.mark.parametrize("shape", [zeros, levels, saturated, smooth])
@pytest.mark.parametrize("true", [0.5, 0.9, 0.999])
def test_an_auc_is_covered_whatever_the_scores_look_like(shape, true):
    """8 sizes of 200 draws in 12 cases: one fails by chance in .001."""
    shift = ndtri(true) * 2**0.5
    for m, n in SIZES:
        rng = np.random.default_rng([m, n])
        samples = shape(rng, (200, m), shift), shape(rng, (200, n), 0.0)
        hits = covers(*statistics.auc_bounds(placed(*samples), ERROR), area(shape, shift))
        assert likely(hits.sum(), 200), (m, n, hits.mean())


@pytest.mark.parametrize(("m", "n"), [(20, 20), (100, 100), (500, 50), (1000, 1000)])
@pytest.mark.parametrize("true", [0.5, 0.75, 0.9])
def test_an_interval_of_continuous_scores_is_as_short_as_delongs(true, m, n):
    """The median of 100 ratios of lengths; where it is 1.02 at most, by 1.03."""
    rng = np.random.default_rng([m, n])
    inside, outside = rng.normal(ndtri(true) * 2**0.5, size=(100, m)), rng.normal(size=(100, n))
    placements = placed(inside, outside)
    v, w = statistics.placement_covariance(placements, placements, null=0.5)
    reach = student.ppf(1 - ERROR / 2, statistics.degrees_of_freedom(v, w, m, n)) * np.sqrt(v + w)
    reach = reach / (placements.value * (1 - placements.value))
    delong = expit(logit(placements.value) + reach) - expit(logit(placements.value) - reach)
    low, high = statistics.auc_bounds(placements, ERROR)
    assert np.median((high - low) / delong) <= 1.03


def placed(inside, outside):
    """Placements of many tables, members ``[draws, m]`` and non-members ``[draws, n]``, by mid-ranks."""
    m, n = inside.shape[1], outside.shape[1]
    rank = rankdata(np.hstack([inside, outside]), axis=1)
    below, beneath = rank[:, :m] - rankdata(inside, axis=1), rank[:, m:] - rankdata(outside, axis=1)
    return statistics.Placements(*(statistics.Side(x, np.ones_like(x)) for x in (below / n, 1 - beneath / m)))


def rare(first_rate, second_rate, agree):
    """Zeros and ones of two rates; of records that agree, the rarer ones are ones in both runs."""

    def draw(rng, size):
        shared = rng.random(size)
        return shared < first_rate, np.where(rng.random(size) < agree, shared, rng.random(size)) < second_rate

    return draw


def noisy(first_shift, second_shift, noise, lost=0.0, digits=9):
    """The second run adds noise, and ranks a share of the records last."""

    def draw(rng, size):
        base = rng.normal(size=size)
        a, b = base + first_shift, base + second_shift + noise * rng.normal(size=size)
        return a.round(digits), np.where(rng.random(size) < lost, -20.0, b).round(digits)

    return draw


PAIRS = {
    "rate .1, apart": (rare(0.1, 0.1, 0.0), rare(0.1, 0.1, 0.0), 0.0),
    "rate .02, agreeing": (rare(0.02, 0.02, 0.9), rare(0.02, 0.02, 0.9), 0.0),
    "rates .3 and .1": (rare(0.3, 0.1, 1.0), rare(0.05, 0.05, 1.0), 0.1),
    "2 % lost": (noisy(1, 1, 0.0, lost=0.02), noisy(0, 0, 0.0), 0.02 * ndtr(0.5**0.5)),
    "rounded": (noisy(0, 0, 0.3, digits=0), noisy(0, 0, 0.3, digits=0), 0.0),
    "continuous": (noisy(1, 0.5, 0.5), noisy(0, 0, 0.5), ndtr(0.5**0.5) - ndtr(0.5 / 2.5**0.5)),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_a_difference_of_two_aucs_is_covered(pair):
    """6 sizes of 200 draws in 6 cases: one fails by chance in 4e-4."""
    members, nonmembers, true = PAIRS[pair]
    for m, n in ((5, 5), (5, 100), (100, 5), (20, 20), (100, 100), (500, 20)):
        rng = np.random.default_rng([m, n])
        draws = zip(members(rng, (200, m)), nonmembers(rng, (200, n)), strict=True)
        runs = [placed(*pair_of_scores) for pair_of_scores in draws]
        areas = [comparison.Area(run, *statistics.auc_bounds(run, ERROR)) for run in runs]
        hits = covers(*comparison.difference_bounds(*areas, ERROR), true)
        assert likely(hits.sum(), 200), (m, n, hits.mean())
