"""What a decision needs of a table, checked and cleaned in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from divulge import tables
from divulge.errors import InputError
from divulge.identification import text_digests
from divulge.identification.score_files import check
from divulge.identification.text_digests import Lowest

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.identification.score_files import Columns
    from divulge.tables import Table
    from divulge.types import Array, Bools, Floats

_NAMED = 10  # rows in a message
_SHOWN = 5  # values in a message
_BATCH_OF_TEXTS = 1 << 14  # rows at a time, of which each may hold a long document
# Membership in lower case; a missing value is membership not known.
_MEMBER = ("1", "1.0", "true", "t", "yes", "y", "member", "members")
_NONMEMBER = ("0", "0.0", "false", "f", "no", "n", "nonmember", "non-member", "nonmembers", "non-members")
_UNKNOWN = ("", "nan", "null", "none", "na")


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What happens to rows that cannot be used.

    Args:
        drop_nan: leave out rows whose score is missing instead of refusing them.
        drop_overlap: leave out rows whose text is in ``unseen`` instead of refusing them.
        unseen: digests of texts that no row may have, ascending.
        seed: of the sample of texts.
        texts: in that sample, at most.
    """

    drop_nan: bool = False
    drop_overlap: bool = False
    unseen: Array | None = None
    seed: int = 0
    texts: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The rows of a table that can be used.

    Args:
        path: folder of Parquet files with the columns row (its number in the table), id (as the file spells it; the
            number of the row where no column is named), score0, score1, …, baseline where there is a blind score, and
            truth where membership is known.
        rows: their number.
        notes: what was left out.
        digests: of the texts, ascending, each once.
        sample: of the distinct texts of all rows.
    """

    path: Path
    rows: int
    notes: tuple[str, ...]
    digests: Array
    sample: tuple[str, ...]

    def frame(self) -> pl.LazyFrame:
        """The rows, of which none is read yet."""
        return tables.open_pieces(self.path)

    def scores(self, count: int) -> Floats:
        """All scores, ``[rows, count]``."""
        return self.frame().select([f"score{i}" for i in range(count)]).collect().to_numpy()

    def column(self, name: str) -> Array:
        """All values of one column, ``[rows]``."""
        return tables.to_array(self.frame().select(name).collect()[name])


def gather(table: Table, columns: Columns, to: Path, cleaning: Cleaning | None = None) -> Gathered:
    """Write what a decision needs of a table into the folder ``to``: row, id, scores (larger = member-like) and truth.

    Raises:
        divulge.InputError: a column that is missing (the nearest names are offered) or not numeric, an
            unreadable file, no rows, rows that cannot be used, ids that repeat.
    """
    check(table, columns)
    work = _Work(table, columns, cleaning or Cleaning())
    writer = tables.PieceWriter(to)
    for batch in table.batches(columns.kinds(), _BATCH_OF_TEXTS if columns.text else None):
        writer.add(work.clean(batch))
    writer.close()
    notes = work.notes()
    gathered = Gathered(to, work.usable_rows, notes, work.unique_texts(), tuple(work.lowest.texts()))
    if columns.id:
        _refuse_repeats(gathered.frame(), work.id_hashes, table.name)
    return gathered


@dataclass(slots=True)
class _Rows:
    """Rows of one fate: how many, and the first of them."""

    number: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, at: Array) -> None:
        self.number += len(at)
        self.first += at[: _NAMED - len(self.first)].tolist()

    def __str__(self) -> str:
        return f"{self.number} rows ({', '.join(map(str, self.first))}{', …' if self.number > len(self.first) else ''})"


class _Work:
    """One pass over a table, and what was seen on it."""

    def __init__(self, table: Table, columns: Columns, cleaning: Cleaning) -> None:
        self._table, self._columns, self._cleaning = table, columns, cleaning
        self._membership = Membership()
        self._digests: list[Array] = []
        self.lowest = Lowest(cleaning.texts)
        self.unusable, self.shared, self.total = _Rows(), _Rows(), 0
        self.id_hashes: list[Array] = []

    @property
    def usable_rows(self) -> int:
        """How many rows are left."""
        return self.total - self.unusable.number - self.shared.number

    def clean(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the next batch that can be used, as `Gathered` has them."""
        names = self._columns
        row = np.arange(self.total, self.total + len(batch), dtype=np.uint32)
        self.total += len(batch)
        scores = [score.sign * batch[score.column].fill_null(np.nan).to_numpy() for score in names.scores]
        blind = (
            [names.baseline.sign * batch[names.baseline.column].fill_null(np.nan).to_numpy()] if names.baseline else []
        )
        kept = self._usable(np.column_stack([*scores, *blind]), row)
        if names.text:
            kept = self._apart(batch[names.text], kept, row)
        columns = {"row": pl.Series(row), "id": batch[names.id] if names.id else pl.Series(row)}
        columns |= {f"score{i}": pl.Series(values) for i, values in enumerate(scores)}
        if blind:
            columns["baseline"] = pl.Series(blind[0])
        if names.truth:
            columns["truth"] = self._membership.read(batch[names.truth])
        usable = pl.DataFrame(columns).filter(pl.Series(kept))
        if names.id:
            self.id_hashes.append(usable["id"].hash(_SEED).to_numpy())
        return usable

    def notes(self) -> tuple[str, ...]:
        """What was left out.

        Raises:
            divulge.InputError: it may not be left out, or nothing is left; membership that cannot be read.
        """
        name, notes = self._table.name, []
        if self._columns.truth:
            self._membership.check(self._columns.truth, name)
        if self.unusable.number and not self._cleaning.drop_nan:
            raise InputError(f"{name}: missing, NaN or infinite scores in {self.unusable}; --drop-nan leaves them out")
        if self.total == self.unusable.number:
            raise InputError(
                f"{name}: at least 1 row with a score is needed, got {self.total} rows, {self.total} without"
            )
        if self.unusable.number:
            notes.append(f"{self.unusable.number} {name} rows without a usable score were left out")
        if self.shared.number and not self._cleaning.drop_overlap:
            raise InputError(
                f"{name}: the text of {self.shared} is also in the calibration; a document cannot "
                "be both a candidate and known to be unseen (--drop-overlap leaves it out of the candidates)"
            )
        if self.shared.number:
            notes.append(f"{self.shared.number} {name} whose text is also in the calibration were left out")
        return tuple(notes)

    def unique_texts(self) -> Array:
        """Digests of the texts of the rows that can be used, ascending, each once."""
        return np.unique(np.concatenate(self._digests)) if self._digests else np.empty(0, np.uint64)

    def _usable(self, scores: Floats, row: Array) -> Bools:
        usable = np.asarray(np.isfinite(scores).all(axis=1))
        self.unusable.add(row[~usable])
        return usable

    def _apart(self, column: pl.Series, usable: Bools, row: Array) -> Bools:
        """The usable rows whose text is none that no row may have."""
        texts = tables.to_array(column)
        digests = text_digests.of(texts, self._cleaning.seed)
        self.lowest.add(digests, texts, texts.astype(bool))  # not missing
        unseen = self._cleaning.unseen
        if unseen is None:
            self._digests.append(digests[usable])
            return usable
        shared = usable & np.isin(digests, unseen) & texts.astype(bool)
        self.shared.add(row[shared])
        return usable & ~shared


