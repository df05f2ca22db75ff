"""The order in which a model sees its records: the same for every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Ints


def epoch(rows: Ints, seed: int, number: int, size: int) -> Sequence[Ints]:
    """The batches of one epoch: a permutation of ``rows`` that depends on seed and epoch alone, cut at ``size``.

    A last batch of a single record joins the one before (batch normalisation has no variance of one).

    Examples:
        >>> [len(batch) for batch in epoch(np.arange(9), seed=0, number=0, size=4)]
        [4, 5]
    """
    order = rows[seeds.generator(seed, "order", number).permutation(len(rows))]
    return np.split(order, cuts(len(rows), size))


def cuts(records: int, size: int) -> Ints:
    """Where the batches of an epoch begin, the first left out."""
    found = np.arange(size, records, size)
    return found[:-1] if len(found) and records - found[-1] == 1 else found


def steps(records: int, size: int) -> int:
    """Number of batches in an epoch."""
    return len(cuts(records, size)) + 1
