"""Kinds of run: what each of them says at the top of its report, what stands below, and how its directory is read.

A kind of run is a `divulge.results.Summary`, a function that returns the sections of its page, and one `RunKind` that
names both. Everything else is shared: `build_page`, the files that `write_report_files` writes, and
reading a finished run back, with its verdict recomputed from its scores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import polars as pl

from divulge import provenance, results, store, tables
from divulge.errors import InputError
from divulge.report import formatting, html
from divulge.report.page import Page, Paragraph, Section, hide_records
from divulge.report.sections import WARNINGS_TITLE, date_fact, provenance_section
from divulge.run_directory import RunDirectory
from divulge.tables import InputColumns
from divulge.types import Tone

if TYPE_CHECKING:
    from divulge.provenance import Provenance
    from divulge.report.page import Block, DotGrid
    from divulge.run_directory import RunDraft
    from divulge.types import Array

    Result = TypeVar("Result")

REPORT_FILE = "report.html"


class Run(Protocol):
    """A run as its page needs it: the summary, and whatever else the sections show (scores, texts, a folder)."""

    @property
    def summary(self) -> Any:
        """The `divulge.results.Summary`, with everything that scores decide computed from them."""
        ...


@dataclass(frozen=True, slots=True)
class SummaryRun:
    """A run whose page shows nothing but its summary."""

    summary: Any


@dataclass(frozen=True, slots=True)
class Headline:
    """The top of a report.

    Args:
        tone: see `divulge.report.Page`.
        text: the verdict.
        heading: the words over it; those of the tone where empty.
        details: what stands under it: who can do this, and what it rests on.
        pictures: the verdict as grids of dots.
        statement: the whole verdict where it stands by itself, in a list of runs; ``text`` where empty.
    """

    tone: Tone
    text: str
    heading: str = ""
    details: Sequence[str] = ()
    pictures: Sequence[DotGrid] = ()
    statement: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Facts of a run for the section on provenance, beside date, command, files and software.

    Args:
        facts: name → value: seeds, accuracy, digests; empty values are left out.
        details: folded tables.
    """

    facts: Mapping[str, str]
    details: Sequence[Block] = ()


RunT = TypeVar("RunT", bound=Run)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKind(Generic[RunT]):
    """One kind of run.

    Args:
        name: of the kind in ``run.json``.
        title: of the page.
        summary_type: the dataclass of ``summary.json``.
        sections: return the sections of the page; those without blocks are left out.
        headline: return the top of the page; by default ``verdict`` and ``tone`` of the summary.
        facts: return name → value pairs for the head of the page.
        warnings: return what the page says in a section of its own before the provenance; none by default.
        origin: return what the provenance says beside what every run records.
        read: read an undamaged run directory, computing again whatever scores decide; by default the summary alone.
        records: return one row per record of a run directory, or per setting; None where there are no such rows.
        noun: what a run is called where it is held to limits.
        metrics: what a policy may limit; none by default.
    """

    name: str
    title: str
    summary_type: type[Any]
    sections: Callable[[RunT], Sequence[Section]]
    headline: Callable[[RunT], Headline] = lambda run: Headline(run.summary.tone, run.summary.verdict)
    facts: Callable[[RunT], Mapping[str, str]] = lambda run: {}
    warnings: Callable[[RunT], Sequence[str]] = lambda run: ()
    origin: Callable[[RunT], Origin] = lambda run: Origin({})
    read: Callable[[RunDirectory], RunT] | None = None
    records: Callable[[Path], pl.DataFrame] | None = None
    noun: str = ""
    metrics: tuple[str, ...] = ()

    def open(self, folder: Path, use: Callable[[RunT], Result]) -> Result:
        """Return what ``use`` makes of the finished run in ``folder``, all of it from one and the same run.

        Raises:
            divulge.InputError: no such run, an unfinished or damaged one.
        """
        directory = RunDirectory(folder)
        return directory.read(self.name, lambda: use(self._read(directory)))

    def _read(self, directory: RunDirectory) -> Any:
        if self.read is not None:
            return self.read(directory)
        return SummaryRun(results.read_summary(directory.path, self.summary_type))

    def load(self, folder: Path) -> RunT:
        """Return the finished run in ``folder``; errors as for `open`."""
        return self.open(folder, lambda run: run)

    def load_page(self, folder: Path) -> Page:
        """Return the report of the finished run in ``folder``; errors as for `open`."""
        name = folder.resolve().name
        return self.open(folder, lambda run: build_page(self, run, provenance.read_provenance(folder), name))

    def render_again(self, folder: Path, to: Path | None = None) -> Path:
        """Write the report of the finished run in ``folder`` again, and return its path.

        Args:
            folder: the run directory.
            to: file to write; ``report.html`` in the directory when None.

        Raises:
            divulge.InputError: as for `open`; another process is writing there.
        """
        if to is not None:
            html.write(self.load_page(folder), to)
            return to
        with RunDirectory(folder).changing(self.name) as draft:
            html.write(self.load_page(folder), draft.path / REPORT_FILE)
        return folder / REPORT_FILE

    def load_records(self, folder: Path) -> pl.DataFrame:
        """Return one row per record of the finished run in ``folder``.

        Raises:
            divulge.InputError: as for `open`; this kind of run keeps no records.
        """
        if self.records is None:
            raise InputError(f"{folder}: a run of kind {self.name!r} keeps no records, so it is no table")
        return self.records(folder)


_COLUMNS = "columns"  # of the input, for lists of records


