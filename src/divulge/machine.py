"""What this process may use of the machine, and work that uses it."""

from __future__ import annotations

import datetime as dt
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_DIGITS = 11  # of the seconds until the year 5138
_Part = TypeVar("_Part")
_Done = TypeVar("_Done")


def available_cores() -> int:
    """Cores that this process may run on.

    Examples:
        >>> available_cores() >= 1
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_threads(work: Callable[[_Part], _Done], parts: Sequence[_Part]) -> Iterator[_Done]:
    """What ``work`` makes of each part, in order; each core has one at a time, and no more of them are in memory.

    For work in which NumPy leaves Python's lock alone.

    Examples:
        >>> list(map_in_threads(abs, [-1, 2, -3]))
        [1, 2, 3]
    """
    at_once = min(available_cores(), len(parts))
    if at_once < 2:
        yield from map(work, parts)
        return
    with ThreadPoolExecutor(at_once) as pool:
        for first in range(0, len(parts), at_once):
            yield from pool.map(work, parts[first : first + at_once])


def current_time() -> str:
    """Return the time in ISO format; where SOURCE_DATE_EPOCH is set that time, so that equal runs give equal bytes.

    Raises:
        divulge.InputError: SOURCE_DATE_EPOCH is no number of seconds.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        return dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat()
    if not (given.isascii() and given.isdecimal() and len(given) <= _DIGITS):
        raise InputError(f"SOURCE_DATE_EPOCH: whole seconds since 1970 are needed, got {repr(given)[:80]}")
    return dt.datetime.fromtimestamp(int(given), dt.UTC).isoformat()
