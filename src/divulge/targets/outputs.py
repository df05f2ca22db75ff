"""Targets that need no model library: any callable, or a table of outputs computed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from divulge import errors
from divulge.errors import InputError
from divulge.types import ShortRepr
from divulge.validation import check_array, check_choice, check_ids, check_nonempty, format_value, to_numpy

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
        check_choice(self.outputs, "outputs", OUTPUT_TYPES)

    def logits(self, records: Records) -> Floats:
        """Logits ``[n, K]`` of each record."""
        return as_logits(self.raw_outputs(records), self.outputs, len(records))

    def raw_outputs(self, records: Records) -> Any:
        """Return what the function returns for the records, as it is."""
        records = records.copy()
        takes_array = self.frames is None and records.encoder is not None and records.encoder.is_plain
        inputs = records.x
        if records.table is not None and records.encoder is not None and self.frames is not False and not takes_array:
            inputs = records.table.to_native()
        with errors.user_code_errors("target"):
            answer = self.function(inputs)
        answer = unpack_outputs(answer, self.outputs, "lambda x: function(x)[{part}]")
        if isinstance(answer, tuple) and len(answer) != len(records) and all(map(np.ndim, answer)):
            raise InputError(
                f"target: the function returns a tuple of {len(answer)} arrays; pass one that returns the outputs "
                "alone, such as lambda x: function(x)[0]"
            )
        return answer

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record."""
        return self.logits(records).argmax(axis=1)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TableTarget(ShortRepr):
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
    takes_frames: ClassVar[bool] = True  # it reads no column, so that these may hold texts, dates or gaps

    def __post_init__(self) -> None:
        rows = check_nonempty(to_numpy(self.ids, "ids"), "ids")
        ids = check_ids(rows, "ids", len(rows))
        table = as_logits(self.table, self.outputs, len(ids), "table")
        order = np.argsort(ids)
        object.__setattr__(self, "ids", ids[order])
        object.__setattr__(self, "table", table[order])

    def logits(self, records: Records) -> Floats:
        """Logits ``[n, K]`` of each record, by its id."""
        if records.ids is None:
            raise InputError("records: a table of outputs is looked up by id, but the records have no ids")
        try:
            rows = np.minimum(np.searchsorted(self.ids, records.ids), len(self.ids) - 1)
        except TypeError:
            raise InputError(
                f"records: ids of {records.ids.dtype} cannot be looked up among ids of {self.ids.dtype}"
            ) from None
        missing = self.ids[rows] != records.ids
        if missing.any():
            raise InputError(
                f"records: {int(missing.sum())} ids are not in the table of outputs "
                f"(first: {records.ids[missing].tolist()[0]!r})"
            )
        return self.table[rows]

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record."""
        return self.logits(records).argmax(axis=1)


def as_predictions(outputs: Any, length: int, name: str = "target predictions") -> Floats:
    """Convert ``outputs`` of a regression model to one real value for each record.

    Args:
        outputs: ``[n]`` or ``[n, 1]``.
        length: number of records asked about.
        name: what to call the outputs in errors.

    Raises:
        divulge.InputError: NaN or infinity, a wrong shape, several values for a record.

    Examples:
        >>> as_predictions([[0.5], [2.0]], 2)
        array([0.5, 2. ])
    """
    values = check_array(outputs, name).astype(np.float64, copy=False)
    if values.ndim == 0 or len(values) != length:
        raise InputError(f"{name}: {length} rows are needed (one per record), got shape {values.shape}")
    if values.size != length:
        raise InputError(f"{name}: one real value per record is needed, got shape {values.shape}")
    return values.reshape(length)


OUTPUT_TYPES = ("logits", "probabilities")


def unpack_outputs(answer: Any, declared: str, function: str) -> Any:
    """Return what a model says under the name of what was declared, where it answers with a mapping; others as given.

    Args:
        answer: what the model returned.
        declared: "logits" or "probabilities", the key that is read.
        function: what to pass where there is no such key, with ``{part}`` for the key that it reads.

    Raises:
        divulge.InputError: a mapping without this key; the message names its keys.

    Examples:
        >>> unpack_outputs({"logits": [[0.0, 1.0]], "hidden": [[2.0]]}, "logits", "")
        [[0.0, 1.0]]
    """
    if not isinstance(answer, Mapping):
        return answer
    if declared in answer:
        return answer[declared]
    keys = [format_value(key) for key in answer]
    listed = f"{', '.join(keys[:_LISTED_KEYS])}{', …' if len(keys) > _LISTED_KEYS else ''}"
    if other := next((key for key in OUTPUT_TYPES if key in answer), ""):
        raise InputError(f"target: it returns a mapping ({listed}), of which {other!r} is read with outputs={other!r}")
    arrays = [key for key, value in zip(keys, answer.values(), strict=True) if getattr(value, "ndim", 0)]
    way = f"; pass a function that returns one of them, such as {function.format(part=arrays[0])}" if arrays else ""
    raise InputError(f"target: it returns a mapping ({listed}) without {declared!r}{way}")


# A probability of zero says "less than this output can tell"; 1e-7 is what float32 resolves near one.
PROBABILITY_FLOOR = 1e-7

# Different rows that must all look like probabilities before logits are refused for it. Logits rounded to 0.1 may
# sum to one row after row; of finer ones hardly a row does.
_ROWS, _FINE_ROWS, _FINE = 8, 2, 3  # _FINE: decimals beyond which values are fine
_LISTED_KEYS = 12
# Of one column: how close to 0 and 1 counts as close, and of how many values all lie between them by no chance.
_NEAR_END, _MIN_VALUES = 0.05, 20
_MIN_NATS = 20.0  # by which labels must be likelier under percentages than under log-odds


def as_logits(outputs: Any, declared: str, length: int, name: str = "target outputs") -> Floats:
    """Convert ``outputs`` to logits; one column or a vector is read as the log-odds of class 1.

    Args:
        outputs: ``[n, K]``, ``[n, 1]`` or ``[n]``.
        declared: "logits" or "probabilities".
        length: number of records asked about.
        name: what to call the outputs in errors.

    Raises:
        divulge.InputError: NaN, a wrong shape, or values that are not what was declared.

    Examples:
        >>> as_logits([[0.5, 0.5]], "probabilities", 1).round(3)
        array([[-0.693, -0.693]])
    """
    check_choice(declared, "outputs", OUTPUT_TYPES)
    values = as_columns(outputs, length, name)
    return _from_probabilities(values, name) if declared == "probabilities" else _from_logits(values, name)


def as_columns(outputs: Any, length: int, name: str = "target outputs") -> Floats:
    """Convert ``outputs`` to float64 ``[n, K]``; a vector becomes one column.

    Raises:
        divulge.InputError: NaN or infinity, a wrong shape.
    """
    values = check_array(outputs, name).astype(np.float64, copy=False)
    if values.ndim == 0 or len(values) != length:
        raise InputError(f"{name}: {length} rows are needed (one per record), got shape {values.shape}")
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise InputError(f"{name}: shape [n, classes] is needed, got {values.shape}")
    return values


def _from_logits(logits: Floats, name: str) -> Floats:
    if logits.shape[1] == 1:
        if description := _describe_other_column(logits[:, 0]):
            raise InputError(f"{name}: declared as logits, but {description}")
        return np.hstack([np.zeros_like(logits), logits])
    for values, description in (
        (logits, "is non-negative and sums to one: these are probabilities; declare outputs='probabilities'"),
        (logits / 100, "is non-negative and sums to 100: these are percentages; return probabilities"),
        (np.exp(-np.abs(logits)), "holds minus the logarithms of probabilities: return them with the other sign"),
    ):
        if (logits >= 0).all() and _are_probabilities(values):
            raise InputError(f"{name}: declared as logits, but every row {description}")
    return logits


def _are_probabilities(values: Floats) -> bool:
    """Check whether ``[n, K]`` from 0 on can hardly be logits; one repeated row, or a one among zeros, may well be."""
    off = np.abs(values.sum(axis=1) - 1)
    if off.max() > 0.005 * values.shape[1]:  # rounded to two decimals
        return False
    distinct_rows = np.unique(values[values.max(axis=1) < 1], axis=0)
    has_fine_values = (distinct_rows != distinct_rows.round(_FINE)).any(axis=1)
    return len(distinct_rows) >= _ROWS or (has_fine_values.sum() >= _FINE_ROWS and off.max() <= 1e-4)


_PROBABILITIES_OF_CLASS_1 = (
    "these are probabilities of class 1; declare outputs='probabilities' (if they are log-odds z, return two columns, "
    "-z/2 and z/2)"
)


def _describe_other_column(values: Floats) -> str:
    """Say what ``[n]`` values are that can hardly be log-odds, whatever the labels; empty if they may well be.

    They are the numbers of classes, or all lie in [0, 1]. Log-odds are not exactly 0 here and exactly 1 there, as
    predicted classes and shares of votes are, and those that come within 0.05 of both ends go beyond them.
    """
    if len(values) < _ROWS:
        return ""
    distinct = np.unique(values)
    is_class_number = len(distinct) > 1 and np.isin(distinct, distinct[0] + np.arange(len(distinct))).all()
    if (is_class_number and distinct[0] in (0, 1)) or distinct.tolist() == [-1, 1]:
        return (
            f"all values are whole numbers from {distinct[0]:g} to {distinct[-1]:g}: these are predicted labels; to "
            "audit labels alone, pass an object with a method labels(records) that gives them, or the classifier itself"
        )
    if distinct[0] < 0 or distinct[-1] > 1:
        return ""
    has_both_ends = distinct[0] == 0 and distinct[-1] == 1
    near_ends = min((distinct <= _NEAR_END).sum(), (distinct >= 1 - _NEAR_END).sum())
    if not has_both_ends and near_ends < _ROWS:
        return ""
    return f"all values lie between 0 and 1, some close to each end: {_PROBABILITIES_OF_CLASS_1}"


def check_log_odds(values: Floats, labels: Ints | None = None, name: str = "target outputs") -> None:
    """Raise where values that were read as log-odds of class 1 are as good as surely its probabilities.

    The log-odds of a model that learned something lie on both sides of 0 or beyond 1 for some record; that all of them
    vary and lie between 0 and 1 is as rare as rows of logits that sum to one. Who has such returns two columns.
    Percentages, too, are never below 0. Log-odds that are not belong to a model that predicts class 1 throughout, and
    fit its labels better than the same numbers as percentages do.

    Args:
        values: of all records that were asked about, ``[n]``.
        labels: their classes, 0 or 1, ``[n]``; percentages are told by them.
        name: what to call the values in errors.

    Raises:
        divulge.InputError: at least 20 values, not all equal, lie in [0, 1], or are percentages.

    Examples:
        >>> check_log_odds(np.linspace(0.01, 0.2, 100))
        Traceback (most recent call last):
        divulge.errors.InputError: target outputs: declared as logits, but all values lie between 0 and 1: these are ...
        >>> check_log_odds(np.linspace(-0.99, 0.2, 100))
    """
    if len(values) < _MIN_VALUES or values.min() < 0 or np.ptp(values) == 0:
        return
    if values.max() <= 1:
        raise InputError(f"{name}: declared as logits, but all values lie between 0 and 1: {_PROBABILITIES_OF_CLASS_1}")
    if labels is None or labels.max() > 1 or values.max() > 100:
        return
    shares = np.clip(values / 100, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    loss_as_log_odds = np.logaddexp(0, np.where(labels == 1, -values, values))
    loss_as_percentage = -np.log(np.where(labels == 1, shares, 1 - shares))
    if (loss_as_log_odds - loss_as_percentage).sum() > _MIN_NATS:
        raise InputError(
            f"{name}: declared as logits, but all values lie between {values.min():g} and {values.max():g} and fit the "
            "labels as percentages, not as log-odds: return probabilities, and declare outputs='probabilities' (if "
            "they are log-odds z, return two columns, -z/2 and z/2)"
        )


def check_logits(logits: Floats, name: str = "target outputs") -> None:
    """Raise where values that were read as logits are as good as surely probabilities of several labels.

    Args:
        logits: of all records that were asked about, ``[n, K]``.
        name: what to call the values in errors.

    Raises:
        divulge.InputError: all lie in [0, 1], some close to each end, in at least 20 rows that do not sum to one.

    Examples:
        >>> check_logits(np.linspace(0.01, 0.99, 100).reshape(50, 2))
        Traceback (most recent call last):
        divulge.errors.InputError: target outputs: declared as logits, but all values lie between 0 and 1, as ...
    """
    if len(logits) < _MIN_VALUES or logits.min() < 0 or logits.max() > 1:
        return
    # Ones among zeros are predicted classes; cosines of embeddings keep to a narrow range.
    if logits.min() < 0.25 and logits.max() > 0.75 and ((logits > 0) & (logits < 1)).any():
        raise InputError(
            f"{name}: declared as logits, but all values lie between 0 and 1, as those of independent labels (sigmoid) "
            "do: audit one label, a function that returns its column, with outputs='probabilities' and this label as y "
            "(if they are logits, subtract one from all)"
        )


def _from_probabilities(probabilities: Floats, name: str) -> Floats:
    if (probabilities < 0).any() or (probabilities > 1).any():
        sums = probabilities.sum(axis=1)
        are_percentages = probabilities.min() >= 0 and (
            sums.max() <= 100 if probabilities.shape[1] == 1 else np.allclose(sums, 100, atol=1)
        )
        advice = "divide percentages by 100" if are_percentages else "declare outputs='logits'"
        raise InputError(
            f"{name}: declared as probabilities, but values range from {probabilities.min():g} to "
            f"{probabilities.max():g}; {advice}"
        )
    if probabilities.shape[1] == 1:
        probabilities = np.hstack([1 - probabilities, probabilities])
    # Rounded answers (three decimals, say) do not sum to one exactly.
    off = np.abs(probabilities.sum(axis=1) - 1)
    if off.max() > 0.01 * probabilities.shape[1]:
        row = int(off.argmax())
        raise InputError(
            f"{name}: declared as probabilities, but row {row} sums to {probabilities[row].sum():g}, not to one"
        )
    return np.log(np.maximum(probabilities, PROBABILITY_FLOOR))
