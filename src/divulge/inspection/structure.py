"""Hints from a model's structure, without any data: arrays as long as its training set, small leaves, leaking settings.

These are hints. What an attack measures decides; a model without a hint may leak, and one with hints may not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from divulge import errors, lazy
from divulge.errors import InputError, MissingExtraError
from divulge.inspection.model_arrays import ModelArray, collect_arrays, read_model
from divulge.report.sections import MEASURED_HINTS
from divulge.settings import InspectionSettings
from divulge.targets.estimators import SklearnRegressor, SklearnTarget, describe_estimator
from divulge.targets.fitted_frames import direct_parts
from divulge.targets.outputs import PROBABILITY_FLOOR
from divulge.targets.rights import FramedTarget, adapt
from divulge.types import Records
from divulge.validation import check_instance, check_integer

if TYPE_CHECKING:
    from sklearn.utils import validation as sklearn_validation

    from divulge.types import Array, Ints
else:
    sklearn_validation = lazy.module("sklearn.utils.validation")

_DEFAULTS = InspectionSettings()
_DIGITS = 12  # to which outputs are compared
# Probability of a class below which it is ruled out: targets that answer 0 are taken to answer the floor.
_RULED_OUT = 2 * PROBABILITY_FLOOR


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
        training_records: number of records that it was trained on, as was said or else as the model shows; None where
            neither is known.
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


def inspect_file(
    path: str | Path, settings: InspectionSettings = _DEFAULTS, *, training_records: int | None = None
) -> Inspection:
    """Inspect the model in a file, without data; see `inspect_model`.

    Raises:
        divulge.InputError: as `divulge.inspection.read_model` and `inspect_model`.
    """
    return inspect_model(read_model(Path(path)), settings, training_records=training_records)


MODEL_SUFFIXES = (".skops", ".onnx", ".safetensors", ".npz", ".json", ".txt", ".model", ".lgb")
"""Of files that may be models."""
_AMBIGUOUS = (".npz", ".json", ".txt")  # of files that most often are something else
_BOOSTED_KEYS = {"learner", "oblivious_trees", "trees"}  # of XGBoost's and CatBoost's models
_PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt")
_MAX_FILES = 10_000


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """A file of a folder of models.

    Args:
        path: the file, from the folder.
        inspection: what it holds; None where it could not be read.
        problem: why it could not; empty where it could.
    """

    path: str
    inspection: Inspection | None
    problem: str = ""


def inspect_folder(folder: str | Path, settings: InspectionSettings = _DEFAULTS) -> list[InspectedFile]:
    """Inspect every model in a folder and in the folders below it, without data; links are not followed.

    A ``.json``, ``.txt`` or ``.npz`` that is no model is left out. Pickles are named and never opened.

    Args:
        folder: the folder.
        settings: the thresholds.

    Raises:
        divulge.InputError: no folder, or none with a model in it; more than 10,000 files.

    Examples:
        >>> [file.path for file in inspect_folder("models")]  # doctest: +SKIP
        ['churn.skops', 'fraud/net.onnx']
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"model: no such folder: {root}")
    paths = sorted(
        Path(place) / name
        for place, inner, names in os.walk(root)
        for name in names
        if not name.startswith(".") and (Path(place) / name).suffix.lower() in (*MODEL_SUFFIXES, *_PICKLES)
    )
    if len(paths) > _MAX_FILES:
        raise InputError(
            f"model: {root} holds {len(paths):,} files, and {_MAX_FILES:,} are the most that are inspected"
        )
    inspected = [file for path in paths if (file := _inspect_one(path, root, settings)) is not None]
    if not inspected:
        raise InputError(f"model: no model in {root}; models are files that end in {', '.join(MODEL_SUFFIXES)}")
    return inspected


def _inspect_one(path: Path, root: Path, settings: InspectionSettings) -> InspectedFile | None:
    """Inspect a file; None where it is no model."""
    name, suffix = str(path.relative_to(root)), path.suffix.lower()
    if suffix in _PICKLES:
        reason = "a pickle, which can run any code when it is opened; save the model as .skops, .onnx or .safetensors"
        return InspectedFile(name, None, reason)
    try:
        model = read_model(path)
        if suffix == ".json" and not (isinstance(model, dict) and _BOOSTED_KEYS & set(model)):
            return None
        inspection = inspect_model(model, settings)
        if suffix in _AMBIGUOUS and not inspection.arrays:
            return None
        return InspectedFile(name, inspection)
    except (InputError, MissingExtraError) as error:
        return None if suffix in _AMBIGUOUS else InspectedFile(name, None, str(error))


