"""What is said of settings that do not fit, and how their bounds, choices and columns are told."""

from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import Field

from divulge import settings
from divulge.errors import InputError
from divulge.settings import ColumnNames, CustomPlan, FineTunePlan, Plan, Settings, TrainPlan


def refused(message):
    return pytest.raises(InputError, match=message)


class Inner(Settings):
    """A table inside another."""

    rate: settings.Rate = Field(0.5)


class Example(Settings):
    """Settings of every kind."""

    whole: settings.Integer = Field(3, ge=1, le=9)
    share: settings.Share = Field(0.5)
    open_end: settings.Number = Field(1.0, gt=0, allow_inf_nan=False)
    below: settings.Number = Field(0.0, lt=2.5)
    flag: settings.Flag = Field(False)
    name: settings.Name = Field("a")
    word: Literal["one", "two"] | None = Field("one")
    words: list[str] = Field([])
    rates: Annotated[tuple[settings.Rate, ...], Field(min_length=1)] = Field((0.5,))
    two: Annotated[list[str], Field(min_length=2)] | None = Field(None)
    inner: Inner | None = Field(None)
    either: int | float = Field(1, ge=0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"whole": 0}, "whole: must be at least 1, got 0"),
        ({"whole": 10}, "whole: must be at most 9, got 10"),
        ({"whole": 1.5}, "whole: a whole number is needed, got 1.5"),
        ({"whole": True}, "whole: a whole number is needed"),
        ({"share": 1.1}, r"share: must lie in \[0, 1\], got 1.1"),
        ({"share": "a"}, "share: a number is needed, got 'a'"),
        ({"open_end": 0.0}, r"open_end: must lie in \(0, inf\), got 0.0"),
        ({"open_end": float("inf")}, "open_end: must be finite, got inf"),
        ({"below": 2.5}, r"below: must lie in \(-inf, 2.5\), got 2.5"),
        ({"flag": 1}, "flag: True or False is needed, got 1"),
        ({"name": ""}, "name: a text is needed, got ''"),
        ({"name": 3}, "name: a text is needed, got 3"),
        ({"word": "tow"}, "word: 'tow' is unknown; did you mean 'two'"),
        (
            {"words": "a"},
            r"words: a list is needed, such "
            r"as \['a'\], got 'a'",
        ),
        ({"rates": ()}, "rates: at least 1 entry is needed, got none"),
        ({"two": ["a"]}, "two: at least 2 entries are needed, got 1"),
        ({"rates": (0.5, 1)}, r"rates: must lie in \(0, 1\)"),
        ({"inner": {"rate": 2.0}}, r"inner.rate: must lie in \(0, 1\), got 2.0"),
        ({"inner": 3}, "inner: a table is needed"),
        ({"inner": {"rat": 1}}, "unknown key inner.rat: 'rat' is unknown; did you mean 'rate'"),
        ({"inner": {"whole": 1}}, "unknown key inner.whole: it stands at the top"),
        ({"hole": 1}, "unknown key hole: 'hole' is unknown; did you mean 'whole'"),
        ({"either": "x"}, "either: a number is needed, got 'x'"),
        ({"either": -1}, "either: must be at least 0, got -1"),
    ],
)
def test_each_mistake_is_named_with_its_bound_and_value(values, message):
    with refused(f"^{message}"):
        Example.check(**values)


def test_a_missing_key_is_said():
    with refused("target is missing; data.population is missing|target is missing"):
        Plan.check(data={"members": "a", "nonmembers": "b"})


def test_values_at_the_bounds_are_allowed_and_numpys_numbers_are_plain():
    found = Example.check(whole=np.int64(9), share=1.0, below=np.float32(2.0), flag=np.bool_(True), inner={"rate": 0.1})
    assert (found.whole, found.share, found.below, found.flag, found.inner.rate) == (9, 1.0, 2.0, True, 0.1)
    assert type(found.whole) is int
    assert settings._unwrap_scalar(np.array(3)).tolist() == 3
    assert isinstance(settings._unwrap_scalar(np.array(3)), np.ndarray)
    assert settings._unwrap_scalar([1]) == [1]


def test_a_list_is_no_single_value():
    assert settings._as_tuple(np.array([1, 2])) == (1, 2)
    assert settings._as_tuple([1]) == (1,)
    for value in ("a", b"a", {"a": 1}, 3, np.zeros((1, 2)), np.array(3)):
        with pytest.raises(settings.PydanticCustomError, match="a list is needed, such as"):
            settings._as_tuple(value)


@pytest.mark.parametrize(
    ("name", "limits", "words", "choices"),
    [
        ("whole", {"ge": 1, "le": 9}, "at least 1 and at most 9", ()),
        ("name", {}, "", ()),
        ("open_end", {"gt": 0}, "above 0", ()),
        ("below", {"lt": 2.5}, "below 2.5", ()),
        ("rates", {"gt": 0, "lt": 1}, "above 0 and below 1", ()),
        ("word", {}, "", ("one", "two")),
        ("share", {"ge": 0, "le": 1}, "at least 0 and at most 1", ()),
        ("words", {}, "", ()),
    ],
)
def test_bounds_and_choices_are_those_of_the_field(name, limits, words, choices):
    field = Example.model_fields[name]
    assert settings.bounds(field) == limits
    assert settings.format_limits(field) == words
    assert settings.choices(field) == choices


def test_attributes_become_plain_numbers():
    class Holder:
        whole, share, flag, name = np.int64(4), 1, np.bool_(True), "a"

    holder = Holder()
    Example.check_attributes(holder, "name")
    assert (type(holder.whole), type(holder.share), type(holder.flag)) == (int, float, bool)
    holder.whole = 0
    with refused("^whole: must be at least 1"):
        Example.check_attributes(holder)
    Example.check_attributes(holder, "whole")


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
