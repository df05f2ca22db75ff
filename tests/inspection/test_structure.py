"""Hints of a model's structure: every part of a wrapped model, counts as a loop counts them, SACRO-ML's list."""

import json

import catboost
import lightgbm
import numpy as np
import polars as pl
import pytest
import skops.io
import xgboost
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import KNNImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import ClassifierChain, MultiOutputRegressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import divulge as dv
from divulge.inspection import inspect_model, inspect_outputs
from divulge.inspection.structure import find_weighted_trees
from divulge.settings import InspectionSettings

RNG = np.random.default_rng(0)
N = 120
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] + RNG.normal(size=N) > 0).astype(int)
Z = X[:, 0] + RNG.normal(size=N)
GRADES = np.digitize(Z, [-1, 1])


def names(model, **options):
    return {hint.name for hint in inspect_model(model, **options).hints}


def texts(model, name, **options):
    return [hint.found for hint in inspect_model(model, **options).hints if hint.name == name]


@pytest.mark.parametrize(
    ("model", "y", "n"),
    [
        (make_pipeline(KNNImputer(), Ridge()), Z, N),
        (ColumnTransformer([("fill", KNNImputer(), [0, 1])]), Z, N),
        (GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [3]}, cv=2), Y, N),
        (VotingClassifier([("k", KNeighborsClassifier()), ("l", LogisticRegression())], weights=[0, 1]), Y, N),
        (CalibratedClassifierCV(KNeighborsClassifier(), cv=2), Y, N // 2),
        (StackingRegressor([("k", KNeighborsRegressor()), ("l", Ridge())], cv=2), Z, N),
        (TransformedTargetRegressor(KNeighborsRegressor()), Z, N),
        (MultiOutputRegressor(KNeighborsRegressor()), np.column_stack([Z, Z]), N),
        (GaussianProcessClassifier(optimizer=None), Y, N),
        (GaussianProcessClassifier(optimizer=None), GRADES, N),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_records_that_a_part_of_a_model_keeps_are_named(model, y, n):
    assert any(f"holds {n} records" in hint_text for hint_text in texts(model.fit(X, y), "stored records"))


def test_settings_are_those_of_the_fitted_parts_and_not_of_a_template():
    coarse = GridSearchCV(RandomForestClassifier(3, random_state=0), {"min_samples_leaf": [30]}, cv=2).fit(X, Y)
    assert not inspect_model(coarse).hints
    fine = GridSearchCV(RandomForestClassifier(40, min_samples_leaf=30), {"min_samples_leaf": [1]}, cv=2).fit(X, Y)
    assert {"least records of a leaf", "depth", "listed setting", "records of a leaf"} <= names(fine)
    for wrapped in (
        CalibratedClassifierCV(DecisionTreeClassifier(random_state=0), cv=2).fit(X, Y),
        TransformedTargetRegressor(DecisionTreeRegressor(random_state=0)).fit(X, Z),
        BaggingRegressor(DecisionTreeRegressor(), 2, random_state=0).fit(X, Z),
    ):
        assert {"least records of a leaf", "depth", "listed setting"} <= names(wrapped)
    forest = RandomForestClassifier(3, random_state=0).fit(X, Y)
    assert texts(forest, "least records of a leaf") == ["RandomForestClassifier: 1"]  # its trees are not named again


def test_a_part_that_stands_twice_is_counted_once():
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, Y)
    calibrated = CalibratedClassifierCV(FrozenEstimator(tree)).fit(X, Y)
    assert inspect_model(calibrated).leaves == tree.get_n_leaves()


