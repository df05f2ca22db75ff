"""Signals for those who hold only part of a record.

An imputer completes it from auxiliary records; any signal can then be asked of the completion. MRAD
completes it by descending the target's own loss. What each is worth: see the page on partial records.
"""

from divulge.signals.gaussian import ConditionalGaussian
from divulge.signals.imputers import KNN, Custom, Fitted, HotDeck, Imputer, Mean, imputer, overlap
from divulge.signals.masks import mask
from divulge.signals.mrad import MRAD, FittedMRAD

__all__ = [
    "KNN",
    "MRAD",
    "ConditionalGaussian",
    "Custom",
    "Fitted",
    "FittedMRAD",
    "HotDeck",
    "Imputer",
    "Mean",
    "imputer",
    "mask",
    "overlap",
]
