"""Outputs that a model may give an auditor, one protocol for each, and wrappers that restrict or count them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np
from scipy import special

from divulge import errors, lazy, seeds, store
from divulge.errors import InputError
from divulge.targets import outputs as out
from divulge.targets.endpoint import GivesText
from divulge.targets.estimators import (
    SklearnLabels,
    SklearnRegressor,
    SklearnTarget,
    as_regressor,
    gives_labels,
    is_regressor,
)
from divulge.targets.outputs import PROBABILITY_FLOOR, CallableTarget
from divulge.targets.token_statistics import GivesTokens, TokenStatistics
from divulge.targets.unsupported import reject_unsupported_model
from divulge.validation import (
    check_choice,
    check_instance,
    check_integer,
    check_labels,
    check_number,
    format_value,
    require_callable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scipy import stats

    from divulge.targets import torch_modules
    from divulge.types import Array, Floats, Ints, Records
else:
    stats = lazy.module("scipy.stats")
    torch_modules = lazy.module("divulge.targets.torch_modules")

Task: TypeAlias = Literal["auto", "classification", "regression"]


@runtime_checkable
class GivesLogits(Protocol):
    """Unnormalised log-probabilities of the classes, ``[n, K]``; log-probabilities will do."""

    def logits(self, records: Records) -> Floats:
        """Logits of each record, float64 ``[n, K]``."""
        ...


@runtime_checkable
class GivesLabels(Protocol):
    """Only the predicted class, ``[n]``."""

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record."""
        ...


@runtime_checkable
class GivesPredictions(Protocol):
    """A predicted real value, ``[n]``: a regression model."""

    def predictions(self, records: Records) -> Floats:
        """Predicted value of each record, float64 ``[n]``."""
        ...


@runtime_checkable
class GivesNotes(Protocol):
    """Remarks that a reader of the answers needs, such as that long documents were cut."""

    def notes(self, records: Records) -> tuple[str, ...]:
        """Return remarks on the answers for these records; empty if there are none."""
        ...


@runtime_checkable
class GivesLoss(Protocol):
    """Only the loss on a labelled record, ``[n]``."""

    def loss(self, records: Records) -> Floats:
        """Cross-entropy in nats of each record under its own label."""
        ...


@runtime_checkable
class GivesGradients(Protocol):
    """White box: the gradient of the loss with respect to the record."""

    def gradients(self, records: Records) -> Floats:
        """∂ loss / ∂ x, the shape of ``records.x``."""
        ...


@runtime_checkable
class GivesHead(Protocol):
    """White box: the last hidden layer, as the classifier's last linear layer sees it."""

    def head(self, records: Records) -> tuple[Floats, Floats]:
        """Return the input of the last linear layer, ``[n, h]``, and its weights ``[K, h]``."""
        ...

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record."""
        ...


@runtime_checkable
class GivesGradientNorms(Protocol):
    """White box: the norm of the gradient of a record's loss in the weights."""

    def gradient_norms(self, records: Records) -> Floats:
        """Logarithms of ‖∂ loss / ∂ θ‖, ``[n, 2]``: in the last linear layer's parameters, and in all of them."""
        ...


@runtime_checkable
class GivesWeights(Protocol):
    """White box: the parameters by name."""

    def weights(self) -> Mapping[str, Array]:
        """Return every parameter as an array."""
        ...


def declared_modality(target: Any) -> Any:
    """Return the `divulge.auditing.Modality` that a target of the user's own class declares, or None."""
    modality = getattr(target, "modality", None)
    return modality if callable(getattr(modality, "compute_signals", None)) else None


def class_name(target: Any) -> str:
    """Return the name of a target's class, for messages: of the user's own class where ours are around it."""
    while isinstance(target, UserTarget | FramedTarget | Metered | Averaged):
        target = target.target
    return type(target).__name__


