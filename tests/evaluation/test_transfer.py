"""Whether a rate holds on an unseen class: every reason, every quantity by its definition."""

import dataclasses
import math

import numpy as np
import pytest

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
    ("changes", "number"),
    [
        ({"effective": 20.0}, None),
        ({"effective": 19.0}, "the weight of 19 of the query class"),
        ({"outside": 0.1}, None),
        ({"outside": 0.11}, "11%"),
        ({"expected_fpr": Estimate(0.06, 0.05, 0.07, 0.95, "")}, None),
        ({"expected_fpr": Estimate(0.06, 0.051, 0.07, 0.95, "")}, "0.060 [0.051, 0.070]"),
        ({"p_value": 0.01}, None),
        ({"p_value": 0.009}, "p = 0.009"),
    ],
)
def test_a_rate_holds_unless_one_of_four_reasons_speaks_against_it(changes, number):
    found = evidence(**changes)
    assert found.holds is (number is None)
    assert len(found.reasons) == (number is not None)
    assert number is None or number in str(found)


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
