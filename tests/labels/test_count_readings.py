"""Plans that count: readings at the limits of their noise, against naive counts."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from divulge import labels
from divulge.labels import codes
from divulge.labels.oracles import LocalOracle, OracleSpec


def answers_of(spec, inner, y):
    oracle = LocalOracle(replace(spec, noise=0.0, decimals=None), y)
    return np.array([oracle.exact(inner.query(index)) for index in range(inner.count)])


def plan_of(metric, n=8, **options):
    spec = OracleSpec(metric, n=n, **options)
    return spec, labels.design(spec).inner


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


# --- ranks


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


# --- totals


@pytest.mark.parametrize(
    ("metric", "classes", "n"),
    [("mcc", 2, 7), ("macro_f1", 2, 7), ("balanced_accuracy", 2, 7), ("quadratic_weighted_kappa", 3, 5)],
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
