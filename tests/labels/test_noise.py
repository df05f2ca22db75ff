"""Random noise: what it stays below, against the laws themselves, and the decoder, against the most likely labels."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from divulge import labels
from divulge.labels import stochastic
from divulge.labels.oracles import exceeds_noise, noise_bound


def spec(noise_kind, **changes):
    return labels.OracleSpec(**{"n": 20, "noise": 0.3, "noise_kind": noise_kind, **changes})


@pytest.mark.parametrize("count", [1, 50])
def test_no_answer_lies_beyond_the_reach_but_for_one_case_in_a_million(count):
    for noise_kind, law in (("gaussian", stats.norm(scale=0.3)), ("laplace", stats.laplace(scale=0.3))):
        assert 2 * count * law.sf(noise_bound(spec(noise_kind), count)) == pytest.approx(1e-6)
    assert noise_bound(spec("bounded"), count) == 0.3


@pytest.mark.parametrize(
    ("noise_kind", "count", "max_ratio"),
    [("gaussian", 5, 3.5), ("gaussian", 1000, 1.2), ("laplace", 5, 25), ("laplace", 1000, 2)],
)
def test_the_norm_of_noise_stays_below_its_bound_and_not_far_below(noise_kind, count, max_ratio):
    rng = np.random.default_rng(0)
    draws = getattr(rng, "normal" if noise_kind == "gaussian" else "laplace")(scale=0.3, size=(300, count))
    norms = np.linalg.norm(draws, axis=1)
    bound = stochastic.noise_norm_bound(spec(noise_kind), count)
    assert norms.max() < bound < max_ratio * np.median(norms)
    rounded = stochastic.noise_norm_bound(spec(noise_kind, decimals=1), count)
    assert rounded - bound == pytest.approx(0.05 * math.sqrt(count))
    if noise_kind == "gaussian":
        assert stats.chi2.sf((bound / 0.3) ** 2, count) == pytest.approx(1e-6)


def test_noise_is_too_loud_beyond_the_law_of_its_sum():
    for noise_kind, statistic in (
        ("gaussian", lambda size: math.sqrt(stats.chi2.isf(1e-6, 30) / 30) * size),
        ("laplace", lambda size: stats.gamma.isf(1e-6, 30) / (30 * math.sqrt(2)) * size),
    ):
        for size, loud in ((0.999, False), (1.001, True)):
            assert exceeds_noise(spec(noise_kind), np.full(30, statistic(size)) * np.resize([1, -1], 30)) == loud
        assert not exceeds_noise(spec(noise_kind), np.zeros(0))


def test_the_least_norm_is_that_of_a_constrained_least_squares_fit():
    rng = np.random.default_rng(1)
    plan = stochastic.SignPlan(spec("gaussian", n=12), 12, stochastic.paley_prime(13))
    signs = plan.matrix(np.arange(12))
    for size in (0.5, 3.0, 20.0):
        sums = signs @ rng.choice([-1.0, 1.0], 12) + size * rng.normal(size=12)
        exact = optimize.lsq_linear(signs, sums, (-1, 1), tol=1e-14)
        expected = math.sqrt(2 * exact.cost)
        assert (
            0.99 * expected - 1e-3
            <= stochastic.min_residual_norm(signs, sums, np.sign(signs.T @ sums))
            <= expected + 1e-9
        )


@pytest.mark.parametrize("bias", [0.5, 0.9])
def test_the_decoder_finds_the_most_likely_labels(bias):
    """Twelve labels from 16 answers; where it does not, an error of the labels is far likelier than one of its own."""
    rng = np.random.default_rng(2)
    everything = np.array(list(itertools.product((-1.0, 1.0), repeat=12)))
    plan = stochastic.SignPlan(spec("gaussian", n=12), 16, stochastic.paley_prime(16))
    signs = plan.matrix(np.arange(16))
    right = 0
    for _ in range(100):
        truth = np.where(rng.random(12) < bias, 1.0, -1.0)
        sums = signs @ truth + 1.2 * rng.normal(size=16)
        best = everything[((sums - everything @ signs.T) ** 2).sum(axis=1).argmin()]
        guess = stochastic.message_passing(signs, sums, 1.2, plan.prime + 1)
        right += (stochastic.polish_labels(signs, sums, guess) == best).all()
    assert right >= 98


@pytest.mark.parametrize(("n", "sigma"), [(50, 0.2), (50, 3.0), (5, 1.0)])
def test_a_sign_plan_asks_as_often_as_one_label_in_a_hundred_runs_needs(n, sigma):
    gaussian_spec = spec("gaussian", n=n, clip=0.01, noise=sigma)
    plan = stochastic.plan_signs(gaussian_spec, None)
    span = math.log(0.99 / 0.01)
    step = span / n / 2 / sigma  # half of what one label moves the answer by, in standard deviations
    expected = math.ceil((stats.norm.isf(0.01 / n) / step) ** 2)
    assert plan.count == expected
    assert f"{stats.norm.cdf(step * math.sqrt(expected)):.6f}" in plan.certificate.why


@pytest.mark.parametrize("noise_kind", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    "metric",
    ["mape", labels.Linear(lambda t, y: 3 * (1 - t) if y == 1 else 1 + t / 2, low=0.0, high=1.0, name="unequal")],
    ids=["mape", "unequal"],
)
def test_honest_answers_are_read_where_a_loss_treats_the_labels_differently(metric, noise_kind):
    for seed, n in itertools.product(range(2), (8, 12)):
        declared = labels.OracleSpec(metric, n=n, noise=0.05, noise_kind=noise_kind)
        truth = np.random.default_rng(seed).permutation(n) % 2
        inference = labels.simulate(declared, truth, seed=seed).inference
        assert inference.contradiction is None
        assert (inference.labels == truth).all()


@pytest.mark.parametrize("noise_kind", ["gaussian", "laplace"])
def test_as_many_queries_as_the_caveat_names_prove_the_labels(noise_kind):
    declared = labels.OracleSpec(n=8, clip=1e-3, noise=0.5, noise_kind=noise_kind)
    truth = np.arange(8) % 2
    assert "queries" in labels.simulate(declared, truth).inference.caveat
    plan = labels.design(declared, queries=stochastic.queries_to_prove(declared))
    proven = [labels.simulate(declared, truth, plan, seed=seed).inference.proven.mean() for seed in range(10)]
    assert np.mean(proven) > 0.95


def test_a_fit_six_deviations_too_loud_proves_nothing_and_one_beyond_the_norm_is_refuted():
    spec = labels.OracleSpec(n=11, clip=0.01, noise=1e-3, noise_kind="gaussian")
    plan = stochastic.plan_signs(spec, 40)
    y = np.arange(11) % 2
    signs = plan.inner.matrix(np.arange(40))
    away = np.linalg.qr(np.column_stack([signs, np.random.default_rng(0).normal(size=40)]))[0][:, -1]
    unit = away / np.linalg.norm(away)  # of no labels at all
    largest = spec.noise * math.sqrt(40 + 6 * math.sqrt(80))
    refuted_from = stochastic.noise_norm_bound(spec, 40)
    exact = np.array([labels.LocalOracle(spec, y).exact(query) for query in plan.queries])
    for size, proven in ((largest * 0.999, True), (largest * 1.001, False)):
        assert plan.inner.read(exact + size * unit).proven.all() == proven
    for size, refuted in ((refuted_from * 0.999, False), (refuted_from * 1.001, True)):
        reading = plan.inner.read(exact + size * unit)
        assert reading.refuted.all() == reading.refuted.any() == refuted
