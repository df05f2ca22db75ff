"""Integer codes: the weight of each row in each query, the predictions behind the weights, and the way back.

A code is a list of *blocks*, equal ones first and a smaller one last, that read the rows one after the other.

A block of Q queries numbers them 0..Q-1 and gives each number S, read as a set of address bits (s = |S|), a set of
integers ``a_1..a_m`` whose sums Σ a_j·digit_j are all different, with ``a_j ≤ B·2^s``. Row (S, j) gets in query x the
weight ``±a_j/2^s``, spread as evenly as integers allow over the ``2^s`` cells ``x ∧ S`` with sign
``(-1)^parity(x ∧ S)``; so no weight exceeds B, while the signed sum over the queries x ⊆ S recovers ``Σ a_j·digit_j``:
every other row's share cancels unless its own set contains S. All subsets of S have smaller numbers, so Q need not be a
power of two. Decoding runs one subset-sum transform a level, from the largest sets down, and subtracts what is known.
Q = 1 is the plain positional code.

This generalises Lindström's detecting matrices (1965), which are the case of weights 0 and 1. The sets are powers of K
or, for two values of a digit and ``dense``, Conway and Guy's sum-distinct sets (1969; proven sum-distinct by Bohman,
1996), whose largest member is about half as large, so that nearly one more fits below the same bound.
"""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.errors import InputError
from divulge.labels import metrics
from divulge.labels.metrics import class_probabilities

if TYPE_CHECKING:
    from divulge.labels.metrics import RowLoss
    from divulge.labels.oracles import OracleSpec
    from divulge.types import Array, Bools, Floats, Ints

MAX_ADDRESS_BITS = 11
_SAFE_BITS = 61

_DETECTING_BLOCK_SIZE = 2048
# A logarithm off by no more than 0.55 units in the last place (those of the C libraries and of NumPy are)
# returns the float t whenever the true value is within 0.45 of it.
_CORRECT_ROUNDING = 0.45
_TABLE_BITS = 18  # subset sums of a Conway-Guy set of this size fit a look-up table of a few MB


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """Weights of n rows over all queries, and the decoder of their sums.

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
    shapes: tuple[Block, ...]
    repeats: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of queries."""
        return sum(r * s.count for s, r in zip(self.shapes, self.repeats, strict=True))

    @property
    def method(self) -> str:
        """Name of the `divulge.labels.design` method that gives such a code."""
        if any(level.low < len(level.weights) for block in self.shapes for level in block.levels):
            return "dense"
        return "weighing" if any(block.count > 1 for block in self.shapes) else "positional"

    def locate(self, query: int) -> tuple[int, int, int]:
        """Return the index of the block shape of a query, its number within the block, and the block's first row."""
        row = 0
        for index, (block, repeats) in enumerate(zip(self.shapes, self.repeats, strict=True)):
            if query < repeats * block.count:
                return index, query % block.count, row + query // block.count * block.capacity
            query -= repeats * block.count
            row += repeats * block.capacity
        raise InputError(f"query: the code has {self.count} queries, there is no number {query + self.count}")

    def alphabet(self) -> Ints:
        """Return every weight that occurs, with 0, in ascending order."""
        parts = [spread.ravel() for block in self.shapes for spread in block.spread]
        return np.unique(np.concatenate([*parts, np.zeros(1, dtype=np.int64)]))

    def totals(self, alphabet: Ints, values: Array) -> Array:
        """Sum a function of the weight, ``values`` over `alphabet`, over all n rows in each query ``[count]``."""
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
                block_totals = block.totals(spread, block.capacity) + (self.n - block.capacity) * idle
                parts.append(np.tile(block_totals, full))
            if full < repeats:
                parts.append(block.totals(spread, columns) + (self.n - columns) * idle)
        return np.concatenate(parts)

    def weights(self, query: int) -> tuple[int, Ints]:
        """Return the first row that takes part in a query, and the weights from there on (0 elsewhere)."""
        index, within, first_row = self.locate(query)
        block = self.shapes[index]
        return first_row, block.weights(within, min(block.capacity, self.n - first_row))

    def decode(self, sums: Ints) -> tuple[Ints, Bools]:
        """Return digits ``[n]`` from the integer sum of each query, and bool ``[n]``: the row's block is sound."""
        labels, sound = [], []
        start = 0
        for block, repeats in zip(self.shapes, self.repeats, strict=True):
            stop = start + (repeats * block.count)
            digits_, block_is_sound = block.decode(sums[start:stop].reshape(repeats, -1))
            labels.append(digits_.ravel())
            sound.append(np.repeat(block_is_sound, block.capacity))
            start = stop
        flat, is_sound = np.concatenate(labels), np.concatenate(sound)
        # Rows beyond n have weight nothing real; digits there mean that the last block was misread.
        if len(flat) > self.n and flat[self.n :].any():
            is_sound = is_sound & (np.arange(len(is_sound)) < len(is_sound) - self.shapes[-1].capacity)
        return flat[: self.n], is_sound[: self.n]

    def rows_in_flagged_blocks(self, query_flags: Bools) -> Bools:
        """Flag the rows whose block has at least one flagged query."""
        parts = []
        start = 0
        for block, repeats in zip(self.shapes, self.repeats, strict=True):
            stop = start + (repeats * block.count)
            flags = query_flags[start:stop].reshape(repeats, -1).any(axis=1)
            parts.append(np.repeat(flags, block.capacity))
            start = stop
        return np.concatenate(parts)[: self.n]

    def queries_in_flagged_blocks(self, row_flags: Bools) -> Bools:
        """Flag the queries of the blocks that hold at least one flagged row ``[count]``."""
        parts = []
        start = 0
        for block, repeats in zip(self.shapes, self.repeats, strict=True):
            stop = start + repeats * block.capacity
            flags = np.zeros(stop - start, dtype=bool)
            flags[: max(self.n - start, 0)] = row_flags[start:stop]
            parts.append(np.repeat(flags.reshape(repeats, -1).any(axis=1), block.count))
            start = stop
        return np.concatenate(parts)


