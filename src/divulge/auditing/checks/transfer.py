"""Transfer: whether thresholds that were calibrated on seen classes hold on unseen ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.auditing.checks.check import Check
from divulge.decisions import fpr as by_fpr
from divulge.errors import InputError
from divulge.evaluation import transfer
from divulge.report import Chart, Collapsible, Paragraph, Table, charts
from divulge.results import CheckFinding, ProjectedRecords, TransferCheck, TransferSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.checks.check import ScoredAudit
    from divulge.report.page import Block
    from divulge.types import Floats

_MAX_POINTS = 400
_NUMBERS = ("outside", "effective", "error", "explained", "violation", "p_value", "bound")


class ThresholdTransfer(Check):
    """Assess for every recipe whether its threshold carries over to the unseen classes (Thaker et al. 2025, §5)."""

    name = "transfer"

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Assess the largest level; None without unseen classes or features, and with too few records on a side."""
        inputs, layout, features = audit.prepared.inputs, audit.prepared.layout, audit.measurements[0].features
        labels, level = inputs.candidates.labels, max(audit.fpr)
        if not inputs.unseen_classes or labels is None or features is None:
            return None
        query = features[layout.candidate_rows][np.isin(labels, inputs.unseen_classes)]
        try:
            transfers = {
                name: transfer.assess(
                    features[layout.calibration_rows],
                    query,
                    by_fpr.threshold(scores, level).select(scores),
                    level,
                    seed=audit.prepared.seed,
                )
                for name, scores in audit.calibration.items()
            }
        except InputError:
            return None
        # The plane and the densities depend on the records alone: every recipe has the same.
        assessment = next(iter(transfers.values()))
        summary = TransferSummary(
            level=level,
            recipes={
                name: TransferCheck(
                    assessed.holds,
                    str(assessed),
                    assessed.expected_fpr.value,
                    *(float(getattr(assessed, number)) for number in _NUMBERS),
                )
                for name, assessed in transfers.items()
            },
            plane=ProjectedRecords(_sample_points(assessment.seen), _sample_points(assessment.query)),
            ratio=_sample_points(np.column_stack([assessment.linear, assessment.ratio])),
        )
        sentences = tuple(dict.fromkeys(each.text for each in summary.recipes.values()))
        title = "Will the false-positive rate carry over to the unseen classes?"
        return CheckFinding(self.name, "none", sentences[0], sentences[1:], section=title, measured=summary)

    def show(self, finding: CheckFinding) -> list[Block]:
        """Show expected rates by recipe, and the plane and density ratio behind them."""
        summary = finding.measured
        assert isinstance(summary, TransferSummary)
        rows = [
            [
                name,
                "expected to hold" if recipe.holds else "not expected to hold",
                f"{recipe.expected_fpr:.3f}" if recipe.effective * summary.level >= 1 else "–",
                f"{recipe.violation:.2g} (p = {recipe.p_value:.2g})",
            ]
            for name, recipe in summary.recipes.items()
        ]
        first_recipe = next(iter(summary.recipes.values()))
        note = (
            f"The density ratio between unseen and seen records, and its linear fit (mean squared error "
            f"{first_recipe.error:.2g}, {first_recipe.explained:.0%} of its variance explained): the rate carries over "
            "to the extent that the fit is good and the violation small (Thaker et al. 2025, §5)."
        )
        columns = ["recipe", f"FPR of {summary.level:g}", "rate expected there", "multi-accuracy violation"]
        dash_note = "A dash: too few seen records resemble the unseen class to resolve a rate."
        blocks: list[Block] = []
        for text in dict.fromkeys(recipe.text for recipe in summary.recipes.values()):
            names = [name for name, recipe in summary.recipes.items() if recipe.text == text]
            blocks.append(Paragraph(text if len(names) == len(summary.recipes) else f"{', '.join(names)}: {text}"))
        plane = {"seen records": _coordinates(summary.plane.seen), "query records": _coordinates(summary.plane.query)}
        blocks.append(
            Chart(charts.scatter(plane, x="first component", y="second component"), title="Seen and query records")
        )
        ratio = {"seen records": _coordinates(summary.ratio)}
        blocks.append(Chart(charts.scatter(ratio, x="linear fit", y="density ratio"), title="Density ratio", note=note))
        return [
            Table(columns, rows, note=dash_note if any(row[2] == "–" for row in rows) else ""),
            Collapsible("What speaks for and against, recipe by recipe", blocks),
        ]


def _sample_points(points: Floats) -> tuple[tuple[float, float], ...]:
    """Return at most 400 evenly spaced rows in four digits, enough for a chart."""
    rows = np.unique(np.linspace(0, len(points) - 1, min(_MAX_POINTS, len(points))).astype(int))
    return tuple((float(f"{x:.4g}"), float(f"{y:.4g}")) for x, y in points[rows])


def _coordinates(points: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    x, y = np.asarray(points, dtype=np.float64).T
    return x, y
