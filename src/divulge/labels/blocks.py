"""Blocks of queries that share their rows: the weights of each row, and how the sums are read back.

A block of Q queries numbers them 0..Q-1 and gives each number S, read as a set
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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.labels.distinct import Digits, digits

if TYPE_CHECKING:
    from divulge.types import Array, Bools, Ints


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
        digits: list[Ints] = []
        for s in range(len(self.levels) - 1, -1, -1):
            level, valid = self.levels[s].read(subset_sums(rest)[:, self.subsets[s]])
            sound &= valid.all(axis=1)
            digits.append(level.reshape(len(sums), -1))
            if s:
                self._subtract(rest, level, s)
        return digits[0] if len(digits) == 1 else np.concatenate(digits[::-1], axis=1), sound

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
    sums = np.zeros((len(values), 2**bits), dtype=np.int64)
    sums[:, :count] = values * (1 - 2 * (np.bitwise_count(np.arange(count)).astype(np.int64) & 1))
    for bit in range(bits):
        pairs = sums.reshape(len(values), -1, 2, 2**bit)
        pairs[:, :, 1] += pairs[:, :, 0]
    return sums[:, :count]


def shape(count: int, base: int, bound: int, dense: bool) -> Shape:
    """The block of ``count`` queries with weights up to ``bound``."""
    queries = np.arange(count)
    sizes = np.bitwise_count(queries)
    most = int(sizes.max())
    levels = tuple(digits(base, bound << s, dense) for s in range(most + 1))
    subsets = tuple(np.flatnonzero(sizes == s) for s in range(most + 1))
    every = _cells((count - 1).bit_length())
    cells = tuple(every[rows, :count] for rows in subsets)
    return Shape(count, levels, tuple(_spread(level, s) for s, level in enumerate(levels)), subsets, cells)


def counting_shape(count: int) -> Shape:
    """Lindström's detecting matrix: weights 0 and -1 only, and nothing at all in query 0 (which need not be asked).

    Examples:
        >>> counting_shape(512).capacity
        2304
    """
    made = shape(count, 2, 1, False)
    levels = tuple(Digits(2, tuple(2**j for j in range(s)), s) for s in range(len(made.levels)))
    spread = []
    for s, level in enumerate(levels):
        odd = np.bitwise_count(np.arange(2**s)) & 1 == 1
        rank = np.cumsum(odd)
        weights = np.asarray(level.weights, dtype=np.int64)
        spread.append(-(odd[:, None] & (rank[:, None] <= weights[None, :])).astype(np.int64))
    return Shape(count, levels, tuple(spread), made.subsets, made.cells)


def _cells(bits: int) -> Ints:
    """For every set S and query x below ``2^bits``: the bits of x that are in S, pushed together."""
    cells: Any = np.zeros((1, 1), dtype=np.int16)
    for bit in range(bits):
        size = np.bitwise_count(np.arange(2**bit)).astype(np.int16)
        both = cells + (np.int16(1) << size)[:, None]
        cells = np.block([[cells, cells], [cells, both]])
    return cells


def _spread(level: Digits, s: int) -> Ints:
    cells = np.arange(2**s)
    sign = 1 - 2 * (np.bitwise_count(cells).astype(np.int64) & 1)
    weights = np.asarray(level.weights, dtype=np.int64)
    return sign[:, None] * (weights[None, :] // 2**s + (cells[:, None] < weights[None, :] % 2**s))
