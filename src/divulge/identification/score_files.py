"""Tables of scores: CSV, JSON lines and Parquet, one file or many, read lazily and never whole."""

from __future__ import annotations

import difflib
import glob
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks, lazy, store
from divulge.dossier import Dossier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import polars as pl

    from divulge.types import Floats
else:
    pl = lazy.module("polars")

_ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
DOCUMENTS = "documents"
_LONGEST = 500  # characters of the names of columns in a message
_ROWS = 1 << 20  # read at a time
# How membership is spelled, in lower case; a missing value is membership not known.
_MEMBER = ("1", "1.0", "true", "t", "yes", "y", "member", "members")
_NONMEMBER = ("0", "0.0", "false", "f", "no", "n", "nonmember", "non-member", "nonmembers", "non-members")
_UNKNOWN = ("", "nan", "null", "none", "na")


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


def scan(paths: Sequence[Path], name: str) -> pl.LazyFrame:
    """The rows of one or more tables, one below the other, not read yet.

    Args:
        paths: files, or folders of files of one kind (shards are read in the order of their names).
        name: of the argument, for errors.

    Raises:
        divulge.InputError: nothing there, or an unknown kind of file.
    """
    files = [one for path in paths for one in _files(Path(path), name)]
    frames = [_scan_one(file, name) for file in files]
    return pl.concat(frames, how="diagonal_relaxed") if len(frames) > 1 else frames[0]


def _files(path: Path, name: str) -> list[Path]:
    if not path.exists():
        raise checks.InputError(f"{name}: {path}: no such file or folder")
    if path.is_file():
        return [path]
    files = sorted(entry for entry in _shards(path).iterdir() if _kind(entry))
    if not files:
        raise checks.InputError(f"{name}: {path}: no {', '.join(_ENDINGS)} file in this folder")
    return files


def _shards(path: Path) -> Path:
    """The folder of the tables: what `divulge score` writes stands one folder down, and must be finished."""
    for run in (path, path.parent) if path.name == DOCUMENTS else (path,):
        if Dossier(run).holds("scores") or ((run / "run.json").exists() and (run / DOCUMENTS).is_dir()):
            return Dossier(run).open("scores", only=f"{DOCUMENTS}/").path / DOCUMENTS
    return path


def _kind(path: Path) -> str:
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    return suffix if suffix in _ENDINGS else ""


def _scan_one(file: Path, name: str) -> pl.LazyFrame:
    kind = _kind(file)
    if kind == ".parquet":
        return parquet(file)
    if kind in (".csv", ".tsv"):
        return pl.scan_csv(file, glob=False, separator="\t" if kind == ".tsv" else ",", infer_schema_length=10_000)
    if kind in (".jsonl", ".ndjson"):
        return pl.scan_ndjson(glob.escape(str(file)), infer_schema_length=10_000)
    raise checks.InputError(f"{name}: {file}: one of {', '.join(_ENDINGS)} is needed (.gz allowed)")


def parquet(paths: Path | list[Path]) -> pl.LazyFrame:
    """A Parquet file, or several, not read yet; brackets and stars in a name are part of the name."""
    return pl.scan_parquet(paths, glob=False)


def gather(frame: pl.LazyFrame, columns: Columns, to: Path, name: str) -> None:
    """Write what a decision needs of a table to ``to``: id, scores (larger = member-like), truth, digest of the text.

    Raises:
        divulge.InputError: a column that is missing (the nearest names are offered) or not numeric, an
            unreadable file, no rows.
    """
    known = schema(frame, name)
    require(known, [score.column for score in columns.scores], name)
    require(known, [column for column in (columns.id, columns.text, columns.truth) if column], name)
    _refuse_empty(frame, name)  # first, as columns without values have no type either
    for score in columns.scores:
        if not known[score.column].is_numeric():
            raise checks.InputError(f"{name}: score column {score.column!r} is {known[score.column]}, not numeric")
    picked = [
        (pl.col("row") if columns.id is None else pl.col(columns.id)).alias("id"),
        *((pl.col(s.column).cast(pl.Float64) * s.sign).alias(f"score{i}") for i, s in enumerate(columns.scores)),
    ]
    if columns.truth:
        picked += _membership(columns.truth)
    if columns.text:
        picked.append(pl.col(columns.text).cast(pl.String).hash(seed=0).alias("text"))
    with store.tables(name):
        frame.with_row_index("row").select("row", *picked).sink_parquet(to)
    if columns.truth:
        _refuse_unread(to, columns.truth, name)


