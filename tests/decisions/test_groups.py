"""Users instead of documents: the bound over groups, for any dependence within them."""

import numpy as np
import pytest
from scipy.stats import binom

import divulge as dv
from divulge.decisions import fdr, strata

RUNS = 250
COLUMNS = {
    "pandas": lambda library: library.Series,
    "polars": lambda library: library.Series,
    "numpy": lambda library: lambda names: library.array(names, dtype=object),
}
LIMIT = binom.isf(1e-7, RUNS, 0.2) / RUNS  # .36: means exceed it with probability 1e-5 at most


def draw(rng, count, size, shared, lift=0.0):
    """Scores of ``count`` groups; ``shared`` is the part of the variance that all documents of a group have alike."""
    common = np.repeat(rng.normal(size=count), size)
    return np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=count * size) + lift


@pytest.mark.parametrize(("shared", "known_in_groups"), [(0.0, True), (1.0, True), (0.5, False)])
def test_false_discoveries_are_counted_in_groups(shared, known_in_groups):
    rng, false, power = np.random.default_rng([int(10 * shared), known_in_groups]), [], []
    labels, calibration_groups = np.repeat(np.arange(40), 5), np.repeat(np.arange(120), 5)
    for _ in range(RUNS):
        scores = np.append(draw(rng, 15, 5, shared, 3.0), draw(rng, 25, 5, shared))
        calibration = draw(rng, 120, 5, shared)
        selection = fdr.select_groups(
            scores, labels, calibration, calibration_groups if known_in_groups else None, fdr=0.2
        )
        chosen = selection.selection.selected
        false.append(chosen[15:].sum() / max(chosen.sum(), 1))
        power.append(chosen[:15].mean())
    assert np.mean(false) <= LIMIT
    assert np.mean(power) > (0.5 if known_in_groups else 0.1)


def draw_sizes(rng, sizes, lift=0.0):
    """Independent scores of groups of these sizes, and the group of each."""
    return rng.normal(size=int(sizes.sum())) + lift, np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize("larger", [False, True])
def test_groups_of_other_sizes_are_doubted_where_large_ones_are_members(larger):
    """Groups of 1 to 3 and of 20 documents. If those of 20 are the members, non-members are smaller than the
    calibration's groups: the bound fails, and the guarantee is doubtful. If membership is thrown for every group, it
    is kept."""
    rng, false, claimed, doubts = np.random.default_rng(int(larger)), [], [], 0
    for _ in range(80):
        sizes = np.where(rng.random(275) < 0.5, 20, rng.integers(1, 4, 275))
        members, nonmembers, calibration_sizes = np.split(sizes, (15, 75))
        if larger:
            members, nonmembers = np.full(15, 20), rng.integers(1, 4, 60)
        (high, member_groups), (low, nonmember_groups) = draw_sizes(rng, members, 2.0), draw_sizes(rng, nonmembers)
        calibration, third = draw_sizes(rng, calibration_sizes)
        selection = fdr.select_groups(
            np.append(high, low), np.append(member_groups, nonmember_groups + 15), calibration, third, fdr=0.2
        )
        chosen = selection.selection.selected
        false.append(chosen[15:].sum() / max(chosen.sum(), 1))
        is_doubted = selection.selection.guarantee.standing == "doubtful"
        assert is_doubted == any("take equally many" in text for text in selection.selection.warnings)
        doubts += is_doubted
        claimed.append(0.0 if is_doubted else false[-1])
    assert np.mean(claimed) <= binom.isf(1e-6, 80, 0.2) / 80
    assert np.mean(false) > 0.3 if larger else np.mean(false) <= binom.isf(1e-6, 80, 0.2) / 80
    assert doubts > 72 if larger else doubts <= binom.isf(1e-3, 80, 0.1)


def test_groups_of_one_size_are_not_doubted_and_smaller_candidates_are():
    rng = np.random.default_rng(0)
    calibration, third = draw_sizes(rng, np.full(200, 20))
    for size, standing in ((20, "holds"), (1, "doubtful")):
        scores, groups = draw_sizes(rng, np.full(30, size))
        assert fdr.select_groups(scores, groups, calibration, third, fdr=0.2).selection.guarantee.standing == standing


