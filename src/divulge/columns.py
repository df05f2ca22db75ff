"""Named, typed columns: the user's own data frame, its numeric encoding, and the frame that a model was fitted on."""

from __future__ import annotations

import collections
import contextlib
import datetime as dt
import decimal
import hashlib
import importlib.util
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from divulge import lazy
from divulge.errors import InputError
from divulge.validation import check_column_names, format_value, is_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd
    from sklearn import decomposition, pipeline
    from sklearn.feature_extraction import text as text_features

    Floats: TypeAlias = NDArray[np.float64]
else:
    pd = lazy.module("pandas")
    decomposition = lazy.module("sklearn.decomposition")
    pipeline = lazy.module("sklearn.pipeline")
    text_features = lazy.module("sklearn.feature_extraction.text")

Measure = Literal["number", "boolean", "category", "text", "date"]

MAX_CATEGORIES = 32
"""Categories of a column that are told apart in its numeric encoding; rarer ones share one."""
TEXT_COMPONENTS = 8
"""Columns that stand for the words of a column of free text in its numeric encoding."""
_EXACT = 2**53
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MAX_LISTED = 20


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column, read into NumPy.

    Attributes:
        name: of the column.
        measure: "number", "boolean", "category" or "date"; texts are categories until all sets have been seen.
        values: float64 ``[n]`` (booleans as 0 and 1, dates as days since 1970), or texts ``[n]``; NaN or None where
            the value is missing.
        missing: bool ``[n]``.
    """

    name: str
    measure: Measure
    values: NDArray[Any]
    missing: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.values)


def is_frame(value: Any) -> bool:
    """Check whether ``value`` is a data frame with named columns, of pandas, polars, PyArrow or another such library.

    A pandas frame whose columns are numbered is an array. An object of which no more is known than that it has Arrow's
    interface, such as a record batch, is a frame unless it is an array or one column.
    """
    try:
        frame = nw.from_native(value, pass_through=True)
    except nw.exceptions.DuplicateError:  # read_frame says which name
        return True
    if isinstance(frame, nw.DataFrame):
        return not frame.columns or any(isinstance(name, str) for name in frame.columns)
    if isinstance(frame, nw.LazyFrame):
        return True
    has_interface = hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__")
    return has_interface and (hasattr(frame, "schema") or not hasattr(frame, "__array__"))  # an array has no names


def check_numbered_columns(value: Any, name: str) -> None:
    """Raise if ``value`` is a data frame whose columns are numbered, so that it is an array, and not all hold numbers.

    Raises:
        divulge.InputError: there is such a column.
    """
    frame = nw.from_native(value, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return
    if all(isinstance(dtype, nw.Boolean) for dtype in frame.schema.values()):
        return
    for column, dtype in frame.schema.items():
        if not dtype.is_numeric():
            raise InputError(
                f"{name}: column {format_value(column)} holds values of type {dtype}, and columns without names are "
                "read as an array of numbers; give them names, as with x.columns = x.columns.map(str)"
            )


def read_frame(value: Any, name: str) -> nw.DataFrame[Any]:
    """Wrap the user's data frame; nothing is copied.

    Raises:
        divulge.InputError: a lazy frame, no rows, no columns, names that repeat or are no texts, columns of another
            type than those of `Measure`.
    """
    try:
        frame: Any = nw.from_native(value, pass_through=True)
        if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
            frame = nw.from_native(pl.DataFrame(value))
    except (nw.exceptions.DuplicateError, pl.exceptions.DuplicateError):
        names = list(getattr(value, "column_names", getattr(value, "columns", ())))
        repeated = [column for column in names if names.count(column) > 1]
        detail = f", {repeated[0]!r} occurs more than once" if repeated else ""
        raise InputError(f"{name}: column names must be unique{detail}") from None
    if isinstance(frame, nw.LazyFrame):
        raise InputError(f"{name}: a lazy frame holds no rows yet; pass its .collect()")
    columns: list[Any] = frame.columns
    if odd := [column for column in columns if not isinstance(column, str)]:
        raise InputError(f"{name}: column names must be texts, got {format_value(odd[0])}")
    if not columns:
        raise InputError(f"{name}: at least 1 column is needed, got none")
    check_column_names(columns, name)
    if not len(frame):
        raise InputError(f"{name}: at least 1 entry is needed, got 0")
    _check_types(frame, name)
    wide = [column for column, dtype in frame.schema.items() if isinstance(dtype, nw.Int128 | nw.UInt128)]
    for column in wide:  # NumPy has no such numbers
        _check_exact(column, frame[column])
    return frame.with_columns(nw.col(column).cast(nw.Int64) for column in wide) if wide else frame


def _check_types(frame: nw.DataFrame[Any], name: str) -> None:
    """Raise if a column is of a type whose values are no numbers, truth values, categories, texts or dates."""
    nested = [column for column, dtype in frame.schema.items() if dtype.is_nested() or isinstance(dtype, nw.Binary)]
    if nested:
        raise InputError(
            f"{name}: the columns {format_names(nested)} hold lists or images, and a value is a number, a text or a "
            "date; bring them as an array x, or leave them out"
        )
    for column, dtype in frame.schema.items():
        if isinstance(dtype, nw.Duration | nw.Time):
            raise InputError(
                f"{name}: column {column!r} holds values of type {dtype}, and a value is a number, a text or a date; "
                "turn it into a number, such as hours, or leave it out"
            )


def read_column(frame: nw.DataFrame[Any], name: str) -> Column:
    """Read one column of ``frame`` into NumPy.

    Raises:
        divulge.InputError: values of several kinds, infinity, whole numbers that float64 cannot tell apart.
    """
    series = frame[name]
    dtype = series.dtype
    if dtype.is_numeric():
        return _number_column(name, series)
    if isinstance(dtype, nw.Boolean):
        missing = series.is_null().to_numpy().astype(bool)
        values = np.array([np.nan if is_missing(value) else float(value) for value in series.to_list()])
        return Column(name, "boolean", np.where(missing, np.nan, values), missing)
    if isinstance(dtype, nw.Date | nw.Datetime):
        return _date_column(name, series.to_list())
    if isinstance(dtype, nw.String) and frame.implementation.is_polars():  # which holds texts and nulls, nothing else
        texts = np.empty(len(series), dtype=object)
        texts[:] = series.to_list()
        return Column(name, "category", texts, series.is_null().to_numpy().astype(bool))
    return _object_column(name, series.to_list(), is_categorical=isinstance(dtype, nw.Categorical | nw.Enum))


def _check_exact(name: str, series: nw.Series[Any]) -> None:
    """Raise if float64 cannot tell the whole numbers of a column apart."""
    if series.is_null().all():
        return
    low, high = int(series.min()), int(series.max())
    if low < -_EXACT or high > _EXACT:
        raise InputError(
            f"column {name!r} holds whole numbers beyond ±2^53, which float64 cannot tell apart, got "
            f"{high if high > _EXACT else low}; pass it as ids, or leave it out"
        )


def _number_column(name: str, series: nw.Series[Any]) -> Column:
    if isinstance(series.dtype, nw.Decimal):
        return _numbers(name, [None if value is None else float(value) for value in series.to_list()])
    missing = series.is_null().to_numpy().astype(bool)
    if series.dtype.is_integer():
        _check_exact(name, series)
    values = series.cast(nw.Float64).to_numpy().astype(np.float64) if missing.any() else series.to_numpy()
    values = values.astype(np.float64, copy=True)
    missing = missing | np.isnan(values)
    return _finite(Column(name, "number", np.where(missing, np.nan, values), missing))


def _numbers(name: str, values: Sequence[float | None]) -> Column:
    floats = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return _finite(Column(name, "number", floats, np.isnan(floats)))


def _finite(column: Column) -> Column:
    infinite = np.flatnonzero(np.isinf(column.values))
    if infinite.size:
        raise InputError(
            f"column {column.name!r}: infinite values: {infinite.size} (first: row {int(infinite[0])}, counted from 0)"
        )
    return column


def _date_column(name: str, values: Sequence[Any]) -> Column:
    days = np.array([np.nan if is_missing(value) else _days(value) for value in values])
    return Column(name, "date", days, np.isnan(days))


def _days(value: dt.date) -> float:
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    moment = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    return (moment - _EPOCH) / dt.timedelta(days=1)


def _object_column(name: str, values: Sequence[Any], *, is_categorical: bool) -> Column:
    """Read texts, categories, or Python objects of one kind."""
    missing = np.array([is_missing(value) for value in values], dtype=bool)
    present = [value for value, absent in zip(values, missing, strict=True) if not absent]
    if all(isinstance(value, bool | np.bool_) for value in present) and present:
        floats = [np.nan if absent else float(value) for value, absent in zip(values, missing, strict=True)]
        return Column(name, "boolean", np.array(floats), missing)
    if all(isinstance(value, int | float | decimal.Decimal | np.number) for value in present) and present:
        return _numbers(name, [None if absent else float(value) for value, absent in zip(values, missing, strict=True)])
    if all(isinstance(value, dt.date) for value in present) and present:
        return _date_column(name, [None if absent else value for value, absent in zip(values, missing, strict=True)])
    if not is_categorical and not all(isinstance(value, str) for value in present):
        first_rows: dict[str, int] = {}
        for row, value in enumerate(values):
            if not missing[row]:
                first_rows.setdefault(_describe_type(value), row)
        listed = (
            " and ".join(f"{value_type} in row {row}" for value_type, row in list(first_rows.items())[:2])
            + ", counted from 0"
        )
        raise InputError(
            f"column {name!r}: values of one kind are needed (numbers, texts, truth values or dates), got {listed}"
        )
    texts = np.empty(len(values), dtype=object)
    texts[:] = [None if absent else str(value) for value, absent in zip(values, missing, strict=True)]
    return Column(name, "category", texts, missing)


def _describe_type(value: object) -> str:
    described = {bool: "a truth value", str: "a text", int: "a number", float: "a number", dt.date: "a date"}
    return next((text for value_type, text in described.items() if isinstance(value, value_type)), type(value).__name__)


@dataclass(frozen=True, slots=True, eq=False)
class TableEncoder:
    """Encode named columns as numbers, the same way for every set of records.

    Numbers, booleans and dates (days since 1970) become one column each, categories one column each (the rarest of
    more than `MOST_CATEGORIES` share one), free text its length and `TEXT_COMPONENTS` components of its tf-idf.
    A number that is missing becomes the median, and a further column says where; a category that is missing is a
    category. A table of numbers alone, none missing, is its own encoding.

    Attributes:
        columns: an encoding for each column.
        spans: which columns of the encoding stand for each column of the table.
    """

    columns: tuple[ColumnEncoder, ...]

    @classmethod
    def fit(cls, frames: Sequence[nw.DataFrame[Any]]) -> TableEncoder:
        """Learn categories, medians and words from all sets together, without a look at membership.

        Raises:
            divulge.InputError: a column whose type differs between the sets, or cannot be read.
        """
        encoders = []
        for name in frames[0].columns:
            parts = [read_column(frame, name) for frame in frames]
            is_nominal = any(isinstance(frame[name].dtype, nw.Categorical | nw.Enum) for frame in frames)
            encoders.append(_fit_column(_join(name, parts), is_nominal=is_nominal))
        return cls(tuple(encoders))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the table's columns."""
        return tuple(column.name for column in self.columns)

    @property
    def spans(self) -> dict[str, slice]:
        """Columns of the encoding, by the name of the table's column."""
        ends = np.cumsum([0, *(column.width for column in self.columns)]).tolist()
        return {column.name: slice(ends[i], ends[i + 1]) for i, column in enumerate(self.columns)}

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the columns of the encoding, such as "sex = F"."""
        return tuple(name for column in self.columns for name in column.encoded_names)

    @property
    def is_plain(self) -> bool:
        """Whether the table is its own encoding: numbers and booleans, none missing."""
        return all(column.measure in ("number", "boolean") and not column.has_missing for column in self.columns)

    def encode(self, frame: nw.DataFrame[Any]) -> NDArray[Any]:
        """Return the numeric encoding ``[n, d]``, float64; of a table of float32 alone, float32."""
        if self.is_plain:
            series = [frame[name] for name in self.names]
            dtype = np.float32 if all(isinstance(column.dtype, nw.Float32) for column in series) else np.float64
            return np.column_stack([column.to_numpy().astype(dtype, copy=False) for column in series])
        return np.hstack([column.encode(read_column(frame, column.name)) for column in self.columns])

    def type_missing(self, frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
        """Return ``frame`` in which numbers that are missing throughout are numbers, as they are in the other sets."""
        empty = [
            column.name
            for column in self.columns
            if column.measure == "number"
            and not frame[column.name].dtype.is_numeric()
            and frame[column.name].is_null().all()
        ]
        return frame.with_columns(*(nw.col(name).cast(nw.Float64) for name in empty)) if empty else frame

    def decode(self, x: NDArray[Any], frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
        """Return ``frame`` with the values that ``x [n, d]`` stands for; free text stays as it is."""
        changed = []
        for column, span in zip(self.columns, self.spans.values(), strict=True):
            series = frame[column.name]
            values = column.decode(np.asarray(x[:, span], dtype=np.float64), series)
            if values is not None:
                changed.append(nw.new_series(column.name, values, backend=frame.implementation))
        return frame.with_columns(*changed) if changed else frame


@dataclass(frozen=True, slots=True, eq=False)
class ColumnEncoder:
    """Encoding of one column as numbers.

    Attributes:
        name: of the column.
        measure: what it holds.
        has_missing: whether a column says where values are missing.
        median: stands where a number is missing.
        categories: those that are told apart; None among them stands for missing.
        has_rare: whether a last column stands for all other categories.
        words: a fitted pipeline from texts to components; None where there are no words.
    """

    name: str
    measure: Measure
    has_missing: bool = False
    median: float = 0.0
    categories: tuple[str | None, ...] = ()
    has_rare: bool = False
    words: Any = None

    @property
    def width(self) -> int:
        """Number of columns of the encoding."""
        if self.measure == "category":
            return len(self.categories) + self.has_rare
        if self.measure == "text":
            return 1 + (0 if self.words is None else self.words[-1].n_components)
        return 1 + self.has_missing

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the columns of the encoding."""
        if self.measure == "category":
            values = ["missing" if value is None else value for value in self.categories]
            return tuple(f"{self.name} = {value}" for value in [*values, *["another"] * self.has_rare])
        if self.measure == "text":
            return f"length of {self.name}", *(f"words of {self.name} ({i})" for i in range(1, self.width))
        name = f"{self.name} (a date)" if self.measure == "date" else self.name
        return (name, f"{self.name} missing")[: self.width]

    def encode(self, column: Column) -> Floats:
        """Return the encoding of a column, ``[n, width]``."""
        if self.measure == "date" and column.measure == "category":
            column = parse_dates(column)
        if self.measure == "category":
            numbers = {category: number for number, category in enumerate(self.categories)}
            codes = np.array([numbers.get(value, len(numbers)) for value in column.values.tolist()])
            return (codes[:, None] == np.arange(self.width)).astype(np.float64)
        if self.measure == "text":
            texts = ["" if text is None else str(text) for text in column.values]
            lengths = np.log1p([len(text) for text in texts])[:, None]
            return lengths if self.words is None else np.hstack([lengths, self.words.transform(texts)])
        values = np.where(column.missing, self.median, column.values.astype(np.float64))[:, None]
        return np.hstack([values, column.missing[:, None].astype(np.float64)]) if self.has_missing else values

    def decode(self, x: Floats, series: nw.Series[Any]) -> list[Any] | None:
        """Return the values that ``x [n, width]`` stands for; None where the column stays as it is."""
        if self.measure == "text":
            return None
        present = series.to_list()
        if self.measure == "category":
            choices = x.argmax(axis=1)
            return [
                self.categories[category] if category < len(self.categories) else present[row]
                for row, category in enumerate(choices)
            ]
        missing = x[:, 1] > 0.5 if self.has_missing else np.zeros(len(x), dtype=bool)
        values: list[Any] = x[:, 0].tolist()
        if self.measure == "boolean":
            values = [value > 0.5 for value in values]
        if self.measure == "date":
            date_types = {type(value) for value in present if not is_missing(value)}
            values = [_convert_date(value, date_types) for value in values]
        return [None if absent else value for value, absent in zip(values, missing, strict=True)]


