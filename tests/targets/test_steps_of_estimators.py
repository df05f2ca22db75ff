"""Steps of estimators as targets: votes, names, frames, categories and types, against their definitions."""

import datetime as dt
import types

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge.errors import InputError
from divulge.targets import SklearnRegressor, SklearnTarget, estimators, skops_files

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


@pytest.mark.parametrize(
    ("estimator", "votes"),
    [
        (made(bootstrap=True, estimators_=[1, 2, 3]), 3),
        (made(bootstrap=False, estimators_=[1, 2, 3]), None),
        (made(bootstrap=True), None),
        (made(bootstrap=1, estimators_=[1, 2, 3]), None),
        (made(n_neighbors=5, weights="uniform"), 5),
        (made(n_neighbors=None, weights="uniform"), None),
        (made(n_neighbors=5, weights="distance"), None),
        (made(n_neighbors=5), None),
        (made(steps=[("a", None), ("b", made(n_neighbors=4, weights="uniform"))]), 4),
        (made(), None),
    ],
)
def test_probabilities_that_are_counts_have_a_number_of_votes(estimator, votes):
    assert estimators._vote_count(estimator) == votes


@pytest.mark.parametrize(
    ("attributes", "names", "are_certain"),
    [
        ({"feature_names_in_": ["a", 1]}, ("a", "1"), True),
        ({"feature_names_in_": ["0", "1"]}, ("0", "1"), True),
        ({"feature_names_in_": ["Column_0"], "booster_": 1}, ("Column_0",), False),
        ({"feature_name_": ["Column_0", "Column_1"]}, ("Column_0", "Column_1"), False),
        ({"feature_name_": ["Column_0", "b"]}, ("Column_0", "b"), True),
        ({"feature_names_": ["0", "1"]}, ("0", "1"), False),
        ({"feature_names_": ["0", "x1"]}, ("0", "x1"), True),
        ({"feature_names_in_": None, "feature_names_": ["a"]}, ("a",), True),
        ({"feature_names_in_": len, "feature_name_": ["a"]}, ("a",), True),
        ({}, (), False),
    ],
)
def test_names_of_columns_are_certain_unless_a_library_made_them_up(attributes, names, are_certain):
    assert estimators._column_names(made(**attributes)) == (names, are_certain)
    assert estimators.fitted_columns(made(**attributes)) == (names if are_certain else ())
    assert estimators.likely_columns(made(**attributes)) == ((names,) if names else ())


def test_parts_of_an_estimator_are_all_found():
    a, b, c = made(name="a"), made(name="b"), made(name="c")
    cases = [
        made(steps=[("x", a), ("y", b)]),
        made(transformers_=[("x", a, [0]), ("y", b, [1])]),
        made(transformer_list=[("x", a), ("y", b)]),
        made(estimators_=[a, b]),
        made(estimators_=np.array([[a, b]], dtype=object)),
        made(calibrated_classifiers_=[a, b]),
        *(made(**{name: made(steps=[("x", a), ("y", b)])}) for name in estimators._INNER_NAMES),
    ]
    for case in cases:
        assert [part for part in estimators.sub_estimators(case) if hasattr(part, "name")] == [a, b]
    nested = made(estimators_=[made(best_estimator_=c)], steps=[("x", a)])
    assert [part.name for part in estimators.sub_estimators(nested) if hasattr(part, "name")] == ["a", "c"]
    assert list(estimators.direct_parts(made(estimators_=None))) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2.5, None], "numbers"),
        ([True, False], "truth values"),
        ([np.bool_(True), None], "truth values"),
        ([1, True], "numbers"),
        (["a", None], "texts"),
        ([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)], "dates"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "dates"),
        (["a", 1], None),
        ([None, float("nan")], None),
        ([], None),
    ],
)
def test_values_have_the_type_that_all_of_them_have(value, expected):
    assert estimators._type_of_values(value) == expected


