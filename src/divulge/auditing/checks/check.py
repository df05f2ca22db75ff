"""A check: what it is given, what it returns, how it stands on the page."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from divulge.report import Paragraph, Table
from divulge.report.formatting import format_estimate
from divulge.results import CheckFinding
from divulge.validation import check_instance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.auditing.prepared import AuditLog, PreparedAudit
    from divulge.evaluation.covariates import Adjustment
    from divulge.evidence import Measurements
    from divulge.report.page import Block
    from divulge.results import RunSettings
    from divulge.types import Floats

NEXT_STEPS = (
    "What to do next: compare with records that were left over when the training records were drawn at random. "
    "Where there are none, divide all records at random in two parts, with equal ones and those of one person in "
    "the same part, train again on one part and compare with the other. Take out records of a source, date or class "
    "that only one of the two has. If both really were drawn at random, they differ by chance: take more records, "
    "or name the columns in which they differ as covariates, so that like is compared with like"
)
REDRAW_ADVICE = (
    "Compare with records that were drawn at random from the same pool as the training records, and audit again"
)
TIME_ADVICE = (
    "The sets seem to be of different times, which no new draw of later records mends: take as non-members records of "
    "the training period that were left out of training; where there are none, compare records of the time that both "
    "sets share, or plant canaries in the next training (divulge canaries)"
)
_TIME = re.compile(r"(?<![a-z])(date|datetime|timestamp|year|month|quarter)(?![a-z])")


@dataclass(frozen=True, slots=True, eq=False)
class ScoredAudit:
    """An audit whose records are scored.

    Most checks read ``audit.prepared.inputs`` (the records, who is a member), ``audit.prepared.views[0]`` (all records
    that a model was asked about, rows as in ``audit.prepared.layout``), ``audit.measurements[0].target`` (the model's
    answers about them, by signal) or ``audit.scores``.

    Args:
        prepared: target, records, recipes and seed.
        settings: all that determines the run.
        measurements: signals under target and reference models, of each of ``prepared.views``.
        scores: recipe → scores of the candidates, ``[n]``.
        calibration: recipe → scores of the calibration records, ``[k]``.
        fpr: the levels reported.
        log: what was noted so far; a check may add warnings.
        label_errors: how badly each candidate's label is predicted from its record, ``[n, 2]``; None without labels.
        adjustment: the comparison of candidates that are alike in covariates; None without any.
        findings: of the checks before this one.
    """

    prepared: PreparedAudit
    settings: RunSettings
    measurements: Sequence[Measurements]
    scores: Mapping[str, Floats]
    calibration: Mapping[str, Floats]
    fpr: tuple[float, ...]
    log: AuditLog
    label_errors: Floats | None = None
    adjustment: Adjustment | None = None
    findings: list[CheckFinding] = field(default_factory=list)


class Check(ABC):
    """A check of an audit: it measures, says what it found, and shows it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name on page, in timings and in the summary."""

    @abstractmethod
    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Return what was found; None where there is nothing to show."""

    def show(self, finding: CheckFinding) -> list[Block]:
        """Return what the page shows of a finding; a check that shows more, or nothing, says so itself."""
        return show_sentences(finding)


def run_check(check: Check, audit: ScoredAudit) -> CheckFinding | None:
    """Return what a check found; what it raises names the check.

    Raises:
        divulge.InputError: it returned something else than a finding.
    """
    try:
        finding = check.measure(audit)
    except Exception as error:
        error.add_note(f"raised by the check {check.name!r} of an audit")
        raise
    if finding is None:
        return None
    return check_instance(finding, f"check {check.name!r}: measure", CheckFinding, "a CheckFinding or None")


def show_sentences(finding: CheckFinding) -> list[Block]:
    """Return a finding's sentences, its figures, its table."""
    paragraphs = finding.paragraphs or (finding.sentence, *finding.details)
    blocks: list[Block] = [Paragraph(text) for text in paragraphs]
    if finding.figures:
        rows = [(name, format_estimate(figure)) for name, figure in finding.figures.items()]
        blocks.append(Table(("what", "value"), rows, sortable=False))
    if finding.table:
        columns, *rows = finding.table
        blocks.append(Table(columns, rows))
    return blocks


def advise_redraw(differences: Sequence[str]) -> str:
    """Advise how to get sets that can be compared, given what tells them apart; empty if nothing says how."""
    return TIME_ADVICE if any(_TIME.search(text.replace("_", " ").lower()) for text in differences) else ""


def confounded_details(differences: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what follows the sentence on a confounded split: what separates the sets, and what to do next."""
    separating = [f"What tells them apart: {'; '.join(differences)}."] if differences else []
    advice = advise_redraw(differences) or NEXT_STEPS
    return (
        "So no number below says anything about the model, good or bad: whether it leaks is not known.",
        *separating,
        f"{advice}.",
    )
