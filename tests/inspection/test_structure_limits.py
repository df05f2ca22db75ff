"""Limits of the hints of a structure: each on its bound and just beyond."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import divulge as dv
from divulge.inspection import inspect_model, inspect_outputs, structure
from divulge.inspection.arrays import ModelArray
from divulge.settings import InspectionSettings
from divulge.targets import CallableTarget


def part(kind, **parameters):
    """An estimator of a class of this name that has these parameters."""
    return type(kind, (), {"get_params": lambda self, deep=True: parameters})()


def is_listed(kind, n_records=100, **parameters):
    return structure._listed_setting(part(kind, **parameters), n_records) is not None


@pytest.mark.parametrize(
    ("rounds", "highest"),
    [(3, -1), (4, 1.5), (12, 1.5), (13, 3), (62, 3), (63, 6), (1000, 6), (3.5, -1), (12.5, 1.5), (62.5, 3)],
)
def test_boosting_is_listed_by_its_rounds_and_the_weight_of_a_child(rounds, highest):
    for weight in (0.5, 1.5, 1.6, 3, 3.1, 6, 6.1):
        for depth in (3, 3.5, 3.6, 4, 6, None):
            listed = is_listed("XGBClassifier", n_estimators=rounds, min_child_weight=weight, max_depth=depth)
            assert listed == ((depth is None or depth > 3.5) and weight <= highest)
    assert is_listed("XGBRegressor")  # 100 rounds of depth 6 and weight 1
    assert not is_listed("XGBRegressor", min_child_weight=7)
    assert structure._listed_setting(part("XGBClassifier", n_estimators=1234, max_depth=5), 10) == (
        "1,234 rounds of depth 5, min_child_weight 1", "max_depth = 3, or min_child_weight above 6", "boosting",
    )  # fmt: skip
    assert structure._listed_setting(part("XGBClassifier"), 10)[0] == "100 rounds of depth 6, min_child_weight 1"


def test_trees_are_listed_by_depth_leaves_splits_and_columns():
    grid = itertools.product((None, 3, 4, 7, 8), (1, 7, 8, 15, 16), (2, 15, 16), ("best", "random"), (None, "sqrt"))
    for depth, leaf, split, splitter, columns in grid:
        deep, deeper = depth is None or depth >= 4, depth is None or depth >= 8
        best, every = splitter == "best", columns is None
        expected = deeper and leaf <= 7 and (split <= 15 or best or every)
        if best and every:
            expected = expected or (deeper and leaf <= 15) or (deep and leaf <= 7)
        settings = {"max_depth": depth, "min_samples_leaf": leaf, "min_samples_split": split}
        listed = is_listed("DecisionTreeClassifier", splitter=splitter, max_features=columns, **settings)
        assert listed == expected, settings
    finding, threshold, family = structure._listed_setting(part("DecisionTreeRegressor", splitter="best"), 9)
    assert finding == "depth unlimited, leaves of 1"
    assert (threshold, family) == ("max_depth = 3, or min_samples_leaf = 16", "tree")
    finding, *_ = structure._listed_setting(part("DecisionTreeRegressor", max_depth=8), 9)
    assert finding == "depth 8, leaves of 1"


@pytest.mark.parametrize("kind", ["RandomForestClassifier", "ExtraTreesClassifier", "ExtraTreesRegressor"])
def test_forests_are_listed_by_depth_trees_and_draws(kind):
    grid = itertools.product((None, 3, 4, 7, 8), (15, 16, 35, 36), (15, 16), (15, 16), (True, False), (None, "sqrt"))
    for depth, trees, leaf, split, bootstrap, columns in grid:
        deep, deeper = depth is None or depth >= 4, depth is None or depth >= 8
        expected = deep and trees >= 36 and (columns is not None or (split <= 15 and bootstrap))
        expected = expected or (deeper and 16 <= trees <= 35 and leaf <= 15 and not bootstrap)
        settings = {"max_depth": depth, "n_estimators": trees, "min_samples_leaf": leaf, "min_samples_split": split}
        assert is_listed(kind, bootstrap=bootstrap, max_features=columns, **settings) == expected, settings
    finding = structure._listed_setting(part(kind, max_features="sqrt", n_estimators=1000), 9)
    assert finding == ("1,000 trees of unlimited depth", "max_depth = 3, or at most 15 trees", "forest")
    assert structure._listed_setting(part(kind, max_features="sqrt", max_depth=9), 9)[0] == "100 trees of depth 9"


def test_shares_of_the_records_are_counted_in_records():
    for n_records, listed in ((100, True), (101, False), (None, True)):
        assert is_listed("DecisionTreeClassifier", n_records, splitter="best", min_samples_leaf=0.15) == listed
    for n_records, listed in ((100, True), (107, False)):
        settings = {"splitter": "random", "max_features": "sqrt", "min_samples_split": 0.15, "min_samples_leaf": 7}
        assert is_listed("DecisionTreeClassifier", n_records, **settings) == listed


@pytest.mark.parametrize("kind", ["KNeighborsClassifier", "RadiusNeighborsRegressor", "SVC", "NuSVC", "SVR", "NuSVR"])
def test_kinds_that_keep_records_are_listed_whatever_their_settings(kind):
    assert structure._listed_setting(part(kind), None)[2] == "stored"
    assert structure._listed_setting(part("Linear" + kind), None) is None


@pytest.mark.parametrize(
    ("parameters", "n_records", "expected"),
    [
        ({"min_samples_leaf": 3}, None, 3),
        ({"min_child_samples": np.int64(4)}, None, 4),
        ({"min_data_in_leaf": 5}, None, 5),
        ({"min_samples_leaf": 0.02}, 100, 2),
        ({"min_samples_leaf": np.float64(0.021)}, 100, 3),
        ({"min_samples_leaf": 0.02}, None, None),
        ({"min_samples_leaf": None, "min_data_in_leaf": 6}, 10, 6),
        ({"other": 1}, 10, None),
    ],
)
def test_the_least_records_of_a_leaf_are_a_number_or_a_share(parameters, n_records, expected):
    assert structure._leaf_minimum(parameters, n_records) == expected


def hint_names(*parts, leaf_records=10, n_records=100):
    pairs = [(each, None) for each in parts]
    hints = structure._setting_hints(pairs, n_records, InspectionSettings(leaf_records=leaf_records))
    return {hint.name: hint.found for hint in hints}


GROWS = {"max_depth": None, "max_leaf_nodes": None, "min_samples_leaf": 9}


def test_settings_that_leak_are_those_below_the_threshold():
    assert hint_names(part("Tree", **GROWS)) == {"least records of a leaf": "Tree: 9", "depth": "Tree: unlimited"}
    assert hint_names(part("Tree", **GROWS | {"min_samples_leaf": 10})) == {}
    for bound in ({"max_depth": 5}, {"max_leaf_nodes": 5}):
        assert set(hint_names(part("Tree", **GROWS | bound))) == {"least records of a leaf"}
    for missing in ("max_depth", "max_leaf_nodes"):
        assert "depth" not in hint_names(part("Tree", **{key: GROWS[key] for key in GROWS if key != missing}))


@pytest.mark.parametrize(
    ("parameters", "has_trees", "off"),
    [
        ({"bootstrap": False}, True, True),
        ({"bootstrap": False, "max_samples": 1.0}, True, True),
        ({"bootstrap": False, "max_samples": 0.9}, True, False),
        ({"bootstrap": True}, True, False),
        ({}, True, False),
        ({"bootstrap": False}, False, False),
    ],
)
def test_every_tree_saw_every_record_only_where_none_was_drawn(parameters, has_trees, off):
    forest = part("Forest", **parameters)
    if has_trees:
        forest.estimators_ = []
    assert ("bootstrap" in hint_names(forest)) == off


def test_parts_that_an_ensemble_made_have_no_settings_of_their_own():
    tree = part("DecisionTreeClassifier", **GROWS)
    for owner in ("RandomForestClassifier", "ExtraTreesClassifier", "ExtraTreesRegressor", "GradientBoostingRegressor",
                  "IsolationForest", "RandomTreesEmbedding", "HistGradientBoostingClassifier"):  # fmt: skip
        assert structure._configured_parts([(tree, part(owner))]) == []
    assert structure._configured_parts([(tree, part("BaggingClassifier")), (tree, None)]) == [tree, tree]


@pytest.mark.parametrize(
    ("weight", "count", "bootstrap", "shown"),
    [
        (100.0, 100, False, False),
        (100.0 + 0.9e-4, 100, False, False),
        (100.0 + 1.5e-4, 100, False, True),
        (101.0, 100, False, True),
        (101.0, 100, True, False),
        (100.5, 100, True, True),
    ],
)
def test_weights_show_where_their_sum_is_no_number_of_records_or_of_draws(weight, count, bootstrap, shown):
    tree = SimpleNamespace(weighted_n_node_samples=np.array([weight]), n_node_samples=np.array([count]))
    model = type("Tree", (), {"tree_": tree, "bootstrap": bootstrap})()
    owner = type("Forest", (), {"bootstrap": bootstrap, "estimators_": [model]})()
    assert structure.find_weighted_trees(owner) == ("Forest" if shown else "")
    if not bootstrap:
        assert structure.find_weighted_trees(model) == ("Tree" if shown else "")
    for each in (model, owner):
        each.class_weight = "balanced"
        assert structure.find_weighted_trees(owner) == ""
        del each.class_weight
    boosted = type("AdaBoostClassifier", (), {"estimators_": [model]})()
    assert structure.find_weighted_trees(boosted) == ""


@pytest.mark.parametrize(
    ("n_iter", "t", "size"), [(4, 480, 120), (4, 483, 120), (0, 480, None), (4, 0, None), (1, 1, 1)]
)
def test_networks_show_the_records_of_all_their_epochs(n_iter, t, size):
    network = SimpleNamespace(coefs_=[], n_iter_=n_iter, t_=t)
    assert structure._training_size([network], []) == size


def test_the_largest_number_that_any_part_shows_is_that_of_the_records():
    tree = SimpleNamespace(tree_=SimpleNamespace(n_node_samples=np.array([30, 20, 10])))
    leaves = [ModelArray("tree 0.leaf_count", np.array([20, 21])), ModelArray("tree 0.leaf_value", np.array([99, 9]))]
    assert structure._training_size([tree], []) == 30
    assert structure._training_size([tree], leaves) == 41
    assert structure._training_size([SimpleNamespace(shape_fit_=(50, 3)), tree], leaves) == 50
    assert structure._training_size([SimpleNamespace(n_samples_fit_=60), tree], leaves) == 60
    assert structure._training_size([SimpleNamespace(_n_samples=np.int64(70), shape_fit_=()), tree], leaves) == 70
    assert structure._training_size([SimpleNamespace(support_vectors_=np.zeros((80, 2)))], []) is None
    assert structure._training_size([SimpleNamespace(_fit_X=np.zeros((80, 2)))], []) == 80
    assert structure._training_size([], []) is None


def test_tables_and_indices_of_records_are_what_is_stored():
    assert structure._stored_rows(SimpleNamespace(X_=np.zeros((7, 2)))) == (7, "records")
    assert structure._stored_rows(SimpleNamespace(X_=np.zeros(7))) is None
    assert structure._stored_rows(SimpleNamespace(X_=np.zeros((7, 2, 2)))) is None
    assert structure._stored_rows(SimpleNamespace(component_indices_=np.zeros(5))) == (5, "some of the records")
    assert structure._stored_rows(SimpleNamespace(core_sample_indices_=np.zeros((3, 1)))) == (3, "some of the records")


@pytest.mark.parametrize(
    ("shown", "given", "hinted"), [(11, 10, True), (10, 10, False), (9, 10, False), (None, 10, False), (9, None, False)]
)
def test_more_records_than_were_given_are_hinted_at(shown, given, hinted):
    hints = structure._size_hints(shown, given)
    assert len(hints) == hinted
    if hinted:
        assert hints[0].found == "the model shows 11, and 10 are given"


@pytest.mark.parametrize(("n_records", "degrees", "hinted"), [(15, 10, False), (14, 10, True), (None, 10, False)])
def test_free_parameters_are_held_against_their_threshold(n_records, degrees, hinted):
    linear = SimpleNamespace(coef_=np.zeros((1, 4)), intercept_=np.zeros(1))
    settings = InspectionSettings(degrees_of_freedom=degrees)
    hints = structure._freedom_hints(linear, [linear], [], n_records, settings)
    assert len(hints) == hinted
    assert [hint.found for hint in hints] == ["SimpleNamespace: 9 (14 records, 5 parameters)"] * hinted
    network = SimpleNamespace(named_parameters=lambda: [("w", SimpleNamespace(numel=lambda: 3))] * 2)
    assert len(structure._freedom_hints(network, [], [], 15, settings)) == 1
    assert len(structure._freedom_hints(network, [], [], 16, settings)) == 0
    assert structure._freedom_hints(network, [linear], [], 15, settings) == []
    trees = [ModelArray("0.leaf_weights", np.ones(4))]
    (hint,) = structure._freedom_hints(network, [linear], trees, 8, settings)[1:]
    assert hint.found == "trees: 0 (8 records, 8 parameters)"
    assert hint.measured


def test_weights_of_a_part_are_counted_with_their_intercepts():
    assert structure._count_weights(SimpleNamespace(coef_=np.zeros((2, 3)), intercept_=np.zeros(2))) == 8
    assert structure._count_weights(SimpleNamespace(coef_=np.zeros(3))) == 4
    assert structure._count_weights(SimpleNamespace(coef_=np.zeros(3), support_vectors_=1)) == 0
    layers = {"coefs_": [np.zeros((2, 3)), np.zeros((3, 1))], "intercepts_": [np.zeros(3), np.zeros(1)]}
    assert structure._count_weights(SimpleNamespace(**layers)) == 13
    assert structure._count_weights(SimpleNamespace()) == 0


def tree_of(counts, values, impurity=None, *, classes=True):
    """A tree whose root has one leaf for each count."""
    n = len(counts)
    tree = SimpleNamespace(
        n_node_samples=np.array([sum(counts), *counts]),
        children_left=np.array([1] + [-1] * n),
        value=np.array([np.mean(values, axis=0), *values])[:, None],
        n_classes=np.array([len(values[0])]),
        impurity=np.array([1.0, *(impurity or [1.0] * n)]),
    )
    return SimpleNamespace(tree_=tree, **({"classes_": [0, 1]} if classes else {}))


def test_leaves_of_few_records_disclose_what_all_of_them_have():
    settings = InspectionSettings(leaf_records=10)
    values = [[1.0, 0.0], [0.0, 3.0], [1 - 1e-13, 1e-13], [1 - 1e-11, 1e-11], [1.0, 0.0]]
    (hint,) = structure._purity_hints([(tree_of([9, 1, 9, 9, 10], values), None)], settings)
    assert (hint.name, hint.found) == ("class disclosure", "3 of 5 leaves hold few records, all of one class")
    numbers = tree_of([9, 9, 10], [[1.0]] * 3, [0.0, 1e-9, 0.0], classes=False)
    (hint,) = structure._purity_hints([(numbers, None), (numbers, None)], settings)
    assert (hint.name, hint.found) == ("value disclosure", "2 of 6 leaves hold few records, all of one value")
    one_class = tree_of([9, 9], [[1.0], [1.0]])
    assert structure._purity_hints([(one_class, None)], settings) == []
    for owner in ("GradientBoostingRegressor", "IsolationForest", "RandomTreesEmbedding"):
        assert structure._purity_hints([(numbers, part(owner))], settings) == []


def test_leaves_are_counted_below_the_threshold_and_as_single():
    arrays = {"tree 0.leaf_count": np.array([1, 4, 5, 0, 12]), "x.leaf_weights": np.array([0.0, 0.5, 3.0])}
    result = inspect_model(arrays, InspectionSettings(leaf_records=5))
    assert (result.leaves, result.small_leaves, result.single_leaves) == (6, 4, 2)
    (hint,) = [hint for hint in result.hints if hint.name == "records of a leaf"]
    assert (hint.found, hint.threshold) == ("4 of 6 leaves hold fewer, 2 hold one", "at least 5")
    fine = inspect_model({"tree 0.leaf_count": np.array([5, 6])}, InspectionSettings(leaf_records=5))
    assert "records of a leaf" not in {hint.name for hint in fine.hints}


def test_arrays_with_a_row_for_each_record_are_long():
    shapes = {"b": (7,), "a": (2, 7), "c": (8, 1), "d": (), "e": (7, 7), "f": (3, 7)}
    arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
    result = inspect_model(arrays, training_records=7)
    assert result.long_arrays == (("a", (2, 7)), ("b", (7,)), ("e", (7, 7)), ("f", (3, 7)))
    assert (result.arrays, result.training_records) == (6, 7)
    (hint,) = [hint for hint in result.hints if hint.name == "arrays"]
    assert hint.found == "4 as long as the training set (7): a, b, e"
    assert inspect_model(arrays, training_records=1).long_arrays == ()  # nearly every array has one of something
    assert inspect_model({"a": np.zeros((2, 3))}, training_records=2).long_arrays == (("a", (2, 3)),)
    assert inspect_model(arrays).long_arrays == ()


def outputs_of(probabilities, output_records=3):
    """Hints of a model that answers the i-th record with the i-th row."""
    table = np.asarray(probabilities, float)
    target = CallableTarget(lambda x: table[x[:, 0].astype(int)], outputs="probabilities")
    records = dv.Records(np.arange(len(table), dtype=float)[:, None])
    hints = inspect_outputs(target, records, InspectionSettings(output_records=output_records))
    return {hint.name: hint.found for hint in hints}


def test_outputs_are_held_against_their_thresholds():
    """Three of one kind are enough; a probability of a third of three records is one record of a class."""
    half, sure = [0.5, 0.5], [0.9, 0.1]
    assert outputs_of([half] * 6) == {}
    hints = outputs_of([half] * 6 + [sure] * 2)
    assert hints["records of an output"] == "2 of 8 records have an output that fewer share; the rarest has 2"
    assert hints["small groups"] == "1 of 2 outputs stand for fewer records of a class"
    assert outputs_of([half] * 5) == {"small groups": "1 of 1 outputs stand for fewer records of a class"}
    assert "records of an output" not in outputs_of([half] * 3)
    assert "records of an output" in outputs_of([half] * 2)


@pytest.mark.parametrize(("smallest", "ruled_out"), [(0.0, True), (1.5e-7, True), (2.5e-7, False)])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_a_class_is_ruled_out_by_a_probability_that_is_0_as_far_as_targets_tell(smallest, ruled_out, n_classes):
    row = np.full(n_classes, smallest)
    row[0] = 1 - row[1:].sum()
    hints = outputs_of([row] * 4)
    assert ("class disclosure by outputs" in hints) == ruled_out
    assert ("small groups" in hints) == (not ruled_out)  # so few of a class that it is a small cell
    if ruled_out:
        assert hints["class disclosure by outputs"] == "4 of 4 records have an output that rules a class out"


@pytest.mark.parametrize(("gap", "rare"), [(0.4e-12, 0), (3e-12, 4)])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e6])
def test_outputs_are_one_to_twelve_digits_of_the_largest(gap, rare, scale):
    class Numbers:
        def predictions(self, records):
            return scale * (1 + gap * (records.x[:, 0] % 2) - 0.5)

    hints = inspect_outputs(Numbers(), dv.Records(np.arange(4.0)[:, None]), InspectionSettings(output_records=3))
    assert len(hints) == bool(rare)
