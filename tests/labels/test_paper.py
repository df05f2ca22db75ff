"""The paper's codes, its figures in small, and errors of its codes and figures, each with the counterexample."""

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from flint import arb, ctx
from scipy.optimize import brentq

import divulge as dv
from divulge import labels
from divulge.labels.paper_codes import first_primes


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
@pytest.mark.parametrize("metric", ["log_loss", "softmax_cross_entropy", "sigmoid_cross_entropy"])
@pytest.mark.parametrize("noise", [1e-4, 0.03])
def test_theorem_3_asks_what_it_says_letter_by_letter(classes, metric, noise):
    if metric == "sigmoid_cross_entropy" and classes > 2:
        return
    rows = 2 if classes == 4 else 3
    spec = labels.OracleSpec(metric, n=rows, classes=classes, noise=noise, clip=None)
    plan = labels.design(spec, "theorem3")
    assert plan.count == 1
    powers = [[2 ** ((n - 1) * classes + k) for k in range(1, classes + 1)] for n in range(1, rows + 1)]
    logarithms = math.log(3) * rows * noise * np.array(powers, dtype=float)
    theta = np.exp(logarithms - np.logaddexp.reduce(logarithms, axis=1, keepdims=True))
    query = np.asarray(plan.queries[0])
    if metric == "log_loss":
        assert np.allclose(query, theta, rtol=1e-12, atol=1e-15)
    elif metric == "softmax_cross_entropy":
        assert np.allclose(query - query[:, :1], logarithms - logarithms[:, :1], rtol=1e-12)
    else:
        assert np.allclose(query, np.log(theta[:, 1] / theta[:, 0]), rtol=1e-9)


