"""Records and rows without their order: what is drawn or summed depends on what they are, never on where they stand."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.types import Array, Bools, Floats, Ints


def order(x: Array, labels: Ints | None, last: Bools) -> tuple[Ints, Ints]:
    """Positions of the records in canonical order, and for each place the first place of a record equal to it.

    Records are compared by class, then column by column until they differ; a rising change of unit changes no
    comparison, and a falling one none where the column has a longer end (see `_turned`). It takes one sort a
    column, of those records that are not told apart yet.

    Args:
        x: numbers ``[n, ...]`` or texts ``[n]``.
        labels: ``[n]``, or None.
        last: bool ``[n]``, True for those that come last among equal ones.

    Examples:
        >>> order(np.array([[5.0], [0.0], [5.0], [1.0]]), None, np.array([True, False, False, False]))
        (array([1, 3, 2, 0]), array([0, 1, 2, 2]))
    """
    first = np.zeros(len(x), dtype=np.int64)
    tied = np.arange(len(x))
    for column in _columns(x, labels):
        if not len(tied):
            break
        tied = _told_apart(first, tied, column)
    rows = np.lexsort((last, first))
    return rows, first[rows]


def _columns(x: Array, labels: Ints | None) -> Iterator[Array]:
    if labels is not None:
        yield labels
    if x.dtype == object:
        yield np.unique(x, return_inverse=True)[1]
        return
    for column in x.reshape(len(x), -1).T:
        yield _turned(column)


def _turned(column: Array) -> Array:
    """The column, upside down where more values lie above the middle of its range than below it."""
    values = column.astype(np.float64)
    low, high = values.min() / 2, values.max() / 2
    middle, near = low + high, 1e-9 * (high - low)
    above, below = (values > middle + near).sum(), (values < middle - near).sum()
    return -values if above > below else values


def _told_apart(first: Ints, tied: Ints, column: Array) -> Ints:
    """Moves records that are equal so far (same ``first``) apart by ``column``; returns those that still are equal."""
    rows = tied[np.lexsort((column[tied], first[tied]))]
    group, value, at = first[rows], column[rows], np.arange(len(rows))
    begins = np.r_[True, group[1:] != group[:-1]]
    differs = begins | np.r_[True, value[1:] != value[:-1]]
    now = np.maximum.accumulate(np.where(differs, at, 0))
    first[rows] = group + now - np.maximum.accumulate(np.where(begins, at, 0))
    return rows[np.bincount(now, minlength=len(rows))[now] > 1]


def ordered(table: Floats) -> Floats:
    """The rows ``[n, d]`` in ascending order, by the last column first; minus zero is zero.

    Examples:
        >>> ordered(np.array([[2.0, 1.0], [-0.0, 1.0], [5.0, 0.0]])).tolist()
        [[5.0, 0.0], [0.0, 1.0], [2.0, 1.0]]
    """
    positive = table + 0.0
    return positive[np.lexsort(positive.T)]


def digest(*tables: Floats) -> int:
    """A number made of all values, for `divulge.seeds.generator`: other values, other draws.

    Examples:
        >>> digest(np.zeros((2, 1))) == digest(np.zeros((2, 1))), digest(np.zeros((2, 1))) == digest(np.zeros((1, 2)))
        (True, False)
    """
    hashed = hashlib.blake2b(digest_size=8)
    for table in tables:
        hashed.update(repr(table.shape).encode())
        hashed.update(np.ascontiguousarray(table, dtype="<f8").tobytes())
    return int.from_bytes(hashed.digest(), "little")
