"""An estimator that knows fewer classes than there are: the others have a floor, and classes keep their numbers."""

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from divulge import Records, datafiles
from divulge.errors import InputError
from divulge.tables import table
from divulge.targets import estimators
from divulge.targets.estimators import SklearnTarget

X = np.random.default_rng(0).normal(size=(40, 2))
Y = np.where(X[:, 0] > 0, 3, 1)


@pytest.mark.parametrize("estimator", [LogisticRegression(), DecisionTreeClassifier(max_depth=1)])
@pytest.mark.parametrize("classes", [None, 4, 6])
def test_classes_that_were_never_seen_are_the_least_likely(estimator, classes):
    target = SklearnTarget(estimator.fit(X, Y), classes)
    logits = target.logits(Records(X, Y))
    assert logits.shape == (40, classes or 4)
    assert target.known_classes.tolist() == [1, 3]
    seen, unseen = logits[:, [1, 3]], np.delete(logits, [1, 3], axis=1)
    assert (unseen.max(axis=1) <= seen.max(axis=1) + np.log(target.floor) + 1e-9).all()
    np.testing.assert_array_equal(target.labels(Records(X, Y)), estimator.predict(X))
    np.testing.assert_array_equal(target.predicted_classes(X), estimator.predict(X))
    votes = target.votes_of(X)
    assert votes.shape == logits.shape
    assert (votes.argmax(axis=1) == estimator.predict(X)).all()
    assert ((votes == 0).sum(axis=1) == 1).all()
    raised = np.exp(seen - seen.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        raised / raised.sum(axis=1, keepdims=True), np.maximum(estimator.predict_proba(X), 0), atol=1e-6
    )


def test_too_few_classes_are_refused_and_names_number_the_outputs():
    with pytest.raises(InputError, match="classes"):
        SklearnTarget(LogisticRegression().fit(X, Y), 3)
    words = np.where(Y == 3, "yes", "no")
    target = SklearnTarget(LogisticRegression().fit(X, words), names=["maybe", "yes", "no"])
    assert target.class_names == ("maybe", "yes", "no")
    assert target.known_classes.tolist() == [2, 1]
    expected = np.where(target.estimator.predict(X) == "yes", 1, 2)
    np.testing.assert_array_equal(target.labels(Records(X)), expected)
    with pytest.raises(InputError, match="lacks 'no'"):
        SklearnTarget(LogisticRegression().fit(X, words), names=["yes", "perhaps"])


def test_names_of_classes_go_with_names_alone():
    words, mixed = np.array(["a", "b"], dtype=object), np.array(["a", 1], dtype=object)
    assert datafiles.check_class_names(words, ["a", "b"], "kind") is None
    assert datafiles.check_class_names(np.array([0, 1]), None, "kind") is None
    for values in (mixed, np.array([0, 1]), np.array([1, 2], dtype=object)):
        with pytest.raises(InputError, match="the classes in 'kind' are numbers, which need no names"):
            datafiles.check_class_names(values, ["a", "b"], "kind")
    for missing in (None, "NA", " "):
        with pytest.raises(InputError, match="'kind': 1 records have no class"):
            datafiles.check_class_names(np.array(["a", missing], dtype=object), ["a"], "kind")
    assert datafiles.check_class_names(np.array(["a", "NA"], dtype=object), ["a", "NA"], "kind") is None
    for values in (mixed, np.array([0, 1])):
        np.testing.assert_array_equal(datafiles.encode_classes(values, None, "kind"), values)
        with pytest.raises(InputError, match="are numbers, which need no names"):
            datafiles.encode_classes(values, ["a"], "kind")
    with pytest.raises(InputError, match=r"have names; set data\.classes"):
        datafiles.encode_classes(words, None, "kind")
    with pytest.raises(InputError, match="a class in 'kind'"):
        datafiles.encode_classes(words, ["a"], "kind")
    assert datafiles.encode_classes(words, ["c", "b", "a"], "kind").tolist() == [2, 1]


def test_a_column_that_is_missing_in_one_part_takes_its_type_from_another():
    full, empty = pl.DataFrame({"a": [1], "b": [2.5]}), pl.DataFrame({"a": [3], "b": [None]})
    assert [frame.columns for frame in table._without_empty([full, empty])] == [["a", "b"], ["a"]]
    assert [frame.columns for frame in table._without_empty([empty, empty])] == [["a", "b"], ["a", "b"]]
    partly = pl.DataFrame({"a": [None, 3], "b": [None, None]})
    assert [frame.columns for frame in table._without_empty([full, partly])] == [["a", "b"], ["a"]]
    single = [pl.DataFrame({"b": [None]}), pl.DataFrame({"b": [1]})]
    assert [frame.columns for frame in table._without_empty(single)] == [["b"], ["b"]]


@pytest.mark.parametrize("estimator", [LogisticRegression(), DecisionTreeClassifier()])
def test_classes_up_to_a_huge_number_are_held_against_the_memory_they_need(estimator, monkeypatch):
    asked = []
    monkeypatch.setattr(estimators, "check_memory", lambda size, name, _: asked.append((size, name)))
    target = SklearnTarget(estimator.fit(X, Y), 6)
    logits = target.logits(Records(X, Y))
    assert asked[0] == (8 * len(X) * 6, "target.classes_")
    assert logits.shape == (len(X), 6)
    assert (logits[:, [0, 2, 4, 5]].max(axis=1) < logits[:, [1, 3]].max(axis=1)).all()
