"""Tables of scores: CSV, JSON lines and Parquet, one file or many, and which of their columns mean what."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from divulge import tables
from divulge.dossier import Dossier
from divulge.errors import InputError
from divulge.validation import check_choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from divulge.tables import Table
    from divulge.tables.table import Kind

DOCUMENTS = "documents"
_LONGEST = 500  # characters of the names of columns in a message


@dataclass(frozen=True, slots=True)
class Score:
    """A column of scores and which end of it is member-like.

    Examples:
        >>> Score.parse("loss:low")
        Score(column='loss', sign=-1)
    """

    column: str
    sign: int = 1
    assumed: bool = field(default=False, repr=False, compare=False)
    """Whether the user named no end, so that a high score was taken as member-like."""

    @classmethod
    def parse(cls, text: str) -> Score:
        """From ``column:low`` (perplexity, loss) or ``column:high``; high by default.

        Raises:
            divulge.InputError: an ending that is neither.
        """
        column, separator, end = text.rpartition(":")
        if not separator:
            return cls(text, assumed=True)
        check_choice(end, "score", ("low", "high"))
        return cls(column, -1 if end == "low" else 1)

    def __str__(self) -> str:
        return f"{self.column}:{'low' if self.sign < 0 else 'high'}"


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table mean what.

    Args:
        scores: one column, or several to learn from.
        id: unique identifiers; the row number where None.
        text: the documents, for the blind text control and to find overlap; None where there are none.
        truth: known membership, as true and false, yes and no, 1 and 0 or member and nonmember; a missing value
            where it is not known. None where it is known of no row.
        baseline: the score of a classifier that never saw the model, and its member-like end; None where there is none.
    """

    scores: tuple[Score, ...]
    id: str | None = None
    text: str | None = None
    truth: str | None = None
    baseline: Score | None = None

    def kinds(self) -> dict[str, Kind]:
        """What each of the columns is read as."""
        words = [column for column in (self.id, self.text, self.truth) if column]
        numbers = [score.column for score in (*self.scores, *([self.baseline] if self.baseline else []))]
        if twice := sorted({*words} & {*numbers}):
            raise InputError(f"score: column {twice[0]!r} is named for another thing, too")
        return dict.fromkeys(words, tables.TEXT) | dict.fromkeys(numbers, tables.NUMBER)


def scan(paths: Sequence[Path], name: str) -> Table:
    """Return the rows of one or more tables, one below the other, of which only the columns are read yet.

    Args:
        paths: files or folders, as `divulge.tables.scan_table` takes them, or what `divulge score` wrote.
        name: of the argument, for errors.

    Raises:
        divulge.InputError: nothing there, an unknown kind of file, or a damaged one.
    """
    return tables.scan_table([_scored_documents(Path(path)) for path in paths], name)


def _scored_documents(path: Path) -> Path:
    """The folder of the tables: what `divulge score` writes stands one folder down, and must be finished."""
    for run in (path, path.parent) if path.name == DOCUMENTS else (path,):
        if Dossier(run).holds("scores") or ((run / "run.json").exists() and (run / DOCUMENTS).is_dir()):
            return Dossier(run).open("scores", only=f"{DOCUMENTS}/").path / DOCUMENTS
    return path


def check(table: Table, columns: Columns) -> None:
    """Raise for what is wrong with a table before it is read.

    Raises:
        divulge.InputError: a column that is missing (the nearest names are offered) or not numeric, a column of texts
            or ids of another kind, no rows.
    """
    scores = [score.column for score in columns.scores]
    if columns.baseline:
        if columns.baseline.column in scores:
            raise InputError(f"baseline: {columns.baseline.column!r} is the score itself; another column is needed")
        scores.append(columns.baseline.column)
    words = [column for column in (columns.id, columns.text, columns.truth) if column]
    require(table, [*scores, *words])
    if not table.has_rows():
        raise InputError(f"{table.name}: at least 1 row is needed, got 0")
    for column in scores:
        if (kind := table.kind(column)) not in (tables.NUMBER, "any", "empty"):
            raise InputError(f"{table.name}: score column {column!r} is {kind}, not numeric")
    for column in words:
        if (kind := table.kind(column)) not in (tables.NUMBER, tables.TEXT, "any", "empty", "true or false"):
            raise InputError(f"{table.name}: column {column!r} is {kind}, which is neither text nor numeric")


def resolve(
    table: Table,
    scores: Sequence[str],
    *,
    id: str | None = None,  # noqa: A002  the option's name
    text: str | None = None,
    truth: str | None = None,
    baseline: str | None = None,
) -> Columns:
    """The columns a user named, with ``id`` and ``text`` taken where a table has columns of that name.

    Raises:
        divulge.InputError: no score column named.
    """
    if not scores:
        raise InputError("score: name at least one column and its member-like end, such as loss:low")
    return Columns(
        tuple(Score.parse(score) for score in scores),
        id=id or ("id" if "id" in table else None),
        text=text or ("text" if "text" in table else None),
        truth=truth,
        baseline=Score.parse(baseline) if baseline else None,
    )


def require(table: Table, wanted: Sequence[str]) -> None:
    """Raise when a column is missing, offering the nearest names.

    Raises:
        divulge.InputError: in that case.
    """
    for column in wanted:
        if column not in table:
            near = difflib.get_close_matches(column, table.columns, n=3, cutoff=0.4)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            raise InputError(f"{table.name}: no column {column!r}{hint} (columns: {_some(table.columns)})")


def _some(names: Iterable[str]) -> str:
    said = ", ".join(names)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
