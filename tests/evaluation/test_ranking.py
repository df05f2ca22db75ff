"""AUC and paired AUC against their definitions, and the coverage of their intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit, ndtr
from scipy.stats import t as student

import divulge as dv
from divulge.evaluation import ranking

fine = settings(max_examples=60, deadline=None)
scores = st.lists(st.integers(-3, 3), min_size=2, max_size=25)


def kernel(inside, outside):
    """The O(mn) definition: 1 above, ½ tie, 0 below."""
    a, b = np.array(inside)[:, None], np.array(outside)[None]
    return (a > b) + 0.5 * (a == b)


def simulate(draws, m, n, shift, seed, statistic, shape=lambda x: x):
    rng = np.random.default_rng(seed)
    members = np.arange(m + n) < m
    return [statistic(shape(rng.normal(size=m + n) + shift * members), members) for _ in range(draws)]


@fine
@given(scores, scores)
def test_placements_are_the_rows_and_columns_of_the_definition(inside, outside):
    h = kernel(inside, outside)
    by_member, by_nonmember = ranking.placements(np.array(inside, float), np.array(outside, float))
    np.testing.assert_allclose(by_member, h.mean(1))
    np.testing.assert_allclose(by_nonmember, h.mean(0))


@fine
@given(scores, scores)
def test_auc_is_the_mean_of_the_kernel_and_lies_in_its_interval(inside, outside):
    values = np.array(inside + outside, float)
    members = np.arange(len(values)) < len(inside)
    found = dv.evaluation.auc(values, members)
    assert found.value == pytest.approx(kernel(inside, outside).mean())
    assert 0 <= found.low <= found.value <= found.high <= 1
    flipped = dv.evaluation.auc(-values, members)
    assert (flipped.value, flipped.low) == pytest.approx((1 - found.value, 1 - found.high), abs=1e-9)


def test_variance_is_delongs_up_to_the_pseudo_placement():
    rng = np.random.default_rng(2)
    inside, outside = rng.normal(0.5, 1, 400).round(1), rng.normal(size=300).round(1)
    h = kernel(inside, outside)
    naive = (h.mean(1).var(ddof=1) / 400 + h.mean(0).var(ddof=1) / 300) ** 0.5
    deviation, freedom = ranking.standard_error(*ranking.placements(inside, outside), null=0.5)
    assert deviation == pytest.approx(naive, rel=2e-3)
    assert 300 < freedom < 700


def test_golden_interval():
    members = np.array([0, 0, 1, 0, 0, 1, 0, 1, 1, 1], bool)
    found = dv.evaluation.auc(np.arange(10.0), members)
    assert found.value == pytest.approx(0.84)
    assert found.method == ranking.DELONG
    # By hand: members outrank 2, 4, 5, 5, 5 of 5, non-members are outranked by 5, 5, 4, 4, 3 of 5.
    parts = [np.r_[p, 0.5] for p in (np.array([2, 4, 5, 5, 5]) / 5, np.array([5, 5, 4, 4, 3]) / 5)]
    v = [((p - 0.84) ** 2).sum() / 4 / 5 for p in parts]
    reach = student.ppf(0.975, sum(v) ** 2 / (v[0] ** 2 + v[1] ** 2) * 4) * sum(v) ** 0.5 / (0.84 * 0.16)
    assert (found.low, found.high) == pytest.approx((expit(logit(0.84) - reach), expit(logit(0.84) + reach)))


@pytest.mark.parametrize(("m", "n"), [(5, 5), (10, 100), (20, 200), (100, 100)])
@pytest.mark.parametrize("shift", [0.0, 1.0, 2.5])
def test_auc_intervals_cover(m, n, shift):
    """95 % intervals, 2,000 draws, four standard errors of slack: false alarm below 1e-4 a case."""
    true = ndtr(shift / 2**0.5)
    found = simulate(2000, m, n, shift, 1, dv.evaluation.auc)
    assert np.mean([e.low <= true <= e.high for e in found]) >= 0.95 - 4 * (0.95 * 0.05 / 2000) ** 0.5


def test_perfect_separation_is_not_certainty():
    found = dv.evaluation.auc([1.0, 2.0, 3.0, 4.0], [False, False, True, True])
    assert (found.value, found.high, found.method) == (1.0, 1.0, ranking.CHERNOFF)
    # Two independent pairs: θ² = .025.
    assert found.low == pytest.approx(0.025**0.5)


def test_constant_scores_say_nothing():
    found = dv.evaluation.auc(np.ones(200), np.arange(200) < 100)
    assert found.value == 0.5
    assert 0.3 < found.low < 0.5 < found.high < 0.7


def test_one_record_of_a_kind_is_enough_for_a_wide_interval():
    found = dv.evaluation.auc([3.0, 1.0, 2.0, 4.0], [True, False, False, False])
    assert found.low < 0.1
    assert found.high > 0.98


def test_paired_difference_is_the_difference_and_covers():
    """95 % intervals of a true difference, 2,000 draws, four standard errors of slack."""
    rng = np.random.default_rng(3)
    members = np.arange(200) < 100
    true = ndtr(1 / 2**0.5) - ndtr(0.5 / (1.25) ** 0.5 / 2**0.5)
    hits, widths = 0, []
    for _ in range(2000):
        base = rng.normal(size=200)
        a, b = base + members, base + 0.5 * members + 0.5 * rng.normal(size=200)
        found = dv.evaluation.paired_difference(a, b, members)
        hits += found.low <= true <= found.high
        widths.append(found.high - found.low)
    assert hits / 2000 >= 0.95 - 4 * (0.95 * 0.05 / 2000) ** 0.5
    single = dv.evaluation.auc(a, members)
    assert np.mean(widths) < single.high - single.low
    difference = dv.evaluation.auc(a, members).value - dv.evaluation.auc(b, members).value
    assert found.value == pytest.approx(difference)


def test_identical_runs_do_not_differ():
    rng = np.random.default_rng(0)
    values, members = rng.normal(size=300), np.arange(300) < 150
    found = dv.evaluation.paired_difference(values, 2 * values + 1, members)
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_a_constant_gap_between_runs_still_has_an_interval():
    members = np.arange(40) < 20
    found = dv.evaluation.paired_difference(members * 1.0, members * -1.0, members)
    assert found.value == 1.0
    assert 0 < found.low < 1


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
