"""ROC, TPR at FPR and advantage: definitions, ties, coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binom
from sklearn.metrics import roc_curve

import divulge as dv
from divulge import statistics

fine = settings(max_examples=60, deadline=None)
DRAWS = 400
SLACK = 4 * (0.95 * 0.05 / DRAWS) ** 0.5


@st.composite
def tables(draw):
    values = np.array(draw(st.lists(st.integers(-3, 3), min_size=12, max_size=50)), float)
    members = np.arange(len(values)) < draw(st.integers(1, len(values) - 9))
    return values, members


@fine
@given(tables())
def test_the_curve_is_scikit_learns_with_every_point_kept(table):
    curve = dv.evaluation.roc(*table)
    fpr, tpr, thresholds = roc_curve(table[1], table[0], drop_intermediate=False)
    np.testing.assert_allclose(curve.fpr, fpr)
    np.testing.assert_allclose(curve.tpr, tpr)
    np.testing.assert_allclose(curve.thresholds, thresholds)
    assert (curve.low <= curve.tpr + 1e-12).all()
    assert (curve.tpr <= curve.high + 1e-12).all()


@fine
@given(tables(), st.sampled_from([0.1, 0.2, 0.3, 0.5]))
def test_tpr_at_fpr_is_the_best_point_at_or_left_of_the_level(table, level):
    curve = dv.evaluation.roc(*table)
    estimate = dv.evaluation.tpr_at_fpr(*table, level)
    assert estimate.value == curve.tpr[curve.fpr <= level + 1e-12].max()
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


@fine
@given(tables())
def test_advantage_is_the_largest_gap(table):
    curve = dv.evaluation.roc(*table)
    estimate = dv.evaluation.advantage(*table)
    assert estimate.value == pytest.approx((curve.tpr - curve.fpr).max())
    assert estimate.low <= estimate.value <= estimate.high


def test_a_rate_that_is_a_whole_number_of_nonmembers_allows_that_many():
    """0.29 of 100 non-members are 29, though 0.29 * 100 < 29 in doubles: the threshold is the thirtieth highest."""
    values, members = np.r_[np.arange(100.0), 70.5], np.arange(101) == 100
    assert 0.29 * 100 < 29
    assert dv.evaluation.tpr_at_fpr(values, members, 0.29).value == 1.0
    assert dv.evaluation.tpr_at_fpr(values - members, members, 0.29).value == 0.0
    (row,) = dv.evaluation.subgroups(values, members, np.zeros(101, int), 0.29)
    assert (row.tpr.value, row.fpr.value) == (1.0, 0.29)
    gap = dv.evaluation.paired_difference(values, values - members, members, "tpr@fpr=0.29")
    assert gap.value == 1.0


def test_advantage_pays_for_two_distribution_functions_at_either_end():
    """By hand: at 95 % each function may be off by sqrt(ln(4 / .05) / 2n) at either end."""
    members = np.arange(300) < 100
    values = np.where(members, np.arange(300) % 10 >= 3, np.arange(300) % 10 >= 6) * 1.0
    estimate = dv.evaluation.advantage(values, members)
    reach = (np.log(80) / 200) ** 0.5 + (np.log(80) / 400) ** 0.5
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0.3, 0.3 - reach, 0.3 + reach))


@pytest.mark.parametrize(("level", "shift"), [(0.01, 1.0), (0.1, 0.0), (0.1, 2.5)])
def test_tpr_intervals_cover_the_truth_at_the_true_threshold(level, shift):
    """95 % intervals, 400 draws of 300 members and 400 non-members; false alarm below 1e-4 a case."""
    rng = np.random.default_rng(7)
    members = np.arange(700) < 300
    true = ndtr(shift - ndtri(1 - level))
    estimates = [dv.evaluation.tpr_at_fpr(rng.normal(size=700) + shift * members, members, level) for _ in range(DRAWS)]
    assert np.mean([e.low <= true <= e.high for e in estimates]) >= 0.95 - SLACK


def test_clopper_pearson_at_the_empirical_threshold_alone_would_not_cover():
    """Why the threshold's own uncertainty is in the interval: without it 95 % is far less."""
    rng = np.random.default_rng(8)
    members = np.arange(5400) < 5000
    true = ndtr(1.0 - ndtri(0.99))
    hits = 0
    for _ in range(60):
        e = dv.evaluation.tpr_at_fpr(rng.normal(size=5400) + members, members, 0.01)
        naive = statistics.proportion(round(e.value * 5000), 5000)
        hits += naive.low <= true <= naive.high
    assert hits / 60 < 0.6


