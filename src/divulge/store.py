"""Files: written whole or not at all, read without ever unpickling, named by their content."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import stat
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np
import pydantic
from numpy.typing import NDArray

from divulge.errors import InputError
from divulge.validation import check_memory, format_bytes, format_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from io import BufferedReader

MAX_TEXT_BYTES = 1 << 28
"""Bytes beyond which no JSON, TOML or HTML of ours goes."""

MAX_LINES_BYTES = 1 << 35
"""Bytes beyond which no journal and no list of labels goes."""

_SMALL = 1 << 26  # bytes below which holes do no harm
_HOLLOW = 256  # a file of ours is compressed or dense: it never has one block in so many on the disk
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"))

TEMPORARY_SUFFIX = r"[0-9a-f]{32}\.tmp"
"""How the name of a file that `atomic` is writing ends, after a dot and the name it will have."""


def make_private_directory(folder: Path) -> Path:
    """Make ``folder`` and what is missing above it, for the owner alone whatever the umask; return it.

    A folder that exists keeps its permissions.
    """
    if not folder.is_dir():
        make_private_directory(folder.parent)
        try:
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)
        except FileExistsError:
            if not folder.is_dir():  # a file; a folder was made by another process meanwhile
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
    return folder


@contextlib.contextmanager
def atomic_write(path: Path) -> Generator[Path]:
    """Yield a temporary path beside ``path``, which takes its place when the block ends well.

    A crash, an error or a full disk leaves whatever stood at ``path`` untouched. Nobody but the owner can read
    the file, whatever the umask.
    """
    make_private_directory(path.parent)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.touch(mode=0o600, exist_ok=False)
        yield temporary
        make_durable(temporary)
        temporary.replace(path)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary), temporary):
            raise  # it says of which other file
        raise type(error)(error.errno, error.strerror, str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


class RecordingFile(io.RawIOBase):
    """A file being written that remembers the first error of the disk.

    The compiled writers of tables turn such an error into one of their own, or into a panic, that says neither which
    file nor why. `write_file` raises the error that was remembered instead.

    Args:
        file: the file, open for writing.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, content: Any) -> int:
        """Write all of ``content``; return its size."""
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = self.error or error
            raise

    def flush(self) -> None:
        """Write everything out to the system."""
        if not self._file.closed:
            try:
                self._file.flush()
            except OSError as error:
                self.error = self.error or error
                raise

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to another place."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the place in the file."""
        return self._file.tell()

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True


def write_file(path: Path, write: Callable[[Any], object]) -> None:
    """Write ``path`` atomically with a writer that takes an open file.

    Args:
        path: of the file.
        write: called with the open file.

    Raises:
        OSError: a full disk, a limit, or no permission, with the path and the reason, whatever the writer makes of it.
    """
    with atomic_write(path) as temporary:
        recording = None
        try:
            with temporary.open("wb") as out:
                recording = RecordingFile(out)
                write(recording)
                recording.flush()
        except BaseException as error:
            if recording is None or recording.error is None or isinstance(error, KeyboardInterrupt):
                raise
            raise recording.error from None


def make_durable(path: Path) -> None:
    """Make the file its owner's alone, and wait until its content is on the disk."""
    path.chmod(0o600)
    with path.open("rb") as written:
        os.fsync(written.fileno())


