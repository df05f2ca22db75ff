"""Estimators of scikit-learn, LightGBM, XGBoost and CatBoost as targets, and regression models of any kind."""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import json
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import narwhals as nw
import numpy as np
import polars as pl

from divulge import columns, errors, lazy, store
from divulge.columns import find_names, frame_of_array, has_pandas, match_columns, to_library
from divulge.errors import InputError
from divulge.targets import arrays as out
from divulge.validation import (
    check_choice,
    check_integer,
    check_labels,
    check_memory,
    check_number,
    format_value,
    require_callable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pandas as pd
    from sklearn import base

    from divulge.types import Floats, Ints, Records
else:
    pd = lazy.module("pandas")
    base = lazy.module("sklearn.base")


@dataclass(frozen=True, slots=True)
class SklearnTarget:
    """A fitted classifier with ``predict_proba`` or ``decision_function``.

    Decision values are used as logits where their softmax is the estimator's own probability (logistic
    regression): they do not saturate. Otherwise log-probabilities, floored at ``floor``.

    Where a probability is a count, it says 1 or 0 often, and the logarithm of the floor would stand far from
    everything else: half a vote is added to each class (Jeffreys' prior) before the logarithm is taken. That goes for
    a forest or bag of ``T`` trees drawn from bootstraps, of which some never saw a given member, and for ``T``
    nearest neighbours that count alike. Without bootstraps each tree saw every member, and a probability of 1 is no
    accident of counting.

    A model that was fitted on a data frame (``feature_names_in_``, or LightGBM's, XGBoost's and CatBoost's own) is
    given one with those columns in that order.

    Args:
        estimator: fitted, with ``classes_``.
        classes: size of the full label set; the estimator's largest class + 1 when None. A class the
            estimator never saw gets the floor.
        floor: smallest probability told apart from zero.
        names: where ``classes_`` are names: all classes, in the order in which the records' labels number them;
            the estimator's own order when None.
        frames: the library of the data frames that the estimator is given: "pandas", "polars", "own" for that of the
            records, or "auto" for that in which its encoders met missing values, else that of the records.

    Raises:
        divulge.InputError: not fitted, no usable output, classes that are not in ``names``.

    Examples:
        >>> from sklearn.linear_model import LogisticRegression
        >>> from divulge import Records
        >>> model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
        >>> SklearnTarget(model).logits(Records([[0.5]])).round(3)
        array([[0., 0.]])
    """

    estimator: Any
    classes: int | None = None
    floor: float = out.PROBABILITY_FLOOR
    names: Sequence[str] | None = None
    frames: Literal["auto", "own", "pandas", "polars"] = "auto"
    takes_frames: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice(self.frames, "frames", ("auto", "own", "pandas", "polars"))
        self._classes()
        _reject_several_outcomes(self.estimator)
        places = self._columns()
        class_names = self.class_names
        width = int(places.max()) + 1 if class_names is None else len(class_names)
        if self.classes is not None:
            width = check_integer(self.classes, "classes", minimum=2, maximum=2**40)
        check_labels(places, "target.classes_", classes=width)
        check_number(self.floor, "floor", above=0, below=1)
        object.__setattr__(self, "classes", width)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Names of the classes in the order of the logits; None where they are whole numbers ≥ 0."""
        if self.names is not None:
            return tuple(map(str, self.names))
        classes = np.asarray(self._classes())
        has_numbers = classes.dtype.kind in "iu" and (not classes.size or classes.min() >= 0)
        has_whole_floats = (
            classes.dtype.kind == "f" and bool((classes == classes.astype(np.int64)).all()) and classes.min() >= 0
        )
        return None if has_numbers or has_whole_floats else tuple(_class_to_text(name) for name in classes.tolist())

    @property
    def has_given_names(self) -> bool:
        """Whether the user said how labels number the classes."""
        return self.names is not None

    @property
    def known_classes(self) -> Ints:
        """The classes that the estimator was fitted on, by their numbers."""
        return self._columns()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that the estimator was fitted on; empty where it was fitted on an array."""
        return fitted_columns(self.estimator)

    @property
    def likely_names(self) -> tuple[tuple[str, ...], ...]:
        """Names that may be those of the columns: which a part of the estimator met, or which LightGBM makes up too."""
        return likely_columns(self.estimator)

    def logits(self, records: Records) -> Floats:
        """Logits of each record over the full label set, float64 ``[n, K]``."""
        # An estimator of the user's own may write into what it is given.
        inputs = self.model_inputs(records.copy())
        hint = "" if records.table is None else describe_inputs(inputs)
        with errors.user_code_errors(f"target: {type(self.estimator).__name__}", hint=hint):
            return self._own_logits(inputs)

    def model_inputs(self, records: Records) -> Any:
        """Return the records as the estimator was fitted on them: a frame with its columns, or an array."""
        return estimator_inputs(self.estimator, records, self.frames)

    def logits_of(self, inputs: Any) -> Floats:
        """Return the logits ``[n, K]`` of inputs as `model_inputs` makes them."""
        return self._own_logits(inputs)

    @property
    def gives_logits(self) -> bool:
        """Whether the estimator shows more than its predicted class."""
        return hasattr(self.estimator, "predict_proba") or hasattr(self.estimator, "decision_function")

    def predicted_classes(self, inputs: Any) -> Ints:
        """Return the estimator's own predicted class, by its number, of inputs as `model_inputs` makes them."""
        predicted = np.asarray(self.estimator.predict(inputs)).ravel().tolist()
        numbers = dict(zip(np.asarray(self._classes()).tolist(), self._columns().tolist(), strict=True))
        if len(predicted) != len(inputs) or any(value not in numbers for value in predicted):
            raise InputError(
                f"target: {type(self.estimator).__name__}.predict: one of its classes_ is needed per record"
            )
        return np.array([numbers[value] for value in predicted], dtype=np.int64)

    def votes_of(self, inputs: Any) -> Floats:
        """Return logits ``[n, K]`` of an estimator that shows its class alone: this class has all the probability."""
        classes = self.predicted_classes(inputs)
        return np.where(np.arange(int(self.classes or 0)) == classes[:, None], 0.0, np.log(self.floor))

    def _full(self, logits: Floats) -> Floats:
        """Extend logits to the full label set; a class the estimator never saw gets the floor."""
        places = self._columns()
        if np.array_equal(places, np.arange(int(self.classes or 0))):
            return logits
        check_memory(8.0 * len(logits) * int(self.classes or 0), "target.classes_", "number the classes from 0")
        floor_logits = np.log(self.floor) + logits.max(axis=1, keepdims=True)
        full = np.tile(floor_logits, (1, int(self.classes or 0)))
        full[:, places] = logits
        return full

    def _wide(self, probabilities: Floats) -> Floats:
        """Extend probabilities to the full label set."""
        check_memory(8.0 * len(probabilities) * int(self.classes or 0), "target.classes_", "number the classes from 0")
        full = np.zeros((len(probabilities), int(self.classes or 0)))
        full[:, self._columns()] = probabilities
        return full

    def _classes(self) -> Any:
        classes = getattr(self.estimator, "classes_", None)
        if classes is None:
            raise InputError(f"target: {type(self.estimator).__name__} is not a fitted classifier (no classes_)")
        return classes

    def _columns(self) -> Ints:
        """Return the class of each of the estimator's outputs."""
        classes, names = self._classes(), self.class_names
        if names is None:
            return check_labels(np.asarray(classes).astype(np.int64), "target.classes_")
        class_numbers = {name: number for number, name in enumerate(names)}
        estimator_names = [_class_to_text(name) for name in np.asarray(classes).tolist()]
        if unknown_names := [name for name in estimator_names if name not in class_numbers]:
            raise InputError(
                f"classes: {format_value(list(class_numbers))} lacks {format_value(unknown_names[0])}, "
                "which the target knows"
            )
        return np.array([class_numbers[name] for name in estimator_names])

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record."""
        return self.logits(records).argmax(axis=1)

    def _own_logits(self, x: Any) -> Floats:
        logits = self._decision_values(x) if hasattr(self.estimator, "decision_function") else None
        if hasattr(self.estimator, "predict_proba"):
            probabilities = self._probabilities(x)
            if logits is None or logits.shape != probabilities.shape:
                return self._log(x, probabilities)
            shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
            is_softmax = np.allclose(shifted / shifted.sum(axis=1, keepdims=True), probabilities, atol=1e-6)
            return self._full(logits) if is_softmax else self._log(x, probabilities)
        name, n_classes = f"target: {type(self.estimator).__name__}", len(self._classes())
        if logits is None:
            raise InputError(f"{name} has neither predict_proba nor decision_function")
        if logits.shape[1] != n_classes:
            raise InputError(
                f"{name}.decision_function: a column for each of the {n_classes} classes is needed, got "
                f"{logits.shape[1]}; of a machine that answers for pairs of classes, set "
                "decision_function_shape='ovr', which needs no new fit"
            )
        return self._full(logits)

    def _decision_values(self, x: Any) -> Floats:
        """Return the decision values, one column for each class; those of pairs of classes are summed up."""
        values = out.as_columns(self.estimator.decision_function(x), len(x), "target outputs")
        n_classes = len(self._classes())
        if values.shape[1] == 1:
            return np.hstack([np.zeros_like(values), values])
        if n_classes < 3 or values.shape[1] != n_classes * (n_classes - 1) // 2:
            return values
        summed = _sum_pairs(values, n_classes)
        if any(getattr(part, "decision_function_shape", None) == "ovo" for part in _answering_parts(self.estimator)):
            return summed
        # Three classes have three pairs. What the columns of an unknown estimator are, its own predictions say, but of
        # many records alone: an answer must not depend on how many are asked about.
        if n_classes != values.shape[1]:
            return summed
        if hasattr(self.estimator, "predict_proba") or not hasattr(self.estimator, "predict"):
            return values
        classes, predicted = np.asarray(self._classes()), np.asarray(self.estimator.predict(x[:_PROBED])).ravel()
        agreement, agreement_of_pairs = (
            float(np.mean(classes[table[:_PROBED].argmax(axis=1)] == predicted)) for table in (values, summed)
        )
        if len(values) >= _LEAST_SHOWN and agreement_of_pairs > _FAITHFUL > agreement:
            raise InputError(
                f"target: {type(self.estimator).__name__}.decision_function: its three columns are those of pairs of "
                "classes, not of classes; pass the machine inside, or an object with a method labels(records)"
            )
        return values

    def _probabilities(self, x: Any) -> Floats:
        """Return the probabilities ``[n, K]`` of the estimator's own classes."""
        name, n_classes = f"target: {type(self.estimator).__name__}.predict_proba", len(self._classes())
        probabilities = np.asarray(self.estimator.predict_proba(x), dtype=np.float64)
        if probabilities.shape != (len(x), n_classes):
            raise InputError(
                f"{name}: a row for each record and a column for each of the {n_classes} classes are needed, got shape "
                f"{probabilities.shape}; {_ONE_LABEL}"
            )
        sums = probabilities.sum(axis=1)
        # One-vs-rest estimators leave a row of zeros where no class is recognised.
        if (off := (np.abs(sums - 1) > 0.01 * n_classes) & (sums != 0)).any():
            raise InputError(
                f"{name}: row {int(off.argmax())} sums to {sums[off.argmax()]:g}, not to one: these are no "
                f"probabilities of classes that exclude each other; {_ONE_LABEL}"
            )
        return probabilities

    def _log(self, x: Any, probabilities: Floats) -> Floats:
        """Return the estimator's own log-probabilities where they are finite, else the floor."""
        if (votes := _vote_count(self.estimator)) is not None:
            return _smooth_votes(self._wide(probabilities), votes)
        with np.errstate(divide="ignore"):
            log_probabilities = (
                self.estimator.predict_log_proba(x) if hasattr(self.estimator, "predict_log_proba") else None
            )
            logarithms = (
                np.log(probabilities) if log_probabilities is None else np.asarray(log_probabilities, dtype=np.float64)
            )
        return self._full(np.where(np.isfinite(logarithms), logarithms, np.log(self.floor)))


@dataclass(frozen=True, slots=True)
class SklearnLabels(SklearnTarget):
    """A fitted classifier that shows its predicted class alone, such as one that votes by majority.

    Args and errors are those of `divulge.targets.SklearnTarget`.

    Examples:
        >>> from sklearn.ensemble import VotingClassifier
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from divulge import Records
        >>> model = VotingClassifier([("bayes", GaussianNB())]).fit([[0.0], [0.1], [1.0], [1.1]], [0, 0, 1, 1])
        >>> SklearnLabels(model).labels(Records([[0.0], [1.0]]))
        array([0, 1])
    """

    logits: ClassVar[None] = None  # ty: ignore[incompatible-attribute-override]

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record.

        Raises:
            divulge.errors.UserCodeError: the estimator raised an error.
        """
        inputs = self.model_inputs(records.copy())
        hint = "" if records.table is None else describe_inputs(inputs)
        with errors.user_code_errors(f"target: {type(self.estimator).__name__}", hint=hint):
            return self.predicted_classes(inputs)


# Of so many records, and in so large a share, decision values must agree with predictions to be those of pairs.
_LEAST_SHOWN, _FAITHFUL = 8, 0.9
_ONE_LABEL = (
    "of a model of several labels, audit one label: a function such as lambda x: model.predict_proba(x)[:, 0], with "
    "outputs='probabilities', and this label, 0 or 1, as y"
)


def _reject_several_outcomes(estimator: Any) -> None:
    """Raise where an estimator predicts several labels, or outcomes, of each record."""
    count, parts = 0, list(_answering_parts(estimator))
    for part in parts:
        classes = part.classes_
        if any(np.ndim(value) for value in classes) or getattr(part, "multilabel_", False):
            count = len(classes)
        elif str(getattr(getattr(part, "_label_binarizer", None), "y_type_", "")).startswith("multilabel"):
            count = len(classes)  # perceptrons and ridge classifiers
        elif hasattr(part, "get_booster"):  # XGBoost, whose classes are those of each label
            learner = json.loads(part.get_booster().save_config())["learner"]
            count = int(learner["learner_model_param"].get("num_target", 1))
        elif hasattr(part, "get_cat_feature_indices"):  # CatBoost
            is_multilabel = part.get_all_params().get("loss_function") in ("MultiLogloss", "MultiCrossEntropy")
            count = len(classes) if is_multilabel else 0
    is_nested = any(np.ndim(value) for value in parts[-1].classes_)
    if count < 2 and not is_nested:
        return
    method = "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"
    # A list of tables, one for each outcome, or a table with a column for each label; a chain makes the latter.
    is_list = is_nested and not hasattr(parts[-1], "order_")
    raise InputError(
        f"target: {type(estimator).__name__} predicts {count} outcomes at once; audit one label: a function such as "
        f"lambda x: model.{method}(x){'[0]' if is_list else '[:, 0]'}"
        f"{', with outputs=' + repr('probabilities') if method == 'predict_proba' else ''}, and this label as y"
    )


def _answering_parts(estimator: Any) -> Iterator[Any]:
    """Yield a fitted classifier and, where it hands records on, the parts whose answer it gives as its own."""
    yield estimator
    last_step = [step for _, step in getattr(estimator, "steps", ())][-1:]
    inner = [
        getattr(estimator, name, None) for name in ("best_estimator_", "final_estimator_", "estimator_", "estimator")
    ]
    for part in (*last_step, *inner):
        # Not what an ensemble of binary classifiers is made of: that has other classes, or is not fitted.
        if len(getattr(part, "classes_", ())) == len(estimator.classes_):
            yield from _answering_parts(part)
            return


def _sum_pairs(values: Floats, n_classes: int) -> Floats:
    """Return decision values of classes from those of pairs, ``[n, K (K - 1) / 2]``, as one-vs-rest machines give them.

    Each class has its votes and, smaller than a vote, what speaks for it in all its pairs (LIBSVM and scikit-learn's
    ``decision_function_shape="ovr"``).
    """
    first, second = np.triu_indices(n_classes, 1)
    votes, confidence = np.zeros((2, len(values), n_classes))
    for pair, (one, other) in enumerate(zip(first, second, strict=True)):
        wins = values[:, pair] >= 0
        votes[:, one] += wins
        votes[:, other] += ~wins
        confidence[:, one] += values[:, pair]
        confidence[:, other] -= values[:, pair]
    return votes + confidence / (3 * (np.abs(confidence) + 1))


def gives_labels(model: Any) -> bool:
    """Check whether an object is a fitted classifier of scikit-learn's kind that predicts its classes."""
    return not isinstance(model, type) and callable(getattr(model, "predict", None)) and hasattr(model, "classes_")


def estimator_inputs(
    estimator: Any, records: Records, frames: Literal["auto", "own", "pandas", "polars"] = "auto"
) -> Any:
    """Return records as an estimator takes them: a frame with the columns it was fitted on, or an array.

    Args:
        estimator: fitted, or not yet: then a frame of plain numbers becomes an array.
        records: the records.
        frames: the library of the frames, as in `SklearnTarget`.

    Examples:
        >>> import divulge as dv
        >>> from sklearn.naive_bayes import GaussianNB
        >>> estimator_inputs(GaussianNB(), dv.Records([[1.0, 2.0]]))
        array([[1., 2.]])
    """
    names = fitted_columns(estimator)
    if records.table is not None and records.encoder is not None:
        if names := names or find_names(likely_columns(estimator), records.table.columns):
            table = match_columns(records.table, names, "records", required_by_model=True)
            frame = _frame_for(estimator, table, frames)
            frame = restore_numbers(estimator, restore_types(estimator, frame))
            return restore_categories(estimator, restore_missing(estimator, frame))
        if frames == "auto" and records.encoder.is_plain:
            return records.x
        return _frame_for(estimator, records.table, frames)
    if records.x.dtype == object:
        return records.x
    x = records.x.reshape(len(records.x), -1)
    if names and x.shape[1] == len(names) and hasattr(estimator, "feature_names_in_"):
        return frame_of_array(x, names)  # it would warn of an array
    return x


def fitted_columns(estimator: Any) -> tuple[str, ...]:
    """Return the names of the columns that an estimator was fitted on; empty where it was fitted on an array."""
    names, are_certain = _column_names(estimator)
    return names if are_certain else ()


def likely_columns(estimator: Any) -> tuple[tuple[str, ...], ...]:
    """Return names that may be those of the columns: which a part met, or which LightGBM makes up too."""
    candidates = (_column_names(part)[0] for part in sub_estimators(estimator))
    return tuple(dict.fromkeys(names for names in candidates if names))


def describe_inputs(inputs: Any) -> str:
    """Describe what an estimator that fails was given, and how it is given something else."""
    input_type = (
        "an array" if isinstance(inputs, np.ndarray) else f"a data frame of {type(inputs).__module__.split('.')[0]}"
    )
    return (
        f'it was given {input_type}; SklearnTarget(model, frames="pandas") or frames="polars" gives it another, '
        "in a plan target.frames"
    )


def _frame_for(estimator: Any, table: nw.DataFrame[Any], frames: Literal["auto", "own", "pandas", "polars"]) -> Any:
    """Return a table in the library of an estimator; with the types of the user's own frame only where they ask."""
    frame = to_library(table, _frame_library(estimator, table, frames))
    return frame if frames == "own" else columns.without_nullable_types(frame)


def _frame_library(
    estimator: Any, table: nw.DataFrame[Any], frames: Literal["auto", "own", "pandas", "polars"]
) -> Literal["own", "pandas", "polars"]:
    if frames != "auto":
        return frames
    if (fitted := fitted_frame_library(estimator)) is not None:
        return fitted
    return "own" if table.implementation.value in ("pandas", "polars") or not has_pandas() else "pandas"


_PROBED = 1000  # records that an estimator is asked, to see whether it can read them
Estimator = TypeVar("Estimator")


def settle_frames(target: Estimator, records: Records) -> Estimator:
    """Return an estimator's target as one that is given data frames of the library that the estimator can read.

    Where nothing in an estimator shows which library that is, it is asked with the user's own frame first. If this
    fails and the other library's frame does not, it was fitted on the latter.

    Args:
        target: an adapter; others than those of estimators are returned as they are.
        records: some that it is going to be asked.
    """
    if not isinstance(target, SklearnTarget | SklearnRegressor) or target.frames != "auto" or records.table is None:
        return target
    if fitted_frame_library(target.estimator) is not None:
        return target
    sample = records[:_PROBED]
    if _can_read(target, sample):
        return target
    frame_library = records.table.implementation.value
    libraries: list[Literal["pandas", "polars"]] = (
        ["polars", "pandas"] if frame_library == "pandas" else ["pandas", "polars"]
    )
    for library in libraries:
        candidate = replace(target, frames=library)
        if (library != "pandas" or has_pandas()) and _can_read(candidate, sample):
            return candidate
    return target  # whose error says what it was given


def _can_read(target: SklearnTarget | SklearnRegressor, records: Records) -> bool:
    try:
        target.estimator.predict(target.model_inputs(records.copy()))
    except InputError:  # columns that are missing, say: nothing to do with the library
        return True
    except Exception:  # the user's code may raise anything
        return False
    return True


def clone_unfitted(estimator: Any) -> Any:
    """Return an unfitted copy of an estimator with the same parameters (`sklearn.base.clone`).

    Examples:
        >>> from sklearn.naive_bayes import GaussianNB
        >>> hasattr(clone_unfitted(GaussianNB().fit([[0.0], [1.0]], [0, 1])), "classes_")
        False
    """
    # CatBoost copies what it is given (such as a list of columns), which scikit-learn's clone takes for an error; it
    # asks an object for a clone of its own first.
    parts = [estimator, *(estimator.get_params(deep=True).values() if callable(estimator.get_params) else ())]
    copying = [part for part in parts if type(part).__module__.split(".")[0] == "catboost" and hasattr(part, "fit")]
    try:
        for part in copying:
            part.__sklearn_clone__ = partial(_copy_parameters, type(part), part.get_params())
        return base.clone(estimator)
    finally:
        for part in copying:
            vars(part).pop("__sklearn_clone__", None)


def _copy_parameters(estimator_class: type, parameters: dict[str, Any]) -> Any:
    return estimator_class(**copy.deepcopy(parameters))


def describe_estimator(estimator: Any) -> str:
    """Return the class of an estimator and all its parameters, as the same text in every process.

    Examples:
        >>> from sklearn.naive_bayes import GaussianNB
        >>> describe_estimator(GaussianNB())
        'GaussianNB(priors=None, var_smoothing=1e-09)'
    """
    if not callable(getattr(estimator, "get_params", None)):
        return type(estimator).__name__
    with errors.user_code_errors(f"target: {type(estimator).__name__}.get_params"):
        parameters = estimator.get_params(deep=False)
    described = ", ".join(f"{name}={_describe_parameter(parameters[name])}" for name in sorted(parameters))
    return f"{type(estimator).__name__}({described})"


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def _describe_parameter(value: Any) -> str:
    if callable(getattr(value, "get_params", None)) and not isinstance(value, type):
        return describe_estimator(value)
    if isinstance(value, np.ndarray):
        return f"array {value.shape} {store.hash_values(value)[:16]}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_describe_parameter, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_describe_parameter(k)}: {_describe_parameter(v)}' for k, v in value.items())}}}"
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return _ADDRESS.sub("", repr(value))


def _class_to_text(value: Any) -> str:
    """Spell a class as `Records` does: -1.0 is -1."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _column_names(estimator: Any) -> tuple[tuple[str, ...], bool]:
    """Return the names of the columns that an estimator knows, and whether a frame had them for certain."""
    for attribute in ("feature_names_in_", "feature_names_", "feature_name_"):
        attribute_value = getattr(estimator, attribute, None)
        if attribute_value is None or callable(attribute_value):
            continue
        names = tuple(str(name) for name in attribute_value)
        # What LightGBM and CatBoost call the columns of an array; in scikit-learn such names are the user's.
        may_be_made_up = attribute != "feature_names_in_" or hasattr(estimator, "booster_")
        return names, not (may_be_made_up and all(re.fullmatch(r"(?:Column_)?\d+", name) for name in names))
    return (), False


def _vote_count(estimator: Any) -> int | None:
    """Return the number of votes that a probability is a share of; None where it is no count."""
    estimator = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    if getattr(estimator, "bootstrap", False) is True and hasattr(estimator, "estimators_"):
        return len(estimator.estimators_)
    # Of neighbours within a radius, the number is None.
    if getattr(estimator, "n_neighbors", None) is not None and getattr(estimator, "weights", None) == "uniform":
        return int(estimator.n_neighbors)
    return None


def _smooth_votes(probabilities: Floats, votes: int) -> Floats:
    """Return log-probabilities with half a vote more for each class."""
    return np.log((probabilities * votes + 0.5) / (votes + 0.5 * probabilities.shape[1]))


def fitted_frame_library(estimator: Any) -> Literal["pandas", "polars"] | None:
    """Return the library of the frame that an estimator was fitted on, where its encoders show it; else None.

    A text that is missing is NaN in a column of pandas and None in one of polars, and an encoder takes them for two
    different categories.
    """
    parts = list(sub_estimators(estimator))
    if any(_pandas_categories(part) is not None or _reads_categories(part) for part in parts) and columns.has_pandas():
        return "pandas"
    encoded = [categories for part in parts for categories in getattr(part, "categories_", ())]
    if any(map(_holds_days, encoded)) and columns.has_pandas():
        return "pandas"
    markers = [
        value
        for categories in encoded
        for value in np.asarray(categories, dtype=object).tolist()
        if columns.is_missing(value)
    ]
    markers += [part.missing_values for part in parts if _imputes_texts(part)]
    # A frame of pandas may have both, one of polars None alone.
    return None if not markers else "polars" if all(marker is None for marker in markers) else "pandas"


def _imputes_texts(part: Any) -> bool:
    """Check whether a part is an imputer of texts, for which a missing one is either NaN or None."""
    return hasattr(part, "statistics_") and getattr(part, "_fit_dtype", np.dtype(float)).kind == "O"


def _reads_categories(estimator: Any) -> bool:
    """Check whether an estimator of XGBoost or CatBoost knows categories, which they read safely of pandas alone."""
    is_xgboost = hasattr(estimator, "get_booster") and bool(getattr(estimator, "enable_categorical", False))
    return is_xgboost or (hasattr(estimator, "get_cat_feature_indices") and bool(estimator.get_cat_feature_indices()))


def _pandas_categories(estimator: Any) -> list[Any] | None:
    """Return the categories of each column of LightGBM's pandas frame; None if it was fitted on something else."""
    return getattr(getattr(estimator, "booster_", None), "pandas_categorical", None)


def sub_estimators(estimator: Any) -> Iterator[Any]:
    """Yield an estimator and those that it is made of."""
    yield estimator
    for part in direct_parts(estimator):
        yield from sub_estimators(part)


_INNER_NAMES = (
    "estimator_", "best_estimator_", "final_estimator_", "regressor_", "transformer_", "nbrs_", "estimator",
    "_preprocessor", "base_estimator_",
)  # fmt: skip


def direct_parts(estimator: Any) -> Iterator[Any]:
    """Yield the estimators that an estimator is directly made of."""
    for _, step in getattr(estimator, "steps", ()):
        yield step
    for _, transformer, *_ in getattr(estimator, "transformers_", ()):
        yield transformer
    for _, step in getattr(estimator, "transformer_list", ()):
        yield step
    for name in ("estimators_", "calibrated_classifiers_"):
        inner = getattr(estimator, name, None)
        yield from () if inner is None else np.ravel(np.array(inner, dtype=object))
    for name in _INNER_NAMES:
        if (inner := getattr(estimator, name, None)) is not None:
            yield inner


def restore_types(estimator: Any, frame: Any) -> Any:
    """Return a frame whose columns hold values of the types that the encoders of an estimator were fitted on.

    A date is a text in a CSV file and a date in a Parquet file, and a code may be a number in one and a text in the
    other. To an encoder these are different categories, and one that ignores what it does not know would answer as if
    the column were empty.

    Raises:
        divulge.InputError: a column holds values that the estimator's type cannot express.
    """
    if not hasattr(frame, "select_dtypes") and not isinstance(frame, pl.DataFrame):
        return frame
    changed = {}
    for name, categories in _categories_by_column(estimator, tuple(frame.columns)).items():
        if name not in frame.columns or (fitted_type := _type_of_values(categories)) is None:
            continue
        column = nw.from_native(frame[name], series_only=True)
        column_type = _type_of_column(column)
        if column_type == fitted_type == "dates" and hasattr(frame, "select_dtypes"):
            if (dates := _restore_dates(frame[name], categories)) is not None:
                frame = frame.assign(**{name: dates})
            continue
        if column_type in (None, fitted_type) or {column_type, fitted_type} == {"numbers", "truth values"}:
            continue
        fitted_values = [value for value in categories if not columns.is_missing(value)]
        try:
            convert = _find_conversion(str(column_type), fitted_type, fitted_values)
            changed[name] = [None if columns.is_missing(value) else convert(value) for value in column.to_list()]
        except (KeyError, ValueError, TypeError):
            raise InputError(
                f"column {name!r} holds {column_type}, and the target was fitted on {fitted_type} such as "
                f"{format_value(str(fitted_values[0]))}; bring them as the target knows them"
            ) from None
    if not changed:
        return frame
    if isinstance(frame, pl.DataFrame):
        return frame.with_columns(pl.Series(name, values) for name, values in changed.items())
    filled = {name: [np.nan if value is None else value for value in values] for name, values in changed.items()}
    as_series = {name: pd.Series(values, frame.index, dtype=object) for name, values in filled.items()}
    return frame.assign(
        **{
            name: pd.to_datetime(series) if any(isinstance(value, dt.date) for value in changed[name]) else series
            for name, series in as_series.items()
        }
    )


def _restore_dates(series: Any, categories: Any) -> Any | None:
    """Return a column of dates of pandas as an encoder met it: days of Python's, or time stamps; None as it is.

    pandas reads the dates of a Parquet file as the former and knows those that it parses as the latter, and to an
    encoder no day is a time stamp.
    """
    met_days = _holds_days(categories)
    if met_days and series.dtype.kind == "M":
        days = [np.nan if columns.is_missing(value) else value.date() for value in series]
        return pd.Series(days, series.index, dtype=object)
    if not met_days and series.dtype.kind == "O":
        return pd.to_datetime(series)
    return None


def _holds_days(categories: Any) -> bool:
    """Check whether there are days of Python's among categories, which no frame of polars turns into."""
    return any(isinstance(value, dt.date) and not isinstance(value, dt.datetime) for value in categories)


def text_columns(estimator: Any) -> tuple[str, ...]:
    """Return the columns of which the encoders of an estimator know texts.

    Examples:
        >>> import pandas as pd
        >>> from sklearn.preprocessing import OneHotEncoder
        >>> text_columns(OneHotEncoder().fit(pd.DataFrame({"zip": ["007", "012"], "ward": [1, 2]})))
        ('zip',)
    """
    names = fitted_columns(estimator)
    categories = _categories_by_column(estimator, names)
    for part in sub_estimators(estimator):
        fitted = _pandas_categories(part) or []
        if fitted and len(_column_names(part)[0]) == len(names):
            for name, values in zip(_find_category_columns(part, fitted, names), fitted, strict=False):
                categories.setdefault(name, values)
    return tuple(name for name, values in categories.items() if _type_of_values(values) == "texts")


def known_texts(target: Any) -> tuple[str, ...]:
    """Return the columns of which a target's encoders know texts; none where it is no estimator.

    Examples:
        >>> known_texts(lambda x: x)
        ()
    """
    return text_columns(target.estimator) if isinstance(target, SklearnTarget | SklearnRegressor) else ()


def restore_numbers(estimator: Any, frame: Any) -> Any:
    """Return a frame in which truth values with gaps are numbers where an imputer of an estimator met numbers.

    pandas' nullable truth values are numbers to scikit-learn, with NaN where one is missing. Those of polars, and of
    pandas without a type, are objects to it, and an imputer of NaN leaves None where it stands.
    """
    if not hasattr(frame, "select_dtypes") and not isinstance(frame, pl.DataFrame):
        return frame
    imputed = [
        name
        for part, names in _parts_with_columns(estimator, tuple(frame.columns))
        if hasattr(part, "statistics_") and getattr(part, "_fit_dtype", np.dtype(object)).kind in "fiub"
        for name in names
    ]
    for name in dict.fromkeys(imputed):
        column = nw.from_native(frame[name], series_only=True) if name in frame.columns else None
        if column is None or not column.is_null().any() or _type_of_column(column) != "truth values":
            continue
        numbers = np.array([np.nan if columns.is_missing(value) else float(value) for value in column.to_list()])
        if isinstance(frame, pl.DataFrame):
            frame = frame.with_columns(pl.Series(name, numbers))
        else:
            frame = frame.assign(**{name: numbers})
    return frame


def restore_missing(estimator: Any, frame: Any) -> Any:
    """Return a pandas frame in which a missing value is what it was to each encoder of an estimator: NaN, None or NA.

    To an encoder these are different categories. Columns that no encoder was fitted on stay as they are.
    """
    if not hasattr(frame, "select_dtypes"):
        return frame
    changed = {}
    for name, marker in _markers_by_column(estimator, tuple(frame.columns)).items():
        if name not in frame.columns or not (absent := frame[name].isna()).any():
            continue
        dtype = frame[name].dtype
        if dtype.kind == "O" or not (isinstance(marker, float) or dtype.kind == "M"):
            changed[name] = frame[name].astype(object)
            changed[name][absent] = marker
    return frame.assign(**changed) if changed else frame


_ValueType = Literal["numbers", "truth values", "dates", "texts"]
_DATE_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f")


def _find_conversion(column_type: str, fitted_type: str, fitted_values: Sequence[Any]) -> Callable[[Any], Any]:
    """Return what makes values of one type those of another, in the spelling of the ``fitted_values`` ones.

    Raises:
        KeyError: there is no such conversion.
        ValueError: no spelling gives what is known.
    """
    if fitted_type == "texts" and column_type == "dates":
        for style in _DATE_FORMATS:
            with contextlib.suppress(ValueError):
                if all(dt.datetime.strptime(text, style).strftime(style) == text for text in fitted_values):
                    return lambda value: value.strftime(style)
        raise ValueError(fitted_values)
    if fitted_type == "texts" and column_type == "numbers":
        if not all(str(int(text)) == text for text in fitted_values):
            raise ValueError(fitted_values)
        return lambda value: str(int(value) if value == int(value) else value)
    if fitted_type == "texts" and column_type == "truth values":
        spellings = {text.lower() == "true": text for text in fitted_values if text.lower() in ("true", "false")}
        return lambda value: spellings[bool(value)]
    conversions: dict[tuple[str, str], Callable[[Any], Any]] = {
        ("texts", "dates"): dt.datetime.fromisoformat,
        ("texts", "numbers"): float,
        ("texts", "truth values"): lambda text: {"true": True, "false": False}[text.lower()],
    }
    return conversions[column_type, fitted_type]


def _type_of_column(column: nw.Series[Any]) -> _ValueType | None:
    dtype = column.dtype
    if isinstance(dtype, nw.Date | nw.Datetime):
        return "dates"
    if isinstance(dtype, nw.Boolean):
        return "truth values"
    if isinstance(dtype, nw.String):
        return "texts"
    return "numbers" if dtype.is_numeric() else _type_of_values(column.unique().to_list())


def _type_of_values(values: Any) -> _ValueType | None:
    """Return the type that all values have which are not missing; None where they have several, or there are none."""
    if getattr(values, "dtype", np.dtype(object)).kind == "M":
        return "dates"
    present = [value for value in values if not columns.is_missing(value)]
    types: dict[_ValueType, tuple[type, ...]] = {
        "truth values": (bool, np.bool_),
        "numbers": (int, float, np.number),
        "dates": (dt.date,),
        "texts": (str,),
    }
    return next(
        (
            name
            for name, types_of_value in types.items()
            if present and all(isinstance(v, types_of_value) for v in present)
        ),
        None,
    )


def _categories_by_column(estimator: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the categories that encoders in an estimator were fitted on, by the name of the column.

    Args:
        estimator: fitted.
        names: columns of what it was fitted on, where it does not name them.
    """
    categories_by_column: dict[str, Any] = {}
    for part, its_names in _parts_with_columns(estimator, names):
        categories = getattr(part, "categories_", ())
        if len(categories) == len(its_names):
            categories_by_column = dict(zip(its_names, categories, strict=True)) | categories_by_column
    return categories_by_column


def _markers_by_column(estimator: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what stands for a missing value to the encoders and imputers of an estimator, by the name of the column.

    Columns without a missing value in what they were fitted on are left out; arguments as for `_categories_by_column`.
    """
    markers_by_column: dict[str, Any] = {}
    for name, categories in _categories_by_column(estimator, names).items():
        missing = [value for value in np.asarray(categories, dtype=object).tolist() if columns.is_missing(value)]
        if missing:
            markers_by_column[name] = missing[0]
    for part, its_names in _parts_with_columns(estimator, names):
        if _imputes_texts(part) and len(part.statistics_) == len(its_names):
            markers_by_column = dict.fromkeys(its_names, part.missing_values) | markers_by_column
    return markers_by_column


def _parts_with_columns(part: Any, names: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield an estimator and its parts, each with the columns that it is given; none where they are unknown."""
    names = tuple(map(str, getattr(part, "feature_names_in_", names)))
    yield part, names
    inner: list[tuple[Any, tuple[str, ...]]] = []
    step_names = names
    for _, step in getattr(part, "steps", ()):
        inner.append((step, step_names))
        if not hasattr(step, "statistics_"):  # an imputer keeps the columns and their order; others may not
            step_names = ()
    for _, transformer, chosen in getattr(part, "transformers_", ()):
        inner.append((transformer, _select_names(names, chosen)))
    inner += [(step, names) for _, step in getattr(part, "transformer_list", ())]
    for name in ("estimators_", "calibrated_classifiers_"):
        parts = getattr(part, name, None)
        inner += [(each, names) for each in (() if parts is None else np.ravel(np.array(parts, dtype=object)))]
    for name in ("estimator_", "best_estimator_", "final_estimator_", "estimator"):
        if (each := getattr(part, name, None)) is not None:
            inner.append((each, names))
    for each, its_names in inner:
        yield from _parts_with_columns(each, its_names)


def _select_names(names: tuple[str, ...], chosen: Any) -> tuple[str, ...]:
    """Return the names of the columns that a part of a ColumnTransformer was given."""
    chosen = [chosen] if isinstance(chosen, str | int) else chosen
    if not isinstance(chosen, slice) and all(isinstance(entry, str) for entry in chosen):
        return tuple(chosen)
    try:
        return tuple(np.array(names, dtype=object)[chosen].tolist())
    except (IndexError, TypeError):
        return ()


def restore_categories(estimator: Any, frame: Any) -> Any:
    """Return a pandas frame whose categories are those that the estimator was fitted on (LightGBM, XGBoost).

    Raises:
        divulge.InputError: a column of which no value is among the categories.
    """
    if not hasattr(frame, "select_dtypes"):
        return frame
    texts = [name for name in frame.columns if str(frame[name].dtype) in ("object", "str", "string", "category")]
    for part in sub_estimators(estimator):
        if not (fitted_categories := _pandas_categories(part)):
            continue
        names, part_columns = texts, _column_names(part)[0]
        if len(part_columns) == len(frame.columns):
            names = _find_category_columns(part, fitted_categories, list(frame.columns), frame)
        if len(names) == len(fitted_categories):
            return _assign_categories(frame, dict(zip(names, fitted_categories, strict=True)))
        if len(part_columns) == len(frame.columns):
            raise InputError(
                f"records: the target was fitted on {len(fitted_categories)} columns of categories, and which ones "
                "these are does not show in the values: pass data frames of pandas to divulge.audit where they are of "
                "type category"
            )
    for part in sub_estimators(estimator):
        if getattr(part, "enable_categorical", False) and part.__sklearn_is_fitted__():
            booster = part.get_booster()
            # XGBoost before 3.1 kept the codes of its categories, and not what they stood for.
            if hasattr(booster, "get_categories") and len(booster.feature_types or ()) == len(frame.columns):
                named = zip(frame.columns, booster.get_categories(export_to_arrow=True).to_arrow(), strict=True)
                return _assign_categories(
                    frame, {name: kept.to_pylist() for name, (_, kept) in named if kept is not None}
                )
    return frame


def _find_category_columns(
    part: Any, fitted_categories: Sequence[Any], names: Sequence[str], frame: Any = None
) -> list[str]:
    """Return the columns, in their order, of which LightGBM kept the categories; none where several choices fit.

    LightGBM says which columns have categories without an order. Those with an order are numbers to it: they are found
    by their codes, of which it keeps the range, and by the values in the frame. Texts in a frame are always categories.
    """
    positions = part.booster_.params.get("categorical_column") or []
    header = part.booster_.model_to_string(num_iteration=1).split("\nfeature_infos=")[1].split("\n")[0].split()
    ranges = [[float(value) for value in re.findall(r"[^:\[\]]+", info) if info != "none"] for info in header]

    def fits(place: int, categories: Sequence[Any]) -> bool:
        if any(code not in range(-1, len(categories)) for code in ranges[place]):
            return False
        if frame is None:
            return True
        present = _convert_to_fitted(frame[names[place]], categories).dropna()
        return bool(present.isin(categories).all()) or (place in texts and bool(present.isin(categories).any()))

    texts = set()
    if frame is not None:
        readable = ("object", "str", "string", "category")
        texts = {place for place, name in enumerate(names) if str(frame[name].dtype) in readable}
    # The first places may not be categories: the user may have named columns of numbers.
    for certain in (texts | set(positions), texts):
        choices = [[()], *([] for _ in fitted_categories)]  # by how many lists of categories are placed; two are enough
        for place in range(len(names)):
            placed = [[] if place in certain else list(found) for found in choices]
            for number, categories in enumerate(fitted_categories):
                if choices[number] and fits(place, categories):
                    placed[number + 1] += [(*found, place) for found in choices[number]]
            choices = [found[:2] for found in placed]
        if choices[-1]:
            return [names[place] for place in choices[-1][0]] if len(choices[-1]) == 1 else []
    # A column of which the target knows no value is named by the error that follows.
    return [names[place] for place in sorted(texts | set(positions))]


def _assign_categories(frame: Any, categories_by_column: Mapping[Any, Sequence[Any]]) -> Any:
    """Return a pandas frame in which columns have the categories that the model was fitted on.

    Raises:
        divulge.InputError: a column of which no value is among the categories.
    """
    changed = {}
    for name, categories in categories_by_column.items():
        column = _convert_to_fitted(frame[name], categories)
        fitted = pd.Categorical(column.astype(object).where(column.isin(categories)), categories=categories)
        if column.notna().any() and not fitted.notna().any():
            raise InputError(
                f"column {name!r}: the target knows none of its values, such as "
                f"{format_value(column.dropna().iloc[0])}; it was fitted on {format_value(list(categories))}"
            )
        changed[name] = fitted
    return frame.assign(**changed)


def _convert_to_fitted(column: Any, categories: Sequence[Any]) -> Any:
    """Return a column of pandas with its values in the type of the categories, where they can be written so."""
    column_type = _type_of_column(nw.from_native(column, series_only=True))
    fitted_type = _type_of_values(categories)
    if column_type == fitted_type or column_type is None or fitted_type is None:
        return column
    try:
        convert = _find_conversion(column_type, fitted_type, [str(value) for value in categories])
        values = [np.nan if columns.is_missing(value) else convert(value) for value in column]
    except (KeyError, ValueError, TypeError):
        return column
    return pd.Series(values, column.index, dtype=object)


@dataclass(frozen=True, slots=True)
class SklearnRegressor:
    """A fitted estimator whose ``predict`` gives a real value: of scikit-learn, LightGBM, XGBoost or CatBoost.

    A model that was fitted on a data frame is given one with the same columns, as `divulge.targets.SklearnTarget` does.

    Args:
        estimator: fitted, with ``predict``; a pipeline too.
        frames: the library of the data frames that the estimator is given, see `divulge.targets.SklearnTarget`.

    Raises:
        divulge.InputError: a classifier, or no ``predict``.

    Examples:
        >>> from sklearn.linear_model import LinearRegression
        >>> from divulge import Records
        >>> model = LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])
        >>> SklearnRegressor(model).predictions(Records([[2.0]])).round(6)
        array([5.])
    """

    estimator: Any
    frames: Literal["auto", "own", "pandas", "polars"] = "auto"
    takes_frames: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice(self.frames, "frames", ("auto", "own", "pandas", "polars"))
        require_callable(self.estimator, "estimator", "predict")
        has_classes = hasattr(self.estimator, "classes_") or hasattr(self.estimator, "predict_proba")
        if has_classes and not is_regressor(self.estimator):  # CatBoost's regressors have classes_, too
            raise InputError(
                f"target: {type(self.estimator).__name__} is a classifier, which predicts classes; a regression model "
                "is needed"
            )

    def predictions(self, records: Records) -> Floats:
        """Predicted value of each record, float64 ``[n]``.

        Raises:
            divulge.InputError: NaN or infinity, several values for a record.
            divulge.errors.UserCodeError: the estimator raised an error.
        """
        name = f"target: {type(self.estimator).__name__}"
        # An estimator of the user's own may write into what it is given.
        inputs = self.model_inputs(records.copy())
        with errors.user_code_errors(name, hint="" if records.table is None else describe_inputs(inputs)):
            predicted = self.estimator.predict(inputs)
        return out.as_predictions(predicted, len(records), f"{name}.predict")

    def model_inputs(self, records: Records) -> Any:
        """Return the records as the estimator was fitted on them: a frame with its columns, or an array."""
        return estimator_inputs(self.estimator, records, self.frames)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that the estimator was fitted on; empty where it was fitted on an array."""
        return fitted_columns(self.estimator)

    @property
    def likely_names(self) -> tuple[tuple[str, ...], ...]:
        """Names that may be those of the columns."""
        return likely_columns(self.estimator)


@dataclass(frozen=True)
class Regressor:
    """A network, ONNX file or function whose single output is the predicted value.

    Args:
        target: the adapter that runs it: `divulge.targets.TorchTarget`, `OnnxTarget` or `CallableTarget`.

    Raises:
        divulge.InputError: another object.

    Examples:
        >>> from divulge import Records
        >>> from divulge.targets import CallableTarget
        >>> Regressor(CallableTarget(lambda x: x.sum(axis=1))).predictions(Records([[1.0, 2.0]]))
        array([3.])
    """

    target: Any

    def __post_init__(self) -> None:
        require_callable(self.target, "target", "raw_outputs")
        for name in ("feature_names", "likely_names", "takes_frames", "weights"):
            if hasattr(self.target, name):
                object.__setattr__(self, name, getattr(self.target, name))

    def predictions(self, records: Records) -> Floats:
        """Predicted value of each record, float64 ``[n]``.

        Raises:
            divulge.InputError: NaN or infinity, several values for a record.
            divulge.errors.UserCodeError: the function raised an error.
        """
        return out.as_predictions(self.target.raw_outputs(records), len(records))


def is_regressor(model: Any) -> bool:
    """Check whether an object is an estimator that says that it predicts real values.

    Examples:
        >>> from sklearn import linear_model
        >>> is_regressor(linear_model.Ridge()), is_regressor(linear_model.LogisticRegression())
        (True, False)
    """
    if isinstance(model, type) or not callable(getattr(model, "predict", None)):
        return False
    if getattr(model, "_estimator_type", None) == "regressor":
        return True
    try:
        return bool(base.is_regressor(model))
    except Exception:  # an object with predict that is no estimator of scikit-learn has no tags
        return False


def as_regressor(target: Any) -> Any:
    """Return an adapter, or an object with ``predictions(records)``, as a regression model.

    Raises:
        divulge.InputError: a classifier, or a model of another kind.
    """
    if callable(getattr(target, "predictions", None)):
        return target
    if callable(getattr(target, "raw_outputs", None)):
        return Regressor(target)
    described = type(getattr(target, "estimator", getattr(target, "target", target))).__name__
    raise InputError(
        f'target: task = "regression" needs a model that predicts one real value of each record, got '
        f"{format_value(described)}"
    )
