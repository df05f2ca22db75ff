"""Whether the user's features come from the target, whose answers depend on membership: such features hide a leak."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special, stats

from divulge import seeds, user_code
from divulge.attacks import Need
from divulge.duplicates import keep_together
from divulge.errors import InputError
from divulge.targets import GivesLogits, is_regression_model

if TYPE_CHECKING:
    from divulge.auditing.prepared import PreparedAudit
    from divulge.evidence import Measurements
    from divulge.types import AuditData, Floats, Records


def refuse_target_as_features(subject: AuditData, target: Any) -> AuditData:
    """Return the data, with the object that "module:function" names in its place; refuse features of the target's own.

    Raises:
        divulge.InputError: the features are the target, a method of it, or a torch module most of whose parameters are
            the target's: itself, a copy, a part, or a module around it.
    """
    features = subject.features
    if isinstance(features, str) and ":" in features:
        features = user_code.import_object(features, "features").value
        subject = replace(subject, features=features)
    if features is None:
        return subject
    if features is target or getattr(features, "__self__", None) is target:
        raise InputError("features: the model under audit itself: what it says of a record depends on membership")
    module, target_module = _find_module(features) if callable(features) else None, _find_module(target)
    if module is None or target_module is None:
        return subject
    share = max(_shared_share(module, target_module), _shared_share(target_module, module))
    if share > _MAX_SHARED:
        raise InputError(
            f"features: {100 * share:.0f} % of its parameters are those of the model under audit, and what they say of "
            "a record depends on membership; give another network, or, where they were frozen while that model was "
            "trained, their outputs as an array for each set"
        )
    return subject


_MAX_SHARED = 0.5  # of the numbers in the parameters
_HOLDERS = ("__self__", "func", "module", "module_", "model", "target")  # attributes that may hold a torch module
_MAX_DEPTH = 4


def _find_module(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """Return the torch module that an object is or holds; None without one."""
    torch = sys.modules.get("torch")
    if torch is None or value is None or not depth:
        return None
    if isinstance(value, torch.nn.Module):
        return value
    inner_values = (getattr(value, name, None) for name in _HOLDERS)
    return next((module for inner in inner_values if (module := _find_module(inner, depth - 1)) is not None), None)


def _shared_share(module: Any, other: Any) -> float:
    """Return the share of the numbers in a module's parameters that are another module's, too."""
    torch = sys.modules["torch"]
    own, others = (
        [p.detach() for p in each.parameters() if not torch.nn.parameter.is_lazy(p) and not p.is_meta]
        for each in (module, other)
    )
    by_shape: dict[Any, list[Any]] = {}
    for tensor in others:
        by_shape.setdefault(tensor.shape, []).append(tensor)
    n_shared = sum(t.numel() for t in own if any(_is_same(t, each) for each in by_shape.get(t.shape, [])))
    return n_shared / max(1, sum(t.numel() for t in own))


def _is_same(tensor: Any, other: Any) -> bool:
    """Check that two parameters lie in one place, or have equal values that are not all the same, as fresh biases are.

    A copy of lower precision is compared in that precision.
    """
    if tensor.device == other.device and tensor.data_ptr() == other.data_ptr():
        return True
    coarse = min(tensor.dtype, other.dtype, key=lambda dtype: dtype.itemsize)
    first, second = tensor.to("cpu", coarse), other.to("cpu", coarse)
    return bool((first == second).all()) and bool((first != first.flatten()[:1]).any())


def describe_target_features(audit: PreparedAudit, measured: Measurements) -> list[str]:
    """Return a warning where features determine the target's answers, whatever they were made with.

    A linear fit of the answers on half of the population's features predicts those of the other half; or it does so for
    their ranks, as where a feature is the logarithm of an answer. Where the records' own columns explain the answers as
    well, as under a linear model, the features add nothing.
    """
    population = audit.inputs.population
    is_read = any(recipe.needs & {Need.FEATURES, Need.RECORDS} for recipe in audit.inputs.recipes)
    if population.features is None or not is_read:
        return []
    features = np.asarray(population.features, dtype=np.float64)
    rows = _choose_rows(len(population), features.shape[1], audit.seed)
    is_fitted = keep_together(np.arange(len(rows)) % 2, features[rows]) == 0
    own_columns = _own_columns(population[rows])
    for name, answers in _target_answers(audit, measured, rows).items():
        if not _is_determined(features[rows], answers, is_fitted) or _is_determined(own_columns, answers, is_fitted):
            continue
        return [
            f"features: they determine the target's {name}: a linear fit explains more than {100 * _MAX_EXPLAINED:g} % "
            f"of their variance, or that of their ranks, on {int((~is_fitted).sum()):,} population records that it did "
            "not learn from. What comes from the target depends on membership, and attacks that learn from such "
            "features hide a leak; give features that were made without it"
        ]
    return []


_MAX_EXPLAINED = 0.999
_MIN_ROWS, _MAX_ROWS, _ROWS_PER_COLUMN = 1000, 20_000, 6  # records of which the target's answers are compared
_MIN_TESTED, _MIN_SPARE = 20, 20  # records that are predicted; those that are fitted beyond one for each column


def _choose_rows(n: int, n_columns: int, seed: int) -> Any:
    """Return rows of the population in random order, no more than the fit needs."""
    n_rows = min(max(_MIN_ROWS, _ROWS_PER_COLUMN * n_columns), _MAX_ROWS)
    return seeds.generator(seed, "features", "origin").permutation(n)[:n_rows]


def _target_answers(audit: PreparedAudit, measured: Measurements, rows: Any) -> dict[str, Floats]:
    """Return what the target says of records of the population, ``[n, k]`` each, by what it is."""
    target, records = audit.target, audit.inputs.population[rows]
    answers: dict[str, Floats] = {}
    if isinstance(target, GivesLogits):
        logits = np.asarray(target.logits(records), dtype=np.float64)
        answers = {
            "logits": logits - logits.mean(axis=1, keepdims=True),
            "probabilities": special.softmax(logits, axis=1),
        }
        if records.labels is not None and records.labels.max() < logits.shape[1]:  # whether a recipe reads it or not
            own_logits = logits[np.arange(len(logits)), records.labels]
            answers["loss"] = (special.logsumexp(logits, axis=1) - own_logits)[:, None]
    elif is_regression_model(target):
        answers = {"predictions": np.asarray(target.predictions(records), dtype=np.float64).reshape(len(records), -1)}
    signals = {
        name: np.asarray(values[audit.layout.population_rows], dtype=np.float64)[rows, None]
        for name, values in measured.target.items()
    }
    return answers | signals


def _own_columns(records: Records) -> Floats:
    """Return the records' own numbers, ``[n, d]``; none of texts."""
    return np.zeros((len(records), 0)) if records.x.dtype == object else records.x.reshape(len(records), -1)


