"""What is said of settings that do not fit, and how their bounds, choices and columns are told."""

import pytest

from divulge.errors import InputError
from divulge.settings import ColumnNames, CustomPlan, FineTunePlan, Plan, TrainPlan


def refused(message):
    return pytest.raises(InputError, match=message)


def test_columns_have_one_meaning_each():
    assert ColumnNames.from_options(label="y", id=None, drop=[]).model_fields_set == {"label"}
    with refused("^--label: 'y' is named for two things"):
        ColumnNames.from_options(label="y", id="y", text="z")
    with refused("'z' is named for two things"):
        ColumnNames.from_options(label="y", id="z", text="z")
    assert ColumnNames(label="y", text="t", drop=["d"]).required() == {"label": "y", "text": "t"}
    assert ColumnNames().required() == {}
    assert ColumnNames(text=None).required() == {}
    assert ColumnNames().special() == ["label", "id"]
    assert ColumnNames(id="i", group="g", person="p", drop=["g", "d"]).special() == ["label", "i", "g", "p", "d"]


FILES = {"target": {"model": "m"}, "data": {"members": "a", "nonmembers": "b", "population": "c"}}


@pytest.mark.parametrize(
    ("references", "plan_type"),
    [
        ({"count": 2}, TrainPlan),
        ({"make_model": "a:b", "count": 2}, TrainPlan),
        ({"train": "a:b"}, CustomPlan),
        ({"base": "x", "count": 0}, FineTunePlan),
        ({"base": "x", "lora": {}}, FineTunePlan),
    ],
)
def test_reference_models_come_about_in_one_way(references, plan_type):
    found = Plan.check(**FILES, references=references).references
    assert type(found) is plan_type
    assert type(Plan.check(**FILES, references=found).references) is plan_type


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"references": {"train": "a:b", "base": "x"}},
            "one of make_model, train and base may be given, got train and base",
        ),
        ({"references": {"lora": {}, "count": 2}}, "lora goes with base"),
        ({"references": {"count": 1}}, "references.count: must be at least 2, got 1"),
        ({"recipe": {"lira": 3}}, "tables of settings are needed"),
        ({"recipe": "lira"}, "tables of settings are needed"),
    ],
)
def test_other_tables_are_refused(changes, message):
    with refused(message):
        Plan.check(**FILES, **changes)


def test_attacks_with_a_table_are_those_of_a_plan_that_names_none():
    assert Plan.check(**FILES, recipe={"lira": {}, "loss": {}}).recipes == ("lira", "loss")
    assert Plan.check(**FILES, recipe={"lira": {}}, recipes=["rmia"]).recipes == ("rmia",)
    assert Plan.check(**FILES).recipes == ("auto", "loss")
    assert Plan.check(**FILES, recipe={}).recipes == ("auto", "loss")
