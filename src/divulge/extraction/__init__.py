"""Prompts into continuations: can documents be extracted from a language model that were used to train it?"""

from divulge.extraction.completions import Completions, Cut, MeasuredDocuments, draws_needed, probability_seen
from divulge.extraction.measuring import measure
from divulge.extraction.result import Extraction, RateComparison

__all__ = [
    "Completions",
    "Cut",
    "Extraction",
    "MeasuredDocuments",
    "RateComparison",
    "draws_needed",
    "measure",
    "probability_seen",
]
