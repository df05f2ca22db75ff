"""Hints from a model's structure, without any data: arrays as long as its training set, small leaves, leaking settings.

These are hints. What an attack measures decides; a model without a hint may leak, and one with hints may not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from divulge import errors
from divulge.errors import InputError
from divulge.inspection.arrays import collect_arrays, read_model
from divulge.report.sections import MEASURED_HINTS
from divulge.settings import InspectionSettings
from divulge.targets.estimators import SklearnRegressor, SklearnTarget, describe_estimator, sub_estimators
from divulge.targets.rights import adapt
from divulge.types import Records
from divulge.validation import check_instance

if TYPE_CHECKING:
    from divulge.types import Array, Ints

_DEFAULTS = InspectionSettings()
_DIGITS = 12  # to which outputs are compared
_RULED_OUT = 1e-9  # probability of a class below which it is ruled out


@dataclass(frozen=True, slots=True)
class Hint:
    """One thing about a model's structure that may give training records away.

    Args:
        name: what was looked at.
        found: what was found, with its number.
        threshold: what it was held against.
        meaning: what it may give away.
        measured: what we measured of it elsewhere; empty where nothing was.
    """

    name: str
    found: str
    threshold: str
    meaning: str
    measured: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """Findings in a model's file, without any data.

    Args:
        model: class and parameters, as far as they are known.
        arrays: number of arrays of numbers.
        training_records: number of records that it was trained on, as the model says; None where it does not.
        long_arrays: name and shape of each array with a row for so many records.
        leaves: number of leaves whose records are counted.
        small_leaves: number of those with fewer records than the threshold.
        single_leaves: number of those with one record.
        hints: what may give records away.
    """

    model: str
    arrays: int
    training_records: int | None
    long_arrays: tuple[tuple[str, tuple[int, ...]], ...]
    leaves: int
    small_leaves: int
    single_leaves: int
    hints: tuple[Hint, ...]


def inspect_file(path: str | Path, settings: InspectionSettings = _DEFAULTS) -> Inspection:
    """Inspect the model in a file, without data; see `inspect_model`.

    Raises:
        divulge.InputError: as `divulge.inspection.read_model`.
    """
    return inspect_model(read_model(Path(path)), settings)


def inspect_model(model: Any, settings: InspectionSettings = _DEFAULTS) -> Inspection:
    """Say which arrays are as long as the training set, which leaves hold few records, which settings leak.

    Args:
        model: an estimator, a target, or what `divulge.inspection.read_model` returned.
        settings: the thresholds.

    Examples:
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> findings = inspect_model(KNeighborsClassifier(1).fit([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], [0, 1, 0]))
        >>> findings.training_records, [name for name, _ in findings.long_arrays]
        (3, ['_fit_X', '_y'])
    """
    model = model.estimator if isinstance(model, SklearnTarget | SklearnRegressor) else model
    is_estimator = callable(getattr(model, "get_params", None))
    parts = list(sub_estimators(model)) if is_estimator else []
    arrays = collect_arrays(model)
    counts = [values for part in parts if (values := _leaf_counts(part)) is not None]
    counts += [a.values for a in arrays if a.name.endswith(".leaf_count") and a.name.count("tree ")]
    leaves = np.concatenate(counts).astype(np.int64) if counts else np.zeros(0, dtype=np.int64)
    n_records = _training_size(parts, arrays)
    long_arrays = tuple(
        (array.name, tuple(array.values.shape))
        for array in sorted(arrays, key=lambda a: a.name)
        if n_records is not None and n_records > 1 and array.values.ndim and n_records in array.values.shape
    )
    hints = [
        *_storing_hints(parts),
        *_long_hints(long_arrays, n_records),
        *_leaf_hints(leaves, settings),
        *_purity_hints(parts, settings),
        *_freedom_hints(parts, n_records, settings),
        *_setting_hints(parts, settings),
        *_listed_hints(parts),
    ]
    return Inspection(
        model=describe_estimator(model) if is_estimator else type(model).__name__,
        arrays=len(arrays),
        training_records=n_records,
        long_arrays=long_arrays,
        leaves=len(leaves),
        small_leaves=int((leaves < settings.leaf_records).sum()),
        single_leaves=int((leaves == 1).sum()),
        hints=tuple(dict.fromkeys(hints)),
    )


def inspect_outputs(
    model: Any, members: Records, settings: InspectionSettings = _DEFAULTS, *, outputs: str = "logits"
) -> tuple[Hint, ...]:
    """Say how many training records share an output: k-anonymity, classes that outputs rule out, small groups.

    Args:
        model: whatever `divulge.audit` takes as target.
        members: its training records.
        settings: the thresholds.
        outputs: "logits" or "probabilities": what a network or function returns.

    Raises:
        divulge.InputError: a model of texts, records that it refuses.

    References:
        Equivalence classes of outputs as in SACRO-ML's structural attack (release 2), by our own definitions.

    Examples:
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> x = np.arange(40.0)[:, None]
        >>> tree = DecisionTreeClassifier(max_depth=1).fit(x, x[:, 0] > 2)
        >>> [hint.found for hint in inspect_outputs(tree, Records(x))][:1]
        ['3 of 40 records have an output that fewer share; the rarest has 3']
    """
    check_instance(members, "members", Records)
    target = adapt(model, outputs=outputs, labels_only=True)
    if isinstance(target, SklearnTarget) and callable(getattr(target.estimator, "predict_proba", None)):
        with errors.user_code_errors(f"model: {type(target.estimator).__name__}.predict_proba"):  # as anybody sees them
            answers = np.asarray(target.estimator.predict_proba(target.model_inputs(members.copy())), np.float64)
    elif callable(getattr(target, "predictions", None)):
        answers = np.asarray(target.predictions(members), np.float64)[:, None]
    elif callable(getattr(target, "logits", None)):
        answers = special.softmax(np.asarray(target.logits(members), np.float64), axis=1)
    elif callable(getattr(target, "labels", None)):
        answers = np.asarray(target.labels(members), np.float64)[:, None]
    else:
        raise InputError("model: predicted values, classes or probabilities are needed to compare outputs")
    values, groups, counts = np.unique(answers.round(_DIGITS), axis=0, return_inverse=True, return_counts=True)
    sizes, threshold = counts[groups.ravel()], f"at least {settings.output_records}"
    hints = []
    if n_rare := int((sizes < settings.output_records).sum()):
        finding = (
            f"{n_rare:,} of {len(members):,} records have an output that fewer share; the rarest has {counts.min():,}"
        )
        meaning = "Who is known to be a training record and has such an output is singled out: it is not k-anonymous."
        hints.append(Hint("records of an output", finding, threshold, meaning))
    if answers.shape[1] < 2:
        return tuple(hints)
    is_ruled_out = np.min(values, axis=1)[groups.ravel()] < _RULED_OUT
    if ruled := int(is_ruled_out.sum()):
        finding = f"{ruled:,} of {len(members):,} records have an output that rules a class out"
        meaning = "Whoever has this output is known not to be of that class: an attribute is disclosed."
        hints.append(Hint("class disclosure by outputs", finding, "none", meaning))
    per_class = values * counts[:, None]
    small = int(((per_class >= _RULED_OUT * counts[:, None]) & (per_class < settings.output_records)).any(axis=1).sum())
    if small:
        finding = f"{small:,} of {len(values):,} outputs stand for fewer records of a class"
        meaning = "An output reports how many records of a group have a class, as a table with small cells does."
        hints.append(Hint("small groups", finding, threshold, meaning))
    return tuple(hints)


def _leaf_counts(part: Any) -> Ints | None:
    """Return how many training records each leaf of a tree holds; None where ``part`` is no tree that counts them."""
    if (tree := getattr(part, "tree_", None)) is not None and hasattr(tree, "n_node_samples"):
        return np.asarray(tree.n_node_samples)[np.asarray(tree.children_left) < 0]
    if (steps := getattr(part, "_predictors", None)) is not None:
        nodes = [predictor.nodes for step in steps for predictor in step]
        return np.concatenate([node["count"][node["is_leaf"] != 0] for node in nodes]) if nodes else None
    return None


def _training_size(parts: list[Any], arrays: list[Any]) -> int | None:
    """Return the number of training records that a model shows: of its neighbours, support vectors or trees."""
    row_counts = [rows[0] for part in parts if (rows := _stored_rows(part)) is not None and rows[1] == "records"]
    for part in parts:
        if isinstance(size := getattr(part, "n_samples_fit_", None), int | np.integer):
            row_counts.append(int(size))
        shape = getattr(part, "shape_fit_", None)
        if isinstance(shape, tuple) and shape:
            row_counts.append(int(shape[0]))
        for step in getattr(part, "_predictors", None) or ():  # of boosting by histograms
            row_counts += [int(predictor.nodes["count"][0]) for predictor in step if len(predictor.nodes)]
    forest_sizes = [int(part._n_samples) for part in parts if isinstance(getattr(part, "_n_samples", None), int)]
    roots = [
        int(np.asarray(part.tree_.weighted_n_node_samples)[0])
        for part in parts
        if hasattr(part, "tree_") and hasattr(part.tree_, "weighted_n_node_samples")
    ]
    sums = [int(a.values.sum()) for a in arrays if a.name.endswith(".leaf_count")]
    return max([*row_counts, *forest_sizes, *roots, *sums], default=None)


_SOME_RECORDS = "some of the records"
_STORING = {
    "_fit_X": "records",  # neighbours
    "support_vectors_": "support vectors",
    "X_train_": "records",  # Gaussian processes
    "X_fit_": "records",  # kernel ridge regression, kernel PCA
    "X_": "records",  # spread of labels
    "component_indices_": _SOME_RECORDS,  # approximations of a kernel
    "core_sample_indices_": _SOME_RECORDS,  # clusters by density
}


def _stored_rows(part: Any) -> tuple[int, str] | None:
    """Return how many training records an estimator keeps by its nature, and what they are called; None for others."""
    for name, content in _STORING.items():
        rows = getattr(part, name, None)
        if hasattr(rows, "shape") and (rows.ndim == 2 or name.endswith("indices_")):
            return int(rows.shape[0]), content
    tree: Any = getattr(part, "tree_", None)  # of a kernel density
    return (len(tree.data), "records") if type(tree).__name__ in ("KDTree", "BallTree") else None


def _storing_hints(parts: list[Any]) -> list[Hint]:
    meaning = "Each of these is a training record: do not release the file."
    hints = []
    for part in parts:
        if (rows := _stored_rows(part)) is not None:
            n, content = rows
            finding = f"{type(part).__name__} holds {n:,} {'records' if content == _SOME_RECORDS else content}"
            hints.append(Hint("stored records", finding, "none", meaning))
    return hints


def _long_hints(long_arrays: tuple[tuple[str, tuple[int, ...]], ...], n_records: int | None) -> list[Hint]:
    if not long_arrays:
        return []
    names = ", ".join(name for name, _ in long_arrays[:3])
    finding = f"{len(long_arrays)} as long as the training set ({n_records:,}): {names}"
    return [Hint("arrays", finding, "none", "A row for each training record may hold its values, class or position.")]


def _leaf_hints(leaves: Ints, settings: InspectionSettings) -> list[Hint]:
    small = int((leaves < settings.leaf_records).sum())
    if not small:
        return []
    finding = f"{small:,} of {len(leaves):,} leaves hold fewer, {int((leaves == 1).sum()):,} hold one"
    meaning = "An output that few records share is not k-anonymous: it may tell that a record was trained on."
    return [Hint("records of a leaf", finding, f"at least {settings.leaf_records}", meaning)]


def _purity_hints(parts: list[Any], settings: InspectionSettings) -> list[Hint]:
    """Hint at leaves whose few records are all of one class."""
    pure = total = 0
    for part in parts:
        tree = getattr(part, "tree_", None)
        if tree is None or not hasattr(part, "classes_") or not hasattr(tree, "n_node_samples"):
            continue
        is_leaf = np.asarray(tree.children_left) < 0
        share = np.asarray(tree.value)[is_leaf, 0, :]
        share = share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
        is_small = np.asarray(tree.n_node_samples)[is_leaf] < settings.leaf_records
        pure += int((is_small & (share.max(axis=1) >= 1 - 1e-12)).sum())
        total += int(is_leaf.sum())
    if not pure:
        return []
    finding = f"{pure:,} of {total:,} leaves hold few records, all of one class"
    meaning = "Whoever is known to fall into such a leaf has this class: an attribute is disclosed."
    return [Hint("class disclosure", finding, f"none of fewer than {settings.leaf_records} records", meaning)]


def _freedom_hints(parts: list[Any], n_records: int | None, settings: InspectionSettings) -> list[Hint]:
    """Hint at linear models and networks with hardly fewer parameters than records, where their number is known."""
    hints = []
    for part in parts:
        coefficients: Array | None = getattr(part, "coef_", None)
        layers = [*(getattr(part, "coefs_", None) or ()), *(getattr(part, "intercepts_", None) or ())]
        is_linear = isinstance(coefficients, np.ndarray) and not hasattr(part, "support_vectors_")
        if n_records is None or not (is_linear or layers):
            continue
        n_parameters = sum(np.size(layer) for layer in layers)
        if is_linear:
            n_parameters = np.size(coefficients) + np.size(getattr(part, "intercept_", 0.0))
        free = n_records - n_parameters
        if free < settings.degrees_of_freedom:
            meaning = "A model with as many parameters as records can be solved for the records."
            bound = f"at least {settings.degrees_of_freedom}"
            hints.append(Hint("residual degrees of freedom", f"{type(part).__name__}: {free:,}", bound, meaning))
    return hints


def _setting_hints(parts: list[Any], settings: InspectionSettings) -> list[Hint]:
    """Hint at parameters that are known to leak."""
    hints = []
    for part in parts[:1] if not hasattr(parts[0] if parts else None, "steps") else parts:
        parameters = part.get_params(deep=False) if callable(getattr(part, "get_params", None)) else {}
        name = type(part).__name__
        leaf_minimum = parameters.get("min_samples_leaf", parameters.get("min_child_samples"))
        if isinstance(leaf_minimum, int) and leaf_minimum < settings.leaf_records:
            meaning = "Leaves may hold single records, whose output then shows that they were trained on."
            hints.append(
                Hint("least records of a leaf", f"{name}: {leaf_minimum}", f"at least {settings.leaf_records}", meaning)
            )
        if parameters.get("bootstrap") is False and hasattr(part, "estimators_"):
            meaning = "Every tree saw every record: the output on a training record is that of a fit to it."
            hints.append(Hint("bootstrap", f"{name}: off", "on", meaning))
        if "max_depth" in parameters and parameters["max_depth"] is None and "min_samples_leaf" in parameters:
            meaning = "Trees grow until leaves are pure, unless the records of a leaf are bounded."
            hints.append(Hint("depth", f"{name}: unlimited", "a limit", meaning))
    return hints


def _listed_hints(parts: list[Any]) -> list[Hint]:
    """Hint at settings that are on SACRO-ML's list of those that leak most, each with what we measured."""
    hints = []
    for part in parts[:1] if not hasattr(parts[0] if parts else None, "steps") else parts[1:]:
        if (listed := _listed_setting(part)) is None:
            continue
        finding, threshold, family = listed
        meaning = (
            "On SACRO-ML's list (release 2): among the fifth of settings in which its attacks found most, or a kind of "
            "model that it refuses."
        )
        hints.append(
            Hint("listed setting", f"{type(part).__name__}: {finding}", threshold, meaning, MEASURED_HINTS[family])
        )
    return list({hint.found: hint for hint in hints}.values())


