"""Certificates against enumeration."""

import itertools
import math

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divulge import labels
from divulge.labels import linear_plans, metrics


def enumerated(table):
    n, classes = table.shape
    sums = sorted(math.fsum(table[i, c] for i, c in enumerate(y)) for y in itertools.product(range(classes), repeat=n))
    return min(b - a for a, b in itertools.pairwise(sums)) / n


@given(n=st.integers(1, 6), classes=st.integers(2, 3), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_the_certified_separation_is_a_tight_lower_bound(n, classes, seed):
    rows = np.random.default_rng(seed).dirichlet(np.ones(classes), n)
    spec = labels.OracleSpec(n=n, classes=classes)
    proven = labels.certify(spec, rows).separation
    exact = enumerated(spec.loss().table(rows))
    assert proven <= exact
    assert proven >= exact - 1e-11 * n - 1e-12


def test_superincreasing_codes_are_certified_in_linear_time():
    gaps = 36 * 2.0 ** -np.arange(40)
    rows = np.stack([1 / (1 + np.exp(-gaps)), 1 / (1 + np.exp(gaps))], axis=1)
    certificate = labels.certify(labels.OracleSpec(n=40), rows)
    assert certificate.certified
    assert certificate.method == "superincreasing losses"


def test_thirty_rows_meet_in_the_middle_and_more_are_refused():
    rng = np.random.default_rng(0)
    theta = rng.uniform(0.1, 0.9, 26)
    certificate = labels.certify(labels.OracleSpec(n=26), np.stack([1 - theta, theta], axis=1))
    assert certificate.method == "meet in the middle"
    theta = rng.uniform(0.1, 0.9, 40)
    certificate = labels.certify(labels.OracleSpec(n=40), np.stack([1 - theta, theta], axis=1))
    assert not certificate.certified
    assert "too many" in str(certificate)


def test_of_several_queries_the_best_one_counts():
    spec = labels.OracleSpec(n=2, noise=0.01)
    bad, good = np.full((2, 2), 0.5), np.array([[0.9, 0.1], [0.6, 0.4]])
    assert labels.certify(spec, np.stack([bad, good])).certified
    assert not labels.certify(spec, bad).certified
    assert labels.certify(spec, labels.design(spec)).certified


def test_the_whole_titanic_plan_is_certified(titanic):
    spec = labels.OracleSpec(n=len(titanic))
    for method in ("positional", "weighing"):
        plan = labels.design(spec, method)
        assert plan.certificate.certified
        assert plan.count <= 48
        inference = labels.infer(labels.ScikitLearn(spec, titanic), plan)
        assert (inference.labels == titanic).all()
        assert inference.certain.all()


@pytest.mark.parametrize("share", [0.9, 1.1])
def test_twice_the_tolerance_must_lie_between_two_answers(share):
    # One row: its labels' answers lie ln 3 apart, and each may be off by the tolerance.
    rows, distance = np.array([[0.75, 0.25]]), math.log(3)
    spec = labels.OracleSpec(n=1, decimals=1, noise=share * distance / 2 - 0.05)
    certificate = labels.certify(spec, rows)
    assert certificate.needed == pytest.approx(2 * spec.tolerance) == pytest.approx(share * distance)
    low, high = (labels.LocalOracle(spec, np.array([label])).exact(rows) for label in (0, 1))
    assert certificate.certified == (low + spec.tolerance < high - spec.tolerance) == (share < 1)


def test_the_float_error_of_both_answers_is_taken_off():
    # Half precision errs by some hundredths here, in either answer.
    gaps = np.array([4.0, 2.0, 1.0])
    rows = np.stack([1 / (1 + np.exp(-gaps)), 1 / (1 + np.exp(gaps))], axis=1)
    spec = labels.OracleSpec(n=3, clip="float16", float_dtype="float16")
    table = spec.loss().table(rows)
    error = float(metrics.summation_error(3, table.max(axis=1).sum(), "pairwise", "float16"))
    distance = enumerated(table) * 3
    certificate = labels.certify(spec, rows)
    assert certificate.separation * 3 <= distance - 2 * error
    assert certificate.separation * 3 >= distance - 3 * error
    # So much noise that one answer's float error would do, and two answers' are too much.
    for share, certified in ((1.5, False), (3.0, True)):
        noisy = labels.OracleSpec(n=3, clip="float16", float_dtype="float16", noise=(distance - share * error) / 6)
        assert labels.certify(noisy, rows).certified == certified


def test_capacity_bounds_every_plan():
    for options in ({"noise": 1e-4}, {"decimals": 5}, {"classes": 3, "noise": 1e-3}, {"metric": "accuracy"}, {}):
        spec = labels.OracleSpec(n=300, **options)
        assert labels.design(spec).count >= labels.capacity(spec).queries


def test_what_is_too_much_to_enumerate_is_not_certified():
    rng = np.random.default_rng(1)
    for n, classes, proven in ((31, 2, False), (18, 3, False), (10, 3, True)):
        rows = rng.dirichlet(np.ones(classes), n)
        certificate = labels.certify(labels.OracleSpec(n=n, classes=classes), rows)
        assert (certificate.method == "meet in the middle") == proven
        assert ("too many to enumerate" in certificate.why) == (not proven)


def test_one_row_whose_labels_cost_the_same_tells_nothing():
    certificate = labels.certify(labels.OracleSpec(n=1), [[0.5, 0.5]])
    assert (certificate.certified, certificate.separation, certificate.why) == (
        False,
        0.0,
        "two labellings give the same answers",
    )


@pytest.mark.parametrize("low", [0.0, 1.0, 20.0, 320.0])
def test_logarithms_are_bounded_as_ball_arithmetic_bounds_them(low):
    draws = np.random.default_rng(int(low))
    p = np.r_[10.0 ** -draws.uniform(low / 2, low, 200), 1 - 10.0 ** -draws.uniform(1, 17, 50), 1.0]
    p = p[p > 0]
    losses = np.nextafter(-np.log(p), draws.choice([-np.inf, np.inf], len(p)))
    with flint.ctx.workprec(300):
        balls = [
            (-flint.arb(a).log() - flint.arb(b)).abs_upper() for a, b in zip(p.tolist(), losses.tolist(), strict=True)
        ]
        bounds = metrics.log_error(p, losses)
        assert all(flint.arb(bound) >= ball for bound, ball in zip(bounds.tolist(), balls, strict=True))
    assert (bounds <= np.array([float(ball) for ball in balls]) * (1 + 1e-9) + 1e-24).all()


@pytest.mark.parametrize("method", ["positional", "weighing"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.1])
def test_a_code_is_certified_while_one_step_exceeds_twice_the_errors(method, share):
    """What is needed besides floats is twice noise and rounding, which move an answer by their own size."""
    step = labels.design(labels.OracleSpec(n=30), method).certificate.separation
    spec = labels.OracleSpec(n=30, noise=share * step / 2)
    plan = labels.design(labels.OracleSpec(n=30), method)
    certificate = linear_plans.certify_digit_plans(spec, plan.inner.digit_plans)
    assert certificate.needed == pytest.approx(2 * spec.tolerance, rel=1e-6, abs=1e-12)
    assert certificate.certified is (share < 1)
