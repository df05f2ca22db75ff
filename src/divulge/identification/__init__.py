"""Identify documents that were used for training, with a bound on false discoveries.

`identify` selects from arrays of scores, `from_tables` from files of any size, and `document_scoring` computes scores
with a language model. `redecide` changes the level of a finished run, `envelope` bounds the false discovery proportion
of its best candidates, `sensitivity` computes how much doubt it survives, and `report` renders it.
"""

from divulge.identification.decision import realised
from divulge.identification.finished_run import envelope, sensitivity
from divulge.identification.from_arrays import identify
from divulge.identification.from_tables import redecide, report

__all__ = ["envelope", "identify", "realised", "redecide", "report", "sensitivity"]
