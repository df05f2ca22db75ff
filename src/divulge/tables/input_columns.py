"""What else a table says of records that are listed: titles, sources, dates, in the spelling of the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from divulge.errors import InputError
from divulge.tables.table import NUMBER, TEXT, scan_table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from divulge.tables.table import ColumnType, Table

MAX_LENGTH = 300  # characters of a value: what is longer is a document, and no column of a list
_NUMBER_WITH_COMMA = r"^[+-]?\d+,\d+$"


@dataclass(frozen=True, slots=True, eq=False)
class InputColumns:
    """Columns of an input table for some of its records.

    Args:
        frame: a column ``id``, and all others that hold no documents, as texts.
        dialect: separator and decimal mark of the table, by the names that `divulge.tables.write_csv` gives them.
    """

    frame: pl.DataFrame
    dialect: Mapping[str, Any] = field(default_factory=dict)


def read_input_columns(
    paths: Sequence[Path], ids: Collection[str], id_column: str | None = "id", *, without: Collection[str] = ()
) -> InputColumns | None:
    """Return the columns of the rows with these ids; None where the tables show no such rows, or hold no more columns.

    Args:
        paths: files or folders of tables.
        ids: of the records, as texts.
        id_column: their column; numbers of rows where it is None or no column of the tables.
        without: columns that are left out, such as those of documents.
    """
    try:
        table = scan_table(paths)
    except InputError:  # of arrays or images, say
        return None
    names = list_input_columns(table, without=without)
    read: dict[str, ColumnType] = dict.fromkeys(names, TEXT)
    kept, n_rows, wanted = [], 0, pl.Series(list(ids), dtype=pl.String).implode()
    for batch in table.batches(read) if names else ():
        if id_column not in names and not n_rows and not all(each.isdecimal() for each in ids):
            # Another column is that of the ids, if one holds them.
            id_column = max(names, key=lambda name: int(batch[name].is_in(wanted).sum()))
        numbers = pl.int_range(n_rows, n_rows + len(batch), eager=True).cast(pl.String)
        keys = batch[str(id_column)] if id_column in names else numbers
        kept.append(batch.with_columns(keys.alias("\0id")).filter(pl.col("\0id").is_in(wanted)))
        n_rows += len(batch)
    others = [name for name in names if name not in (id_column, "id")]
    if not kept or not others:
        return None
    frame = pl.concat(kept).select(pl.col("\0id").alias("id"), *others)
    if not len(frame) or frame["id"].is_duplicated().any():
        return None
    short = [name for name in others if (frame[name].str.len_chars().max() or 0) <= MAX_LENGTH]
    separators = {None if part.delimited is None else part.delimited.separator for part in table.parts}
    separator = str(separators.pop()) if len(separators) == 1 and None not in separators else ","
    commas = any(frame[name].str.contains(_NUMBER_WITH_COMMA).any() for name in others)
    dialect = {"separator": separator, "decimal_comma": separator != "," and commas}
    return InputColumns(frame.select("id", *short), dialect) if short else None


def list_input_columns(table: Table, *, without: Collection[str] = ()) -> list[str]:
    """Return the columns of a table that hold one value each and are not among those to leave out."""
    scalar = (NUMBER, TEXT, "any", "empty", "true or false")
    return [name for name in table.columns if table.column_type(name) in scalar and name not in without]


def add_input_columns(frame: pl.DataFrame, columns: InputColumns | None) -> pl.DataFrame:
    """Return a list with the columns of the input that it does not have, by its ``id``, and of which set a row is."""
    if columns is None or "id" not in frame.columns:
        return frame
    sets = [name for name in ("member", "set") if name in frame.columns and name in columns.frame.columns]
    new = [name for name in columns.frame.columns if name not in frame.columns]
    added = columns.frame.select(pl.col("id").alias("\0id"), *sets, *new)
    listed = frame.with_columns(pl.col("id").cast(pl.String).alias("\0id"))
    return listed.join(added, on=["\0id", *sets], how="left", maintain_order="left").drop("\0id")
