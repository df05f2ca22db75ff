"""How much doubt in the calibration the selection of a finished run survives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.decisions.counts import Counts
from divulge.decisions.sensitivity import Sensitivity, by_rank
from divulge.identification import finished
from divulge.report import Paragraph, Table

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.report.page import Block
    from divulge.results import IdentificationSummary

_GAMMAS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0)


def sensitivity(directory: str | Path) -> Sensitivity:
    """How much likelier, or less likely, any score of a non-member may be than in the calibration, by candidate.

    Args:
        directory: what `divulge identify` wrote.

    Returns:
        The largest factor up to which each candidate stays selected, best candidate first.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run.
    """
    return finished.read(directory, of)


def of(summary: IdentificationSummary, folder: Path) -> Sensitivity:
    """`sensitivity`, of a run that is open."""
    level, counts = summary.settings.fdr, Counts.load(folder / "counts.npz")
    each = by_rank(counts, fdr=level, method=finished.method(summary))
    return Sensitivity(np.repeat(each, np.diff(counts.reached, prepend=0)), level)


def blocks(summary: IdentificationSummary, folder: Path) -> list[Block]:
    """The section of the report; empty where nothing is selected or claimed."""
    if summary.guarantee.standing == "void" or not summary.selected:
        return []
    found = of(summary, folder)
    note = (
        "Γ = 1 is the assumption that non-members among the candidates score like the calibration. At Γ = 2 any score "
        "may be twice as likely among them, or half as likely, whichever is worst; documents that still stand are a "
        "selection with the same bound."
    )
    rows = [(f"{gamma:g}", str(found.count(gamma))) for gamma in _GAMMAS]
    return [Paragraph(f"Of the selection, {found}."), Table(("Γ", "documents that stand"), rows, note=note)]
