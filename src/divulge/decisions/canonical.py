"""Rows without their order: what a decision draws or sums depends on the rows themselves, never on where they stand."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from divulge.types import Floats


def ordered(table: Floats) -> Floats:
    """The rows ``[n, d]`` in ascending order, by the last column first; minus zero is zero.

    Examples:
        >>> ordered(np.array([[2.0, 1.0], [-0.0, 1.0], [5.0, 0.0]])).tolist()
        [[5.0, 0.0], [0.0, 1.0], [2.0, 1.0]]
    """
    found = table + 0.0
    return found[np.lexsort(found.T)]


def digest(*tables: Floats) -> int:
    """A number made of all values, for `divulge.seeds.generator`: other values, other draws.

    Examples:
        >>> digest(np.zeros((2, 1))) == digest(np.zeros((2, 1))), digest(np.zeros((2, 1))) == digest(np.zeros((1, 2)))
        (True, False)
    """
    found = hashlib.blake2b(digest_size=8)
    for table in tables:
        found.update(repr(table.shape).encode())
        found.update(np.ascontiguousarray(table, dtype="<f8").tobytes())
    return int.from_bytes(found.digest(), "little")
