"""The paper's codes, its figures in small, and its thirteen errors, each with the counterexample."""

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


def test_error_1_theorem_3_needs_k_from_one():
    # One row, two classes, exponents 2^k for k = 0, 1: the two losses differ by tau·ln 3 only.
    tau = 0.1
    for first, wanted in ((0, 1.0986 * tau), (1, 2.1972 * tau)):
        powers = np.array([3 ** (2 ** (first + k) * tau) for k in range(2)])
        gap = abs(math.log(powers[1] / powers[0]))
        assert gap == pytest.approx(wanted, rel=1e-4)
        assert (gap >= 2 * tau) == (first == 1)


def test_error_2_theorem_14_as_printed_has_no_separation():
    # Nτ multiplies the power instead of standing in its exponent: θ1 = 3^2·Nτ/(1 + 3^2·Nτ) = 1/2.
    n, tau = 2, 1 / 18
    theta = 3**2 * n * tau / (1 + 3**2 * n * tau)
    assert theta == pytest.approx(0.5)
    assert separation(logs([theta, 0.9])) == pytest.approx(0.0, abs=1e-12)
    repaired = [1 / (1 + 3 ** -(2**k * n * tau)) for k in (1, 2)]
    assert separation(logs(repaired)) >= 2 * tau


def test_error_3_the_inequality_of_theorems_4_and_5_is_not_sufficient():
    # Any code that only bounds |log odds| from below admits two equal rows, whose labels can be swapped.
    assert separation(logs([1e-9, 1e-9])) == 0.0


def test_error_4_the_sign_of_theorem_7():
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


def test_error_5_mahalanobis_cannot_tell_two_labellings_apart():
    theta = np.array([0.25, 0.25])
    losses = [float((np.array(y) - theta) @ (np.array(y) - theta)) for y in ((0, 1), (1, 0))]
    assert losses == [0.625, 0.625]
    with pytest.raises(dv.InputError, match="only multiples of the identity"):
        labels.mahalanobis([[2.0, 1.0], [1.0, 2.0]])
    spec = labels.OracleSpec(metric=labels.mahalanobis(np.eye(2)), n=2)
    for y in itertools.product((0, 1), repeat=2):
        assert labels.simulate(spec, np.array(y)).accuracy == 1.0


def test_error_6_corollary_2_is_true_by_convexity():
    # The gap 2·sinh t is superadditive against t: distinct sums of t stay distinct, and further apart.
    t = np.linspace(0, 10, 1001)
    assert (np.diff(2 * np.sinh(t) - t, 2) >= -1e-9).all()


def test_error_7_itakura_saito_drops_an_infinite_constant_and_norm_like_is_wrong():
    assert np.isfinite(labels.OracleSpec(metric="itakura_saito", n=1).loss().table(np.array([[0.75, 0.25]]))).all()
    loss = labels.OracleSpec(metric=labels.norm_like(2), n=1).loss().table(np.array([[0.75, 0.25]]))[0]
    assert loss[1] - loss[0] == pytest.approx(2 * (0.75 - 0.25))  # 1, not 25/6
    assert loss[1] == pytest.approx(2 * 0.75**2)


def test_error_8_theorem_12_loses_a_factor_of_two():
    # One label, answers R apart in all: noise of R/2 hides it, twice what the theorem would need.
    spec = labels.OracleSpec(n=1)
    reach = spec.loss().span
    assert labels.capacity(spec).threshold == pytest.approx(reach / 2)
    labels.design(labels.OracleSpec(n=1, noise=0.49 * reach))
    with pytest.raises(dv.InputError):
        labels.design(labels.OracleSpec(n=1, noise=0.51 * reach))


def test_error_9_rounding_gives_no_protection_at_its_edges():
    # Answers 1e-9 apart, on either side of a rounding edge, are shown 0.1 apart.
    low, high = 0.05 - 5e-10, 0.05 + 5e-10
    assert round(high, 1) - round(low, 1) == pytest.approx(0.1)


def test_error_10_softmax_on_the_unit_cube_separates_by_one_at_most():
    corner = np.array([[0.0, 1.0], [1.0, 0.0]])
    table = labels.OracleSpec(metric="softmax_cross_entropy", n=2).loss().table
    assert np.ptp(table(corner), axis=1).max() <= 1 + 1e-12
    assert np.ptp(table(1e6 * corner), axis=1).max() == pytest.approx(1e6)


def test_error_11_definition_1_needs_different_labellings():
    # Over all pairs the separation is 0; certify looks at different labellings only.
    rows = np.array([[0.9, 0.1], [0.7, 0.3]])
    spec = labels.OracleSpec(n=2)
    assert labels.certify(spec, rows).separation == pytest.approx(separation(spec.loss().table(rows)), rel=1e-9)
    assert labels.certify(spec, rows).separation > 0


def test_error_12_figure_2_counts_queries_and_averages_over_the_block():
    # 10 rows a query make 221 queries of 2201 rows; with the mean over all rows far fewer rows fit.
    assert -(-2201 // 10) == 221
    assert -(-2201 // 4) == 551
    noise = 1e-4
    alone = labels.design(labels.OracleSpec(n=10, noise=noise), "theorem3").count
    among_all = labels.design(labels.OracleSpec(n=2201, noise=noise), "theorem3").labels_per_query
    assert alone <= 2
    assert among_all < 5


def test_error_13_random_predictions_are_not_useless():
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
