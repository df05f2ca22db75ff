"""Steps of intervals and p-values, against definitions written down again."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from divulge import statistics
from divulge.errors import InputError
from divulge.statistics import Side


def test_moments_of_random_weights_are_those_of_dirichlet_draws():
    rng = np.random.default_rng(0)
    side = Side(np.array([0.2, 0.5, 0.9]), np.array([3.0, 0.0, 2.0]))
    weight = np.array(0.7)
    mean, variance, third = statistics._bootstrap_moments(side, np.array(4.0), weight, 1.0)
    values = (np.array([0.2, 0.9, 1.0]) * [4, 4, 0] + [0.7, 0.7, 4.7]) / 4.7
    draws = rng.dirichlet([3, 2, 0.7], 400_000) @ values
    assert mean == pytest.approx(draws.mean(), rel=2e-3)
    assert variance == pytest.approx(draws.var(), rel=2e-2)
    assert third == pytest.approx(((draws - draws.mean()) ** 3).mean(), rel=0.1)


@pytest.mark.parametrize("skewness", [-1.0, -0.2, 0.05, 0.5, 1.5])
@pytest.mark.parametrize("level", [0.9, 0.975, 0.999])
def test_a_gamma_quantile_is_that_of_a_gamma_distribution(skewness, level):
    found = statistics._gamma_quantile(np.array(skewness), stats.norm.ppf(level))
    assert found == pytest.approx(stats.pearson3.ppf(level, skewness), rel=0.02, abs=0.03)
    for nearly in (0.0, 9e-7, -9e-7):
        assert statistics._gamma_quantile(np.array(nearly), 1.5) == 1.5


def test_an_end_moves_by_twice_the_weight_and_never_back():
    placed = statistics.placements_from_counts(np.array([1, 2, 3]), np.array([4, 2, 1]))
    bound = statistics.gaffke_bound(placed, np.array(0.25), 1.0, 0.05)
    low, high = np.array(bound - 0.1), np.array(bound + 0.1)
    for weight, share in ((0.25, 0.5), (0.5, 1.0), (0.9, 1.0)):
        bound = statistics.gaffke_bound(placed, np.array(weight), 1.0, 0.05)
        assert statistics.widen_for_ties(low, placed, np.array(weight), 1.0, 0.05) == pytest.approx(
            low + share * (bound - low)
        )
    assert statistics.widen_for_ties(high, placed, np.array(0.25), 1.0, 0.05) == high
    assert statistics.widen_for_ties(low, placed, np.array(0.0), 1.0, 0.05) == low


def test_degrees_of_freedom_are_welchs():
    assert statistics.degrees_of_freedom(2.0, 3.0, 5, 9) == pytest.approx(25 / (4 / 4 + 9 / 8))


@pytest.mark.parametrize(("fpr", "needed"), [(0.5, 1), (0.1, 9), (0.01, 99), (0.001, 999), (0.3, 3), (0.34, 2)])
def test_a_rate_is_resolved_by_one_over_it_less_one(fpr, needed):
    assert statistics.min_nonmembers(fpr) == needed
    assert statistics.check_fpr(needed, fpr) == fpr
    with pytest.raises(InputError, match=f"{needed} non-members are needed"):
        statistics.check_fpr(needed - 1, fpr)


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
@pytest.mark.parametrize("shift", [-1, 0, 1, 2])
def test_a_rank_sum_of_ties_has_the_p_value_of_all_divisions(alternative, shift):
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 3, 7) * 1.0, rng.integers(0, 3, 5) + 1.0 * shift
    ranks = stats.rankdata(np.r_[first, second])
    observed = ranks[7:].sum() - 5 * 13 / 2
    sums = np.array([sum(part) for part in itertools.combinations(ranks, 5)]) - 5 * 13 / 2
    if alternative == "greater":
        exact = (sums >= observed - 1e-9).mean()
    else:
        exact = (np.abs(sums) >= abs(observed) - 1e-9).mean()
    found = statistics.rank_sum_p_value(first, second, alternative=alternative, seed=1)
    assert found == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 999) + 2e-3)


@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_without_ties_the_rank_sum_is_scipys_and_both_tests_share_the_error(shift):
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=20), rng.normal(size=15) + shift
    for alternative in ("two-sided", "greater"):
        expected = stats.mannwhitneyu(second, first, alternative=alternative, method="asymptotic").pvalue
        assert statistics.rank_sum_p_value(first, second, alternative=alternative) == pytest.approx(expected)
    smirnov, rank_sum = statistics.smirnov_p_value(first, second), statistics.rank_sum_p_value(first, second)
    assert smirnov == pytest.approx(stats.ks_2samp(first, second, method="exact").pvalue)
    assert statistics.two_sample_p_value(first, second) == pytest.approx(min(1.0, 2 * min(smirnov, rank_sum)))


def test_counts_above_are_strict_and_pairs_that_tie_count_half():
    assert statistics.count_above(np.array([1.0, 2.0, 2.0, 3.0]), np.array([0.0, 2.0, 3.0])).tolist() == [4, 1, 0]
    rng = np.random.default_rng(5)
    inside, outside = rng.integers(0, 4, 9), rng.integers(0, 4, 6)
    placed, level = statistics.placements_from_scores(
        np.r_[inside, outside].astype(float), np.r_[np.ones(9, bool), np.zeros(6, bool)]
    )
    pairs = np.array([[(a > b) + (a == b) / 2 for b in outside] for a in inside])
    assert placed.value == pytest.approx(pairs.mean())
    per_record = statistics.placements_per_record(placed, level, np.r_[np.ones(9, bool), np.zeros(6, bool)])
    np.testing.assert_allclose(per_record.members.values[:9], pairs.mean(axis=1))
    np.testing.assert_allclose(per_record.nonmembers.values[9:], pairs.mean(axis=0))
    v, w = statistics.placement_covariance(placed, placed, 0.5)
    shrunk = (pairs.mean() - 0.5) ** 2
    assert v == pytest.approx((((pairs.mean(axis=1) - pairs.mean()) ** 2).sum() + shrunk) / 8 / 9)
    assert w == pytest.approx((((pairs.mean(axis=0) - pairs.mean()) ** 2).sum() + shrunk) / 5 / 6)
    np.testing.assert_allclose((-placed).members.values, -placed.members.values)
    assert not (placed - placed).nonmembers.values.any()


def test_of_one_record_on_a_side_no_variance_is_known():
    placed = statistics.placements_from_counts(np.array([0, 1]), np.array([2, 3]))
    v, w = statistics.placement_covariance(placed, placed, 0.5)
    assert v == math.inf
    assert np.isfinite(w)


@pytest.mark.parametrize("members", [[True, True], [False, False], [True], [True, False, True]])
def test_scores_of_both_sides_and_one_for_each_are_needed(members):
    with pytest.raises(InputError, match="members"):
        statistics.check_scores([0.1, 0.2], members)
    values, truth = statistics.check_scores([0.1, 0.2], [True, False])
    assert (values.tolist(), truth.tolist()) == ([0.1, 0.2], [True, False])
