"""Metrics that are known by evaluation, or by no more than their range."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from divulge import errors
from divulge.errors import InputError
from divulge.validation import check_choice, check_instance, check_number, check_string, format_value, require_callable

if TYPE_CHECKING:
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Floats, Ints


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A metric that can be evaluated on any labels: what is proven through it holds if the endpoint computes just that.

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
        """Scores of hypothetical labels and predictions; NaN where the metric is not defined."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of labels that are only tried
            return np.array([self(y, predictions) for y, predictions in cases], dtype=float)

    def __call__(self, y: Ints, predictions: Array) -> float:
        """The score of ``predictions`` for labels ``y``; NaN where the metric is not defined or raises an error."""
        try:
            return float(self.function(y, predictions))
        except (ValueError, ZeroDivisionError, FloatingPointError):
            return math.nan


@dataclass(frozen=True, slots=True)
class KnownRange:
    """A metric of which nothing is known but its range; with its decimals that bounds what an answer can tell.

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


def evaluate(metric: Evaluated, y: Ints, predictions: Array) -> float:
    """The score, where it has to be defined.

    Raises:
        divulge.errors.UserCodeError: the function raises an error.
        divulge.InputError: it returns no finite number.
    """
    with errors.user_code_errors("metric"):
        value = metric.function(y, predictions)
    return check_number(value, f"metric: what {metric.name} returns")


def draw_submission(spec: OracleSpec, rng: np.random.Generator) -> Array:
    """A random submission of the form that ``spec`` declares."""
    if spec.submission == "labels":
        return rng.integers(0, spec.classes, spec.n)
    sure = rng.random(spec.n) < 0.5
    if spec.submission == "positive":
        return np.where(sure, rng.integers(0, 2, spec.n).astype(float), rng.random(spec.n))
    mixed = rng.dirichlet(np.ones(spec.classes), spec.n)
    return np.where(sure[:, None], np.eye(spec.classes)[rng.integers(0, spec.classes, spec.n)], mixed)
