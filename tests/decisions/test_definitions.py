"""Decisions at their limits and just beyond, refusals, and what a selection claims."""

import math

import numpy as np
import pytest
from scipy import stats

from divulge.decisions import counts as counting
from divulge.decisions import fdr, fpr, planning
from divulge.decisions import strata as by_strata
from divulge.decisions.counts import Counts
from divulge.decisions.methods import BH, PTDI, Adaptive, Auto, Moments, Storey
from divulge.decisions.planning import Setting
from divulge.decisions.strata import Strata
from divulge.errors import InputError
from divulge.types import Guarantee


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, ""),
        ({"tied": [0, 0, -1]}, "no candidates have these numbers"),
        ({"above": [3, 2, -1]}, "no candidates have these numbers"),
        ({"above": [5, 2, 1], "total": 4}, "no candidates have these numbers"),
        ({"above": [3, 2, 1], "tied": [2, 0, 0]}, "no candidates have these numbers"),
        ({"above": [0, 0, 0], "tied": [0, 0, 5]}, "no candidates have these numbers"),
        ({"calibration": [1.0, 0.0, 2.0]}, "no candidates have these numbers"),
        ({"above": [3.0, 2.0, 1.0]}, "three numbers are needed"),
        ({"total": 4.0}, "three numbers are needed"),
        ({"above": [3, 2]}, "three numbers are needed"),
        ({"other": [1]}, r"is no file of counts; it holds the arrays \['above', 'calibration', 'other'"),
    ],
)
def test_stored_counts_are_those_of_some_candidates(tmp_path, change, message):
    arrays = {"calibration": [0.0, 1.0, 2.0], "above": [3, 2, 1], "tied": [0, 0, 0], "total": 4, **change}
    path = tmp_path / "counts.npz"
    np.savez(path, **{name: np.array(values) for name, values in arrays.items()})
    if message:
        with pytest.raises(InputError, match=message):
            Counts.load(path)
    else:
        loaded = Counts.load(path)
        assert (loaded.above.tolist(), loaded.total) == (arrays["above"], arrays["total"])


def expected_equal_pairs(calibration, candidates):
    """Equal pairs of a candidate and a calibration score, were they as frequent as pairs of calibration scores."""
    values, sizes = np.unique(calibration, return_counts=True)
    total = 0.0
    for i in range(1, len(values) - 1):
        n_candidates = np.sum((candidates > values[i - 1]) & (candidates < values[i + 1]))
        neighbourhood = sizes[i] + (sizes[i - 1] + sizes[i + 1]) / 2
        total += sizes[i] * (sizes[i] - 1) * n_candidates / neighbourhood
    return total


@pytest.mark.parametrize(("repeats", "n_candidates"), [(2, 10), (2, 20), (2, 19), (3, 15), (3, 7), (1, 99)])
def test_twenty_expected_ties_and_none_show_repeated_documents(repeats, n_candidates):
    calibration = np.repeat(np.arange(5.0), [1, repeats, repeats, repeats + 1, 1])
    candidates = np.linspace(0.05, 3.97, n_candidates)
    candidates = candidates[~np.isin(candidates, calibration)]
    counts = Counts.empty(calibration).add(candidates)
    expected = expected_equal_pairs(calibration, candidates)
    assert counting.has_unmatched_repeats(counts) == (expected >= 20)
    assert not counting.has_unmatched_repeats(counts.add([2.0]))  # one tie, of a value in the middle
    assert counting.has_unmatched_repeats(counts.add([0.0, 4.0])) == (expected >= 20)  # ties at the ends do not count


# Methods


@pytest.mark.parametrize("lam", [0.01, 0.05, 0.5, 0.9])
def test_storeys_share_counts_p_values_from_the_grid_point_on(lam):
    rng = np.random.default_rng(int(100 * lam))
    for n, m in ((1, 1), (2, 3), (19, 8), (40, 100)):
        calibration, candidates = rng.integers(0, 30, n) * 1.0, rng.integers(0, 40, m) * 1.0
        p = (1 + (calibration >= candidates[:, None]).sum(1)) / (n + 1)
        point = Storey(lam).grid(n) / (n + 1)
        top, bottom = Storey(lam).null_share(Counts.empty(calibration).add(candidates))
        assert top / bottom == pytest.approx((1 + np.sum(p >= point - 1e-12)) / (m * (1 - point)))


