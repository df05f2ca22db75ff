"""Theorem 5.3 of Thaker et al. 2025: what it promises, what it needs that is not printed, and its proof.

``P`` is uniform on finitely many rows ``(φ, s)``, so the minimiser of the pinball loss is a linear programme and
every expectation is exact. A minimiser passes through as many rows as φ has columns; on those ``s = q``, and the
level lies between ``P(s < q)`` and ``P(s ≤ q)``. A density ratio is a weight per row.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import QuantileRegressor

TIE = 1e-7


def predicted(phi, s, level):
    """The linear quantile predictor that minimises the mean pinball loss."""
    fitted = QuantileRegressor(quantile=level, alpha=0, fit_intercept=False, solver="highs").fit(phi, s)
    return fitted.predict(phi)


def below(s, q, ratio):
    """Under weights ``ratio`` of mean 1: the share with ``s < q`` and with ``s ≤ q``."""
    return np.mean(ratio * (s < q - TIE)), np.mean(ratio * (s <= q + TIE))


def pinball(q, s, level):
    return np.mean((level - (s < q)) * (s - q))


def curved(seed, n=150):
    """No linear predictor is right at every x, and the spread grows."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return x, 3 * x**2 + (1.5 + x) * rng.normal(size=n)


@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.3, 0.5, 0.9, 0.99]), st.floats(-0.999, 0.999))
@settings(max_examples=15, deadline=None)
def test_the_level_holds_under_every_linear_density_ratio(seed, level, slope):
    x, s = curved(seed)
    phi = np.column_stack([np.ones_like(x), x])
    q = predicted(phi, s, level)
    ratio = 1 + slope * x
    ratio /= ratio.mean()
    low, high = below(s, q, ratio)
    assert low - 1e-9 <= level <= high + 1e-9
    assert (np.abs(s - q) <= TIE).sum() <= 2
    assert high - low <= 2 * ratio.max() / len(x) + 1e-9


@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.5, 0.99]))
@settings(max_examples=15, deadline=None)
def test_the_minimiser_is_multi_accurate_under_p(seed, level):
    """Definition 5.2 at ε = what the rows with s = q leave open."""
    x, s = curved(seed)
    phi = np.column_stack([np.ones_like(x), x, np.sin(5 * x)])
    q = predicted(phi, s, level)
    off = ~(np.abs(s - q) <= TIE)
    open_rows = np.abs(phi[~off]).sum(axis=0) / len(x)
    violations = np.abs(phi[off].T @ ((s < q)[off] - level)) / len(x)
    assert (violations <= open_rows + 1e-9).all()


def test_a_ratio_that_is_not_linear_breaks_it():
    x, s = curved(0, 600)
    phi = np.column_stack([np.ones_like(x), x])
    ratio = x**4 / np.mean(x**4)
    assert below(s, predicted(phi, s, 0.9), ratio)[1] < 0.8


def test_linear_on_the_query_support_alone_is_not_enough():
    """The theorem asks for a linear ratio on supp(Q); the change of measure needs it on supp(P).

    P is uniform on x in {0, 1, 2}, Q on {1, 2}, φ = (1, x): on supp(Q) the ratio is 3/2 = ⟨φ, (3/2, 0)⟩ > 0,
    and s given x is the same under both. The level ½ becomes ⅜.
    """
    x = np.repeat([0.0, 1.0, 2.0], 400)
    s = 5.0 * (x == 1) + np.tile((np.arange(400) + 0.5) / 400, 3)
    q = predicted(np.column_stack([np.ones_like(x), x]), s, 0.5)
    assert np.allclose(below(s, q, np.ones_like(x)), 0.5, atol=0.01)
    assert np.allclose(below(s, q, np.where(x > 0, 1.5, 0.0)), 0.375, atol=0.01)


def test_even_a_constant_ratio_on_the_query_support_is_not_enough():
    """One feature, s uniform on [0, 1] under P and on [0, ½] under Q: the ratio is 2 on supp(Q), the level doubles."""
    s = (np.arange(1000) + 0.5) / 1000
    q = predicted(np.ones((1000, 1)), s, 0.3)
    assert np.allclose(below(s, q, np.where(s < 0.5, 2.0, 0.0)), 0.6, atol=0.005)


def test_a_signal_with_atoms_breaks_it_though_q_is_p():
    """The proof differentiates the pinball loss where s = q; an atom there has positive probability."""
    s = np.full(50, 3.0)
    q = predicted(np.ones((50, 1)), s, 0.9)
    assert np.allclose(q, 3.0)
    assert below(s, q, np.ones(50)) == (0.0, 1.0)
    assert np.mean((s < 3.0) - 0.9) == pytest.approx(-0.9)


def test_the_contradiction_must_start_under_p():
    """App. G starts from a violation under Q. The theorem's own conditions allow that: no contradiction is there."""
    x = np.repeat([-1.0, 0.0, 1.0], 400)
    s = 5.0 * (x == 0) + np.tile((np.arange(400) + 0.5) / 400, 3)
    phi, level = np.column_stack([np.ones_like(x), x]), 0.5
    q = predicted(phi, s, level)
    ratio = 1 + 0.9 * x
    error = (s < q) - level
    assert np.abs(np.mean(phi * error[:, None], axis=0)).max() < 0.01  # multi-accurate under P
    assert abs(np.mean(ratio * error)) < 0.01  # calibrated under Q
    assert abs(np.mean(ratio * x * error)) > 0.1  # and not multi-accurate under Q


def test_the_slope_along_the_violating_direction_is_positive():
    """App. G prints "< 0 by assumption" for a product that its assumption makes positive; only then does -w' help."""
    x, s = curved(1)
    phi, level, w = np.column_stack([np.ones_like(x), x]), 0.7, np.array([2.0, 1.0])
    direction = phi.T @ ((s < phi @ w) - level)
    assert np.mean((phi @ direction) * ((s < phi @ w) - level)) > 0

    def loss(step):
        return pinball(phi @ (w + step * direction), s, level)

    assert loss(1e-6) > loss(0) > loss(-1e-6)


def test_a_tolerance_over_all_linear_functions_is_none():
    """Definition 5.2 with W = R^d: a violation that is not 0 grows with w, so every ε > 0 means ε = 0."""
    x, s = curved(2)
    w, error = np.array([0.1, 0.2]), (s < 0.5) - 0.9
    once, thousandfold = (abs(np.mean((np.column_stack([np.ones_like(x), x]) @ (t * w)) * error)) for t in (1, 1000))
    assert once > 0
    assert thousandfold == pytest.approx(1000 * once)
