"""Masked moments over reference models: the one sum that every reference-based attack is built on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.types import Bools, Floats

# Values of one block of columns: 2 MiB of float64 stay in the cache, and each row of a
# memory-mapped matrix is still read in runs of several KiB.
_BLOCK = 1 << 18
# A sum of squared deviations below this share of the squares it was computed from is rounding, not spread.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMoments:
    """Count, mean and sum of squared deviations of each record's selected values.

    Args:
        count: number of values, ``[n]``.
        mean: their mean, ``[n]``; meaningless where ``count`` is 0.
        squares: ``Σ (value - mean)²``, ``[n]``; exactly 0 where the values do not differ.
    """

    count: Floats
    mean: Floats
    squares: Floats

    @property
    def total(self) -> float:
        """Number of values over all records."""
        return float(self.count.sum())

    @property
    def grand_mean(self) -> float:
        """Mean of all values of all records; exact where they are all the same."""
        has_values = self.count > 0
        origin = float(self.mean[has_values][0])
        return origin + float(self.count[has_values] @ (self.mean[has_values] - origin)) / self.total

    @property
    def pooled_variance(self) -> float:
        """Within-record variance, ``Σ squares / Σ (count - 1)``: unbiased for a spread all records share.

        1 where it cannot be estimated (no record has two values) or where nothing varies: scores then keep
        the unit of the signal and stay finite.
        """
        freedom = self.total - np.count_nonzero(self.count)
        return _positive_or_one(float(self.squares.sum()) / freedom if freedom else 0.0)

    @property
    def total_variance(self) -> float:
        """Variance of all values of all records about the grand mean (within plus between records); 1 if zero."""
        centred = np.where(self.count > 0, self.mean - self.grand_mean, 0.0)
        spread = float(self.squares.sum()) + float(self.count @ centred**2)
        return _positive_or_one(spread / (self.total - 1.0) if self.total > 1.0 else 0.0)

    def variance(self) -> Floats:
        """Each record's own variance (``count - 1`` below); the pooled one where it has none, ``[n]``.

        A record has none with fewer than two values, and where its values do not differ (a saturated
        signal): a Gaussian of width 0 would send the smallest difference to infinity.
        """
        variances = self.squares / np.maximum(self.count - 1.0, 1.0)
        return np.where(variances > 0.0, variances, self.pooled_variance)


class LessOne:
    """The moments after one value is taken away from each record: O(n) a time, for any number of times."""

    __slots__ = ("_moments", "_rounding", "_shift", "_shrink")

    def __init__(self, moments: ColumnMoments) -> None:
        count = moments.count
        self._moments = moments
        self._shift = 1.0 / np.maximum(count - 1.0, 1.0)
        # Of two values, one is left, and no spread: taking twice too much leaves exactly 0 below.
        self._shrink = np.where(count > 2.0, count * self._shift, 4.0)
        self._rounding = _ROUNDING * moments.squares

    def __call__(self, values: Floats, is_present: Bools) -> ColumnMoments:
        """Return the moments without ``values``.

        Args:
            values: the value to take away, ``[n]``.
            is_present: True where the value is among the record's; the others keep theirs, ``[n]``.
        """
        all_moments = self._moments
        away = np.subtract(values, all_moments.mean, dtype=np.float64)
        away *= is_present
        mean = away * self._shift
        np.subtract(all_moments.mean, mean, out=mean)
        away *= away
        away *= self._shrink
        np.subtract(all_moments.squares, away, out=away)
        away *= away >= self._rounding
        return ColumnMoments(all_moments.count - is_present, mean, away)


def moments(
    values: Floats, keep: Bools | None = None, *, complement: bool = False, spread: bool = True
) -> ColumnMoments:
    """Moments of each column of ``values`` over the rows that ``keep`` selects.

    One pass over blocks of columns, so that a memory-mapped matrix is never loaded whole. For a spread, values
    are taken relative to the column's first, so that no digits are lost where the mean is large beside it,
    and a constant column has a spread of exactly 0.

    Args:
        values: ``[m, n]``, any float type; sums are in float64.
        keep: bool ``[m, n]``; every row counts when None.
        complement: select where ``keep`` is False instead.
        spread: False where only counts and means are wanted; ``squares`` are 0 then.

    Examples:
        >>> import numpy as np
        >>> moments(np.array([[1.0, 5.0], [3.0, 6.0]]), np.array([[True, False], [True, True]]))
        ColumnMoments(count=array([2., 1.]), mean=array([2., 6.]), squares=array([2., 0.]))
    """
    n = values.shape[1]
    count, mean, squares = np.empty(n), np.empty(n), np.empty(n)
    for block in blocks(values):
        mask = None if keep is None else (~keep[:, block] if complement else keep[:, block])
        if mask is not None and mask.all():  # most often: these models saw no candidate
            mask = None
        if spread:
            count[block], mean[block], squares[block] = _block_moments(values[:, block], mask)
        else:
            count[block], mean[block] = _block_means(values[:, block], mask)
            squares[block] = 0.0
    return ColumnMoments(count, mean, squares)


def blocks(values: Floats) -> Iterator[slice]:
    """Columns of ``values`` that fit into the cache together.

    Examples:
        >>> list(blocks(np.zeros((1 << 17, 3))))
        [slice(0, 2, None), slice(2, 4, None)]
    """
    m, n = values.shape
    width = max(1, _BLOCK // m)
    return (slice(start, start + width) for start in range(0, n, width))


def _block_counts(values: Floats, mask: Bools | None) -> Floats:
    if mask is None:
        return np.full(values.shape[1], float(len(values)))
    # Bytes are added without a wider copy of them.
    count_dtype = np.uint8 if len(mask) < 256 else np.uint32
    return np.add.reduce(mask.view(np.uint8), axis=0, dtype=count_dtype).astype(np.float64)


def _block_means(values: Floats, mask: Bools | None) -> tuple[Floats, Floats]:
    count = _block_counts(values, mask)
    if mask is None:
        return count, np.add.reduce(values, axis=0, dtype=np.float64) / count
    wide = values.astype(np.float64, copy=False)
    return count, np.einsum("ij,ij->j", wide, mask.astype(np.float64)) / np.maximum(count, 1.0)


def _block_moments(values: Floats, mask: Bools | None) -> tuple[Floats, Floats, Floats]:
    # Squares are taken of what lies between a record's signals and the first of them: those of signals far from 0 would
    # cancel in the difference below.
    origin = values[0].astype(np.float64)
    shifted = np.subtract(values, origin, dtype=np.float64)
    count = _block_counts(values, mask)
    if mask is not None:
        shifted *= mask
    sums = np.add.reduce(shifted, axis=0)
    offset = sums / np.maximum(count, 1.0)
    square_sums = np.einsum("ij,ij->j", shifted, shifted)
    squares = square_sums - sums * offset
    squares[(squares < _ROUNDING * square_sums) | (count < 2.0)] = 0.0
    return count, origin + offset, squares


def means(into: ColumnMoments, out: ColumnMoments) -> tuple[Floats, Floats]:
    """Means of both sides; a side without models borrows the other's, moved by the average difference.

    A record without any model is described by the means of all records.
    """
    no_in, no_out = into.count == 0, out.count == 0
    if not (no_in.any() or no_out.any()):
        return into.mean, out.mean
    has_both = ~(no_in | no_out)
    difference = float((into.mean - out.mean)[has_both].mean()) if has_both.any() else into.grand_mean - out.grand_mean
    mean_in = np.where(no_in, out.mean + difference, into.mean)
    mean_out = np.where(no_out, into.mean - difference, out.mean)
    if (has_neither := no_in & no_out).any():
        mean_in[has_neither], mean_out[has_neither] = into.grand_mean, out.grand_mean
    return mean_in, mean_out


def _positive_or_one(variance: float) -> float:
    return variance if variance > 0.0 else 1.0


def equal_counts(out: Bools, member: Bools, rng: np.random.Generator) -> tuple[Bools, Bools]:
    """Draw equally many OUT models for every record: which, ``[m, n]``, and the records that have so many.

    The number is the largest that nine in ten of the members have, and nine in ten of the others. In most designs a
    member of one model has more models left that did not see it, and nothing should be learnt from that.
    """
    count = out.sum(axis=0)
    sides = [count[member], count[~member]]
    number = max(1, min(int(np.quantile(side, 0.1, method="lower")) if len(side) else 1 for side in sides))
    order = np.where(out, rng.random(out.shape), 2.0).argsort(axis=0).argsort(axis=0)
    return out & (order < number), count >= number


def log_mean(values: Floats, left_out: Bools | None) -> Floats:
    """Log of the mean of the exponentials of each column; of all columns for one without a value.

    Blocks of columns stay in the cache, and a memory-mapped matrix is never loaded whole.

    Args:
        values: ``[m, n]``.
        left_out: bool ``[m, n]``, True where a value does not count; every value counts when None.
    """
    top, sums, count = (np.empty(values.shape[1]) for _ in range(3))
    for block in blocks(values):
        is_used = None if left_out is None or not left_out[:, block].any() else ~left_out[:, block]
        top[block], sums[block], count[block] = _sums(values[:, block], is_used)
    has_values = count > 0
    if has_values.all():
        return top + np.log(sums / count)
    highest = top[has_values].max()
    overall = highest + np.log((sums[has_values] * np.exp(top[has_values] - highest)).sum() / count.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(has_values, top + np.log(sums / count), overall)


def _sums(values: Floats, is_used: Bools | None) -> tuple[Floats, Floats, Floats | int]:
    """Return the largest value of each column, the sum of the exponentials below it, and how many values there are.

    Exponentials in single precision are five times faster; the logarithm of their sum errs by 1e-7 at most.
    """
    if is_used is None:
        top, count = values.max(axis=0).astype(np.float64), len(values)
        below = np.subtract(values, top, dtype=np.float64).astype(np.float32)
        return top, np.add.reduce(np.exp(below, out=below), axis=0, dtype=np.float64), count
    count = is_used.sum(axis=0)
    top = np.where(count, np.where(is_used, values, -np.inf).max(axis=0), 0.0)
    below = np.minimum(values - top, 0.0, dtype=np.float64).astype(np.float32)  # what is left out may lie above
    np.exp(below, out=below)
    below *= is_used
    return top, np.add.reduce(below, axis=0, dtype=np.float64), count
