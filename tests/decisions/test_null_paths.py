"""Bands of the number of non-members above calibration scores: their sizes, and where paths are counted or drawn."""

import numpy as np
import pytest

from divulge.decisions import fdp


@pytest.mark.parametrize(("n", "m"), [(20, 1), (50, 10), (400, 300)])
def test_the_largest_band_is_for_all_candidates_and_none_is_for_more(n, m):
    bands = fdp.simultaneous_bands(n, m, 0.95, 0)
    assert bands.sizes[0] == m
    assert (np.diff(bands.sizes) < 0).all()
    assert bands.sizes[-1] == -(-m // 20)
    assert (np.diff(bands.max_above, axis=0) <= 0).all()
    assert (np.diff(bands.max_above, axis=1) >= 0).all()
    assert (np.diff(np.append(bands.sizes, 0)) >= -0.16 * m - 2).all()


@pytest.mark.parametrize(("n", "m", "is_counted"), [(3000, 4, True), (3001, 4, False), (2, 1_500_001, False)])
def test_paths_are_counted_exactly_as_long_as_that_is_quick(n, m, is_counted):
    assert fdp.simultaneous_bands(n, m, 0.95, 0).is_exact is is_counted
