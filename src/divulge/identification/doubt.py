"""How much doubt in the calibration the selection of a finished run survives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from divulge import results
from divulge.decisions.counts import Counts
from divulge.decisions.methods import BH, PTDI, AdaDetect, Adaptive, Storey, named
from divulge.decisions.sensitivity import Sensitivity, by_rank
from divulge.dossier import Dossier
from divulge.report import Paragraph, Table
from divulge.results import IdentificationSummary

if TYPE_CHECKING:
    from divulge.report.page import Block

KIND = "identification"
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
    folder = Path(directory)
    return Dossier(folder).read(KIND, lambda: of(results.read(folder, IdentificationSummary), folder))


def of(summary: IdentificationSummary, folder: Path) -> Sensitivity:
    """`sensitivity`, of a run that is open."""
    asked, counts = summary.settings, Counts.load(folder / "counts.npz")
    used = named(summary.used, (BH, PTDI, Storey, Adaptive, AdaDetect), eta=asked.eta, lam=asked.lam)
    each = by_rank(counts, fdr=asked.fdr, method=used)
    return Sensitivity(np.repeat(each, np.diff(counts.reached, prepend=0)), asked.fdr)


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
