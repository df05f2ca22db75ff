"""Inspection of a model's file: its arrays, records found in them, hints about its structure.

`collect_arrays` lists every array of an artefact, `find_stored_records` searches them for candidate rows, and
`inspect_file` says without any data which arrays are as long as the training set, which leaves hold one record and
which settings are known to leak. `inspect_outputs` counts how many training records share an output.
"""

from divulge.inspection.model_arrays import ModelArray, collect_arrays, find_stored_records, read_model
from divulge.inspection.structure import (
    Hint,
    InspectedFile,
    Inspection,
    inspect_file,
    inspect_folder,
    inspect_model,
    inspect_outputs,
)
from divulge.results import ArrayMatch, StoredRecords

__all__ = [
    "ArrayMatch",
    "Hint",
    "InspectedFile",
    "Inspection",
    "ModelArray",
    "StoredRecords",
    "collect_arrays",
    "find_stored_records",
    "inspect_file",
    "inspect_folder",
    "inspect_model",
    "inspect_outputs",
    "read_model",
]
