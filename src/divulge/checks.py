"""Validation of what users hand in: every error names the argument, the bound and the value."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from divulge.errors import InputError, MissingExtraError, extra

__all__ = [
    "InputError",
    "MissingExtraError",
    "array",
    "choice",
    "extra",
    "identifiers",
    "integer",
    "labels",
    "mask",
    "matrix",
    "nonempty",
    "number",
    "records",
    "vector",
]

if TYPE_CHECKING:
    from collections.abc import Iterable


def array(value: Any, name: str, *, finite: bool = True) -> NDArray[Any]:
    """``value`` as a numeric array; torch tensors are moved to the CPU.

    Raises:
        InputError: not numeric, or NaN/infinity where ``finite``.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name}: rows of different lengths cannot form an array ({error})") from None
    if found.dtype == object or found.dtype.kind not in "biuf":
        raise InputError(f"{name}: numbers are needed, got dtype {found.dtype}")
    if finite and found.dtype.kind == "f":
        _refuse_nonfinite(found, name)
    return found


# Entries looked at in one go: a memory-mapped array is never read whole.
_BLOCK = 1 << 24


def _refuse_nonfinite(found: NDArray[Any], name: str) -> None:
    rows = found.reshape(1) if found.ndim == 0 else found
    step = max(1, _BLOCK // max(1, rows[:1].size))
    count, first = 0, None
    for start in range(0, len(rows), step):
        bad = ~np.isfinite(rows[start : start + step])
        if bad.any():
            count += int(bad.sum())
            first = first or (start, np.argwhere(bad)[0])
    if first is not None:
        at = (first[0] + int(first[1][0]), *(int(i) for i in first[1][1:]))
        raise InputError(f"{name}: {count} values are NaN or infinite (first at {list(at)}: {rows[at]})")


def nonempty(found: NDArray[Any], name: str) -> NDArray[Any]:
    """``found`` if it has at least one entry along its first axis."""
    if found.ndim == 0 or len(found) == 0:
        raise InputError(f"{name}: at least 1 entry is needed, got {0 if found.ndim else 'a single number'}")
    return found


def records(value: Any, name: str) -> NDArray[Any]:
    """Records ``[n, ...]``: numbers without NaN or infinity, or strings."""
    if hasattr(value, "detach"):
        return nonempty(array(value, name), name)
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name}: rows of different lengths cannot form an array ({error})") from None
    if found.dtype == object and found.size and all(isinstance(item, str) for item in found.ravel()):
        return _texts(found, name)
    if found.dtype.kind == "U":
        return _texts(found.astype(object), name)
    return nonempty(array(found, name), name)


def _texts(found: NDArray[Any], name: str) -> NDArray[Any]:
    if found.ndim != 1:
        raise InputError(f"{name}: one text a record is needed, got shape {found.shape}")
    return nonempty(found, name)


def vector(value: object, name: str, *, length: int | None = None, finite: bool = True) -> NDArray[np.float64]:
    """``value`` as float64 ``[length]``.

    Examples:
        >>> vector([1, 2], "scores")
        array([1., 2.])
    """
    found = nonempty(array(value, name, finite=finite), name)
    if found.ndim != 1:
        raise InputError(f"{name}: one dimension is needed, got shape {found.shape}")
    if length is not None and len(found) != length:
        raise InputError(f"{name}: {length} values are needed, got {len(found)}")
    return found.astype(np.float64, copy=False)


def matrix(value: object, name: str, *, columns: int | None = None, finite: bool = True) -> NDArray[np.floating[Any]]:
    """``value`` as floats ``[rows, columns]``; float32 and memory-mapped arrays are kept as they are."""
    found = nonempty(array(value, name, finite=finite), name)
    if found.ndim != 2:
        raise InputError(f"{name}: two dimensions are needed, got shape {found.shape}")
    if columns is not None and found.shape[1] != columns:
        raise InputError(f"{name}: {columns} columns are needed, got {found.shape[1]}")
    return found if found.dtype in (np.float32, np.float64) else found.astype(np.float64)


