"""NumPy arrays as Arrow columns and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks, lazy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arro3 import core

    from divulge.types import Array
else:
    core = lazy.module("arro3.core")

_LISTS = ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view")
_TEXTS = ("is_unicode", "is_large_unicode", "is_string_view")
_EXACT = 2**53  # whole numbers beyond this cannot all be told apart as float64
_TYPES: dict[type, str] = {bool: "bool", int: "int64", float: "float64", str: "large_utf8", bytes: "large_binary"}
_SCALARS = {np.bool_: bool, np.integer: int, np.floating: float}


def values(column: core.ChunkedArray | core.Array, *, exact: bool = False) -> Array:
    """One column as NumPy holds it, ``[n]``.

    Numbers keep their width; where some are missing they become float64 and NaN, or objects if they are whole numbers
    that float64 cannot tell apart. Truth values with gaps, texts, lists and all else are objects, None where a value is
    missing. Categories and dates become texts, decimals float64, or int64 where they are whole by their type.

    Args:
        column: of a table.
        exact: whole numbers with gaps become objects in any case.
    """
    kind, told = column.type, core.DataType
    if kind.value_type is not None and told.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if told.is_decimal(kind):
        column = _cast(column, told.int64() if whole(kind) else told.float64())
        kind = column.type
    elif told.is_temporal(kind):
        column = _cast(column, told.large_utf8())
    if not (told.is_numeric(kind) or told.is_boolean(kind)):
        return _objects(column)
    if not len(column):
        return np.empty(0, bool if told.is_boolean(kind) else np.int64 if told.is_integer(kind) else np.float64)
    if column.null_count == 0:
        return column.to_numpy()
    if told.is_boolean(kind) or (exact and told.is_integer(kind)):
        return _objects(column)
    rows = _rows(column)
    if told.is_integer(kind) and any(value is not None and abs(value) > _EXACT for value in rows):
        return np.fromiter(rows, dtype=object, count=len(rows))
    return np.array([np.nan if value is None else value for value in rows], np.float64)


def column(array: Array, name: str, kind: core.DataType | None = None) -> core.Array:
    """``array`` as an Arrow column.

    Args:
        array: ``[n]``; of objects, those of one kind: texts, whole numbers, floats, truth values, or arrays.
        name: of the column, for errors.
        kind: its type where nothing but None stands in it, or whole numbers as objects; text or int64 when None.

    Raises:
        divulge.InputError: objects of several kinds, or of a kind that no file takes; whole numbers of more than 64
            bits; half of a surrogate pair; more than one dimension.
    """
    if array.ndim != 1:
        raise checks.InputError(f"{name}: one dimension is needed for a file, got shape {array.shape}")
    if array.dtype.kind in "biu":
        return core.Array.from_numpy(np.ascontiguousarray(array, array.dtype.newbyteorder("=")))
    if array.dtype.kind == "f":
        return core.Array.from_numpy(np.ascontiguousarray(array, "f4" if array.dtype.itemsize < 8 else "f8"))
    if array.dtype.kind in "UM":
        return _typed(array.astype(str).tolist(), name, core.DataType.large_utf8())
    if array.dtype.kind == "S":
        return _typed(array.tolist(), name, core.DataType.large_binary())
    there = [value for value in array.tolist() if value is not None]
    lists = all(isinstance(value, list | tuple | np.ndarray) for value in there)
    if lists and (there or (kind is not None and _is(kind, _LISTS))):
        return _column_of_lists(array.tolist(), name, None if kind is None else kind.value_type)
    kinds = {_kind(kind) for kind in set(map(type, there))}
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) > 1 or not kinds <= _TYPES.keys():
        said = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise checks.InputError(f"{name}: values of one kind are needed for a file, got {said}")
    if kind is not None and (not kinds or (kinds == {int} and core.DataType.is_integer(kind))):
        return _typed(array.tolist(), name, kind)
    wanted = _TYPES[kinds.pop() if kinds else str]
    return _typed(array.tolist(), name, getattr(core.DataType, wanted)())


def fitted(array: Array, name: str, kind: core.DataType) -> core.Array:
    """``array`` as a column of type ``kind`` where nothing is lost by it, or else of its own type; errors as `column`.

    Of a file that is read piece by piece, whole numbers are floats in the pieces in which some are missing.
    """
    if array.dtype.kind == "f" and core.DataType.is_integer(kind):
        there = array[~np.isnan(array)]
        if (np.abs(there) <= _EXACT).all() and (there == np.rint(there)).all():
            return core.Array([None if value != value else int(value) for value in array.tolist()], type=kind)
    if array.dtype.kind in "iu" and core.DataType.is_floating(kind) and (np.abs(array.astype(float)) <= _EXACT).all():
        return _cast(column(array.astype(float), name), kind)
    made = column(array, name, kind)
    integers = core.DataType.is_integer(kind) and core.DataType.is_integer(made.type)
    return _cast(made, kind) if integers else made


def text(schema: core.Schema) -> core.Schema:
    """The schema with numbers and truth values as they are, and all else as texts."""
    plain = core.DataType
    return core.Schema(
        [
            field
            if plain.is_numeric(field.type) or plain.is_boolean(field.type)
            else core.Field(field.name, plain.utf8())
            for field in schema
        ]
    )


def whole(kind: core.DataType) -> bool:
    """Whether it is one of decimals without a fraction, as databases write ids.

    Examples:
        >>> from arro3.core import DataType
        >>> whole(DataType.decimal128(38, 0)), whole(DataType.decimal128(38, 10)), whole(DataType.int8())
        (True, False, False)
    """
    return core.DataType.is_decimal(kind) and said(kind).endswith(" 0)")


def said(kind: core.DataType) -> str:
    """A type as messages show it.

    Examples:
        >>> from arro3.core import DataType
        >>> said(DataType.large_utf8()), said(DataType.int8())
        ('text', 'Int8')
    """
    if _is(kind, _TEXTS):
        return "text"
    return str(kind).strip().removeprefix("arro3.core.DataType<").removesuffix(">")


def _typed(values: Sequence[Any], name: str, kind: core.DataType) -> core.Array:
    try:
        return core.Array(values, type=kind)
    except OverflowError:
        raise checks.InputError(f"{name}: a whole number of more than 64 bits, which no file takes") from None
    except UnicodeEncodeError:
        raise checks.InputError(f"{name}: half of a surrogate pair, which is no character") from None


def _cast(column: Any, kind: core.DataType) -> Any:
    """As another type; Arrow makes missing what does not fit, which is an error here."""
    made = column.cast(kind)
    if made.null_count != column.null_count:
        raise ValueError(f"values of type {said(column.type)} do not fit into {said(kind)}")
    return made


def _is(kind: core.DataType, asked: Sequence[str]) -> bool:
    return any(getattr(core.DataType, one)(kind) for one in asked)


def _objects(column: core.ChunkedArray | core.Array) -> Array:
    return np.fromiter(_rows(column), dtype=object, count=len(column))


def _rows(column: core.ChunkedArray | core.Array) -> list[Any]:
    return list(column.to_pylist())


def _kind(kind: type) -> type:
    """Python's own type for a type of scalars, NumPy's or Python's."""
    plain = next((plain for scalar, plain in _SCALARS.items() if issubclass(kind, scalar)), kind)
    return next((known for known in _TYPES if issubclass(plain, known)), plain)


def _column_of_lists(rows: Sequence[Any], name: str, kind: core.DataType | None) -> core.Array:
    inside = [np.asarray([] if row is None else row) for row in rows]
    filled = [part for part in inside if len(part)]
    if any(part.ndim != 1 for part in filled):
        raise checks.InputError(f"{name}: lists of numbers or texts are needed for a file, got lists of lists")
    flat = column(np.concatenate(filled) if filled else np.empty(0, np.float32), name)
    flat = flat if kind is None else _cast(flat, kind)
    ends = core.Array.from_numpy(np.cumsum([0, *map(len, inside)], dtype=np.int64))
    missing = np.array([row is None for row in rows])
    mask = core.Array.from_numpy(missing) if missing.any() else None
    return core.list_array(ends, flat, type=core.DataType.large_list(core.Field("item", flat.type)), mask=mask)
