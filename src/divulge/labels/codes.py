"""Integer codes: which weight each row gets in which query, and how the sums are read back.

A code is a list of *blocks*. A block of Q queries numbers them 0..Q-1 and gives each number S, read as a set
of address bits (s = |S|), a set of integers ``a_1..a_m`` whose sums Σ a_j·digit_j are all different, with
``a_j ≤ B·2^s``. Row (S, j) gets in query x the weight ``±a_j/2^s``, spread as evenly as integers allow over the
``2^s`` cells ``x ∧ S`` with sign ``(-1)^parity(x ∧ S)``; so no weight exceeds B, while the signed sum over the
queries x ⊆ S recovers ``Σ a_j·digit_j``: every other row's share cancels unless its own set contains S. All
subsets of S have smaller numbers, so Q need not be a power of two. Decoding runs one subset-sum transform a
level, from the largest sets down, and subtracts what is known. Q = 1 is the plain positional code.

This generalises Lindström's detecting matrices (1965), which are the case of weights 0 and 1. The sets are
powers of K, or, for K = 2 and ``dense``, Conway and Guy's (see `divulge.labels.distinct`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks
from divulge.labels.distinct import Digits, digits, most_digits

if TYPE_CHECKING:
    from divulge.types import Array, Bools, Ints

MOST_ADDRESS_BITS = 11
_SAFE_BITS = 61


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A block of queries: the sets per level, the spread weights, and where each query finds its cell.

    Args:
        count: number of queries.
        levels: one `Digits` for each size s of a subset.
        spread: per level, weights ``[2^s cells, m_s]``.
        subsets: per level, the numbers below ``count`` with s bits.
        cells: per level, for each such subset and each query the index of its cell, ``[subsets, count]``.
    """

    count: int
    levels: tuple[Digits, ...]
    spread: tuple[Ints, ...]
    subsets: tuple[Ints, ...]
    cells: tuple[Ints, ...]

    @property
    def capacity(self) -> int:
        """Rows whose labels the block reads."""
        return sum(len(s) * len(level.weights) for s, level in zip(self.subsets, self.levels, strict=True))

    def weights(self, query: int, columns: int) -> Ints:
        """Weight of the first ``columns`` rows of the block in one of its queries."""
        parts = [spread[cells[:, query]].ravel() for spread, cells in zip(self.spread, self.cells, strict=True)]
        return np.concatenate(parts)[:columns]

    def totals(self, values: tuple[Array, ...], columns: int) -> Array:
        """Sum over the first ``columns`` rows of a function of the weight, in each query; ``values`` as ``spread``."""
        total = np.zeros(self.count, dtype=values[0].dtype)
        for value, cells in zip(values, self.cells, strict=True):
            whole, part = divmod(min(columns, len(cells) * value.shape[1]), value.shape[1])
            total += value.sum(axis=1)[cells[:whole]].sum(axis=0)
            if part:
                total += value[cells[whole], :part].sum(axis=1)
            columns -= whole * value.shape[1] + part
        return total

    def decode(self, sums: Ints) -> tuple[Ints, Bools]:
        """Digits ``[b, capacity]`` from the integer sums ``[b, count]`` of b such blocks, and which blocks were sound.

        A block is unsound when its sums are no sums that any labels can make.
        """
        rest = sums.copy()
        sound = np.ones(len(sums), dtype=bool)
        found: list[Ints] = []
        for s in range(len(self.levels) - 1, -1, -1):
            level, valid = self.levels[s].read(subset_sums(rest)[:, self.subsets[s]])
            sound &= valid.all(axis=1)
            found.append(level.reshape(len(sums), -1))
            if s:
                self._subtract(rest, level, s)
        return found[0] if len(found) == 1 else np.concatenate(found[::-1], axis=1), sound

    def _subtract(self, rest: Ints, level: Ints, s: int) -> None:
        by_cell = level @ self.spread[s].T
        for index, cells in enumerate(self.cells[s]):
            rest -= by_cell[:, index, cells]


def subset_sums(values: Ints) -> Ints:
    """For each number S the sum over its subsets x of ``(-1)^|x| values[x]``, along the last axis.

    Examples:
        >>> subset_sums(np.array([[5, 2, 1]]))
        array([[5, 3, 4]])
    """
    count = values.shape[-1]
    if count == 1:
        return values
    bits = (count - 1).bit_length()
    found = np.zeros((len(values), 2**bits), dtype=np.int64)
    found[:, :count] = values * (1 - 2 * (np.bitwise_count(np.arange(count)).astype(np.int64) & 1))
    for bit in range(bits):
        pairs = found.reshape(len(values), -1, 2, 2**bit)
        pairs[:, :, 1] += pairs[:, :, 0]
    return found[:, :count]


def shape(count: int, base: int, bound: int, dense: bool) -> Shape:
    """The block of ``count`` queries with weights up to ``bound``."""
    queries = np.arange(count)
    sizes = np.bitwise_count(queries)
    most = int(sizes.max())
    levels = tuple(digits(base, bound << s, dense) for s in range(most + 1))
    subsets = tuple(np.flatnonzero(sizes == s) for s in range(most + 1))
    every = _cells((count - 1).bit_length())
    cells = tuple(every[members, :count] for members in subsets)
    return Shape(count, levels, tuple(_spread(level, s) for s, level in enumerate(levels)), subsets, cells)


