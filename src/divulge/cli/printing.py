"""How results reach a terminal or a pipe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from divulge.report.page import HEADINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from divulge.report.page import Tone

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]


def as_json(value: object) -> None:
    """Print ``value`` as JSON."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


# The other tones have none.
_COLOURS = {"leak": "red", "clear": "green", "void": "magenta", "doubt": "yellow"}


def verdict(tone: Tone, text: str) -> None:
    """Print the first lines of a result, in the tone's colour where the terminal has colours."""
    typer.secho(f"{HEADINGS[tone].icon} {text}", fg=_COLOURS.get(tone), bold=True)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table whose first column is left-aligned and the others right-aligned."""
    from rich.console import Console
    from rich.table import Table

    found = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        found.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        found.add_row(*(str(cell) for cell in row))
    # What users were sent is shown as it is: a bracket in a name is no markup.
    console = Console(markup=False)
    # A pipe or a log file has no width of its own; eighty columns would break intervals in two.
    console.print(found, width=None if console.is_terminal else 120)
