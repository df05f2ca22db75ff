"""Data into trained reference models: many, fast, resumable.

Examples:
    >>> from divulge import references
    >>> references.splits.online(6, 2, seed=0)
    Splits(models=2, records=6, members=3..3)
"""

from divulge.references import splits
from divulge.references.hyperparameters import LoRA, Private
from divulge.references.jobs import Trained
from divulge.references.pool import Pool
from divulge.references.progress import Bar, Progress
from divulge.references.record_source import RecordSource, scan_records
from divulge.references.splits import Splits
from divulge.references.training import Custom, FineTune, Train, train_one

__all__ = [
    "Bar",
    "Custom",
    "FineTune",
    "LoRA",
    "Pool",
    "Private",
    "Progress",
    "RecordSource",
    "Splits",
    "Train",
    "Trained",
    "scan_records",
    "splits",
    "train_one",
]