def test_without_members_few_groups_are_ever_selected_whatever_the_dependence():
    """Documents of a group that are all alike, and groups that are all alike: the worst for rules that add up."""
    rng, false = np.random.default_rng(3), []
    for _ in range(RUNS):
        scores = np.repeat(rng.normal(), 60)
        false.append(fdr.select_groups(scores, np.arange(60) // 6, rng.normal(size=200), fdr=0.2).selection.count > 0)
    assert np.mean(false) <= LIMIT


def test_a_bound_over_documents_says_nothing_about_groups():
    """Three in four documents of non-member groups lie with members': their rate is kept, that of groups is not."""
    rng, false = np.random.default_rng(4), []
    labels = np.r_[np.repeat(0, 200), np.arange(1, 201)]
    for _ in range(60):
        scores, calibration = np.append(rng.normal(6, 1, 200), rng.normal(size=200)), rng.normal(size=2000)
        chosen = np.unique(labels[fdr.select(scores, calibration, fdr=0.1, method="bh").selected])
        false.append((chosen > 0).sum() / max(len(chosen), 1))
    assert np.mean(false) > 0.5


def test_combined_p_values_are_e_times_the_geometric_mean():
    p, labels = np.array([0.2, 0.001, 0.03, 0.9, 0.004]), np.array(["b", "a", "a", "b", "c"])
    expected = [np.e * np.sqrt(0.001 * 0.03), 1.0, 0.004]
    assert fdr.combine_p_values(p, labels) == pytest.approx(expected)


def test_rows_in_any_order_give_the_same_groups():
    rng = np.random.default_rng(5)
    labels, calibration_groups = rng.integers(0, 20, 200).astype(str), rng.integers(0, 90, 500)
    scores, calibration = rng.normal(1, 1, 200), rng.normal(size=500)
    turned, moved = rng.permutation(200), rng.permutation(500)
    selected = fdr.select_groups(scores, labels, calibration, calibration_groups, fdr=0.3)
    two = fdr.select_groups(scores[turned], labels[turned], calibration[moved], calibration_groups[moved], fdr=0.3)
    assert selected.names.tolist() == two.names.tolist() == sorted(set(labels.tolist()))
    assert np.array_equal(selected.selection.p_values, two.selection.p_values)
    assert selected.sizes.sum() == 200


@pytest.mark.parametrize("library", ["pandas", "polars", "numpy"])
def test_names_may_be_columns_of_data_frames(library):
    column = COLUMNS[library](pytest.importorskip(library))
    rng = np.random.default_rng(6)
    names, calibration_names = [f"é{i // 4}" for i in range(80)], [f"u{i // 4}" for i in range(400)]
    scores, calibration = rng.normal(1, 1, 80), rng.normal(size=400)
    plain = fdr.select_groups(scores, names, calibration, calibration_names, fdr=0.3)
    selection = fdr.select_groups(scores, column(names), calibration, column(calibration_names), fdr=0.3)
    assert selection.names.tolist() == plain.names.tolist() == sorted(set(names))
    assert np.array_equal(selection.selection.selected, plain.selection.selected)
    assert strata.Strata(column(names), column(names[:40])).uncovered == 40


def test_bad_input_is_named():
    for bad in ([1], [True, False], [0.5, 1.5], ["a", None], [b"a", b"b"], [["a", "b"]]):
        with pytest.raises(dv.InputError, match="groups: texts, or whole numbers, are needed"):
            fdr.select_groups([1.0, 2.0], bad, range(99))
        with pytest.raises(dv.InputError, match=r"strata\.candidates: texts, or whole numbers|no calibration record"):
            strata.Strata(bad, ["z"])
    with pytest.raises(dv.InputError, match="too large to be averaged"):
        fdr.select_groups([1e308, 1e308], [1, 1], range(99))
    with pytest.raises(dv.InputError, match="calibration_groups"):
        fdr.select_groups([1.0, 2.0], [1, 2], range(99), [0.5] * 99)
    with pytest.raises(dv.InputError, match="calibration: 3 scores are too few"):
        fdr.select_groups([1.0, 2.0], [1, 2], range(99), np.arange(99) // 33)
    with pytest.raises(dv.InputError, match="p_values"):
        fdr.combine_p_values([0.0, 0.5], [1, 2])


@pytest.mark.parametrize("n_groups", [1, 2, 3, 5])
def test_groups_without_calibration_groups_pay_the_harmonic_sum(n_groups):
    """Benjamini and Yekutieli's step-up by its definition, at levels on both sides of each threshold."""
    rng = np.random.default_rng(n_groups)
    scores, names = rng.normal(2.5, 0.5, 2 * n_groups), np.repeat(np.arange(n_groups), 2)
    calibration = rng.normal(size=400)
    p = fdr.combine_p_values((1 + (calibration >= scores[:, None]).sum(axis=1)) / 401, names)
    harmonic = sum(1 / k for k in range(1, n_groups + 1))
    thresholds = sorted({float(value * n_groups * harmonic / k) for value in p for k in range(1, n_groups + 1)})
    for level in [threshold * factor for threshold in thresholds for factor in (0.999, 1.001)]:
        if not 0 < level < 1:
            continue
        ranked = np.sort(p)
        fits = np.flatnonzero(ranked <= level / harmonic * np.arange(1, n_groups + 1) / n_groups)
        want = p <= ranked[fits[-1]] if len(fits) else np.zeros(n_groups, bool)
        selection = fdr.select_groups(scores, names, calibration, fdr=level)
        assert sorted(selection.selected.tolist()) == np.flatnonzero(want).tolist()
