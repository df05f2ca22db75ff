"""What oracles say of themselves, against answers counted one by one: noise, ranges, totals, and when nothing leaks."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError
from divulge.labels import count_plans, defences
from divulge.labels.oracles import ratio_score


@pytest.mark.parametrize("decimals", [None, 0, 1, 4])
@pytest.mark.parametrize(("kind", "variance"), [("bounded", 0.0), ("gaussian", 0.04), ("laplace", 0.08)])
def test_the_variance_of_an_answer_is_that_of_the_noise_and_of_a_uniform_last_decimal(kind, variance, decimals):
    spec = labels.OracleSpec(n=10, noise=0.2, noise_kind=kind, decimals=decimals)
    last_decimal = 0.0 if decimals is None else 10.0 ** (-2 * decimals) / 12
    assert spec.sigma == pytest.approx(math.sqrt(variance + last_decimal) if variance else 0.0)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("scored", ["all", 4])
def test_one_label_moves_an_answer_by_the_range_of_a_loss_over_the_rows_that_it_is_a_mean_of(reduction, scored):
    spec = labels.OracleSpec(metric="log_loss", n=6, clip=0.02, reduction=reduction, scored=scored)
    span, units = defences._loss_range(spec)
    assert span == pytest.approx(math.log(0.98) - math.log(0.02))
    rows = 6 if scored == "all" else 4
    losses = [-math.log(0.02)] + [-math.log(0.5)] * (rows - 1)
    flipped = [-math.log(0.98)] + losses[1:]
    answers = [sum(each) if reduction == "sum" else np.mean(each) for each in (losses, flipped)]
    assert span / units == pytest.approx(answers[0] - answers[1])
    for metric, width in (("accuracy", 1 / rows), ("f1", 1 / rows)):
        if reduction == "mean" and scored == "all":
            assert np.divide(*defences._loss_range(labels.OracleSpec(metric=metric, n=6))) == pytest.approx(width)


@pytest.mark.parametrize(("options", "rows"), [({}, 50), ({"reduction": "sum"}, 1), ({"scored": 20}, 20)])
def test_where_no_label_leaks_it_is_said_how_little_one_moves_and_at_which_error_it_would_leak(options, rows):
    spec = labels.OracleSpec(metric="log_loss", n=50, clip=0.01, noise=100.0, **options)
    with pytest.raises(InputError) as error:
        labels.design(spec)
    told, moved = str(error.value), math.log(0.99 / 0.01) / rows
    if "scored" in options:  # whether a row counts is asked as well
        assert (
            f"an error of ±100 may hide single rows of the split; it leaks once the error is below {moved / 4:.3g}"
            in told
        )
        return
    assert f"one label moves the answer by at most {moved:.3g}, and an error of ±100 may hide it" in told
    assert f"it leaks once the error is below {moved / 2:.3g}; several labels at once" in told


def test_a_single_row_has_no_labels_of_both_classes():
    spec = SimpleNamespace(n=1, classes=2, tolerance=0.01, metric="mcc")
    certificate = count_plans._certify_totals(SimpleNamespace(spec=spec))
    assert not certificate.certified
    assert certificate.separation == 0
    assert str(certificate) == "not certified: labels of both classes need two rows"


@pytest.mark.parametrize(("metric", "classes"), [("balanced_accuracy", 2), ("mcc", 2), ("quadratic_weighted_kappa", 3)])
def test_totals_admit_an_answer_if_some_sum_that_predictions_can_have_gives_it(metric, classes):
    """All labels of five rows, and answers of other labels; sums beyond what so many predictions can reach are none."""
    n, rng = 5, np.random.default_rng(classes)
    spec = labels.OracleSpec(metric=metric, n=n, classes=classes)
    plan = SimpleNamespace(spec=spec)
    every = np.array(list(itertools.product(range(classes), repeat=n)))
    ones, squares = every.sum(axis=1), (every**2).sum(axis=1)
    for submission in (np.array([1, 0, 0, 0, 0]), rng.integers(0, classes, n), rng.integers(0, classes, n)):
        scores = np.array([ratio_score(spec, y, submission) for y in every])
        for answer in {*np.round(scores[~np.isnan(scores)][:: len(scores) // 9], 9), 0.123}:
            admitted = count_plans.TotalsPlan._admits(plan, ones, squares, submission, float(answer), 1e-7)
            truly = np.abs(scores - answer) <= 1e-7
            assert (admitted | ~truly).all()  # no labelling that gives the answer is left out
            if classes == 2:  # here every sum within its bounds is that of some labels
                same = {(a, b) for a, b, is_true in zip(ones, squares, truly, strict=True) if is_true}
                assert admitted.tolist() == [(a, b) in same for a, b in zip(ones, squares, strict=True)]
                continue
            most = (classes - 1) * int(submission.sum())
            for total, square, is_admitted in {*zip(ones.tolist(), squares.tolist(), admitted.tolist(), strict=True)}:
                expected = float((submission**2).sum()) + square - 2 * int(submission.sum()) * total / n
                if expected <= 1e-9:
                    continue
                start = 1 - (float((submission**2).sum()) + square) / expected
                assert is_admitted == any(abs(start + 2 / expected * s - answer) <= 1e-7 for s in range(most + 1)), (
                    total,
                    square,
                )
