"""The codes of the paper beside all labellings of a few rows."""

import itertools

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