def sync_directory(folder: Path) -> None:
    """Wait until the names in ``folder`` and below are on the disk, where the system can say so."""
    for place, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):  # Windows opens no folders
            file = os.open(place, os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically, as UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as JSON to ``path`` atomically; NaN and infinity are refused (they are not JSON)."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def to_json_values(value: object, *, show_records: bool = True) -> Any:
    """Convert a summary to JSON values: dataclasses and settings become objects, infinite and undefined numbers None.

    Args:
        value: the summary, or a part of it.
        show_records: False to leave out the fields that show or name single records.

    Examples:
        >>> from divulge.types import Estimate
        >>> to_json_values(Estimate(0.5, 0.25, float("inf"), 0.95, "counted"))
        {'value': 0.5, 'low': 0.25, 'high': None, 'confidence': 0.95, 'method': 'counted'}
    """
    if is_dataclass(value):
        public_fields = [field for field in fields(value) if show_records or not field.metadata.get("single_records")]
        return {
            field.name: to_json_values(getattr(value, field.name), show_records=show_records) for field in public_fields
        }
    if isinstance(value, pydantic.BaseModel):
        value = dict(value)
    if isinstance(value, Mapping):
        return {str(key): to_json_values(part, show_records=show_records) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_values(part, show_records=show_records) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def read_text(path: Path, *, inside: Path | None = None, limit: int = MAX_TEXT_BYTES) -> str:
    """Return the UTF-8 text in ``path``.

    Args:
        path: of the file.
        inside: directory that no link may lead out of, see `divulge.store.open_untrusted`.
        limit: bytes that it may have.

    Raises:
        divulge.InputError: missing or unreadable file, no regular one, or other content than text.
    """
    try:
        text = read_untrusted(path, inside=inside, limit=limit).decode("utf-8")
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: damaged, not UTF-8 text (byte {error.start})") from None


def read_json(path: Path, *, inside: Path | None = None) -> Any:
    """Return the JSON value in ``path``; arguments as for `read_text`.

    Raises:
        divulge.InputError: missing or damaged file.
    """
    text = read_text(path, inside=inside)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # not JSON, numbers or nesting without end
        raise InputError(f"{path}: damaged or half-written JSON ({str(error).split(';')[0]})") from None


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays to an ``.npz`` at ``path`` atomically; object arrays are refused."""
    for name, value in arrays.items():
        if value.dtype == object:
            raise InputError(f"{name}: an object array cannot be stored without pickle")
    write_file(path, lambda out: np.savez(out, **arrays))  # ty: ignore[invalid-argument-type]


def read_arrays(path: Path, *, inside: Path | None = None) -> dict[str, NDArray[Any]]:
    """Return all arrays of an ``.npz``, never unpickling; arguments as for `read_text`.

    Raises:
        divulge.InputError: missing, damaged or pickled content, no regular file, or more than memory can take.
    """
    with _open_without_pickle(path, "a readable .npz of plain arrays", inside) as file:
        check_archive_size(file, str(path))
        loaded = np.load(file, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise ValueError("a single array without a name: save it with numpy.savez")
        with loaded:
            arrays: dict[str, Any] = {name: loaded[name] for name in loaded.files}
        if odd := [name for name, value in arrays.items() if not isinstance(value, np.ndarray)]:
            raise ValueError(f"{odd[0]} is no array")
        return arrays


def read_array(path: Path) -> NDArray[Any]:
    """Read the array of an ``.npy``, never unpickling.

    Raises:
        divulge.InputError: missing, damaged or pickled content.
    """
    with _open_without_pickle(path, "a readable .npy of one plain array") as file:
        check_memory(os.fstat(file.fileno()).st_size, str(path), "the array is larger than this machine can read")
        loaded = np.load(file, allow_pickle=False)
        if not isinstance(loaded, np.ndarray):
            loaded.close()
            raise ValueError("several arrays")
        return loaded


@contextlib.contextmanager
def _open_without_pickle(path: Path, file_type: str, inside: Path | None = None) -> Generator[BinaryIO]:
    """Open a file; NumPy's errors about its content are replaced by ours, which never advise unpickling."""
    try:
        with open_untrusted(path, inside=inside) as file:
            yield file
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except InputError:
        raise
    except Exception as error:
        pickled = "it holds neither numbers nor strings in NumPy's format; pickled objects are never opened"
        raise InputError(
            f"{path}: not {file_type} ({pickled if 'pickle' in str(error) else format_exception(error)})"
        ) from None


def check_archive_size(file: Path | BinaryIO, name: str) -> None:
    """Raise where a zip archive says it holds more than memory can take, unpacked and read.

    Raises:
        divulge.InputError: it does; the size is named.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return  # whoever reads it says what is wrong
    finally:
        if not isinstance(file, Path):
            file.seek(0)
    check_memory(2 * size, name, "the archive holds more than this machine can read")


def starts_with(path: Path, head: bytes, *, may_be_shorter: bool = False) -> bool:
    """Check whether a file begins with ``head``, also after the length of a safetensors header.

    With ``may_be_shorter`` the file may be shorter than ``head``.
    """
    skipped = 8 if ".safetensors" in path.name else 0
    try:
        with open_untrusted(path, inside=path.parent) as file:
            start = file.read(skipped + len(head))[skipped:]
    except InputError:  # nothing that anybody writes who writes such a file
        return False
    return start == head or (may_be_shorter and head.startswith(start))


def hash_file(path: Path, *, inside: Path | None = None) -> str:
    """Return the SHA-256 of the content of a file, read in pieces; see `divulge.store.open_untrusted`."""
    with open_untrusted(path, inside=inside) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_values(*parts: object) -> str:
    """Return a SHA-256 of arrays (content, shape and type) and of anything whose repr says all.

    Examples:
        >>> hash_values(np.arange(3)) == hash_values(np.arange(3))
        True
        >>> hash_values(np.arange(3)) == hash_values(np.arange(3.0))
        False
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
    place = path if inside is None else _resolve_inside(path, inside)
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
    handler of errors; its other errors are an `Exception` without a class of their own. Nothing else is caught, least
    of all Ctrl-C.

    Args:
        name: what the library was reading.

    Raises:
        divulge.InputError: in place of the panic.
    """
    try:
        yield
    except BaseException as error:
        if is_panic(error) or type(error) is Exception:
            raise InputError(f"{name}: damaged or made to fail ({format_exception(ValueError(error))})") from None
        raise


def is_panic(error: BaseException) -> bool:
    """Return whether ``error`` is the panic of a library written in Rust; each brings a class of its own."""
    return not isinstance(error, Exception) and type(error).__name__ == "PanicException"


def read_untrusted(path: Path, *, inside: Path | None = None, limit: int = MAX_TEXT_BYTES) -> bytes:
    """Return the content of a file; arguments and errors as for `open_untrusted`."""
    with open_untrusted(path, inside=inside, limit=limit) as file:
        content = file.read(os.fstat(file.fileno()).st_size + 1)  # not `limit`, for which room would be made at once
    if len(content) > limit:  # it grew meanwhile
        raise InputError(f"{path}: more than such a file may have ({format_bytes(limit)})")
    return content


def _resolve_inside(path: Path, inside: Path) -> Path:
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
        raise InputError(f"{path}: {format_bytes(size)} are more than such a file may have ({format_bytes(limit)})")
    if stored is not None and size > _SMALL and 512 * stored < size // _HOLLOW:
        raise InputError(
            f"{path}: damaged, nothing but a hole ({format_bytes(size)}, of which the disk holds "
            f"{format_bytes(512 * stored)})"
        )


Shape = TypeVar("Shape")


def parse_json(value: object, shape: type[Shape], path: Path) -> Shape:
    """Build the type ``shape``, most often a dataclass, from ``value``, which was read from ``path``.

    Types are strict: a number in quotes is not a number. Keys that the shape does not name are ignored.

    Raises:
        divulge.InputError: the first place that does not fit, and what is needed there.

    Examples:
        >>> from pathlib import Path
        >>> parse_json({"levels": [0.1, "x"]}, dict[str, list[float]], Path("summary.json"))
        Traceback (most recent call last):
        divulge.errors.InputError: summary.json: damaged at levels.1: input should be a valid number, got 'x'
    """
    try:
        return _adapter(shape).validate_json(json.dumps(value, allow_nan=False), strict=True)
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"])) or "the top"
        reason = f"{problem['msg'][:1].lower()}{problem['msg'][1:]}"
        text = repr(problem["input"])
        text = text if len(text) <= 60 else f"{text[:60]}…"
        raise InputError(f"{path}: damaged at {place}: {reason}, got {text}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged: {error}") from None


@cache
def _adapter(shape: type[Shape]) -> pydantic.TypeAdapter[Shape]:
    """Return pydantic's adapter; making one takes longer than reading a file by it."""
    return pydantic.TypeAdapter(shape)
