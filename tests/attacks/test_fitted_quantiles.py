"""Quantiles as a Gaussian: location and scale through them, and levels between and beyond them."""

import numpy as np
import pytest
from scipy import stats

from divulge.attacks.regressors import Pinball


def test_the_gaussian_through_the_quantiles_of_a_gaussian_is_that_one():
    signal = stats.norm(3.0, 2.0).ppf((np.arange(4000) + 0.5) / 4000)
    fitted = Pinball().fit(np.empty((4000, 0)), signal)
    location, scale = fitted.predict(np.empty((5, 0)))
    np.testing.assert_allclose(location, 3.0, atol=0.02)
    np.testing.assert_allclose(scale, 2.0, rtol=0.02)


@pytest.mark.parametrize("at", [-9.0, -1.0, 0.0, 3.0, 4.3, 8.0, 20.0])
def test_levels_follow_the_gaussian_between_the_quantiles_and_beyond_them(at):
    signal = stats.norm(3.0, 2.0).ppf((np.arange(4000) + 0.5) / 4000)
    fitted = Pinball().fit(np.empty((4000, 0)), signal)
    found = fitted.normal_scores(np.array([at]), np.empty((1, 0)))
    np.testing.assert_allclose(found, (at - 3.0) / 2.0, atol=0.05)
