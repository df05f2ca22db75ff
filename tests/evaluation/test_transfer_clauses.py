"""Whether a rate holds on an unseen class: every reason, every sentence, every quantity by its definition."""

import dataclasses
import math

import numpy as np
import pytest
from sklearn import decomposition, mixture

from divulge import seeds
from divulge.errors import InputError
from divulge.evaluation import transfer
from divulge.types import Estimate


def evidence(**changes):
    rate = Estimate(0.04, 0.03, 0.06, 0.95, "by hand")
    found = transfer.Transfer(0.05, rate, 0.0, 20.0, 0.1, 0.5, 0.02, 0.01, 0.1, *(np.zeros((1, 2)) for _ in range(4)))
    return dataclasses.replace(found, **changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"effective": 20.0}, None),
        (
            {"effective": 19.0},
            "the seen records carry the weight of 19 of the query class, and 20 are needed to resolve a rate of 0.05",
        ),
        ({"outside": 0.1}, None),
        ({"outside": 0.11}, "11% of the query records lie where almost no seen record does"),
        ({"expected_fpr": Estimate(0.06, 0.05, 0.07, 0.95, "")}, None),
        (
            {"expected_fpr": Estimate(0.06, 0.051, 0.07, 0.95, "")},
            "the rate expected there is 0.060 [0.051, 0.070]",
        ),
        ({"p_value": 0.01}, None),
        (
            {"p_value": 0.009},
            "the errors on seen records depend on the embedding (violation 0.02, p = 0.009)",
        ),
    ],
)
def test_a_rate_holds_unless_one_of_four_reasons_speaks_against_it(changes, reason):
    found = evidence(**changes)
    assert found.reasons == (() if reason is None else (reason,))
    assert found.holds is (reason is None)
    rate = found.expected_fpr
    if reason is None:
        assert str(found) == (
            "The FPR of 0.05 is expected to hold on this class, because its records lie among the seen ones and the "
            f"rate expected there is {rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}]; this assumes that non-members "
            "with the same embedding behave alike in both."
        )
    else:
        assert str(found) == f"The FPR of 0.05 is not expected to hold on this class, because {reason}."


def test_several_reasons_are_told_together():
    found = evidence(effective=1.0, outside=1.0)
    assert str(found).count("; ") == 1
    assert len(found.reasons) == 2


@pytest.mark.parametrize("weights", [[1.0] * 40, np.linspace(0.1, 2, 40)])
@pytest.mark.parametrize("chosen", [0, 3, 40])
def test_a_weighted_rate_has_wilsons_interval_at_the_effective_sample_size(weights, chosen):
    weights, mask = np.asarray(weights), np.arange(40) < chosen
    n = weights.sum() ** 2 / (weights**2).sum()
    share = (weights * mask).sum() / weights.sum()
    found = transfer._weighted_rate(weights, mask)
    assert found.value == pytest.approx(share)
    # The ends are the rates p with (share - p)² = z² p (1 - p) / n.
    z = 1.959963984540054
    roots = np.roots([1 + z * z / n, -(2 * share + z * z / n), share**2])
    assert (found.low, found.high) == pytest.approx((max(0, min(roots)), min(1, max(roots))), abs=1e-9)
    assert found.confidence == 0.95


@pytest.mark.parametrize(("points", "most"), [(39, 1), (40, 2), (59, 2), (140, 5)])
def test_the_mixture_of_the_lowest_bic_is_taken_one_gaussian_for_twenty_points(points, most):
    rng = np.random.default_rng(points)
    x = rng.normal(size=(points, 2)) + 20 * (np.arange(points) % 6)[:, None]
    state = seeds.derive_seed(3, "transfer", "mixture")
    fits = [mixture.GaussianMixture(k, reg_covar=1e-3, random_state=state).fit(x) for k in range(1, most + 1)]
    best = min(fits, key=lambda each: each.bic(x))
    found = transfer.fit_mixture(x, 3)
    assert found.n_components == best.n_components
    np.testing.assert_allclose(found.score_samples(x), best.score_samples(x))
    if points == 140:
        assert found.n_components == 5


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize(("seen", "query"), [(60, 90), (90, 60)])
def test_a_common_plane_weighs_both_sets_alike_and_has_unit_variance_among_the_seen(width, seen, query):
    rng = np.random.default_rng(width)
    x, y = rng.normal(size=(seen, width)) * 7 + 3, rng.normal(size=(query, width)) + 20
    if width == 4:
        x[:, 3] = 5.0
    plane = transfer._common_plane(x, y, seed=1)
    assert plane.shape == (seen + query, 2)
    scale = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    both = (np.vstack([x, y]) - x.mean(axis=0)) / scale
    draws = seeds.generator(1, "transfer", "plane")
    rows = [draws.permutation(seen), seen + draws.permutation(query)]
    size = max(seen, query)
    balanced = np.concatenate([np.resize(each, size) for each in rows])
    fitted = decomposition.PCA(min(2, width), svd_solver="full").fit(both[balanced])
    expected = fitted.transform(both)
    expected = expected / expected[:seen].std(axis=0)
    np.testing.assert_allclose(plane[:, : min(2, width)], expected, atol=1e-9)
    if width == 1:
        assert not plane[:, 1].any()


