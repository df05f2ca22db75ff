"""How results reach a terminal or a pipe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]


def as_json(value: object) -> None:
    """Print ``value`` as JSON."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table whose first column is left-aligned and the others right-aligned."""
    from rich.console import Console
    from rich.table import Table

    found = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        found.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        found.add_row(*(str(cell) for cell in row))
    console = Console()
    # A pipe or a log file has no width of its own; eighty columns would break intervals in two.
    console.print(found, width=None if console.is_terminal else 120)
