"""Digests of texts: 64 bits, by which those that overlap are told, and a sample of them is drawn.

That any of ``m`` texts shares its digest with a different one of ``n`` has a chance of about ``m n / 2^64``: 1 in 18
million for a million of each. It would be said to overlap, which removes a candidate and never adds a selected one.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds

if TYPE_CHECKING:
    from divulge.types import Array, Bools

_MISSING = bytes(8)


def of(texts: Array, seed: int) -> Array:
    """One digest per text, ``[n]`` uint64, the same on every machine; 0 where the text is None.

    Examples:
        >>> of(np.array(["a", None], object), 0)
        array([512022889870262686,                  0], dtype=uint64)
    """
    salt = seeds.derive_seed(seed, "digests of texts").to_bytes(16, "little")
    make = hashlib.blake2b
    told = [
        _MISSING if text is None else make(text.encode(), digest_size=8, salt=salt).digest() for text in texts.tolist()
    ]
    return np.frombuffer(b"".join(told), "<u8")


class Lowest:
    """The distinct texts of many with the lowest digests: a sample that no order of the rows changes."""

    def __init__(self, size: int) -> None:
        self._size, self._bound = size, np.uint64(2**64 - 1)
        self._kept: set[tuple[int, str]] = set()

    def add(self, digests: Array, texts: Array, usable: Bools) -> None:
        """Offer texts ``[n]``, those of the mask ``usable``, with their digests ``[n]``."""
        low = usable & (digests <= self._bound)
        self._kept.update(zip(digests[low].tolist(), texts[low].tolist(), strict=True))
        if len(self._kept) > 2 * self._size:
            self._cut()

    def texts(self) -> list[str]:
        """The sample, in the order of the digests."""
        self._cut()
        return [text for _, text in sorted(self._kept)]

    def _cut(self) -> None:
        lowest = sorted(self._kept)[: self._size]
        self._kept = set(lowest)
        if lowest and len(lowest) == self._size:
            self._bound = np.uint64(lowest[-1][0])
