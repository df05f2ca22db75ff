"""Per-row losses: which prediction makes the labels of a row how far apart, in the oracle's own floats.

A metric leaks labels as soon as it is a sum over rows of a term that depends on the row's own label.
All an attack needs of it is here: how far apart the first and the last label of a row can be driven
(``span``, the R of the methods literature), the prediction that puts them a given *gap* apart, and the
table of what each label would then add to the sum.

Source: Aggarwal et al., "On Codomain Separability and Label Inference from (Noisy) Loss Functions" (2021),
Sections 3 and 4. Theorem 7 there has the sign of the Bregman gap reversed; what is true, and what is used
below, is ``loss(label 1) - loss(label 0) = h'(1-θ) - h'(θ)``. Theorem 8 (Mahalanobis) is false as stated:
equal predictions make labels that can be swapped. The loss itself is a multiple of the squared Euclidean one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import errors
from divulge.errors import InputError
from divulge.labels import probability_losses
from divulge.labels.loss import Loss, bisect, squared
from divulge.validation import check_array, check_number, check_string, check_vector, require_callable

if TYPE_CHECKING:
    from divulge.types import Array, Floats, Ints


@dataclass(frozen=True, slots=True)
class Linear:
    """A linearly decomposable loss of the user's own, for two classes.

    Args:
        loss: vectorised ``loss(theta, label) -> per-row loss``, continuous in theta.
        low: smallest prediction the oracle accepts.
        high: largest prediction; ``loss(θ, 1) - loss(θ, 0)`` must be monotone on ``[low, high]``.
        name: what reports call it.

    Examples:
        >>> hinge = Linear(lambda t, y: np.maximum(0, 1 - (2 * y - 1) * t), low=-1.0, high=1.0, name="hinge")
        >>> of(hinge, 2).span
        2.0
    """

    loss: Callable[[Any, int], Any]
    low: float
    high: float
    name: str = "linear"

    def __post_init__(self) -> None:
        require_callable(self.loss, "loss")
        check_number(self.high, "high")
        check_number(self.low, "low", below=self.high)
        check_string(self.name, "name")


@dataclass(frozen=True, slots=True)
class Metric:
    """A named metric with a parameter; made by `norm_like` and `mahalanobis`."""

    name: str
    parameter: float


def norm_like(alpha: float) -> Metric:
    """The Bregman divergence of ``h(θ) = θ^alpha`` (alpha > 1), summed over both classes: the paper's equation 10.

    The losses of the two labels lie ``α((1-θ)^(α-1) - θ^(α-1))`` apart; at α = 2, θ = 1/4 that is 1. The ``g`` in the
    paper's Section 4 is another function: there it gives ``g(1/4) - g(3/4) = 25/6``.

    Examples:
        >>> norm_like(3)
        Metric(name='norm_like', parameter=3.0)
    """
    return Metric("norm_like", check_number(alpha, "alpha", above=1.0))


def mahalanobis(matrix: object) -> Metric:
    """``dᵀ A d`` with ``d = [y - θ, θ - y]``, for predictions θ in [0, 1]: the loss of the paper's Theorem 8.

    For every positive definite A = [[a, b], [c, d]] this is ``(a + d - b - c)·(y - θ)²``; the factor is the parameter
    of what is returned.

    Args:
        matrix: A, ``[2, 2]`` and positive definite, symmetric or not; a number stands for that multiple of the
            identity.

    Raises:
        divulge.InputError: another shape, or not positive definite.

    Examples:
        >>> mahalanobis([[2, 1], [0, 3]])
        Metric(name='mahalanobis', parameter=4.0)
        >>> mahalanobis(1.0)
        Metric(name='mahalanobis', parameter=2.0)
    """
    values = np.asarray(check_array(matrix, "matrix"), dtype=float)
    values = values * np.eye(2) if values.ndim == 0 else values
    if values.shape != (2, 2):
        raise InputError(f"matrix: shape (2, 2) is needed, got {values.shape}")
    least = float(np.linalg.eigvalsh(values / 2 + values.T / 2).min())
    if not least > 0:
        raise InputError(f"matrix: must be positive definite, but its smallest eigenvalue is {least:g}")
    (a, b), (c, d) = values.tolist()
    return Metric("mahalanobis", check_number((a + d) - (b + c), "matrix: a + d - b - c", above=0.0, below=math.inf))


def of(
    metric: str | Metric | Linear,
    classes: int,
    *,
    clip: float | None = None,
    dtype: str = "float64",
    submission: str = "rows",
) -> Loss:
    """The per-row loss behind a metric's name.

    Args:
        metric: name, or what `norm_like`, `mahalanobis` or `Linear` made.
        classes: number of classes K.
        clip: the oracle clips probabilities into ``[clip, 1 - clip]``; None: not at all.
        dtype: the floats in which the oracle computes each row's loss.
        submission: "rows" ``[n, K]`` or "positive" ``[n]``.

    Raises:
        divulge.InputError: a metric that is unknown, or not defined for this many classes.
    """
    if isinstance(metric, Linear):
        return _linear(metric, classes)
    name = metric.name if isinstance(metric, Metric) else metric
    if name == "log_loss":
        return probability_losses.log_loss(classes, clip or 0.0, dtype, submission)
    if name == "softmax_cross_entropy":
        return _softmax(classes, dtype)
    if name == "squared_euclidean":
        return probability_losses.brier(classes, submission)
    _two(name, classes)
    parameter = metric.parameter if isinstance(metric, Metric) else 1.0
    makers: dict[str, Callable[[], Loss]] = {
        "sigmoid_cross_entropy": lambda: _sigmoid(dtype),
        "itakura_saito": probability_losses.itakura_saito,
        "norm_like": lambda: probability_losses.norm_like(parameter),
        "mahalanobis": lambda: replace(squared(parameter, parameter), rests=True),
        "mse": lambda: squared(1.0, math.inf),
        "rmse": lambda: squared(1.0, math.inf),
        "mae": _mae,
        "mape": _mape,
    }
    return makers[name]()


def _two(name: str, classes: int) -> None:
    if classes != 2:
        raise InputError(f"classes: {name} is defined for 2 classes here, got {classes}")


# --- losses on logits


def _softmax(classes: int, dtype: str) -> Loss:
    kind = np.dtype(dtype)

    def table(predictions: Any) -> Floats:
        z = np.asarray(predictions, dtype=kind)
        z = z - z.max(axis=1, keepdims=True)
        return (np.log(np.exp(z).sum(axis=1, keepdims=True)) - z).astype(np.float64)

    def predict(gaps: Floats, digits: Ints) -> Array:
        return -np.multiply.outer(gaps, digits.astype(float)).astype(kind)

    return Loss(math.inf, predict, table, (classes,), term=float(classes))


def _sigmoid(dtype: str) -> Loss:
    kind = np.dtype(dtype)

    def table(predictions: Any) -> Floats:
        z = np.asarray(predictions, dtype=kind)
        soft = np.log1p(np.exp(-np.abs(z)))
        return np.stack([np.maximum(z, 0) + soft, np.maximum(-z, 0) + soft], axis=1).astype(np.float64)

    return Loss(math.inf, lambda gaps, digits: (-gaps * digits[1]).astype(kind), table, (), term=1.0)


# --- losses on real numbers


def _mae() -> Loss:
    def table(predictions: Any) -> Floats:
        p = np.asarray(predictions, dtype=float)
        return np.stack([np.abs(p), np.abs(1 - p)], axis=1)

    return Loss(1.0, lambda gaps, digits: (1 - gaps * digits[1]) / 2, table, ())


def _mape() -> Loss:
    """Scikit-learn's mean absolute percentage error of labels 0 and 1: |y - p| over y, or over the epsilon of floats.

    A row of label 0 costs p/epsilon and one of label 1 costs 1 - p, so that tiny predictions make either label the
    costlier by up to 1; larger ones make label 0 cost anything.
    """
    tiny = float(np.finfo(np.float64).eps)

    def table(predictions: Any) -> Floats:
        p = np.asarray(predictions, dtype=float)
        return np.stack([np.abs(p) / tiny, np.abs(1 - p)], axis=1)

    return Loss(1.0, lambda gaps, digits: (1 - gaps * digits[1]) / (1 + 1 / tiny), table, (), opposite=math.inf)


def _linear(metric: Linear, classes: int) -> Loss:
    _two(metric.name, classes)

    def gap(theta: Any) -> Any:
        return np.asarray(metric.loss(theta, 1), dtype=float) - np.asarray(metric.loss(theta, 0), dtype=float)

    with errors.user_code_errors("loss"):
        ends = check_vector(gap(np.array([metric.low, metric.high])), "loss", length=2, finite=False)
    # Both signs of a gap are needed, so the span is the smaller of the two sides.
    span = float(min(abs(ends[0]), abs(ends[1]))) if ends[0] * ends[1] < 0 else 0.0
    if not math.isfinite(span) or span <= 0:
        raise InputError(
            f"metric: {metric.name} must prefer label 0 at one end of [low, high] and label 1 at the other; "
            f"loss(θ, 1) - loss(θ, 0) is {ends[0]:g} and {ends[1]:g} there"
        )

    def table(theta: Any) -> Floats:
        with errors.user_code_errors("loss"):
            columns = [check_vector(metric.loss(theta, label), "loss", length=len(theta)) for label in (0, 1)]
        return np.stack(columns, axis=1)

    return Loss(span, lambda gaps, digits: bisect(gap, gaps * digits[1], metric.low, metric.high), table, ())


def weighted(loss: Loss, weights: tuple[float, ...]) -> Loss:
    """``loss`` of two classes, each multiplied by its class's weight (not yet divided by their sum)."""
    scale = np.asarray(weights)

    def gap(t: Floats) -> Floats:
        return weights[1] * np.logaddexp(0, t) - weights[0] * np.logaddexp(0, -t)

    low = -loss.two_sided
    ends = gap(np.array([low, loss.span]))

    def predict(gaps: Floats, digits: Ints) -> Array:
        return loss.predict(bisect(gap, gaps * digits[1], low, loss.span), np.arange(2))

    return Loss(
        float(np.abs(ends).min()) * (1 - 1e-9), predict, lambda p: loss.table(p) * scale, loss.shape, loss.rests
    )
