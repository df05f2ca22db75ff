"""The commands, named one by one."""

from __future__ import annotations

import typer

from divulge._version import __version__
from divulge.cli import (
    audit,
    canaries,
    extract,
    identify,
    labels,
    listing,
    plan_files,
    planning,
    pool,
    printing,
    reports,
    view,
    weights,
)

app = typer.Typer(
    name="divulge",
    help="Find out what a trained model gives away about its training data, and prove it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        printing.line(f"divulge {__version__}")
        raise typer.Exit


@app.callback()
def divulge(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Find out what a trained model gives away about its training data, and prove it."""


app.command("init")(plan_files.init)
app.command("check")(plan_files.check)
app.command("audit")(audit.audit)
app.command("report")(reports.report)
app.command("decide")(audit.decide)
app.command("compare")(audit.compare)
app.command("gate")(audit.gate)
app.command("view")(view.view)
app.command("list")(listing.list_all)
app.command("identify")(identify.identify)
app.command("score")(identify.score)
app.command("power")(planning.power)
app.command("extract")(extract.extract)
app.command("weights")(weights.weights)
app.command("reconstruct")(weights.reconstruct)
app.add_typer(canaries.app, name="canaries")
app.add_typer(pool.app)
app.add_typer(labels.app, name="labels")
