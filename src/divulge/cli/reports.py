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

    from divulge import auditing, checks, dossier, identification, results, store
    from divulge.auditing import records_table
    from divulge.identification import table_results
    from divulge.report import html, markdown, pdf
    from divulge.report.page import Page
    from divulge.results import provenance
else:
    auditing = lazy.module("divulge.auditing")
    checks = lazy.module("divulge.checks")
    dossier = lazy.module("divulge.dossier")
    html = lazy.module("divulge.report.html")
    identification = lazy.module("divulge.identification")
    markdown = lazy.module("divulge.report.markdown")
    pdf = lazy.module("divulge.report.pdf")
    provenance = lazy.module("divulge.results.provenance")
    records_table = lazy.module("divulge.auditing.records_table")
    results = lazy.module("divulge.results")
    store = lazy.module("divulge.store")
    table_results = lazy.module("divulge.identification.table_results")

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
    name = checks.choice(format, "--format", _NAMES)
    path = _page_in_place(run, to) if name == "html" else _written(run, name, to or run / _NAMES[name])
    printing.as_json({"report": str(path)}) if json else printing.line(f"Report: {path}")


def _page_in_place(run: Path, to: Path | None) -> Path:
    if _identified(run):
        return identification.report(run, to)
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


def _identified(run: Path) -> bool:
    return dossier.Dossier(run).kind() == "identification"


def _page(run: Path) -> Page:
    return table_results.page(run) if _identified(run) else auditing.load(run).page()


def _pdf(run: Path, path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="divulge-report-") as folder:
        document = Path(folder) / "report.html"
        html.write(_page(run), document)
        pdf.write(document, path)


def _results(run: Path) -> dict[str, Any]:
    """All of the summary, and where the run comes from."""
    made = provenance.read(run)
    summary = table_results.summary(run) if _identified(run) else auditing.load(run).summary()
    return {"provenance": None if made is None else results.plain(made), "results": results.plain(summary)}


def _records(run: Path, path: Path, kind: str) -> None:
    if _identified(run):
        raise InputError("--format: selection.parquet in the run directory has one row per document already")
    frame = records_table.table(auditing.load(run))
    with store.atomic(path) as temporary:
        if kind == "csv":
            records_table.for_spreadsheets(frame).write_csv(temporary)
        else:
            frame.write_parquet(temporary)
