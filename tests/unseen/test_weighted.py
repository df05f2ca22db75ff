"""Weighted conformal p-values: against a naive oracle, and simulated under a shift whose ratio is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divulge import InputError
from divulge.decisions import fpr, weighted

SCORES = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30)


@given(SCORES, SCORES, st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_p_values_equal_the_definition(calibration, scores, seed):
    rng = np.random.default_rng(seed)
    weights = weighted.Weights(rng.exponential(size=len(calibration)) + 1e-3, rng.exponential(size=len(scores)))
    naive = [
        (sum(w for score, w in zip(calibration, weights.calibration, strict=True) if score >= s) + own_weight)
        / (weights.calibration.sum() + own_weight)
        for s, own_weight in zip(scores, weights.candidates, strict=True)
    ]
    assert np.allclose(weighted.p_values(calibration, scores, weights), naive)


@given(SCORES, SCORES)
@settings(max_examples=40, deadline=None)
def test_equal_weights_are_no_weights(calibration, scores):
    weights = weighted.Weights(np.full(len(calibration), 2.0), np.full(len(scores), 2.0))
    assert np.allclose(weighted.p_values(calibration, scores, weights), fpr.p_values(calibration, scores))


def shifted(rng, n, centre):
    """The score of a non-member grows with its feature; its law given the feature is the same everywhere."""
    x = rng.normal(centre, 1, size=n)
    return x, x + rng.normal(size=n)


def test_under_shift_the_plain_rate_breaks_and_the_weighted_one_holds():
    plain, oracle, estimated, draws, m = 0, 0, 0, 40, 200
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        x, calibration = shifted(rng, 2000, 0.0)
        target_feature, scores = shifted(rng, m, 0.8)
        plain += fpr.decide(calibration, scores, 0.05).selected.sum()
        exact = weighted.Weights(np.exp(0.8 * x), np.exp(0.8 * target_feature))
        oracle += weighted.decide(calibration, scores, 0.05, exact).selected.sum()
        fitted = weighted.density_ratio(x[:, None], target_feature[:, None], seed=seed)
        estimated += weighted.decide(calibration, scores, 0.05, fitted).selected.sum()
    total = draws * m
    assert plain / total > 0.1
    # 8,000 decisions in 40 draws, whose rates spread by about 1.2 % each: 3 standard errors are 0.6 %.
    assert oracle / total < 0.056
    assert abs(estimated / total - 0.05) < 0.012


def test_when_nothing_overlaps_it_refuses_with_the_numbers():
    rng = np.random.default_rng(0)
    weights = weighted.density_ratio(rng.normal(size=(500, 1)), rng.normal(8, 1, size=(100, 1)))
    assert weights.auc > 0.99
    with pytest.raises(InputError, match=r"only 0% of the candidates lie where"):
        weighted.decide(rng.normal(size=500), rng.normal(size=100), 0.01, weights)


def test_few_that_count_are_too_few():
    uneven = weighted.Weights(np.r_[np.ones(20), np.full(980, 1e-9)], np.full(50, 1e-3))
    with pytest.raises(InputError, match=r"1000 calibration records are worth 20.0 .* and 99 are needed"):
        weighted.decide(np.arange(1000.0), np.arange(50.0), 0.01, uneven)


def test_features_that_say_nothing_leave_the_nulls_their_worth():
    rng = np.random.default_rng(0)
    weights = weighted.density_ratio(rng.normal(size=(500, 3)), rng.normal(size=(500, 3)))
    assert weights.effective > 450
    assert abs(weights.auc - 0.5) < 0.08


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: weighted.p_values([1.0], [1.0], weighted.Weights(np.array([-1.0]), np.array([1.0]))), "≥ 0"),
        (lambda: weighted.p_values([1.0], [1.0], weighted.Weights(np.array([0.0]), np.array([1.0]))), "not all zero"),
        (lambda: weighted.p_values([1.0, 2.0], [1.0], weighted.Weights(np.ones(1), np.ones(1))), "2 values"),
        (lambda: weighted.density_ratio(np.zeros((5, 1)), np.zeros((20, 1))), "calibration_features: at least 10"),
        (lambda: weighted.density_ratio(np.zeros((20, 1)), np.zeros((20, 2))), "1 columns"),
        (
            lambda: weighted.density_ratio(np.zeros((20, 1)), np.r_[np.zeros(19), -1e101][:, None]),
            "features: values beyond",
        ),
    ],
)
def test_bad_input_is_named(work, message):
    with pytest.raises(InputError, match=message):
        work()
