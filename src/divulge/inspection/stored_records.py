"""Search of a model's arrays for candidate rows: as they are, as its own pipeline scales them, up to an affine map.

Whether a match is chance is decided by the non-members. Had the array nothing to do with which candidates are members,
then of all distinct rows that match it, members would be no more than drawn blindly: Fisher's exact test bounds the
chance that they are, whatever the array holds, however few values the columns have, and however the map was searched
for, as the search never reads who is a member. The bound is divided by the number of searches (Bonferroni).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import spatial, stats

from divulge import lazy, seeds, store
from divulge.errors import InputError
from divulge.inspection.arrays import MAX_VALUES, ModelArray, collect_arrays, read_model
from divulge.results import FALSE_MATCH, SUSPICION, ArrayMatch, Form, StoredRecords
from divulge.targets.estimators import SklearnRegressor, SklearnTarget, direct_parts, estimator_inputs
from divulge.targets.rights import FramedTarget
from divulge.validation import check_mask, check_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sklearn import utils as sklearn_utils

    from divulge.types import Array, Bools, Floats, Ints, Records
else:
    sklearn_utils = lazy.module("sklearn.utils")

_N_FIRST, _N_SECOND = 250, 2000  # candidates whose pairs may fix an affine map
_TRIALS = 16  # pairs of stored rows that are tried for one
_MOST_AFFINE = 40  # arrays in which a map is looked for, the longest first
_TOLERANCE = {4: 1e-5, 8: 1e-9, 2: 1e-2}  # by the bytes of a stored number, relative to the spread of a column
_MOST_FORMS = 20  # of the records, before and after steps of the model that differ
_MOST_PAIRS = 40_000  # of a record's and an array's columns, beyond which columns are not looked for one by one
_N_VALUES = 500  # of a column, that are looked for in the columns of an array
_LEAST_HITS = 8  # values of a column that stand in one of an array, from which on it may be this column
_AGREEMENT = 0.9  # share of the rows that one column matches in which another must agree
_ANCHORS = 3  # columns that are tried as the first
_LEAST_ROWS = 4  # stored rows from which a map is guessed: two fix it, the others test it


def find_stored_records(
    model: Any,
    records: Records,
    is_member: Bools,
    *,
    seed: int = 0,
    bound: float = FALSE_MATCH,
) -> StoredRecords:
    """Search every array of a model for candidate rows.

    Args:
        model: as for `divulge.inspection.collect_arrays`; a target's own steps transform the records where it has any.
        records: candidates, of numbers; a row of several numbers each.
        is_member: bool ``[n]``, True for the members.
        seed: of the pairs of rows that are tried for an affine map.
        bound: bound on the chance that a match is reported for a model whose arrays do not depend on membership.

    Returns:
        What was found. A record counts if its row stands in an array in which members stand significantly more often
        than non-members. Rows that are both a member's and a non-member's decide nothing.

    Raises:
        divulge.InputError: a mask of another length, a bound outside (0, 1).

    Examples:
        >>> import divulge as dv
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> x = np.random.default_rng(0).normal(size=(60, 3))
        >>> model = KNeighborsClassifier(3).fit(x[:30], np.arange(30) % 2)
        >>> print(find_stored_records(model, dv.Records(x), np.arange(60) < 30).sentence)
        30 of 30 training records stand in this file.
    """
    check_number(bound, "bound", above=0.0, below=1.0)
    is_member = check_mask(is_member, "is_member", (len(records),))
    arrays = collect_arrays(model)
    empty = StoredRecords(0, int(is_member.sum()), 0, int((~is_member).sum()), (), 0, len(arrays), bound=bound)
    if not arrays:
        return replace(empty, not_searched=("the model shows no arrays",))
    if records.x.dtype == object or not is_member.any() or is_member.all():
        return replace(empty, not_searched=("the records are texts, or of one side alone",))
    notes = [f"{a.name} has more than {MAX_VALUES:,} values" for a in arrays if a.values.size > MAX_VALUES]
    searchable = [a for a in arrays if 0 < a.values.size <= MAX_VALUES]
    matches: list[tuple[ArrayMatch, Bools]] = []
    searches = 0
    forms, form_notes = _record_forms(model, records)
    coarse = _tolerance(np.asarray(records.x))
    for form, rows in forms:
        for array in searchable:
            in_place = np.zeros(len(records), dtype=bool)
            for table in _tables(array, rows.shape[1]):
                searches += 1
                found = _match_rows(rows, table, coarse)
                matches.append(_judge(array.name, form, found, rows, is_member))
                in_place |= found
            for table in _column_tables(array, rows.shape[1]):
                searches += 1
                found, n_columns = _match_columns(rows, table, coarse)
                if (found & ~in_place).any():
                    match, _ = _judge(array.name, form, found, rows, is_member)
                    n_varying = int((np.ptp(rows, axis=0) > 0).sum())
                    matches.append((replace(match, columns=n_columns, width=n_varying), found))
    plain = forms[0][1]
    mappable = [
        (array.name, table)
        for array in searchable
        for table in _tables(array, plain.shape[1], flat=False)
        if len(table) >= _LEAST_ROWS
    ]
    mappable.sort(key=lambda pair: -len(pair[1]))
    if len(mappable) > _MOST_AFFINE:
        notes.append(f"a scale and shift was looked for in {_MOST_AFFINE} of {len(mappable)} arrays")
    for name, table in mappable[:_MOST_AFFINE]:
        searches += 1
        found = _match_affine(plain, table, seeds.generator(seed, "stored records", name), coarse)
        matches.append(_judge(name, "up to a scale and shift of each column", found, plain, is_member))
    unlikely = [match.members for match, _ in matches if match.p_value * searches <= SUSPICION]
    proven = [(match, rows) for match, rows in matches if match.p_value * searches <= bound]
    proven.sort(key=lambda pair: -pair[0].members)
    any_row = np.logical_or.reduce([rows for _, rows in proven]) if proven else np.zeros(len(records), dtype=bool)
    return replace(
        empty,
        found=int((any_row & is_member).sum()),
        nonmembers_found=int((any_row & ~is_member).sum()),
        matches=tuple(match for match, _ in proven),
        suspected=0 if proven else max(unlikely, default=0),
        searches=searches,
        not_searched=(*notes, *form_notes),
    )


def _judge(name: str, form: Form, found: Bools, rows: Floats, is_member: Bools) -> tuple[ArrayMatch, Bools]:
    """Test whether members stand in an array more often than non-members; each distinct row counts once."""
    p_value = 1.0
    if found.any():
        _, first, groups = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        groups = groups.ravel()
        sides = np.zeros((len(first), 2), dtype=bool)
        sides[groups, is_member.astype(int)] = True
        decides = sides[:, 0] != sides[:, 1]
        member_rows, found_rows = sides[decides, 1], found[first][decides]
        if found_rows.any():
            both = int((member_rows & found_rows).sum())
            law = stats.hypergeom(len(member_rows), int(member_rows.sum()), int(found_rows.sum()))
            p_value = float(law.sf(both - 1))
    counts = int((found & is_member).sum()), int((found & ~is_member).sum())
    return ArrayMatch(name, form, *counts, p_value), found


def _record_forms(model: Any, records: Records) -> tuple[list[tuple[Form, Floats]], list[str]]:
    """Return the candidates as they are, as the model is given them, and after each step of its own pipelines."""
    plain = np.asarray(records.x, dtype=np.float64).reshape(len(records), -1)
    forms: list[tuple[Form, Floats]] = [("as they are", plain)]
    target = model.target if isinstance(model, FramedTarget) else model
    if isinstance(target, SklearnTarget | SklearnRegressor):
        estimator, inputs = target.estimator, target.model_inputs(records.copy())
    else:
        is_file = isinstance(target, str | Path)
        estimator = read_model(Path(target)) if is_file and Path(target).suffix.lower() == ".skops" else target
        if not callable(getattr(estimator, "get_params", None)):
            return forms, []
        try:
            inputs = estimator_inputs(estimator, records.copy())
        except InputError as error:
            return forms, [f"the records are not what the model was fitted on ({error})"]
    if (given := _as_numbers(inputs)) is not None:
        forms.append(("as the model is given them", given))
    notes: list[str] = []
    forms += [("as the model's own steps transform them", rows) for rows in _transform(estimator, inputs, notes)]
    distinct = {store.hash_values(rows): (form, rows) for form, rows in reversed(forms)}
    ordered = list(reversed(distinct.values()))
    if len(ordered) > _MOST_FORMS:
        notes.append(f"{_MOST_FORMS} of {len(ordered)} forms that the model's own steps give the records were searched")
    return ordered[:_MOST_FORMS], list(dict.fromkeys(notes))


def _transform(part: Any, inputs: Any, notes: list[str]) -> Iterator[Floats]:
    """Yield the records after each step of the pipelines in an estimator, each with what it is given."""
    if hasattr(part, "steps"):
        yield from _follow_steps([step for _, step in part.steps if step is not None], inputs, notes)
    elif hasattr(part, "transformers_"):
        for _, transformer, chosen in part.transformers_:
            if not isinstance(transformer, str):
                yield from _select_columns(transformer, chosen, inputs, notes)
    else:
        for inner in direct_parts(part):
            yield from _transform(inner, inputs, notes)


def _follow_steps(steps: Sequence[Any], inputs: Any, notes: list[str]) -> Iterator[Floats]:
    for place, step in enumerate(steps):
        if isinstance(step, str):  # passthrough
            continue
        yield from _transform(step, inputs, notes)
        if place == len(steps) - 1:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                inputs = step.transform(inputs)
        except Exception as error:  # a step of the user's own
            if type(error).__name__ != "NotFittedError":  # as the estimator is that a search holds beside its best
                notes.append(f"{type(step).__name__} does not transform the records ({type(error).__name__})")
            return
        if (rows := _as_numbers(inputs)) is not None:
            yield rows


def _select_columns(transformer: Any, chosen: Any, inputs: Any, notes: list[str]) -> Iterator[Floats]:
    """Yield the columns that a part of a ColumnTransformer is given, and what its own steps make of them."""
    try:
        selected = sklearn_utils._safe_indexing(inputs, chosen, axis=1)
    except Exception as error:  # columns that the records do not have
        notes.append(f"the columns of {type(transformer).__name__} are not found ({type(error).__name__})")
        return
    if (rows := _as_numbers(selected)) is not None:
        yield rows
    yield from _transform(transformer, selected, notes)


def _as_numbers(values: Any) -> Floats | None:
    """Return what a model is given as float64 ``[n, d]``; None where it is no table of numbers."""
    try:
        dense = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
        return np.nan_to_num(dense.astype(np.float64).reshape(len(dense), -1))
    except (ValueError, TypeError):  # texts
        return None


def _tables(array: ModelArray, width: int, *, flat: bool = True) -> Iterator[Array]:
    """Yield an array as tables of rows ``width`` wide, where it can be one."""
    values = array.values
    if values.dtype.kind not in "iuf" or width < 2:
        return
    if values.ndim >= 2:
        if int(np.prod(values.shape[1:])) == width:
            yield values.reshape(len(values), width)
        if values.ndim == 2 and values.shape[0] == width and values.shape[1] != width:
            yield values.T
    elif flat and values.size % width == 0 and values.size >= 2 * width:
        yield values.reshape(-1, width)
        yield values.reshape(width, -1).T


def _column_tables(array: ModelArray, width: int) -> Iterator[Array]:
    """Yield an array as a table of rows some of whose columns may be some of a record's, in any order."""
    values = array.values
    is_table = values.dtype.kind in "iuf" and values.ndim == 2 and len(values) >= _LEAST_ROWS
    if is_table and min(values.shape[1], width) >= 2 and values.shape[1] * width <= _MOST_PAIRS:
        yield values


