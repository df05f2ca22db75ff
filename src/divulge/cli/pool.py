"""`divulge pool`: the folder of finished reference models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divulge.cli import printing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.references.pool import Entry

app = typer.Typer(name="pool", help="Finished reference models: list, check, clean up.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="The pool's folder.", show_default=False)]


@app.command("ls")
def ls(folder: Folder, json: printing.Json = False) -> None:
    """List stored models."""
    from divulge.references.pool import Pool

    _show(f"{folder}", Pool(folder).entries(), json=json)


@app.command("verify")
def verify(folder: Folder, json: printing.Json = False) -> None:
    """Read every model and compare its checksum; exit code 1 when one is damaged."""
    from divulge.references.pool import Pool

    found = Pool(folder).entries(verify=True)
    _show(f"{folder}, checksums compared", found, json=json)
    if any(entry.state == "damaged" for entry in found):
        raise typer.Exit(1)


@app.command("prune")
def prune(
    folder: Folder,
    older_than: Annotated[int | None, typer.Option(help="Also remove good models older than this many days.")] = None,
    json: printing.Json = False,
) -> None:
    """Remove damaged and unfinished models."""
    import datetime as dt

    from divulge import checks
    from divulge.references.pool import Pool

    before = ""
    if older_than is not None:
        days = checks.integer(older_than, "--older-than", least=0)
        before = (dt.datetime.now(dt.UTC) - dt.timedelta(days=days)).isoformat(timespec="seconds")
    pool = Pool(folder)
    pool.entries()  # an unknown folder is an error, not an empty new pool
    _show(f"removed from {folder}", pool.prune(before=before), json=json)


def _show(title: str, entries: Sequence[Entry], *, json: bool) -> None:
    if json:
        fields = ("key", "state", "bytes", "stored", "about", "problem")
        printing.as_json([{name: getattr(entry, name) for name in fields} for entry in entries])
        return
    rows = [
        (e.key[:32], e.state, f"{e.bytes / 1e6:.2f}", e.stored, e.about.get("records", ""), e.problem) for e in entries
    ]
    printing.table(title, ("model", "state", "MB", "stored", "records", "problem"), rows)
