"""A torch data set, or any other sequence of pairs, as records."""

from __future__ import annotations

from typing import Any

import numpy as np

from divulge import errors
from divulge.errors import InputError
from divulge.types import Records
from divulge.validation import check_integer, format_value, require_callable


def from_pairs(dataset: Any) -> Records:
    """Convert a torch ``Dataset``, or any other sequence of ``(x, y)`` pairs, to records.

    Args:
        dataset: has a length and gives ``(x, y)`` for each number below it; all are read, into memory.

    Raises:
        divulge.InputError: no length, no pairs, values of different shapes, or what `Records` refuses.

    Examples:
        >>> from_pairs([(np.zeros(3), 0), (np.ones(3), 1)])
        Records(n=2, shape=(3,), classes=2)
    """
    if not hasattr(dataset, "__getitem__") and hasattr(dataset, "dataset"):
        raise InputError(
            "dataset: a data set is needed, got a loader of batches; pass its .dataset (or divulge.Records(x, y) of "
            "what it gives, if it is changed on the way)"
        )
    require_callable(dataset, "dataset", "__len__", "__getitem__")
    with errors.user_code_errors("dataset: its length"):
        count = len(dataset)
    check_integer(count, "dataset: its length", least=1)
    x: list[Any] = []
    y: list[Any] = []
    for row in range(count):
        with errors.user_code_errors("dataset"):
            pair = dataset[row]
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(
                f"dataset: pairs (x, y) are needed, got {format_value(pair)} at {row}; divulge.Records(x, y) takes "
                "columns as they are"
            )
        with errors.user_code_errors("dataset: as an array"):
            x.append(pair[0] if isinstance(pair[0], str) else np.asarray(pair[0]))
            y.append(np.asarray(pair[1]).tolist())
    if len(shapes := sorted({np.shape(value) for value in x})) > 1:
        raise InputError(f"dataset: all x need one shape, got {shapes[0]} and {shapes[1]}")
    return Records(np.array(x, dtype=object) if x and isinstance(x[0], str) else np.array(x), y)
