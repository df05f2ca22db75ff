"""AUC and paired AUC by their definitions; `tests/guarantees/test_coverage.py` holds that their intervals cover."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import beta
from scipy.stats import t as student

import divulge as dv
from divulge import statistics
from divulge.evaluation import comparison

fine = settings(max_examples=60, deadline=None)
scores = st.lists(st.integers(-3, 3), min_size=2, max_size=25)


def kernel(inside, outside):
    """The O(mn) definition: 1 above, ½ tie, 0 below."""
    a, b = np.array(inside)[:, None], np.array(outside)[None]
    return (a > b) + 0.5 * (a == b)


def placed(inside, outside):
    values = np.array([*inside, *outside], float)
    truth = np.arange(len(values)) < len(inside)
    return statistics.placements_per_record(*statistics.placements_from_scores(values, truth), truth)


@fine
@given(scores, scores)
def test_placements_are_the_rows_and_columns_of_the_definition(inside, outside):
    h = kernel(inside, outside)
    placements = placed(inside, outside)
    np.testing.assert_allclose(placements.members.values[: len(inside)], h.mean(1))
    np.testing.assert_allclose(placements.nonmembers.values[len(inside) :], h.mean(0))
    assert placements.value == pytest.approx(placements.nonmembers.mean)


@fine
@given(scores, scores)
def test_repeated_is_the_share_of_pairs_that_add_the_same(inside, outside):
    h = kernel(inside, outside)
    placements = placed(inside, outside)
    for side, values in ((placements.members, h.sum(1)), (placements.nonmembers, h.sum(0))):
        same = values[:, None] == values[None]
        assert side.repeated == pytest.approx((same.sum() - len(values)) / (len(values) * (len(values) - 1)))


@fine
@given(st.lists(st.tuples(scores, scores), min_size=2, max_size=4))
def test_many_tables_at_once_are_as_each_alone(tables):
    levels = np.arange(-3, 4)
    counts = np.array([[[part.count(level) for level in levels] for part in table] for table in tables])
    inside, outside = counts[:, 0], counts[:, 1]
    low, high = statistics.auc_bounds(statistics.placements_from_counts(inside, outside), 0.05)
    for i, (a, b) in enumerate(tables):
        estimate = dv.evaluation.auc([*a, *b], np.arange(len(a) + len(b)) < len(a))
        assert (estimate.low, estimate.high) == pytest.approx((low[i], high[i]), abs=1e-9)


@fine
@given(scores, scores)
def test_auc_is_the_mean_of_the_kernel_and_lies_in_its_interval(inside, outside):
    values = np.array(inside + outside, float)
    members = np.arange(len(values)) < len(inside)
    estimate = dv.evaluation.auc(values, members)
    assert estimate.value == pytest.approx(kernel(inside, outside).mean())
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    flipped = dv.evaluation.auc(-values, members)
    assert (flipped.value, flipped.low) == pytest.approx((1 - estimate.value, 1 - estimate.high), abs=1e-9)


def test_variance_is_delongs_up_to_the_pseudo_placement():
    rng = np.random.default_rng(2)
    inside, outside = rng.normal(0.5, 1, 400).round(1), rng.normal(size=300).round(1)
    h = kernel(inside, outside)
    naive = h.mean(1).var(ddof=1) / 400, h.mean(0).var(ddof=1) / 300
    placements = placed(inside, outside)
    parts = statistics.placement_covariance(placements, placements, null=0.5)
    assert sum(parts) ** 0.5 == pytest.approx(sum(naive) ** 0.5, rel=2e-3)
    assert 300 < statistics.degrees_of_freedom(*parts, 400, 300) < 700


def test_golden_interval():
    """No two members, and no two non-members, stand in the same place: DeLong's interval alone."""
    members = np.array([0, 1, 0, 1, 0, 1, 0, 1], bool)
    estimate = dv.evaluation.auc(np.arange(8.0), members)
    assert estimate.value == pytest.approx(0.625)
    # By hand: members outrank 1, 2, 3, 4 of 4, non-members are outranked by 4, 3, 2, 1 of 4.
    parts = [np.r_[np.arange(1, 5) / 4, 0.5]] * 2
    v = [((p - 0.625) ** 2).sum() / 3 / 4 for p in parts]
    reach = student.ppf(0.975, sum(v) ** 2 / (v[0] ** 2 + v[1] ** 2) * 3) * sum(v) ** 0.5 / (0.625 * 0.375)
    assert (estimate.low, estimate.high) == pytest.approx((expit(logit(0.625) - reach), expit(logit(0.625) + reach)))
    assert estimate.method == statistics.DELONG


