"""Whether members and non-members can be compared at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.auditing import covariate_adjustment
from divulge.auditing.verdict import format_counts
from divulge.evaluation.covariates import FALSE_ALARM
from divulge.report import Paragraph, Section, in_words
from divulge.report.markdown import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from divulge.results import AdjustmentSummary, AuditSummary, BlindBaseline


def fairness_section(summary: AuditSummary) -> Section:
    """The blind baseline, copies, and how many records there are of each kind."""
    about = summary.about
    held = about.counts
    texts: Iterable[str] = [
        _describe_blind_baseline(about.blind_baseline),
        *([] if summary.adjusted is None else [_describe_covariate_check(summary.adjusted)]),
        *([] if about.texts is None else [in_words.sentence(about.texts.shared)]),
        f"Exact duplicates across members, non-members and population: {about.duplicates}.",
        f"{format_counts(held.members, held.nonmembers)} were compared. The auditor held {held.population:,} other "
        f"records to learn from and {held.calibration:,} to calibrate with.",
        *map(in_words.sentence, about.warnings),
    ]
    return Section("Is the comparison fair?", [*map(Paragraph, texts)])


def _describe_covariate_check(adjusted: AdjustmentSummary) -> str:
    names = covariate_adjustment.format_covariates(adjusted.adjusted_for)
    judged = "no difference found among those that took part"
    if adjusted.p_value <= FALSE_ALARM:
        judged = "they can, also among those that took part: the split is confounded"
    if not adjusted.overlap:
        judged = "hardly any are alike: the split is confounded"
    return (
        f"Covariates: can members be told from non-members by {names}? p = {adjusted.p_before:.2g} of all candidates, "
        f"p = {adjusted.p_value:.2g} of the {adjusted.members + adjusted.nonmembers:,} that took part: {judged}."
    )


def _describe_blind_baseline(baseline: BlindBaseline | None) -> str:
    if baseline is None:
        return "Blind baseline: too few records for one, so a confounded split would go undetected."
    seen = "" if baseline.detectable is None else (
        " A shift of one column would have been found with about 80 % probability from an AUC of "
        f"{baseline.detectable:.3f} on."
    )  # fmt: skip
    judged = "it can: the split is confounded" if baseline.confounded else "no difference found"
    return (
        "Blind baseline: can a classifier that never sees the model tell members from non-members? "
        f"AUC {shown(baseline.auc)}, p = {baseline.p_value:.2g} ({baseline.method}): {judged}.{seen}"
    )