def test_intervals_with_ties_cover():
    """Scores of 30 % zeros and one decimal: the truth is the TPR above the smallest threshold of FPR ≤ 5 %."""
    rng = np.random.default_rng(9)
    members = np.arange(600) < 300
    grid = np.arange(-60, 90) / 10

    def draw(n, shift):
        return np.where(rng.random(n) < 0.3, 0.0, (rng.normal(size=n) + shift).round(1))

    def tail(t, shift):
        return 0.7 * ndtr(shift - t - 0.05) + 0.3 * (t < 0)

    threshold = grid[tail(grid, 0.0) <= 0.05].min()
    true = tail(threshold, 1.0)
    estimates = [dv.evaluation.tpr_at_fpr(np.r_[draw(300, 1.0), draw(300, 0.0)], members, 0.05) for _ in range(DRAWS)]
    assert np.mean([e.low <= true <= e.high for e in estimates]) >= 0.95 - SLACK


@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_advantage_intervals_cover(shift):
    """True advantage 2Φ(d/2) - 1; 400 draws."""
    rng = np.random.default_rng(10)
    members = np.arange(300) < 150
    true = 2 * ndtr(shift / 2) - 1
    estimates = [dv.evaluation.advantage(rng.normal(size=300) + shift * members, members) for _ in range(DRAWS)]
    assert np.mean([e.low <= true <= e.high for e in estimates]) >= 0.95 - SLACK


@fine
@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_clopper_pearson_is_the_beta_form(pair):
    k, n = pair
    estimate = statistics.proportion(k, n)
    assert estimate.low == pytest.approx(beta.ppf(0.025, k, n - k + 1) if k else 0.0)
    assert estimate.high == pytest.approx(beta.ppf(0.975, k + 1, n - k) if k < n else 1.0)


@pytest.mark.parametrize("confidence", [0.95, 0.6])
def test_the_band_of_a_curve_is_the_interval_at_each_of_its_rates(confidence):
    rng = np.random.default_rng(11)
    members = np.arange(120) < 50
    values = (rng.normal(size=120) + members).round(1)
    curve = dv.evaluation.roc(values, members, confidence)
    assert (curve.confidence, curve.low[0], curve.high[-1]) == (confidence, 0.0, 1.0)
    inner = np.flatnonzero((curve.fpr > 0) & (curve.fpr < 1))
    assert len(inner) > 10
    for point in inner:
        expected = dv.evaluation.tpr_at_fpr(values, members, float(curve.fpr[point]), confidence)
        assert (curve.low[point], curve.high[point]) == pytest.approx((expected.low, expected.high))


def test_between_the_rates_of_a_long_curve_the_outer_ends_hold():
    rng = np.random.default_rng(12)
    members = np.arange(9000) < 500
    values = rng.normal(size=9000) + members
    curve = dv.evaluation.roc(values, members)
    for point in rng.choice(np.flatnonzero((curve.fpr > 0) & (curve.fpr < 1)), 40):
        exact = dv.evaluation.tpr_at_fpr(values, members, float(curve.fpr[point]))
        assert exact.low - 0.01 <= curve.low[point] <= exact.low + 1e-12
        assert exact.high - 1e-12 <= curve.high[point] <= exact.high + 0.01


def test_golden_tpr():
    rng = np.random.default_rng(0)
    members = np.arange(4000) < 2000
    estimate = dv.evaluation.tpr_at_fpr(rng.normal(size=4000) + 2 * members, members, 0.01)
    assert estimate.method.startswith("clopper-pearson")
    assert estimate.low < ndtr(2 - ndtri(0.99)) < estimate.high
    assert estimate.high - estimate.low < 0.25


