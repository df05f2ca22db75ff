"""Does a false-positive rate set on seen classes carry over to the unseen ones? What the report says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.decisions import fpr as by_fpr
from divulge.errors import InputError
from divulge.evaluation import transfer
from divulge.report import Chart, Fold, Paragraph, Section, Table, charts
from divulge.results import Carried, Plane, TransferSummary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.report.page import Block
    from divulge.types import Floats

_MAX_POINTS = 400
_TRANSFER_NUMBERS = ("outside", "effective", "error", "explained", "violation", "p_value", "bound")


def assess_thresholds(
    calibration: Mapping[str, Floats], seen: Floats, query: Floats, level: float, seed: int
) -> TransferSummary | None:
    """`divulge.evaluation.transfer.assess` of every recipe's threshold, in a summary.

    Args:
        calibration: recipe → scores of the calibration records, ``[k]``.
        seen: features of the calibration records, ``[k, d]``.
        query: features of the candidates of unseen classes, ``[n, d]``.
        level: the nominal false-positive rate.
        seed: of the assessment.

    Returns:
        None where there are too few records on either side, or too few for the level.
    """
    try:
        transfers = {
            name: transfer.assess(seen, query, by_fpr.threshold(scores, level).select(scores), level, seed=seed)
            for name, scores in calibration.items()
        }
    except InputError:
        return None
    # The plane and the densities depend on the records alone: every recipe has the same.
    first = next(iter(transfers.values()))
    return TransferSummary(
        level=level,
        recipes={
            name: Carried(
                one.holds, str(one), one.expected_fpr.value, *(float(getattr(one, each)) for each in _TRANSFER_NUMBERS)
            )
            for name, one in transfers.items()
        },
        plane=Plane(_sample_points(first.seen), _sample_points(first.query)),
        ratio=_sample_points(np.column_stack([first.linear, first.ratio])),
    )


def transfer_section(summary: TransferSummary | None) -> Section:
    """What speaks for and against, recipe by recipe, and the plane it was read off."""
    if summary is None:
        return Section("Will the false-positive rate carry over to the unseen classes?", [])
    rows = [
        [
            name,
            "expected to hold" if one.holds else "not expected to hold",
            f"{one.expected_fpr:.3f}" if one.effective * summary.level >= 1 else "–",
            f"{one.violation:.2g} (p = {one.p_value:.2g})",
        ]
        for name, one in summary.recipes.items()
    ]
    any_one = next(iter(summary.recipes.values()))
    note = (
        f"The density ratio between unseen and seen records, and its linear fit (mean squared error "
        f"{any_one.error:.2g}, {any_one.explained:.0%} of its variance explained): the rate carries over to the "
        "extent that the fit is good and the violation small (Thaker et al. 2025, §5)."
    )
    columns = ["recipe", f"FPR of {summary.level:g}", "rate expected there", "multi-accuracy violation"]
    few = "A dash: too few seen records resemble the unseen class to resolve a rate."
    lacking = any(row[2] == "–" for row in rows)
    blocks: list[Block] = []
    for text in dict.fromkeys(one.text for one in summary.recipes.values()):
        whose = [name for name, one in summary.recipes.items() if one.text == text]
        blocks.append(Paragraph(text if len(whose) == len(summary.recipes) else f"{', '.join(whose)}: {text}"))
    plane = {"seen records": _coordinates(summary.plane.seen), "query records": _coordinates(summary.plane.query)}
    blocks.append(
        Chart(charts.scatter(plane, x="first component", y="second component"), title="Seen and query records")
    )
    ratio = {"seen records": _coordinates(summary.ratio)}
    blocks.append(Chart(charts.scatter(ratio, x="linear fit", y="density ratio"), title="Density ratio", note=note))
    folded = Fold("What speaks for and against, recipe by recipe", blocks)
    table = Table(columns, rows, note=few if lacking else "")
    return Section("Will the false-positive rate carry over to the unseen classes?", [table, folded])


def _sample_points(points: Floats) -> tuple[tuple[float, float], ...]:
    """At most 400 rows, evenly spaced, in four digits: enough for a chart."""
    rows = np.unique(np.linspace(0, len(points) - 1, min(_MAX_POINTS, len(points))).astype(int))
    return tuple((float(f"{x:.4g}"), float(f"{y:.4g}")) for x, y in points[rows])


def _coordinates(points: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    first, second = np.asarray(points, dtype=np.float64).T
    return first, second