def _tolerance(values: Array) -> float:
    """Return to which part of a column's spread numbers are exact: by their type, or the one that they were made of."""
    if values.dtype.kind != "f":
        return _TOLERANCE[8]
    finite = values[np.isfinite(values)]
    is_whole = bool((finite == np.round(finite)).all())
    with np.errstate(over="ignore"):
        if values.dtype.itemsize > 4 and not is_whole and (finite == finite.astype(np.float32)).all():
            return _TOLERANCE[4]
    return _TOLERANCE.get(values.dtype.itemsize, _TOLERANCE[8])


def _scale(rows: Floats) -> Floats:
    """Return the unit of each column in which a tolerance is meant.

    The precision of a stored number is relative to its size, which may be large against the spread of its column.
    """
    scale = np.ptp(rows, axis=0)
    largest = np.abs(rows).max(axis=0)
    return np.maximum(np.where(scale > 0, scale, np.maximum(largest, 1.0)), largest * 1e-1)


def _match_rows(rows: Floats, table: Array, coarse: float) -> Bools:
    """Return which of ``rows [n, d]`` stand in ``table [k, d]``, to the precision of the stored numbers."""
    tolerance, relative = max(_tolerance(table), coarse), _scale(rows)
    stored = np.asarray(table, dtype=np.float64)
    stored = stored[np.isfinite(stored).all(axis=1)]
    low, high = rows.min(axis=0) - tolerance * relative, rows.max(axis=0) + tolerance * relative
    stored = stored[((stored >= low) & (stored <= high)).all(axis=1)]
    if not len(stored):
        return np.zeros(len(rows), dtype=bool)
    tree = spatial.KDTree(np.unique(stored / relative, axis=0))
    distances, _ = tree.query(rows / relative, p=np.inf, distance_upper_bound=2 * tolerance)
    return np.isfinite(distances)