def test_weights_of_records_and_classes_are_no_counts():
    weights = RNG.random(N) * 50
    for model in (
        DecisionTreeClassifier(random_state=0).fit(X, Y, sample_weight=weights),
        DecisionTreeClassifier(class_weight={0: 1, 1: 40}, random_state=0).fit(X, Y),
        RandomForestClassifier(3, random_state=0).fit(X, Y, sample_weight=weights),
        RandomForestRegressor(3, bootstrap=False, random_state=0).fit(X, Z, sample_weight=weights),
    ):
        assert inspect_model(model).training_records == N


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (DecisionTreeClassifier(), Y),
        (RandomForestClassifier(3), Y),
        (RandomForestRegressor(3, bootstrap=False), Z),
        (BaggingRegressor(DecisionTreeRegressor(), 2), Z),
        (GradientBoostingRegressor(n_estimators=2, subsample=0.5), Z),
        (GradientBoostingRegressor(n_estimators=2), Z),
        (TransformedTargetRegressor(ExtraTreesRegressor(2)), Z),
        (IsolationForest(n_estimators=2), Z),
    ],
)
def test_sample_weights_show_in_trees_and_only_there_where_they_were(model, y):
    assert find_weighted_trees(model.fit(X, y)) == ""
    assert find_weighted_trees(model.fit(X, y, sample_weight=RNG.random(N))) != ""
    assert find_weighted_trees(AdaBoostClassifier(n_estimators=2).fit(X, Y)) == ""
    assert find_weighted_trees(RandomForestClassifier(2, class_weight="balanced").fit(X, Y)) == ""


def test_an_audit_says_that_clones_know_nothing_of_sample_weights():
    sets = [dv.Records(X[part], Y[part]) for part in (slice(40), slice(40, 80), slice(80, N))]
    forest = RandomForestClassifier(5, random_state=0)
    for weights in (None, RNG.random(40)):
        result = dv.audit(
            forest.fit(sets[0].x, sets[0].y, sample_weight=weights), members=sets[0], nonmembers=sets[1],
            population=sets[2], references=dv.references.Train(count=2, engine="serial"), recipes=["calibrated"],
            fpr=[0.1], progress=None,
        )  # fmt: skip
        assert any("was fitted with sample weights" in text for text in result.warnings) == (weights is not None)


def test_a_model_may_show_fewer_records_than_it_saw_and_never_more():
    for model, fewest in (
        (GradientBoostingRegressor(n_estimators=2, subsample=0.5).fit(X, Z), N // 2),
        (HistGradientBoostingClassifier(max_iter=2, early_stopping=True).fit(X, Y), N - 12),
        (lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1).fit(X, Y), N),
        (MLPClassifier((3,), tol=1e9, n_iter_no_change=1).fit(X, Y), N),
        (BaggingRegressor(Ridge(), 2, max_samples=0.3).fit(X, Z), N),
        (IsolationForest(n_estimators=2, max_samples=20).fit(X), N),
    ):
        assert fewest <= inspect_model(model).training_records <= N
    assert inspect_model(LogisticRegression().fit(X, Y)).training_records is None
    neighbours = KNeighborsClassifier().fit(X, Y)
    assert texts(neighbours, "number of training records", training_records=100) == [
        "the model shows 120, and 100 are given"
    ]
    assert "number of training records" not in names(neighbours, training_records=N)
    with pytest.raises(dv.InputError, match="training_records: must be at least 1, got 0"):
        inspect_model(neighbours, training_records=0)


