"""Every kind of run that is kept in a directory, and finished runs read back whatever their kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge.auditing.result import AUDIT
from divulge.canaries.canary_audit import CANARY_AUDIT
from divulge.errors import InputError
from divulge.extraction.result import EXTRACTION
from divulge.identification.from_tables import IDENTIFICATION
from divulge.run_directory import RunDirectory
from divulge.unlearning.result import ERASURE

if TYPE_CHECKING:
    from divulge.report import Page
    from divulge.report.run_kinds import Run, RunKind

RUN_KINDS: dict[str, RunKind[Any]] = {
    kind.name: kind for kind in (AUDIT, IDENTIFICATION, EXTRACTION, CANARY_AUDIT, ERASURE)
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
