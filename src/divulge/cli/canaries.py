"""`divulge canaries`: does a claim of differential privacy hold?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import lazy
from divulge.cli import options, printing
from divulge.cli.exit_codes import Exit
from divulge.errors import InputError

if TYPE_CHECKING:
    from divulge import canaries as game
    from divulge import datafiles, evaluation, results, targets, validation
    from divulge.canaries import canary_page
    from divulge.evaluation.families import Families
    from divulge.report import formatting
    from divulge.results import provenance
else:
    validation = lazy.module("divulge.validation")
    canary_page = lazy.module("divulge.canaries.canary_page")
    datafiles = lazy.module("divulge.datafiles")
    evaluation = lazy.module("divulge.evaluation")
    game = lazy.module("divulge.canaries")
    formatting = lazy.module("divulge.report.formatting")
    provenance = lazy.module("divulge.results.provenance")
    results = lazy.module("divulge.results")
    targets = lazy.module("divulge.targets")

app = typer.Typer(help="Canaries: does a claim of differential privacy hold?", no_args_is_help=True)

Epsilon = Annotated[float | None, typer.Option("--claim-epsilon", help="The ε that is claimed.")]
Family = Annotated[
    str | None,
    typer.Option(help="Assume the training to be: gaussian, or subsampled:RATE:STEPS (as accountants see DP-SGD)."),
]
Sides = Annotated[str, typer.Option(help="Guess canaries to be in and out (both), or in only (in).")]
Confidence = Annotated[float, typer.Option(help="Of the bound on ε.")]


@app.command()
@options.unfold
def make(
    columns: options.RecordColumns,
    data: Annotated[Path, typer.Option(help="The training set, or records like it: .npz, .parquet, .csv.")],
    out: Annotated[Path, typer.Option(help="Folder to write: insert.npz, and secret/ to keep to yourself.")],
    kind: Annotated[
        str, typer.Option(help="mislabelled, far, shuffled, random, blank; random-token or unigram for documents.")
    ] = "mislabelled",
    count: Annotated[int, typer.Option(help="Number of canaries.")] = 1000,
    design: Annotated[str, typer.Option(help="coins (each by its own coin) or fixed (half of them).")] = "coins",
    own: Annotated[Path | None, typer.Option(help="Canaries of your own, in a file like --data.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of canaries and coins; drawn from entropy by default.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace canaries in --out.")] = False,
) -> None:
    """Make canaries: what to add to a training set, and what to keep."""
    layout = datafiles.FileLayout.from_column_names(columns.names())
    given = None if own is None else datafiles.read_records(own, layout).records
    made = game.make(
        datafiles.read_records(data, layout).records,
        kind=kind,
        count=count,
        design=design,
        own=given,
        seed=seed,
        out=out,
        overwrite=overwrite,
    )
    printing.line(f"{len(made)} canaries, {int(made.included.sum())} of them in {out / 'insert.npz'}.")
    printing.line("Add these to the training set and train as always.")
    printing.line(f"Keep {out / 'secret'} from whoever trains: it says which canaries were included.")


@app.command()
@options.unfold
def audit(
    columns: options.RecordColumns,
    model: Annotated[str, typer.Argument(help="The trained model: a file, or module:callable.")],
    canaries: Annotated[Path, typer.Option(help="The folder that `divulge canaries make` wrote.")],
    claim_epsilon: Epsilon = None,
    delta: Annotated[float, typer.Option(help="The δ that is claimed.")] = 0.0,
    factory: Annotated[str | None, typer.Option(help="module:callable that builds the empty network.")] = None,
    recipe: Annotated[str, typer.Option(help="How canaries are scored; `divulge list` shows the recipes.")] = "loss",
    population: Annotated[Path | None, typer.Option(help="Other records, for recipes that learn from them.")] = None,
    training: Annotated[Path | None, typer.Option(help="The training set, to be searched for canaries.")] = None,
    family: Family = None,
    sides: Sides = "both",
    confidence: Confidence = 0.95,
    outputs: Annotated[str, typer.Option(help="logits or probabilities.")] = "logits",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    seed: Annotated[int, typer.Option(help="Of every random draw.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Run directory to write, with the report.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished run in --out.")] = False,
    json: printing.Json = False,
) -> None:
    """What a trained model gives away of its canaries, and whether that contradicts a claim.

    The exit code is 1 where it does, and 3 where these canaries cannot test the claim.
    """
    layout = datafiles.FileLayout.from_column_names(columns.names())
    validation.check_choice(outputs, "--outputs", ("logits", "probabilities"))
    planted = game.Canaries.load(canaries)
    if claim_epsilon is None and delta:
        raise InputError("--delta: it belongs to a claim; give --claim-epsilon, too")
    claim = None if claim_epsilon is None else game.Claim(claim_epsilon, delta)
    provenance.declare_input_files(model=model, canaries=canaries, population=population, training=training)
    chosen: Any = {"outputs": outputs, "device": device}
    result = game.audit(
        targets.load(model, factory=factory, folder=Path(), **chosen),
        planted,
        claim=claim,
        recipe=recipe,
        population=None if population is None else datafiles.read_records(population, layout).records,
        training=None if training is None else datafiles.read_records(training, layout).records,
        family=_family(family),
        sides=sides,
        confidence=confidence,
        seed=seed,
        out=out,
        overwrite=overwrite,
        **chosen,
    )
    summary = result.summary()
    if json:
        printing.as_json(results.to_json_values(summary))
    else:
        printing.verdict(summary.tone, summary.verdict)
        rows = [["what decides", formatting.format_lower_bound(summary.bound.low), summary.bound.method]]
        rows += [
            [name, formatting.format_lower_bound(bound.low), bound.method] for name, bound in summary.others.items()
        ]
        printing.table("Bounds", ["bound", "ε ≥", "how"], rows)
        for name, value in canary_page.facts(summary).items():
            printing.line(f"{name}: {value}")
        for note in summary.warnings:
            printing.line(note)
    if code := {"violated": Exit.BROKEN, "not testable": Exit.UNDECIDED}.get(summary.answer):
        raise typer.Exit(code)


@app.command()
def plan(
    claim_epsilon: Annotated[float, typer.Option("--claim-epsilon", help="The ε that is claimed.")],
    true_epsilon: Annotated[float, typer.Option("--true-epsilon", help="The ε that is to be found if it is there.")],
    delta: Annotated[float, typer.Option(help="The δ of both.")] = 1e-5,
    power: Annotated[float, typer.Option(help="Probability of finding it.")] = 0.8,
    family: Family = None,
    sides: Sides = "both",
    confidence: Confidence = 0.95,
) -> None:
    """How many canaries find that a claim is violated."""
    if true_epsilon <= claim_epsilon:
        raise InputError(f"--true-epsilon: must be above --claim-epsilon ({claim_epsilon:g}), got {true_epsilon:g}")
    needed = evaluation.canaries_needed(
        claim_epsilon,
        true_epsilon,
        delta,
        power=power,
        confidence=confidence,
        family=_family(family),
        sides=sides,
    )
    if needed is None:
        printing.line("A million canaries would not do; assume a family (--family gaussian), or expect a larger ε.")
        return
    printing.line(
        f"{needed.canaries} canaries find a Gaussian mechanism of ε = {true_epsilon:g} with probability "
        f"{needed.power:.2f} (from {needed.guesses} guesses)."
    )


def _family(text: str | None) -> Families | str | None:
    if text is None or not text.strip().lower().startswith("subsampled"):
        return text
    try:
        _, rate, steps = text.split(":")
        numbers = float(rate), int(steps)
    except ValueError:
        raise InputError(f"--family: subsampled:RATE:STEPS is needed (subsampled:0.01:1000), got {text!r}") from None
    return evaluation.SubsampledGaussian(*numbers)
