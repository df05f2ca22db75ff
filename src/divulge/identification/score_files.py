"""Tables of scores: CSV, JSON lines and Parquet, one file or many, and which of their columns mean what."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks, store
from divulge.datafiles import folders as saved
from divulge.dossier import Dossier
from divulge.frames import Scan
from divulge.identification import kinds, shards
from divulge.identification.shards import ENDINGS, ScoreTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from arro3 import core

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

    @classmethod
    def parse(cls, text: str) -> Score:
        """From ``column:low`` (perplexity, loss) or ``column:high``; high by default.

        Raises:
            divulge.InputError: an ending that is neither.
        """
        column, separator, end = text.rpartition(":")
        if not separator:
            return cls(text)
        checks.choice(end, "score", ("low", "high"))
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
    """

    scores: tuple[Score, ...]
    id: str | None = None
    text: str | None = None
    truth: str | None = None


def scan(paths: Sequence[Path], name: str) -> ScoreTable:
    """The rows of one or more tables, one below the other, of which nothing but the kinds of columns is read yet.

    Args:
        paths: files, or folders of files of one kind (shards are read in the order of their names), or that Hugging
            Face `datasets` saved.
        name: of the argument, for errors.

    Raises:
        divulge.InputError: nothing there, an unknown kind of file, or a damaged one.
    """
    return ScoreTable.of([one for path in paths for one in _files(Path(path), name)], name)


def _files(path: Path, name: str) -> list[Path]:
    if not path.exists():
        raise checks.InputError(f"{name}: {path}: no such file or folder")
    if path.is_file():
        if not shards.ending(path):
            raise checks.InputError(f"{name}: {path}: one of {', '.join(ENDINGS)} is needed (.gz allowed)")
        return [path]
    if saved.saved(path):
        return saved.shards(path)
    files = sorted(entry for entry in _shards(path).iterdir() if shards.ending(entry))
    if not files:
        raise checks.InputError(f"{name}: {path}: no {', '.join(ENDINGS)} file in this folder")
    return files


def _shards(path: Path) -> Path:
    """The folder of the tables: what `divulge score` writes stands one folder down, and must be finished."""
    for run in (path, path.parent) if path.name == DOCUMENTS else (path,):
        if Dossier(run).holds("scores") or ((run / "run.json").exists() and (run / DOCUMENTS).is_dir()):
            return Dossier(run).open("scores", only=f"{DOCUMENTS}/").path / DOCUMENTS
    return path


def check(table: ScoreTable, columns: Columns) -> None:
    """Raise for what is wrong with a table before it is read.

    Raises:
        divulge.InputError: a column that is missing (the nearest names are offered) or not numeric, a column of texts
            or ids of another kind, no rows.
    """
    scores = [score.column for score in columns.scores]
    words = [column for column in (columns.id, columns.text, columns.truth) if column]
    require(table, [*scores, *words])
    _refuse_empty(table, scores[0])  # first, as columns without values have no type either
    for column in scores:
        if not kinds.numeric(table.kinds[column]):
            raise checks.InputError(f"{table.name}: score column {column!r} is {table.kinds[column]}, not numeric")
    for column in words:
        kind = table.kinds[column]
        if isinstance(kind, str) and kind not in (kinds.TEXT, kinds.EMPTY):
            raise checks.InputError(f"{table.name}: column {column!r} is {kind}, which is neither text nor numeric")
    if columns.id:
        _refuse_rounded(table, columns.id)


def _refuse_rounded(table: ScoreTable, column: str) -> None:
    """Raise where files have whole numbers that only floats are together, which cannot tell large ones apart."""
    own = {str(shard.kinds[column]) for shard in table.shards if column in shard.kinds} - {kinds.EMPTY}
    if table.kinds[column] == np.float64 and all("int" in kind for kind in own):
        raise checks.InputError(
            f"{table.name}: ids of one kind are needed, got {' and '.join(sorted(own))} in {column!r} of "
            "several files; save them as texts"
        )


def _refuse_empty(table: ScoreTable, column: str) -> None:
    if not any(len(piece) for piece in table.frames([column])):
        raise checks.InputError(f"{table.name}: at least 1 row is needed, got 0")


def resolve(
    table: ScoreTable,
    scores: Sequence[str],
    *,
    id: str | None = None,  # noqa: A002  the option's name
    text: str | None = None,
    truth: str | None = None,
) -> Columns:
    """The columns a user named, with ``id`` and ``text`` taken where a table has columns of that name.

    Raises:
        divulge.InputError: no score column named.
    """
    if not scores:
        raise checks.InputError("score: name at least one column and its member-like end, such as loss:low")
    return Columns(
        tuple(Score.parse(score) for score in scores),
        id=id or ("id" if "id" in table.kinds else None),
        text=text or ("text" if "text" in table.kinds else None),
        truth=truth,
    )


def require(table: ScoreTable, wanted: Sequence[str]) -> None:
    """Raise when a column is missing, offering the nearest names.

    Raises:
        divulge.InputError: in that case.
    """
    for column in wanted:
        if column not in table.kinds:
            near = difflib.get_close_matches(column, table.kinds, n=3, cutoff=0.4)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            raise checks.InputError(f"{table.name}: no column {column!r}{hint} (columns: {_some(table.kinds)})")


def _some(names: Iterable[str]) -> str:
    said = ", ".join(names)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"


def names(path: Path) -> list[str]:
    """The columns of a Parquet file.

    Raises:
        divulge.InputError: missing or damaged file.
    """
    return list(types(path))


def types(path: Path) -> dict[str, core.DataType]:
    """The columns of a Parquet file and their types; errors as for `names`."""
    with store.tables(str(path)):
        return Scan(path).kinds()