def _is_determined(table: Floats, answers: Floats, is_fitted: Any) -> bool:
    """Check whether a linear fit explains nearly all of the answers, or of their ranks."""
    if _explained_share(table, answers, is_fitted) > _MAX_EXPLAINED:
        return True
    if not (table.shape[1] and np.isfinite(answers).all()):
        return False
    ranks, answer_ranks = stats.rankdata(table, axis=0), stats.rankdata(answers, axis=0)
    return _explained_share(ranks, answer_ranks, is_fitted) > _MAX_EXPLAINED


def _explained_share(table: Floats, answers: Floats, is_fitted: Any) -> float:
    """Return R² of a linear fit on the rows that it did not learn from; 0 where that cannot be told."""
    n_fitted, n_tested = int(is_fitted.sum()), int((~is_fitted).sum())
    if n_tested < _MIN_TESTED or n_fitted < table.shape[1] + 1 + _MIN_SPARE:
        return 0.0
    if not np.isfinite(answers).all():
        return 0.0
    spread = table[is_fitted].std(axis=0)
    standard = (table - table[is_fitted].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    design = np.column_stack([np.ones(len(table)), standard])
    coefficients = np.linalg.lstsq(design[is_fitted], answers[is_fitted], rcond=None)[0]
    residual = ((answers - design @ coefficients)[~is_fitted] ** 2).sum()
    total = ((answers - answers[is_fitted].mean(axis=0))[~is_fitted] ** 2).sum()
    scale = (answers**2).sum()
    return float(1 - residual / total) if total > 1e-12 * max(scale, 1e-300) else 0.0
