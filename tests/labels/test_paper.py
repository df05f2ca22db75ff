"""The paper's codes, its figures in small, and errors of its codes and figures, each with the counterexample."""

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from flint import arb, ctx

import divulge as dv
from divulge import labels


def separation(table):
    """Smallest distance of the mean losses of two different labellings, by enumeration (the naive oracle)."""
    n, classes = table.shape
    sums = sorted(
        sum(row[c] for row, c in zip(table, y, strict=True)) for y in itertools.product(range(classes), repeat=n)
    )
    return min(b - a for a, b in itertools.pairwise(sums)) / n


def logs(theta):
    theta = np.asarray(theta, dtype=float)
    return -np.log(np.stack([1 - theta, theta], axis=1))


@pytest.mark.parametrize("method", ["theorem3", "theorem14"])
@pytest.mark.parametrize("noise", [1e-4, 1e-2])
def test_the_theorems_recover_at_the_edge_of_the_noise(method, noise):
    spec = labels.OracleSpec(n=60, noise=noise)
    y = np.random.default_rng(0).integers(0, 2, 60)
    plan = labels.design(spec, method)
    assert plan.certificate.certified
    assert labels.simulate(spec, y, plan).accuracy == 1.0


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("method", ["theorem3", "exhaustive"])
def test_more_classes_by_the_papers_codes(classes, method):
    spec = labels.OracleSpec(n=20, classes=classes, noise=1e-4)
    y = np.arange(20) % classes
    assert labels.simulate(spec, y, labels.design(spec, method)).accuracy == 1.0


@pytest.mark.parametrize("metric", ["log_loss", "squared_euclidean", labels.norm_like(3), "itakura_saito"])
def test_prime_codes_and_exhaustive_decoding(metric):
    spec = labels.OracleSpec(metric=metric, n=30)
    y = np.random.default_rng(1).integers(0, 2, 30)
    for method in ("primes", "exhaustive"):
        found = labels.simulate(spec, y, labels.design(spec, method))
        assert found.accuracy == 1.0
        assert found.certain_and_wrong == 0


def test_our_codes_never_need_more_queries_than_the_papers():
    for noise in (1e-6, 1e-4, 1e-3):
        spec = labels.OracleSpec(n=500, noise=noise)
        ours = labels.design(spec).count
        assert ours < labels.design(spec, "positional").count <= labels.design(spec, "theorem14").count


def test_figure_1_accuracy_of_a_single_query_falls_once_the_range_is_used_up():
    # Figure 1 (a)-(c): one query, growing n: exact up to the code's reach, not beyond.
    reach = 1
    while labels.design(labels.OracleSpec(n=reach + 1, noise=1e-4), "theorem3").count == 1:
        reach += 1
    assert labels.design(labels.OracleSpec(n=reach, noise=1e-4), "theorem3").count == 1
    y = np.random.default_rng(0).integers(0, 2, reach)
    spec = labels.OracleSpec(n=reach, noise=1e-4)
    assert labels.simulate(spec, y, labels.design(spec, "theorem3")).accuracy == 1.0


def test_theorem_14_as_printed_has_no_separation():
    # Nτ multiplies the power instead of standing in its exponent: θ1 = 3^2·Nτ/(1 + 3^2·Nτ) = 1/2.
    n, tau = 2, 1 / 18
    theta = 3**2 * n * tau / (1 + 3**2 * n * tau)
    assert theta == pytest.approx(0.5)
    assert separation(logs([theta, 0.9])) == pytest.approx(0.0, abs=1e-12)
    repaired = [1 / (1 + 3 ** -(2**k * n * tau)) for k in (1, 2)]
    assert separation(logs(repaired)) >= 2 * tau


def test_the_inequality_of_theorems_4_and_5_is_not_sufficient():
    # Any code that only bounds |log odds| from below admits two equal rows, whose labels can be swapped.
    assert separation(logs([1e-9, 1e-9])) == 0.0


def test_the_sign_of_theorem_7():
    theta, step = 0.3, 1e-6
    for h in (lambda t: t**3, lambda t: -math.log(t), lambda t: t * math.log(t)):

        def slope(t, h=h):
            return (h(t + step) - h(t - step)) / (2 * step)

        def divergence(x, t, h=h, slope=slope):
            return h(x) - h(t) - slope(t) * (x - t)

        tiny = 1e-9
        one = divergence(1 - tiny, theta) + divergence(tiny, 1 - theta)
        zero = divergence(tiny, theta) + divergence(1 - tiny, 1 - theta)
        assert one - zero == pytest.approx(slope(1 - theta) - slope(theta), rel=1e-4)


def test_corollary_2_is_true_by_convexity():
    # The gap 2·sinh t is superadditive against t: distinct sums of t stay distinct, and further apart.
    t = np.linspace(0, 10, 1001)
    assert (np.diff(2 * np.sinh(t) - t, 2) >= -1e-9).all()


