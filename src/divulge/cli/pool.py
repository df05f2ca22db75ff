"""`divulge pool`: the folder of finished reference models."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divulge import lazy
from divulge.cli import printing
from divulge.cli.exit_codes import Exit
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.references import pool as pools
    from divulge.references.pool import Entry
else:
    pools = lazy.module("divulge.references.pool")

app = typer.Typer(name="pool", help="Finished reference models: list, check, clean up.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="The pool's folder.", show_default=False)]


@app.command("ls")
def ls(folder: Folder, json: printing.Json = False) -> None:
    """List stored models."""
    _show(f"{folder}", pools.Pool(folder).entries(), json=json)


@app.command("verify")
def verify(folder: Folder, json: printing.Json = False) -> None:
    """Read every model and compare its checksum; exit code 5 when one is damaged."""
    entries = pools.Pool(folder).entries(verify=True)
    _show(f"{folder}, checksums compared", entries, json=json)
    if any(entry.state == "damaged" for entry in entries):
        raise typer.Exit(Exit.DAMAGED)


@app.command("prune")
def prune(
    folder: Folder,
    older_than: Annotated[
        int | None, typer.Option(help="Also remove good models older than this many days.", min=0, max=100_000)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: printing.Json = False,
) -> None:
    """Remove damaged and unfinished models, after asking; files that are not a pool's stay."""
    if json and not (yes or dry_run):
        raise InputError("--json: give --yes to remove, or --dry-run to see what would be removed")
    before = ""
    if older_than is not None:
        before = (dt.datetime.now(dt.UTC) - dt.timedelta(days=older_than)).isoformat(timespec="seconds")
    pool = pools.Pool(folder)
    doomed = pool.prunable(before=before)
    if dry_run or not (yes or json):
        _show(f"to be removed from {folder}", doomed, json=json)
    if dry_run or not (yes or _agreed(doomed)):
        return
    _show(f"removed from {folder}", pool.prune(before=before, keys=[entry.key for entry in doomed]), json=json)


def _agreed(entries: Sequence[Entry]) -> bool:
    """Whether the user wants these to be removed; nothing to remove needs no question."""
    return bool(entries) and printing.ask(f"Remove {len(entries)} of them? [y/N] ")


def _show(title: str, entries: Sequence[Entry], *, json: bool) -> None:
    if json:
        fields = ("key", "state", "bytes", "stored", "about", "problem")
        printing.as_json([{name: getattr(entry, name) for name in fields} for entry in entries])
        return
    rows = [
        (e.key[:32], e.state, f"{e.bytes / 1e6:.2f}", e.stored, e.about.get("records", ""), e.problem) for e in entries
    ]
    printing.table(title, ("model", "state", "MB", "stored", "records", "problem"), rows)