@pytest.mark.parametrize(
    ("column_type", "fitted_type", "fitted", "value", "expected"),
    [
        ("dates", "texts", ["2020-01-31"], dt.datetime(2021, 2, 3), "2021-02-03"),
        ("dates", "texts", ["2020-01-31 10:00:00"], dt.datetime(2021, 2, 3, 4), "2021-02-03 04:00:00"),
        ("dates", "texts", ["2020-01-31T10:00:00"], dt.datetime(2021, 2, 3, 4), "2021-02-03T04:00:00"),
        ("dates", "texts", ["31.01.2020"], None, ValueError),
        ("dates", "texts", ["2020-01-31", "31.01.2020"], None, ValueError),
        ("dates", "texts", ["2020-1-31"], None, ValueError),
        ("numbers", "texts", ["7", "12"], 7.0, "7"),
        ("numbers", "texts", ["7", "12"], 7.5, "7.5"),
        ("numbers", "texts", ["007"], None, ValueError),
        ("numbers", "texts", ["7", "x"], None, ValueError),
        ("truth values", "texts", ["True", "False"], True, "True"),
        ("truth values", "texts", ["true", "FALSE", "x"], False, "FALSE"),
        ("texts", "dates", [], "2020-01-31", dt.datetime(2020, 1, 31)),
        ("texts", "numbers", [], "2.5", 2.5),
        ("texts", "truth values", [], "TRUE", True),
        ("texts", "truth values", [], "false", False),
        ("numbers", "dates", [], None, KeyError),
        ("dates", "numbers", [], None, KeyError),
    ],
)
def test_values_are_brought_to_the_spelling_that_the_model_knows(column_type, fitted_type, fitted, value, expected):
    if isinstance(expected, type):
        with pytest.raises(expected):
            estimators._find_conversion(column_type, fitted_type, fitted)
        return
    assert estimators._find_conversion(column_type, fitted_type, fitted)(value) == expected


def encoder(*categories, **attributes):
    return made(categories_=[np.array(each, dtype=object) for each in categories], **attributes)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_columns_are_given_as_the_encoders_know_them(library):
    frame = library({"a": [1, 2], "b": ["x", "y"], "c": [1.5, 2.5]})
    restored = estimators.restore_types(encoder(["1", "2"], ["x"], [1.5]), frame)
    assert list(restored["a"]) == ["1", "2"]
    assert list(restored["b"]) == ["x", "y"]
    assert list(restored["c"]) == [1.5, 2.5]
    with pytest.raises(InputError, match="column 'b' holds texts, and the target was fitted on numbers such as '1'"):
        estimators.restore_types(encoder([1], [1], [1]), frame)
    assert estimators.restore_types(encoder(["1"], ["x"]), frame) is frame  # of other columns
    assert estimators.restore_types(encoder([1], ["x"], [True, False]), frame) is frame
    gaps = library({"a": ["1", None]})
    assert next(iter(estimators.restore_types(encoder([1, 2]), gaps)["a"])) == 1.0
    array = np.zeros((2, 2))
    assert estimators.restore_types(encoder(["1"]), array) is array


def test_missing_values_are_what_they_were_to_each_encoder():
    frame = pd.DataFrame({"a": ["x", None], "b": ["x", np.nan], "c": ["x", "y"], "d": [1.0, np.nan]}, dtype=object)
    fitted = encoder(["x", np.nan], ["x", None], ["x", None], ["x"])
    restored = estimators.restore_missing(fitted, frame)
    assert isinstance(restored["a"][1], float)
    assert restored["b"][1] is None
    assert restored["c"].tolist() == ["x", "y"]
    assert frame["a"][1] is None
    numbers = pd.DataFrame({"a": [1.0, np.nan], "b": [1.0, np.nan]})
    restored = estimators.restore_missing(encoder([1.0, np.nan], [1.0, None]), numbers)
    assert restored["a"].dtype == float
    assert restored["b"].dtype == object
    assert restored["b"][1] is None
    polars = pl.DataFrame({"a": [None]})
    assert estimators.restore_missing(fitted, polars) is polars


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
    assert estimators.fitted_frame_library(estimator) == library


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("b", ("b",)),
        (["c", "a"], ("c", "a")),
        (1, ("b",)),
        ([2, 0], ("c", "a")),
        (slice(1, None), ("b", "c")),
        ([True, False, True], ("a", "c")),
        ([5], ()),
        ([], ()),
    ],
)
def test_columns_of_a_part_are_chosen_by_name_or_place(chosen, expected):
    assert estimators._select_names(("a", "b", "c"), chosen) == expected


