"""Files of tables, read whole or piece by piece, and written."""

from __future__ import annotations

import contextlib
import gzip
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from divulge import checks, lazy, store
from divulge.frames import arrow, last_line, trial
from divulge.frames.blank_lines import Filled
from divulge.frames.frame import Frame, of_table

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from arro3 import core, io
else:
    core = lazy.module("arro3.core")
    io = lazy.module("arro3.io")

_PIECE = 1 << 16  # rows decoded at a time
_LONGEST = 1 << 20  # bytes of a header that are looked at
_COMPRESSION = "zstd(3)"
_STREAM = ".arrow"


@dataclass(frozen=True, slots=True)
class Scan:
    """A Parquet, CSV or ``.arrow`` file, read piece by piece.

    A damaged one raises whatever the reader says; see `store.tables`.

    Args:
        path: of the file; a ``.csv`` may be compressed by gzip; a ``.arrow`` is a stream, as `datasets` saves them.
        separator: between the values of a CSV; None for the others.
    """

    path: Path
    separator: str | None = None

    def schema(self) -> core.Schema:
        """Names and types of the columns; those of a CSV by all of its values."""
        with _opened(self.path) as file:
            if self.path.suffix == _STREAM:
                trial.size(self.path, "ipc")
                return io.read_ipc_stream(file).schema
            if self.separator is None:
                trial.size(self.path, "parquet")
                return io.read_parquet(file).schema
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
        schema = schema or self.schema()
        with _opened(self.path) as file:
            if self.path.suffix == _STREAM:
                batches: Iterable[core.RecordBatch] = _cut(io.read_ipc_stream(file), size)
            elif self.separator is None:
                batches = io.read_parquet(file, batch_size=size)
            else:
                batches = _csv(file, schema, self.separator, size)
            places = _places(schema, names)
            for batch in batches:
                yield of_table(batch.select(places), exact=exact)


def parquet(file: Path | IO[bytes], names: Sequence[str] | None = None) -> Frame:
    """All rows of a Parquet file, of the named columns or of all.

    Raises:
        divulge.InputError: more than memory can take.
        ValueError: a damaged file; what the reader says of it is best read by `store.tables`.
    """
    needed = trial.size(file, "parquet")
    checks.memory(2 * needed, str(getattr(file, "name", "file")), "split the file")
    with _opened(file) as opened:
        batches = io.read_parquet(opened, batch_size=_PIECE)
        return _whole(batches, batches.schema, names)


def csv(file: Path | IO[bytes], separator: str = ",", *, names: Sequence[str] | None = None, texts: str = "") -> Frame:
    """All rows of a CSV file with a header, of the named columns or of all.

    Args:
        file: the file.
        separator: between its values.
        names: of the columns wanted; all when None.
        texts: name of a column that holds texts, also where all of them look like numbers.

    Raises:
        divulge.InputError: two columns of one name that is wanted.
    """
    with _opened(file) as opened:
        start = opened.tell()
        schema = csv_schema(opened, separator, texts)
        _places(schema, names)
        opened.seek(start)
        return _whole(_csv(opened, schema, separator, _PIECE), schema, names)


def header(file: Path | IO[bytes], separator: str = "") -> list[str]:
    """Names of the columns of a CSV file, or of a Parquet file where there is no separator.

    What came open stays where it stands.
    """
    if not separator:
        trial.size(file, "parquet")
    with _opened(file) as opened:
        start = opened.tell()
        names = csv_header(opened, separator) if separator else list(io.read_parquet(opened).schema.names)
        if not isinstance(file, Path):
            opened.seek(start)
        return names


def csv_header(file: IO[bytes], separator: str) -> list[str]:
    """Names of the columns of a CSV file; errors as for `csv_schema`."""
    _refuse_zeros(file)
    return list(io.infer_csv_schema(file, has_header=True, max_records=0, delimiter=separator).names)


def csv_schema(file: IO[bytes], separator: str, texts: str = "") -> core.Schema:
    """Names and types of the columns of a CSV file, by all of its values: numbers, truth values, and else texts.

    Raises:
        ValueError: no header, or a byte of zero in it.
    """
    _refuse_zeros(file)
    schema = io.infer_csv_schema(file, has_header=True, delimiter=separator)
    if not schema.names:
        raise ValueError("there is no header")
    text = core.DataType.utf8()
    return core.Schema([core.Field(one.name, text) if one.name == texts else one for one in arrow.text(schema)])


def _refuse_zeros(file: IO[bytes]) -> None:
    """Raise where a zero stands in the header, which the reader cannot hand on as a name."""
    start = file.tell()
    line = b""
    while (line.count(b'"') % 2 or not line.strip()) and len(line) < _LONGEST and (more := file.readline(_LONGEST)):
        line += more
    file.seek(start)
    if b"\0" in line:
        raise ValueError("a byte of zero in the header; the file must be saved as UTF-8")


