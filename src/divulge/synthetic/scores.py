"""Scores of single rows against a released table: how much nearer to the release than to the population is a row?

Codes, scales and bins are fitted on the population alone, and members and non-members go through the same calls, so
their scores are exchangeable where the generator saw neither. Rows of the population are scored as well, each left out
of the population: they are the null against which `combine_scores` weighs the scores, without a look at membership.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse, special
from scipy.spatial import distance

from divulge import lazy, seeds
from divulge.synthetic.preparation import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sklearn import ensemble

    from divulge.synthetic.preparation import TableColumn, Tables
    from divulge.types import Array, Bools, Floats, Ints
else:
    ensemble = lazy.module("sklearn.ensemble")

AUTO = "auto"
SCORES = {
    "nearest": "distance to the nearest row of the release, by ranks",
    "nearest-z": "the same in standard deviations",
    "nearest-ratio": "nearest row of the release against that of the population, in standard deviations",
    "nearest-ratio-rank": "the same by ranks, over the nearest and the third nearest row",
    "density-ratio": "crowding of the release around the row, against that of the population",
    "influence": "what the row adds to a density on the population, where the release has rows",
    "cells": "crowding in tables of two and three columns",
    "classifier": "a forest that tells the release from the population",
    "values": "columns whose value stands in the release and with nobody else in the population",
    "value-sets": "the same for pairs and triples of columns",
    "value-ratio": "how much likelier the release is to have, or to lack, the values of the row if the row was seen",
    "value-counts": "the same from how often the release has each value",
    "value-density": "crowding of the release around the row, among released rows that share an exact value with it",
}
"""Scores of a table → what they weigh. They catch different generators: none is best for all."""
MAX_REFERENCE = 10_000
"""Rows of the population that distances are measured to."""
MAX_SCORED_POPULATION = 2_000
"""Rows of the population that are scored."""
_BLOCK = 256  # rows whose distances to all others are in memory at once
_MAX_SPACING = 2_000  # rows of the population from which the usual distance between neighbours is found
_MAX_INDICATED = 100  # values of a category up to which rows are compared by a dense product of matrices
_FURTHEST = 1e6  # standard deviations of one number
_MAX_DISTANCE = 1e6  # of a row that nobody else is left to be near to
_FLOOR = -12.0  # of the logarithm of a density
_NEAR = 0.05  # of the usual distance, added to every distance so that logarithms stay finite
_DECAY = 2.0  # of a kernel exp(-decay · distance / usual distance)
_RARE = 0.05  # share of the population up to which a value is looked for in rows nearby
_WIDTH = 3.0  # of the kernel in which a rare value is looked for, in usual distances
_EMPTY = 0.01  # rows that count as there where none is
_BINS = 6  # of a number, in cells
_MAX_CATEGORIES = 30  # of a category, in cells
_MAX_CELLS = 80  # pairs of columns whose cells are counted, and triples
_MAX_PAIRS = 300  # pairs of columns whose values are looked for together
_MAX_TRIPLES = 60  # triples of columns
_TREES = 150  # of the forest that tells the release from the population
_LEAF = 2  # rows of a leaf at least
_ROWS_PER_TREE = 4_000  # at most
_MIN_NULL = 100  # rows of the population with fewer of which all scores weigh alike


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Places of rows in the stacked tables.

    Args:
        scored: rows that are scored; those of the population, which is left out of itself, among them.
        released: of the release.
        reference: of the population; at most `MAX_REFERENCE` of them serve for distances.
        owners: number of the person of each row of all tables, or of the row itself: never compared with itself.
    """

    scored: Ints
    released: Ints
    reference: Ints
    owners: Ints


def score_table(tables: Tables, rows: Rows, seed: int) -> dict[str, Floats]:
    """Return every score of the rows ``[n]``; larger means more like a row that the generator saw."""
    codes = Codes.fit(tables.columns, rows.reference)
    near = sample_rows(rows.reference, MAX_REFERENCE, seed, "reference")
    ratio, counts = compare_values(tables, rows)
    by_rank = _score_by_rank(codes, rows, near, tables.columns)
    by_deviation = score_by_deviation(codes, rows, near)
    scores = {
        "nearest": by_rank["nearest"],
        "nearest-z": by_deviation["nearest"],
        "nearest-ratio": by_deviation["ratio"],
        "nearest-ratio-rank": by_rank["ratio"],
        "density-ratio": by_rank["density"],
        "influence": by_deviation["influence"],
        "cells": _score_cells(tables.columns, rows, seed),
        "classifier": _score_classifier(codes, rows, near, seed),
        "values": count_copied_values(tables.columns, rows),
        "value-sets": count_copied_sets(tables.columns, rows, seed),
        "value-ratio": ratio,
        "value-counts": counts,
        "value-density": by_rank["values"],
    }
    return {name: score for name, score in scores.items() if np.ptp(score) > 0}


