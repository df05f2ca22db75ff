"""A table of one or many files: its columns together, batch by batch or whole."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import polars as pl

from divulge import store
from divulge.errors import InputError
from divulge.store import open_untrusted
from divulge.tables import json_lines
from divulge.tables.arrays import text_expression
from divulge.tables.conversions import reject_convertible_file
from divulge.tables.delimited import (
    MISSING,
    BadCell,
    DelimitedFile,
    NumberReader,
    check_decimal_marks,
    infer_column,
    open_delimited,
    read_marks,
)
from divulge.tables.json_lines import LINE, JsonLines, convert_json_lines
from divulge.tables.sources import (
    FileType,
    Source,
    TableFile,
    check_stream,
    error_summary,
    file_type,
    find_files,
    holds_tables,
    is_table_file,
    is_utf8_name,
    table_errors,
    without_panic_output,
)
from divulge.tables.text_folders import SCHEMA, is_text_folder, read_text_folder
from divulge.validation import check_column_names, check_memory, format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

ColumnType: TypeAlias = Literal["number", "text"]
NUMBER: ColumnType = "number"
TEXT: ColumnType = "text"
BATCH = 1 << 16
"""Rows at a time."""
BATCH_OF_TEXTS = 1 << 14
"""Rows at a time where each may hold a long document."""
_MAX_SHOWN_LENGTH = 12  # characters of a value that a message shows
_ROW = "\0row"  # a column's name that no file has
_TEXT_TYPES = ("String", "Categorical", "Enum")
_ESTIMATED_FROM = 1 << 20  # bytes at the beginning of a file
_PIECE_ROWS, _PIECE_BYTES = 1 << 18, 1 << 24  # of a file of a `PieceWriter`, at most


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a table, of which nothing but its columns has been read.

    Args:
        name: of the file, for messages.
        dtypes: of its columns by their names; texts for all columns of a file of text.
        frames: scans, in the order of the rows; of which each may lack columns.
        delimited: separator and encoding of a CSV file; None for other files.
        lines: content of a file of JSON lines; None for other files.
        repeated: names that several columns have.
        scannable: format and paths of files that one scan can read with others; None for what it cannot.
    """

    name: str
    dtypes: Mapping[str, Any]
    frames: tuple[Callable[[], pl.LazyFrame], ...]
    delimited: DelimitedFile | None = None
    lines: JsonLines | None = None
    repeated: frozenset[str] = frozenset()
    scannable: tuple[FileType, tuple[Path, ...]] | None = None

    @property
    def is_text(self) -> bool:
        """Whether the file is text, so that the type of a column follows from its values."""
        return self.delimited is not None or self.lines is not None

    def column_type(self, name: str) -> str:
        """Return the type of a column, as messages call it; "any" in a CSV file, whose values decide."""
        if self.delimited is not None:
            return "any"
        if self.lines is not None:
            column_types = list(self.lines.value_types[name])
            return (
                {json_lines.NUMBER: NUMBER, json_lines.TEXT: TEXT}.get(column_types[0], column_types[0])
                if column_types
                else "empty"
            )
        dtype = self.dtypes[name]
        if dtype.base_type() == pl.Null:
            return "empty"
        if dtype.is_numeric():
            return NUMBER
        if dtype.is_temporal() or str(dtype.base_type()) in _TEXT_TYPES:
            return TEXT
        return "true or false" if dtype == pl.Boolean else str(dtype)

    def batches(self, column_types: Mapping[str, ColumnType], size: int) -> Iterator[pl.DataFrame]:
        """Yield the requested columns of all rows: numbers as float64, texts as texts, and missing columns as missing.

        Raises:
            divulge.InputError: a damaged file, a value of another type, with its row.
        """
        check_column_names(column_types)
        for name in column_types:
            if name in self.repeated:
                raise InputError(f"columns of different names are needed, got {format_value(name)} twice")
            self._check_column_type(name, column_types[name])
        if self.lines is not None and (part := self._with_exact_numbers(column_types)) is not self:
            yield from part.batches(column_types, size)
            return
        readers = {
            name: NumberReader(self.delimited.separator)
            for name, column_type in column_types.items()
            if column_type == NUMBER and self.delimited
        }
        row = 0
        for scan in self.frames:
            for batch in _batches(scan(), column_types, size, spelled=self.delimited is not None):
                columns = {name: batch.get_column(name) for name in column_types}
                for name in readers.keys() & self.dtypes.keys():
                    columns[name] = self._read_numbers(readers[name], columns[name], row)
                yield pl.DataFrame(columns)
                row += len(batch)
        for name, reader in readers.items():
            try:
                reader.check()
            except InputError as error:
                raise InputError(f"column {name!r}: {error}") from None
        check_decimal_marks(readers)

    def _with_exact_numbers(self, column_types: Mapping[str, ColumnType]) -> Part:
        """Return the part with the numbers of columns that are requested as texts in the spelling of the file."""
        words = {name for name, column_type in column_types.items() if column_type == TEXT}
        if self.lines is None or self.lines.exact or not self.lines.fractions & words:
            return self
        return _part_of_lines(self.name, convert_json_lines(self.lines.file, self.lines.compression, exact=True))

    def _read_numbers(self, reader: NumberReader, column: pl.Series, row: int) -> pl.Series:
        try:
            return reader.read(column)
        except BadCell as error:
            value = column[error.row]
            is_long = isinstance(value, str) and len(value) > _MAX_SHOWN_LENGTH
            value = f"a text of {len(value):,} characters" if is_long else format_value(value)
            raise InputError(
                f"row {row + error.row + 1:,} (the header not counted): column {column.name!r}: {error.required} is "
                f"needed, got {value}"
            ) from None

    def _check_column_type(self, name: str, required: ColumnType) -> None:
        """Check that a column holds values of the required type.

        Raises:
            divulge.InputError: it holds others; of JSON lines the line is named.
        """
        if name not in self.dtypes or self.delimited is not None:
            return
        if self.lines is not None:
            allowed = (
                {json_lines.NUMBER} if required == NUMBER else {json_lines.TEXT, json_lines.NUMBER, json_lines.BOOLEAN}
            )
            for column_type, (line, value) in self.lines.value_types[name].items():
                if column_type not in allowed:
                    required_type = json_lines.NUMBER if required == NUMBER else json_lines.TEXT
                    shown_value = column_type if column_type in (json_lines.LIST, json_lines.OBJECT) else value
                    raise InputError(f"line {line}: {name}: {required_type} is needed, got {shown_value}")
            return
        column_type = self.column_type(name)
        if required == NUMBER and column_type not in (NUMBER, "empty"):
            raise InputError(f"column {name!r} is {column_type}, not numeric")
        if column_type not in (NUMBER, TEXT, "empty", "true or false"):
            raise InputError(f"column {name!r} is {column_type}, which is neither text nor numeric")


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one or more files, one below the other; a column that a file lacks is missing in all of its rows.

    Args:
        name: of the argument that named the files, for messages; may be empty.
        parts: the files.
    """

    name: str
    parts: tuple[Part, ...]
    columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = dict.fromkeys(name for part in self.parts for name in part.dtypes)
        object.__setattr__(self, "columns", tuple(names))

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def column_type(self, name: str) -> str:
        """Return the type of a column: "number", "text", "empty", "any" of a CSV file, or the name of another type.

        Where files differ, it is "text" if it is text in any of them; a type that is neither takes precedence.
        """
        column_types = {part.column_type(name) for part in self.parts if name in part.dtypes} - {"empty"}
        if len(column_types) < 2:
            return next(iter(column_types), "empty")
        odd = sorted(column_types - {NUMBER, TEXT, "any"})
        return odd[0] if odd else TEXT if TEXT in column_types else "any"

    def batches(self, column_types: Mapping[str, ColumnType], size: int | None = None) -> Iterator[pl.DataFrame]:
        """Yield the requested columns, at most ``size`` rows at a time; see `Part.batches`.

        Raises:
            divulge.InputError: a damaged file, a value of another type.
        """
        rows = size or BATCH
        yield from _rechunk(self._small_batches(column_types, rows), rows)

    def _small_batches(self, column_types: Mapping[str, ColumnType], size: int) -> Iterator[pl.DataFrame]:
        """Yield batches as the files have them: each of many small files may be one."""
        for group in _group_parts(self.parts):
            part = _merge_parts(group)
            with self._errors(group, lambda part: list(part.batches(column_types, size))):
                yield from part.batches(column_types, size)

    @contextlib.contextmanager
    def _errors(self, group: Sequence[Part], read: Callable[[Part], object]) -> Generator[None]:
        """Name the damaged file among those that are read together: the first that cannot be read alone."""
        try:
            yield
        except BaseException as error:
            if len(group) > 1 and not isinstance(error, InputError) and not isinstance(error, _NO_DAMAGE):
                for part in group:
                    with table_errors(_error_prefix(self.name, part.name)):
                        read(part)
            with table_errors(_error_prefix(self.name, group[0].name)):
                raise

    def estimate_rows(self) -> int | None:
        """Return the number of rows, of CSV and JSON lines by the first of them; None where nothing tells it unread."""
        n_rows = 0
        for part in self.parts:
            if not part.is_text:
                with self._errors([part], lambda part: part.frames[0]().select(pl.len()).collect()):
                    n_rows += sum(int(scan().select(pl.len()).collect().item()) for scan in part.frames)
                continue
            file = part.lines.file if part.lines is not None else part.delimited.file if part.delimited else None
            if file is None or file.path is None or file_type(file)[1]:
                return None
            with file.path.open("rb") as stream:
                start = stream.read(_ESTIMATED_FROM)
            if part.delimited is not None and b'"' in start:  # a quoted value may have many lines
                return None
            n_rows += round(file.path.stat().st_size * start.count(b"\n") / max(len(start), 1))
        return n_rows

    def values(self, name: str) -> list[Any]:
        """Return the values of a column as the files have them, lists and objects too; in files of text as JSON.

        Raises:
            divulge.InputError: a damaged file.
        """
        values: list[Any] = []
        _check_fits_memory(self)
        for part in self.parts:
            with self._errors([part], lambda part: None):
                for scan in part.frames:
                    frame = scan()
                    column = pl.col(name) if name in frame.collect_schema() else pl.lit(None).alias(name)
                    with without_panic_output():
                        values += frame.with_columns(column).select(name).collect()[name].to_list()
        return values

    def collect(
        self, columns: Sequence[str] | None = None, texts: Sequence[str] = (), *, with_gaps: Sequence[str] = ()
    ) -> pl.DataFrame:
        """Return the columns of all rows in memory, with the types of the file or, of a text file, of all its values.

        Args:
            columns: names; all when None.
            texts: columns that are texts whatever their values look like.
            with_gaps: columns in which a text file may spell a missing value as a word (`delimited.MISSING`).

        Raises:
            divulge.InputError: a damaged file, columns of different kinds in several files, more than memory can take.
        """
        names = list(self.columns) if columns is None else list(columns)
        _check_fits_memory(self)
        separators = {None if part.delimited is None else part.delimited.separator for part in self.parts}
        are_alike = len(self.parts) > 1 and len(separators) == 1 and None not in separators

        def read(part: Part) -> pl.DataFrame:
            # What the columns of several CSV files are, all of their values tell together.
            return _read_part(part, names) if are_alike else _collect_part(part, names, texts, with_gaps)

        groups = _group_parts(self.parts)
        frames = []
        for group in groups:
            with self._errors(group, read):
                frames.append(read(_merge_parts(group)))
        if are_alike:
            frame = pl.concat(frames, how="diagonal")
            names = [name for name in names if name in frame.columns]
            separator = str(separators.pop())
            _check_marks(self.parts, frame, separator, texts)
            return _infer_columns(frame.select(names), separator, texts, with_gaps)
        return frames[0] if len(frames) == 1 else _stack(self.name, [group[0] for group in groups], frames, names)

    def has_rows(self) -> bool:
        """Return whether there is any row.

        Raises:
            divulge.InputError: a damaged file.
        """
        for part in self.parts:
            with table_errors(_error_prefix(self.name, part.name)), without_panic_output():
                if any(len(scan().head(1).collect()) for scan in part.frames):
                    return True
        return False

    def take(self, rows: Sequence[int], column_types: Mapping[str, ColumnType]) -> dict[int, dict[str, Any]]:
        """Return the requested columns of some rows, by the numbers of the rows from 0; errors as for `batches`."""
        rows_by_number: dict[int, dict[str, Any]] = {}
        start = 0

        def read(part: Part) -> int:
            check_column_names(column_types)
            n_rows = 0
            exact = part._with_exact_numbers(column_types)  # its files are removed with it
            for scan in exact.frames:
                rows_by_number.update(_take_rows(scan(), rows, start + n_rows, column_types))
                with without_panic_output():
                    n_rows += int(scan().select(pl.len()).collect().item())
            return n_rows

        for group in _group_parts(self.parts):
            with self._errors(group, read):
                start += read(_merge_parts(group))
        return rows_by_number

    def place(self, row: int) -> str:
        """Return the place of a row: its line in a file of JSON lines, else its number from 1."""
        place = f"row {row + 1:,} (the header not counted)"
        for part in self.parts:
            if part.lines is None:
                return place
            for path, _ in part.lines.files:
                numbers = pl.scan_ipc(path.absolute(), glob=False).select(LINE).collect().to_series()
                if row < len(numbers):
                    return f"line {numbers[row]}"
                row -= len(numbers)
        return place


_NO_DAMAGE = (GeneratorExit, KeyboardInterrupt, SystemExit, MemoryError)
_MAX_FILES = 4096  # that are scanned together


def _group_parts(parts: Sequence[Part]) -> list[list[Part]]:
    """Return parts in their order, those together that one scan reads: files of one format with the same columns."""
    groups: list[list[Part]] = []
    for part in parts:
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and len(groups[-1]) < _MAX_FILES
            and last.scannable is not None
            and part.scannable is not None
            and last.scannable[0] == part.scannable[0]
            and (last.dtypes is part.dtypes or list(last.dtypes.items()) == list(part.dtypes.items()))
        ):
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _merge_parts(group: Sequence[Part]) -> Part:
    """Return parts that one scan reads as one part."""
    first_part = group[0].scannable
    if len(group) == 1 or first_part is None:
        return group[0]
    paths = tuple(path for part in group if part.scannable is not None for path in part.scannable[1])
    return replace(group[0], frames=(_scan_files(first_part[0], paths),), scannable=(first_part[0], paths))


def _scan_files(file_format: FileType, paths: Sequence[Path]) -> Callable[[], pl.LazyFrame]:
    """Return a scan of files of one format; in their names nothing is a pattern."""
    scan = pl.scan_parquet if file_format == "parquet" else pl.scan_ipc
    return lambda: scan(list(paths), glob=False, hive_partitioning=False)


def _error_prefix(argument: str, file: str) -> str:
    return f"{argument}: {file}" if argument else file


def is_table(path: Path) -> bool:
    """Return whether a path is a table: a file by its name, or a folder of such files, of texts or a saved data set."""
    return holds_tables(path) or is_text_folder(path) if path.is_dir() else is_table_file(path)


def scan_table(sources: Source | Iterable[Source], name: str = "", *, separator: str | None = None) -> Table:
    """Return the table in one or more files or folders, of which only the columns are read yet.

    Args:
        sources: paths, open binary files or bytes, in their order.
        name: name of the argument, for messages.
        separator: between the values of CSV files; told by their headers when None.

    Raises:
        divulge.InputError: no such file, an unknown file format, or a damaged one.
    """
    source_list: Any = [sources] if isinstance(sources, str | Path | bytes) or hasattr(sources, "read") else sources
    parts = []
    for source in source_list:
        if isinstance(source, str | Path) and is_text_folder(Path(source)):
            with table_errors(_error_prefix(name, str(source))):
                texts = read_text_folder(Path(source))
            parts.append(Part(str(source), SCHEMA, (texts.lazy,)))
            continue
        if isinstance(source, str | Path):
            with table_errors(
                _error_prefix(name, str(source)) if not str(source).startswith(name or "\0") else str(source)
            ):
                files: list[Source] = [*find_files(Path(source))]
        else:
            files = [source]
        for file in map(TableFile.from_source, files):
            with table_errors(_error_prefix(name, file.name)):
                parts.append(_open_part(file, separator))
    return Table(name, tuple(parts))


def read_table(
    source: Source | Iterable[Source],
    name: str = "",
    *,
    columns: Sequence[str] | None = None,
    texts: Sequence[str] = (),
    separator: str | None = None,
) -> pl.DataFrame:
    r"""Return the table in one or more files or folders; arguments and errors as for `scan_table` and `Table.collect`.

    Examples:
        >>> read_table(b"id;score\n007;0,5\n", texts=["id"]).rows()
        [('007', 0.5)]
    """
    return scan_table(source, name, separator=separator).collect(columns, texts)


def _open_part(file: TableFile, separator: str | None) -> Part:
    if file.path is not None:
        reject_convertible_file(file.path)
    file_format, compression = file_type(file)
    if file_format == "csv":
        delimited = open_delimited(file, compression, separator)
        repeated = frozenset(name for name, count in Counter(delimited.names).items() if count > 1)
        dtypes = {name: pl.String() for name in delimited.names}
        return Part(file.name, dtypes, (delimited.scan,), delimited=delimited, repeated=repeated)
    if file_format == "json lines":
        return _part_of_lines(file.name, convert_json_lines(file, compression))
    with without_panic_output():
        if file_format == "arrow stream":
            check_stream(file)
            # polars reads a stream only whole; the columns are those of its first rows.
            schema = pl.read_ipc_stream(_stream_source(file), n_rows=0).schema
            return Part(file.name, dict(schema), (lambda: pl.read_ipc_stream(_stream_source(file)).lazy(),))
        source = file.polars_source
        if isinstance(source, Path):
            scan = _scan_files(file_format, (source,))
            return Part(file.name, dict(scan().collect_schema()), (scan,), scannable=(file_format, (source,)))
        scan = partial(pl.scan_parquet if file_format == "parquet" else pl.scan_ipc, source)
        return Part(file.name, dict(scan().collect_schema()), (scan,))


def _part_of_lines(name: str, lines: JsonLines) -> Part:
    scans = tuple(_scan_files("arrow file", (path.absolute(),)) for path, _ in lines.files)
    return Part(name, {key: pl.String() for key in lines.value_types}, scans, lines=lines)


def _stream_source(file: TableFile) -> Any:
    return file.polars_source if file.content is None else file.content


def _batches(
    frame: pl.LazyFrame, column_types: Mapping[str, ColumnType], size: int, *, spelled: bool
) -> Iterator[pl.DataFrame]:
    """Yield the requested columns; those of a CSV file as texts."""
    schema = frame.collect_schema()
    selected = []
    for name, column_type in column_types.items():
        if name not in schema:
            selected.append(pl.lit(None, dtype=pl.Float64 if column_type == NUMBER else pl.String).alias(name))
        elif column_type == TEXT:
            selected.append(text_expression(name, schema[name]))
        else:
            selected.append(pl.col(name) if spelled else pl.col(name).cast(pl.Float64))
    if not schema.keys() & column_types.keys():  # a column of the file tells how many rows there are
        yield from row_batches(frame.select(next(iter(schema)), *selected).select(list(column_types)), size)
        return
    yield from row_batches(frame.select(selected), size)


def _take_rows(
    frame: pl.LazyFrame, rows: Sequence[int], start: int, column_types: Mapping[str, ColumnType]
) -> dict[int, dict[str, Any]]:
    schema = frame.collect_schema()
    columns = [
        text_expression(name, schema[name]) if name in schema else pl.lit(None, pl.String).alias(name)
        for name in column_types
    ]
    numbered = frame.with_row_index(_ROW).filter(pl.col(_ROW).is_in([row - start for row in rows if row >= start]))
    with without_panic_output():
        selected_rows = numbered.select(pl.col(_ROW), *columns).collect()
    return {start + row.pop(_ROW): row for row in selected_rows.to_dicts()}


def row_batches(frame: pl.LazyFrame, size: int | None = None) -> Iterator[pl.DataFrame]:
    """Yield the rows of a scan in their order, ``size`` at a time (`BATCH` when None), of the last batch fewer."""
    rows = size or BATCH
    yield from _rechunk(_collect_batches(frame, rows), rows)


def _collect_batches(frame: pl.LazyFrame, size: int) -> Iterator[pl.DataFrame]:
    batches = iter(frame.collect_batches(chunk_size=size, maintain_order=True, lazy=True))
    while True:
        with without_panic_output():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _rechunk(batches: Iterable[pl.DataFrame], size: int) -> Iterator[pl.DataFrame]:
    """Yield the rows of some batches, ``size`` at a time, of the last batch fewer."""
    ready: list[pl.DataFrame] = []
    n_ready = 0
    for batch in batches:
        ready.append(batch)
        n_ready += len(batch)
        while n_ready >= size:
            joined = pl.concat(ready)
            yield joined.slice(0, size)
            n_ready -= size
            ready = [joined.slice(size)] if n_ready else []
    if n_ready:
        yield pl.concat(ready)


def _collect_part(
    part: Part, names: Sequence[str], texts: Sequence[str], with_gaps: Sequence[str] = ()
) -> pl.DataFrame:
    if part.lines is not None:
        exact = part._with_exact_numbers(dict.fromkeys(texts, TEXT))
        present_names = [name for name in names if name in part.dtypes]
        check_column_names(present_names)
        return pl.DataFrame({name: _json_column(exact, name, as_text=name in texts) for name in present_names})
    frame = _read_part(part, names)
    if part.delimited is not None:
        _check_marks([part], frame, part.delimited.separator, texts)
        return _infer_columns(frame, part.delimited.separator, texts, with_gaps)
    present_names = frame.columns
    for name in present_names:
        if name in texts:
            part._check_column_type(name, TEXT)
    texts = [*texts, *(name for name in present_names if part.dtypes[name] == pl.String)]
    return frame.with_columns([text_expression(name, part.dtypes[name]) for name in present_names if name in texts])


def _read_part(part: Part, names: Sequence[str]) -> pl.DataFrame:
    """Return those of the columns that a file has, as it stores them."""
    present_names = [name for name in names if name in part.dtypes]
    check_column_names(present_names)
    for name in present_names:
        if name in part.repeated:
            raise InputError(f"columns of different names are needed, got {format_value(name)} twice")
    with without_panic_output():
        return part.frames[0]().select(present_names).collect()


def _check_marks(parts: Sequence[Part], frame: pl.DataFrame, separator: str, texts: Sequence[str]) -> None:
    """Check the decimal marks of columns of CSV files, where need be against those of the columns that are not read.

    Raises:
        divulge.InputError: numbers that may be thousands.
    """
    readers = {name: read_marks(frame[name], separator) for name in frame.columns if name not in texts}
    marked = {name: reader for name, reader in readers.items() if reader is not None}
    if all(reader.has_proof for reader in marked.values()):
        return
    for part in parts:
        others = [name for name in part.dtypes if name not in frame.columns and name not in part.repeated]
        for name, column in _read_part(part, others).to_dict().items() if others else ():
            if (reader := read_marks(column, separator)) is not None:
                marked[name] = reader
    check_decimal_marks(marked)


def _infer_columns(frame: pl.DataFrame, separator: str, texts: Sequence[str], with_gaps: Sequence[str]) -> pl.DataFrame:
    """Return the columns of CSV files as what all of their values are, or as the texts that they are needed as."""
    read = {
        name: frame[name].to_frame().select(text_expression(name, pl.String())).to_series()
        if name in texts
        else infer_column(frame[name], separator, with_gaps=name in with_gaps)
        for name in frame.columns
    }
    gaps = [name for name in with_gaps if name in texts and name in read]
    return pl.DataFrame(read).with_columns(pl.col(name).replace(dict.fromkeys(MISSING)) for name in gaps)


def _json_column(part: Part, name: str, *, as_text: bool) -> pl.Series:
    """Return a column of JSON lines by the kind of its values.

    Raises:
        divulge.InputError: values of several kinds, or whole numbers of more than 64 bits.
    """
    value_types = {} if part.lines is None else part.lines.value_types[name]
    value_type = next(iter(value_types), json_lines.TEXT)
    for other_type, (line, value) in value_types.items():
        if other_type != value_type:
            shown_value = other_type if other_type in (json_lines.LIST, json_lines.OBJECT) else value
            raise InputError(f"line {line}: {name}: {value_type} is needed, got {shown_value}")
    if value_type in (json_lines.LIST, json_lines.OBJECT):
        raise InputError(
            f"the columns {name} hold lists or images, and a value is a number; bring them as the array x of an .npz, "
            "or, where chats are read, name their column (data.messages)"
        )
    value_type = json_lines.TEXT if as_text else value_type
    dtype = {json_lines.NUMBER: pl.Float64, json_lines.BOOLEAN: pl.Boolean}.get(value_type, pl.String)
    columns = []
    for scan in part.frames:
        frame, anchor = scan(), pl.col(LINE)
        schema = frame.collect_schema()
        if name not in schema:
            chosen = frame.select(anchor, pl.lit(None, dtype).alias(name))
        elif value_type == json_lines.TEXT:
            chosen = frame.select(anchor, text_expression(name, schema[name]))
        else:
            chosen = frame.select(anchor, name)
        columns.append(chosen.collect()[name])
    if value_type == json_lines.NUMBER and part.lines is not None and name not in part.lines.fractions:
        if any(column.dtype == pl.String for column in columns):
            raise InputError(f"{name}: cannot be read as a column (whole numbers of at most 64 bits are needed)")
        dtype = pl.Int64
    return pl.concat([column.cast(dtype) for column in columns])


def _stack(table: str, parts: Sequence[Part], frames: Sequence[pl.DataFrame], names: Sequence[str]) -> pl.DataFrame:
    """Put the parts of the table of this name below each other.

    Raises:
        divulge.InputError: a column is of one kind in a file and of another in another, or of types that no type holds.
    """
    for name in names:
        files_by_type: dict[str, str] = {}
        for part, frame in zip(parts, frames, strict=True):
            if name in frame.columns and frame[name].null_count() < len(frame):
                dtype = frame[name].dtype
                column_type = (
                    "numbers"
                    if dtype.is_numeric()
                    else "texts"
                    if str(dtype.base_type()) in _TEXT_TYPES
                    else str(dtype)
                )
                files_by_type.setdefault(column_type, part.name)
        if len(files_by_type) > 1:
            (first_type, first_file), (second_type, second_file) = list(files_by_type.items())[:2]
            raise InputError(
                f"{_error_prefix(table, first_file)}: column {name!r} holds {first_type} here and "
                f"{second_type} in {second_file}; columns of one kind are needed"
            )
    empty = [frame.with_columns(pl.col(pl.Null).cast(pl.String)) for frame in frames]
    try:
        return pl.concat(_without_empty(empty), how="diagonal_relaxed").select(list(names))
    except pl.exceptions.SchemaError as error:  # a Categorical and an Enum, say
        raise InputError(
            f"{_error_prefix(table, parts[0].name)}: its columns and those of other files are of types that do not go "
            f"together ({error_summary(error)}); store each column with one type"
        ) from None


def _without_empty(frames: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Drop columns that are entirely missing in one part and have values in another, as they have no type."""
    filled = {name for frame in frames for name in frame.columns if frame[name].null_count() < len(frame)}
    return [
        frame.drop([name for name in frame.columns if name in filled and frame[name].null_count() == len(frame)])
        if len(frame.columns) > 1
        else frame
        for frame in frames
    ]


