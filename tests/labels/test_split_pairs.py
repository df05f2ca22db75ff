"""Plans for hidden splits: pairs of queries read at the limits of their noise."""

from dataclasses import replace

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError
from divulge.labels import codes, split
from divulge.labels.plans import Reading

SPEC = labels.OracleSpec(n=8, scored=5, clip=1e-3, noise=0.02)
UNKNOWN = replace(SPEC, scored="unknown")


def plan_of(spec=SPEC, method="auto", guard=False, bits=2):
    return split.plan_split(spec, method, guard=guard, max_bits=bits)


def answers_of(spec, plan, y, mask):
    oracle = labels.LocalOracle(spec, y, scored=mask)
    return np.array([oracle.exact(plan.inner.query(index)) for index in range(plan.count)])


Y, MASK = np.array([0, 1, 1, 0, 1, 0, 0, 1]), np.array([1, 1, 0, 1, 0, 1, 1, 0], dtype=bool)
TRUTH = np.where(MASK, Y, -1)


@pytest.mark.parametrize("spec", [SPEC, UNKNOWN, replace(SPEC, reduction="sum"), replace(SPEC, decimals=2)])
def test_rows_are_read_within_the_noise_of_both_answers_of_a_pair(spec):
    plan = plan_of(spec)
    exact = answers_of(spec, plan, Y, MASK)
    turn = np.resize([1.0, -1.0], plan.count)
    for size in (0.0, 0.999):
        reading = plan.inner.read(np.round(exact + size * spec.noise * turn, spec.decimals or 15))
        assert reading.labels.tolist() == TRUTH.tolist()
        assert not reading.refuted.any()
        assert spec.scored == "unknown" or reading.proven.all()
        assert not (reading.certain & ~reading.proven).any()


def exact_pairs(unit=1.0, error=0.0, spec=SPEC, **changes):
    """Pairs whose differences are exactly a unit a weight, for one query of each row."""
    code = codes.build_code(spec.n, 3, 1, dense=False, max_bits=0)
    n_checks = 3 if spec.scored == "unknown" and spec.reduction == "mean" else 0
    errors = np.full(code.count + n_checks, error)
    return replace(split.SplitPlan(spec, code, np.array([-1, 0, 1]), np.zeros((3, 2)), unit, errors), **changes)


def pair_answers(digits, pairs, scored, extra=0.0, middle=5.0):
    """Answers whose differences are those of the digits -1, 0, 1."""
    rows = [pairs.code.weights(q) for q in range(pairs.code.count)]
    sums = [float(weights @ digits[start : start + len(weights)]) for start, weights in rows]
    sums += [float(pairs.draw_signs(i) @ digits) * pairs.code.bound for i in range(len(pairs.error) - pairs.code.count)]
    differences = (np.array(sums) * pairs.unit) / scored + extra
    return np.stack([middle + differences / 2, middle - differences / 2], axis=1).ravel()


DIGITS = np.array([-1, 1, 0, -1, 0, -1, -1, 0])


@pytest.mark.parametrize(
    ("off", "noise", "expected"),  # of the difference of a pair, a step of which is 1/4: proven, certain, refuted
    [
        (0.0, 0.0, (True, True, False)),
        (1 / 32, 1 / 64, (True, True, False)),
        (1 / 32 + 1e-9, 1 / 64, (False, True, True)),
        (1 / 8 - 1 / 64, 1 / 32 - 1e-3, (False, True, True)),
        (1 / 8 - 1 / 64, 1 / 32 - 1e-2, (False, False, True)),
        (0.0, 1 / 16, (True, False, False)),
        (0.0, 1 / 16 - 1e-9, (True, True, False)),
        (0.0, 1 / 8, (False, False, False)),
        (0.0, 1 / 8 - 1e-9, (True, False, False)),
        (1 / 8, 1 / 16, (False, False, False)),
    ],
)
def test_pairs_are_read_within_twice_the_noise_and_certain_within_four_times(off, noise, expected):
    pairs = exact_pairs(spec=replace(SPEC, noise=noise, scored=4))
    reading = pairs.read(pair_answers(np.where(np.arange(8) == 0, 0, DIGITS), pairs, 4, extra=off))
    assert isinstance(reading, Reading)
    assert (bool(reading.proven.all()), bool(reading.certain.all()), bool(reading.refuted.all())) == expected
    if expected[0]:
        assert reading.labels.tolist() == [-1, 1, -1, 0, -1, 0, 0, -1]
    np.testing.assert_allclose(reading.residual, off / 2, atol=1e-12)


