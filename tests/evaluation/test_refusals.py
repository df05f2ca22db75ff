"""A confidence is a probability below one: every estimate refuses another, naming what was given."""

import numpy as np
import pytest

from divulge import InputError, evaluation

SCORES, MEMBERS = np.r_[np.arange(100.0), np.arange(100.0) + 20], np.arange(200) >= 100


@pytest.mark.parametrize("confidence", [-0.5, 0.0, 1.0, 1.5, float("nan")])
@pytest.mark.parametrize(
    "estimate",
    [
        lambda c: evaluation.roc(SCORES, MEMBERS, c),
        lambda c: evaluation.auc(SCORES, MEMBERS, c),
        lambda c: evaluation.advantage(SCORES, MEMBERS, c),
        lambda c: evaluation.tpr_at_fpr(SCORES, MEMBERS, 0.1, c),
        lambda c: evaluation.epsilon_lower_bound(SCORES, MEMBERS, confidence=c),
    ],
    ids=["roc", "auc", "advantage", "tpr", "epsilon"],
)
def test_a_confidence_outside_zero_and_one_is_refused(estimate, confidence):
    with pytest.raises(InputError, match="confidence"):
        estimate(confidence)
    assert estimate(0.9) is not None


def test_no_gaussian_mechanism_keeps_a_claim_without_a_delta():
    with pytest.raises(InputError, match="delta: must be above 0, since a Gaussian mechanism has no finite ε at 0"):
        evaluation.smallest_violation(500, 1.0, 0.0)
