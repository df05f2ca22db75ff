"""Validation of arguments: arrays and scalars are returned in a common form, or refused by name, bound and value."""

from __future__ import annotations

import decimal
import difflib
import itertools
import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Entries looked at in one go: a memory-mapped array is never read whole.
_BLOCK = 1 << 24
_EXACT = 2**53  # whole numbers beyond this cannot all be told apart as float64


def to_numpy(value: Any, name: str) -> NDArray[Any]:
    """Return ``value`` as a NumPy array of any type: lists, torch tensors (from any device), pandas and polars columns.

    Raises:
        divulge.InputError: masked entries, a sparse matrix, rows of different lengths, no array at all.
    """
    if hasattr(value, "detach"):
        try:
            tensor = value.detach().cpu().resolve_conj().resolve_neg()
            return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
        except Exception as error:  # sparse, quantised and nested tensors, and those without content
            dtype, layout = getattr(value, "dtype", "?"), getattr(value, "layout", "?")
            raise InputError(
                f"{name}: a tensor of {dtype} and {layout} cannot be read as an array ({format_exception(error)})"
            ) from None
    if isinstance(value, np.ma.MaskedArray):
        if hidden := int(np.ma.count_masked(value)):
            raise InputError(f"{name}: {hidden} of {value.size} values are masked; fill them or leave them out")
        value = value.data
    if hasattr(value, "toarray"):
        raise InputError(f"{name}: a sparse {type(value).__name__} cannot be used; pass its .toarray()")
    try:
        array = np.asarray(value)
    except Exception as error:  # of the user's __array__, or NumPy's on what it cannot read
        reason = "rows of different lengths cannot form an array" if "inhomogeneous" in str(error) else "not an array"
        raise InputError(f"{name}: {reason} ({format_exception(error)})") from None
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def is_missing(value: object) -> bool:
    """Check whether a Python value is missing: None, NaN, NaT, pandas' NA.

    Examples:
        >>> is_missing(None), is_missing(float("nan")), is_missing("")
        (True, True, False)
    """
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float | decimal.Decimal) and math.isnan(value))
    )


def check_array(value: Any, name: str, *, finite: bool = True) -> NDArray[Any]:
    """Return ``value`` as an array of numbers that float64 can tell apart.

    Raises:
        divulge.InputError: not numeric, whole numbers beyond ±2^53, NaN or infinity where ``finite``.
    """
    values = to_numpy(value, name)
    if values.dtype.kind not in "biuf":
        advice = (
            f"; np.asarray({name}, dtype=float) reads such texts as numbers" if _are_written_numbers(values) else ""
        )
        raise InputError(f"{name}: numbers are needed, got {_describe_non_number(values)}{advice}")
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        _refuse_huge(values, name)
    if values.dtype.kind == "f":
        values = _narrow_floats(values, name)
        if finite:
            _refuse_nonfinite(values, name)
    return values


def _are_written_numbers(values: NDArray[Any]) -> bool:
    try:
        return values.dtype.kind == "U" and bool(values.size) and bool(np.isfinite(values.astype(float)).all())
    except ValueError:
        return False


def _describe_non_number(array: NDArray[Any]) -> str:
    """Describe the first entry that is no number, or the type of all."""
    if array.dtype == object:
        for entry in array.ravel():
            if isinstance(entry, bool | int | float) and not -(2**64) < entry < 2**64:
                return f"{format_value(entry)}, which does not fit into 64 bits"
            if not isinstance(entry, bool | int | float | np.number):
                return f"{format_value(entry)} ({type(entry).__name__})"
    return f"dtype {array.dtype}"


