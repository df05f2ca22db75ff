"""Principal components against scikit-learn's."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA, TruncatedSVD

from divulge.classical import components


def tilted(seed, n=400, d=20):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * 0.8 ** np.arange(d) @ np.linalg.qr(rng.normal(size=(d, d)))[0] + rng.normal(size=d)


@pytest.mark.parametrize(("n", "d", "width"), [(400, 20, 5), (10, 30, 4), (50, 1, 1)])
def test_exact_components_are_those_of_scikit_learn(n, d, width):
    points, others = tilted(0, n, d), tilted(1, 30, d)
    theirs = PCA(width, svd_solver="full").fit(points)
    ours = components.principal(points, width)
    np.testing.assert_allclose(ours.variances, theirs.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(ours.axes, theirs.components_, atol=1e-10)
    np.testing.assert_allclose(ours(others), theirs.transform(others), atol=1e-10)


def test_a_random_search_finds_the_components():
    points = tilted(2, 600, 80)
    exact, near = (
        components.principal(points, 10),
        components.approximate(points, 10, np.random.default_rng(0)),
    )
    np.testing.assert_allclose(near.variances, exact.variances, rtol=1e-6)
    np.testing.assert_allclose(near.axes, exact.axes, atol=1e-4)
    theirs = PCA(10, svd_solver="randomized", random_state=0).fit(points)
    assert near(points).var(axis=0).sum() >= theirs.transform(points).var(axis=0).sum() * (1 - 1e-6)


def test_of_a_sparse_table_as_much_is_kept_as_by_scikit_learn():
    for seed in range(5):
        table = sparse.random(300, 500, 0.02, random_state=seed, format="csr")
        axes, size = components.leading(table, 20, np.random.default_rng(seed))
        np.testing.assert_allclose(axes @ axes.T, np.eye(20), atol=1e-12)
        theirs = TruncatedSVD(20, random_state=seed).fit(table)
        assert ((table @ axes.T) ** 2).sum() >= (theirs.transform(table) ** 2).sum()
        largest = np.linalg.svd(table.toarray(), compute_uv=False)[:20]
        np.testing.assert_allclose(size, largest, rtol=0.02)


def test_one_seed_gives_one_result_and_few_rows_give_few_components():
    points = tilted(3, 12, 60)
    one, two = (components.approximate(points, 12, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(one.axes, two.axes)
    assert one.axes.shape == (12, 60)
    np.testing.assert_allclose(one.axes[:11], components.principal(points, 11).axes, atol=1e-8)
