"""`divulge defend`: the user's own estimator with other settings, privacy against utility."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divulge import plan as plan_files
from divulge import provenance, references, results
from divulge.cli import options, printing
from divulge.cli.plans import list_input_files
from divulge.defences import trade_off
from divulge.errors import InputError
from divulge.settings import DefendSettings

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

    The settings are those of the plan's table `defend`, or what is known to help for this kind of model. The audits are
    those of the plan. With --out, the same command goes on where it was stopped.
    """
    read = plan_files.read(plan)
    resolved = plan_files.resolve(read, plan.parent)
    subject, chosen = resolved.subject, resolved.options
    if subject.known is not None or subject.unseen_classes or subject.population is None:
        raise InputError("plan: whole records of all classes are needed here; leave out known and unseen_classes")
    rules = DefendSettings.check(**({} if read.defend is None else dict(read.defend)))
    provenance.declare_input_files(plan=plan, **list_input_files(read, plan))
    with references.Bar("models") as bar:
        result = trade_off.run_settings(
            resolved.target,
            subject,
            chosen,
            rules,
            out=out,
            overwrite=overwrite,
            progress=bar,
            pool=resolved.pool,
            expect=lambda forecast: printing.lines(sys.stderr, f"ahead: {forecast.text}"),
        )
    if json:
        printing.as_json(results.to_json_values(result.summary()))
    else:
        _show(result, out, verbose=verbose)


def _show(result: TradeOff, out: Path | None, *, verbose: bool) -> None:
    summary = result.summary()
    next_step = "no setting is recommended; the same plan with other settings in [defend], or more records."
    if summary.recommended:
        next_step = f"train the model that is to be released with {summary.recommended}, and audit it."
    printing.outcome(
        "plain",
        summary.verdict,
        shown=("Settings; guessing tells 50 of 100 pairs apart", *trade_off.brief_rows(summary)),
        folder=out,
        next_step=next_step,
        further=[("Settings, by the strongest attack on each", *trade_off.setting_rows(summary))],
        notes=[*(" ".join(each) for each in trade_off.reasons(summary)), *filter(printing.is_choice, summary.warnings)],
        warnings=[text for text in summary.warnings if not printing.is_choice(text)],
        verbose=verbose,
    )