@pytest.mark.parametrize(
    ("level", "message"),
    [
        (0.001, "fpr: 999 non-members are needed for an FPR of 0.001, got 100"),
        (0, "fpr: must lie"),
        (1.5, "fpr: must lie"),
    ],
)
def test_unsupported_levels_are_refused(level, message):
    with pytest.raises(dv.InputError, match=message):
        dv.evaluation.tpr_at_fpr(np.arange(200.0), np.arange(200) < 100, level)


def test_tpr_difference_covers_and_is_shorter_than_two_intervals():
    """95 % intervals of a true difference, 300 draws; a run against itself differs by nothing."""
    rng = np.random.default_rng(11)
    members = np.arange(1000) < 500
    true = ndtr(2 - ndtri(0.95)) - ndtr(1 - ndtri(0.95))
    hits = 0
    for _ in range(300):
        base = rng.normal(size=1000)
        difference = dv.evaluation.paired_difference(base + 2 * members, base + members, members, "tpr@fpr=0.05")
        hits += difference.low <= true <= difference.high
    assert hits / 300 >= 0.95
    same = dv.evaluation.paired_difference(base, base, members, "tpr@fpr=0.05")
    assert same.value == 0.0
    assert same.low <= 0.0 <= same.high


def test_statistics_go_by_name():
    values, members = np.arange(40.0), np.arange(40) % 2 == 0
    measure = dv.evaluation.measure
    assert measure(values, members, "auc") == dv.evaluation.auc(values, members)
    assert measure(values, members, "advantage") == dv.evaluation.advantage(values, members)
    assert measure(values, members, "epsilon") == dv.evaluation.epsilon_lower_bound(values, members)
    assert measure(values, members, "tpr@fpr=0.1") == dv.evaluation.tpr_at_fpr(values, members, 0.1)
    for name, message in {
        "tpr": "'tpr' is unknown",
        "tpr@fpr=low": "a number is needed",
        "tpr@fpr=2": "must lie",
    }.items():
        with pytest.raises(dv.InputError, match=message):
            measure(values, members, name)
    with pytest.raises(dv.InputError, match="scores_b: 40 values are needed, got 39"):
        dv.evaluation.paired_difference(values, values[1:], members)


@fine
@given(tables(), st.sampled_from([0.1, 0.2, 0.3, 0.5]))
def test_tnr_at_fnr_is_the_best_cut_that_loses_so_few_members(table, level):
    scores, members = table
    if members.sum() < dv.evaluation.min_nonmembers(level):
        with pytest.raises(dv.InputError, match=r"fnr: .* needs at least .* members"):
            dv.evaluation.tnr_at_fnr(scores, members, level)
        return
    # A record is ruled out when its score is at most the cut.
    cuts = [c for c in (-np.inf, *scores) if (scores[members] <= c).mean() <= level + 1e-12]
    estimate = dv.evaluation.tnr_at_fnr(scores, members, level)
    assert estimate.value == pytest.approx(max((scores[~members] <= c).mean() for c in cuts))
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


def test_a_difference_of_tprs_counts_members_that_only_one_of_two_runs_finds():
    """By definition: Clopper-Pearson's bounds of both shares of discordant members, each at an eighth of the error."""
    rng = np.random.default_rng(0)
    truth = np.arange(300) < 120
    scores = rng.normal(size=300) + 2.5 * truth
    noisy_scores = scores + 0.8 * rng.normal(size=300)
    difference = dv.evaluation.paired_difference(scores, noisy_scores, truth, "tpr@fpr=0.1")
    ends = []
    for winner, loser in ((scores, noisy_scores), (noisy_scores, scores)):
        surely, possibly = (
            values[truth] > np.sort(values[~truth])[::-1][int(rank) - 1]
            for values, rank in (
                (winner, binom.ppf(0.05 / 8, 180, 0.1)),
                (loser, binom.isf(0.05 / 8, 180, 0.1) + 1),
            )
        )
        gain, loss = (surely & ~possibly).sum(), (possibly & ~surely).sum()
        low = beta.ppf(0.05 / 8, gain, 120 - gain + 1) if gain else 0.0
        ends.append(low - beta.isf(0.05 / 8, loss + 1, 120 - loss))
    assert difference.low == pytest.approx(ends[0])
    assert difference.high == pytest.approx(-ends[1])
