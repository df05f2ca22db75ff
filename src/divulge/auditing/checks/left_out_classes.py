"""Left-out classes: what thresholds learnt from other classes do on a class that they have no records of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import statistics
from divulge.auditing.checks.check import Check
from divulge.decisions import unseen_classes
from divulge.report import Collapsible, Paragraph, Table, formatting
from divulge.results import CheckFinding, LeftOutClasses, LeftOutRates

if TYPE_CHECKING:
    from divulge.auditing.checks.check import ScoredAudit
    from divulge.recipes import Recipe
    from divulge.report.page import Block
    from divulge.types import Floats

_COLUMNS = ("calibrated with", "mean of classes", "worst class", "classes above")
_ROWS = {
    "pooled": "all other records as one sample",
    "average": "promise on average over classes",
    "most": f"promise in {unseen_classes.SHARE:.0%} of classes",
}
_TITLE = "Each class taken as unseen in turn"


class ClassesLeftOut(Check):
    """Take each class of the calibration as unseen, where candidates are of classes that it lacks."""

    name = "left-out classes"

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Measure at the largest level; None where each class has calibration records, or just one has."""
        inputs = audit.prepared.inputs
        labels, calibration_labels = inputs.candidates.labels, inputs.calibration.labels
        if labels is None or calibration_labels is None or len(np.unique(calibration_labels)) < 2:
            return None
        outside = labels[~inputs.truth]
        if not inputs.unseen_classes and not len(statistics.find_missing_classes(outside, calibration_labels)):
            return None
        level, is_partial = max(audit.fpr), audit.prepared.partial_knowledge is not None
        left_out = {
            recipe.name: unseen_classes.leave_one_class_out(audit.calibration[recipe.name], calibration_labels, level)
            for recipe in inputs.recipes
            if not is_partial and _reads_target_alone(recipe)
        }
        names, counts = np.unique(calibration_labels, return_counts=True)
        measured = LeftOutClasses(
            level,
            tuple(formatting.class_name(label, inputs.candidates.class_names) for label in names.tolist()),
            tuple(counts.tolist()),
            {
                name: LeftOutRates(
                    _as_rates(rates.pooled),
                    None if rates.average is None else _as_rates(rates.average),
                    None if rates.most is None else _as_rates(rates.most),
                )
                for name, rates in left_out.items()
            },
        )
        learned = [recipe.name for recipe in inputs.recipes if recipe.name not in left_out]
        sentences = [] if left_out else ["Every recipe learnt from the population, so nothing is promised."]
        if left_out and learned:
            sentences = [f"Nothing is promised for {', '.join(learned)}, which learnt from the population."]
        sentence = (
            f"Of {len(names)} classes with calibration records each is taken as unseen: the share of it that a "
            f"threshold learnt from the others calls members, at a nominal {formatting.format_percent(level)}."
        )
        return CheckFinding(self.name, "none", sentence, tuple(sentences), section=_TITLE, measured=measured)

    def show(self, finding: CheckFinding) -> list[Block]:
        """Show mean and worst class of each recipe, then every class."""
        measured = finding.measured
        assert isinstance(measured, LeftOutClasses)
        summary_rows, class_rows = [], []
        for recipe, rates in measured.recipes.items():
            for field, description in _ROWS.items():
                values = getattr(rates, field)
                if values is None:
                    summary_rows.append((recipe, description, "too few classes", "–", "–"))
                    continue
                above = sum(value > measured.level for value in values)
                figures = (float(np.mean(values)), max(values))
                summary_rows.append((recipe, description, *map(formatting.format_percent, figures), str(above)))
            for i, (name, count) in enumerate(zip(measured.classes, measured.records, strict=True)):
                shares = [getattr(rates, field) for field in _ROWS]
                cells = ["–" if share is None else formatting.format_percent(share[i]) for share in shares]
                class_rows.append((recipe, name, f"{count:,}", *cells))
        blocks: list[Block] = [Paragraph(text) for text in (finding.sentence, *finding.details)]
        if summary_rows:
            each_class = Table(("recipe", "class", "records", *_ROWS.values()), class_rows)
            blocks += [
                Table(("recipe", *_COLUMNS), summary_rows, sortable=False),
                Collapsible("Each class", [each_class]),
            ]
        return blocks


def _reads_target_alone(recipe: Recipe) -> bool:
    """Whether a score depends on the target and its record alone, so that all classes are treated alike."""
    return not recipe.needs and not hasattr(recipe.signal, "fit")


def _as_rates(values: Floats) -> tuple[float, ...]:
    return tuple(round(value, 6) for value in values.tolist())
