"""Both sides of an edge: noise that just hides a count, rows that just sum to one, answers just too far off."""

import math

import numpy as np
import pytest
from scipy.linalg import hadamard

import divulge as dv
from divulge import labels
from divulge.labels import defences, stochastic

CLIP = 1e-2


@pytest.mark.parametrize(("off", "certain"), [(0.02, True), (0.05, False)])
def test_the_number_of_ones_is_certain_if_another_needs_more_than_twice_the_noise(off, certain):
    spec = labels.OracleSpec("accuracy", n=10, noise=0.03)
    plan, y = labels.design(spec), np.arange(10) % 2
    answers = np.array([labels.LocalOracle(spec, y).exact(plan.queries[i]) for i in range(plan.count)])
    answers[0] += off
    assert plan.inner.read(answers).certain.all() == certain
    assert plan.inner.read(answers).certain.any() == certain


def test_rows_may_sum_to_one_within_the_root_of_the_precision_of_their_floats():
    spec = labels.OracleSpec(n=2)
    for off, accepted in ((2.0**-26, True), (2.0**-25, False)):
        rows = np.array([[0.5, 0.5], [0.5, 0.5 + off]])
        if accepted:
            assert math.isfinite(labels.LocalOracle(spec, np.array([0, 1]))(rows))
        else:
            with pytest.raises(dv.InputError, match="row 1 sums to"):
                labels.LocalOracle(spec, np.array([0, 1]))(rows)


@pytest.mark.parametrize(
    "options", [{}, {"clip": None}, {"clip": CLIP}, {"float_dtype": "float32"}, {"submission": "positive"},
                {"classes": 3}, {"classes": 5, "clip": CLIP}, {"classes": 4, "clip": None}, {"metric": "mae"}],
)  # fmt: skip
def test_the_largest_gap_that_is_promised_is_reached(options):
    """Labels one digit apart cost that much more, at either end of the reach, and no loss is infinite."""
    loss, classes = labels.OracleSpec(n=3, **options).loss(), options.get("classes", 2)
    digits, reach = np.arange(classes), loss.largest_gap(np.arange(classes))
    table = loss.table(loss.predict(np.array([-reach, reach]), digits))
    assert np.isfinite(table).all()
    close = 1e-2 if options else 1e-3
    np.testing.assert_allclose(table - table[:, :1], np.outer([-reach, reach], digits), rtol=close)


@pytest.mark.parametrize("ones", [0, 3, 40])
@pytest.mark.parametrize("sigma", [1e-3, 4.0])
def test_labels_of_one_class_are_read_from_noisy_sums(ones, sigma):
    signs = hadamard(64)[:, :40].astype(float)
    truth = np.where(np.arange(40) < ones, 1.0, -1.0)
    sums = signs @ truth + sigma * np.random.default_rng(1).normal(size=64)
    assert stochastic.message_passing(signs, sums, sigma, 64).tolist() == truth.tolist()


def test_signs_are_read_no_worse_than_by_least_squares():
    wrong = np.zeros(2, dtype=int)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        signs = hadamard(64)[rng.permutation(64)[:40], :30].astype(float)
        truth = rng.choice([-1.0, 1.0], 30)
        sums = signs @ truth + rng.normal(size=40)
        naive = np.sign(np.linalg.lstsq(signs, sums)[0])
        wrong += [(stochastic.message_passing(signs, sums, 1.0, 64) != truth).sum(), (naive != truth).sum()]
    assert wrong[0] <= wrong[1]


@pytest.mark.parametrize(("n", "queries", "accuracy"), [(300, 1, 0.6), (300, 3, 0.6), (50, 10, 0.9)])
def test_the_recommended_clip_just_keeps_the_promise(n, queries, accuracy):
    clip = labels.defend(labels.OracleSpec(n=n, decimals=2), queries, accuracy).clip
    for factor, keeps_promise in ((1 + 1e-6, True), (1 - 1e-6, False)):
        limit = defences.max_accuracy(labels.OracleSpec(n=n, decimals=2, clip=clip * factor), queries)
        assert (limit <= accuracy) == keeps_promise


@pytest.mark.parametrize(
    "options", [{"noise": 1e-4}, {"noise": 1e-4, "class_weight": (1.0, 2.0)}, {"noise": 1e-4, "decimals": 6},
                {"metric": "rmse", "noise": 1e-4}, {"metric": "accuracy", "noise": 2e-3}],
)  # fmt: skip
def test_answers_are_refuted_just_beyond_the_declared_noise(options):
    spec = labels.OracleSpec(n=60, **options)
    plan, y = labels.design(spec), np.arange(60) % 2
    exact = np.array([labels.LocalOracle(spec, y).exact(query) for query in plan.queries])
    for factor, refuted in ((0.99, False), (1.1, True)):
        assert plan.inner.read(exact + factor * spec.tolerance).refuted.any() == refuted
