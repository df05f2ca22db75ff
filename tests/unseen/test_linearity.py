"""The paper's estimate of the density ratio and its linear fit: known answers on Gaussians."""

import numpy as np
import pytest

from divulge import InputError
from divulge.evaluation import transfer


def gaussians(seed, n, shift=0.0, width=4):
    sample = np.random.default_rng(seed).normal(size=(n, width)) * np.array([3.0, 2.0, *np.full(width - 2, 0.5)])
    sample[:, 0] += shift
    return sample


def test_the_ratio_of_two_gaussians_is_found():
    seen_sample, query = gaussians(0, 20_000), gaussians(1, 20_000, shift=1.5)
    linearity = transfer.measure_linearity(seen_sample, query)
    truth = np.exp((1.5 * query[:, 0] - 1.5**2 / 2) / 9)
    assert np.median(np.abs(linearity.ratio / truth - 1)) < 0.05
    assert 0 < linearity.explained < 1


def test_the_fit_is_least_squares_on_every_column_and_a_constant():
    seen_sample, query = gaussians(0, 500), gaussians(1, 300, shift=1.0)
    linearity = transfer.measure_linearity(seen_sample, query)
    full = np.column_stack([np.ones(300), query])
    naive = full @ np.linalg.lstsq(full, linearity.ratio)[0]
    assert np.allclose(linearity.linear, naive)
    assert linearity.error == pytest.approx(np.mean((linearity.ratio - naive) ** 2))
    assert linearity.error <= linearity.variance
    assert linearity.error <= linearity.fresh_error


def test_a_small_error_needs_no_linear_ratio():
    """Where both sets are alike, the ratio is near 1 and any fit is good: the error says nothing by itself."""
    linearity = transfer.measure_linearity(gaussians(0, 5000), gaussians(1, 5000))
    assert linearity.error < 0.01
    assert linearity.explained < 0.95


def test_more_columns_than_records_fit_anything_and_fresh_records_tell():
    rng = np.random.default_rng(0)
    linearity = transfer.measure_linearity(rng.normal(size=(400, 100)), rng.normal(0.3, 1, size=(90, 100)))
    assert linearity.error < 1e-12
    assert linearity.fresh_error > linearity.error
    assert linearity.explained < 0.5


def test_the_seed_decides_and_far_sets_stay_finite():
    seen_sample, query = gaussians(0, 200), gaussians(1, 100, shift=500.0)
    linearity, repeated = (transfer.measure_linearity(seen_sample, query, seed=3) for _ in range(2))
    assert np.isfinite([linearity.error, linearity.fresh_error, linearity.variance]).all()
    assert (linearity.ratio == repeated.ratio).all()


def test_multiaccuracy_is_the_largest_over_linear_functions_of_unit_size():
    x, rng = gaussians(0, 3000, width=3), np.random.default_rng(5)
    selected = rng.random(3000) < np.clip(0.1 + 0.05 * x[:, 0], 0, 1)
    size, p_value = transfer.multiaccuracy(x, selected, 0.1)
    columns = np.column_stack([np.ones(3000), x])
    residual = selected - 0.1
    draws = rng.normal(size=(2000, 4)) @ np.linalg.inv(np.linalg.cholesky(columns.T @ columns / 3000))
    naive = np.abs((columns @ draws.T).T @ residual / 3000) / np.linalg.norm(columns @ draws.T, axis=0) * np.sqrt(3000)
    assert naive.max() <= size + 1e-9
    assert naive.max() > 0.9 * size
    assert p_value < 1e-6


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: transfer.measure_linearity(np.zeros((49, 2)), np.zeros((60, 2))), "seen: at least 50"),
        (lambda: transfer.measure_linearity(np.zeros((60, 2)), np.zeros((60, 3))), "2 columns"),
        (lambda: transfer.multiaccuracy(np.zeros((40, 2)), np.zeros(40, bool), 0.1), "at least 50"),
        (lambda: transfer.multiaccuracy(np.zeros((60, 2)), np.zeros(59, bool), 0.1), "selected"),
        (lambda: transfer.multiaccuracy(np.zeros((60, 2)), np.zeros(60, bool), 1.0), "level"),
    ],
)
def test_bad_input_is_named(wrong, message):
    with pytest.raises(InputError, match=message):
        wrong()


def test_a_mixture_has_as_many_parts_as_the_records_have():
    rng = np.random.default_rng(2)
    cluster = rng.normal(size=(400, 2))
    assert len(transfer.fit_mixture(cluster, 0).weights_) == 1
    assert len(transfer.fit_mixture(np.vstack([cluster, cluster + 12]), 0).weights_) == 2
