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


def test_the_slips_that_are_tried_undo_what_they_name():
    for slip, (spec, change) in SLIPS.items():
        undo = dict(inference._metric_mistakes(spec))
        answers = np.array([0.30103, 0.693147, 2.5])
        corrected = next(correct for words, correct in undo.items() if slip in words)(
            np.array([change(answer) for answer in answers])
        )
        np.testing.assert_allclose(corrected, answers, atol=1.01e-6)
    names = [words for words, _ in inference._metric_mistakes(labels.OracleSpec("auc", n=N))]
    assert names == ["like 1 minus auc", "like per cent"]
    others = [words for words, _ in inference._metric_mistakes(labels.OracleSpec("mae", n=N))]
    assert others == ["like a sum over rows, not a mean", "negated (larger is better there)"]


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


def test_few_decimals_repeat_by_themselves():
    answers = np.array([0.5123, 0.25, 0.25, 0.25, 0.25])
    assert inference._describe_repeats(answers, 3) == ""
    assert inference._describe_repeats(answers, 4).startswith("repeated (3 ")
    assert inference._describe_repeats(answers, None).startswith("repeated (3 ")


def test_rounding_is_told_where_it_is_no_accident_and_not_natural():
    cents = np.array([0.51, 0.25, 0.75, 0.13])
    assert inference._describe_rounding(cents, labels.OracleSpec(n=7)) == "rounded to 2 decimals"
    assert inference._describe_rounding(cents, labels.OracleSpec(n=100)) == ""  # shares of 100 rows
    assert inference._describe_rounding(cents, labels.OracleSpec(n=50)) == ""
    assert inference._describe_rounding(cents, labels.OracleSpec(n=100, decimals=6)) == "rounded to 2 decimals"
    assert inference._describe_rounding(cents, labels.OracleSpec(n=7, decimals=3)) == "rounded to 2 decimals"  # 1e-4
    assert inference._describe_rounding(cents[:2], labels.OracleSpec(n=7, decimals=3)) == ""  # one in a hundred
    assert inference._describe_rounding(cents, labels.OracleSpec(n=7, decimals=2)) == ""
    assert inference._describe_rounding(cents + 1e-5, labels.OracleSpec(n=7)) == "rounded to 5 decimals"
    large = np.array([123456789012.5, 98765432109.25])
    assert inference._describe_rounding(large, labels.OracleSpec("mse", n=7)) == ""  # floats show no more there


@pytest.mark.parametrize(("count", "looks"), [(3, ""), (4, "rounded to 3 decimals")])
def test_one_trailing_zero_of_three_answers_may_be_an_accident_of_one_in_a_thousand(count, looks):
    answers = np.array([0.123, 0.457, 0.789, 0.321])[:count]
    assert inference._describe_rounding(answers, labels.OracleSpec(n=7, decimals=4)) == looks


@pytest.mark.parametrize("decimals", range(1, 11))
def test_the_fewest_decimals_are_those_that_were_rounded_to_and_unrounded_answers_have_none(decimals):
    rng = np.random.default_rng(decimals)
    for _ in range(40):
        exact = rng.uniform(0, 2, 2)
        rounded = np.round(exact, decimals)
        rounded[0] = round(rounded[0] // 10.0 ** (1 - decimals) * 10.0 ** (1 - decimals) + 10.0**-decimals, decimals)
        assert inference._fewest_decimals(rounded, 12) == decimals
        assert inference._fewest_decimals(exact, 12) is None
        if decimals <= 4:
            assert inference._fewest_decimals(rounded.astype(np.float32).astype(float), 12) == decimals
    assert inference._fewest_decimals(rounded, decimals - 1) is None


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


NOISY = labels.OracleSpec(n=N, noise=0.01, decimals=3)


def opposite(clip):
    return -math.log(max(clip, 1e-300)) - math.log1p(-clip)


@pytest.mark.parametrize("submission", ["rows", "positive"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_two_opposite_queries_tell_scale_and_clip(submission, reduction):
    spec = labels.OracleSpec(n=N, clip=1e-6, submission=submission, reduction=reduction)
    size = 1 if reduction == "mean" else N
    told = {}
    other = "like a sum over rows, not a mean" if size == 1 else "like a mean over rows, not a sum"
    cases = {
        "negated (larger is better there)": -size * opposite(1e-6),
        "like logarithms to base 2": size * opposite(1e-6) / math.log(2),
        "like logarithms to base 10": size * opposite(1e-6) / math.log(10),
        "like per cent": 100 * size * opposite(1e-6),
        other: opposite(1e-6) * (N if size == 1 else 1),
        "clipped at 0.0001, not at 1e-06": size * opposite(1e-4),
        "clipped at 1e-15, not at 1e-06": size * opposite(1e-15),
        "not clipped at all": size * opposite(0.0),
        "": size * opposite(1e-6),
    }
    for looks, total in cases.items():
        asked = []

        def oracle(predictions, asked=asked, total=total):
            asked.append(predictions)
            return total / 4 if len(asked) == 1 else 3 * total / 4

        told[looks] = inference._describe_scale(oracle, spec)
        first, second = asked
        positive = first if submission == "positive" else first[:, 1]
        assert (positive == 1e-300).all()
        assert ((second if submission == "positive" else second[:, 1]) == 1.0).all()
    assert list(told.values()) == list(cases)
    assert inference._describe_scale(lambda _: 1.2345, spec) == ""


@pytest.mark.parametrize(
    "spec",
    [
        labels.OracleSpec("mse", n=N),
        labels.OracleSpec(n=N, classes=3),
        labels.OracleSpec(n=N, class_weight=(1.0, 2.0)),
        labels.OracleSpec(n=N, scored=20),
    ],
    ids=["mse", "classes", "weights", "split"],
)
def test_scale_and_clip_are_asked_of_plain_log_losses_alone(spec):
    assert inference._describe_scale(lambda _: pytest.fail("asked"), spec) == ""


@pytest.mark.parametrize(
    ("off", "close"), [(0.0, True), (0.0219, True), (0.0221, False), (-0.0219, True), (-0.0221, False)]
)
def test_two_answers_are_close_within_their_errors_and_a_thousandth(off, close):
    assert inference._is_close(1.0 + off, 1.0, NOISY) is close
    assert inference._is_close(-1.0 + off, -1.0, NOISY) is close


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


@pytest.mark.parametrize(("index", "where"), [(0, "query 0 of 3"), (2, "query 2 of 3"), (3, "control query 0")])
def test_an_answer_that_is_no_number_is_named_by_its_query(index, where):
    for answer in ("x", None, math.nan, math.inf, 10**400):
        with pytest.raises(InputError, match=f"oracle: {where} was answered with"):
            inference._check_answer(answer, index, 3)
    assert inference._check_answer(np.float32(0.5), index, 3) == 0.5
