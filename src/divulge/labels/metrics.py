"""Metrics of scoring endpoints: per-row losses, metrics known by evaluation, and ratios of counts.

A metric leaks labels as soon as it is a sum over rows of a term that depends on the row's own label. An attack needs
three things of such a loss (`RowLoss`): how far apart the first and the last label of a row can be driven (``span``,
the R of the literature), the prediction that puts them a given *gap* apart, and the table of what each label then adds
to the sum, in the oracle's own floats.

Source: Aggarwal et al., "On Codomain Separability and Label Inference from (Noisy) Loss Functions" (2021), Sections 3
and 4. Theorem 7 there has the sign of the Bregman gap reversed; the correct statement, used below, is
``loss(label 1) - loss(label 0) = h'(1-θ) - h'(θ)``. Theorem 8 (Mahalanobis) is false as stated: equal predictions make
labels that can be swapped. That loss is a multiple of the squared Euclidean one.

The end of this module bounds what the floats of an endpoint add to its sums.
"""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import flint
import numpy as np

from divulge import errors
from divulge.errors import InputError
from divulge.validation import (
    check_array,
    check_choice,
    check_instance,
    check_number,
    check_string,
    check_vector,
    format_value,
    require_callable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from divulge.types import Array, Floats, Ints

    Table = Callable[[Any], Floats]
    Predict = Callable[[Floats, Ints], Array]
    from divulge.types import Floats


ROOTS = ("rmse", "rmsle")  # of a mean of losses
CLASS_NUMBER_METRICS = ("balanced_accuracy", "macro_f1", "mcc", "quadratic_weighted_kappa")

_OTHER_NAMES = {"brier": "squared_euclidean", "qwk": "quadratic_weighted_kappa"}
_MIN_SPACING = 1e-40
_PRECISION_BITS = 120  # of ball arithmetic
# Of a partial sum: lowest and highest possible grid value, largest distance of the float from it, and the power of
# two (at most the grid) that this distance is a multiple of; 0 where it can be anything.
Node: TypeAlias = "tuple[Floats, Floats, Floats, Floats]"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A metric known by evaluation on any labels: proofs hold if the endpoint computes just that function.

    Args:
        function: ``function(y, predictions) -> score``, deterministic, for labels ``[n]``.
        depends_on: "labels": anything; labellings are searched exhaustively, so few rows are read. "counts": two
            classes and hard predictions, and nothing counts but how many rows are true and false positives and
            negatives; any number of rows is read.
        low: no score is lower.
        high: no score is higher.
        name: what reports call it; by default the function's own.

    Examples:
        >>> def share(y, p): return float(np.mean(y == p))
        >>> Evaluated(share, depends_on="counts", low=0, high=1, name="share")
        Evaluated(depends_on='counts', low=0.0, high=1.0, name='share')
    """

    function: Callable[[Any, Any], Any] = field(repr=False)
    depends_on: Literal["labels", "counts"] = "labels"
    low: float = -math.inf
    high: float = math.inf
    name: str = ""

    def __post_init__(self) -> None:
        require_callable(self.function, "function")
        check_choice(self.depends_on, "depends_on", ("labels", "counts"))
        _check_range(self)
        check_instance(self.name, "name", str, "a text")
        if not self.name:
            module, name = getattr(self.function, "__module__", ""), getattr(self.function, "__qualname__", "")
            object.__setattr__(self, "name", f"{module}:{name}" if name else type(self.function).__name__)
        check_string(self.name, "name")

    def values(self, cases: Iterable[tuple[Ints, Array]]) -> Floats:
        """Return the scores of hypothetical labels and predictions; NaN where the metric is not defined."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of labels that are only tried
            return np.array([self(y, predictions) for y, predictions in cases], dtype=float)

    def __call__(self, y: Ints, predictions: Array) -> float:
        """Return the score of ``predictions`` for labels ``y``; NaN where it is undefined or the function raises."""
        try:
            return float(self.function(y, predictions))
        except (ValueError, ZeroDivisionError, FloatingPointError):
            return math.nan


@dataclass(frozen=True, slots=True)
class KnownRange:
    """A metric of which only the range is known; with its decimals that bounds what an answer can reveal.

    Args:
        low: no score is lower.
        high: no score is higher.
        name: what reports call it.
    """

    low: float
    high: float
    name: str = "score"

    def __post_init__(self) -> None:
        _check_range(self)
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise InputError(f"high: a range with two ends is needed, got {self.low} to {self.high}")
        check_string(self.name, "name")


def _check_range(metric: Evaluated | KnownRange) -> None:
    for name in ("low", "high"):
        value = getattr(metric, name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InputError(f"{name}: a number is needed, got {format_value(value)}")
        try:
            number = float(value)
        except OverflowError:
            raise InputError(f"{name}: {format_value(value)} is larger than any float64") from None
        if math.isnan(number):
            raise InputError(f"{name}: a number is needed, got NaN")
        object.__setattr__(metric, name, number)
    if not metric.low < metric.high:
        raise InputError(f"high: must be above low = {metric.low:g}, got {metric.high:g}")


def evaluate_metric(metric: Evaluated, y: Ints, predictions: Array) -> float:
    """Return the score, where it has to be defined.

    Raises:
        divulge.errors.UserCodeError: the function raises an error.
        divulge.InputError: it returns no finite number.
    """
    with errors.user_code_errors("metric"):
        value = metric.function(y, predictions)
    return check_number(value, f"metric: what {metric.name} returns")


@dataclass(frozen=True, slots=True, eq=False)
class RowLoss:
    """A per-row loss: how far apart it can drive two labels, and the predictions that do.

    Args:
        span: largest loss difference between the first and the last class of one row; infinity for losses
            on logits or unbounded predictions, where only the mantissa limits.
        predict: gaps ``[n]`` and digits ``[K]`` → predictions whose loss of class c is base + gap·digits[c].
        table: predictions → losses ``[n, K]``, as the oracle's floats have them.
        shape: shape of one row of the predictions: ``(K,)`` or ``()``.
        has_bounded_base: the base loss of a row does not grow with its gap (False: it grows like the gap's square).
        gap_limit: largest gap for given digits ``[K]``, where that is not simply the span over the largest digit.
        float_scale: size of the terms that cancel where the loss is near zero: its float error is relative to them.
        reverse_span: largest difference the other way round, with the first class the costlier one; None: the span.
    """

    span: float
    predict: Predict
    table: Table
    shape: tuple[int, ...]
    has_bounded_base: bool = True
    gap_limit: Callable[[Ints], float] | None = None
    float_scale: float = 0.0
    reverse_span: float | None = None

    @property
    def largest(self) -> float:
        """Largest loss difference of two labels of one row, whichever of them is the costlier."""
        return self.span if self.reverse_span is None else max(self.span, self.reverse_span)

    @property
    def two_sided(self) -> float:
        """Largest gap that predictions reach in both directions."""
        return self.span if self.reverse_span is None else min(self.span, self.reverse_span)

    def largest_gap(self, digits: Ints) -> float:
        """Return the largest gap of one digit step when the classes of a row carry ``digits`` (some may share one)."""
        return self.span / int(digits.max()) if self.gap_limit is None else self.gap_limit(digits)


def squared_error_loss(alpha: float, span: float) -> RowLoss:
    """Return ``alpha`` times the squared difference of a real prediction and the label."""

    def table(predictions: Any) -> Floats:
        p = np.asarray(predictions, dtype=float)
        return alpha * np.stack([p**2, (p - 1) ** 2], axis=1)

    return RowLoss(span, lambda gaps, digits: (1 - gaps * digits[1] / alpha) / 2, table, (), has_bounded_base=False)


def solve_monotone(function: Callable[[Any], Any], target: Floats, low: float, high: float) -> Floats:
    """Solve a monotone ``function`` for the ``target`` values by bisection on ``[low, high]``.

    Examples:
        >>> solve_monotone(lambda t: t * t, np.array([4.0]), 0.0, 10.0).round(9)
        array([2.])
    """
    target = np.asarray(target, dtype=float)
    lower, upper = np.full(target.shape, low), np.full(target.shape, high)
    rising = bool(function(np.array([high]))[0] > function(np.array([low]))[0])
    for _ in range(80):
        middle = (lower + upper) / 2
        below = (function(middle) < target) == rising
        lower, upper = np.where(below, middle, lower), np.where(below, upper, middle)
    return (lower + upper) / 2


def logarithmic_loss(classes: int, clip: float, dtype: str, submission: str) -> RowLoss:
    """Return the logarithmic loss in floats of ``dtype``, on probabilities clipped at ``clip`` (0: not clipped)."""
    float_type = np.dtype(dtype)
    low = max(clip, float(np.finfo(float_type).tiny))
    # The largest value below 1 that the clip, or the grid of the floats, allows is 1 - low or 1 itself.
    span = (math.log1p(-low) if clip else 0.0) - math.log(low)
    span *= 1 - 2e-15

    def log(predictions: Array) -> Floats:
        inside = (
            np.clip(predictions, float_type.type(clip), float_type.type(1) - float_type.type(clip))
            if clip
            else predictions
        )
        with np.errstate(divide="ignore"):
            return -np.log(inside).astype(np.float64)

    def rows(gaps: Floats, digits: Ints) -> Array:
        return class_probabilities(gaps, digits).astype(float_type)

    def positive(gaps: Floats, digits: Ints) -> Array:
        return class_probabilities(gaps, digits)[:, 1].astype(float_type)

    if submission == "positive":
        # Floats end at 1.1e-16 below 1 but not near 0: no p makes label 0 cost more than -ln of that, unless p is 1.
        return RowLoss(
            span,
            positive,
            lambda p: np.stack([log(float_type.type(1) - _as_dtype(p, float_type)), log(_as_dtype(p, float_type))], 1),
            (),
            reverse_span=min(span, -math.log(float(np.finfo(float_type).epsneg))),
        )

    def limit(digits: Ints) -> float:
        # The loss of the last digit d is gap·d + ln Σ exp(-gap·digit); its probability must not fall below `low`.
        top = int(digits.max())
        gap = -math.log(low) / top
        for _ in range(60):
            gap = (-math.log(low) - math.log(np.exp(-gap * digits).sum())) / top
        return max(gap * (1 - 1e-12), 0.0)

    return RowLoss(
        span,
        rows,
        lambda p: log(_as_dtype(p, float_type)),
        (classes,),
        gap_limit=limit if classes > 2 else None,
    )


def _as_dtype(predictions: object, dtype: np.dtype[Any]) -> Array:
    return np.asarray(predictions, dtype=dtype)


def class_probabilities(gaps: Floats, digits: Ints) -> Floats:
    """Return rows ``[n, K]`` with ``-ln p[c] = base + gap·digits[c]``; each column is computed for itself.

    Examples:
        >>> class_probabilities(np.array([0.0, math.log(3)]), np.arange(2)).round(6)
        array([[0.5 , 0.5 ],
               [0.75, 0.25]])
    """
    exponents = -np.multiply.outer(gaps, digits.astype(float))
    exponents -= exponents.max(axis=1, keepdims=True)
    raised = np.exp(exponents)
    return raised / raised.sum(axis=1, keepdims=True)


def brier_loss(classes: int, submission: str) -> RowLoss:
    """Return Brier's loss: squared differences of probabilities and labels."""
    # Two classes: (y - p)², as scikit-learn has it, which is half the sum over classes; more: that sum.
    if classes == 2 and submission == "positive":
        return replace(squared_error_loss(1.0, 1.0), has_bounded_base=True)
    half = 0.5 if classes == 2 else 1.0

    def rows(gaps: Floats, digits: Ints) -> Floats:
        return 1 / classes - np.multiply.outer(gaps, digits - digits.mean()) / (2 * half)

    def table(predictions: Any) -> Floats:
        p = np.asarray(predictions, dtype=float)
        return half * ((p**2).sum(axis=1, keepdims=True) - 2 * p + 1)

    def limit(digits: Ints) -> float:
        # No probability may fall below 0, for gaps of either sign.
        away = max(digits.max() - digits.mean(), digits.mean() - digits.min())
        return float(2 * half / (classes * away))

    return RowLoss(half * 4 / classes, rows, table, (classes,), gap_limit=limit, float_scale=2 * half)


def norm_like_loss(alpha: float) -> RowLoss:
    """The Bregman divergence of ``h(θ) = θ^alpha``, summed over both classes."""

    def table(predictions: Any) -> Floats:
        q, p = np.asarray(predictions, dtype=float).T
        shared = (alpha - 1) * (p**alpha + q**alpha) + 1
        return np.stack([shared - alpha * q ** (alpha - 1), shared - alpha * p ** (alpha - 1)], axis=1)

    def rows(gaps: Floats, digits: Ints) -> Floats:
        p = solve_monotone(lambda t: alpha * ((1 - t) ** (alpha - 1) - t ** (alpha - 1)), gaps * digits[1], 0.0, 1.0)
        return np.stack([1 - p, p], axis=1)

    return RowLoss(alpha * (1 - 1e-12), rows, table, (2,), float_scale=alpha)


def itakura_saito_loss() -> RowLoss:
    """Itakura and Saito's divergence on the probability p of the true class: ``1/p + ln p - 1`` (equation 7)."""

    # Summed over both classes, as the other divergences are, it would be infinite: -ln 0 at the false class.
    # The gap at θ = 1/(1 + e^t) is 2 sinh t - t.
    def gap(t: Floats) -> Floats:
        return 2 * np.sinh(t) - t

    def rows(gaps: Floats, digits: Ints) -> Floats:
        class_gaps = gaps * digits[1]
        # sinh t ≤ 2 sinh t - t ≤ 2 sinh t for t ≥ 0, which keeps the root between these two.
        bracket = float(np.arcsinh(np.abs(class_gaps).max(initial=0.0)))
        t = solve_monotone(gap, class_gaps, -bracket, bracket) if bracket else np.zeros_like(class_gaps)
        return np.stack([1 / (1 + np.exp(-t)), 1 / (1 + np.exp(t))], axis=1)

    def table(predictions: Any) -> Floats:
        p = np.asarray(predictions, dtype=float)
        return 1 / p + np.log(p) - 1

    return RowLoss(math.inf, rows, table, (2,), float_scale=1.0)


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
        >>> row_loss(hinge, 2).span
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
    """A named metric with a parameter, made by `norm_like` and `mahalanobis`."""

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
    smallest_eigenvalue = float(np.linalg.eigvalsh(values / 2 + values.T / 2).min())
    if not smallest_eigenvalue > 0:
        raise InputError(f"matrix: must be positive definite, but its smallest eigenvalue is {smallest_eigenvalue:g}")
    (a, b), (c, d) = values.tolist()
    return Metric("mahalanobis", check_number((a + d) - (b + c), "matrix: a + d - b - c", above=0.0, below=math.inf))


def parse_metric(name: object) -> object:
    """Return the metric of a name with a parameter, such as "norm_like:3"; "brier" and "qwk" by their other names.

    Without a number "norm_like" has α = 2 and "mahalanobis" the identity.

    Raises:
        divulge.InputError: a parameter that is no number, or out of its range.

    Examples:
        >>> parse_metric("norm_like:3"), parse_metric("brier"), parse_metric("auc")
        (Metric(name='norm_like', parameter=3.0), 'squared_euclidean', 'auc')
    """
    if not isinstance(name, str):
        return name
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    makers: dict[str, tuple[Callable[[float], Metric], float]] = {
        "norm_like": (norm_like, 2.0),
        "mahalanobis": (mahalanobis, 1.0),
    }
    head, colon, text = name.partition(":")
    if head not in makers:
        return name
    make, default = makers[head]
    try:
        return make(float(text) if colon else default)
    except ValueError as error:
        raise InputError(f"metric: {head}:NUMBER is needed, got {format_value(name)} ({error})") from None


def row_loss(
    metric: str | Metric | Linear,
    classes: int,
    *,
    clip: float | None = None,
    dtype: str = "float64",
    submission: str = "rows",
) -> RowLoss:
    """Return the per-row loss behind a metric's name.

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
        return _user_loss(metric, classes)
    name = metric.name if isinstance(metric, Metric) else metric
    if name == "log_loss":
        return logarithmic_loss(classes, clip or 0.0, dtype, submission)
    if name == "softmax_cross_entropy":
        return _softmax_loss(classes, dtype)
    if name == "squared_euclidean":
        return brier_loss(classes, submission)
    _require_two_classes(name, classes)
    parameter = metric.parameter if isinstance(metric, Metric) else 1.0
    makers: dict[str, Callable[[], RowLoss]] = {
        "sigmoid_cross_entropy": lambda: _sigmoid_loss(dtype),
        "itakura_saito": itakura_saito_loss,
        "norm_like": lambda: norm_like_loss(parameter),
        "mahalanobis": lambda: replace(squared_error_loss(parameter, parameter), has_bounded_base=True),
        "mse": lambda: squared_error_loss(1.0, math.inf),
        "rmse": lambda: squared_error_loss(1.0, math.inf),
        "rmsle": _squared_log_error_loss,
        "mae": _absolute_error_loss,
        "mape": _percentage_error_loss,
    }
    return makers[name]()


def _require_two_classes(name: str, classes: int) -> None:
    if classes != 2:
        raise InputError(f"classes: {name} is defined for 2 classes here, got {classes}")


# --- losses on logits


def _softmax_loss(classes: int, dtype: str) -> RowLoss:
    float_type = np.dtype(dtype)

    def table(predictions: Any) -> Floats:
        z = np.asarray(predictions, dtype=float_type)
        z = z - z.max(axis=1, keepdims=True)
        return (np.log(np.exp(z).sum(axis=1, keepdims=True)) - z).astype(np.float64)

    def predict(gaps: Floats, digits: Ints) -> Array:
        return -np.multiply.outer(gaps, digits.astype(float)).astype(float_type)

    return RowLoss(math.inf, predict, table, (classes,), float_scale=float(classes))


def _sigmoid_loss(dtype: str) -> RowLoss:
    float_type = np.dtype(dtype)

    def table(predictions: Any) -> Floats:
        z = np.asarray(predictions, dtype=float_type)
        soft = np.log1p(np.exp(-np.abs(z)))
        return np.stack([np.maximum(z, 0) + soft, np.maximum(-z, 0) + soft], axis=1).astype(np.float64)

    return RowLoss(math.inf, lambda gaps, digits: (-gaps * digits[1]).astype(float_type), table, (), float_scale=1.0)


# --- losses on real numbers


def _squared_log_error_loss() -> RowLoss:
    """The squared difference of ln(1 + p) and ln(1 + y), of predictions from 0 on, as endpoints may refuse others."""
    one = math.log(2)  # ln(1 + y) of label 1

    def table(predictions: Any) -> Floats:
        logarithms = np.log1p(np.asarray(predictions, dtype=float))
        return np.stack([logarithms**2, (logarithms - one) ** 2], axis=1)

    def predict(gaps: Floats, digits: Ints) -> Array:
        return np.expm1(np.maximum(one**2 - gaps * digits[1], 0.0) / (2 * one))

    # Predicting 0 makes label 1 cost the square of ln 2 more; predictions beyond 1 make label 0 cost anything.
    return RowLoss(one**2, predict, table, (), float_scale=1.0, reverse_span=math.inf)


def _absolute_error_loss() -> RowLoss:
    def table(predictions: Any) -> Floats:
        p = np.asarray(predictions, dtype=float)
        return np.stack([np.abs(p), np.abs(1 - p)], axis=1)

    return RowLoss(1.0, lambda gaps, digits: (1 - gaps * digits[1]) / 2, table, ())


def _percentage_error_loss() -> RowLoss:
    """Scikit-learn's mean absolute percentage error of labels 0 and 1: |y - p| over y, or over the epsilon of floats.

    A row of label 0 costs p/epsilon and one of label 1 costs 1 - p, so that tiny predictions make either label the
    costlier by up to 1; larger ones make label 0 cost anything.
    """
    tiny = float(np.finfo(np.float64).eps)

    def table(predictions: Any) -> Floats:
        p = np.asarray(predictions, dtype=float)
        return np.stack([np.abs(p) / tiny, np.abs(1 - p)], axis=1)

    return RowLoss(1.0, lambda gaps, digits: (1 - gaps * digits[1]) / (1 + 1 / tiny), table, (), reverse_span=math.inf)


def _user_loss(metric: Linear, classes: int) -> RowLoss:
    _require_two_classes(metric.name, classes)

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

    return RowLoss(span, lambda gaps, digits: solve_monotone(gap, gaps * digits[1], metric.low, metric.high), table, ())


def weight_classes(loss: RowLoss, weights: tuple[float, ...]) -> RowLoss:
    """Return ``loss`` of two classes, each multiplied by its class's weight (not yet divided by their sum)."""
    scale = np.asarray(weights)

    def gap(t: Floats) -> Floats:
        return weights[1] * np.logaddexp(0, t) - weights[0] * np.logaddexp(0, -t)

    low = -loss.two_sided
    ends = gap(np.array([low, loss.span]))

    def predict(gaps: Floats, digits: Ints) -> Array:
        return loss.predict(solve_monotone(gap, gaps * digits[1], low, loss.span), np.arange(2))

    return RowLoss(
        float(np.abs(ends).min()) * (1 - 1e-9),
        predict,
        lambda p: loss.table(p) * scale,
        loss.shape,
        loss.has_bounded_base,
    )


def r_squared(y: Ints, predictions: Array) -> float:
    """Return R² in scikit-learn's convention."""
    missed = float(((np.asarray(predictions, dtype=float) - y) ** 2).sum())
    spread = float(((y - y.mean()) ** 2).sum())
    if spread == 0:
        return 1.0 if missed == 0 else 0.0
    return 1 - missed / spread


def macro_f1(y: Ints, predictions: Array) -> float:
    """Return the mean F1 of the classes that occur among labels or predictions, as scikit-learn's macro average is.

    Examples:
        >>> round(macro_f1(np.array([0, 0, 1, 3]), np.array([0, 1, 1, 0])), 6)
        0.388889
    """
    n_classes = 1 + max(int(np.max(y)), int(np.max(predictions)))
    hits, labels, predicted = (
        np.bincount(values, minlength=n_classes) for values in (y[y == predictions], y, predictions)
    )
    occurs = labels + predicted > 0
    return float((2 * hits[occurs] / (labels + predicted)[occurs]).mean())


def mean_average_precision(y: Ints, lists: Array) -> float:
    """Return the mean reciprocal place of the true label in each row's list; 0 where it is not there."""
    places = np.asarray(lists) == np.asarray(y)[:, None]
    return float(np.where(places.any(axis=1), 1 / (places.argmax(axis=1) + 1), 0.0).mean())


def depth(n: int, order: str) -> int:
    """Return the largest number of additions that one of n elements passes through.

    Examples:
        >>> depth(2201, "pairwise"), depth(2201, "sequential")
        (30, 2201)
    """
    if order == "sequential" or n < 8:
        return n
    return 15 + 3 + 7 + max(0, math.ceil(math.log2(n / 120)))


def depths(n: int, order: str) -> Floats:
    """Number of additions that each of n elements passes through, in NumPy's pairwise tree or a plain loop.

    Examples:
        >>> depths(9, "pairwise")
        array([4., 4., 4., 4., 4., 4., 4., 4., 1.])
    """
    if order == "sequential" or n < 8:
        return np.arange(n, 0, -1, dtype=float)
    if n > 128:
        half = n // 2 - n // 2 % 8
        return np.concatenate([depths(half, order), depths(n - half, order)]) + 1
    rounds = n // 8
    # Lane sums first (the first element of a lane passes through all of its additions), then three
    # additions to join the lanes, then the rest one by one.
    lanes = np.repeat(np.minimum(np.arange(rounds, 0, -1), rounds - 1), 8)
    n_remaining = n % 8
    return np.concatenate([lanes + 3 + n_remaining, np.arange(n_remaining, 0, -1)]).astype(float)


def log_error(probabilities: Floats, losses: Floats) -> Floats:
    """Return a rigorous upper bound on ``|-ln p - loss|`` for each pair of floats; probabilities are above 0.

    Ball arithmetic on the exact dyadic numbers (Arb, by python-flint).

    Examples:
        >>> bool(0 < log_error(np.array([0.3]), -np.log([0.3]))[0] < 1e-16)
        True
    """
    with flint.ctx.workprec(_PRECISION_BITS):
        off = [
            float((-flint.arb(p).log() - flint.arb(loss)).abs_upper())
            for p, loss in zip(np.ravel(probabilities).tolist(), np.ravel(losses).tolist(), strict=True)
        ]
    return np.nextafter(np.array(off), math.inf).reshape(np.shape(losses))


def unit_roundoff(dtype: str) -> float:
    """Return half the machine epsilon: the relative error of one rounding."""
    return float(np.finfo(dtype).eps) / 2


def summation_error(n: int, total: Any, order: str, dtype: str) -> Any:
    """Bound the error, as a sum, of an oracle that adds up n losses of at most ``total`` and divides by n.

    Two further roundings stand for the division and for forming the answer.
    """
    unit = unit_roundoff(dtype)
    steps = depth(n, order) + 2
    return total * (steps * unit / (1 - steps * unit))


def mean_rounding(n: int, total: Any, dtype: str) -> Any:
    """Return the error, as a sum, of the mean's own rounding: n half units in the last place of ``total / n``."""
    float_type = np.dtype(dtype).type
    return 0.5 * n * np.spacing(np.asarray(total / n, dtype=float_type)).astype(np.float64)


def grid_error(low: Floats, high: Floats, deviation: Floats, grid: float, order: str, dtype: str) -> Floats:
    """Bound |float sum - sum of the grid values| for each query.

    Args:
        low: smallest grid value each row can have, ``[q, n]``.
        high: largest, ``[q, n]``.
        deviation: how far each row's float can lie from its grid value, ``[q, n]``.
        grid: the g all grid values are multiples of.
        order: "pairwise" or "sequential".
        dtype: the floats of the sum.

    Examples:
        >>> grid_error(np.ones((1, 9)), np.ones((1, 9)), np.full((1, 9), 1e-17), 0.5, "pairwise", "float64")
        array([0.])
    """
    add = functools.partial(_add_nodes, grid=grid, dtype=dtype)
    quantum = np.where(deviation == 0, grid, 0.0)

    def part(start: int, stop: int) -> Node:
        return low[:, start:stop], high[:, start:stop], deviation[:, start:stop], quantum[:, start:stop]

    def column(node: Node, index: int) -> Node:
        return node[0][:, index], node[1][:, index], node[2][:, index], node[3][:, index]

    def loop(start: int, stop: int, total: Node | None = None) -> Node:
        nodes = part(start, stop)
        total = column(nodes, 0) if total is None else add(total, column(nodes, 0))
        for index in range(1, stop - start):
            total = add(total, column(nodes, index))
        return total

    def pairwise(start: int, stop: int) -> Node:
        size = stop - start
        if size > 128:
            half = size // 2 - size // 2 % 8
            return add(pairwise(start, start + half), pairwise(start + half, stop))
        if size < 8:
            return loop(start, stop)
        lanes = part(start, start + 8)
        for lane_start in range(start + 8, start + size - size % 8, 8):
            lanes = add(lanes, part(lane_start, lane_start + 8))
        r = [column(lanes, index) for index in range(8)]
        total = add(add(add(r[0], r[1]), add(r[2], r[3])), add(add(r[4], r[5]), add(r[6], r[7])))
        return loop(stop - size % 8, stop, total) if size % 8 else total

    n = low.shape[1]
    return (loop(0, n) if order == "sequential" else pairwise(0, n))[2]


def _add_nodes(a: Node, b: Node, *, grid: float, dtype: str) -> Node:
    """Return the possible results of one addition, and how far each can then lie from the grid."""
    low, high, deviation, quantum = a[0] + b[0], a[1] + b[1], a[2] + b[2], np.minimum(a[3], b[3])
    step = _spacing(high + deviation, dtype)
    # Nothing is rounded when all that is added has a place in the last digits of the result.
    exact = (quantum >= step) & (grid >= step)
    # A sum less than half way from its grid value to the next float is rounded to the grid value, itself a float.
    floats = low.astype(dtype)
    spacing_below = (floats - np.nextafter(floats, floats.dtype.type(-np.inf))).astype(np.float64)
    returns_to_grid = (deviation < spacing_below / 2) & (grid >= step)
    rounded = deviation + np.where(grid >= step, np.minimum(step / 2, deviation), step / 2)
    # The result is a float and its grid value a multiple of the grid, so they differ by a multiple of the finer.
    finer_spacing = np.minimum(_spacing(np.maximum(low - 2 * (deviation + step), 0.0), dtype), grid)
    on_grid = np.where(
        finer_spacing > _MIN_SPACING,
        np.floor(rounded / np.maximum(finer_spacing, _MIN_SPACING)) * finer_spacing,
        rounded,
    )
    total = np.where(exact, deviation, np.where(returns_to_grid, 0.0, on_grid))
    return low, high, total, np.where(total == 0, grid, np.where(exact, quantum, finer_spacing))


def _spacing(values: Floats, dtype: str) -> Floats:
    return np.spacing(values.astype(dtype)).astype(np.float64)
