"""Files of one JSON object per line, read piece by piece."""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from divulge import checks
from divulge.frames import Frame
from divulge.identification import kinds
from divulge.identification.kinds import EMPTY, TEXT, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import IO

    from divulge.types import Array

_LOOKED = 10_000  # lines that tell what the keys hold
_NONE = type(None)
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class JsonLines:
    """A file of JSON lines. A key that a line lacks is a missing value.

    Args:
        path: of the file, which may be compressed by gzip.
    """

    path: Path

    def kinds(self) -> dict[str, Kind]:
        """What the keys of the first lines hold.

        Raises:
            divulge.InputError: a line that is no JSON object, or no line at all.
        """
        seen: dict[str, set[type]] = {}
        for _, row in itertools.islice(self._objects(), _LOOKED):
            for key, value in row.items():
                seen.setdefault(key, set()).add(type(value))
        if not seen:
            raise checks.InputError("there is no line with an object; at least 1 row is needed")
        return {key: _kind(types - {_NONE}) for key, types in seen.items()}

    def frames(self, names: Sequence[str], size: int, known: Mapping[str, Kind]) -> Iterator[Frame]:
        """The values of the keys, ``size`` lines at a time.

        Args:
            names: of the keys.
            size: lines of a piece.
            known: what `kinds` says of the file.

        Raises:
            divulge.InputError: a line that is no JSON object, or holds a value of another kind than the first ones.
        """
        lines = self._objects()
        while piece := list(itertools.islice(lines, size)):
            numbers = [number for number, _ in piece]
            columns = {name: [row.get(name) for _, row in piece] for name in names}
            yield Frame({name: _column(name, values, known[name], numbers) for name, values in columns.items()})

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        with self._opened() as opened:
            for number, line in enumerate(opened, 1):
                if not (bare := (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip()):
                    continue
                try:
                    value = _value(bare.decode())
                except (ValueError, RecursionError) as error:  # not JSON or not UTF-8, numbers or nesting without end
                    said = checks.reason(error).split(";")[0]
                    raise checks.InputError(f"line {number} is no JSON ({said})") from None
                if not isinstance(value, dict):
                    raise checks.InputError(f"line {number}: an object is needed, got {_called(type(value))}")
                yield number, value

    def _opened(self) -> IO[bytes]:
        return cast("IO[bytes]", gzip.open(self.path)) if self.path.suffix == ".gz" else self.path.open("rb")


def _value(text: str) -> Any:
    """The one value in a text; what `json.loads` does besides costs as much as the value."""
    value, end = _DECODER.raw_decode(text)
    return value if end == len(text) else json.loads(text)  # which says what is wrong


def _kind(types: set[type]) -> Kind:
    if not types:
        return EMPTY
    if odd := types - {str, bool, int, float}:
        return _called(odd.pop())
    if types <= {int, float}:
        return np.dtype(np.int64 if types == {int} else np.float64)
    return np.dtype(bool) if types == {bool} else TEXT


def _column(name: str, values: list[Any], kind: Kind, numbers: Sequence[int]) -> Array:
    types = set(map(type, values))
    if isinstance(kind, np.dtype):
        _refuse_others(name, values, {bool} if kind.kind == "b" else {int, float}, numbers)
        if types == {bool}:
            return np.array(values)
        if kind.kind != "b" and (float in types or kind.kind == "f" or types == {int}):
            return _numbers(name, values, np.dtype(np.int64 if types == {int} else np.float64))
    else:
        _refuse_others(name, values, {str, bool, int, float}, numbers)
    column = np.fromiter(values, dtype=object, count=len(values))
    if str in types:
        _refuse_halves(name, values, numbers)
    return kinds.texts(column) if kind == TEXT and not types <= {str, _NONE} else column


def _numbers(name: str, values: list[Any], kind: np.dtype[Any]) -> Array:
    try:
        return np.array(values, kind)
    except OverflowError:
        raise checks.InputError(f"{name}: whole numbers of 64 bits are needed, got a larger one") from None


def _refuse_others(name: str, values: list[Any], wanted: set[type], numbers: Sequence[int]) -> None:
    if set(map(type, values)) <= {*wanted, _NONE}:
        return
    at = next(at for at, value in enumerate(values) if type(value) not in {*wanted, _NONE})
    needed = "true or false" if bool in wanted and len(wanted) == 1 else "a text" if str in wanted else "a number"
    raise checks.InputError(f"line {numbers[at]}: {name}: {needed} is needed, got {_called(type(values[at]))}")


def _refuse_halves(name: str, values: list[Any], numbers: Sequence[int]) -> None:
    """Raise for half of a surrogate pair, which JSON can spell and no file can hold."""
    for number, value in zip(numbers, values, strict=True):
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise checks.InputError(
                    f"line {number}: {name}: half of a surrogate pair, which is no character"
                ) from None


def _called(kind: type) -> str:
    named = {list: "a list", dict: "an object", str: "a text", bool: "true or false", _NONE: "null"}
    return named.get(kind, "a number")
