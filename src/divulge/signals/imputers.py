"""Completing records of which only some values are known, from auxiliary records of the same kind.

An imputer is a frozen dataclass with ``fit(auxiliary) -> Fitted``. All draw on `Fitted`: the imputer
fills in raw values, `divulge.signals.columns` makes them values that such columns hold, and what is known
is put back unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np

from divulge import checks, seeds
from divulge.signals.columns import Columns

if TYPE_CHECKING:
    from divulge.types import Array, Bools, Floats, Ints, PartialRecords, Records

Function: TypeAlias = Callable[..., object]

# Distances from candidates to auxiliary records are computed for this many candidates at a time.
_CHUNK = 512


class Filler(Protocol):
    """The part of an imputer that knows how."""

    def fill(self, x: Floats, known: Bools, labels: Ints | None, draws: int, rng: np.random.Generator | None) -> Floats:
        """Raw completions ``[draws, n, d]`` of ``x[n, d]`` (zeros where unknown); the best guess if ``rng`` is None."""
        ...


@runtime_checkable
class Imputer(Protocol):
    """Learns from auxiliary records how to complete others."""

    def fit(self, auxiliary: Records) -> Fitted:
        """Learn from the auxiliary records, which must be disjoint from those to be completed."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """An imputer that has seen its auxiliary records.

    Args:
        name: what the report calls it.
        columns: what the auxiliary records say about the columns.
        auxiliary: their values ``[z, ...]``.
        filler: fills in raw values.
        warnings: what the user must know before relying on it.
    """

    name: str
    columns: Columns
    auxiliary: Array
    filler: Filler
    warnings: tuple[str, ...] = ()

    def complete(self, partial: PartialRecords, draws: int = 1, seed: int = 0) -> Floats:
        """Completed records ``[draws, n, ...]``, of the auxiliary records' type; known values as they came.

        Args:
            partial: ``n`` records of which some values are known.
            draws: 1 gives the best single completion, in which nothing is random. More give multiple
                imputation: that many independent draws of the unknown values, all given the known ones.
            seed: of the draws.

        Raises:
            divulge.InputError: records of another shape than the auxiliary ones. (Candidates among the auxiliary
                records are found by `overlap`; an audit refuses them.)
        """
        checks.integer(draws, "draws", least=1)
        rng = seeds.generator(seed, "completion") if draws > 1 else None
        return self._completed(partial, draws, rng)

    def sample(self, partial: PartialRecords, draws: int, seed: int) -> Floats:
        """Random completions ``[draws, n, ...]``, also when one is wanted."""
        checks.integer(draws, "draws", least=1)
        return self._completed(partial, draws, seeds.generator(seed, "completion"))

    def _completed(self, partial: PartialRecords, draws: int, rng: np.random.Generator | None) -> Floats:
        shape = self.auxiliary.shape[1:]
        if partial.x.shape[1:] != shape:
            raise checks.InputError(f"x: records of the auxiliary shape {shape} are needed, got {partial.x.shape[1:]}")
        n = len(partial)
        x, known = partial.x.reshape(n, -1).astype(np.float64), partial.known.reshape(n, -1)
        raw = np.asarray(self.filler.fill(x, known, partial.y, draws, rng))
        settled = np.stack([self.columns.settle(completed, known, rng) for completed in raw])
        own = self.auxiliary.dtype
        return settled.reshape(draws, *partial.x.shape).astype(own if own.kind in "iuf" else np.float64)


def overlap(partial: PartialRecords, auxiliary: Array) -> Bools:
    """Which records agree with some auxiliary record in every known value, bool ``[n]``.

    Args:
        partial: ``n`` records of which some values are known.
        auxiliary: ``[z, ...]``.

    Examples:
        >>> from divulge import PartialRecords
        >>> overlap(PartialRecords(np.eye(2), None, np.array([True, False])), np.array([[1.0, 5.0]]))
        array([ True, False])
    """
    n, z = len(partial), len(auxiliary)
    x, known = partial.x.reshape(n, -1), partial.known.reshape(n, -1)
    others = auxiliary.reshape(z, -1).astype(x.dtype, copy=False)
    found = np.zeros(n, dtype=bool)
    masks, which = np.unique(known, axis=0, return_inverse=True)
    for at, mask in enumerate(masks):
        held = {row.tobytes() for row in np.ascontiguousarray(others[:, mask])}
        for row in np.flatnonzero(which == at):
            found[row] = x[row, mask].tobytes() in held
    return found


def flat(auxiliary: Records) -> tuple[Floats, Columns]:
    """Auxiliary records as float64 ``[z, d]``, and what they say about their columns.

    Raises:
        divulge.InputError: fewer than 2 records, or records that are not numbers.
    """
    if auxiliary.x.dtype == object:
        raise checks.InputError("auxiliary: only numbers can be completed, got text")
    if len(auxiliary) < 2:
        raise checks.InputError(f"auxiliary: at least 2 records are needed, got {len(auxiliary)}")
    rows = auxiliary.x.reshape(len(auxiliary), -1)
    return rows.astype(np.float64), Columns.of(rows)


@dataclass(frozen=True, slots=True)
class Mean:
    """Unknown values as the auxiliary mean; draws take each from a random auxiliary record.

    Args:
        per_class: the mean of the record's class.
    """

    per_class: bool = True

    def fit(self, auxiliary: Records) -> Fitted:
        """Keep the auxiliary records."""
        x, columns = flat(auxiliary)
        labels = auxiliary.y if self.per_class else None
        return Fitted("class mean" if labels is not None else "mean", columns, auxiliary.x, _Marginal(x, labels))


@dataclass(frozen=True, slots=True)
class KNN:
    """Unknown values as the mean of the nearest auxiliary records, by the known values.

    Args:
        neighbours: how many. Draws average that many, drawn from the nearest with replacement.
        per_class: only records of the same class.

    Raises:
        divulge.InputError: fewer than 1 neighbour.
    """

    neighbours: int = 10
    per_class: bool = True

    def __post_init__(self) -> None:
        checks.integer(self.neighbours, "neighbours", least=1)

    def fit(self, auxiliary: Records) -> Fitted:
        """Keep the auxiliary records."""
        x, columns = flat(auxiliary)
        filler = _Nearest(x, auxiliary.y if self.per_class else None, _scale(x), self.neighbours, averaged=True)
        return Fitted(f"{self.neighbours} nearest neighbours", columns, auxiliary.x, filler)


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
        checks.integer(self.donors, "donors", least=1)

    def fit(self, auxiliary: Records) -> Fitted:
        """Keep the auxiliary records."""
        x, columns = flat(auxiliary)
        filler = _Nearest(x, auxiliary.y if self.per_class else None, _scale(x), self.donors, averaged=False)
        return Fitted(f"hot deck ({self.donors} donors)", columns, auxiliary.x, filler)


@dataclass(frozen=True, slots=True)
class Custom:
    """The user's own completion.

    Args:
        function: ``function(x, known, labels, auxiliary, rng)`` with ``x[n, d]`` (NaN where unknown), ``known[n, d]``,
            ``labels[n]`` or None, the auxiliary values ``[z, d]`` and a generator, or None where the best
            guess is wanted. Returns ``[n, d]``; what it says of known values is ignored.

    Raises:
        divulge.InputError: not a function.
    """

    function: Function

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise checks.InputError(f"imputer: a function or an imputer is needed, got {self.function!r}")

    def fit(self, auxiliary: Records) -> Fitted:
        """Keep the auxiliary records."""
        x, columns = flat(auxiliary)
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return Fitted(name, columns, auxiliary.x, _Own(self.function, x))


def imputer(given: Imputer | Function) -> Imputer:
    """An imputer as it is, a function as `Custom`."""
    return given if isinstance(given, Imputer) else Custom(given)


@dataclass(frozen=True, slots=True, eq=False)
class _Marginal:
    x: Floats
    labels: Ints | None

    def fill(self, x: Floats, known: Bools, labels: Ints | None, draws: int, rng: np.random.Generator | None) -> Floats:
        filled = np.empty((draws, *x.shape))
        for rows, pool in _pools(self.labels, labels, len(x), len(self.x)):
            own = self.x[pool]
            if rng is None:
                filled[:, rows] = own.mean(axis=0)
            else:
                donors = rng.integers(len(own), size=(draws, len(rows), x.shape[1]))
                filled[:, rows] = own[donors, np.arange(x.shape[1])]
        return np.where(known, x, filled)


@dataclass(frozen=True, slots=True, eq=False)
class _Nearest:
    x: Floats
    labels: Ints | None
    scale: Floats
    count: int
    averaged: bool

    def fill(self, x: Floats, known: Bools, labels: Ints | None, draws: int, rng: np.random.Generator | None) -> Floats:
        filled = np.empty((draws, *x.shape))
        for rows, pool in _pools(self.labels, labels, len(x), len(self.x)):
            for at in range(0, len(rows), _CHUNK):
                part = rows[at : at + _CHUNK]
                near = pool[self._nearest(x[part], known[part], self.x[pool])]
                filled[:, part] = np.stack([self._value(near, rng) for _ in range(draws)])
        return np.where(known, x, filled)

    def _nearest(self, x: Floats, known: Bools, pool: Floats) -> Ints:
        """Positions of the nearest by the known, standardised values: Σ m (x - z)² as three matrix products."""
        count, m = min(self.count, len(pool)), known.astype(np.float64)
        a, z = m * x / self.scale, pool / self.scale
        distance = (a * a).sum(axis=1)[:, None] - 2.0 * a @ z.T + m @ (z * z).T
        return np.argsort(distance, axis=1, kind="stable")[:, :count]

    def _value(self, near: Ints, rng: np.random.Generator | None) -> Floats:
        rows, count = np.arange(len(near))[:, None], near.shape[1]
        if not self.averaged:
            picked = np.zeros((len(near), 1), dtype=int) if rng is None else rng.integers(count, size=(len(near), 1))
            return self.x[near[rows, picked][:, 0]]
        picked = np.arange(count)[None] if rng is None else rng.integers(count, size=near.shape)
        return self.x[near[rows, picked]].mean(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Own:
    function: Function
    x: Floats

    def fill(self, x: Floats, known: Bools, labels: Ints | None, draws: int, rng: np.random.Generator | None) -> Floats:
        hidden = np.where(known, x, np.nan)
        found = [
            checks.array(self.function(hidden.copy(), known, labels, self.x, rng), "imputer", finite=False)
            for _ in range(draws)
        ]
        for completed in found:
            if completed.shape != x.shape:
                raise checks.InputError(f"imputer: shape {x.shape} is needed, the function returned {completed.shape}")
        return checks.array(np.where(known, x, np.stack(found)), "imputer: completed values")


def _scale(x: Floats) -> Floats:
    deviation = x.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def _pools(own: Ints | None, labels: Ints | None, n: int, z: int) -> list[tuple[Ints, Ints]]:
    """Rows to complete beside the auxiliary rows to complete them from: the class's, or all for an unseen class."""
    everyone = np.arange(z)
    if own is None or labels is None:
        return [(np.arange(n), everyone)]
    pools = []
    for c in np.unique(labels):
        pool = np.flatnonzero(own == c)
        pools.append((np.flatnonzero(labels == c), pool if len(pool) else everyone))
    return pools
