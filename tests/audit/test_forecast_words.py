"""Sentences of a forecast, names of signals, and shares of progress, each part there and not there."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import divulge as dv
from divulge.attacks import Need
from divulge.auditing import prepared, signals
from divulge.auditing.prepared import Forecast


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "1,234 records; memory about 1,536 MiB, without training"),
        (
            {"models": 2, "lessons": 1000, "training": 31.0},
            "1,234 records; 2 reference models of 1,000 records on average; training at most about 31 s on one core; "
            "memory about 1,536 MiB, without training",
        ),
        (
            {"models": 1, "lessons": 5, "training": None},
            "1,234 records; 1 reference models of 5 records on average; training of unknown length; "
            "memory about 1,536 MiB, without training",
        ),
        (
            {"trials": 24, "scoring": 0.0, "checks": 130.0},
            "1,234 records; at most 24 trial models to match the target; "
            "scoring at most about 1 s; attacks and checks about 3 min; "
            ""
            "memory about 1,536 MiB, without training",
        ),
    ],
)
def test_a_forecast_says_what_there_is(changes, expected):
    plain = {"records": 1234, "models": 0, "lessons": 0, "training": 0.0, "scoring": None, "memory": 1.5 * 2**30}
    assert Forecast(**plain | changes).text == expected


def test_progress_of_a_part_is_that_of_all_parts():
    told = []
    for part in (0, 1, 2):
        signals.progress_of_part(lambda *words: told.append(words), part, 3)(1.5, 4, "serial")
    assert told == [(1.5, 12, "serial"), (5.5, 12, "serial"), (9.5, 12, "serial")]


@pytest.mark.parametrize("partial", [None, SimpleNamespace(trained_on_mask=lambda rows: ~rows)])
@pytest.mark.parametrize("need", [Need.REFERENCES_IN_AND_OUT, Need.REFERENCES_OUT])
def test_reference_models_that_never_see_candidates_have_seen_the_population_alone(need, partial):
    audit = SimpleNamespace(layout=SimpleNamespace(scored=3), partial_knowledge=partial)
    rows = np.array([[True, False], [False, False]])
    told = signals.trained_on_mask(audit, need, rows)
    if need == Need.REFERENCES_OUT:
        np.testing.assert_array_equal(told, [[False, False, False, True, False], [False] * 5])
    else:
        np.testing.assert_array_equal(told, rows if partial is None else ~rows)


def recipe(name, signal, signal_name="loss", output_signal=None, beside=(), inside=()):
    return SimpleNamespace(
        name=name, signal=signal, signal_name=signal_name, output_signal=output_signal, beside=beside, inside=inside
    )


def test_the_later_of_two_signals_of_one_name_is_told_by_its_recipe():
    first, second, third = object(), object(), object()
    told = signals.signal_names(
        [
            recipe("a", first, "mine"), recipe("b", second, "mine"), recipe("c", first, "mine"),
            recipe("d", third, "other"), recipe("e", "loss"),
        ]
    )  # fmt: skip
    assert told == {"a": "mine", "b": "mine (b)", "c": "mine", "d": "other", "e": "loss"}


def test_signals_that_ask_the_target_themselves_are_those_without_outputs():
    own, other = object(), object()
    recipes = [recipe("a", own, "mine"), recipe("b", other, "other", output_signal=object()), recipe("c", own, "mine")]
    assert signals.active_signals(recipes) == {"mine": own}
    assert signals.white_box_names([recipe("a", 0, inside=("x", "y")), recipe("b", 0, inside=("y", "z"))]) == (
        "x",
        "y",
        "z",
    )


@dataclass
class Training:
    count: int = 4
    engine: str = "auto"
    device: str = "cpu"
    match: object = None
    make: object = len
    value: object = None


def test_a_training_is_described_by_what_determines_its_models():
    training = Training(value=SimpleNamespace)
    options = "count=4, engine='auto', device='cpu', make=builtins.len, value=types.SimpleNamespace"
    assert prepared.describe_references(training) == f"Training({options})"
    assert prepared.training_settings(training) == {
        "kind": "Training", "count": "4", "make": "builtins.len", "value": "types.SimpleNamespace",
    }  # fmt: skip
    assert prepared.training_settings(Training(match="auto"))["match"] == "'auto'"
    with pytest.raises(dv.InputError, match=r"Train or Custom is needed, got int"):
        prepared.describe_references(3)
    assert prepared.describe_arguments({"b": 1, "a": object()}) == ["a=<object object>", "b=1"]
    same, other = (prepared.describe_arguments({"x": np.arange(n)}) for n in (3, 4))
    assert same == prepared.describe_arguments({"x": np.arange(3)}) != other
    assert prepared.describe_arguments({"x": training}) == [f"x=Training({options})"]
