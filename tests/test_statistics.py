"""The ground of every interval, against scipy, enumeration and loops written from the definitions."""

import math

import numpy as np
import pytest
from scipy import stats

from divulge import duplicates, statistics


def naive_placements(inside, outside):
    """Of each member the share of non-members below, of each non-member that of members above; ties one half."""
    members = [np.mean([(s > t) + 0.5 * (s == t) for t in outside]) for s in inside]
    return members, [np.mean([(s > t) + 0.5 * (s == t) for s in inside]) for t in outside]


@pytest.fixture
def sides():
    rng = np.random.default_rng(0)
    return rng.integers(1, 8, 9).astype(float), rng.integers(0, 6, 13).astype(float)


def place(sides):
    truth = np.repeat([True, False], [len(side) for side in sides])
    return statistics.placements_from_scores(np.concatenate(sides), truth)


def test_placements_and_their_variance_are_those_of_the_definition(sides):
    mean, level = place(sides)
    expected = naive_placements(*sides)
    truth = np.repeat([True, False], [9, 13])
    each = statistics.placements_per_record(mean, level, truth)
    np.testing.assert_allclose(each.members.values[truth], expected[0])
    np.testing.assert_allclose(each.nonmembers.values[~truth], expected[1])
    for side, values in zip(mean.sides, expected, strict=True):
        assert side.mean == pytest.approx(np.mean(values))
        pairs = [a == pytest.approx(b) for i, a in enumerate(values) for j, b in enumerate(values) if i != j]
        assert side.repeated == pytest.approx(np.mean(pairs))
    # DeLong's variance, one placement of one half more on either side, but the records counted without it.
    area = np.mean(expected[0])
    for part, values in zip(statistics.placement_covariance(mean, mean, null=0.5), expected, strict=True):
        spread = sum((value - area) ** 2 for value in values) + (0.5 - area) ** 2
        assert part == pytest.approx(spread / (len(values) - 1) / len(values))


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


@pytest.mark.parametrize(
    "scores", [([0.1, 0.4, 0.9, 1.3, 2.0], [0.0, 0.3, 0.5, 0.6]), ([1.0, 2.0, 3.0], [0.0, 2.5, 0.7, 0.1])]
)
def test_the_interval_of_an_auc_without_ties_is_brunner_and_munzels_on_the_logit_scale(scores):
    inside, outside = scores
    expected = naive_placements(inside, outside)
    area = np.mean(expected[0])
    v, w = ((sum((x - area) ** 2 for x in side) + (0.5 - area) ** 2) / (len(side) - 1) / len(side) for side in expected)
    freedom = (v + w) ** 2 / (v**2 / (len(inside) - 1) + w**2 / (len(outside) - 1))
    reach = stats.t.ppf(0.975, freedom) * math.sqrt(v + w) / (area * (1 - area))
    low, high = (1 / (1 + (1 - area) / area * math.exp(side * reach)) for side in (1, -1))
    estimate = statistics.auc([*inside, *outside], [True] * len(inside) + [False] * len(outside))
    mean = place((np.array(inside), np.array(outside)))[0]
    # Placements that repeat move the ends out, Chernoff's bound moves them in.
    moved = statistics.widen_for_ties(np.array(high), mean, mean.repeated, 1.0, 0.025)
    assert estimate.high == pytest.approx(min(moved, chernoff(area, min(len(inside), len(outside)))), abs=1e-7)
    assert estimate.low <= low or estimate.low == pytest.approx(1 - chernoff(1 - area, min(len(inside), len(outside))))


def chernoff(value, blocks, error=0.05):
    """The largest p with ``blocks · KL(value ‖ p) ≤ ln(2 / error)``, by a fine grid and one refinement."""
    p = np.linspace(value, 1, 200_001)[:-1]
    cost = blocks * (stats.entropy([[value] * len(p), [1 - value] * len(p)], [p, 1 - p]))
    return float(np.interp(math.log(2 / error), cost, p))


@pytest.mark.parametrize("blocks", [2, 7, 40])
def test_the_interval_of_a_perfect_auc_is_chernoffs(blocks):
    scores = [*np.arange(blocks) + 10.0, *np.arange(blocks + 5.0) / 10]
    estimate = statistics.auc(scores, np.arange(2 * blocks + 5) < blocks)
    # KL(1 ‖ p) = -ln p.
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert estimate.low == pytest.approx((0.05 / 2) ** (1 / blocks))


@pytest.mark.parametrize("trials", [1, 7, 40])
def test_bounds_of_a_share_are_clopper_and_pearsons(trials):
    for successes in range(trials + 1):
        expected = stats.binomtest(successes, trials).proportion_ci(0.9, "exact")
        assert statistics.clopper_pearson_lower(successes, trials, 0.05) == pytest.approx(expected.low, abs=1e-12)
        assert statistics.clopper_pearson_upper(successes, trials, 0.05) == pytest.approx(expected.high, abs=1e-12)


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
    runs = 3000
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
