"""Stored records: whether training records stand in the model's own arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge import inspection
from divulge.auditing.checks.check import Check
from divulge.results import CheckFinding

if TYPE_CHECKING:
    from divulge.auditing.checks.check import ScoredAudit
    from divulge.report.page import Block
    from divulge.results import StoredRecords

_NAME = "search of the model's arrays"


class ArraySearch(Check):
    """Search the target's arrays for the candidates.

    Where the sets are not comparable, the records' own repetitions are the control (see
    `divulge.inspection.find_stored_records`).
    """

    name = _NAME

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Return what stands there; None for texts, partly known records, and a target that shows no array."""
        prepared, inputs = audit.prepared, audit.prepared.inputs
        if inputs.candidates.x.dtype == object or prepared.partial_knowledge is not None:
            return None
        stored = inspection.find_stored_records(
            prepared.target,
            inputs.candidates,
            inputs.truth,
            seed=prepared.seed,
            comparable=all(finding.effect != "not comparable" for finding in audit.findings),
            repeats_kept=inputs.repeats_kept(audit.settings.duplicates),
        )
        return describe_stored_records(stored) if stored.arrays else None

    def show(self, finding: CheckFinding) -> list[Block]:
        """Show nothing: what stands there is the verdict."""
        return []


def describe_stored_records(stored: StoredRecords) -> CheckFinding:
    """Return the finding: records that surely stand there are a leak, whatever attacks measure."""
    details = ("Whoever holds the file holds these records, and needs no attack.", stored.evidence)
    if stored.proven:
        return CheckFinding(_NAME, "proof", stored.sentence, details, measured=stored)
    return CheckFinding(_NAME, "suspected" if stored.suspected else "none", stored.sentence, measured=stored)