def _rows_read(count: int, sizes: list[int]) -> int:
    # Numbers below `count` with s bits: split off the highest bit of `count`, then of the rest, …
    total = 0
    above = 0
    for bit in range(count.bit_length() - 1, -1, -1):
        if count >> bit & 1:
            total += sum(math.comb(bit, s) * sizes[s + above] for s in range(bit + 1))
            above += 1
    return total


def smallest_blocks(n: int, base: int, bound: int, dense: bool, max_bits: int) -> tuple[int, int, int]:
    """Return how many full blocks, of which size, and the size of a last block read n rows with the fewest queries.

    Examples:
        >>> smallest_blocks(2201, 2, 81, False, 11)
        (0, 2048, 207)
    """
    # Every intermediate value of the decoder must stay inside int64.
    free_bits = _SAFE_BITS - bound.bit_length() - (base - 1).bit_length() - 2
    largest = 1 << max(k for k in range(max_bits + 1) if k == 0 or 2 * k <= free_bits)
    sizes = [max_set_size(base, bound << s, dense) for s in range(largest.bit_length() + 1)]
    rows_per_block = _rows_read(largest, sizes)
    n_full, remaining_rows = divmod(n, rows_per_block)
    low, high = 0, largest
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _rows_read(middle, sizes) >= remaining_rows else (middle, high)
    if remaining_rows == 0:
        high = 0
    return (n_full + 1, largest, 0) if high == largest else (n_full, largest, high)


def count_queries(n: int, base: int, bound: int, dense: bool, max_bits: int) -> int:
    """Return the fewest queries that read n rows."""
    n_full, size, last_size = smallest_blocks(n, base, bound, dense, max_bits)
    return n_full * size + last_size


def build_code(n: int, base: int, bound: int, *, dense: bool, max_bits: int) -> Code:
    """Build the code for n rows with digits below ``base`` and weights up to ``bound``.

    Examples:
        >>> code = build_code(2201, 2, 81, dense=False, max_bits=11)
        >>> code.count
        207
    """
    if bound < 1:
        raise InputError(f"bound: at least 1 distinguishable step is needed, got {bound}")
    n_full, size, last_size = smallest_blocks(n, base, bound, dense, max_bits)
    sizes = [(size, n_full), (last_size, 1)]
    used = [(count, repeats) for count, repeats in sizes if count and repeats]
    return Code(
        n,
        base,
        bound,
        tuple(weighing_block(count, base, bound, dense) for count, _ in used),
        tuple(repeats for _, repeats in used),
    )