def test_itakura_saito_drops_an_infinite_constant():
    # The divergence sums over both classes; at the false one it is -ln 0, which equation 7 leaves out.
    table = labels.OracleSpec(metric="itakura_saito", n=1).loss().table(np.array([[0.75, 0.25]]))[0]
    with np.errstate(divide="ignore"):
        both = [1 / p - math.log(1 / p) - 1 + (0 - np.log(0.0) - 1) for p in (0.75, 0.25)]
    assert np.isfinite(table).all()
    assert np.isinf(both).all()


def test_norm_like_is_the_sum_over_both_classes():
    loss = labels.OracleSpec(metric=labels.norm_like(2), n=1).loss().table(np.array([[0.75, 0.25]]))[0]
    assert loss[1] == pytest.approx(2 * 0.75**2)


def test_softmax_on_the_unit_cube_separates_by_one_at_most():
    corner = np.array([[0.0, 1.0], [1.0, 0.0]])
    table = labels.OracleSpec(metric="softmax_cross_entropy", n=2).loss().table
    assert np.ptp(table(corner), axis=1).max() <= 1 + 1e-12
    assert np.ptp(table(1e6 * corner), axis=1).max() == pytest.approx(1e6)


def test_certify_compares_different_labellings():
    rows = np.array([[0.9, 0.1], [0.7, 0.3]])
    spec = labels.OracleSpec(n=2)
    assert labels.certify(spec, rows).separation == pytest.approx(separation(spec.loss().table(rows)), rel=1e-9)
    assert labels.certify(spec, rows).separation > 0


@pytest.mark.parametrize(("n", "tau", "queries"), [(10, 1e-4, 221), (4, 1.0, 551)])
def test_figure_2_its_numbers_are_numbers_of_queries_and_reproduce(n, tau, queries):
    """The paper's "M ≥ 220" and "M ≥ 550": Theorem 3's code, doubles without a clip, a mean over a query's rows."""
    assert -(-2201 // n) == queries
    spec = labels.OracleSpec(n=n, clip=None, noise=tau)
    plan = labels.design(spec, "theorem3")
    assert plan.count == 1
    rng = np.random.default_rng(0)
    for seed in range(100):
        assert labels.simulate(spec, rng.integers(0, 2, n), plan, seed=seed).accuracy == 1.0
    # One row more does not fit into the doubles; nor do as many where the oracle averages over all rows.
    assert labels.design(labels.OracleSpec(n=n + 1, clip=None, noise=tau), "theorem3").count > 1
    if tau < 1:
        among_all = labels.OracleSpec(n=2201, clip=None, noise=tau)
        assert labels.design(among_all, "theorem3").labels_per_query < 7
    else:
        with pytest.raises(dv.InputError, match="cannot read even one label"):
            labels.design(labels.OracleSpec(n=2201, clip=None, noise=tau), "theorem3")


def test_random_predictions_are_not_useless():
    # Footnote 6: decoding from a random vector has more than no accuracy on average.
    rng = np.random.default_rng(0)
    right = []
    for _ in range(60):
        theta = rng.uniform(0.05, 0.95, 8)
        y = rng.integers(0, 2, 8)
        table = logs(theta)
        choices = list(itertools.product((0, 1), repeat=8))
        sums = np.array([table[np.arange(8), list(c)].sum() for c in choices]) / 8
        guess = choices[int(np.abs(sums - table[np.arange(8), y].mean() - rng.uniform(-0.1, 0.1)).argmin())]
        right.append(np.mean(np.array(guess) == y))
    assert 0.5 < np.mean(right) < 0.8


def test_the_literal_doubly_exponential_code_decodes_in_ball_arithmetic():
    # Theorem 3 for K = 2 as it stands: log odds ln 3·2^(2n)·Nτ; exponents are bignums, so nothing overflows.
    n, tau = 300, 0.1
    y = np.random.default_rng(0).integers(0, 2, n)
    with ctx.workprec(3 * n):
        unit = arb(3).log() * n * arb(tau)
        odds = [unit * arb(2) ** (2 * i + 1) for i in range(n)]
        answer = sum((o for o, label in zip(odds, y, strict=True) if label), arb(0)) / n + arb(tau)
        total = answer * n
        found = np.zeros(n, dtype=int)
        for i in range(n - 1, -1, -1):
            found[i] = bool(total > odds[i] - odds[0] / 2)
            total = total - odds[i] * int(found[i])
    assert (found == y).all()


def test_the_limit_of_stochastic_noise_is_the_papers_normal_distribution():
    spec = labels.OracleSpec(n=50, noise=0.5, noise_kind="gaussian")
    plan = labels.design(spec, queries=40)
    limit = NormalDist().cdf(math.sqrt(40) * spec.loss().span / (2 * 50 * 0.5))
    assert f"{limit:.6f}" in plan.certificate.why
