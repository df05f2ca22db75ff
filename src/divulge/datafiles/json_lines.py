"""Files of one JSON object per line, as tables; what is wrong is said of its line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks
from divulge.frames import Frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from divulge.types import Array

ENDINGS = (".jsonl", ".ndjson")
_NUMBERS = (int, float)
_SHORT = 12  # letters of a text that a message shows; what is longer may be a document


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """A table, and the line of the file that each row stands on.

    Args:
        frame: the table.
        numbers: of the lines, from 1.
        keys: all that the first line has.
    """

    frame: Frame
    numbers: Sequence[int]
    keys: Sequence[str]


def read(path: Path, wanted: Sequence[str] | None = None) -> Lines:
    """The table in a file.

    Args:
        path: of the file.
        wanted: which keys to read, of those that there are; None for all.

    Raises:
        divulge.InputError: a line that is no JSON object, lacks a key that others have, or holds a value of another
            kind than the lines before; a file without a line; more than memory can take.
    """
    checks.memory(4 * path.stat().st_size, str(path), "split the file")
    numbers: list[int] = []
    keys: Sequence[str] = ()
    columns: dict[str, list[Any]] = {}
    for number, row in _objects(path):
        kept = row if wanted is None else {key: row[key] for key in wanted if key in row}
        if not numbers:
            keys, columns = tuple(row), {key: [] for key in kept}
        if odd := sorted(columns.keys() ^ kept.keys()):
            has, first = ("lacks", "has") if odd[0] in columns else ("has", "lacks")
            raise checks.InputError(f"line {number} {has} the key {odd[0]!r}, which line {numbers[0]} {first}")
        for key, value in kept.items():
            columns[key].append(value)
        numbers.append(number)
    if not numbers:
        raise checks.InputError("there is no line with an object; at least 1 record is needed")
    return Lines(Frame({key: _column(key, values, numbers) for key, values in columns.items()}), numbers, keys)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open("rb") as opened:
        for number, line in enumerate(opened, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
            except (ValueError, RecursionError) as error:  # not JSON or not UTF-8, numbers or nesting without end
                raise checks.InputError(f"line {number} is no JSON ({checks.reason(error).split(';')[0]})") from None
            if not isinstance(value, dict):
                raise checks.InputError(f"line {number}: an object is needed, got {_said(value)}")
            yield number, value


def _column(key: str, values: Sequence[Any], numbers: Sequence[int]) -> Array:
    """One column, of texts or of numbers, or of truth values; a number that is missing is NaN, all else None."""
    first: Any = next((value for value in values if value is not None), None)
    kind = str if isinstance(first, str) else bool if isinstance(first, bool) else _NUMBERS
    called = {str: "a text", bool: "true or false"}.get(kind, "a number")
    for number, value in zip(numbers, values, strict=True):
        if value is not None and (not isinstance(value, kind) or (kind is _NUMBERS and isinstance(value, bool))):
            raise checks.InputError(f"line {number}: {key}: {called} is needed, got {_said(value)}")
        if isinstance(value, str) and not _whole(value):
            raise checks.InputError(f"line {number}: {key}: half of a surrogate pair, which is no character")
    if first is None or kind is str or (kind is bool and None in values):
        return np.array(values, dtype=object)
    if kind is _NUMBERS and any(value is None or isinstance(value, float) for value in values):
        return np.array([np.nan if value is None else _float(value, key) for value in values])
    try:
        return np.array(values, dtype=bool if kind is bool else np.int64)
    except OverflowError:
        why = "whole numbers of at most 64 bits are needed"
        raise checks.InputError(f"{key}: cannot be read as a column ({why})") from None


def _said(value: Any) -> str:
    """A value as messages show it: which kind it is, where it may hold a document."""
    if isinstance(value, str) and len(value) > _SHORT:
        return f"a text of {len(value):,} characters"
    return {list: "a list", dict: "an object"}.get(type(value)) or checks.shown(value)


def _float(value: float, key: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise checks.InputError(f"{key}: {checks.shown(value)} is larger than any float64") from None


def _whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
