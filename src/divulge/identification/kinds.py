"""What the columns of tables hold, and how those of several files go below each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from divulge import lazy
from divulge.frames import arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from arro3 import core

    from divulge.types import Array
else:
    core = lazy.module("arro3.core")

Kind: TypeAlias = "np.dtype[Any] | str"
"""Numbers or truth values of a width; else ``TEXT``, ``EMPTY`` (no value at all), or the name of what has no use."""
TEXT, EMPTY = "text", "empty"


def of(kind: core.DataType) -> Kind:
    """The kind of a column of an Arrow table, as `frames` gives it.

    Examples:
        >>> from arro3.core import DataType
        >>> of(DataType.int16()), of(DataType.utf8()), of(DataType.list(DataType.int8()))[:4]
        (dtype('int16'), 'text', 'List')
    """
    told, inside = core.DataType, kind.value_type
    if told.is_dictionary(kind) and inside is not None:
        return of(inside)
    if told.is_boolean(kind):
        return np.dtype(bool)
    if told.is_decimal(kind):
        return np.dtype(np.int64 if arrow.whole(kind) else np.float64)
    if told.is_integer(kind) or told.is_floating(kind):
        return np.dtype(arrow.said(kind).lower())
    if told.is_null(kind):
        return EMPTY
    return TEXT if told.is_temporal(kind) or arrow.said(kind) == TEXT else arrow.said(kind)


def together(tables: Iterable[Mapping[str, Kind]]) -> dict[str, Kind]:
    """The columns of tables of which each may lack some: whole numbers and floats are floats, else what differs texts.

    Examples:
        >>> together([{"a": np.dtype(int), "b": TEXT}, {"a": np.dtype(float)}, {"b": EMPTY, "c": np.dtype(bool)}])
        {'a': dtype('float64'), 'b': 'text', 'c': dtype('bool')}
    """
    union: dict[str, Kind] = {}
    for table in tables:
        for name, kind in table.items():
            union[name] = _relaxed(union.get(name, kind), kind)
    return union


def _relaxed(one: Kind, other: Kind) -> Kind:
    if other in (one, EMPTY):
        return one
    if one == EMPTY:
        return other
    if isinstance(one, np.dtype) and isinstance(other, np.dtype):
        return np.result_type(one, other)
    odd = next((kind for kind in (one, other) if isinstance(kind, str) and kind != TEXT), None)
    return TEXT if odd is None else odd


def numeric(kind: Kind) -> bool:
    """Whether it is one of numbers."""
    return isinstance(kind, np.dtype) and kind.kind in "iuf"


def arrow_type(kind: Kind) -> core.DataType:
    """The type of a column in a file that holds it.

    Examples:
        >>> arrow.said(arrow_type(np.dtype("uint8"))), arrow.said(arrow_type(TEXT))
        ('UInt8', 'text')
    """
    name = kind.name if isinstance(kind, np.dtype) else "large_utf8"
    return getattr(core.DataType, name)()


def cast(values: Array, kind: Kind) -> Array:
    """A column as one of another kind: of texts, or of wider numbers.

    Examples:
        >>> cast(np.array([True, None], object), TEXT), cast(np.array([1]), np.dtype("f4"))
        (array(['true', None], dtype=object), array([1.], dtype=float32))
    """
    if kind == TEXT:
        return texts(values)
    if not isinstance(kind, np.dtype) or values.dtype == kind or (values.dtype == object and kind.kind != "f"):
        return values
    return values.astype(kind)


def missing(count: int, kind: Kind) -> Array:
    """A column without a value: of NaN where it is one of floats, else of None."""
    if isinstance(kind, np.dtype) and kind.kind == "f":
        return np.full(count, np.nan, kind)
    return np.full(count, None, object)


def texts(values: Array) -> Array:
    """The values as texts, None where one is missing."""
    return np.fromiter(map(_text, values.tolist()), dtype=object, count=len(values))


def _text(value: Any) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
