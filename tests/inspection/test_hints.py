"""Hints of arrays and outputs, each on its threshold and just beyond."""

import numpy as np
import pytest

import divulge as dv
from divulge.inspection import inspect_model, inspect_outputs
from divulge.settings import InspectionSettings
from divulge.targets import CallableTarget


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