def _check_fits_memory(table: Table) -> None:
    """Check that the table fits into memory, by the sizes and row counts of its files.

    Raises:
        divulge.InputError: in that case.
    """
    n_bytes = 0
    for part in map(_merge_parts, _group_parts(table.parts)):
        if part.is_text:
            paths = [path for path, _ in part.lines.files] if part.lines is not None else []
            if part.delimited is not None and part.delimited.file.path is not None:
                paths = [part.delimited.file.path]
            n_bytes += 4 * sum(path.stat().st_size for path in paths)
            continue
        with table_errors(_error_prefix(table.name, part.name)), without_panic_output():
            rows = int(part.frames[0]().select(pl.len()).collect().item())
        n_bytes += 2 * rows * sum(map(_width, part.dtypes.values()))
    check_memory(
        n_bytes, _error_prefix(table.name, table.parts[0].name) if table.parts else table.name, "split the file"
    )


def _width(dtype: Any) -> int:
    """Return the bytes that a value takes at least."""
    if dtype == pl.Boolean:
        return 1
    if dtype.is_numeric() and not dtype.is_decimal():
        return int(np.dtype(str(dtype.base_type()).lower()).itemsize) if str(dtype) != "Int128" else 16
    return 16 if not dtype.is_temporal() else 8


class PieceWriter:
    """Writes batches of rows into a folder, as Parquet files of so many rows that each is read at once.

    Args:
        folder: which is made.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._rows, self._bytes, self._files = folder, 0, 0, 0
        self._ready: list[pl.DataFrame] = []

    def add(self, batch: pl.DataFrame) -> None:
        """Write the rows of a batch, or keep them until there are enough."""
        self._ready.append(batch)
        self._rows += len(batch)
        self._bytes += int(batch.estimated_size())
        if self._rows >= _PIECE_ROWS or self._bytes >= _PIECE_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is kept; one file at least, so that the columns are known."""
        if self._ready:
            self._flush()

    def _flush(self) -> None:
        path = self._folder / f"{self._files:06d}.parquet"
        piece = pl.concat(self._ready)
        store.write_file(path, lambda out: piece.write_parquet(out, compression="lz4", statistics=False))
        self._ready, self._rows, self._bytes, self._files = [], 0, 0, self._files + 1