def weighted_auc(inside, outside, weight, rng, draws):
    """The definition of Gaffke's bound: AUCs under Dirichlet weights, one unseen record a side."""
    h = np.ones((len(inside) + 1, len(outside) + 1))
    h[:-1, :-1] = kernel(inside, outside)
    rows, columns = (rng.dirichlet(np.r_[np.ones(len(x)), weight], draws) for x in (inside, outside))
    return np.einsum("ri,ij,rj->r", rows, h, columns)


@pytest.mark.parametrize(("shape", "weight"), [("normal", 0.3), ("rare", 1.0), ("constant", 0.3)])
def test_gaffkes_bound_is_a_quantile_over_random_weights(shape, weight):
    """Three moments against 100,000 draws; the gamma distribution is off by at most 4 % of the way to the value."""
    rng = np.random.default_rng(6)
    draw = {"normal": rng.normal, "rare": lambda size: rng.random(size) < 0.1, "constant": np.zeros}[shape]
    inside, outside = np.asarray(draw(size=40) if shape != "constant" else np.zeros(40), float), np.zeros(25)
    if shape != "constant":
        outside = np.asarray(draw(size=25), float)
    placements = placed(inside, outside)
    simulated = np.quantile(weighted_auc(inside, outside, weight, rng, 100_000), 0.975)
    bound = statistics.gaffke_bound(placements, np.array(weight), 1.0, 0.025)
    assert bound - placements.value == pytest.approx(simulated - placements.value, rel=0.04)


@pytest.mark.parametrize(("k", "m"), [(0, 10), (1, 10), (5, 10), (0, 300), (3, 300), (290, 300)])
def test_gaffkes_bound_is_clopper_pearsons_where_scores_are_zero_or_one(k, m):
    """Against endless non-members that are all zero the AUC is ½ + p/2."""
    placements = statistics.placements_from_counts(np.array([m - k, k]), np.array([1e12, 0]))
    bound = statistics.gaffke_bound(placements, np.array(1.0), 1.0, 0.025)
    assert 2 * bound - 1 == pytest.approx(beta.ppf(0.975, k + 1, m - k), abs=0.1 / m)


def test_perfect_separation_is_not_certainty():
    estimate = dv.evaluation.auc([1.0, 2.0, 3.0, 4.0], [False, False, True, True])
    assert (estimate.value, estimate.high, estimate.method) == (1.0, 1.0, statistics.CHERNOFF)
    # Two independent pairs: θ² = .025.
    assert estimate.low == pytest.approx(0.025**0.5)


def test_constant_scores_say_nothing():
    """All that may be unseen of 100 a side is 3.6 % of either, at 97.5 % confidence."""
    estimate = dv.evaluation.auc(np.ones(200), np.arange(200) < 100)
    assert estimate.value == 0.5
    assert 0.45 < estimate.low < 0.48
    assert estimate.high == pytest.approx(1 - estimate.low)


def test_one_pair_out_of_order_does_not_undo_all_others():
    """The logit of an AUC near 1 is known badly; what holds for any distribution is then the nearer end."""
    members = np.arange(200) >= 100
    values = np.arange(200.0)
    perfect = dv.evaluation.auc(values, members)
    values[[99, 100]] = values[[100, 99]]
    estimate = dv.evaluation.auc(values, members)
    assert estimate.value == pytest.approx(1 - 1e-4)
    assert perfect.low == pytest.approx(0.025**0.01)
    assert perfect.low - 0.01 < estimate.low < perfect.low


def test_one_record_of_a_kind_is_enough_for_a_wide_interval():
    estimate = dv.evaluation.auc([3.0, 1.0, 2.0, 4.0], [True, False, False, False])
    assert estimate.low < 0.1
    assert estimate.high > 0.98


