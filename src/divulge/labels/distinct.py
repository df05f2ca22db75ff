"""Sum-distinct integers: sets whose digit sums can be told apart, and the way back from a sum to its digits.

Powers of K do for K values of a digit. For two values Conway and Guy's sets (1969; all are sum-distinct: Bohman
1996) have a largest member about half as large, so that nearly one more fits below the same bound.
"""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from divulge.types import Bools, Ints

_TABLE_BITS = 18  # subset sums of a Conway-Guy set of this size fit a look-up table of a few MB


def conway_guy(size: int) -> tuple[int, ...]:
    """``size`` integers all of whose subset sums differ, in ascending order.

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
class Digits:
    """Integers whose sums ``Σ weights[j]·digit[j]``, digits below ``base``, all differ; with the way back.

    ``low`` weights are powers of the base, the others are ``2^low`` times a Conway-Guy set.
    """

    base: int
    weights: tuple[int, ...]
    low: int

    def read(self, sums: Ints) -> tuple[Ints, Bools]:
        """Digits ``[..., m]`` of each sum, and whether the sum was one that digits can make."""
        if self.low == len(self.weights):
            powers = np.asarray(self.weights, dtype=np.int64)
            valid = (sums >= 0) & (sums <= (self.base - 1) * int(powers.sum()))
            if self.base == 2:
                digits = (np.where(valid, sums, 0)[..., None] >> np.arange(len(powers))) & 1
            else:
                digits = np.where(valid, sums, 0)[..., None] // powers % self.base
            return digits, valid
        table = _subsets(self.weights[self.low :], self.low)
        high = sums >> self.low
        inside = (sums >= 0) & (high < len(table))
        subset = table[np.where(inside, high, 0)]
        valid = inside & (subset >= 0)
        bits = np.where(valid, subset, 0)[..., None] >> np.arange(len(self.weights) - self.low)
        low = sums[..., None] >> np.arange(self.low)
        return np.concatenate([low & 1, bits & 1], axis=-1), valid


@functools.lru_cache(maxsize=8)
def _subsets(weights: tuple[int, ...], low: int) -> Ints:
    """Which of the Conway-Guy members, each times 2^-low, add up to each sum, as bits; -1 where none do."""
    sums = np.zeros(1, dtype=np.int64)
    for weight in weights:
        sums = np.concatenate([sums, sums + (weight >> low)])
    table = np.full(int(sums[-1]) + 1, -1, dtype=np.int64)
    table[sums] = np.arange(len(sums))
    return table


def most_digits(base: int, bound: int, dense: bool) -> int:
    """How many members a set of sum-distinct integers up to ``bound`` gets.

    Examples:
        >>> most_digits(2, 81, dense=False), most_digits(2, 162, dense=True), most_digits(3, 600, dense=False)
        (7, 9, 6)
    """
    if bound < 1:
        return 0
    if dense and base == 2:
        best = 0
        for low in range(bound.bit_length()):
            best = max(best, low + _conway_guy_size(bound >> low))
        return best
    most = 1
    power = base
    while power <= bound:
        power *= base
        most += 1
    return most


_LARGEST = tuple(conway_guy(size)[-1] for size in range(1, _TABLE_BITS + 1))


def _conway_guy_size(bound: int) -> int:
    return bisect.bisect_right(_LARGEST, bound)


def digits(base: int, bound: int, dense: bool) -> Digits:
    """The largest set that `most_digits` counts."""
    size = most_digits(base, bound, dense)
    if not (dense and base == 2):
        return Digits(base, tuple(base**j for j in range(size)), size)
    low = next(low for low in range(bound.bit_length()) if low + _conway_guy_size(bound >> low) == size)
    high = conway_guy(size - low)
    return Digits(base, tuple(2**j for j in range(low)) + tuple(w << low for w in high), low)
