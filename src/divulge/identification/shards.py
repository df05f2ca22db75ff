"""Tables of any size: files one below the other, read piece by piece, whatever columns each of them has."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from divulge import checks, store
from divulge.frames import Frame, Scan
from divulge.identification import kinds
from divulge.identification.json_pieces import JsonLines

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from arro3 import core

    from divulge.identification.kinds import Kind
    from divulge.types import Array

ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
PIECE = 1 << 14  # rows at a time; each may hold a long document


def ending(path: Path) -> str:
    """Which kind of table a file is by its name; empty where it is none.

    Examples:
        >>> from pathlib import Path
        >>> ending(Path("a.csv.gz")), ending(Path("a.xlsx"))
        ('.csv', '')
    """
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    return suffix if suffix in ENDINGS else ""


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a table, and what its columns hold.

    Args:
        path: of the file.
        kinds: by name of the column.
        schema: the same as Arrow says it; None for JSON lines.
    """

    path: Path
    kinds: Mapping[str, Kind]
    schema: core.Schema | None = None

    @classmethod
    def of(cls, path: Path) -> TableFile:
        """The file, with its columns looked at."""
        if ending(path) in (".jsonl", ".ndjson"):
            return cls(path, JsonLines(path).kinds())
        schema = _scan(path).schema()
        return cls(path, {one.name: kinds.of(one.type) for one in schema}, schema)

    def frames(self, names: Sequence[str], size: int) -> Iterator[Frame]:
        """The rows of the named columns."""
        if ending(self.path) in (".jsonl", ".ndjson"):
            return JsonLines(self.path).frames(names, size, self.kinds)
        return _scan(self.path).frames(names, size, exact=True, schema=self.schema)


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The rows of one or more files, one below the other.

    Args:
        name: of the argument that named them, for errors.
        shards: the files.
        kinds: what their columns hold together; one that a file lacks is missing in all of its rows.
    """

    name: str
    shards: tuple[TableFile, ...]
    kinds: Mapping[str, Kind]

    @classmethod
    def of(cls, paths: Sequence[Path], name: str) -> ScoreTable:
        """The table in some files.

        Raises:
            divulge.InputError: a damaged one.
        """
        shards = []
        for path in paths:
            with _named(name, path):
                shards.append(TableFile.of(path))
        return cls(name, tuple(shards), kinds.together(shard.kinds for shard in shards))

    def frames(self, names: Sequence[str], size: int | None = None) -> Iterator[Frame]:
        """The rows of the named columns, at most ``size`` at a time; ``PIECE`` when None.

        Raises:
            divulge.InputError: a damaged file.
        """
        for shard in self.shards:
            here = [name for name in names if name in shard.kinds]
            with _named(self.name, shard.path):
                for piece in shard.frames(here or list(shard.kinds)[:1], size or PIECE):
                    yield Frame({name: self._column(piece, shard, name) for name in names})

    def _column(self, piece: Frame, shard: TableFile, name: str) -> Array:
        if name not in shard.kinds:
            return kinds.missing(len(piece), self.kinds[name])
        same = shard.kinds[name] == self.kinds[name]
        return piece[name] if same else kinds.cast(piece[name], self.kinds[name])


def parquet(path: Path, names: Sequence[str], size: int | None = None) -> Iterator[Frame]:
    """The rows of the named columns of a Parquet file of our own, ``size`` at a time; ``PIECE`` when None.

    Raises:
        divulge.InputError: missing or damaged file.
    """
    with store.tables(str(path)):
        yield from Scan(path).frames(names, size or PIECE, exact=True)


def _scan(path: Path) -> Scan:
    separators = {".csv": ",", ".tsv": "\t"}
    return Scan(path, separators.get(ending(path)))


@contextlib.contextmanager
def _named(name: str, path: Path) -> Generator[None]:
    """Whatever is wrong with a file is said with the argument and the name of the file."""
    with store.tables(f"{name}: {path}"):
        try:
            yield
        except checks.InputError as error:
            raise checks.InputError(f"{name}: {path}: {error}") from None
