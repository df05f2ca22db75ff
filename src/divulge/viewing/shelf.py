"""Which runs lie below some directories, and what each of them says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from divulge import run_directory, store
from divulge.errors import InputError
from divulge.report import html
from divulge.run_directory import ReplacedError
from divulge.runs import RUN_KINDS
from divulge.types import Tone

_DEEPEST = 4  # folders below a directory in which runs are looked for
_MOST = 2000  # runs that are listed
_OTHERS = {
    "canaries": "Canaries, made and not yet audited.",
    "scores": "Token statistics and signals of documents, nothing decided.",
}
_SENTENCE = re.compile(r".+?[.](?= \S|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run lies.

    Args:
        key: names it in an address; says nothing about where it lies.
        path: its directory.
        name: the same, from the directory that was given.
        kind: of run.
        finished: whether it is.
    """

    key: str
    path: Path
    name: str
    kind: str
    finished: bool


@dataclass(frozen=True, slots=True)
class Entry(Place):
    """One run, and what it says.

    Args:
        tone: of what it says.
        says: its verdict, computed from its scores.
        when: seconds since 1970 of its last change.
    """

    tone: Tone
    says: str
    when: float

    @property
    def first(self) -> str:
        """The first sentence of what it says."""
        begun = _SENTENCE.match(self.says)
        return self.says if begun is None else begun[0]

    @property
    def has_report(self) -> bool:
        """Whether a report can be made of it."""
        return self.finished and self.kind in RUN_KINDS

    def render_report(self) -> str:
        """Return its report, made anew from its scores: the one beside them may say anything.

        Raises:
            KeyError: there is none of this kind of run.
            divulge.InputError: a damaged run, or one that is being replaced.
        """
        return html.render(RUN_KINDS[self.kind].load_page(self.path))


@dataclass(frozen=True, slots=True)
class Shelf:
    """The directories whose runs are shown.

    Args:
        roots: directories: runs, or folders that hold some.

    Raises:
        divulge.InputError: none given, or one that is no directory.
    """

    roots: tuple[Path, ...]
    _read: dict[str, tuple[Any, Entry]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.roots:
            raise InputError("view: at least 1 directory is needed")
        for root in self.roots:
            if not root.is_dir():
                raise InputError(f"view: no such directory: {root}")

    def places(self) -> list[Place]:
        """Return where runs lie; nothing of them is read but what kind they are."""
        found = {place.key: place for root in self.roots for place in _places_below(root)}
        return sorted(found.values(), key=lambda place: place.name)[:_MOST]

    def entries(self) -> list[Entry]:
        """All runs, the latest first; one that is being replaced says so."""
        entries = []
        for place in self.places():
            try:
                entries.append(self._entry(place))
            except ReplacedError as error:
                entries.append(_entry_of(place, "void", f"cannot be read: {error}", 0.0))
            except KeyError:
                continue  # removed since
        return sorted(entries, key=lambda entry: (-entry.when, entry.name))

    def entry(self, key: str) -> Entry:
        """The run of this key.

        Raises:
            KeyError: none.
            ReplacedError: other runs are being published in its place.
        """
        return self._entry({place.key: place for place in self.places()}[key])

    def _entry(self, place: Place) -> Entry:
        """What a run says; computed again when any of its files has changed."""
        version = _version(place.path)
        if version is None:
            raise KeyError(place.key)
        known = self._read.get(place.key)
        if known is None or known[0] != version:
            tone, says = _verdict(place)
            entry = _entry_of(place, tone, says, version[0][1])
            if _version(place.path) != version:
                raise ReplacedError(f"{place.path}: other runs are being published here while it is read; try again")
            self._read[place.key] = known = (version, entry)
        return known[1]


def _places_below(root: Path) -> Iterator[Place]:
    start = len(root.parts)
    for folder, inner, files in os.walk(root):  # links to directories are not followed
        path = Path(folder)
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name != "pool")
        if len(path.parts) - start >= _DEEPEST:
            inner.clear()
        if run_directory.MANIFEST_NAME in files and (there := run_directory.peek_manifest(path)) is not None:
            name = root.name if path == root else f"{root.name}/{path.relative_to(root).as_posix()}"
            key = store.hash_values("run", os.fsencode(path.resolve()))[:16]
            yield Place(key, path, name, there.kind, there.of(there.kind, there.key))


def _version(path: Path) -> list[tuple[Any, ...]] | None:
    """What tells one content of a run directory from another; None where there is no run."""
    there = run_directory.peek_manifest(path)
    if there is None:
        return None
    try:
        own = (path / run_directory.MANIFEST_NAME).stat()
    except OSError:
        return None
    return [(run_directory.MANIFEST_NAME, own.st_mtime, own.st_ino), *(_status(path, name) for name in there.files)]


def _status(path: Path, name: str) -> tuple[Any, ...]:
    """Name, size and time of a file, as far as it is there."""
    try:
        status = (path / name).lstat()
    except OSError:
        return (name,)
    return name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _verdict(place: Place) -> tuple[Tone, str]:
    """The tone and the verdict of a run, from its scores."""
    if not place.finished:
        return "plain", "not finished; repeat its command to go on"
    try:
        if (kind := RUN_KINDS.get(place.kind)) is not None:
            headline = kind.open(place.path, kind.headline)
            return headline.tone, headline.statement or headline.text
    except ReplacedError:
        raise
    except (InputError, OSError) as error:
        return "void", f"cannot be read: {error}"
    return "plain", _OTHERS.get(place.kind, place.kind)


def _entry_of(place: Place, tone: Tone, says: str, when: float) -> Entry:
    return Entry(place.key, place.path, place.name, place.kind, place.finished, tone, says, when)
