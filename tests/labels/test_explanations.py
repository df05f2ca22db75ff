"""What answers look like that contradict their oracle: every usual slip is named, and nothing else is."""

import math

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError
from divulge.labels import inference
from divulge.labels.inference import Contradiction
from divulge.labels.oracles import QuotaReachedError

N = 61  # by which no dyadic number of any size becomes a decimal one
Y = np.random.default_rng(3).integers(0, 2, N)
LOG_LOSS = labels.OracleSpec(n=N, clip=1e-6, decimals=6)
MSE, RMSE = labels.OracleSpec("mse", n=N, noise=0.01), labels.OracleSpec("rmse", n=N)
SLIPS = {
    "the root of the mean squared error": (MSE, math.sqrt),
    "a sum over both classes (twice the square)": (MSE, lambda a: 2 * a),
    "a mean squared error, without the root": (RMSE, lambda a: a**2),
    "logarithms to base 2": (labels.OracleSpec(n=N, clip=1e-6), lambda a: a / math.log(2)),
    "logarithms to base 10": (labels.OracleSpec(n=N, clip=1e-6), lambda a: a / math.log(10)),
    "a sum over rows, not a mean": (labels.OracleSpec(n=N, clip=1e-6), lambda a: N * a),
    "a mean over rows, not a sum": (labels.OracleSpec(n=N, clip=1e-6, reduction="sum"), lambda a: a / N),
    "negated (larger is better there)": (labels.OracleSpec(n=N, clip=1e-6), lambda a: -a),
    "truncated to 6 decimals, not rounded": (LOG_LOSS, lambda a: math.floor(a * 1e6) / 1e6),
    "rounded up to 6 decimals": (LOG_LOSS, lambda a: math.ceil(a * 1e6) / 1e6),
    "per cent": (labels.OracleSpec("accuracy", n=N), lambda a: 100 * a),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_usual_slip_is_named_and_no_label_is_given(slip):
    spec, change = SLIPS[slip]
    found = labels.infer(lambda p: change(labels.LocalOracle(spec, Y).exact(p)), labels.design(spec))
    assert slip in str(found.contradiction)
    assert not (found.proven | found.certain).any()


@pytest.mark.parametrize(
    ("answers", "looks"),
    [
        ([0.5, 0.5, 0.5], "constant (every answer is 0.5)"),
        ([0.5, 0.5], "rounded to 1 decimals"),
        ([0.1234567890123, 0.1234567890123], ""),
        ([0.5, 0.5, 0.5, math.nan], "constant (every answer is 0.5)"),
        ([0.5123456789012, 0.25, 0.25, 0.25, 0.25], "repeated (3 answers repeat the previous one)"),
        ([0.5123456789012, 0.25, 0.25, 0.25], ""),
        ([0.51, 0.25, 0.75, 0.13], "rounded to 2 decimals"),
        ([0.5, 0.1234567890123], ""),
    ],
)
def test_patterns_of_answers_are_described(answers, looks):
    assert inference.describe_pattern(np.array(answers), labels.OracleSpec(n=7)) == looks


def naive_has_decimals(value, decimals):
    return float(f"{value:.{decimals}f}") == value or float(np.float32(round(value, decimals))) == value


def test_decimals_are_those_that_are_written_in_double_or_single_precision():
    rng = np.random.default_rng(4)
    for decimals in range(7):
        exact = np.round(rng.uniform(0, 3, 30), decimals)
        for values in (exact, exact.astype(np.float32).astype(float), exact + 0.3 * 10.0**-decimals):
            expected = [naive_has_decimals(float(v), decimals) for v in values]
            np.testing.assert_array_equal(inference.has_decimals(values, decimals), expected)
    assert inference.has_decimals(np.array([math.nan, 0.123]), 2).tolist() == [True, False]
    assert inference.has_decimals(np.array([math.pi]), None).tolist() == [True]


def test_an_explanation_that_cannot_be_asked_for_leaves_what_was_found():
    plan = labels.design(labels.OracleSpec(n=N))
    answers = np.random.default_rng(5).random(plan.count + 1)
    for error in (QuotaReachedError(), InputError("no")):

        def oracle(_, error=error):
            raise error

        found = inference.explain_contradiction(oracle, plan, answers, Contradiction("x", "y", (0,)))
        assert found == Contradiction("x", "y", (0,))
    noisy = inference.explain_contradiction(lambda _: 9.0, plan, answers, Contradiction("x", "y", (0,)))
    assert noisy.looks.startswith("noisy")
    same = inference.explain_contradiction(lambda _: answers[0], plan, answers, Contradiction("x", "y", (0,)))
    assert same.looks == "y"


def test_what_was_read_is_told_by_how_much_is_known():
    spec = labels.OracleSpec(n=N, clip=1e-3, noise=1e-3)
    plan = labels.design(spec, "positional")
    oracle = labels.LocalOracle(spec, Y, pattern="plus")
    answers = np.array([oracle(query) for query in plan.queries])
    part = answers.copy()
    part[plan.count // 2 :] = np.nan
    whole, half = labels.read(plan, answers), labels.read(plan, part)
    assert (whole.complete, half.complete) == (True, False)
    assert (whole.queries, half.queries) == (plan.count, plan.count // 2)
    determined = inference.determined_labels(spec, half)
    assert [label is not None for label in determined] == half.determined.tolist()
    assert 0 < half.determined.sum() < N
    assert repr(half).startswith(f"LabelInference({N} labels from {half.queries} queries, 0 certain, 0 proven; ")
    counts, shares = inference.recovery_curve(plan, whole)
    assert (counts[0], counts[-1], shares[0], shares[-1]) == (0, plan.count, 0.0, 1.0)
    assert shares == sorted(shares)
    wrong = inference.recovery_curve(plan, whole, np.where(np.arange(N) < 30, Y, 1 - Y))
    assert wrong[1][-1] == 30 / N
    assert len(inference.recovery_curve(plan, half)[0]) == min(25, half.queries + 1)
    summary = inference.summarise(plan, half, Y)
    assert (summary.certain, summary.proven) == (int(half.certain.sum()), int(half.proven.sum()))
    assert summary.right == int((half.labels == Y).sum())
    assert summary.accuracy == summary.right / N
    assert summary.certain_and_wrong == int((half.certain & (half.labels != Y)).sum())
    assert summary.residual == pytest.approx(np.nanmax(half.residual))
    turned = inference.summarise(plan, whole, 1 - Y)
    assert (turned.right, turned.certain_and_wrong) == (0, int(whole.certain.sum()))


@pytest.mark.parametrize("count", [-1, 99])
def test_as_many_answers_as_queries_or_the_control_beside_them_are_read(count):
    plan = labels.design(labels.OracleSpec(n=N, clip=1e-3))
    with pytest.raises(InputError, match=f"answers: {plan.count} are needed"):
        labels.read(plan, np.zeros(plan.count + count))
    with pytest.raises(InputError, match=f"query {plan.count - 1} has an infinite answer"):
        labels.read(plan, np.r_[np.zeros(plan.count - 1), np.inf])


@pytest.mark.parametrize("answer", ["x", None, math.nan, math.inf, 10**400])
def test_an_answer_that_is_no_number_is_named_by_its_query(answer):
    plan = labels.design(labels.OracleSpec(n=N, clip=1e-3))
    with pytest.raises(InputError, match=f"oracle: query 0 of {plan.count} was answered with"):
        labels.infer(lambda _: answer, plan)
