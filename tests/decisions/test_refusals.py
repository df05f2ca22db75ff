"""Where a decision cannot be made, and where it still can."""

import numpy as np
import pytest

from divulge import InputError
from divulge.decisions import controls, pooled_scores, weighted
from divulge.decisions.weighted import Weights


def test_strata_too_small_for_any_selection_are_refused_and_one_large_enough_is_not():
    rng = np.random.default_rng(0)
    calibration, scores = rng.normal(size=204), np.r_[rng.normal(size=4), rng.normal(9, 1, 100)]
    candidate_strata, calibration_strata = (
        np.repeat(["small", "large"], [4, 200]),
        np.repeat(["small", "large"], [4, 100]),
    )
    result = weighted.select_within_strata(
        scores, calibration, weighted.Strata(calibration_strata, candidate_strata), fdr=0.1
    )
    assert result.selected[4:].all()
    assert not result.selected[:4].any()
    small_strata = weighted.Strata(calibration_strata[:4], candidate_strata[:4])
    with pytest.raises(InputError, match=r"too small for fdr=0\.1"):
        weighted.select_within_strata(scores[:4], calibration[:4], small_strata, fdr=0.1)


@pytest.mark.parametrize(
    ("weights", "accepted"),
    [
        ([0.0, 1.0], True),
        ([1e-99, 0.0], True),
        ([1e99, 1.0], True),
        ([0.0, 0.0], False),
        ([-1e-9, 1.0], False),
        ([1e101, 1.0], False),
        ([1e-101, 0.0], False),
    ],
)
def test_weights_are_nonnegative_and_of_a_size_whose_square_is_a_float(weights, accepted):
    if accepted:
        assert Weights(np.array(weights), np.ones(1)).effective >= 1
    else:
        with pytest.raises(InputError, match=r"weights\.calibration"):
            Weights(np.array(weights), np.ones(1))


def test_a_p_value_of_several_comparisons_is_at_most_one():
    rng = np.random.default_rng(0)
    low, high = rng.normal(size=50), rng.normal(3, 1, size=50)
    control = controls._blind_text_control([(low, high), (low, high)], 100, 100, 0.05, 0)
    assert control.p_value == 1.0
    assert control.auc.value < 0.1


@pytest.mark.parametrize(("records", "accepted"), [(19, True), (18, False), (40, True)])
def test_equal_weights_need_as_many_records_as_no_weights(records, accepted):
    scores, calibration = np.r_[np.full(30, 99.0)], np.arange(float(records))
    even = Weights(np.ones(records), np.ones(30))
    if accepted:
        assert weighted.select(scores, calibration, even, fdr=0.05).selected.any()
    else:
        with pytest.raises(InputError, match="19 are needed"):
            weighted.select(scores, calibration, even, fdr=0.05)


def test_scores_up_to_the_largest_that_can_be_adjusted_are():
    calibration, blind = np.linspace(-1.0, 1.0, 30), np.linspace(0.0, 1.0, 30)
    scores = np.array([1e150, -1e150, 0.0])
    adjusted, _ = pooled_scores.adjust_for_blind_score(scores, calibration, [0.2, 0.5, 0.9], blind)
    assert np.isfinite(adjusted).all()
    with pytest.raises(InputError, match=r"at most 1e\+150 is needed"):
        pooled_scores.adjust_for_blind_score(np.nextafter(scores, np.inf), calibration, [0.2, 0.5, 0.9], blind)
