"""Data into trained reference models: many, fast, resumable.

Examples:
    >>> from divulge import references
    >>> references.splits.online(6, 2, seed=0)
    Splits(models=2, records=6, members=3..3)
"""

from divulge.references import access, bodies, splits
from divulge.references.neural import Network
from divulge.references.outputs import Trained
from divulge.references.pool import Pool
from divulge.references.privacy import Private
from divulge.references.progress import Bar, Progress
from divulge.references.splits import Splits
from divulge.references.training import Custom, Train, train_one

__all__ = [
    "Bar",
    "Custom",
    "Network",
    "Pool",
    "Private",
    "Progress",
    "Splits",
    "Train",
    "Trained",
    "access",
    "bodies",
    "splits",
    "train_one",
]
