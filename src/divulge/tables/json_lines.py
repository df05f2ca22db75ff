"""Files of one JSON object per line, converted once to columns that polars scans.

Every value is kept as the text that stands in the file, so that an identifier keeps every digit; what kinds of values a
key has, and on which line each kind stood first, is kept beside it. A key that a line lacks is a missing value.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from divulge import store
from divulge.errors import InputError
from divulge.tables.sources import TableFile, TemporaryFolder, unpacked
from divulge.validation import format_exception, format_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LINE = "\0line"
"""The column that holds the number of each row's line."""
_BATCH = 1 << 15  # lines
_SHORT = 12  # letters of a text that a message shows; what is longer may be a document
NUMBER, TEXT, BOOLEAN, LIST, OBJECT = "a number", "a text", "true or false", "a list", "an object"


class _Number(str):
    """A number with a fraction or an exponent, as the file spells it."""

    __slots__ = ()


_KINDS: dict[type, str] = {
    str: TEXT,
    _Number: NUMBER,
    int: NUMBER,
    float: NUMBER,
    bool: BOOLEAN,
    list: LIST,
    dict: OBJECT,
}
_DECODER = json.JSONDecoder()
_EXACT = json.JSONDecoder(parse_float=_Number, parse_constant=_Number)
_SEVERAL = re.compile(rb"\}[ \t]*,[ \t]*\{")


@dataclass(frozen=True, slots=True)
class JsonLines:
    """A converted file.

    Args:
        file: what was converted.
        compression: of it.
        files: Arrow files, and the names of the columns of each; where a column holds whole numbers only it is one of
            them, else one of float64 where it holds numbers only, of truth values, or of texts.
        kinds: key → kinds of its values → the line and the message form of the first value of that kind.
        fractions: keys of which some number has a fraction or an exponent.
        folder: of the files; removed when nothing refers to it any more.
        exact: whether numbers with a fraction are texts, as the file spells them.
    """

    file: TableFile
    compression: str
    files: tuple[tuple[Path, tuple[str, ...]], ...]
    kinds: Mapping[str, Mapping[str, tuple[int, str]]]
    fractions: frozenset[str]
    folder: TemporaryFolder
    exact: bool = False


def convert_json_lines(file: TableFile, compression: str, *, exact: bool = False) -> JsonLines:
    """Read a file of JSON lines once.

    Args:
        file: the file.
        compression: "gzip", "zstd" or "".
        exact: keep numbers with a fraction or an exponent as the file spells them, not as float64.

    Raises:
        divulge.InputError: a line that is no JSON object, half of a surrogate pair, no line at all.
    """
    folder = TemporaryFolder()
    files: list[tuple[Path, tuple[str, ...]]] = []
    kinds: dict[str, dict[str, tuple[int, str]]] = {}
    fractions: set[str] = set()
    with unpacked(file, compression) as opened:
        lines = enumerate(opened, 1)
        while batch := list(itertools.islice(lines, _BATCH)):
            numbers, rows = _objects(batch, exact=exact)
            if not rows:
                continue
            columns = {name: _column(name, rows, numbers, kinds, fractions) for name in _names(rows)}
            path = folder.path / f"{len(files):06d}.arrow"
            line = pl.Series(LINE, numbers, pl.UInt32)
            frame = pl.DataFrame({LINE: line, **columns})
            store.write_file(path, partial(frame.write_ipc, compression="uncompressed"))
            files.append((path, tuple(columns)))
    if not kinds:
        raise InputError("there is no line with an object; at least 1 row is needed")
    return JsonLines(file, compression, tuple(files), kinds, frozenset(fractions), folder, exact=exact)


def _objects(batch: Sequence[tuple[int, bytes]], *, exact: bool) -> tuple[list[int], list[dict[str, Any]]]:
    """Return the objects of some lines, and the numbers of their lines."""
    filled = [(number, bare) for number, line in batch if (bare := _bare(number, line))]
    together = b",\n".join(bare for _, bare in filled)
    # One call for all lines is twice as fast. Where each is one object there are as many objects as lines; a line of
    # several, which could make up for one that goes on in the next, holds a bracket, a comma and a bracket.
    if not _SEVERAL.search(b"\n".join(bare for _, bare in filled)):
        try:
            decoder = _EXACT if exact else _DECODER
            rows = decoder.decode(f"[{together.decode()}]")
        except (ValueError, RecursionError):
            rows = []
        if len(rows) == len(filled) and all(type(row) is dict for row in rows):
            return [number for number, _ in filled], rows
    return [number for number, _ in filled], [_object(number, bare, exact=exact) for number, bare in filled]


def _bare(number: int, line: bytes) -> bytes:
    return (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip()


def _object(number: int, bare: bytes, *, exact: bool) -> dict[str, Any]:
    try:
        value = (_EXACT if exact else _DECODER).decode(bare.decode())
    except (ValueError, RecursionError) as error:  # not JSON or not UTF-8, numbers or nesting without end
        raise InputError(f"line {number} is no JSON ({_reason(error)})") from None
    if not isinstance(value, dict):
        raise InputError(f"line {number}: an object is needed, got {_shown(value)}")
    return value


def _reason(error: BaseException) -> str:
    """What is wrong with a line; Python's own message of bytes that are no UTF-8 says it at length."""
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return format_exception(error).split(";")[0]


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    first = rows[0].keys()
    if all(row.keys() == first for row in rows):
        return list(first)
    return list(dict.fromkeys(itertools.chain.from_iterable(rows)))


def _column(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    numbers: Sequence[int],
    kinds: dict[str, dict[str, tuple[int, str]]],
    fractions: set[str],
) -> pl.Series:
    """The values of a key as texts; what kinds they are is added to ``kinds``."""
    values = [row.get(name) for row in rows]
    types = set(map(type, values)) - {type(None)}
    seen = kinds.setdefault(name, {})
    for kind in sorted(types, key=lambda kind: next(at for at, value in enumerate(values) if type(value) is kind)):
        if _KINDS[kind] not in seen:
            at = next(at for at, value in enumerate(values) if type(value) is kind)
            seen[_KINDS[kind]] = (numbers[at], _shown(values[at]))
    if types & {_Number, float}:
        fractions.add(name)
    label = _valid_name(name, numbers)
    if types == {bool}:
        return pl.Series(label, values, pl.Boolean)
    if types and types <= {int, float}:
        try:
            return pl.Series(label, values, pl.Float64 if float in types else pl.Int64, strict=float not in types)
        except (OverflowError, TypeError):
            pass  # of more than 64 bits
    if not types <= {str, _Number}:
        values = [value if value is None or isinstance(value, str) else _text(value) for value in values]
    try:
        return pl.Series(label, values, pl.String)
    except UnicodeEncodeError:
        at = next(at for at, value in enumerate(values) if value is not None and not _is_unicode(value))
        raise InputError(f"line {numbers[at]}: {name}: half of a surrogate pair, which is no character") from None


def _valid_name(name: str, numbers: Sequence[int]) -> str:
    if not _is_unicode(name):
        raise InputError(f"line {numbers[0]} or later: half of a surrogate pair in a key, which is no character")
    return name


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    """A value as messages show it: which kind it is, where it may hold a document."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str) and len(value) > _SHORT:
        return f"a text of {len(value):,} characters"
    return {list: LIST, dict: OBJECT}.get(type(value)) or format_value(value)
