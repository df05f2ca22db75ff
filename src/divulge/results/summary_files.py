"""Summaries as JSON files, and back."""

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

    class _Dataclass(Protocol):
        __dataclass_fields__: ClassVar[dict[str, Any]]

    Summary = TypeVar("Summary", bound=_Dataclass)

SUMMARY_FILE = "summary.json"
VERSION = 2
"""Version of the schema of all summaries; one of another version is not read."""


def to_json_values(value: object, *, show_records: bool = True) -> Any:
    """Convert a summary to JSON values: dataclasses become objects, infinite and undefined numbers None.

    Args:
        value: the summary, or a part of it.
        show_records: False to leave out the fields that show or name single records.

    Examples:
        >>> from divulge.types import Estimate
        >>> to_json_values(Estimate(0.5, 0.25, float("inf"), 0.95, "counted"))
        {'value': 0.5, 'low': 0.25, 'high': None, 'confidence': 0.95, 'method': 'counted'}
    """
    if is_dataclass(value):
        shown = [field for field in fields(value) if show_records or not field.metadata.get("single_records")]
        return {field.name: to_json_values(getattr(value, field.name), show_records=show_records) for field in shown}
    if isinstance(value, Mapping):
        return {str(key): to_json_values(part, show_records=show_records) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_values(part, show_records=show_records) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def write_summary(draft: RunDraft, summary: object) -> None:
    """Write the summary of a run into its draft."""
    draft.write_json(SUMMARY_FILE.removesuffix(".json"), to_json_values(summary))


def read_summary(folder: Path, summary_type: type[Summary]) -> Summary:
    """Read the summary in the run directory ``folder``.

    Raises:
        divulge.InputError: missing, damaged, of another version, or of another schema than ``summary_type``.
    """
    path = folder / SUMMARY_FILE
    content = store.read_json(path, inside=folder)
    version = content.get("version") if isinstance(content, dict) else None
    if version != VERSION:
        raise InputError(
            f"{path}: a summary of version {VERSION} is needed, got {version!r}; another release of Divulge wrote it"
        )
    summary = store.parse_json(content, summary_type, path)
    file_entries, entries = dict(_json_entries(content)), dict(_json_entries(to_json_values(summary)))
    # Earlier releases did not write the keys of fields that were added since; those are empty by default.
    added_since = {key for key, value in entries.items() if key not in file_entries and value in (None, [], {})}
    if unexpected := (set(file_entries) ^ set(entries)) - added_since:
        raise InputError(f"{path}: damaged at {min(unexpected)}: a key that is missing or unknown")
    return summary


def _json_entries(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key of a JSON value as a dotted path, with its value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in entries:
        path = f"{prefix}{key}"
        yield path, part
        yield from _json_entries(part, f"{path}.")
