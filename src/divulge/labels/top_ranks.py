"""MAP@k with one true label per row: a list of class c alone scores 1 where c is right, and nothing elsewhere.

So with lists on some rows only, ``n·score`` counts the rows among them that are of class c, for every k. A detecting
matrix finds these rows with the fewest lists; the last class needs no query of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.labels import count_metrics
from divulge.labels.certificate import Certificate
from divulge.labels.plans import QueryPlan
from divulge.labels.reading import Reading

if TYPE_CHECKING:
    from divulge.labels.codes import Code
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Floats

FLOAT_ERROR = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class TopPlan:
    """The sets of a detecting matrix, once for every class but the last."""

    spec: OracleSpec
    code: Code

    @property
    def count(self) -> int:
        """Number of queries."""
        return (self.spec.classes - 1) * len(count_metrics.asked_slots(self.code))

    def query(self, index: int) -> Array:
        """Lists of one class number, -1 where a row has none, ``[n, 1]``."""
        slots = count_metrics.asked_slots(self.code)
        wanted, slot = divmod(index, len(slots))
        lists = np.full((self.spec.n, 1), -1, dtype=np.int64)
        first, weights = self.code.weights(int(slots[slot]))
        lists[first : first + len(weights)][weights != 0] = wanted
        return lists

    def read(self, answers: Floats) -> Reading:
        """Labels from the answers so far."""
        n, last = self.spec.n, self.spec.classes - 1
        slots = count_metrics.asked_slots(self.code)
        labels = np.full(n, last, dtype=np.int64)
        hits = np.zeros(n, dtype=np.int64)
        certain, proven = np.ones(n, dtype=bool), np.ones(n, dtype=bool)
        residual, refuted = np.full(self.count, np.nan), np.zeros(self.count, dtype=bool)
        for wanted in range(last):
            part = slice(wanted * len(slots), (wanted + 1) * len(slots))
            missing = np.isnan(answers[part])
            counted = n * np.where(missing, 0.0, answers[part])
            whole = np.rint(counted)
            distance = np.abs(counted - whole)
            sums = np.zeros(self.code.count, dtype=np.int64)
            sums[slots] = -whole.astype(np.int64)
            digits, sound = self.code.decode(sums)
            unread = np.zeros((2, self.code.count), dtype=bool)
            for times, flags in ((1, unread[0]), (2, unread[1])):
                allowed = n * (self.spec.rounding + times * self.spec.noise + FLOAT_ERROR)
                flags[slots] = missing | (distance > allowed) | (1 - distance <= allowed)
            allowed = n * (self.spec.tolerance + FLOAT_ERROR)
            residual[part] = np.where(missing, np.nan, distance / n)
            refuted[part] = ~missing & (distance > allowed)
            refuted[part] |= self.code.queries_of(~sound & ~self.code.rows_of(unread[0]))[slots]
            proven &= sound & ~self.code.rows_of(unread[0])
            certain &= sound & ~self.code.rows_of(unread[1])
            labels = np.where(digits == 1, wanted, labels)
            hits += digits == 1
        # No row is of two classes.
        for wanted in range(last if (proven & (hits > 1)).any() else 0):
            part = slice(wanted * len(slots), (wanted + 1) * len(slots))
            refuted[part] |= self.code.queries_of(proven & (hits > 1))[slots]
        return Reading(labels, certain & proven & (hits <= 1), proven & (hits <= 1), residual, refuted)


def plan(spec: OracleSpec) -> QueryPlan:
    """The plan for MAP@k.

    Raises:
        divulge.InputError: noise or rounding hides single rows, or the noise has no bound.
    """
    if spec.noise_kind != "bounded":
        raise InputError(f"noise_kind: {spec.name} is attacked under bounded noise only, got {spec.noise_kind}")
    needed = 2 * (spec.tolerance + FLOAT_ERROR)
    if needed >= 1 / spec.n:
        raise InputError(
            f"metric: {spec.name} leaks no label for certain at this precision: an error of ±{spec.tolerance:.3g} "
            f"hides single labels; it leaks once the error is below {1 / (2 * spec.n):.3g}"
        )
    inner = TopPlan(spec, count_metrics.detecting_code(spec.n))
    return QueryPlan(spec, "detecting matrix", inner, Certificate(True, 1 / spec.n, needed, "counts are integers"))
