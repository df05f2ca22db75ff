"""Part of a record into whole ones: imputers learn from auxiliary records and fill in what is unknown.

What each is worth: see the page on partly known records.
"""

from divulge.completion.imputers import (
    ConditionalGaussian,
    CustomImputer,
    FittedImputer,
    Imputer,
    Mean,
    imputer,
    mask,
    overlap,
)

__all__ = [
    "ConditionalGaussian",
    "CustomImputer",
    "FittedImputer",
    "Imputer",
    "Mean",
    "imputer",
    "mask",
    "overlap",
]
