"""Prompts into continuations: can documents be extracted from a language model that were used to train it?"""

from divulge.extraction.chances import draws_needed, seen
from divulge.extraction.completed import Completed, Measured, RateOf
from divulge.extraction.measuring import measure
from divulge.extraction.passages import Cut
from divulge.extraction.result import Extraction

__all__ = ["Completed", "Cut", "Extraction", "Measured", "RateOf", "draws_needed", "measure", "seen"]
