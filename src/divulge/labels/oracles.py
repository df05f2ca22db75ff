"""Oracles that answer on this machine, for simulations, tests and trying a defence."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import errors, lazy, seeds
from divulge.errors import InputError
from divulge.labels import metrics
from divulge.labels.metrics import Evaluated, evaluate_metric
from divulge.labels.spec import OracleSpec
from divulge.validation import (
    check_array,
    check_choice,
    check_instance,
    check_labels,
    check_mask,
    check_number,
    require_callable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn import metrics as sklearn_metrics

    from divulge.types import Array, Bools, Ints
else:
    sklearn_metrics = lazy.module("sklearn.metrics")

_NOISE_PATTERNS = ("edge", "uniform", "plus", "minus")


@dataclass(frozen=True, slots=True, eq=False)
class LocalOracle:
    """An oracle that answers like an endpoint with this specification and these labels.

    Args:
        spec: metric, clipping, noise, rounding.
        y: the hidden labels, ``[n]``.
        seed: of the noise.
        pattern: bounded noise: "edge" always ±τ (the worst case), "uniform" within ±τ, "plus", "minus".
        scored: bool ``[n]``; the oracle scores only these rows (a hidden public split). All when None.
        arithmetic: "numpy" (as scikit-learn adds up) or "exact" (the mean of the losses is rounded once, at the end).

    Raises:
        divulge.InputError: labels that do not fit; predictions of another shape, or rows that do not sum to one.
    """

    spec: OracleSpec
    y: Ints
    seed: int = 0
    pattern: str = "edge"
    scored: Bools | None = None
    arithmetic: str = "numpy"
    _draws: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_instance(self.spec, "spec", OracleSpec, "a labels.OracleSpec")
        check_choice(self.pattern, "pattern", _NOISE_PATTERNS)
        check_choice(self.arithmetic, "arithmetic", ("numpy", "exact"))
        y = check_labels(self.y, "y", length=self.spec.n, classes=self.spec.classes)
        object.__setattr__(self, "y", y)
        if self.scored is not None:
            object.__setattr__(self, "scored", check_scored_mask(self.spec, self.scored))
        elif self.spec.scored != "all":
            raise InputError("scored: the specification has a hidden split; say which rows are scored")
        object.__setattr__(self, "_draws", seeds.generator(self.seed, "labels", "oracle"))

    def __call__(self, predictions: object) -> float:
        """Return the score of ``predictions``, with noise and rounding."""
        answer = self.exact(predictions) + self._noise()
        return answer if self.spec.decimals is None else round(answer, self.spec.decimals)

    def exact(self, predictions: object) -> float:
        """Return the score without noise and rounding."""
        checked = check_predictions(self.spec, predictions)
        y = self.y
        if self.scored is not None:
            checked, y = checked[self.scored], y[self.scored]
        return compute_score(self.spec, y, checked, self.arithmetic)

    def _noise(self) -> float:
        spec = self.spec
        if spec.noise == 0:
            return 0.0
        if spec.noise_kind == "gaussian":
            return float(self._draws.normal(0, spec.noise))
        if spec.noise_kind == "laplace":
            return float(self._draws.laplace(0, spec.noise))
        if self.pattern == "uniform":
            return float(self._draws.uniform(-spec.noise, spec.noise))
        sign = {"edge": int(self._draws.choice([-1, 1])), "plus": 1, "minus": -1}[self.pattern]
        return sign * spec.noise


def check_scored_mask(spec: OracleSpec, scored: object) -> Bools:
    """Check that the mask of scored rows agrees with the specification."""
    mask = check_mask(scored, "scored", (spec.n,))
    n_scored = int(mask.sum())
    if not n_scored:
        raise InputError("scored: at least one row must be scored")
    if not isinstance(spec.scored, str) and n_scored != spec.scored:
        raise InputError(f"scored: the specification says {spec.scored} rows, the mask has {n_scored}")
    return mask


def check_predictions(spec: OracleSpec, predictions: object) -> Array:
    """Check that an oracle of this specification accepts ``predictions``, and return them as an array.

    Raises:
        divulge.InputError: another shape, NaN, probabilities outside [0, 1] or rows that do not sum to one.
    """
    values = check_array(predictions, "predictions")
    probabilities = spec.name in ("log_loss", "squared_euclidean", "norm_like", "itakura_saito", "mahalanobis")
    one_column = spec.name == "mahalanobis" or (
        spec.submission == "positive" and spec.name in ("log_loss", "squared_euclidean")
    )
    if isinstance(spec.metric, Evaluated):
        probabilities, one_column = spec.submission != "labels", spec.submission != "rows"
    if spec.name == "map_at_k":
        if values.ndim != 2 or len(values) != spec.n:
            raise InputError(f"predictions: shape ({spec.n}, k) is needed, got {values.shape}")
        return values
    matrix = spec.name == "softmax_cross_entropy" or (probabilities and not one_column)
    shape = (spec.n, spec.classes) if matrix else (spec.n,)
    if values.shape != shape:
        raise InputError(f"predictions: shape {shape} is needed, got {values.shape}")
    if not probabilities:
        if spec.submission == "labels" or spec.name in metrics.CLASS_NUMBER_METRICS:
            return check_labels(values.astype(np.int64), "predictions", length=spec.n, classes=spec.classes)
        return values
    if values.min() < 0 or values.max() > 1:
        raise InputError(f"predictions: must lie in [0, 1], got {values.min():g} to {values.max():g}")
    if matrix:
        allowed = math.sqrt(float(np.finfo(values.dtype if values.dtype.kind == "f" else np.float64).eps))
        off = np.abs(values.sum(axis=1) - 1)
        if off.max() > allowed:
            row = int(off.argmax())
            raise InputError(f"predictions: row {row} sums to {values[row].sum():.9g}, not to 1")
    return values


def compute_score(spec: OracleSpec, y: Ints, predictions: Array, arithmetic: str = "numpy") -> float:
    """Return the metric's value for labels ``y``, in the oracle's own floats or, when "exact", rounded only once."""
    if isinstance(spec.metric, Evaluated) and spec.metric.depends_on == "labels":
        return evaluate_metric(spec.metric, y, predictions)
    if spec.name == "map_at_k":
        return metrics.mean_average_precision(y, predictions)
    if spec.name == "r2":
        return metrics.r_squared(y, predictions)
    if spec.name in _COUNT_SCORES:
        return _COUNT_SCORES[spec.name](y, predictions)
    if not spec.adds_up:
        return metrics.ratio_score(spec, y, predictions)
    losses = spec.loss().table(predictions)[np.arange(len(y)), y]
    rows = 1.0 if spec.reduction == "sum" else float(len(y))
    if spec.class_weight is not None:
        rows = float(np.asarray(spec.class_weight)[y].sum())
    if arithmetic == "exact":
        mean = float(sum((Fraction(value) for value in losses.tolist()), Fraction(0)) / Fraction(rows))
    elif rows == len(y) and spec.reduction == "mean":
        mean = float(losses.astype(spec.float_dtype).mean())
    else:
        mean = float(losses.astype(spec.float_dtype).sum()) / rows
    return math.sqrt(mean) if spec.name == "rmse" else mean


def _accuracy(y: Ints, predictions: Array) -> float:
    return float(np.mean((predictions >= 0.5) == y))


def _f1(y: Ints, predictions: Array) -> float:
    positive = predictions >= 0.5
    doubled_hits = 2 * int((positive & (y == 1)).sum())
    return doubled_hits / (int(positive.sum()) + int(y.sum())) if doubled_hits else 0.0


def _auc(y: Ints, predictions: Array) -> float:
    _, inverse, counts = np.unique(predictions, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    ones = int(y.sum())
    if ones in (0, len(y)):
        raise InputError("y: AUC is not defined when only one class occurs")
    return float((ranks[y == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(y) - ones)))


_COUNT_SCORES: dict[str, Callable[[Any, Any], float]] = {"accuracy": _accuracy, "f1": _f1, "auc": _auc}


@dataclass(frozen=True, slots=True, eq=False)
class ScikitLearn:
    """An oracle that answers with scikit-learn's own metric function.

    Metrics: log_loss, squared_euclidean, mse, rmse, mae, mape, r2, accuracy, balanced_accuracy, f1, auc, mcc and
    quadratic_weighted_kappa.

    Raises:
        divulge.InputError: labels that do not fit, or a metric that is none of these.
    """

    spec: OracleSpec
    y: Ints

    def __post_init__(self) -> None:
        check_instance(self.spec, "spec", OracleSpec, "a labels.OracleSpec")
        y = check_labels(self.y, "y", length=self.spec.n, classes=self.spec.classes)
        object.__setattr__(self, "y", y)

    def __call__(self, predictions: Array) -> float:
        """Return the score of ``predictions``."""
        spec = self.spec
        if spec.name == "log_loss":
            return float(sklearn_metrics.log_loss(self.y, predictions, labels=list(range(spec.classes))))
        if spec.name == "squared_euclidean":
            positive = predictions if predictions.ndim == 1 else predictions[:, 1]
            return float(sklearn_metrics.brier_score_loss(self.y, positive))
        functions = {
            "mse": sklearn_metrics.mean_squared_error,
            "rmse": sklearn_metrics.root_mean_squared_error,
            "mae": sklearn_metrics.mean_absolute_error,
            "accuracy": sklearn_metrics.accuracy_score,
            "f1": sklearn_metrics.f1_score,
            "auc": sklearn_metrics.roc_auc_score,
            "mape": sklearn_metrics.mean_absolute_percentage_error,
            "r2": sklearn_metrics.r2_score,
            "mcc": sklearn_metrics.matthews_corrcoef,
            "balanced_accuracy": sklearn_metrics.balanced_accuracy_score,
            "quadratic_weighted_kappa": functools.partial(
                # Without the classes, weights would be distances between the places of those that occur.
                sklearn_metrics.cohen_kappa_score,
                weights="quadratic",
                labels=list(range(spec.classes)),
            ),
        }
        return float(functions[check_choice(spec.name, "metric", functions)](self.y, predictions))


@dataclass(slots=True, eq=False)
class Ladder:
    """Blum and Hardt's Ladder (2015): a new answer only when it beats the best by more than ``step``.

    Args:
        oracle: what it stands in front of; smaller scores are better.
        step: the improvement η that counts, and the grid of the answers.
    """

    oracle: Callable[[Any], float]
    step: float
    best: float = math.inf

    def __post_init__(self) -> None:
        require_callable(self.oracle, "oracle")
        self.step = check_number(self.step, "step", above=0)
        self.best = check_number(self.best, "best", above=-math.inf, below=math.inf, closed=True)

    def __call__(self, predictions: object) -> float:
        """Return the best rounded score so far."""
        with errors.user_code_errors("oracle", QuotaReachedError):
            answer = self.oracle(predictions)
        score = check_number(answer, "oracle: its answer")
        if score < self.best - self.step:
            self.best = round(score / self.step) * self.step
        return self.best


class QuotaReachedError(Exception):
    """The oracle answers no more queries for now; answers so far are kept."""
