"""All that determines a run, in words that are the same in every process."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import store
from divulge.auditing.signals import signal_names
from divulge.errors import InputError
from divulge.results import Conducted, Digests, Settings, Sizes
from divulge.signals import internals
from divulge.targets import GivesTokens, GivesWeights
from divulge.targets.rights import Own
from divulge.types import Records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.attacks import Scored
    from divulge.auditing.inputs import AuditInputs
    from divulge.auditing.prepared import AuditLog, PreparedAudit
    from divulge.recipes import Recipe
    from divulge.request import AuditOptions
    from divulge.results import PartlyKnown
    from divulge.targets import GivesLabels, GivesLogits

# Where an object lies in memory, as a repr tells it.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def describe_settings(
    given: AuditInputs, options: AuditOptions, references: Any, target: str, partial: PartlyKnown | None
) -> Settings:
    """All that determines the run: kept as its plan, and its digest names an interrupted run."""
    return Settings(
        seed=options.seed,
        recipes=tuple(recipe.name for recipe in given.recipes),
        attacks={recipe.name: f"{recipe.signal_name}: {describe_attack(recipe)}" for recipe in given.recipes},
        references="none" if references is None else describe_references(references),
        unseen_classes=given.unseen_classes,
        fpr=tuple(map(float, options.fpr)),
        calibration=float(options.calibration),
        duplicates=options.duplicates,
        outputs=options.outputs,
        device=options.device,
        data=Digests(
            candidates=_digest_records(given.candidates, given.truth),
            calibration=_digest_records(given.calibration),
            population=_digest_records(given.population),
        ),
        target=target,
        partial=partial,
    )


def describe_attack(recipe: Recipe) -> str:
    """The attack in words, and the versions of the records that it asks about."""
    return _repr_without_address(recipe.attack) + (
        "" if recipe.versions is None else f" on {_repr_without_address(recipe.versions)}"
    )


def describe_target(target: GivesLogits | GivesLabels | GivesTokens) -> str:
    """What was audited: the kind of target, and a digest of its weights where they can be read."""
    kind = type(target.target if isinstance(target, Own) else target).__name__
    if isinstance(target, GivesTokens):
        return f"{kind}, {store.hash_values(sorted(target.key().items()))[:16]}"
    if not isinstance(target, GivesWeights):
        return kind
    held = target.weights()
    return f"{kind}, weights {store.hash_values(*(part for name in sorted(held) for part in (name, held[name])))[:16]}"


def describe_arguments(arguments: Mapping[str, Any]) -> list[str]:
    """Arguments of an audit by name, each in words that are the same in every process."""
    return [f"{name}={_describe_value(arguments[name])}" for name in sorted(arguments)]


def _describe_value(value: Any) -> str:
    if isinstance(value, Records):
        return _digest_records(value)
    if is_dataclass(value) and not isinstance(value, type):
        return describe_references(value)
    return store.hash_values(value) if isinstance(value, np.ndarray) else _repr_without_address(value)


# How models are trained, but not what comes out.
_EXECUTION_SETTINGS = ("engine", "device", "workers")


def training_settings(references: Any) -> dict[str, str]:
    """What decides which reference models come out, setting by setting; what `compare` holds against another run."""
    kind = {"kind": type(getattr(references, "config", references)).__name__}
    return kind | {name: said for name, said in _reference_options(references) if name not in _EXECUTION_SETTINGS}


def describe_references(references: Any) -> str:
    """A repr that is the same in every process: functions by their name, not their address."""
    if not is_dataclass(references):
        raise InputError(f"references: divulge.references.Train or Custom is needed, got {type(references).__name__}")
    kind = type(getattr(references, "config", references)).__name__
    return f"{kind}({', '.join(f'{name}={said}' for name, said in _reference_options(references))})"


def _reference_options(references: Any) -> list[tuple[str, str]]:
    pairs = []
    config = getattr(references, "config", references)
    for option in fields(config):
        value = getattr(references, option.name, getattr(config, option.name))
        if isinstance(value, GivesTokens):
            pairs.append((option.name, f"{type(value).__name__} {store.hash_values(sorted(value.key().items()))[:16]}"))
            continue
        named = hasattr(value, "__qualname__")
        pairs.append(
            (option.name, f"{value.__module__}.{value.__qualname__}" if named else _repr_without_address(value))
        )
    return pairs


def _repr_without_address(value: object) -> str:
    return _ADDRESS.sub("", repr(value))


def _digest_records(records: Records, *more: object) -> str:
    values = records.x if records.table is None else b"".join(records.digests()).hex()
    return store.hash_values(values, *(() if records.y is None else (records.y,)), *more)


def recipe_metadata(
    case: PreparedAudit, log: AuditLog, scored: Mapping[str, Scored], fpr: Sequence[float]
) -> dict[str, Conducted]:
    """Every recipe by its name: what it read, what it was given, what it asked."""
    names = signal_names(case.given.recipes)
    return {
        recipe.name: Conducted(
            signal=recipe.signal_name,
            reads=recipe.reads,
            attack=describe_attack(recipe),
            references=recipe.references,
            training=training_settings(case.references) if recipe.needs_training else None,
            summary=recipe.summary,
            queries=log.queries.get(names[recipe.name], _count_queries(case, recipe)),
            raw_thresholds=_raw_thresholds(scored[recipe.name], fpr),
            completed_by=None if case.partial is None else case.partial.completer(recipe),
            chosen=scored[recipe.name].chosen,
        )
        for recipe in case.given.recipes
    }


def count_records(case: PreparedAudit) -> Sizes:
    """How many records of each kind, and classes."""
    given = case.given
    return Sizes(
        members=int(given.truth.sum()),
        nonmembers=int((~given.truth).sum()),
        population=given.layout.population,
        calibration=given.layout.calibration,
        classes=case.classes,
    )


def _raw_thresholds(scored: Scored, fpr: Sequence[float]) -> dict[str, float]:
    """Thresholds that the attack would set by itself, by level; none where it names none."""
    return {} if scored.nominal is None else {f"{level:g}": scored.nominal(level) for level in fpr}


def _count_queries(case: PreparedAudit, recipe: Recipe) -> int:
    """Records the target is queried on for this recipe."""
    versions = 1 + len(case.further.get(recipe.name, ()))
    asked = versions + internals.passes(recipe.inside)
    return recipe.imputed.random * case.layout.scored or asked * case.layout.total
