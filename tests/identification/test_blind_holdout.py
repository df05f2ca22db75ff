"""A holdout and members take part in an adjustment only where both their scores and their blind scores are there."""

import numpy as np
import pytest

from divulge.identification.score_adjustment import BlindScores, adjust_scores

RNG = np.random.default_rng(0)
CANDIDATES, CALIBRATION, OTHERS = RNG.normal(size=200), RNG.normal(size=300), RNG.normal(size=100)
BLIND = {"candidates": RNG.normal(size=200), "calibration": RNG.normal(size=300)}
BLIND_OTHERS = RNG.normal(size=100)


@pytest.mark.parametrize("has_scores", [False, True])
@pytest.mark.parametrize("has_blind", [False, True])
def test_a_holdout_is_compared_where_both_of_its_scores_are_known(has_scores, has_blind):
    blind = BlindScores(**BLIND, holdout=BLIND_OTHERS if has_blind else None)
    adjusted = adjust_scores(CANDIDATES, CALIBRATION, blind, holdout=OTHERS if has_scores else None)
    assert (len(adjusted.controls) > 1) == (has_scores and has_blind)


@pytest.mark.parametrize("has_scores", [False, True])
@pytest.mark.parametrize("has_blind", [False, True])
def test_members_are_adjusted_where_both_of_their_scores_are_known(has_scores, has_blind):
    blind = BlindScores(**BLIND, members=BLIND_OTHERS if has_blind else None)
    adjusted = adjust_scores(CANDIDATES, CALIBRATION, blind, members=OTHERS if has_scores else None)
    assert (adjusted.members is not None) == (has_scores and has_blind)
