"""Targets that need no model library: any callable, or a table of outputs computed elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from divulge import errors
from divulge.errors import InputError
from divulge.targets import declared_outputs as out
from divulge.validation import check_choice, check_ids, check_nonempty, format_value, to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.types import Array, Floats, Ints, Records


@dataclass(frozen=True, slots=True)
class CallableTarget:
    """Any function from an array of records to outputs ``[n, K]``.

    Args:
        function: called with a copy of ``records.x``, which it may write into, or of the data frame that the records
            were made from.
        outputs: "logits" or "probabilities": what it returns.
        frames: whether the function takes data frames; None for frames where some column is not numeric or has missing
            values, and arrays ``[n, d]`` in the order of the columns otherwise.

    Examples:
        >>> from divulge import Records
        >>> CallableTarget(lambda x: x).logits(Records([[0.5, -0.5]]))
        array([[ 0.5, -0.5]])
    """

    function: Callable[[Array], Any]
    outputs: str = "logits"
    frames: bool | None = None
    takes_frames: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"function: a callable is needed, got {format_value(self.function)}")
        check_choice(self.outputs, "outputs", out.OUTPUT_TYPES)

    def logits(self, records: Records) -> Floats:
        """Logits ``[n, K]`` of each record."""
        with errors.user_code_errors("target"):
            outputs = self.function(self._input(records.copy()))
        return out.as_logits(outputs, self.outputs, len(records))

    def _input(self, records: Records) -> Any:
        if records.table is None or records.encoder is None or self.frames is False:
            return records.x
        as_array = self.frames is None and records.encoder.is_plain
        return records.x if as_array else records.table.to_native()

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record."""
        return self.logits(records).argmax(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class TableTarget:
    """Outputs computed elsewhere, looked up by the records' identifiers.

    Args:
        ids: one unique identifier per row, ``[N]``.
        table: outputs ``[N, K]``.
        outputs: "logits" or "probabilities": what the table holds.

    Raises:
        divulge.InputError: repeated ids, a shape that does not fit, records whose id is not in the table.

    Examples:
        >>> from divulge import Records
        >>> TableTarget(["a", "b"], [[1.0, 0.0], [0.0, 2.0]]).logits(Records([[0.0]], ids=["b"]))
        array([[0., 2.]])
    """

    ids: Array
    table: Array
    outputs: str = "logits"

    def __post_init__(self) -> None:
        rows = check_nonempty(to_numpy(self.ids, "ids"), "ids")
        ids = check_ids(rows, "ids", len(rows))
        table = out.as_logits(self.table, self.outputs, len(ids), "table")
        order = np.argsort(ids)
        object.__setattr__(self, "ids", ids[order])
        object.__setattr__(self, "table", table[order])

    def logits(self, records: Records) -> Floats:
        """Logits ``[n, K]`` of each record, by its id."""
        if records.ids is None:
            raise InputError("records: a table of outputs is looked up by id, but the records have no ids")
        try:
            at = np.minimum(np.searchsorted(self.ids, records.ids), len(self.ids) - 1)
        except TypeError:
            raise InputError(
                f"records: ids of {records.ids.dtype} cannot be looked up among ids of {self.ids.dtype}"
            ) from None
        missing = self.ids[at] != records.ids
        if missing.any():
            raise InputError(
                f"records: {int(missing.sum())} ids are not in the table of outputs "
                f"(first: {records.ids[missing].tolist()[0]!r})"
            )
        return self.table[at]

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record."""
        return self.logits(records).argmax(axis=1)
