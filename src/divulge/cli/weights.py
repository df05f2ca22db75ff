"""`divulge weights` and `divulge reconstruct`: what the weights of a shallow ReLU network prove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import lazy
from divulge.cli import printing

if TYPE_CHECKING:
    from divulge import datafiles, reconstruction, results, validation
    from divulge import margin as margins
    from divulge.auditing import weights as weights_audit
    from divulge.reconstruction import summary as reconstruction_summary
    from divulge.report import run_kinds, weights_page
else:
    validation = lazy.module("divulge.validation")
    datafiles = lazy.module("divulge.datafiles")
    run_kinds = lazy.module("divulge.report.run_kinds")
    margins = lazy.module("divulge.margin")
    reconstruction = lazy.module("divulge.reconstruction")
    reconstruction_summary = lazy.module("divulge.reconstruction.summary")
    results = lazy.module("divulge.results")
    weights_audit = lazy.module("divulge.auditing.weights")
    weights_page = lazy.module("divulge.report.weights_page")

_SHOWN = 20
Model = Annotated[Path, typer.Argument(help="safetensors file: one hidden ReLU layer, no output bias.")]


def weights(
    model: Model,
    candidates: Annotated[
        Path, typer.Option(help=".npz with x (n rows of d), and y (labels), ids and member (bool) where known.")
    ],
    nonmembers: Annotated[
        Path | None, typer.Option(help=".npz like it, of records known not to be in the training set.")
    ] = None,
    margin: Annotated[float | None, typer.Option(help="Margin of the training set, if known.")] = None,
    leaked: Annotated[Path | None, typer.Option(help=".npz of records, one of which was trained on.")] = None,
    band: Annotated[float, typer.Option(help="Half-width of the margin band (0.1 if training stopped early).")] = 0.01,
    signal: Annotated[str, typer.Option(help="Score to decide on: kkt-nnls, margin-abs or margin-band.")] = "kkt-nnls",
    fpr: Annotated[float, typer.Option(help="Bound on the false-positive rate.")] = 0.01,
    fdr: Annotated[float, typer.Option(help="Bound on the share of non-members among the selected.")] = 0.05,
    out: Annotated[Path | None, typer.Option(help="Report (HTML) to write.")] = None,
    selection: Annotated[
        Path | None, typer.Option(help="Every candidate with its id, output, score and decisions (Parquet) to write.")
    ] = None,
    json: printing.Json = False,
) -> None:
    """Which candidates was this network trained on? Read it off the weights."""
    validation.check_choice(signal, "--signal", weights_audit.SIGNALS)
    net = margins.ShallowReLU.from_safetensors(model)
    examined = weights_audit.examine_weights(
        net,
        datafiles.read_named_rows(candidates),
        weights_audit.ExaminationRules(margin=margin, band=band, signal=signal, fpr=fpr, fdr=fdr),
        nonmembers=None if nonmembers is None else datafiles.read_named_rows(nonmembers),
        leaked=None if leaked is None else datafiles.read_named_rows(leaked),
    )
    summary = examined.summary()
    if out is not None:
        network = {"model": model.name, "width": str(net.width), "inputs": str(net.dimension)}
        run = weights_page.WeightsRun(summary, network, examined.truth, examined.calibration, examined.accuracy)
        files = _files(model=model, candidates=candidates, nonmembers=nonmembers, leaked=leaked)
        run_kinds.write_report(weights_page.WEIGHTS, run, out, files)
    if selection is not None:
        examined.write(selection)
    if json:
        printing.as_json(results.to_json_values(summary))
        return
    printing.verdict(summary.tone, summary.verdict)
    if rows := weights_page.decision_rows(summary):
        printing.table(f"{summary.candidates} candidates", ["rule", "called members", "claim"], rows)
    if called := weights_page.called_rows(summary):
        printing.table("Called members", ["record", "|Φ|", summary.signal, "rules"], called[:_SHOWN])
    if len(called) > _SHOWN:
        printing.line(f"and {len(called) - _SHOWN} more; --selection writes them all")
    for name, rule in summary.decisions.items():
        for warning in rule.warnings:
            printing.line(f"{name}: {warning}")
    _written(out)


def reconstruct(
    model: Model,
    margin: Annotated[float | None, typer.Option(help="Margin of the training set.")] = None,
    algorithm: Annotated[str, typer.Option(help="both, 1, 2 or crossings.")] = "both",
    truth: Annotated[Path | None, typer.Option(help=".npz with the training points x, to compare.")] = None,
    out: Annotated[Path | None, typer.Option(help="Report (HTML) to write.")] = None,
    json: printing.Json = False,
) -> None:
    """Training points of a network of one input, read off its weights."""
    net = margins.ShallowReLU.from_safetensors(model)
    rules: dict[str, Any] = {"both": "both", "crossings": "crossings", "1": 1, "2": 2}
    rule = rules[validation.check_choice(algorithm, "--algorithm", rules)]
    summary = reconstruction_summary.summarise(reconstruction.univariate(net, margin=margin, algorithm=rule))
    if out is not None:
        network = {"model": model.name, "width": str(net.width), "margin": f"{summary.margin:g}"}
        known = None if truth is None else datafiles.read_named_rows(truth).x.ravel()
        run = weights_page.ReconstructionRun(summary, net, network, known)
        run_kinds.write_report(weights_page.RECONSTRUCTION, run, out, _files(model=model, truth=truth))
    if json:
        printing.as_json(results.to_json_values(summary))
        return
    printing.verdict(summary.tone, summary.verdict)
    printing.table("Candidates", weights_page.CANDIDATE_COLUMNS, weights_page.candidate_rows(summary))
    _written(out)


def _written(report: Path | None) -> None:
    if report is not None:
        printing.line(f"Report: {report}")


def _files(**named: Path | None) -> dict[str, list[Path]]:
    return {role: [path] for role, path in named.items() if path is not None}
