"""`divulge weights`: what the weights of a shallow ReLU network, of a frozen body's head, or of a regression prove."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divulge import datafiles, provenance, published_fits, reconstruction, results, targets
from divulge import margin as margins
from divulge import reconstruction as reconstruction_summary
from divulge.auditing import weights as weights_audit
from divulge.cli import options, printing
from divulge.errors import InputError
from divulge.report import run_kinds, weights_page
from divulge.settings import CohortSettings, ColumnNames, WeightsSettings
from divulge.signals import margin as signals

if TYPE_CHECKING:
    from divulge.published_fits import CohortExamination
    from divulge.results import WeightsSummary

_N_SHOWN = 20  # records called members
Model = Annotated[
    Path,
    typer.Argument(
        help="safetensors file: one hidden ReLU layer without an output bias, or the linear head of a frozen body; "
        "with --cohort a regression, .skops or a .csv of names and coefficients."
    ),
]


@options.from_settings
def weights(
    *,
    model: Model,
    candidates: Annotated[
        Path | None,
        typer.Option(
            help=".npz with x (n rows of d), and y (labels), ids and member (bool) where known; or a table with "
            "columns of numbers in the order of the network's inputs, and label, id and member. Without it, training "
            "points of a network of one input are read off its weights."
        ),
    ] = None,
    nonmembers: Annotated[
        Path | None, typer.Option(help="A file like it, of records known not to be in the training set.")
    ] = None,
    factory: Annotated[
        str | None,
        typer.Option(
            help="module:callable that builds the torch module of the file; where the parameters of its body are "
            "frozen (requires_grad is False), its head is read on the features of the body."
        ),
    ] = None,
    cohort: Annotated[
        list[Path] | None,
        typer.Option(
            help="A table of records, one of up to 12: which of them was this regression fitted on? May be repeated."
        ),
    ] = None,
    settings: Annotated[WeightsSettings, ("margin", "fpr", "fdr")],
    cohort_settings: Annotated[CohortSettings, ("family", "penalty", "scaled", "gradient")],
    columns: Annotated[ColumnNames, ("label", "id", "drop")],
    out: Annotated[
        Path | None, typer.Option(help="Report (HTML) to write; with --cohort also a run directory, if not .html.")
    ] = None,
    overwrite: options.Overwrite = False,
    selection: Annotated[
        Path | None, typer.Option(help="Every candidate with its id, output, score and decisions (Parquet) to write.")
    ] = None,
    show_records: options.ShowRecords = True,
    json: options.Json = False,
) -> None:
    """Which candidates, points or cohorts was this model trained on? Read it off the weights.

    The exit code is 0 whatever is found: divulge gate holds a run of --cohort to limits.
    """
    if cohort:
        _refuse(
            "it goes without --cohort",
            candidates=candidates, nonmembers=nonmembers, factory=factory, selection=selection,
        )  # fmt: skip
        _examine_cohorts(
            model, cohort, cohort_settings, columns, out, overwrite=overwrite, show_records=show_records, json=json
        )
        return
    if overwrite:
        raise InputError("--overwrite: it goes with --cohort, and an --out that is a folder")
    if cohort_settings != CohortSettings():
        raise InputError("--cohort: is needed beside settings of a regression")
    if candidates is None:
        _refuse("it goes with --candidates", nonmembers=nonmembers, selection=selection, factory=factory)
        _reconstruct(model, settings.margin, out, show_records=show_records, json=json)
        return
    net, inputs = signals.trained_network(
        margins.read_network(model)
        if factory is None
        else targets.load(str(model), factory=factory, folder=Path(), device="cpu")
    )
    layout = datafiles.FileLayout.from_column_names(columns)
    rows = datafiles.read_named_rows(candidates, layout)
    nonmember_rows = None
    if nonmembers is not None:
        nonmember_rows = datafiles.read_named_rows(nonmembers, layout, rows.columns)
        nonmember_rows = replace(nonmember_rows, x=inputs(nonmember_rows.x))
    rows = replace(rows, x=inputs(rows.x))
    examined = weights_audit.examine_weights(
        net, rows, weights_audit.ExaminationRules(**dict(settings)), nonmembers=nonmember_rows
    )
    summary = examined.summary()
    if out is not None:
        shape = {"width": str(net.width)} if net.width else {"layer": "linear head"}
        classes = {"classes": str(summary.classes)} if summary.classes > 1 else {}
        network = {"model": model.name, **shape, "inputs": str(net.dimension), **classes}
        run = weights_page.WeightsRun(summary, network, examined.truth, examined.calibration, examined.accuracy)
        files = _input_files(model=model, candidates=candidates, nonmembers=nonmembers)
        run_kinds.write_report(weights_page.WEIGHTS, run, out, files, show_records=show_records)
    if selection is not None:
        examined.write(selection)
    if json:
        printing.as_json(results.to_json_values(summary))
        return
    _show(summary)
    if out is not None:
        printing.line(f"Report: {out}")


def _examine_cohorts(
    model: Path,
    cohort: list[Path],
    settings: CohortSettings,
    columns: ColumnNames,
    out: Path | None,
    *,
    overwrite: bool,
    show_records: bool,
    json: bool,
) -> None:
    """Say on which cohorts a regression was fitted."""
    provenance.declare_input_files(model=model, **{f"cohort {place}": path for place, path in enumerate(cohort, 1)})
    published, names, classes = published_fits.read_publication(model, settings)
    layout = datafiles.FileLayout.from_column_names(columns)
    data = published_fits.read_cohorts(cohort, published, names, classes, layout)
    is_page = out is not None and out.suffix == ".html"
    found = published_fits.examine_cohorts(
        published, data, columns=names, model=model.name, show_records=show_records,
        out=None if is_page else out, overwrite=overwrite,
    )  # fmt: skip
    if is_page:
        found.report(out)
    _show_cohorts(found, out if out is None or is_page else out / run_kinds.REPORT_FILE, json=json)


def _show_cohorts(result: CohortExamination, report: Path | None, *, json: bool) -> None:
    """Print which cohorts a regression was fitted on."""
    summary = result.summary()
    if json:
        printing.as_json(results.to_json_values(summary))
        return
    printing.verdict(summary.tone, summary.verdict)
    printing.table("Subsets", published_fits.SUBSET_COLUMNS, published_fits.subset_rows(summary))
    if summary.odd_record is not None and summary.odd_record.values is not None:
        printing.table("The record", *published_fits.odd_record_table(summary.odd_record))
    for assumption in summary.assumes:
        printing.line(f"assumed: {assumption}")
    if report is not None:
        printing.line(f"Report: {report}")


def _show(summary: WeightsSummary) -> None:
    """Print verdict, decisions and the records that are called members."""
    printing.verdict(summary.tone, summary.verdict)
    if decisions := weights_page.decision_rows(summary):
        printing.table(f"{summary.candidates} candidates", ["rule", "called members", "claim"], decisions)
    if called_rows := weights_page.called_rows(summary):
        printing.table("Called members", weights_page.called_columns(summary), called_rows[:_N_SHOWN])
    if len(called_rows) > _N_SHOWN:
        printing.line(f"and {len(called_rows) - _N_SHOWN} more; --selection writes them all")
    for name, rule in summary.decisions.items():
        for warning in rule.warnings:
            printing.line(f"{name}: {warning}")


def _reconstruct(model: Path, margin: float | None, out: Path | None, *, show_records: bool, json: bool) -> None:
    """Print training points of a network of one input, read off its weights."""
    net = margins.ShallowReLU.from_safetensors(model)
    recorded_margin = margins.read_margin(model) if margin is None else None
    read = reconstruction.univariate(
        net, recorded_margin if margin is None else margin, is_recorded=recorded_margin is not None
    )
    summary = reconstruction_summary.summarise(read)
    if out is not None:
        network = {"model": model.name, "width": str(net.width), "margin": f"{summary.margin:g}"}
        run = weights_page.ReconstructionRun(summary, net, network, None)
        files = _input_files(model=model)
        run_kinds.write_report(weights_page.RECONSTRUCTION, run, out, files, show_records=show_records)
    if json:
        printing.as_json(results.to_json_values(summary))
        return
    printing.verdict(summary.tone, summary.verdict)
    printing.table("Candidates", weights_page.CANDIDATE_COLUMNS, weights_page.candidate_rows(summary))
    if out is not None:
        printing.line(f"Report: {out}")


def _refuse(reason: str, **values: object) -> None:
    """Raise for the first option that was given and does not apply."""
    for name, value in values.items():
        if value is not None:
            raise InputError(f"--{name}: {reason}")


def _input_files(**named: Path | None) -> dict[str, list[Path]]:
    return {role: [path] for role, path in named.items() if path is not None}
