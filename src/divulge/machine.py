"""Cores of the machine, work in threads, and the time."""

from __future__ import annotations

import datetime as dt
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TABLE_MEMORY = {
    "POLARS_ROW_GROUP_PREFETCH_SIZE": "1",  # row groups of Parquet
    "POLARS_CSV_CHUNK_PREFETCH_LIMIT": "1",
    "POLARS_CSV_CHUNK_SIZE": str(1 << 20),  # bytes
    "_RJEM_MALLOC_CONF": "dirty_decay_ms:100,muzzy_decay_ms:0",  # of its allocator, which keeps pages for 10 s else
}
"""Settings of polars with which a table that is read in batches takes the memory of few of them.

By default polars reads as far ahead as it can; our batches are worked on in Python, which is slower anyway.
"""

_MAX_DIGITS = 11  # of the seconds until the year 5138
_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def available_cores() -> int:
    """Return the number of cores that this process may run on.

    Examples:
        >>> available_cores() >= 1
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def limit_table_memory() -> None:
    """Make polars, which must not be imported yet, read tables with little memory; what the user has set stays.

    This is for a process of our own: elsewhere it would slow the user's own queries.
    """
    for name, value in TABLE_MEMORY.items():
        os.environ.setdefault(name, value)


def map_in_threads(work: Callable[[_Part], _Result], parts: Sequence[_Part]) -> Iterator[_Result]:
    """Yield the result of ``work`` for each part, in order; one part per core is in memory at a time.

    Only work in which NumPy releases Python's lock gains from it.

    Examples:
        >>> list(map_in_threads(abs, [-1, 2, -3]))
        [1, 2, 3]
    """
    n_threads = min(available_cores(), len(parts))
    if n_threads < 2:
        yield from map(work, parts)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for start in range(0, len(parts), n_threads):
            yield from pool.map(work, parts[start : start + n_threads])


def current_time() -> str:
    """Return the time in ISO format; where SOURCE_DATE_EPOCH is set that time, so that equal runs give equal bytes.

    Raises:
        divulge.InputError: SOURCE_DATE_EPOCH is no number of seconds.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        return dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat()
    if not (epoch.isascii() and epoch.isdecimal() and len(epoch) <= _MAX_DIGITS):
        raise InputError(f"SOURCE_DATE_EPOCH: whole seconds since 1970 are needed, got {repr(epoch)[:80]}")
    return dt.datetime.fromtimestamp(int(epoch), dt.UTC).isoformat()
