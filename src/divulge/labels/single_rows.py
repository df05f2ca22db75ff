"""One row a submission: the code that is left where answers are too coarse for several labels at once.

One row is predicted 1 and all others alike. Of such a submission AUC, balanced accuracy, MCC, kappa and F1 depend on
two things alone, the row's own label and the number s of ones among n rows. With AUC and balanced accuracy the answer
is ``1/2 + 1/(2s)`` where the label is 1, and ``1/2 - 1/(2(n - s))`` where it is 0; F1 is ``2/(1 + s)`` or 0. So labels
are told apart for certain, whatever s is, while the error of an answer stays below ``1/(2(n - 1))``, ``1/(2(n - 1))``
and ``1/(n + 1)``. Where an answer is only rounded, it is enough that answers for 1 and 0 never round to the same
number: F1 of 0 is shown as 0, so that ``2/(1 + s)`` need not be more than half a step.

Nobody has to know s. A labelling explains all answers exactly if, for some s, each answer lies within the error of that
for its label, and s labels are 1. Answers are counted for each s, so all labellings are examined, and what they share
is proven. Where s remains open, one submission more predicts 1 for all rows that are proven to be 1, whose answer
depends on s alone.

Losses that are sums over rows are read in the same way where the answers for 0 and 1 lie on both sides of an edge of
the rounding: all other rows are predicted such that either label costs them the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.labels import metrics
from divulge.labels.oracles import linear_coefficients
from divulge.labels.plans import Certificate, QueryPlan, Reading, float_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.labels.oracles import OracleSpec
    from divulge.types import Array, Bools, Floats, Ints

_SCORE_ERROR = 1e-12  # of a score, whichever way the endpoint computes it
_COUNTS = ("accuracy", "f1", "auc", "balanced_accuracy", "macro_f1", "mcc", "quadratic_weighted_kappa")
_NEED_BOTH = ("auc", "balanced_accuracy", "macro_f1", "mcc", "quadratic_weighted_kappa")  # classes
_APART = "one row and the number of ones tell an answer"
_SHOWN = "labels 0 and 1 of one row are never rounded to the same answer"


def score_counts(spec: OracleSpec, ones: Ints, predicted: int, hits: int | Ints) -> Floats:
    """Return the scores of a submission of 1 (above all others) for some rows, NaN where there is none.

    Args:
        spec: the oracle, of a metric that depends on counts.
        ones: numbers of ones among the labels, ``[m]``.
        predicted: rows predicted 1.
        hits: those of them whose label is 1, ``[m]`` or one number.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> score_counts(OracleSpec("auc", n=4), np.array([2]), 1, np.array([1]))
        array([0.75])
    """
    n, s, hits = spec.n, ones.astype(float), np.broadcast_to(np.asarray(hits, dtype=float), ones.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        if spec.name == "accuracy":
            return (n - predicted - s + 2 * hits) / n
        if spec.name == "f1":
            return np.where(hits > 0, 2 * hits / (predicted + s), 0.0)
        if spec.name == "auc":
            return np.where((s > 0) & (s < n), 0.5 + (hits / s - (predicted - hits) / (n - s)) / 2, np.nan)
        start, slope, fixed = linear_coefficients(spec, ones, ones, (np.arange(n) < predicted).astype(np.int64))
        values = np.where(np.isnan(fixed), start + slope * hits, fixed)
    return np.where(np.isfinite(values), values, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class SingleRowPlan:
    """One submission for each row.

    Args:
        spec: the oracle.
        scores_if_0: what it answers, without error, where the row asked has label 0, for each number of ones from 0 to
            n; NaN where there is no such labelling.
        scores_if_1: the same where the label is 1.
        error: what floats may add to an answer.
        gap: between the labels of the row asked, for a loss that is a sum over rows; 0 for other metrics.
    """

    spec: OracleSpec
    scores_if_0: Floats
    scores_if_1: Floats
    error: float
    gap: float = 0.0

    @property
    def count(self) -> int:
        """Number of queries."""
        return self.spec.n

    def query(self, index: int) -> Array:
        """Predictions of query ``index``."""
        return self.submit(np.arange(self.spec.n) == index)

    def submit(self, is_one: Bools) -> Array:
        """Return the submission that predicts 1 for these rows."""
        if self.gap:
            return self.spec.loss().predict(np.where(is_one, self.gap, 0.0), np.arange(2))
        return is_one.astype(float if self.spec.name in ("accuracy", "f1", "auc") else np.int64)

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far."""
        (quiet, possible), (loud, _) = (self.possible_labels(answers, times) for times in (1, 2))
        n, given = self.spec.n, ~np.isnan(answers)
        ones = self._likeliest_ones(answers, possible)
        distances = np.abs(np.stack([self.scores_if_0[ones], self.scores_if_1[ones]])[:, None] - answers[:n])
        distances = np.where(np.isnan(distances), math.inf, distances)
        # Rows whose label is open are guessed: that which is nearer, 0 for equal ones and those not asked.
        nearer = distances[1] < distances[0]
        labels = np.where(quiet[0] == quiet[1], nearer, quiet[1]).astype(np.int64)
        proven, certain = quiet[0] != quiet[1], (loud[0] != loud[1]) & (loud[1] == labels)
        residual = np.full(len(answers), np.nan)
        residual[:n] = np.where(given[:n], distances[labels, np.arange(n)], np.nan)
        residual[n:] = np.where(given[n:], 0.0, np.nan)
        refuted = given & (len(possible) == 0)
        return Reading(labels, certain & proven, proven, residual, refuted)

    def find_scored_rows(self, answers: Floats, labels: Ints) -> Bools:
        """Flag rows that are scored for certain, whatever other rows may be left out of the score.

        Where the row asked is not scored, all that are scored are predicted alike, and the score of this is known: rows
        with another answer are scored. Of accuracy and F1, whose rows cannot hide one another in control queries, those
        tell (`find_checked_rows`). At a rounding edge of a loss control queries hardly ever show a wrong label, nor
        that an answer is one to another query, so that nothing is certain.

        Args:
            answers: ``[count]``.
            labels: read, ``[n]``.
        """
        if self.gap:
            return np.zeros(self.spec.n, dtype=bool)
        if self.spec.name in ("accuracy", "f1"):
            return np.ones(self.spec.n, dtype=bool)
        unscored = _score(self.spec, int(labels.sum()), 0, 0)
        allowed = self.spec.rounding + 2 * self.spec.noise + self.error
        return np.abs(answers[: self.spec.n] - unscored) > allowed

    def _likeliest_ones(self, answers: Floats, possible: Ints) -> int:
        """Return the number of ones for which the answers lie nearest to those of labels."""
        n, given = self.spec.n, ~np.isnan(answers[: self.spec.n])
        best, least = n // 2, math.inf
        for ones in possible[:: max(1, len(possible) // 200)]:
            away = np.fmin(
                np.abs(self.scores_if_0[ones] - answers[:n][given]), np.abs(self.scores_if_1[ones] - answers[:n][given])
            )
            if away.sum() < least:
                best, least = int(ones), float(away.sum())
        return best

    def possible_labels(self, answers: Floats, times: int) -> tuple[Bools, Ints]:
        """Return, for each row, whether a labelling that explains the answers has label 0, and label 1; and the ones.

        Args:
            answers: ``[count]``, NaN where there is none.
            times: how many times as loud as declared the noise may be.

        Returns:
            Bool ``[2, n]``, and the numbers of ones that such labellings have.
        """
        n = self.spec.n
        allowed = self.spec.rounding + times * self.spec.noise + self.error
        given = ~np.isnan(answers[:n])
        ordered = np.sort(answers[:n][given])
        ones = np.arange(n + 1)

        def places(low: Floats, high: Floats) -> tuple[Ints, Ints]:
            start = np.searchsorted(ordered, np.where(np.isnan(low), math.inf, low), "left")
            stop = np.searchsorted(ordered, np.where(np.isnan(high), -math.inf, high), "right")
            return start, np.maximum(start, stop)

        zero_start, zero_stop = places(self.scores_if_0 - allowed, self.scores_if_0 + allowed)
        one_start, one_stop = places(self.scores_if_1 - allowed, self.scores_if_1 + allowed)
        both_start, both_stop = np.maximum(zero_start, one_start), np.minimum(zero_stop, one_stop)
        both_stop = np.maximum(both_start, both_stop)
        n_both = both_stop - both_start
        surely_zero, surely_one = zero_stop - zero_start - n_both, one_stop - one_start - n_both
        explained = surely_zero + surely_one + n_both == len(ordered)
        explained &= (surely_one <= ones) & (surely_zero <= n - ones)
        explained &= ~(np.isnan(self.scores_if_0) & np.isnan(self.scores_if_1)) & self._explains_rest(answers, allowed)
        possible = np.flatnonzero(explained)
        # Marks of the ordered answers: in how many cases the label may be 0, or 1.
        marks = np.zeros((2, len(ordered) + 1), dtype=np.int64)
        is_open = np.zeros(2, dtype=bool)  # of the rows without an answer
        for label, start, stop, left in (
            (0, zero_start, zero_stop, n - ones - surely_zero),
            (1, one_start, one_stop, ones - surely_one),
        ):
            np.add.at(marks[label], start[possible], 1)
            np.add.at(marks[label], stop[possible], -1)
            full = possible[left[possible] < 1]  # no row more has this label, so none of those that might have either
            np.add.at(marks[label], both_start[full], -1)
            np.add.at(marks[label], both_stop[full], 1)
            is_open[label] = len(full) < len(possible)
        flags = np.tile(is_open[:, None], (1, n))
        flags[:, given] = (np.cumsum(marks, axis=1) > 0)[:, np.searchsorted(ordered, answers[:n][given], "left")]
        return flags, possible

    def _explains_rest(self, answers: Floats, allowed: float) -> Bools:
        """Flag the numbers of ones that explain the answers to further queries; here there are none."""
        return np.ones(self.spec.n + 1, dtype=bool)


@dataclass(frozen=True, slots=True, eq=False)
class ClosedSingleRowPlan(SingleRowPlan):
    """The same and, where rows stay open, one submission that predicts 1 for rows already read."""

    _closing: dict[bytes, tuple[Bools, Floats] | None] = field(default_factory=dict, repr=False)

    @property
    def count(self) -> int:
        """Largest number of queries."""
        return self.spec.n + 1

    def query(self, index: int) -> Array:
        """Predictions of query ``index``; the last depends on the answers (`query_after`)."""
        if index == self.spec.n:
            raise InputError(f"query: number {index} depends on the answers before it; ask them one at a time")
        return SingleRowPlan.query(self, index)

    def query_after(self, index: int, answers: Floats) -> Array | None:
        """Return the query that follows these answers; None when nothing is left to ask."""
        if index < self.spec.n:
            return SingleRowPlan.query(self, index)
        closing = self._find_closing(answers)
        return None if closing is None else self.submit(closing[0])

    def _find_closing(self, answers: Floats) -> tuple[Bools, Floats] | None:
        """Return the rows predicted 1 in the last submission, and its scores for every number of ones."""
        n = self.spec.n
        rows = answers[:n]
        key = rows.tobytes()
        if key not in self._closing:
            self._closing[key] = None
            only_rows = np.append(rows, np.nan)
            if not np.isnan(rows).any():
                possible, _ = self.possible_labels(only_rows, 1)
                read_one, read_zero = possible[1] & ~possible[0], possible[0] & ~possible[1]
                ones = np.arange(n + 1)
                if not (read_one | read_zero).all() and (read_one.any() or read_zero.any()):
                    is_one = read_one if read_one.any() else ~read_zero
                    hits = int(read_one.sum()) if read_one.any() else ones
                    self._closing[key] = is_one, score_counts(self.spec, ones, int(is_one.sum()), hits)
        return self._closing[key]

    def _explains_rest(self, answers: Floats, allowed: float) -> Bools:
        if math.isnan(answers[self.spec.n]):
            return np.ones(self.spec.n + 1, dtype=bool)
        closing = self._find_closing(answers)
        if closing is None:
            return np.ones(self.spec.n + 1, dtype=bool)
        with np.errstate(invalid="ignore"):
            return np.abs(closing[1] - answers[self.spec.n]) <= allowed


def find_single_rows(spec: OracleSpec) -> QueryPlan | None:
    """Return the plan that asks one row at a time; None where not even one row shows for certain, or it is unknown."""
    values = _row_answers(spec)
    if values is None:
        return None
    scores_if_0, scores_if_1, error, gap = values
    separation, needed = _separate(spec, scores_if_0, scores_if_1, error)
    method = (_APART if needed else _SHOWN) + (", for labels of both classes" if spec.name in _NEED_BOTH else "")
    if separation > needed:
        certificate = Certificate(True, separation, needed, method)
        return QueryPlan(
            spec, "one row a query", SingleRowPlan(spec, scores_if_0, scores_if_1, error, gap), certificate
        )
    readable = readable_numbers_of_ones(spec, scores_if_0, scores_if_1, error)
    if gap or not readable.any():
        return None
    certificate = Certificate(False, 0.0, needed, method, _describe_open(spec, readable))
    return QueryPlan(
        spec, "one row a query", ClosedSingleRowPlan(spec, scores_if_0, scores_if_1, error, gap), certificate
    )


def _describe_open(spec: OracleSpec, readable: Bools) -> str:
    """Say for which labels one row shows."""
    follows = "what is proven follows from the answers"
    if readable.all():
        return f"the number of ones is not known in advance; {follows}"
    few, many = int(np.argmin(readable)), int(np.argmin(readable[::-1]))
    ends = [f"at most {few} rows are 1"] * (few > 0) + [f"at most {many} rows are 0"] * (many > 0)
    where = f"only where {' or '.join(ends)}" if ends else "only for some numbers of ones"
    return f"one row is sure to show {where}; elsewhere no code is known here, so this is no all-clear; {follows}"


def readable_numbers_of_ones(spec: OracleSpec, scores_if_0: Floats, scores_if_1: Floats, error: float) -> Bools:
    """Flag, of the numbers of ones from 1 to n - 1, those for which both labels never get the same answer."""
    if spec.name == "accuracy" or not spec.rounding:
        # An edge between the two answers there is by chance; for these no label is asked without it.
        return (scores_if_1 - scores_if_0)[1:-1] > 2 * (spec.tolerance + error)
    lowest, highest = _shown_edges(spec, scores_if_0[1:-1], scores_if_1[1:-1], error)
    return lowest > highest


def find_checked_rows(spec: OracleSpec, labels: Ints, controls: Sequence[Array]) -> Bools:
    """Flag rows of which some control query would have shown that the label is another, or that the row is not scored.

    Args:
        spec: the oracle.
        labels: read, ``[n]``; the control queries were answered as they imply.
        controls: submissions of 0 and 1.

    Returns:
        Bool ``[n]``.
    """
    n, n_ones = spec.n, int(labels.sum())
    is_seen = np.zeros((2, n), dtype=bool)
    smaller = replace(spec, n=n - 1)
    for submission in controls:
        is_one = np.asarray(submission) > 0
        predicted, hits = int(is_one.sum()), int(labels[is_one].sum())
        implied = _score(spec, n_ones, predicted, hits)
        for in_set in (False, True):
            for label in (0, 1):
                rows = (is_one == in_set) & (labels == label)
                sign = 1 - 2 * label
                flipped = _score(spec, n_ones + sign, predicted, hits + sign * in_set)
                dropped = _score(smaller, n_ones - label, predicted - in_set, hits - label * in_set)
                is_seen[0, rows] |= _differs(spec, flipped, implied)
                is_seen[1, rows] |= _differs(spec, dropped, implied)
    return is_seen[0] & is_seen[1]


def _score(spec: OracleSpec, ones: int, predicted: int, hits: int) -> float:
    return float(score_counts(spec, np.array([ones]), predicted, hits)[0])


def _differs(spec: OracleSpec, value: float, implied: float) -> bool:
    """Return True if a score, noisy and rounded, is never taken for the implied one."""
    if math.isnan(value) or math.isnan(implied):
        return False  # what an endpoint says where a score is not defined is not known
    allowed, off = spec.tolerance + _SCORE_ERROR, spec.noise + _SCORE_ERROR
    ends = np.array([value - off, value + off])
    # Rounding may go either way at an edge.
    shown = ends if not spec.rounding else np.array([_round_down(spec, ends[0]), _round_up(spec, ends[1])])
    return bool(shown[0] > implied + allowed or shown[1] < implied - allowed)


def _round_down(spec: OracleSpec, value: float) -> float:
    """Return the lowest number that a value may be rounded to."""
    assert spec.decimals is not None, "only rounded answers have steps"
    return math.ceil((value - spec.rounding - _SCORE_ERROR) * 10.0**spec.decimals) * 10.0**-spec.decimals


def _round_up(spec: OracleSpec, value: float) -> float:
    return -_round_down(spec, -value)


def depends_on_counts(spec: OracleSpec) -> bool:
    """Return True if the metric is one of those of two classes that count rows, or rank them."""
    return isinstance(spec.metric, str) and spec.name in _COUNTS and spec.classes == 2


def error_limit(spec: OracleSpec) -> float:
    """Return the error of an answer below which one row is read whatever the number of ones; 0 where none is known.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> round(error_limit(OracleSpec("auc", n=11)), 6)
        0.05
    """
    if not depends_on_counts(spec) or spec.n < 3 or spec.scored != "all":
        return 0.0
    return max(_plain_separation(spec, *_count_answers(spec)) / 2, 0.0)


def _count_answers(spec: OracleSpec) -> tuple[Floats, Floats]:
    """Return the scores of one row predicted 1, where its label is 0 and where it is 1, for each number of ones."""
    n, ones = spec.n, np.arange(spec.n + 1)
    scores_if_0 = np.where(ones < n, score_counts(spec, ones, 1, 0), np.nan)
    return scores_if_0, np.where(ones > 0, score_counts(spec, ones, 1, np.minimum(ones, 1)), np.nan)


def _row_answers(spec: OracleSpec) -> tuple[Floats, Floats, float, float] | None:
    """Return the answers for label 0 and 1 of the row asked, the float error and the gap; None for other metrics."""
    n, ones = spec.n, np.arange(spec.n + 1)
    if spec.noise_kind != "bounded" or spec.scored != "all" or spec.classes != 2 or n < 2:
        return None
    if depends_on_counts(spec):
        return (*_count_answers(spec), _SCORE_ERROR, 0.0)
    if not spec.adds_up or spec.class_weight is not None or spec.name in metrics.ROOTS:
        return None
    loss = spec.loss()
    if not math.isfinite(loss.span) or not spec.rounding or spec.reduction == "sum":
        return None
    table = loss.table(loss.predict(np.array([0.0, loss.span]), np.arange(2)))
    # Rows that are not asked may have either label: both cost them the same, up to floats.
    idle, cost = table[0], table[1]
    error = (float_error(spec, n, n * float(idle.max()) + float(cost.max())) + n * float(np.ptp(idle))) / n
    answers = (float(idle.mean()) * (n - 1) + cost) / n
    scores_if_0 = np.where(ones < n, answers[0], np.nan)
    scores_if_1 = np.where(ones > 0, answers[1], np.nan)
    return scores_if_0, scores_if_1, error, loss.span


def _separate(spec: OracleSpec, scores_if_0: Floats, scores_if_1: Floats, error: float) -> tuple[float, float]:
    """Return how far answers for 1 lie above those for 0, whatever the number of ones, and how far they have to."""
    separation, needed = _plain_separation(spec, scores_if_0, scores_if_1), 2 * (spec.tolerance + error)
    if separation > needed or not spec.rounding:
        return separation, needed
    lowest, highest = _shown_edges(spec, *_considered(spec, scores_if_0, scores_if_1), error)
    shown = float(np.nanmin(lowest) - np.nanmax(highest))
    # Numbers as they are shown differ by a step, or not at all.
    return (shown, 0.0) if shown > 0 else (separation, needed)


def _plain_separation(spec: OracleSpec, scores_if_0: Floats, scores_if_1: Floats) -> float:
    scores_if_0, scores_if_1 = _considered(spec, scores_if_0, scores_if_1)
    return float(np.nanmin(scores_if_1) - np.nanmax(scores_if_0))


def _considered(spec: OracleSpec, scores_if_0: Floats, scores_if_1: Floats) -> tuple[Floats, Floats]:
    both = slice(1, -1) if spec.name in _NEED_BOTH and spec.n > 1 else slice(None)
    return scores_if_0[both], scores_if_1[both]


def _shown_edges(spec: OracleSpec, scores_if_0: Floats, scores_if_1: Floats, error: float) -> tuple[Floats, Floats]:
    """Return the lowest answers that may be shown for label 1, and the highest for label 0."""
    assert spec.decimals is not None, "only rounded answers have steps"
    step, reach = 10.0**-spec.decimals, spec.tolerance + error
    return np.ceil((scores_if_1 - reach) / step) * step, np.floor((scores_if_0 + reach) / step) * step