def is_language_model(target: Any) -> bool:
    """Check whether a target is queried for tokens rather than for classes."""
    return isinstance(target, GivesTokens) and not isinstance(target, GivesLogits)


def is_regression_model(target: Any) -> bool:
    """Check whether a target predicts real values, and neither classes nor tokens."""
    return isinstance(target, GivesPredictions) and not isinstance(target, GivesLogits | GivesLabels | GivesTokens)


def is_label_only(target: Any) -> bool:
    """Check whether a classifier gives its predicted labels and no logits."""
    return isinstance(target, GivesLabels) and not isinstance(target, GivesLogits)


def check_outputs(target: Any, logits: Floats | None, labels: Ints | None) -> None:
    """Raise where outputs that were read as logits, or log-odds of class 1, are probabilities.

    Args:
        target: the model.
        logits: its answers to all records, ``[n, K]``.
        labels: their classes, where they are known.

    Raises:
        divulge.InputError: they are probabilities (`divulge.targets.outputs.check_log_odds`, `check_logits`).
    """
    if logits is None or hasattr(target, "known_classes"):  # an estimator says itself what its decision values are
        return
    if logits.shape[1] == 2 and not logits[:, 0].any():
        out.check_log_odds(logits[:, 1], labels)
    else:
        out.check_logits(logits)


def weights_key(target: Any) -> str:
    """Return a digest that tells a model from others: of its own key, or of its weights; empty if it shows neither."""
    if isinstance(target, GivesTokens):
        return store.hash_values(sorted(target.key().items()))[:16]
    if not isinstance(target, GivesWeights):
        return ""
    if not (weights := target.weights()):
        return ""
    return store.hash_values(*(part for name in sorted(weights) for part in (name, weights[name])))[:16]


# Rights that ask the model about records, each record one query, and rights that ask nothing.
_QUERY_RIGHTS = ("logits", "labels", "predictions", "loss", "gradients", "head", "gradient_norms")
_OTHER_RIGHTS = ("weights", "tokens", "key", "continuations", "greedy", "encode", "decode")
_TARGET_METHODS = (
    "logits",
    "labels",
    "predictions",
    "loss",
    "gradients",
    "weights",
    "tokens",
)  # other names mean other things
# What an adapter holds: attacks on the weights read them there, which asks the target nothing.
_ADAPTER_ATTRIBUTES = (
    "start",
    "length",
    "module",
    "function",
    "outputs",
    "class_names",
    "feature_names",
    "likely_names",
    "known_classes",
    "takes_frames",
    "modality",
)


def grant_rights(wrapper: Any, target: Any, ask: Callable[[str, Records], Any]) -> None:
    """Give ``wrapper`` exactly the rights of ``target``; those about records go through ``ask(right, records)``.

    They become attributes of the object itself: Python tells a Protocol by these, not by ``__getattr__``.
    """
    for name in dict.fromkeys((*_QUERY_RIGHTS, *_declared_outputs(target))):
        if callable(getattr(target, name, None)):
            object.__setattr__(wrapper, name, partial(ask, name))
    attributes = [name for name in _ADAPTER_ATTRIBUTES if hasattr(target, name)]
    for name in (*(name for name in _OTHER_RIGHTS if callable(getattr(target, name, None))), *attributes):
        object.__setattr__(wrapper, name, getattr(target, name))


def _declared_outputs(target: Any) -> tuple[str, ...]:
    modality = declared_modality(target)
    return () if modality is None else tuple(modality.outputs)


