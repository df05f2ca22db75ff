"""Signals of a classifier: logits and labels into one number per record, larger = more member-like.

Every function takes logits float ``[n, K]`` (log-probabilities will do) and int labels ``[n]``, and
returns float64 ``[n]``. All are finite for saturated logits: nothing goes through a rounded probability.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.validation import check_integer, check_labels, check_matrix, check_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from divulge.types import Floats, Ints

# Logits of ±1e300 are one step from overflow when subtracted; nothing real is lost by this bound.
_BOUND = 1e200


def negative_loss(logits: Floats, labels: Ints) -> Floats:
    """Log p(y): the negative cross-entropy in nats (Yeom et al. 2018).

    Examples:
        >>> negative_loss(np.array([[0.0, 0.0]]), np.array([0])).round(4)
        array([-0.6931])
    """
    z, rows = _check_inputs(logits, labels)
    return z[rows, labels] - _logsumexp(z)


def confidence(logits: Floats, labels: Ints) -> Floats:
    """p(y), in [0, 1]; what RMIA takes (Zarifzadeh et al. 2024).

    Examples:
        >>> confidence(np.array([[0.0, 0.0]]), np.array([0]))
        array([0.5])
    """
    return np.exp(negative_loss(logits, labels))


def scaled_logit(logits: Floats, labels: Ints) -> Floats:
    """Log p(y) - log(1 - p(y)), what LiRA takes (Carlini et al. 2022, §IV-C).

    Computed as z_y - logsumexp of the other logits, so it does not saturate at p(y) = 1.

    Examples:
        >>> scaled_logit(np.array([[1000.0, 0.0]]), np.array([0]))
        array([1000.])
    """
    z, rows = _check_inputs(logits, labels)
    return z[rows, labels] - _logsumexp(_mask_class(z, rows, labels))


def hinge(logits: Floats, labels: Ints) -> Floats:
    """z_y - max of the other logits: the true-class margin (Bertran et al. 2023; Thaker et al. 2025).

    Examples:
        >>> hinge(np.array([[3.0, 1.0, 2.0]]), np.array([0]))
        array([1.])
    """
    z, rows = _check_inputs(logits, labels)
    return z[rows, labels] - _mask_class(z, rows, labels).max(axis=1)


def top_two_gap(logits: Floats, labels: Ints | None = None) -> Floats:
    """Largest minus second largest logit: label-agnostic, defined for any class (Thaker et al. 2025, §4.1).

    Examples:
        >>> top_two_gap(np.array([[3.0, 1.0, 2.0]]))
        array([1.])
    """
    z = _clip_logits(logits)
    if labels is not None:
        check_labels(labels, "labels", length=len(z))
    top = np.partition(z, -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


def max_probability(logits: Floats, labels: Ints | None = None) -> Floats:
    """log(p / (1 - p)) of the largest probability: how sure the model is, whatever the label (Salem et al. 2019).

    It ranks as the largest probability does and does not saturate.

    Examples:
        >>> max_probability(np.log([[0.5, 0.25, 0.25]]))
        array([0.])
    """
    z = _clip_logits(logits)
    if labels is not None:
        check_labels(labels, "labels", length=len(z))
    return scaled_logit(z, z.argmax(axis=1))


def modified_entropy(logits: Floats, labels: Ints) -> Floats:
    """Minus the modified entropy of Song & Mittal 2021, eq. 7, which is small for members.

    -M(x, y) = (1 - p_y) log p_y + Σ_{k≠y} p_k log(1 - p_k)

    Examples:
        >>> modified_entropy(np.array([[0.0, 0.0]]), np.array([0])).round(4)
        array([-0.6931])
    """
    z, rows = _check_inputs(logits, labels)
    log_p = z - _logsumexp(z)[:, None]
    p = np.exp(log_p)
    # Only the top class can have p near 1, where log(1 - p) needs the other logits and not p itself.
    top = z.argmax(axis=1)
    log_rest = np.log1p(-np.where(np.arange(z.shape[1]) == top[:, None], 0.0, p))
    log_rest[rows, top] = _logsumexp(_mask_class(z, rows, top)) - _logsumexp(z)
    terms = p * log_rest
    terms[rows, labels] = np.exp(log_rest[rows, labels]) * log_p[rows, labels]
    return terms.sum(axis=1)


def correctness(logits: Floats, labels: Ints) -> Floats:
    """Probability of the true label; 1 or 0 for the target, which is asked for its label alone.

    Yeom et al. 2018 (arXiv:1709.01604), the gap attack: members are told right more often. How often others are told
    right is known of reference models, which can be asked for probabilities.

    Examples:
        >>> correctness(one_hot_logits(np.array([2, 0]), 3), np.array([2, 1]))
        array([1., 0.])
    """
    return confidence(logits, labels)


def label_loss(logits: Floats, labels: Ints) -> Floats:
    """Logarithm of `correctness`: 0 where the target, which is asked for its label alone, is right, else -800.

    What the transfer attack takes (Li & Zhang 2021, arXiv:2007.15528). Reference models can be asked for
    probabilities, and of them this is the negative loss.

    Examples:
        >>> label_loss(one_hot_logits(np.array([2, 0]), 3), np.array([2, 1]))
        array([   0., -800.])
    """
    return negative_loss(logits, labels)


def one_hot_logits(labels: Ints, classes: int) -> Floats:
    """Logits ``[n, K]`` of which each row's label has all the probability.

    Args:
        labels: predicted classes, ``[n]``.
        classes: least number of classes ``K``; as many as the labels show, if that is more.

    Raises:
        divulge.InputError: labels that are none, fewer than 2 classes.

    Examples:
        >>> one_hot_logits(np.array([1]), 2)
        array([[  0., 800.]])
    """
    predicted = check_labels(labels, "labels")
    width = max(check_integer(classes, "classes", minimum=2), int(predicted.max()) + 1)
    check_memory(8.0 * width * len(predicted), "classes", f"there are {width:,} classes of {len(predicted):,} records")
    return 800.0 * (predicted[:, None] == np.arange(width))


SIGNALS: Mapping[str, Callable[[Floats, Ints], Floats]] = MappingProxyType(
    {
        "negative-loss": negative_loss,
        "confidence": confidence,
        "scaled-logit": scaled_logit,
        "hinge": hinge,
        "top-two-gap": top_two_gap,
        "max-probability": max_probability,
        "modified-entropy": modified_entropy,
        "correctness": correctness,
        "label-loss": label_loss,
    }
)

# These ask the target for its label alone, and take it for a probability of 1.
LABELS_ENOUGH = frozenset({"correctness", "label-loss"})

# These say something without knowing the record's label.
LABEL_AGNOSTIC = frozenset({"top-two-gap", "max-probability"})


def _check_inputs(logits: Floats, labels: Ints) -> tuple[Floats, Ints]:
    z = _clip_logits(logits)
    check_labels(labels, "labels", length=len(z), classes=z.shape[1])
    return z, np.arange(len(z))


def _clip_logits(logits: Floats) -> Floats:
    z = check_matrix(logits, "logits")
    if z.shape[1] < 2:
        raise InputError(f"logits: at least 2 classes are needed, got {z.shape[1]}")
    return np.clip(z.astype(np.float64, copy=False), -_BOUND, _BOUND)


def _mask_class(z: Floats, rows: Ints, columns: Ints) -> Floats:
    masked = z.copy()
    masked[rows, columns] = -np.inf
    return masked


def _logsumexp(z: Floats) -> Floats:
    top = z.max(axis=1)
    return top + np.log(np.exp(z - top[:, None]).sum(axis=1))
