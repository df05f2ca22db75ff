"""`divulge init` and `divulge check`: a plan to start from, and whether it can be run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divulge import lazy
from divulge.cli import options, printing

if TYPE_CHECKING:
    from divulge import auditing, results
    from divulge import plan as plans
else:
    auditing = lazy.module("divulge.auditing")
    plans = lazy.module("divulge.plan")
    results = lazy.module("divulge.results")


def init(
    folder: Annotated[Path, typer.Argument(help="Where plan.toml goes.")] = Path(),
    records: Annotated[str | None, typer.Option(help="What a record is: images, table or text.")] = None,
    model: Annotated[str | None, typer.Option(help="The target: a file, a folder, or module:name.")] = None,
    members: Annotated[str | None, typer.Option(help="File of the records it was trained on.")] = None,
    nonmembers: Annotated[str | None, typer.Option(help="File of others that it was not trained on.")] = None,
    population: Annotated[str | None, typer.Option(help="File of further records, not trained on either.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the classes; of documents, that of the text.")] = None,
    references: Annotated[int | None, typer.Option(help="How many reference models to train; 0 for none.")] = None,
    json: printing.Json = False,
) -> None:
    """Write a commented plan, and a stub of the code it names; asks for what no option says."""
    given = {
        "records": records, "model": model, "members": members, "nonmembers": nonmembers, "population": population,
        "label": label, "references": references,
    }  # fmt: skip
    asking = sys.stdin.isatty() and not json
    answers = plans.complete_answers(given, _ask if asking else None)
    written = plans.write_starting_plan(folder, answers)
    if json:
        printing.as_json({"written": [str(path) for path in written]})
        return
    for path in written:
        printing.line(f"Wrote {path}")
    printing.line(f"Next: divulge check {written[0]}")


def _ask(question: str, default: str) -> str:
    return printing.answer(f"{question} [{default}]: ") or default


@options.unfold
def check(
    columns: options.RecordColumns,
    plan: Annotated[Path, typer.Argument(help="Plan (TOML).", show_default=False)],
    trust: options.Trust = None,
    json: printing.Json = False,
) -> None:
    """Can this plan be run? Reads everything, scores ten records, and says what the audit will take."""
    read = plans.read(plan)
    names = columns.names()
    if named := {key: getattr(names, key) for key in names.model_fields_set}:
        read = read.model_copy(update={"data": read.data.model_copy(update=named)})
    ready = plans.resolve(read, plan.parent, trust or ())
    forecast = auditing.forecast(ready.target, ready.first_subject, ready.options)
    if json:
        printing.as_json({"plan": str(plan), "recipes": read.recipes, "forecast": results.to_json_values(forecast)})
        return
    for key, origin in ready.origins.items():
        printing.line(f"{key}: from {origin}")
    printing.line(f"{plan} can be run: {', '.join(read.recipes)}")
    printing.line(f"Ahead: {forecast.text}")
