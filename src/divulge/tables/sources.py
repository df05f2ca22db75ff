"""Files and folders of tables: which kind each is, and how it is opened.

The content decides where it can (Parquet, Arrow, gzip and Zstandard begin with a mark of their own), the ending of the
name decides between CSV and JSON Lines.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import shutil
import struct
import sys
import tempfile
import threading
import weakref
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias, cast

import polars as pl

from divulge.errors import InputError
from divulge.store import MAX_LINES_BYTES, is_panic, open_untrusted, read_untrusted
from divulge.validation import format_exception, format_value

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

Source: TypeAlias = "str | Path | bytes | BinaryIO"
FileType: TypeAlias = Literal["csv", "json lines", "parquet", "arrow file", "arrow stream"]

TEXT_ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson")
ENDINGS = (*TEXT_ENDINGS, ".parquet", ".arrow", ".feather", ".ipc")
COMPRESSED = (".gz", ".zst")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ARCHIVES = {
    b"PK\x03\x04": "this is an Excel file or a ZIP archive",
    b"\xd0\xcf\x11\xe0": "this is an Excel file",
    **{b"BZh%d1AY&" % level: "this is packed by bzip2" for level in range(1, 10)},
    b"\xfd7zXZ": "this is packed by xz",
    b"FEA1": "this is Feather of version 1, which Arrow no longer writes",
}
_STATE = "state.json"
_BLOCK = 1 << 20  # bytes
_SPLIT = re.compile(
    r"(?P<split>.+)-\d{5}-of-\d{5}\.parquet|(?P<named>train|training|test|testing|validation|valid|val|dev|eval)\..+",
    re.IGNORECASE,
)
_QUOTE = re.compile(r"""[\s:(]*['"`\[{].*""", re.DOTALL)


class TemporaryFolder:
    """A folder for what is made of a file while it is read; removed when nothing refers to it any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="divulge-table-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a table.

    Args:
        name: what messages call it.
        path: where it lies; None for bytes.
        content: what stands in it; None where polars is to open the path.
        folder: for what is made of it while it is read; removed when nothing refers to it any more.
    """

    name: str
    path: Path | None
    content: bytes | None = None
    folder: TemporaryFolder | None = field(default=None, repr=False)

    @classmethod
    def from_source(cls, source: Source) -> TableFile:
        """The file that a path, bytes or an open binary file stand for."""
        if isinstance(source, bytes):
            return cls("bytes", None, source)
        if isinstance(source, str | Path):
            path = Path(source)
            # polars takes no name that is not UTF-8: such a file is read as a whole.
            return cls(str(source), path, None if is_utf8_name(path) else read_untrusted(path, limit=MAX_LINES_BYTES))
        return cls(str(getattr(source, "name", "file")), None, source.read())

    @contextlib.contextmanager
    def open(self) -> Generator[IO[bytes]]:
        """The content, from its beginning, as it was stored."""
        if self.path is None or self.content is not None:
            yield io.BytesIO(self.content or b"")
            return
        with open_untrusted(self.path) as stream:
            yield stream

    @property
    def polars_source(self) -> Any:
        """Source for polars: an absolute path, in which nothing is a pattern, or the content itself."""
        return self.path.absolute() if self.path is not None and self.content is None else self.content

    def size(self) -> int:
        """Bytes, as it was stored."""
        return self.path.stat().st_size if self.path is not None and self.content is None else len(self.content or b"")


def is_utf8_name(path: Path) -> bool:
    """Return whether the name of a file is UTF-8, as polars needs it."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        return False
    return True


def is_table_file(path: Path) -> bool:
    """Return whether a file is a table by its name.

    Examples:
        >>> is_table_file(Path("a.csv.gz")), is_table_file(Path("a.xlsx")), is_table_file(Path("a.parquet.gz"))
        (True, False, False)
    """
    return bool(_ending(path))


def _ending(path: Path) -> str:
    if path.suffix.lower() in COMPRESSED:
        inner = Path(path.stem).suffix.lower()
        return inner if inner in TEXT_ENDINGS else ""
    return path.suffix.lower() if path.suffix.lower() in ENDINGS else ""


def file_type(file: TableFile) -> tuple[FileType, str]:
    """Return the kind of a file, and how it is compressed ("", "gzip" or "zstd").

    Raises:
        divulge.InputError: neither the content nor the name says what it is.
    """
    with file.open() as stream:
        head = stream.read(8)
    compression = "gzip" if head.startswith(_GZIP) else "zstd" if head.startswith(_ZSTD) else ""
    if head.startswith(b"PAR1"):
        return "parquet", ""
    if head.startswith(b"ARROW1"):
        return "arrow file", ""
    if head.startswith(b"\xff\xff\xff\xff"):
        return "arrow stream", ""
    for mark, described in _ARCHIVES.items():
        if head.startswith(mark):
            raise InputError(f"{described}; one of {', '.join(ENDINGS)} is needed ({' and '.join(COMPRESSED)} allowed)")
    ending = "" if file.path is None else _ending(file.path)
    if ending in (".parquet", ".arrow", ".feather", ".ipc"):
        type_name = "a Parquet" if ending == ".parquet" else "an Arrow"
        raise InputError(f"damaged or half-written (it does not begin as {type_name} file does)")
    if file.path is not None and not ending:
        hint = "; JSON lines are named .jsonl" if ".json" in (suffix.lower() for suffix in file.path.suffixes) else ""
        raise InputError(f"one of {', '.join(ENDINGS)} is needed ({' and '.join(COMPRESSED)} allowed){hint}")
    if ending in (".jsonl", ".ndjson"):
        return "json lines", compression
    if not ending:
        with unpacked(file, compression) as stream:
            start = stream.read(_BLOCK).removeprefix(b"\xef\xbb\xbf").lstrip()
        return ("json lines" if start.startswith(b"{") else "csv"), compression
    return "csv", compression


def check_stream(file: TableFile) -> None:
    """Raise where an Arrow stream ends within a message: polars would read the messages before it and say nothing.

    A message is a mark, the size of its description, the description, and as many bytes of columns as that says (Arrow
    Columnar Format 1.5, "Encapsulated message format"; the description is a FlatBuffer whose fourth field is the size).

    Raises:
        divulge.InputError: in that case.
    """
    with file.open() as stream:
        position, end = 0, file.size()
        while position < end:
            head = stream.read(8)
            size = int.from_bytes(head[4:], "little")
            if len(head) < 8 or head[:4] != b"\xff\xff\xff\xff":
                raise InputError("damaged or half-written (it ends within a message)")
            if size == 0:
                return
            body = _body_size(stream.read(size))
            position += 8 + size + body
            if body < 0 or position > end:
                raise InputError("damaged or half-written (it ends within a message)")
            stream.seek(position)


def _body_size(description: bytes) -> int:
    """Return the number of bytes of columns that follow a message's description; -1 where it is damaged."""
    try:
        (table,) = struct.unpack_from("<I", description)
        (back,) = struct.unpack_from("<i", description, table)
        (length,) = struct.unpack_from("<H", description, table - back)
        if length < 12:
            return 0
        (field,) = struct.unpack_from("<H", description, table - back + 10)
        return struct.unpack_from("<q", description, table + field)[0] if field else 0
    except struct.error:
        return -1


@contextlib.contextmanager
def unpacked(file: TableFile, compression: str) -> Generator[IO[bytes]]:
    """Return the content of a text file without its compression."""
    if compression == "zstd":
        yield cast("IO[bytes]", io.BufferedReader(_Lines(file), _BLOCK))
        return
    with file.open() as stream:
        if compression != "gzip":
            yield stream
            return
        with gzip.open(stream) as plain:
            yield cast("IO[bytes]", plain)


class _Lines(io.RawIOBase):
    """The lines of a Zstandard file, which polars unpacks, as one stream of bytes."""

    def __init__(self, file: TableFile) -> None:
        source = file.polars_source
        frame = pl.scan_lines(source) if isinstance(source, bytes) else pl.scan_lines(source, glob=False)
        self._batches = iter(frame.collect_batches(lazy=True, chunk_size=1 << 14))
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            try:
                batch = next(self._batches, None)
            except pl.exceptions.ComputeError as error:
                if "utf8" not in str(error):
                    raise
                raise InputError("the text in it is not UTF-8; unpack the file, or save the text as UTF-8") from None
            if batch is None:
                return 0
            self._ready = memoryview("".join(f"{line}\n" for line in batch["line"].to_list()).encode())
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def blocks_of_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the content in blocks that end where a line ends."""
    while block := stream.read(_BLOCK):
        yield block + stream.readline()


def holds_tables(path: Path) -> bool:
    """Return whether a folder holds files of tables, or is a data set that `datasets` saved."""
    return (
        is_saved_dataset(path) or bool(_files_in(path)) or bool((path / "data").is_dir() and _files_in(path / "data"))
    )


def find_files(path: Path) -> list[Path]:
    """Return the files of a table: the one given, or those of a folder in the order of their names.

    A folder may hold files of any kind, be one that Hugging Face `datasets` saved, or be a data set of its hub, whose
    Parquet files stand in ``data/``.

    Raises:
        divulge.InputError: no such file or folder, a folder without a table or with several.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if not path.is_dir():
        return [path]
    if is_saved_dataset(path):
        return _saved_files(path)
    files = _files_in(path) or (_files_in(path / "data") if (path / "data").is_dir() else [])
    if not files:
        below = "; folders inside it are not read" if any(each.is_dir() for each in path.iterdir()) else ""
        raise InputError(f"{path}: no {', '.join(ENDINGS)} file in this folder, nor .txt files alone{below}")
    matches = [match for file in files if (match := _SPLIT.fullmatch(file.name))]
    splits = sorted({match["split"] or match["named"] for match in matches})
    if len(splits) > 1:
        raise InputError(
            f"{path} holds several data sets ({', '.join(splits)}); name the files of one, or put them into a folder"
        )
    return files


def _files_in(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if is_table_file(each) and not is_hidden(each, folder))


_SYSTEM_NAMES = {
    *("__macosx", "@eadir", "$recycle.bin", "system volume information", "lost+found"),
    *("thumbs.db", "ehthumbs.db", "desktop.ini"),
}


def is_hidden(path: Path, folder: Path) -> bool:
    """Return whether a path below a folder, or a folder on its way, is hidden or made by an operating system.

    Such are the copies of Jupyter (``.ipynb_checkpoints``), of a Mac (``__MACOSX``) and of a NAS (``@eaDir``), and
    ``Thumbs.db`` of Windows.

    Examples:
        >>> is_hidden(Path("x/cat/.ipynb_checkpoints/1.png"), Path("x")), is_hidden(Path(".x/cat/1.png"), Path(".x"))
        (True, False)
        >>> is_hidden(Path("models/Thumbs.db"), Path("models"))
        True
    """
    parts = path.relative_to(folder).parts
    return any(part.startswith(".") or part.lower() in _SYSTEM_NAMES for part in parts)


def is_saved_dataset(path: Path) -> bool:
    """Return whether a folder is a data set that Hugging Face `datasets` saved.

    Raises:
        divulge.InputError: it holds several, its splits, of which one is to be named.
    """
    if (path / "dataset_dict.json").is_file():
        splits = sorted(each.name for each in path.iterdir() if (each / _STATE).is_file())
        raise InputError(f"{path} holds several data sets; name one of its folders: {', '.join(splits)}")
    return (path / _STATE).is_file()


def _saved_files(path: Path) -> list[Path]:
    """Return the files of a data set that `datasets` saved; beside them may lie others, of its cache."""
    try:
        listed = json.loads(read_untrusted(path / _STATE).decode())
        names = [str(entry["filename"]) for entry in listed["_data_files"]]
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path / _STATE}: damaged or half-written ({format_exception(error)})") from None
    except (KeyError, TypeError):
        raise InputError(f"{path / _STATE}: names no files of data") from None
    if not names:
        raise InputError(f"{path}: there are no files of data; at least 1 record is needed")
    for name in names:
        if Path(name).name != name:
            raise InputError(f"{path / _STATE}: a file of the folder itself is needed, got {format_value(name)}")
    return [path / name for name in names]


@contextlib.contextmanager
def table_errors(name: str) -> Generator[None]:
    """Turn whatever is said of a damaged file inside the block into one error that names it and quotes nothing of it.

    polars reports some damage by a panic, which is no `Exception`.

    Raises:
        divulge.InputError: in that case.
    """
    try:
        yield
    except InputError as error:
        if name in (message := str(error)):
            raise
        file = name.rpartition(": ")[2]
        raise InputError(f"{name}: {message.removeprefix(file + ': ')}") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror or error_summary(error)})") from None
    except (EOFError, zlib.error, ValueError, RuntimeError, TypeError) as error:
        raise InputError(f"{name}: damaged or half-written ({error_summary(error)})") from None
    except pl.exceptions.DuplicateError:
        raise InputError(f"{name}: columns of different names are needed, and a name occurs twice") from None
    except BaseException as error:
        if not (isinstance(error, pl.exceptions.PolarsError) or is_panic(error)):
            raise
        raise InputError(f"{name}: damaged or half-written ({error_summary(error)})") from None


