"""Fit of the target: whether it may be another model than the one that was trained on the members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import evaluation
from divulge.auditing import plausibility
from divulge.auditing.checks.check import Check
from divulge.results import Accuracy, CheckFinding, ClassFit, ClassifierFit, RegressionFit, TokenFit

if TYPE_CHECKING:
    from divulge.auditing.checks.check import ScoredAudit
    from divulge.report.page import Block
    from divulge.types import Ints

_NAME = "fit of the model"


class TargetFit(Check):
    """Compare the target with a constant answer on its own training records.

    One that is given its columns in another order, or comes from another file, leaks nothing, and that says nothing of
    the model that was meant.
    """

    name = _NAME

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Return how well the target knows its records; None where it was not asked for its answers."""
        inputs, log = audit.prepared.inputs, audit.log
        labels = inputs.candidates.labels
        if isinstance(log.fit, TokenFit | RegressionFit):
            return describe_fit(log.fit, None)
        if log.predicted_labels is None:
            return None
        answers, accuracy = log.predicted_labels[audit.prepared.layout.candidate_rows], None
        if labels is not None:
            shares = [
                evaluation.proportion(int((answers == labels)[rows].sum()), int(rows.sum()))
                for rows in (inputs.truth, ~inputs.truth)
            ]
            accuracy = Accuracy(*shares, completed=audit.prepared.partial_knowledge is not None)
        is_single = (answers == answers[0]).all() and (labels is None or len(np.unique(labels)) > 1)
        fit = ClassifierFit(accuracy, log.fit if isinstance(log.fit, ClassFit) else None, bool(is_single))
        return describe_fit(fit, None if labels is None else labels[inputs.truth])

    def show(self, finding: CheckFinding) -> list[Block]:
        """Show nothing: how good the model is stands in the section on the model."""
        return []


def describe_fit(fit: ClassifierFit | RegressionFit | TokenFit, labels: Ints | None) -> CheckFinding:
    """Return the finding: nothing is cleared by a target that may be another model.

    Args:
        fit: what was measured.
        labels: classes of the members, ``[n]``; None where they have none.
    """
    if isinstance(fit, TokenFit):
        doubt, advice = plausibility.describe_token_doubt(fit), plausibility.LANGUAGE_MODEL_ADVICE
    elif isinstance(fit, RegressionFit):
        doubt, advice = plausibility.describe_regression_doubt(fit), plausibility.REGRESSION_ADVICE
    else:
        doubt, advice = _describe_classifier_doubt(fit, labels), plausibility.advise_on_classifier(labels)
    if doubt:
        return CheckFinding(_NAME, "implausible", f"{doubt}.", (advice,), measured=fit)
    return CheckFinding(_NAME, "none", "The model fits its training records.", measured=fit)


def _describe_classifier_doubt(fit: ClassifierFit, labels: Ints | None) -> str:
    if fit.accuracy is None or labels is None:
        return "the model gives all candidates one and the same class" if fit.single_answer else ""
    if fit.classes is not None and plausibility.fits_classes(fit.classes):
        return ""
    note = ", completed where their values are unknown" * fit.accuracy.completed
    return plausibility.describe_accuracy_doubt(round(fit.accuracy.members.value * len(labels)), labels, note)
