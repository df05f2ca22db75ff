"""`divulge report`: a finished run as a page, on paper, for a model card, or as data."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import lazy
from divulge.cli import printing
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge import auditing, identification, results, run_directory, store, tables, validation
    from divulge.auditing import result as audit_result
    from divulge.canaries import canary_audit
    from divulge.extraction import result as extraction_result
    from divulge.identification import finished_run, from_tables
    from divulge.report import html, markdown
    from divulge.report.page import Page
    from divulge.results import provenance
else:
    validation = lazy.module("divulge.validation")
    canary_audit = lazy.module("divulge.canaries.canary_audit")
    extraction_result = lazy.module("divulge.extraction.result")
    auditing = lazy.module("divulge.auditing")
    run_directory = lazy.module("divulge.run_directory")
    html = lazy.module("divulge.report.html")
    identification = lazy.module("divulge.identification")
    markdown = lazy.module("divulge.report.markdown")
    provenance = lazy.module("divulge.results.provenance")
    audit_result = lazy.module("divulge.auditing.result")
    results = lazy.module("divulge.results")
    store = lazy.module("divulge.store")
    tables = lazy.module("divulge.tables")
    finished_run = lazy.module("divulge.identification.finished_run")
    from_tables = lazy.module("divulge.identification.from_tables")

_OTHERS = ("extraction", "canary-audit")
_NAMES = {
    "html": "report.html",
    "pdf": "report.pdf",
    "md": "model_card.md",
    "json": "attack_results.json",
    "csv": "records.csv",
    "parquet": "records.parquet",
}


def report(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    to: Annotated[Path | None, typer.Option(help="File to write (default: in the run directory).")] = None,
    format: Annotated[  # noqa: A002  the option's name
        str,
        typer.Option(help="html, pdf, md (for a model card), json, or one row per record: csv, parquet."),
    ] = "html",
    json: printing.Json = False,
) -> None:
    """Render the report of a finished run again, in another format if one is named."""
    name = validation.check_choice(format, "--format", _NAMES)
    path = _page_in_place(run, to) if name == "html" else _written(run, name, to or run / _NAMES[name])
    printing.as_json({"report": str(path)}) if json else printing.line(f"Report: {path}")


def _page_in_place(run: Path, to: Path | None) -> Path:
    kind = run_directory.RunDirectory(run).kind()
    if kind == "identification":
        return identification.report(run, to)
    if kind in _OTHERS:
        made = _page(run)
        if to is not None:
            html.write(made, to)
            return to
        with run_directory.RunDirectory(run).changing(kind) as draft:
            html.write(made, draft.path / _NAMES["html"])
        return run / _NAMES["html"]
    return auditing.rerender(run) if to is None else auditing.load(run).report(to)


def _written(run: Path, name: str, path: Path) -> Path:
    writers: dict[str, Callable[[Path, Path], object]] = {
        "pdf": _pdf,
        "md": lambda run, path: store.write_text(path, markdown.card(_page(run))),
        "json": lambda run, path: store.write_json(path, _results(run)),
        "csv": lambda run, path: _records(run, path, "csv"),
        "parquet": lambda run, path: _records(run, path, "parquet"),
    }
    writers[name](run, path)
    return path


def _page(run: Path) -> Page:
    pages: dict[str, Callable[[Path], Page]] = {
        "identification": lambda run: from_tables.report_page(run),
        "extraction": lambda run: extraction_result.report_page(run),
        "canary-audit": lambda run: canary_audit.report_page(run),
    }
    return pages.get(run_directory.RunDirectory(run).kind(), lambda run: auditing.load(run).page())(run)


def _pdf(run: Path, path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="divulge-report-") as folder:
        document = Path(folder) / "report.html"
        html.write(_page(run), document)
        html.write_pdf(document, path)


def _results(run: Path) -> dict[str, Any]:
    """All of the summary, and where the run comes from."""
    made = provenance.read_provenance(run)
    summaries: dict[str, Callable[[], Any]] = {
        "identification": lambda: finished_run.load_summary(run),
        "extraction": lambda: extraction_result.load_summary(run),
        "canary-audit": lambda: canary_audit.load_summary(run),
    }
    summary = summaries.get(run_directory.RunDirectory(run).kind(), lambda: auditing.load(run).summary())()
    return {
        "provenance": None if made is None else results.to_json_values(made),
        "results": results.to_json_values(summary),
    }


def _records(run: Path, path: Path, kind: str) -> None:
    ran = run_directory.RunDirectory(run).kind()
    if ran == "identification":
        raise InputError("--format: selection.parquet in the run directory has one row per document already")
    if ran == "canary-audit":
        raise InputError("--format: scores.npz in the run directory has the score of every canary already")
    frame = (
        extraction_result.load_documents(run) if ran == "extraction" else audit_result.records_table(auditing.load(run))
    )
    if kind == "csv":
        store.write_file(path, lambda out: tables.write_csv(audit_result.escape_formulas(frame), out))
    else:
        store.write_file(path, lambda out: tables.write_parquet(frame, out))
