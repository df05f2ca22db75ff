"""`divulge synthetic`: what does a released synthetic table give away about the records behind it?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import provenance, results, synthetic
from divulge.cli import options, printing
from divulge.cli.printing import Exit
from divulge.errors import InputError
from divulge.report import formatting
from divulge.settings import SyntheticSettings
from divulge.synthetic import page
from divulge.synthetic.plan import read_plan

if TYPE_CHECKING:
    from divulge.synthetic.result import SyntheticAudit

_SETS = ("members", "nonmembers", "population")
_N_SHOWN = 10  # copied rows
_N_BEST = 3  # attacks that are shown where nothing is copied
_COPIED = ("rows", "values")  # reasons of a verdict that rest on copies


@options.from_settings
def synthetic_table(
    *,
    context: typer.Context,
    released: Annotated[
        list[Path],
        typer.Argument(
            help="The released table, or several releases of one; or a plan (TOML) with all tables.", show_default=False
        ),
    ],
    members: Annotated[Path | None, typer.Option(help="The table that it was made from.")] = None,
    nonmembers: Annotated[
        Path | None, typer.Option(help="Records of the same kind that the generator never saw.")
    ] = None,
    population: Annotated[
        Path | None, typer.Option(help="Further records of the same kind, which an adversary knows.")
    ] = None,
    settings: Annotated[SyntheticSettings, ("person", "drop", "at_random", "duplicates")],
    out: options.ReportFolder = None,
    overwrite: options.Overwrite = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> None:
    """What does a released synthetic table give away about the records that it was made from?

    The exit code is 1 where it gives records away, and 3 where that cannot be said.
    """
    given = {"members": members, "nonmembers": nonmembers, "population": population}
    named: dict[str, Any] = {name: path for name, path in given.items() if path is not None}
    keywords: dict[str, Any] = options.named_settings(context, settings)
    plan = released[0] if len(released) == 1 and released[0].suffix == ".toml" else None
    if plan is not None:
        keywords = read_plan(plan) | keywords | named
    else:
        if missing := [f"--{name}" for name in _SETS if name not in named]:
            raise InputError(f"{', '.join(missing)}: needed; or name a plan in place of the release")
        keywords |= {"released": released, **named}
    tables = keywords.pop("released")
    releases = {"released" if number == 1 else f"release {number}": path for number, path in enumerate(tables, start=1)}
    provenance.declare_input_files(plan=plan, **releases, **{name: keywords[name] for name in _SETS})
    result = synthetic.audit(tables, **keywords, out=out, overwrite=overwrite)
    if json:
        printing.as_json(results.to_json_values(result.summary()))
    else:
        _show(result, out, verbose=verbose)
    if result.verdict.answer == "leak found":
        raise typer.Exit(Exit.BROKEN)
    if result.verdict.answer != "no leak found":
        raise typer.Exit(Exit.UNDECIDED)


def _show(result: SyntheticAudit, out: Path | None, *, verbose: bool) -> None:
    summary = result.summary()
    copied = ("What is copied", *page.proof_rows(summary))
    tables: list[printing.TableParts] = [copied]
    if summary.scores:
        columns, rows = page.score_rows(summary)
        tables.append(("What attacks find", columns, rows))
        if result.verdict.code not in _COPIED:
            tables = [("What attacks find", columns, rows[:_N_BEST]), copied, ("Every attack", columns, rows)]
    if summary.copies:
        rows = [[str(copy.released), copy.set, copy.record, str(copy.population)] for copy in summary.copies[:_N_SHOWN]]
        columns = ["row of the release", "equals one of", "row or person", "in the population"]
        tables.append((f"Copied rows ({len(summary.copies):,})", columns, rows))
    if summary.risks:
        tables.append(("Singling out, linkability, inference", *page.risk_rows(summary, brief=True)))
    notes = []
    if (found := summary.members_list) is not None:
        listed = formatting.format_count(found.members + found.nonmembers, "record")
        notes.append(
            f"List: {listed} of {found.candidates:,}, {found.nonmembers:,} of them non-members. {found.guarantee}"
        )
    if summary.epsilon is not None:
        notes.append(f"ε is at least {formatting.format_lower_bound(summary.epsilon.low)}.")
    failed = [control for control in summary.controls if control.state != "holds"]
    printing.outcome(
        summary.tone,
        summary.verdict,
        shown=tables[0],
        folder=out,
        further=tables[1:],
        notes=notes,
        warnings=[*(f"{control.name}: {control.says}" for control in failed), *summary.notes],
        verbose=verbose,
    )