def error_summary(error: BaseException) -> str:
    """Return the first line of an error, up to where it may quote the file, which may hold a document.

    Examples:
        >>> error_summary(ValueError('could not parse `secret` as dtype `str`'))
        'could not parse'
        >>> error_summary(ValueError("")), error_summary(ValueError("'secret'"))
        ('ValueError', 'ValueError')
    """
    lines = str(error).strip().splitlines() or [""]
    return format_exception(ValueError(_QUOTE.sub("", lines[0]).strip(" :") or type(error).__name__))


_STDERR = threading.RLock()


@contextlib.contextmanager
def without_panic_output() -> Generator[None]:
    """Keep what Rust prints of a panic from the terminal: the error that follows says it in one line.

    The descriptor of standard error is redirected meanwhile; what others wrote to it is passed on if nothing panicked.
    """
    try:
        descriptor = sys.__stderr__.fileno() if sys.__stderr__ is not None else None
    except (OSError, ValueError):
        descriptor = None
    if descriptor is None:
        yield
        return
    with _STDERR, tempfile.TemporaryFile() as printed:
        saved = os.dup(descriptor)
        panics: list[BaseException] = []
        os.dup2(printed.fileno(), descriptor)
        try:
            yield
        except BaseException as error:
            if is_panic(error):
                panics.append(error)
            raise
        finally:
            os.dup2(saved, descriptor)
            if not panics and printed.seek(0, os.SEEK_END):
                printed.seek(0)
                os.write(saved, printed.read())
            os.close(saved)