def _membership(column: str) -> list[pl.Expr]:
    """``truth``, and beside it the words that could not be read as one."""
    spelled = pl.col(column).cast(pl.String).str.strip_chars()
    word = spelled.str.to_lowercase()
    member, other = word.is_in(_MEMBER), word.is_in(_NONMEMBER)
    read = pl.when(member).then(True).when(other).then(False)
    unread = pl.when(~(member | other | word.is_in(_UNKNOWN))).then(spelled)
    return [read.alias("truth"), unread.alias("unread")]


def _refuse_unread(path: Path, column: str, name: str) -> None:
    """Raise for a column of membership that says something else, or nothing."""
    written = pl.scan_parquet(path)
    words = written.select(pl.col("unread").drop_nulls().unique()).sort("unread").head(6).collect()["unread"].to_list()
    if words:
        shown = ", ".join(map(repr, words[:5])) + (", …" if len(words) > 5 else "")
        raise checks.InputError(
            f"truth: column {column!r} of {name} must hold yes and no, true and false, 1 and 0 or member and "
            f"nonmember, got {shown}"
        )
    if not written.select(pl.col("truth").is_not_null().any()).collect(engine="streaming").item():
        raise checks.InputError(
            f"truth: column {column!r} of {name} is empty in every row; membership is known of none"
        )


def _refuse_empty(frame: pl.LazyFrame, name: str) -> None:
    with store.tables(name):
        empty = frame.head(1).collect().is_empty()
    if empty:
        raise checks.InputError(f"{name}: at least 1 row is needed, got 0")


def schema(frame: pl.LazyFrame, name: str) -> dict[str, pl.DataType]:
    """Columns and their types.

    Raises:
        divulge.InputError: an unreadable file.
    """
    with store.tables(name):
        return dict(frame.collect_schema())


def resolve(
    frame: pl.LazyFrame,
    scores: Sequence[str],
    *,
    name: str,
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
    known = schema(frame, name)
    return Columns(
        tuple(Score.parse(score) for score in scores),
        id=id or ("id" if "id" in known else None),
        text=text or ("text" if "text" in known else None),
        truth=truth,
    )


def require(known: dict[str, pl.DataType], wanted: Sequence[str], name: str) -> None:
    """Raise when a column is missing, offering the nearest names.

    Raises:
        divulge.InputError: in that case.
    """
    for column in wanted:
        if column not in known:
            near = difflib.get_close_matches(column, known, n=3, cutoff=0.4)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            raise checks.InputError(f"{name}: no column {column!r}{hint} (columns: {_some(known)})")


def _some(names: Iterable[str]) -> str:
    said = ", ".join(names)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"


def names(path: Path) -> list[str]:
    """The columns of a Parquet file.

    Raises:
        divulge.InputError: missing or damaged file.
    """
    return list(schema(parquet(path), str(path)))


def length(path: Path) -> int:
    """The number of rows of a Parquet file."""
    with store.tables(str(path)):
        return int(parquet(path).select(pl.len()).collect().item())


def chunks(path: Path, columns: Sequence[str], size: int | None = None) -> Iterator[pl.DataFrame]:
    """The rows of a Parquet file, ``size`` at a time, a million by default."""
    lazy, step = parquet(path).select(columns), size or _ROWS
    for start in range(0, length(path), step):
        with store.tables(str(path)):
            chunk = lazy.slice(start, step).collect()
        yield chunk


def matrix(frame: pl.DataFrame, count: int) -> Floats:
    """The scores of a chunk, ``[rows]``, or ``[rows, d]`` where there are several."""
    table = frame.select(f"score{i}" for i in range(count)).to_numpy()
    return np.ascontiguousarray(table[:, 0] if count == 1 else table, dtype=np.float64)
