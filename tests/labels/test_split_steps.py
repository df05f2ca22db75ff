"""Steps of plans for hidden splits: pairs of queries, their errors, candidates, refusals, each at its limit."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError
from divulge.labels import codes, metrics, split
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


def test_the_second_query_of_a_pair_turns_every_preference_round():
    for spec in (SPEC, UNKNOWN):
        plan = plan_of(spec).inner
        for pair in range(plan.count // 2):
            first, second = plan.query(2 * pair), plan.query(2 * pair + 1)
            np.testing.assert_allclose(first, second[:, ::-1], atol=1e-12)
            weights = np.zeros(8, dtype=int)
            if pair < plan.code.count:
                start, part = plan.code.weights(pair)
                weights[start : start + len(part)] = part
            else:
                weights = plan.code.bound * plan._signs(pair - plan.code.count)
            losses = -np.log(first)
            np.testing.assert_allclose(losses[:, 1] - losses[:, 0], plan.unit * weights, atol=1e-9)


def test_random_signs_are_of_both_kinds_and_differ_from_pair_to_pair():
    plan = plan_of(replace(UNKNOWN, n=200, noise=1e-4)).inner
    signs = [plan._signs(index) for index in range(3)]
    for each in signs:
        assert set(each.tolist()) == {-1, 1}
        assert 60 < (each == 1).sum() < 140
    assert all((a != b).any() for a, b in itertools.combinations(signs, 2))
    assert plan.count == 2 * (plan.code.count + 3)
    for known in (SPEC, replace(UNKNOWN, reduction="sum")):
        inner = plan_of(known).inner
        assert inner.count == 2 * inner.code.count


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
    sums += [float(pairs._signs(i) @ digits) * pairs.code.bound for i in range(len(pairs.error) - pairs.code.count)]
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


def test_an_unknown_number_of_scored_rows_is_told_by_the_answers_and_the_random_signs():
    pairs = exact_pairs(spec=replace(UNKNOWN, noise=1e-9))
    answers = pair_answers(DIGITS, pairs, 5)
    reading = pairs.read(answers)
    assert reading.proven.all()
    assert reading.labels.tolist() == [0, 1, -1, 0, -1, 0, 0, -1]
    for place in range(16, 22):
        wrong = answers.copy()
        wrong[place] += 0.01
        assert pairs.read(wrong).refuted.all()
        missing = answers.copy()
        missing[place] = np.nan
        assert not pairs.read(missing).refuted.any()
    assert split.SplitPlan._passes_checks(pairs, DIGITS, 5.0, (answers[::2] - answers[1::2]), np.zeros(11) + 1e-12)
    off = answers[::2] - answers[1::2] + 0.1
    for allowed, error, passes in (
        (0.1001, 0.0, True),
        (0.0999, 0.0, False),
        (0.0, 0.5001, True),
        (0.05, 0.2501, True),
        (0.05, 0.2499, False),
    ):
        other = exact_pairs(spec=replace(UNKNOWN, noise=1e-9), error=error)
        assert split.SplitPlan._passes_checks(other, DIGITS, 5.0, off, np.full(11, allowed)) is passes
        assert split.SplitPlan._passes_checks(other, DIGITS, 5.0, off - 0.2, np.full(11, allowed)) is passes


def test_of_several_numbers_of_scored_rows_the_one_that_fits_best_is_told():
    """Of a difference of 1/5 five rows are exact, and four or six near enough under this noise."""
    pairs = exact_pairs(spec=replace(UNKNOWN, noise=0.03))
    answers = np.full(22, np.nan)
    answers[:4] = [5.1, 4.9, 4.9, 5.1]
    assert len(pairs._possible_readings((answers[::2] - answers[1::2]), np.full(11, 0.06))) > 1
    reading = pairs.read(answers)
    np.testing.assert_allclose(reading.residual[:4], 0.0, atol=1e-12)
    assert reading.labels[:2].tolist() == [1, 0]


def test_too_many_numbers_of_scored_rows_are_none_that_can_be_told(monkeypatch):
    pairs = exact_pairs(spec=replace(UNKNOWN, noise=1e-9))
    differences = np.full(11, np.nan)
    for most, is_told in ((8, True), (7, False)):
        monkeypatch.setattr(split, "_MAX_CANDIDATES", most)
        assert (pairs._possible_readings(differences, np.zeros(11)) is not None) is is_told
        reading = pairs.read(np.full(22, np.nan))
        assert not reading.refuted.any()
        assert not reading.proven.any()


def test_rows_are_agreed_on_if_every_candidate_reads_them_alike():
    def candidate(digits, unread):
        return split.Candidate(3, np.array(digits), np.array(unread, dtype=bool), True, np.zeros(1))

    a, b = candidate([1, 0, -1, 1], [0, 0, 0, 1]), candidate([1, 1, -1, 1], [0, 0, 1, 0])
    assert split._agreed_rows([a, b], a).tolist() == [True, False, False, False]
    assert split._agreed_rows([a], a).tolist() == [True, True, True, False]
    assert split._agreed_rows([], a).tolist() == [False] * 4
    assert split._agreed_rows(None, a).tolist() == [False] * 4


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
        ({"noise": 5.0}, "auto", "may hide single rows of the split; it leaks once the error is below 0.345 "),
        ({"metric": "mae", "noise": 5.0}, "auto", "it leaks once the error is below 0.05 "),
    ],
)
def test_splits_that_cannot_be_read_are_refused(spec, method, message):
    with pytest.raises(InputError, match=message):
        plan_of(replace(SPEC, **spec), method)


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("decimals", [None, 3])
@pytest.mark.parametrize("noise", [0.02, 0.005])
def test_a_step_outweighs_the_errors_of_both_answers_twice_over(noise, decimals, guard):
    spec = replace(SPEC, noise=noise, decimals=decimals)
    span = min(spec.loss().largest_gap(np.arange(2)), spec.loss().two_sided)
    needed = 5 * (4 * spec.rounding + (6 if guard else 4) * noise)
    for bits in (0, 2):
        pairs = split._shortest_pairs(spec, spec.loss(), span, bits, guard)
        counts = [codes.count_queries(8, 3, bound, False, bits) for bound in range(1, int(span / needed) + 1)]
        bound = 1 + counts.index(counts[-1])
        assert (pairs.code.bound, pairs.code.count) == (bound, counts[-1])
        assert pairs.unit == pytest.approx(span / bound)
        assert pairs.unit >= needed + 8 * pairs.error.max()
    best = plan_of(spec, guard=guard)
    assert best.count == 2 * min(split._shortest_pairs(spec, spec.loss(), span, b, guard).code.count for b in (0, 2))
    positional = plan_of(spec, "positional", guard=guard)
    assert positional.count == 2 * split._shortest_pairs(spec, spec.loss(), span, 0, guard).code.count
    edge = span / 5 / (6 if guard else 4)
    assert split._shortest_pairs(replace(spec, noise=edge * 1.0001, decimals=None), spec.loss(), span, 0, guard) is None
    one = split._shortest_pairs(replace(spec, noise=edge * 0.9999, decimals=None), spec.loss(), span, 0, guard)
    assert one.code.bound == 1


@pytest.mark.parametrize("spec", [SPEC, replace(SPEC, reduction="sum"), UNKNOWN])
def test_a_split_is_certified_where_the_number_of_scored_rows_is_known(spec):
    proof = plan_of(spec).certificate
    pairs = plan_of(spec).inner
    scale = 1 if spec.reduction == "sum" else spec.most_scored
    assert proof.separation == pytest.approx((pairs.unit - 2 * pairs.error[: pairs.code.count].max()) / scale)
    assert proof.needed == pytest.approx(4 * spec.tolerance)
    assert proof.certified is (spec.scored == 5)
    assert spec.scored == 5 or "the number of scored rows is not known in advance" in proof.why
    close = replace(spec, noise=proof.separation / 4)
    assert not split._certify_pairs(replace(pairs, spec=close)).certified


@pytest.mark.parametrize(("noise", "certified"), [(0.04, False), (0.04 - 1e-9, True)])
def test_the_errors_of_the_floats_are_taken_off_the_separation_twice(noise, certified):
    proof = split._certify_pairs(exact_pairs(error=0.1, spec=replace(SPEC, noise=noise)))
    assert proof.separation == pytest.approx(0.8 / 5)
    assert proof.certified is certified


def test_answers_too_large_for_their_decimals_are_off_by_nothing():
    """Floats from 2^52 on are whole numbers, which half a unit may still be off; from 2^53 on they are even."""
    for decimals, middle, refuted in ((0, 2.0**52, False), (0, 2.0**53, True), (1, 2.0**49, True)):
        pairs = exact_pairs(spec=replace(SPEC, noise=0.0, decimals=decimals, reduction="sum"), unit=2.0**13)
        answers = pair_answers(DIGITS, pairs, 1, middle=middle + 2.0**14)
        answers[0] += float(np.spacing(answers[0]))
        assert pairs.read(answers).refuted.any() == refuted


def test_the_sum_over_an_unknown_number_of_rows_is_certified():
    assert plan_of(replace(UNKNOWN, reduction="sum")).certificate.certified


def test_spans_that_are_tried():
    column = replace(SPEC, submission="positive")
    reach = min(column.loss().largest_gap(np.arange(2)), column.loss().two_sided)
    found = split._candidate_spans(column, column.loss())
    np.testing.assert_allclose(found, [reach * part for part in (1.0, 0.9, 0.8, 0.65, 0.5)])
    rows = replace(SPEC, metric="squared_euclidean", submission="positive")
    assert split._candidate_spans(rows, rows.loss()) == [1.0]
    assert split._candidate_spans(SPEC, SPEC.loss()) == [pytest.approx(math.log(999))]
    for metric, dtype, power in (
        ("sigmoid_cross_entropy", "float64", 90), ("sigmoid_cross_entropy", "float32", 50),
        ("sigmoid_cross_entropy", "float16", math.log2(65504 / 64)), ("mse", "float64", 90),
        ("mse", "float16", math.log2(65504 / 64) / 2),
    ):  # fmt: skip
        spec = labels.OracleSpec(metric, n=8, scored=5, float_dtype=dtype)
        largest = math.ceil(power)
        assert split._candidate_spans(spec, spec.loss()) == [2.0**k for k in range(0, largest, 2)]


@pytest.mark.parametrize("metric", ["accuracy", "mae", "mse", "squared_euclidean"])
@pytest.mark.parametrize("scored", [5, "unknown"])
def test_other_metrics_give_their_rows_and_labels_as_well(metric, scored):
    spec = labels.OracleSpec(metric, n=8, scored=scored, noise=1e-3)
    plan = plan_of(spec)
    reading = plan.inner.read(answers_of(spec, plan, Y, MASK))
    assert reading.labels.tolist() == TRUTH.tolist()
    assert reading.proven.all()
    assert metric != "accuracy" or plan.inner.code.bound == 1


def test_accuracy_is_a_loss_whose_label_is_right_from_one_half_on():
    loss = split._accuracy_loss()
    assert loss.predict(np.array([-1, 0, 1]), None).tolist() == [0, 0, 1]
    assert loss.table(np.array([0.0, 0.49, 0.5, 1.0])).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
    assert (loss.span, loss.shape) == (1.0, ())


def test_errors_of_a_pair_are_those_of_both_sums_and_of_all_predictions():
    spec = replace(UNKNOWN, summation="sequential")
    pairs = split._assemble_pairs(spec, spec.loss(), 3, 0.5, 0)
    table = spec.loss().table(pairs.rows)
    size = np.abs(np.concatenate([table, table[::-1]], axis=1)).max(axis=1)
    implied = 0.5 * np.outer(pairs.weights, [-1.0, 1.0])
    deviation = np.abs(table - table[::-1] - implied).max(axis=1) + 8 * np.spacing(size)
    deviation[pairs.weights == 0] = 0.0
    for pair in range(pairs.code.count + 3):
        if pair < pairs.code.count:
            weights = np.zeros(8, dtype=int)
            start, part = pairs.code.weights(pair)
            weights[start : start + len(part)] = part
        else:
            weights = np.full(8, 3)
        index = np.searchsorted(pairs.weights, weights)
        expected = 2 * metrics.summation_error(8, size[index].sum(), "sequential", "float64") + deviation[index].sum()
        assert pairs.error[pair] == pytest.approx(expected)
    assert sorted(set(pairs.weights.tolist())) == pairs.weights.tolist() == (-pairs.weights[::-1]).tolist()
