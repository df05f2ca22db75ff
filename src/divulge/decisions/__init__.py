"""Scores into yes/no with a guarantee."""

from divulge.decisions import adadetect, controls, fdr, knockoff

__all__ = ["adadetect", "controls", "fdr", "knockoff"]