def counting_shape(count: int) -> Shape:
    """Lindström's detecting matrix: weights 0 and -1 only, and nothing at all in query 0 (which need not be asked).

    Examples:
        >>> counting_shape(512).capacity
        2304
    """
    found = shape(count, 2, 1, False)
    levels = tuple(Digits(2, tuple(2**j for j in range(s)), s) for s in range(len(found.levels)))
    spread = []
    for s, level in enumerate(levels):
        odd = np.bitwise_count(np.arange(2**s)) & 1 == 1
        rank = np.cumsum(odd)
        weights = np.asarray(level.weights, dtype=np.int64)
        spread.append(-(odd[:, None] & (rank[:, None] <= weights[None, :])).astype(np.int64))
    return Shape(count, levels, tuple(spread), found.subsets, found.cells)


def _cells(bits: int) -> Ints:
    """For every set S and query x below ``2^bits``: the bits of x that are in S, pushed together."""
    found: Any = np.zeros((1, 1), dtype=np.int16)
    for bit in range(bits):
        size = np.bitwise_count(np.arange(2**bit)).astype(np.int16)
        both = found + (np.int16(1) << size)[:, None]
        found = np.block([[found, found], [found, both]])
    return found


def _spread(level: Digits, s: int) -> Ints:
    cells = np.arange(2**s)
    sign = 1 - 2 * (np.bitwise_count(cells).astype(np.int64) & 1)
    weights = np.asarray(level.weights, dtype=np.int64)
    return sign[:, None] * (weights[None, :] // 2**s + (cells[:, None] < weights[None, :] % 2**s))


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
        if any(level.low < len(level.weights) for found in self.shapes for level in found.levels):
            return "dense"
        return "weighing" if any(found.count > 1 for found in self.shapes) else "positional"

    def locate(self, query: int) -> tuple[int, int, int]:
        """Of a query: the index of its shape, its number within the block, and the block's first row."""
        row = 0
        for index, (found, repeats) in enumerate(zip(self.shapes, self.repeats, strict=True)):
            if query < repeats * found.count:
                return index, query % found.count, row + query // found.count * found.capacity
            query -= repeats * found.count
            row += repeats * found.capacity
        raise checks.InputError(f"query: the code has {self.count} queries, there is no number {query + self.count}")

    def alphabet(self) -> Ints:
        """Every weight that occurs, with 0, in ascending order."""
        parts = [spread.ravel() for found in self.shapes for spread in found.spread]
        return np.unique(np.concatenate([*parts, np.zeros(1, dtype=np.int64)]))

    def totals(self, alphabet: Ints, values: Array) -> Array:
        """Sum over all n rows of a function of the weight, in each query ``[count]``; ``values`` over `alphabet`."""
        idle = values[np.searchsorted(alphabet, 0)]
        parts = []
        row = 0
        for found, repeats in zip(self.shapes, self.repeats, strict=True):
            spread = tuple(values[np.searchsorted(alphabet, level)] for level in found.spread)
            row += repeats * found.capacity
            # The last block may reach beyond the last row.
            columns = found.capacity - max(row - self.n, 0)
            full = repeats - (columns < found.capacity)
            if full:
                whole = found.totals(spread, found.capacity) + (self.n - found.capacity) * idle
                parts.append(np.tile(whole, full))
            if full < repeats:
                parts.append(found.totals(spread, columns) + (self.n - columns) * idle)
        return np.concatenate(parts)

    def weights(self, query: int) -> tuple[int, Ints]:
        """The first row that takes part in a query, and the weights from there on (0 elsewhere)."""
        index, within, first = self.locate(query)
        found = self.shapes[index]
        return first, found.weights(within, min(found.capacity, self.n - first))

    def decode(self, sums: Ints) -> tuple[Ints, Bools]:
        """Digits ``[n]`` from the integer sum of each query, and bool ``[n]``: the row's block was sound."""
        labels, sound = [], []
        start = 0
        for found, repeats in zip(self.shapes, self.repeats, strict=True):
            stop = start + (repeats * found.count)
            digits_, good = found.decode(sums[start:stop].reshape(repeats, -1))
            labels.append(digits_.ravel())
            sound.append(np.repeat(good, found.capacity))
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
        for found, repeats in zip(self.shapes, self.repeats, strict=True):
            stop = start + (repeats * found.count)
            flags = query_flags[start:stop].reshape(repeats, -1).any(axis=1)
            parts.append(np.repeat(flags, found.capacity))
            start = stop
        return np.concatenate(parts)[: self.n]


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
    """The code for n rows with digits below ``base``, weights up to ``bound`` and at most ``2^most`` queries a block.

    Examples:
        >>> code = build(2201, 2, 81, dense=False, most=11)
        >>> code.count
        207
    """
    if bound < 1:
        raise checks.InputError(f"bound: at least 1 distinguishable step is needed, got {bound}")
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
