"""Integer codes: which weight each row gets in which query, and how the sums are read back.

A code is a list of *blocks* (`divulge.labels.blocks`), equal ones first and a smaller one last, that read the
rows one after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.labels.blocks import shape
from divulge.labels.distinct import most_digits

if TYPE_CHECKING:
    from divulge.labels.blocks import Shape
    from divulge.types import Array, Bools, Ints

MOST_ADDRESS_BITS = 11
_SAFE_BITS = 61


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """Weights of n rows over all queries.

    Args:
        n: rows.
        base: number of values of a digit.
        bound: largest weight B.
        shapes: the block shapes in use, largest first.
        repeats: how many blocks of each shape.
    """

    n: int
    base: int
    bound: int
    shapes: tuple[Shape, ...]
    repeats: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of queries."""
        return sum(r * s.count for s, r in zip(self.shapes, self.repeats, strict=True))

    @property
    def kind(self) -> str:
        """What `divulge.labels.design` calls such a code."""
        if any(level.low < len(level.weights) for block in self.shapes for level in block.levels):
            return "dense"
        return "weighing" if any(block.count > 1 for block in self.shapes) else "positional"

    def locate(self, query: int) -> tuple[int, int, int]:
        """Of a query: the index of its shape, its number within the block, and the block's first row."""
        row = 0
        for index, (block, repeats) in enumerate(zip(self.shapes, self.repeats, strict=True)):
            if query < repeats * block.count:
                return index, query % block.count, row + query // block.count * block.capacity
            query -= repeats * block.count
            row += repeats * block.capacity
        raise InputError(f"query: the code has {self.count} queries, there is no number {query + self.count}")

    def alphabet(self) -> Ints:
        """Every weight that occurs, with 0, in ascending order."""
        parts = [spread.ravel() for block in self.shapes for spread in block.spread]
        return np.unique(np.concatenate([*parts, np.zeros(1, dtype=np.int64)]))

    def totals(self, alphabet: Ints, values: Array) -> Array:
        """Sum over all n rows of a function of the weight, in each query ``[count]``; ``values`` over `alphabet`."""
        idle = values[np.searchsorted(alphabet, 0)]
        parts = []
        row = 0
        for block, repeats in zip(self.shapes, self.repeats, strict=True):
            spread = tuple(values[np.searchsorted(alphabet, level)] for level in block.spread)
            row += repeats * block.capacity
            # The last block may reach beyond the last row.
            columns = block.capacity - max(row - self.n, 0)
            full = repeats - (columns < block.capacity)
            if full:
                whole = block.totals(spread, block.capacity) + (self.n - block.capacity) * idle
                parts.append(np.tile(whole, full))
            if full < repeats:
                parts.append(block.totals(spread, columns) + (self.n - columns) * idle)
        return np.concatenate(parts)

    def weights(self, query: int) -> tuple[int, Ints]:
        """The first row that takes part in a query, and the weights from there on (0 elsewhere)."""
        index, within, first = self.locate(query)
        block = self.shapes[index]
        return first, block.weights(within, min(block.capacity, self.n - first))

    def decode(self, sums: Ints) -> tuple[Ints, Bools]:
        """Digits ``[n]`` from the integer sum of each query, and bool ``[n]``: the row's block was sound."""
        labels, sound = [], []
        start = 0
        for block, repeats in zip(self.shapes, self.repeats, strict=True):
            stop = start + (repeats * block.count)
            digits_, good = block.decode(sums[start:stop].reshape(repeats, -1))
            labels.append(digits_.ravel())
            sound.append(np.repeat(good, block.capacity))
            start = stop
        flat, whole = np.concatenate(labels), np.concatenate(sound)
        # Rows beyond n have weight nothing real; digits there mean that the last block was misread.
        if len(flat) > self.n and flat[self.n :].any():
            whole = whole & (np.arange(len(whole)) < len(whole) - self.shapes[-1].capacity)
        return flat[: self.n], whole[: self.n]

    def rows_of(self, query_flags: Bools) -> Bools:
        """Rows whose block has at least one flagged query."""
        parts = []
        start = 0
        for block, repeats in zip(self.shapes, self.repeats, strict=True):
            stop = start + (repeats * block.count)
            flags = query_flags[start:stop].reshape(repeats, -1).any(axis=1)
            parts.append(np.repeat(flags, block.capacity))
            start = stop
        return np.concatenate(parts)[: self.n]

    def queries_of(self, row_flags: Bools) -> Bools:
        """Queries of the blocks that hold at least one flagged row ``[count]``."""
        parts = []
        start = 0
        for block, repeats in zip(self.shapes, self.repeats, strict=True):
            stop = start + repeats * block.capacity
            flags = np.zeros(stop - start, dtype=bool)
            flags[: max(self.n - start, 0)] = row_flags[start:stop]
            parts.append(np.repeat(flags.reshape(repeats, -1).any(axis=1), block.count))
            start = stop
        return np.concatenate(parts)


