"""``run.json``: which run a directory holds, whether it is finished, and a digest of every file."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from divulge import store
from divulge._version import __version__
from divulge.dossier import shape
from divulge.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 2
NAME = "run.json"
LOCK = ".lock"
STAGED = re.compile(r"\.staged-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Mark:
    """The content of ``run.json``.

    Args:
        kind: "audit", "identification", "scores" or "submissions".
        key: names the work that an interrupted run is resumed for.
        state: "running" until everything is published.
        files: path below the run directory → SHA-256.
        parts: folders below it that hold runs of their own, published with this one.
        staged: the folder from which published files are still to be moved to their places; empty when none.
        format: of the directory.
    """

    kind: str
    key: str
    state: Literal["running", "finished"] = "running"
    files: dict[str, str] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    staged: str = ""
    format: int = FORMAT

    def of(self, kind: str, key: str) -> bool:
        """Whether this is a finished run of ``kind`` with ``key``."""
        return (self.kind, self.key, self.state) == (kind, key, "finished")

    def write(self, folder: Path) -> None:
        """Put this mark into ``folder``, atomically."""
        store.write_json(folder / NAME, asdict(self))


def read(folder: Path) -> Mark:
    """The mark in ``folder``.

    Raises:
        divulge.InputError: none there, another format, or not what `Mark.write` writes.
    """
    path = folder / NAME
    if not path.is_file() and not path.is_symlink() and not path.exists():
        raise InputError(f"{folder}: not a run directory (no {NAME})")
    content = store.read_json(path, inside=folder)
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise InputError(f"{path}: damaged, not the mark of a run")
    if content["format"] != FORMAT:
        raise InputError(
            f"{folder}: format {content['format']} is not {FORMAT}, the only one that divulge {__version__} reads; "
            "run it again into another directory, or over this one with --overwrite (finished models are reused)"
        )
    parsed = shape.parse(content, Mark, path)
    names = (*parsed.files, *parsed.parts)
    if set(content) != set(Mark.__slots__) or not all(map(is_below, names)):
        raise InputError(f"{path}: damaged, not the mark of a run")
    if parsed.staged and not STAGED.fullmatch(parsed.staged):
        raise InputError(f"{path}: damaged, {parsed.staged!r} is no folder of staged files")
    return parsed


def peek(folder: Path) -> Mark | None:
    """The mark in ``folder``; None where there is none that this version reads."""
    try:
        return read(folder)
    except InputError:
        return None


def earlier(folder: Path) -> bool:
    """Whether ``folder`` is marked as a run of the format without digests."""
    try:
        content = store.read_json(folder / NAME, inside=folder)
    except InputError:
        return False
    return isinstance(content, dict) and set(content) == {"format", "kind", "key", "state"} and content["format"] == 1


def is_below(name: str) -> bool:
    """Whether ``name`` is a plain relative path that stays below its folder.

    Examples:
        >>> is_below("documents/a.parquet"), is_below("../a"), is_below("/a"), is_below("a/./b")
        (True, False, False, False)
    """
    path = PurePosixPath(name)
    plain = bool(path.parts) and not path.is_absolute() and ".." not in path.parts and str(path) == name
    return plain and path.parts != (NAME,) and not any(sign in name for sign in "\\:\0")
