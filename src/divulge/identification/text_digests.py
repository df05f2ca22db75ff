"""Digests of 64 bits, by which ids that repeat and texts that overlap are told, and texts are sampled.

Of ``m`` values two different ones share a digest with a chance of about ``m² / 2^65``: 1 in 40 million for a million.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from divulge.types import Array, Bools

_LOW = (1 << 64) - 1


def of(values: Array, salt: bytes = b"") -> Array:
    """One digest per value, ``[n]``, the same on every machine.

    Args:
        values: ``[n]``: numbers, whose digest is what they are, or objects.
        salt: of the digests of texts, at most 16 bytes.

    Examples:
        >>> of(np.array([7, 8])), of(np.array(["a", None], object))
        (array([7, 8], dtype=uint64), array([3629577532138371498,                   0], dtype=uint64))
    """
    if values.dtype.kind in "biu":
        return values.astype("<u8")
    if values.dtype.kind == "f":
        return values.astype("<f8").view("<u8")
    make = hashlib.blake2b
    told = [
        make(value.encode(), digest_size=8, salt=salt).digest() if isinstance(value, str) else _plain(value)
        for value in values.tolist()
    ]
    return np.frombuffer(b"".join(told), "<u8")


def _plain(value: Any) -> bytes:
    return (0 if value is None else int(value) & _LOW).to_bytes(8, "little")


class Lowest:
    """The distinct texts of many with the lowest digests: a sample that no order of the rows changes."""

    def __init__(self, size: int) -> None:
        self._size, self._bound = size, np.uint64(_LOW)
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
