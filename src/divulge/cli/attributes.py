"""`divulge attribute`: does a model give one column of its training records away?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import attributes, provenance, references, results
from divulge import plan as plan_files
from divulge.attributes import result as attribute_result
from divulge.cli import options, printing
from divulge.cli.plans import list_input_files
from divulge.cli.printing import Exit
from divulge.errors import InputError
from divulge.settings import AttributePlan, AttributeRules

if TYPE_CHECKING:
    from divulge.attributes.result import AttributeInference

_N_SHOWN = 12  # values


@options.from_settings
def attribute(
    *,
    context: typer.Context,
    plan: Annotated[Path, typer.Argument(help="Plan (TOML).", show_default=False)],
    column: Annotated[
        list[str] | None, options.setting(AttributePlan, "column", "In place of the plan's; may be repeated.")
    ] = None,
    settings: Annotated[AttributeRules, ("tolerance",)],
    out: options.ReportFolder = None,
    overwrite: options.Overwrite = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> None:
    """Does the model give a column of its training records away? Guess it for members and others, and compare.

    The exit code is 1 where it does, and 3 where nothing can be said.
    """
    read = plan_files.read(plan)
    rules = {} if read.attribute is None else dict(read.attribute)
    rules |= options.named_settings(context, settings)
    if column:
        rules["column"] = [int(name) if name.isdecimal() else name for name in column]
    if "column" not in rules:
        raise InputError("--column: needed; or give the plan a table [attribute] with the key column")
    resolved = plan_files.resolve(read, plan.parent)
    if resolved.subject.known is not None or resolved.subject.unseen_classes:
        raise InputError("plan: whole records of all classes are needed here; leave out known and unseen_classes")
    provenance.declare_input_files(plan=plan, **list_input_files(read, plan))
    with references.Bar("reference models") as bar:
        result = attributes.infer(
            resolved.target, **_sets(resolved), **rules, pool=resolved.pool, out=out, overwrite=overwrite, progress=bar
        )
    summary = result.summary()
    if json:
        printing.as_json(results.to_json_values(summary))
    else:
        _show(result, out, verbose=verbose)
    if summary.answer == "leak found":
        raise typer.Exit(Exit.BROKEN)
    if summary.answer != "no leak found":
        raise typer.Exit(Exit.UNDECIDED)


def _sets(resolved: plan_files.ResolvedPlan) -> dict[str, Any]:
    """Return records and options of a plan as keyword arguments of `divulge.attributes.infer`."""
    subject, chosen = resolved.subject, resolved.options
    sets = {name: getattr(subject, name) for name in ("members", "nonmembers", "population")}
    names = ("references", "duplicates", "outputs", "task", "device", "seed", "show_records")
    settings = {name: getattr(chosen, name) for name in names}
    if settings["references"] == "auto":  # no attack here trains some unasked
        settings["references"] = None
    return sets | settings


def _show(result: AttributeInference, out: Path | None, *, verbose: bool) -> None:
    summary = result.summary()
    rows = [
        [
            comparison.attack,
            comparison.value,
            f"{comparison.right_members}/{comparison.members}",
            f"{comparison.right_nonmembers}/{comparison.nonmembers}",
        ]
        for comparison in summary.values[:_N_SHOWN]
    ]
    printing.outcome(
        summary.tone,
        summary.verdict,
        shown=(f"{summary.column}: how often a guess is right", *attribute_result.attack_rows(summary)),
        folder=out,
        further=[("By value", ["guess by", "value", "members", "non-members"], rows)] if rows else [],
        warnings=summary.warnings,
        verbose=verbose,
    )