@pytest.mark.parametrize("eta", [0.01, 0.05, 0.3, 0.999])
def test_the_region_of_ptdi_holds_what_is_below_the_calibration_score_at_eta(eta):
    rng = np.random.default_rng(3)
    for n in (1, 9, 20, 100):
        calibration, candidates = np.sort(rng.integers(0, 60, n) * 1.0), rng.integers(-2, 60, 30) * 1.0
        edge = calibration[min(int(eta * n + 1e-9), n - 1)]
        counts = Counts.empty(calibration).add(candidates)
        inside = int((calibration < edge).sum())
        assert PTDI(eta).region(counts) == (int((candidates < edge).sum()), inside)
        top, bottom = PTDI(eta).null_share(counts)
        assert (top, bottom) == ((1 + (candidates < edge).sum()) * n, 31 * inside)


@pytest.mark.parametrize("arguments", [{"adaptive": Storey()}, {"storey": Adaptive()}, {"storey": "storey"}])
def test_auto_holds_methods_of_their_kind(arguments):
    with pytest.raises(InputError, match=next(iter(arguments))):
        Auto(**arguments)


# False discovery rates


@pytest.mark.parametrize("method", [BH(), Storey(), Storey(0.2), PTDI(0.3), Adaptive()])
def test_q_values_ranks_and_cut_are_those_of_the_definition(method):
    rng = np.random.default_rng(4)
    for n, m, level in ((9, 3, 0.3), (40, 30, 0.1), (40, 30, 0.8), (60, 20, 0.05)):
        calibration, candidates = np.sort(rng.normal(size=n)), rng.normal(1, 1, m)
        counts = Counts.empty(calibration).add(candidates)
        top, bottom = method.null_share(counts)
        n_within = [int(((calibration >= candidates[:, None]).sum(1) <= r).sum()) for r in range(n + 1)]
        bounds = [(r + 1) / (n + 1) * (top / bottom) * m / k if k else math.inf for r, k in enumerate(n_within)]
        q = [min(1.0, *bounds[r:]) for r in range(n + 1)]
        rule = fdr.step_up(counts, level, method)
        assert rule.q_values == pytest.approx(q)
        assert rule.null_share == pytest.approx(top / bottom)
        assert rule.rank == max((r for r in range(n + 1) if q[r] <= level), default=-1)
        selected = (calibration >= candidates[:, None]).sum(1) <= rule.rank
        assert (candidates > rule.threshold).tolist() == selected.tolist()


# Groups


def test_a_selection_of_groups_says_what_it_is_and_claims_no_more_than_its_method():
    rng = np.random.default_rng(6)
    groups, known = np.repeat(np.arange(20), 3), np.repeat(np.arange(100), 3)
    scores, calibration = rng.normal(size=60) + 6 * (groups < 10), rng.normal(size=300)
    grouped = fdr.select_groups(scores, groups, calibration, known, fdr=0.2)
    assert repr(grouped) == f"GroupSelection({len(grouped.selected)} of 20 groups; {grouped.selection.guarantee})"
    assert grouped.selection.guarantee == Guarantee("FDR over groups", 0.2, (fdr.ASSUMES_EXCHANGEABLE_GROUPS,))
    assert grouped.sizes.tolist() == [3] * 20
    means = scores.reshape(20, 3).mean(axis=1)
    assert grouped.selection.threshold == pytest.approx(means[grouped.selection.selected].min())
    unproven = fdr.select_groups(scores, groups, calibration, known, fdr=0.2, method=Moments([6.0, 7.0]))
    assert not unproven.selection.guarantee.says
    ungrouped = fdr.select_groups(scores, groups, calibration, fdr=0.4)
    assert ungrouped.selection.guarantee == Guarantee("FDR over groups", 0.4, (fdr.ASSUMES_EXCHANGEABLE_DOCUMENTS,))
    assert ungrouped.selection.count > 0
    assert ungrouped.selection.threshold == pytest.approx(means[ungrouped.selection.selected].min())
    assert len(ungrouped.selection.warnings) == 1
    nothing = fdr.select_groups(-scores - 9, groups, calibration, fdr=0.4)
    assert (nothing.selection.count, nothing.selection.threshold) == (0, math.inf)


# Sensitivity


# False-positive rates