def test_parameters_are_counted_as_a_loop_counts_them():
    def count(tree, per_leaf):
        return sum(per_leaf if left_child < 0 else 2 for left_child in tree.tree_.children_left)

    forest = RandomForestClassifier(4, random_state=0).fit(X, GRADES)
    expected = sum(count(tree, 2) for tree in forest.estimators_)
    assert texts(forest, "residual degrees of freedom") == [
        f"trees: {N - expected:,} ({N} records, {expected:,} parameters)"
    ]
    stump = DecisionTreeRegressor(max_depth=1).fit(X, Z)
    assert texts(stump, "residual degrees of freedom", settings=InspectionSettings(degrees_of_freedom=200)) == [
        "trees: 116 (120 records, 4 parameters)"
    ]
    boosted = xgboost.XGBRegressor(n_estimators=3, max_depth=2).fit(X, Z)
    table = boosted.get_booster().trees_to_dataframe()
    n_leaves = int((table.Feature == "Leaf").sum())
    n_parameters = 2 * (len(table) - n_leaves) + n_leaves
    (hint_text,) = texts(
        boosted, "residual degrees of freedom", settings=InspectionSettings(degrees_of_freedom=N), training_records=N
    )
    assert hint_text.endswith(f"({N} records, {n_parameters} parameters)")
    rounds = lightgbm.LGBMRegressor(n_estimators=3, num_leaves=4, verbose=-1, n_jobs=1).fit(X, Z)
    (hint_text,) = texts(rounds, "residual degrees of freedom", settings=InspectionSettings(degrees_of_freedom=N))
    assert hint_text.endswith(f"({N} records, {3 * (4 + 3 * 2)} parameters)")
    network = MLPClassifier((40,), tol=1e9, n_iter_no_change=1).fit(X, Y)
    assert texts(network, "residual degrees of freedom") == ["MLPClassifier: -81 (120 records, 201 parameters)"]
    assert texts(Ridge().fit(X, Z), "residual degrees of freedom", training_records=12) == [
        "Ridge: 8 (12 records, 4 parameters)"
    ]
    assert not texts(SVC(kernel="linear").fit(X, Y), "residual degrees of freedom", training_records=12)
    # CatBoost: all nodes of a level share one split.
    depths = {"depth": 3, "iterations": 4, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    (hint_text,) = texts(
        catboost.CatBoostRegressor(**depths).fit(X, Z), "residual degrees of freedom",
        settings=InspectionSettings(degrees_of_freedom=N), training_records=N,
    )  # fmt: skip
    assert hint_text.endswith(f"({N} records, {4 * (8 + 2 * 3)} parameters)")


def test_catboosts_empty_leaves_hold_nobody():
    options = {"iterations": 4, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    model = catboost.CatBoostClassifier(**options).fit(X, Y)
    weights = [weight for weight in model.get_leaf_weights() if weight]
    inspection_result = inspect_model(model)
    assert (inspection_result.leaves, inspection_result.single_leaves) == (
        len(weights),
        sum(weight <= 1 for weight in weights),
    )
    assert inspect_model(catboost.CatBoostClassifier(**options).fit(X, GRADES)).leaves == 0  # it does not say


def test_outcomes_of_small_leaves_are_disclosed_where_leaves_hold_outcomes():
    tree = DecisionTreeRegressor(min_samples_leaf=2, random_state=0).fit(X, np.round(Z))
    leaf = tree.apply(X)
    pure = sum(len(set(np.round(Z)[leaf == leaf_id])) == 1 and sum(leaf == leaf_id) < 10 for leaf_id in set(leaf))
    assert texts(tree, "value disclosure") == [
        f"{pure} of {tree.get_n_leaves()} leaves hold few records, all of one value"
    ]
    for model in (  # of residuals and of random numbers
        GradientBoostingRegressor(n_estimators=2, max_depth=8, random_state=0).fit(X, Z),
        IsolationForest(n_estimators=2, random_state=0).fit(X),
    ):
        assert not {"value disclosure", "class disclosure"} & names(model)
    assert "class disclosure" not in names(DecisionTreeClassifier().fit(X[:5], np.zeros(5)))  # there is one class
    two_outputs = DecisionTreeClassifier(random_state=0).fit(X, np.column_stack([np.zeros(N, dtype=int), GRADES]))
    only = DecisionTreeClassifier(random_state=0).fit(X, GRADES)
    assert texts(two_outputs, "class disclosure") == texts(only, "class disclosure")


def test_growth_that_is_bounded_otherwise_is_not_called_unlimited():
    assert "depth" not in names(HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=2).fit(X, Y))
    assert "depth" not in names(RandomForestRegressor(2, min_samples_leaf=20).fit(X, Z))
    assert "bootstrap" in names(ExtraTreesRegressor(2, min_samples_leaf=20).fit(X, Z))
    assert "bootstrap" not in names(BaggingRegressor(Ridge(), 2, bootstrap=False, max_samples=0.5).fit(X, Z))
    share = RandomForestClassifier(2, min_samples_leaf=0.01).fit(X, Y)
    assert texts(share, "least records of a leaf") == ["RandomForestClassifier: 2"]


@pytest.mark.parametrize(
    ("model", "is_listed"),
    [
        (DecisionTreeClassifier(max_depth=8, min_samples_leaf=7), True),
        (DecisionTreeClassifier(max_depth=8, min_samples_leaf=15), True),
        (DecisionTreeClassifier(max_depth=8, min_samples_leaf=15, max_features=2), False),
        (DecisionTreeClassifier(max_depth=7, min_samples_leaf=7), True),
        (DecisionTreeClassifier(max_depth=7, min_samples_leaf=7, splitter="random"), False),
        (DecisionTreeClassifier(max_depth=3), False),
        (DecisionTreeClassifier(min_samples_leaf=16), False),
        (RandomForestClassifier(36, max_depth=4), True),
        (RandomForestClassifier(36, max_depth=4, max_features=None, min_samples_split=16), False),
        (RandomForestClassifier(36, max_depth=3), False),
        (RandomForestClassifier(16, max_depth=8, bootstrap=False), True),
        (RandomForestClassifier(16, max_depth=8), False),
        (xgboost.XGBClassifier(n_estimators=4), True),
        (xgboost.XGBClassifier(n_estimators=13, min_child_weight=3), True),
        (xgboost.XGBClassifier(n_estimators=13, min_child_weight=4), False),
        (xgboost.XGBClassifier(n_estimators=63, min_child_weight=6), True),
        (xgboost.XGBClassifier(n_estimators=13, max_depth=3), False),
        (SVC(), True),
    ],
)
def test_listed_settings_are_those_of_the_list(model, is_listed):
    """The rules agreed with SACRO-ML's own in 3,532 settings, of which it lists 867."""
    assert ("listed setting" in names(model.fit(X, Y))) == is_listed


def test_outputs_that_differ_in_their_last_bits_alone_are_one_output():
    class Jitter(SVR):
        def predict(self, x):
            return 1e9 * (x[:, 0] > 0) + np.arange(len(x)) * 1e-6  # as threads that add in another order

    model = Jitter().fit(X, Z)
    assert not [hint for hint in inspect_outputs(model, dv.Records(X)) if hint.name == "records of an output"]


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (DecisionTreeClassifier(), np.column_stack([Y, GRADES])),
        (DecisionTreeClassifier(), np.column_stack([Y, Y])),
        (ClassifierChain(LogisticRegression()), np.column_stack([Y, 1 - Y])),
    ],
)
def test_models_of_several_outcomes_are_refused_with_the_way_on(model, y):
    model.fit(X, y)
    with pytest.raises(dv.InputError, match=r"predicts 2 outcomes at once; audit one label"):
        inspect_outputs(model, dv.Records(X))
    with pytest.raises(dv.InputError, match=r"predicts 2 outcomes at once"):
        dv.audit(model, members=dv.Records(X[:40], Y[:40]), nonmembers=dv.Records(X[40:80], Y[40:80]),
                 population=dv.Records(X[80:], Y[80:]))  # fmt: skip


