"""What came true of a selection, where membership is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import checks, frames
from divulge.identification import score_files, shards
from divulge.results import Realised
from divulge.statistics import ranking
from divulge.statistics.intervals import proportion
from divulge.types import Estimate

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.frames import Frame
    from divulge.types import Bools, Floats


def orientation(scores: Floats, truth: object) -> str:
    """A warning when declared members score below declared non-members; empty when not."""
    if truth is None:
        return ""
    member = checks.mask(truth, "truth", (len(scores),))
    if member.all() or not member.any():
        return ""
    area = ranking.auc(scores, member)
    if area.high >= 0.5:
        return ""
    return (
        f"the scores seem to be the wrong way round: declared members score lower (AUC {area}); "
        "larger must mean more member-like"
    )


def realised(selected: Bools, truth: Bools) -> tuple[Estimate, Estimate]:
    """The false discovery proportion and the power that were realised, where membership is known.

    Args:
        selected: bool ``[m]``.
        truth: bool ``[m]``, True for members.

    Returns:
        Share of non-members among the selected (0 of none counts as 0), share of members that were
        selected; both with Clopper-Pearson intervals.

    Examples:
        >>> import numpy as np
        >>> fdp, power = realised(np.array([True, True, False]), np.array([True, False, True]))
        >>> fdp.value, power.value
        (0.5, 0.5)
    """
    chosen = checks.mask(selected, "selected", (None,))
    member = checks.mask(truth, "truth", (len(chosen),))
    both = int((chosen & member).sum())
    return portion(int(chosen.sum()) - both, int(chosen.sum())), portion(both, int(member.sum()))


def portion(hits: int, total: int) -> Estimate:
    """``hits`` of ``total`` with a 95 % Clopper-Pearson interval; nothing of nothing is 0, known to be in [0, 1]."""
    return proportion(hits, total) if total else Estimate(0.0, 0.0, 1.0, 0.95, "clopper-pearson")


def realised_in(path: Path) -> Realised | None:
    """What came true in a finished ``selection.parquet``; None where no membership is known."""
    known = _known(path, "score", "selected")
    if known is None:
        return None
    member = known["truth"]
    fdp, power = realised(known["selected"], member)
    return Realised(len(known), int(member.sum()), fdp, power, orientation(known["score"], member))


def declared(path: Path, score: str = "score") -> str:
    """`orientation` of the scores in a Parquet file, by the membership that it declares."""
    known = _known(path, score)
    return "" if known is None else orientation(known[score], known["truth"])


def _known(path: Path, *columns: str) -> Frame | None:
    """The rows whose membership is known; None where it is of none."""
    if "truth" not in score_files.names(path):
        return None
    known = frames.concat([_with_truth(piece) for piece in shards.parquet(path, [*columns, "truth"])])
    return known if len(known) else None


def _with_truth(piece: Frame) -> Frame:
    said = piece["truth"]
    known = piece if said.dtype == bool else piece.where(np.array([value is not None for value in said.tolist()], bool))
    return known.with_columns({"truth": known["truth"].astype(bool)})
