"""Random generators: every draw comes from the user's seed, through a named, independent stream."""

from __future__ import annotations

import zlib

import numpy as np

from divulge.validation import check_integer


def generator(seed: int, *path: str | int) -> np.random.Generator:
    """Return an independent generator for the part of the work that ``path`` names.

    Naming a stream instead of handing one generator round means that adding a draw in one place
    changes no number anywhere else.

    Examples:
        >>> generator(0, "splits").integers(100) == generator(0, "splits").integers(100)
        np.True_
    """
    return np.random.default_rng(_seed_sequence(seed, path))


def derive_seed(seed: int, *path: str | int) -> int:
    """Return a 31-bit seed for a library that wants a plain integer (torch, scikit-learn, LightGBM)."""
    return int(_seed_sequence(seed, path).generate_state(1)[0] >> 1)


def _seed_sequence(seed: int, path: tuple[str | int, ...]) -> np.random.SeedSequence:
    check_integer(seed, "seed", minimum=0)
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in path]
    return np.random.SeedSequence(entropy=int(seed), spawn_key=tuple(words))
