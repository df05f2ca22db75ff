"""Steps of estimators as targets: votes, names, frames, categories and types, against their definitions."""

import types

import numpy as np
import pytest

import divulge as dv
from divulge.errors import InputError
from divulge.targets import SklearnRegressor, SklearnTarget, estimators

pd = pytest.importorskip("pandas")
pytest.importorskip("sklearn")

RECORDS = dv.Records(np.zeros((2, 2)))


class Classifier:
    """A fitted classifier with the given outputs."""

    def __init__(self, classes=(0, 1), **outputs):
        self.classes_ = np.array(classes)
        for name, values in outputs.items():
            setattr(self, name, lambda x, values=values: np.array(values, dtype=float))


P = [[0.25, 0.75], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ({"predict_proba": P}, [[np.log(0.25), np.log(0.75)], [np.log(1e-7), 0.0]]),
        ({"predict_proba": P, "predict_log_proba": [[-1, -2], [-np.inf, 0]]}, [[-1, -2], [np.log(1e-7), 0]]),
        ({"decision_function": [2.0, -1.0]}, [[0, 2], [0, -1]]),
        (
            {"decision_function": [np.log(3), -np.log(3)], "predict_proba": [[0.25, 0.75], [0.75, 0.25]]},
            [[0, np.log(3)], [0, -np.log(3)]],
        ),
        (  # decision values whose softmax is another one
            {"decision_function": [9.0, -9.0], "predict_proba": [[0.25, 0.75], [0.75, 0.25]]},
            np.log([[0.25, 0.75], [0.75, 0.25]]),
        ),
        (
            {"decision_function": [9.0, -np.log(3)], "predict_proba": [[0.25, 0.75], [0.75, 0.25]]},
            np.log([[0.25, 0.75], [0.75, 0.25]]),
        ),
    ],
)
def test_decision_values_are_logits_where_they_give_the_probabilities(outputs, expected):
    np.testing.assert_allclose(SklearnTarget(Classifier(**outputs)).logits(RECORDS), expected, rtol=1e-6)


def test_an_estimator_without_outputs_is_refused():
    with pytest.raises(InputError, match="Classifier has neither predict_proba nor decision_function"):
        SklearnTarget(Classifier()).logits(RECORDS)
    assert not SklearnTarget(Classifier()).gives_logits
    assert SklearnTarget(Classifier(predict_proba=P)).gives_logits
    assert SklearnTarget(Classifier(decision_function=[1.0])).gives_logits


@pytest.mark.parametrize(
    ("classes", "given", "names"),
    [
        ([0, 1], None, None),
        ([0.0, 1.0], None, None),
        ([-1, 1], None, ("-1", "1")),
        ([-1.0, 1.0], None, ("-1", "1")),
        ([0.5, 1.0], None, ("0.5", "1")),
        ([False, True], None, ("False", "True")),
        (["a", "b"], None, ("a", "b")),
        (["a", "b"], ["b", "c", "a"], ("b", "c", "a")),
        ([0, 1], [1, 0], ("1", "0")),
    ],
)
def test_classes_have_names_where_they_are_no_numbers_from_zero(classes, given, names):
    target = SklearnTarget(Classifier(classes, predict_proba=P), names=given)
    assert target.class_names == names
    assert target.has_given_names is (given is not None)
    if given is not None:
        assert target.known_classes.tolist() == [names.index(str(value)) for value in classes]
        np.testing.assert_allclose(np.exp(target.logits(RECORDS))[0, target.known_classes], [0.25, 0.75], rtol=1e-6)


def test_classes_that_were_never_seen_get_the_floor_below_the_largest():
    target = SklearnTarget(Classifier([1, 3], decision_function=[2.0, -1.0]), classes=5, floor=0.01)
    logits = target.logits(RECORDS)
    np.testing.assert_allclose(logits[:, [1, 3]], [[0, 2], [0, -1]])
    np.testing.assert_allclose(logits[:, [0, 2, 4]], [[np.log(0.01) + 2] * 3, [np.log(0.01)] * 3])
    assert target.classes == 5
    assert SklearnTarget(Classifier([1, 3], decision_function=[2.0])).classes == 4
    for settings in ({"classes": 3}, {"classes": 1}, {"floor": 0}, {"floor": 1.0}, {"frames": "both"}):
        with pytest.raises(InputError):
            SklearnTarget(Classifier([1, 3], predict_proba=P), **settings)


def test_several_outcomes_and_unfitted_estimators_are_refused():
    several = Classifier(predict_proba=P)
    several.classes_ = [np.array([0, 1]), np.array([0, 1])]
    with pytest.raises(InputError, match="predicts 2 outcomes at once"):
        SklearnTarget(several)
    del several.classes_
    with pytest.raises(InputError, match=r"is not a fitted classifier \(no classes_\)"):
        SklearnTarget(several)


@pytest.mark.parametrize(
    ("predicted", "expected"), [([3, 1], [3, 1]), ([1], None), ([1, 2], None), ([[3], [1]], [3, 1])]
)
def test_predicted_classes_are_numbers_of_known_ones(predicted, expected):
    estimator = Classifier([1, 3])
    estimator.predict = lambda x: np.array(predicted)
    target = estimators.SklearnLabels(estimator)
    if expected is None:
        with pytest.raises(InputError, match="predict: one of its classes_ is needed per record"):
            target.labels(RECORDS)
        return
    assert target.labels(RECORDS).tolist() == expected
    votes = target.votes_of(np.zeros((2, 2)))
    assert votes.argmax(axis=1).tolist() == expected
    assert sorted(set(votes.ravel())) == [np.log(1e-7), 0.0]


def made(**attributes):
    return types.SimpleNamespace(**attributes)


def encoder(*categories, **attributes):
    return made(categories_=[np.array(each, dtype=object) for each in categories], **attributes)


def imputer(kind="O", missing=np.nan, count=1):
    return made(statistics_=[0] * count, _fit_dtype=np.dtype(kind), missing_values=missing)


@pytest.mark.parametrize(
    ("model", "is_refused"),
    [
        (made(predict=len), False),
        (made(predict=len, classes_=[0]), True),
        (made(predict=len, predict_proba=len), True),
        (made(predict=len, classes_=[0], _estimator_type="regressor"), False),
    ],
)
def test_a_classifier_is_no_regression_model(model, is_refused):
    if not is_refused:
        SklearnRegressor(model)
        return
    with pytest.raises(InputError, match="is a classifier, which predicts classes"):
        SklearnRegressor(model)