def _match_columns(rows: Floats, table: Array, coarse: float) -> tuple[Bools, int]:
    """Return which rows stand in ``table`` by at least two of their columns, in any order, and by how many.

    The column with most values in a column of the table pairs rows with stored rows; other columns must agree on them.
    """
    stored = np.asarray(table, dtype=np.float64)
    stored = stored[np.isfinite(stored).all(axis=1)]
    nothing = np.zeros(len(rows), dtype=bool), 0
    if len(stored) < _LEAST_ROWS:
        return nothing
    tolerance = max(_tolerance(table), coarse)
    margins = 2 * tolerance * _scale(rows)
    varying = np.flatnonzero(np.ptp(rows, axis=0) > 0)
    samples = {c: _sample_values(rows[:, c]) for c in varying}
    ordered = [np.unique(column) for column in stored.T]
    hits = [
        (int((np.abs(values[_nearest(samples[c], values)] - samples[c]) <= margins[c]).sum()), c, s)
        for s, values in enumerate(ordered)
        for c in varying
    ]
    best: tuple[Bools, int] = nothing
    for n_hits, c, s in sorted(hits, key=lambda hit: (-hit[0], hit[1] != hit[2]))[:_ANCHORS]:
        if n_hits < _LEAST_HITS:
            break
        order = np.argsort(stored[:, s], kind="stable")
        nearest = order[_nearest(rows[:, c], stored[order, s])]
        pairs = np.abs(stored[nearest, s] - rows[:, c]) <= margins[c]
        chosen = {c: s}
        for other in varying:
            free = np.setdiff1d(np.arange(stored.shape[1]), list(chosen.values()))
            if other == c or not len(free) or not np.ptp(rows[pairs, other]) > 0:
                continue
            differences = np.abs(stored[nearest[pairs]][:, free] - rows[pairs][:, [other]])
            agreement = (differences <= margins[other]).mean(axis=0)
            if agreement.max() >= _AGREEMENT:
                chosen[int(other)] = int(free[agreement.argmax()])
        if len(chosen) > max(best[1], 1):
            columns, places = list(chosen), list(chosen.values())
            best = _match_rows(rows[:, columns], stored[:, places], tolerance), len(columns)
    return best


