"""A target that was fitted on named columns, and is asked about numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.errors import InputError
from divulge.targets.rights import grant_rights

if TYPE_CHECKING:
    from divulge.types import Records


@dataclass(frozen=True)
class FramedTarget:
    """Give a target data frames also where an attack made records of numbers alone (moved, or completed).

    It grants exactly the rights of the target behind it.

    Args:
        target: the target behind.
        like: a record with the columns, types and encoding of the audit's.

    Raises:
        divulge.InputError: records without a frame where a column holds free text, which numbers cannot stand for.
    """

    target: Any
    like: Records

    def __post_init__(self) -> None:
        grant_rights(self, self.target, self._ask)

    def _ask(self, right: str, records: Records) -> Any:
        return getattr(self.target, right)(self._with_frame(records))

    def _with_frame(self, records: Records) -> Records:
        encoder = self.like.encoder
        if records.table is not None or encoder is None or self.like.table is None:
            return records
        if free := [column.name for column in encoder.columns if column.measure == "text"]:
            raise InputError(
                f"recipes: this one moves or completes records, which is not defined for free text (column {free[0]!r})"
            )
        framed = self.like[np.zeros(len(records), dtype=np.int64)].with_values(records.x)
        return framed if records.y is None else framed.with_labels(records.y, records.class_names)
