"""Files: written whole or not at all, read without ever unpickling, named by their content."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import uuid
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from divulge import checks

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

# How arro3 begins what it says of a file, and where it may begin to quote the file, which may hold a document.
_BEGINS = re.compile(r"^(called `.*?` on an? `\w+` value:? ?(\w+\(\"?)?)?([A-Z][\w ]* error: )*")
_CELL = re.compile(r"while parsing value .* as type '(\w+)' for column (\d+) ", re.DOTALL)
_QUOTE = re.compile(r"[\s:]*(while parsing value|['\"`\[{]).*", re.DOTALL)


TEMPORARY = r"[0-9a-f]{32}\.tmp"
"""How the name of a file that `atomic` is writing ends, after a dot and the name it will have."""


def private(folder: Path) -> Path:
    """Make ``folder`` and what is missing above it, for the owner alone whatever the umask; return it.

    A folder that exists keeps its permissions.
    """
    if not folder.is_dir():
        private(folder.parent)
        try:
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)
        except FileExistsError:
            if not folder.is_dir():  # a file; a folder was made by another process meanwhile
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
    return folder


@contextlib.contextmanager
def atomic(path: Path) -> Generator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well.

    A crash, an error or a full disk leaves whatever stood at ``path`` untouched. Nobody but the owner can read
    the file, whatever the umask.
    """
    private(path.parent)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.touch(mode=0o600, exist_ok=False)
        yield temporary
        seal(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def seal(path: Path) -> None:
    """Make the file its owner's alone, and wait until its content is on the disk."""
    path.chmod(0o600)
    with path.open("rb") as written:
        os.fsync(written.fileno())


def sync(folder: Path) -> None:
    """Wait until the names in ``folder`` and below are on the disk, where the system can say so."""
    for place, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):  # Windows opens no folders
            opened = os.open(place, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)


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


def read_text(path: Path) -> str:
    """The UTF-8 text in ``path``.

    Raises:
        divulge.InputError: missing or unreadable file, or other content than text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise checks.InputError(f"{path}: no such file") from None
    except OSError as error:
        raise checks.InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise checks.InputError(f"{path}: damaged, not UTF-8 text (byte {error.start})") from None


def read_json(path: Path) -> Any:
    """The JSON value in ``path``.

    Raises:
        divulge.InputError: missing or damaged file.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # not JSON, numbers or nesting without end
        raise checks.InputError(f"{path}: damaged or half-written JSON ({str(error).split(';')[0]})") from None


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
        divulge.InputError: missing, damaged or pickled content, or more than memory can take.
    """
    with _unpickled(path, "a readable .npz of plain arrays") as opened:
        fits(path, str(path))
        loaded = np.load(opened, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise ValueError("a single array without a name: save it with numpy.savez")
        with loaded:
            arrays: dict[str, Any] = {name: loaded[name] for name in loaded.files}
        if odd := [name for name, value in arrays.items() if not isinstance(value, np.ndarray)]:
            raise ValueError(f"{odd[0]} is no array")
        return arrays


def read_array(path: Path) -> NDArray[Any]:
    """The array of an ``.npy``, never unpickling.

    Raises:
        divulge.InputError: missing, damaged or pickled content.
    """
    with _unpickled(path, "a readable .npy of one plain array") as opened:
        loaded = np.load(opened, allow_pickle=False)
        if not isinstance(loaded, np.ndarray):
            loaded.close()
            raise ValueError("several arrays")
        return loaded


@contextlib.contextmanager
def _unpickled(path: Path, kind: str) -> Generator[BinaryIO]:
    """The open file; whatever NumPy says of its content is said in our words, which never advise unpickling."""
    try:
        with path.open("rb") as opened:
            yield opened
    except FileNotFoundError:
        raise checks.InputError(f"{path}: no such file") from None
    except checks.InputError:
        raise
    except Exception as error:
        pickled = "it holds neither numbers nor strings in NumPy's format; pickled objects are never opened"
        raise checks.InputError(
            f"{path}: not {kind} ({pickled if 'pickle' in str(error) else checks.reason(error)})"
        ) from None


@contextlib.contextmanager
def tables(name: str) -> Generator[None]:
    """Whatever arro3 says of a damaged file inside the block, also by a panic, which is no `Exception`.

    Raises:
        divulge.InputError: it could not be read; no value of the file is shown.
    """
    try:
        yield
    except checks.InputError:
        raise
    except OSError as error:
        raise checks.InputError(f"{name}: cannot be read ({error.strerror or checks.reason(error)})") from None
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise checks.InputError(f"{name}: damaged or half-written ({unquoted(error)})") from None


def unquoted(error: BaseException) -> str:
    """What arro3 says of a file, up to where it may quote it.

    Examples:
        >>> unquoted(ValueError("Csv error: Error while parsing value 'z' as type 'Int64'. Row data: '[z]'"))
        'Error'
        >>> unquoted(ValueError("Csv error: Error while parsing value 'z' as type 'Int64' for column 1 at line 2."))
        'a value in column 2 that looks like Int64 and is none'
        >>> unquoted(ValueError('called `Result::unwrap()` on an `Err` value: EOF("Parquet file too small")'))
        'Parquet file too small'
    """
    if cell := _CELL.search(str(error)):
        return f"a value in column {int(cell[2]) + 1} that looks like {cell[1]} and is none"
    said = _QUOTE.sub("", _BEGINS.sub("", str(error).strip()))
    return checks.reason(ValueError(said or type(error).__name__))


def fits(path: Path, name: str) -> None:
    """Raise where a zip archive says it holds more than memory can take, unpacked and read.

    Raises:
        divulge.InputError: it does; the size is named.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return  # whoever reads it says what is wrong
    checks.memory(2 * size, name, "the archive holds more than this machine can read")


def begins(path: Path, head: bytes, *, cut: bool = False) -> bool:
    """Whether a file begins with ``head``, after the length that safetensors puts first; ``cut``: it may end early."""
    skipped = 8 if ".safetensors" in path.name else 0
    with path.open("rb") as opened:
        start = opened.read(skipped + len(head))[skipped:]
    return start == head or (cut and head.startswith(start))


def file_digest(path: Path) -> str:
    """SHA-256 of the content of a file, read in pieces."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


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