def _convert_date(days: float, date_types: set[type]) -> Any:
    """Convert days since the epoch to a date of the type that the column holds."""
    moment = _EPOCH + dt.timedelta(days=days)
    if str in date_types:
        return moment.date().isoformat()
    if any(issubclass(date_type, dt.datetime) for date_type in date_types):
        return moment.replace(tzinfo=None)
    return moment.date()


def _join(name: str, parts: Sequence[Column]) -> Column:
    """Concatenate one column of all sets, which must hold values of one kind."""
    measures = {part.measure for part in parts if not part.missing.all()} or {"number"}
    if len(measures) > 1:
        raise InputError(f"column {name!r}: its values are {' in one set, '.join(sorted(measures))} in another")
    (measure,) = measures
    if measure == "category":  # a set in which all values are missing was read as numbers
        values = [part.values.astype(object) for part in parts]
        for part, texts in zip(parts, values, strict=True):
            texts[part.missing] = None
    else:
        values = [np.where(part.missing, np.nan, part.values).astype(np.float64) for part in parts]
    return Column(name, measure, np.concatenate(values), np.concatenate([part.missing for part in parts]))


def _fit_column(column: Column, *, is_nominal: bool) -> ColumnEncoder:
    """Learn an encoding; texts are dates where all of them are, and free text where most are different."""
    if column.measure == "category" and not is_nominal:
        if (dates := parse_dates(column)).measure == "date":
            return _fit_column(dates, is_nominal=False)
        n_distinct, n_present = len(set(column.values[~column.missing])), int((~column.missing).sum())
        if n_distinct > MAX_CATEGORIES and 2 * n_distinct > n_present:
            return ColumnEncoder(column.name, "text", words=_fit_words(column))
    if column.measure == "category":
        counts = collections.Counter(column.values.tolist())
        frequent = sorted(counts, key=lambda value: (-counts[value], value is None, value or ""))
        encoded_categories = frequent if len(frequent) <= MAX_CATEGORIES else frequent[: MAX_CATEGORIES - 1]
        ordered = tuple(sorted(encoded_categories, key=lambda value: (value is None, value or "")))
        return ColumnEncoder(
            column.name, "category", categories=ordered, has_rare=len(encoded_categories) < len(frequent)
        )
    has_missing = bool(column.missing.any())
    median = float(np.median(column.values[~column.missing])) if not column.missing.all() else 0.0
    return ColumnEncoder(column.name, column.measure, has_missing, median)


