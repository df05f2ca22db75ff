"""Query plans, the readings and certificates they give, and proofs that different labels give different answers.

Codes waste nothing, so the answers of an oracle other than the declared one may be read as some other labels without a
trace. The control query therefore gives every row a random prediction once the labels are read; the answer they imply
is computed with the declared metric itself, and bounded by rounding, noise and any order of summation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, overload, runtime_checkable

import numpy as np

from divulge import seeds, store
from divulge.errors import InputError
from divulge.labels import metrics
from divulge.labels.metrics import Evaluated
from divulge.labels.oracles import (
    COUNT_METRICS,
    OracleSpec,
    check_predictions,
    compute_score,
    draw_submission,
    noise_bound,
)
from divulge.validation import check_array, check_instance, check_nonempty

if TYPE_CHECKING:
    from divulge.types import Array, Bools, Floats, Ints

_MAX_ENUMERATED_ROWS = 30
_MAX_ENUMERATED_SUMS = 3**15

STILL_LEAKS = (
    "; several labels at once, and edges of the rounding, may be read all the same (labels.capacity bounds it)"
)


def describe_missing_code(spec: OracleSpec) -> str:
    """Return how a refusal begins: that no code is known, which is not that nothing leaks."""
    return f"metric: no code known here reads {spec.name} for certain at this precision"


class InnerPlan(Protocol):
    """Queries, and the way back to labels, as `design` makes them."""

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
    """A plan whose queries depend on the answers before them."""

    def query_after(self, index: int, answers: Floats) -> Array | None:
        """Return query ``index``, given the answers before it; None when nothing is left to ask."""
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
    """The predictions to submit, and the way from their scores to labels.

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
        """One more query, whose answer the labels imply (see `control_query`)."""
        return control_query(self.spec)

    def query_after(self, index: int, answers: Floats) -> Array | None:
        """Query ``index``, given the answers before it; None when nothing is left to ask.

        Only the queries of a search depend on answers (`divulge.labels.search`).
        """
        if isinstance(self.inner, AdaptivePlan):
            return self.inner.query_after(index, answers)
        return self.inner.query(index)

    @property
    def key(self) -> str:
        """Fingerprint of the plan, so that answers are never read with another."""
        return store.hash_values(self.spec, self.method, self.count)[:16]

    def __repr__(self) -> str:
        return f"QueryPlan({self.method}, {self.count} queries for {self.spec.n} labels; {self.certificate})"


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """Labels that a decoder reads from the answers so far.

    Args:
        labels: ``[n]``.
        certain: no other label explains the answers even if the noise were twice what was declared.
        proven: the label follows from the answers if the noise kept within what was declared.
        residual: distance of each answer from what the labels say it should be, NaN where not asked.
        refuted: ``[count]``, answers that no labels explain, alone or together with those they are read with, as
            long as the oracle is what was declared (for stochastic noise: with a chance below one in a million).
    """

    labels: Ints
    certain: Bools
    proven: Bools
    residual: Floats
    refuted: Bools


@dataclass(frozen=True, slots=True)
class Certificate:
    """A proof about a plan or about predictions.

    Args:
        certified: any two labellings give answers further apart than the noise can bridge.
        separation: rigorous lower bound on the distance between the answers to any two different labellings,
            in the oracle's unit, the float error of both answers taken off; 0 when none is proven.
        needed: twice the largest noise and rounding an answer may have; certified means separation > needed.
        method: how it was proven.
        why: why not, when it is not certified.
    """

    certified: bool
    separation: float
    needed: float
    method: str
    why: str = ""

    def __str__(self) -> str:
        if self.certified:
            return f"certified: separation {self.separation:.4g} > {self.needed:.4g} ({self.method})"
        return f"not certified: {self.why}"