def test_each_part_has_the_columns_that_it_is_given():
    one, two, three = made(name="one"), made(name="two"), made(name="three")
    keeps = imputer()
    pipeline = made(steps=[("i", keeps), ("a", one), ("b", two)])
    found = {id(part): names for part, names in estimators._parts_with_columns(pipeline, ("x", "y"))}
    assert [found[id(part)] for part in (keeps, one, two)] == [("x", "y"), ("x", "y"), ()]
    columns = made(transformers_=[("a", one, ["y"]), ("b", two, [0])], transformer_list=[("c", three)])
    found = {id(part): names for part, names in estimators._parts_with_columns(columns, ("x", "y"))}
    assert [found[id(part)] for part in (one, two, three)] == [("y",), ("x",), ("x", "y")]
    named = made(feature_names_in_=["q"], estimators_=[one], best_estimator_=two)
    found = {id(part): names for part, names in estimators._parts_with_columns(named, ("x", "y"))}
    assert [found[id(part)] for part in (one, two)] == [("q",), ("q",)]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(("kind", "is_number"), [("f", True), ("i", True), ("b", True), ("O", False)])
def test_truth_values_with_gaps_are_numbers_where_an_imputer_met_numbers(library, kind, is_number):
    values = [True, None, False]
    frame = library({"a": values, "b": [True, False, True]})
    if library is pd.DataFrame:
        frame = frame.astype({"a": object})
    restored = estimators.restore_numbers(imputer(kind, count=2), frame)
    if is_number:
        np.testing.assert_array_equal(np.asarray(restored["a"], dtype=float), [1.0, np.nan, 0.0])
    else:
        assert list(restored["a"]) == values
    assert list(restored["b"]) == [True, False, True]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (made(predict=len, _estimator_type="regressor"), True),
        (made(predict=len, _estimator_type="classifier"), False),
        (made(_estimator_type="regressor"), False),
        (made(predict=len), False),
        (SklearnRegressor, False),
    ],
)
def test_regressors_say_that_they_are(model, expected):
    assert estimators.is_regressor(model) is expected


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


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, "a", (2,)], "[1, 'a', [2]]"),
        ({"a": [1]}, "{'a': [1]}"),
        (dict, "builtins.dict"),
        (made(get_params=lambda deep: {"b": 1, "a": None}), "SimpleNamespace(a=None, b=1)"),
        (object(), "<object object>"),
        (None, "None"),
    ],
)
def test_parameters_are_described_alike_in_every_process(value, expected):
    assert estimators._describe_parameter(value) == expected
    described = estimators._describe_parameter(np.arange(4).reshape(2, 2))
    assert described.startswith("array (2, 2) ")
    assert len(described) == len("array (2, 2) ") + 16
    assert described != estimators._describe_parameter(np.arange(1, 5).reshape(2, 2))


@pytest.mark.parametrize(
    ("frames", "has_pandas", "implementation", "fitted", "expected"),
    [
        ("own", True, "pandas", "polars", "own"),
        ("polars", True, "pandas", None, "polars"),
        ("auto", True, "pandas", "polars", "polars"),
        ("auto", True, "pandas", None, "own"),
        ("auto", True, "polars", None, "own"),
        ("auto", True, "pyarrow", None, "pandas"),
        ("auto", False, "pyarrow", None, "own"),
    ],
)
def test_frames_are_of_the_library_asked_for_or_shown_or_the_records(
    monkeypatch, frames, has_pandas, implementation, fitted, expected
):
    monkeypatch.setattr(estimators, "fitted_frame_library", lambda estimator: fitted)
    monkeypatch.setattr(estimators, "has_pandas", lambda: has_pandas)
    table = made(implementation=made(value=implementation))
    assert estimators._frame_library(None, table, frames) == expected


