"""The codes of the paper, as baselines: Theorem 3, Theorem 14, prime codes, and exhaustive decoding.

Source: Aggarwal, Kasiviswanathan, Xu, Feyisetan, Teissier (2021). Repaired where the text is wrong:
Theorem 3 needs k = 1..K (with k from 0 its separation is τ·ln 3 < 2τ), Theorem 14 needs Nτ in the exponent
(as printed, N = 2 and τ = 1/18 give θ = 1/2 and no separation at all), and the mean runs over all N scored rows,
not over the M rows of a block (Figure 2 of the paper averages over M, and its "M" counts queries).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks
from divulge.labels import linear, questions
from divulge.labels.answers import Reading
from divulge.labels.certificate import Certificate
from divulge.labels.plans import QueryPlan

if TYPE_CHECKING:
    from divulge.labels.loss import Loss
    from divulge.labels.questions import Question
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Floats, Ints

METHODS = ("theorem3", "theorem14", "primes", "exhaustive")
_MOST_TABLE = 4096
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def plan(spec: OracleSpec, method: str) -> QueryPlan:
    """The paper's plan, block by block of as many rows as the oracle's range and noise allow.

    Raises:
        divulge.InputError: stochastic noise, a metric without per-row losses, or no row fits.
    """
    if spec.noise_kind != "bounded" or spec.class_weight is not None:
        raise checks.InputError(f"method: {method} is stated for bounded noise and unweighted classes only")
    loss = spec.loss()
    if method in ("primes", "exhaustive"):
        table = _table_plan(spec, loss, method)
        return QueryPlan(spec, method, table, table.certificate())
    return _theorem(spec, loss, method)


def _theorem(spec: OracleSpec, loss: Loss, method: str) -> QueryPlan:
    if method == "theorem14" and spec.classes != 2:
        raise checks.InputError(f"method: theorem14 is stated for 2 classes, got {spec.classes}")
    digits = np.arange(2) if method == "theorem14" else 2 ** np.arange(spec.classes) - 1
    base = 2 if method == "theorem14" else 2**spec.classes
    gap = loss.reach(digits)
    if not math.isfinite(gap):
        raise checks.InputError(f"method: {method} is for bounded losses; {spec.name} has no bound")
    question: Question | None = None
    for rows in range(1, 60 // (base.bit_length() - 1)):
        unit = gap / base ** (rows - 1)
        made = questions.assemble(spec, loss, digits, base, base ** (rows - 1), unit)
        # 3 to the power of the noise, and k (or n) counted from 1: one step is 2·ln 3 times the noise.
        least = 2 * math.log(3) * (spec.rows_per_answer * spec.tolerance + float(made.error.max()))
        if unit < least:
            break
        question = questions.assemble(spec, loss, digits, base, base ** (rows - 1), least)
    if question is None:
        raise checks.InputError(f"method: {method} cannot read even one label per query at this noise")
    inner = PaperPlan(spec, question)
    return QueryPlan(spec, method, inner, linear.certificate(spec, (question,)))


@dataclass(frozen=True, slots=True, eq=False)
class PaperPlan:
    """A theorem's code: positional in base ``2^K`` (Theorem 3) or 2 (Theorem 14)."""

    spec: OracleSpec
    question: Question

    @property
    def count(self) -> int:
        """Number of queries."""
        return self.question.count

    def query(self, index: int) -> Array:
        """Predictions of query ``index``."""
        return self.question.query(index)

    def read(self, answers: Floats) -> Reading:
        """Labels from the answers so far."""
        sums = linear.as_sums(self.spec, answers)
        reading = self.question.read(sums)
        digits = self.question.digits
        labels = np.searchsorted(digits, reading.labels).clip(0, len(digits) - 1)
        valid = digits[labels] == reading.labels
        residual = reading.residual / self.spec.rows_per_answer
        refuted = reading.refuted | self.question.code.queries_of(reading.proven & ~valid)
        return Reading(labels, reading.certain & valid, reading.proven & valid, residual, refuted)


