"""Checks of an audit: each is one object in one file that measures, says what it found, and shows it.

Pipeline, verdict, gate and page loop over `CHECKS` and over what they found. A new check is a file in this package and
an entry here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.auditing.checks.agreement import ReferenceAnswers
from divulge.auditing.checks.blind_baseline import BlindSplit
from divulge.auditing.checks.check import Check, ScoredAudit, run_check, show_sentences
from divulge.auditing.checks.control_models import Controls
from divulge.auditing.checks.copies import Copies
from divulge.auditing.checks.covariates import CovariateBalance
from divulge.auditing.checks.determinism import Determinism
from divulge.auditing.checks.feature_origin import FeatureOrigin
from divulge.auditing.checks.held_out import HeldOut
from divulge.auditing.checks.left_out_classes import ClassesLeftOut
from divulge.auditing.checks.stored_records import ArraySearch
from divulge.auditing.checks.target_fit import TargetFit
from divulge.auditing.checks.texts import TextSignatures
from divulge.auditing.checks.training_labels import LabelsOfTraining
from divulge.auditing.checks.transfer import ThresholdTransfer

if TYPE_CHECKING:
    from divulge.report.page import Block
    from divulge.results import CheckFinding

CHECKS: tuple[Check, ...] = (
    ReferenceAnswers(),
    FeatureOrigin(),
    BlindSplit(),
    TextSignatures(),
    CovariateBalance(),
    Copies(),
    ThresholdTransfer(),
    ClassesLeftOut(),
    TargetFit(),
    ArraySearch(),  # after those that say whether the sets are comparable
    HeldOut(),
    LabelsOfTraining(),
    Determinism(),
    Controls(),  # after the agreement of references
)
"""All checks, in the order in which they run and in which the page shows them; each reads the findings before it."""


def show_finding(finding: CheckFinding) -> list[Block]:
    """Return what the page shows of a finding."""
    check = next((check for check in CHECKS if check.name == finding.check), None)
    return show_sentences(finding) if check is None else check.show(finding)


__all__ = ["CHECKS", "Check", "ScoredAudit", "run_check", "show_finding"]
