"""Groups of equal records: copies of a record are one observation and stay on one side of every split."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from divulge.columns import digest_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from divulge.types import Array, Bools, Floats, Ints


_MAX_DEVIATIONS = 3.0  # standard deviations beyond which the number of undivided groups is no coincidence
_MAX_P_VALUE = 0.05


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
    record_labels = [None] * len(digests) if labels is None else labels.tolist()
    pairs = zip(digests, record_labels, strict=True)
    return np.fromiter((numbers.setdefault(pair, len(numbers)) for pair in pairs), np.int64, len(digests))


def fold_groups(groups: Ints, folds: int, rng: np.random.Generator) -> Ints:
    """Divide whole groups at random into folds of nearly equal size, ``[n]``.

    Examples:
        >>> fold = fold_groups(np.array([0, 0, 1, 2, 2, 3]), 2, np.random.default_rng(0))
        >>> bool(fold[0] == fold[1] and fold[3] == fold[4])
        True
    """
    _, group_index, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    if len(sizes) == len(groups):
        return order % folds
    middle = np.cumsum(sizes[order]) - sizes[order] / 2
    fold = np.empty(len(sizes), dtype=np.int64)
    fold[order] = np.minimum((middle / len(groups) * folds).astype(np.int64), folds - 1)
    return fold[group_index.ravel()]


def keep_together(draw: Array, rows: Array) -> Array:
    """Assign equal ``rows`` of a table to the fold that was drawn for the first of them, ``[n]``.

    The draw is returned unchanged if a fold would lose all its rows.

    Examples:
        >>> keep_together(np.array([0, 1, 1, 0]), np.array([[5.0], [6.0], [5.0], [7.0]]))
        array([0, 1, 0, 0])
    """
    groups = number_groups(rows)
    shared = draw[np.unique(groups, return_index=True)[1][groups]]
    return shared if len(np.unique(shared)) == len(np.unique(draw)) else draw


def first_of_each_group(groups: Ints, side: Array) -> Bools:
    """Return the mask of the first record of each group on each side, ``[n]``.

    Examples:
        >>> first_of_each_group(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]))
        array([ True, False,  True,  True])
    """
    is_first = np.zeros(len(groups), dtype=bool)
    is_first[np.unique(np.column_stack([groups, side]), axis=0, return_index=True)[1]] = True
    return is_first


def groups_are_split_whole(groups: Ints, side: Array) -> bool:
    """Return whether equal records are on one side more often than in a random division of records.

    If so, groups were divided instead of records, and a group is one observation. The number of undivided groups of two
    or more records is compared with its mean and standard deviation under a random division.

    Args:
        groups: number of the group of each record, ``[n]``.
        side: the set of each record, ``[n]``.

    Examples:
        >>> groups_are_split_whole(np.repeat(np.arange(30), 2), np.repeat(np.arange(30) % 2, 2))
        True
        >>> groups_are_split_whole(np.repeat(np.arange(30), 2), np.tile([0, 1], 30))
        False
    """
    _, group_index, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    _, side_index, totals = np.unique(side, return_inverse=True, return_counts=True)
    table = np.zeros((len(sizes), len(totals)), dtype=np.int64)
    np.add.at(table, (group_index.ravel(), side_index.ravel()), 1)
    is_repeated = sizes > 1
    if not is_repeated.any() or len(totals) < 2:
        return False
    n_undivided = (table[is_repeated].max(1) == sizes[is_repeated]).sum()
    distinct, counts = np.unique(sizes[is_repeated], return_counts=True)
    steps = [np.arange(size) for size in distinct]
    chance = np.array(
        [(np.maximum(totals[:, None] - step, 0) / (len(groups) - step)).prod(1).sum() for step in steps]
    ).clip(0, 1)  # fmt: skip
    mean, variance = float(counts @ chance), float(counts @ (chance * (1 - chance)))
    if n_undivided == is_repeated.sum():
        return bool(float(counts @ np.log(np.maximum(chance, 1e-300))) < np.log(_MAX_P_VALUE))
    return bool(n_undivided > mean + _MAX_DEVIATIONS * variance**0.5)


def canonical_order(x: Array, labels: Array | None, comes_last: Bools) -> tuple[Ints, Ints]:
    """Return the positions of records in canonical order, and for each place the first place of an equal record.

    Records are compared by class, then column by column until they differ. Increasing changes of units do not change
    the order, nor do decreasing ones if a column is skewed (see `_orient`). Each column takes one sort of the records
    that still tie.

    Args:
        x: numbers ``[n, ...]`` or texts ``[n]``.
        labels: classes or real values ``[n]``, or None.
        comes_last: bool ``[n]``, True for records that come last among equal ones.

    Examples:
        >>> canonical_order(np.array([[5.0], [0.0], [5.0], [1.0]]), None, np.array([True, False, False, False]))
        (array([1, 3, 2, 0]), array([0, 1, 2, 2]))
    """
    first_equal = np.zeros(len(x), dtype=np.int64)
    tied = np.arange(len(x))
    for column in _columns(x, labels):
        if not len(tied):
            break
        tied = _separate_ties(first_equal, tied, column)
    rows = np.lexsort((comes_last, first_equal))
    return rows, first_equal[rows]


def _columns(x: Array, labels: Array | None) -> Iterator[Array]:
    if labels is not None:
        yield labels if labels.dtype.kind != "f" else _orient(labels)
    if x.dtype == object:
        yield np.unique(x, return_inverse=True)[1]
        return
    for column in x.reshape(len(x), -1).T:
        yield _orient(column)


def orient_columns(table: Array) -> Floats:
    """Return the columns ``[n, d]``, each negated if more of its values lie above the middle of its range than below.

    Examples:
        >>> orient_columns(np.array([[0.0, 0.0], [1.0, 9.0], [9.0, 9.0]])).tolist()
        [[0.0, -0.0], [1.0, -9.0], [9.0, -9.0]]
    """
    return np.column_stack([_orient(column) for column in table.T]) if table.shape[1] else table.astype(np.float64)


def _orient(column: Array) -> Array:
    """Return the column, negated if more values lie above the middle of its range than below it."""
    values = column.astype(np.float64)
    low, high = values.min() / 2, values.max() / 2
    middle, tolerance = low + high, 1e-9 * (high - low)
    n_above, n_below = (values > middle + tolerance).sum(), (values < middle - tolerance).sum()
    return -values if n_above > n_below else values


def _separate_ties(first_equal: Ints, tied: Ints, column: Array) -> Ints:
    """Separate records that tie so far (same ``first_equal``) by ``column``; return those that still tie."""
    rows = tied[np.lexsort((column[tied], first_equal[tied]))]
    group, value, place = first_equal[rows], column[rows], np.arange(len(rows))
    begins = np.r_[True, group[1:] != group[:-1]]
    differs = begins | np.r_[True, value[1:] != value[:-1]]
    run_start = np.maximum.accumulate(np.where(differs, place, 0))
    first_equal[rows] = group + run_start - np.maximum.accumulate(np.where(begins, place, 0))
    return rows[np.bincount(run_start, minlength=len(rows))[run_start] > 1]


def sort_rows(table: Floats) -> Floats:
    """Sort rows ``[n, d]`` in ascending order, by the last column first; minus zero becomes zero.

    Examples:
        >>> sort_rows(np.array([[2.0, 1.0], [-0.0, 1.0], [5.0, 0.0]])).tolist()
        [[5.0, 0.0], [0.0, 1.0], [2.0, 1.0]]
    """
    positive = table + 0.0
    return positive[np.lexsort(positive.T)]


def hash_tables(*tables: Floats) -> int:
    """Return a hash of all values, for `divulge.seeds.generator`, so that different values give different draws.

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