def test_hints_stand_with_what_was_measured_of_them():
    forest = RandomForestClassifier(40, random_state=0).fit(X, Y)
    hints = inspect_model(forest).hints + inspect_outputs(forest, dv.Records(X))
    measured = {hint.name: hint.measured for hint in hints}
    assert len(measured) == 9
    assert all("benchmarks/results/" in text for text in measured.values())


def test_a_plan_may_hold_thresholds_and_an_option_goes_before_it(tmp_path, divulge):
    skops.io.dump(DecisionTreeClassifier(min_samples_leaf=4, max_depth=4).fit(X, Y), tmp_path / "m.skops")
    columns = {f"x{i}": X[:, i] for i in range(X.shape[1])} | {"label": Y}
    for number, name in enumerate(("members", "nonmembers", "population")):
        pl.DataFrame(columns)[40 * number : 40 * number + 40].write_csv(tmp_path / f"{name}.csv")
    sets = "".join(f'{name} = "{name}.csv"\n' for name in ("members", "nonmembers", "population"))
    plan = f'[target]\nmodel = "m.skops"\n[data]\n{sets}label = "label"\n[inspect]\nleaf_records = 3\n'
    (tmp_path / "plan.toml").write_text(plan + "output_records = 1\ndegrees_of_freedom = 1\n")
    code, out, err = divulge("inspect", tmp_path / "plan.toml", "--json")
    assert code == 0, err
    hint_texts = {hint["name"]: hint["found"] for hint in json.loads(out)["hints"]}
    assert "the model shows 120, and 40 are given" in hint_texts["number of training records"]
    assert not {"records of a leaf", "records of an output", "least records of a leaf"} & set(hint_texts)
    code, _, err = divulge("inspect", tmp_path / "plan.toml", "--members", tmp_path / "members.csv")
    assert (code, "members: the plan names" in err) == (2, True)
    (tmp_path / "plan.toml").write_text(plan + "leaf = 3\n")
    code, _, err = divulge("inspect", tmp_path / "plan.toml")
    assert (code, "leaf" in err) == (2, True)