def test_inputs_are_described_with_the_way_to_others():
    assert estimators.describe_inputs(np.zeros(2)).startswith("it was given an array; ")
    assert estimators.describe_inputs(pd.DataFrame()).startswith("it was given a data frame of pandas; ")
    assert 'frames="pandas"' in estimators.describe_inputs(pl.DataFrame())


@pytest.mark.parametrize("inputs", ["array", "named", "text"])
def test_arrays_become_frames_where_the_estimator_would_warn(inputs):
    records = dv.Records(np.arange(12.0).reshape(2, 2, 3))
    if inputs == "text":
        texts = dv.Records(np.array(["a", "b"], dtype=object))
        assert estimators.estimator_inputs(made(feature_names_in_=["x"]), texts) is texts.x
        return
    names = list("abcdef") if inputs == "named" else []
    given = estimators.estimator_inputs(made(**({"feature_names_in_": names} if names else {})), records)
    assert given.shape == (2, 6)
    assert hasattr(given, "columns") is bool(names)
    assert not hasattr(estimators.estimator_inputs(made(feature_names_in_=["a"]), records), "columns")
    assert not hasattr(estimators.estimator_inputs(made(feature_names_=names or ["a"]), records), "columns")


def nodes(left, right, feature, inner=None):
    left, right, feature = map(np.array, (left, right, feature))
    return (left >= 0 if inner is None else np.array(inner)), left, right, feature


@pytest.mark.parametrize(
    ("tree", "features", "message"),
    [
        (nodes([1, -1, -1], [2, -1, -1], [0, -2, -2]), 1, ""),
        (nodes([1, -1, -1], [2, -1, -1], [1, -2, -2]), 1, "a feature out of range"),
        (nodes([1, -1, -1], [2, -1, -1], [-1, -2, -2]), 1, "a feature out of range"),
        (nodes([1, -1, -1], [3, -1, -1], [0, -2, -2]), 1, "a child that does not come after its parent"),
        (nodes([3, -1, -1], [2, -1, -1], [0, -2, -2]), 1, "a child that does not come after its parent"),
        (nodes([0, -1, -1], [2, -1, -1], [0, -2, -2]), 1, "a child that does not come after its parent"),
        (nodes([1, -1, -1], [0, -1, -1], [0, -2, -2]), 1, "a child that does not come after its parent"),
        (nodes([-1], [-1], [-2]), 1, ""),
        (nodes([], [], [], np.zeros(0, bool)), 1, "a tree without nodes"),
    ],
)
def test_every_path_of_a_tree_ends_inside_it(tree, features, message):
    if not message:
        skops_files._check_nodes(*tree, features)
        return
    with pytest.raises(ValueError, match=message):
        skops_files._check_nodes(*tree, features)


def lightgbm(left="1 -1", right="-2 -3", feature="0 1", leaves=3, features=1):
    return (
        f"tree\nmax_feature_idx={features}\n\nTree=0\nnum_leaves={leaves}\nsplit_feature={feature}\n"
        f"left_child={left}\nright_child={right}\n\n\nend of trees\nleft_child=999"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, ""),
        ({"leaves": 1, "left": "", "right": "", "feature": ""}, ""),
        ({"leaves": 2, "left": "-1", "right": "-2", "feature": "1"}, ""),
        ({"leaves": 2, "left": "-1", "right": "-3", "feature": "1"}, "a leaf that is not there"),
        ({"leaves": 4}, "a tree with nodes that are missing"),
        ({"right": "-2"}, "a tree with nodes that are missing"),
        ({"feature": "0"}, "a tree with nodes that are missing"),
        ({"right": "-2 -4"}, "a leaf that is not there"),
        ({"left": "0 -1"}, "a child that does not come after its parent"),
        ({"left": "1 1"}, "a child that does not come after its parent"),
        ({"left": "2 -1"}, "a node that is not there"),
        ({"feature": "0 2"}, "a feature out of range"),
        ({"feature": "-1 0"}, "a feature out of range"),
    ],
)
def test_every_path_of_a_tree_of_lightgbm_ends_inside_it(changes, message):
    if not message:
        skops_files._check_lightgbm(lightgbm(**changes))
        return
    with pytest.raises(ValueError, match=message):
        skops_files._check_lightgbm(lightgbm(**changes))


