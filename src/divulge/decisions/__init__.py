"""Scores into yes/no with a guarantee."""

from divulge.decisions import conformal, fpr

__all__ = ["conformal", "fpr"]
