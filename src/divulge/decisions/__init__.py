"""Scores into selections with a guarantee: bounds on the false-positive rate and on false discoveries.

| question | module |
|---|---|
| Which candidates are members, with a bounded false-positive rate? | `fpr` |
| … with a bounded false discovery rate, also for groups and at the boundary? How robust is it? | `fdr` |
| How many of the k best are non-members, for all k at once? | `fdp` |
| … where the calibration differs from the candidates in known ways? | `weighted` |
| What share of the candidates are members? | `usage` |
| Does anything speak against the guarantee? | `controls` |
| How can several columns become one score? | `pooled_scores` |
| How many calibration records are needed? | `planning` |
| Which procedures are there? | `methods` |
"""

import warnings
from types import SimpleNamespace

from divulge.decisions import controls, fdp, fdr, fpr, planning, pooled_scores, weighted
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
    "weighted",
]

_FORMER_MODULES = {
    "adadetect": {"scores": pooled_scores.adadetect_scores},
    "boundary": {"select": fdr.select_at_boundary},
    "conformal": {"p_values": fpr.p_values},
    "groups": {
        "select": fdr.select_groups,
        "combined": fdr.combine_p_values,
        "GroupSelection": fdr.GroupSelection,
    },
    "low_end": {"control": controls.low_end},
    "sensitivity": {"of": fdr.sensitivity, "Sensitivity": fdr.Sensitivity},
    "strata": {
        "Strata": weighted.Strata,
        "p_values": weighted.stratified_p_values,
        "select": weighted.select_within_strata,
    },
    "weighted_fdr": {"select": weighted.select},
}


def __getattr__(name: str) -> SimpleNamespace:
    """Return the functions of a former module under their old names, with a deprecation warning."""
    if name not in _FORMER_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    functions = _FORMER_MODULES[name]
    successors = ", ".join(f"{value.__module__}.{value.__name__}" for value in functions.values())
    warnings.warn(f"divulge.decisions.{name} is deprecated; use {successors}", DeprecationWarning, stacklevel=2)
    return SimpleNamespace(**functions)
