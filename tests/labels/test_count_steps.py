"""Steps of plans that count: queries, readings at their limits, candidates for totals, against naive counts."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError
from divulge.labels import codes, count_plans
from divulge.labels.oracles import LocalOracle, OracleSpec


def answers_of(spec, inner, y):
    oracle = LocalOracle(replace(spec, noise=0.0, decimals=None), y)
    return np.array([oracle.exact(inner.query(index)) for index in range(inner.count)])


def plan_of(metric, n=8, **options):
    spec = OracleSpec(metric, n=n, **options)
    return spec, labels.design(spec).inner


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_all_ones_are_asked_first_and_then_the_sets_of_a_detecting_matrix(metric, n):
    _, plan = plan_of(metric, n)
    code = codes.detecting_code(n)
    asked = codes.detecting_queries(code)
    assert plan.count == 1 + len(asked)
    assert plan.query(0).tolist() == [1.0] * n
    for index, slot in enumerate(asked, 1):
        first_row, weights = code.weights(int(slot))
        expected = np.zeros(n)
        expected[first_row : first_row + len(weights)] = -weights
        assert plan.query(index).tolist() == expected.tolist()


Y = np.array([0, 1, 1, 0, 1, 0, 0, 1])


def reading_at(metric, index, off, noise, decimals=None):
    """Reading of exact answers of which one is off."""
    spec, plan = plan_of(metric, noise=noise, decimals=decimals)
    answers = answers_of(spec, plan, Y)
    answers[index] += off
    return plan.read(answers), plan


@pytest.mark.parametrize(
    ("off", "noise", "expected"),  # of counts, whose answers lie 2/8 apart: proven, certain, refuted
    [
        (0.0, 0.0, (True, True, False)),
        (0.06, 0.0601, (True, True, False)),
        (0.06, 0.0599, (False, True, True)),
        (0.1, 0.06, (False, True, True)),
        (0.06, 0.0624, (True, True, False)),
        (-0.06, 0.0601, (True, True, False)),
        (-0.06, 0.0599, (False, True, True)),
    ],
)
def test_counts_are_proven_within_the_noise_and_certain_if_the_next_needs_more_than_twice_of_it(off, noise, expected):
    for index in range(1, 6):
        reading, plan = reading_at("accuracy", index, off, noise)
        rows = plan.code.rows_in_flagged_blocks(
            np.arange(plan.code.count) == codes.detecting_queries(plan.code)[index - 1]
        )
        assert reading.proven[rows].all() == reading.proven[rows].any() == expected[0]
        assert reading.certain[rows].all() == reading.certain[rows].any() == expected[1]
        assert reading.refuted[index] == expected[2]
        assert reading.refuted.any() == expected[2]
        assert reading.labels.tolist() == Y.tolist()
        assert reading.residual[index] == pytest.approx(abs(off))
        assert np.delete(reading.residual, index) == pytest.approx(np.zeros(plan.count - 1))


def test_a_count_is_certain_only_if_another_needs_more_than_twice_the_noise():
    spec, plan = plan_of("accuracy", noise=0.06)
    answers = answers_of(spec, plan, Y)
    for off, certain in ((0.25 - 0.1201, True), (0.25 - 0.1199, False)):
        moved = answers.copy()
        moved[1] -= off
        reading = plan.read(moved)
        assert reading.certain.all() == (certain and off < 0.125)
        assert not reading.proven.all()


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_without_the_first_answer_nothing_is_read_and_without_another_its_block_is_not(metric):
    spec, plan = plan_of(metric)
    answers = answers_of(spec, plan, Y)
    first = answers.copy()
    first[0] = np.nan
    reading = plan.read(first)
    assert not (reading.proven | reading.certain).any()
    assert not reading.refuted.any()
    for index in range(1, plan.count):
        partial = answers.copy()
        partial[index] = np.nan
        reading = plan.read(partial)
        assert np.isnan(reading.residual).tolist() == [each == index for each in range(plan.count)]
        assert not reading.refuted.any()
        assert not reading.proven.all()
    whole = plan.read(answers)
    assert whole.proven.all()
    assert whole.labels.tolist() == Y.tolist()


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_the_first_answer_must_count_the_ones_that_the_others_find(metric):
    spec, plan = plan_of(metric)
    answers = answers_of(spec, plan, Y)
    ones = np.arange(9)
    for wrong in (3, 5):
        answers[0] = wrong / 8 if metric == "accuracy" else 2 * wrong / (8 + wrong)
        reading = plan.read(answers)
        assert reading.refuted.any()
    answers[0] = 0.4321
    assert plan.read(answers).refuted[0]
    assert len(ones) == 9


def test_an_answer_that_is_read_as_another_count_does_not_refute_the_first():
    spec, plan = plan_of("accuracy")
    exact = answers_of(spec, plan, Y)
    changed = 0
    for index in range(1, plan.count):
        answers = exact.copy()
        answers[index] += 0.15  # nearer to the next count, and none
        reading = plan.read(answers)
        assert reading.refuted[index]
        assert not reading.refuted[0]
        changed += int(reading.labels.sum() != Y.sum())
    assert changed


def test_an_answer_outside_of_all_scores_is_refuted():
    spec, plan = plan_of("accuracy", noise=0.03)
    for y, index, off in ((np.ones(8, int), 0, 0.031), (np.zeros(8, int), 0, -0.031)):
        answers = answers_of(spec, plan, y)
        assert answers[index] in (0.0, 1.0)
        inside, outside = answers.copy(), answers.copy()
        inside[index] += off * 0.95
        outside[index] += off
        assert not plan.read(inside).refuted.any()
        assert plan.read(outside).refuted[index]


# --- ranks


@pytest.mark.parametrize("n", [2, 5, 9, 17])
def test_blocks_of_ranks_are_as_large_as_can_be_told_apart(n):
    _, plan = plan_of("auc", n)
    for start, stop in itertools.pairwise(plan.starts[1:]):

        def fits(size, start=start):
            spare, waiting = start - (2 ** (size - 2) - (size - 1)), n - start - size
            if size == 1:
                return True
            return spare >= 0 and (waiting == 0 or (waiting + 1) / 2 + spare > 2 ** (size - 1) - 1)

        size = stop - start
        assert fits(size)
        assert stop == n or size == 11 or not fits(size + 1)


def test_ranks_read_at_most_11_rows_a_query():
    _, plan = plan_of("auc", 4000)
    assert max(np.diff(plan.starts)) == 11


@pytest.mark.parametrize("n", [2, 3, 6])
def test_every_labelling_of_both_classes_is_read_from_its_ranks(n):
    spec, plan = plan_of("auc", n)
    for y in itertools.product((0, 1), repeat=n):
        if 0 < sum(y) < n:
            reading = plan.read(answers_of(spec, plan, np.array(y)))
            assert reading.labels.tolist() == list(y)
            assert reading.proven.all()
            assert reading.certain.all()
            assert not reading.refuted.any()
            np.testing.assert_allclose(reading.residual, 0.0, atol=1e-12)


def test_ranks_are_read_up_to_the_first_answer_that_is_missing_or_in_doubt():
    spec, plan = plan_of("auc", 6, noise=0.004)
    y = np.array([0, 1, 1, 0, 1, 0])
    exact = answers_of(spec, plan, y)
    assert not plan.read(np.full(plan.count, np.nan)).proven.any()
    for missing in range(plan.count):
        partial = exact.copy()
        partial[missing] = np.nan
        reading = plan.read(partial)
        assert reading.proven.tolist() == (np.arange(6) < plan.starts[missing]).tolist()
    for index in range(plan.count):
        for off, refuted in ((0.0039, False), (0.0041, True), (-0.0041, True)):
            moved = exact.copy()
            moved[index] += off
            assert plan.read(moved).refuted[index] == refuted
            assert plan.read(moved).residual[index] == pytest.approx(abs(off))
    # Beyond half the way to the answer of another number of ones nothing is certain.
    sizes = np.arange(1, 6)
    every = np.r_[0.5 - 0.5 / sizes, 0.5 + 0.5 / sizes]
    apart = np.sort(np.abs(every - exact[0]))[1]
    for noise, certain in ((apart / 2 * 0.999, True), (apart / 2 * 1.001, False)):
        loud = replace(plan, spec=replace(spec, noise=noise))
        assert loud.read(np.r_[exact[0], np.full(plan.count - 1, np.nan)]).certain[0] == certain


# --- lists


def test_lists_name_one_class_on_some_rows():
    spec, plan = plan_of("map_at_k", 5, classes=4)
    code = codes.detecting_code(5)
    slots = codes.detecting_queries(code)
    assert plan.count == 3 * len(slots)
    for index in range(plan.count):
        class_number, slot = divmod(index, len(slots))
        first_row, weights = code.weights(int(slots[slot]))
        asked = np.zeros(5, dtype=bool)
        asked[first_row : first_row + len(weights)] = weights != 0
        assert plan.query(index)[:, 0].tolist() == np.where(asked, class_number, -1).tolist()
    for y in ([0, 1, 2, 3, 3], [3] * 5, [0] * 5, [2, 0, 1, 0, 3]):
        reading = plan.read(answers_of(spec, plan, np.array(y)))
        assert reading.labels.tolist() == y
        assert reading.proven.all()
        assert reading.certain.all()


@pytest.mark.parametrize(
    ("off", "noise", "expected"),  # 1/5 apart
    [
        (0.05, 0.0501, (True, True, False)),
        (0.05, 0.0499, (False, False, True)),
        (0.0, 0.0999, (True, True, False)),
        (0.05, 0.0749, (True, True, False)),
        (0.05, 0.0751, (True, False, False)),
    ],
)
def test_hits_are_proven_within_the_noise_and_certain_within_twice_of_it(off, noise, expected):
    spec, plan = plan_of("map_at_k", 5, classes=3, noise=noise)
    answers = answers_of(spec, plan, np.array([0, 1, 2, 2, 1]))
    answers[1] += off
    reading = plan.read(answers)
    assert (reading.proven.all(), reading.certain.all(), reading.refuted.any()) == expected
    assert reading.residual[1] == pytest.approx(off)


@pytest.mark.parametrize(("metric", "options"), [("map_at_k", {}), ("accuracy", {})])
def test_an_error_of_exactly_half_a_row_hides_it(metric, options):
    planned = {"map_at_k": count_plans.plan_top_ranks, "accuracy": count_plans.plan_counts}[metric]
    slack = 1e-12 if metric == "map_at_k" else 0.0
    noise = 1 / 16 - slack
    assert 2 * (noise + slack) == 1 / 8
    with pytest.raises(InputError, match=r"may hide single labels; it leaks once the error is below 0\.0625"):
        planned(OracleSpec(metric, n=8, noise=noise, **options))
    planned(OracleSpec(metric, n=8, noise=noise - 1e-12, **options))


# --- totals


@pytest.mark.parametrize(("metric", "classes"), [("mcc", 2), ("balanced_accuracy", 2), ("quadratic_weighted_kappa", 4)])
def test_row_0_a_code_and_three_random_submissions_are_asked(metric, classes):
    spec, plan = plan_of(metric, 30, classes=classes)
    assert plan.count == 1 + len(plan.slots) + 3
    assert plan.query(0).tolist() == [1] + [0] * 29
    shift = 0 if classes == 2 else 1
    for index in range(1, 1 + len(plan.slots)):
        query = plan.query(index)
        first_row, weights = plan.code.weights(int(plan.slots[index - 1]))
        expected = np.zeros(30, dtype=int)
        expected[first_row : first_row + len(weights)] = weights if classes > 2 else -weights
        assert query.tolist() == (expected + shift).tolist()
        assert 0 <= query.min() <= query.max() < classes
    checks = [plan.query(plan.count - 1 - index).tolist() for index in range(3)]
    for check in checks:
        assert set(check) == set(range(classes))
    assert len({tuple(check) for check in checks}) == 3
    assert spec.classes == classes


@pytest.mark.parametrize(
    ("metric", "classes", "n"), [("mcc", 2, 7), ("balanced_accuracy", 2, 7), ("quadratic_weighted_kappa", 3, 5)]
)
def test_answers_tell_the_labels_for_all_totals_together(metric, classes, n):
    spec, plan = plan_of(metric, n, classes=classes)
    rng = np.random.default_rng(0)
    for _ in range(2):
        y = rng.integers(0, classes, n)
        y[:2] = 0, 1
        exact = answers_of(spec, plan, y)
        reading = plan.read(exact)
        assert (reading.labels[reading.proven] == y[reading.proven]).all()
        assert reading.proven.mean() > 0.5
        assert not reading.refuted.any()
        assert np.nanmax(reading.residual) < 1e-9
        for index in range(plan.count):
            wrong = exact.copy()
            wrong[index] += 0.0123
            assert plan.read(wrong).refuted.all()
            assert not plan.read(wrong).proven.any()
            partial = exact.copy()
            partial[index] = np.nan
            told = plan.read(partial)
            assert not told.refuted.any()
            assert (told.labels[told.proven] == y[told.proven]).all()


def test_too_many_possible_totals_tell_nothing(monkeypatch):
    spec, plan = plan_of("mcc", 9)
    nothing = np.full(plan.count, np.nan)
    for most, is_told in ((10, True), (9, False)):  # 0 to 9 ones
        monkeypatch.setattr(count_plans, "_MAX_CANDIDATES", most)
        assert (plan._candidates(nothing, 1) is not None) is is_told
        reading = plan.read(nothing)
        assert not (reading.proven | reading.certain | reading.refuted.any()).any()
    assert spec.n == 9


@pytest.mark.parametrize(("classes", "n"), [(4, 6667), (3, 10_001), (6, 4001)])
def test_more_classes_than_two_are_read_up_to_a_sum_of_20_000(classes, n):
    with pytest.raises(InputError, match=f"n: for {classes} classes at most {20_000 // (classes - 1)} rows, got {n}"):
        count_plans.plan_ratio(OracleSpec("quadratic_weighted_kappa", n=n, classes=classes))


def test_the_labels_behind_totals_must_have_them_and_imply_every_answer():
    spec, plan = plan_of("mcc", 6)
    y = np.array([0, 1, 1, 0, 1, 0])
    answers = answers_of(spec, plan, y)
    submissions = {index: plan.query(index) for index in range(plan.count)}
    found = plan._decode((3, 3), answers, submissions, 1e-9)
    assert found[0].tolist() == y.tolist()
    assert not found[1].any()
    for ones in (0, 1, 2, 4, 5, 6):
        assert plan._decode((ones, ones), answers, submissions, 1e-9) is None
    few = {index: submissions[index] for index in (0, 1)}
    partial = plan._decode((3, 3), answers, few, 1e-9)
    assert partial[1].any()
    assert plan._label_sum((3, 3), np.ones(6, int), 0.0, 1e-9) == (3, True)
    assert plan._label_sum((3, 3), np.zeros(6, int), 0.0, 1e-9) == (0, True)
    assert plan._label_sum((0, 0), submissions[0], 0.0, 1e-9) == (0, False)


@pytest.mark.parametrize("n", [3, 6])
def test_r_squared_tells_the_number_of_ones_and_then_is_a_squared_error(n):
    spec, plan = plan_of("r2", n)
    assert plan.count == 1 + plan.squares.count
    assert plan.query(0).tolist() == [0.0] * n
    for y in itertools.product((0, 1), repeat=n):
        y = np.array(y)
        exact = answers_of(spec, plan, y)
        reading = plan.read(exact)
        assert reading.labels.tolist() == y.tolist()
        assert reading.proven.all()
        assert not reading.refuted.any()
        assert np.nanmax(reading.residual) < 1e-9
        wrong = exact.copy()
        wrong[0] += 0.0123
        assert plan.read(wrong).refuted[0]
        assert not plan.read(wrong).proven.any()
    nothing = plan.read(np.full(plan.count, np.nan))
    assert not (nothing.proven | nothing.certain).any()
    assert not nothing.refuted.any()
    assert np.isnan(nothing.residual).all()


def test_all_labels_alike_are_told_by_the_first_answer_alone_and_refuted_by_the_others():
    spec, plan = plan_of("r2", 5)
    for ones, first in ((0, 1.0), (5, 0.0)):
        answers = answers_of(spec, plan, np.full(5, int(ones == 5)))
        assert answers[0] == first
        answers[1:] = np.nan
        reading = plan.read(answers)
        assert reading.proven.all()
        assert reading.labels.tolist() == [int(ones == 5)] * 5
        answers[1] = 0.5
        assert plan.read(answers).refuted[1]
        assert not plan.read(answers).proven.any()


def test_the_number_of_ones_is_admitted_within_the_noise_and_the_error_of_a_score():
    spec, plan = plan_of("r2", 6, noise=0.01)
    implied = count_plans._zero_prediction_scores(6)
    for answer in (-5.0, -2.0, -1.0, -0.5, 0.0, 1.0, -0.21):
        for times in (1, 2):
            for off in (0.0, 0.0099, 0.0101, 0.0199, 0.0201):
                found = plan._possible_ones(answer + off, times)
                assert found.tolist() == [abs(score - answer - off) <= times * 0.01 + 1e-9 for score in implied]
    assert spec.n == 6


def test_a_certificate_of_r_squared_is_the_least_of_the_number_of_ones_and_four_times_that_of_the_squares():
    for n, noise in ((6, 0.001), (9, 0.0)):
        plan = labels.design(OracleSpec("r2", n=n, noise=noise))
        gap = np.diff(np.sort(count_plans._zero_prediction_scores(n))).min()
        proof = plan.inner.squares.certificate
        assert plan.certificate.separation == pytest.approx(min(gap, 4 * proof.separation))
        assert plan.certificate.certified is proof.certified
        assert plan.certificate.needed == pytest.approx(2 * noise, abs=1e-11)
        assert plan.certificate.method == "the number of ones first; then " + proof.method
        assert plan.method == "r2 by " + plan.inner.squares.method
        inner = plan.inner.squares.spec
        extent = inner.metric.high - 1
        assert (inner.metric.low, math.log(extent, 4) % 1) == (-extent, pytest.approx(0.0))
        assert inner.noise >= noise / 4


def test_a_block_whose_sums_no_labels_make_rules_totals_out_even_beside_one_that_is_not_read():
    spec = OracleSpec("quadratic_weighted_kappa", n=9, classes=3)
    code = codes.build_code(9, 3, 1, dense=False, max_bits=1)
    assert code.shapes[0].count == 2
    plan = count_plans.TotalsPlan(spec, code, np.arange(code.count), 1, 1)
    y = np.array([0, 1, 2, 2, 1, 0, 0, 1, 2])
    answers = answers_of(spec, plan, y)
    submissions = {index: plan.query(index) for index in range(plan.count)}
    totals = (int(y.sum()), int((y**2).sum()))
    assert plan._decode(totals, answers, submissions, 1e-9)[0].tolist() == y.tolist()
    del submissions[1]
    labels_, rows = plan._decode(totals, answers, submissions, 1e-9)
    assert rows.any()
    assert labels_[~rows].tolist() == y[~rows].tolist()
    # The first query of the last block is answered as if its rows weighed more than any labels do.
    first = 1 + code.count - code.shapes[-1].count
    wrong = answers.copy()
    wrong[first] = 1.0
    assert plan._decode(totals, wrong, submissions, 1e-9) is None