def capacity(count: int, base: int, bound: int, dense: bool) -> int:
    """Rows that a block of ``count`` queries reads.

    Examples:
        >>> capacity(128, 2, 81, dense=False), capacity(128, 2, 81, dense=True)
        (1344, 1471)
    """
    return _reads(count, _sizes(base, bound, dense, count.bit_length()))


def _sizes(base: int, bound: int, dense: bool, levels: int) -> list[int]:
    return [most_digits(base, bound << s, dense) for s in range(levels + 1)]


def _reads(count: int, sizes: list[int]) -> int:
    # Numbers below `count` with s bits: split off the highest bit of `count`, then of the rest, …
    total = 0
    above = 0
    for bit in range(count.bit_length() - 1, -1, -1):
        if count >> bit & 1:
            total += sum(math.comb(bit, s) * sizes[s + above] for s in range(bit + 1))
            above += 1
    return total


def fewest(n: int, base: int, bound: int, dense: bool, most: int) -> tuple[int, int, int]:
    """Whole blocks, their size, and the size of a last smaller block, that read n rows with the fewest queries.

    Examples:
        >>> fewest(2201, 2, 81, False, 11)
        (0, 2048, 207)
    """
    top = 1 << max(k for k in range(most + 1) if k == 0 or _fits(k, base, bound))
    sizes = _sizes(base, bound, dense, top.bit_length())
    each = _reads(top, sizes)
    whole, rest = divmod(n, each)
    low, high = 0, top
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _reads(middle, sizes) >= rest else (middle, high)
    if rest == 0:
        high = 0
    return (whole + 1, top, 0) if high == top else (whole, top, high)


def _fits(k: int, base: int, bound: int) -> bool:
    # Every intermediate value of the decoder must stay inside int64.
    return bound.bit_length() + 2 * k + (base - 1).bit_length() + 2 <= _SAFE_BITS


def queries(n: int, base: int, bound: int, dense: bool, most: int) -> int:
    """Fewest queries that read n rows."""
    whole, size, last = fewest(n, base, bound, dense, most)
    return whole * size + last


def build(n: int, base: int, bound: int, *, dense: bool, most: int) -> Code:
    """The code for n rows with digits below ``base``, weights up to ``bound`` and at most ``2^most`` queries per block.

    Examples:
        >>> code = build(2201, 2, 81, dense=False, most=11)
        >>> code.count
        207
    """
    if bound < 1:
        raise InputError(f"bound: at least 1 distinguishable step is needed, got {bound}")
    whole, size, last = fewest(n, base, bound, dense, most)
    sizes = [(size, whole), (last, 1)]
    used = [(count, repeats) for count, repeats in sizes if count and repeats]
    return Code(
        n,
        base,
        bound,
        tuple(shape(count, base, bound, dense) for count, _ in used),
        tuple(repeats for _, repeats in used),
    )


def relaxed(n: int, base: int, bound: int, *, dense: bool, most: int) -> int:
    """Smallest weight bound that needs no more queries than ``bound``: the same plan with the widest margin.

    Examples:
        >>> relaxed(60, 2, 100, dense=False, most=0), queries(60, 2, 64, False, 0) == queries(60, 2, 100, False, 0)
        (64, True)
    """
    target = queries(n, base, bound, dense, most)
    low, high = 0, bound
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if queries(n, base, middle, dense, most) <= target else (middle, high)
    return high