class Membership:
    """A column of membership in whatever spelling, read batch by batch."""

    def __init__(self) -> None:
        self._known = False
        self._unread: list[str] = []

    def read(self, texts: pl.Series) -> pl.Series:
        """Return true, false or missing for each text ``[n]``.

        Examples:
            >>> Membership().read(pl.Series([" Yes", "no", None, "perhaps"])).to_list()
            [True, False, None, None]
        """
        words = texts.str.strip_chars().str.to_lowercase()
        known = dict.fromkeys(_MEMBER, True) | dict.fromkeys(_NONMEMBER, False)
        read = words.replace_strict(list(known), list(known.values()), default=None, return_dtype=pl.Boolean)
        self._known = self._known or read.null_count() < len(read)
        odd = texts.filter(read.is_null() & words.is_not_null() & ~words.is_in(list(_UNKNOWN)))
        if len(odd):
            self._unread = sorted({*self._unread, *odd.str.strip_chars().unique().to_list()})[: _SHOWN + 1]
        return read

    def check(self, column: str, name: str) -> None:
        """Raise for a column that says something else, or nothing.

        Raises:
            divulge.InputError: in that case.
        """
        if self._unread:
            shown = ", ".join(map(repr, self._unread[:_SHOWN])) + (", …" if len(self._unread) > _SHOWN else "")
            raise InputError(
                f"truth: column {column!r} of {name} must hold yes and no, true and false, 1 and 0 or member and "
                f"nonmember, got {shown}"
            )
        if not self._known:
            raise InputError(f"truth: column {column!r} of {name} is empty in every row; membership is known of none")


_SEED = 0  # of hashes of ids, which decide nothing: those that repeat are compared themselves


def _refuse_repeats(rows: pl.LazyFrame, hashes: list[Array], name: str) -> None:
    every = np.concatenate(hashes)
    hashes.clear()
    every.sort()
    twice = np.unique(every[1:][every[1:] == every[:-1]])
    if not len(twice):
        return
    suspects = rows.select("id").filter(pl.col("id").hash(_SEED).is_in(pl.Series(twice).implode()))
    counted = suspects.group_by("id", maintain_order=True).len().filter(pl.col("len") > 1).collect()
    if repeated := counted["id"].to_list():
        sample = ", ".join(repr(value) for value in repeated[:_SHOWN])
        raise InputError(f"{name}: ids must be unique; {len(repeated)} occur more than once ({sample})")
