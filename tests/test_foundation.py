"""Types, validation, random streams and the store."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import settings

import divulge as dv
from divulge import seeds, validation


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[np.nan, 1.0]], [0], "x: 1 values are NaN or infinite"),
        ([[1.0], [2.0]], [0], "y: 2 labels are needed"),
        ([[1.0], [2.0]], [0.5, np.nan], "y: records without class or value: 1"),
        ([], [], "x: at least 1 entry"),
        ([[1.0], [2.0, 3.0]], None, "x: "),
    ],
)
def test_records_say_what_is_wrong(x, y, message):
    with pytest.raises(dv.InputError, match=message):
        dv.Records(x, y)


def test_records_are_indexed_with_their_labels_and_ids():
    records = dv.Records(np.arange(6.0).reshape(3, 2), [0, 1, 2], ids=["a", "b", "c"])
    picked = records[np.array([2, 0])]
    assert picked.ids.tolist() == ["c", "a"]
    assert picked.y.tolist() == [2, 0]


def test_repeated_ids_are_refused():
    with pytest.raises(dv.InputError, match="'a' occurs more than once"):
        dv.Records([[1.0], [2.0]], ids=["a", "a"])


def test_partial_records_never_read_unknown_values():
    poisoned = dv.PartialRecords(np.array([[1.0, np.nan], [np.nan, 2.0]]), [0, 1], np.eye(2, dtype=bool))
    assert poisoned.x.tolist() == [[1.0, 0.0], [0.0, 2.0]]
    with pytest.raises(dv.InputError, match="no known value at all"):
        dv.PartialRecords(np.ones((2, 2)), None, np.array([[True, True], [False, False]]))
    with pytest.raises(dv.InputError, match="known: shape"):
        dv.PartialRecords(np.ones((2, 2)), None, np.ones((2, 3), dtype=bool))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": [0.0, np.inf]}, "target: 1 values"),
        ({"target": [0.0], "references": [[1.0, 2.0]]}, "references: 1 columns"),
        ({"target": [0.0], "references": [[1.0]], "trained_on": [[1.0]]}, "trained_on: bool"),
        (
            {"target": [0.0], "population": [1.0], "population_references": [[1.0, 2.0]]},
            "population_references",
        ),
        ({"target": [0.0], "features": [[1.0], [2.0]]}, "features: 2 rows"),
    ],
)
def test_evidence_says_what_does_not_fit(arguments, message):
    with pytest.raises(dv.InputError, match=message):
        dv.Evidence(**arguments)


def test_streams_are_independent_and_repeatable():
    assert seeds.derive_seed(1, "a") == seeds.derive_seed(1, "a")
    assert (
        len(
            {
                seeds.derive_seed(1, "a"),
                seeds.derive_seed(1, "b"),
                seeds.derive_seed(2, "a"),
                seeds.derive_seed(1, "a", 0),
            }
        )
        == 4
    )


def test_import_is_light():
    code = (
        "import sys, divulge; first = [m for m in ('numpy', 'sklearn', 'polars') if m in sys.modules]; divulge.audit; "
        "print(first, 'torch' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "[] False\n"


def test_the_command_line_starts_without_numpy():
    code = "import sys, divulge.cli; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_unknown_choice_suggests_the_nearest():
    with pytest.raises(dv.InputError, match="did you mean 'lira'"):
        validation.check_choice("lirra", "recipe", ("lira", "rmia"))


def test_a_guarantee_says_how_it_stands_and_never_gets_better():
    claim = dv.Guarantee("FDR", 0.1, ("a", "b"))
    assert (claim.standing, claim.holds, str(claim)) == ("holds", True, "FDR ≤ 0.1, assuming a and b")
    doubtful, void = claim.capped_at("doubtful"), claim.capped_at("void")
    assert doubtful.holds
    assert str(doubtful) == "DOUBTFUL: FDR ≤ 0.1, only if a and b"
    assert not void.holds
    assert str(void).startswith("VOID: FDR ≤ 0.1 ")
    assert void.capped_at("holds") == void == doubtful.capped_at("void")
    assert doubtful.capped_at("holds") == doubtful
    with pytest.raises(dv.InputError, match=r"standing: .*'broken'"):
        dv.Guarantee("FDR", 0.1, (), "broken")


@pytest.mark.skipif("HYPOTHESIS" in os.environ, reason="random examples are asked for")
def test_examples_are_the_same_in_every_run():
    """A module's own settings, too, are made from the profile that `conftest.py` loads."""
    assert settings().derandomize
    assert settings(max_examples=3).derandomize
