"""White-box signals of a network, one number per record, larger = more like a member.

Only what is alike in differently trained networks can be compared between a target and its reference models. Features
of two networks are not: their axes are as good as drawn at random. Norms of gradients are, and of the last hidden
layer what no rotation and no change of scale alters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.errors import InputError
from divulge.targets import GivesGradientNorms, GivesHead, GivesLogits
from divulge.targets.rights import class_name
from divulge.types import Records
from divulge.validation import as_list, check_choice, check_instance, check_labels, check_matrix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Floats, Ints

SIGNALS = {
    "last-layer-gradient": "minus the log-norm of the loss's gradient in the last linear layer's parameters",
    "weight-gradient": "minus the log-norm of the loss's gradient in all parameters",
    "feature-angle": "cosine of the angle between the last hidden layer and the weights of the record's class",
}
_GRADIENT_SIGNALS = ("last-layer-gradient", "weight-gradient")
# What is shorter has no direction.
_MIN_NORM = 1e-30


def measure(target: Any, records: Records, names: Sequence[str]) -> Floats:
    """Compute several of these signals at once, ``[n, len(names)]``.

    Args:
        target: a torch module as a target, or any with the rights ``logits``, ``head`` and ``gradient_norms``.
        records: with labels.
        names: of `SIGNALS`.

    Raises:
        divulge.InputError: an unknown name; a target without these rights; no labels; a network whose outputs are not
            those of its last linear layer.

    Examples:
        >>> import torch
        >>> from divulge import Records
        >>> from divulge.targets import TorchTarget
        >>> layer = torch.nn.Linear(2, 2, bias=False)
        >>> _ = layer.weight.data.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
        >>> net = TorchTarget(layer, device="cpu")
        >>> measure(net, Records([[3.0, 4.0]], [0]), ("feature-angle",)).round(3)
        array([[0.6]])
    """
    for name in (signal_names := as_list(names, "names")):
        check_choice(name, "signal", SIGNALS)
    if not signal_names:
        raise InputError("names: at least 1 signal is needed, got none")
    require_white_box(target, ", ".join(names))
    check_instance(records, "records", Records, "divulge.Records")
    if records.y is None:
        raise InputError(f"signal: {', '.join(names)} read the records' labels, but y is None")
    values: dict[str, Floats] = {}
    if not set(_GRADIENT_SIGNALS).isdisjoint(names):
        norms = check_matrix(target.gradient_norms(records), "target: gradient_norms", columns=len(_GRADIENT_SIGNALS))
        values |= dict(zip(_GRADIENT_SIGNALS, -norms.T, strict=True))
    if "feature-angle" in names:
        values["feature-angle"] = feature_angle(*target.head(records), records.y)
    return np.stack([values[name] for name in names], axis=1)


def feature_angle(fed: Floats, weights: Floats, labels: Ints) -> Floats:
    """Cosine of the angle between what the last linear layer is fed and its weights for the record's class, ``[n]``.

    The weights are taken less their mean over the classes: what is added to those of all classes alike changes no
    probability.

    Args:
        fed: ``[n, h]``.
        weights: ``[K, h]``, or ``[1, h]`` where two classes have one output.
        labels: ``[n]``.

    Raises:
        divulge.InputError: shapes that do not fit, labels of other classes.

    Examples:
        >>> feature_angle(np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([0, 1]))
        array([0.6, 0. ])
    """
    hidden = _normalise_rows(check_matrix(fed, "fed"))
    w = check_matrix(weights, "weights", columns=hidden.shape[1])
    if len(w) == 1:
        w = np.vstack([-w, w])
    classes = check_labels(labels, "labels", length=len(hidden), classes=len(w))
    w = w / max(float(np.abs(w).max(initial=0.0)), _MIN_NORM)  # so that no square overflows
    return np.einsum("ij,ij->i", hidden, _normalise_rows(w - w.mean(axis=0))[classes])


def _normalise_rows(rows: Floats) -> Floats:
    """Divide each row by its length, without a square that overflows; zeros stay zeros."""
    scaled = rows.astype(np.float64) / np.maximum(np.abs(rows).max(axis=1, keepdims=True, initial=0.0), _MIN_NORM)
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), _MIN_NORM)


def count_passes(names: Sequence[str]) -> int:
    """Return how often `measure` queries the target about every record.

    Examples:
        >>> count_passes(()), count_passes(("feature-angle", "weight-gradient"))
        (0, 2)
    """
    return ("feature-angle" in names) + (not set(_GRADIENT_SIGNALS).isdisjoint(names))


def describe_reads(names: Sequence[str]) -> str:
    """Describe what of a network these signals read.

    Examples:
        >>> describe_reads(("feature-angle", "weight-gradient"))
        'outputs, gradients, and last hidden layer with its weights'
    """
    hidden = ["last hidden layer with its weights"] if "feature-angle" in names else []
    gradients = [] if set(_GRADIENT_SIGNALS).isdisjoint(names) else ["gradients"]
    return ", ".join(["outputs", *gradients]) + "".join(f", and {each}" for each in hidden)


def require_white_box(target: Any, caller: str) -> None:
    """Check that the target gives logits, its last hidden layer and gradient norms.

    Raises:
        divulge.InputError: it cannot.
    """
    if not (
        isinstance(target, GivesLogits) and isinstance(target, GivesHead) and isinstance(target, GivesGradientNorms)
    ):
        raise InputError(
            f"target: a torch module is needed (or a target with logits, head and gradient_norms), as {caller} cannot "
            f"be had without a look inside the network, got {class_name(target)}"
        )
