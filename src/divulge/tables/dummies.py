"""Dummy variables: names of coefficients that are a column of a table and a value of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from divulge.errors import InputError
from divulge.tables.table import is_table, read_table
from divulge.validation import format_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Level: TypeAlias = str | float | bool
"""A value of a column of texts, numbers or true and false, as dummy variables stand for it."""
_MAX_LEVELS = 1000  # of a column
_MAX_LISTED = 20
_LEVEL_TYPES: dict[type, str] = {str: "texts", float: "numbers", bool: "true and false"}


def code_levels(frame: pl.DataFrame, levels: Mapping[str, tuple[str, Level]], path: Path) -> pl.DataFrame:
    """Put columns of 0 and 1 in the place of columns of levels."""
    columns = dict(levels.values())
    for column, level in columns.items():
        if column not in frame.columns or _level_type(frame[column].dtype) is not type(level):
            raise InputError(
                f"{path}: a column {format_value(column)} of {_LEVEL_TYPES[type(level)]} is needed, as other cohorts "
                "have it"
            )
    of_levels = {column: _read_levels(frame[column]) for column in columns}
    for column, values in of_levels.items():
        if values.null_count():
            raise InputError(f"{path}: column {format_value(column)}: a value is missing; every record needs one")
    coded = [(of_levels[column] == level).cast(pl.Int8).alias(name) for name, (column, level) in levels.items()]
    return frame.with_columns(coded).drop(columns)


def find_levels(
    paths: Sequence[Path],
    names: Sequence[str],
    *,
    texts: Sequence[str] = (),
    excluded: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> dict[str, tuple[str, Level]]:
    """Find names that are a column and a value of it, as dummy variables are called.

    R writes ``sexM``, ``factor(sex)M`` and, of true and false, ``smokerTRUE``, pandas ``sex_M``, formulas of Python
    ``sex[T.M]``. The values without a name of their own are 0 in all of them: the base, of which a column has one at
    most. Of a column of numbers ``stage2`` is such a name where all of its values but one have one.

    Args:
        paths: of tables of one kind; others are passed over.
        names: that are looked for.
        texts: columns that are read as texts.
        excluded: columns that have no levels, such as the label.
        drop: columns that are not there.

    Returns:
        Name → column and value; empty where no name needs it.

    Raises:
        divulge.InputError: a damaged table, a name of several readings, two names of one value, a column of which
            several values have no name.
    """
    columns, values_by_column = _collect_levels(paths, texts, {*excluded}, {*drop})
    levels: dict[str, tuple[str, Level]] = {}
    for name, readings in _list_readings(values_by_column, names).items():
        if name in columns:  # which of numbers "stage2" is, is asked only where no column is called so
            readings = [(column, value) for column, value in readings if not isinstance(value, float)]
        own = [f"the column {name!r}"] if name in columns else []
        which = [*own, *sorted(f"{_spell_level(value)!r} in column {column!r}" for column, value in readings)]
        if len(which) > 1:
            raise InputError(
                f"--cohort: {name!r} may stand for {' or '.join(which)}; rename a column or a value, or leave a column "
                "out (--drop), so that one is left"
            )
        if readings:
            if readings[0] in levels.values():
                raise InputError(f"--cohort: {name!r} and another coefficient both stand for {which[0]}")
            levels[name] = readings[0]
    for column in dict.fromkeys(column for column, _ in levels.values()):
        unnamed = sorted(values_by_column[column] - {value for of, value in levels.values() if of == column})
        if len(unnamed) > 1:
            listed = ", ".join([*map(_spell_level, unnamed[:_MAX_LISTED]), *(["…"] if unnamed[_MAX_LISTED:] else [])])
            raise InputError(
                f"--cohort: in column {column!r} {listed} have no coefficient, and only the base has none; rename "
                "those that are the same, or give columns of 0 and 1"
            )
    return levels


def _list_readings(
    values_by_column: Mapping[str, set[Level]], names: Sequence[str]
) -> dict[str, list[tuple[str, Level]]]:
    """Return the columns and values that names can stand for; those that stand for none are left out."""
    readings: dict[str, list[tuple[str, Level]]] = {}
    for column, values in values_by_column.items():
        plain = {value: set(_name_level(column, value)) for value in values}
        # Of numbers, "age2" is rather a square, unless all other ages have such a name, too.
        is_plain = isinstance(next(iter(values)), str | bool) or sum(map({*names}.isdisjoint, plain.values())) <= 1
        for value in values:
            for name in {*(plain[value] if is_plain else ()), *_name_factor_level(column, value)}:
                readings.setdefault(name, []).append((column, value))
    # A column that is fitted as it is has no levels.
    open_readings = {name: [each for each in readings.get(name, []) if each[0] not in names] for name in names}
    return {name: places for name, places in open_readings.items() if places}


def _name_level(column: str, value: Level) -> list[str]:
    """Return how a dummy of a value of a column may be called."""
    texts = {_spell_level(value), str(value)}
    return [name for text in texts for name in (f"{column}{text}", f"{column}_{text}", f"{column}[T.{text}]")]


def _name_factor_level(column: str, value: Level) -> list[str]:
    """Return how it may be called where a formula says that the column has levels."""
    texts = {_spell_level(value), str(value)}
    patterns = ("factor({}){}", "as.factor({}){}", "C({})[T.{}]")
    return [pattern.format(column, text) for text in texts for pattern in patterns]


def _spell_level(value: Level) -> str:
    """Return a value as R writes it."""
    if isinstance(value, str):
        return value
    return str(value).upper() if isinstance(value, bool) else f"{value:.15g}"


def _collect_levels(
    paths: Sequence[Path], texts: Sequence[str], excluded: set[str], drop: set[str]
) -> tuple[set[str], dict[str, set[Level]]]:
    """Return all columns of some tables, and every value in each that may have levels; of mixed ones the texts."""
    columns: set[str] = set()
    values: dict[str, set[Level]] = {}
    for path in filter(is_table, paths):
        frame = read_table(path, texts=texts)
        columns |= set(frame.columns) - drop
        for name in columns.intersection(frame.columns) - excluded:
            if _level_type(frame[name].dtype) is not None:
                values.setdefault(name, set()).update(_read_levels(frame[name]).drop_nulls().unique().to_list())
    for name, levels in values.items():
        if words := {value for value in levels if isinstance(value, str)}:
            values[name] = {*words}
    return columns, {name: levels for name, levels in values.items() if 0 < len(levels) <= _MAX_LEVELS}


def _read_levels(values: pl.Series) -> pl.Series:
    """Return the values of a column that may have levels: texts, numbers with a point, or true and false."""
    if values.dtype.is_numeric():
        return values.cast(pl.Float64).fill_nan(None)
    return values.cast(pl.String) if _is_text(values.dtype) else values


def _level_type(dtype: pl.DataType) -> type[Level] | None:
    """Return of which kind the levels of a column are; None where it has none."""
    if dtype == pl.Boolean:
        return bool
    return str if _is_text(dtype) else float if dtype.is_numeric() else None


def _is_text(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.String | pl.Categorical | pl.Enum)
