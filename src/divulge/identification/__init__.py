"""Which of these documents were used for training: a set with a bound on false discoveries.

`identify` takes scores and gives a selection; `from_tables` does the same for files of any size, `document_scoring`
asks a model for the scores first, `redecide` changes the level of a finished run, `envelope` bounds the false
discovery proportion of its best candidates, `sensitivity` says how much doubt it survives, and `report` renders it.
"""

from divulge.identification.decision import realised
from divulge.identification.finished_run import envelope, sensitivity
from divulge.identification.from_arrays import identify
from divulge.identification.from_tables import redecide, report

__all__ = ["envelope", "identify", "realised", "redecide", "report", "sensitivity"]
