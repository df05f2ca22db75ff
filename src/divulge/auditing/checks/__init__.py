"""Checks of an audit: each is one object in one file that measures, and returns what it found.

Pipeline, verdict, gate and page loop over `CHECKS`. A new check is a file in this package and an entry here.
"""

from __future__ import annotations

from divulge.auditing.checks.check import Check, ScoredAudit
from divulge.auditing.checks.controls import Controls
from divulge.auditing.checks.determinism import Determinism
from divulge.auditing.checks.held_out import HeldOut
from divulge.auditing.checks.labels import LabelsOfTraining

CHECKS: tuple[Check, ...] = (HeldOut(), LabelsOfTraining(), Determinism(), Controls())
"""All checks, in the order in which the page shows them."""

__all__ = ["CHECKS", "Check", "ScoredAudit"]