def sample_rows(rows: Ints, maximum: int, seed: int, purpose: str) -> Ints:
    """Return at most so many of the rows, in their order."""
    if len(rows) <= maximum:
        return rows
    return rows[np.sort(seeds.generator(seed, "synthetic", purpose).permutation(len(rows))[:maximum])]


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Columns as coordinates; a mismatch of two categories costs 1 in either space.

    Args:
        ranks: mid-ranks of numbers in the population, in [0, 1] within its range ``[n, p]``; distances are L1.
        deviations: numbers in standard deviations of the population ``[n, p]``; distances are L2.
        categories: codes of categories, and whether a number is missing ``[n, q]``.
    """

    ranks: Floats
    deviations: Floats
    categories: Ints

    @classmethod
    def fit(cls, columns: Sequence[TableColumn], reference: Ints) -> Codes:
        """Learn ranks, means and deviations from the population; columns that are constant there stay out."""
        n = len(columns[0].codes)
        ranks: list[Floats] = [np.empty((n, 0))]
        deviations: list[Floats] = [np.empty((n, 0))]
        categories = [np.empty((n, 0), dtype=np.int64)]
        for column in columns:
            if column.numbers is None:
                categories.append(column.codes[:, None])
                continue
            missing = np.isnan(column.numbers)
            if missing.any():
                categories.append(missing.astype(np.int64)[:, None])
            known = column.numbers[reference[~missing[reference]]]
            with np.errstate(over="ignore"):  # of numbers next to the largest, whose deviations are then 0
                spread = float(known.std()) if len(known) else 0.0
            if not spread > 0:
                categories.append(column.codes[:, None])  # a value that the population never has is a mismatch
                continue
            filled = np.where(missing, np.median(known), column.numbers)
            ranks.append(_rank_within(filled, known)[:, None])
            deviations.append(np.clip((filled - known.mean()) / spread, -_FURTHEST, _FURTHEST)[:, None])
        return cls(np.hstack(ranks), np.hstack(deviations), np.hstack(categories))

    def blocks(self, rows: Ints, others: Ints, space: str) -> Iterator[tuple[slice, Floats]]:
        """Yield places among ``rows`` and their distances to all ``others``; squared ones in standard deviations."""
        by_rank = space == "rank"
        values = self.ranks if by_rank else self.deviations
        other_values = values[others]
        frequent, rare = _indicate_values(self.categories, rows, others)
        for start in range(0, len(rows), _BLOCK):
            place = slice(start, min(start + _BLOCK, len(rows)))
            if by_rank and values.shape[1]:
                distances = distance.cdist(values[rows[place]], other_values, "cityblock")
            else:
                distances = _squared_distances(values[rows[place]], other_values)
            # Every column of categories in which two rows differ counts 1: all of them, less those that agree.
            if self.categories.shape[1]:
                distances += self.categories.shape[1]
            if frequent[0].shape[1]:
                distances -= frequent[0][place] @ frequent[1]
            if rare[0].shape[1]:
                agreements = (rare[0][place] @ rare[1]).tocoo()
                distances[agreements.row, agreements.col] -= agreements.data
            yield place, distances


def _squared_distances(values: Floats, others: Floats) -> Floats:
    """Return all squared Euclidean distances by a product of matrices, which is several times faster than cdist."""
    distances = values @ (-2 * others.T)
    distances += (others**2).sum(axis=1)
    distances += (values**2).sum(axis=1)[:, None]
    return np.maximum(distances, 0, out=distances)


def _indicate_values(
    categories: Ints, rows: Ints, others: Ints
) -> tuple[tuple[Floats, Floats], tuple[sparse.csr_array, sparse.csr_array]]:
    """Return indicators of the values of categories, of rows ``[n, w]`` and of others ``[w, m]``, twice.

    Their product counts the columns in which two rows agree: in a frequent value by a dense product, in a rarer one
    by a sparse one. A value that others do not have agrees with none.
    """
    row_parts, other_parts = [np.empty((len(rows), 0))], [np.empty((len(others), 0))]
    rare = [(sparse.csr_array((len(rows), 0)), sparse.csr_array((0, len(others))))]
    for column in categories.T:
        values, counts = np.unique(column[others], return_counts=True)
        frequent = values[np.argsort(-counts, kind="stable")][:_MAX_INDICATED]
        row_parts.append(column[rows][:, None] == frequent)
        other_parts.append(column[others][:, None] == frequent)
        if len(values) > len(frequent):
            rare.append(_one_hot(column, rows, others, ~np.isin(column[rows], frequent)))
    dense = np.hstack(row_parts).astype(np.float32), np.ascontiguousarray(np.hstack(other_parts).T, dtype=np.float32)
    return dense, (sparse.hstack([a for a, _ in rare]).tocsr(), sparse.vstack([b for _, b in rare]).tocsr())


def _one_hot(codes: Ints, rows: Ints, others: Ints, is_compared: Bools) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return indicators of the values of some rows ``[n, w]`` and of others ``[w, m]``, where ``is_compared``."""
    values, numbers = np.unique(codes[others], return_inverse=True)
    places = np.minimum(np.searchsorted(values, codes[rows]), len(values) - 1)
    has_value = np.flatnonzero(is_compared & (values[places] == codes[rows]))
    ones = np.ones(max(len(rows), len(others)), dtype=np.float32)
    return (
        sparse.csr_array((ones[: len(has_value)], (has_value, places[has_value])), shape=(len(rows), len(values))),
        sparse.csr_array((ones[: len(others)], (numbers, np.arange(len(others)))), shape=(len(values), len(others))),
    )


