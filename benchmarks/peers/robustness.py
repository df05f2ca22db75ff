"""ART (adversarial-robustness-toolbox): run with its own Python. It has no LiRA and no RMIA."""

from __future__ import annotations

import numpy as np
from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
from art.estimators.classification import SklearnClassifier
from art.metrics.privacy import get_roc_for_fpr
from protocol import Said, probability, serve
from sklearn.linear_model import LogisticRegression


def _half(arrays):
    """The learned attack; every other record teaches it, the rest is scored."""
    nothing = SklearnClassifier(LogisticRegression().fit(np.array([[0.0], [1.0]]), [0, 1]))
    attack = MembershipInferenceBlackBox(nothing, attack_model_type="lr")
    chance = probability(arrays.target)
    answers = np.stack([1 - chance, chance], 1)
    known = np.arange(len(chance)) % 2 == 0
    inside, outside = (known & side for side in (arrays.members, ~arrays.members))
    labels = [np.ones(side.sum(), int) for side in (inside, outside, ~known)]
    attack.fit(y=labels[0], test_y=labels[1], pred=answers[inside], test_pred=answers[outside])
    scores = np.full(len(chance), np.nan)
    inferred = attack.infer(None, labels[2], pred=answers[~known], probabilities=True)
    scores[~known] = inferred.reshape(len(inferred), -1)[:, -1]
    return scores


def _said(scores, members):
    (_, rate, _), *_ = get_roc_for_fpr(probability(scores), members.astype(int), targeted_fpr=0.01)
    return {"`get_roc_for_fpr`, TPR at FPR 1 % (no interval)": Said(float(rate))}


ATTACKS = {"black box, logistic regression on half of the records": _half}

if __name__ == "__main__":
    serve("adversarial-robustness-toolbox", ATTACKS, _said)
