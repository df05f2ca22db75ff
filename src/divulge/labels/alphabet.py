"""The few distinct predictions a plan is made of: one for each integer weight, with its losses and their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.labels.losses import probabilities

if TYPE_CHECKING:
    from divulge.labels.losses import Loss
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
    else:
        rows = loss.predict(gaps, digits)
        table = loss.table(rows)
        reference = np.zeros(len(weights)) if grid else (table - steps)[:, int(np.argmin(digits))]
        wanted = reference[:, None] + steps - (steps.min(axis=1, keepdims=True) if grid else 0.0)
    deviation = np.abs(_exact(spec, loss, rows, wanted)) + ulps(wanted, spec.float_dtype)
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
    least = -np.log(probabilities(gaps, digits).max(axis=1))
    start = np.round(least / grid)
    best_rows = np.empty_like(steps)
    best_first = np.empty_like(gaps)
    best_miss = np.full(len(gaps), math.inf)
    for offset in (0, 1, -1, 2, -2, 3, -3):
        first = np.maximum(start + offset, 0) * grid
        rows, miss = _nearest(loss, first[:, None] + steps)
        better = miss < best_miss
        best_miss = np.where(better, miss, best_miss)
        best_first = np.where(better, first, best_first)
        best_rows = np.where(better[:, None], rows, best_rows)
    return best_rows, best_first


def _nearest(loss: Loss, wanted: Floats) -> tuple[Array, Floats]:
    rows = np.minimum(np.exp(-wanted), 1.0)
    best, miss = rows, np.abs(loss.table(rows) - wanted)
    for direction in (0.0, 1.0):
        near = rows
        for _ in range(3):
            near = np.nextafter(near, direction)
            found = np.abs(loss.table(near) - wanted)
            best, miss = np.where(found < miss, near, best), np.minimum(found, miss)
    return best, miss.sum(axis=1)


def _exact(spec: OracleSpec, loss: Loss, rows: Array, wanted: Floats) -> Floats:
    """Bound on the distance of the true losses of ``rows`` from ``wanted``, in the mathematics' own numbers."""
    if spec.name != "log_loss" or spec.submission != "rows" or spec.class_weight is not None or rows.size > 100_000:
        # The loss formulas are a few float operations each; two more units in the last place cover them.
        return np.abs(loss.table(rows) - wanted) + 2 * ulps(wanted, spec.float_dtype)
    from flint import arb

    clip = np.dtype(spec.float_dtype).type(spec.epsilon)
    inside = np.clip(rows, clip, 1 - clip) if spec.epsilon else rows
    found = [
        float((-arb(float(p)).log() - arb(float(w))).abs_upper())
        for p, w in zip(inside.ravel(), wanted.ravel(), strict=True)
    ]
    return np.nextafter(np.array(found), math.inf).reshape(wanted.shape)