def _rank_within(values: Floats, known: Floats) -> Floats:
    """Return the share of ``known`` below each value, ties by half; beyond the range, as far as the range is wide."""
    support, counts = np.unique(known, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / len(known)
    inside = np.interp(values, support, middle)
    width = support[-1] - support[0]
    beyond = np.maximum(values - support[-1], 0) / width - np.maximum(support[0] - values, 0) / width
    return inside + np.clip(beyond, -_FURTHEST, _FURTHEST)


def _median_nearest_distance(codes: Codes, near: Ints, owners: Ints, space: str) -> float:
    """Return the median distance of a row of the population to its nearest; where that is 0, a tenth of a usual one."""
    nearest, all_distances = [], []
    sample = near[:_MAX_SPACING]
    for place, distances in codes.blocks(sample, near, space):
        distances[owners[sample[place]][:, None] == owners[near]] = np.inf
        nearest.append(distances.min(axis=1))
        all_distances.append(distances[:: max(1, len(distances) // 50)].ravel())
    median = float(np.median(np.concatenate(nearest)))
    if median == 0:
        sampled = np.concatenate(all_distances)
        positive = sampled[(sampled > 0) & np.isfinite(sampled)]
        median = float(np.median(positive)) * (0.1 if space == "rank" else 0.01) if len(positive) else 1.0
    if not np.isfinite(median):
        return 1.0  # one person is the whole population
    return median if space == "rank" else float(np.sqrt(median))


def _leave_owners_out(distances: Floats, rows: Rows, place: slice, others: Ints) -> None:
    """Set the distances of a row to itself, and to rows of the same person, to infinity."""
    owners = rows.owners[rows.scored[place]]
    distances[owners[:, None] == rows.owners[others]] = np.inf


@dataclass(frozen=True, slots=True, eq=False)
class _Surroundings:
    """What is near each row ``[n]`` in the release, or in the population.

    Args:
        nearest: distance to the nearest row.
        log_distance: mean log distance to the nearest and the third nearest row.
        log_density: log of the mean kernel.
        log_values: log of the mean kernel of rows with the same value, summed over columns in which the value is rare.
    """

    nearest: Floats
    log_distance: Floats
    log_density: Floats
    log_values: Floats


def _score_by_rank(codes: Codes, rows: Rows, near: Ints, columns: Sequence[TableColumn]) -> dict[str, Floats]:
    usual = _median_nearest_distance(codes, near, rows.owners, "rank")
    is_rare = [
        (count_equal(column.codes, near, rows.scored) <= _RARE * len(near)) & (column.codes[rows.scored] != MISSING)
        for column in columns
    ]
    floor = _EMPTY / len(near)
    released = _measure_surroundings(codes, rows, rows.released, columns, is_rare, usual, floor)
    population = _measure_surroundings(codes, rows, near, columns, is_rare, usual, floor)
    return {
        "nearest": -released.nearest,
        "ratio": population.log_distance - released.log_distance,
        "density": released.log_density - population.log_density,
        "values": released.log_values - population.log_values,
    }


def _measure_surroundings(
    codes: Codes, rows: Rows, others: Ints, columns: Sequence[TableColumn], is_rare: Sequence[Bools], usual: float,
    floor: float,
) -> _Surroundings:  # fmt: skip
    """Measure what is near the scored rows among others, without rows of the same person.

    Args:
        codes: coordinates of all rows.
        rows: of which those that are scored.
        others: rows of the release or of the population.
        columns: whose values are looked for.
        is_rare: of each column, in which rows its value is rare ``[n]``.
        usual: distance between neighbours.
        floor: density of a rare value where no row has it.
    """
    n = len(rows.scored)
    nearest, log_distance, log_density, log_values = np.empty(n), np.empty(n), np.empty(n), np.zeros(n)
    indicators = [
        _one_hot(column.codes, rows.scored, others, rare) for column, rare in zip(columns, is_rare, strict=True)
    ]
    for place, distances in codes.blocks(rows.scored, others, "rank"):
        _leave_owners_out(distances, rows, place, others)
        closest = np.partition(distances, (0, 2), axis=1)[:, [0, 2]]
        nearest[place] = closest[:, 0]
        log_distance[place] = np.log(np.minimum(closest, _MAX_DISTANCE) + _NEAR * usual).mean(axis=1)
        for (row_values, other_values), rare in zip(indicators, is_rare, strict=True):
            pairs = (row_values[place] @ other_values).nonzero()  # of rows that share the value
            kernels = np.exp(-_DECAY / (_WIDTH * usual) * distances[pairs])
            density = np.bincount(pairs[0], kernels, minlength=len(distances)) / len(others)
            log_values[place] += np.where(rare[place], np.log(density + floor), 0)
        np.exp(np.multiply(distances, -_DECAY / usual, out=distances), out=distances)
        with np.errstate(divide="ignore"):
            log_density[place] = np.maximum(np.log(distances.mean(axis=1)), _FLOOR)
    return _Surroundings(nearest, log_distance, log_density, log_values)


def score_by_deviation(codes: Codes, rows: Rows, near: Ints, *, with_influence: bool = True) -> dict[str, Floats]:
    """Return nearest distance, ratio of nearest distances and influence, in standard deviations.

    Influence is the generator-likelihood ratio in closed form (Gen-LRA with a kernel density on the population that
    needs no refit for each row and no covariance, which mixed columns make singular).
    """
    usual = _median_nearest_distance(codes, near, rows.owners, "deviation")
    n = len(rows.scored)
    to_released, to_population, influence = np.empty(n), np.empty(n), np.zeros(n)
    density = np.zeros(len(rows.released))
    for place, distances in codes.blocks(rows.released, near, "deviation") if with_influence else ():
        kernels = np.exp(np.multiply(distances, -_DECAY / usual**2, out=distances), out=distances)
        density[place] = kernels.sum(axis=1)
    is_reference = np.isin(rows.scored, near)
    for place, distances in codes.blocks(rows.scored, rows.released, "deviation"):
        to_released[place] = np.sqrt(np.maximum(distances.min(axis=1), 0))
        if with_influence:
            kernels = np.exp(np.multiply(distances, -_DECAY / usual**2, out=distances), out=distances)
            own = np.where(is_reference[place][:, None], kernels, 0.0)  # a row of the population is left out of it
            kernels /= np.maximum(density - own, 0) + np.exp(_FLOOR)
            influence[place] = np.log1p(kernels, out=kernels).sum(axis=1)
    for place, distances in codes.blocks(rows.scored, near, "deviation"):
        _leave_owners_out(distances, rows, place, near)
        to_population[place] = np.minimum(np.sqrt(np.maximum(distances.min(axis=1), 0)), _MAX_DISTANCE)
    ratio = np.log(to_population + _NEAR * usual) - np.log(to_released + _NEAR * usual)
    return {"nearest": -to_released, "ratio": ratio, "influence": influence}


def _score_cells(columns: Sequence[TableColumn], rows: Rows, seed: int) -> Floats:
    """Return the mean log ratio of counts in cells of two and three columns.

    A row of the population does not count itself.
    """
    bins = [_bin(column, rows.reference) for column in columns]
    in_reference = np.isin(rows.scored, rows.reference).astype(float)
    total, sets = np.zeros(len(rows.scored)), []
    for size in (2, 3):
        sets += sample_column_sets(len(columns), [size], _MAX_CELLS, seed, "cells", size)
    for chosen in sets:
        cells = combine_columns([bins[i] for i in chosen])
        released = count_equal(cells, rows.released, rows.scored)
        reference = count_equal(cells, rows.reference, rows.scored) - in_reference
        total += np.log((released + 0.5) / (len(rows.released) + 1))
        total -= np.log((reference + 0.5) / (len(rows.reference) - in_reference + 1))
    return total / max(1, len(sets))


def _bin(column: TableColumn, reference: Ints) -> Ints:
    """Return sixths of the population, or its most frequent categories; others and missing values have their own."""
    if column.numbers is not None and np.isfinite(column.numbers[reference]).any():
        known = column.numbers[reference[np.isfinite(column.numbers[reference])]]
        edges = np.unique(np.quantile(known, np.arange(1, _BINS) / _BINS))
        return np.where(np.isnan(column.numbers), 0, 1 + np.searchsorted(edges, np.nan_to_num(column.numbers), "right"))
    values, counts = np.unique(column.codes[reference], return_counts=True)
    frequent = values[np.argsort(-counts, kind="stable")][:_MAX_CATEGORIES]
    numbers = np.zeros(int(column.codes.max()) - MISSING + 1, dtype=np.int64)
    numbers[frequent - MISSING] = np.arange(1, len(frequent) + 1)
    return numbers[column.codes - MISSING]


def _score_classifier(codes: Codes, rows: Rows, near: Ints, seed: int) -> Floats:
    """Return how like the release a forest finds a row; of rows it learned from, by the trees that did not."""
    features = np.hstack([codes.deviations, codes.categories]).astype(np.float32)
    learned = np.concatenate([rows.released, near])
    is_released = np.arange(len(learned)) < len(rows.released)
    random_state = seeds.derive_seed(seed, "synthetic", "forest")
    forest = ensemble.RandomForestClassifier(
        _TREES, min_samples_leaf=_LEAF, class_weight="balanced", oob_score=True,
        max_samples=min(1.0, _ROWS_PER_TREE / len(learned)), random_state=random_state,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of rows that every tree learned from
        forest.fit(features[learned], is_released)
    score = forest.predict_proba(features[rows.scored])[:, 1]
    places = {row: place for place, row in enumerate(learned.tolist())}
    own = np.array([places.get(row, -1) for row in rows.scored.tolist()])
    score[own >= 0] = np.nan_to_num(forest.oob_decision_function_[own[own >= 0], 1], nan=0.5)
    return score


def count_copied_values(columns: Sequence[TableColumn], rows: Rows) -> Floats:
    """Return in how many columns a row's exact value stands in the release, and in the population with nobody else."""
    return np.sum([_is_copied(column.codes, rows) & (column.codes[rows.scored] != MISSING) for column in columns],
                  axis=0).astype(float)  # fmt: skip


def count_copied_sets(columns: Sequence[TableColumn], rows: Rows, seed: int) -> Floats:
    """Return the same for pairs and triples of columns."""
    sets = sample_column_sets(len(columns), [2], _MAX_PAIRS, seed, "pairs", 2)
    sets += sample_column_sets(len(columns), [3], _MAX_TRIPLES, seed, "triples", 3)
    total = np.zeros(len(rows.scored))
    for chosen in sets:
        total += _is_copied(combine_columns([columns[i].codes + 1 for i in chosen]), rows)
    return total


def compare_values(tables: Tables, rows: Rows) -> tuple[Floats, Floats]:
    """Return log-likelihood ratios of the values of each row being in the release, and of how often they are.

    A generator that draws each value from a donor gives a member's values on as often as the release has rows for each
    member, beside those that equal ones of others give. Both are Poisson counts; `_is_copied` knows only values that
    nobody else has.
    """
    copies_per_member = len(rows.released) / tables.sizes["members"]
    own = np.isin(rows.scored, rows.reference)
    ratio, counts = np.zeros(len(rows.scored)), np.zeros(len(rows.scored))
    for column in tables.columns:
        released = count_equal(column.codes, rows.released, rows.scored)
        others = count_equal(column.codes, rows.reference, rows.scored) - own
        by_others = len(rows.released) * (others + 0.5) / (len(rows.reference) + 1)
        present = np.log(np.expm1(-copies_per_member - by_others) / np.expm1(-by_others))
        ratio += np.where(released > 0, present, -copies_per_member)
        counts += released * np.log1p(copies_per_member / by_others) - copies_per_member
    return ratio, counts


def _is_copied(codes: Ints, rows: Rows) -> Bools:
    """Check which rows have a code that stands in the release, and in the population with nobody else."""
    is_released = count_equal(codes, rows.released, rows.scored) > 0
    # How many persons of the population have the code, and whether the row's own person is one of them.
    owned = np.c_[codes[rows.reference], rows.owners[rows.reference]]
    one_per_person = rows.reference[np.unique(owned, axis=0, return_index=True)[1]]
    persons = count_equal(codes, one_per_person, rows.scored)
    own = np.isin(rows.owners[rows.scored], rows.owners[rows.reference])
    return is_released & (persons - own == 0)


def count_equal(codes: Ints, among: Ints, at: Ints) -> Ints:
    """Return how many rows ``among`` have the code of each row ``at``; codes are numbered through from `MISSING`."""
    counts = np.bincount(codes[among] - MISSING, minlength=int(codes.max()) - MISSING + 1)
    return counts[codes[at] - MISSING]


def sample_column_sets(
    n: int, sizes: Sequence[int], maximum: int, seed: int, *purpose: str | int
) -> list[tuple[int, ...]]:
    """Return at most so many of the sets of n columns that have one of the sizes, in their order."""
    sets = [chosen for size in sizes for chosen in combinations(range(n), size)]
    if len(sets) <= maximum:
        return sets
    chosen = np.sort(seeds.generator(seed, "synthetic", *purpose).permutation(len(sets))[:maximum])
    return [sets[i] for i in chosen]


def combine_columns(parts: Sequence[Ints]) -> Ints:
    """Return one number for each combination of codes that are 0 or more."""
    joined = parts[0]
    for part in parts[1:]:
        joined = joined * (int(part.max()) + 1) + part
    return np.unique(joined, return_inverse=True)[1]


def combine_scores(scores: Mapping[str, Floats], is_candidate: Bools, seed: int, *, equally: bool = False) -> Floats:
    """Return one score of all, weighed without labels: those count in which more rows stand out than by chance.

    Of each score, a row's conformal p-value among the rows of the population, ties by half; its weight is the square of
    the share of all candidates with p ≤ .05 (ties at random), less .05. Members and non-members enter alike, so a
    release that depends on neither gives both the same distribution.

    Args:
        scores: score → ``[n]`` of candidates and of rows of the population.
        is_candidate: bool ``[n]``.
        seed: of the order of ties.
        equally: weigh all scores alike.
    """
    weights, evidence = [], []
    for name, score in scores.items():
        null = np.sort(score[~is_candidate])
        below, upto = np.searchsorted(null, score, "left"), np.searchsorted(null, score, "right")
        ties = seeds.generator(seed, "synthetic", "ties", name).random(len(score))
        p_values = (len(null) - upto + ties * (upto - below + 1)) / (len(null) + 1)
        weights.append(max(0.0, float((p_values[is_candidate] <= 0.05).mean()) - 0.05) ** 2)
        middle = (len(null) - upto + 0.5 * (upto - below + 1)) / (len(null) + 1)
        evidence.append(-special.ndtri(middle))
    if equally or (~is_candidate).sum() < _MIN_NULL or not any(weights):
        weights = [1.0] * len(weights)
    return np.asarray(weights) @ np.asarray(evidence)


def person_maxima(score: Array, people: Ints) -> Floats:
    """Return the largest score of each person's rows, in the order of their numbers."""
    largest = np.full(int(people.max()) + 1, -np.inf)
    np.maximum.at(largest, people, score)
    return largest