def _narrow_floats(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Return floats of at most 64 bits; refuse wider ones that overflow."""
    if array.dtype.itemsize <= 8:
        return array
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float64)
    if lost := int((np.isinf(narrow) & np.isfinite(array)).sum()):
        raise InputError(f"{name}: {lost} values of {array.dtype} are too large for float64")
    return narrow


def _row_blocks(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    rows = array.reshape(1) if array.ndim == 0 else array
    step = max(1, _BLOCK // max(1, rows[:1].size))
    return ((start, rows[start : start + step]) for start in range(0, len(rows), step))


def _refuse_huge(array: NDArray[Any], name: str) -> None:
    for _, rows in _row_blocks(array):
        if rows.size and (rows.max() > _EXACT or (rows.dtype.kind == "i" and rows.min() < -_EXACT)):
            worst = rows.max() if rows.max() > _EXACT else rows.min()
            raise InputError(
                f"{name}: whole numbers beyond ±2^53 cannot all be told apart as float64, got {worst}; subtract what "
                "they have in common, or pass them as ids"
            )


def _refuse_nonfinite(array: NDArray[Any], name: str) -> None:
    count, first_position = 0, None
    for start, rows in _row_blocks(array):
        bad = ~np.isfinite(rows)
        if bad.any():
            count += int(bad.sum())
            if first_position is None:
                position = np.argwhere(bad)[0]
                first_position = [start + int(position[0]), *(int(i) for i in position[1:])], rows[tuple(position)]
    if first_position is not None:
        raise InputError(
            f"{name}: {count} values are NaN or infinite (first at {first_position[0]}: {first_position[1]})"
        )


def check_nonempty(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Return ``array`` if it has at least one entry along its first axis."""
    if array.ndim == 0 or len(array) == 0:
        raise InputError(f"{name}: at least 1 entry is needed, got {0 if array.ndim else 'a single number'}")
    return array


def check_records(value: Any, name: str) -> NDArray[Any]:
    """Return records ``[n, ...]``: numbers without NaN or infinity, or strings."""
    if isinstance(value, list | tuple) and any(isinstance(item, str) for item in value):
        # NumPy's own strings would all be as long as the longest, and lose NUL at the end.
        array = np.empty(len(value), dtype=object)
        array[:] = value
        value = array
    values = to_numpy(value, name)
    # Mostly texts: then the odd ones out are named, and no text is shown.
    if values.dtype == object and _mostly_texts(values):
        return _check_texts(values, name)
    if values.dtype.kind in "UT":
        return _check_texts(values.astype(object), name)
    return check_nonempty(check_array(values, name), name)


def _mostly_texts(values: NDArray[Any]) -> bool:
    """Return whether there are more texts than other values; missing values (None, NaN) are neither."""
    present = [item for item in values.ravel() if item is not None and not (isinstance(item, float) and np.isnan(item))]
    return 2 * sum(isinstance(item, str) for item in present) > len(present)


def _check_texts(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.ndim != 1:
        raise InputError(f"{name}: one text per record is needed, got shape {array.shape}")
    for row, item in enumerate(array):  # messages show no text
        if not isinstance(item, str):
            raise InputError(f"{name}: texts are needed, got {format_value(item)} in row {row}, counted from 0")
        try:
            item.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{name}: half of a surrogate pair, which is no character, in row {row}, counted from 0"
            ) from None
    return check_nonempty(array, name)


def check_vector(value: object, name: str, *, length: int | None = None, finite: bool = True) -> NDArray[np.float64]:
    """Return ``value`` as float64 ``[length]``.

    Examples:
        >>> check_vector([1, 2], "scores")
        array([1., 2.])
    """
    values = check_nonempty(check_array(value, name, finite=finite), name)
    if values.ndim != 1:
        raise InputError(f"{name}: one dimension is needed, got shape {values.shape}")
    if length is not None and len(values) != length:
        raise InputError(f"{name}: {length} values are needed, got {len(values)}")
    return values.astype(np.float64, copy=False)


def check_matrix(
    value: object, name: str, *, columns: int | None = None, finite: bool = True
) -> NDArray[np.floating[Any]]:
    """Return ``value`` as floats ``[rows, columns]``; float32 and memory-mapped arrays are kept as they are."""
    values = check_nonempty(check_array(value, name, finite=finite), name)
    if values.ndim != 2:
        raise InputError(f"{name}: two dimensions are needed, got shape {values.shape}")
    if columns is not None and values.shape[1] != columns:
        raise InputError(f"{name}: {columns} columns are needed, got {values.shape[1]}")
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    # Sums depend on the order in memory: the columns of a data frame must give the same number as the rows of a list.
    return values if values.flags.c_contiguous else np.ascontiguousarray(values)


def check_labels(
    value: object, name: str, *, length: int | None = None, classes: int | None = None
) -> NDArray[np.int64]:
    """Return integer class labels ``[length]`` from 0 to ``classes - 1``.

    Raises:
        InputError: a float type, a negative label, a label ≥ ``classes``, a wrong length.
    """
    values = check_nonempty(check_array(value, name), name)
    if values.dtype.kind not in "iu":
        raise InputError(f"{name}: whole-number labels are needed, got dtype {values.dtype}")
    if values.ndim != 1:
        raise InputError(f"{name}: one dimension is needed, got shape {values.shape}")
    if length is not None and len(values) != length:
        raise InputError(f"{name}: {length} labels are needed (one per record), got {len(values)}")
    if values.min() < 0:
        raise InputError(f"{name}: labels must be ≥ 0, got {values.min()}")
    if classes is not None and values.max() >= classes:
        raise InputError(f"{name}: labels must be below {classes} (the number of classes), got {values.max()}")
    return values.astype(np.int64, copy=False)


def check_class_labels(
    value: object, name: str, *, length: int, names: Sequence[str] | None = None
) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    """Return class labels ``[length]`` as whole numbers ≥ 0, and the names of the classes where they have some.

    Args:
        value: whole numbers (floats too), booleans or texts.
        name: of the argument, for errors.
        length: number of labels.
        names: all classes in their order, where ``value`` holds names; sorted when None.

    Raises:
        InputError: labels that are missing, of several kinds, fractions, no name among ``names``, a wrong length.

    Examples:
        >>> check_class_labels(["no", "yes", "no"], "y", length=3)
        (array([0, 1, 0]), ('no', 'yes'))
        >>> check_class_labels([-1, 1], "y", length=2)
        (array([0, 1]), ('-1', '1'))
        >>> check_class_labels([2, 0], "y", length=2)
        (array([2, 0]), None)
    """
    values = check_nonempty(to_numpy(value, name), name)
    if values.dtype.kind in "iu" and names is None and values.min() >= 0:
        return check_labels(values, name, length=length), None
    if values.shape != (length,):
        raise InputError(f"{name}: {length} labels are needed (one per record), got shape {values.shape}")
    labels = values.tolist()
    missing_rows = [row for row, label in enumerate(labels) if is_missing(label)]
    if missing_rows:
        raise InputError(
            f"{name}: records without class or value: {len(missing_rows)} (first: row {missing_rows[0]}, counted from "
            "0); leave them out"
        )
    # pandas makes floats of 0 and 1 in passing.
    if all(isinstance(label, float) and label.is_integer() and abs(label) < 2**53 for label in labels):
        return check_class_labels(values.astype(np.int64), name, length=length, names=names)
    infinite_rows = [row for row, label in enumerate(labels) if isinstance(label, float) and math.isinf(label)]
    if infinite_rows:
        raise InputError(
            f"{name}: labels must be finite, got {labels[infinite_rows[0]]} in row {infinite_rows[0]}, counted from 0"
        )
    label_types = {str if isinstance(label, str) else type(label) for label in labels}  # NumPy's texts are texts
    if len(label_types) > 1 or not label_types <= {str, bool, int}:
        raise InputError(
            f"{name}: whole-number labels are needed, or names of classes, got "
            f"{' and '.join(sorted(label_type.__name__ for label_type in label_types))}"
        )
    if names is None and label_types == {int} and min(labels) >= 0:  # whole numbers in an array of objects
        return check_labels(np.array(labels), name, length=length), None
    class_names = [str(label) for label in sorted(set(labels))] if names is None else [str(label) for label in names]
    if len(set(class_names)) < len(class_names):
        raise InputError(f"class_names: each may be named once, got {format_value(class_names)}")
    class_numbers = {label: number for number, label in enumerate(class_names)}
    for label in sorted({str(label) for label in labels}):
        check_choice(label, f"class_names: a class in {name}", class_names)
    return np.array([class_numbers[str(label)] for label in labels], dtype=np.int64), tuple(class_names)


def check_ids(value: object, name: str, length: int) -> NDArray[Any]:
    """Return unique identifiers ``[length]``."""
    values = to_numpy(value, name)
    if values.shape != (length,):
        raise InputError(f"{name}: {length} identifiers are needed, got shape {values.shape}")
    absent = [row for row, identifier in enumerate(values.tolist()) if is_missing(identifier)]
    if absent:
        raise InputError(f"{name}: records without identifier: {len(absent)} (first: row {absent[0]}, counted from 0)")
    try:
        unique, counts = np.unique(values, return_counts=True)
    except TypeError as error:
        raise InputError(
            f"{name}: identifiers of one kind are needed, all strings or all whole numbers ({error})"
        ) from None
    if len(unique) != length:
        raise InputError(
            f"{name}: identifiers must be unique, {unique[counts > 1].tolist()[0]!r} occurs more than once"
        )
    return values


def check_row_labels(values: Mapping[str, Any]) -> None:
    """Raise if two of these pandas objects have rows of other labels, so that joining them by position may be wrong.

    Rows of the same labels in one order fit, and so do others beside labels that merely count from 0.

    Args:
        values: data frames, columns or row labels of pandas by the name of their argument; anything else is passed by.

    Raises:
        divulge.InputError: the same labels in another order, or other labels.

    Examples:
        >>> import pandas as pd
        >>> check_row_labels({"x": pd.Series([1, 2], index=[7, 8]), "y": pd.Series([0, 1])})
    """
    labels = {name: value.index for name, value in values.items() if hasattr(value, "iloc")}
    for (name, index), (other_name, other_index) in itertools.combinations(labels.items(), 2):
        if len(index) != len(other_index) or index.equals(other_index):
            continue
        if len(index.symmetric_difference(other_index)) and any(_counts_rows(each) for each in (index, other_index)):
            continue
        raise InputError(
            f"{name}, {other_name}: their rows have different labels (the index of pandas), or the same in another "
            "order, and would be joined by position; bring them into one order, or, if they are, pass .to_numpy() or "
            ".reset_index(drop=True) of both"
        )


def _counts_rows(index: Any) -> bool:
    """Return whether row labels of pandas are 0, 1, 2, …, which it makes itself."""
    return index.dtype.kind in "iu" and bool((np.asarray(index) == np.arange(len(index))).all())


def check_names(value: object, name: str, *, length: int | None = None) -> NDArray[Any]:
    """Return texts, or whole numbers, ``[length]``, which may repeat: names of groups or strata.

    Examples:
        >>> check_names(np.array(["a", "b", "a"], dtype=object), "groups").tolist()
        ['a', 'b', 'a']
    """
    values = check_nonempty(to_numpy(value, name), name)
    if values.dtype == object:  # columns of data frames
        for row, item in enumerate(values.ravel()):
            if not isinstance(item, str):
                raise InputError(
                    f"{name}: texts, or whole numbers, are needed, got {format_value(item)} in row {row}, counted from "
                    "0"
                )
        values = values.astype(str)
    if values.dtype.kind not in "iuUT" or values.ndim != 1 or length not in (None, len(values)):
        per_document = "each document" if length is None else f"each of {length} documents"
        raise InputError(
            f"{name}: texts, or whole numbers, are needed, one for {per_document}, got {values.dtype} "
            f"of shape {values.shape}"
        )
    return values.astype(object).astype(str) if values.dtype.kind == "T" else values


def check_mask(value: Any, name: str, shape: tuple[int | None, ...]) -> NDArray[np.bool_]:
    """Return a bool array of ``shape`` (None: any length), broadcast where that is possible."""
    values = to_numpy(value, name)
    if values.dtype != np.bool_:
        raise InputError(f"{name}: bool values are needed, got dtype {values.dtype}{_advise_mask(values, name)}")
    if values.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, values.shape, strict=True)):
        return values
    try:
        return np.broadcast_to(values, tuple(1 if want is None else want for want in shape))
    except ValueError:
        raise InputError(f"{name}: shape {shape} is needed, got {values.shape}") from None


