"""Estimators of scikit-learn, LightGBM, XGBoost and CatBoost as targets, and regression models of any kind."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np

from divulge import errors, lazy, store
from divulge.columns import has_pandas
from divulge.errors import InputError
from divulge.targets import outputs as out
from divulge.targets.fitted_frames import (
    estimator_errors,
    estimator_inputs,
    fitted_columns,
    fitted_frame_library,
    likely_columns,
    text_columns,
)
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
    from collections.abc import Iterator, Sequence

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
        with estimator_errors(self.estimator, records, inputs):
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
            if logits is None:
                return self._log(x, self._probabilities(x))
            # Whether the probabilities are the softmax of the decision values, records from all over show: to ask for
            # both of all takes twice as long.
            step = max(-(-len(logits) // _PROBED), 1)
            shown, probabilities = logits[::step], self._probabilities(x[::step])
            if shown.shape == probabilities.shape:
                shifted = np.exp(shown - shown.max(axis=1, keepdims=True))
                if np.allclose(shifted / shifted.sum(axis=1, keepdims=True), probabilities, atol=1e-6):
                    return self._full(logits)
            return self._log(x, probabilities if step == 1 else self._probabilities(x))
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
        # Each class has its votes and, smaller than a vote, what speaks for it in all its pairs, as one-vs-rest
        # machines give them (LIBSVM and scikit-learn's decision_function_shape='ovr').
        first, second = np.triu_indices(n_classes, 1)
        votes, confidence = np.zeros((2, len(values), n_classes))
        for pair, (one, other) in enumerate(zip(first, second, strict=True)):
            wins = values[:, pair] >= 0
            votes[:, one] += wins
            votes[:, other] += ~wins
            confidence[:, one] += values[:, pair]
            confidence[:, other] -= values[:, pair]
        summed = votes + confidence / (3 * (np.abs(confidence) + 1))
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
            # Half a vote more for each class (Jeffreys' prior), so that no count becomes an infinite logarithm.
            # Classes that the estimator does not know have probability 0.
            check_memory(
                8.0 * len(probabilities) * int(self.classes or 0), "target.classes_", "number the classes from 0"
            )
            wide = np.zeros((len(probabilities), int(self.classes or 0)))
            wide[:, self._columns()] = probabilities
            return np.log((wide * votes + 0.5) / (votes + 0.5 * wide.shape[1]))
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
        with estimator_errors(self.estimator, records, inputs):
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


def gives_labels(model: Any) -> bool:
    """Check whether an object is a fitted classifier of scikit-learn's kind that predicts its classes."""
    return not isinstance(model, type) and callable(getattr(model, "predict", None)) and hasattr(model, "classes_")


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


def _vote_count(estimator: Any) -> int | None:
    """Return the number of votes that a probability is a share of; None where it is no count."""
    estimator = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    if getattr(estimator, "bootstrap", False) is True and hasattr(estimator, "estimators_"):
        return len(estimator.estimators_)
    # Of neighbours within a radius, the number is None.
    if getattr(estimator, "n_neighbors", None) is not None and getattr(estimator, "weights", None) == "uniform":
        return int(estimator.n_neighbors)
    return None


def known_texts(target: Any) -> tuple[str, ...]:
    """Return the columns of which a target's encoders know texts; none where it is no estimator.

    Examples:
        >>> known_texts(lambda x: x)
        ()
    """
    return text_columns(target.estimator) if isinstance(target, SklearnTarget | SklearnRegressor) else ()


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
        with estimator_errors(self.estimator, records, inputs):
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