def parse_dates(column: Column) -> Column:
    """Parse the column as dates where every text in it is one in ISO 8601; else return it as it is."""
    if column.measure != "category":
        return column
    texts = [text for text in column.values.tolist() if text is not None]
    if not texts or not all(_ISO_DATE.fullmatch(text) for text in texts):
        return column
    try:
        dates = [None if text is None else dt.datetime.fromisoformat(text) for text in column.values.tolist()]
    except ValueError:  # such as 2020-13-01
        return column
    return _date_column(column.name, dates)


def _fit_words(column: Column) -> Any:
    """Fit a pipeline from texts to principal components of tf-idf; None where the texts have too few words."""
    texts = ["" if text is None else str(text) for text in column.values]
    vectorizer = text_features.TfidfVectorizer(min_df=2, max_features=20_000)
    try:
        n_words = vectorizer.fit_transform(texts).shape[1]
    except ValueError:  # no word occurs twice
        return None
    if n_words <= 1:
        return None
    components = decomposition.TruncatedSVD(min(TEXT_COMPONENTS, n_words - 1), random_state=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # texts that are all alike have no variance to explain
        return pipeline.make_pipeline(vectorizer, components).fit(texts)


def concatenate(frames: Sequence[nw.DataFrame[Any]]) -> nw.DataFrame[Any]:
    """Return all rows in one frame, in the first one's library and order of columns, with row labels from 0 in pandas.

    Raises:
        divulge.InputError: columns that are missing or too many.
    """
    first_frame = frames[0]
    library = first_frame.implementation
    parts = [match_columns(frame, first_frame.columns, "records") for frame in frames]
    if any(part.implementation is not library for part in parts):
        parts = [nw.from_native(to_library(part, "pandas"), eager_only=True) for part in parts]
    if any(part.schema != parts[0].schema for part in parts):
        parts = _unify_types(parts)
    # In pandas the frames may label their rows alike, which models that align by these labels refuse.
    return nw.maybe_reset_index(nw.concat(parts, how="vertical"))


def _unify_types(frames: Sequence[nw.DataFrame[Any]]) -> list[nw.DataFrame[Any]]:
    """Cast columns that hold the same kind of values in several types to the widest of them."""
    unified = list(frames)
    for name in frames[0].columns:
        dtypes = {frame.schema[name] for frame in frames}
        if len(dtypes) == 1:
            continue
        if all(dtype.is_integer() for dtype in dtypes):
            common_dtype: Any = nw.Int64
        elif all(dtype.is_numeric() for dtype in dtypes):
            common_dtype = nw.Float64
        elif all(isinstance(dtype, nw.Categorical | nw.Enum | nw.String) for dtype in dtypes):
            common_dtype = nw.String
        else:  # a column that is missing throughout one set has whatever type its library gives to nothing
            present = {frame.schema[name] for frame in frames if not frame[name].is_null().all()}
            if len(present) > 1:
                listed = " in one set, ".join(sorted(map(str, present)))
                raise InputError(f"column {name!r}: its values are {listed} in another")
            common_dtype = next(iter(present), nw.Float64)
        unified = [frame.with_columns(frame[name].cast(common_dtype)) for frame in unified]
    return unified


def from_series(series: Sequence[nw.Series[Any]]) -> nw.DataFrame[Any]:
    """Return columns of one library and length as a data frame of it, whatever the labels of their rows in pandas."""
    parts = {column.name: nw.maybe_reset_index(column) for column in series}
    return nw.from_dict(parts, backend=series[0].implementation)


def row_digests(frame: nw.DataFrame[Any], *, single_precision: bool = False) -> list[bytes]:
    """Return a digest of each typed record: equal where all values are, whatever the order of the columns.

    A date equals the text that it is in a CSV file; with ``single_precision`` a number equals its copy as float32.

    Examples:
        >>> import polars as pl
        >>> dates = read_frame(pl.DataFrame({"day": [dt.date(2020, 1, 31)]}), "x")
        >>> row_digests(dates) == row_digests(read_frame(pl.DataFrame({"day": ["2020-01-31"]}), "x"))
        True
    """
    names = sorted(frame.columns)
    columns = [read_column(frame, name) for name in names]
    if single_precision:
        columns = [_round_numbers(column) for column in columns]
    # Values are spelt exactly: the same for 1, 1.0 and True, and for a date and its text.
    spelled = [
        [
            "-" if absent else _spell_text(value) if isinstance(value, str) else float(value + 0.0).hex()
            for value, absent in zip(column.values.tolist(), column.missing.tolist(), strict=True)
        ]
        for column in columns
    ]
    return [
        hashlib.blake2b("|".join(cells).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        for cells in zip(*spelled, strict=True)
    ]


def digest_texts(column: Column) -> NDArray[np.int64]:
    """Return a 64-bit digest of each text or category, equal where these are, ``[n]``; 0 where it is missing."""
    hashes = {
        text: hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
        for text in {*column.values.tolist()} - {None}
    }
    codes = {text: int.from_bytes(each.digest(), "little", signed=True) for text, each in hashes.items()}
    return np.array([codes.get(text, 0) for text in column.values.tolist()], dtype=np.int64)


def _round_numbers(column: Column) -> Column:
    """Return a column whose numbers are those of float32; dates keep their seconds."""
    if column.measure != "number":
        return column
    with np.errstate(over="ignore"):
        return replace(column, values=column.values.astype(np.float32).astype(np.float64))


def _spell_text(text: str) -> str:
    if _ISO_DATE.fullmatch(text):
        with contextlib.suppress(ValueError, OverflowError):  # such as 2020-13-01
            return float(_days(dt.datetime.fromisoformat(text))).hex()
    return f"{len(text)}:{text}"


def digest_records(x: NDArray[Any]) -> Iterator[bytes]:
    """Return a 128-bit digest of each record of an array; collisions are out of the question."""
    if x.dtype == object:
        rows = (text.encode() for text in x)
    else:
        # -0.0 equals 0.0 but has other bits.
        rows = (np.ascontiguousarray(row + 0 if x.dtype.kind == "f" else row).tobytes() for row in x)
    return (hashlib.blake2b(row, digest_size=16).digest() for row in rows)


def describe_row(frame: nw.DataFrame[Any], row: int) -> str:
    """Return a record as one ``name: value`` per line.

    Examples:
        >>> import polars as pl
        >>> print(describe_row(read_frame(pl.DataFrame({"age": [48], "sex": ["f"]}), "x"), 0))
        age: 48
        sex: f
    """
    return "\n".join(f"{name}: {format_cell(frame[name][row])}" for name in frame.columns)


def format_cell(value: Any) -> str:
    """Format one value for a reader.

    Examples:
        >>> [format_cell(value) for value in (1.0, 0.12345678, None, "f", dt.datetime(2020, 1, 31))]
        ['1', '0.123457', 'missing', 'f', '2020-01-31']
    """
    if is_missing(value):
        return "missing"
    if isinstance(value, dt.datetime) and value.tzinfo is None and value.time() == dt.time():
        return value.date().isoformat()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def format_names(names: Sequence[str]) -> str:
    """Format names for a message, at most twenty of them."""
    listed = ", ".join(repr(name) for name in names[:_MAX_LISTED])
    return f"{listed}, … ({len(names)} in all)" if len(names) > _MAX_LISTED else listed


def find_names(candidates: Iterable[Sequence[str]], names: Sequence[str]) -> tuple[str, ...]:
    """Return the first of the ``candidates`` that has just these ``names``, in any order; empty without one."""
    return next((tuple(candidate) for candidate in candidates if sorted(candidate) == sorted(names)), ())


_NAMELESS = re.compile(r"|Unnamed: \d+(\.\d+)*|__index_level_\d+__")


def nameless_columns(names: Sequence[str]) -> list[str]:
    """Return the columns that nobody named: row numbers that a data frame wrote, which are no part of a record.

    None are where no other column is left.

    Examples:
        >>> nameless_columns(["Unnamed: 0", "age"]), nameless_columns(["age", "__index_level_0__"])
        (['Unnamed: 0'], ['__index_level_0__'])
    """
    found = [name for name in names if _NAMELESS.fullmatch(name)]
    return found if len(found) < len(names) else []


def describe_nameless(names: Sequence[str], consequence: str) -> str:
    """Return the note on nameless columns that are left out, or otherwise treated."""
    return (
        f"{format_names(names)} {consequence}: a column without a name is the row numbers that a data frame wrote "
        "(index=False writes none), and no part of a record"
    )


def match_columns(
    frame: nw.DataFrame[Any], required: Sequence[str], name: str, *, required_by_model: bool = False
) -> nw.DataFrame[Any]:
    """Return ``frame`` with the ``required`` columns, in their order.

    Args:
        frame: the user's.
        required: names of all columns.
        name: of the argument, for errors.
        required_by_model: whether the target was fitted on them (for errors); otherwise they are the other sets'.

    Raises:
        divulge.InputError: columns that are missing or too many; all are listed.
    """
    lacking = [column for column in required if column not in frame.columns]
    extra = [column for column in frame.columns if column not in required]
    if lacking or extra:
        parts = [f"lack {format_names(lacking)}"] if lacking else []
        parts += [f"have {format_names(extra)} besides (leave them out, or name them as drop or id)"] if extra else []
        source = "that the target was fitted on" if required_by_model else "of the other records"
        raise InputError(f"{name}: the columns {source} are needed; these {' and '.join(parts)}")
    return frame.select(*required)


def to_library(frame: nw.DataFrame[Any], library: Literal["pandas", "polars", "own"]) -> Any:
    """Return a data frame of ``library``, a copy that its reader may write into; "own" for the user's own.

    Raises:
        divulge.MissingExtraError: the library is not installed.
    """
    if library == "own" or frame.implementation.value == library:
        native = frame.clone().to_native()
        return native.copy() if frame.implementation.is_pandas_like() else native
    if library == "polars":
        return frame.to_polars()
    return pd.DataFrame({name: _pandas_values(frame[name]) for name in frame.columns})


def to_polars(frame: nw.DataFrame[Any]) -> pl.DataFrame:
    """Return a polars frame of the same values and types; missing values are None."""
    if frame.implementation is nw.Implementation.POLARS:
        return frame.to_native()
    numeric = {dtype.__name__: dtype for dtype in (pl.Float32, pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16)}
    columns = []
    for series in frame.iter_columns():
        values = [None if is_missing(value) else value for value in series.to_list()]
        dtype = numeric.get(type(series.dtype).__name__)
        if isinstance(series.dtype, nw.Categorical | nw.Enum):
            values, dtype = [None if value is None else str(value) for value in values], pl.Categorical
        columns.append(pl.Series(series.name, values, dtype))
    return pl.DataFrame(columns)


def frame_of_array(x: NDArray[Any], names: Sequence[str]) -> Any:
    """Return a data frame of an array ``[n, d]``: of pandas where it is installed, else of polars."""
    if has_pandas():
        return pd.DataFrame(x, columns=list(names))
    return pl.DataFrame(np.asarray(x), schema=list(names))


def has_pandas() -> bool:
    """Check whether pandas is installed."""
    return importlib.util.find_spec("pandas") is not None


def without_nullable_types(frame: Any) -> Any:
    """Return a pandas frame whose columns have NumPy's types in place of pandas' nullable ones and Arrow's.

    To an encoder that was fitted on NaN, pandas' NA is another category, or an error.

    Examples:
        >>> import pandas as pd
        >>> without_nullable_types(pd.DataFrame({"age": pd.array([48, None], dtype="Int64")})).dtypes.to_dict()
        {'age': dtype('float64')}
    """
    if not hasattr(frame, "select_dtypes"):
        return frame
    nullable = [name for name in frame.columns if getattr(frame[name].dtype, "na_value", None) is pd.NA]
    series = {name: nw.from_native(frame[name], series_only=True) for name in nullable}
    changed = {name: _pandas_values(column) for name, column in series.items()}
    return frame.assign(**{name: pd.Series(np.asarray(values), frame.index) for name, values in changed.items()})


def _pandas_values(series: nw.Series[Any]) -> Any:
    """Return the values of a column in the type that pandas gives a file of them."""
    dtype, has_missing = series.dtype, bool(series.is_null().any())
    if isinstance(dtype, nw.Categorical | nw.Enum):
        return pd.Categorical(series.to_list())  # categories of an Arrow dictionary may be numbers
    if isinstance(dtype, nw.Date | nw.Datetime):
        return pd.to_datetime(pd.Series(series.to_list()))
    if dtype.is_numeric():
        return series.cast(nw.Float64).to_numpy() if has_missing or isinstance(dtype, nw.Decimal) else series.to_numpy()
    if isinstance(dtype, nw.Boolean) and not has_missing:
        return series.to_numpy().astype(bool)
    return pd.Series([np.nan if is_missing(value) else value for value in series.to_list()], dtype=object)
