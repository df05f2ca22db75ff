"""Whether members and non-members can be compared at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.auditing.verdict import counted
from divulge.report import Paragraph, Section, in_words
from divulge.report.markdown import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from divulge.results import AuditSummary, BlindBaseline


def section(summary: AuditSummary) -> Section:
    """The blind baseline, copies, and how many records there are of each kind."""
    about = summary.about
    held = about.counts
    texts: Iterable[str] = [
        _blind(about.blind_baseline),
        *([] if about.texts is None else [in_words.sentence(about.texts.shared)]),
        f"Exact duplicates across members, non-members and population: {about.duplicates}.",
        f"{counted(held.members, held.nonmembers)} were compared. The auditor held {held.population:,} other "
        f"records to learn from and {held.calibration:,} to calibrate with.",
        *map(in_words.sentence, about.warnings),
    ]
    return Section("Is the comparison fair?", [*map(Paragraph, texts)])


def _blind(baseline: BlindBaseline | None) -> str:
    if baseline is None:
        return "Blind baseline: too few records for one, so a confounded split would go undetected."
    judged = "it can: the split is confounded" if baseline.confounded else "no difference found"
    return (
        "Blind baseline: can a classifier that never sees the model tell members from non-members? "
        f"AUC {shown(baseline.auc)}, p = {baseline.p_value:.2g} ({baseline.method}): {judged}."
    )