def test_an_assessment_is_measured_on_the_half_of_the_seen_records_without_a_mixture():
    rng = np.random.default_rng(0)
    seen, query = rng.normal(size=(101, 3)), rng.normal(0.6, 1, size=(55, 3))
    query[:4] += 30
    selected, level = rng.random(101) < 0.2, 0.1
    found = transfer.assess(seen, query, selected, level, seed=2)
    plane = transfer._common_plane(seen, query, 2)
    order = seeds.generator(2, "transfer", "halves").permutation(101)
    fitted, test = sorted(order[:50]), sorted(order[50:])
    of_seen, of_query = transfer.fit_mixture(plane[fitted], 2), transfer.fit_mixture(plane[101:], 2)
    ratio = np.exp(of_query.score_samples(plane[test]) - of_seen.score_samples(plane[test]))
    ratio /= ratio.mean()
    columns = np.column_stack([np.ones(51), plane[test]])
    linear = columns @ np.linalg.lstsq(columns, ratio, rcond=None)[0]
    residual = selected[test] - level
    error = ((ratio - linear) ** 2).mean()
    np.testing.assert_allclose(found.ratio, ratio)
    np.testing.assert_allclose(found.linear, linear, atol=1e-9)
    np.testing.assert_array_equal(found.seen, plane[test])
    np.testing.assert_array_equal(found.query, plane[101:])
    assert found.effective == pytest.approx(ratio.sum() ** 2 / (ratio**2).sum())
    assert found.error == pytest.approx(error)
    assert found.explained == pytest.approx(1 - error / ratio.var())
    assert found.expected_fpr.value == pytest.approx((ratio * selected[test]).sum() / ratio.sum())
    limit = np.quantile(of_seen.score_samples(plane[test]), 0.01)
    assert found.outside == pytest.approx((of_seen.score_samples(plane[101:]) < limit).mean())
    assert found.outside >= 4 / 55
    basis = transfer.orthonormal_basis(plane[test])
    violation = transfer.multiaccuracy_violation(basis, residual, level)
    assert (found.violation, found.p_value) == violation
    # Cauchy-Schwarz: the linear part of the ratio times the violation, and what it leaves times the errors.
    assert found.bound == pytest.approx(
        math.sqrt((linear**2).mean()) * violation.size + math.sqrt(error * (residual**2).mean())
    )
    assert abs(found.expected_fpr.value - level) <= found.bound


def test_a_ratio_is_fitted_by_least_squares_on_all_records_and_on_two_halves():
    rng = np.random.default_rng(1)
    seen, query = rng.normal(size=(50, 3)), rng.normal(0.4, 1.2, size=(51, 3))
    found = transfer.measure_linearity(seen, query, seed=4)
    project = transfer._principal_plane(seen)
    of_seen, of_query = (transfer.fit_mixture(project(side), 4) for side in (seen, query))
    ratio = np.exp(of_query.score_samples(project(query)) - of_seen.score_samples(project(query)))
    np.testing.assert_allclose(found.ratio, ratio)
    full = np.column_stack([np.ones(51), query])
    first = np.isin(np.arange(51), seeds.generator(4, "linearity", "halves").permutation(51)[:25])

    def predict(rows):
        return full @ np.linalg.lstsq(full[rows], ratio[rows], rcond=None)[0]

    linear = predict(np.ones(51, bool))
    fresh = np.where(first, predict(~first), predict(first))
    np.testing.assert_allclose(found.linear, linear)
    assert found.error == pytest.approx(((ratio - linear) ** 2).mean())
    assert found.fresh_error == pytest.approx(((ratio - fresh) ** 2).mean())
    assert found.variance == pytest.approx(ratio.var())
    assert found.explained == pytest.approx(1 - found.fresh_error / found.variance)
    assert dataclasses.replace(found, variance=0.0).explained == 1.0


def test_ratios_that_would_overflow_stop_at_a_limit_and_places_that_would_are_refused():
    rng = np.random.default_rng(2)
    seen, query = rng.normal(size=(60, 1)), rng.normal(size=(60, 1)) + 1e3
    found = transfer.measure_linearity(seen, query)
    assert found.ratio.max() == math.exp(300)
    with pytest.raises(InputError, match=r"query: values up to 1e\+200 are too far from seen for a density"):
        transfer.measure_linearity(seen, np.full((60, 1), 1e200))


@pytest.mark.parametrize("n", [49, 50])
def test_fifty_records_of_either_side_and_one_value_for_each_are_needed(n):
    rng = np.random.default_rng(3)
    few, enough = rng.normal(size=(n, 2)), rng.normal(size=(60, 2))
    selected = rng.random(60) < 0.5
    if n == 50:
        transfer.check_embeddings(few, enough)
        transfer.check_embeddings(enough, few)
        assert 0 <= transfer.multiaccuracy(few, selected[:50], 0.5).p_value <= 1
    else:
        for sides, name in (((few, enough), "seen"), ((enough, few), "query")):
            with pytest.raises(InputError, match=f"{name}: at least 50 records are needed to estimate a density"):
                transfer.check_embeddings(*sides)
        with pytest.raises(InputError, match="embedding: at least 50 records are needed, got 49"):
            transfer.multiaccuracy(few, selected[:49], 0.5)
    for wrong in (selected[:1], selected[:59]):
        with pytest.raises(InputError, match=r"selected: 60 values are needed \(one per record\)"):
            transfer.multiaccuracy(enough, wrong, 0.5)
        with pytest.raises(InputError, match=r"selected: 60 values are needed \(one per record\)"):
            transfer.assess(enough, enough, wrong, 0.5)
    with pytest.raises(InputError, match="level"):
        transfer.multiaccuracy(enough, selected, 1.0)