def control_query(spec: OracleSpec) -> Array:
    """Return the predictions of the control query; always the same for an oracle.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> control_query(OracleSpec(n=3, classes=4)).shape
        (3, 4)
    """
    draws = seeds.generator(0, "labels", "control")
    if spec.name == "auc":
        return draws.permutation(spec.n) / spec.n
    if spec.name in COUNT_METRICS:
        return draws.integers(0, 2, spec.n).astype(float)
    if isinstance(spec.metric, Evaluated) and spec.metric.depends_on == "labels":
        return draw_submission(spec, draws)
    if spec.name == "r2":
        return draws.random(spec.n)
    if not spec.adds_up:
        classes = draws.integers(0, spec.classes, spec.n)
        return classes[:, None] if spec.name == "map_at_k" else classes
    loss = spec.loss()
    # Losses without a bound: one label is to outweigh what an answer may be off by, and no more.
    span = loss.two_sided if math.isfinite(loss.two_sided) else max(1.0, 16 * spec.rows_per_answer * spec.tolerance)
    size = draws.uniform(0.25, 1.0, spec.n)
    if spec.classes == 2:
        return loss.predict(span * size * draws.choice([-1, 1], spec.n), np.arange(2))
    digits = np.arange(spec.classes)
    reach = loss.largest_gap(digits) if math.isfinite(loss.two_sided) else span / (spec.classes - 1)
    return draws.permuted(loss.predict(reach * size, digits), axis=1)


def implied_control_answer(spec: OracleSpec, labels: Ints) -> tuple[float, float]:
    """Return the answer that these labels imply, and how far an honest one may lie from it.

    Args:
        spec: the oracle.
        labels: ``[n]``, -1 for rows that are not scored.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> answer, allowed = implied_control_answer(OracleSpec(n=4, decimals=3), np.array([0, 1, 1, 0]))
        >>> 0 < answer < 37, round(allowed, 6)
        (True, 0.0005)
    """
    rows, y = control_query(spec)[labels >= 0], labels[labels >= 0]
    if spec.name == "auc" and len(np.unique(y)) < 2:
        return math.nan, math.inf  # not defined; a plan for AUC reads both classes or is refuted
    answer = compute_score(spec, y, rows)
    float_error = _control_float_error(spec, y, rows, answer) if spec.adds_up else 1e-12 * max(1.0, abs(answer))
    return answer, spec.rounding + noise_bound(spec, 1) + float_error


def _control_float_error(spec: OracleSpec, y: Ints, rows: Array, answer: float) -> float:
    """Bound what float arithmetic may add, whatever the order of the sum."""
    table = np.abs(spec.loss().table(rows)).max(axis=1)
    total = float(table.sum()) + abs(answer)
    error = float(metrics.summation_error(len(y), total, "sequential", spec.float_dtype))
    error = 2 * (error + 8 * total * metrics.unit_roundoff(spec.float_dtype))
    weights = 1.0 if spec.class_weight is None else min(spec.class_weight)
    mean = error / (len(y) * weights if spec.reduction == "mean" else 1.0)
    # A root moves by at most the error of its square over the root.
    return mean / max(answer, math.sqrt(mean)) if spec.name == "rmse" else mean


def certify(spec: OracleSpec, predictions: Any) -> Certificate:
    """Return a rigorous lower bound on how far apart the answers to two labellings are.

    Args:
        spec: the oracle.
        predictions: a plan, one prediction, or predictions of several queries ``[q, ...]``.

    A single query is proven when its loss differences are superincreasing (linear time, any n), or by meeting
    in the middle over all differences of labellings (up to about 30 binary rows). Of several queries the best
    single one is taken: that proves them all, but plans whose queries only work together need `design`'s own
    certificate, which a plan carries.

    Raises:
        divulge.InputError: predictions that do not fit the oracle.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> rows = np.array([[0.5, 0.5], [0.9, 0.1]])
        >>> certify(OracleSpec(n=2, noise=0.01), rows).why
        'two labellings give the same answers'
    """
    check_instance(spec, "spec", OracleSpec, "a labels.OracleSpec")
    if isinstance(predictions, QueryPlan):
        if predictions.spec != spec:
            raise InputError("predictions: the plan was made for another oracle")
        return predictions.certificate
    checked = check_array(predictions, "predictions")
    checked = check_nonempty(checked, "predictions")
    single = len(spec.loss().shape) + 1
    queries = [checked] if checked.ndim == single else list(checked)
    results = [_certify_query(spec, check_predictions(spec, query)) for query in queries]
    return max(results, key=lambda result: (result.certified, result.separation))