def _advise_mask(values: NDArray[Any], name: str) -> str:
    """Say how 0 and 1, as numbers or texts, become truth values; empty of anything else, such as scores."""
    distinct = np.unique(values).tolist() if values.dtype.kind in "iufU" else []
    for no, yes in ((0, 1), ("0", "1"), ("False", "True"), ("false", "true")):
        if distinct and set(distinct) <= {no, yes}:
            return f"; pass np.asarray({name}) == {yes!r} where that is what says yes"
    return ""


_LONGEST_NAME = 255  # bytes of a file name
_LONGEST_REASON = 300  # characters of another library's message
_LONGEST = 80  # characters of a value in a message
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object in memory: another one each time
_NUMPYS = re.compile(r"\bnp\.\w+\(([^()]*)\)")  # numbers inside lists


def format_value(value: Any) -> str:
    """Format ``value`` for a message: NumPy's numbers as plain ones, arrays by shape, nothing long.

    Examples:
        >>> format_value(np.float64(0.5)), format_value("fdr"), format_value(np.zeros((2, 3)))
        ('0.5', "'fdr'", 'an array of shape (2, 3)')
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(getattr(value, "shape", None), tuple) and hasattr(value, "dtype"):
        return f"an array of shape {tuple(value.shape)}"
    try:
        text = _NUMPYS.sub(r"\1", _ADDRESS.sub("", repr(value)))
    except Exception:  # the repr is the user's
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def format_exception(error: BaseException) -> str:
    """Format another library's error for a message: one line without addresses in memory.

    Examples:
        >>> format_exception(ValueError("no node <Name object at 0x7fbc>" + chr(10) + "more"))
        'no node <Name object>'
    """
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    text = _ADDRESS.sub("", text)
    return text if len(text) <= _LONGEST_REASON else text[: _LONGEST_REASON - 1] + "…"


def check_number(
    value: float, name: str, *, above: float = -np.inf, below: float = np.inf, closed: bool = False
) -> float:
    """Return ``value`` if it lies in ``(above, below)``, or in ``[above, below]`` when ``closed``.

    Examples:
        >>> check_number(0.5, "fpr", above=0, below=1)
        0.5
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name}: a number is needed, got {format_value(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise InputError(f"{name}: {format_value(value)} is larger than any float64") from None
    if not (above <= number <= below if closed else above < number < below):
        opening, closing = ("[", "]") if closed else ("(", ")")
        raise InputError(f"{name}: must lie in {opening}{above:g}, {below:g}{closing}, got {format_value(value)}")
    return number


def check_integer(value: int, name: str, *, minimum: int, maximum: int | None = None) -> int:
    """Return ``value`` if it is a whole number from ``minimum`` to ``maximum``.

    Examples:
        >>> check_integer(np.int64(3), "count", minimum=1)
        3
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{name}: a whole number is needed, got {format_value(value)}")
    if value < minimum:
        raise InputError(f"{name}: must be at least {minimum}, got {format_value(value)}")
    if maximum is not None and value > maximum:
        raise InputError(f"{name}: must be at most {maximum}, got {format_value(value)}")
    return int(value)


def check_choice(value: object, name: str, options: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``options``; otherwise an error that suggests the nearest.

    Examples:
        >>> check_choice("lirra", "recipe", ("lira", "rmia"))
        Traceback (most recent call last):
        divulge.errors.InputError: recipe: 'lirra' is unknown; did you mean 'lira'? (known: lira, rmia)
    """
    choices = tuple(options)
    if isinstance(value, str) and value in choices:
        return value
    raise InputError(f"{name}: {describe_unknown(value, choices)}")


MAX_CHOICES = 40
"""Names that a message lists; of more, the nearest and the first."""


def describe_unknown(value: object, choices: Sequence[str]) -> str:
    """Say that a value is none of ``choices``, and which is nearest."""
    nearest = (
        difflib.get_close_matches(str(value)[:_LONGEST], choices, n=1, cutoff=0.5) if isinstance(value, str) else []
    )
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    listed = [*nearest, *(each for each in choices if each not in nearest)] if len(choices) > MAX_CHOICES else choices
    known = ", ".join(listed[:MAX_CHOICES]) + (", …" if len(choices) > MAX_CHOICES else "")
    return f"{format_value(value)} is unknown{hint} (known: {known})"


def check_string(value: str, name: str) -> str:
    """Return ``value`` if it is a string with something in it."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{name}: a text is needed, got {format_value(value)}")
    return value


def check_path(value: Any, name: str) -> Path:
    """Return ``value`` as a path that a file can have.

    Examples:
        >>> check_path("run", "out")
        PosixPath('run')
    """
    try:
        path = Path(value)
        if "\0" not in str(path) and all(len(os.fsencode(part)) <= _LONGEST_NAME for part in path.parts):
            return path
    except (TypeError, ValueError):  # half of a surrogate pair is no file name
        pass
    raise InputError(f"{name}: the name of a file or folder is needed, got {format_value(value)}")


def check_bool(value: bool, name: str) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}: True or False is needed, got {format_value(value)}")
    return bool(value)


def check_instance(value: Any, name: str, expected_type: type, description: str = "") -> Any:
    """Return ``value`` if it is an instance of ``expected_type``, which errors call ``description``."""
    if not isinstance(value, expected_type):
        raise InputError(
            f"{name}: {description or f'divulge.{expected_type.__name__}'} is needed, got {format_value(value)}"
        )
    return value


def require_callable(value: Any, name: str, *methods: str) -> Any:
    """Return ``value`` if it has these methods; without any, if it can be called.

    Examples:
        >>> require_callable(None, "regressor", "fit")
        Traceback (most recent call last):
        divulge.errors.InputError: regressor: an object with fit(…) is needed, got None
    """
    if not methods and not callable(value):
        raise InputError(f"{name}: a function is needed, got {format_value(value)}")
    if methods and (isinstance(value, type) or not all(callable(getattr(value, part, None)) for part in methods)):
        required = " and ".join(f"{part}(…)" for part in methods)
        raise InputError(f"{name}: an object with {required} is needed, got {format_value(value)}")
    return value


def as_list(value: Any, name: str) -> list[Any]:
    """Return the entries of a list, tuple or vector; refuse a single value in place of a list."""
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__len__") or getattr(value, "ndim", 1) != 1:
        raise InputError(f"{name}: a list is needed, such as [{format_value(value)}], got {format_value(value)}")
    try:
        return list(value)
    except Exception:  # of the user's own sequence
        raise InputError(f"{name}: {format_value(value)} cannot be read as a list") from None


def check_strings(value: Any, name: str) -> tuple[str, ...]:
    """Return the entries of a list of strings; refuse a single string in place of a list."""
    entries = as_list(value, name)
    for entry in entries:
        if not isinstance(entry, str):
            raise InputError(f"{name}: texts are needed, got {format_value(entry)}")
    return tuple(entries)


def check_rates(value: Any, name: str, *, increasing: bool = False) -> tuple[float, ...]:
    """Return at least one rate, each between 0 and 1; where ``increasing``, at least two, each above the one before.

    Examples:
        >>> check_rates([0.1, 0.01], "fpr")
        (0.1, 0.01)
    """
    rates = tuple(check_number(level, name, above=0, below=1) for level in as_list(value, name))
    if not rates:
        raise InputError(f"{name}: at least 1 level is needed, got none")
    if increasing and (len(rates) < 2 or any(a >= b for a, b in itertools.pairwise(rates))):
        raise InputError(f"{name}: at least two, increasing, are needed, got {format_value(rates)}")
    return rates


_USABLE_SHARE = 0.9  # of what is free: the rest of the process needs some too
_MEMINFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
_LIMITS = (  # of control groups, version 2 and version 1
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


def check_memory(n_bytes: float, name: str, remedy: str) -> None:
    """Raise where ``n_bytes`` bytes are more than this machine can still give.

    Args:
        n_bytes: bytes that will be held at once.
        name: of the argument they come from.
        remedy: what would need less.

    Raises:
        divulge.InputError: they will not fit; both sizes are named.

    Examples:
        >>> check_memory(2**80, "count", "fewer models need less")
        Traceback (most recent call last):
        divulge.errors.InputError: count: about 1.1e+15 GiB of memory are needed, ... are free; fewer models need less
    """
    free_bytes = available_memory()
    if free_bytes is not None and n_bytes > _USABLE_SHARE * free_bytes:
        raise InputError(
            f"{name}: about {format_bytes(n_bytes)} of memory are needed, {format_bytes(free_bytes)} are free; {remedy}"
        )


def format_bytes(size: float) -> str:
    """Format a number of bytes.

    Examples:
        >>> format_bytes(3 * 2**30), format_bytes(5 * 2**20)
        ('3 GiB', '5 MiB')
    """
    unit, name = (2**30, "GiB") if size >= 2**30 else (2**20, "MiB")
    return f"{size / unit:.2g} {name}"


def available_memory() -> int | None:
    """Return the bytes that can still be allocated: free memory, or what is left below a container's limit.

    None where the system does not say.
    """
    sizes = [size for size in (_free_memory(), _free_container_memory()) if size is not None]
    return min(sizes, default=None)


def _free_memory() -> int | None:
    try:
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # macOS tells only what there is
    except (AttributeError, OSError, ValueError):
        return None


def _free_container_memory() -> int | None:
    """Return what is left below the limit of a container, where the cache of files counts as free."""
    for limit, used, cached in _LIMITS:
        try:
            free_bytes = int((_CGROUP / limit).read_text()) - int((_CGROUP / used).read_text())
            statistics = dict(
                line.split() for line in (_CGROUP / Path(used).parent / "memory.stat").read_text().splitlines()
            )
            return max(free_bytes + int(statistics.get(cached, 0)), 0)
        except (OSError, ValueError):  # "max": no limit
            continue
    return None


def check_column_names(names: Iterable[str], table: str = "") -> None:
    r"""Raise if polars would take the name of a column for a pattern: ``*``, or what begins with ^ and ends with $.

    Raises:
        divulge.InputError: in that case; other columns would be read in its place.

    Examples:
        >>> check_column_names(["^VIX", "a*", "$"])
    """
    for name in names:
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise InputError(
                f"{table}{': ' if table else ''}column {name!r} cannot be read, as its name is a pattern to polars; "
                "give it another name"
            )
