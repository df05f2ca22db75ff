"""Files: written whole or not at all, read without ever unpickling, named by their content."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from divulge import checks

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping


@contextlib.contextmanager
def atomic(path: Path) -> Generator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well.

    A crash, an error or a full disk leaves whatever stood at ``path`` untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically."""
    with atomic(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically, as UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as JSON to ``path`` atomically; NaN and infinity are refused (they are not JSON)."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """The JSON value in ``path``.

    Raises:
        divulge.InputError: missing or damaged file.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise checks.InputError(f"{path}: no such file") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise checks.InputError(f"{path}: damaged or half-written JSON ({error})") from None


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays to an ``.npz`` at ``path`` atomically; object arrays are refused."""
    for name, value in arrays.items():
        if value.dtype == object:
            raise checks.InputError(f"{name}: an object array cannot be stored without pickle")
    with atomic(path) as temporary, temporary.open("wb") as out:
        np.savez(out, **arrays)  # ty: ignore[invalid-argument-type]


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an ``.npz``, never unpickling.

    Raises:
        divulge.InputError: missing, damaged or pickled content.
    """
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except FileNotFoundError:
        raise checks.InputError(f"{path}: no such file") from None
    except Exception as error:
        raise checks.InputError(f"{path}: not a readable .npz of plain arrays ({error})") from None


def digest(*parts: object) -> str:
    """A SHA-256 of arrays (content, shape and type) and of anything whose repr says all.

    Examples:
        >>> digest(np.arange(3)) == digest(np.arange(3)), digest(np.arange(3)) == digest(np.arange(3.0))
        (True, False)
    """
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray) and part.dtype != object:
            total.update(f"{part.dtype.str}{part.shape}".encode())
            total.update(np.ascontiguousarray(part).data)
        elif isinstance(part, np.ndarray):
            total.update(repr(part.tolist()).encode())
        elif isinstance(part, bytes):
            total.update(part)
        else:
            total.update(repr(part).encode())
        total.update(b"\0")
    return total.hexdigest()
