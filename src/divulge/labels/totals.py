"""Metrics that say the sum ``Σ p·y`` once a few totals of the labels are known.

Balanced accuracy, Matthews' correlation (MCC) and quadratic weighted kappa (QWK) are no sums over rows. But of a
submission p of class numbers each is ``a + b·Σ p·y``, where a and b depend on p and on totals of the labels alone: on
the number s of ones for two classes, on Σ y and Σ y² for more.

- Balanced accuracy, P rows predicted 1: ``a = (n - s - P) / 2(n - s)``, ``b = 1/2s + 1/2(n - s)``.
- MCC: ``b = n / √(P (n - P) s (n - s))``, ``a = -b·P·s/n``.
- QWK: ``b = 2/E``, ``a = 1 - (Σp² + Σy²)/E`` with ``E = Σp² + Σy² - 2·Σp·Σy/n``, for any number of classes.

So an integer code (`divulge.labels.codes`) reads the labels for any given totals. All totals there are get tried: the
answers must be whole numbers for them, the labels read must have these totals, and must imply the answers to the
first query (row 0 alone) and to a few random ones. What all totals that pass agree on is proven.

A metric that is only evaluated, and depends on the four counts alone, is read in the same way, with its values worked
out by evaluation on labels that have these counts (`divulge.labels.Evaluated`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.labels import codes, count_metrics
from divulge.labels.certificate import Certificate
from divulge.labels.evaluated import Evaluated
from divulge.labels.plans import QueryPlan
from divulge.labels.ratios import coefficients, score
from divulge.labels.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.labels.codes import Code
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Bools, Floats, Ints

FLOAT_ERROR = 1e-12  # of a score, whichever way the endpoint computes it
_CHECKS = 3
_MOST_CANDIDATES = 256
_MOST_SUM = 20_000  # n times the largest class number, for more than two classes
_MOST_EVALUATED = 2_000  # rows


@dataclass(frozen=True, slots=True, eq=False)
class TotalsPlan:
    """Row 0 alone, then an integer code, then random submissions.

    Args:
        spec: the oracle.
        code: weights of the rows; a submission is ``sign·weight + shift``.
        slots: numbers, within the code, of the queries that are asked.
        sign: -1 where the code's weights are 0 and -1.
        shift: what makes every submission a class number.
    """

    spec: OracleSpec
    code: Code
    slots: Ints
    sign: int
    shift: int
    _values: dict[tuple[int, int], tuple[Ints, Floats]] = field(default_factory=dict, repr=False)

    @property
    def count(self) -> int:
        """Number of queries."""
        return 1 + len(self.slots) + _CHECKS

    def query(self, index: int) -> Array:
        """Class numbers of query ``index``."""
        submission = np.zeros(self.spec.n, dtype=np.int64)
        if index == 0:
            submission[0] = 1
        elif index <= len(self.slots):
            first, weights = self.code.weights(int(self.slots[index - 1]))
            submission[first : first + len(weights)] = self.sign * weights
            submission += self.shift
        else:
            submission = seeds.generator(index - len(self.slots), "labels", "totals").integers(
                0, self.spec.classes, self.spec.n
            )
        return submission

    def read(self, answers: Floats) -> Reading:
        """Labels from the answers so far."""
        quiet, loud = self._candidates(answers, 1), self._candidates(answers, 2)
        kept = quiet or loud
        nothing = np.zeros(self.spec.n, dtype=bool)
        labels = kept[0][0] if kept else np.zeros(self.spec.n, dtype=np.int64)
        residual = np.full(self.count, np.nan)
        residual[~np.isnan(answers)] = 0.0
        if quiet and not quiet[0][1].any():
            asked = np.flatnonzero(~np.isnan(answers))
            residual[asked] = [abs(score(self.spec, labels, self.query(int(i))) - answers[i]) for i in asked]
        refuted = ~np.isnan(answers) & (quiet == [])
        return Reading(labels, _agreed(loud, labels, nothing), _agreed(quiet, labels, nothing), residual, refuted)

    def _candidates(self, answers: Floats, times: int) -> list[tuple[Ints, Bools]] | None:
        """Labels, and the rows that stay unread, for all totals that explain the answers; None: too many to try."""
        allowed = self.spec.rounding + times * self.spec.noise + FLOAT_ERROR
        asked = [int(index) for index in np.flatnonzero(~np.isnan(answers))]
        submissions = {index: self.query(index) for index in asked}
        kept: list[tuple[int, int]] = []
        for ones, squares in self._totals():
            for index in asked:
                if not len(ones):
                    break
                fits = self._explains(ones, squares, submissions[index], float(answers[index]), allowed)
                ones, squares = ones[fits], squares[fits]
            kept += zip(ones.tolist(), squares.tolist(), strict=True)
            if len(kept) > _MOST_CANDIDATES:
                return None
        read = [self._decode(totals, answers, submissions, allowed) for totals in kept]
        return [one for one in read if one is not None]

    def _totals(self) -> list[tuple[Ints, Ints]] | _Totals:
        """All totals (Σ y, Σ y²), in parts."""
        ones = np.arange(self.spec.n + 1)
        return [(ones, ones)] if self.spec.classes == 2 else _Totals(self.spec.n, self.spec.classes - 1)

    def _explains(self, ones: Ints, squares: Ints, submission: Ints, answer: float, allowed: float) -> Bools:
        """Which totals admit some sum ``Σ p·y`` that gives this answer."""
        if isinstance(self.spec.metric, Evaluated):
            return np.array(
                [bool((np.abs(self._table(int(s), submission)[1] - answer) <= allowed).any()) for s in ones], dtype=bool
            )
        n, p, most = self.spec.n, int(submission.sum()), self.spec.classes - 1
        start, slope, fixed = coefficients(self.spec, ones, squares, submission)
        low = np.maximum(0, p + ones - n) if most == 1 else np.zeros(len(ones))
        high = np.minimum(p, ones) if most == 1 else np.full(len(ones), most * p)
        with np.errstate(divide="ignore", invalid="ignore"):
            sums = np.clip(np.nan_to_num(np.rint((answer - start) / slope)), low, high)
            implied = np.where(np.isnan(fixed), start + slope * sums, fixed)
        return np.abs(implied - answer) <= allowed

    def _decode(
        self, totals: tuple[int, int], answers: Floats, submissions: dict[int, Ints], allowed: float
    ) -> tuple[Ints, Bools] | None:
        """Labels for these totals, and which rows stay unread; None where no labels fit."""
        n, most = self.spec.n, self.spec.classes - 1
        sums = np.zeros(self.code.count, dtype=np.int64)
        unread = np.zeros(self.code.count, dtype=bool)
        for index, slot in enumerate(self.slots.tolist(), start=1):
            if index not in submissions:
                unread[slot] = True
                continue
            whole, alone = self._sum(totals, submissions[index], float(answers[index]), allowed)
            sums[slot] = self.sign * (whole - self.shift * totals[0])
            unread[slot] = not alone
        if totals[0] in (0, n * most) or totals == (totals[0] // n * n, (totals[0] // n) ** 2 * n):
            # All labels alike, which the totals themselves say.
            labels, rows = np.full(n, totals[0] // n, dtype=np.int64), np.zeros(n, dtype=bool)
        else:
            labels, sound = self.code.decode(sums)
            rows = self.code.rows_of(unread)
            if not (sound | rows).all() or (labels[~rows] > most).any():
                return None
        if rows.any():
            return labels, rows
        if (int(labels.sum()), int((labels**2).sum())) != totals:
            return None
        implied = [abs(score(self.spec, labels, submissions[i]) - answers[i]) <= allowed for i in submissions]
        return (labels, rows) if all(implied) else None

    def _sum(self, totals: tuple[int, int], submission: Ints, answer: float, allowed: float) -> tuple[int, bool]:
        """``Σ p·y`` behind an answer, and whether it is the only one within reach."""
        p = int(submission.sum())
        if (submission == submission[0]).all():
            return int(submission[0]) * totals[0], True
        if isinstance(self.spec.metric, Evaluated):
            sums, values = self._table(totals[0], submission)
            off = np.abs(values - answer)
            best = int(np.nanargmin(off)) if not np.isnan(off).all() else 0
            return int(sums[best]), int((off <= allowed).sum()) <= 1
        start, slope, fixed = (
            float(part[0]) for part in coefficients(self.spec, *(np.array([t]) for t in totals), submission)
        )
        if not math.isnan(fixed):
            return 0, False
        steps = (answer - start) / slope
        whole = int(np.clip(round(steps), 0, (self.spec.classes - 1) * p))
        return whole, (1 - abs(steps - round(steps))) * slope > allowed

    def _table(self, ones: int, submission: Ints) -> tuple[Ints, Floats]:
        """All numbers of true positives there can be, and the values of an evaluated metric for them."""
        p, n = int(submission.sum()), self.spec.n
        if (ones, p) not in self._values:
            metric = self.spec.metric
            assert isinstance(metric, Evaluated), "built-in metrics have a formula"
            both = np.arange(max(0, p + ones - n), min(p, ones) + 1)
            self._values[ones, p] = both, metric.values(_arranged(n, ones, p, int(c)) for c in both)
        return self._values[ones, p]


class _Totals:
    """All (Σ y, Σ y²) of n labels up to ``most``: of equal parity, and at least as large as a mean allows."""

    def __init__(self, n: int, most: int) -> None:
        self.n, self.most = n, most

    def __iter__(self) -> Iterator[tuple[Ints, Ints]]:
        for total in range(self.n * self.most + 1):
            least = max(total, -(-total * total // self.n))
            squares = np.arange(least + (least - total) % 2, self.most * total + 1, 2)
            yield np.full(len(squares), total), squares


def plan(spec: OracleSpec) -> QueryPlan:
    """The plan for balanced accuracy, MCC, QWK, or an evaluated metric that depends on counts.

    Raises:
        divulge.InputError: noise or rounding hides single counts, the noise has no bound, or there are too many rows.
    """
    if spec.noise_kind != "bounded":
        raise InputError(f"noise_kind: {spec.name} is attacked under bounded noise only, got {spec.noise_kind}")
    most = spec.classes - 1
    if most > 1 and spec.n * most > _MOST_SUM:
        raise InputError(f"n: for {spec.classes} classes at most {_MOST_SUM // most} rows, got {spec.n}")
    if isinstance(spec.metric, Evaluated):
        _check_counts(spec)
    if most == 1:
        code = count_metrics.detecting_code(spec.n)
        inner = TotalsPlan(spec, code, count_metrics.asked_slots(code), -1, 0)
    else:
        shift = most // 2
        code = codes.build(spec.n, spec.classes, shift, dense=False, most=codes.MOST_ADDRESS_BITS)
        inner = TotalsPlan(spec, code, np.arange(code.count), 1, shift)
    return QueryPlan(spec, "totals", inner, _certificate(inner))


def _check_counts(spec: OracleSpec) -> None:
    """Refuse an evaluated metric that visibly depends on more than counts."""
    metric = spec.metric
    assert isinstance(metric, Evaluated), "only evaluated metrics are checked"
    if spec.n > _MOST_EVALUATED:
        raise InputError(f"n: a metric that is evaluated is read for at most {_MOST_EVALUATED} rows, got {spec.n}")
    rng = seeds.generator(0, "labels", "counts")
    for _ in range(20):
        y, p = rng.integers(0, 2, spec.n), rng.integers(0, 2, spec.n)
        value, again = metric(y, p), metric(*_arranged(spec.n, int(y.sum()), int(p.sum()), int((y & p).sum())))
        if not math.isclose(value, again, rel_tol=1e-9, abs_tol=1e-12) and not (
            math.isnan(value) and math.isnan(again)
        ):
            raise InputError(
                f"metric: {metric.name} was declared to depend on counts alone, but rows in another order change it "
                f"from {value:g} to {again:g}"
            )


def _arranged(n: int, ones: int, predicted: int, both: int) -> tuple[Ints, Ints]:
    """Some labels and predictions with these counts."""
    y, p = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    p[:predicted] = 1
    y[:both] = 1
    y[predicted : predicted + ones - both] = 1
    return y, p


def _certificate(inner: TotalsPlan) -> Certificate:
    """Of two classes: answers to row 0 alone tell s and its label, later ones the counts."""
    spec = inner.spec
    needed = 2 * (spec.tolerance + FLOAT_ERROR)
    method = "counts are integers, for labels of both classes"
    open_why = "the totals of the labels are not known in advance; what is proven follows from the answers"
    if spec.classes > 2 or isinstance(spec.metric, Evaluated):
        return Certificate(False, 0.0, needed, method, open_why)
    if spec.n < 2:
        return Certificate(False, 0.0, needed, method, "labels of both classes need two rows")
    ones = np.arange(1, spec.n)
    start, slope, _ = coefficients(spec, ones, ones, inner.query(0))
    first = np.sort(np.concatenate([start, start + slope]))
    sizes = {int(inner.query(i).sum()) for i in range(1, 1 + len(inner.slots))} - {0, spec.n}
    steps = [float(coefficients(spec, ones, ones, _first(spec.n, size))[1].min()) for size in sizes]
    best = max(float(coefficients(spec, ones, ones, _first(spec.n, size))[1].max()) for size in {1, *sizes})
    if best <= needed:
        raise InputError(
            f"metric: {spec.name} leaks no label for certain at this precision: one label moves the answer by at "
            f"most {best:.3g}, and an error of ±{spec.tolerance:.3g} hides it; it leaks once the error is "
            f"below {best / 2:.3g}"
        )
    separation = min(float(np.diff(first).min()), *steps) if steps else float(np.diff(first).min())
    if separation > needed:
        return Certificate(True, separation, needed, method)
    return Certificate(False, separation, needed, method, open_why)


def _first(n: int, size: int) -> Ints:
    """A submission of class 1 for the first rows."""
    return (np.arange(n) < size).astype(np.int64)


def _agreed(candidates: list[tuple[Ints, Bools]] | None, labels: Ints, nothing: Bools) -> Bools:
    """Rows that every candidate reads, and all alike."""
    agreed = ~nothing if candidates else nothing
    for own, unread in candidates or ():
        agreed = agreed & ~unread & (own == labels)
    return agreed
