"""What came true of a selection, where membership is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from divulge import tables
from divulge.results import RealisedOutcome
from divulge.statistics import ranking
from divulge.statistics.intervals import proportion
from divulge.types import Estimate
from divulge.validation import check_mask

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.decisions.counts import Counts
    from divulge.identification.score_files import Score
    from divulge.types import Bools, Floats

_FAR = 3.09  # standard deviations, beyond which a normal variable lies with a chance of 1 in 1000


def orientation(scores: Floats, truth: object) -> str:
    """A warning when declared members score below declared non-members; empty when not."""
    if truth is None:
        return ""
    member = check_mask(truth, "truth", (len(scores),))
    if member.all() or not member.any():
        return ""
    area = ranking.auc(scores, member)
    if area.high >= 0.5:
        return ""
    return (
        f"the scores seem to be the wrong way round: declared members score lower (AUC {area}); "
        "larger must mean more member-like"
    )


def direction_note(score: Score, counts: Counts) -> str:
    """Return what was assumed of a score whose direction nobody named, and whether the other end may be meant.

    Where all candidates scored like the calibration, they would score lower by so much with a chance of 1 in 1000: in a
    rank test of all candidates against all of the calibration, whose variance is that without ties, the largest it can
    be. Members are then at the low end, or the candidates differ in another way; the scores cannot tell which.

    Args:
        score: the column.
        counts: the candidates, among the calibration.
    """
    if not score.assumed:
        return ""
    assumed = f"no direction was named for the score {score.column!r}: high was taken as member-like ({score})"
    m, n = counts.total, len(counts.calibration)
    area = float((counts.above + counts.tied / 2).sum()) / (m * n)
    deviation = float(np.sqrt((m + n + 1) / (12 * m * n)))
    if area > 0.5 - _FAR * deviation:
        return assumed
    return (
        f"{assumed}, but the candidates score lower than the calibration (AUC {area:.3f}); did you mean "
        f"{score.column}:low? Go by what the score means: an end chosen for what it selects voids the bound"
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
    chosen = check_mask(selected, "selected", (None,))
    member = check_mask(truth, "truth", (len(chosen),))
    both = int((chosen & member).sum())
    return portion(int(chosen.sum()) - both, int(chosen.sum())), portion(both, int(member.sum()))


def portion(hits: int, total: int) -> Estimate:
    """``hits`` of ``total`` with a 95 % Clopper-Pearson interval; nothing of nothing is 0, known to be in [0, 1]."""
    return proportion(hits, total) if total else Estimate(0.0, 0.0, 1.0, 0.95, "clopper-pearson")


def realised_in(path: Path) -> RealisedOutcome | None:
    """Return what came true in a finished ``selection.parquet``; None where no membership is known."""
    known = _known(tables.open_parquet(path), str(path), "score", "selected")
    if known is None:
        return None
    member, scores = known["truth"].to_numpy(), known["score"].to_numpy()
    fdp, power = realised(known["selected"].to_numpy(), member)
    return RealisedOutcome(len(known), int(member.sum()), fdp, power, orientation(scores, member))


def declared(rows: pl.LazyFrame, score: str = "score") -> str:
    """`orientation` of the scores of some rows, by the membership that they declare."""
    known = _known(rows, "selection", score)
    return "" if known is None else orientation(known[score].to_numpy(), known["truth"].to_numpy())


def _known(rows: pl.LazyFrame, name: str, *columns: str) -> pl.DataFrame | None:
    """The rows whose membership is known; None where it is of none."""
    if "truth" not in rows.collect_schema():
        return None
    with tables.table_errors(name):
        known = rows.select(*columns, "truth").filter(pl.col("truth").is_not_null()).collect()
    return known if len(known) else None
