"""Scores into yes/no with a guarantee."""

from divulge.decisions import adadetect, conformal, controls, fdr, fpr, knockoff, weighted

__all__ = ["adadetect", "conformal", "controls", "fdr", "fpr", "knockoff", "weighted"]