def _listed_setting(part: Any) -> tuple[str, str, str] | None:
    """Return what is listed of an estimator's settings, what is not, and the kind of model; None without any."""
    name = type(part).__name__
    parameters = part.get_params(deep=False) if callable(getattr(part, "get_params", None)) else {}
    depth = parameters.get("max_depth") or np.inf
    leaf = parameters.get("min_samples_leaf", 1)
    if name.startswith(("KNeighbors", "RadiusNeighbors", "SVC", "NuSVC", "SVR", "NuSVR")):
        return "keeps training records by its nature", "another kind of model", "stored"
    if name.startswith(("RandomForest", "ExtraTreesC", "ExtraTreesR")):
        if parameters.get("n_estimators", 100) > 35 and depth > 3.5:
            return "more than 35 trees deeper than 3", "max_depth = 3, or fewer trees", "forest"
    elif name.startswith("DecisionTree") and depth > 7.5 and isinstance(leaf, int) and leaf <= 7:
        return "deeper than 7 with leaves of 7 records or fewer", "max_depth = 7, min_samples_leaf = 8", "tree"
    elif name.startswith("XGB"):
        xgb_depth = parameters.get("max_depth") or 6
        rounds, weight = parameters.get("n_estimators") or 100, parameters.get("min_child_weight") or 1.0
        if xgb_depth > 3.5 and rounds > 12 and weight <= 3:
            return "more than 12 rounds deeper than 3", "max_depth = 3, or min_child_weight above 6", "boosting"
    return None
