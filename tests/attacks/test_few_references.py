"""BaVarIA and BASE against slow re-implementations of their formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats

import divulge as dv
from attacks.test_references import CASES, close, tables
from divulge.attacks import BASE, BaVarIA, Threshold


def naive_prior(columns):
    """Empirical Bayes by its definition, record by record."""
    columns = [np.asarray(c, float) for c in columns if len(c)]
    centre = np.concatenate(columns).mean()
    spread = np.mean([(c.mean() - centre) ** 2 for c in columns])
    variances = [(c.var(ddof=1), len(c) - 1) for c in columns if len(c) > 1 and np.ptp(c) > 0]
    if not variances:
        return centre, 1.0, 1e6, spread / 2 if spread > 1e-20 else 1.0
    freedom = sum(len(c) - 1 for c in columns)
    pooled = sum(v * d for v, d in variances) / freedom
    between = spread - pooled * np.mean([1 / len(c) for c in columns])
    strength = np.clip(pooled / between, 1e-6, 1e6) if between > 0 else 1e6
    logs = [np.log(v) - special.digamma(d / 2) + np.log(d / 2) for v, d in variances]
    chance = np.mean([special.polygamma(1, d / 2) for _, d in variances])
    excess = np.var(logs, ddof=1) - chance if len(logs) > 1 else 0.0
    if excess <= 0:
        return centre, strength, 1e6, pooled
    root = optimize.brentq(lambda x: special.polygamma(1, np.exp(x)) - excess, -20, 20, xtol=1e-14)
    shape = np.clip(np.exp(root), 1e-6, 1e6)
    return centre, strength, shape, np.exp(np.mean(logs) + special.digamma(shape) - np.log(shape))


def naive_predictive(values, prior):
    """Degrees of freedom, centre and scale, by the textbook's updates."""
    centre, kappa, alpha, variance = prior
    k, beta = len(values), alpha * variance
    m = np.mean(values) if k else 0.0
    kappa_k, alpha_k = kappa + k, alpha + k / 2
    beta_k = beta + 0.5 * sum((v - m) ** 2 for v in values) + 0.5 * kappa * k * (m - centre) ** 2 / kappa_k
    return 2 * alpha_k, (kappa * centre + k * m) / kappa_k, np.sqrt(beta_k * (kappa_k + 1) / (alpha_k * kappa_k))


def columns_of(references, keep):
    return [references[keep[:, j], j].astype(float) for j in range(references.shape[1])]


def wallace(t, freedom):
    return np.sign(t) * (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(t * t / freedom))


def naive_offline(target, columns, prior):
    scores = []
    for t, values in zip(target, columns, strict=True):
        freedom, centre, scale = naive_predictive(values, prior)
        scores.append(wallace((t - centre) / scale, freedom))
    return np.array(scores)


def fair(signals):
    """Whether the oracle's textbook sums have digits left: it does not shift its origin as the fast version does."""
    return np.abs(signals).max() < 1e3 and np.ptp(signals) > 1e-6


@CASES
@given(tables())
def test_offline_bavaria_is_the_deviate_of_the_predictive(table):
    signals, trained_on = table
    if trained_on[1:].all() or not fair(signals):
        return
    columns = columns_of(signals[1:], ~trained_on[1:])
    scores = BaVarIA().score(dv.Evidence(signals[0], signals[1:], trained_on[1:]))
    close(scores, naive_offline(signals[0].astype(float), columns, naive_prior(columns)))


@CASES
@given(tables(), st.integers(0, 2**32 - 1))
def test_the_population_tells_the_prior_with_the_target_as_one_more_model(table, seed):
    signals, trained_on = table
    if trained_on[1:].all() or not fair(signals):
        return
    rng, m = np.random.default_rng(seed), len(signals) - 1
    population, population_references, population_trained_on = (
        rng.normal(size=9),
        rng.normal(size=(m, 9)),
        rng.random((m, 9)) < 0.5,
    )
    evidence = dv.Evidence(
        signals[0],
        signals[1:],
        trained_on[1:],
        population,
        population_references,
        population_trained_on=population_trained_on,
    )
    prior = naive_prior(
        columns_of(
            np.vstack([population, population_references]), np.vstack([np.ones(9, bool), ~population_trained_on])
        )
    )
    columns = columns_of(signals[1:], ~trained_on[1:])
    close(BaVarIA().score(evidence), naive_offline(signals[0].astype(float), columns, prior))


@CASES
@given(tables())
def test_online_bavaria_is_the_log_ratio_of_the_predictives(table):
    signals, trained_on = table
    inside = trained_on[1:]
    if inside.all() or not inside.any() or not fair(signals):
        return
    target, references = signals[0].astype(float), signals[1:].astype(float)
    sides = [columns_of(references, inside), columns_of(references, ~inside)]
    priors = [naive_prior(side) for side in sides]
    with_both_sides = [j for j in range(len(target)) if len(sides[0][j]) and len(sides[1][j])]
    if with_both_sides:
        mean_shift = np.mean([sides[0][j].mean() - sides[1][j].mean() for j in with_both_sides])
    else:
        mean_shift = np.concatenate(sides[0]).mean() - np.concatenate(sides[1]).mean()
    expected = []
    for j, t in enumerate(target):
        into = sides[0][j] if len(sides[0][j]) else [np.mean(sides[1][j]) + mean_shift]
        out = sides[1][j] if len(sides[1][j]) else [np.mean(sides[0][j]) - mean_shift]
        densities = [
            stats.t.logpdf(t, *naive_predictive(side, prior)) for side, prior in zip((into, out), priors, strict=True)
        ]
        expected.append(densities[0] - densities[1])
    scores = BaVarIA("online").score(dv.Evidence(signals[0], signals[1:], inside))
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)  # gammaln of 1e6 has ten digits


