"""Metadata of a run: settings, recipes and record counts, identical in every process."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import store
from divulge.auditing.signals import signal_names
from divulge.errors import InputError
from divulge.inspection import collect_arrays
from divulge.results import AuditSettings, Digests, EstimatorSummary, RecipeRun, RecordCounts
from divulge.signals import internals
from divulge.targets.estimators import Regressor, SklearnRegressor, SklearnTarget, describe_estimator
from divulge.targets.rights import FramedTarget, GivesTokens, UserTarget, weights_key
from divulge.types import Records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.attacks import Scored
    from divulge.auditing.prepared import AuditInputs, AuditLog, PreparedAudit
    from divulge.recipes import Recipe
    from divulge.results import PartialKnowledgeSettings
    from divulge.settings import AuditOptions

# Where an object lies in memory, as a repr tells it.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def describe_settings(
    inputs: AuditInputs, options: AuditOptions, references: Any, target: str, partial: PartialKnowledgeSettings | None
) -> AuditSettings:
    """Return all settings that determine the run; their digest identifies an interrupted run."""
    return AuditSettings(
        seed=options.seed,
        recipes=tuple(recipe.name for recipe in inputs.recipes),
        attacks={recipe.name: f"{recipe.signal_name}: {describe_attack(recipe)}" for recipe in inputs.recipes},
        references="none" if references is None else describe_references(references),
        unseen_classes=inputs.unseen_classes,
        fpr=tuple(map(float, options.fpr)),
        calibration=float(options.calibration),
        duplicates=options.duplicates,
        outputs=options.outputs,
        device=options.device,
        data=Digests(
            candidates=_digest_records(inputs.candidates, inputs.truth),
            calibration=_digest_records(inputs.calibration),
            population=_digest_records(inputs.population),
            features=_digest_features(inputs),
        ),
        target=target,
        partial=partial,
    )


def describe_attack(recipe: Recipe) -> str:
    """Describe a recipe's attack and the versions of the records that it queries."""
    return _repr_without_address(recipe.attack) + (
        "" if recipe.versions is None else f" on {_repr_without_address(recipe.versions)}"
    )


def describe_target(target: Any) -> str:
    """Describe the target by its type and a digest of its weights, if they can be read."""
    if isinstance(target, SklearnTarget | SklearnRegressor):
        parts = [part for array in collect_arrays(target) for part in (array.name, array.values)]
        described = describe_estimator(target.estimator)
        return f"{type(target).__name__}, {described}, arrays {store.hash_values(*parts)[:16]}"
    target_type = type(target.target if isinstance(target, UserTarget) else target).__name__
    if not (key := weights_key(target)):
        return target_type
    return f"{target_type}, {key}" if isinstance(target, GivesTokens) else f"{target_type}, weights {key}"


def summarise_estimator(target: Any) -> EstimatorSummary | None:
    """Return class and parameters of the estimator of a target; None for other kinds of target."""
    while isinstance(target, FramedTarget | Regressor):
        target = target.target
    if not isinstance(target, SklearnTarget | SklearnRegressor):
        return None
    steps = [step for _, step in target.estimator.steps] if hasattr(target.estimator, "steps") else [target.estimator]
    last = steps[-1]
    parameters = last.get_params(deep=False) if callable(getattr(last, "get_params", None)) else {}
    plain = (bool, int, str, type(None))
    values = {
        str(name): value
        if isinstance(value, plain) or (isinstance(value, float) and np.isfinite(value))
        else _describe_parameter(value)
        for name, value in sorted(parameters.items())
    }
    return EstimatorSummary(type(last).__name__, values, tuple(type(step).__name__ for step in steps[:-1]))


def _describe_parameter(value: Any) -> str:
    return describe_estimator(value) if callable(getattr(value, "get_params", None)) else _repr_without_address(value)