@dataclass(frozen=True)
class UserTarget:
    """A target of the user's own class, with exactly its outputs; it is handed copies, which it may write into.

    Args:
        target: an object with any of the rights.

    Raises:
        divulge.InputError: answers to ``logits`` or ``labels`` that are none of the records asked about; answers to
            ``tokens`` that are no statistics of the texts asked about.
        divulge.errors.UserCodeError: the target raised an error.
    """

    target: Any

    def __post_init__(self) -> None:
        grant_rights(self, self.target, self._ask)
        if hasattr(self.target, "tokens"):
            object.__setattr__(self, "tokens", self._tokens)

    def _ask(self, right: str, records: Records) -> Any:
        with errors.user_code_errors(f"target: {type(self.target).__name__}.{right}"):
            answer = getattr(self.target, right)(records.copy())
        if right == "labels":
            return check_labels(answer, "target: labels", length=len(records))
        return out.as_logits(answer, "logits", len(records)) if right == "logits" else answer

    def _tokens(self, texts: Sequence[str], *, vocabulary: bool = True) -> TokenStatistics:
        name = f"target: {type(self.target).__name__}.tokens"
        with errors.user_code_errors(name):
            answer = self.target.tokens(list(texts), vocabulary=vocabulary)
        stats = check_instance(answer, name, TokenStatistics, "a targets.TokenStatistics")
        if len(stats) != len(texts):
            raise InputError(f"{name}: {len(texts)} documents are needed, got {len(stats)}")
        return stats


def wrap_target(target: Any) -> Any:
    """Return ``target`` inside `UserTarget` if it is of the user's own class, otherwise itself.

    Raises:
        divulge.InputError: it gives none of the rights.
    """
    if isinstance(target, GivesText) and not isinstance(target, GivesTokens):
        raise InputError(
            "target: a chat endpoint gives text, and at most log-probabilities of the tokens that it generates, which "
            "say nothing of how likely a given document is, so membership cannot be asked; whether it gives documents "
            "back can be (divulge extract --endpoint … --chat, divulge.extraction.measure)"
        )
    methods = (*_TARGET_METHODS, *_declared_outputs(target))
    if isinstance(target, type) or not any(callable(getattr(target, right, None)) for right in methods):
        raise InputError(
            f"target: an object with logits(records) or another right is needed, got {format_value(target)}"
        )
    return target if type(target).__module__.split(".")[0] == "divulge" else UserTarget(target)


def adapt(
    model: Any,
    *,
    outputs: str = "logits",
    device: str = "auto",
    labels_only: bool = False,
    names: Sequence[str] | None = None,
    task: Task = "auto",
) -> Any:
    """Return the adapter that fits ``model``.

    A target stays itself (one of the user's own class inside `UserTarget`, which hands it copies of the records); a
    torch module, a scikit-learn classifier or regressor or a callable is wrapped.

    Args:
        model: a target, torch module, fitted scikit-learn classifier or regressor, or callable.
        outputs: "logits" or "probabilities": what a module or callable returns.
        device: where a torch module runs.
        labels_only: whether a target that gives labels and no logits will do.
        names: of the classes, in the order in which labels number them, for a classifier that knows them by name.
        task: "classification", "regression", or "auto": what ``model`` shows, and a classifier where a network or
            function may be either.

    Raises:
        divulge.InputError: nothing here fits ``model``; it is of the other task.

    Examples:
        >>> import numpy as np
        >>> adapt(lambda x: np.stack([x[:, 0], -x[:, 0]], axis=1))
        CallableTarget(function=..., outputs='logits', frames=None)
    """
    check_choice(outputs, "outputs", out.OUTPUT_TYPES)
    check_choice(task, "task", get_args(Task))
    base_packages = {base.__module__.split(".")[0] for base in type(model).__mro__}
    is_module = "torch" in base_packages and callable(model)
    is_target = isinstance(model, GivesLogits | GivesTokens) or declared_modality(model) is not None
    is_target |= isinstance(model, GivesPredictions) and not is_module and not hasattr(model, "predict")
    is_target |= labels_only and isinstance(model, GivesLabels)
    is_target |= isinstance(model, GivesText)
    is_estimator = is_regressor(model) or (task == "regression" and callable(getattr(model, "predict", None)))
    if not is_target and not is_module:
        reject_unsupported_model(model, task)
    adapter: Any
    if is_target and not isinstance(model, type):
        adapter = wrap_target(model)
    elif is_module:
        adapter = torch_modules.TorchTarget(model, outputs=outputs, device=device)
    elif is_estimator and not isinstance(model, type):
        adapter = SklearnRegressor(model)
    elif hasattr(model, "predict_proba") or hasattr(model, "decision_function"):
        adapter = SklearnTarget(model, names=names)
    elif labels_only and gives_labels(model):
        adapter = SklearnLabels(model, names=names)
    elif callable(model):
        owner = getattr(model, "__self__", None)
        if getattr(model, "__name__", "") == "decision_function" and len(getattr(owner, "classes_", ())) > 2:
            raise InputError(
                f"target: decision_function of {type(owner).__name__} may have a column for each pair of classes; pass "
                "the estimator itself"
            )
        adapter = CallableTarget(model, outputs=outputs)
    else:
        raise InputError(
            f"target: {type(model).__name__} is neither a torch module, a scikit-learn classifier or regressor, a "
            f"callable nor an object with a method logits(records){' or labels(records)' if labels_only else ''} or "
            "predictions(records)"
        )
    return as_regressor(adapter) if task == "regression" else adapter