def labels(value: object, name: str, *, length: int | None = None, classes: int | None = None) -> NDArray[np.int64]:
    """Integer class labels ``[length]`` from 0 to ``classes - 1``.

    Raises:
        InputError: a float type, a negative label, a label ≥ ``classes``, a wrong length.
    """
    found = nonempty(array(value, name), name)
    if found.dtype.kind not in "iu":
        raise InputError(f"{name}: whole-number labels are needed, got dtype {found.dtype}")
    if found.ndim != 1:
        raise InputError(f"{name}: one dimension is needed, got shape {found.shape}")
    if length is not None and len(found) != length:
        raise InputError(f"{name}: {length} labels are needed (one a record), got {len(found)}")
    if found.min() < 0:
        raise InputError(f"{name}: labels must be ≥ 0, got {found.min()}")
    if classes is not None and found.max() >= classes:
        raise InputError(f"{name}: labels must be below {classes} (the number of classes), got {found.max()}")
    return found.astype(np.int64, copy=False)


def identifiers(value: object, name: str, length: int) -> NDArray[Any]:
    """Unique identifiers ``[length]``."""
    found = np.asarray(value)
    if found.shape != (length,):
        raise InputError(f"{name}: {length} identifiers are needed, got shape {found.shape}")
    try:
        unique, counts = np.unique(found, return_counts=True)
    except TypeError as error:
        raise InputError(
            f"{name}: identifiers of one kind are needed, all strings or all whole numbers ({error})"
        ) from None
    if len(unique) != length:
        raise InputError(
            f"{name}: identifiers must be unique, {unique[counts > 1].tolist()[0]!r} stands more than once"
        )
    return found


def mask(value: Any, name: str, shape: tuple[int | None, ...]) -> NDArray[np.bool_]:
    """A bool array of ``shape`` (None: any length), broadcast where that is possible."""
    found = np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    if found.dtype != np.bool_:
        raise InputError(f"{name}: bool values are needed, got dtype {found.dtype}")
    if found.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, found.shape, strict=True)):
        return found
    try:
        return np.broadcast_to(found, tuple(1 if want is None else want for want in shape))
    except ValueError:
        raise InputError(f"{name}: shape {shape} is needed, got {found.shape}") from None


def number(value: float, name: str, *, above: float = -np.inf, below: float = np.inf, closed: bool = False) -> float:
    """``value`` if it lies in ``(above, below)``, or in ``[above, below]`` when ``closed``.

    Examples:
        >>> number(0.5, "fpr", above=0, below=1)
        0.5
    """
    if isinstance(value, str | bytes) or value is None:
        raise InputError(f"{name}: a number is needed, got {value!r}")
    inside = above <= value <= below if closed else above < value < below
    if not inside:
        left, right = ("[", "]") if closed else ("(", ")")
        raise InputError(f"{name}: must lie in {left}{above:g}, {below:g}{right}, got {value!r}")
    return float(value)


def integer(value: int, name: str, *, least: int) -> int:
    """``value`` if it is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{name}: a whole number is needed, got {value!r}")
    if value < least:
        raise InputError(f"{name}: must be at least {least}, got {value}")
    return int(value)


def choice(value: str, name: str, options: Iterable[str]) -> str:
    """``value`` if it is one of ``options``; otherwise an error that suggests the nearest.

    Examples:
        >>> choice("lirra", "recipe", ("lira", "rmia"))
        Traceback (most recent call last):
        divulge.errors.InputError: recipe: 'lirra' is unknown; did you mean 'lira'? (known: lira, rmia)
    """
    known = tuple(options)
    if value in known:
        return value
    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ";"
    raise InputError(f"{name}: {value!r} is unknown{hint} (known: {', '.join(known)})")