def relax_bound(n: int, base: int, bound: int, *, dense: bool, max_bits: int) -> int:
    """Return the smallest weight bound that needs no more queries than ``bound``: the widest margin at the same cost.

    Examples:
        >>> relax_bound(60, 2, 100, dense=False, max_bits=0)
        64
        >>> count_queries(60, 2, 64, False, 0) == count_queries(60, 2, 100, False, 0)
        True
    """
    target = count_queries(n, base, bound, dense, max_bits)
    low, high = 0, bound
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if count_queries(n, base, middle, dense, max_bits) <= target else (middle, high)
    return high


def detecting_code(n: int) -> Code:
    """Build Lindström's detecting matrix for n rows (query 0 of each block is empty and never asked)."""
    # A block of queries 0..Q-1 (number 0 is never asked) reads as many rows as its numbers have bits set.
    reads = np.cumsum(np.bitwise_count(np.arange(_DETECTING_BLOCK_SIZE)))
    n_full, remaining_rows = divmod(n, int(reads[-1]))
    last_size = int(np.searchsorted(reads, remaining_rows)) + 1 if remaining_rows else 0
    sizes = [
        (count, repeats)
        for count, repeats in ((_DETECTING_BLOCK_SIZE, n_full), (last_size, 1))
        if repeats and count > 1
    ]
    shapes = tuple(detecting_block(count) for count, _ in sizes)
    return Code(n, 2, 1, shapes, tuple(repeats for _, repeats in sizes))


def detecting_queries(code: Code) -> Ints:
    """Return the queries of a detecting code that are asked: all but the empty one of each block."""
    parts = []
    start = 0
    for block, repeats in zip(code.shapes, code.repeats, strict=True):
        numbers = start + np.arange(repeats * block.count)
        parts.append(numbers[(numbers - start) % block.count != 0])
        start += repeats * block.count
    return np.concatenate(parts)


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
        """Return the positions of these weights."""
        return np.searchsorted(self.weights, weights)


def make_alphabet(spec: OracleSpec, loss: RowLoss, weights: Ints, unit: float, digits: Ints, grid: float) -> Alphabet:
    """Build predictions whose class losses lie ``unit·weight·digit`` apart.

    With a ``grid`` every loss is moved to a multiple of it (rows then sum to one within a few grid steps, far
    inside what a check of the rows allows), so that sums of them carry no rounding error.
    """
    gaps = unit * weights
    steps = np.multiply.outer(gaps, digits.astype(float))
    if grid and spec.name == "log_loss":
        rows, smallest_losses = _snap_to_grid(loss, gaps, digits, grid)
        losses = smallest_losses[:, None] + steps - steps.min(axis=1, keepdims=True)
    elif grid and spec.name == "mse":
        rows = loss.predict(gaps, digits)
        losses = np.round(loss.table(rows)[:, :1] / grid) * grid + steps
    else:
        rows = loss.predict(gaps, digits)
        table = loss.table(rows)
        reference = np.zeros(len(weights)) if grid else (table - steps)[:, int(np.argmin(digits))]
        losses = reference[:, None] + steps - (steps.min(axis=1, keepdims=True) if grid else 0.0)
    deviation = _loss_deviation(spec, loss, rows, losses, bool(grid))
    base = losses[:, int(np.argmin(digits))]
    return Alphabet(weights, rows, base, losses.min(axis=1), losses.max(axis=1), deviation.max(axis=1))


def ulps(values: Floats, dtype: str) -> Floats:
    """Return the units in the last place of ``values`` in the oracle's floats: the possible error of its logarithm."""
    float_type = np.dtype(dtype).type
    return np.spacing(np.abs(values).astype(float_type)).astype(np.float64)


