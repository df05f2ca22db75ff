"""Completing records of which only some values are known, from auxiliary records of the same kind.

An imputer is a frozen dataclass with ``fit(auxiliary) -> FittedImputer``. All draw on `FittedImputer`: the imputer
fills in raw values, `divulge.completion.columns` makes them values that such columns hold, and what is known
is put back unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np

from divulge import errors, seeds
from divulge.completion.columns import RecordColumns
from divulge.errors import InputError
from divulge.types import PartialRecords
from divulge.validation import check_array, check_instance, check_integer, check_nonempty, format_value

if TYPE_CHECKING:
    from divulge.types import Array, Bools, Floats, Ints, Records

ImputerFunction: TypeAlias = Callable[..., object]

Generators: TypeAlias = Sequence[np.random.Generator] | None
"""One for each draw, so that a draw is the same however many others there are; None for the best guess."""


class Filler(Protocol):
    """The part of an imputer that knows how."""

    def fill(self, x: Floats, known: Bools, labels: Ints | None, rngs: Generators) -> Floats:
        """Raw completions ``[draws, n, d]`` of ``x[n, d]`` (zeros where unknown); the best guess without generators."""
        ...


@runtime_checkable
class Imputer(Protocol):
    """Learns from auxiliary records how to complete others."""

    def fit(self, auxiliary: Records) -> FittedImputer:
        """Learn from the auxiliary records, which must be disjoint from those to be completed."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FittedImputer:
    """An imputer that has seen its auxiliary records.

    Args:
        name: what the report calls it.
        columns: what the auxiliary records say about the columns.
        auxiliary: their values ``[z, ...]``.
        filler: fills in raw values.
        warnings: what the user must know before relying on it.
    """

    name: str
    columns: RecordColumns
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
        if check_integer(draws, "draws", least=1) > 1:
            return self.sample(partial, draws, seed)
        return self._completed(partial, None)

    def sample(self, partial: PartialRecords, draws: int, seed: int) -> Floats:
        """Random completions ``[draws, n, ...]``, also when one is wanted; the fewer are the first of the more."""
        count = check_integer(draws, "draws", least=1)
        return self._completed(partial, [seeds.generator(seed, "completion", draw) for draw in range(count)])

    def _completed(self, partial: PartialRecords, rngs: Generators) -> Floats:
        shape = self.auxiliary.shape[1:]
        if partial.x.shape[1:] != shape:
            raise InputError(f"x: records of the auxiliary shape {shape} are needed, got {partial.x.shape[1:]}")
        n = len(partial)
        x, known = partial.x.reshape(n, -1).astype(np.float64), partial.known.reshape(n, -1)
        raw = np.asarray(self.filler.fill(x, known, partial.y, rngs))
        drawn = zip(raw, [None] if rngs is None else rngs, strict=True)
        settled = np.stack([self.columns.settle(completed, known, rng) for completed, rng in drawn])
        own = self.auxiliary.dtype
        return settled.reshape(len(raw), *partial.x.shape).astype(own if own.kind in "iuf" else np.float64)


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
    check_instance(partial, "partial", PartialRecords)
    records = check_nonempty(check_array(auxiliary, "auxiliary"), "auxiliary")
    if records.shape[1:] != partial.x.shape[1:]:
        raise InputError(f"auxiliary: the shape {partial.x.shape[1:]} is needed, got {records.shape[1:]}")
    n, z = len(partial), len(records)
    x, known = partial.x.reshape(n, -1), partial.known.reshape(n, -1)
    others = records.reshape(z, -1).astype(x.dtype, copy=False)
    agrees = np.zeros(n, dtype=bool)
    masks, which = np.unique(known, axis=0, return_inverse=True)
    for at, mask in enumerate(masks):
        held = {row.tobytes() for row in np.ascontiguousarray(others[:, mask])}
        for row in np.flatnonzero(which == at):
            agrees[row] = x[row, mask].tobytes() in held
    return agrees


def flatten_records(auxiliary: Records) -> tuple[Floats, RecordColumns]:
    """Auxiliary records as float64 ``[z, d]``, and what they say about their columns.

    Raises:
        divulge.InputError: fewer than 2 records, or records that are not numbers.
    """
    if auxiliary.x.dtype == object:
        raise InputError("auxiliary: only numbers can be completed, got text")
    if len(auxiliary) < 2:
        raise InputError(f"auxiliary: at least 2 records are needed, got {len(auxiliary)}")
    rows = auxiliary.x.reshape(len(auxiliary), -1)
    return rows.astype(np.float64), RecordColumns.of(rows)


@dataclass(frozen=True, slots=True)
class CustomImputer:
    """The user's own completion.

    Args:
        function: ``function(x, known, labels, auxiliary, rng)`` with ``x[n, d]`` (NaN where unknown), ``known[n, d]``,
            ``labels[n]`` or None, the auxiliary values ``[z, d]`` and a generator, or None where the best
            guess is wanted. Returns ``[n, d]``; what it says of known values is ignored.

    Raises:
        divulge.InputError: not a function.
    """

    function: ImputerFunction

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"imputer: a function or an imputer is needed, got {format_value(self.function)}")

    def fit(self, auxiliary: Records) -> FittedImputer:
        """Keep the auxiliary records."""
        x, columns = flatten_records(auxiliary)
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return FittedImputer(name, columns, auxiliary.x, _FunctionFiller(self.function, x))


def imputer(given: Imputer | ImputerFunction) -> Imputer:
    """An imputer as it is, a function as `CustomImputer`."""
    return given if isinstance(given, Imputer) else CustomImputer(given)


@dataclass(frozen=True, slots=True, eq=False)
class _FunctionFiller:
    function: ImputerFunction
    x: Floats

    def fill(self, x: Floats, known: Bools, labels: Ints | None, rngs: Generators) -> Floats:
        hidden = np.where(known, x, np.nan)
        filled = [
            check_array(self._asked(hidden.copy(), known, labels, rng), "imputer", finite=False)
            for rng in (rngs or [None])
        ]
        for completed in filled:
            if completed.shape != x.shape:
                raise InputError(f"imputer: shape {x.shape} is needed, the function returned {completed.shape}")
        return check_array(np.where(known, x, np.stack(filled)), "imputer: completed values")

    def _asked(self, x: Floats, known: Bools, labels: Ints | None, rng: np.random.Generator | None) -> object:
        with errors.user_code_errors("imputer"):
            return self.function(x, known, labels, self.x, rng)