def adapt_output_model(model: Any) -> Any:
    """Return a reference model as a target that is no classifier: one with a declared modality, or a regression model.

    Raises:
        divulge.InputError: neither.
    """
    is_own = any(callable(getattr(model, right, None)) for right in _TARGET_METHODS)
    is_own &= not callable(getattr(model, "predict", None))
    return wrap_target(model) if is_own or declared_modality(model) is not None else adapt(model, task="regression")


@dataclass
class Metered:
    """Count the records that a target is queried on, and refuse to go over a limit.

    It grants exactly the rights of the target behind it.

    Args:
        target: the target to count for.
        limit: greatest number of queries, or None.

    Raises:
        divulge.InputError: a call that would go over the limit (before it is made).

    Examples:
        >>> from divulge import Records
        >>> from divulge.targets import CallableTarget, GivesGradients
        >>> meter = Metered(CallableTarget(lambda x: x))
        >>> meter.labels(Records([[0.0, 2.0], [3.0, 0.0]])), meter.queries, isinstance(meter, GivesGradients)
        (array([1, 0]), 2, False)
    """

    target: Any
    limit: int | None = None
    queries: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.target = wrap_target(self.target)
        if self.limit is not None:
            check_integer(self.limit, "limit", minimum=0)
        grant_rights(self, self.target, self._ask)

    if TYPE_CHECKING:  # given by `grant_rights`, where the target has them

        def logits(self, records: Records) -> Floats:
            """The target's logits, counted."""
            ...

    def _ask(self, right: str, records: Records) -> Any:
        if self.limit is not None and self.queries + len(records) > self.limit:
            raise InputError(
                f"limit: {self.queries} of {self.limit} allowed queries are used and {len(records)} more are requested"
            )
        self.queries += len(records)
        return getattr(self.target, right)(records)


