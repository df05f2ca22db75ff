"""Equal records as groups: a copy of a record is no new observation, and stays on its record's side of every split."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from divulge.columns import digest_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from divulge.types import Array, Bools, Floats, Ints

_CHANCE = 3.0  # standard deviations beyond which whole groups are no coincidence
_RARE = 0.05


def number_groups(x: Array, labels: Array | None = None) -> Ints:
    """Number the distinct records by first appearance; equal ones, labels included, have one number, ``[n]``.

    Examples:
        >>> number_groups(np.array([[1.0], [2.0], [1.0], [1.0]]), np.array([0, 0, 0, 1]))
        array([0, 1, 0, 2])
    """
    return number_digests(list(digest_records(x)), labels)


def number_digests(digests: Sequence[bytes], labels: Array | None = None) -> Ints:
    """Number distinct records by their digests and labels as `number_groups` does, ``[n]``."""
    numbers: dict[tuple[bytes, object], int] = {}
    own = [None] * len(digests) if labels is None else labels.tolist()
    pairs = zip(digests, own, strict=True)
    return np.fromiter((numbers.setdefault(pair, len(numbers)) for pair in pairs), np.int64, len(digests))


def fold_groups(groups: Ints, folds: int, rng: np.random.Generator) -> Ints:
    """Deal whole groups into folds of nearly equal size, ``[n]``; without duplicates it is a random partition.

    Examples:
        >>> fold = fold_groups(np.array([0, 0, 1, 2, 2, 3]), 2, np.random.default_rng(0))
        >>> bool(fold[0] == fold[1] and fold[3] == fold[4])
        True
    """
    _, own, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    if len(sizes) == len(groups):
        return order % folds
    middle = np.cumsum(sizes[order]) - sizes[order] / 2
    fold = np.empty(len(sizes), dtype=np.int64)
    fold[order] = np.minimum((middle / len(groups) * folds).astype(np.int64), folds - 1)
    return fold[own.ravel()]


def keep_together(draw: Array, rows: Array) -> Array:
    """Give equal ``rows`` of a table the fold, or the half, that was drawn for the first of them, ``[n]``.

    Without duplicates it is the draw itself; also where no two folds would be left.

    Examples:
        >>> keep_together(np.array([0, 1, 1, 0]), np.array([[5.0], [6.0], [5.0], [7.0]]))
        array([0, 1, 0, 0])
    """
    groups = number_groups(rows)
    followed = draw[np.unique(groups, return_index=True)[1][groups]]
    return followed if len(np.unique(followed)) == len(np.unique(draw)) else draw


def first_of_each_group(groups: Ints, side: Array) -> Bools:
    """True for the first record of each group on each side, ``[n]``.

    Examples:
        >>> first_of_each_group(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]))
        array([ True, False,  True,  True])
    """
    first = np.zeros(len(groups), dtype=bool)
    first[np.unique(np.column_stack([groups, side]), axis=0, return_index=True)[1]] = True
    return first


def groups_are_split_whole(groups: Ints, side: Array) -> bool:
    """Tell whether equal records are on one side more often than if records had been dealt out one by one.

    Then the groups were divided, not the records, and a group is one observation. The number of groups of two and more
    that are on one side is compared with its mean and standard deviation under a random deal.

    Args:
        groups: which records are equal, ``[n]``.
        side: the set that each belongs to, ``[n]``.

    Examples:
        >>> groups_are_split_whole(np.repeat(np.arange(30), 2), np.repeat(np.arange(30) % 2, 2))
        True
        >>> groups_are_split_whole(np.repeat(np.arange(30), 2), np.tile([0, 1], 30))
        False
    """
    _, own, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    _, at, totals = np.unique(side, return_inverse=True, return_counts=True)
    table = np.zeros((len(sizes), len(totals)), dtype=np.int64)
    np.add.at(table, (own.ravel(), at.ravel()), 1)
    several = sizes > 1
    if not several.any() or len(totals) < 2:
        return False
    whole = (table[several].max(1) == sizes[several]).sum()
    distinct, counts = np.unique(sizes[several], return_counts=True)
    steps = [np.arange(size) for size in distinct]
    chance = np.array(
        [(np.maximum(totals[:, None] - step, 0) / (len(groups) - step)).prod(1).sum() for step in steps]
    ).clip(0, 1)  # fmt: skip
    mean, variance = float(counts @ chance), float(counts @ (chance * (1 - chance)))
    if whole == several.sum():
        return bool(float(counts @ np.log(np.maximum(chance, 1e-300))) < np.log(_RARE))
    return bool(whole > mean + _CHANCE * variance**0.5)


def canonical_order(x: Array, labels: Ints | None, last: Bools) -> tuple[Ints, Ints]:
    """Positions of the records in canonical order, and for each place the first place of a record equal to it.

    Records are compared by class, then column by column until they differ; a rising change of unit changes no
    comparison, and a falling one none where the column has a longer end (see `_turned`). It takes one sort a
    column, of those records that are not told apart yet.

    Args:
        x: numbers ``[n, ...]`` or texts ``[n]``.
        labels: ``[n]``, or None.
        last: bool ``[n]``, True for those that come last among equal ones.

    Examples:
        >>> canonical_order(np.array([[5.0], [0.0], [5.0], [1.0]]), None, np.array([True, False, False, False]))
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


def sort_rows(table: Floats) -> Floats:
    """The rows ``[n, d]`` in ascending order, by the last column first; minus zero is zero.

    Examples:
        >>> sort_rows(np.array([[2.0, 1.0], [-0.0, 1.0], [5.0, 0.0]])).tolist()
        [[5.0, 0.0], [0.0, 1.0], [2.0, 1.0]]
    """
    positive = table + 0.0
    return positive[np.lexsort(positive.T)]


def hash_tables(*tables: Floats) -> int:
    """A number made of all values, for `divulge.seeds.generator`: other values, other draws.

    Examples:
        >>> table = np.zeros((2, 1))
        >>> hash_tables(table) == hash_tables(table.copy()), hash_tables(table) == hash_tables(table.T)
        (True, False)
    """
    hashed = hashlib.blake2b(digest_size=8)
    for table in tables:
        hashed.update(repr(table.shape).encode())
        hashed.update(np.ascontiguousarray(table, dtype="<f8").tobytes())
    return int.from_bytes(hashed.digest(), "little")
