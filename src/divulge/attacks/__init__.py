"""Numbers across models into a score: arrays in, one score per candidate out.

Every attack is a frozen dataclass that is its own configuration, with
``score(evidence: Evidence) -> float64[n]``; larger means more like a member. ``run(evidence)`` also gives
notes on the scores, and ``needs`` says what of the evidence is read.
"""

from __future__ import annotations

from divulge.attacks import auto, lira, regressors, rmia
from divulge.attacks.auto import Auto
from divulge.attacks.base import BASE
from divulge.attacks.bavaria import BaVarIA
from divulge.attacks.calibrated import Calibrated
from divulge.attacks.combined import Combined
from divulge.attacks.learned import Learned
from divulge.attacks.lira import LiRA
from divulge.attacks.protocol import Attack, Need, Scored, Scores, adapt, seeded
from divulge.attacks.quantile import QuantileRegression
from divulge.attacks.queried import Averaged, MajorityRMIA
from divulge.attacks.ratio import LogRatio
from divulge.attacks.residual import Residual
from divulge.attacks.rmia import RMIA
from divulge.attacks.sequence import SequenceLiRA
from divulge.attacks.substitute import Substitute
from divulge.attacks.threshold import Threshold
from divulge.attacks.traces import at_risk
from divulge.attacks.transductive import Transductive
from divulge.attacks.windows import WBC

__all__ = [
    "BASE",
    "RMIA",
    "WBC",
    "Attack",
    "Auto",
    "Averaged",
    "BaVarIA",
    "Calibrated",
    "Combined",
    "Learned",
    "LiRA",
    "LogRatio",
    "MajorityRMIA",
    "Need",
    "QuantileRegression",
    "Residual",
    "Scored",
    "Scores",
    "SequenceLiRA",
    "Substitute",
    "Threshold",
    "Transductive",
    "adapt",
    "at_risk",
    "auto",
    "lira",
    "regressors",
    "rmia",
    "seeded",
]
