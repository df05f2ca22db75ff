"""The plane of a transfer assessment: principal components of the seen records at unit variance."""

import numpy as np
import pytest
from scipy import stats

from divulge.evaluation import transfer


def test_scaling_all_features_changes_no_density_ratio():
    rng = np.random.default_rng(1)
    seen_features, query = rng.normal(size=(400, 3)), rng.normal(0.3, 1, size=(300, 3))
    original, scaled = (
        transfer.measure_linearity(seen_features, query),
        transfer.measure_linearity(1000 * seen_features, 1000 * query),
    )
    np.testing.assert_allclose(original.ratio, scaled.ratio, rtol=1e-6)


def test_the_violation_is_the_length_of_the_moments_and_its_p_value_that_of_chi_square():
    rng = np.random.default_rng(2)
    for level in (0.05, 0.3):
        columns = transfer.orthonormal_basis(rng.normal(size=(500, 3)))
        np.testing.assert_allclose(columns.T @ columns / 500, np.eye(4), atol=1e-9)
        residual = (rng.random(500) < level) - level
        violation = transfer.multiaccuracy_violation(columns, residual, level)
        moments = np.array([np.mean(column * residual) for column in columns.T])
        np.testing.assert_allclose(violation.size, np.sqrt((moments**2).sum()))
        law = stats.chi2(4)
        np.testing.assert_allclose(violation.p_value, law.sf(500 * (moments**2).sum() / (level * (1 - level))))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_columns_that_others_imply_add_nothing_to_the_basis_at_any_scale(scale):
    rng = np.random.default_rng(3)
    points = rng.normal(size=(300, 2)) * scale
    assert transfer.orthonormal_basis(points).shape == (300, 3)
    assert transfer.orthonormal_basis(np.column_stack([points, points.sum(axis=1)])).shape == (300, 3)
