"""JSON from a run directory, held against the shape that its reader relies on."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import pydantic

from divulge.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

Shape = TypeVar("Shape")


def parse(value: object, shape: type[Shape], path: Path) -> Shape:
    """``value``, read from ``path``, as the type ``shape``, most often a dataclass.

    Nothing is converted: a number in quotes is not a number. Keys that the shape does not name are ignored.

    Raises:
        divulge.InputError: the first place that does not fit, and what is needed there.

    Examples:
        >>> from pathlib import Path
        >>> parse({"levels": [0.1, "x"]}, dict[str, list[float]], Path("summary.json"))
        Traceback (most recent call last):
        divulge.errors.InputError: summary.json: damaged at levels.1: input should be a valid number, got 'x'
    """
    try:
        return _adapter(shape).validate_json(json.dumps(value, allow_nan=False), strict=True)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the top"
        said = f"{first['msg'][:1].lower()}{first['msg'][1:]}"
        raise InputError(f"{path}: damaged at {where}: {said}, got {_short(first['input'])}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged: {error}") from None


@cache
def _adapter(shape: type[Shape]) -> pydantic.TypeAdapter[Shape]:
    """Making one takes longer than reading a file by it."""
    return pydantic.TypeAdapter(shape)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