def describe_arguments(arguments: Mapping[str, Any]) -> list[str]:
    """Describe the arguments of an audit by name, identically in every process."""
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
    """Return the settings that determine the reference models, as compared between two runs."""
    training = {"kind": type(getattr(references, "config", references)).__name__}
    return training | {name: value for name, value in _reference_options(references) if name not in _EXECUTION_SETTINGS}


def describe_references(references: Any) -> str:
    """Return a repr that is identical in every process: functions by name, not by address."""
    if not is_dataclass(references):
        raise InputError(f"references: divulge.references.Train or Custom is needed, got {type(references).__name__}")
    training_type = type(getattr(references, "config", references)).__name__
    return f"{training_type}({', '.join(f'{name}={value}' for name, value in _reference_options(references))})"


def _reference_options(references: Any) -> list[tuple[str, str]]:
    pairs = []
    config = getattr(references, "config", references)
    for option in fields(config):
        if not option.repr:
            continue
        value = getattr(references, option.name, getattr(config, option.name))
        if value is None and option.name in ("match", "stop_after"):
            continue
        if option.name == "base" and (key := weights_key(value)):
            pairs.append((option.name, f"{type(value).__name__} {key}"))
            continue
        if option.name == "estimator":
            pairs.append((option.name, describe_estimator(value)))
            continue
        has_qualified_name = hasattr(value, "__qualname__")
        pairs.append(
            (
                option.name,
                f"{value.__module__}.{value.__qualname__}" if has_qualified_name else _repr_without_address(value),
            )
        )
    return pairs


def _repr_without_address(value: object) -> str:
    return _ADDRESS.sub("", repr(value))


def _digest_records(records: Records, *extra: object) -> str:
    values = records.x if records.table is None else b"".join(records.digests()).hex()
    return store.hash_values(values, *(() if records.y is None else (records.y,)), *extra)


def _digest_features(inputs: AuditInputs) -> str:
    """Return a digest of the user's features of all records, and of their names; empty without any."""
    sets = (inputs.candidates, inputs.calibration, inputs.population)
    values = [records.features for records in sets if records.features is not None]
    return store.hash_values(*values, *(inputs.population.feature_names or ())) if values else ""


def recipe_metadata(
    audit: PreparedAudit, log: AuditLog, scored: Mapping[str, Scored], fpr: Sequence[float]
) -> dict[str, RecipeRun]:
    """Return the metadata of every recipe: signal, attack, reference models, queries."""
    names = signal_names(audit.inputs.recipes)
    return {
        recipe.name: RecipeRun(
            signal=recipe.signal_name,
            reads=recipe.reads,
            attack=describe_attack(recipe),
            references=recipe.references,
            training=training_settings(audit.references) if recipe.needs_training else None,
            summary=recipe.summary,
            queries=log.queries.get(names[recipe.name], _count_queries(audit, recipe)),
            raw_thresholds=_raw_thresholds(scored[recipe.name], fpr),
            completed_by=None if audit.partial_knowledge is None else audit.partial_knowledge.completed_by(recipe),
            chosen=scored[recipe.name].chosen,
        )
        for recipe in audit.inputs.recipes
    }


def count_records(audit: PreparedAudit) -> RecordCounts:
    """Count the records of each kind and the classes."""
    inputs = audit.inputs
    return RecordCounts(
        members=int(inputs.truth.sum()),
        nonmembers=int((~inputs.truth).sum()),
        population=inputs.layout.population,
        calibration=inputs.layout.calibration,
        classes=audit.n_classes,
    )


def _raw_thresholds(scored: Scored, fpr: Sequence[float]) -> dict[str, float]:
    """Return the thresholds that the attack itself sets, by level; empty if it sets none."""
    return {} if scored.nominal is None else {f"{level:g}": scored.nominal(level) for level in fpr}


def _count_queries(audit: PreparedAudit, recipe: Recipe) -> int:
    """Count the records on which the target is queried for a recipe."""
    versions = 1 + len(audit.version_views.get(recipe.name, ()))
    n_passes = versions + internals.count_passes(recipe.inside)
    return recipe.imputed.random * audit.layout.scored or n_passes * audit.layout.total
