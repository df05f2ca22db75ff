"""Blind baseline: whether members can be told from non-members without the model."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from divulge import evaluation
from divulge.auditing.checks.check import Check, confounded_details
from divulge.errors import InputError
from divulge.evaluation import blind
from divulge.report.formatting import format_estimate
from divulge.report.sections import FAIRNESS_TITLE
from divulge.results import BlindBaseline, CheckFinding

if TYPE_CHECKING:
    from divulge.auditing.checks.check import ScoredAudit

CONFOUNDED = "the split is confounded: members can be told from non-members without the model"
_NAME = "blind baseline"


class BlindSplit(Check):
    """Classify members without the model; what a classifier can tell so is no leak."""

    name = _NAME

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Run the classifier; a warning where there are too few records for one."""
        inside, records = audit.prepared.inputs.truth, audit.prepared.inputs.candidates
        try:
            baseline = blind.baseline_with_features(
                records.x, records.y, records.features, inside, audit.prepared.seed, audit.prepared.other_records,
                audit.label_errors,
            )  # fmt: skip
        except InputError as error:
            # The error names arguments of the function, which are called otherwise in an audit.
            reason = str(error).replace("x_members", "members").replace("x_nonmembers", "nonmembers")
            audit.log.warnings.append(f"no blind baseline, so a confounded split would go undetected: {reason}")
            return describe_blind_baseline(None)
        differences: tuple[str, ...] = ()
        if baseline.confounded and (records.x.dtype != object or records.y is not None):
            names = None if records.encoder is None else records.encoder.encoded_names
            differences = evaluation.differences(
                records.x, inside, records.y, column_names=names, class_names=records.class_names
            )
            if blind.LABEL_ERRORS in baseline.method:
                differences = (blind.LABEL_ERRORS, *differences)
        values = {field.name: getattr(baseline, field.name) for field in fields(baseline)}
        return describe_blind_baseline(BlindBaseline(**values, differences=differences))


def describe_blind_baseline(baseline: BlindBaseline | None) -> CheckFinding:
    """Return the finding; None where there are too few records for a baseline."""
    if baseline is None:
        sentence = "Blind baseline: too few records for one, so a confounded split would go undetected."
        return CheckFinding(_NAME, "none", sentence, section=FAIRNESS_TITLE)
    detectable = "" if baseline.detectable is None or baseline.confounded else (
        " A shift of one column would have been found with about 80 % probability from an AUC of "
        f"{baseline.detectable:.3f} on."
    )  # fmt: skip
    conclusion = "it can: the split is confounded" if baseline.confounded else "no difference found"
    if not baseline.confounded and not baseline.auc.low <= 0.5 <= baseline.auc.high:
        conclusion += " (p decides; the interval, which takes each fold's classifier as given, only describes)"
    paragraph = (
        "Blind baseline: can a classifier that never sees the model tell members from non-members? "
        f"AUC {format_estimate(baseline.auc)}, p = {baseline.p_value:.2g} ({baseline.method}): "
        f"{conclusion}.{detectable}"
    )
    if not baseline.confounded:
        return CheckFinding(_NAME, "none", paragraph, section=FAIRNESS_TITLE, measured=baseline)
    return CheckFinding(
        _NAME,
        "not comparable",
        "The comparison is not fair (the split is confounded): training records and others are of different kinds, so "
        "that they can be told apart without asking the model.",
        confounded_details(baseline.differences),
        section=FAIRNESS_TITLE,
        paragraphs=(paragraph,),
        ruling=CONFOUNDED,
        measured=baseline,
    )


def describe_smallest_shift(baseline: BlindBaseline) -> str:
    """Say which difference between the sets the baseline would have seen."""
    if baseline.detectable is None:
        return "With so few records, no shift of one column would surely have been seen by the blind baseline."
    return (
        "The smallest shift of one column that the blind baseline would have seen with about 80 % probability tells "
        f"members from non-members with AUC {baseline.detectable:.3f}."
    )
