"""Numbers of several sets in the coarsest precision among them: a copy as float32 or with 3 decimals is a copy.

What a set stores is found from its values: a column is of lower precision than another where all of its values lie on a
grid (float16, bfloat16, float32, so many decimals or significant digits) and those of the other do not.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]
    Bools = NDArray[np.bool_]

ROUNDINGS = ("numpy", "exact", "away", "truncate", "floor", "single", "whole")
"""How numbers may have been rounded, in this order: as NumPy does; as ``%.3f`` does; half away from zero; toward zero;
down; as NumPy does, after a conversion to float32; and toward zero on the grid of whole numbers, as
NumPy does on others."""
_MISSING = np.iinfo(np.int64).min
_MAX_PROBE = 64  # values that rule out nearly every grid before all are read
_MAX_SAMPLE = 5000
_MAX_SCREENED = 8
_DOUBLE, _SINGLE = 2.0**-52, 2.0**-23  # spacing of floats
_MAX_COINCIDENCE = 1e-6  # chance at which all values of a column lie on a grid that another column's do not lie on
_MARGIN = 64  # a decimal grid that is not much wider than the spacing of floats tells nothing
_STEPS_OF_TIME = (86_400e6, 3_600e6, 60e6, 1e6, 1e3)  # days to milliseconds, in microseconds


class Grid(Protocol):
    """The numbers that a column of lower precision can hold, in ascending order."""

    def contains(self, values: Floats, spacing: float) -> Bools:
        """Return which values lie on the grid, if floats have this relative ``spacing``."""

    def encode(self, values: Floats, rounding: str) -> Codes:
        """Return the number of the grid point that each value is rounded to, increasing with the value."""


@dataclass(frozen=True, slots=True)
class Step:
    """Multiples of ``numerator / denominator``, such as 1 / 1000; of time, to which dates are rounded down."""

    numerator: float
    denominator: float
    is_time: bool = False

    def contains(self, values: Floats, spacing: float) -> Bools:
        """Return which values lie on the grid; see `Grid`."""
        on_grid = np.rint(values * self.denominator / self.numerator) * self.numerator / self.denominator
        distance, step = np.abs(values - on_grid), self.numerator / self.denominator
        tolerances = [2 * each * np.abs(values) for each in {_DOUBLE, spacing}]
        return np.any([(distance <= each) & (step > _MARGIN * each) for each in tolerances], axis=0)

    def encode(self, values: Floats, rounding: str) -> Codes:
        """Return the number of the grid point that ``rounding`` leads to; see `Grid`."""
        if self.is_time:
            return _to_integers(np.floor(values / self.numerator))
        if rounding == "whole":
            rounding = "truncate" if self.numerator == self.denominator else "numpy"
        if rounding == "exact":
            scaled = values.astype(np.longdouble) * self.denominator / self.numerator
            return _to_integers(np.rint(scaled).astype(np.float64))
        floats = values.astype(np.float32).astype(np.float64) if rounding == "single" else values
        scaled = floats * self.denominator / self.numerator
        if rounding in ("numpy", "single"):
            return _to_integers(np.rint(scaled))
        scaled = scaled + np.sign(scaled) * np.abs(scaled) * 2.0**-50  # 0.29 * 100 is below 29
        if rounding == "away":
            return _to_integers(np.trunc(scaled + np.copysign(0.5, scaled)))
        return _to_integers(
            np.trunc(scaled) if rounding == "truncate" else np.floor(scaled + np.abs(scaled) * 2.0**-49)
        )


@dataclass(frozen=True, slots=True)
class Digits:
    """Numbers of so many significant digits."""

    digits: int

    def contains(self, values: Floats, spacing: float) -> Bools:
        """Return which values lie on the grid; see `Grid`."""
        mantissa, exponent = self._split(values)
        with np.errstate(over="ignore", invalid="ignore"):
            on_grid = np.where(exponent < 0, mantissa / 10.0**-exponent, mantissa * 10.0**exponent)
        is_coarse = 10.0 ** (1 - self.digits) > _MARGIN * spacing
        return is_coarse & (np.abs(values - on_grid) <= 2 * max(spacing, 2.0**-50) * np.abs(values))

    def encode(self, values: Floats, rounding: str) -> Codes:
        """Return the number of the nearest grid point; see `Grid`."""
        mantissa, exponent = self._split(values)
        # From 1.00e-300 on, each power of ten has 9 * 10^(digits - 1) numbers.
        size = 9 * 10 ** (self.digits - 1)
        rank = (exponent + 400) * size + np.abs(mantissa) - 10 ** (self.digits - 1) + 1
        return np.where(mantissa == 0, 0, np.sign(mantissa) * rank).astype(np.int64)

    def _split(self, values: Floats) -> tuple[Floats, Floats]:
        """Return whole mantissas of so many digits, and powers of ten."""
        size = np.clip(np.abs(values), 1e-300, None)
        exponent = np.floor(np.log10(size)) - (self.digits - 1)
        with np.errstate(over="ignore", invalid="ignore"):
            mantissa = np.rint(np.where(exponent < 0, values * 10.0**-exponent, values / 10.0**exponent))
        carried = np.abs(mantissa) >= 10.0**self.digits
        mantissa = np.where(carried, np.rint(mantissa / 10), mantissa)
        return np.where(values == 0, 0.0, mantissa), exponent + carried


@dataclass(frozen=True, slots=True)
class Binary:
    """Numbers of a binary type: float16, bfloat16 or float32, or the shortest decimals that stand for one."""

    name: str

    def contains(self, values: Floats, spacing: float) -> Bools:
        """Return which values lie on the grid; see `Grid`."""
        exact = self._round(values).astype(np.float64) == values
        if self.name == "bfloat16" or exact.all():
            return exact
        printed = exact.copy()
        printed[~exact] = self._round(values[~exact]).astype(str).astype(np.float64) == values[~exact]
        return printed

    def encode(self, values: Floats, rounding: str) -> Codes:
        """Return the number of the nearest grid point; see `Grid`."""
        rounded = self._round(values)
        signed = rounded.view(np.int16 if rounded.dtype == np.float16 else np.int32).astype(np.int64)
        codes = np.where(signed < 0, -(signed & (0x7FFF if rounded.dtype == np.float16 else 0x7FFFFFFF)), signed)
        return codes >> 16 if self.name == "bfloat16" else codes

    def _round(self, values: Floats) -> Any:
        with np.errstate(over="ignore"):
            if self.name == "float16":
                return values.astype(np.float16)
            rounded = values.astype(np.float32)
        if self.name == "float32":
            return rounded
        bits = rounded.view(np.uint32).astype(np.uint64)
        half_to_even = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16
        return half_to_even.astype(np.uint32).view(np.float32)


_BINARY = (Binary("bfloat16"), Binary("float16"), Binary("float32"))
_DECIMALS = (*(Step(10.0**power, 1.0) for power in range(6, 0, -1)), *(Step(1.0, 10.0**power) for power in range(13)))
_DIGITS = tuple(Digits(digits) for digits in range(1, 13))
_FAMILIES: tuple[tuple[Grid, ...], ...] = (*((grid,) for grid in _BINARY), _DECIMALS, _DIGITS)
_TIME: tuple[Grid, ...] = tuple(Step(step, 1.0, is_time=True) for step in _STEPS_OF_TIME)


def _screen(family: tuple[Grid, ...], values: Floats, spacing: float) -> Iterator[Grid]:
    """Yield those grids of a family that a few values do not refute; most are refuted, and all are asked at once."""
    kind: Any = type(family[0])
    together = family[0]
    if kind is not Binary:
        names = ("digits",) if kind is Digits else ("numerator", "denominator")
        together = kind(*(np.array([[getattr(grid, name)] for grid in family]) for name in names))
    with np.errstate(over="ignore", invalid="ignore"):  # of grids that would not have been asked
        possible = np.atleast_2d(together.contains(values, spacing))
    return itertools.compress(family, np.all(possible, axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class NumberColumn:
    """A column of one set, and the grids on which all of its values lie, the coarsest of each family.

    Args:
        values: numbers ``[n]``, NaN where missing, microseconds of dates; ``[n, d]`` of columns that are stored alike.
        sample: at most 5,000 of the finite values, from which the precision is found.
        grids: those that contain the whole sample.
        spacing: relative distance of the floats that it was stored with.
    """

    values: NDArray[Any]
    sample: Floats
    grids: tuple[Grid, ...]
    spacing: float

    @classmethod
    def measure(cls, values: NDArray[Any], *, is_date: bool = False) -> NumberColumn:
        """Find out in which precision a column is stored, from at most 5,000 of its values."""
        places = np.linspace(0, values.size - 1, min(_MAX_SAMPLE, values.size)).astype(np.int64)
        sample = values.reshape(-1)[places].astype(np.float64)
        sample = sample[np.isfinite(sample)]
        if not len(sample):
            return cls(values, sample, (), _DOUBLE)
        # A decimal that was stored as float32 differs from the nearest float64.
        with np.errstate(over="ignore"):  # beyond float32 is infinity, which equals none of them
            as_single = sample.astype(np.float32).astype(np.float64)
        spacing = _SINGLE if (as_single == sample).all() else _DOUBLE
        probe = sample[:: len(sample) // _MAX_PROBE + 1]
        families = (_TIME,) if is_date else _FAMILIES
        coarsest = (
            next(
                (
                    g
                    for g in _screen(family, probe[:_MAX_SCREENED], spacing)
                    if g.contains(probe, spacing).all() and g.contains(sample, spacing).all()
                ),
                None,
            )
            for family in families
        )
        return cls(values, sample, tuple(grid for grid in coarsest if grid is not None), spacing)

    def share_on(self, grid: Grid) -> float:
        """Return the share of the values that lie on a grid."""
        return float(grid.contains(self.sample, self.spacing).mean()) if len(self.sample) else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class CommonColumn:
    """One column of two sets, in the coarser precision of the two.

    Args:
        grid: on which both are compared; None for every bit of float64.
        is_finer: for each of the two, whether it has values off the grid, which must be rounded to it.
    """

    grid: Grid | None
    is_finer: tuple[bool, bool]

    @property
    def rounds(self) -> bool:
        """Whether numbers may have been rounded to the grid in several ways."""
        return isinstance(self.grid, Step) and not self.grid.is_time

    @classmethod
    def of(cls, one: NumberColumn, other: NumberColumn) -> CommonColumn:
        """Find the coarsest grid on which the one lies and the other does not, but for a coincidence."""
        shares = {
            grid: (one.share_on(grid), other.share_on(grid)) for grid in dict.fromkeys((*one.grids, *other.grids))
        }
        coarse = [
            grid
            for grid, (first, second) in shares.items()
            if (first == 1 and second ** len(one.sample) < _MAX_COINCIDENCE)
            or (second == 1 and first ** len(other.sample) < _MAX_COINCIDENCE)
        ]
        if coarse:
            sample = np.concatenate([one.sample, other.sample])
            grid = min(coarse, key=lambda each: len(np.unique(each.encode(sample, "numpy"))))
            return cls(grid, (shares[grid][0] < 1, shares[grid][1] < 1))
        if one.spacing == other.spacing:
            return EXACT
        # The same numbers in two types differ in bits that neither has: 0.1 as float32, and as a text of its digits.
        both = [grid for grid, on_grid in shares.items() if min(on_grid) == 1]
        grid = _BINARY[2] if _BINARY[2] in both else both[-1] if both else None
        return cls(grid, (False, False))

    def encode(self, values: NDArray[Any], side: int, rounding: str) -> Codes:
        """Return the values of one of the two sets as whole numbers, equal where they are in this precision."""
        floats = values.astype(np.float64) + 0.0  # -0.0 is 0.0
        missing = ~np.isfinite(floats)
        if self.grid is None:
            codes = floats.view(np.int64)
        else:
            codes = self.grid.encode(np.where(missing, 0.0, floats), rounding if self.is_finer[side] else "numpy")
        return np.where(missing, _MISSING, codes) if missing.any() else codes


EXACT = CommonColumn(None, (False, False))


def _to_integers(values: Floats) -> Codes:
    return np.clip(values, -(2.0**62), 2.0**62).astype(np.int64)
