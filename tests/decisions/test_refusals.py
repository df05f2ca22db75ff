"""Where a decision cannot be made, and where it still can."""

import numpy as np
import pytest

from divulge import InputError
from divulge.decisions import pooled_scores, strata


def test_strata_too_small_for_any_selection_are_refused_and_one_large_enough_is_not():
    rng = np.random.default_rng(0)
    calibration, scores = rng.normal(size=204), np.r_[rng.normal(size=4), rng.normal(9, 1, 100)]
    candidate_strata, calibration_strata = (
        np.repeat(["small", "large"], [4, 200]),
        np.repeat(["small", "large"], [4, 100]),
    )
    result = strata.select_within_strata(
        scores, calibration, strata.Strata(calibration_strata, candidate_strata), fdr=0.1
    )
    assert result.selected[4:].all()
    assert not result.selected[:4].any()
    small_strata = strata.Strata(calibration_strata[:4], candidate_strata[:4])
    with pytest.raises(InputError, match=r"too small for fdr=0\.1"):
        strata.select_within_strata(scores[:4], calibration[:4], small_strata, fdr=0.1)


def test_scores_up_to_the_largest_that_can_be_adjusted_are():
    calibration, blind = np.linspace(-1.0, 1.0, 30), np.linspace(0.0, 1.0, 30)
    scores = np.array([1e150, -1e150, 0.0])
    adjusted, _ = pooled_scores.adjust_for_blind_score(scores, calibration, [0.2, 0.5, 0.9], blind)
    assert np.isfinite(adjusted).all()
    with pytest.raises(InputError, match=r"at most 1e\+150 is needed"):
        pooled_scores.adjust_for_blind_score(np.nextafter(scores, np.inf), calibration, [0.2, 0.5, 0.9], blind)
