"""Nearest neighbours and trees against scikit-learn's, and what a tree promises."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors
from sklearn.tree import DecisionTreeRegressor

from divulge.classical import neighbours, regression_tree


@pytest.mark.parametrize(("n", "d"), [(5, 1), (300, 3), (1500, 40)])
def test_distances_are_those_of_scikit_learn(n, d):
    rng = np.random.default_rng(n)
    points = rng.normal(size=(n, d))
    points[n // 2] = points[0]
    wanted = NearestNeighbors(n_neighbors=2).fit(points).kneighbors(points)[0][:, -1]
    found = neighbours.nearest_other(points)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert found[0] == found[n // 2] == 0


def test_neighbours_far_from_zero_are_the_same():
    near = np.random.default_rng(0).integers(0, 1000, (300, 3)).astype(float)
    far = near + 2.0**40
    assert neighbours.nearest_other(far).tolist() == neighbours.nearest_other(near).tolist()


def test_a_point_alone_has_no_neighbour():
    assert neighbours.nearest_other(np.ones((1, 3))).tolist() == [0.0]


@pytest.mark.parametrize("kind", ["normal", "whole", "far"])
def test_a_tree_gives_back_what_it_was_grown_on(kind):
    rng = np.random.default_rng(0)
    for seed in range(10):
        x = {
            "normal": rng.normal(size=(120, 3)),
            "whole": np.unique(rng.integers(0, 4, (200, 4)), axis=0).astype(float),
            "far": np.nextafter(1e8, np.inf) * np.ones((40, 1)) + np.arange(40)[:, None] * np.spacing(1e8),
        }[kind]
        target = rng.integers(0, 1 + seed, len(x)).astype(float)
        order = rng.permutation(len(x))
        grown = regression_tree.grow(x, target)
        np.testing.assert_array_equal(grown.predict(x[order]), target[order])


def test_a_tree_splits_where_scikit_learns_does():
    """Where no two splits are equally good, both trees are the same function."""
    rng = np.random.default_rng(1)
    x, target = rng.normal(size=(60, 1)).astype(np.float32).astype(float), rng.normal(size=60)
    theirs = DecisionTreeRegressor(random_state=0).fit(x, target)
    asked = rng.normal(size=(2000, 1))
    np.testing.assert_allclose(regression_tree.grow(x, target).predict(asked), theirs.predict(asked))


def test_rows_that_do_not_differ_get_their_mean():
    assert regression_tree.grow(np.zeros((4, 2)), np.array([0.0, 1.0, 1.0, 2.0])).predict(np.ones((1, 2))) == [1.0]