def open_pieces(folder: Path) -> pl.LazyFrame:
    """Return a scan of what a `PieceWriter` wrote; errors as for `open_parquet`."""
    return open_parquet(sorted(folder.glob("*.parquet")))


def open_parquet(source: str | Path | Sequence[Path] | bytes) -> pl.LazyFrame:
    """Return a scan of Parquet or Arrow files that Divulge wrote itself, with their own types.

    Raises:
        divulge.InputError: missing or damaged file.
    """
    files = [source] if isinstance(source, str | Path | bytes) else list(source)
    arrow = isinstance(files[0], Path) and files[0].suffix == ".arrow"
    paths: Any = [Path(file).absolute() if not isinstance(file, bytes) else file for file in files]
    for path in paths:
        if isinstance(path, Path):
            with table_errors(str(path)):
                open_untrusted(path, inside=path.parent).close()
    if not all(isinstance(path, bytes) or is_utf8_name(path) for path in paths):
        paths = [path if isinstance(path, bytes) else path.read_bytes() for path in paths]
        files = paths
    with table_errors(str(files[0]) if not isinstance(files[0], bytes) else "bytes"), without_panic_output():
        if isinstance(files[0], bytes):
            frame = pl.scan_ipc(paths) if arrow else pl.scan_parquet(paths)
        elif arrow:
            frame = pl.scan_ipc(paths, glob=False, hive_partitioning=False)
        else:
            frame = pl.scan_parquet(paths, glob=False, hive_partitioning=False)
        frame.collect_schema()
        return frame


