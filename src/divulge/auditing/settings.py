"""All that determines a run, in words that are the same in every process."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import store
from divulge.errors import InputError
from divulge.results import Digests, Settings
from divulge.targets import GivesTokens, GivesWeights
from divulge.targets.rights import UserTarget
from divulge.types import Records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.auditing.inputs import Inputs
    from divulge.recipes import Recipe
    from divulge.request import Options
    from divulge.results import PartlyKnown
    from divulge.targets import GivesLabels, GivesLogits

# Where an object lies in memory, as a repr tells it.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def settings(given: Inputs, options: Options, references: Any, target: str, partial: PartlyKnown | None) -> Settings:
    """All that determines the run: kept as its plan, and its digest names an interrupted run."""
    return Settings(
        seed=options.seed,
        recipes=tuple(recipe.name for recipe in given.recipes),
        attacks={recipe.name: f"{recipe.signal_name}: {attack(recipe)}" for recipe in given.recipes},
        references="none" if references is None else described(references),
        unseen_classes=given.unseen_classes,
        fpr=tuple(map(float, options.fpr)),
        calibration=float(options.calibration),
        duplicates=options.duplicates,
        outputs=options.outputs,
        device=options.device,
        data=Digests(
            candidates=_digest(given.candidates, given.truth),
            calibration=_digest(given.calibration),
            population=_digest(given.population),
        ),
        target=target,
        partial=partial,
    )


def attack(recipe: Recipe) -> str:
    """The attack in words, and the versions of the records that it asks about."""
    return _plain(recipe.attack) + ("" if recipe.versions is None else f" on {_plain(recipe.versions)}")


def target(target: GivesLogits | GivesLabels | GivesTokens) -> str:
    """What was audited: the kind of target, and a digest of its weights where they can be read."""
    kind = type(target.target if isinstance(target, UserTarget) else target).__name__
    if isinstance(target, GivesTokens):
        return f"{kind}, {store.digest(sorted(target.key().items()))[:16]}"
    if not isinstance(target, GivesWeights):
        return kind
    held = target.weights()
    return f"{kind}, weights {store.digest(*(part for name in sorted(held) for part in (name, held[name])))[:16]}"


def words(arguments: Mapping[str, Any]) -> list[str]:
    """Arguments of an audit by name, each in words that are the same in every process."""
    return [f"{name}={_words(arguments[name])}" for name in sorted(arguments)]


def _words(value: Any) -> str:
    if isinstance(value, Records):
        return _digest(value)
    if is_dataclass(value) and not isinstance(value, type):
        return described(value)
    return store.digest(value) if isinstance(value, np.ndarray) else _plain(value)


# How models are trained, but not what comes out.
_EXECUTION = ("engine", "device", "workers")


def training(references: Any) -> dict[str, str]:
    """What decides which reference models come out, setting by setting; what `compare` holds against another run."""
    kind = {"kind": type(getattr(references, "config", references)).__name__}
    return kind | {name: said for name, said in _options(references) if name not in _EXECUTION}


def described(references: Any) -> str:
    """A repr that is the same in every process: functions by their name, not their address."""
    if not is_dataclass(references):
        raise InputError(f"references: divulge.references.Train or Custom is needed, got {type(references).__name__}")
    kind = type(getattr(references, "config", references)).__name__
    return f"{kind}({', '.join(f'{name}={said}' for name, said in _options(references))})"


def _options(references: Any) -> list[tuple[str, str]]:
    pairs = []
    config = getattr(references, "config", references)
    for option in fields(config):
        value = getattr(references, option.name, getattr(config, option.name))
        if isinstance(value, GivesTokens):
            pairs.append((option.name, f"{type(value).__name__} {store.digest(sorted(value.key().items()))[:16]}"))
            continue
        named = hasattr(value, "__qualname__")
        pairs.append((option.name, f"{value.__module__}.{value.__qualname__}" if named else _plain(value)))
    return pairs


def _plain(value: object) -> str:
    return _ADDRESS.sub("", repr(value))


def _digest(records: Records, *more: object) -> str:
    values = records.x if records.table is None else b"".join(records.digests()).hex()
    return store.digest(values, *(() if records.y is None else (records.y,)), *more)
