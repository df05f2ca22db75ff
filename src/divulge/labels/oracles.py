"""Scoring endpoints: what one declares before the first query, and oracles that answer on this machine."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import stats

from divulge import errors, lazy, seeds
from divulge.errors import InputError
from divulge.labels import metrics
from divulge.labels.metrics import Evaluated, KnownRange, Linear, Metric, RowLoss, evaluate_metric
from divulge.settings import OracleSettings
from divulge.validation import (
    as_list,
    check_array,
    check_choice,
    check_instance,
    check_integer,
    check_labels,
    check_mask,
    check_number,
    require_callable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn import metrics as sklearn_metrics

    from divulge.types import Array, Bools, Floats, Ints
else:
    sklearn_metrics = lazy.module("sklearn.metrics")

COUNT_METRICS = ("accuracy", "f1", "auc")
RATIO_METRICS = ("balanced_accuracy", "macro_f1", "mcc", "quadratic_weighted_kappa", "r2", "map_at_k")
METRIC_NAMES = (
    "log_loss", "softmax_cross_entropy", "sigmoid_cross_entropy", "itakura_saito", "squared_euclidean",
    "norm_like", "mahalanobis", "mse", "rmse", "rmsle", "mae", "mape", *COUNT_METRICS, *RATIO_METRICS,
)  # fmt: skip
_DEFAULTS = OracleSettings()
_MAX_SIZE = 10**9  # rows


FALSE_ALARM_RATE = 1e-6  # chance of each of these tests to refute an oracle that is what was declared


@dataclass(frozen=True, slots=True)
class OracleSpec:
    """A scoring endpoint: ``answer = mean over n rows of the per-row loss + noise``, rounded.

    Args:
        metric: one of "log_loss", "softmax_cross_entropy", "sigmoid_cross_entropy", "itakura_saito",
            "squared_euclidean", "mse", "rmse", "rmsle", "mae", "mape", "accuracy", "f1", "macro_f1", "auc",
            "balanced_accuracy", "mcc", "quadratic_weighted_kappa" or "qwk", "r2", "map_at_k", "brier"
            (squared_euclidean), "norm_like" (α = 2) or
            "norm_like:3", "mahalanobis" (the identity) or a multiple of it ("mahalanobis:2"), or what `norm_like`,
            `mahalanobis` or `Linear` made. A
            function ``metric(y, predictions)`` is known by evaluation alone (`Evaluated`); `KnownRange` by no more
            than its range.
        n: number of scored rows; the oracle averages over all of them.
        classes: number of classes K.
        clip: probabilities are clipped into ``[clip, 1 - clip]``; the name of a float type means its
            machine epsilon (scikit-learn's habit), None no clipping at all.
        decimals: the answer is rounded to this many decimals; None: not rounded.
        noise: bound τ on the absolute noise of an answer; for the other kinds of ``noise_kind`` the standard
            deviation ("gaussian") or the scale b ("laplace").
        float_dtype: the floats in which the oracle computes.
        reduction: "mean" or "sum" over the rows.
        class_weight: one positive weight per class; the answer is then the weighted mean, divided by the sum
            of the weights of the true labels (as scikit-learn and torch do).
        submission: "rows": predictions ``[n, K]``; "positive": binary, one column p(y = 1), where 1 - p is
            rounded by the float grid; "labels": one class number (for a metric that is a function).
        noise_kind: "bounded", "gaussian" or "laplace".
        summation: "pairwise" (NumPy, scikit-learn, torch) or "sequential" (a plain loop): how the oracle
            adds up; it bounds the float error.
        scored: how many of the n rows count: "all", a number below n (a hidden public split of known size, such
            as "30 % of the test data"), or "unknown". Which rows they are is for the attack to find out.

    Raises:
        divulge.InputError: a value outside its range.

    Examples:
        >>> OracleSpec(metric="log_loss", n=2201, clip=1e-15, decimals=5).tolerance
        5e-06
    """

    metric: str | Metric | Linear | Evaluated | KnownRange | Callable[[Any, Any], Any] = _DEFAULTS.metric
    n: int = 0
    classes: int = _DEFAULTS.classes
    clip: float | str | None = _DEFAULTS.clip
    decimals: int | None = _DEFAULTS.decimals
    noise: float = _DEFAULTS.noise
    float_dtype: str = "float64"
    reduction: str = "mean"
    class_weight: tuple[float, ...] | None = _DEFAULTS.class_weight
    submission: str = _DEFAULTS.submission
    noise_kind: Literal["bounded", "gaussian", "laplace"] = _DEFAULTS.noise_kind
    summation: str = "pairwise"
    scored: int | str = _DEFAULTS.scored

    def __post_init__(self) -> None:
        check_integer(self.n, "n", minimum=1, maximum=_MAX_SIZE)
        OracleSettings.check_attributes(self)
        if callable(self.metric) and not isinstance(self.metric, Evaluated):
            object.__setattr__(self, "metric", Evaluated(self.metric))
        if isinstance(self.metric, Evaluated) and self.metric.depends_on == "counts":
            if self.classes != 2:
                raise InputError(f"classes: a metric that depends on counts has 2, got {self.classes}")
            object.__setattr__(self, "submission", "labels")
        if not isinstance(self.metric, Metric | Linear | Evaluated | KnownRange):
            object.__setattr__(self, "metric", metrics.parse_metric(self.metric))
            if not isinstance(self.metric, Metric):
                _check_metric_name(self.metric)
        if self.metric == "macro_f1" and self.classes > 2:  # of two it is a ratio of counts, which has a code
            object.__setattr__(self, "metric", Evaluated(metrics.macro_f1, low=0.0, high=1.0, name="macro_f1"))
            object.__setattr__(self, "submission", "labels")
        check_choice(self.float_dtype, "float_dtype", ("float64", "float32", "float16"))
        check_choice(self.reduction, "reduction", ("mean", "sum"))
        check_choice(self.summation, "summation", ("pairwise", "sequential"))
        if self.noise == 0:
            object.__setattr__(self, "noise_kind", "bounded")  # no noise is bounded noise, whatever it would be like
        _ = self.epsilon
        self._check_weights()
        if not isinstance(self.scored, str):
            if check_integer(self.scored, "scored", minimum=1) > self.n:
                raise InputError(f"scored: at most all {self.n} rows can be scored, got {self.scored}")
        else:
            check_choice(self.scored, "scored", ("all", "unknown"))
        self._check_form()

    def _check_form(self) -> None:
        if self.submission == "positive" and self.classes != 2:
            raise InputError(f"submission: 'positive' needs 2 classes, got {self.classes}")
        if self.submission == "labels" and not isinstance(self.metric, Evaluated):
            raise InputError("submission: 'labels' is for a metric that is a function; others say it themselves")
        if self.reduction == "sum" and (self.name in metrics.ROOTS or not self.adds_up):
            raise InputError(f"reduction: {self.name} is no sum over rows; use 'mean'")
        if self.adds_up:
            self.loss()
        elif self.classes != 2 and self.name in (*COUNT_METRICS, "balanced_accuracy", "mcc", "r2"):
            raise InputError(f"classes: {self.name} is defined for 2 classes here, got {self.classes}")

    def _check_weights(self) -> None:
        if self.class_weight is None:
            return
        values = as_list(self.class_weight, "class_weight")
        weights = tuple(check_number(weight, "class_weight", above=0.0) for weight in values)
        if len(weights) != self.classes:
            raise InputError(f"class_weight: {self.classes} positive weights are needed, got {len(weights)}")
        if self.name != "log_loss" or self.classes != 2 or self.reduction != "mean":
            raise InputError("class_weight: known for the mean log_loss of 2 classes only")
        object.__setattr__(self, "class_weight", weights)

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.metric if isinstance(self.metric, str) else str(getattr(self.metric, "name", "function"))

    @property
    def adds_up(self) -> bool:
        """True if the metric is a mean, or a sum, of a loss of every row (or the root of that)."""
        return self.name not in (*COUNT_METRICS, *RATIO_METRICS) and not isinstance(self.metric, Evaluated | KnownRange)

    @property
    def epsilon(self) -> float:
        """The clip as a number; 0 when nothing is clipped."""
        if self.clip is None:
            return 0.0
        if isinstance(self.clip, str):
            check_choice(self.clip, "clip", ("float64", "float32", "float16"))
            return float(np.finfo(self.clip).eps)
        return check_number(self.clip, "clip", above=0.0, below=0.5)

    @property
    def rounding(self) -> float:
        """Largest error that rounding adds to an answer: half a unit of the last decimal; 0 where it loses nothing."""
        return 0.0 if self.decimals is None or self._shows_counts_whole() else 0.5 * 10.0**-self.decimals

    def _shows_counts_whole(self) -> bool:
        """Return True if the score is a number of rows over their total and has no more decimals than are shown.

        Shares of 100 rows have two decimals by themselves. (Of MAP@k this is true of the lists of one class that plans
        and control queries submit.)
        """
        is_count = self.name in ("accuracy", "map_at_k") and self.noise == 0 and self.scored != "unknown"
        return is_count and self.decimals is not None and 10**self.decimals % self.most_scored == 0

    @property
    def tolerance(self) -> float:
        """Largest error of an answer for bounded noise, without that of the floats: τ + ½·10^-decimals."""
        return self.rounding + (self.noise if self.noise_kind == "bounded" else 0.0)

    @property
    def rows_per_answer(self) -> float:
        """Factor that turns an answer into a sum over rows (at most, for weighted classes or a split)."""
        largest = max(self.class_weight) if self.class_weight else 1.0
        return self.most_scored * largest if self.reduction == "mean" else 1.0

    @property
    def most_scored(self) -> int:
        """Largest number of rows the oracle may average over."""
        return self.n if isinstance(self.scored, str) else self.scored

    @property
    def sigma(self) -> float:
        """Standard deviation of the stochastic noise of an answer (rounding included as uniform)."""
        deviation = {"bounded": 0.0, "gaussian": self.noise, "laplace": math.sqrt(2) * self.noise}[self.noise_kind]
        return math.hypot(deviation, 2 * self.rounding / math.sqrt(12)) if deviation else 0.0

    def loss(self) -> RowLoss:
        """Return the per-row loss.

        Raises:
            divulge.InputError: for the counting metrics, which are no sums over single rows.
        """
        if not self.adds_up:
            raise InputError(f"metric: {self.name} is not a sum of per-row losses")
        assert isinstance(self.metric, str | Metric | Linear), "as adds_up says"
        loss = metrics.row_loss(
            self.metric,
            self.classes,
            clip=self.epsilon,
            dtype=self.float_dtype,
            submission=self.submission if self.name in ("log_loss", "squared_euclidean") else "rows",
        )
        return loss if self.class_weight is None else metrics.weight_classes(loss, self.class_weight)


def _check_metric_name(metric: object) -> None:
    try:
        check_choice(metric, "metric", METRIC_NAMES)
    except InputError as error:
        raise InputError(
            f"{error}; a metric of your own is a function metric(y, predictions), named on the command line as "
            "'module:function'"
        ) from None


def noise_bound(spec: OracleSpec, count: int) -> float:
    """Bound the noise of ``count`` answers: as declared or, for stochastic noise, but for one case in a million.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> noise_bound(OracleSpec(n=9, noise=0.1), 5)
        0.1
        >>> round(noise_bound(OracleSpec(n=9, noise=0.1, noise_kind="gaussian"), 1), 3)
        0.489
    """
    if spec.noise_kind == "gaussian":
        return -spec.noise * NormalDist().inv_cdf(FALSE_ALARM_RATE / (2 * count))
    if spec.noise_kind == "laplace":
        return -spec.noise * math.log(FALSE_ALARM_RATE / count)
    return spec.noise


def exceeds_noise(spec: OracleSpec, ratios: Floats) -> bool:
    """Return True if the answers lie further from what labels could give than this noise explains.

    Args:
        spec: the oracle; stochastic noise.
        ratios: how far each answer lies away, at least, in standard deviations ``[q]``. The distance to the
            nearest possible answer is never larger than the noise itself, so its sum follows a known law at most:
            χ² for the squares of Gaussian noise, gamma for Laplace noise.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> spec = OracleSpec(n=9, noise=0.1, noise_kind="gaussian")
        >>> exceeds_noise(spec, np.full(8, 1.0)), exceeds_noise(spec, np.full(8, 3.0))
        (False, True)
    """
    if not len(ratios):
        return False
    if spec.noise_kind == "gaussian":
        return float(ratios @ ratios) > float(stats.chi2.isf(FALSE_ALARM_RATE, len(ratios)))
    return math.sqrt(2) * float(np.abs(ratios).sum()) > float(stats.gamma.isf(FALSE_ALARM_RATE, len(ratios)))


def draw_submission(spec: OracleSpec, rng: np.random.Generator) -> Array:
    """Draw a random submission of the form that ``spec`` declares."""
    if spec.submission == "labels":
        return rng.integers(0, spec.classes, spec.n)
    sure = rng.random(spec.n) < 0.5
    if spec.submission == "positive":
        return np.where(sure, rng.integers(0, 2, spec.n).astype(float), rng.random(spec.n))
    mixed = rng.dirichlet(np.ones(spec.classes), spec.n)
    return np.where(sure[:, None], np.eye(spec.classes)[rng.integers(0, spec.classes, spec.n)], mixed)


def linear_coefficients(spec: OracleSpec, ones: Ints, squares: Ints, submission: Ints) -> tuple[Floats, Floats, Floats]:
    """Return, for totals Σ y and Σ y², ``a`` and ``b`` of ``score = a + b·Σ p·y``, and any score free of Σ p·y.

    Args:
        spec: the oracle.
        ones: Σ y, ``[m]``.
        squares: Σ y², ``[m]``.
        submission: p, ``[n]``.

    Returns:
        Three times ``[m]``; the last is NaN where the score does depend on Σ p·y.
    """
    n, p = spec.n, float(submission.sum())
    s = ones.astype(float)
    undefined = np.full(len(s), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        if spec.name == "balanced_accuracy":
            slope = 0.5 / s + 0.5 / (n - s)
            start = 0.5 * (n - s - p) / (n - s)
            # With one class only, scikit-learn gives that class's share.
            fixed = np.where(s == 0, (n - p) / n, np.where(s == n, p / n, undefined))
        elif spec.name == "macro_f1":  # half of 2·Σpy/(Σp + Σy), and of the same for zeros
            slope = 1 / (p + s) + 1 / (2 * n - p - s)
            start = (n - s - p) / (2 * n - p - s)
            # Where one class alone occurs, in labels and predictions, its own F1 is all there is.
            fixed = np.where((p + s == 0) | (p + s == 2 * n), 1.0, undefined)
        elif spec.name == "mcc":
            slope = n / np.sqrt(p * (n - p) * s * (n - s))
            start = -slope * p * s / n
            fixed = np.where(p * (n - p) * s * (n - s) == 0, 0.0, undefined)
        else:
            squared_predictions = float((submission**2).sum())
            expected = squared_predictions + squares - 2 * p * s / n
            slope, start = 2 / expected, 1 - (squared_predictions + squares) / expected
            # Nothing is expected to differ when all labels and predictions are one class; that is no score at all.
            fixed = np.where(expected <= 1e-9, math.inf, undefined)
    return start, slope, fixed


def ratio_score(spec: OracleSpec, y: Ints, submission: Array) -> float:
    """Return the metric's value for labels ``y``; scikit-learn's convention where they are all of one class."""
    if isinstance(spec.metric, Evaluated):
        return spec.metric(y, submission)
    p = np.asarray(submission).astype(np.int64)
    start, slope, fixed = linear_coefficients(spec, np.array([y.sum()]), np.array([(y**2).sum()]), p)
    value = float(fixed[0]) if not math.isnan(fixed[0]) else float(start[0] + slope[0] * int(p @ y))
    return value if math.isfinite(value) else math.nan


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
        check_choice(self.pattern, "pattern", ("edge", "uniform", "plus", "minus"))
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
        return ratio_score(spec, y, predictions)
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
    return math.sqrt(mean) if spec.name in metrics.ROOTS else mean


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

    Metrics: log_loss, squared_euclidean, mse, rmse, rmsle, mae, mape, r2, accuracy, balanced_accuracy, f1, macro_f1,
    auc, mcc and quadratic_weighted_kappa.

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
            "rmsle": sklearn_metrics.root_mean_squared_log_error,
            "mae": sklearn_metrics.mean_absolute_error,
            "accuracy": sklearn_metrics.accuracy_score,
            "f1": sklearn_metrics.f1_score,
            "macro_f1": functools.partial(sklearn_metrics.f1_score, average="macro", zero_division=0.0),
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
