"""Steps of an audit: records of unknown classes, rows that are left out, names of classes, answers compared."""

import numpy as np
import pytest

import divulge as dv
from divulge.auditing import inputs
from divulge.auditing.modality import Classifier
from divulge.targets import CallableTarget

X = np.arange(8.0).reshape(4, 2)


class Knows:
    """A target that numbers its classes, of which it was fitted on two."""

    known_classes = (0, 2)


def test_records_of_classes_that_a_target_was_not_fitted_on_are_dropped():
    sets = {"members": dv.Records(X, np.array([0, 1, 2, 0])), "population": dv.Records(X, np.array([2, 2, 0, 0]))}
    kept, rows = inputs._drop_unknown(sets, Knows())
    assert kept["members"].y.tolist() == [0, 2, 0]
    assert kept["members"].x.tolist() == X[[0, 2, 3]].tolist()
    assert rows["members"].tolist() == [True, False, True, True]
    assert kept["population"] is sets["population"]


@pytest.mark.parametrize(("target", "y"), [(Knows(), None), (object(), np.array([0, 1, 2, 0])), (object(), None)])
def test_without_labels_or_without_known_classes_nothing_is_dropped(target, y):
    sets = {"members": dv.Records(X, y)}
    kept, rows = inputs._drop_unknown(sets, target)
    assert kept["members"] is sets["members"]
    assert rows["members"].all()


def test_a_set_of_unknown_classes_alone_is_refused_by_name():
    sets = {"members": dv.Records(X, np.array([0, 0, 2, 2])), "nonmembers": dv.Records(X, np.array([1, 1, 3, 3]))}
    with pytest.raises(dv.InputError, match=r"^nonmembers: y: the target was fitted on none of these classes"):
        inputs._drop_unknown(sets, Knows())


class LabelsAlone:
    """A target that answers with class numbers."""

    def __init__(self, predicted):
        self.predicted = predicted

    def labels(self, records):
        return self.predicted[records.x[:, 0].astype(int)]


KEPT = np.array([True, False, True, True])


def test_values_of_candidates_lose_the_rows_that_are_dropped():
    assert inputs._select_rows(["a", "b", "c", "d"], KEPT).tolist() == ["a", "c", "d"]
    assert inputs._select_rows(X, KEPT).tolist() == X[KEPT].tolist()
    assert inputs._select_columns({"a": [1, 2, 3, 4], "b": X[:, 0]}, KEPT)["a"].tolist() == [1, 3, 4]
    assert inputs._select_columns(X, KEPT).tolist() == X[KEPT].tolist()


def test_what_is_not_per_candidate_stays():
    mask = np.array([True, False])
    assert inputs._select_rows(mask, KEPT).tolist() == mask.tolist()
    assert inputs._select_rows("all", KEPT) == "all"
    assert inputs._select_rows(None, KEPT) is None
    assert inputs._select_columns(None, KEPT) is None
    everything, table = ["a", "b"], {"a": [1, 2]}
    assert inputs._select_rows(everything, np.ones(2, bool)) is everything
    assert inputs._select_columns(table, np.ones(2, bool)) is table


def test_classes_are_given_by_name_or_by_number():
    names = ("cat", "dog", "emu")
    assert inputs._class_numbers(["emu", "cat"], names, "unseen_classes") == (2, 0)
    assert inputs._class_numbers([2, "cat"], names, "unseen_classes") == (2, 0)
    assert inputs._class_numbers([2, 1], names, "unseen_classes") == (2, 1)
    assert inputs._class_numbers([2, 1], None, "unseen_classes") == (2, 1)
    with pytest.raises(dv.InputError, match="unseen_classes"):
        inputs._class_numbers(["cow"], names, "unseen_classes")


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
