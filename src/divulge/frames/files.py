"""Files of tables, read whole or piece by piece, and written."""

from __future__ import annotations

import contextlib
import gzip
import os
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from divulge import checks, lazy
from divulge.frames import arrow
from divulge.frames.frame import Frame, of_table

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from arro3 import core, io
else:
    core = lazy.module("arro3.core")
    io = lazy.module("arro3.io")

_PIECE = 1 << 16  # rows decoded at a time
_COMPRESSION = "zstd(3)"
_stderr = threading.Lock()


@dataclass(frozen=True, slots=True)
class Scan:
    """A Parquet or CSV file, read piece by piece. A damaged one raises whatever the reader says; see `store.tables`.

    Args:
        path: of the file; a ``.csv`` may be compressed by gzip.
        separator: between the values of a CSV; None for Parquet.
    """

    path: Path
    separator: str | None = None

    def schema(self) -> core.Schema:
        """Names and types of the columns; those of a CSV by all of its values."""
        if self.separator is None:
            with _opened(self.path) as file:
                return _parquet(file).schema
        with _opened(self.path) as file:
            return csv_schema(file, self.separator)

    def kinds(self) -> dict[str, core.DataType]:
        """Types of the columns by their names."""
        return {field.name: field.type for field in self.schema()}

    def frames(
        self,
        names: Sequence[str] | None = None,
        size: int = _PIECE,
        *,
        exact: bool = False,
        schema: core.Schema | None = None,
    ) -> Iterator[Frame]:
        """The rows, piece by piece.

        Args:
            names: of the columns wanted; all when None.
            size: rows of a piece.
            exact: whole numbers with gaps become objects, with None; else float64, with NaN.
            schema: what `schema` says, where it was asked before.
        """
        schema = None if self.separator is None else schema or self.schema()
        with _opened(self.path) as file:
            batches = _parquet(file, size) if schema is None else _csv(file, schema, self.separator or ",", size)
            for batch in batches:
                yield of_table(batch if names is None else batch.select(list(names)), exact=exact)


def parquet(file: Path | IO[bytes], names: Sequence[str] | None = None) -> Frame:
    """All rows of a Parquet file, of the named columns or of all."""
    with _opened(file) as opened:
        return _whole(_parquet(opened, _PIECE), names)


def csv(file: Path | IO[bytes], separator: str = ",", *, names: Sequence[str] | None = None, texts: str = "") -> Frame:
    """All rows of a CSV file with a header, of the named columns or of all.

    Args:
        file: the file.
        separator: between its values.
        names: of the columns wanted; all when None.
        texts: name of a column that holds texts, also where all of them look like numbers.
    """
    with _opened(file) as opened:
        start = opened.tell()
        schema = csv_schema(opened, separator, texts)
        opened.seek(start)
        return _whole(_csv(opened, schema, separator, _PIECE), names)


def csv_header(file: IO[bytes], separator: str) -> list[str]:
    """Names of the columns of a CSV file."""
    return list(io.infer_csv_schema(file, has_header=True, max_records=0, delimiter=separator).names)


def csv_schema(file: IO[bytes], separator: str, texts: str = "") -> core.Schema:
    """Names and types of the columns of a CSV file, by all of its values: numbers, truth values, and else texts.

    Raises:
        divulge.InputError: two columns of one name.
    """
    schema = io.infer_csv_schema(file, has_header=True, delimiter=separator)
    _refuse_twice(schema)
    plain = [
        core.Field(field.name, core.DataType.utf8()) if field.name == texts else field for field in arrow.text(schema)
    ]
    return core.Schema(plain)


def ipc_stream(file: IO[bytes]) -> Frame:
    """All rows of an Arrow stream, as Hugging Face `datasets` saves them."""
    return _whole(io.read_ipc_stream(file), None)


def write_parquet(
    frames: Frame | Iterable[Frame], file: Path | IO[bytes], kinds: Mapping[str, core.DataType] | None = None
) -> None:
    """Write one frame, or many of the same columns one below the other, as one Parquet file.

    Args:
        frames: what to write.
        file: where to.
        kinds: see `Frame.table`; of many frames, those that the first one has no value for.

    Raises:
        ValueError: no frame at all.
        divulge.InputError: a column of objects of several kinds.
        Exception: whatever making the frames raises.
    """
    if isinstance(frames, Frame):
        io.write_parquet(frames.table(kinds), file, compression=_COMPRESSION)
        return
    rest = iter(frames)
    first = next(rest, None)
    if first is None:
        raise ValueError("at least 1 frame is needed, got 0")
    head = first.table(kinds)
    raised: list[BaseException] = []
    stream = core.RecordBatchReader.from_batches(head.schema, _batches(head, rest, raised))
    try:
        io.write_parquet(stream, file, compression=_COMPRESSION)
    except Exception:
        if raised:  # the writer passes on no more than what it says
            raise raised[0] from None
        raise


def write_csv(frame: Frame, file: Path | IO[bytes]) -> None:
    """Write a frame as CSV, with a header."""
    io.write_csv(frame.table(), file)


def _batches(head: core.Table, rest: Iterator[Frame], raised: list[BaseException]) -> Generator[core.RecordBatch]:
    kinds = {field.name: field.type for field in head.schema}
    yield from head.to_batches()
    try:
        for frame in rest:
            yield from frame.table(kinds).to_batches()
    except BaseException as error:
        raised.append(error)
        raise


def _whole(reader: core.RecordBatchReader, names: Sequence[str] | None) -> Frame:
    _refuse_twice(reader.schema)
    table = reader.read_all()
    return of_table(table if names is None else table.select(list(names)))


def _refuse_twice(schema: core.Schema) -> None:
    if twice := [name for name, count in Counter(schema.names).items() if count > 1]:
        raise checks.InputError(f"columns of different names are needed, got {checks.shown(twice[0])} twice")


def _parquet(file: IO[bytes], size: int = _PIECE) -> core.RecordBatchReader:
    with _quiet():
        return io.read_parquet(file, batch_size=size)


def _csv(file: IO[bytes], schema: core.Schema, separator: str, size: int) -> core.RecordBatchReader:
    return io.read_csv(file, schema, has_header=True, batch_size=size, delimiter=separator)


@contextlib.contextmanager
def _opened(file: Path | IO[bytes]) -> Generator[IO[bytes]]:
    """The file, unpacked where its name ends in ``.gz``; one that came open stays open."""
    if not isinstance(file, Path):
        yield file
        return
    if file.suffix == ".gz":
        with gzip.open(file) as unpacked:
            yield cast("IO[bytes]", unpacked)
        return
    with file.open("rb") as opened:
        yield opened


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Keep what the reader writes to stderr by itself, when a footer is damaged, from the user's terminal."""
    with _stderr:
        try:
            kept = os.dup(2)
        except OSError:  # there is no stderr
            yield
            return
        try:
            with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a descriptor is needed
                os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
