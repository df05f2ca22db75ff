"""The plan of an attack: its queries, made lazily, and what may be claimed of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, overload, runtime_checkable

from divulge import store
from divulge.labels import control

if TYPE_CHECKING:
    from divulge.labels.certificate import Certificate
    from divulge.labels.reading import Reading
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Floats


class InnerPlan(Protocol):
    """What `design` makes: queries, and the way back to labels."""

    @property
    def count(self) -> int:
        """Number of queries."""
        ...

    def query(self, index: int) -> Array:
        """Predictions of query ``index``."""
        ...

    def read(self, answers: Floats) -> Reading:
        """Labels from the answers ``[count]`` so far."""
        ...


@runtime_checkable
class AdaptivePlan(Protocol):
    """A plan whose questions depend on the answers before them."""

    def query_after(self, index: int, answers: Floats) -> Array | None:
        """Question ``index``, given the answers before it; None when nothing is left to ask."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Queries(Sequence["Array"]):
    """The queries of a plan, each made when it is asked for."""

    inner: InnerPlan

    def __len__(self) -> int:
        return self.inner.count

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Array]: ...
    def __getitem__(self, index: int | slice) -> Array | Sequence[Array]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"the plan has {len(self)} queries, there is no number {index}")
        return self.inner.query(index % len(self))

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))


@dataclass(frozen=True, slots=True, eq=False)
class QueryPlan:
    """Which predictions to submit, and how the scores turn into labels.

    Args:
        spec: the oracle the plan is made for; no other will do.
        method: "positional", "weighing", "dense", "theorem3", …
        inner: makes queries and reads answers.
        certificate: what is proven of the plan before the first answer.
    """

    spec: OracleSpec
    method: str
    inner: InnerPlan
    certificate: Certificate

    @property
    def count(self) -> int:
        """Number of queries."""
        return self.inner.count

    @property
    def labels_per_query(self) -> float:
        """N labels over the number of queries."""
        return self.spec.n / self.count

    @property
    def queries(self) -> Queries:
        """The predictions, one query after the other, made lazily."""
        return Queries(self.inner)

    @property
    def control(self) -> Array:
        """One more query, whose answer the labels imply (`divulge.labels.control`)."""
        return control.query(self.spec)

    def query_after(self, index: int, answers: Floats) -> Array | None:
        """Query ``index``, given the answers before it; None when nothing is left to ask.

        Only the questions of a search depend on answers (`divulge.labels.search`).
        """
        if isinstance(self.inner, AdaptivePlan):
            return self.inner.query_after(index, answers)
        return self.inner.query(index)

    @property
    def key(self) -> str:
        """Fingerprint of the plan, so that answers are never read with another."""
        return store.digest(self.spec, self.method, self.count)[:16]

    def __repr__(self) -> str:
        return f"QueryPlan({self.method}, {self.count} queries for {self.spec.n} labels; {self.certificate})"