def ipc_stream(file: IO[bytes]) -> Frame:
    """All rows of an Arrow stream, as Hugging Face `datasets` saves them; errors as for `parquet`."""
    trial.size(file, "ipc")
    batches = io.read_ipc_stream(file)
    return _whole(batches, batches.schema, None)


def ipc_streams(paths: Sequence[Path]) -> Frame:
    """The rows of several Arrow streams of the same columns, one file after the other.

    Raises:
        divulge.InputError: a file that is damaged, or has other columns than the first; more than memory can take.
    """
    needed, tables = 0, []
    for path in paths:
        with store.tables(str(path)), path.open("rb") as opened:
            needed += trial.size(path, "ipc")
            checks.memory(2 * needed, str(path.parent), "use fewer records")
            tables.append(io.read_ipc_stream(opened).read_all())
    kinds = [{field.name: field.type for field in table.schema} for table in tables]
    for path, own in zip(paths, kinds, strict=True):
        if own != kinds[0]:
            raise checks.InputError(f"{path}: the columns of {paths[0].name} are needed, of the same names and types")
    # As one table, so that whether whole numbers become floats is told from all of them.
    names, schema = list(kinds[0]), core.Schema([core.Field(name, kind) for name, kind in kinds[0].items()])
    every = [batch.select(names).with_schema(schema) for table in tables for batch in table.to_batches()]
    return of_table(core.Table.from_batches(every, schema=schema))


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
        KeyError: a column that the first frame has and another lacks.
        divulge.InputError: a column of objects of several kinds, or of another type than in the first frame.
    """
    if isinstance(frames, Frame):
        io.write_parquet(frames.table(kinds), file, compression=_COMPRESSION)
        return
    rest = iter(frames)
    first = next(rest, None)
    if first is None:
        raise ValueError("at least 1 frame is needed, got 0")
    head = first.table(kinds)
    went_wrong: list[BaseException] = []
    stream = core.RecordBatchReader.from_batches(head.schema, _batches(head, rest, went_wrong))
    try:
        io.write_parquet(stream, file, compression=_COMPRESSION)
    except Exception as error:
        raise (went_wrong or [error])[0] from None


def write_csv(frame: Frame, file: Path | IO[bytes]) -> None:
    """Write a frame as CSV, with a header."""
    io.write_csv(frame.table(), file)


def _batches(head: core.Table, rest: Iterator[Frame], went_wrong: list[BaseException]) -> Generator[core.RecordBatch]:
    """All rows as types of the first; what goes wrong is kept, as the writer would tell it as an error of its own."""
    kinds = {field.name: field.type for field in head.schema}
    yield from head.to_batches()
    try:
        for frame in rest:
            columns = {name: arrow.fitted(frame[name], name, kind) for name, kind in kinds.items()}
            for name, kind in kinds.items():
                if (own := columns[name].type) != kind:
                    types = f"{arrow.said(kind)} and later {arrow.said(own)}"
                    raise checks.InputError(f"{name}: values of one kind are needed, got {types}")
            yield from core.Table.from_arrays(list(columns.values()), names=list(columns)).to_batches()
    except BaseException as error:
        went_wrong.append(error)
        raise


def _whole(batches: Iterable[core.RecordBatch], schema: core.Schema, names: Sequence[str] | None) -> Frame:
    places = _places(schema, names)
    wanted = core.Schema([schema.field(place) for place in places])
    return of_table(core.Table.from_batches([batch.select(places) for batch in batches], schema=wanted))


def _cut(batches: Iterable[core.RecordBatch], size: int) -> Generator[core.RecordBatch]:
    """Batches as they were saved, in pieces of at most ``size`` rows."""
    for batch in batches:
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, min(size, batch.num_rows - start))


def _places(schema: core.Schema, names: Sequence[str] | None) -> list[int]:
    """Where the named columns stand, or all.

    Raises:
        divulge.InputError: two of one name.
        KeyError: none.
    """
    every = list(schema.names)
    wanted = every if names is None else names
    counts = Counter(every)
    for name in wanted:
        if counts[name] > 1:
            raise checks.InputError(f"columns of different names are needed, got {checks.shown(name)} twice")
        if not counts[name]:
            raise KeyError(name)
    return [every.index(name) for name in wanted]


def _csv(file: IO[bytes], schema: core.Schema, separator: str, size: int) -> Iterator[core.RecordBatch]:
    # Of one column, a line without anything is a row whose value is missing; the reader would leave it out.
    columns = len(schema.names)
    whole = cast("IO[bytes]", last_line.Followed(Filled(file) if columns == 1 else file, columns, separator))
    return last_line.without(io.read_csv(whole, schema, has_header=True, batch_size=size, delimiter=separator))


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
