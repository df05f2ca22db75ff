"""The mean of Storey's inverse estimates: its bound by exact sums, and over every order of small samples."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import betabinom

from divulge.decisions import Adaptive, Storey, controls, fdr
from divulge.decisions.counts import Counts, ranks


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 50), (19, 5), (50, 1000), (500, 100), (1000, 1000)])
def test_the_inverse_estimate_is_at_most_the_true_one_on_average(n, m):
    """The factor of the bound on the false discovery rate, members at their worst: above every non-member.

    One non-member stands with the ``n`` calibration scores; of the others, those below the ``K``-th largest of these
    ``n + 1`` are beta-binomial.
    """
    for count in {1, 2, m // 2, m} - {0}:
        factors = []
        for lam in Adaptive().lams(n, m):
            k = Storey(lam).grid(n)
            low = np.arange(count)
            estimate = (1 + low) * (n + 1) / (n + 1 - k)  # m times the share of non-members
            factors.append(count * (betabinom.pmf(low, count - 1, n + 2 - k, k) / estimate).sum())
        assert max(factors) <= 1 + 1e-9
        assert np.mean(factors) <= 1 + 1e-9


def rates(n, n_nonmembers, members, level, method):
    """Exact false discovery rate: non-members and calibration in every order among members at fixed places."""
    pool = np.arange(n + n_nonmembers, dtype=float)
    false = []
    for places in combinations(range(n + n_nonmembers), n):
        calibration = pool[list(places)]
        nonmembers = np.delete(pool, places)
        counts = Counts.empty(calibration).add(np.append(nonmembers, members))
        q = fdr.step_up(counts, level, method).q_values
        chosen = q[ranks(np.append(nonmembers, members), counts.calibration)] <= level
        false.append(chosen[: len(nonmembers)].sum() / max(chosen.sum(), 1))
    return np.mean(false)


@pytest.mark.parametrize(
    ("n", "n_nonmembers", "members"),
    [(7, 3, []), (5, 5, [99.0, 3.5, 0.5]), (4, 5, [-1.0, -2.0, 99.0, 99.0]), (9, 1, [99.0, 99.5])],
)
def test_no_order_of_a_small_sample_breaks_the_bound_on_average(n, n_nonmembers, members):
    for level in (0.1, 0.3, 0.5):
        for method in (Adaptive(), Storey()):
            assert rates(n, n_nonmembers, np.array(members), level, method) <= level + 1e-12


def test_the_estimate_is_the_mean_of_the_inverse_ones():
    rng = np.random.default_rng(0)
    counts = Counts.empty(rng.normal(size=300)).add(rng.normal(0.5, 1, 200))
    top, bottom = Adaptive().null_share(counts)
    single = [np.divide(*Storey(lam).null_share(counts)) for lam in Adaptive().lams(300, 200)]
    assert bottom / top == pytest.approx(np.mean(1 / np.array(single)))


def test_regions_shrink_as_scores_grow_in_number_within_their_limits():
    widest = [1 - Adaptive().lams(n, n)[0] for n in (2, 20, 100, 1000, 10**7)]
    assert widest == sorted(widest, reverse=True)
    assert (widest[0], widest[-1]) == pytest.approx((0.5, 0.05))
    assert np.allclose((1 - Adaptive().lams(100, 400)) / (1 - Adaptive().lams(100, 400))[-1], 2 ** np.linspace(1, 0, 6))


@pytest.mark.parametrize(("n", "h"), [(3, 40), (57, 33), (160, 80)])
@pytest.mark.parametrize("level", [0.05, 0.3])
def test_the_control_of_the_low_end_keeps_its_level(n, h, level):
    """Exactly, over all orders: only how many of the lowest tenth and fortieth are holdout documents matters."""
    sizes = (n + h) // 40, (n + h) // 10 - (n + h) // 40, n + h - (n + h) // 10
    blocks, chance = np.split(np.arange(n + h), np.cumsum(sizes)[:-1]), 0.0
    for n_first in range(min(sizes[0], h) + 1):
        for n_second in range(max(0, h - n_first - sizes[2]), min(sizes[1], h - n_first) + 1):
            held_out = n_first, n_second, h - n_first - n_second
            holdout = np.concatenate([block[:count] for block, count in zip(blocks, held_out, strict=True)])
            calibration = np.setdiff1d(np.arange(n + h), holdout)
            if not controls.low_end(calibration, holdout, level=level).passed:
                chance += math.prod(map(math.comb, sizes, held_out)) / math.comb(n + h, h)
    assert chance <= level


def test_the_low_end_is_seen_where_the_bulk_is_alike():
    rng = np.random.default_rng(1)
    results = [
        [
            check(np.append(rng.normal(size=380), rng.normal(-8, 0.1, 20)), rng.normal(size=400)).passed
            for check in (controls.low_end, controls.exchangeability)
        ]
        for _ in range(40)
    ]
    passed = np.mean(results, axis=0)
    assert passed[0] < 0.5 < passed[1]
    assert controls.low_end(np.zeros(30), np.zeros(20)).p_value == 1


@pytest.mark.parametrize(
    ("n", "m", "level"), [(19, 40, 0.1), (199, 1000, 0.05), (60, 7, 0.3), (9, 9, 0.1), (8, 9, 0.1)]
)
def test_the_smallest_selection_that_can_be_proven(n, m, level):
    """With so many candidates above all calibration scores something is selected, with one fewer nothing is."""
    min_count = fdr.min_selected(n, m, level)

    def selected(high):
        counts = Counts.empty(range(n)).add(np.repeat([n + 1.0, -1.0], [high, m - high]))
        return fdr.step_up(counts, level, fdr.BH()).rank >= 0

    if min_count is None:
        assert not selected(m)
    else:
        assert selected(min_count)
        assert min_count == 1 or not selected(min_count - 1)