@pytest.mark.parametrize("noise", [1e-4, 0.03])
def test_theorem_14_asks_what_it_says_letter_by_letter(noise):
    plan = labels.design(labels.OracleSpec(n=3, noise=noise, clip=None), "theorem14")
    power = 3.0 ** (2.0 ** np.arange(1, 4) * 3 * noise)
    assert plan.count == 1
    assert np.allclose(np.asarray(plan.queries[0])[:, 1], power / (1 + power), rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("method", ["theorem3", "exhaustive"])
def test_more_classes_by_the_papers_codes(classes, method):
    spec = labels.OracleSpec(n=20, classes=classes, noise=1e-4)
    y = np.arange(20) % classes
    plan = labels.design(spec, method)
    assert plan.certificate.certified
    assert labels.simulate(spec, y, plan).accuracy == 1.0


@pytest.mark.parametrize("metric", ["log_loss", "squared_euclidean", labels.norm_like(3), "itakura_saito"])
def test_prime_codes_and_exhaustive_decoding(metric):
    spec = labels.OracleSpec(metric=metric, n=30)
    y = np.random.default_rng(1).integers(0, 2, 30)
    for method in ("primes", "exhaustive"):
        plan = labels.design(spec, method)
        assert plan.certificate.certified
        simulation = labels.simulate(spec, y, plan)
        assert simulation.accuracy == 1.0
        assert simulation.certain_and_wrong == 0


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


def test_theorem_14_with_n_tau_beside_the_power_has_no_separation():
    # Why Nτ is read as part of the exponent: as a factor, θ1 = 3^2·Nτ/(1 + 3^2·Nτ) = 1/2.
    n, tau = 2, 1 / 18
    theta = 3**2 * n * tau / (1 + 3**2 * n * tau)
    assert theta == pytest.approx(0.5)
    assert separation(logs([theta, 0.9])) == pytest.approx(0.0, abs=1e-12)
    exponent = [1 / (1 + 3 ** -(2**k * n * tau)) for k in (1, 2)]
    assert separation(logs(exponent)) >= 2 * tau


def test_theorem_4_in_the_appendix_admits_equal_rows_whose_labels_can_be_swapped():
    # "Any θ" with large enough gaps, for cross-entropy: g(θ) - g(1 - θ) = ln((1 - θ)/θ).
    n, tau, theta = 2, 1.0, 1e-9
    assert math.log((1 - theta) / theta) > 2**n * n * tau
    assert separation(logs([theta, theta])) == 0.0 < 2 * tau


def test_theorems_4_and_5_fail_where_g_jumps():
    # "There is a θ": g is 1 below one half, 1/2 at it, 0 above, so a gap is 1, 0 or -1, and these nine θ are all cases.
    def g(t):
        return (1 - np.sign(t - 0.5)) / 2

    n, tau = 2, 0.1
    assert all(g(0.25) - g(0.75) > 2**i * n * tau for i in (1, 2))
    for theta in itertools.product((0.25, 0.5, 0.75), repeat=n):
        assert separation(np.array([[g(1 - t), g(t)] for t in theta])) == 0.0


@pytest.mark.parametrize("g", [lambda t: -math.log(t), lambda t: t**-2 + math.sin(9 * t), lambda t: 40 * (1 - t) ** 3])
def test_theorem_4_holds_where_g_is_continuous(g):
    # From 0 at one half to some large gap every gap between is met: those of the proof, which double, are among them.
    n, tau = 4, 0.1

    def gap(t):
        return g(t) - g(1 - t)

    assert gap(1e-3) > 2**n * n * tau
    theta = [brentq(lambda t, i=i: gap(t) - 2**i * n * tau, 1e-3, 0.5) for i in range(1, n + 1)]
    assert separation(np.array([[g(1 - t), g(t)] for t in theta])) == pytest.approx(2 * tau)


@pytest.mark.parametrize("metric", ["squared_euclidean", labels.norm_like(2), labels.norm_like(3.5)])
@pytest.mark.parametrize("n", [1, 3, 6])
def test_theorem_4_covers_bounded_losses_while_the_noise_is_small(metric, n):
    """Sections 4 and C.1 say that no θ meets its condition; below (largest gap)/(N·2^N) some θ does."""
    table = labels.OracleSpec(metric, n=1).loss().table

    def gap(t):
        low, high = table(np.array([[1 - t, t]]))[0]
        return high - low

    tau = 0.98 * gap(1e-12) / (n * 2**n)
    theta = [brentq(lambda t, i=i: gap(t) - 1.01 * 2**i * n * tau, 1e-12, 0.5) for i in range(1, n + 1)]
    assert all(gap(t) > 2**i * n * tau for i, t in enumerate(theta, 1))
    rows = np.array([[1 - t, t] for t in theta])
    assert separation(labels.OracleSpec(metric, n=n).loss().table(rows)) > 2 * tau


def test_rows_at_one_half_leave_no_separation_under_definition_1():
    # Section 4: N - M rows at 1/2 are said to keep Λ above 2τ. It is 0; the asked rows' labels are told apart.
    n, m, tau = 3, 2, 0.1
    theta = [1 / (1 + 3 ** (2**i * n * tau)) for i in (1, 2)] + [0.5]
    table = logs(theta)
    assert all(row[1] - row[0] > 2**i * n * tau for i, row in enumerate(table[:m], 1))
    assert separation(table) == 0.0 < 2 * tau
    assert separation(table[:m]) * m / n > 2 * tau


def test_multiples_of_logarithms_of_primes_come_closer_than_the_multiple():
    # Section 1: g(θ_i) = b·ln p_i is said to keep subset sums b apart.
    b = 1.0
    for n, closest in ((2, 0.405), (8, 0.0014)):
        table = np.array([[0.0, b * math.log(p)] for p in first_primes(n)])
        assert separation(table) * n == pytest.approx(closest, rel=0.02)
        assert separation(table) * n < b


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_doubly_small_probabilities_cannot_be_avoided(n):
    # 2^N losses 2τ apart span 2τ(2^N - 1), and the span is the mean of the |log odds|: some probability is that small.
    rng = np.random.default_rng(n)
    for theta in [*rng.random((200, n)), *(1 / (1 + np.exp(rng.exponential(8, (200, n)))))]:
        two_tau = separation(logs(theta))
        assert np.minimum(theta, 1 - theta).min() <= np.exp(-two_tau * (2**n - 1)) * (1 + 1e-9)


def test_equation_5_splits_the_loss_into_a_part_of_the_labels_and_a_constant():
    n, classes, tau = 2, 3, 0.1
    raised = 3.0 ** (n * tau * 2.0 ** (classes * np.arange(n)[:, None] + np.arange(1, classes + 1)))
    table = labels.OracleSpec(n=n, classes=classes).loss().table(raised / raised.sum(axis=1, keepdims=True))
    constant = np.log(raised.sum(axis=1)).sum()
    for y in itertools.product(range(classes), repeat=n):
        chosen = np.log(raised[range(n), y]).sum()
        assert table[range(n), y].sum() / n == pytest.approx(-(chosen - constant) / n)


def test_at_noise_one_the_losses_of_theorem_3_outgrow_the_noise():
    # Section 5 calls them comparable: averages over all labellings, for two classes.
    mean_losses = []
    for n in (1, 2, 3, 4):
        exponents = math.log(3) * n * 2.0 ** (2 * np.arange(n)[:, None] + [1, 2])
        mean_losses.append((np.logaddexp.reduce(exponents, axis=1, keepdims=True) - exponents).mean())
    assert mean_losses == pytest.approx([1.20, 5.50, 23.1, 93.4], rel=0.01)


def test_theorem_7_as_printed_promises_a_separation_that_no_prediction_has():
    # h(t) = t² + 10t: the printed sum is 22 at every θ, above 2·N·τ = 10; the true gap h'(1 - θ) - h'(θ) is below 2.
    tau = 5.0
    for theta in np.linspace(0.001, 0.999, 999):

        def divergence(x, t):
            return x**2 + 10 * x - (t**2 + 10 * t) - (2 * t + 10) * (x - t)

        assert (2 * theta + 10) + (2 * (1 - theta) + 10) > 2 * tau
        loss_of_one, zero = (divergence(y, theta) + divergence(1 - y, 1 - theta) for y in (1, 0))
        assert abs(loss_of_one - zero) < 2 < 2 * tau


def test_the_sign_of_theorem_7():
    theta, step = 0.3, 1e-6
    for h in (lambda t: t**3, lambda t: -math.log(t), lambda t: t * math.log(t)):

        def slope(t, h=h):
            return (h(t + step) - h(t - step)) / (2 * step)

        def divergence(x, t, h=h, slope=slope):
            return h(x) - h(t) - slope(t) * (x - t)

        tiny = 1e-9
        loss_of_one = divergence(1 - tiny, theta) + divergence(tiny, 1 - theta)
        zero = divergence(tiny, theta) + divergence(1 - tiny, 1 - theta)
        assert loss_of_one - zero == pytest.approx(slope(1 - theta) - slope(theta), rel=1e-4)


def test_corollary_2_is_true_by_convexity():
    # The gap 2·sinh t is superadditive against t: distinct sums of t stay distinct, and further apart.
    t = np.linspace(0, 10, 1001)
    assert (np.diff(2 * np.sinh(t) - t, 2) >= -1e-9).all()


def test_itakura_saito_drops_an_infinite_constant():
    # The divergence sums over both classes; at the false one it is -ln 0, which equation 7 leaves out.
    table = labels.OracleSpec(metric="itakura_saito", n=1).loss().table(np.array([[0.75, 0.25]]))[0]
    with np.errstate(divide="ignore"):
        divergences = [1 / p - math.log(1 / p) - 1 + (0 - np.log(0.0) - 1) for p in (0.75, 0.25)]
    assert np.isfinite(table).all()
    assert np.isinf(divergences).all()


def test_norm_like_is_the_sum_over_both_classes():
    loss = labels.OracleSpec(metric=labels.norm_like(2), n=1).loss().table(np.array([[0.75, 0.25]]))[0]
    assert loss[1] == pytest.approx(2 * 0.75**2)


@pytest.mark.parametrize("classes", [2, 3])
def test_softmax_on_the_unit_cube_separates_by_one_at_most(classes):
    rng = np.random.default_rng(0)
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=classes)))
    cube = np.concatenate([corners, rng.random((300, classes))])
    table = labels.OracleSpec("softmax_cross_entropy", n=len(cube), classes=classes).loss().table
    assert np.ptp(table(cube), axis=1).max() == pytest.approx(1)
    assert np.ptp(table(1e6 * cube), axis=1).max() == pytest.approx(1e6)


def test_sigmoid_on_the_unit_interval_separates_by_less_than_one():
    logits = np.linspace(0.001, 0.999, 999)
    table = labels.OracleSpec("sigmoid_cross_entropy", n=999).loss().table
    assert np.ptp(table(logits), axis=1) == pytest.approx(logits)  # its two labels differ by the logit itself
    assert np.ptp(table(1e3 * logits), axis=1).max() == pytest.approx(999)


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
        result = np.zeros(n, dtype=int)
        for i in range(n - 1, -1, -1):
            result[i] = bool(total > odds[i] - odds[0] / 2)
            total = total - odds[i] * int(result[i])
    assert (result == y).all()


def test_the_limit_of_stochastic_noise_is_the_papers_normal_distribution():
    spec = labels.OracleSpec(n=50, noise=0.5, noise_kind="gaussian")
    plan = labels.design(spec, queries=40)
    limit = NormalDist().cdf(math.sqrt(40) * spec.loss().span / (2 * 50 * 0.5))
    assert f"{limit:.6f}" in plan.certificate.why
