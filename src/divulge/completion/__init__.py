"""Part of a record into whole ones: imputers learn from auxiliary records and fill in what is unknown.

What each is worth: see the page on partly known records.
"""

from divulge.completion.autoencoder import Autoencoder
from divulge.completion.imputers import (
    KNN,
    ConditionalGaussian,
    CustomImputer,
    FittedImputer,
    HotDeck,
    Imputer,
    Mean,
    imputer,
    mask,
    overlap,
)

__all__ = [
    "KNN",
    "Autoencoder",
    "ConditionalGaussian",
    "CustomImputer",
    "FittedImputer",
    "HotDeck",
    "Imputer",
    "Mean",
    "imputer",
    "mask",
    "overlap",
]