@pytest.mark.parametrize("level", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_conditional_rank_is_the_largest_with_enough_confidence(level, confidence):
    for n in (60, 300, 500):
        every = np.arange(1, n + 1)
        qualifying = every[stats.beta.cdf(level, every, n + 1 - every) >= confidence]
        if not len(qualifying):
            with pytest.raises(InputError, match="known non-members are needed for a training-conditional FPR of"):
                fpr.threshold(np.arange(float(n)), level, guarantee="training-conditional", confidence=confidence)
            continue
        found = fpr.threshold(np.arange(float(n)), level, guarantee="training-conditional", confidence=confidence)
        assert found.rank == max(qualifying)
        assert found.value == np.nextafter(float(n - found.rank), np.inf)
        assert found.guarantee.kind == f"training-conditional FPR (confidence {confidence:g})"
        decision = fpr.decide(
            np.arange(float(n)), [1e6], level, guarantee="training-conditional", confidence=confidence
        )
        assert decision.warnings == ()


# Envelopes


# Planning


def test_drawn_members_separate_as_the_auc_says():
    counts, members = Setting(40_000, 20_000, 0.8).draw(40_000, np.random.default_rng(0))
    assert (counts.total, len(members), len(counts.calibration)) == (40_000, 20_000, 40_000)
    assert members.mean() == pytest.approx(np.sqrt(2) * stats.norm.ppf(0.8), abs=0.03)
    n_above = np.searchsorted(counts.calibration, members).mean() / 40_000
    assert n_above == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("shares", [[0.0] * 5, [0.5, 0, 0], [0.2, 0.4, 0.0, 0.6], [1.0, 1.0, 0.9, 0.2], [0.5, 0.5]])
def test_the_interval_of_a_mean_power_is_a_product_of_two(shares):
    shares = np.array(shares)
    positive = shares[shares > 0]
    k, n = len(positive), len(shares)
    low = stats.beta.ppf(0.0125, k, n - k + 1) if k else 0.0
    high = stats.beta.ppf(0.9875, k + 1, n - k) if k < n else 1.0
    mean_low, mean_high = 0.0, 1.0
    if k >= 2:
        reach = stats.t.ppf(0.9875, k - 1) * positive.std(ddof=1) / np.sqrt(k)
        mean_low, mean_high = max(positive.mean() - reach, 0.0), min(positive.mean() + reach, 1.0)
    estimate = planning.mean_power(shares)
    assert (estimate.value, estimate.confidence) == (shares.mean(), 0.95)
    assert (estimate.low, estimate.high) == pytest.approx((low * mean_low, high * mean_high))


# Strata


def test_moments_of_members_as_common_in_the_region_subtract_nothing():
    same = Moments([0.0] * 2 + [50.0])  # 2 of 4 in the region, as of the calibration
    assert same.null_share(Counts.empty(np.arange(10.0)).add(np.append(np.zeros(9), np.arange(5.0, 16.0)))) == (
        1.0,
        1.0,
    )
    assert same.null_share(Counts.empty(np.arange(10.0)).add(np.zeros(20)))[0] == pytest.approx(1 / 0.5)
    assert Moments([0.0]).null_share(Counts.empty(np.zeros(5)).add([1.0])) == (1.0, 0.0)


def test_strata_without_calibration_are_counted_and_said():
    calibration = np.arange(40.0)
    strata = Strata([1, 1, 2, 3], [1] * 20 + [2] * 20)
    assert strata.uncovered == 1
    selection = by_strata.select_within_strata([500.0, 501.0, -1.0, 502.0], calibration, strata, fdr=0.2)
    assert selection.selected.tolist() == [True, True, False, False]
    assert selection.p_values.tolist() == pytest.approx([1 / 21, 1 / 21, 1.0, 1.0])
    assert selection.warnings == ("1 of 4 candidates are of strata without calibration and cannot be selected",)
    assert selection.threshold == 500.0
    covered = by_strata.select_within_strata([500.0, 501.0], calibration[:20], Strata([1, 1], [1] * 20), fdr=0.2)
    assert covered.warnings == ()
    low = by_strata.select_within_strata([-5.0, -6.0], calibration[:20], Strata([1, 1], [1] * 20), fdr=0.2)
    assert (low.count, low.threshold) == (0, math.inf)
    with pytest.raises(InputError, match=r"too small for fdr=0\.2.* would take 4 records"):
        by_strata.select_within_strata([5.0], [1.0, 2.0, 3.0], Strata([1], [1, 1, 1]), fdr=0.2)
    assert by_strata.select_within_strata([5.0], np.arange(4.0), Strata([1], [1] * 4), fdr=0.2).count == 1
    Strata([1, 2], [2], holdout=[3])
    with pytest.raises(InputError, match=r"strata\.holdout"):
        Strata([1, 2], [2], holdout=[0.5])
