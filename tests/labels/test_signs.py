"""Sign designs under loud noise: refusals, sizes, bounds and readings at their limits."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from divulge import labels
from divulge.errors import InputError
from divulge.labels import stochastic
from divulge.labels.oracles import OracleSpec

NOISY = OracleSpec(n=6, clip=0.01, noise=0.5, noise_kind="gaussian")


@pytest.mark.parametrize("min_order", [4, 5, 8, 9, 12, 13, 20, 24, 25, 28, 29, 100, 1000])
def test_the_order_is_the_smallest_of_paley_s_matrices(min_order):
    def is_prime(q):
        return q > 1 and all(q % d for d in range(2, q))

    naive = next(q for q in itertools.count(min_order - 1) if q % 4 == 3 and is_prime(q))
    assert stochastic.paley_prime(min_order) == naive


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 3}, "noise: this much stochastic noise is handled for 2 unweighted classes only"),
        ({"class_weight": (1.0, 2.0)}, "noise: this much stochastic noise is handled for 2 unweighted classes only"),
        ({"metric": "mse"}, "queries: mse has no bound and needs no extra queries under noise; leave it out"),
        ({"noise": 1e-16}, "noise: 1e-16 is no more than what float64 arithmetic adds to an answer"),
        ({"noise": 1e-8, "float_dtype": "float32"}, "no more than what float32 arithmetic adds to an answer"),
    ],
)
def test_what_signs_cannot_read_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        stochastic.plan_signs(replace(NOISY, **options), 9)
    with pytest.raises(InputError, match="queries"):
        stochastic.plan_signs(NOISY, 0)


@pytest.mark.parametrize(
    ("n", "noise", "reduction"), [(6, 0.5, "mean"), (6, 9.0, "sum"), (1, 0.1, "mean"), (60, 5.0, "mean")]
)
def test_enough_is_asked_for_one_wrong_label_in_a_hundred_runs(n, noise, reduction):
    spec = replace(NOISY, n=n, noise=noise, reduction=reduction)
    plan = stochastic.plan_signs(spec, None)
    step = math.log(99) / (n if reduction == "mean" else 1) / (2 * noise)
    quantile = stats.norm.isf(min(0.01 / n, 0.25))
    expected = max(math.ceil((quantile / step) ** 2), math.ceil(n / 2 + 6 * math.sqrt(n)), 1)
    assert plan.count == expected
    told = f"no decoder is right more often than {stats.norm.cdf(step * math.sqrt(expected)):.6f} per label"
    assert plan.certificate.why == f"gaussian noise has no bound; {told}"
    assert (plan.certificate.certified, plan.certificate.separation, plan.method) == (False, 0.0, "signs")
    assert plan.inner.prime + 1 >= max(n, 4)


@pytest.mark.parametrize("count", [1, 7, 100])
@pytest.mark.parametrize("decimals", [None, 1])
def test_the_norm_of_laplace_noise_is_bounded_by_bernstein(count, decimals):
    spec = replace(NOISY, noise_kind="laplace", decimals=decimals)
    bound = stochastic.noise_norm_bound(spec, count) - math.sqrt(count) * (0.05 if decimals else 0.0)
    cut = math.log(2e6 * count)  # no draw is larger, in units of b, but for half a case in a million
    assert count * 2 * stats.laplace.sf(cut) == pytest.approx(5e-7)
    excess = (bound / 0.5) ** 2 - 2 * count
    assert math.exp(-(excess**2) / 2 / (20 * count + cut**2 * excess / 3)) == pytest.approx(5e-7)


def answers_of(plan, y, extra=0.0):
    oracle = labels.LocalOracle(plan.spec, y)
    return np.array([oracle.exact(query) for query in plan.queries]) + extra


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("metric", ["log_loss", "mae"])
def test_labels_are_read_from_exact_sums_and_their_distances_are_those_of_answers(metric, reduction):
    spec = replace(NOISY, n=11, noise=1e-3, metric=metric, reduction=reduction)
    plan = stochastic.plan_signs(spec, 40)
    y = np.arange(11) % 3 % 2
    reading = plan.inner.read(answers_of(plan, y))
    assert reading.labels.tolist() == y.tolist()
    assert reading.proven.all()
    assert reading.certain.all()
    assert not reading.refuted.any()
    np.testing.assert_allclose(reading.residual, 0.0, atol=1e-9)
    off = np.where(np.arange(40) == 3, 2e-3, 0.0)
    np.testing.assert_allclose(plan.inner.read(answers_of(plan, y, off)).residual, off, atol=1e-9)
    partial = answers_of(plan, y)
    partial[20:] = np.nan
    reading = plan.inner.read(partial)
    assert reading.labels.tolist() == y.tolist()
    assert np.isnan(reading.residual).tolist() == [False] * 20 + [True] * 20
    nothing = plan.inner.read(np.full(40, np.nan))
    assert not (nothing.proven | nothing.certain).any()
    assert not nothing.refuted.any()
    assert np.isnan(nothing.residual).all()
    # With fewer answers than rows nothing is proven.
    partial[10:] = np.nan
    assert not plan.inner.read(partial).proven.any()


def test_a_fit_six_deviations_too_loud_proves_nothing_and_one_beyond_the_norm_is_refuted():
    spec = replace(NOISY, n=11, noise=1e-3)
    plan = stochastic.plan_signs(spec, 40)
    y = np.arange(11) % 2
    signs = plan.inner.matrix(np.arange(40))
    away = np.linalg.qr(np.column_stack([signs, np.random.default_rng(0).normal(size=40)]))[0][:, -1]
    unit = away / np.linalg.norm(away)  # of no labels at all
    largest = spec.noise * math.sqrt(40 + 6 * math.sqrt(80))
    refuted_from = stochastic.noise_norm_bound(spec, 40)
    for size, proven in ((largest * 0.999, True), (largest * 1.001, False)):
        assert plan.inner.read(answers_of(plan, y, size * unit)).proven.all() == proven
    for size, refuted in ((refuted_from * 0.999, False), (refuted_from * 1.001, True)):
        reading = plan.inner.read(answers_of(plan, y, size * unit))
        assert reading.refuted.all() == reading.refuted.any() == refuted
