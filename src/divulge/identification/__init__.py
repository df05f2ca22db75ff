"""Which of these documents were used for training: a set with a bound on false discoveries.

`identify` takes scores and gives a selection; `tables` does the same for files of any size, `scoring`
asks a model for the scores first, `redecide` changes the level of a finished run, `envelope` bounds the false
discovery proportion of its best candidates, `sensitivity` says how much doubt it survives, and `report` renders it.
"""

from divulge.identification.best import envelope
from divulge.identification.doubt import sensitivity
from divulge.identification.from_arrays import identify
from divulge.identification.table_results import redecide, report
from divulge.identification.truth import realised

__all__ = ["envelope", "identify", "realised", "redecide", "report", "sensitivity"]
