"""Steps of estimators as targets: votes, names, frames, categories and types, against their definitions."""

import datetime as dt
import types

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge.errors import InputError
from divulge.targets import SklearnRegressor, SklearnTarget, estimators, fitted_frames

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


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_columns_are_given_as_the_encoders_know_them(library):
    frame = library({"a": [1, 2], "b": ["x", "y"], "c": [1.5, 2.5]})
    restored = fitted_frames.restore_types(encoder(["1", "2"], ["x"], [1.5]), frame)
    assert list(restored["a"]) == ["1", "2"]
    assert list(restored["b"]) == ["x", "y"]
    assert list(restored["c"]) == [1.5, 2.5]
    with pytest.raises(InputError, match="column 'b' holds texts, and the target was fitted on numbers such as '1'"):
        fitted_frames.restore_types(encoder([1], [1], [1]), frame)
    assert fitted_frames.restore_types(encoder(["1"], ["x"]), frame) is frame  # of other columns
    assert fitted_frames.restore_types(encoder([1], ["x"], [True, False]), frame) is frame
    gaps = library({"a": ["1", None]})
    assert next(iter(fitted_frames.restore_types(encoder([1, 2]), gaps)["a"])) == 1.0
    array = np.zeros((2, 2))
    assert fitted_frames.restore_types(encoder(["1"]), array) is array


def test_missing_values_are_what_they_were_to_each_encoder():
    frame = pd.DataFrame({"a": ["x", None], "b": ["x", np.nan], "c": ["x", "y"], "d": [1.0, np.nan]}, dtype=object)
    fitted = encoder(["x", np.nan], ["x", None], ["x", None], ["x"])
    restored = fitted_frames.restore_missing(fitted, frame)
    assert isinstance(restored["a"][1], float)
    assert restored["b"][1] is None
    assert restored["c"].tolist() == ["x", "y"]
    assert frame["a"][1] is None
    numbers = pd.DataFrame({"a": [1.0, np.nan], "b": [1.0, np.nan]})
    restored = fitted_frames.restore_missing(encoder([1.0, np.nan], [1.0, None]), numbers)
    assert restored["a"].dtype == float
    assert restored["b"].dtype == object
    assert restored["b"][1] is None
    polars = pl.DataFrame({"a": [None]})
    assert fitted_frames.restore_missing(fitted, polars) is polars


def imputer(kind="O", missing=np.nan, count=1):
    return made(statistics_=[0] * count, _fit_dtype=np.dtype(kind), missing_values=missing)


@pytest.mark.parametrize(
    ("estimator", "library"),
    [
        (encoder(["x", np.nan]), "pandas"),
        (encoder(["x", None]), "polars"),
        (encoder(["x", None], [np.nan]), "pandas"),
        (encoder(["x"]), None),
        (imputer(missing=None), "polars"),
        (imputer(), "pandas"),
        (imputer("f"), None),
        (encoder([dt.date(2020, 1, 1)]), "pandas"),
        (encoder([dt.datetime(2020, 1, 1)]), None),
        (made(booster_=made(pandas_categorical=[])), "pandas"),
        (made(booster_=made(pandas_categorical=None)), None),
        (made(get_booster=len, enable_categorical=True), "pandas"),
        (made(get_booster=len, enable_categorical=False), None),
        (made(get_booster=len), None),
        (made(get_cat_feature_indices=lambda: [0]), "pandas"),
        (made(get_cat_feature_indices=list), None),
        (made(), None),
    ],
)
def test_the_library_of_frames_is_shown_by_encoders(estimator, library):
    assert fitted_frames.fitted_frame_library(estimator) == library


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(("kind", "is_number"), [("f", True), ("i", True), ("b", True), ("O", False)])
def test_truth_values_with_gaps_are_numbers_where_an_imputer_met_numbers(library, kind, is_number):
    values = [True, None, False]
    frame = library({"a": values, "b": [True, False, True]})
    if library is pd.DataFrame:
        frame = frame.astype({"a": object})
    restored = fitted_frames.restore_numbers(imputer(kind, count=2), frame)
    if is_number:
        np.testing.assert_array_equal(np.asarray(restored["a"], dtype=float), [1.0, np.nan, 0.0])
    else:
        assert list(restored["a"]) == values
    assert list(restored["b"]) == [True, False, True]


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
