"""The ground of every interval and test of two samples, against scipy, enumeration and definitions."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from divulge import duplicates, statistics
from divulge.errors import InputError
from divulge.statistics import Side


def test_the_covariance_of_two_is_the_same_formula_and_unknown_for_one_record():
    first_auc, second_auc = (
        statistics.placements_from_counts(np.array(a), np.array(b))
        for a, b in (([0, 1, 2], [2, 1, 1]), ([1, 1, 1], [1, 2, 1]))
    )
    expected = (0.5 - first_auc.value) * (0.5 - second_auc.value) + sum(
        count * (x - first_auc.value) * (y - second_auc.value)
        for count, x, y in zip(
            first_auc.members.counts, first_auc.members.values, second_auc.members.values, strict=True
        )
    )
    assert statistics.placement_covariance(first_auc, second_auc, null=0.5)[0] == pytest.approx(expected / 2 / 3)
    small = statistics.placements_from_counts(np.array([0, 1]), np.array([2, 1]))
    assert statistics.placement_covariance(small, small, null=0.5)[0] == math.inf


@pytest.mark.parametrize(("m", "n"), [(4, 9), (30, 3)])
def test_degrees_of_freedom_are_those_of_welchs_test(m, n):
    rng = np.random.default_rng(1)
    a, b = rng.normal(0, 1, m), rng.normal(0, 3, n)
    expected = stats.ttest_ind(a, b, equal_var=False).df
    assert statistics.degrees_of_freedom(a.var(ddof=1) / m, b.var(ddof=1) / n, m, n) == pytest.approx(expected)


@pytest.mark.parametrize("rate", [0.0, 1e-12, 0.03, 0.5, 0.97, 1 - 1e-12, 1.0])
@pytest.mark.parametrize("error", [0.025, 0.3])
def test_ranks_that_bound_a_quantile_are_those_of_the_binomial(rate, error):
    for n in (1, 2, 17, 60):
        below = [r for r in range(1, n + 1) if stats.binom.cdf(r - 1, n, rate) <= error]
        above = [r for r in range(1, n + 1) if stats.binom.sf(r - 1, n, rate) <= error]
        assert statistics.upper_bound_rank(n, rate, error) == max(below, default=0)
        assert statistics.lower_bound_rank(n, rate, error) == min(above, default=n + 1)


def test_records_are_ordered_by_class_then_column_by_column():
    rng = np.random.default_rng(2)
    x = np.column_stack([np.repeat([0.0, 1.0, 7.0], [12, 4, 4]), rng.integers(0, 3, 20) ** 2.0])[rng.permutation(20)]
    labels, is_member = rng.integers(0, 2, 20), rng.random(20) < 0.5
    order, starts = duplicates.canonical_order(x, labels, is_member)
    # No column has more values above the middle of its range than below: none is turned.
    for column in x.T:
        assert (column > (column.min() + column.max()) / 2).sum() <= (column < (column.min() + column.max()) / 2).sum()
    keys = [(labels[i], *x[i], is_member[i]) for i in order]
    assert keys == sorted(keys)
    equal = [next(p for p, key in enumerate(keys) if key[:3] == keys[i][:3]) for i in range(20)]
    assert starts.tolist() == equal


@pytest.mark.parametrize("unit", [1.0, 1e-3, -5.0])
def test_the_order_of_records_is_the_same_in_every_unit(unit):
    rng = np.random.default_rng(3)
    x = rng.exponential(size=(30, 2))
    order = duplicates.canonical_order(x, None, np.zeros(30, bool))[0]
    assert duplicates.canonical_order(unit * x, None, np.zeros(30, bool))[0].tolist() == order.tolist()
    assert duplicates.canonical_order(x[order], None, np.zeros(30, bool))[0].tolist() == list(range(30))


def test_ends_move_towards_gaffkes_bound_by_twice_the_share_of_pairs_that_repeat():
    mean = statistics.placements_from_counts(np.array([3, 1, 4]), np.array([5, 2, 1]))
    end = np.array(0.8)
    for share, part in ((0.1, 0.2), (0.25, 0.5), (0.5, 1.0), (0.9, 1.0)):
        weight = np.array(share)
        furthest = statistics.gaffke_bound(mean, weight, 1.0, 0.025)
        assert furthest > end
        assert statistics.widen_for_ties(end, mean, weight, 1.0, 0.025) == pytest.approx(0.8 + part * (furthest - 0.8))
    assert statistics.widen_for_ties(np.array(1.5), mean, np.array(0.9), 1.0, 0.025) == 1.5


def test_the_rank_sum_of_scores_that_tie_is_compared_with_ten_thousand_divisions_at_most():
    low, high = np.repeat([0.0, 1.0], 40), np.repeat([5.0, 6.0], 40)
    assert statistics.rank_sum_p_value(low, high) == 1e-4
    assert statistics.rank_sum_p_value(low, high, alternative="greater") == 1e-4
    assert statistics.rank_sum_p_value(high, low, alternative="greater") == 1.0
    p_value = statistics.rank_sum_p_value(low, np.repeat([0.0, 1.0], [39, 41]))
    assert p_value > 0.5
    assert p_value * 1000 == pytest.approx(round(p_value * 1000))


@pytest.mark.parametrize(
    ("sizes", "method"), [((30, 50), "exact"), ((1000, 7), "exact"), ((7, 1001), "asymp"), ((1001, 7), "asymp")]
)
def test_smirnovs_p_value_is_exact_where_both_samples_are_small(sizes, method):
    rng = np.random.default_rng(1)
    sample, shifted = rng.normal(size=sizes[0]), rng.normal(0.7, 1, size=sizes[1])
    expected = {each: stats.ks_2samp(sample, shifted, method=each).pvalue for each in ("exact", "asymp")}
    assert expected["exact"] != expected["asymp"]
    assert statistics.smirnov_p_value(sample, shifted) == expected[method]


def test_classes_are_seldom_said_to_be_missing_where_both_sides_are_drawn_alike():
    """At most one in 1,000; common and rare classes, many and few records, and what is left out is seen."""
    rng = np.random.default_rng(0)
    runs = 1000
    alarms = 0
    for _ in range(runs):
        shares = rng.dirichlet(np.full(rng.integers(2, 40), rng.choice([0.1, 1.0])))
        sizes = rng.integers(1, 400), rng.integers(1, 400)
        alarms += len(statistics.find_missing_classes(*(rng.choice(len(shares), n, p=shares) for n in sizes))) > 0
    assert alarms <= runs / 1000 + 3.3 * (runs / 1000) ** 0.5
    left_out = np.r_[np.zeros(380, int), np.ones(20, int)]
    assert statistics.find_missing_classes(left_out, np.zeros(400, int)).tolist() == [1]
    assert statistics.find_missing_classes(left_out, np.zeros(20, int)).tolist() == []  # too few to tell
    assert statistics.find_missing_classes(left_out, np.zeros(0, int)).tolist() == []
    assert statistics.find_missing_classes(np.zeros(0, int), left_out).tolist() == []


def lower(k, n, error):
    return stats.beta.ppf(error, k, n - k + 1) if k else 0.0


def upper(k, n, error):
    return stats.beta.isf(error, k + 1, n - k) if k < n else 1.0


@pytest.mark.parametrize("confidence", [0.95, 0.6])
@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (3, 10), (10, 10), (999, 1000)])
def test_a_proportion_errs_with_half_the_error_at_either_end(successes, trials, confidence):
    found = statistics.proportion(successes, trials, confidence)
    error = (1 - confidence) / 2
    assert (found.value, found.confidence, found.method) == (successes / trials, confidence, "clopper-pearson")
    assert (found.low, found.high) == pytest.approx((lower(successes, trials, error), upper(successes, trials, error)))


@pytest.mark.parametrize(
    ("successes", "trials", "message"),
    [(1, 0, "trials: must be at least 1"), (2, 1, "successes: must lie"), (-1, 1, "successes: must lie")],
)
def test_more_successes_than_trials_are_refused(successes, trials, message):
    with pytest.raises(InputError, match=message):
        statistics.proportion(successes, trials)


@pytest.mark.parametrize("confidence", [0.95, 0.8])
@pytest.mark.parametrize("counts", [(3, 1, 2, 4), (0, 5, 0, 2), (7, 0, 0, 0), (0, 0, 6, 6)])
def test_a_difference_of_paired_rates_counts_trials_that_differ(counts, confidence):
    """Both, the first alone, the second alone, neither; a quarter of the error at each end of either share."""
    cells = [(True, True), (True, False), (False, True), (False, False)]
    pairs = [cell for cell, count in zip(cells, counts, strict=True) for _ in range(count)]
    first, second = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    n, only_first, only_second = len(pairs), counts[1], counts[2]
    error = (1 - confidence) / 4
    found = statistics.paired_rate_difference(first, second, confidence)
    assert found.value == pytest.approx(first.mean() - second.mean())
    assert found.low == pytest.approx(lower(only_first, n, error) - upper(only_second, n, error))
    assert found.high == pytest.approx(upper(only_first, n, error) - lower(only_second, n, error))


def test_paired_rates_are_of_the_same_trials_and_of_one_at_least():
    with pytest.raises(InputError, match="first: at least 1 trial is needed, got 0"):
        statistics.paired_rate_difference([], [])
    with pytest.raises(InputError, match=r"second: 2 values are needed \(one per trial\), got 1"):
        statistics.paired_rate_difference([True, False], [True])
    assert statistics.paired_rate_difference([True], [False]).value == 1


def pooled_z(k, n, j, m):
    share = (k + j) / (n + m)
    return (k / n - j / m) / math.sqrt(share * (1 - share) * (1 / n + 1 / m)) if 0 < share < 1 else 0.0


@pytest.mark.parametrize(
    ("k", "n", "j", "m", "error"),
    [(3, 5, 1, 4, 0.025), (5, 5, 0, 4, 0.1), (0, 3, 3, 6, 0.025), (8, 10, 2, 9, 0.1), (30, 40, 3, 25, 0.025)],
)
def test_the_lower_bound_of_a_difference_is_buehlers(k, n, j, m, error):
    """The smallest difference under which tables as extreme have the allowed probability, by a fine grid.

    Tables are ordered by the pooled z statistic: of each second count, from which first count on they are as extreme.
    """
    observed = pooled_z(k, n, j, m) - 1e-9
    least = [next((i for i in range(n + 1) if pooled_z(i, n, other, m) >= observed), n + 1) for other in range(m + 1)]
    step = error * 0.05
    low, high = lower(j, m, step / 2), upper(j, m, step / 2)

    def chance(p, q):
        return float(stats.binom.pmf(np.arange(m + 1), m, q) @ stats.binom.sf(np.array(least) - 1, n, p))

    gaps = []
    for q in np.linspace(low, high, 81):
        if chance(1.0, q) > error - step and chance(0.0, q) < error - step:
            gaps.append(brentq(lambda p, q=q: chance(p, q) - (error - step), 0.0, 1.0) - q)
        elif chance(0.0, q) >= error - step:
            gaps.append(-q)
    found = statistics.rate_difference(k, n, j, m, confidence=1 - 2 * error).low
    assert found <= max(-1.0, min(gaps)) + 1e-4
    assert found == pytest.approx(max(-1.0, min(gaps)), abs=2e-4 + 7e-3 * (high - low) + 2e-3)


def test_pairs_of_equal_contributions_are_counted_at_all_levels():
    side = Side(np.array([[0.1, 0.5, 0.1, 0.9], [0.2, 0.3, 0.4, 0.5]]), np.array([[2.0, 1, 3, 0], [1, 0, 0, 0]]))
    assert side.repeated.tolist() == [pytest.approx(20 / 30), 1.0]
    assert side.size.tolist() == [6, 1]
    assert side.mean.tolist() == pytest.approx([(5 * 0.1 + 0.5) / 6, 0.2])


def brunner_munzel(pairs, error):
    """DeLong's interval on the logit scale, with one pseudo-placement of ½ a side; of too few records, [0, 1]."""
    area = pairs.mean()
    if area in (0, 1) or min(pairs.shape) < 2:
        return 0.0, 1.0
    v, w = (
        (((pairs.mean(axis=1 - axis) - area) ** 2).sum() + (area - 0.5) ** 2) / (size - 1) / size
        for axis, size in enumerate(pairs.shape)
    )
    freedom = (v + w) ** 2 / (v**2 / (pairs.shape[0] - 1) + w**2 / (pairs.shape[1] - 1))
    reach = stats.t.ppf(1 - error / 2, freedom) * math.sqrt(v + w) / (area * (1 - area))
    logit = math.log(area / (1 - area))
    return 1 / (1 + math.exp(reach - logit)), 1 / (1 + math.exp(-reach - logit))


