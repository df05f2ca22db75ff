"""What a per-row loss is to an attack: how far apart it can drive two labels, and the predictions that do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from divulge.types import Array, Floats, Ints

    Predict = Callable[[Floats, Ints], Array]
    Table = Callable[[Any], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """What an oracle adds up, row by row.

    Args:
        span: largest loss difference between the first and the last class of one row; infinity for losses
            on logits or unbounded predictions, where only the mantissa limits.
        predict: gaps ``[n]`` and digits ``[K]`` → predictions whose loss of class c is base + gap·digits[c].
        table: predictions → losses ``[n, K]``, as the oracle's floats have them.
        shape: shape of one row of the predictions: ``(K,)`` or ``()``.
        rests: the base loss of a row does not grow with its gap (False: it grows like the gap's square).
        limit: largest gap for given digits ``[K]``, where that is not simply the span over the largest digit.
        term: size of the terms that cancel where the loss is near zero: its float error is relative to them.
        opposite: largest difference the other way round, with the first class the costlier one; None: the span.
    """

    span: float
    predict: Predict
    table: Table
    shape: tuple[int, ...]
    rests: bool = True
    limit: Callable[[Ints], float] | None = None
    term: float = 0.0
    opposite: float | None = None

    @property
    def largest(self) -> float:
        """Largest loss difference of two labels of one row, whichever of them is the costlier."""
        return self.span if self.opposite is None else max(self.span, self.opposite)

    @property
    def two_sided(self) -> float:
        """Largest gap that predictions reach in both directions."""
        return self.span if self.opposite is None else min(self.span, self.opposite)

    def reach(self, digits: Ints) -> float:
        """Largest gap of one digit step a row can show when its classes carry ``digits`` (some may share one)."""
        return self.span / int(digits.max()) if self.limit is None else self.limit(digits)


def squared(alpha: float, span: float) -> Loss:
    """``alpha`` times the squared difference of a real prediction and the label."""

    def table(predictions: Any) -> Floats:
        p = np.asarray(predictions, dtype=float)
        return alpha * np.stack([p**2, (p - 1) ** 2], axis=1)

    return Loss(span, lambda gaps, digits: (1 - gaps * digits[1] / alpha) / 2, table, (), rests=False)


def bisect(function: Callable[[Any], Any], wanted: Floats, low: float, high: float) -> Floats:
    """Arguments in ``[low, high]`` at which a monotone ``function`` takes the ``wanted`` values.

    Examples:
        >>> bisect(lambda t: t * t, np.array([4.0]), 0.0, 10.0).round(9)
        array([2.])
    """
    wanted = np.asarray(wanted, dtype=float)
    left, right = np.full(wanted.shape, low), np.full(wanted.shape, high)
    rising = bool(function(np.array([high]))[0] > function(np.array([low]))[0])
    for _ in range(80):
        middle = (left + right) / 2
        below = (function(middle) < wanted) == rising
        left, right = np.where(below, middle, left), np.where(below, right, middle)
    return (left + right) / 2
