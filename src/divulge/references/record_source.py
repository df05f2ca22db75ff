"""Training records that stay where they are: in Parquet files on shared storage, or in the blocks of a Ray dataset.

A `RecordSource` takes the place of `Records` where reference models are trained. It travels as names of files, or as
references to blocks; each model's own records are read where that model is trained, so that the records as a whole
need not fit into the memory of any machine, nor pass through the one that started the training.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from divulge import lazy, store, tables
from divulge.errors import InputError
from divulge.types import Records
from divulge.validation import (
    as_list,
    check_column_names,
    check_instance,
    check_memory,
    check_path,
    check_strings,
    format_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import ray
    import ray.exceptions

    from divulge.types import Array, Ints
else:
    ray = lazy.module("ray")

_BYTES_AT_ONCE = 1 << 28  # of the rows of a file that are read together
_HASHED_BYTES = 1 << 20  # of a file at a time
_BYTES_OF_TEXT = 1 << 11  # taken for the length of a document, where only their number is known

Place: TypeAlias = "Path | ray.ObjectRef[Any]"
"""Where rows are: a Parquet file, or a block of a Ray dataset."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows that lie together.

    Args:
        place: the file or block.
        name: of it, for messages.
        n_rows: number of rows.
        labels: smallest and largest label; None without labels.
    """

    place: Place
    name: str
    n_rows: int
    labels: tuple[float, float] | None


@dataclass(frozen=True, slots=True, eq=False)
class RecordSource:
    """``n`` training records outside of this process; `scan_records` makes it.

    Indexing reads: ``source[rows]`` gives those rows as `Records`, in their order.

    Args:
        parts: files or blocks, in order.
        columns: of the values of a record.
        label: column of the labels, or None.
        dtype: of the values of a record; object for texts.
        shape: of one record.
        has_classes: whether labels are classes rather than real values.
    """

    parts: tuple[_Part, ...]
    columns: tuple[str, ...]
    label: str | None
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    has_classes: bool

    def __len__(self) -> int:
        return sum(part.n_rows for part in self.parts)

    def __repr__(self) -> str:
        return f"RecordSource(n={len(self):,}, shape={self.shape}, parts={len(self.parts):,})"

    @property
    def largest_class(self) -> int:
        """The largest label.

        Raises:
            divulge.InputError: no labels, or labels that are real values.
        """
        if self.label is None or not self.has_classes:
            reason = "got none" if self.label is None else f"column {self.label!r} holds real values"
            raise InputError(f"records: classes are needed to train on, {reason}; name their column as label")
        return max(int(part.labels[1]) for part in self.parts if part.labels is not None)

    def __getitem__(self, rows: Ints) -> Records:
        """Read the records at ``rows``, positions in ascending order.

        Raises:
            divulge.InputError: they do not fit into memory, a file is damaged or has changed, a value is missing or
                not finite.
        """
        positions = np.asarray(rows, dtype=np.int64)
        width = _BYTES_OF_TEXT if self.dtype == object else self.dtype.itemsize * int(np.prod(self.shape))
        check_memory(float(width) * len(positions), "records", "train on fewer records, or fewer models in one stack")
        x = np.empty((len(positions), *self.shape), dtype=self.dtype)
        y = None if self.label is None else np.empty(len(positions), dtype=np.int64 if self.has_classes else np.float64)
        start = 0
        for part in self.parts:
            first, last = np.searchsorted(positions, [start, start + part.n_rows])
            inside, filled = positions[first:last] - start, int(first)
            for values, labels in _read_rows(part, inside, self.columns, self.label, max(1, _BYTES_AT_ONCE // width)):
                x[filled : filled + len(values)] = values
                if y is not None:
                    y[filled : filled + len(values)] = labels
                filled += len(values)
            start += part.n_rows
        records = Records(x, y)
        return records if self.has_classes or y is None else records.with_real_values()

    def digest(self) -> str:
        """Return a digest of all records, which are read once, piece by piece."""
        parts = _map_parts(self.parts, _digest_part, self.columns, self.label)
        return store.hash_values("source", self.columns, self.label, *parts)


def scan_records(source: Any, *, label: str | None = None, columns: Sequence[str] | None = None) -> RecordSource:
    """Return training records that are read where models are trained: from Parquet files, or a Ray dataset.

    `Train`, `Custom` and `FineTune` take them as the ``records`` of ``fit``. On a cluster (``engine="ray"``) a task
    reads the rows of its own models, and no other machine does; on one machine a model's rows alone are in memory. The
    models are those that `Records` of the same values give, to the bit.

    Args:
        source: a Parquet file, a folder of such files, a pattern such as ``"/data/part-*.parquet"``, or a list of
            these, at a path that is the same on every node; or a ``ray.data.Dataset``, whose blocks are referred to.
            Rows are counted through all files in the order of the list, and of their names.
        label: column of the labels: whole numbers from 0 on are classes, floats are real values. None for texts.
        columns: of a record's values, in their order; None takes all but the label. Numbers and truth values, one
            column of arrays of one shape (Parquet's lists of fixed length), or one of texts.

    Raises:
        divulge.InputError: no such file, files whose columns differ, a column that is missing or of another kind,
            labels that are missing, negative or names.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pl.DataFrame({"a": [0.5, 1.5, 2.5], "y": [0, 1, 1]}).write_parquet(f"{folder}/part-0.parquet")
        ...     source = scan_records(folder, label="y")
        ...     print(source, source[np.array([0, 2])].x.tolist())
        RecordSource(n=3, shape=(1,), parts=1) [[0.5], [2.5]]
    """
    if label is not None:
        check_instance(label, "label", str, "the name of a column")
    if hasattr(source, "to_arrow_refs"):
        places = _list_blocks(source)
    else:
        with tables.table_errors("source"):
            places = _list_files(source)
    if columns is not None:
        columns = check_strings(columns, "columns")
        check_column_names(columns)
    described = _map_parts([_Part(place, name, 0, None) for place, name in places], _describe_part, label)
    parts = []
    schema = None
    for (place, name), (part_schema, n_rows, labels) in zip(places, described, strict=True):
        if schema is None:
            schema = part_schema
        elif part_schema != schema:
            differing = sorted(set(part_schema.items()) ^ set(schema.items()), key=str)
            raise InputError(f"{name}: other columns or types than in {places[0][1]}: {format_value(differing[0][0])}")
        if n_rows:
            parts.append(_Part(place, name, n_rows, labels))
    if schema is None or not parts:
        raise InputError(f"source: at least 1 record is needed, got 0 in {len(places)} parts")
    names = tuple(name for name in schema if name != label) if columns is None else tuple(columns)
    dtype, shape = _record_type(schema, names, places[0][1])
    has_classes = label is not None and schema[label].is_integer()
    return RecordSource(tuple(parts), names, label, dtype, shape, has_classes)


def _list_files(source: Any) -> list[tuple[Place, str]]:
    files: list[Path] = []
    for item in [source] if isinstance(source, str | Path) else as_list(source, "source"):
        text = str(check_path(item, "source"))
        found = sorted(_match_pattern(Path(text))) if has_magic(text) and not Path(text).exists() else [Path(text)]
        if not found:
            raise InputError(f"source: no file matches {format_value(text)}")
        files += [file for each in found for file in tables.find_files(each)]
    if not files:
        raise InputError("source: at least 1 Parquet file is needed, got none")
    for file in files:
        if file.suffix.lower() != ".parquet":
            raise InputError(f"{file}: a Parquet file is needed (divulge reads others whole, as Records)")
    return [(file.absolute(), str(file)) for file in files]


def _match_pattern(pattern: Path) -> Iterator[Path]:
    first = next(place for place, part in enumerate(pattern.parts) if has_magic(part))
    return Path(*pattern.parts[:first]).glob(str(Path(*pattern.parts[first:])))


def _list_blocks(dataset: Any) -> list[tuple[Place, str]]:
    # Otherwise blocks stand in the order in which they are finished, and rows would have other numbers in each run.
    context = dataset.context.execution_options
    before, context.preserve_order = context.preserve_order, True
    try:
        references = dataset.materialize().to_arrow_refs()
    finally:
        context.preserve_order = before
    return [(reference, f"block {number} of the dataset") for number, reference in enumerate(references)]


def _map_parts(parts: Sequence[_Part], work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return the result of ``work`` for each part: of blocks on the nodes where they are, of files here."""
    if not parts or isinstance(parts[0].place, Path):
        return [work(part, *arguments) for part in parts]
    remote = ray.remote(num_cpus=1)(work).remote
    try:
        return ray.get([remote(part, *arguments) for part in parts])
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from None
        raise


def _open_part(part: _Part) -> pl.LazyFrame:
    """Return a scan of the rows of a part."""
    if isinstance(part.place, Path):
        if not part.place.is_file():
            raise InputError(f"{part.name}: no such file; it is needed at the same path on every node")
        return tables.open_parquet(part.place)
    frame = pl.from_arrow(ray.get(part.place))
    assert isinstance(frame, pl.DataFrame)
    return frame.lazy()


def _describe_part(part: _Part, label: str | None) -> tuple[dict[str, pl.DataType], int, tuple[float, float] | None]:
    """Return the columns of a part, its number of rows, and the range of its labels."""
    frame = _open_part(part)
    with tables.table_errors(part.name):
        schema, n_rows = dict(frame.collect_schema()), int(frame.select(pl.len()).collect().item())
        if label is None or not n_rows:
            return schema, n_rows, None
        if label not in schema:
            raise InputError(f"{part.name}: no column {format_value(label)} (columns: {', '.join(schema)[:500]})")
        dtype, column = schema[label], pl.col(label)
        if not (dtype.is_integer() or dtype.is_float()):
            raise InputError(f"{part.name}: label {label!r} is {dtype}; number the classes from 0, or give real values")
        row = frame.select(
            column.min().alias("low"), column.max().alias("high"), column.null_count().alias("missing"),
            (column.cast(pl.Float64).is_finite().not_()).sum().alias("odd"),
        ).collect(engine="streaming").row(0)  # fmt: skip
    low, high, n_missing, n_odd = row
    if n_missing or n_odd:
        raise InputError(f"{part.name}: label {label!r} is missing, NaN or infinite in {n_missing + n_odd} rows")
    if dtype.is_integer() and low < 0:
        raise InputError(f"{part.name}: label {label!r}: classes are numbered from 0, got {low}")
    return schema, n_rows, (low, high)


def _record_type(schema: dict[str, Any], names: Sequence[str], place: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the type of a record's values, and the shape of a record."""
    if not names:
        raise InputError(f"{place}: at least 1 column beside the label is needed")
    if missing := [name for name in names if name not in schema]:
        raise InputError(f"{place}: no column {format_value(missing[0])} (columns: {', '.join(schema)[:500]})")
    dtypes = [schema[name] for name in names]
    if len(names) == 1 and dtypes[0] == pl.String:
        return np.dtype(object), ()
    if len(names) == 1 and isinstance(dtypes[0], pl.Array):
        inner, shape = dtypes[0].inner, tuple(dtypes[0].shape)
        while isinstance(inner, pl.Array):
            inner = inner.inner
        dtypes = [inner]
    else:
        shape = (len(names),)
    for name, dtype in zip(names, dtypes, strict=True):
        if not (dtype.is_integer() or dtype.is_float() or dtype == pl.Boolean):
            raise InputError(
                f"{place}: column {name!r} is {dtype}; numbers and truth values are needed, or one column of texts or "
                "of arrays of one shape"
            )
    return np.result_type(*(pl.Series([], dtype=dtype).to_numpy().dtype for dtype in dtypes)), shape


def _read_rows(
    part: _Part, rows: Ints, columns: Sequence[str], label: str | None, block: int
) -> Iterator[tuple[Array, Array | None]]:
    """Yield values and labels of the rows of a part, ``block`` of its rows at most at a time."""
    if not len(rows):
        return
    frame = _open_part(part).select([*columns, *([label] if label is not None else [])])
    for start in range(int(rows[0]) // block * block, int(rows[-1]) + 1, block):
        first, last = np.searchsorted(rows, [start, start + block])
        if first == last:
            continue
        with tables.table_errors(part.name):
            piece = frame.slice(start, block).collect()
        inside = rows[first:last] - start
        if int(inside[-1]) >= len(piece):
            raise InputError(f"{part.name}: it has fewer rows than when the training began; leave it as it is")
        piece = piece[inside]
        for name in piece.columns:
            if n_missing := piece[name].null_count():
                raise InputError(
                    f"{part.name}: column {name!r} is missing in {n_missing} rows that a model learns from"
                )
        only = piece[columns[0]]
        if only.dtype == pl.String:
            values = tables.to_array(only)
        elif isinstance(only.dtype, pl.Array):
            values = only.to_numpy()
        else:
            values = np.column_stack([piece[name].to_numpy() for name in columns])
        yield values, None if label is None else piece[label].to_numpy()


def _digest_part(part: _Part, columns: Sequence[str], label: str | None) -> str:
    """Return a digest of a file's bytes, or of a block's rows."""
    if isinstance(part.place, Path):
        total = hashlib.sha256()
        with part.place.open("rb") as file:
            while piece := file.read(_HASHED_BYTES):
                total.update(piece)
        return total.hexdigest()
    rows = np.arange(part.n_rows)
    pieces = [store.hash_values(*piece) for piece in _read_rows(part, rows, columns, label, part.n_rows)]
    return store.hash_values(*pieces)
