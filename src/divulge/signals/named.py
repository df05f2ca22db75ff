"""Signals computed from one output of a model, and the table of those that recipes name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from divulge.signals import classification, internals, tokens
from divulge.validation import check_bool, check_string, require_callable

if TYPE_CHECKING:
    from divulge.types import Floats


@dataclass(frozen=True, slots=True)
class OutputSignal:
    """A signal computed from one output of a model, the same for the target and for reference models.

    Args:
        name: name in tables and files.
        output: output of the model that it needs: the name of the target's method, such as "logits".
        compute: ``compute(answers, y)`` turns the answers on ``n`` records and their labels (or real values; None where
            there are none) into ``[n]`` numbers, larger = more like a member.
        needs_labels: whether it reads ``y``.

    Raises:
        divulge.InputError: a name or output that is no text, a ``compute`` that cannot be called.

    Examples:
        >>> import numpy as np
        >>> error = OutputSignal("negative-squared-error", "predictions", lambda predicted, y: -((predicted - y) ** 2))
        >>> error.compute(np.array([1.0, 3.0]), np.array([1.5, 3.0]))
        array([-0.25, -0.  ])
    """

    name: str
    output: str
    compute: Callable[[Any, Any], Floats]
    needs_labels: bool = True

    def __post_init__(self) -> None:
        check_string(self.name, "OutputSignal.name")
        check_string(self.output, "OutputSignal.output")
        require_callable(self.compute, "OutputSignal.compute")
        check_bool(self.needs_labels, "OutputSignal.needs_labels")


def _classifier_signal(name: str) -> OutputSignal:
    output = "labels" if name in classification.LABELS_ENOUGH else "logits"
    return OutputSignal(name, output, classification.SIGNALS[name], name not in classification.LABEL_AGNOSTIC)


def _internal_signal(name: str) -> OutputSignal:
    return OutputSignal(name, "internals", lambda values, y: values[name])


def _token_signal(name: str) -> OutputSignal:
    return OutputSignal(name, "tokens", lambda statistics, y: tokens.get_signal(name)(statistics), needs_labels=False)


CLASSIFIER_SIGNALS: Mapping[str, OutputSignal] = MappingProxyType(
    {name: _classifier_signal(name) for name in classification.SIGNALS}
    | {name: _internal_signal(name) for name in internals.SIGNALS}
)
"""Signals of a classifier's logits, of its labels alone, and of a network's inside (`divulge.signals.internals`)."""

NAMED_SIGNALS: Mapping[str, OutputSignal] = MappingProxyType(
    {
        **CLASSIFIER_SIGNALS,
        **{name: _token_signal(name) for name in (*tokens.SIGNALS, *tokens.RESCALED, *tokens.OF_ENDS)},
    }
)
"""All signals that a recipe can name; those of language models are computed from token statistics."""