def xgboost(left=(1, -1, -1), right=(2, -1, -1), feature=(0, 0, 0), features=1, dart=False):
    tree = {"left_children": left, "right_children": right, "split_indices": feature}
    booster = {"model": {"trees": [tree]}}
    return {
        "learner": {
            "gradient_booster": {"gbtree": booster} if dart else booster,
            "learner_model_param": {"num_feature": str(features)},
        }
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, ""),
        ({"left": [-1], "right": [-1], "feature": [0], "features": 0}, ""),
        ({"left": [1, -1, -1, 9], "right": [2, -1, -1, 9], "feature": [0, 0, 0, 9]}, ""),  # a node nobody reaches
        ({"right": [1, -1, -1]}, "a node that is not there, or a cycle"),
        ({"left": [0, -1, -1]}, "a node that is not there, or a cycle"),
        ({"right": [3, -1, -1]}, "a node that is not there, or a cycle"),
        ({"right": [-1, -1, -1]}, "a node that is not there, or a cycle"),
        ({"right": [2, -1]}, "a tree with nodes that are missing"),
        ({"feature": [0, 0]}, "a tree with nodes that are missing"),
        ({"left": [], "right": [], "feature": []}, "a tree with nodes that are missing"),
        ({"feature": [1, 0, 0]}, "a feature out of range"),
        ({"feature": [-1, 0, 0]}, "a feature out of range"),
        ({"feature": [1, 1, 1], "features": 2}, ""),
    ],
)
@pytest.mark.parametrize("dart", [True, False])
def test_every_path_of_a_tree_of_xgboost_ends_inside_it(changes, message, dart):
    if not message:
        skops_files._check_xgboost(xgboost(dart=dart, **changes))
        return
    with pytest.raises(ValueError, match=message):
        skops_files._check_xgboost(xgboost(dart=dart, **changes))


def machine(impl="c_svc", counts=(2, 1), n=3, **changes):
    n_classes = len(counts) if impl in ("c_svc", "nu_svc") else 2
    n_pairs = n_classes * (n_classes - 1) // 2
    return made(**{
        "_impl": impl, "_n_support": np.array(counts), "support_vectors_": np.zeros((n, 2)), "support_": np.zeros(n),
        "shape_fit_": (9, 2), "_dual_coef_": np.zeros((n_classes - 1, n)), "_intercept_": np.zeros(n_pairs),
        "_probA": np.zeros(n_pairs), "_probB": np.zeros(0),
    } | changes)  # fmt: skip


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (machine(), ""),
        (machine(counts=(1, 1, 1)), ""),
        (machine("nu_svc"), ""),
        (machine("epsilon_svr", counts=(3, 99)), ""),
        (machine("epsilon_svr", counts=(2, 1)), "another number of support vectors than counted"),
        (machine(counts=(2, 2)), "another number of support vectors than counted"),
        (machine(counts=(4, -1)), "another number of support vectors than counted"),
        (machine(support_=np.zeros(2)), "support vectors without their positions"),
        (machine(shape_fit_=(9, 3)), "support vectors of other features"),
        (machine(_dual_coef_=np.zeros((2, 3))), "coefficients that do not fit"),
        (machine(_intercept_=np.zeros(2)), "another number of intercepts"),
        (machine(counts=(1, 1, 1), _intercept_=np.zeros(6)), "another number of intercepts"),
        (machine(counts=(1, 1, 1), _probA=np.zeros(1)), ""),
        (machine(counts=(1, 1, 1), _probB=np.zeros(2)), "another number of sigmoids"),
        (machine(_probA=np.zeros(3)), "another number of sigmoids"),
    ],
)
def test_support_vectors_fit_their_counts(model, message):
    if not message:
        skops_files._check_support(model)
        return
    with pytest.raises(ValueError, match=message):
        skops_files._check_support(model)
