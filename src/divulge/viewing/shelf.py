"""Find runs below directories, and read the verdict of each."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from divulge import provenance, run_directory, store
from divulge.auditing.result import AUDIT
from divulge.errors import InputError
from divulge.report import html
from divulge.report.run_kinds import Headline
from divulge.run_directory import ReplacedError
from divulge.runs import RUN_KINDS
from divulge.synthetic.page import SYNTHETIC
from divulge.types import Tone

_MAX_DEPTH = 4  # folders below a directory in which runs are looked for
_MAX_RUNS = 2000  # runs that are listed
_DESCRIPTIONS_WITHOUT_VERDICT = {
    "canaries": "Canaries, made and not yet audited.",
    "scores": "Token statistics and signals of documents, nothing decided.",
}
_SENTENCE = re.compile(r".+?[.](?= \S|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a run.

    Args:
        key: identifies it in an address, without its path.
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
    """A run with its verdict.

    Args:
        tone: of the verdict.
        verdict: what the run shows, computed from its scores.
        date: when it was made, in ISO 8601 and UTC, as the run itself says; where it does not, of its last change.
    """

    tone: Tone
    verdict: str
    date: str

    @property
    def first_sentence(self) -> str:
        """First sentence of the verdict with a figure, and those before it; in doubt, which may stand after it."""
        sentences = [match[0] for match in _SENTENCE.finditer(self.verdict)] or [self.verdict]
        is_figure = [any(letter.isdigit() for letter in sentence) for sentence in sentences]
        sentence = "".join(sentences[: is_figure.index(True) + 1 if any(is_figure) else 1])
        return f"In doubt: {sentence}" if self.tone == "doubt" else sentence

    @property
    def comparable(self) -> bool:
        """Whether it can be compared with others: a finished audit, or one of a released table."""
        return self.finished and self.kind in (AUDIT.name, SYNTHETIC.name)

    @property
    def has_report(self) -> bool:
        """Whether a report of the run can be rendered."""
        return self.finished and self.kind in RUN_KINDS

    def render_report(self) -> str:
        """Render its report from its scores; the stored one may have been edited.

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
        """Return the locations of runs; of each the manifest alone is read."""
        places_by_key = {place.key: place for root in self.roots for place in _places_below(root)}
        return sorted(places_by_key.values(), key=lambda place: place.name)[:_MAX_RUNS]

    def entries(self) -> list[Entry]:
        """Return all runs, the latest first; a run that is being replaced has that as its verdict."""
        entries = []
        for place in self.places():
            try:
                entries.append(self._entry(place))
            except ReplacedError as error:
                entries.append(_entry_of(place, "void", f"cannot be read: {error}", ""))
            except KeyError:
                continue  # removed since
        return sorted(sorted(entries, key=lambda entry: entry.name), key=lambda entry: entry.date, reverse=True)

    def entry(self, key: str) -> Entry:
        """Return the run with this key.

        Raises:
            KeyError: none.
            ReplacedError: other runs are being published in its place.
        """
        return self._entry({place.key: place for place in self.places()}[key])

    def _entry(self, place: Place) -> Entry:
        """Return a run with its verdict, computed again when any of its files has changed."""
        version = _version(place.path)
        if version is None:
            raise KeyError(place.key)
        cached = self._read.get(place.key)
        if cached is None or cached[0] != version:
            top = read_headline(place)
            entry = _entry_of(place, top.tone, top.statement or top.text, read_date(place.path, version[0][1]))
            if _version(place.path) != version:
                raise ReplacedError(f"{place.path}: other runs are being published here while it is read; try again")
            self._read[place.key] = cached = (version, entry)
        return cached[1]


def is_full(shelf: Shelf) -> bool:
    """Check whether a shelf has as many runs as are listed, so that some may be left out."""
    return len(shelf.places()) >= _MAX_RUNS


def _places_below(root: Path) -> Iterator[Place]:
    start = len(root.parts)
    for folder, inner, files in os.walk(root):  # links to directories are not followed
        path = Path(folder)
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name != "pool")
        if len(path.parts) - start >= _MAX_DEPTH:
            inner.clear()
        if run_directory.MANIFEST_NAME in files and (manifest := run_directory.peek_manifest(path)) is not None:
            name = root.name if path == root else f"{root.name}/{path.relative_to(root).as_posix()}"
            key = store.hash_values("run", os.fsencode(path.resolve()))[:16]
            yield Place(key, path, name, manifest.kind, manifest.is_finished(manifest.kind, manifest.key))


def _version(path: Path) -> list[tuple[Any, ...]] | None:
    """Return the state of a run's files, which changes with their content; None without a run."""
    manifest = run_directory.peek_manifest(path)
    if manifest is None:
        return None
    try:
        status = (path / run_directory.MANIFEST_NAME).stat()
    except OSError:
        return None
    return [
        (run_directory.MANIFEST_NAME, status.st_mtime, status.st_ino),
        *(_status(path, name) for name in manifest.files),
    ]


def _status(path: Path, name: str) -> tuple[Any, ...]:
    """Return name, size and time of a file, as far as it is there."""
    try:
        status = (path / name).lstat()
    except OSError:
        return (name,)
    return name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_headline(place: Place) -> Headline:
    """Compute the top of a run's report from its scores, or say why there is none."""
    if not place.finished:
        return Headline("plain", "not finished; repeat its command to go on")
    try:
        if (run_kind := RUN_KINDS.get(place.kind)) is not None:
            return run_kind.open(place.path, run_kind.headline)
    except ReplacedError:
        raise
    except (InputError, OSError) as error:
        return Headline("void", f"cannot be read: {error}")
    return Headline("plain", _DESCRIPTIONS_WITHOUT_VERDICT.get(place.kind, place.kind))


def read_date(path: Path, modified: float) -> str:
    """Return when a run was made, which copying it does not change; when it was last written, where it does not say."""
    with contextlib.suppress(InputError, OSError, ValueError):
        origin = provenance.read_provenance(path)
        if origin is not None:
            return dt.datetime.fromisoformat(origin.date).astimezone(dt.UTC).isoformat(timespec="seconds")
    return dt.datetime.fromtimestamp(modified, dt.UTC).isoformat(timespec="seconds")


def _entry_of(place: Place, tone: Tone, verdict: str, date: str) -> Entry:
    return Entry(place.key, place.path, place.name, place.kind, place.finished, tone, verdict, date)
