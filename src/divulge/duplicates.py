"""Groups of equal records: copies of a record are one observation and stay on one side of every split."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from divulge import columns, lazy, precision
from divulge.columns import digest_records
from divulge.precision import CommonColumn, NumberColumn

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from scipy import stats
    from scipy.sparse import csgraph

    from divulge.types import Array, Bools, Floats, Ints, Records
else:
    stats = lazy.module("scipy.stats")
    csgraph = lazy.module("scipy.sparse.csgraph")


_MAX_DEVIATIONS = 3.0  # standard deviations beyond which the number of undivided groups is no coincidence
_MAX_P_VALUE = 0.05


def number_groups(x: Array, labels: Array | None = None) -> Ints:
    """Number the distinct records by first appearance; equal ones, labels included, have one number, ``[n]``.

    Examples:
        >>> number_groups(np.array([[1.0], [2.0], [1.0], [1.0]]), np.array([0, 0, 0, 1]))
        array([0, 1, 0, 2])
    """
    digests = list(digest_records(x))
    return _number(digests if labels is None else list(zip(digests, labels.tolist(), strict=True)))


def number_pairs(groups: Ints, labels: Array) -> Ints:
    """Number the distinct pairs of the number of a record and its label by first appearance, ``[n]``."""
    return _number(list(zip(groups.tolist(), labels.tolist(), strict=True)))


def _number(keys: Sequence[Hashable]) -> Ints:
    """Number distinct keys by first appearance, ``[n]``."""
    numbers: dict[Hashable, int] = {}
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64, len(keys))


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Which records of several sets are equal.

    Attributes:
        groups: for each set, the number of the distinct record that each of its records is, ``[n]``.
        are_rounded: whether some are equal in the digits that both sets have, and in no others.
        notes: on records that agree in these digits as often as chance would have it, and so count as different.
    """

    groups: tuple[Ints, ...]
    are_rounded: bool = False
    notes: tuple[str, ...] = ()


def match_records(sets: Mapping[str, Records], *, labelled: bool = False) -> Matches:
    """Number the distinct records of several sets; equal ones have one number, whatever precision they are stored in.

    Each two sets are compared column by column in the coarser precision of both (`divulge.precision`). Records that
    are equal there alone are copies where there are more of them than independent records would give.

    Args:
        sets: records with the same columns, by the name of their set.
        labelled: whether ``y``, of real values, is a part of a record.

    Examples:
        >>> from divulge import Records
        >>> x = np.random.default_rng(0).normal(size=(4, 3))
        >>> sets = {"members": Records(x), "nonmembers": Records(x[2:].astype(np.float32))}
        >>> [groups.tolist() for groups in match_records(sets).groups]
        [[0, 1, 2, 3], [2, 3]]
    """
    tables = [part.table for part in sets.values() if part.table is not None]
    nameless = {name for table in tables for name in columns.nameless_columns(table.columns)}
    parts = [part.without_columns(sorted(nameless)) if nameless else part for part in sets.values()]
    shapes = {part.x.shape[1:] if part.table is None else tuple(sorted(part.table.columns)) for part in parts}
    if any(part.table is None and part.x.dtype == object for part in parts) or len(shapes) > 1:
        numbers = _number(list(itertools.chain.from_iterable(part.digests() for part in parts)))
        return Matches(_divide(numbers, parts))
    read = [_read_columns(part, labelled=labelled) for part in parts]
    exact = _divide(_number(np.concatenate([_hash_rows(table) for table in read]).tolist()), parts)
    pairs, notes = [], [columns.describe_nameless(sorted(nameless), "was not compared")] if nameless else []
    for (i, name), (j, other) in itertools.combinations(enumerate(sets), 2):
        pair = _Comparison.of((read[i], read[j]), (exact[i], exact[j]))
        if pair is None or not (n_equal := int(pair.matched[1].sum())):
            continue
        if (expected := pair.explain_by_chance()) is None:
            pairs.append((i, j, pair))
        else:
            notes.append(
                f"{n_equal} records of the {other} equal one of the {name} in the digits that both sets have, and "
                f"about {expected:.3g} independent ones would, too; they count as different records"
            )
    return Matches(_join(exact, pairs), bool(pairs), tuple(notes))


def _divide(numbers: Ints, parts: Sequence[Records]) -> tuple[Ints, ...]:
    return tuple(np.split(numbers, np.cumsum([len(part) for part in parts])[:-1]))


_MAX_COLUMNS = 256  # of an array; the values of more, such as pixels, are stored alike
_MICROSECONDS = 86_400e6  # of a day


