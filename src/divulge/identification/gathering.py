"""What a decision needs of a table, checked and cleaned in one pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks, frames
from divulge.frames import Frame
from divulge.identification import kinds, shards, spelling, text_digests
from divulge.identification.score_files import check
from divulge.identification.text_digests import Lowest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from divulge.identification.score_files import Columns
    from divulge.identification.shards import ScoreTable
    from divulge.types import Array, Bools, Floats

_NAMED = 10  # rows in a message
_SHOWN = 5  # values in a message


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
        path: Parquet file with the columns row, id, score0, score1, …, and truth where membership is known.
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

    def scores(self, count: int) -> Floats:
        """All scores, ``[rows, count]``."""
        names = [f"score{i}" for i in range(count)]
        pieces = [np.column_stack([piece[name] for name in names]) for piece in shards.parquet(self.path, names)]
        return np.concatenate(pieces)


def gather(table: ScoreTable, columns: Columns, to: Path, cleaning: Cleaning | None = None) -> Gathered:
    """Write what a decision needs of a table to ``to``: row, id, scores (larger = member-like) and truth.

    Raises:
        divulge.InputError: a column that is missing (the nearest names are offered) or not numeric, an
            unreadable file, no rows, rows that cannot be used, ids that repeat.
    """
    check(table, columns)
    work = _Work(table, columns, cleaning or Cleaning())
    types = {"truth": kinds.arrow_type(np.dtype(bool))}
    if columns.id:
        types["id"] = kinds.arrow_type(table.kinds[columns.id])
    frames.write_parquet(work.pieces(), to, types)
    notes = work.notes()
    if columns.id:
        _refuse_repeats(to, work.ids, table.name)
    sample = tuple(work.lowest.texts())
    return Gathered(to, work.total - work.unusable.number - work.shared.number, notes, work.unique_texts(), sample)


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

    def __init__(self, table: ScoreTable, columns: Columns, cleaning: Cleaning) -> None:
        self._table, self._columns, self._cleaning = table, columns, cleaning
        self._kind_of_text = table.kinds[columns.text] if columns.text else kinds.TEXT
        self._membership = spelling.Membership()
        self._digests: list[Array] = []
        self.lowest = Lowest(cleaning.texts)
        self.unusable, self.shared, self.total = _Rows(), _Rows(), 0
        self.ids: list[Array] = []

    def pieces(self) -> Iterator[Frame]:
        """The rows that can be used."""
        given = self._columns
        wanted = [score.column for score in given.scores]
        wanted += [column for column in (given.id, given.text, given.truth) if column]
        for piece in self._table.frames(list(dict.fromkeys(wanted))):
            row = np.arange(self.total, self.total + len(piece), dtype=np.uint32)
            scores = [score.sign * piece[score.column].astype(np.float64) for score in given.scores]
            kept = self._usable(np.column_stack(scores), row)
            if given.text:
                kept = self._apart(piece[given.text], kept, row)
            columns = {"row": row, "id": piece[given.id] if given.id else row}
            columns |= {f"score{i}": values for i, values in enumerate(scores)}
            if given.truth:
                columns["truth"] = self._membership.read(piece[given.truth])
            if given.id:
                self.ids.append(_hashes(columns["id"][kept]))
            self.total += len(piece)
            yield Frame(columns).where(kept)

    def notes(self) -> tuple[str, ...]:
        """What was left out.

        Raises:
            divulge.InputError: it may not be left out, or nothing is left; membership that cannot be read.
        """
        name, notes = self._table.name, []
        if self._columns.truth:
            self._membership.check(self._columns.truth, name)
        if self.unusable.number and not self._cleaning.drop_nan:
            raise checks.InputError(
                f"{name}: missing, NaN or infinite scores in {self.unusable}; --drop-nan leaves them out"
            )
        if self.total == self.unusable.number:
            raise checks.InputError(
                f"{name}: at least 1 row with a score is needed, got {self.total} rows, {self.total} without"
            )
        if self.unusable.number:
            notes.append(f"{self.unusable.number} {name} rows without a usable score were left out")
        if self.shared.number and not self._cleaning.drop_overlap:
            raise checks.InputError(
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

    def _apart(self, given: Array, usable: Bools, row: Array) -> Bools:
        """The usable rows whose text is none that no row may have."""
        texts = given if self._kind_of_text == kinds.TEXT else kinds.texts(given)
        digests = text_digests.of(texts, self._cleaning.seed)
        self.lowest.add(digests, texts, texts.astype(bool))  # neither missing nor empty
        unseen = self._cleaning.unseen
        if unseen is None:
            self._digests.append(digests[usable])
            return usable
        shared = usable & np.isin(digests, unseen)
        self.shared.add(row[shared])
        return usable & ~shared


def _hashes(values: Array) -> Array:
    """Python's own hashes, equal where values are; which others share one differs between processes."""
    return values.astype(np.int64) if values.dtype.kind in "iu" else np.fromiter(map(hash, values.tolist()), np.int64)


def _refuse_repeats(path: Path, hashes: list[Array], name: str) -> None:
    every = np.concatenate(hashes)
    every.sort()
    twice = np.unique(every[1:][every[1:] == every[:-1]])
    if not len(twice):
        return
    seen: Counter[object] = Counter()  # of the ids themselves, as others may share a hash
    for piece in shards.parquet(path, ["id"]):
        seen.update(piece["id"][np.isin(_hashes(piece["id"]), twice)].tolist())
    repeated = [value for value, count in seen.items() if count > 1]
    if repeated:
        sample = ", ".join(repr(value) for value in repeated[:_SHOWN])
        raise checks.InputError(f"{name}: ids must be unique; {len(repeated)} occur more than once ({sample})")