def write_input_columns(draft: RunDraft, columns: InputColumns | None) -> None:
    """Store what input tables say of the records that the run lists, so that its lists say it, too."""
    if columns is not None:
        draft.write_table(_COLUMNS, columns.frame)
        draft.write_json(_COLUMNS, dict(columns.dialect))


def write_columns_of_sets(
    draft: RunDraft, key: str, ids: Mapping[Any, Array], files: Mapping[str, Sequence[Path]] | None = None
) -> None:
    """Store what input tables say of members and non-members; see `write_input_columns`.

    Args:
        draft: the run.
        key: the column that tells both in its list.
        ids: value of that column for members, and for non-members → their ids.
        files: of "members" and "nonmembers"; by default those that the command declared.
    """
    found = {}
    for role, (value, set_ids) in zip(("members", "nonmembers"), ids.items(), strict=True):
        paths = provenance.list_declared_files(role) if files is None else files.get(role, ())
        columns = tables.read_input_columns(paths, {str(each) for each in set_ids.tolist()}, without=("text",))
        if columns is not None:
            found[role] = replace(columns, frame=columns.frame.with_columns(pl.lit(value).alias(key)))
    if found:
        frame = pl.concat([columns.frame for columns in found.values()], how="diagonal")
        write_input_columns(draft, replace(next(iter(found.values())), frame=frame))


def read_input_columns(*folders: Path) -> InputColumns | None:
    """Return what `write_input_columns` stored in the first of ``folders`` that has it; None if none has.

    Raises:
        divulge.InputError: a damaged file.
    """
    folder = next((folder for folder in folders if os.path.lexists(folder / f"{_COLUMNS}.json")), None)
    if folder is None:
        return None
    path = folder / f"{_COLUMNS}.json"
    dialect = store.read_json(path, inside=folder)
    if (
        not isinstance(dialect, dict)
        or dialect.get("separator") not in tables.SEPARATORS
        or not isinstance(dialect.get("decimal_comma"), bool)
        or len(dialect) != 2
    ):
        raise InputError(f"{path}: damaged: a separator and decimal_comma are needed")
    frame = tables.read_parquet(path.with_suffix(".parquet"))
    of_sets = [name for name in ("id", "member", "set") if name in frame.columns]
    if frame.schema.get("id") != pl.String or frame.select(of_sets).is_duplicated().any():
        raise InputError(f"{path.with_suffix('.parquet')}: damaged: a row for each id is needed")
    return InputColumns(frame, dialect)


def build_page(run_kind: RunKind[RunT], run: RunT, origin: Provenance | None = None, name: str = "") -> Page:
    """Return the page of a run: its headline and facts, its sections, its warnings, and where it comes from.

    Args:
        run_kind: of the run.
        run: what the page shows.
        origin: when, by which command and from which files it was made; None where that was not recorded.
        name: of the run directory, for the head; empty where there is none.
    """
    headline, recorded = run_kind.headline(run), run_kind.origin(run)
    notes = [Paragraph(formatting.as_sentence(note)) for note in run_kind.warnings(run)]
    sections = [
        *run_kind.sections(run),
        Section(WARNINGS_TITLE, notes),
        provenance_section(origin, recorded.facts, recorded.details),
    ]
    return Page(
        title=run_kind.title,
        verdict=headline.text,
        tone=headline.tone,
        sections=[section for section in sections if section.blocks],
        facts=_name_model_and_run(run_kind.facts(run), origin, name) | date_fact(origin),
        heading=headline.heading,
        pictures=headline.pictures,
        details=headline.details,
    )


_MODEL_ROLES = ("model", "target", "after", "released")  # of files, whichever is first


def _name_model_and_run(facts: Mapping[str, str], origin: Provenance | None, name: str) -> dict[str, str]:
    """Return the facts of a head after what was examined, with the name of its file, and the name of the run."""
    files = {} if origin is None else {source.role: source.name for source in origin.sources}
    file = next((files[role] for role in _MODEL_ROLES if role in files), "")
    kind = "release" if file and file == files.get("released") else "model"
    examined = facts.get(kind, "")
    if file and file not in examined:
        examined = f"{examined} ({file})" if examined else file
    head = {kind: examined} if examined else {}
    return head | ({"run": name} if name else {}) | {key: text for key, text in facts.items() if key != kind}


def write_report(
    run_kind: RunKind[RunT],
    run: RunT,
    path: Path,
    files: Mapping[str, Sequence[Path]] | None = None,
    *,
    show_records: bool = True,
) -> None:
    """Write the report of work that has just been done to ``path``, one HTML file.

    Args:
        run_kind: of the run.
        run: what the page shows.
        path: the file.
        files: role → files that were read; by default those that the command declared.
        show_records: False to leave out whatever shows or names single records.
    """
    page = build_page(run_kind, run, provenance.collect_provenance(files))
    html.write(page if show_records else hide_records(page), path)


def write_run(
    draft: RunDraft,
    run_kind: RunKind[RunT],
    run: RunT,
    files: Mapping[str, Sequence[Path]] | None = None,
    *,
    origin: Provenance | None = None,
) -> None:
    """Write ``summary.json``, ``provenance.json`` and ``report.html`` of a run into its draft.

    Args:
        draft: of the run directory.
        run_kind: of the run.
        run: what the page shows.
        files: role → files that were read; by default those that the command declared.
        origin: the provenance, where it stands in the directory already.
    """
    results.write_summary(draft, run.summary)
    page = build_page(run_kind, run, origin or provenance.write_provenance(draft, files), draft.home.name)
    html.write(page, draft.path / REPORT_FILE)