def _snap_to_grid(loss: RowLoss, gaps: Floats, digits: Ints, grid: float) -> tuple[Array, Floats]:
    """Return rows whose float losses are multiples of the grid, and the smallest loss of each row."""
    steps = np.multiply.outer(gaps, digits.astype(float))
    steps = steps - steps.min(axis=1, keepdims=True)
    start = np.round(-np.log(class_probabilities(gaps, digits).max(axis=1)) / grid)
    best_rows = np.empty_like(steps)
    best_smallest_loss = np.empty_like(gaps)
    best_miss = np.full(len(gaps), math.inf)
    for offset in range(-4, 5):
        smallest_loss = np.maximum(start + offset, 0) * grid
        # Of the rounded exponential and the three floats on either side, the one whose exact loss is nearest is taken.
        losses = smallest_loss[:, None] + steps
        rows = np.minimum(np.exp(-losses), 1.0)
        miss = _loss_error_in_ulps(rows, losses)
        for direction in (0.0, 1.0):
            candidate = rows
            for _ in range(3):
                candidate = np.nextafter(candidate, direction)
                candidate_miss = _loss_error_in_ulps(candidate, losses)
                rows, miss = np.where(candidate_miss < miss, candidate, rows), np.minimum(candidate_miss, miss)
        miss = miss.max(axis=1)
        better = miss < best_miss
        best_miss = np.where(better, miss, best_miss)
        best_smallest_loss = np.where(better, smallest_loss, best_smallest_loss)
        best_rows = np.where(better[:, None], rows, best_rows)
    return best_rows, best_smallest_loss


def _loss_error_in_ulps(probability: Array, losses: Floats) -> Floats:
    exact = -np.log(probability.astype(np.longdouble))
    return (np.abs(exact - losses) / np.maximum(ulps(losses, "float64"), 1e-17)).astype(float)


def _loss_deviation(spec: OracleSpec, loss: RowLoss, rows: Array, losses: Floats, grid: bool) -> Floats:
    """Bound the distance of the oracle's float losses of ``rows`` from ``losses``."""
    table = loss.table(rows)
    ulp = ulps(losses, spec.float_dtype)
    if grid and spec.name == "mse":
        # A square that floats can hold is computed without error; any other within half a unit in the last place.
        return np.where(table == losses, 0.0, np.abs(table - losses) + ulp)
    if grid and spec.name in ("softmax_cross_entropy", "sigmoid_cross_entropy"):
        # Huge logits on a grid are subtracted without error; what is left is at most ln K a row.
        return np.abs(table - losses) + 4 * float(np.finfo(spec.float_dtype).eps)
    if spec.name != "log_loss" or spec.submission != "rows" or spec.class_weight is not None or rows.size > 100_000:
        # The formulas are a few float operations each; three units in the last place of the largest term cover them.
        size = np.maximum(np.maximum(np.abs(losses), np.abs(table)), loss.float_scale)
        return np.abs(table - losses) + 3 * ulps(size, spec.float_dtype)
    # The rows are exact dyadic numbers, so that how far their true losses lie from ``losses`` is bounded rigorously.
    clip = np.dtype(spec.float_dtype).type(spec.epsilon)
    miss = metrics.log_error(np.clip(rows, clip, 1 - clip) if spec.epsilon else rows, losses)
    return np.where(miss <= _CORRECT_ROUNDING * ulp, 0.0, miss + ulp) if grid else miss + ulp


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A block of queries: the sets per level, the spread weights, and the cell of each query.

    Args:
        count: number of queries.
        levels: one `Digits` for each size s of a subset.
        spread: per level, weights ``[2^s cells, m_s]``.
        subsets: per level, the numbers below ``count`` with s bits.
        cells: per level, for each such subset and each query the index of its cell, ``[subsets, count]``.
    """

    count: int
    levels: tuple[SumDistinctSet, ...]
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
        """Sum a function of the weight (``values`` as ``spread``) over the first ``columns`` rows, in each query."""
        total = np.zeros(self.count, dtype=values[0].dtype)
        for value, cells in zip(values, self.cells, strict=True):
            n_full, n_partial = divmod(min(columns, len(cells) * value.shape[1]), value.shape[1])
            total += value.sum(axis=1)[cells[:n_full]].sum(axis=0)
            if n_partial:
                total += value[cells[n_full], :n_partial].sum(axis=1)
            columns -= n_full * value.shape[1] + n_partial
        return total

    def decode(self, sums: Ints) -> tuple[Ints, Bools]:
        """Return digits ``[b, capacity]`` from the integer sums ``[b, count]`` of b such blocks, and which are sound.

        A block is unsound when its sums are no sums that any labels can make.
        """
        remaining = sums.copy()
        sound = np.ones(len(sums), dtype=bool)
        digits: list[Ints] = []
        for s in range(len(self.levels) - 1, -1, -1):
            level, valid = self.levels[s].read(subset_sums(remaining)[:, self.subsets[s]])
            sound &= valid.all(axis=1)
            digits.append(level.reshape(len(sums), -1))
            if s:
                cell_totals = level @ self.spread[s].T
                for index, cells in enumerate(self.cells[s]):
                    remaining -= cell_totals[:, index, cells]
        return digits[0] if len(digits) == 1 else np.concatenate(digits[::-1], axis=1), sound


class MirroredBlock(Block):
    """A block of one query whose weights are those of another block, negated."""

    __slots__ = ()

    def decode(self, sums: Ints) -> tuple[Ints, Bools]:
        """Return digits and soundness as `Block.decode` does, from the negated sums."""
        return Block.decode(self, -sums)


def mirrored(code: Code) -> Code:
    """Return a code of one-query blocks with every weight negated: a larger digit then costs less.

    Examples:
        >>> mirrored(build_code(3, 2, 4, dense=False, max_bits=0)).weights(0)
        (0, array([-1, -2, -4]))
    """
    assert all(block.count == 1 for block in code.shapes), "blocks of several queries decode by their own weights"
    blocks = tuple(
        MirroredBlock(block.count, block.levels, tuple(-spread for spread in block.spread), block.subsets, block.cells)
        for block in code.shapes
    )
    return replace(code, shapes=blocks)


def subset_sums(values: Ints) -> Ints:
    """Sum ``(-1)^|x| values[x]`` over the subsets x of each number S, along the last axis.

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


