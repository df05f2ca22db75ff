"""Numbers, words and switches."""

from __future__ import annotations

import difflib
import itertools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_NAME = 255  # bytes of a file name
_LONGEST_REASON = 300  # characters of another library's message
_LONGEST = 80  # characters of a value in a message
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object in memory: another one each time
_NUMPYS = re.compile(r"\bnp\.\w+\(([^()]*)\)")  # numbers inside lists


def format_value(value: Any) -> str:
    """``value`` as messages show it: NumPy's numbers as plain ones, arrays by shape, nothing long.

    Examples:
        >>> format_value(np.float64(0.5)), format_value("fdr"), format_value(np.zeros((2, 3)))
        ('0.5', "'fdr'", 'an array of shape (2, 3)')
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(getattr(value, "shape", None), tuple) and hasattr(value, "dtype"):
        return f"an array of shape {tuple(value.shape)}"
    try:
        said = _NUMPYS.sub(r"\1", _ADDRESS.sub("", repr(value)))
    except Exception:  # the repr is the user's
        said = f"an object of type {type(value).__name__}"
    return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…"


def format_exception(error: BaseException) -> str:
    """What another library's error says, as messages show it: one line without addresses in memory.

    Examples:
        >>> format_exception(ValueError("no node <Name object at 0x7fbc>" + chr(10) + "more"))
        'no node <Name object>'
    """
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    said = _ADDRESS.sub("", said)
    return said if len(said) <= _LONGEST_REASON else said[: _LONGEST_REASON - 1] + "…"


def check_number(
    value: float, name: str, *, above: float = -np.inf, below: float = np.inf, closed: bool = False
) -> float:
    """``value`` if it lies in ``(above, below)``, or in ``[above, below]`` when ``closed``.

    Examples:
        >>> check_number(0.5, "fpr", above=0, below=1)
        0.5
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name}: a number is needed, got {format_value(value)}")
    try:
        given = float(value)
    except OverflowError:
        raise InputError(f"{name}: {format_value(value)} is larger than any float64") from None
    if not (above <= given <= below if closed else above < given < below):
        left, right = ("[", "]") if closed else ("(", ")")
        raise InputError(f"{name}: must lie in {left}{above:g}, {below:g}{right}, got {format_value(value)}")
    return given


def check_integer(value: int, name: str, *, least: int, most: int | None = None) -> int:
    """``value`` if it is a whole number from ``least`` to ``most``.

    Examples:
        >>> check_integer(np.int64(3), "count", least=1)
        3
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{name}: a whole number is needed, got {format_value(value)}")
    if value < least:
        raise InputError(f"{name}: must be at least {least}, got {format_value(value)}")
    if most is not None and value > most:
        raise InputError(f"{name}: must be at most {most}, got {format_value(value)}")
    return int(value)


def check_choice(value: object, name: str, options: Iterable[str]) -> str:
    """``value`` if it is one of ``options``; otherwise an error that suggests the nearest.

    Examples:
        >>> check_choice("lirra", "recipe", ("lira", "rmia"))
        Traceback (most recent call last):
        divulge.errors.InputError: recipe: 'lirra' is unknown; did you mean 'lira'? (known: lira, rmia)
    """
    known = tuple(options)
    if isinstance(value, str) and value in known:
        return value
    near = difflib.get_close_matches(str(value)[:_LONGEST], known, n=1, cutoff=0.5) if isinstance(value, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(f"{name}: {format_value(value)} is unknown{hint} (known: {', '.join(known)})")


def check_string(value: str, name: str) -> str:
    """``value`` if it is a string with something in it."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{name}: a text is needed, got {format_value(value)}")
    return value


def check_path(value: Any, name: str) -> Path:
    """``value`` as a path that a file can have.

    Examples:
        >>> check_path("run", "out")
        PosixPath('run')
    """
    try:
        given = Path(value)
        if "\0" not in str(given) and all(len(os.fsencode(part)) <= _LONGEST_NAME for part in given.parts):
            return given
    except (TypeError, ValueError):  # half of a surrogate pair is no file name
        pass
    raise InputError(f"{name}: the name of a file or folder is needed, got {format_value(value)}")


def check_bool(value: bool, name: str) -> bool:
    """``value`` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}: True or False is needed, got {format_value(value)}")
    return bool(value)


def check_instance(value: Any, name: str, kind: type, called: str = "") -> Any:
    """``value`` if it is a ``kind``; errors call that ``called``."""
    if not isinstance(value, kind):
        raise InputError(f"{name}: {called or f'divulge.{kind.__name__}'} is needed, got {format_value(value)}")
    return value


def require_callable(value: Any, name: str, *methods: str) -> Any:
    """``value`` if it has these methods; without any, if it can be called.

    Examples:
        >>> require_callable(None, "regressor", "fit")
        Traceback (most recent call last):
        divulge.errors.InputError: regressor: an object with fit(…) is needed, got None
    """
    if not methods and not callable(value):
        raise InputError(f"{name}: a function is needed, got {format_value(value)}")
    if methods and (isinstance(value, type) or not all(callable(getattr(value, part, None)) for part in methods)):
        called = " and ".join(f"{part}(…)" for part in methods)
        raise InputError(f"{name}: an object with {called} is needed, got {format_value(value)}")
    return value


def as_list(value: Any, name: str) -> list[Any]:
    """The entries of a list, tuple or vector; a single number where a list is wanted is a slip with a remedy."""
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__len__") or getattr(value, "ndim", 1) != 1:
        raise InputError(f"{name}: a list is needed, such as [{format_value(value)}], got {format_value(value)}")
    try:
        return list(value)
    except Exception:  # of the user's own sequence
        raise InputError(f"{name}: {format_value(value)} cannot be read as a list") from None


def check_strings(value: Any, name: str) -> tuple[str, ...]:
    """The entries of a list of strings; a single string where a list is wanted is a slip."""
    given = as_list(value, name)
    for entry in given:
        if not isinstance(entry, str):
            raise InputError(f"{name}: texts are needed, got {format_value(entry)}")
    return tuple(given)


def check_rates(value: Any, name: str, *, increasing: bool = False) -> tuple[float, ...]:
    """At least one rate, each between 0 and 1; where ``increasing``, at least two, each above the one before.

    Examples:
        >>> check_rates([0.1, 0.01], "fpr")
        (0.1, 0.01)
    """
    given = tuple(check_number(level, name, above=0, below=1) for level in as_list(value, name))
    if not given:
        raise InputError(f"{name}: at least 1 level is needed, got none")
    if increasing and (len(given) < 2 or any(a >= b for a, b in itertools.pairwise(given))):
        raise InputError(f"{name}: at least two, increasing, are needed, got {format_value(given)}")
    return given
