"""NumPy arrays as columns of polars and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Array

_POLARS_TYPES: dict[type, Any] = {
    bool: pl.Boolean,
    int: pl.Int64,
    float: pl.Float64,
    str: pl.String,
    bytes: pl.Binary,
}
_MAX_EXACT_INTEGER = 2**53  # float64 cannot represent all whole numbers beyond this


def to_array(column: pl.Series) -> Array:
    """Return a column as NumPy holds it, ``[n]``.

    Numbers keep their width; with missing values they become float64 and NaN, or objects if they are whole numbers that
    float64 cannot represent. Decimals become float64, or int64 where they are whole by their type. Truth values
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
        if any(isinstance(end, int) and abs(end) > _MAX_EXACT_INTEGER for end in ends):
            return _objects(column.to_list())
        return column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    if column.dtype == pl.Boolean and not column.null_count():
        return column.to_numpy()
    return _objects(column.to_list())


def from_arrays(columns: Mapping[str, Array], dtypes: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Return arrays of one length as a table.

    Args:
        columns: name → ``[n]``; objects of one type: texts, whole numbers, floats, truth values, or lists.
        dtypes: polars types of columns that may hold nothing but None; text for columns not named.

    Raises:
        divulge.InputError: columns of different lengths, objects of several types or of one that a file cannot hold,
            whole numbers of more than 64 bits, half of a surrogate pair, more than one dimension.

    Examples:
        >>> from_arrays({"id": np.array(["a", None], object), "n": np.arange(2)}).rows()
        [('a', 0), (None, 1)]
    """
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"columns of one length are needed, got {lengths}")
    column_dtypes = dtypes or {}
    return pl.DataFrame({name: _series(name, values, column_dtypes.get(name)) for name, values in columns.items()})


def _series(name: str, values: Array, dtype: Any) -> pl.Series:
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{name}: one dimension is needed for a file, got shape {array.shape}")
    if array.dtype.kind in "biu" or (array.dtype.kind == "f" and array.dtype.itemsize in (4, 8)):
        return pl.Series(name, np.ascontiguousarray(array, array.dtype.newbyteorder("=")))
    if array.dtype.kind == "f":
        return pl.Series(name, array.astype("f4" if array.dtype.itemsize < 8 else "f8"))
    rows = array.astype(str).tolist() if array.dtype.kind in "UM" else array.tolist()
    present = [value for value in rows if value is not None]
    if present and all(isinstance(value, list | tuple | np.ndarray) for value in present):
        return _list_series(name, rows, dtype)
    types = {_python_type(value_type) for value_type in set(map(type, present))}
    if types == {int, float}:
        types = {float}
    if len(types) > 1 or not types <= set(_POLARS_TYPES):
        type_names = ", ".join(sorted(value_type.__name__ for value_type in types))
        raise InputError(f"{name}: values of one kind are needed for a file, got {type_names}")
    polars_type = _POLARS_TYPES[types.pop()] if types else pl.String
    if dtype is not None and (not present or (polars_type == pl.Int64 and dtype.is_integer())):
        polars_type = dtype
    try:
        scalars = [value.item() if isinstance(value, np.generic) else value for value in rows]
        return pl.Series(name, scalars, polars_type)
    except (OverflowError, TypeError):
        raise InputError(f"{name}: a whole number of more than 64 bits, which no file takes") from None
    except UnicodeEncodeError:
        raise InputError(f"{name}: half of a surrogate pair, which is no character") from None


def _list_series(name: str, rows: Sequence[Any], dtype: Any) -> pl.Series:
    arrays = [None if row is None else np.asarray(row) for row in rows]
    if any(array is not None and len(array) and array.ndim != 1 for array in arrays):
        raise InputError(f"{name}: lists of numbers or texts are needed for a file, got lists of lists")
    nonempty = [array for array in arrays if array is not None and len(array)]
    inner = _series(name, np.concatenate(nonempty) if nonempty else np.empty(0, np.float32), None).dtype
    return pl.Series(name, [None if array is None else array.tolist() for array in arrays], dtype or pl.List(inner))


def _python_type(value_type: type) -> type:
    """Return the type of Python that a type of NumPy, or a subclass, stands for."""
    scalars = {np.bool_: bool, np.integer: int, np.floating: float}
    converted = next((builtin for scalar, builtin in scalars.items() if issubclass(value_type, scalar)), value_type)
    return next((builtin for builtin in _POLARS_TYPES if issubclass(converted, builtin)), converted)


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
