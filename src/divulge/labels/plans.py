"""Query plans, the readings and certificates they give, and proofs that different labels give different answers.

Codes waste nothing, so the answers of an oracle other than the declared one may be read as some other labels without a
trace. Control queries therefore give every row a random prediction once the labels are read; the answers they imply
are computed with the declared metric itself, and bounded by rounding, noise and any order of summation. There are as
many of them as it takes for a wrong label to agree with all by chance in fewer than one of a million attacks.
"""

from __future__ import annotations

import functools
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
    FALSE_ALARM_RATE,
    OracleSpec,
    check_predictions,
    compute_score,
    draw_submission,
    noise_bound,
)
from divulge.validation import check_array, check_instance, check_nonempty

if TYPE_CHECKING:
    from divulge.labels.metrics import RowLoss
    from divulge.types import Array, Bools, Floats, Ints

_COIN = 0.5
_MAX_CONTROLS = 20  # of which wrong labels that pass each with the chance of a coin pass all once in a million attacks
_N_COARSE_CONTROLS = 40
_MAX_DRAWS = 8  # of a control for a metric that may not be defined on it
_MAX_EXPONENT = 1000  # of a control's gap; floats end soon after
_MAX_WORSE = 8  # larger gaps in a row that are no better, after which none is
_SCORE_ERROR = 1e-12  # of a score, relative to 1 or its size, whichever way the endpoint computes it
_MAX_ENUMERATED_ROWS = 30
_MAX_ENUMERATED_SUMS = 3**15


def describe_missing_code(spec: OracleSpec, reason: str) -> str:
    """Return a refusal: that no code is known, and why, which is not that nothing leaks."""
    return (
        f"metric: no code known here reads {spec.name} for certain at this precision, so this is no all-clear: "
        f"{reason}; several labels at once, and edges of the rounding, may be read all the same "
        "(labels.capacity bounds it)"
    )


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
    def controls(self) -> Sequence[Array]:
        """Further queries, whose answers the labels imply (see `control_query`)."""
        return [control_query(self.spec, index) for index in range(count_controls(self.spec))]

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
        return store.hash_values(self.spec, self.method, self.count, count_controls(self.spec))[:16]

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


def count_controls(spec: OracleSpec) -> int:
    """Return how many control queries it takes until fewer than one wrong reading in a million agrees with all.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> [count_controls(OracleSpec(n=40, noise=noise)) for noise in (1e-5, 1e-2, 0.4)]
        [4, 12, 20]
    """
    if is_coarse(spec):
        return _N_COARSE_CONTROLS
    share, log_rate = _passing_share(spec), math.log(FALSE_ALARM_RATE)
    # An endpoint that has its rows in another order each time is right by chance as often as one row is at its place.
    least = math.ceil(log_rate / math.log(1 / max(spec.n, 2)))
    return (
        max(math.ceil(log_rate / math.log(share)), least)
        if share >= _COIN
        else max(2 * math.ceil(log_rate / math.log(share)), least + least % 2)
    )


def is_coarse(spec: OracleSpec) -> bool:
    """Return True if counts of rows are hard to tell in an answer, so that rows are read one by one.

    A control query then shows a wrong label now and then only (`divulge.labels.single_rows.find_checked_rows`).
    """
    limits = {"accuracy": 1 / (2 * spec.n), "f1": 1 / (4 * spec.n), "auc": 1 / (4 * spec.n**2)}
    if spec.scored != "all" or spec.noise_kind != "bounded" or spec.classes != 2 or not isinstance(spec.metric, str):
        return False
    is_ratio = spec.name in metrics.CLASS_NUMBER_METRICS and spec.tolerance >= 1 / (2 * spec.n)
    return is_ratio or (spec.name in limits and spec.tolerance >= limits[spec.name])


