"""Which of these documents were used for training: a set with a bound on false discoveries.

`identify` takes scores and gives a selection; `tables` does the same for files of any size, `scoring`
asks a model for the scores first, and `redecide` changes the level of a finished run.
"""

from divulge.identification.decide import identify, realised
from divulge.identification.outcome import redecide

__all__ = ["identify", "realised", "redecide"]
