"""A torch data set, or any other sequence of pairs, as records."""

from __future__ import annotations

from typing import Any

import numpy as np

from divulge import checks, errors
from divulge.types import Records


def from_pairs(dataset: Any) -> Records:
    """The records of a torch ``Dataset``, or of any other sequence of ``(x, y)`` pairs.

    Args:
        dataset: has a length and gives ``(x, y)`` for each number below it; all are read, into memory.

    Raises:
        divulge.InputError: no length, no pairs, values of different shapes, or what `Records` refuses.

    Examples:
        >>> from_pairs([(np.zeros(3), 0), (np.ones(3), 1)])
        Records(n=2, shape=(3,), classes=2)
    """
    if not hasattr(dataset, "__getitem__") and hasattr(dataset, "dataset"):
        raise checks.InputError(
            "dataset: a data set is needed, got a loader of batches; pass its .dataset (or divulge.Records(x, y) of "
            "what it gives, if it is changed on the way)"
        )
    checks.able(dataset, "dataset", "__len__", "__getitem__")
    with errors.theirs("dataset: its length"):
        count = len(dataset)
    checks.integer(count, "dataset: its length", least=1)
    x: list[Any] = []
    y: list[Any] = []
    for row in range(count):
        with errors.theirs("dataset"):
            pair = dataset[row]
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise checks.InputError(
                f"dataset: pairs (x, y) are needed, got {checks.shown(pair)} at {row}; divulge.Records(x, y) takes "
                "columns as they are"
            )
        with errors.theirs("dataset: as an array"):
            x.append(pair[0] if isinstance(pair[0], str) else np.asarray(pair[0]))
            y.append(np.asarray(pair[1]).tolist())
    if len(shapes := sorted({np.shape(value) for value in x})) > 1:
        raise checks.InputError(f"dataset: all x need one shape, got {shapes[0]} and {shapes[1]}")
    return Records(np.array(x, dtype=object) if x and isinstance(x[0], str) else np.array(x), y)
