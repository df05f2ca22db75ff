"""The exact oracle: KKT conditions, duality, and what is known in closed form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import divulge as dv
from divulge import margin


@pytest.mark.parametrize("d", [20, 100, 1000])
def test_an_exact_kkt_point(mixture, d):
    x, y = mixture(20, d)
    solution = margin.solve(x, y)
    state = margin.kkt(solution.net, x, y, band=1e-3)
    assert abs(solution.gap) <= 1e-6
    assert solution.price <= 1e-7
    assert state.residual <= 1e-6
    assert state.margin == pytest.approx(1.0, abs=1e-5)
    assert solution.multipliers.sum() == pytest.approx(solution.net.squared_norm / 2, abs=1e-6)
    if d >= 100:
        assert solution.net.width == 2


def test_two_records_in_one_dimension_in_closed_form():
    # Records ±1: by symmetry one neuron for each, w̃ along [±1, 1], that answers |v|·‖w̃‖·√2 = 1.
    solution = margin.solve([[-1.0], [1.0]], [-1, 1])
    np.testing.assert_allclose(solution.multipliers, [2**-0.5, 2**-0.5], atol=1e-8)
    np.testing.assert_allclose(
        np.abs(solution.net.v) * np.linalg.norm(solution.net.augmented, axis=1), 2**-0.5, atol=1e-8
    )


def test_it_is_the_limit_of_training(mixture):
    x, y = mixture(10, 200)
    exact = margin.solve(x, y).net
    run = margin.train(x, y, width=300, target_margin=1000.0)
    fresh, _ = mixture(200, 200, seed=5)
    optimum_outputs, trained_outputs = exact(fresh), run.net(fresh) / run.margin[-1]
    assert np.corrcoef(optimum_outputs, trained_outputs)[0, 1] > 0.98
    # The optimum has the least norm for its margin, so training cannot beat it.
    assert exact.squared_norm <= run.net.squared_norm / run.margin[-1] * (1 + 1e-9)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 8))
def test_kkt_conditions_hold_for_any_data_on_a_line(seed, n):
    rng = np.random.default_rng(seed)
    x = (np.arange(n) + rng.uniform(0.2, 0.8, n))[:, None]
    y = rng.choice([-1.0, 1.0], n)
    y[:2] = -1, 1
    solution = margin.solve(x, y)
    state = margin.kkt(solution.net, x, y, band=1e-4)
    assert state.residual < 1e-5
    assert state.margin > 1 - 1e-5
    assert abs(solution.gap) < 1e-5 * solution.multipliers.sum()


def test_on_a_line_it_is_the_least_norm_over_a_grid_of_directions():
    from scipy.optimize import linprog

    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(-2, 2, 6))
    y = np.array([-1, 1, 1, -1, -1, 1.0])
    turn = np.linspace(0, 2 * np.pi, 4001)
    features = np.maximum(np.cos(turn) * x[:, None] + np.sin(turn), 0)
    table = y[:, None] * np.hstack([features, -features])
    naive = linprog(np.ones(table.shape[1]), A_ub=-table, b_ub=-np.ones(6)).fun
    solution = margin.solve(x[:, None], y)
    assert solution.multipliers.sum() == pytest.approx(naive, rel=1e-4)
    assert solution.multipliers.sum() <= naive * (1 + 1e-9)


@pytest.mark.parametrize(
    "x",
    [
        [301.3232898551324315, 297.84762883017415, 301.3010664548799582],  # it loses its way again and again
        [301.32328986, 297.84762883, 301.30106645],  # no constraint is tight
    ],
)
def test_records_too_far_from_the_origin_are_refused_at_once(x):
    with pytest.raises(dv.InputError, match="no KKT point was found"):
        margin.solve(np.array(x)[:, None], [1, -1, -1], max_rounds=10**9)


def test_records_without_weight_do_not_matter():
    """Between -1 and 1 the line is steepest; records further out lie above the margin and carry nothing."""
    x = np.array([[-6.0], [-3.0], [-1.0], [1.0], [3.0], [6.0]])
    solution = margin.solve(x, [-1, -1, -1, 1, 1, 1])
    np.testing.assert_allclose(solution.multipliers, [0, 0, 2**-0.5, 2**-0.5, 0, 0], atol=1e-7)
