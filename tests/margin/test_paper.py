"""Statements of "Provable Privacy Attacks on Trained Shallow Neural Networks" that do not hold as printed."""

import math

import numpy as np
import pytest

from divulge import margin


def test_theorem_2_1_the_threshold_for_logistic_loss_is_ln2_over_n():
    n = 20
    assert margin.least_margin(math.log(2) / n * 0.999, n) > 0
    assert margin.least_margin(math.log(2) / n * 1.001, n) < 0
    # Between (ln 2)/n and 1/n a record can be misclassified although the mean loss is below 1/n.
    margins = np.full(n, 50.0)
    margins[0] = -0.3
    loss = np.mean(np.logaddexp(0, -margins))
    assert math.log(2) / n < loss < 1 / n


def test_remark_b5_the_margin_at_a_total_loss_of_1_over_e():
    assert margin.least_margin(1 / math.e) == pytest.approx(-math.log(math.exp(1 / math.e) - 1))
    assert margin.least_margin(1 / math.e) == pytest.approx(0.81, abs=0.005)


def test_theorem_3_2_needs_the_products_of_the_fresh_record():
    # Orthogonal records have δ = 0 and would promise |Φ| = 0 for everything; a copy of a member is on the margin.
    x = 100 * np.eye(4, 30)
    y = np.array([1, -1, 1, -1.0])
    net = margin.solve(x, y).net
    copy = x[:1] * 0.999
    assert margin.orthogonality(x).bound[0] < 1e-3
    assert abs(net(copy)[0]) > 0.9
    assert margin.orthogonality(x, copy).bound[0] >= abs(net(copy)[0])


def test_theorem_3_2_is_vacuous_below_ten_thousand_dimensions():
    assert not margin.assumption(margin.Sphere(10_000), n=20).says_something
    assert not margin.assumption(margin.Gaussian(10_000), n=20).says_something
    assert margin.assumption(margin.Sphere(200_000), n=20).says_something


def test_lemma_d5_pairs_count_as_n_squared():
    # Per-pair chances of tau/n leave far more than tau over all pairs; those of tau/(n(n-1)/2) do not.
    from scipy.stats import beta

    n, d, tau = 40, 50, 0.1
    by_n = d * math.sqrt(beta.isf(tau / n, 0.5, (d - 1) / 2))
    by_pairs = margin.Sphere(d).extremes(n, tau)[0]
    delta = np.array([margin.orthogonality(margin.Sphere(d).sample(n, seed)).delta for seed in range(100)])
    assert (delta > by_n).mean() > 0.6
    assert (delta > by_pairs).mean() < 0.2  # 100 draws at .1: 20 or more have chance .002