def _read_columns(records: Records, *, labelled: bool) -> list[NumberColumn | Ints]:
    """Return the columns of records, in the order of their names: numbers with their precision, texts as digests."""
    read: list[NumberColumn | Ints] = []
    if records.table is None:
        values = records.x.reshape(len(records), -1)
        parts = [values] if values.shape[1] > _MAX_COLUMNS else list(values.T)
        read += [NumberColumn.measure(part) for part in parts]
    else:
        for name in sorted(records.table.columns):
            column = columns.parse_dates(columns.read_column(records.table, name))
            if column.measure == "category":
                read.append(columns.digest_texts(column))
            elif column.measure == "date":
                read.append(NumberColumn.measure(np.rint(column.values * _MICROSECONDS), is_date=True))
            else:
                read.append(NumberColumn.measure(column.values))
    if labelled and records.y is not None:
        read.append(NumberColumn.measure(records.y.astype(np.float64)))
    return read


def _values(column: NumberColumn | Ints) -> Array:
    return column.values if isinstance(column, NumberColumn) else column


_BLOCK = 1 << 22  # values that are hashed in one go


def _hash_rows(
    table: Sequence[NumberColumn | Ints],
    common: Sequence[CommonColumn | None] = (),
    side: int = 0,
    rounding: str = "numpy",
) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row in the precision of ``common``, of every bit without it, ``[n]``."""
    hashes = None
    for number, column in enumerate(table):
        values = _values(column)
        precise = common[number] if common else None
        width = 1 if values.ndim == 1 else values.shape[1]
        step = max(1, _BLOCK // width)
        parts = []
        for start in range(0, len(values), step):
            block = values[start : start + step]
            if isinstance(column, NumberColumn):
                block = (precise or precision.EXACT).encode(block, side, rounding)
            parts.append(_mix(block.reshape(len(block), -1), number))
        hashes = np.concatenate(parts) if hashes is None else hashes + np.concatenate(parts)
    assert hashes is not None
    return hashes


def _mix(codes: Ints, number: int) -> NDArray[np.uint64]:
    """Return the sum of the hashes of each row's codes (SplitMix64, Steele et al. 2014), ``[n]``."""
    places = np.arange(1, codes.shape[1] + 1, dtype=np.uint64) + np.uint64(number << 32)
    mixed = codes.view(np.uint64) ^ (places * np.uint64(0x9E3779B97F4A7C15))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))).sum(axis=1, dtype=np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class _Comparison:
    """Two sets in the coarser precision of both.

    Args:
        tables: their columns.
        common: the precision in which each column is compared; None for texts.
        rounding: how the digits that one set lacks were rounded: the way that gives most matches.
        keys: hash of each record in this precision, ``[n]`` for each set.
        groups: number of the distinct record that each is with all its digits, likewise.
        matched: whether each equals a record of the other set here, and none there, likewise.
    """

    tables: tuple[Sequence[NumberColumn | Ints], Sequence[NumberColumn | Ints]]
    common: Sequence[CommonColumn | None]
    rounding: str
    keys: tuple[NDArray[np.uint64], NDArray[np.uint64]]
    groups: tuple[Ints, Ints]
    matched: tuple[Bools, Bools]

    @classmethod
    def of(
        cls, tables: tuple[Sequence[NumberColumn | Ints], Sequence[NumberColumn | Ints]], groups: tuple[Ints, Ints]
    ) -> _Comparison | None:
        """Compare two sets; None where no column is of another precision in one of them."""
        common = [
            CommonColumn.of(one, other) if isinstance(one, NumberColumn) and isinstance(other, NumberColumn) else None
            for one, other in zip(*tables, strict=True)
        ]
        if not any(each is not None and each.grid is not None for each in common):
            return None
        is_new = [~np.isin(groups[side], groups[1 - side]) for side in (0, 1)]
        is_rounded = any(each is not None and any(each.is_finer) and each.rounds for each in common)
        best = None
        for rounding in precision.ROUNDINGS if is_rounded else precision.ROUNDINGS[:1]:
            keys = _hash_rows(tables[0], common, 0, rounding), _hash_rows(tables[1], common, 1, rounding)
            matched = is_new[0] & np.isin(keys[0], keys[1]), is_new[1] & np.isin(keys[1], keys[0])
            if best is None or matched[1].sum() > best.matched[1].sum():
                best = cls(tables, common, rounding, keys, groups, matched)
        return best

    def explain_by_chance(self) -> float | None:
        """Return how many matches independent records would give, or None if there are more."""
        most = 0.0
        for side in (0, 1):
            is_finer = [each is not None and each.is_finer[side] for each in self.common]
            if not any(is_finer):
                continue
            expected, limit = self._expect_matches(side, is_finer)
            most = max(most, expected)
            if self.matched[1 - side].sum() <= limit:
                return most
        return None

    def _expect_matches(self, side: int, coarser: Sequence[bool]) -> tuple[float, float]:
        """Return the expected number of chance matches of the other set's records, and how many there may be at most.

        Distinct records of one set that agree in the digits that both sets have show how often this happens by chance:
        a record of the other set meets one of them about as often as one of their own does (Good 1953; variance of
        Esty 1983). Where too few do, the number follows from how many do in fewer digits still.
        """
        rows = np.unique(self.groups[side], return_index=True)[1]
        n, n_other = len(rows), int((~np.isin(self.groups[1 - side], self.groups[side])).sum())
        sizes = np.unique(self.keys[side][rows], return_counts=True)[1]
        if (sizes * (sizes - 1) / 2).sum() >= _MIN_AGREEING:
            n_single, n_double = int((sizes == 1).sum()), int((sizes == 2).sum())
            share = 1 - n_single / n
            others = np.unique(self.keys[1 - side], return_counts=True)[1].astype(float)
            n_other_squared = n_other * (others**2).sum() / others.sum()
            variance = n_other_squared * share * (1 - share) + (n_other / n) ** 2 * (n_single * share + 2 * n_double)
            return n_other * share, n_other * share + _MAX_DEVIATIONS_OF_MATCHES * float(variance) ** 0.5
        expected = n_other * n * self._extrapolate(side, rows, coarser)
        return expected, float(stats.poisson.isf(_MAX_P_VALUE_OF_MATCHES, expected))

    def _extrapolate(self, side: int, rows: Ints, coarser: Sequence[bool]) -> float:
        """Return the chance that two records agree, from pairs that agree with fewer and fewer binary digits.

        The number of pairs falls by a constant factor for each digit, as in a space of some dimension (Grassberger and
        Procaccia 1983); half of this dimension is counted on.
        """
        width = sum(column[:1].size for column in map(_values, self.tables[side]))
        rows = rows[:: 1 + len(rows) * width // _BLOCK]
        codes = []
        for number, column in enumerate(self.tables[side]):
            common = self.common[number]
            if isinstance(column, NumberColumn):
                block = (common or precision.EXACT).encode(column.values[rows], side, self.rounding)
            else:
                block = column[rows]
            codes.append(block.reshape(len(rows), -1))
        counts: list[float] = [0.0]  # of one digit more than there is
        while len(counts) < 66 and (len(counts) < 3 or counts[-2] < _MIN_EXTRAPOLATED):
            shift = len(counts) - 1
            hashes = sum(_mix(each >> shift if coarser[i] else each, i) for i, each in enumerate(codes))
            sizes = np.unique(hashes, return_counts=True)[1].astype(float)
            counts.append(float((sizes * (sizes - 1) / 2).sum()))
        before, count, after = counts[-3:]
        if count < _MIN_EXTRAPOLATED:  # other columns tell all records apart
            return 0.0
        dropped_digits = len(counts) - 3
        dimension = max(np.log2(count / (before + 2 * before**0.5 + 1)), np.log2(after / count))
        n_agreeing = (count + 2 * count**0.5) * 2.0 ** (-dropped_digits * dimension * _SHARE_OF_DIMENSION)
        n_agreeing = max(n_agreeing, counts[1] + 2 * counts[1] ** 0.5)  # no fewer than do with all digits
        return float(n_agreeing / (len(rows) * (len(rows) - 1) / 2))


_MIN_EXTRAPOLATED = 5  # pairs from which an extrapolation starts
_SHARE_OF_DIMENSION = 0.5
_MIN_AGREEING = 20  # pairs from which a share is estimated
_MAX_DEVIATIONS_OF_MATCHES = 4.0
_MAX_P_VALUE_OF_MATCHES = 1e-4


def _join(exact: tuple[Ints, ...], pairs: Sequence[tuple[int, int, _Comparison]]) -> tuple[Ints, ...]:
    """Return the numbers of distinct records where matches of all pairs of sets are one record."""
    n_nodes, rows, keys = 1 + max(int(groups.max()) for groups in exact), [], []
    for i, j, pair in pairs:
        shared = np.intersect1d(*pair.keys)
        for side, number in enumerate((i, j)):
            is_shared = np.isin(pair.keys[side], shared)
            rows.append(exact[number][is_shared])
            keys.append(n_nodes + np.searchsorted(shared, pair.keys[side][is_shared]))
        n_nodes += len(shared)
    if not pairs:
        return exact
    edges = (np.concatenate(rows), np.concatenate(keys))
    graph = sparse.coo_array((np.ones(len(edges[0])), edges), shape=(n_nodes, n_nodes))
    component = csgraph.connected_components(graph, directed=False)[1]
    numbers = _number(component[np.concatenate(exact)].tolist())
    return tuple(np.split(numbers, np.cumsum([len(groups) for groups in exact])[:-1]))


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
