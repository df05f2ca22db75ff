"""Copies across the sets: what a model gives away of a record it gives away of its copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.auditing.checks.check import Check
from divulge.report import formatting
from divulge.report.sections import FAIRNESS_TITLE
from divulge.results import CheckFinding

if TYPE_CHECKING:
    from divulge.auditing.checks.check import ScoredAudit
    from divulge.results import RunMetadata


class Copies(Check):
    """Count equal records in several sets, and those that were kept; texts that are nearly equal are counted there."""

    name = "copies across the sets"

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Return how many there are, and of how many candidates they can hide a leak."""
        inputs = audit.prepared.inputs
        sentence = f"Exact duplicates across members, non-members and population: {inputs.duplicates}."
        return CheckFinding(self.name, "none", sentence, section=FAIRNESS_TITLE, hidden=inputs.copied)


def count_copies(about: RunMetadata) -> int:
    """Return how many candidates a copy in another set can hide a leak of: equal ones that were kept, and texts alike.

    A non-member that equals a member is known to a model that learned the member.
    """
    return sum(finding.hidden for finding in about.findings)


def hidden_share(about: RunMetadata, n_members: int, n_nonmembers: int) -> float:
    """Return the largest share q of the non-members that may be members in truth, in [0, 1].

    The AUC is then (1 - q) times the one against the others, and q times that of members against copies, which is
    anything from 0 to 1: copies may be the records of which the model is surest. All may be among the candidates in
    question.
    """
    return min(1.0, count_copies(about) / max(1, min(n_members, n_nonmembers)))


def describe_copies(about: RunMetadata) -> str:
    """Say that copies across the sets can hide a leak, and what to do."""
    count = count_copies(about)
    # Any other policy leaves no equal records: those that are counted are texts that are nearly so.
    advice = "equal ones: duplicates='drop'" if about.settings.duplicates == "keep" else "they are nearly equal texts"
    verb = "has a copy" if count == 1 else "have copies"
    return (
        f"{formatting.format_count(count, 'candidate')} {verb} in another set: what a model gives away of a record it "
        f"gives away of its copy, so the comparison can hide a leak. Take them out ({advice})"
    )
