"""Signals for those who hold only part of a record.

An imputer completes it from auxiliary records; any signal can then be asked of the completion. MRAD
completes it by descending the target's own loss, gradient matching by descending its gradient. What each
is worth: see the page on partial records.
"""

from divulge.signals.autoencoder import Autoencoder
from divulge.signals.donors import KNN, HotDeck, Mean
from divulge.signals.gaussian import ConditionalGaussian
from divulge.signals.imputers import Custom, Fitted, Imputer, imputer, overlap
from divulge.signals.masks import mask
from divulge.signals.matching import FittedMatching, GradientMatching
from divulge.signals.mrad import MRAD, FittedMRAD

__all__ = [
    "KNN",
    "MRAD",
    "Autoencoder",
    "ConditionalGaussian",
    "Custom",
    "Fitted",
    "FittedMRAD",
    "FittedMatching",
    "GradientMatching",
    "HotDeck",
    "Imputer",
    "Mean",
    "imputer",
    "mask",
    "overlap",
]
