"""A CSV file with a line of our own after its last, which is lost where a quote was opened and never closed."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from arro3 import core


class Readable(Protocol):
    """What can be read piece by piece."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, ``size`` at most; none at the end."""
        ...


class Followed:
    r"""A file, and after it a line whose values are all missing.

    Args:
        file: the file, open.
        columns: how many it has.
        separator: between its values.

    Examples:
        >>> import io
        >>> file = Followed(io.BytesIO(b"a,b\n1,2"), 2, ",")
        >>> file.read(100), file.read(100), file.read(100)
        (b'a,b\n1,2', b'\n,\n', b'')
    """

    def __init__(self, file: Readable | IO[bytes], columns: int, separator: str) -> None:
        self._file = file
        self._last = b'\n""\n' if columns == 1 else b"\n" + separator.encode() * (columns - 1) + b"\n"

    def read(self, size: int) -> bytes:
        """The next bytes, ``size`` at most; none at the end."""
        if ready := self._file.read(size):
            return ready
        ready, self._last = self._last[:size], self._last[size:]
        return ready

    def seek(self, *_place: int) -> int:
        """Not possible; the reader asks for the method and does not use it."""
        raise OSError("a file that is read once")


def without(batches: Iterable[core.RecordBatch]) -> Iterator[core.RecordBatch]:
    """The rows of a `Followed` file but the last.

    Raises:
        ValueError: the last row is not the one that was put there: it stands within quotes.
    """
    before: core.RecordBatch | None = None
    for batch in batches:
        if before is not None:
            yield before
        before = batch
    rows = 0 if before is None else before.num_rows
    if before is None or any(column.null_count == 0 for column in before.slice(rows - 1).columns):
        raise ValueError("a quote is opened and not closed")
    if rows > 1:
        yield before.slice(0, rows - 1)
