"""What a set of records says about its columns: ranges, constants, whole numbers, one-hot groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from divulge.types import Array, Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class RecordColumns:
    """The columns of flattened records ``[n, d]``.

    Args:
        low: least value of each column, ``[d]``.
        high: greatest value, ``[d]``.
        binary: bool ``[d]``, columns that hold 0 and 1 alone and belong to no one-hot group.
        groups: positions of the columns of each one-hot group.
        whole: every column is of an integer type.
    """

    low: Floats
    high: Floats
    binary: Bools
    groups: tuple[Ints, ...]
    whole: bool = False

    @classmethod
    def of(cls, x: Array) -> RecordColumns:
        """The columns of ``x[n, d]``.

        Examples:
            >>> found = RecordColumns.of(np.array([[0.5, 1, 0, 0, 1], [0.7, 0, 1, 0, 0], [0.9, 0, 0, 1, 1]]))
            >>> [group.tolist() for group in found.groups], found.binary.tolist()
            ([[1, 2, 3]], [False, False, False, False, True])
        """
        zero_or_one = np.array([bool(((column == 0) | (column == 1)).all()) for column in x.T])
        groups = tuple(_one_hot_groups(x, zero_or_one))
        binary = zero_or_one.copy()
        for group in groups:
            binary[group] = False
        low, high = x.min(axis=0).astype(np.float64), x.max(axis=0).astype(np.float64)
        return cls(low, high, binary, groups, x.dtype.kind in "iu")

    def __len__(self) -> int:
        return len(self.low)

    @property
    def varying(self) -> Bools:
        """Bool ``[d]``, the columns that are not constant."""
        return self.high > self.low

    def settle(self, filled: Floats, known: Bools, rng: np.random.Generator | None) -> Floats:
        """Make raw completions ``[n, d]`` into values that such columns hold.

        Everything is clipped to its column's range. A one-hot group is completed as one categorical
        value: the unknown columns share what the known ones leave of the one, and exactly one wins
        (none, if a known one holds it). Other binary columns become 0 or 1 only when drawn; without a
        generator they keep the expected value. Integer columns are rounded.

        Args:
            filled: raw completions; known values are in place.
            known: bool ``[n, d]``.
            rng: draws categories and bits from their probabilities; None takes the likeliest.
        """
        settled = np.where(known, filled, np.clip(filled, self.low, self.high))
        for group in self.groups:
            settled[:, group] = _settle_one_hot(settled[:, group], known[:, group], rng)
        if rng is not None and self.binary.any():
            drawn = rng.random((len(settled), int(self.binary.sum()))) < settled[:, self.binary]
            settled[:, self.binary] = np.where(known[:, self.binary], settled[:, self.binary], drawn)
        return np.where(known, settled, np.round(settled)) if self.whole else settled


def _one_hot_groups(x: Array, zero_or_one: Bools) -> list[Ints]:
    """Runs of neighbouring 0/1 columns of which every record has exactly one set."""
    groups, start, d = [], 0, x.shape[1]
    while start < d:
        end, total = start, np.zeros(len(x), dtype=np.int64)
        while end < d and zero_or_one[end] and total.max(initial=0) <= 1 and not (total == 1).all():
            total += x[:, end].astype(np.int64)
            end += 1
        # A constant column of ones is no group: nothing is left to complete in it.
        if end - start > 1 and (total == 1).all():
            groups.append(np.arange(start, end))
            start = end
        else:
            start += 1
    return groups


def _settle_one_hot(weights: Floats, known: Bools, rng: np.random.Generator | None) -> Floats:
    taken = (np.where(known, weights, 0.0) >= 0.5).any(axis=1, keepdims=True)
    rivals = np.where(known, 0.0, np.maximum(weights, 1e-9))
    if rng is None:
        winner = rivals.argmax(axis=1)
    else:
        cumulated = np.cumsum(rivals, axis=1)
        winner = (cumulated < rng.random((len(rivals), 1)) * cumulated[:, -1:]).sum(axis=1)
    chosen = (np.arange(weights.shape[1]) == winner[:, None]) & ~taken
    return np.where(known, weights, chosen)