@dataclass(frozen=True)
class Averaged:
    """A target that is asked several times, for the mean of its answers.

    It grants exactly the rights of the target behind it. Probabilities are averaged, not logits, as noise may be added
    to either and single logits have no bound; a record's label is the one given most often. Gradients and whatever else
    is read from weights are asked for once.

    Args:
        target: the target to ask.
        calls: how often.

    Examples:
        >>> from divulge import Records
        >>> from divulge.targets import CallableTarget
        >>> rng = np.random.default_rng(0)
        >>> noise = lambda x: rng.uniform(-0.2, 0.2, (len(x), 1)) * [1, -1]
        >>> noisy = CallableTarget(lambda x: x + noise(x), outputs="probabilities")
        >>> np.exp(Averaged(noisy, calls=1000).logits(Records([[0.3, 0.7]]))).round(1)
        array([[0.3, 0.7]])
    """

    target: Any
    calls: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", wrap_target(self.target))
        check_integer(self.calls, "calls", minimum=1)
        grant_rights(self, self.target, self._ask)

    def _ask(self, right: str, records: Records) -> Any:
        if right == "labels" and hasattr(self.target, "logits"):
            return self._ask("logits", records).argmax(axis=1)
        if right not in ("logits", "labels", "predictions", "loss", *_declared_outputs(self.target)):
            return getattr(self.target, right)(records)
        answers = np.stack([np.asarray(getattr(self.target, right)(records)) for _ in range(self.calls)])
        if right == "logits":
            return special.logsumexp(special.log_softmax(answers, axis=2), axis=0) - np.log(self.calls)
        if right == "labels":
            return stats.mode(answers, axis=0).mode
        if right == "loss":
            return np.log(self.calls) - special.logsumexp(-answers, axis=0)
        return answers.mean(axis=0)


@dataclass(frozen=True, slots=True)
class Rounded:
    """A target whose probabilities are rounded to ``decimals`` places before anyone sees them.

    Examples:
        >>> from divulge import Records
        >>> from divulge.targets import CallableTarget
        >>> inner = CallableTarget(lambda x: [[0.123, 0.877]], outputs="probabilities")
        >>> np.exp(Rounded(inner, decimals=1).logits(Records([[0.0]])))
        array([[0.1, 0.9]])
    """

    target: GivesLogits
    decimals: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", wrap_target(require_callable(self.target, "target", "logits")))
        check_integer(self.decimals, "decimals", minimum=0, maximum=300)

    def logits(self, records: Records) -> Floats:
        """Logarithms of the rounded probabilities."""
        logits = self.target.logits(records)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = np.round(odds / odds.sum(axis=1, keepdims=True), self.decimals)
        return np.log(np.maximum(probabilities, PROBABILITY_FLOOR))


@dataclass(frozen=True, slots=True)
class Noisy:
    """A target that adds Gaussian noise to its logits; the same record always gets the same noise.

    (Noise drawn afresh for every query could be averaged away.)

    Args:
        target: the target behind.
        scale: standard deviation of the noise.
        seed: of the noise.
    """

    target: GivesLogits
    scale: float
    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", wrap_target(require_callable(self.target, "target", "logits")))
        check_number(self.scale, "scale", above=0.0, below=1e300, closed=True)
        check_integer(self.seed, "seed", minimum=0)

    def logits(self, records: Records) -> Floats:
        """Logits with the noise that belongs to each record."""
        logits = self.target.logits(records)
        noise = [
            seeds.generator(self.seed, "noise", int(store.hash_values(np.asarray(x))[:12], 16)).normal(
                size=logits.shape[1]
            )
            for x in records.x
        ]
        return logits + self.scale * np.stack(noise)


@dataclass(frozen=True)
class FramedTarget:
    """Give a target data frames also where an attack made records of numbers alone (moved, or completed).

    It grants exactly the rights of the target behind it.

    Args:
        target: the target behind.
        template: a record with the columns, types and encoding of the audit's.

    Raises:
        divulge.InputError: records without a frame where a column holds free text, which numbers cannot stand for.
    """

    target: Any
    template: Records

    def __post_init__(self) -> None:
        grant_rights(self, self.target, self._ask)

    def _ask(self, right: str, records: Records) -> Any:
        encoder = self.template.encoder
        if records.table is None and encoder is not None and self.template.table is not None:
            if free := [column.name for column in encoder.columns if column.measure == "text"]:
                raise InputError(
                    "recipes: this one moves or completes records, which is not defined for free text "
                    f"(column {free[0]!r})"
                )
            framed = self.template[np.zeros(len(records), dtype=np.int64)].with_values(records.x)
            records = framed.with_y_of(records)
        return getattr(self.target, right)(records)