@pytest.mark.parametrize("confidence", [0.95, 0.7])
@pytest.mark.parametrize(
    ("inside", "outside"),
    [([1, 2, 2, 3], [0, 1, 2, 2, 1]), ([0] * 9 + [1], [0] * 12), ([1, 1], [1, 1, 1]), ([2.0], [1, 3, 0]),
     ([0, 5, 0, 0, 0, 0], [0, 0, 0, 1, 0]), ([5, 6], [1, 2])],
)  # fmt: skip
def test_both_ends_of_an_auc_are_widened_for_ties_and_limited_by_chernoff(inside, outside, confidence):
    scores, truth = np.array([*inside, *outside], float), np.arange(len(inside) + len(outside)) < len(inside)
    error = 1 - confidence
    pairs = np.array([[(a > b) + (a == b) / 2 for b in outside] for a in inside])
    area, blocks = pairs.mean(), min(pairs.shape)
    placed, _ = statistics.placements_from_scores(scores, truth)

    def repeated(values):
        same = [a == pytest.approx(b) for i, a in enumerate(values) for j, b in enumerate(values) if i != j]
        return np.mean(same) if same else 1.0

    weight = math.sqrt(repeated(pairs.mean(axis=1)) * repeated(pairs.mean(axis=0)))
    assert placed.repeated == pytest.approx(weight)
    constant = 0 < area < 1 and weight >= 1
    low, high = (0.5, 0.5) if constant else brunner_munzel(pairs, error)
    part = min(2 * weight, 1)
    if weight:
        upper_bound = float(statistics.gaffke_bound(placed, np.array(weight), 1.0, error / 2))
        lower_bound = -float(statistics.gaffke_bound(-placed, np.array(weight), 0.0, error / 2))
        high, low = high + part * max(upper_bound - high, 0), low - part * max(low - lower_bound, 0)

    def nearer(end, furthest):
        def excess(p):
            return blocks * stats.entropy([area, 1 - area], [p, 1 - p]) - math.log(2 / error)

        if area == furthest or excess(end) <= 0:
            return end
        return brentq(excess, *sorted((area, abs(furthest - 1e-12))))

    found = statistics.auc(scores, truth, confidence)
    assert (found.low, found.high) == pytest.approx((nearer(low, 0.0), nearer(high, 1.0)), abs=1e-6)
    assert (found.method == statistics.DELONG) == (0 < area < 1 and (blocks > 1 or weight >= 1))
    assert (found.value, found.confidence) == (pytest.approx(area), confidence)


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