def weighing_block(count: int, base: int, bound: int, dense: bool) -> Block:
    """Build the block of ``count`` queries with weights up to ``bound``."""
    queries = np.arange(count)
    sizes = np.bitwise_count(queries)
    max_size = int(sizes.max())
    levels = tuple(sum_distinct_set(base, bound << s, dense) for s in range(max_size + 1))
    subsets = tuple(np.flatnonzero(sizes == s) for s in range(max_size + 1))
    # For every set S and query x below 2^bits, the bits of x that are in S are compressed to an index into the weights
    # of S.
    cells_of_set: Any = np.zeros((1, 1), dtype=np.int16)
    for bit in range((count - 1).bit_length()):
        size = np.bitwise_count(np.arange(2**bit)).astype(np.int16)
        with_bit = cells_of_set + (np.int16(1) << size)[:, None]
        cells_of_set = np.block([[cells_of_set, cells_of_set], [cells_of_set, with_bit]])
    cells = tuple(cells_of_set[rows, :count] for rows in subsets)
    return Block(count, levels, tuple(_spread_weights(level, s) for s, level in enumerate(levels)), subsets, cells)


def detecting_block(count: int) -> Block:
    """Build Lindström's detecting matrix: weights 0 and -1 only, and query 0 empty.

    Examples:
        >>> detecting_block(512).capacity
        2304
    """
    block = weighing_block(count, 2, 1, False)
    levels = tuple(SumDistinctSet(2, tuple(2**j for j in range(s)), s) for s in range(len(block.levels)))
    spread = []
    for s, level in enumerate(levels):
        odd = np.bitwise_count(np.arange(2**s)) & 1 == 1
        rank = np.cumsum(odd)
        weights = np.asarray(level.weights, dtype=np.int64)
        spread.append(-(odd[:, None] & (rank[:, None] <= weights[None, :])).astype(np.int64))
    return Block(count, levels, tuple(spread), block.subsets, block.cells)


