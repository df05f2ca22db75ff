"""Margins and multipliers into training points."""

from divulge.reconstruction.univariate import Reconstruction, Stretch, univariate

__all__ = ["Reconstruction", "Stretch", "univariate"]