def _certify_query(spec: OracleSpec, predictions: Any) -> Certificate:
    required = 2 * spec.tolerance
    if spec.noise_kind != "bounded":
        return Certificate(False, 0.0, required, "none", f"{spec.noise_kind} noise has no bound")
    if spec.class_weight is not None or spec.name == "rmse" or spec.scored != "all":
        return Certificate(False, 0.0, required, "none", "only plain sums over all rows are certified")
    table, error = _loss_table(spec, predictions)
    scale = spec.rows_per_answer
    total = float(table.max(axis=1).sum())
    drift = float(metrics.summation_error(spec.n, total, spec.summation, spec.float_dtype)) + error
    separation, method = _separation(table)
    proven = (separation * (1 - 1e-12) - 2 * drift) / scale
    if not method:
        reason = f"{spec.n} rows are too many to enumerate and their losses are not superincreasing"
        return Certificate(False, 0.0, required, "none", reason)
    if proven > required:
        return Certificate(True, proven, required, method)
    reason = (
        "two labellings give the same answers"
        if proven <= 0
        else f"two answers are {proven:.3g} apart; noise bridges {required:.3g}"
    )
    return Certificate(False, max(proven, 0.0), required, method, reason)


def _loss_table(spec: OracleSpec, predictions: Any) -> tuple[Floats, float]:
    """Return losses ``[n, K]`` and a bound on the error of the oracle's sum of them."""
    table = spec.loss().table(predictions)
    if not np.isfinite(table).all():
        raise InputError("predictions: some label has an infinite loss; clip them or keep away from 0 and 1")
    if spec.name != "log_loss" or spec.submission != "rows":
        return table, 4 * float(np.spacing(table.max(axis=1)).sum())
    float_type = np.dtype(spec.float_dtype).type
    clipped = np.asarray(predictions, dtype=float_type)
    clipped = (
        np.clip(clipped, float_type(spec.epsilon), float_type(1) - float_type(spec.epsilon))
        if spec.epsilon
        else clipped
    )
    error = metrics.log_error(clipped, table) + np.spacing(table)
    return table, float(error.max(axis=1).sum()) * (1 + 1e-12)


def _separation(table: Floats) -> tuple[float, str]:
    """Return the smallest distance of the sums of two labellings, and the method ("" when none applies)."""
    n, classes = table.shape
    ordered = np.sort(table, axis=1)
    steps = np.diff(ordered, axis=1).min(axis=1)
    reach = ordered[:, -1] - ordered[:, 0]
    order = np.argsort(reach)
    below = np.concatenate([[0.0], np.cumsum(reach[order])[:-1]])
    margin = float((steps[order] - below).min())
    if margin > 0:
        return margin, "superincreasing losses"
    differences = classes * (classes - 1) + 1
    if n <= _MAX_ENUMERATED_ROWS and differences ** -(-n // 2) <= _MAX_ENUMERATED_SUMS:
        return _meet_in_the_middle(table), "meet in the middle"
    return 0.0, ""


def _meet_in_the_middle(table: Floats) -> float:
    """Return the smallest |sum of loss differences| over all pairs of different labellings."""
    n = len(table)
    left_sums, right_sums = _difference_sums(table[: n // 2]), _difference_sums(table[n // 2 :])
    # Index 0 of each half is the pair of equal labellings; it must not meet itself.
    best = math.inf
    for half in (left_sums, right_sums):
        if len(half) > 1:
            best = min(best, float(np.abs(half[1:]).min()))
    if len(left_sums) == 1 or len(right_sums) == 1:
        return best
    ordered = np.sort(right_sums[1:])
    targets = -left_sums[1:]
    places = np.searchsorted(ordered, targets)
    for shift in (-1, 0):
        neighbour = ordered[np.clip(places + shift, 0, len(ordered) - 1)]
        best = min(best, float(np.abs(neighbour - targets).min()))
    return best


def _difference_sums(table: Floats) -> Floats:
    sums = np.zeros(1)
    for row in table:
        differences = (row[:, None] - row[None, :])[~np.eye(len(row), dtype=bool)]
        sums = np.concatenate([sums, *(sums + d for d in differences)])
    return sums
