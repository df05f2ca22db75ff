"""What an auditor may ask of a model: one Protocol per right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from divulge import errors, lazy
from divulge.errors import InputError
from divulge.targets import declared_outputs as out
from divulge.targets.arrays import CallableTarget
from divulge.targets.estimators import SklearnTarget
from divulge.targets.statistics import GivesTokens, TokenStatistics
from divulge.validation import check_choice, check_instance, check_labels, format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from divulge.targets import modules
    from divulge.types import Array, Floats, Ints, Records
else:
    modules = lazy.module("divulge.targets.modules")


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
class GivesNotes(Protocol):
    """What a reader must know of the answers, such as that long documents were cut."""

    def notes(self, records: Records) -> tuple[str, ...]:
        """What has to be said of the answers for these records; empty where nothing has."""
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
        """What the last linear layer is fed, ``[n, h]``, and its weights ``[K, h]``."""
        ...

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record."""
        ...


@runtime_checkable
class GivesGradientNorms(Protocol):
    """White box: how long the gradient of a record's loss is in the weights."""

    def gradient_norms(self, records: Records) -> Floats:
        """Logarithms of ‖∂ loss / ∂ θ‖, ``[n, 2]``: in the last linear layer's parameters, and in all of them."""
        ...


@runtime_checkable
class GivesWeights(Protocol):
    """White box: the parameters by name."""

    def weights(self) -> Mapping[str, Array]:
        """Every parameter as an array."""
        ...


# Rights that ask the model about records, each record one query, and rights that ask nothing.
_QUERY_RIGHTS = ("logits", "labels", "loss", "gradients", "head", "gradient_norms")
_OTHER_RIGHTS = ("weights", "tokens", "key", "continuations", "greedy", "encode", "decode", "start", "length")
_TARGET_METHODS = (
    "logits",
    "labels",
    "loss",
    "gradients",
    "weights",
    "tokens",
)  # other names mean other things
# What an adapter holds: attacks on the weights read them there, which asks the target nothing.
_ADAPTER_ATTRIBUTES = (
    "module",
    "function",
    "outputs",
    "class_names",
    "feature_names",
    "likely_names",
    "known_classes",
    "takes_frames",
)


def grant_rights(wrapper: Any, target: Any, ask: Callable[[str, Records], Any]) -> None:
    """Give ``wrapper`` exactly the rights of ``target``; those about records go through ``ask(right, records)``.

    They become attributes of the object itself: Python tells a Protocol by these, not by ``__getattr__``.
    """
    for name in _QUERY_RIGHTS:
        if hasattr(target, name):
            object.__setattr__(wrapper, name, partial(ask, name))
    for name in (*_OTHER_RIGHTS, *_ADAPTER_ATTRIBUTES):
        if hasattr(target, name):
            object.__setattr__(wrapper, name, getattr(target, name))


@dataclass(frozen=True)
class UserTarget:
    """A target of the user's own class, with exactly its rights: asked with copies, which it may write into.

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
    """``target`` inside `Own` if it is of the user's own class, otherwise itself.

    Raises:
        divulge.InputError: it gives none of the rights.
    """
    if isinstance(target, type) or not any(callable(getattr(target, right, None)) for right in _TARGET_METHODS):
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
) -> Any:
    """The adapter that fits ``model``.

    A target stays itself (one of the user's own class inside `Own`, which takes care of the records); a torch module, a
    scikit-learn classifier or a callable is wrapped.

    Args:
        model: a target, torch module, fitted scikit-learn classifier or callable.
        outputs: "logits" or "probabilities": what a module or callable returns.
        device: where a torch module runs.
        labels_only: whether a target that gives labels and no logits will do.
        names: of the classes, in the order in which labels number them, for a classifier that knows them by name.

    Raises:
        divulge.InputError: nothing here fits ``model``.

    Examples:
        >>> import numpy as np
        >>> adapt(lambda x: np.stack([x[:, 0], -x[:, 0]], axis=1))
        CallableTarget(function=..., outputs='logits', frames=None)
    """
    check_choice(outputs, "outputs", out.OUTPUT_TYPES)
    if isinstance(model, GivesLogits | GivesTokens) and not isinstance(model, type):
        return wrap_target(model)
    if labels_only and isinstance(model, GivesLabels) and not isinstance(model, type):
        return wrap_target(model)
    kinds = {base.__module__.split(".")[0] for base in type(model).__mro__}
    if "torch" in kinds and callable(model):
        return modules.TorchTarget(model, outputs=outputs, device=device)
    if hasattr(model, "predict_proba") or hasattr(model, "decision_function"):
        return SklearnTarget(model, names=names)
    if callable(model):
        return CallableTarget(model, outputs=outputs)
    raise InputError(
        f"target: {type(model).__name__} is neither a torch module, a scikit-learn classifier, a callable "
        f"nor an object with a method logits(records){' or labels(records)' if labels_only else ''}"
    )