def _draw_coarse_control(spec: OracleSpec, index: int) -> Array:
    """Draw rows to be predicted 1: half of all, or any number of them, few as often as many."""
    draws = seeds.generator(0, "labels", "control", index)
    size = spec.n // 2 if index % 2 == 0 else round(spec.n ** draws.uniform(0, 1))
    return (draws.permutation(spec.n) < min(max(size, 1), spec.n - 1)).astype(
        float if spec.name in COUNT_METRICS else np.int64
    )


def _passing_share(spec: OracleSpec) -> float:
    """Bound how often a wrong label agrees with a control query, or with a pair of opposite ones, by chance."""
    if spec.name == "map_at_k":
        return max(_COIN, 1 - 2 / spec.classes)  # a list of one class, which must be one of the two in question
    if not spec.adds_up and spec.name != "r2":
        return _COIN  # two wrong labels cancel in half of the draws
    # Where predictions vary over half of their reach, a loss of either label does over a quarter of it, at least; of
    # this, answers within the error of the implied one are twice the error.
    reach, error = control_reach(spec)
    return min(_COIN, 8 * error / reach)


def control_reach(spec: OracleSpec) -> tuple[float, float]:
    """Return the gap between labels in a control query, and the error of its sum, whatever the labels.

    Args:
        spec: an oracle whose score is a sum over rows, or R².
    """
    if spec.name == "r2":
        return 1.0, spec.n * (spec.rounding + noise_bound(spec, _MAX_CONTROLS) + _SCORE_ERROR)
    loss, digits = spec.loss(), np.arange(spec.classes)
    if math.isfinite(loss.two_sided):
        reach = loss.two_sided if spec.classes == 2 else loss.largest_gap(digits)
        return reach, _control_error(spec, loss, reach)
    return _find_unbounded_reach(spec)


@functools.lru_cache(maxsize=64)
def _find_unbounded_reach(spec: OracleSpec) -> tuple[float, float]:
    """Return gap and error for a loss without a bound.

    The gap is the smallest that makes a passing wrong label as rare as one in a million, or the one whose error is
    smallest beside it: noise has a size of its own, while float errors grow with the losses.
    """
    best, worse = (1.0, math.inf), 0
    for exponent in range(_MAX_EXPONENT):
        reach = 2.0**exponent / (spec.classes - 1)
        error = _control_error(spec, spec.loss(), reach)
        if error / reach < 0.99 * best[1] / best[0]:
            best, worse = (reach, error), 0
        else:
            worse += 1
        if worse > _MAX_WORSE or not math.isfinite(error) or 8 * error / reach < FALSE_ALARM_RATE:
            break
    return best


