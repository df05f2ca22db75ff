"""Summaries as JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from divulge import store
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import ClassVar, Protocol

    from divulge.run_directory import RunDraft

    class _Shaped(Protocol):
        __dataclass_fields__: ClassVar[dict[str, Any]]

    Summary = TypeVar("Summary", bound=_Shaped)

NAME = "summary.json"
VERSION = 2
"""Of the shape of all summaries; one of another version is not read."""


def to_json_values(value: object) -> Any:
    """A summary as what JSON can say: dataclasses are objects by their fields, an open end of an interval is None.

    Examples:
        >>> from divulge.types import Estimate
        >>> to_json_values(Estimate(0.5, 0.25, float("inf"), 0.95, "counted"))
        {'value': 0.5, 'low': 0.25, 'high': None, 'confidence': 0.95, 'method': 'counted'}
    """
    if is_dataclass(value):
        return {field.name: to_json_values(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json_values(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_values(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def write(draft: RunDraft, summary: object) -> None:
    """Write the summary of a run into its draft."""
    draft.write_json(NAME.removesuffix(".json"), to_json_values(summary))


def read(folder: Path, kind: type[Summary]) -> Summary:
    """The summary in the run directory ``folder``.

    Raises:
        divulge.InputError: missing, damaged, of another version, or of another shape than ``kind``.
    """
    path = folder / NAME
    content = store.read_json(path, inside=folder)
    version = content.get("version") if isinstance(content, dict) else None
    if version != VERSION:
        raise InputError(
            f"{path}: a summary of version {VERSION} is needed, got {version!r}; another release of Divulge wrote it"
        )
    summary = store.parse_json(content, kind, path)
    written, known = dict(_entries(content)), dict(_entries(to_json_values(summary)))
    # A run of before has no key for what came later: a field that has a default, and by default nothing in it.
    later = {key for key, value in known.items() if key not in written and value in (None, [], {})}
    if odd := (set(written) ^ set(known)) - later:
        raise InputError(f"{path}: damaged at {min(odd)}: a key that is missing or unknown")
    return summary


def _entries(value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of a JSON value with its value, by those it stands below."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in entries:
        place = f"{above}{key}"
        yield place, part
        yield from _entries(part, f"{place}.")
