"""`divulge canaries`: does a claim of differential privacy hold?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import canaries as canary_audits
from divulge import datafiles, evaluation, provenance, results, targets
from divulge import plan as plan_files
from divulge.canaries import canary_page, canary_records, label_coins
from divulge.cli import options, printing
from divulge.cli.plans import list_input_files
from divulge.cli.printing import Exit
from divulge.errors import InputError
from divulge.report import formatting
from divulge.settings import CanaryPlanSettings, CanarySettings
from divulge.targets import estimators

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.evaluation.families import Families
    from divulge.results import CanarySummary, EpsilonLowerBound, LabelPrivacySummary

app = typer.Typer(
    cls=options.Group,
    add_completion=False,
    help="Canaries: does a claim of differential privacy hold?",
    no_args_is_help=True,
)

Family = Annotated[
    str | None,
    typer.Option(help="Assume the training to be: gaussian, or subsampled:RATE:STEPS (as accountants see DP-SGD)."),
]


@app.command(cls=options.subcommand("canaries make"))
@options.from_settings
def make(
    *,
    data: Annotated[Path, typer.Option(help="The training set, or records like it: a table, .npz.")],
    out: Annotated[Path, typer.Option(help="Folder to write: what to insert, and secret/ to keep.")],
    settings: Annotated[CanarySettings, ("kind", "count", "seed")],
    columns: options.RecordColumns,
    overwrite: options.Overwrite = False,
) -> None:
    """Make canaries: what to add to a training set, and what to keep."""
    layout = datafiles.FileLayout.from_column_names(columns)
    canaries = canary_records.make_from_file(data, layout, out=out, overwrite=overwrite, **dict(settings))
    insert = out / f"insert{'.npz' if canaries.rows is None else canaries.rows.file.ending}"
    printing.line(f"{len(canaries)} canaries, {int(canaries.included.sum())} of them in {insert}.")
    printing.line("Add these to the training set and train as always.")
    printing.line(f"Keep {out / 'secret'} from whoever trains: it says which canaries were included.")


@app.command(cls=options.subcommand("canaries audit"))
@options.from_settings
def audit(
    *,
    model: Annotated[str, typer.Argument(help="The trained model: a file, or module:callable.")],
    canaries: Annotated[Path, typer.Option(help="The folder that `divulge canaries make` wrote.")],
    claim_epsilon: Annotated[float | None, typer.Option(help="The ε that is claimed.")] = None,
    delta: Annotated[float, typer.Option(help="The δ that is claimed.")] = 0.0,
    factory: Annotated[str | None, typer.Option(help="module:callable that builds the empty network.")] = None,
    training: Annotated[Path | None, typer.Option(help="The training set, to be searched for canaries.")] = None,
    trust: options.Trust = None,
    family: Family = None,
    out: options.ReportFolder = None,
    overwrite: options.Overwrite = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> None:
    """What a trained model gives away of its canaries, and whether that contradicts a claim.

    The exit code is 1 where it does, and 3 where these canaries cannot test the claim.
    """
    if claim_epsilon is None and delta:
        raise InputError("--delta: it belongs to a claim; give --claim-epsilon, too")
    claim = None if claim_epsilon is None else canary_audits.Claim(claim_epsilon, delta)
    provenance.declare_input_files(model=model, canaries=canaries, training=training)
    target = targets.load(model, factory=factory, folder=Path(), trust=tuple(trust or ()))
    planted = canary_audits.Canaries.load(canaries, texts=estimators.known_texts(target))
    result = canary_audits.audit(
        target,
        planted,
        claim=claim,
        training=None if training is None else canary_records.read_beside(planted, training),
        family=_parse_family(family),
        out=out,
        overwrite=overwrite,
    )
    summary = result.summary()
    if json:
        printing.as_json(results.to_json_values(summary))
    else:
        bounds = {"what decides": summary.bound} | dict(summary.others)
        _show_bounds(summary, bounds, canary_page.facts(summary), out, verbose=verbose)
    if code := {"violated": Exit.BROKEN, "not testable": Exit.UNDECIDED}.get(summary.answer):
        raise typer.Exit(code)


@app.command(cls=options.subcommand("canaries labels"))
@options.from_settings
def labels(
    *,
    plan: Annotated[Path, typer.Argument(help="Plan (TOML): target, members, non-members, population.")],
    proxy: Annotated[
        Path | None, typer.Option(help="Plan whose target is the proxy; by default trees on the population.")
    ] = None,
    out: options.ReportFolder = None,
    overwrite: options.Overwrite = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> None:
    """Does a trained classifier give away the labels of its training records? Fair coins on labels, no canaries.

    The exit code is 1 where it does, and 3 where nothing can be said.
    """
    resolved = plan_files.resolve(plan_files.read(plan), plan.parent)
    if resolved.subject.known is not None or resolved.subject.unseen_classes:
        raise InputError("plan: whole records of all classes are needed here; leave out known and unseen_classes")
    other = None if proxy is None else plan_files.resolve(plan_files.read(proxy), proxy.parent).target
    inputs = {"plan": plan, **list_input_files(plan_files.read(plan), plan)}
    provenance.declare_input_files(**inputs | ({} if proxy is None else {"proxy": proxy}))
    chosen = resolved.options
    result = canary_audits.label_privacy(
        resolved.target,
        **{name: getattr(resolved.subject, name) for name in ("members", "nonmembers", "population")},
        proxy=other,
        outputs=chosen.outputs,
        device=chosen.device,
        seed=chosen.seed,
        out=out,
        overwrite=overwrite,
    )
    summary = result.summary()
    if json:
        printing.as_json(results.to_json_values(summary))
    else:
        bounds = {"claimed": summary.bound, **summary.bounds}
        _show_bounds(summary, bounds, label_coins.facts(summary), out, verbose=verbose)
    raise typer.Exit(Exit.BROKEN if summary.answer == label_coins.LEAK else Exit.UNDECIDED)


def _show_bounds(
    summary: CanarySummary | LabelPrivacySummary,
    bounds: Mapping[str, EpsilonLowerBound],
    facts: Mapping[str, str],
    out: Path | None,
    *,
    verbose: bool,
) -> None:
    """Print a verdict on canaries or labels and the bounds behind it; what was tested is in the notes."""
    printing.outcome(
        summary.tone,
        summary.verdict,
        shown=(
            "Bounds",
            ["bound", "ε ≥"],
            [[name, formatting.format_lower_bound(bound.low)] for name, bound in bounds.items()],
        ),
        folder=out,
        notes=[
            *(f"{name}: {bound.method}" for name, bound in bounds.items()),
            *(f"{name}: {value}" for name, value in facts.items()),
        ],
        warnings=summary.warnings,
        verbose=verbose,
    )


@app.command(cls=options.subcommand("canaries plan"))
@options.from_settings
def plan(
    *,
    claim_epsilon: Annotated[float, typer.Option(help="The ε that is claimed.")],
    true_epsilon: Annotated[float, typer.Option(help="The ε that is to be found if it is there.")],
    delta: Annotated[float, typer.Option(help="The δ of both.")] = 1e-5,
    family: Family = None,
    settings: Annotated[CanaryPlanSettings, ("power",)],
) -> None:
    """How many canaries find that a claim is violated."""
    if true_epsilon <= claim_epsilon:
        raise InputError(f"--true-epsilon: must be above --claim-epsilon ({claim_epsilon:g}), got {true_epsilon:g}")
    options_of_bound: dict[str, Any] = dict(settings)
    plan_size = evaluation.canaries_needed(
        claim_epsilon, true_epsilon, delta, family=_parse_family(family), **options_of_bound
    )
    if plan_size is None:
        printing.line("A million canaries would not do; assume a family (--family gaussian), or expect a larger ε.")
        return
    printing.line(
        f"{plan_size.canaries} canaries find a Gaussian mechanism of ε = {true_epsilon:g} with probability "
        f"{plan_size.power:.2f} (from {plan_size.guesses} guesses)."
    )


def _parse_family(text: str | None) -> Families | str | None:
    if text is None or not text.strip().lower().startswith("subsampled"):
        return text
    try:
        _, rate, steps = text.split(":")
        return evaluation.SubsampledGaussian(float(rate), int(steps))
    except InputError:
        raise
    except ValueError:
        raise InputError(f"--family: subsampled:RATE:STEPS is needed (subsampled:0.01:1000), got {text!r}") from None