def _control_error(spec: OracleSpec, loss: RowLoss, reach: float) -> float:
    """Bound the error of a sum of losses in a control query: rounding, noise and floats."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        table = loss.table(loss.predict(reach * np.array([-1.0, 1.0]), np.arange(spec.classes)))
    largest = float(table.max())
    if not math.isfinite(spec.n * largest) or spec.n * largest > float(np.finfo(spec.float_dtype).max) / 8:
        return math.inf
    floats = 2 * float_error(spec, spec.n, spec.n * largest)
    off = spec.rounding + noise_bound(spec, _MAX_CONTROLS)
    if spec.name in metrics.ROOTS:
        return floats + spec.n * (2 * math.sqrt(largest) * off + off**2)
    return floats + spec.rows_per_answer * off


def control_query(spec: OracleSpec, index: int = 0) -> Array:
    """Return the predictions of a control query; always the same for an oracle.

    Where single labels show well above the errors, queries come in opposite pairs: a row that is sure of one label in
    the first is as sure of the other in the second, so that each label costs something in one of them.

    Args:
        spec: the oracle.
        index: below `count_controls`.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> control_query(OracleSpec(n=3, classes=4)).shape
        (3, 4)
    """
    if is_coarse(spec):
        return _draw_coarse_control(spec, index)
    in_pairs = _passing_share(spec) < _COIN
    draws = seeds.generator(0, "labels", "control", index // 2 if in_pairs else index)
    if spec.name == "auc":
        return draws.permutation(spec.n) / spec.n
    if spec.name in COUNT_METRICS:
        return draws.integers(0, 2, spec.n).astype(float)
    if isinstance(spec.metric, Evaluated):
        # Some metrics are not defined for all labels: the submission is taken for which the most labellings have a
        # score.
        labellings = [np.full(spec.n, label) for label in range(min(spec.classes, 4))]
        labellings += [draws.integers(0, spec.classes, spec.n) for _ in range(4)]
        best, fewest = draw_submission(spec, draws), math.inf
        for attempt in range(_MAX_DRAWS):
            submission = draw_submission(spec, draws) if attempt else best
            n_undefined = int(np.isnan(spec.metric.values((y, submission) for y in labellings)).sum())
            best, fewest = (submission, n_undefined) if n_undefined < fewest else (best, fewest)
            if not fewest:
                break
        return best
    if spec.name == "r2":
        predictions = draws.random(spec.n)
        return 1 - predictions if index % 2 else predictions
    if not spec.adds_up:
        classes = draws.integers(0, spec.classes, spec.n)
        return classes[:, None] if spec.name == "map_at_k" else classes
    reach, _ = control_reach(spec)
    gaps = reach * draws.uniform(0.5, 1.0, spec.n)
    is_mirrored = in_pairs and index % 2 == 1
    loss, digits = spec.loss(), np.arange(spec.classes)
    if spec.classes == 2:
        return loss.predict(gaps * draws.choice([-1, 1], spec.n) * (-1 if is_mirrored else 1), digits)
    order = draws.permuted(np.tile(digits, (spec.n, 1)), axis=1)
    order = spec.classes - 1 - order if is_mirrored else order
    return np.take_along_axis(loss.predict(gaps, digits), order, axis=1)


def implied_control_answer(spec: OracleSpec, labels: Ints, index: int = 0) -> tuple[float, float]:
    """Return the answer that these labels imply, and how far an honest one may lie from it.

    Args:
        spec: the oracle.
        labels: ``[n]``, -1 for rows that are not scored.
        index: of the control query.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> answer, allowed = implied_control_answer(OracleSpec(n=4, decimals=3), np.array([0, 1, 1, 0]))
        >>> 0 < answer < 37, round(allowed, 6)
        (True, 0.0005)
    """
    rows, y = control_query(spec, index)[labels >= 0], labels[labels >= 0]
    if spec.name == "auc" and len(np.unique(y)) < 2:
        return math.nan, math.inf  # not defined; a plan for AUC reads both classes or is refuted
    answer = compute_score(spec, y, rows)
    if not spec.adds_up:
        error = _SCORE_ERROR * max(1.0, abs(answer))
    else:
        # Bounds what float arithmetic may add, whatever the order of the sum.
        total = float(np.abs(spec.loss().table(rows)).max(axis=1).sum()) + abs(answer)
        weights = 1.0 if spec.class_weight is None else min(spec.class_weight)
        error = float_error(spec, len(y), total) / (len(y) * weights if spec.reduction == "mean" else 1.0)
        # A root moves by at most the error of its square over the root.
        error = error / max(answer, math.sqrt(error)) if spec.name in metrics.ROOTS else error
    return answer, spec.rounding + noise_bound(spec, count_controls(spec)) + error


def float_error(spec: OracleSpec, n: int, total: float) -> float:
    """Bound twice what floats may add to a sum of ``n`` losses of at most ``total``, and to the losses themselves."""
    error = float(metrics.summation_error(n, total, "sequential", spec.float_dtype))
    return 2 * (error + 8 * total * metrics.unit_roundoff(spec.float_dtype))


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
    if spec.class_weight is not None or spec.name in metrics.ROOTS or spec.scored != "all":
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
