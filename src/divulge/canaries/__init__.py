"""Canaries: plant records in training data, and bound from below the ε that the training spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from divulge import lazy
from divulge.canaries.canary_audit import CanaryAudit, audit, play
from divulge.canaries.canary_records import DESIGNS, KINDS, Canaries, make
from divulge.canaries.gradients import GradientCanaries
from divulge.canaries.label_coins import LabelPrivacy, label_privacy
from divulge.canaries.monitor import Monitor
from divulge.canaries.proof import Claim, Proof, prove

if TYPE_CHECKING:
    from divulge.canaries.trainer import TrainerCallback

__all__ = [
    "DESIGNS",
    "KINDS",
    "Canaries",
    "CanaryAudit",
    "Claim",
    "GradientCanaries",
    "LabelPrivacy",
    "Monitor",
    "Proof",
    "TrainerCallback",
    "audit",
    "label_privacy",
    "make",
    "play",
    "prove",
]


def __getattr__(name: str) -> Any:
    if name != "TrainerCallback":
        raise AttributeError(f"module 'divulge.canaries' has no attribute {name!r}")
    return lazy.module("divulge.canaries.trainer").TrainerCallback  # says which extra is missing
