"""Files of one JSON object per line, as tables; what is wrong is said of its line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from divulge import checks, lazy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import polars as pl
else:
    pl = lazy.module("polars")

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

    frame: pl.DataFrame
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
    return Lines(pl.DataFrame([_series(key, values, numbers) for key, values in columns.items()]), numbers, keys)


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


def _series(key: str, values: Sequence[Any], numbers: Sequence[int]) -> pl.Series:
    """One column, of texts or of numbers."""
    first: Any = next((value for value in values if value is not None), None)
    kind = str if isinstance(first, str) else bool if isinstance(first, bool) else _NUMBERS
    called = {str: "a text", bool: "true or false"}.get(kind, "a number")
    for number, value in zip(numbers, values, strict=True):
        if value is not None and (not isinstance(value, kind) or (kind is _NUMBERS and isinstance(value, bool))):
            raise checks.InputError(f"line {number}: {key}: {called} is needed, got {_said(value)}")
        if isinstance(value, str) and not _whole(value):
            raise checks.InputError(f"line {number}: {key}: half of a surrogate pair, which is no character")
    if kind is _NUMBERS and any(isinstance(value, float) for value in values):
        values = [None if value is None else _float(value, key) for value in values]
    try:
        return pl.Series(key, values)
    except Exception as error:  # whatever polars says of numbers beyond 64 bits
        raise checks.InputError(f"{key}: cannot be read as a column ({checks.reason(error)})") from None


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