def test_paired_difference_is_the_difference_and_is_known_better_than_either():
    rng = np.random.default_rng(3)
    members = np.arange(200) < 100
    base = rng.normal(size=200)
    a, b = base + members, base + 0.5 * members + 0.5 * rng.normal(size=200)
    estimate = dv.evaluation.paired_difference(a, b, members)
    first, second = dv.evaluation.auc(a, members), dv.evaluation.auc(b, members)
    assert estimate.value == pytest.approx(first.value - second.value)
    assert estimate.high - estimate.low < first.high - first.low


def test_identical_runs_do_not_differ_as_far_as_so_few_records_show():
    """What 150 records a side have not shown may still be there: a record in 40 that B ranks last."""
    rng = np.random.default_rng(0)
    values, members = rng.normal(size=300), np.arange(300) < 150
    difference = dv.evaluation.paired_difference(values, 2 * values + 1, members)
    assert difference.value == 0.0
    assert difference.low == -difference.high
    assert 1 - 0.025 ** (1 / 150) < difference.high < 0.04


def test_the_difference_turned_round_is_its_negative():
    rng = np.random.default_rng(4)
    members = np.arange(60) < 25
    a, b = rng.normal(size=60).round(1) + members, rng.integers(0, 3, 60)
    difference, turned = (dv.evaluation.paired_difference(*pair, members) for pair in ((a, b), (b, a)))
    assert (turned.value, turned.low, turned.high) == pytest.approx(
        (-difference.value, -difference.high, -difference.low)
    )
    assert difference.method == comparison.PAIRED


def test_a_constant_gap_between_runs_still_has_an_interval():
    members = np.arange(40) < 20
    difference = dv.evaluation.paired_difference(members * 1.0, members * -1.0, members)
    assert difference.value == 1.0
    assert 0 < difference.low < 1


@pytest.mark.parametrize(
    ("values", "members", "message"),
    [
        ([], [], "scores: at least 1 entry"),
        ([np.nan, 1.0], [True, False], "scores: 1 values are NaN"),
        ([np.inf, 1.0], [True, False], "scores: 1 values are NaN or infinite"),
        ([0.0, 1.0], [True], "members: 2 values are needed"),
        ([0.0, 1.0], [True, True], "members: at least 1 member and 1 non-member are needed, got 2 and 0"),
        ([0.0, 1.0], [False, False], "got 0 and 2"),
        ([0.0, 1.0], [0, 1], "members: bool values are needed"),
        ([[0.0], [1.0]], [True, False], "scores: one dimension"),
    ],
)
@pytest.mark.parametrize("name", ["auc", "roc", "advantage", "epsilon_lower_bound", "epsilon_one_run"])
def test_bad_tables_are_named(name, values, members, message):
    with pytest.raises(dv.InputError, match=message):
        getattr(dv.evaluation, name)(values, members)


def test_confidence_is_a_probability():
    with pytest.raises(dv.InputError, match="confidence: must lie in"):
        dv.evaluation.auc([0.0, 1.0], [True, False], confidence=95)


@pytest.mark.parametrize(
    ("scores", "members", "method"),
    [
        ([0, 2, 1, 3], [False, True, True, False], statistics.DELONG),
        ([0, 2, 1], [False, True, False], statistics.CHERNOFF),  # separated
        ([0, 2, 1, 3], [False, True, False, False], statistics.CHERNOFF),  # a single member has no variance
        ([1, 1, 1], [False, True, False], statistics.DELONG),  # nothing but ties is known to be 1/2
    ],
)
def test_the_method_is_named(scores, members, method):
    assert statistics.auc(np.array(scores, float), np.array(members)).method == method


def test_placements_of_several_tables_are_those_of_each():
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(0, 5, (2, 3, 4, 6))
    placements = statistics.placements_from_counts(inside, outside)
    for i in np.ndindex(3, 4):
        single = statistics.placements_from_counts(inside[i], outside[i])
        np.testing.assert_allclose(placements.members.values[i], single.members.values)
        np.testing.assert_allclose(placements.nonmembers.values[i], single.nonmembers.values)
