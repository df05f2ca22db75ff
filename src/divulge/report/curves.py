"""Curves with their bands, checked and thinned to what a chart can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from divulge.errors import InputError
from divulge.validation import check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.types import Floats, Ints

T = TypeVar("T")

CURVE_POINTS = 300
ALL_POINTS = 1500
"""Of all curves of a chart together, so that a page stays small however many there are."""
_LEAST = 25
DIGITS = 8
RATE_DIGITS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """``y`` over ``x``, both ``[n]``, with a confidence band ``low`` to ``high`` where there is one.

    Raises:
        divulge.InputError: NaN or infinity, lengths that differ, a decreasing ``x``, or half a band.

    Examples:
        >>> Curve([0.0, 0.5, 1.0], [0.2, 0.7, 1.0]).x
        array([0. , 0.5, 1. ])
    """

    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None

    def __init__(self, x: object, y: object, low: object = None, high: object = None) -> None:
        along = check_vector(x, "x")
        if (np.diff(along) < 0).any():
            raise InputError(
                f"x: must not decrease along a curve, but does after entry {int(np.argmax(np.diff(along) < 0))}"
            )
        if (low is None) != (high is None):
            raise InputError("low, high: a band needs both of its ends, got one")
        object.__setattr__(self, "x", along)
        object.__setattr__(self, "y", check_vector(y, "y", length=len(along)))
        object.__setattr__(self, "low", None if low is None else check_vector(low, "low", length=len(along)))
        object.__setattr__(self, "high", None if high is None else check_vector(high, "high", length=len(along)))

    def at(self, index: Ints | slice) -> Curve:
        """The points at ``index``."""
        if self.low is None or self.high is None:
            return Curve(self.x[index], self.y[index])
        return Curve(self.x[index], self.y[index], self.low[index], self.high[index])


def rates(curves: Mapping[str, Curve]) -> Mapping[str, Curve]:
    """``curves`` if every rate lies in [0, 1]."""
    for name, curve in some(curves, "curves").items():
        for part in (curve.x, curve.y, curve.low, curve.high):
            if part is not None and (part.min() < 0 or part.max() > 1):
                raise InputError(f"curves[{name!r}]: rates must lie in [0, 1], got {part.min():g} to {part.max():g}")
    return curves


def floor_of(rates: Floats) -> float:
    """Where a logarithmic axis begins: at half of the least positive rate, but not under 1e-6."""
    positive = rates[rates > 0]
    return float(np.clip(positive.min() / 2, 1e-6, 0.1)) if positive.size else 0.1


def points_each(count: int) -> int:
    """How many points each of so many curves may have."""
    return min(CURVE_POINTS, max(_LEAST, ALL_POINTS // count))


def thinned(curve: Curve, floor: float, most: int = CURVE_POINTS) -> Curve:
    """The last point at or before each place of a logarithmic grid, and the last point of all."""
    grid = np.r_[0.0, np.geomspace(floor, 1.0, most - 2)]
    reached = np.searchsorted(curve.x, grid, side="right") - 1
    return curve.at(np.unique(np.r_[np.maximum(reached, 0), len(curve.x) - 1]))


def spaced(count: int, most: int) -> Ints:
    """At most ``most`` of the positions ``0..count-1``, evenly spaced, both ends kept."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).round().astype(np.int64)


def rows_of(curve: Curve, digits: int = DIGITS) -> list[dict[str, Any]]:
    """The points of a curve as one dict each."""
    columns = {"x": curve.x, "y": curve.y, "low": curve.low, "high": curve.high}
    present = {name: column for name, column in columns.items() if column is not None}
    return [{name: short(column[i], digits) for name, column in present.items()} for i in range(len(curve.x))]


def short(value: float, digits: int = DIGITS) -> float:
    """Eight digits are more than a chart shows, and half the bytes."""
    return float(f"{value:.{digits}g}")


def some(groups: Mapping[str, T], name: str) -> Mapping[str, T]:
    """``groups`` if there is any."""
    if not groups:
        raise InputError(f"{name}: at least 1 entry is needed, got 0")
    return groups
