"""Logistic regression and standard units against scikit-learn's."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from divulge.classical import logistic


def lessons(seed, n=400, d=6):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * rng.uniform(0.3, 3, d)
    return rows, rng.random(n) < 1 / (1 + np.exp(-(rows @ rng.normal(size=d)) - 1))


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("strength", [0.01, 1.0, 10.0])
def test_weights_are_those_of_scikit_learn(balanced, strength):
    for seed in range(3):
        rows, truth = lessons(seed)
        theirs = LogisticRegression(C=strength, class_weight="balanced" if balanced else None, max_iter=1000)
        theirs.fit(rows, truth)
        ours = logistic.fit(rows, truth, strength=strength, balanced=balanced)
        np.testing.assert_allclose(ours.log_odds(rows), theirs.decision_function(rows), atol=1e-6)


@pytest.mark.parametrize("balanced", [False, True])
def test_sparse_rows_give_the_least_loss(balanced):
    rng = np.random.default_rng(0)
    rows = sparse.random(300, 2000, 0.01, random_state=0, format="csr")
    truth = rng.random(300) < 0.3
    theirs = LogisticRegression(
        C=10.0, class_weight="balanced" if balanced else None, max_iter=1000, tol=1e-10, solver="newton-cg"
    ).fit(rows, truth)
    ours = logistic.fit(rows, truth, strength=10.0, balanced=balanced)
    np.testing.assert_allclose(ours.log_odds(rows), theirs.decision_function(rows), atol=2e-3)


def test_rows_that_tell_nothing_get_the_constant():
    truth = np.arange(40) % 4 == 0
    for rows in (np.zeros((40, 2)), sparse.csr_matrix((40, 2))):
        found = logistic.fit(rows, truth)
        assert found.weights.tolist() == [0.0, 0.0]
        assert found.constant == pytest.approx(np.log(1 / 3), abs=1e-3)
        assert logistic.fit(rows, truth, balanced=True).constant == pytest.approx(0.0, abs=1e-12)


def test_separable_and_large_rows_stay_finite():
    rows = np.array([[-1e3], [-1.0], [1.0], [1e3]])
    for given in (rows, sparse.csr_matrix(rows)):
        found = logistic.fit(given, [0, 0, 1, 1], strength=1e6)
        assert np.isfinite(found.log_odds(given)).all()
        assert (np.sign(found.log_odds(given)) == [-1, -1, 1, 1]).all()


def test_units_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    rows = np.column_stack(
        [rng.normal(5, 3, 50), np.full(50, 0.1), np.full(50, 1e8), rng.normal(size=50) * 1e-9, np.zeros(50)]
    )
    theirs = StandardScaler().fit(rows)
    ours = logistic.Standard.of(rows)
    np.testing.assert_allclose(ours.scale, theirs.scale_, rtol=1e-12)
    np.testing.assert_allclose(ours(rows[:5] + 1), theirs.transform(rows[:5] + 1), rtol=1e-7, atol=1e-7)