@dataclass(frozen=True, slots=True, eq=False)
class TablePlan:
    """Blocks of rows whose answers are looked up among those of all labellings of the block.

    Args:
        rows: predictions of the block's rows, ``[M, ...]``.
        idle: prediction of all other rows.
        sums: sum of the block's losses for every labelling, ascending, ``[K^M]``.
        labellings: the labels behind each sum, ``[K^M, M]``.
        rest: loss of an idle row.
        error: bound on the float error of a sum.
    """

    spec: OracleSpec
    rows: Array
    idle: Array
    sums: Floats
    labellings: Ints
    rest: float
    error: float

    @property
    def count(self) -> int:
        """Number of queries."""
        return -(-self.spec.n // len(self.rows))

    def certificate(self) -> Certificate:
        """Smallest distance of two sums against twice the noise."""
        scale = self.spec.rows_per_answer
        separation = float(np.diff(self.sums).min()) / scale - 2 * self.error / scale
        needed = 2 * self.spec.tolerance
        if separation > needed:
            return Certificate(True, separation, needed, "all labellings of a block enumerated")
        return Certificate(
            False, max(separation, 0.0), needed, "enumeration", "two labellings give answers too close to each other"
        )

    def query(self, index: int) -> Array:
        """Predictions of query ``index``."""
        predictions = np.repeat(self.idle, self.spec.n, axis=0)
        first = index * len(self.rows)
        width = min(len(self.rows), self.spec.n - first)
        predictions[first : first + width] = self.rows[:width]
        return predictions

    def read(self, answers: Floats) -> Reading:
        """Labels from the answers so far."""
        sums = linear.as_sums(self.spec, answers)
        m = len(self.rows)
        labels = np.zeros(self.count * m, dtype=np.int64)
        certain = np.zeros(self.count * m, dtype=bool)
        proven = np.zeros(self.count * m, dtype=bool)
        residual = np.full(self.count, np.nan)
        refuted = np.zeros(self.count, dtype=bool)
        for index in np.flatnonzero(~np.isnan(answers)):
            width = min(m, self.spec.n - int(index) * m)
            part = slice(int(index) * m, int(index) * m + m)
            total = float(sums.sums[index] - np.longdouble(self.rest) * (self.spec.n - width))
            labels[part], best, second = self._nearest(total, width)
            known, noise = float(sums.fixed[index]) + self.error, float(sums.noise[index])
            certain[part] = second > known + 2 * noise
            proven[part] = second > known + noise >= best
            refuted[index] = best > known + noise + float(sums.slack[index])
            residual[index] = best / self.spec.rows_per_answer
        n = self.spec.n
        return Reading(labels[:n], certain[:n], proven[:n], residual, refuted)

    def _nearest(self, total: float, width: int) -> tuple[Ints, float, float]:
        """The block's labels, and the distances of the best and the second-best labelling."""
        sums, labellings = self.sums, self.labellings
        if width < len(self.rows):
            losses = self.spec.loss().table(self.rows)
            keep = (labellings[:, width:] == 0).all(axis=1)
            sums = sums[keep] - losses[width:, 0].sum()
            labellings = labellings[keep]
        distance = np.abs(sums - total)
        best = int(distance.argmin())
        others = np.delete(distance, best)
        return labellings[best], float(distance[best]), float(others.min(initial=math.inf))


def _table_plan(spec: OracleSpec, loss: Loss, method: str) -> TablePlan:
    most = min(int(math.log(_MOST_TABLE) / math.log(spec.classes)), spec.n)
    best: TablePlan | None = None
    for m in range(1, most + 1):
        table = _table(spec, loss, method, m)
        if not table.certificate().certified:
            break
        best = table
    if best is None:
        raise checks.InputError(f"method: {method} cannot read even one label per query at this noise")
    return best


def _table(spec: OracleSpec, loss: Loss, method: str, m: int) -> TablePlan:
    digits = np.arange(spec.classes)
    span = loss.reach(digits) if math.isfinite(loss.span) else 40.0
    # Distinct products of distinct primes, or powers of K: the largest takes the whole span.
    weights = np.log(_PRIMES[:m]) if method == "primes" else float(spec.classes) ** np.arange(m)
    if method == "primes" and spec.classes > 2:
        raise checks.InputError(f"method: primes is stated for 2 classes, got {spec.classes}")
    rows = loss.predict(span * weights / weights[-1], digits)
    idle = loss.predict(np.zeros(1), digits)
    table = loss.table(rows)
    labellings = np.array(list(itertools.product(range(spec.classes), repeat=m)), dtype=np.int64)
    sums = np.array([math.fsum(table[np.arange(m), labels]) for labels in labellings])
    order = np.argsort(sums)
    rest = float(loss.table(idle)[0, 0])
    total = float(table.max(axis=1).sum()) + spec.n * rest
    error = 2 * linear.plain_error(spec, total)
    return TablePlan(spec, rows, idle, sums[order], labellings[order], rest, error)
