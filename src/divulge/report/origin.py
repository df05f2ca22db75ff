"""The part of every report that says where it comes from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from divulge.report.page import Fold, Paragraph, Section, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.report.page import Block, Page
    from divulge.results.provenance import Provenance

TITLE = "Where this comes from"


def section(made: Provenance | None, known: Mapping[str, str], more: Sequence[Block] = ()) -> Section:
    """Date, command, files by name and digest, software, and what else is known of the run.

    Args:
        made: what was noted when the run was written; None for a run that noted nothing.
        known: name → value: seeds, accuracy, digests.
        more: folded tables.
    """
    rows = [(name, value) for name, value in known.items() if value]
    if made is None:
        missing = Paragraph("Neither date, command nor files were noted when this run was written.")
        return Section(TITLE, [missing, *([Table(("what", "value"), rows, sortable=False)] if rows else []), *more])
    head = [("date", _moment(made.date)), ("command", made.command or "used from Python")]
    blocks: list[Block] = [Table(("what", "value"), [*head, *rows], sortable=False)]
    if made.sources:
        files = [(one.role, one.name, f"{one.size:,}", one.digest) for one in made.sources]
        note = "SHA-256 of the content; of a folder, of the names and contents of its files."
        blocks.append(Fold("Files that were read", [Table(("role", "file", "bytes", "digest"), files, note=note)]))
    system = made.environment
    software = [("divulge", system.divulge), ("python", system.python), ("platform", system.platform)]
    software += [("processors", str(system.cpu_count or "–")), ("git commit", system.git_commit or "–")]
    blocks.append(Fold("Software", [Table(("what", "version"), [*software, *system.packages.items()])]))
    return Section(TITLE, [*blocks, *more])


def added(page: Page, made: Provenance | None, known: Mapping[str, str] | None = None) -> Page:
    """``page`` with where it comes from: the day in its head, all of it at its end.

    Args:
        page: a report.
        made: what was noted when the run was written.
        known: what else is known of it, name → value.
    """
    return replace(page, sections=[*page.sections, section(made, known or {})], facts={**page.facts, **date(made)})


def _moment(written: str) -> str:
    """A time in UTC as people write it."""
    return written.replace("T", " ").replace("+00:00", " UTC")


def date(made: Provenance | None) -> dict[str, str]:
    """The day of the run, for the head of a report; empty where it is unknown."""
    return {} if made is None else {"date": made.date.partition("T")[0]}
