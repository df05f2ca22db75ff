"""A CSV file of one column, whose empty lines are values that are missing."""

from __future__ import annotations

import codecs
import re
from typing import IO

_AT_ONCE = 1 << 20  # bytes
_ENDS = (b"\n", b"\r\n", b"\r")  # of lines
_CLOSED = re.compile(rb'(?:[^"]|"")*+"(?!")')  # the rest of a line up to where its quotes end


class Filled:
    r"""A file whose empty lines read as ``""``, but for those inside quotes and before the header.

    Args:
        file: the file, open.

    Examples:
        >>> import io
        >>> Filled(io.BytesIO(b'score\n1\n\n2\n')).read(100)
        b'score\n1\n""\n2\n'
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._ready = b""
        self._at = 0
        self._quoted = False
        self._begun = False

    def read(self, size: int) -> bytes:
        """The next bytes, ``size`` at most; none at the end."""
        while self._at == len(self._ready):
            lines = self._file.read(_AT_ONCE) + self._file.readline()
            if not lines:
                return b""
            self._ready, self._at = self._whole(lines), 0
        start, self._at = self._at, min(self._at + size, len(self._ready))
        return self._ready[start : self._at]

    def seek(self, *_place: int) -> int:
        """Not possible; the reader asks for the method and does not use it."""
        raise OSError("a file that is read once")

    def _whole(self, lines: bytes) -> bytes:
        blank = lines.startswith(_ENDS) or any(two in lines for two in (b"\n\n", b"\n\r", b"\r\r"))
        if blank or self._quoted or not self._begun or b'"' in lines:
            return b"".join(map(self._filled, lines.splitlines(keepends=True)))
        return lines

    def _filled(self, line: bytes) -> bytes:
        if not self._begun:
            self._begun = line.removeprefix(codecs.BOM_UTF8) not in _ENDS
        elif not self._quoted and line in _ENDS:
            return b'""\n'
        if self._quoted or line.startswith(b'"'):
            self._quoted = not _CLOSED.match(line, 0 if self._quoted else 1)
        return line
