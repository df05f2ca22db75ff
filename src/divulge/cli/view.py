"""`divulge view`: finished runs in a browser on this machine."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divulge import lazy
from divulge.cli import printing
from divulge.cli.exit_codes import Exit

if TYPE_CHECKING:
    from divulge import viewing
else:
    viewing = lazy.module("divulge.viewing")


def view(
    folders: Annotated[list[Path], typer.Argument(help="Runs, or directories that hold some.", show_default=False)],
    port: Annotated[int, typer.Option(help="To listen at; 0 for a free one.")] = 8765,
    host: Annotated[str, typer.Option(help="To listen at; any other can be reached from elsewhere.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in the usual browser.")] = False,
) -> None:
    """Look at runs in a browser: list, filter, compare, move thresholds. Nothing is written; Ctrl-C ends it."""

    def ready(address: str) -> None:
        printing.line(f"Open {address}")
        if browser:
            webbrowser.open(address)

    if viewing.serve(viewing.Shelf(tuple(folders)), host=host, port=port, ready=ready):
        # Compiled code that is still at work cannot be asked to stop, and nothing is written: there is nothing to lose.
        printing.finish()
        os._exit(Exit.OK)
