"""What "proven" and "certain" take, against definitions written down a second time."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from divulge import labels
from divulge.labels import linear_plans


def read_one(distance, noise, known_error, *, sigma=None, missing=False, unit=1.0):
    """Read one binary label, 1, whose sum is off by ``distance`` units towards 0; labels lie one ``unit`` apart."""
    spec = labels.OracleSpec(n=1, clip=1e-3)
    question = linear_plans.assemble_digit_plan(spec, spec.loss(), np.arange(2), 2, 1, unit)
    sign = int(question.code.weights(0)[1][0])
    assert abs(sign) == 1
    question = dataclasses.replace(question, base=np.zeros(1, np.longdouble), error=np.array([known_error * unit]))
    total = np.longdouble(math.nan if missing else sign * (1 - distance) * unit)
    deviation = None if sigma is None else np.array([sigma * unit])
    return question.read(
        linear_plans.RowSums(np.array([total]), np.zeros(1), np.array([noise * unit]), deviation, slack=np.zeros(1))
    )


@pytest.mark.parametrize("unit", [1.0, 0.125])
@pytest.mark.parametrize("known_error", [0.0, 0.05])
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1, 0.2, 0.24, 0.26, 0.3, 0.45, 0.52])
@pytest.mark.parametrize("distance", [0.0, 0.08, 0.12, 0.22, 0.28, 0.33, 0.42, 0.48])
def test_a_label_is_proven_if_it_alone_explains_the_sum_and_certain_if_so_at_twice_the_noise(
    distance, noise, known_error, unit
):
    reading = read_one(distance, noise, known_error, unit=unit)
    for claims, allowed in ((reading.proven, known_error + noise), (reading.certain, known_error + 2 * noise)):
        explains = [abs(label - (1 - distance)) <= allowed for label in (0, 1)]
        assert claims.tolist() == [explains == [False, True]]


def test_each_condition_of_the_two_fails_somewhere_alone():
    """The sum is too far from its label, or the other label is too close to it: each alone forbids both words."""
    assert not read_one(0.3, 0.1, 0.0).certain.any()
    assert not read_one(0.48, 0.3, 0.0).certain.any()
    assert not read_one(0.12, 0.1, 0.0).proven.any()
    assert not read_one(0.4, 0.6, 0.0).proven.any()
    assert read_one(0.1, 0.1, 0.0).certain.all()
    assert not read_one(0.0, 0.0, 0.0, missing=True).proven.any()
    assert not read_one(0.0, 0.0, 0.0, missing=True).certain.any()
    unsound = read_one(-3.0, 0.0, 0.0)  # four units: an integer, and no label
    assert not unsound.proven.any()
    assert not unsound.certain.any()


@pytest.mark.parametrize("known_error", [0.0, 0.05])
@pytest.mark.parametrize("sigma", [0.02, 0.05, 0.08, 0.1, 0.13, 0.15, 0.18, 0.19, 0.25])
@pytest.mark.parametrize("distance", [0.0, 0.1, 0.25, 0.4])
def test_under_gaussian_noise_the_other_label_has_to_be_a_million_times_less_likely(sigma, distance, known_error):
    reading = read_one(distance, 5 * sigma, known_error, sigma=sigma)
    for claims, size in ((reading.proven, sigma), (reading.certain, 2 * sigma)):
        log_ratio = ((1 - distance - known_error) ** 2 - (distance + known_error) ** 2) / (2 * size**2)
        assert claims.tolist() == [log_ratio > math.log(1e6)]


@pytest.mark.parametrize("times", [0.5, 0.99, 1.01, 2.0])
def test_under_gaussian_noise_the_chance_of_an_error_is_shared_by_all_queries(times):
    spec = labels.OracleSpec(n=12, clip=1e-3)
    question = linear_plans.assemble_digit_plan(spec, spec.loss(), np.arange(2), 2, 1, 1.0)
    count, truth = question.count, np.arange(12) % 2
    assert count > 2
    question = dataclasses.replace(question, base=np.zeros(count, np.longdouble), error=np.zeros(count))
    totals = []
    for index in range(count):
        start, weights = question.code.weights(index)
        totals.append(float(weights @ truth[start : start + len(weights)]))
    sigma = np.full(count, times / math.sqrt(2 * math.log(1e6 * count)))
    row_sums = linear_plans.RowSums(np.array(totals, np.longdouble), np.zeros(count), 5 * sigma, sigma, np.zeros(count))
    reading = question.read(row_sums)
    assert reading.labels.tolist() == truth.tolist()
    assert reading.proven.all() == reading.proven.any() == (times < 1)
    assert reading.certain.all() == reading.certain.any() == (2 * times < 1)


PLANS = {
    "accuracy": (labels.OracleSpec("accuracy", n=6, noise=0.04), "auto"),
    "accuracy, loud": (labels.OracleSpec("accuracy", n=6, noise=0.083), "auto"),
    "f1, loud": (labels.OracleSpec("f1", n=6, noise=0.041), "auto"),
    "auc": (labels.OracleSpec("auc", n=6, noise=0.0068), "auto"),
    "balanced accuracy": (labels.OracleSpec("balanced_accuracy", n=6, noise=0.08), "auto"),
    "r2": (labels.OracleSpec("r2", n=6, noise=0.2), "auto"),
    "map at 3": (labels.OracleSpec("map_at_k", n=5, classes=3, noise=0.09), "auto"),
    "log loss": (labels.OracleSpec(n=6, clip=1e-3, noise=0.05), "auto"),
    "log loss, three classes": (labels.OracleSpec(n=4, classes=3, clip=1e-3, noise=0.05), "auto"),
    "squares": (labels.OracleSpec("mse", n=6, noise=0.01, clip=1e-3), "auto"),
    "primes": (labels.OracleSpec(n=6, clip=1e-6, noise=1e-3), "primes"),
}


@pytest.mark.parametrize("name", PLANS)
def test_no_other_labelling_within_the_noise_differs_from_what_is_proven_nor_within_twice_from_what_is_certain(name):
    """All labellings are tried, for answers up to three times as far off as declared and for missing ones."""
    spec, method = PLANS[name]
    plan = labels.design(spec, method)
    everything = np.array(list(itertools.product(range(spec.classes), repeat=spec.n)))
    if name == "auc":  # which one class has none of
        everything = everything[1:-1]
    exact = np.array(
        [[labels.LocalOracle(spec, y).exact(plan.queries[i]) for i in range(plan.count)] for y in everything]
    )
    rng, counts = np.random.default_rng(6), {"proven": 0, "certain": 0, "open": 0, "only proven": 0}
    for _ in range(200):
        size = rng.choice([0.0, 0.9, 1.1, 1.9, 2.1, 3.0]) * spec.noise
        answers = exact[rng.integers(len(exact))] + size * rng.choice([-1.0, 0.0, 1.0], plan.count)
        answers[rng.random(plan.count) < rng.choice([0.1, 0.7])] = np.nan
        reading = plan.inner.read(answers)
        away = np.nan_to_num(np.abs(exact - answers))
        for claimed, times in ((reading.proven, 1), (reading.certain, 2)):
            consistent = everything[(away <= times * spec.noise * (1 - 1e-9)).all(axis=1)]
            if len(consistent):
                assert (consistent[:, claimed] == reading.labels[claimed]).all()
        counts["proven"] += int(reading.proven.sum())
        counts["certain"] += int(reading.certain.sum())
        counts["open"] += int((~reading.proven).sum())
        counts["only proven"] += int((reading.proven & ~reading.certain).sum())
    assert all(counts[outcome] for outcome in ("proven", "certain", "open")), counts


def test_labels_follow_from_answers_that_contradict_nothing_only():
    spec = labels.OracleSpec(n=6, clip=1e-3, noise=1e-6)
    plan, truth = labels.design(spec), np.arange(6) % 2
    answers = np.array([labels.LocalOracle(spec, truth).exact(plan.queries[i]) for i in range(plan.count)])
    right, wrong = labels.read(plan, answers), labels.read(plan, answers + 50)
    assert right.contradiction is None
    assert right.determined.all()
    assert wrong.contradiction is not None
    assert not wrong.determined.any()


def test_with_class_weights_the_counting_answer_alone_is_refuted_if_it_counts_nothing():
    spec = labels.OracleSpec(n=8, clip=1e-3, class_weight=(0.5, 2.0), noise=1e-6)
    plan, truth = labels.design(spec), np.arange(8) % 2
    answers = np.array([labels.LocalOracle(spec, truth).exact(plan.queries[i]) for i in range(plan.count)])
    assert not plan.inner.read(answers).refuted.any()
    answers[0] += 1e-4
    assert plan.inner.read(answers).refuted[0]
