"""A table in memory: named columns as NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy
from divulge.frames import arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from arro3 import core

    from divulge.types import Array, Bools, Ints
else:
    core = lazy.module("arro3.core")


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Columns of one length, by their names.

    Other libraries take it as it is: ``polars.DataFrame(frame)``, ``pyarrow.table(frame)``,
    ``pandas.DataFrame(dict(frame.columns))``.

    Args:
        columns: name → array ``[n]``: numbers, truth values, or objects (texts, lists; None where one is missing).

    Raises:
        ValueError: columns of several lengths.

    Examples:
        >>> frame = Frame({"id": np.array(["a", "b"], object), "score": np.array([0.5, 2.0])})
        >>> len(frame), frame.names, frame.where(frame["score"] > 1)["id"].tolist()
        (2, ('id', 'score'), ['b'])
    """

    columns: Mapping[str, Array]

    def __post_init__(self) -> None:
        lengths = {name: len(values) for name, values in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of one length are needed, got {lengths}")

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns, in their order."""
        return tuple(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def select(self, names: Sequence[str]) -> Frame:
        """Only these columns, in this order."""
        return Frame({name: self.columns[name] for name in names})

    def drop(self, names: Sequence[str]) -> Frame:
        """All columns but these."""
        return Frame({name: values for name, values in self.columns.items() if name not in names})

    def where(self, rows: Bools | Ints) -> Frame:
        """The rows of a mask ``[n]``, or those of the given numbers in their order."""
        return Frame({name: values[rows] for name, values in self.columns.items()})

    def slice(self, start: int, stop: int) -> Frame:
        """The rows from ``start`` to before ``stop``, as views."""
        return Frame({name: values[start:stop] for name, values in self.columns.items()})

    def with_columns(self, more: Mapping[str, Array]) -> Frame:
        """These columns too; one of a name that there is takes its place."""
        return Frame({**self.columns, **more})

    def renamed(self, names: Mapping[str, str]) -> Frame:
        """The same columns under other names, by the old ones."""
        return Frame({names.get(name, name): values for name, values in self.columns.items()})

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each row, by the names of the columns, in Python's own types."""
        for row in zip(*(values.tolist() for values in self.columns.values()), strict=True):
            yield dict(zip(self.columns, row, strict=True))

    def table(self, kinds: Mapping[str, core.DataType] | None = None) -> core.Table:
        """The same as an Arrow table.

        Args:
            kinds: types of columns in which nothing but None may stand, by name; text for those not named.

        Raises:
            divulge.InputError: a column of objects of several kinds.
        """
        known = kinds or {}
        return core.Table({name: arrow.column(array, name, known.get(name)) for name, array in self.columns.items()})

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table().__arrow_c_stream__(requested_schema)


def concat(frames: Sequence[Frame]) -> Frame:
    """Frames of the same columns, one below the other.

    Raises:
        KeyError: a column that the first has and another lacks.
    """
    if len(frames) == 1:
        return frames[0]
    return Frame({name: np.concatenate([frame[name] for frame in frames]) for name in frames[0].names})


def of_table(table: core.Table | core.RecordBatch, *, exact: bool = False) -> Frame:
    """An Arrow table as a frame; ``exact`` as for `arrow.values`."""
    return Frame({name: arrow.values(table.column(name), exact=exact) for name in table.schema.names})
