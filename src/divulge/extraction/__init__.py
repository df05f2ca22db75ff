"""Prompts into continuations: can documents be extracted from a language model that were used to train it?"""

from divulge.extraction.completions import Completed, Measured, draws_needed, seen
from divulge.extraction.measuring import measure
from divulge.extraction.passages import Cut
from divulge.extraction.result import Extraction, RateOf

__all__ = ["Completed", "Cut", "Extraction", "Measured", "RateOf", "draws_needed", "measure", "seen"]
