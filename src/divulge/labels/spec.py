"""Specification of a scoring endpoint before the first query, and bounds on the noise it declares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from scipy import stats

from divulge.errors import InputError
from divulge.labels import metrics
from divulge.labels.metrics import Evaluated, KnownRange, Linear, Loss, Metric
from divulge.settings import OracleSettings
from divulge.validation import as_list, check_choice, check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.types import Floats

COUNT_METRICS = ("accuracy", "f1", "auc")
RATIO_METRICS = ("balanced_accuracy", "mcc", "quadratic_weighted_kappa", "r2", "map_at_k")
METRIC_NAMES = (
    "log_loss", "softmax_cross_entropy", "sigmoid_cross_entropy", "itakura_saito", "squared_euclidean",
    "norm_like", "mahalanobis", "mse", "rmse", "mae", "mape", *COUNT_METRICS, *RATIO_METRICS,
)  # fmt: skip
_DEFAULTS = OracleSettings()
_MAX_SIZE = 10**9  # rows
_PROBABILITY_METRICS = ("log_loss", "squared_euclidean")

NoiseKind: TypeAlias = Literal["bounded", "gaussian", "laplace"]

FALSE_ALARM_RATE = 1e-6  # chance of each of these tests to refute an oracle that is what was declared


@dataclass(frozen=True, slots=True)
class OracleSpec:
    """A scoring endpoint: ``answer = mean over n rows of the per-row loss + noise``, rounded.

    Args:
        metric: one of "log_loss", "softmax_cross_entropy", "sigmoid_cross_entropy", "itakura_saito",
            "squared_euclidean", "mse", "rmse", "mae", "mape", "accuracy", "f1", "auc", "balanced_accuracy", "mcc",
            "quadratic_weighted_kappa", "r2", "map_at_k", or what `norm_like`, `mahalanobis` or `Linear` made. A
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
    noise_kind: NoiseKind = _DEFAULTS.noise_kind
    summation: str = "pairwise"
    scored: int | str = _DEFAULTS.scored

    def __post_init__(self) -> None:
        check_integer(self.n, "n", least=1, most=_MAX_SIZE)
        OracleSettings.check_attributes(self)
        self._check_metric()
        check_choice(self.float_dtype, "float_dtype", ("float64", "float32", "float16"))
        check_choice(self.reduction, "reduction", ("mean", "sum"))
        check_choice(self.summation, "summation", ("pairwise", "sequential"))
        if self.noise == 0:
            object.__setattr__(self, "noise_kind", "bounded")  # no noise is bounded noise, whatever it would be like
        _ = self.epsilon
        self._check_weights()
        self._check_scored()
        self._check_form()

    def _check_metric(self) -> None:
        if callable(self.metric) and not isinstance(self.metric, Evaluated):
            object.__setattr__(self, "metric", Evaluated(self.metric))
        if isinstance(self.metric, Evaluated) and self.metric.depends_on == "counts":
            if self.classes != 2:
                raise InputError(f"classes: a metric that depends on counts has 2, got {self.classes}")
            object.__setattr__(self, "submission", "labels")
        if not isinstance(self.metric, Metric | Linear | Evaluated | KnownRange):
            check_choice(self.metric, "metric", METRIC_NAMES)
            if self.metric in ("norm_like", "mahalanobis"):
                raise InputError(f"metric: {self.metric} has a parameter; use labels.{self.metric}(...)")

    def _check_scored(self) -> None:
        if not isinstance(self.scored, str):
            if check_integer(self.scored, "scored", least=1) > self.n:
                raise InputError(f"scored: at most all {self.n} rows can be scored, got {self.scored}")
        else:
            check_choice(self.scored, "scored", ("all", "unknown"))

    def _check_form(self) -> None:
        if self.submission == "positive" and self.classes != 2:
            raise InputError(f"submission: 'positive' needs 2 classes, got {self.classes}")
        if self.submission == "labels" and not isinstance(self.metric, Evaluated):
            raise InputError("submission: 'labels' is for a metric that is a function; others say it themselves")
        if self.reduction == "sum" and (self.name == "rmse" or not self.adds_up):
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
        """Largest error that rounding adds to an answer: half a unit of the last decimal."""
        return 0.0 if self.decimals is None else 0.5 * 10.0**-self.decimals

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

    def loss(self) -> Loss:
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
            submission=self.submission if self.name in _PROBABILITY_METRICS else "rows",
        )
        return loss if self.class_weight is None else metrics.weight_classes(loss, self.class_weight)


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
