"""Canaries: plant records in training data, and bound from below the ε that the training spent."""

from divulge.canaries.canary_audit import CanaryAudit, audit, play
from divulge.canaries.canary_records import DESIGNS, KINDS, Canaries, make
from divulge.canaries.gradients import GradientCanaries
from divulge.canaries.proof import Claim, Proof, prove

__all__ = [
    "DESIGNS",
    "KINDS",
    "Canaries",
    "CanaryAudit",
    "Claim",
    "GradientCanaries",
    "Proof",
    "audit",
    "make",
    "play",
    "prove",
]
