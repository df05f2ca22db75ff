"""Sentences of a forecast, names of signals, and shares of progress, each part there and not there."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import divulge as dv
from divulge.attacks import Need, Scored
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
            {"trials": 24, "scoring": 0.0},
            "1,234 records; at most 24 trial models to match the target; scoring at most about 1 s; "
            "memory about 1,536 MiB, without training",
        ),
    ],
)
def test_a_forecast_says_what_there_is(changes, expected):
    plain = {"records": 1234, "models": 0, "lessons": 0, "training": 0.0, "scoring": None, "memory": 1.5 * 2**30}
    assert Forecast(**plain | changes).text == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "1 s"), (1.4, "1 s"), (1.6, "2 s"), (89.4, "89 s"), (90, "2 min"), (120, "2 min"), (120.1, "3 min"),
        (5399, "90 min"), (5400, "1.5 h"), (36_000, "10.0 h"),
    ],
)  # fmt: skip
def test_durations_are_in_seconds_minutes_and_hours(seconds, expected):
    assert prepared._format_duration(seconds) == f"about {expected}"


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


@pytest.mark.parametrize(
    ("scores", "is_right"),
    [([1, 2, 3], True), ([1.0, 2.0], False), ([1.0, np.nan, 2.0], False), ([1.0, np.inf, 2.0], False),
     ([[1.0, 2.0, 3.0]], False)],
)  # fmt: skip
def test_scores_of_a_recipe_are_one_finite_number_for_each_record(scores, is_right):
    recipe = SimpleNamespace(name="mine")
    scored = Scored.__new__(Scored)
    object.__setattr__(scored, "scores", np.array(scores))
    if is_right:
        told = signals._check_scores(recipe, scored, 3)
        assert told.dtype == np.float64
        assert told.tolist() == scores
    else:
        count = int((~np.isfinite(np.array(scores))).sum())
        with pytest.raises(dv.InputError, match=f"mine returned .* scores, {count} of them not finite, where 3 are"):
            signals._check_scores(recipe, scored, 3)
    with pytest.raises(dv.InputError, match=r"run\(\) must return divulge.attacks.Scored, got list"):
        signals._check_scores(recipe, scores, 3)


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


@pytest.mark.parametrize("references", [None, SimpleNamespace(count=5)])
@pytest.mark.parametrize("needs", [(), (Need.REFERENCES_OUT,), (Need.REFERENCES_OUT, Need.REFERENCES_IN_AND_OUT)])
def test_models_are_counted_for_each_kind_that_a_recipe_reads(references, needs):
    recipes = [SimpleNamespace(needs=(need,)) for need in (*needs, *needs)]
    audit = SimpleNamespace(references=references, inputs=SimpleNamespace(recipes=recipes))
    assert prepared._count_models(audit) == (0 if references is None else 5 * len(needs))


@pytest.mark.parametrize(("count", "exceeds"), [(10, False), (11, True)])
def test_signals_of_models_go_to_disk_where_they_are_too_large_and_there_is_a_folder(
    count, exceeds, tmp_path, monkeypatch
):
    monkeypatch.setattr(signals, "MAX_BYTES_IN_MEMORY", 4 * 10 * 7)
    audit = SimpleNamespace(references=SimpleNamespace(count=count), scratch_folder=tmp_path)
    folder = signals._signal_folder(audit, Need.REFERENCES_OUT, 7)
    assert folder == (tmp_path / Need.REFERENCES_OUT.replace(" ", "-") if exceeds else None)
    audit.scratch_folder = None
    assert signals._signal_folder(audit, Need.REFERENCES_OUT, 7) is None
