"""Steps of an audit: records of unknown classes, rows that are left out, names of classes, answers compared."""

import numpy as np

import divulge as dv
from divulge.auditing.modality import Classifier
from divulge.targets import CallableTarget

X = np.arange(8.0).reshape(4, 2)


class LabelsAlone:
    """A target that answers with class numbers."""

    def __init__(self, predicted):
        self.predicted = predicted

    def labels(self, records):
        return self.predicted[records.x[:, 0].astype(int)]


KEPT = np.array([True, False, True, True])


def test_answers_that_are_compared_are_scaled_logits_of_the_true_class():
    logits = np.random.default_rng(0).normal(size=(4, 3))
    records = dv.Records(np.arange(4.0)[:, None], np.array([2, 0, 1, 2]))
    answers = Classifier().measure_answers(CallableTarget(lambda x: logits[x[:, 0].astype(int)]), records)
    own = logits[np.arange(4), records.y]
    others = [np.logaddexp.reduce(np.delete(logits[i], records.y[i])) for i in range(4)]
    np.testing.assert_allclose(answers, own - others)
    assert Classifier().matched_answer(CallableTarget(lambda x: x)) == "scaled logits of the true class"


def test_of_labels_alone_it_is_compared_whether_they_are_right():
    predicted = np.array([4, 0, 1, 0])
    target = LabelsAlone(predicted)
    records = dv.Records(np.arange(4.0)[:, None], np.array([1, 0, 1, 3]))
    assert Classifier().measure_answers(target, records).tolist() == [0.0, 1.0, 1.0, 0.0]
    assert Classifier().matched_answer(target) == "correct labels"
