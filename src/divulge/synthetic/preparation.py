"""A released table and the sets it is compared with, in common columns, types and precision.

The rows of all four sets stand below one another: the release, members, non-members, population. Each column has codes
that are equal where two values are equal in the precision of the release (a copy that was written as float32 or with
two decimals is a copy), and numbers have values for distances besides.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import numpy as np
import polars as pl
from scipy import sparse, stats

from divulge import columns, seeds, tables
from divulge.errors import InputError
from divulge.precision import ROUNDINGS, Binary, CommonColumn, Grid, NumberColumn, Step
from divulge.report.formatting import format_count
from divulge.synthetic.texts import LENGTHS
from divulge.types import Records
from divulge.validation import check_array, check_string, format_value, is_missing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.columns import Column
    from divulge.types import Array, Floats, Ints

Frame: TypeAlias = "nw.DataFrame[Any]"
SETS = ("released", "members", "nonmembers", "population")
TEXT = "text"
"""Name of the column of texts that come without one."""
MIN_ROWS = 20
"""Of the release, and of the population."""
MISSING = -1
"""Code of a missing value."""
_NEARLY_ALL = 0.98
_HARDLY_ANY = 0.05  # of the release's texts that stand in another table, where these share half of theirs or more
_OTHERWISE = 0.1  # of the release's texts that are new, beyond three times as many as are new in another table
_FOREIGN_LEVEL = 1e-3  # at which a release of few rows has more new texts than another table
_OVERLAP_LEVEL = 1e-3  # at which more rows are shared than equal rows within the sets explain
_MAX_DEALS, _MIN_DEALS = 4_000, 200  # of sets at random
_MAX_DEALT = 200_000_000  # owners and their rows in all deals
_ID_NAME = re.compile(r"(?i)(?:.*[_ .-])?(?:id|ids|uuid|guid|index|key|nr|no|number)")
_MICROSECONDS = 86_400e6  # of a day
_TRUTH_VALUES = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, slots=True, eq=False)
class TableColumn:
    """One column of all four sets.

    Args:
        name: of the column.
        codes: ``[n]``, equal where two values are equal in the precision of the release; `MISSING` where one is absent.
        numbers: ``[n]`` for distances, in the precision of the release, NaN where missing; None for categories.
    """

    name: str
    codes: Ints
    numbers: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """All four sets in common columns.

    Args:
        columns: those that are compared.
        sizes: rows of each set, in the order of `SETS`.
        rows: code of each whole row ``[n]``: equal where all columns are.
        row_parts: name → codes ``[n]`` of the columns that make up a whole row.
        texts: a document for each row ``[n]``; None without a column of documents.
        people: number of the person of each row ``[n]``, -1 in the release; None where each row is a record.
        person_names: by number.
        frames: the sets as they came, for showing rows.
        notes: what was assumed, left out or rounded.
        uncompared: columns that the release writes otherwise than the other tables; whole rows are compared without.
        overlaps: whether sets hold each other's rows, more of them than chance explains.
    """

    columns: tuple[TableColumn, ...]
    sizes: Mapping[str, int]
    rows: Ints
    row_parts: Mapping[str, Ints]
    texts: Array | None
    people: Ints | None
    person_names: tuple[str, ...]
    frames: Mapping[str, Frame]
    notes: tuple[str, ...]
    uncompared: tuple[str, ...] = ()
    overlaps: bool = False

    def rows_of(self, *names: str) -> Ints:
        """Return the places of the rows of some sets."""
        starts = dict(zip(SETS, np.cumsum([0, *self.sizes.values()])[:-1], strict=True))
        return np.concatenate([starts[name] + np.arange(self.sizes[name]) for name in names])


def prepare_tables(
    released: Any,
    members: Any,
    nonmembers: Any,
    population: Any,
    *,
    person: str | None = None,
    text: str | None = None,
    drop: Sequence[str] = (),
    duplicates: str = "error",
    seed: int = 0,
) -> Tables:
    """Read four sets and bring them into common columns, types and precision.

    Args:
        released: the release, or several of one table.
        members: the table that it was made from.
        nonmembers: records of the same kind that were set aside before.
        population: further records of the same kind.
        person: column of members and non-members that names the person of each row.
        text: column of documents.
        drop: columns that are no part of a record.
        duplicates: "error" refuses sets that share more rows than chance explains.
        seed: of the draws by which chance is told.

    Raises:
        divulge.InputError: a set that is missing, too small or another one over again; too few common columns.
    """
    frames: dict[str, Frame] = {}
    notes: list[str] = []
    for name, value in zip(SETS, (released, members, nonmembers, population), strict=True):
        if value is None:
            raise InputError(f"{name}: needed; {_NEEDED[name]}")
        frames[name] = _read_releases(value, notes) if name == "released" else _read_set(value, name)
    for name in ("released", "population"):
        if len(frames[name]) < MIN_ROWS:
            raise InputError(f"{name}: at least {MIN_ROWS} rows are needed, got {len(frames[name])}")
    sizes = {name: len(frame) for name, frame in frames.items()}
    people, person_names = _number_people(frames, person)
    names = _common_names(frames, {*drop} | ({person} if person else set()), notes)
    text = check_string(text, "text") if text is not None else _find_text(frames, names)
    if text is not None and text not in names:
        raise InputError(f"text: no column {text!r} in all four tables; they share {columns.format_names(names)}")
    if len(names) < (1 if text is not None else 2):
        raise InputError(
            f"released: at least 2 columns in common with the other tables are needed, got {len(names)} "
            f"({columns.format_names(frames['released'].columns)} in the release, "
            f"{columns.format_names(frames['population'].columns)} in the population)"
        )
    kept, uncompared = _align_columns(names, text, frames, notes)
    row_parts = {column.name: column.codes for column in kept if column.name not in uncompared}
    if not row_parts:
        why = f"; {columns.format_names(uncompared)} hold other values there than in these" if uncompared else ""
        raise InputError(f"released: no column in common with the other tables can be compared{why}")
    whole_rows = combine_codes([*row_parts.values()])
    compared = tuple(column for column in kept if column.name != text)
    texts = None
    if text is None:
        notes += _note_prose(frames["population"], compared)
    else:
        values = np.concatenate([_read_column(frames[each], text, each).values for each in SETS])
        texts = np.array(["" if value is None else str(value) for value in values], dtype=object)
    result = Tables(
        compared, sizes, whole_rows, row_parts, texts, people, person_names, frames, tuple(notes), tuple(uncompared)
    )
    overlaps = _find_overlaps(result, seed)
    if overlaps and duplicates == "error":
        raise InputError(f'{overlaps[0]} (duplicates="drop" leaves all equal rows out)')
    return replace(result, overlaps=bool(overlaps), notes=(*notes, *overlaps))


_NEEDED = {
    "released": "the table that is to be released",
    "members": "the table that the release was made from",
    "nonmembers": "rows of the same kind that the generator never saw; without them nothing shows what chance does",
    "population": "further rows of the same kind, what an adversary knows; it calibrates every score",
}


def _read_set(value: Any, name: str) -> Frame:
    """Read one table: a file, a data frame, rows of numbers, or texts."""
    if isinstance(value, str | Path):
        return _without_nameless(columns.read_frame(tables.read_table(value, name), name))
    if isinstance(value, Records):
        value = value.table if value.table is not None else value.x
    if columns.is_frame(value):
        return _without_nameless(columns.read_frame(value, name))
    columns.check_numbered_columns(value, name)
    if _are_texts(value):
        return columns.read_frame(pl.DataFrame({TEXT: list(value)}), name)
    array = check_array(value, name, finite=False)
    if array.ndim != 2:
        raise InputError(
            f"{name}: a file, a data frame, rows of numbers or a list of texts is needed, got {format_value(value)}"
        )
    return columns.read_frame(columns.frame_of_array(array, [f"column {i}" for i in range(array.shape[1])]), name)


def _read_column(frame: Frame, name: str, table: str) -> Column:
    """Read one column; errors name its table.

    Texts lose white space around them and have one spelling in Unicode, as programs pad and spell alike texts in
    several ways; a blank text is missing.
    """
    try:
        column = columns.read_column(frame, name)
    except InputError as error:
        raise InputError(f"{table}: {error}") from None
    if column.measure != "category":
        return column
    spelt = {text: unicodedata.normalize("NFC", text).strip() or None for text in {*column.values} - {None}}
    values = np.array([*(spelt.get(text) for text in column.values), None], dtype=object)[:-1]
    return replace(column, values=values, missing=np.array([text is None for text in values], dtype=bool))


def _read_releases(value: Any, notes: list[str]) -> Frame:
    """Read a release, or several of one table, whose rows are then tested together, in their common columns."""
    is_list = isinstance(value, list | tuple) and not _are_texts(value)
    is_list |= isinstance(value, list | tuple) and all(isinstance(v, str) and tables.is_table(Path(v)) for v in value)
    if not is_list:
        return _read_set(value, "released")
    if not value:
        raise InputError("released: at least 1 table is needed, got none")
    parts = [_read_set(each, "released") for each in value]
    common = [name for name in parts[0].columns if all(name in part.columns for part in parts)]
    partial = sorted({name for part in parts for name in part.columns} - set(common))
    if not common:
        raise InputError("released: the releases have no column in common; audit each by itself")
    if partial:
        notes.append(f"not every release has {columns.format_names(partial)}: left out; audit such a release by itself")
    if len(parts) > 1:
        notes.append(f"{len(parts)} releases were tested together, as whoever holds all of them can")
    return columns.concatenate([part.select(common) for part in parts])


def _are_texts(value: Any) -> bool:
    is_sequence = isinstance(value, list | tuple | np.ndarray | pl.Series) or type(value).__name__ == "Series"
    return is_sequence and len(value) > 0 and all(isinstance(each, str) for each in value)


def _without_nameless(frame: Frame) -> Frame:
    return frame.drop(columns.nameless_columns(frame.columns))


def _number_people(frames: Mapping[str, Frame], person: str | None) -> tuple[Ints | None, tuple[str, ...]]:
    """Number the persons of all sets but the release; rows of a population without the column are one person each."""
    if person is None:
        return None, ()
    for name in ("members", "nonmembers"):
        if person not in frames[name].columns:
            raise InputError(
                f"person: {name} have no column {person!r}; they have {columns.format_names(frames[name].columns)}"
            )
    named: dict[str, list[str]] = {}
    for name in SETS[1:]:
        named[name] = _name_people(frames[name], name, person)
    for one, other in (("members", "nonmembers"), ("members", "population"), ("nonmembers", "population")):
        if shared := sorted({*named[one]} & {*named[other]}):
            raise InputError(
                f"person: {format_count(len(shared), 'person')} have rows both in {one} and in {other}, such as "
                f"{shared[0]!r}; all rows of a person belong to one set"
            )
    names, numbers = np.unique([name for part in named.values() for name in part], return_inverse=True)
    return np.concatenate([np.full(len(frames["released"]), -1), numbers]), tuple(names.tolist())


def _name_people(frame: Frame, name: str, person: str) -> list[str]:
    """Return the person of each row; rows of a population without the column are of one person each."""
    if person not in frame.columns:
        return [f"row {row} of the population" for row in range(len(frame))]
    values = frame[person].to_list()
    if missing := sum(is_missing(value) for value in values):
        raise InputError(f"person: {format_count(missing, 'row')} of {name} have no person in column {person!r}")
    return [columns.format_cell(value).strip() for value in values]


def _common_names(frames: Mapping[str, Frame], excluded: set[str], notes: list[str]) -> list[str]:
    """Return the columns that all four sets have, and note those that the release or another set lacks."""
    compared = [name for name in frames["population"].columns if name not in excluded]
    for name in SETS[:3]:
        subject = "the release lacks" if name == "released" else f"{name} lack"
        if lacking := [each for each in compared if each not in frames[name].columns]:
            notes.append(f"{subject} {columns.format_names(lacking)}: left out")
    further = {each for name in SETS[:2] for each in frames[name].columns} - {*compared} - excluded
    if further:
        notes.append(f"the population lacks {columns.format_names(sorted(further))}: left out")
    return [name for name in compared if all(name in frames[each].columns for each in SETS)]


def _find_text(frames: Mapping[str, Frame], names: Sequence[str]) -> str | None:
    """Return the only column where it holds texts; a column of documents beside others is to be named."""
    if len(names) != 1:
        return None
    is_text = columns.read_column(frames["population"], names[0]).measure == "category"
    return names[0] if is_text else None


def _note_prose(population: Frame, compared: Sequence[TableColumn]) -> list[str]:
    """Name the categories that seem to be prose: most are different, and long enough for a passage to be copied."""
    notes = []
    for name in [column.name for column in compared if column.numbers is None]:
        texts = [value for value in _read_column(population, name, "population").values if isinstance(value, str)]
        if 2 * len({*texts}) > len(texts) and np.median([len(text.split()) for text in texts]) >= LENGTHS[-1]:
            notes.append(f"column {name!r} looks like text; give text={name!r} to compare its words")
    return notes


def _align_columns(
    names: Sequence[str], text: str | None, frames: Mapping[str, Frame], notes: list[str]
) -> tuple[list[TableColumn], list[str]]:
    """Return the columns that can be compared, and the names of those without which whole rows are."""
    sizes = {name: len(frame) for name, frame in frames.items()}
    kept: list[TableColumn] = []
    uncompared: list[str] = []
    for name in names:
        parts = [_read_column(frames[each], name, each) for each in SETS]
        if name == text:
            kept.append(_text_codes(parts))
            continue
        column = _align_column(name, parts, notes, uncompared)
        if column is None or _is_row_number(column, sizes, notes):
            continue
        if not _is_written_otherwise(column, sizes, notes, uncompared):
            kept.append(column)
    return kept, uncompared


def _text_codes(parts: Sequence[Column]) -> TableColumn:
    values = np.concatenate([part.values for part in parts])
    return TableColumn(parts[0].name, _number_values([" ".join(str(value or "").split()) or None for value in values]))


def _align_column(name: str, parts: Sequence[Column], notes: list[str], uncompared: list[str]) -> TableColumn | None:
    """Return one column of all sets in one type; None, and a note, where the release holds another kind of values."""
    if parts[0].missing.all() and not all(part.missing.all() for part in parts):
        notes.append(f"column {name!r} is missing throughout the release: left out")
        return None
    parts = [columns.parse_dates(part) for part in parts]
    kinds = {part.measure for part in parts if not part.missing.all()}
    if "category" in kinds and len(kinds) > 1:
        as_numbers = [_to_numbers(part) for part in parts]
        if all(part is not None for part in as_numbers):
            parts = [part for part in as_numbers if part is not None]
        elif parts[3].measure == "category":
            parts = [_to_texts(part) for part in parts]
        else:
            notes.append(f"column {name!r} holds texts in one table and {parts[3].measure}s in another: left out")
            uncompared.append(name)
            return None
    if not kinds:
        notes.append(f"column {name!r} is missing throughout: left out")
        return None
    if any(part.measure == "category" and not part.missing.all() for part in parts):
        return TableColumn(name, _number_values([value for part in parts for value in part.values]))
    numbers = [np.full(len(part), np.nan) if part.measure == "category" else part.values for part in parts]
    if is_date := "date" in kinds:
        numbers = [np.rint(part * _MICROSECONDS) for part in numbers]
    return _align_numbers(name, numbers, notes, is_date=is_date)


def _to_numbers(column: Column) -> Column | None:
    """Return texts as the numbers or truth values that they spell; None where one spells neither."""
    if column.measure != "category":
        return column
    try:
        numbers = [
            np.nan
            if value is None
            else _TRUTH_VALUES[value.lower()]
            if value.lower() in _TRUTH_VALUES
            else float(value)
            for value in column.values
        ]
    except ValueError:
        return None
    values = np.array(numbers, dtype=np.float64)
    return replace(column, measure="number", values=values, missing=np.isnan(values))


def _to_texts(column: Column) -> Column:
    if column.measure == "category":
        return column
    texts = [None if absent else columns.format_cell(value)
             for value, absent in zip(column.values.tolist(), column.missing, strict=True)]  # fmt: skip
    return replace(column, measure="category", values=np.array([*texts, None], dtype=object)[:-1])


def _number_values(values: Sequence[Any]) -> Ints:
    codes = {value: code for code, value in enumerate(sorted({*values} - {None}))}
    return np.array([codes.get(value, MISSING) for value in values], dtype=np.int64)


def _align_numbers(name: str, sets: Sequence[Floats], notes: list[str], *, is_date: bool) -> TableColumn:
    """Round all sets to the coarsest precision among them, in the way in which most values then stand in the release.

    Were members alone as fine as the release, their values would stand there more often than those of non-members,
    whatever the generator saw.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers next to the largest, which lie on no grid
        measured = [NumberColumn.measure(values, is_date=is_date) for values in sets]
        grid = _find_coarsest(measured)
        is_finer = [grid is not None and each.share_on(grid) < 1 for each in measured]
    encoders = [CommonColumn(grid, (finer, False)) for finer in is_finer]
    ways = ROUNDINGS if encoders[0].rounds and any(is_finer) else ROUNDINGS[:1]
    codes = [[encoder.encode(values, 0, way) for encoder, values in zip(encoders, sets, strict=True)] for way in ways]
    shares = [float(np.isin(np.concatenate(others), released).mean()) for released, *others in codes]
    released, *others = codes[int(np.argmax(shares))]
    if grid is not None and is_finer[0] and not is_finer[1]:
        # Of a release that stores more digits, only values that the members could hold may be copies.
        is_off = ~grid.contains(np.nan_to_num(sets[0]).astype(np.float64), measured[0].spacing) & np.isfinite(sets[0])
        released = np.where(is_off, np.iinfo(np.int64).min // 2 - np.arange(len(released)), released)
    numbers = list(sets)
    for place, finer in enumerate(is_finer):
        if place == 0 and not is_finer[1]:
            continue
        if finer and isinstance(grid, Step):
            whole = np.where(np.isfinite(sets[place]), [released, *others][place], np.nan)
            numbers[place] = whole * grid.numerator / grid.denominator
        elif finer and isinstance(grid, Binary) and grid.name == "float32":
            numbers[place] = sets[place].astype(np.float32).astype(np.float64)
    if grid is not None and any(is_finer[1:]):
        coarse = [each for each, finer in zip(SETS, is_finer, strict=True) if not finer]
        notes.append(f"column {name!r} was rounded as in {', '.join(coarse)}{_describe_grid(grid, is_date=is_date)}")
    dense = np.unique(np.concatenate([released, *others]), return_inverse=True)[1]
    values = np.concatenate(numbers)
    return TableColumn(name, np.where(np.isfinite(values), dense, MISSING), values)


def _find_coarsest(sets: Sequence[NumberColumn]) -> Grid | None:
    """Return the coarsest grid on which one of the sets lies and another does not; None where all are alike.

    A set that is constant has no precision.
    """
    varied = [each for each in sets if len(each.sample) and np.ptp(each.sample) > 0]
    grids = {common.grid for one, other in combinations(varied, 2) if (common := CommonColumn.of(one, other)).grid}
    sample = np.concatenate([np.empty(0), *(each.sample for each in varied)])
    return min(grids, key=lambda grid: len(np.unique(grid.encode(sample, "numpy"))), default=None)


def _describe_grid(grid: Grid, *, is_date: bool) -> str:
    if isinstance(grid, Step):
        step = grid.numerator / grid.denominator
        return f", to {step / 1e6:g} s" if is_date else f", to {step:g}"
    return ", to single precision" if isinstance(grid, Binary) and grid.name == "float32" else ""


def _is_row_number(column: TableColumn, sizes: Mapping[str, int], notes: list[str]) -> bool:
    """Check whether a column counts or names rows, so that it is no part of a record, and note that.

    Nearly every value of members, non-members and population occurs once in its set, and either its name says so or
    whole numbers of a set follow one another. An income that happens to be distinct in a small table is neither.
    """
    ends = np.cumsum([0, *sizes.values()])
    parts = [slice(start, end) for start, end in pairwise(ends)]
    codes = [column.codes[part] for part in parts]
    if any(len(np.unique(part)) < _NEARLY_ALL * len(part) or (part == MISSING).any() for part in codes[1:]):
        return False
    is_named = _ID_NAME.fullmatch(column.name) is not None
    if column.numbers is not None:
        if (column.numbers[parts[3]] % 1 != 0).any():
            return False
        is_counted = any(np.ptp(each) == len(np.unique(each)) - 1 for each in (column.numbers[part] for part in parts))
        if not (is_named or is_counted):
            return False
    elif not is_named:
        return False
    released, members, nonmembers = codes[0], codes[1], codes[2]
    shared = int(np.isin(members, released).sum()), int(np.isin(nonmembers, released).sum())
    also = f"; {shared[0]:,} of members and {shared[1]:,} of non-members stand in the release" if any(shared) else ""
    notes.append(f"column {column.name!r} names rows and is no part of a record: left out{also}")
    return True


def _is_written_otherwise(
    column: TableColumn, sizes: Mapping[str, int], notes: list[str], uncompared: list[str]
) -> bool:
    """Check whether the release shares next to no value with the other tables, so that the column is left out.

    A copied row in which one column is in another language, case, code or unit equals no row, so such a column is
    noted, and whole rows are compared without it. Of texts those tell that stand in none of the other tables: were the
    release written alike, they would be as rare as texts of one of these that stand in neither of the others. Where
    these share next to none themselves, as free text does, nothing is told. A column of which a part is new is still
    attacked. Of numbers hardly any lies within the range of the others: another unit, or another zero; not, where all
    others are different whole numbers, which name rows and are written anew.
    """
    ends = np.cumsum([0, *sizes.values()])
    codes, *others = [column.codes[start:end] for start, end in pairwise(ends)]
    name, known = column.name, codes[codes != MISSING]
    if column.numbers is not None:
        values, outside = column.numbers[: ends[1]], column.numbers[ends[1] :]
        values, outside = values[np.isfinite(values)], outside[np.isfinite(outside)]
        if len(values) < MIN_ROWS or not len(outside):
            return False
        if ((values >= outside.min()) & (values <= outside.max())).mean() >= _HARDLY_ANY:
            return False
        notes.append(f"column {name!r} holds numbers in the release beyond the range of all other tables: left out")
        if (outside % 1 != 0).any() or len(np.unique(outside)) < _NEARLY_ALL * len(outside):  # else it names rows
            uncompared.append(name)
        return True
    others = [each[each != MISSING] for each in others]
    if not len(known) or not all(len(each) for each in others):
        return False
    among = min(
        float(np.isin(each, np.concatenate([*others[:place], *others[place + 1 :]])).mean())
        for place, each in enumerate(others)
    )
    n_shared = int(np.isin(known, np.concatenate(others)).sum())
    share = n_shared / len(known)
    if stats.binom.cdf(n_shared, len(known), among) > _FOREIGN_LEVEL:
        return False
    if is_foreign := not n_shared or (share < _HARDLY_ANY and among >= 0.5):
        notes.append(f"column {name!r} holds other texts in the release than in all other tables: left out")
    elif 1 - share > _OTHERWISE + 3 * (1 - among):
        notes.append(
            f"column {name!r} holds texts in {1 - share:.0%} of the rows of the release that no other table has: "
            "whole rows are compared without it"
        )
    else:
        return False
    uncompared.append(name)
    return is_foreign


def combine_codes(parts: Sequence[Ints]) -> Ints:
    """Return one code for each row, equal where all of ``parts`` are."""
    combined = np.unique(parts[0], return_inverse=True)[1]
    for part in parts[1:]:
        values, codes = np.unique(part, return_inverse=True)
        combined = np.unique(combined * len(values) + codes, return_inverse=True)[1]
    return combined


def _find_overlaps(all_tables: Tables, seed: int) -> list[str]:
    """Describe sets that hold each other's rows, more than chance explains; none should.

    In a table of a few categories rows of different people are equal. How often is told by pairs of equal rows within
    sets: were the sets drawn alike, a pair would lie across two of them as often as their sizes say. Pairs of a row
    that occurs often, or of two people who share many, are not independent of one another, so what seems too much is
    drawn anew: the same people, or rows where nobody stands behind them, are dealt to the sets at random.
    """
    codes = {name: all_tables.rows[all_tables.rows_of(name)] for name in SETS}
    if not all_tables.uncompared and np.array_equal(np.sort(codes["released"]), np.sort(codes["members"])):
        raise InputError("released: these are the members' own rows, every one of them; nothing synthetic is released")
    n_kinds, people = int(all_tables.rows.max()) + 1, all_tables.people
    within, pairs_within, counts, owned, n_owners = 0.0, 0.0, {}, [], {}
    for name in SETS[1:]:
        owners = np.arange(len(codes[name])) if people is None else people[all_tables.rows_of(name)]
        numbers = np.unique(owners, return_inverse=True)[1]
        pairs = np.unique(np.c_[numbers, codes[name]], axis=0)  # equal rows of one person are no coincidence
        counts[name] = np.bincount(pairs[:, 1], minlength=n_kinds).astype(float)
        within += float((counts[name] * (counts[name] - 1) / 2).sum())
        rows_each = np.bincount(pairs[:, 0]).astype(float)
        pairs_within += (len(pairs) ** 2 - float((rows_each**2).sum())) / 2
        n_owners[name] = len(rows_each)
        owned.append(sparse.csr_array((np.ones(len(pairs)), pairs.T), shape=(len(rows_each), n_kinds)))
    held = sparse.csc_array(sparse.vstack(owned))
    held = held[:, np.flatnonzero(held.sum(axis=0) > 1)].T.tocsr()  # kinds × owners
    overlaps = []
    for one, other, why in (
        ("members", "nonmembers", "a row that the generator saw is no non-member"),
        ("members", "population", "what the adversary knows already hides what the release gives away"),
        ("nonmembers", "population", "non-members must be as new to the population as members are"),
    ):
        shared = float(counts[one] @ counts[other])
        pairs_across = float(counts[one].sum() * counts[other].sum())
        chance = pairs_across / (pairs_across + pairs_within)
        if not shared or stats.binom.sf(shared - 1, shared + within, chance) > _OVERLAP_LEVEL:
            continue
        rng = seeds.generator(seed, "synthetic", "overlaps", one, other)
        p_value = _deal_overlaps(held, n_owners[one], n_owners[other], shared, rng)
        if p_value > _OVERLAP_LEVEL:
            continue
        n_rows = int((counts[other][codes[one]] > 0).sum())
        overlaps.append(
            f"{other}: {format_count(n_rows, 'row')} of {one} {'stands' if n_rows == 1 else 'stand'} here, too; sets "
            f"drawn at random hardly ever share as much by coincidence (p = {p_value:.1g}); {why}"
        )
    return overlaps


def _deal_overlaps(held: Any, n_one: int, n_other: int, shared: float, rng: np.random.Generator) -> float:
    """Return the p-value of so many pairs of equal rows across two sets of ``n_one`` and ``n_other`` owners.

    ``held``, sparse ``[k, n]``, says of which kinds the rows of each owner are. Where owners hold many rows, few deals
    tell mean and spread of a sum that is then nearly normal.
    """
    n_deals = int(np.clip(_MAX_DEALT // (held.nnz + held.shape[1] + 1), _MIN_DEALS, _MAX_DEALS))
    dealt = np.empty(n_deals)
    for deal in range(n_deals):
        order = rng.permutation(held.shape[1])
        sides = np.zeros((held.shape[1], 2))
        sides[order[:n_one], 0] = sides[order[n_one : n_one + n_other], 1] = 1
        first, second = (held @ sides).T
        dealt[deal] = first @ second
    if n_deals == _MAX_DEALS:
        return float((1 + (dealt >= shared).sum()) / (1 + n_deals))
    return float(stats.norm.sf((shared - dealt.mean()) / max(dealt.std(ddof=1), 1e-9)))
