"""Networks at work, whoever trains them: threads, streams of random numbers, batches, finite weights."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import torch

from divulge import seeds

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from divulge.types import Ints


@contextlib.contextmanager
def single_thread() -> Generator[None]:
    """Limit torch to one thread inside the block: small products gain nothing from more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def torch_seed(seed: int, where: torch.device) -> Generator[None]:
    """Seed torch's generators inside the block, and restore them after it."""
    devices = [where] if where.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def all_finite(tensors: Iterable[torch.Tensor]) -> bool:
    """Check that no value is NaN or infinite."""
    return all(bool(t.isfinite().all()) for t in tensors)


def epoch_batches(rows: Ints, seed: int, epoch: int, size: int) -> Sequence[Ints]:
    """Draw the batches of one epoch: a permutation of ``rows`` that depends on seed and epoch alone, cut at ``size``.

    Every engine sees the records in this order. A last batch of a single record joins the one before (batch
    normalisation has no variance of one).

    Examples:
        >>> [len(batch) for batch in epoch_batches(np.arange(9), seed=0, epoch=0, size=4)]
        [4, 5]
    """
    order = rows[seeds.generator(seed, "order", epoch).permutation(len(rows))]
    return np.split(order, _cuts(len(rows), size))


def steps_per_epoch(records: int, size: int) -> int:
    """Number of batches per epoch."""
    return len(_cuts(records, size)) + 1


def _cuts(records: int, size: int) -> Ints:
    """Return the positions where the batches of an epoch begin, the first left out."""
    cuts = np.arange(size, records, size)
    return cuts[:-1] if len(cuts) and records - cuts[-1] == 1 else cuts
