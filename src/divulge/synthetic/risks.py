"""Singling out, linkability and inference, the three risks of the European guidelines, through a release.

Each is a rate among members beside the same rate among non-members: what succeeds as often on people who were not in
the table is no risk of having been in it. A guess of a column is right if it names the value (a number, within a tenth
of a standard deviation); that a value is a rare one is no guess of it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy, seeds, statistics
from divulge.synthetic.preparation import MISSING
from divulge.synthetic.scores import Codes, combine_columns, count_equal, sample_column_sets, sample_rows
from divulge.types import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sklearn import ensemble

    from divulge.synthetic.preparation import TableColumn, Tables
    from divulge.synthetic.scores import Rows
    from divulge.types import Bools, Floats, Ints
else:
    ensemble = lazy.module("sklearn.ensemble")

SINGLING_OUT, LINKABILITY = "singling out", "linkability"
MAX_ATTRIBUTES = 8
_MAX_RECORDS = 2_000  # of a side
_MAX_SETS = 60  # of columns, in which rows are singled out
_MAX_LEARNED = 2_000  # rows that guesses of a column are learned from
_TREES = 40  # of a forest that guesses a column
_LEAF = 2  # rows of a leaf at least
_MAX_CLASSES = 30  # values of a column that a forest learns
_NEAR = 0.1  # standard deviations within which a guessed number is right
_NEAREST_OF = {"release": "released", "population": "population"}


@dataclass(frozen=True, slots=True)
class Risk:
    """Success of one attack on members and on non-members.

    Args:
        name: "singling out", "linkability", or "inference of" a column.
        guess: what guesses.
        members: rate of success.
        nonmembers: the same.
        difference: of the two.
        gain: of an inference, how much more often it is right on members than the same ways of guessing from the
            population; else None.
    """

    name: str
    guess: str
    members: Estimate
    nonmembers: Estimate
    difference: Estimate
    gain: Estimate | None = None


def measure_risks(
    tables: Tables, rows: Rows, members: Ints, nonmembers: Ints, attributes: Sequence[str], seed: int, confidence: float
) -> tuple[Risk, ...]:
    """Measure all three risks; the differences hold together with this confidence.

    Args:
        tables: all sets.
        rows: as they are scored.
        members: places of rows, one for each person.
        nonmembers: the same.
        attributes: columns that are inferred.
        seed: of draws and forests.
        confidence: of all differences together.
    """
    count = min(len(members), len(nonmembers), _MAX_RECORDS)  # in a larger table fewer rows are unique
    sides = sample_rows(members, count, seed, "risk of members"), sample_rows(nonmembers, count, seed, "risk of others")
    error = (1 - confidence) / (2 + len(attributes))
    singled_out = [_single_out(tables.columns, rows, side, seed) for side in sides]
    linked = [_link(tables.columns, rows, side) for side in sides]
    risks = [
        _compare(SINGLING_OUT, "values of a released row", *singled_out, 1 - error),
        _compare(LINKABILITY, "nearest released row", *linked, 1 - error),
    ]
    for name in attributes:
        risks += _infer(tables, rows, name, sides, seed, 1 - error)
    return tuple(risks)


def _compare(name: str, guess: str, inside: Bools, outside: Bools, confidence: float) -> Risk:
    counts = int(inside.sum()), len(inside), int(outside.sum()), len(outside)
    return Risk(
        name,
        guess,
        statistics.proportion(*counts[:2], confidence),
        statistics.proportion(*counts[2:], confidence),
        statistics.rate_difference(*counts, confidence),
    )


def _single_out(columns: Sequence[TableColumn], rows: Rows, side: Ints, seed: int) -> Bools:
    """Check which rows are the only ones of their side that have some values of a released row together.

    Values in one, two or three columns that one released row alone has are the predicate.
    """
    is_single = np.zeros(len(side), dtype=bool)
    for chosen in sample_column_sets(len(columns), (1, 2, 3), _MAX_SETS, seed, "single"):
        codes = combine_columns([columns[i].codes + 1 for i in chosen])
        is_single |= (count_equal(codes, rows.released, side) == 1) & (count_equal(codes, side, side) == 1)
    return is_single


def _link(columns: Sequence[TableColumn], rows: Rows, side: Ints) -> Bools:
    """Check of which rows the nearest released row is the same by either half of the columns."""
    if len(columns) < 2:
        return np.zeros(len(side), dtype=bool)
    nearest = []
    for half in (columns[::2], columns[1::2]):
        codes = Codes.fit(half, rows.reference)
        nearest.append(np.concatenate([d.argmin(axis=1) for _, d in codes.blocks(side, rows.released, "rank")]))
    return nearest[0] == nearest[1]


def _infer(tables: Tables, rows: Rows, name: str, sides: tuple[Ints, Ints], seed: int, confidence: float) -> list[Risk]:
    """Guess a column from the others through the release, and from the population alone for comparison.

    Either way a forest guesses, and the row that is nearest in the other columns. Of both, that one counts which is
    right more often, on members and non-members together.
    """
    column = next(each for each in tables.columns if each.name == name)
    others = [each for each in tables.columns if each.name != name]
    codes = Codes.fit(others, rows.reference)
    features = np.hstack([codes.ranks, codes.categories]).astype(np.float32)
    truth, is_learnable, tolerance = _targets(column, rows)
    side = np.concatenate(sides)
    side = side[column.codes[side] != MISSING]
    is_member = np.isin(side, sides[0])
    known = {
        source: sample_rows(each[column.codes[each] != MISSING], _MAX_LEARNED, seed, source)
        for source, each in (("release", rows.released), ("population", rows.reference))
    }
    if not (is_member.any() and (~is_member).any() and all(len(each) for each in known.values())):
        return []
    best: dict[str, tuple[str, Bools]] = {}
    for source, each in known.items():
        nearest = np.concatenate([d.argmin(axis=1) for _, d in codes.blocks(side, each, "rank")])
        guesses = {
            f"forest on the {source}": _guess(features, truth, each[is_learnable[each]], side, tolerance, seed),
            f"nearest {_NEAREST_OF[source]} row": truth[each[nearest]],
        }
        is_right = {guess: np.abs(values - truth[side]) <= tolerance for guess, values in guesses.items()}
        best[source] = max(is_right.items(), key=lambda item: int(item[1].sum()))
    (guess, right), (_, imputed) = best["release"], best["population"]
    risk = _compare(f"inference of {name}", guess, right[is_member], right[~is_member], confidence)
    gain = statistics.paired_rate_difference(right[is_member], imputed[is_member], confidence)
    return [replace(risk, gain=gain)]


def _targets(column: TableColumn, rows: Rows) -> tuple[Floats, Bools, float]:
    """Return what is to be guessed, from which rows a forest can learn it, and how near a guess must be.

    Numbers of many values are guessed within a tolerance, all else exactly. A forest learns the values that are most
    frequent in the population and guesses no other, so a record of a rare value is right only where the nearest row
    has that very value. One class of all rare values would be guessed right by whoever says "another".
    """
    values, counts = np.unique(column.codes[rows.reference], return_counts=True)
    if column.numbers is not None and len(values) > _MAX_CLASSES:
        known = column.numbers[rows.reference]
        low, high = np.nanmin(known), np.nanmax(known)
        numbers = np.clip(column.numbers, 2 * low - high, 2 * high - low)
        return numbers, np.ones(len(numbers), dtype=bool), _NEAR * float(np.nanstd(known))
    frequent = values[np.argsort(-counts, kind="stable")][:_MAX_CLASSES]
    return column.codes.astype(float), np.isin(column.codes, frequent), 0.0


def _guess(features: Floats, truth: Floats, learned: Ints, side: Ints, tolerance: float, seed: int) -> Floats:
    """Return what a forest that learns from some rows guesses of others; NaN where there is nothing to learn from."""
    if not len(learned):
        return np.full(len(side), np.nan)
    model: Any = ensemble.RandomForestRegressor if tolerance else ensemble.RandomForestClassifier
    options = {"min_samples_leaf": _LEAF, "random_state": seeds.derive_seed(seed, "synthetic", "inference")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # where few rows are left of each value, few guesses are right
        forest = model(_TREES, **options).fit(features[learned], truth[learned])
    return forest.predict(features[side])
