"""Values of the metrics that are no sums over rows, and what they say of the labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from divulge.labels.evaluated import Evaluated

if TYPE_CHECKING:
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Floats, Ints

OF_CLASS_NUMBERS = ("balanced_accuracy", "mcc", "quadratic_weighted_kappa")


def coefficients(spec: OracleSpec, ones: Ints, squares: Ints, submission: Ints) -> tuple[Floats, Floats, Floats]:
    """For totals Σ y and Σ y²: ``a`` and ``b`` of ``score = a + b·Σ p·y``, and the score where Σ p·y does not matter.

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
    none = np.full(len(s), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        if spec.name == "balanced_accuracy":
            slope = 0.5 / s + 0.5 / (n - s)
            start = 0.5 * (n - s - p) / (n - s)
            # With one class only, scikit-learn gives that class's share.
            fixed = np.where(s == 0, (n - p) / n, np.where(s == n, p / n, none))
        elif spec.name == "mcc":
            slope = n / np.sqrt(p * (n - p) * s * (n - s))
            start = -slope * p * s / n
            fixed = np.where(p * (n - p) * s * (n - s) == 0, 0.0, none)
        else:
            own = float((submission**2).sum())
            expected = own + squares - 2 * p * s / n
            slope, start = 2 / expected, 1 - (own + squares) / expected
            # Nothing is expected to differ when all labels and predictions are one class; that is no score at all.
            fixed = np.where(expected <= 1e-9, math.inf, none)
    return start, slope, fixed


def score(spec: OracleSpec, y: Ints, submission: Array) -> float:
    """The metric's value for labels ``y``; as scikit-learn has it where they are all of one class."""
    if isinstance(spec.metric, Evaluated):
        return spec.metric(y, submission)
    p = np.asarray(submission).astype(np.int64)
    start, slope, fixed = coefficients(spec, np.array([y.sum()]), np.array([(y**2).sum()]), p)
    value = float(fixed[0]) if not math.isnan(fixed[0]) else float(start[0] + slope[0] * int(p @ y))
    return value if math.isfinite(value) else math.nan


def r_squared(y: Ints, predictions: Array) -> float:
    """R², as scikit-learn has it."""
    missed = float(((np.asarray(predictions, dtype=float) - y) ** 2).sum())
    spread = float(((y - y.mean()) ** 2).sum())
    if spread == 0:
        return 1.0 if missed == 0 else 0.0
    return 1 - missed / spread


def average_precision(y: Ints, lists: Array) -> float:
    """Mean over rows of 1 over the place of the true label in the row's list; 0 where it is not there."""
    places = np.asarray(lists) == np.asarray(y)[:, None]
    return float(np.where(places.any(axis=1), 1 / (places.argmax(axis=1) + 1), 0.0).mean())
