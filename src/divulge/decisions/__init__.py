"""Scores into selections with a guarantee: bounds on the false-positive rate and on false discoveries.

| question | module |
|---|---|
| Which candidates are members, with a bounded false-positive rate? | `fpr` |
| … with a bounded false discovery rate, also for groups and at the boundary? How robust is it? | `fdr` |
| How many of the k best are non-members, for all k at once? | `fdp` |
| … of a class without calibration records? | `unseen_classes` |
| … where the calibration differs from the candidates in known ways? | `strata` |
| What share of the candidates are members? | `usage` |
| Does anything speak against the guarantee? | `controls` |
| How can several columns become one score? | `pooled_scores` |
| How many calibration records are needed? | `planning` |
| Which procedures are there? | `methods` |
"""

from divulge.decisions import controls, fdp, fdr, fpr, planning, pooled_scores, strata, unseen_classes
from divulge.decisions.methods import BH, PTDI, AdaDetect, Adaptive, Auto, Moments, Storey

__all__ = [
    "BH",
    "PTDI",
    "AdaDetect",
    "Adaptive",
    "Auto",
    "Moments",
    "Storey",
    "controls",
    "fdp",
    "fdr",
    "fpr",
    "planning",
    "pooled_scores",
    "strata",
    "unseen_classes",
]