def _nearest(values: Floats, ordered: Floats) -> Ints:
    """Return the place of the nearest of some ordered values."""
    above = np.clip(np.searchsorted(ordered, values), 1, max(len(ordered) - 1, 1))
    above = np.minimum(above, len(ordered) - 1)
    below = np.maximum(above - 1, 0)
    return np.where(np.abs(ordered[above] - values) <= np.abs(ordered[below] - values), above, below)


def _sample_values(column: Floats) -> Floats:
    """Return distinct values of a column, spread evenly over all of them where they are many."""
    values = np.unique(column)
    return values[np.linspace(0, len(values) - 1, min(len(values), _N_VALUES)).astype(int)]


def _match_affine(rows: Floats, table: Array, rng: np.random.Generator, coarse: float) -> Bools:
    """Return which rows stand in ``table`` after the map ``a_j x_j + b_j`` of each column that matches most of them.

    Two stored rows are taken for two candidates, which fixes the map; a third tests it, then all.
    """
    best = np.zeros(len(rows), dtype=bool)
    stored = np.asarray(table, dtype=np.float64)
    stored = np.unique(stored[np.isfinite(stored).all(axis=1)], axis=0)
    varies = (np.ptp(rows, axis=0) > 0) & (np.ptp(stored, axis=0) > 0 if len(stored) else False)
    if len(stored) < _LEAST_ROWS or varies.sum() < 2 or (np.ptp(stored, axis=0)[~varies] > 0).any():
        return best
    tolerance = 10 * max(_tolerance(table), coarse)
    distinct = np.unique(rows[:, varies], axis=0)
    columns = sorted(range(distinct.shape[1]), key=lambda j: -len(np.unique(distinct[:, j])))
    for _ in range(_TRIALS):
        order = rng.permutation(len(distinct))
        pairs = distinct[order[:_N_FIRST]], distinct[order[-_N_SECOND:]]
        places = rng.choice(len(stored), 3, replace=False)
        for slope, shift in _fit_maps(pairs, distinct, stored[places][:, varies], columns, tolerance):
            moved = rows.copy()
            moved[:, varies] = rows[:, varies] * slope + shift
            moved[:, ~varies] = stored[0, ~varies]
            found = _match_rows(moved, table, coarse)
            if found.sum() > best.sum():
                best = found
        if best.sum() >= max(3, len(stored) // 2):
            break
    return best if best.sum() > 2 else np.zeros(len(rows), dtype=bool)


def _fit_maps(
    pairs: tuple[Floats, Floats],
    distinct: Floats,
    stored: Floats,
    columns: Sequence[int],
    tolerance: float,
    most: int = 5,
) -> Iterator[tuple[Floats, Floats]]:
    """Yield maps under which two stored rows are two candidates, and a third is another one in every column."""
    (left, right), (first, second, third) = pairs, stored
    p, q = np.divmod(np.arange(len(left) * len(right)), len(right))
    for j in columns:
        gap = left[p, j] - right[q, j]
        wanted = first[j] - second[j]
        fits = (gap != 0) if wanted != 0 else (gap == 0)
        p, q, gap = p[fits], q[fits], gap[fits]
        if not len(p):
            return
        if wanted == 0:
            continue
        # The third row, mapped back to the candidates' own scale, must be a value of the column.
        expected = right[q, j] + (third[j] - second[j]) * gap / wanted
        values = np.unique(distinct[:, j])
        place = np.clip(np.searchsorted(values, expected), 1, max(len(values) - 1, 1))
        nearest = np.minimum(
            np.abs(values[np.minimum(place, len(values) - 1)] - expected), np.abs(values[place - 1] - expected)
        )
        fits = nearest <= tolerance * np.ptp(values)
        p, q = p[fits], q[fits]
    for a, b in list(zip(p, q, strict=True))[:most]:
        gap = left[a] - right[b]
        wanted = first - second
        if (gap == 0).any():
            continue  # the map of a column in which both are alike is not fixed by them
        slope = wanted / gap
        if (slope == 0).any():
            continue
        yield slope, first - slope * left[a]
