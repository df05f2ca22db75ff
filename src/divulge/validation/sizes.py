"""Whether what is about to be made fits into memory."""

from __future__ import annotations

import os
from pathlib import Path

from divulge.errors import InputError

_SHARE = 0.9  # of what is free: the rest of the process needs some too
_MEMINFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
_LIMITS = (  # of control groups, version 2 and version 1
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


def check_memory(needed: float, name: str, remedy: str) -> None:
    """Raise where ``needed`` bytes are more than this machine can still give.

    Args:
        needed: bytes that will be held at once.
        name: of the argument they come from.
        remedy: what would need less.

    Raises:
        divulge.InputError: they will not fit; both sizes are named.

    Examples:
        >>> check_memory(2**80, "count", "fewer models need less")
        Traceback (most recent call last):
        divulge.errors.InputError: count: about 1.1e+15 GiB of memory are needed, ... are free; fewer models need less
    """
    free = available_memory()
    if free is not None and needed > _SHARE * free:
        raise InputError(
            f"{name}: about {format_bytes(needed)} of memory are needed, {format_bytes(free)} are free; {remedy}"
        )


def format_bytes(size: float) -> str:
    """A number of bytes in words.

    Examples:
        >>> format_bytes(3 * 2**30), format_bytes(5 * 2**20)
        ('3 GiB', '5 MiB')
    """
    unit, name = (2**30, "GiB") if size >= 2**30 else (2**20, "MiB")
    return f"{size / unit:.2g} {name}"


def available_memory() -> int | None:
    """Bytes that can still be allocated: what the machine has free, or what is left of the container's share.

    None where the system does not say.
    """
    sizes = [size for size in (_machine(), _container()) if size is not None]
    return min(sizes, default=None)


def _machine() -> int | None:
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


def _container() -> int | None:
    """What is left below the limit of a container; the cache of files counts as free, as it is given up first."""
    for limit, used, cached in _LIMITS:
        try:
            left = int((_CGROUP / limit).read_text()) - int((_CGROUP / used).read_text())
            facts = dict(
                line.split() for line in (_CGROUP / Path(used).parent / "memory.stat").read_text().splitlines()
            )
            return max(left + int(facts.get(cached, 0)), 0)
        except (OSError, ValueError):  # "max": no limit
            continue
    return None