def inspect_model(
    model: Any, settings: InspectionSettings = _DEFAULTS, *, training_records: int | None = None
) -> Inspection:
    """Say which arrays are as long as the training set, which leaves hold few records, which settings leak.

    Args:
        model: an estimator, a target, or what `divulge.inspection.read_model` returned. Of pipelines, searches, votes,
            stacks and calibrations every fitted part is looked at.
        settings: the thresholds.
        training_records: number of records that it was trained on, for a model that does not show it.

    Raises:
        divulge.InputError: a number of records below 1.

    Examples:
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> findings = inspect_model(KNeighborsClassifier(1).fit([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], [0, 1, 0]))
        >>> findings.training_records, [name for name, _ in findings.long_arrays]
        (3, ['_fit_X', '_y'])
    """
    if training_records is not None:
        check_integer(training_records, "training_records", minimum=1)
    while isinstance(model, SklearnTarget | SklearnRegressor | FramedTarget):
        model = model.target if isinstance(model, FramedTarget) else model.estimator
    parts = _fitted_parts(model) if callable(getattr(model, "get_params", None)) else []
    estimators = [part for part, _ in parts]
    arrays = collect_arrays(model)
    counts = [values for part in estimators if (values := _leaf_counts(part)) is not None]
    counts += [array.values for array in arrays if array.name.endswith((".leaf_count", ".leaf_weights"))]
    leaves = np.concatenate([np.ravel(c) for c in counts]) if counts else np.zeros(0)
    leaves = leaves[leaves > 0]  # CatBoost's trees have empty ones
    size_shown = _training_size(estimators, arrays)
    n_records = size_shown if training_records is None else training_records
    long_arrays = tuple(
        (array.name, tuple(array.values.shape))
        for array in sorted(arrays, key=lambda a: a.name)
        if n_records is not None and n_records > 1 and array.values.ndim and n_records in array.values.shape
    )
    hints = [
        *_size_hints(size_shown, training_records),
        *_storing_hints(estimators),
        *_long_hints(long_arrays, n_records),
        *_leaf_hints(leaves, settings),
        *_purity_hints(parts, settings),
        *_freedom_hints(model, estimators, arrays, n_records, settings),
        *_setting_hints(parts, n_records, settings),
        *_listed_hints(parts, n_records),
    ]
    return Inspection(
        model=describe_estimator(model) if parts else type(model).__name__,
        arrays=len(arrays),
        training_records=n_records,
        long_arrays=long_arrays,
        leaves=len(leaves),
        small_leaves=int((leaves < settings.leaf_records).sum()),
        single_leaves=int((leaves <= 1).sum()),
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
    # Sums over trees differ in their last bits with the order in which threads add them.
    largest = float(np.max(np.abs(answers), initial=0.0))
    decimals = _DIGITS - int(np.ceil(np.log10(largest))) if 0.0 < largest < np.inf else _DIGITS
    values, groups, counts = np.unique(answers.round(decimals), axis=0, return_inverse=True, return_counts=True)
    sizes, threshold = counts[groups.ravel()], f"at least {settings.output_records}"
    hints = []
    if n_rare := int((sizes < settings.output_records).sum()):
        finding = (
            f"{n_rare:,} of {len(members):,} records have an output that fewer share; the rarest has {counts.min():,}"
        )
        meaning = "Who is known to be a training record and has such an output is singled out: it is not k-anonymous."
        hints.append(Hint("records of an output", finding, threshold, meaning, MEASURED_HINTS["records of an output"]))
    if answers.shape[1] < 2:
        return tuple(hints)
    is_ruled_out = np.min(values, axis=1)[groups.ravel()] < _RULED_OUT
    if ruled := int(is_ruled_out.sum()):
        finding = f"{ruled:,} of {len(members):,} records have an output that rules a class out"
        meaning = (
            "Whoever has this output is not of that class, as far as the model is right: an attribute is disclosed."
        )
        measured = MEASURED_HINTS["class disclosure by outputs"]
        hints.append(Hint("class disclosure by outputs", finding, "none", meaning, measured))
    per_class = values * counts[:, None]
    small = int(((per_class >= _RULED_OUT * counts[:, None]) & (per_class < settings.output_records)).any(axis=1).sum())
    if small:
        finding = f"{small:,} of {len(values):,} outputs stand for fewer records of a class"
        meaning = "An output reports how many records of a group have a class, as a table with small cells does."
        hints.append(Hint("small groups", finding, threshold, meaning, MEASURED_HINTS["small groups"]))
    return tuple(hints)


def find_weighted_trees(model: Any) -> str:
    """Return the class of a part whose trees were fitted with sample weights; empty where none shows it.

    Forests and bags of scikit-learn keep the weights. A tree counts its records and sums their weights: without weights
    the sum is the number of records or, where records were drawn with replacement, of draws. Class weights, and
    boosting that weighs records itself, look the same, and are left out.

    Examples:
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> x, y = [[0.0], [1.0], [2.0]], [0, 1, 0]
        >>> find_weighted_trees(DecisionTreeClassifier().fit(x, y, sample_weight=[1.0, 2.0, 0.5]))
        'DecisionTreeClassifier'
        >>> find_weighted_trees(DecisionTreeClassifier().fit(x, y))
        ''
    """
    for part, owner in _fitted_parts(model):
        has_class_weights = any(getattr(each, "class_weight", None) is not None for each in (part, owner))
        if has_class_weights or type(owner).__name__.startswith("AdaBoost"):
            continue
        if getattr(part, "_sample_weight", None) is not None:
            return type(part).__name__
        if not hasattr(tree := getattr(part, "tree_", None), "weighted_n_node_samples"):
            continue
        weight, count = float(tree.weighted_n_node_samples[0]), int(tree.n_node_samples[0])
        is_whole = abs(weight - round(weight)) <= 1e-6 * weight
        if not is_whole or (not getattr(owner, "bootstrap", False) and round(weight) != count):
            return type(part if owner is None else owner).__name__
    return ""


def _fitted_parts(model: Any) -> list[tuple[Any, Any]]:
    """Return the fitted estimators that an estimator is made of, each once, with the one that it is a part of.

    A template that was only cloned, such as that of a search, has settings that the model may not have.
    """
    parts: list[tuple[Any, Any]] = []
    visited: set[int] = set()
    pending: list[tuple[Any, Any]] = [(model, None)]
    while pending:
        part, owner = pending.pop()
        if id(part) in visited:
            continue
        visited.add(id(part))
        if part is not model and not _is_fitted(part):
            continue
        if type(part).__name__ == "FrozenEstimator":  # which passes on the attributes of the one within
            pending.append((part.estimator, owner))
            continue
        parts.append((part, owner))
        pending += [(inner, part) for inner in reversed(list(direct_parts(part)))]
    return parts


def _is_fitted(part: Any) -> bool:
    """Check whether an estimator was fitted, or is no estimator."""
    if not callable(getattr(part, "fit", None)):
        return True
    try:
        sklearn_validation.check_is_fitted(part)
    except (TypeError, ValueError):  # its NotFittedError is a ValueError
        return False
    return True


def _leaf_counts(part: Any) -> Ints | None:
    """Return how many training records each leaf of a tree holds; None where ``part`` is no tree that counts them."""
    if (tree := getattr(part, "tree_", None)) is not None and hasattr(tree, "n_node_samples"):
        return np.asarray(tree.n_node_samples)[np.asarray(tree.children_left) < 0]
    if (steps := getattr(part, "_predictors", None)) is not None:
        nodes = [predictor.nodes for step in steps for predictor in step]
        return np.concatenate([node["count"][node["is_leaf"] != 0] for node in nodes]) if nodes else None
    return None


def _training_size(estimators: list[Any], arrays: list[ModelArray]) -> int | None:
    """Return the number of training records that a model shows: of its neighbours, support vectors or trees.

    Records of weight 0, and those that a model set aside to stop early, may be missing. Weights of trees are no counts
    where records have weights.
    """
    sizes = [rows[0] for part in estimators if (rows := _stored_rows(part)) is not None and rows[1] == "records"]
    for part in estimators:
        size_attributes = [
            getattr(part, name, None) for name in ("n_samples_fit_", "_n_samples")
        ]  # of neighbours; of forests
        sizes += [int(size) for size in size_attributes if isinstance(size, int | np.integer)]
        shape = getattr(part, "shape_fit_", None)
        if isinstance(shape, tuple) and shape:
            sizes.append(int(shape[0]))
        if hasattr(tree := getattr(part, "tree_", None), "n_node_samples"):
            sizes.append(int(np.asarray(tree.n_node_samples)[0]))
        for step in getattr(part, "_predictors", None) or ():  # of boosting by histograms
            sizes += [int(predictor.nodes["count"][0]) for predictor in step if len(predictor.nodes)]
        if hasattr(part, "coefs_") and getattr(part, "n_iter_", 0) > 0 and getattr(part, "t_", 0) > 0:
            sizes.append(int(part.t_ // part.n_iter_))  # of networks: records of all epochs
    sizes += [int(array.values.sum()) for array in arrays if array.name.endswith(".leaf_count")]
    return max(sizes, default=None)


def _size_hints(size_shown: int | None, training_records: int | None) -> list[Hint]:
    """Hint at training records that were not given; a model may show fewer than it saw, and never more."""
    if size_shown is None or training_records is None or size_shown <= training_records:
        return []
    finding = f"the model shows {size_shown:,}, and {training_records:,} are given"
    meaning = "It was trained on records that are not among those given: no audit of these tells of the others."
    return [Hint("number of training records", finding, "no more than are given", meaning)]


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


def _storing_hints(estimators: list[Any]) -> list[Hint]:
    meaning = "Each of these is a training record: do not release the file."
    hints = []
    for part in estimators:
        if (rows := _stored_rows(part)) is not None:
            n, content = rows
            finding = f"{type(part).__name__} holds {n:,} {'records' if content == _SOME_RECORDS else content}"
            hints.append(Hint("stored records", finding, "none", meaning, MEASURED_HINTS["stored"]))
    return hints


def _long_hints(long_arrays: tuple[tuple[str, tuple[int, ...]], ...], n_records: int | None) -> list[Hint]:
    if not long_arrays:
        return []
    names = ", ".join(name for name, _ in long_arrays[:3])
    finding = f"{len(long_arrays)} as long as the training set ({n_records:,}): {names}"
    return [Hint("arrays", finding, "none", "A row for each training record may hold its values, class or position.")]


def _leaf_hints(leaves: Array, settings: InspectionSettings) -> list[Hint]:
    small = int((leaves < settings.leaf_records).sum())
    if not small:
        return []
    finding = f"{small:,} of {len(leaves):,} leaves hold fewer, {int((leaves <= 1).sum()):,} hold one"
    meaning = "An output that few records share is not k-anonymous: it may tell that a record was trained on."
    threshold = f"at least {settings.leaf_records}"
    return [Hint("records of a leaf", finding, threshold, meaning, MEASURED_HINTS["records of a leaf"])]


_NO_OUTCOMES = ("GradientBoosting", "IsolationForest", "RandomTreesEmbedding")
"""Ensembles whose trees predict residuals or random numbers: a leaf of one of these shows nobody's outcome."""


def _purity_hints(parts: list[tuple[Any, Any]], settings: InspectionSettings) -> list[Hint]:
    """Hint at leaves whose few records are all of one class, or have one value."""
    pure = {"class": 0, "value": 0}
    total = {"class": 0, "value": 0}
    for part, owner in parts:
        tree = getattr(part, "tree_", None)
        if not hasattr(tree, "n_node_samples") or type(owner).__name__.startswith(_NO_OUTCOMES):
            continue
        is_leaf = np.asarray(tree.children_left) < 0
        is_small = np.asarray(tree.n_node_samples)[is_leaf] < settings.leaf_records
        outcome = "class" if hasattr(part, "classes_") else "value"
        is_pure = np.zeros(int(is_leaf.sum()), dtype=bool)
        if outcome == "value":
            is_pure = np.asarray(tree.impurity)[is_leaf] <= 0.0
        else:
            for output, n_classes in enumerate(np.ravel(tree.n_classes)):
                share = np.asarray(tree.value)[is_leaf, output, :n_classes]
                share = share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
                is_pure |= (share.max(axis=1) >= 1 - 1e-12) & (n_classes > 1)
        pure[outcome] += int((is_small & is_pure).sum())
        total[outcome] += int(is_leaf.sum())
    hints = []
    for outcome in pure:
        if pure[outcome]:
            finding = f"{pure[outcome]:,} of {total[outcome]:,} leaves hold few records, all of one {outcome}"
            meaning = f"Whoever is known to be one of these records has this {outcome}: an attribute is disclosed."
            threshold = f"none of fewer than {settings.leaf_records} records"
            name = f"{outcome} disclosure"
            hints.append(Hint(name, finding, threshold, meaning, MEASURED_HINTS[name]))
    return hints


def _freedom_hints(
    model: Any, estimators: list[Any], arrays: list[ModelArray], n_records: int | None, settings: InspectionSettings
) -> list[Hint]:
    """Hint at models with hardly fewer parameters than records, where the number of records is known."""
    if n_records is None:
        return []
    counts = [(type(part).__name__, n, "smooth") for part in estimators if (n := _count_weights(part))]
    if (n_tree := _count_tree_parameters(estimators, arrays)) > 0:
        counts.append(("trees", n_tree, "trees"))
    if not estimators and callable(getattr(model, "named_parameters", None)):
        counts.append((type(model).__name__, sum(p.numel() for _, p in model.named_parameters()), "smooth"))
    hints = []
    for name, n_parameters, family in counts:
        if (free := n_records - n_parameters) < settings.degrees_of_freedom:
            finding = f"{name}: {free:,} ({n_records:,} records, {n_parameters:,} parameters)"
            meaning = {
                "smooth": "A model with as many parameters as records can be solved for the records.",
                "trees": "Trees with more splits and leaves than records can hold each of them.",
            }[family]
            measured = MEASURED_HINTS["residual degrees of freedom"] if family == "trees" else ""
            bound = f"at least {settings.degrees_of_freedom}"
            hints.append(Hint("residual degrees of freedom", finding, bound, meaning, measured))
    return hints


def _count_weights(part: Any) -> int:
    """Return the number of weights of a linear model or network; 0 of another estimator."""
    if hasattr(part, "support_vectors_"):
        return 0
    coefficients: Array | None = getattr(part, "coef_", None)
    if isinstance(coefficients, np.ndarray):
        return int(np.size(coefficients) + np.size(getattr(part, "intercept_", 0.0)))
    layers = [*(getattr(part, "coefs_", None) or ()), *(getattr(part, "intercepts_", None) or ())]
    return int(sum(np.size(layer) for layer in layers))


def _count_tree_parameters(estimators: list[Any], arrays: list[ModelArray]) -> int:
    """Return the number of parameters of all trees: column and threshold of a split, and what a leaf holds.

    A leaf of a classifier's tree holds a share of all classes but one, any other leaf a number for each output.
    """
    n_parameters = 0
    for part in estimators:
        if hasattr(tree := getattr(part, "tree_", None), "children_left"):
            n_leaves = int((np.asarray(tree.children_left) < 0).sum())
            per_leaf = (
                np.maximum(np.ravel(tree.n_classes) - 1, 1).sum() if hasattr(part, "classes_") else tree.n_outputs
            )
            n_parameters += 2 * (tree.node_count - n_leaves) + n_leaves * int(per_leaf)
        for step in getattr(part, "_predictors", None) or ():
            for predictor in step:
                n_leaves = int((predictor.nodes["is_leaf"] != 0).sum())
                n_parameters += 2 * (len(predictor.nodes) - n_leaves) + n_leaves
    for array in arrays:
        if array.name.endswith(".leaf_count"):  # LightGBM
            n_parameters += 3 * array.values.size - 2
        elif array.name.endswith(".left_children"):  # XGBoost
            n_leaves = int((array.values < 0).sum())
            n_parameters += 2 * (array.values.size - n_leaves) + n_leaves
        elif array.name.endswith(".leaf_weights"):  # CatBoost: one split for each level
            n_parameters += array.values.size + 2 * int(np.log2(max(array.values.size, 1)))
    return n_parameters


_FORESTS = ("RandomForest", "ExtraTreesC", "ExtraTreesR")


def _configured_parts(parts: list[tuple[Any, Any]]) -> list[Any]:
    """Return the parts whose settings were chosen: all but the trees that a forest or boosting made."""
    derived_types = (*_FORESTS, *_NO_OUTCOMES, "HistGradientBoosting")
    return [part for part, owner in parts if not type(owner).__name__.startswith(derived_types)]


def _parameters(part: Any) -> dict[str, Any]:
    return part.get_params(deep=False) if callable(getattr(part, "get_params", None)) else {}


def _leaf_minimum(parameters: dict[str, Any], n_records: int | None) -> float | None:
    """Return the least records of a leaf that a model's settings allow; None where they do not say."""
    for name in ("min_samples_leaf", "min_child_samples", "min_data_in_leaf"):
        value = parameters.get(name)
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, float | np.floating):  # a share of the records
            return None if n_records is None else float(np.ceil(value * n_records))
    return None


def _setting_hints(parts: list[tuple[Any, Any]], n_records: int | None, settings: InspectionSettings) -> list[Hint]:
    """Hint at parameters that are known to leak."""
    hints = []
    for part in _configured_parts(parts):
        parameters, name = _parameters(part), type(part).__name__
        leaf_minimum = _leaf_minimum(parameters, n_records)
        is_unbounded = leaf_minimum is not None and leaf_minimum < settings.leaf_records
        if is_unbounded:
            meaning = "Leaves may hold single records, whose output then shows that they were trained on."
            finding, threshold = f"{name}: {leaf_minimum:g}", f"at least {settings.leaf_records}"
            hints.append(
                Hint("least records of a leaf", finding, threshold, meaning, MEASURED_HINTS["least records of a leaf"])
            )
        draws_all = parameters.get("bootstrap") is False and parameters.get("max_samples") in (None, 1.0)
        if draws_all and hasattr(part, "estimators_"):
            meaning = "Every tree saw every record: the output on a training record is that of a fit to it."
            hints.append(Hint("bootstrap", f"{name}: off", "on", meaning))
        grows = {"max_depth", "max_leaf_nodes", "min_samples_leaf"} <= set(parameters)
        if grows and is_unbounded and parameters["max_depth"] is None and parameters["max_leaf_nodes"] is None:
            meaning = "Trees grow until leaves are pure, unless the records of a leaf are bounded."
            hints.append(Hint("depth", f"{name}: unlimited", "a limit", meaning, MEASURED_HINTS["depth"]))
    return hints


def _listed_hints(parts: list[tuple[Any, Any]], n_records: int | None) -> list[Hint]:
    """Hint at settings that are on SACRO-ML's list of those that leak most, each with what we measured."""
    meaning = (
        "On SACRO-ML's list (release 2): among the fifth of settings in which its attacks found most, or a kind of "
        "model that it refuses."
    )
    hints = []
    for part in _configured_parts(parts):
        if (listed := _listed_setting(part, n_records)) is not None:
            finding, threshold, family = listed
            finding = f"{type(part).__name__}: {finding}"
            hints.append(Hint("listed setting", finding, threshold, meaning, MEASURED_HINTS[family]))
    return hints


def _listed_setting(part: Any, n_records: int | None) -> tuple[str, str, str] | None:
    """Return what is listed of an estimator's settings, what is not, and the kind of model; None without any.

    The rules are for classifiers; regressors of the same kind are held to them too.
    """
    name, parameters = type(part).__name__, _parameters(part)
    if name.startswith(("KNeighbors", "RadiusNeighbors", "SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")):
        return "keeps training records by its nature", "another kind of model", "stored"
    depth = float(parameters.get("max_depth") or 500)
    if name.startswith("XGB"):
        rounds, weight = parameters.get("n_estimators") or 100, parameters.get("min_child_weight") or 1.0
        depth = float(parameters.get("max_depth") or 6)
        highest = 1.5 if 3.5 < rounds <= 12.5 else 3.0 if 12.5 < rounds <= 62.5 else 6.0 if rounds > 62.5 else -1.0
        if depth > 3.5 and weight <= highest:
            finding = f"{rounds:,} rounds of depth {depth:g}, min_child_weight {weight:g}"
            return finding, "max_depth = 3, or min_child_weight above 6", "boosting"
        return None
    if not name.startswith(("RandomForest", "ExtraTreesC", "ExtraTreesR", "DecisionTree")):
        return None
    leaf, split = (
        value * n_records if isinstance(value := parameters.get(key, default), float) and n_records else value
        for key, default in (("min_samples_leaf", 1), ("min_samples_split", 2))
    )
    all_columns = parameters.get("max_features") is None
    if name.startswith("DecisionTree"):
        best = parameters.get("splitter") == "best"
        if (
            (depth > 7.5 and leaf <= 7.5 and (split <= 15 or best or all_columns))
            or (best and all_columns and depth > 7.5 and leaf <= 15)
            or (best and all_columns and depth > 3.5 and leaf <= 7.5)
        ):
            finding = f"depth {'unlimited' if depth == 500 else f'{depth:g}'}, leaves of {leaf:g}"
            return finding, "max_depth = 3, or min_samples_leaf = 16", "tree"
        return None
    trees, bootstrap = parameters.get("n_estimators", 100), bool(parameters.get("bootstrap"))
    if (depth > 3.5 and trees > 35 and (not all_columns or (split <= 15 and bootstrap))) or (
        depth > 7.5 and 15 < trees <= 35 and leaf <= 15 and not bootstrap
    ):
        deep = "of unlimited depth" if depth == 500 else f"of depth {depth:g}"
        return f"{trees:,} trees {deep}", "max_depth = 3, or at most 15 trees", "forest"
    return None
