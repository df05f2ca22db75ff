"""Implicit steps of gradient flow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divulge import margin
from divulge.margin import training


def line(seed, n=10):
    """Records uniform on [-3, 3] with labels that alternate smoothly."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-3, 3, n))
    return x[:, None], np.where(np.sin(2 * np.pi * x / 3 + rng.uniform(0, 2 * np.pi)) > 0, 1.0, -1.0)


def start(seed=0, n=6, k=20, r=3):
    rng = np.random.default_rng(seed)
    points, sign = rng.normal(size=(n, r)), np.where(np.arange(n) % 2, 1.0, -1.0)
    return training.evaluate_state(rng.normal(size=(k, r)), rng.normal(size=k), points), points, sign


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(-3, 3), st.floats(0, 3))
def test_the_weights_of_a_step_solve_their_equations(seed, size, spread):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(7, 5))
    gram, margins = 10**size * root @ root.T, 10**spread * rng.normal(size=7)
    p = training._solve_step_weights(gram, margins, np.full(7, 1 / 7))
    assert p.sum() == pytest.approx(1.0)
    expected = -(margins + gram @ p)
    expected = np.exp(expected - expected.max())
    np.testing.assert_allclose(p, expected / expected.sum(), atol=1e-3)


def test_a_weight_shrinks_the_more_the_further_a_step_goes_and_never_to_nothing():
    """As many times as large, relative to one that stays: 1 + change down to a half, an exponential from there on."""
    changes = -np.linspace(0.001, 8, 4000)
    start, margins = np.array([0.5, 0.5]), np.array([1e3, 0.0])  # the smaller the first weight, the better
    factors = []
    for change in changes:
        p = training._line_search(np.zeros((2, 2)), margins, start, np.array([change, 0.0]))
        assert p.sum() == pytest.approx(1.0)
        factors.append(p[0] / p[1])
    factors, small = np.array(factors), changes < -0.5
    np.testing.assert_allclose(factors[~small], 1 + changes[~small], rtol=1e-9)
    np.testing.assert_allclose(np.log(factors[small] / 0.5), changes[small] + 0.5, rtol=1e-9, atol=1e-9)
    falls = np.diff(factors) / np.diff(changes)  # no jump: the slope is at most 1 everywhere
    assert falls.min() > 0
    assert falls.max() < 1 + 1e-6


@pytest.mark.parametrize("seed", range(10))
def test_of_all_halvings_the_first_that_costs_no_more_is_taken(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 4))
    gram, margins, p = 30 * root @ root.T, rng.normal(size=4), rng.dirichlet(np.ones(4))
    cost = lambda q: sum(q * np.log(q)) + q @ margins + q @ gram @ q / 2  # noqa: E731
    slope = np.log(p) + margins + gram @ p
    relative = -(slope - p @ slope)  # downhill, and far too far
    chosen = training._line_search(gram, margins, p, relative)
    steps = [2.0**-k * relative for k in range(20)]
    trials = [p * np.where(step > -0.5, 1 + step, 0.5 * np.exp(step + 0.5)) for step in steps]
    expected = next(q for q in (np.maximum(t / t.sum(), 1e-300) for t in trials) if cost(q) <= cost(p))
    np.testing.assert_allclose(chosen, expected, rtol=1e-9, atol=1e-12)


def test_a_short_step_follows_the_gradient():
    state, points, sign = start()
    margins = state.outputs * sign
    loss = training.log_sum_exp(margins)
    tried, value, step, _ = training.implicit_step(state, points, sign, loss, 1e-9, np.full(6, 1 / 6), 1e6, np.inf)
    weight = np.exp(-margins - loss) * sign
    gradient = (((state.hidden > 0) * weight[:, None]).T @ points) * state.v[:, None]
    np.testing.assert_allclose(tried.w - state.w, step * gradient, rtol=1e-3, atol=1e-12)
    np.testing.assert_allclose(tried.v - state.v, step * (weight @ state.hidden), rtol=1e-3, atol=1e-12)
    assert value < loss


def test_slopes_across_a_kink_are_secants():
    state, points, _ = start()
    tried = training.evaluate_state(state.w + 1.0, state.v, points)
    slopes = training._secant_slopes(state, tried)
    assert ((slopes > 0) & (slopes < 1)).any()
    np.testing.assert_allclose(slopes * (tried.before - state.before), tried.hidden - state.hidden, atol=1e-12)


@pytest.mark.parametrize("d", [1, 12])
def test_reduced_equals_plain_step_for_step(d, mixture):
    x, y = line(0) if d == 1 else mixture(6, d)
    runs = [
        margin.train(x, y, width=30, target_margin=50.0, max_steps=40, implicit=True, reduced=reduced)
        for reduced in (True, False)
    ]
    np.testing.assert_allclose(runs[0].loss, runs[1].loss, rtol=1e-6)
    np.testing.assert_allclose(runs[0].net.w, runs[1].net.w, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_it_ends_on_the_target_near_the_exact_point(seed):
    x, y = line(seed)
    run = margin.train(x, y, width=300, target_margin=100.0, seed=seed, max_steps=2000)
    assert run.reached
    assert run.margin[-1] < 100.5
    # The margin of unit norm, against the largest there is.
    assert 0.9 < run.margin[-1] / run.net.squared_norm * margin.solve(x, y).net.squared_norm < 1.001


def test_it_is_the_flow_that_explicit_steps_follow(mixture):
    x, y = mixture(8, 60)
    nets = [margin.train(x, y, width=50, target_margin=20.0, implicit=implicit).net for implicit in (False, True)]
    fresh = np.random.default_rng(1).normal(size=(200, 60))
    assert np.corrcoef(nets[0](fresh), nets[1](fresh))[0, 1] > 0.99


def test_a_target_may_lie_below_the_start():
    x, y = line(1)
    assert margin.train(x, y, width=50, target_margin=1e-9, max_steps=2000).reached
