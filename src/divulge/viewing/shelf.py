"""Which runs lie below some directories, and what each of them says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from divulge import checks, results, store
from divulge.auditing.result import KIND as AUDIT
from divulge.canaries.game import KIND as CANARIES
from divulge.dossier import Dossier
from divulge.extraction.result import KIND as EXTRACTION
from divulge.identification import identification_page
from divulge.identification.table_results import KIND as IDENTIFICATION
from divulge.types import Tone

_DEEPEST = 4  # folders below a directory in which runs are looked for
_MOST = 2000  # runs that are listed
_OTHERS = {
    "canaries": "Canaries, made and not yet audited.",
    "scores": "Token statistics and signals of documents, nothing decided.",
}
_SENTENCE = re.compile(r".+?[.](?= \S|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """One run.

    Args:
        key: names it in an address; says nothing about where it lies.
        path: its directory.
        name: the same, from the directory that was given.
        kind: of run.
        finished: whether it is.
        tone: of what it says.
        says: its verdict.
        when: seconds since 1970 of its last change.
    """

    key: str
    path: Path
    name: str
    kind: str
    finished: bool
    tone: Tone
    says: str
    when: float

    @property
    def first(self) -> str:
        """The first sentence of what it says."""
        begun = _SENTENCE.match(self.says)
        return self.says if begun is None else begun[0]

    @property
    def report(self) -> Path | None:
        """Its report; None without one, and for a link, which might lead anywhere."""
        path = self.path / "report.html"
        return path if path.is_file() and not path.is_symlink() else None


@dataclass(frozen=True, slots=True)
class Shelf:
    """The directories whose runs are shown.

    Args:
        roots: directories: runs, or folders that hold some.

    Raises:
        divulge.InputError: none given, or one that is no directory.
    """

    roots: tuple[Path, ...]

    def __post_init__(self) -> None:
        if not self.roots:
            raise checks.InputError("view: at least 1 directory is needed")
        for root in self.roots:
            if not root.is_dir():
                raise checks.InputError(f"view: no such directory: {root}")

    def entries(self) -> list[Entry]:
        """All runs, the latest first."""
        there = {entry.key: entry for root in self.roots for entry in _below(root)}
        return sorted(there.values(), key=lambda entry: (-entry.when, entry.name))[:_MOST]

    def entry(self, key: str) -> Entry:
        """The run of this key.

        Raises:
            KeyError: none.
        """
        return {entry.key: entry for entry in self.entries()}[key]


def _below(root: Path) -> Iterator[Entry]:
    start = len(root.parts)
    for folder, inner, files in os.walk(root):  # links to directories are not followed
        path = Path(folder)
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name != "pool")
        if len(path.parts) - start >= _DEEPEST:
            inner.clear()
        if "run.json" in files:
            entry = _entry(path, root)
            if entry is not None:
                yield entry


def _entry(path: Path, root: Path) -> Entry | None:
    """The run in a folder; None where none can be read, by this release at least."""
    dossier = Dossier(path)
    try:
        kind = dossier.kind()
        finished = dossier.finished(kind)
    except checks.InputError:
        return None
    try:
        tone, says = _said(path, kind) if finished else ("plain", "not finished; repeat its command to go on")
    except checks.InputError as error:
        tone, says = "void", f"cannot be read: {error}"
    name = root.name if path == root else f"{root.name}/{path.relative_to(root).as_posix()}"
    key = store.digest("run", str(path.resolve()))[:16]
    return Entry(key, path, name, kind, finished, tone, says, (path / "run.json").stat().st_mtime)


def _said(path: Path, kind: str) -> tuple[Tone, str]:
    """The tone and the verdict of a finished run."""
    if kind == AUDIT:
        verdict = results.read(path, results.AuditSummary).verdict
        return verdict.tone, verdict.text
    if kind == IDENTIFICATION:
        text, tone = identification_page.verdict(results.read(path, results.IdentificationSummary))
        return tone, text
    if kind == EXTRACTION:
        given = results.read(path, results.ExtractionSummary)
        return given.tone, given.verdict
    if kind == CANARIES:
        proved = results.read(path, results.CanarySummary)
        return proved.tone, proved.verdict
    return "plain", _OTHERS.get(kind, kind)
