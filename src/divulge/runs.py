"""Every kind of run that is kept in a directory, and finished runs read back whatever their kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge.attributes.result import ATTRIBUTES
from divulge.auditing import result as audits
from divulge.auditing.result import AUDIT
from divulge.canaries.canary_audit import CANARY_AUDIT
from divulge.defences.trade_off import TRADE_OFF
from divulge.errors import InputError
from divulge.extraction.result import EXTRACTION
from divulge.identification import finished_run
from divulge.identification.from_tables import IDENTIFICATION
from divulge.report import formatting, notebook
from divulge.run_directory import RunDirectory
from divulge.unlearning.result import ERASURE
from divulge.validation import check_path

if TYPE_CHECKING:
    import polars as pl

    from divulge.auditing import Audit
    from divulge.report import Page
    from divulge.report.run_kinds import Run, RunKind

RUN_KINDS: dict[str, RunKind[Any]] = {
    kind.name: kind for kind in (AUDIT, IDENTIFICATION, EXTRACTION, CANARY_AUDIT, ERASURE, ATTRIBUTES, TRADE_OFF)
}


def register(kind: RunKind[Any]) -> None:
    """Add a kind of run, so that `divulge report` and `divulge view` show it.

    Raises:
        divulge.InputError: another kind has its name.
    """
    if RUN_KINDS.setdefault(kind.name, kind) is not kind:
        raise InputError(f"kind: {kind.name!r} is registered already")


def find_kind(folder: Path) -> RunKind[Any]:
    """Return the kind of the run in ``folder``.

    Raises:
        divulge.InputError: no run, or one of which no report is made.
    """
    name = RunDirectory(folder).kind()
    if name not in RUN_KINDS:
        raise InputError(f"{folder}: a run of kind {name!r} has no report; one of {', '.join(RUN_KINDS)} is needed")
    return RUN_KINDS[name]


def load_run(folder: Path) -> Run:
    """Return the finished run in ``folder``, with everything that scores decide computed from them again.

    Raises:
        divulge.InputError: no finished, undamaged run of a registered kind.
    """
    return find_kind(folder).load(folder)


def load_page(folder: Path) -> Page:
    """Return the report of the finished run in ``folder``; errors as for `load_run`."""
    return find_kind(folder).load_page(folder)


@dataclass(frozen=True, slots=True, repr=False)
class FinishedRun:
    """A finished run that is no audit: an identification, an extraction, an audit of canaries.

    Args:
        folder: its directory.
        kind: what kind of run it is.
        summary: the content of ``summary.json``, with everything that scores decide computed from them again.
    """

    folder: Path
    kind: str
    summary: Any

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        top = load_page(self.folder)
        return formatting.as_sentence(top.verdict)

    def report(self, path: str | Path) -> Path:
        """Write the HTML report to ``path`` and return it."""
        return find_kind(self.folder).render_again(self.folder, check_path(path, "path"))

    def to_frame(self) -> pl.DataFrame:
        """Return one row per record; of an identification, per candidate.

        Raises:
            divulge.InputError: a kind of run that keeps no records.
        """
        if self.kind == IDENTIFICATION.name:
            return finished_run.load_selection(self.folder)
        return find_kind(self.folder).load_records(self.folder)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the verdict, and the facts at the head of the report."""
        page = load_page(self.folder)
        return notebook.render(
            page.heading or page.title, page.verdict, page.tone, more=page.more, columns=("", ""),
            rows=list(page.facts.items()),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"FinishedRun({str(self.folder)!r}, {self.kind})"


def load(directory: str | Path) -> Audit | FinishedRun:
    """Load a finished run; nothing is computed with a model again.

    Args:
        directory: what ``out`` was when it was made.

    Returns:
        The `divulge.auditing.Audit`; of other kinds of run a `FinishedRun` with ``verdict``, ``summary``,
        ``to_frame()`` and ``report(path)``.

    Raises:
        divulge.InputError: no finished, undamaged run there.

    Examples:
        >>> load("runs/demo")  # doctest: +SKIP
        Audit(auto, loss; 500 members of 1000 candidates)
    """
    folder = check_path(directory, "directory")
    kind = find_kind(folder)
    return audits.load(folder) if kind is AUDIT else FinishedRun(folder, kind.name, kind.load(folder).summary)
