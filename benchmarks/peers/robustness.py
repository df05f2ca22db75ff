"""ART (adversarial-robustness-toolbox): run with its own Python. It has no LiRA and no RMIA."""

from __future__ import annotations

import numpy as np
import torch
import training
from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
from art.attacks.inference.membership_inference.shadow_models import ShadowModels
from art.estimators.classification import PyTorchClassifier, SklearnClassifier
from art.metrics.privacy import get_roc_for_fpr
from protocol import Said, probability, serve
from sklearn.linear_model import LogisticRegression


def _half(arrays):
    """The learned attack; every other record teaches it, the rest is scored."""
    nothing = SklearnClassifier(LogisticRegression().fit(np.array([[0.0], [1.0]]), [0, 1]))
    attack = MembershipInferenceBlackBox(nothing, attack_model_type="lr")
    chance = probability(arrays.target)
    answers = np.stack([1 - chance, chance], 1)
    in_first_half = np.arange(len(chance)) % 2 == 0
    inside, outside = (in_first_half & side for side in (arrays.members, ~arrays.members))
    labels = [np.ones(side.sum(), int) for side in (inside, outside, ~in_first_half)]
    attack.fit(y=labels[0], test_y=labels[1], pred=answers[inside], test_pred=answers[outside])
    scores = np.full(len(chance), np.nan)
    inferred = attack.infer(None, labels[2], pred=answers[~in_first_half], probabilities=True)
    scores[~in_first_half] = inferred.reshape(len(inferred), -1)[:, -1]
    return scores


def _state(scores, members):
    (_, rate, _), *_ = get_roc_for_fpr(probability(scores), members.astype(int), targeted_fpr=0.01)
    return {"`get_roc_for_fpr`, TPR at FPR 1 % (no interval)": Said(float(rate))}


class Classifier(PyTorchClassifier):
    """`ShadowModels` asks for 10 epochs in batches of 128, whatever is wanted."""

    def fit(self, x, y, **_):
        """As many epochs and records a batch as for the others."""
        super().fit(x, y, batch_size=training.BATCH, nb_epochs=training.EPOCHS)


def _train(path, rounds):
    """`ShadowModels.generate_shadow_dataset`: trained, and asked about all records."""

    def train_models(job):
        model = training.network.Net()
        classifier_settings = {"input_shape": (784,), "nb_classes": 10, "optimizer": training.network.optimizer(model)}
        template = Classifier(model, torch.nn.CrossEntropyLoss(), device_type="cpu", **classifier_settings)
        shadows = ShadowModels(template, num_shadow_models=len(job.trained_on), random_state=0)
        shadows.generate_shadow_dataset(job.x, job.y, member_ratio=0.5)
        return [classifier.model for classifier in shadows.get_shadow_models()]

    return training.in_turns({"ART": train_models}, path, rounds)


ATTACKS = {"black box, logistic regression on half of the records": _half}

if __name__ == "__main__":
    serve("adversarial-robustness-toolbox", ATTACKS, _state, train=_train)
