"""The one place where files that somebody else may have made are opened.

A run directory, a pool or a data set comes from others. In the place of any of its files there may be a FIFO, which
waits for a writer for ever, a device that never ends, a link to a file of ours, or a hole of a petabyte. Whoever reads
such a file opens it here, and hands the open file, not its path, to the library that decodes it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from divulge.errors import InputError
from divulge.validation import format_bytes, format_exception

if TYPE_CHECKING:
    from collections.abc import Generator
    from io import BufferedReader

TEXT = 1 << 28
"""Bytes beyond which no JSON, TOML or HTML of ours goes."""

LINES = 1 << 35
"""Bytes beyond which no journal and no list of labels goes."""

_SMALL = 1 << 26  # bytes below which holes do no harm
_HOLLOW = 256  # a file of ours is compressed or dense: it never has one block in so many on the disk
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"))


def open_untrusted(path: Path, *, inside: Path | None = None, limit: int | None = None) -> BufferedReader:
    """Open a regular file for reading; never wait for one, and never follow a link out of a directory.

    Args:
        path: of the file.
        inside: directory that the file must lie in once every link is followed; None where the user named the file.
        limit: bytes that it may have; None where whoever reads it says how much is too much.

    Returns:
        The open file, at its beginning.

    Raises:
        divulge.InputError: a folder, FIFO, socket or device; a link that leaves ``inside``; more than ``limit`` bytes;
            a file that is nearly nothing but a hole.
        OSError: no such file, or no permission.
    """
    place = path if inside is None else _follow(path, inside)
    _refuse_irregular(path, place.stat())  # an open alone already does something to some devices
    # What stood there a moment ago may be gone: it is opened without waiting, and looked at again once it is open.
    descriptor = os.open(place, _FLAGS | (getattr(os, "O_NOFOLLOW", 0) if inside is not None else 0))
    try:
        status = os.fstat(descriptor)
        _refuse_irregular(path, status)
        _refuse_large(path, status, limit)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


@contextlib.contextmanager
def panic_errors(name: str) -> Generator[None]:
    """Turn the panic of a library written in Rust into an error; also a decorator.

    What such a library takes for impossible in a file is no `Exception` in Python, and would end the process past every
    handler of errors. Nothing else is caught, least of all Ctrl-C.

    Args:
        name: what the library was reading.

    Raises:
        divulge.InputError: in place of the panic.
    """
    try:
        yield
    except BaseException as error:
        if is_panic(error):
            raise InputError(f"{name}: damaged or made to fail ({format_exception(ValueError(error))})") from None
        raise


def is_panic(error: BaseException) -> bool:
    """Return whether ``error`` is the panic of a library written in Rust; each brings a class of its own."""
    return not isinstance(error, Exception) and type(error).__name__ == "PanicException"


def read_untrusted(path: Path, *, inside: Path | None = None, limit: int = TEXT) -> bytes:
    """Return the content of a file; arguments and errors as for `open_untrusted`."""
    with open_untrusted(path, inside=inside, limit=limit) as file:
        content = file.read(os.fstat(file.fileno()).st_size + 1)  # not `limit`, for which room would be made at once
    if len(content) > limit:  # it grew meanwhile
        raise InputError(f"{path}: more than such a file may have ({format_bytes(limit)})")
    return content


def _follow(path: Path, inside: Path) -> Path:
    """Return where ``path`` leads, which must be below ``inside``."""
    home = Path(os.path.realpath(inside, strict=True))
    place = Path(os.path.realpath(path, strict=True))
    if not place.is_relative_to(home):
        raise InputError(f"{path}: a link that leaves {inside}; only files in this directory are read")
    return place


def _refuse_irregular(path: Path, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    names = {stat.S_IFDIR: "folder", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
    raise InputError(f"{path}: a file is needed, got a {names.get(stat.S_IFMT(status.st_mode), 'device')}")


def _refuse_large(path: Path, status: os.stat_result, limit: int | None) -> None:
    size, stored = status.st_size, getattr(status, "st_blocks", None)
    if limit is not None and size > limit:
        most = format_bytes(limit)
        raise InputError(f"{path}: {format_bytes(size)} are more than such a file may have ({most})")
    if stored is not None and size > _SMALL and 512 * stored < size // _HOLLOW:
        raise InputError(
            f"{path}: damaged, nothing but a hole ({format_bytes(size)}, of which the disk holds "
            f"{format_bytes(512 * stored)})"
        )
