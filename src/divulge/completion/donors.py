"""Imputers that take unknown values from auxiliary records, as they are or averaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.completion.imputers import FittedImputer, Generators, flatten_records
from divulge.completion.perceptron import mean_and_scale
from divulge.validation import check_bool, check_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Bools, Floats, Ints, Records

# Distances from candidates to auxiliary records are computed for this many candidates at a time.
_CHUNK = 512


@dataclass(frozen=True, slots=True)
class Mean:
    """Unknown values as the auxiliary mean; draws take each from a random auxiliary record.

    Args:
        per_class: the mean of the record's class.
    """

    per_class: bool = True

    def __post_init__(self) -> None:
        check_bool(self.per_class, "per_class")

    def fit(self, auxiliary: Records) -> FittedImputer:
        """Keep the auxiliary records."""
        by_class = self.per_class and auxiliary.y is not None
        return _fit_donors("class mean" if by_class else "mean", auxiliary, self.per_class, None, together=False)


@dataclass(frozen=True, slots=True)
class KNN:
    """Unknown values as the mean of the nearest auxiliary records; draws take each from a random one of these.

    Args:
        neighbours: how many, nearest by the known values.
        per_class: only records of the same class.

    Raises:
        divulge.InputError: fewer than 1 neighbour.
    """

    neighbours: int = 10
    per_class: bool = True

    def __post_init__(self) -> None:
        check_integer(self.neighbours, "neighbours", least=1)
        check_bool(self.per_class, "per_class")

    def fit(self, auxiliary: Records) -> FittedImputer:
        """Keep the auxiliary records."""
        name = f"{self.neighbours} nearest neighbours"
        return _fit_donors(name, auxiliary, self.per_class, self.neighbours, together=False)


@dataclass(frozen=True, slots=True)
class HotDeck:
    """All unknown values of a record from one auxiliary record: the nearest, by the known values.

    What is completed has occurred, with all its dependencies.

    Args:
        donors: draws take one of that many nearest.
        per_class: only records of the same class.

    Raises:
        divulge.InputError: fewer than 1 donor.
    """

    donors: int = 10
    per_class: bool = True

    def __post_init__(self) -> None:
        check_integer(self.donors, "donors", least=1)
        check_bool(self.per_class, "per_class")

    def fit(self, auxiliary: Records) -> FittedImputer:
        """Keep the auxiliary records."""
        name = f"hot deck ({self.donors} donors)"
        return _fit_donors(name, auxiliary, self.per_class, self.donors, together=True)


def _fit_donors(name: str, auxiliary: Records, per_class: bool, count: int | None, *, together: bool) -> FittedImputer:
    x, columns = flatten_records(auxiliary)
    donors = _DonorFiller(x, auxiliary.y if per_class else None, mean_and_scale(x)[1], count, together)
    return FittedImputer(name, columns, auxiliary.x, donors)


@dataclass(frozen=True, slots=True, eq=False)
class _DonorFiller:
    """Takes values from donors: all auxiliary records of the class (count None), or the nearest of them."""

    x: Floats
    labels: Ints | None
    scale: Floats
    count: int | None
    together: bool

    def fill(self, x: Floats, known: Bools, labels: Ints | None, rngs: Generators) -> Floats:
        filled = np.empty((len(rngs or [None]), *x.shape))
        for rows, pool in group_by_class(self.labels, labels, len(x), len(self.x)):
            for at in range(0, len(rows), _CHUNK):
                part = rows[at : at + _CHUNK]
                donors = self._donors(x[part], known[part], pool)
                filled[:, part] = self._drawn(donors, rngs) if rngs else self._best(donors)
        return np.where(known, x, filled)

    def _donors(self, x: Floats, known: Bools, pool: Ints) -> Ints:
        """Rows of the donors, ``[n, k]``, nearest first: by Σ m (x - z)² as three matrix products."""
        if self.count is None:
            return np.broadcast_to(pool, (len(x), len(pool)))
        m = known.astype(np.float64)
        a, z = m * x / self.scale, self.x[pool] / self.scale
        distance = (a * a).sum(axis=1)[:, None] - 2.0 * a @ z.T + m @ (z * z).T
        return pool[np.argsort(distance, axis=1, kind="stable")[:, : self.count]]

    def _best(self, donors: Ints) -> Floats:
        if self.together:
            return self.x[donors[:, 0]]
        # All records of a class are everyone's donors: one mean does.
        return self.x[donors[0]].mean(axis=0) if self.count is None else self.x[donors].mean(axis=1)

    def _drawn(self, donors: Ints, rngs: Sequence[np.random.Generator]) -> Floats:
        n, d = len(donors), self.x.shape[1]
        picked = np.stack([rng.integers(donors.shape[1], size=(n, 1 if self.together else d)) for rng in rngs])
        return self.x[donors[np.arange(n)[:, None], picked], np.arange(d)]


def group_by_class(own: Ints | None, labels: Ints | None, n: int, z: int) -> list[tuple[Ints, Ints]]:
    """Rows to complete beside the auxiliary rows to complete them from: the class's, or all for an unseen class.

    Args:
        own: labels of the auxiliary records ``[z]``, or None.
        labels: of the records to complete ``[n]``, or None.
        n: number of records to complete.
        z: number of auxiliary records.
    """
    everyone = np.arange(z)
    if own is None or labels is None:
        return [(np.arange(n), everyone)]
    pairs = []
    for c in np.unique(labels):
        pool = np.flatnonzero(own == c)
        pairs.append((np.flatnonzero(labels == c), pool if len(pool) else everyone))
    return pairs
