"""NumPy arrays as columns of polars and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Array

_EXACT = 2**53  # whole numbers beyond this cannot all be told apart as float64


def to_array(column: pl.Series) -> Array:
    """Return a column as NumPy holds it, ``[n]``.

    Numbers keep their width; where some are missing they become float64 and NaN, or objects if they are whole numbers
    that float64 cannot tell apart. Decimals become float64, or int64 where they are whole by their type. Truth values
    with gaps, texts, lists and all else are objects, None where a value is missing; categories and dates become texts.

    Examples:
        >>> to_array(pl.Series([1, None])), to_array(pl.Series(["a", None]))
        (array([ 1., nan]), array(['a', None], dtype=object))
    """
    dtype = column.dtype
    if dtype.is_decimal():
        column = column.cast(pl.Int64 if getattr(dtype, "scale", 0) == 0 else pl.Float64)
    elif dtype.is_temporal() or dtype in (pl.Categorical, pl.Enum):
        column = column.to_frame().select(text_expression(column.name, dtype)).to_series()
    if column.dtype.is_numeric():
        if not column.null_count():
            return column.to_numpy()
        ends = (column.min(), column.max()) if column.dtype.is_integer() else ()
        if any(isinstance(end, int) and abs(end) > _EXACT for end in ends):
            return _objects(column.to_list())
        return column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    if column.dtype == pl.Boolean and not column.null_count():
        return column.to_numpy()
    return _objects(column.to_list())


def from_arrays(columns: Mapping[str, Array], dtypes: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Return arrays of one length as a table.

    Args:
        columns: name → ``[n]``; of objects those of one kind: texts, whole numbers, floats, truth values, or lists.
        dtypes: polars types of columns in which nothing but None may stand; text for those not named.

    Raises:
        divulge.InputError: columns of several lengths, objects of several kinds or of none that a file takes, whole
            numbers of more than 64 bits, half of a surrogate pair, more than one dimension.

    Examples:
        >>> from_arrays({"id": np.array(["a", None], object), "n": np.arange(2)}).rows()
        [('a', 0), (None, 1)]
    """
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"columns of one length are needed, got {lengths}")
    known = dtypes or {}
    return pl.DataFrame({name: _series(name, values, known.get(name)) for name, values in columns.items()})


def _series(name: str, values: Array, dtype: Any) -> pl.Series:
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{name}: one dimension is needed for a file, got shape {array.shape}")
    if array.dtype.kind in "biu" or (array.dtype.kind == "f" and array.dtype.itemsize in (4, 8)):
        return pl.Series(name, np.ascontiguousarray(array, array.dtype.newbyteorder("=")))
    if array.dtype.kind == "f":
        return pl.Series(name, array.astype("f4" if array.dtype.itemsize < 8 else "f8"))
    rows = array.astype(str).tolist() if array.dtype.kind in "UM" else array.tolist()
    there = [value for value in rows if value is not None]
    if there and all(isinstance(value, list | tuple | np.ndarray) for value in there):
        return _lists(name, rows, dtype)
    kinds = {_kind(one) for one in set(map(type, there))}
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) > 1 or not kinds <= {bool, int, float, str, bytes}:
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(f"{name}: values of one kind are needed for a file, got {found}")
    own: dict[type, Any] = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64, str: pl.String, bytes: pl.Binary}
    wanted = own[kinds.pop()] if kinds else pl.String
    if dtype is not None and (not there or (wanted == pl.Int64 and dtype.is_integer())):
        wanted = dtype
    try:
        return pl.Series(name, [None if one is None else _plain(one) for one in rows], wanted)
    except (OverflowError, TypeError):
        raise InputError(f"{name}: a whole number of more than 64 bits, which no file takes") from None
    except UnicodeEncodeError:
        raise InputError(f"{name}: half of a surrogate pair, which is no character") from None


def _lists(name: str, rows: Sequence[Any], dtype: Any) -> pl.Series:
    inside = [None if row is None else np.asarray(row) for row in rows]
    if any(part is not None and len(part) and part.ndim != 1 for part in inside):
        raise InputError(f"{name}: lists of numbers or texts are needed for a file, got lists of lists")
    filled = [part for part in inside if part is not None and len(part)]
    inner = _series(name, np.concatenate(filled) if filled else np.empty(0, np.float32), None).dtype
    return pl.Series(name, [None if part is None else part.tolist() for part in inside], dtype or pl.List(inner))


def _kind(kind: type) -> type:
    scalars = {np.bool_: bool, np.integer: int, np.floating: float}
    plain = next((own for scalar, own in scalars.items() if issubclass(kind, scalar)), kind)
    return next((known for known in (bool, int, float, str, bytes) if issubclass(plain, known)), plain)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _objects(values: Sequence[Any]) -> Array:
    return np.fromiter(values, dtype=object, count=len(values))


def text_expression(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return the values of a column as texts: every digit of numbers, ISO 8601 for dates; an empty text is missing."""
    column = pl.col(name)
    if dtype.base_type() in (pl.Datetime, pl.Duration):
        text = column.dt.to_string("iso:strict")
    else:
        text = column.cast(pl.String)
    return pl.when(text != "").then(text).alias(name)
