"""What an attack on labels found, in words and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from divulge.cli import printing
from divulge.cli.exit_codes import Exit

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.labels import LabelInference, OracleSpec


def refuse(found: LabelInference) -> None:
    """End with an exit code of its own when the answers contradict what was declared."""
    if found.contradiction is not None:
        printing.error(f"{found.contradiction}; no labels are given, as nothing follows from a wrong specification")
        raise typer.Exit(Exit.CONTRADICTED)


def write(path: Path, spec: OracleSpec, found: LabelInference) -> None:
    """A line per row: label (empty where the answers leave it open), certain, proven."""
    from divulge import store
    from divulge.labels.labels_summary import told

    rows = enumerate(zip(told(spec, found) or (), found.certain, found.proven, strict=True))
    lines = [f"{i},{'' if label is None else label},{sure:d},{follows:d}" for i, (label, sure, follows) in rows]
    store.write_text(path, "\n".join(["row,label,certain,proven", *lines]) + "\n")
