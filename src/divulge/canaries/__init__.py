"""Training data into planted records, and back into a proven ε: is a claim of differential privacy true?"""

from divulge.canaries.claim import Claim
from divulge.canaries.game import CanaryAudit, audit, play
from divulge.canaries.gradients import GradientCanaries
from divulge.canaries.kinds import KINDS
from divulge.canaries.planted import DESIGNS, Canaries, make
from divulge.canaries.proof import Proof, prove

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
