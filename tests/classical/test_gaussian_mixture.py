"""Mixtures against scikit-learn's: the same density and criterion of the same parameters, and fits no worse."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Theirs

from divulge.classical import gaussian_mixture


def clouds(seed, n=300):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 6))
    which = rng.integers(k, size=n)
    points = rng.normal(0, 3, (k, 2))[which] + rng.uniform(0.3, 1.5, (k, 1))[which] * rng.normal(size=(n, 2))
    return points if seed % 2 else np.exp(points / 4)


def scikit_learns(points, k, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return Theirs(k, reg_covar=1e-3, random_state=seed).fit(points)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_density_and_bic_of_the_same_parameters(k):
    points = clouds(k)
    theirs = scikit_learns(points, k, 0)
    ours = gaussian_mixture.GaussianMixture(
        theirs.weights_, theirs.means_, theirs.precisions_cholesky_.transpose(0, 2, 1)
    )
    np.testing.assert_allclose(ours.log_density(points), theirs.score_samples(points), rtol=1e-10)
    assert ours.bic(points) == pytest.approx(theirs.bic(points), rel=1e-12)


def test_one_gaussian_is_the_mean_and_the_covariance():
    points = clouds(3)
    ours, theirs = gaussian_mixture.fit(points, 1, 0), scikit_learns(points, 1, 0)
    np.testing.assert_allclose(ours.means, theirs.means_, rtol=1e-12)
    np.testing.assert_allclose(ours.log_density(points), theirs.score_samples(points), rtol=1e-9)


def test_over_many_sets_the_best_fit_is_no_worse_than_scikit_learns():
    gains = []
    for seed in range(40):
        points = clouds(seed)
        theirs = min((scikit_learns(points, k, seed) for k in range(1, 6)), key=lambda fit: fit.bic(points))
        gains.append(theirs.bic(points) - gaussian_mixture.best(points, 5, seed).bic(points))
    assert np.mean(gains) > 0
    assert np.median(gains) >= -1e-6


def test_one_seed_gives_one_result_and_equal_points_a_density():
    points = clouds(5)
    one, two = (gaussian_mixture.best(points, 4, 7) for _ in range(2))
    np.testing.assert_array_equal(one.log_density(points), two.log_density(points))
    same = gaussian_mixture.best(np.ones((60, 2)), 3, 0)
    assert np.isfinite(same.log_density(np.array([[1.0, 1.0], [9.0, 9.0]]))).all()