@pytest.mark.parametrize("error", [0.05, 0.1])
@pytest.mark.parametrize("decimals", [None, 2])
def test_the_rounding_of_both_answers_and_the_floats_count_as_well(error, decimals):
    """A difference may be off by twice the rounding and the error of the floats, which is one of the sum."""
    spec = replace(SPEC, noise=0.0, decimals=decimals)
    pairs = exact_pairs(spec=spec, error=error)
    allowed = 2 * (0.005 if decimals else 0.0) + error / 5
    for off, refuted in ((allowed * 0.999, False), (allowed * 1.001 + 1e-6, True)):
        reading = pairs.read(pair_answers(DIGITS, pairs, 5, extra=off))
        assert reading.refuted.all() == reading.refuted.any() == refuted
    # Of answers as large as 2^40 floats show no such decimals.
    wide = pairs.read(pair_answers(DIGITS, pairs, 5, middle=2.0**40))
    assert not wide.refuted.any()


def test_what_was_not_asked_is_not_read():
    pairs = exact_pairs()
    answers = pair_answers(DIGITS, pairs, 5)
    for index in range(16):
        partial = answers.copy()
        partial[index] = np.nan
        reading = pairs.read(partial)
        assert reading.proven.tolist() == reading.certain.tolist() == (np.arange(8) != index // 2).tolist()
        assert np.isnan(reading.residual).tolist() == (np.arange(16) // 2 == index // 2).tolist()
    assert not pairs.read(np.full(16, np.nan)).refuted.any()
    assert not pairs.read(np.full(16, np.nan)).proven.any()


def test_as_many_rows_are_scored_as_was_said():
    for n_scored, digits in ((4, np.array([-1, 1, 0, 0, 0, -1, -1, 0])), (6, np.array([-1, 1, 1, -1, 0, -1, -1, 0]))):
        pairs = exact_pairs()
        reading = pairs.read(pair_answers(digits, pairs, 5))
        assert reading.refuted.all(), n_scored
        assert not reading.proven.any()
        summed = exact_pairs(spec=replace(SPEC, reduction="sum"))
        assert summed.read(pair_answers(digits, summed, 1)).proven.all()
    # With a row unread one more or less is possible, two are not.
    pairs = exact_pairs()
    for digits, refuted in (
        (np.array([0, 1, 0, -1, 0, -1, -1, 0]), False),
        (np.array([0, 1, 0, -1, 0, -1, -1, 1]), False),
        (np.array([0, 0, 0, -1, 0, -1, -1, 0]), True),
        (np.array([0, 1, 1, -1, 1, -1, -1, 0]), True),
    ):
        answers = pair_answers(digits, pairs, 5)
        answers[0] = np.nan
        assert pairs.read(answers).refuted.any() == refuted


@pytest.mark.parametrize(
    ("spec", "method", "message"),
    [
        ({"classes": 3}, "auto", "a split is read for 2 unweighted classes under bounded noise only"),
        ({"noise_kind": "gaussian"}, "auto", "a split is read for 2 unweighted classes under bounded noise only"),
        ({"class_weight": (1.0, 2.0)}, "auto", "a split is read for 2 unweighted classes under bounded noise only"),
        ({"metric": "f1"}, "auto", "scored: f1 is not a mean over rows, so unscored rows would not cancel"),
        ({"metric": "auc"}, "auto", "scored: auc is not a mean over rows"),
        ({"metric": "rmse"}, "auto", "scored: rmse is not a mean over rows"),
        ({}, "dense", r"method \(for a split\): "),
        ({"noise": 5.0}, "auto", "may hide single rows of the split from the codes here, which need one below 0.345 "),
        ({"metric": "mae", "noise": 5.0}, "auto", "which need one below 0.05 "),
    ],
)
def test_splits_that_cannot_be_read_are_refused(spec, method, message):
    with pytest.raises(InputError, match=message):
        plan_of(replace(SPEC, **spec), method)


def test_the_sum_over_an_unknown_number_of_rows_is_certified():
    assert plan_of(replace(UNKNOWN, reduction="sum")).certificate.certified


@pytest.mark.parametrize("metric", ["accuracy", "mae", "mse", "squared_euclidean"])
@pytest.mark.parametrize("scored", [5, "unknown"])
def test_other_metrics_give_their_rows_and_labels_as_well(metric, scored):
    spec = labels.OracleSpec(metric, n=8, scored=scored, noise=1e-3)
    plan = plan_of(spec)
    reading = plan.inner.read(answers_of(spec, plan, Y, MASK))
    assert reading.labels.tolist() == TRUTH.tolist()
    assert reading.proven.all()
    assert metric != "accuracy" or plan.inner.code.bound == 1
