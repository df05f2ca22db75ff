"""`divulge report`: a finished run as a page, on paper, for a model card, or as data."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divulge import lazy
from divulge.cli import printing

if TYPE_CHECKING:
    from divulge import results, runs, store, tables, validation
    from divulge.auditing import result as audit_result
    from divulge.report import html, markdown
    from divulge.results import provenance
else:
    validation = lazy.module("divulge.validation")
    html = lazy.module("divulge.report.html")
    markdown = lazy.module("divulge.report.markdown")
    provenance = lazy.module("divulge.results.provenance")
    audit_result = lazy.module("divulge.auditing.result")
    results = lazy.module("divulge.results")
    runs = lazy.module("divulge.runs")
    store = lazy.module("divulge.store")
    tables = lazy.module("divulge.tables")

_FILE_NAMES = {
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
    name = validation.check_choice(format, "--format", _FILE_NAMES)
    kind, path = runs.find_kind(run), to or run / _FILE_NAMES[name]
    match name:
        case "html":
            kind.render_again(run, to)
        case "pdf":
            with tempfile.TemporaryDirectory(prefix="divulge-report-") as folder:
                document = Path(folder) / "report.html"
                html.write(kind.load_page(run), document)
                html.write_pdf(document, path)
        case "md":
            store.write_text(path, markdown.card(kind.load_page(run)))
        case "json":
            origin = provenance.read_provenance(run)
            store.write_json(
                path,
                {
                    "provenance": None if origin is None else results.to_json_values(origin),
                    "results": results.to_json_values(kind.open(run, lambda opened: opened.summary)),
                },
            )
        case "csv":
            frame = audit_result.escape_formulas(kind.load_records(run))
            store.write_file(path, lambda out: tables.write_csv(frame, out))
        case "parquet":
            frame = kind.load_records(run)
            store.write_file(path, lambda out: tables.write_parquet(frame, out))
    printing.as_json({"report": str(path)}) if json else printing.line(f"Report: {path}")
