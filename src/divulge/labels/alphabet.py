"""The few distinct predictions a plan is made of: one for each integer weight, with its losses and their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.labels import floats
from divulge.labels.probability_losses import probabilities

if TYPE_CHECKING:
    from divulge.labels.loss import Loss
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Alphabet:
    """Predictions and losses of the weights that occur in a code.

    Args:
        weights: the weights, ascending, ``[U]``.
        rows: one prediction each, ``[U, ...]``.
        base: loss of a class with digit 0, ``[U]``; a class with digit d loses ``unit·weight·d`` more.
        low: smallest loss over the classes, ``[U]``.
        high: largest.
        deviation: bound on how far any class's loss, in the oracle's floats, lies from what ``base`` says, ``[U]``.
    """

    weights: Ints
    rows: Array
    base: Floats
    low: Floats
    high: Floats
    deviation: Floats

    @property
    def size(self) -> Floats:
        """Largest absolute loss over the classes, ``[U]``."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def index(self, weights: Ints) -> Ints:
        """Positions of these weights."""
        return np.searchsorted(self.weights, weights)


def make(spec: OracleSpec, loss: Loss, weights: Ints, unit: float, digits: Ints, grid: float) -> Alphabet:
    """Predictions whose classes lie ``unit·weight·digit`` apart.

    With a ``grid`` every loss is moved to a multiple of it (rows then sum to one within a few grid steps, far
    inside what a check of the rows allows), so that sums of them carry no rounding error.
    """
    gaps = unit * weights
    steps = np.multiply.outer(gaps, digits.astype(float))
    if grid and spec.name == "log_loss":
        rows, first = _snapped(loss, gaps, digits, grid)
        wanted = first[:, None] + steps - steps.min(axis=1, keepdims=True)
    elif grid and spec.name == "mse":
        rows = loss.predict(gaps, digits)
        wanted = np.round(loss.table(rows)[:, :1] / grid) * grid + steps
    else:
        rows = loss.predict(gaps, digits)
        table = loss.table(rows)
        reference = np.zeros(len(weights)) if grid else (table - steps)[:, int(np.argmin(digits))]
        wanted = reference[:, None] + steps - (steps.min(axis=1, keepdims=True) if grid else 0.0)
    deviation = _deviation(spec, loss, rows, wanted, bool(grid))
    base = wanted[:, int(np.argmin(digits))]
    return Alphabet(weights, rows, base, wanted.min(axis=1), wanted.max(axis=1), deviation.max(axis=1))


def ulps(values: Floats, dtype: str) -> Floats:
    """Units in the last place of ``values`` in the oracle's floats: what its logarithm may be off by."""
    kind = np.dtype(dtype).type
    return np.spacing(np.abs(values).astype(kind)).astype(np.float64)


def _snapped(loss: Loss, gaps: Floats, digits: Ints, grid: float) -> tuple[Array, Floats]:
    """Rows whose float losses are multiples of the grid, and the smallest loss of each row."""
    steps = np.multiply.outer(gaps, digits.astype(float))
    steps = steps - steps.min(axis=1, keepdims=True)
    start = np.round(-np.log(probabilities(gaps, digits).max(axis=1)) / grid)
    best_rows = np.empty_like(steps)
    best_first = np.empty_like(gaps)
    best_miss = np.full(len(gaps), math.inf)
    for offset in range(-4, 5):
        first = np.maximum(start + offset, 0) * grid
        rows, miss = _nearest(first[:, None] + steps)
        better = miss < best_miss
        best_miss = np.where(better, miss, best_miss)
        best_first = np.where(better, first, best_first)
        best_rows = np.where(better[:, None], rows, best_rows)
    return best_rows, best_first


def _nearest(wanted: Floats) -> tuple[Array, Floats]:
    """Probabilities whose exact logarithm is nearest to ``wanted``, and the worst miss of a row in last places."""
    best = np.minimum(np.exp(-wanted), 1.0)
    miss = _miss(best, wanted)
    for direction in (0.0, 1.0):
        near = best
        for _ in range(3):
            near = np.nextafter(near, direction)
            misses = _miss(near, wanted)
            best, miss = np.where(misses < miss, near, best), np.minimum(misses, miss)
    return best, miss.max(axis=1)


def _miss(probability: Array, wanted: Floats) -> Floats:
    exact = -np.log(probability.astype(np.longdouble))
    return (np.abs(exact - wanted) / np.maximum(ulps(wanted, "float64"), 1e-17)).astype(float)


# A logarithm off by no more than 0.55 units in the last place (those of the C libraries and of NumPy are)
# returns the float t whenever the true value is within 0.45 of it.
_CENTRED = 0.45


def _deviation(spec: OracleSpec, loss: Loss, rows: Array, wanted: Floats, grid: bool) -> Floats:
    """Bound on the distance of the oracle's float losses of ``rows`` from ``wanted``."""
    table = loss.table(rows)
    ulp = ulps(wanted, spec.float_dtype)
    if grid and spec.name == "mse":
        # A square that floats can hold is computed without error; any other within half a unit in the last place.
        return np.where(table == wanted, 0.0, np.abs(table - wanted) + ulp)
    if grid and spec.name in ("softmax_cross_entropy", "sigmoid_cross_entropy"):
        # Huge logits on a grid are subtracted without error; what is left is at most ln K a row.
        return np.abs(table - wanted) + 4 * float(np.finfo(spec.float_dtype).eps)
    if spec.name != "log_loss" or spec.submission != "rows" or spec.class_weight is not None or rows.size > 100_000:
        # The formulas are a few float operations each; three units in the last place of the largest term cover them.
        size = np.maximum(np.maximum(np.abs(wanted), np.abs(table)), loss.term)
        return np.abs(table - wanted) + 3 * ulps(size, spec.float_dtype)
    miss = _exact(spec, rows, wanted)
    return np.where(miss <= _CENTRED * ulp, 0.0, miss + ulp) if grid else miss + ulp


def _exact(spec: OracleSpec, rows: Array, wanted: Floats) -> Floats:
    """Rigorous bound on the distance of the true losses of the exact dyadic rows from ``wanted``."""
    clip = np.dtype(spec.float_dtype).type(spec.epsilon)
    inside = np.clip(rows, clip, 1 - clip) if spec.epsilon else rows
    return floats.log_error(inside, wanted)
