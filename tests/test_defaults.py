"""One word has one default wherever it is asked for."""

import importlib
import inspect
import pkgutil

import pytest

ROOMS = ("attacks", "decisions", "evaluation", "labels", "margin", "reconstruction", "statistics")
DEFAULTS = {"confidence": 0.95, "seed": 0, "delta": 0.0, "power": 0.8, "gamma": 1.0}


def callables():
    for room in ROOMS:
        package = importlib.import_module(f"divulge.{room}")
        inside = pkgutil.iter_modules(getattr(package, "__path__", ()), f"{package.__name__}.")
        for module in (package, *(importlib.import_module(info.name) for info in inside)):
            for name, value in vars(module).items():
                if callable(value) and getattr(value, "__module__", "") == module.__name__:
                    yield f"{module.__name__}.{name}", value


def defaults_of(name):
    for place, function in callables():
        try:
            parameter = inspect.signature(function).parameters.get(name)
        except ValueError:
            continue
        if parameter is not None and parameter.default is not parameter.empty:
            yield place, parameter.default


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_is_the_same_everywhere(name):
    result = dict(defaults_of(name))
    assert result
    assert {place: value for place, value in result.items() if value != DEFAULTS[name]} == {}


def test_controls_raise_a_false_alarm_in_one_of_twenty_cases_by_default():
    result = dict(defaults_of("level"))
    assert any(place.startswith("divulge.decisions.controls") for place in result)
    assert {place: value for place, value in result.items() if value != 0.05} == {}


SETTINGS = {
    "divulge.signals.mrad.Contrastive": {
        "width": 128, "latent": 16, "steps": 600, "margin": 10.0, "weight": 0.1,
    },
    "divulge.signals.mrad.MRAD": {
        "step": 1000.0, "iterations": 1, "access": "white", "directions": 100, "epsilon": 0.01, "clip": None,
        "detector": "cade", "start": "zeros", "limit": None, "shadows": 0,
    },
    "divulge.references.hyperparameters.FineTuneSettings": {
        "count": 4, "epochs": 3, "lr": None, "batch_size": 8, "lora": None, "schedule": "linear", "warmup": 0.0,
        "weight_decay": 0.0, "length": None, "bos": "tokenizer",
    },
    "divulge.targets.endpoint.Endpoint": {
        "concurrency": 8, "retries": 6, "backoff": 0.5, "timeout": 120.0, "length": None, "journal": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("place", SETTINGS)
def test_settings_are_those_that_were_measured(place):
    """Another default is another signal, or another reference model: it is changed knowingly, and measured anew."""
    module, _, name = place.rpartition(".")
    parameters = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    assert {key: parameters[key].default for key in SETTINGS[place]} == SETTINGS[place]
