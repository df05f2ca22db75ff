"""Files of one JSON object per line, converted once to columns that polars scans.

Every value is kept as the text in the file, so that an identifier keeps every digit. The types of the values of each
key are recorded, with the first line of each type. A key that a line lacks is a missing value.
"""

from __future__ import annotations

import itertools
import json
import re
from codecs import BOM_UTF8
from collections import Counter
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
_MAX_SHOWN_CHARACTERS = 12  # of a text in a message; longer texts may be documents
NUMBER, TEXT, BOOLEAN, LIST, OBJECT = "a number", "a text", "true or false", "a list", "an object"


class _Number(str):
    """A number with a fraction or an exponent, as the file spells it."""

    __slots__ = ()


_TYPE_NAMES: dict[type, str] = {
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
_PAIRS = json.JSONDecoder(
    object_pairs_hook=lambda pairs: _require_distinct_keys(pairs), parse_int=str, parse_float=str, parse_constant=str
)
_SEVERAL_OBJECTS = re.compile(rb"\}[ \t]*,[ \t]*\{")


@dataclass(frozen=True, slots=True)
class JsonLines:
    """A converted file.

    Args:
        file: the source.
        compression: of the source.
        files: Arrow files, and the names of the columns of each; where a column holds whole numbers only it is one of
            them, else one of float64 where it holds numbers only, of truth values, or of texts.
        kinds: key → type of its values → line and description of the first value of that type.
        fractions: keys with a number that has a fraction or an exponent.
        folder: of the files; removed with the last reference to it.
        exact: whether numbers with a fraction are texts, as the file spells them.
    """

    file: TableFile
    compression: str
    files: tuple[tuple[Path, tuple[str, ...]], ...]
    value_types: Mapping[str, Mapping[str, tuple[int, str]]]
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
        divulge.InputError: a line that is no JSON object, a key that an object has twice, half of a surrogate pair, no
            line at all.
    """
    folder = TemporaryFolder()
    files: list[tuple[Path, tuple[str, ...]]] = []
    value_types: dict[str, dict[str, tuple[int, str]]] = {}
    fractions: set[str] = set()
    with unpacked(file, compression) as stream:
        lines = enumerate(stream, 1)
        while batch := list(itertools.islice(lines, _BATCH)):
            numbers, rows = _objects(batch, exact=exact)
            if not rows:
                continue
            columns = {name: _column(name, rows, numbers, value_types, fractions) for name in _names(rows)}
            path = folder.path / f"{len(files):06d}.arrow"
            line = pl.Series(LINE, numbers, pl.UInt32)
            frame = pl.DataFrame({LINE: line, **columns})
            store.write_file(path, partial(frame.write_ipc, compression="uncompressed"))
            files.append((path, tuple(columns)))
    if not value_types:
        raise InputError("there is no line with an object; at least 1 row is needed")
    return JsonLines(file, compression, tuple(files), value_types, frozenset(fractions), folder, exact=exact)


def _objects(batch: Sequence[tuple[int, bytes]], *, exact: bool) -> tuple[list[int], list[dict[str, Any]]]:
    """Return the objects of some lines, and the numbers of their lines."""
    stripped = [(number, (line.removeprefix(BOM_UTF8) if number == 1 else line).strip()) for number, line in batch]
    nonempty = [(number, text) for number, text in stripped if text]
    joined = b",\n".join(text for _, text in nonempty)
    # One call for all lines is twice as fast. If every line is one object there are as many objects as lines. A line of
    # several objects, which could offset an object that spans two lines, contains a brace, a comma and a brace.
    if not _SEVERAL_OBJECTS.search(b"\n".join(text for _, text in nonempty)):
        try:
            decoder = _EXACT if exact else _DECODER
            rows = decoder.decode(f"[{joined.decode()}]")
        except (ValueError, RecursionError):
            rows = []
        if len(rows) == len(nonempty) and all(type(row) is dict for row in rows):
            _check_keys(nonempty, rows, joined)
            return [number for number, _ in nonempty], rows
    rows = [_object(number, text, exact=exact) for number, text in nonempty]
    _check_keys(nonempty, rows, joined)
    return [number for number, _ in nonempty], rows


class _RepeatedKey(ValueError):
    """A key that an object has twice, of which the decoder would keep the last value and say nothing."""


def _check_keys(lines: Sequence[tuple[int, bytes]], rows: Sequence[Mapping[str, Any]], content: bytes) -> None:
    """Raise if an object has a key twice.

    A quote and a colon end a key, unless a backslash before them shows that they are part of a text. Where there are as
    many keys as values, none is repeated; only otherwise (in inner objects, say), and where more than a space stands
    before a colon, each line is looked at.

    Raises:
        divulge.InputError: in that case; it names the line and the key.
    """
    n_keys = sum(
        sign * content.count(backslashes + b'"' + space + b":")
        for sign, backslashes in ((1, b""), (-1, b"\\"), (1, b"\\\\"))
        for space in (b"", b" ")
    )
    if n_keys == sum(map(len, rows)) and not any(space + b":" in content for space in (b"  ", b"\t", b"\r")):
        return
    for number, text in lines:
        try:
            _PAIRS.decode(text.decode())
        except _RepeatedKey as error:
            raise InputError(f"line {number}: the key {format_value(str(error))} occurs twice in one object") from None


def _require_distinct_keys(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        raise _RepeatedKey(next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1))


def _object(number: int, text: bytes, *, exact: bool) -> dict[str, Any]:
    try:
        value = (_EXACT if exact else _DECODER).decode(text.decode())
    except (ValueError, RecursionError) as error:  # Not JSON or not UTF-8, or nested too deeply.
        hint = "; one array holds everything, and an object on each line is needed" if text.startswith(b"[") else ""
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else format_exception(error).split(";")[0]
        raise InputError(f"line {number} is no JSON ({reason}){hint}") from None
    if not isinstance(value, dict):
        raise InputError(f"line {number}: an object is needed, got {_describe(value)}")
    return value


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    first_keys = rows[0].keys()
    if all(row.keys() == first_keys for row in rows):
        return list(first_keys)
    return list(dict.fromkeys(itertools.chain.from_iterable(rows)))


def _column(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    numbers: Sequence[int],
    value_types: dict[str, dict[str, tuple[int, str]]],
    fractions: set[str],
) -> pl.Series:
    """Return the values of a key as texts, lists and objects as JSON, and add their types to ``value_types``."""
    values = [row.get(name) for row in rows]
    types = set(map(type, values)) - {type(None)}
    first_values = value_types.setdefault(name, {})
    first_rows = {
        value_type: next(i for i, value in enumerate(values) if type(value) is value_type) for value_type in types
    }
    for value_type, i in sorted(first_rows.items(), key=lambda item: item[1]):
        if _TYPE_NAMES[value_type] not in first_values:
            first_values[_TYPE_NAMES[value_type]] = (numbers[i], _describe(values[i]))
    if types & {_Number, float}:
        fractions.add(name)
    if not _is_unicode(name):
        raise InputError(f"line {numbers[0]} or later: half of a surrogate pair in a key, which is no character")
    if types == {bool}:
        return pl.Series(name, values, pl.Boolean)
    if types and types <= {int, float}:
        try:
            return pl.Series(name, values, pl.Float64 if float in types else pl.Int64, strict=float not in types)
        except (OverflowError, TypeError):
            pass  # Numbers of more than 64 bits are kept as texts.
    if not types <= {str, _Number}:
        values = [value if value is None or isinstance(value, str) else _text(value) for value in values]
    try:
        return pl.Series(name, values, pl.String)
    except UnicodeEncodeError:
        i = next(i for i, value in enumerate(values) if value is not None and not _is_unicode(value))
        raise InputError(f"line {numbers[i]}: {name}: half of a surrogate pair, which is no character") from None


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else json.dumps(value)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _describe(value: Any) -> str:
    """Return a value for a message, or its type alone if it may hold a document."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str) and len(value) > _MAX_SHOWN_CHARACTERS:
        return f"a text of {len(value):,} characters"
    return {list: LIST, dict: OBJECT}.get(type(value)) or format_value(value)