def read_parquet(source: str | Path | bytes | IO[bytes], columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Return a Parquet file that Divulge wrote itself, with its own types.

    Raises:
        divulge.InputError: missing or damaged file, more than memory can take.
    """
    file = TableFile.from_source(source if isinstance(source, str | Path | bytes) else source.read())
    with table_errors(file.name):
        if file.path is not None and not file.path.is_file():
            raise InputError(f"{file.name}: no such file")
        table = Table("", (_open_part(file, None),))
        _check_fits_memory(table)
        check_column_names(columns or table.columns)
        with without_panic_output():
            return table.parts[0].frames[0]().select(list(columns or table.columns)).collect()


def write_parquet(frame: pl.DataFrame | pl.LazyFrame, file: str | Path | IO[bytes]) -> None:
    """Write a table as Parquet; a scan is written batch by batch."""
    if isinstance(frame, pl.LazyFrame):
        frame.sink_parquet(file, compression="zstd", maintain_order=True, engine="streaming")
    else:
        frame.write_parquet(file, compression="zstd")


def write_csv(
    frame: pl.DataFrame,
    file: str | Path | IO[bytes],
    *,
    spreadsheet: bool = False,
    separator: str = ",",
    decimal_comma: bool = False,
) -> None:
    """Write a table as CSV, with a header; for a ``spreadsheet`` with the mark by which it knows UTF-8."""
    frame.write_csv(file, include_bom=spreadsheet, separator=separator, decimal_comma=decimal_comma)


# What a spreadsheet would take for the beginning of a formula, and what is a number nonetheless.
_FORMULA = re.compile(r"[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def escape_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Prefix text that a spreadsheet would run as a formula with an apostrophe, for a CSV.

    Numbers stay what they are, also where a text is nothing but a number.

    Examples:
        >>> escape_formulas(pl.DataFrame({"id": ["=1+1", "-3.5", "a=b"]}))["id"].to_list()
        ["'=1+1", '-3.5', 'a=b']
    """
    names = {name: f"'{name}" for name in frame.columns if _FORMULA.match(name)}
    escaped = []
    for column in frame.select(pl.col(pl.String)):
        is_formula = (value is not None and _FORMULA.match(value) and not _NUMBER.fullmatch(value) for value in column)
        values = [f"'{value}" if escape else value for value, escape in zip(column, is_formula, strict=True)]
        escaped.append(pl.Series(column.name, values, pl.String))
    return frame.with_columns(escaped).rename(names)
