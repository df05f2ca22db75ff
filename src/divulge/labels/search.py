"""Search among all labellings through a metric that can only be evaluated; each query halves what is left.

An endpoint that computes ``metric(y, predictions)`` for hidden labels y can be imitated for any labels at all. Of a few
random submissions the search asks the one whose answers differ most among the labellings that are still possible, and
drops the labellings that its answer rules out. Whatever all the others share is proven, if the endpoint computes the
declared function, always answers alike, and rounds as declared.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.labels.metrics import Evaluated
from divulge.labels.oracles import draw_submission
from divulge.labels.plans import Certificate, QueryPlan, Reading

if TYPE_CHECKING:
    from divulge.labels.oracles import OracleSpec
    from divulge.types import Array, Floats, Ints

MAX_LABELLINGS = 4096
_N_DRAWS = 8  # submissions of which one is asked
_N_COMPARED = 100  # labellings on which they are compared
_MAX_ATTEMPTS = 4  # rounds of draws after which no submission is taken to tell the rest apart
_RELATIVE_ERROR = 1e-12  # what another order of additions may change, relative to the answer


def plan_search(spec: OracleSpec) -> QueryPlan:
    """Return the search among all labellings.

    Raises:
        divulge.InputError: too many labellings, or noise without a bound.
    """
    metric = spec.metric
    assert isinstance(metric, Evaluated), "only what can be evaluated is searched"
    if spec.noise_kind != "bounded" or spec.scored != "all":
        raise InputError(f"metric: {metric.name} is attacked under bounded noise and without a split only")
    if spec.n * math.log(spec.classes) > math.log(MAX_LABELLINGS) + 1e-9:
        raise InputError(
            f"metric: {metric.name} is known by evaluation alone, and {spec.n} rows of {spec.classes} classes have "
            f"more labellings than can be tried ({MAX_LABELLINGS}); no code is known for such a metric. If it depends "
            "on counts alone, say labels.Evaluated(…, depends_on='counts'); a mean over rows is a labels.Linear"
        )
    reason = "each query depends on the answers before it; what is proven follows from the answers"
    certificate = Certificate(False, 0.0, 2 * spec.tolerance, "exact search among all labellings", reason)
    return QueryPlan(spec, "search", SearchPlan(spec, metric), certificate)


@dataclass(frozen=True, slots=True, eq=False)
class SearchPlan:
    """Queries that are chosen one after the other, each from the answers before it."""

    spec: OracleSpec
    metric: Evaluated
    _queries: dict[tuple[float, ...], Array | None] = field(default_factory=dict, repr=False)
    _possible: dict[tuple[float, ...], Ints] = field(default_factory=dict, repr=False)

    @property
    def count(self) -> int:
        """Largest number of queries."""
        return 2 * math.ceil(self.spec.n * math.log2(self.spec.classes)) + 4

    def query(self, index: int) -> Array:
        """Return the first query; later ones depend on the answers (`query_after`)."""
        if index:
            raise InputError(
                f"query: number {index} of a search depends on the answers before it; ask them one at a time"
            )
        query = self.query_after(0, np.full(self.count, np.nan))
        return draw_submission(self.spec, self._generator(0, 0)) if query is None else query

    def query_after(self, index: int, answers: Floats) -> Array | None:
        """Return the query that follows these answers; None when nothing is left to ask."""
        key = tuple(answers[:index].tolist())
        if key not in self._queries:
            alive = self._possible_labellings(answers[:index], 1)
            self._queries[key] = self._choose_query(alive, index) if len(alive) > 1 else None
        return self._queries[key]

    def read(self, answers: Floats) -> Reading:
        """Read the labels that all labellings which explain the answers share."""
        first_gap = np.flatnonzero(np.isnan(answers))
        received = answers[: first_gap[0]] if len(first_gap) else answers
        possible = self._possible_labellings(received, 1)
        possible_at_double_noise = self._possible_labellings(received, 2)
        labels = (possible if len(possible) else _all_labellings(self.spec.n, self.spec.classes))[0]
        residual = np.full(self.count, np.nan)
        for index in range(len(received)):
            query = self.query_after(index, received)
            if query is not None:
                residual[index] = abs(self.metric(labels, query) - received[index])
        refuted = ~np.isnan(answers) & (len(possible) == 0)
        return Reading(
            labels,
            _shared_labels(possible_at_double_noise, labels),
            _shared_labels(possible, labels),
            residual,
            refuted,
        )

    def _possible_labellings(self, answers: Floats, times: int) -> Ints:
        """Return labellings that explain the answers at so many times the declared noise, ``[m, n]``."""
        if not len(answers):
            return _all_labellings(self.spec.n, self.spec.classes)
        key = (times, *answers.tolist())
        if key not in self._possible:
            alive, last_answer = self._possible_labellings(answers[:-1], times), float(answers[-1])
            query = self.query_after(len(answers) - 1, answers)
            if query is not None:
                allowed = self.spec.rounding + times * self.spec.noise + _RELATIVE_ERROR * max(1.0, abs(last_answer))
                alive = alive[np.abs(self._values(alive, query) - last_answer) <= allowed]
            self._possible[key] = alive
        return self._possible[key]

    def _values(self, labellings: Ints, query: Array) -> Floats:
        return self.metric.values((y, query) for y in labellings)

    def _choose_query(self, alive: Ints, index: int) -> Array | None:
        """Choose the random submission whose answers leave the fewest labellings on average."""
        compared = alive
        if len(alive) > _N_COMPARED:
            compared = alive[self._generator(index, -1).permutation(len(alive))[:_N_COMPARED]]
        for attempt in range(_MAX_ATTEMPTS):
            rng = self._generator(index, attempt)
            submissions = [draw_submission(self.spec, rng) for _ in range(_N_DRAWS)]
            remaining = [self._mean_remaining(compared, query) for query in submissions]
            best = int(np.argmin(remaining))
            if remaining[best] < len(compared):
                return submissions[best]
        return None

    def _mean_remaining(self, compared: Ints, query: Array) -> float:
        """Return the mean number of labellings whose answer lies within reach of that of one of them."""
        values = self._values(compared, query)
        values = np.sort(values[~np.isnan(values)])
        reach = 2 * self.spec.tolerance + _RELATIVE_ERROR * max(1.0, float(np.abs(values).max(initial=0.0)))
        n_close = np.searchsorted(values, values + reach, "right") - np.searchsorted(values, values - reach, "left")
        # An answer rules out the labellings for which the score is not defined; a query with fewer of them is safer.
        undefined = len(compared) - len(values)
        return float(n_close.sum() / len(compared)) + undefined

    def _generator(self, index: int, attempt: int) -> np.random.Generator:
        return seeds.generator(0, "labels", "search", index, attempt + 1)


@functools.lru_cache(maxsize=4)
def _all_labellings(n: int, classes: int) -> Ints:
    every = np.array(list(itertools.product(range(classes), repeat=n)), dtype=np.int64)
    every.flags.writeable = False
    return every


def _shared_labels(alive: Ints, labels: Ints) -> np.ndarray:
    """Flag rows on which all labellings agree with ``labels``; none when there is no labelling."""
    return (alive == labels).all(axis=0) if len(alive) else np.zeros(len(labels), dtype=bool)
