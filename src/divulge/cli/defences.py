"""`divulge defend`: the user's own estimator with other settings, privacy against utility."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import defences, provenance, references, results
from divulge import plan as plan_files
from divulge.cli import options, printing
from divulge.cli.plans import list_input_files
from divulge.defences import trade_off
from divulge.errors import InputError

if TYPE_CHECKING:
    from divulge.defences.trade_off import TradeOff


def defend(
    *,
    plan: Annotated[Path, typer.Argument(help="Plan (TOML).", show_default=False)],
    out: options.ReportFolder = None,
    overwrite: options.Overwrite = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> None:
    """Which settings give away less, and what do they cost? Train the plan's estimator again with each, and audit it.

    The settings are those of the plan's table `defend`, or what is known to help for this kind of model.
    """
    read = plan_files.read(plan)
    resolved = plan_files.resolve(read, plan.parent)
    subject, chosen = resolved.subject, resolved.options
    if subject.known is not None or subject.unseen_classes or subject.population is None:
        raise InputError("plan: whole records of all classes are needed here; leave out known and unseen_classes")
    rules: dict[str, Any] = {} if read.defend is None else dict(read.defend)
    provenance.declare_input_files(plan=plan, **list_input_files(read, plan))
    with references.Bar("models") as bar:
        result = defences.measure_settings(
            resolved.target, members=subject.members, nonmembers=subject.nonmembers, population=subject.population,
            recipe=chosen.recipes[0], references=None if chosen.references == "auto" else chosen.references,
            fpr=max(chosen.fpr), duplicates=chosen.duplicates, task=chosen.task, seed=chosen.seed, out=out,
            overwrite=overwrite, progress=bar, **rules,
        )  # fmt: skip
    if json:
        printing.as_json(results.to_json_values(result.summary()))
    else:
        _show(result, out, verbose=verbose)


def _show(result: TradeOff, out: Path | None, *, verbose: bool) -> None:
    summary = result.summary()
    columns, rows = trade_off.setting_rows(summary)
    next_step = ""
    if summary.recommended:
        next_step = f"train the model that is to be released with {summary.recommended}, and audit it."
    printing.outcome(
        "plain",
        summary.verdict,
        shown=("Settings", columns, rows),
        folder=out,
        next_step=next_step,
        notes=[" ".join(each) for each in trade_off.reasons(summary)],
        warnings=summary.warnings,
        verbose=verbose,
    )
