"""Whether a rate holds on an unseen class: every reason, every quantity by its definition."""

import dataclasses
import math

import numpy as np
import pytest
from sklearn import mixture

from divulge import seeds
from divulge.errors import InputError
from divulge.evaluation import transfer
from divulge.types import Estimate


def evidence(**changes):
    rate = Estimate(0.04, 0.03, 0.06, 0.95, "by hand")
    found = transfer.TransferAssessment(
        0.05, rate, 0.0, 20.0, 0.1, 0.5, 0.02, 0.01, 0.1, *(np.zeros((1, 2)) for _ in range(4))
    )
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


def test_an_assessment_is_measured_on_the_half_of_the_seen_records_without_a_mixture():
    rng = np.random.default_rng(0)
    seen, query = rng.normal(size=(101, 3)), rng.normal(0.6, 1, size=(55, 3))
    query[:4] += 30
    found = transfer.assess(seen, query, rng.random(101) < 0.2, 0.1, seed=2)
    assert (len(found.seen), len(found.query), len(found.ratio)) == (51, 55, 51)
    columns = np.column_stack([np.ones(51), found.seen])
    linear = columns @ np.linalg.lstsq(columns, found.ratio, rcond=None)[0]
    error = ((found.ratio - linear) ** 2).mean()
    np.testing.assert_allclose(found.linear, linear, atol=1e-9)
    assert found.effective == pytest.approx(found.ratio.sum() ** 2 / (found.ratio**2).sum())
    assert (found.error, found.explained) == pytest.approx((error, 1 - error / found.ratio.var()))
    assert found.outside >= 4 / 55
    assert abs(found.expected_fpr.value - 0.1) <= found.bound  # Cauchy-Schwarz


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