def _spread_weights(level: SumDistinctSet, s: int) -> Ints:
    # Each weight is divided evenly over the 2^s subsets of its set, its remainder among the first of them. The signs
    # are those by which `subset_sums` adds up, so that the sum over the subsets is the weight again.
    cells = np.arange(2**s)
    sign = 1 - 2 * (np.bitwise_count(cells).astype(np.int64) & 1)
    weights = np.asarray(level.weights, dtype=np.int64)
    return sign[:, None] * (weights[None, :] // 2**s + (cells[:, None] < weights[None, :] % 2**s))


def conway_guy(size: int) -> tuple[int, ...]:
    """Return ``size`` integers all of whose subset sums differ, in ascending order.

    Examples:
        >>> conway_guy(5)
        (6, 9, 11, 12, 13)
    """
    u = [0, 1]
    while len(u) <= size:
        n = len(u) - 1
        # round(sqrt(2n)) in exact integers: r(r-1) < 2n ≤ r(r+1)
        root = math.isqrt(2 * n)
        root += 2 * n > root * (root + 1)
        u.append(2 * u[n] - u[n - root])
    return tuple(u[size] - u[i] for i in range(size - 1, -1, -1))


@dataclass(frozen=True, slots=True, eq=False)
class SumDistinctSet:
    """Integers whose sums ``Σ weights[j]·digit[j]``, digits below ``base``, all differ, and their decoder.

    ``low`` weights are powers of the base, the others are ``2^low`` times a Conway-Guy set.
    """

    base: int
    weights: tuple[int, ...]
    low: int

    def read(self, sums: Ints) -> tuple[Ints, Bools]:
        """Return the digits ``[..., m]`` of each sum, and whether digits can make the sum."""
        if self.low == len(self.weights):
            powers = np.asarray(self.weights, dtype=np.int64)
            valid = (sums >= 0) & (sums <= (self.base - 1) * int(powers.sum()))
            if self.base == 2:
                digits = (np.where(valid, sums, 0)[..., None] >> np.arange(len(powers))) & 1
            else:
                digits = np.where(valid, sums, 0)[..., None] // powers % self.base
            return digits, valid
        table = _subset_table(self.weights[self.low :], self.low)
        high = sums >> self.low
        inside = (sums >= 0) & (high < len(table))
        subset = table[np.where(inside, high, 0)]
        valid = inside & (subset >= 0)
        bits = np.where(valid, subset, 0)[..., None] >> np.arange(len(self.weights) - self.low)
        low = sums[..., None] >> np.arange(self.low)
        return np.concatenate([low & 1, bits & 1], axis=-1), valid


@functools.lru_cache(maxsize=8)
def _subset_table(weights: tuple[int, ...], low: int) -> Ints:
    """Return, for each sum, the Conway-Guy members (times 2^-low) that add up to it, as bits; -1 where none do."""
    sums = np.zeros(1, dtype=np.int64)
    for weight in weights:
        sums = np.concatenate([sums, sums + (weight >> low)])
    table = np.full(int(sums[-1]) + 1, -1, dtype=np.int64)
    table[sums] = np.arange(len(sums))
    return table


def max_set_size(base: int, bound: int, dense: bool) -> int:
    """Return the size of the largest supported set of sum-distinct integers up to ``bound``.

    Examples:
        >>> max_set_size(2, 81, dense=False), max_set_size(2, 162, dense=True), max_set_size(3, 600, dense=False)
        (7, 9, 6)
    """
    if bound < 1:
        return 0
    if dense and base == 2:
        best = 0
        for low in range(bound.bit_length()):
            best = max(best, low + _conway_guy_size(bound >> low))
        return best
    size = 1
    power = base
    while power <= bound:
        power *= base
        size += 1
    return size


_CONWAY_GUY_MAXIMA = tuple(conway_guy(size)[-1] for size in range(1, _TABLE_BITS + 1))


def _conway_guy_size(bound: int) -> int:
    return bisect.bisect_right(_CONWAY_GUY_MAXIMA, bound)


def sum_distinct_set(base: int, bound: int, dense: bool) -> SumDistinctSet:
    """Return the largest set, whose size `max_set_size` gives."""
    size = max_set_size(base, bound, dense)
    if not (dense and base == 2):
        return SumDistinctSet(base, tuple(base**j for j in range(size)), size)
    low = next(low for low in range(bound.bit_length()) if low + _conway_guy_size(bound >> low) == size)
    high = conway_guy(size - low)
    return SumDistinctSet(base, tuple(2**j for j in range(low)) + tuple(w << low for w in high), low)
