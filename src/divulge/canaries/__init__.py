"""Training data into planted records, and back into a proven ε: is a claim of differential privacy true?"""

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
