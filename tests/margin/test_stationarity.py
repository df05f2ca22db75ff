"""Residuals, multipliers, and the errors that a naive derivative makes."""

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize, nnls

import divulge as dv
from divulge import margin
from divulge.margin.shallow_relu import solve_multipliers


def test_clarke_against_zero_one_at_an_exact_point(mixture):
    naive, clarke = [], []
    for seed in range(2):
        x, y = mixture(20, 100, seed)
        net = margin.solve(x, y).net
        clarke.append(margin.kkt(net, x, y).residual)
        naive.append(margin.kkt(net, x, y, clarke=False).residual)
    assert max(clarke) <= 1e-6
    assert np.median(naive) >= 0.1


def test_multipliers_without_kinks_are_plain_non_negative_least_squares(mixture):
    x, y = mixture(8, 5)
    net = margin.train(x, y, width=12, target_margin=3.0).net
    full, weights = np.column_stack([x, np.ones(8)]), net.augmented
    before = full @ weights.T
    columns = [
        np.concatenate(
            [((before[i] > 0) * net.v)[:, None] * full[i], np.maximum(before[i], 0)[:, None]], axis=1
        ).ravel()
        * y[i]
        for i in range(8)
    ]
    theta = np.column_stack([weights, net.v]).ravel()
    expected, residual = nnls(np.array(columns).T, theta)
    explanation = margin.explain(net, x, y)
    np.testing.assert_allclose(explanation.multipliers, expected, atol=1e-7)
    assert explanation.residual == pytest.approx(residual / np.linalg.norm(theta), abs=1e-7)


def test_multipliers_are_those_of_the_dual(mixture):
    x, y = mixture(20, 100)
    exact = margin.solve(x, y)
    np.testing.assert_allclose(margin.multipliers(exact.net, x, y), exact.multipliers, atol=1e-5)


def test_multipliers_find_members_that_outputs_hide(mixture):
    # d = 50: |Φ| says next to nothing at low false-positive rates, the multipliers do.
    hits, plain = [], []
    for seed in range(4):
        x, y = mixture(220, 50, seed)
        run = margin.train(x[:20], y[:20], width=300, target_margin=100.0, seed=seed)
        score, size = margin.multipliers(run.net, x, y), np.abs(run.net(x))
        hits.append((score[:20] > np.sort(score[20:])[-3]).mean())
        plain.append((size[:20] > np.sort(size[20:])[-3]).mean())
    assert np.mean(hits) >= 0.8
    assert np.mean(plain) <= 0.3


def test_labels_default_to_what_the_network_answers(mixture):
    x, y = mixture(10, 60)
    net = margin.train(x, y, width=50, target_margin=20.0).net
    np.testing.assert_array_equal(margin.multipliers(net, x), margin.multipliers(net, x, y))


def test_scale_does_not_matter(mixture):
    x, y = mixture(10, 30)
    net = margin.train(x, y, width=50, target_margin=20.0).net
    louder = margin.ShallowReLU(10 * net.w, 10 * net.b, 10 * net.v)
    original, scaled = margin.kkt(net, x, y), margin.kkt(louder, x, y)
    assert scaled.margin == pytest.approx(100 * original.margin)
    np.testing.assert_allclose(scaled.multipliers, original.multipliers, rtol=1e-6)
    assert scaled.residual == pytest.approx(original.residual, rel=1e-6)


def test_dead_and_zero_neurons_change_nothing(mixture):
    x, y = mixture(10, 30)
    net = margin.solve(x, y).net
    padded = margin.ShallowReLU(
        np.vstack([net.w, np.zeros((2, 30))]), np.append(net.b, [0.0, 0.0]), np.append(net.v, [0.0, 0.0])
    )
    assert margin.kkt(padded, x, y).residual <= 1e-6
    np.testing.assert_allclose(padded(x), net(x))


def test_bad_input(mixture):
    x, y = mixture(10, 30)
    net = margin.train(x, y, width=20, target_margin=5.0).net
    with pytest.raises(dv.InputError, match="10 records are misclassified"):
        margin.kkt(net, x, -y)
    with pytest.raises(dv.InputError, match="labels must be"):
        margin.kkt(net, x, (y + 1) / 2)
    with pytest.raises(dv.InputError, match="records have 29 values"):
        margin.multipliers(net, x[:, 1:], y)
    with pytest.raises(dv.InputError, match="every weight is zero"):
        margin.multipliers(margin.ShallowReLU(np.zeros((2, 30)), np.zeros(2), np.zeros(2)), x)


def test_a_derivative_at_a_kink_stays_within_its_bounds():
    """(λ - .1)² + (κ - 3)² under κ ≤ λ is least at 1.55 for both, also where the columns are large or small."""
    for scale in (1e-3, 1.0, 1e3):
        multipliers = solve_multipliers(scale**2 * np.eye(2), scale**2 * np.array([0.1, 3.0]), np.array([0]))
        np.testing.assert_allclose(multipliers, [1.55, 1.55], atol=1e-4)


def test_multipliers_with_kinks_are_those_of_a_quadratic_program():
    rng = np.random.default_rng(0)
    for _ in range(20):
        n, p = 4, 5
        columns, owner = rng.normal(size=(8, n + p)), rng.integers(0, n, p)
        target = rng.normal(size=8)
        multipliers = solve_multipliers(columns.T @ columns, columns.T @ target, owner)
        bounds = LinearConstraint(np.eye(n)[owner] @ np.eye(n, n + p) - np.eye(p, n + p, n), 0, np.inf)
        best = minimize(
            lambda z, a=columns, t=target: (np.sum((a @ z - t) ** 2), 2 * a.T @ (a @ z - t)),
            np.ones(n + p), jac=True, method="SLSQP", bounds=[(0, None)] * (n + p), constraints=bounds,
            options={"ftol": 1e-14, "maxiter": 1000},
        )  # fmt: skip
        assert np.sum((columns @ multipliers - target) ** 2) <= best.fun * (1 + 1e-4) + 1e-6
        assert (multipliers[n:] <= multipliers[:n][owner] + 1e-3).all()


def test_records_within_a_tenth_of_the_margin_are_on_it_and_slackness_is_their_weighted_distance():
    rng = np.random.default_rng(8)
    net = margin.ShallowReLU(rng.normal(size=(40, 3)), rng.normal(size=40), rng.normal(size=40))
    x = rng.normal(size=(2000, 3))
    x = x[(np.abs(net(x)) > 1) & (np.abs(net(x)) < 3)]
    y = np.sign(net(x)).astype(int)
    conditions = margin.kkt(net, x, y)
    distance = np.abs(net(x)) / np.abs(net(x)).min() - 1
    assert conditions.on_margin.tolist() == (distance <= 0.1).tolist()
    assert 1 < conditions.on_margin.sum() < len(x)
    assert conditions.slackness == pytest.approx(conditions.multipliers @ distance / conditions.multipliers.sum())
    assert 0 < conditions.slackness < 0.1


def test_a_column_of_zeros_has_no_weight():
    np.testing.assert_allclose(solve_multipliers(np.diag([4.0, 0.0]), np.array([2.0, 0.0])), [0.5, 0.0])
