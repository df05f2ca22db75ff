"""Implicit steps of gradient flow."""

import numpy as np
import pytest

from divulge import margin
from divulge.margin import gradient_flow


def line(seed, n=10):
    """Records uniform on [-3, 3] with labels that alternate smoothly."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-3, 3, n))
    return x[:, None], np.where(np.sin(2 * np.pi * x / 3 + rng.uniform(0, 2 * np.pi)) > 0, 1.0, -1.0)


def start(seed=0, n=6, k=20, r=3):
    rng = np.random.default_rng(seed)
    points, sign = rng.normal(size=(n, r)), np.where(np.arange(n) % 2, 1.0, -1.0)
    return gradient_flow.evaluate_state(rng.normal(size=(k, r)), rng.normal(size=k), points), points, sign


def test_a_short_step_follows_the_gradient():
    state, points, sign = start()
    margins = state.outputs * sign
    loss = gradient_flow.log_sum_exp(margins)
    tried, value, step, _ = gradient_flow.implicit_step(state, points, sign, loss, 1e-9, np.full(6, 1 / 6), 1e6, np.inf)
    weight = np.exp(-margins - loss) * sign
    gradient = (((state.hidden > 0) * weight[:, None]).T @ points) * state.v[:, None]
    np.testing.assert_allclose(tried.w - state.w, step * gradient, rtol=1e-3, atol=1e-12)
    np.testing.assert_allclose(tried.v - state.v, step * (weight @ state.hidden), rtol=1e-3, atol=1e-12)
    assert value < loss


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
