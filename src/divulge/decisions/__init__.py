"""Scores into yes/no with a guarantee."""

from divulge.decisions import (
    adadetect,
    blind_score,
    boundary,
    conformal,
    controls,
    fdp,
    fdr,
    fpr,
    groups,
    knockoff,
    low_end,
    planning,
    sensitivity,
    strata,
    weighted,
    weighted_fdr,
)
from divulge.decisions.methods import BH, PTDI, AdaDetect, Adaptive, Auto, Knockoff, Storey
from divulge.decisions.moments import Moments

__all__ = [
    "BH",
    "PTDI",
    "AdaDetect",
    "Adaptive",
    "Auto",
    "Knockoff",
    "Moments",
    "Storey",
    "adadetect",
    "blind_score",
    "boundary",
    "conformal",
    "controls",
    "fdp",
    "fdr",
    "fpr",
    "groups",
    "knockoff",
    "low_end",
    "planning",
    "sensitivity",
    "strata",
    "weighted",
    "weighted_fdr",
]
