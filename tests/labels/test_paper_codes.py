"""The codes of the paper beside all labellings of a few rows."""

import itertools
import math

import numpy as np
import pytest

from divulge import InputError, labels
from divulge.labels import paper_codes

PLANS = {
    "exhaustive": (labels.OracleSpec(n=5, clip=1e-3, noise=0.003), "exhaustive"),
    "exhaustive, three classes": (labels.OracleSpec("squared_euclidean", n=4, classes=3, noise=0.002), "exhaustive"),
    "exhaustive, one row more": (labels.OracleSpec("mse", n=5, noise=0.03), "exhaustive"),
    "primes": (labels.OracleSpec(n=5, clip=1e-3, noise=0.002), "primes"),
    "corollary2": (labels.OracleSpec("itakura_saito", n=4, clip=None, noise=0.01), "corollary2"),
    "theorem3": (labels.OracleSpec(n=4, clip=None, noise=0.05), "theorem3"),
    "theorem14": (labels.OracleSpec(n=4, clip=None, noise=0.05), "theorem14"),
}


@pytest.mark.parametrize("name", PLANS)
def test_no_labelling_within_the_noise_differs_from_what_is_proven_nor_within_twice_from_what_is_certain(name):
    spec, method = PLANS[name]
    plan = labels.design(spec, method)
    assert plan.method == method
    assert plan.certificate.certified
    every = np.array(list(itertools.product(range(spec.classes), repeat=spec.n)))
    exact = np.array([[labels.LocalOracle(spec, y).exact(plan.queries[i]) for i in range(plan.count)] for y in every])
    apart = min(np.abs(a - b).max() for a, b in itertools.combinations(exact, 2))
    assert plan.certificate.separation <= apart * (1 + 1e-9)
    rng = np.random.default_rng(list(PLANS).index(name))
    for trial in range(40):
        size, world = (0.0, 0.99, 1.5, 1.99, 4.0)[trial % 5], int(rng.integers(len(every)))
        answers = exact[world] + size * spec.noise * rng.choice([-1.0, 1.0], plan.count)
        if trial % 4 == 3:
            answers[rng.integers(plan.count)] = np.nan
        reading = plan.inner.read(answers)
        distance = np.nan_to_num(np.abs(exact - answers))
        for told, times in ((reading.proven, 1), (reading.certain, 2)):
            inside = (distance <= times * spec.noise * (1 - 1e-7)).all(axis=1)
            assert (every[inside][:, told] == reading.labels[told]).all()
        if size < 1:
            assert not reading.refuted.any()
        if size < 1 and not np.isnan(answers).any():
            assert reading.proven.all()
            np.testing.assert_array_equal(reading.labels, every[world])
            row = np.abs(exact[world] - answers)
            np.testing.assert_allclose(reading.residual, row, rtol=0.02, atol=1e-9)
        assert (np.isnan(reading.residual) == np.isnan(answers)).all()
        assert not reading.refuted[np.isnan(answers)].any()


@pytest.mark.parametrize(
    ("spec", "method", "message"),
    [
        ({"noise": 0.1, "noise_kind": "gaussian"}, "theorem3", "for bounded noise and unweighted classes only"),
        ({"class_weight": (1.0, 2.0)}, "primes", "for bounded noise and unweighted classes only"),
        ({"classes": 3}, "theorem14", "theorem14 is stated for 2 classes, got 3"),
        ({"metric": "mse"}, "theorem3", "theorem3 is stated for cross-entropies"),
        ({"metric": "mse"}, "corollary2", "corollary2 is stated for itakura_saito, got mse"),
        ({"metric": "squared_euclidean", "classes": 3}, "primes", "primes are stated for 2 classes, got 3"),
        ({"noise": 0.4}, "exhaustive", "cannot read even one label per query at this noise"),
        ({"metric": "mse", "noise": 0.4}, "primes", "cannot read even one label per query at this noise"),
    ],
)
def test_what_a_code_is_not_stated_for_is_refused(spec, method, message):
    with pytest.raises(InputError, match=message):
        paper_codes.plan_paper_code(labels.OracleSpec(**{"n": 200, "clip": 1e-3} | spec), method)


def test_primes_are_primes():
    found = paper_codes.first_primes(60)
    assert found == [n for n in range(2, 282) if all(n % d for d in range(2, n))]
    assert paper_codes.first_primes(0) == []


def told_by_a_table(total, noise, decimals=None):
    """A table of sums 0, 1, 2.5 and 4 for two of four rows, the others 1/4 each, whose floats are off by 1/16."""
    spec = labels.OracleSpec("mae", n=4, noise=noise, reduction="sum", decimals=decimals)
    labellings = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    table = paper_codes.TablePlan(
        spec, np.array([0.0, 0.5]), np.array([0.75]), np.array([0.0, 1.0, 2.5, 4.0]), labellings, 0.25, 0.0625
    )
    return table.read(np.array([total + 0.5, math.nan]))


@pytest.mark.parametrize(
    ("off", "noise", "expected"),  # proven, certain, refuted: the next sum is 1 away
    [
        (0.0, 0.25, (True, True, False)),
        (0.25, 0.1875, (True, True, False)),
        (0.25 + 1e-9, 0.1875, (False, True, True)),
        (0.0, 0.46875, (True, False, False)),
        (0.0, 0.46875 - 1e-9, (True, True, False)),
        (0.0, 0.9375, (False, False, False)),
        (0.0, 0.9375 - 1e-9, (True, False, False)),
        (0.25, 0.6875, (False, False, False)),
    ],
)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_labelling_of_a_block_is_proven_if_it_alone_is_near_enough(off, noise, expected, sign):
    total = 0.0 + off if sign == 1 else 1.0 - off
    reading = told_by_a_table(total, noise)
    assert (bool(reading.proven[0]), bool(reading.certain[0]), bool(reading.refuted[0])) == expected
    assert reading.labels[:2].tolist() == ([0, 0] if sign == 1 else [0, 1])
    assert reading.residual[0] == pytest.approx(off, abs=1e-12)
    assert not (reading.proven[2:] | reading.certain[2:]).any()
    assert not reading.refuted[1]
    assert math.isnan(reading.residual[1])


@pytest.mark.parametrize(("digits", "read", "valid"), [(0, 0, True), (1, 1, True), (2, 1, False), (3, 2, True)])
def test_a_digit_of_theorem_3_that_is_none_of_any_class_is_no_label(digits, read, valid):
    """Three classes have the digits 0, 1 and 3."""
    spec = labels.OracleSpec(n=1, classes=3, clip=None, noise=0.01)
    plan = labels.design(spec, "theorem3").inner
    assert plan.digit_plan.digits.tolist() == [0, 1, 3]
    part = plan.digit_plan
    weight = int(part.code.weights(0)[1][0])
    answer = (float(part.base[0]) + part.unit * weight * digits) / 1
    reading = plan.read(np.array([answer]))
    assert reading.proven.tolist() == reading.certain.tolist() == [valid]
    assert reading.refuted.tolist() == [not valid]
    assert not valid or reading.labels.tolist() == [read]
    assert reading.residual[0] == pytest.approx(0.0, abs=1e-12)
