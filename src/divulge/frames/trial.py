"""A file, read for trial in a process of its own.

Where Arrow's readers come upon something impossible in the middle of a file, they end the process that they run in,
without an error that Python could catch. What they make of a damaged file is learnt elsewhere, once.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

Kind: TypeAlias = Literal["parquet", "ipc"]

_FAILED, _MISSING = 64, 65
_BEGUN = "trial\n"  # what a Python says first: what else `sys.executable` may be, says nothing of the file

# Prints how many bytes the decoded file takes, or what is wrong with it.
_CODE = f"""
import io, sys
try:
    from arro3 import io as readers
except ImportError:
    sys.exit({_MISSING})
print(end={_BEGUN!r}, flush=True)
try:
    with open(0, "rb") as file:
        whole = file if file.seekable() else io.BytesIO(file.read())
        if sys.argv[1] == "ipc":
            batches = readers.read_ipc_stream(whole)
        else:
            batches = readers.read_parquet(whole, batch_size=1 << 16)
        print(sum(batch.nbytes for batch in batches))
except BaseException as error:
    sys.stdout.buffer.write(str(error).encode("utf-8", "replace"))
    sys.exit({_FAILED})
"""


def size(file: Path | IO[bytes], kind: Kind) -> int:
    """How many bytes a file takes in memory, in Arrow's own form; 0 where no process can be started to find out.

    Args:
        file: the file.
        kind: ``parquet``, or ``ipc`` for an Arrow stream.

    Raises:
        ValueError: it cannot be read; what the reader says of it.
    """
    if getattr(sys, "frozen", False) or not sys.executable:  # what could be started is no Python
        return 0
    if isinstance(file, Path):
        there = file.stat()
        return _known(file, kind, there.st_ino, there.st_size, there.st_mtime_ns)
    start = file.tell()
    content = file.read()
    file.seek(start)
    return _tried(kind, input=content)


@functools.lru_cache(maxsize=1024)
def _known(path: Path, kind: Kind, *_content: int) -> int:
    """A file that nobody has changed meanwhile is tried once."""
    with path.open("rb") as opened:
        return _tried(kind, stdin=opened)


def _tried(kind: Kind, **given: Any) -> int:
    listed: list[Any] = sys.path  # where others have put paths too, which Python itself passes over
    places = [place for place in listed if place and isinstance(place, str)]
    given["env"] = os.environ | {"PYTHONPATH": os.pathsep.join(places), "RUST_BACKTRACE": "0"}
    command = [sys.executable, "-S", "-P", "-c", _CODE, kind]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, **given)  # noqa: S603 - fixed words
    except OSError:  # no such program, or no more processes
        return 0
    said = done.stdout.decode("utf-8", "replace").replace(os.linesep, "\n")
    if done.returncode == _MISSING or not said.startswith(_BEGUN):
        return 0
    if done.returncode == _FAILED:
        raise ValueError(said.removeprefix(_BEGUN))
    if done.returncode:
        raise ValueError("the reader cannot go on")
    return int(said.removeprefix(_BEGUN))
