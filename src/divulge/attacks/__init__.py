"""Numbers across models into a score: arrays in, one score per candidate out.

Every attack is a frozen dataclass that is its own configuration, with
``score(evidence: Evidence) -> float64[n]``; larger means more like a member. ``run(evidence)`` also gives
notes on the scores, and ``needs`` says what of the evidence is read.
"""

from __future__ import annotations

from divulge.attacks import auto, lira, regressors, rmia
from divulge.attacks.auto import Auto, AutoOnline, Combined, Consensus
from divulge.attacks.bavaria import BaVarIA
from divulge.attacks.learned import Learned
from divulge.attacks.lira import Averaged, LiRA, SequenceLiRA
from divulge.attacks.prediction_errors import OnErrors
from divulge.attacks.protocol import Attack, Need, Scored, Scores, adapt, seeded
from divulge.attacks.quantile import QuantileRegression
from divulge.attacks.residual import Residual, Transductive
from divulge.attacks.rmia import BASE, RMIA, MajorityRMIA
from divulge.attacks.threshold import Calibrated, Substitute, Threshold, at_risk
from divulge.attacks.token_comparison import EZ, WBC

__all__ = [
    "BASE",
    "EZ",
    "RMIA",
    "WBC",
    "Attack",
    "Auto",
    "AutoOnline",
    "Averaged",
    "BaVarIA",
    "Calibrated",
    "Combined",
    "Consensus",
    "Learned",
    "LiRA",
    "MajorityRMIA",
    "Need",
    "OnErrors",
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