def test_the_predictive_is_the_integral_over_means_and_variances():
    values, (centre, kappa, alpha, variance) = [0.3, 1.1, -0.4], (0.5, 0.7, 2.5, 1.3)

    logs = np.linspace(np.log(1e-3), np.log(60), 1500)[:, None]
    mu, s2 = np.linspace(-12, 12, 1500)[None], np.exp(logs)

    def evidence(extra):
        density = stats.norm.pdf(mu, centre, np.sqrt(s2 / kappa)) * stats.invgamma.pdf(
            s2, alpha, scale=alpha * variance
        )
        for value in [*values, *extra]:
            density = density * stats.norm.pdf(value, mu, np.sqrt(s2))
        return integrate.trapezoid(integrate.trapezoid(density * s2, mu, axis=1), logs[:, 0])

    expected = evidence([1.7]) / evidence([])
    assert stats.t.pdf(1.7, *naive_predictive(values, (centre, kappa, alpha, variance))) == pytest.approx(
        expected, rel=1e-3
    )


def test_the_deviate_of_a_non_member_is_standard_normal():
    """With the model true, KS distance beyond .015 at 40,000 records has probability below 1e-7."""
    rng = np.random.default_rng(1)
    variances = 6.0 / rng.gamma(3.0, size=40_000)
    mean = 2 * np.sqrt(variances) * rng.normal(size=40_000)
    signals = mean + np.sqrt(variances) * rng.normal(size=(5, 40_000))
    assert stats.kstest(BaVarIA().score(dv.Evidence(signals[0], signals[1:])), "norm").statistic < 0.015


@pytest.mark.parametrize("mode", ["offline", "online"])
@pytest.mark.parametrize("models", [1, 2, 4])
def test_units_and_zero_of_the_signal_do_not_matter(mode, models):
    rng = np.random.default_rng(2)
    signals = rng.normal(size=200) + 0.5 * rng.normal(size=(models + 1, 200))
    inside = (np.arange(models)[:, None] + np.arange(200)) % 2 == 0
    plain = BaVarIA(mode).score(dv.Evidence(signals[0], signals[1:], inside))
    moved = BaVarIA(mode).score(dv.Evidence(3.0 + 0.01 * signals[0], 3.0 + 0.01 * signals[1:], inside))
    np.testing.assert_allclose(moved, plain, rtol=1e-6, atol=1e-8)


def test_constants_and_one_reference_give_finite_scores():
    same = np.full((4, 6), 0.7)
    constant_per_record = np.tile(np.arange(6.0), (4, 1))  # records differ, models do not
    half = np.arange(24).reshape(4, 6) % 2 == 0
    for table in (same, constant_per_record):
        for attack in (BaVarIA(), BaVarIA("online")):
            scores = attack.score(dv.Evidence(table[0], table, half))
            assert np.isfinite(scores).all()
    assert np.ptp(BaVarIA().score(dv.Evidence(same[0], same))) == 0
    with_one_reference = BaVarIA().score(dv.Evidence([0.0, 1.0, 5.0], [[0.0, 1.0, 2.0]]))
    assert with_one_reference[2] > max(with_one_reference[:2])


@CASES
@given(tables(), st.sampled_from((0.0, 0.33, 1.0)))
def test_base_subtracts_the_scaled_log_mean(table, scale):
    signals, trained_on = table
    losses = -np.abs(signals.astype(float) - signals.min()) - 0.01
    inside = trained_on[1:]
    if inside.all():
        return
    out = [losses[1:][~inside[:, j], j] for j in range(inside.shape[1])]
    everything = np.concatenate(out)
    expected = [
        t - scale * (special.logsumexp(c if len(c) else everything) - np.log(len(c) or len(everything)))
        for t, c in zip(losses[0], out, strict=True)
    ]
    evidence = dv.Evidence(losses[0], losses[1:], inside)
    np.testing.assert_allclose(BASE(scale=scale).score(evidence), expected, atol=1e-6)
    online = losses[0] - special.logsumexp(losses[1:], axis=0) + np.log(len(inside))
    np.testing.assert_allclose(BASE("online").score(evidence), online, atol=1e-6)


def test_base_at_scale_zero_is_loss():
    rng = np.random.default_rng(3)
    evidence = dv.Evidence(-rng.random(9), -rng.random((4, 9)), rng.random((4, 9)) < 0.4)
    np.testing.assert_array_equal(BASE(scale=0.0).score(evidence), Threshold().score(evidence))


@pytest.mark.parametrize(
    ("attack", "parts", "message"),
    [
        (BASE(), {}, "BASE: evidence.references is needed"),
        (BASE(), {"references": np.ones((2, 3))}, "must hold log-probabilities.*'negative-loss'"),
        (BaVarIA(), {}, "BaVarIA: evidence.references is needed"),
        (BaVarIA("online"), {"references": np.ones((2, 3))}, r"BaVarIA\(mode='online'\): evidence.trained_on"),
        (BaVarIA(), {"references": np.ones((2, 3)), "trained_on": np.ones((2, 3), bool)}, "every reference model"),
    ],
)
def test_missing_evidence_is_named(attack, parts, message):
    with pytest.raises(dv.InputError, match=message):
        attack.score(dv.Evidence([-0.1, -0.2, -0.3], **parts))
