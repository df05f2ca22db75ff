"""Plans for metrics that are linear in the labels once a few totals of the labels are known.

Balanced accuracy, Matthews' correlation (MCC) and quadratic weighted kappa (QWK) are no sums over rows. But of a
submission p of class numbers each is ``a + b·Σ p·y``, where a and b depend on p and on totals of the labels alone: on
the number s of ones for two classes, on Σ y and Σ y² for more.

- Balanced accuracy, P rows predicted 1: ``a = (n - s - P) / 2(n - s)``, ``b = 1/2s + 1/2(n - s)``.
- MCC: ``b = n / √(P (n - P) s (n - s))``, ``a = -b·P·s/n``.
- QWK: ``b = 2/E``, ``a = 1 - (Σp² + Σy²)/E`` with ``E = Σp² + Σy² - 2·Σp·Σy/n``, for any number of classes.

So an integer code (`divulge.labels.codes`) reads the labels for any given totals. All possible totals are tried: the
answers must be whole numbers for them, the labels read must have these totals, and must imply the answers to the
first query (row 0 alone) and to a few random ones. Whatever all totals that pass agree on is proven. A metric that is
only evaluated (`divulge.labels.Evaluated`), and depends on the four counts alone, is read in the same way, with its
values found by evaluation on labels that have these counts.

R² of labels 0 and 1: ``1 - R² = n·MSE / (s (n - s)/n)`` with s ones, so one query more makes it an MSE. Predicting 0
everywhere scores ``-s/(n - s)``, which tells s. All other queries are those of a plan for the mean squared error, whose
answers are ``(1 - R²)·s (n - s)/n²``. With labels of one class only, scikit-learn gives 1 to perfect predictions and 0
to all others, and so does the oracle here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.labels import codes, float_errors
from divulge.labels.codes import detecting_code, detecting_queries
from divulge.labels.metrics import Evaluated, Linear, r_squared
from divulge.labels.oracles import linear_coefficients, ratio_score
from divulge.labels.plans import Certificate, QueryPlan, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from divulge.labels.codes import Code
    from divulge.labels.oracles import OracleSpec
    from divulge.types import Array, Bools, Floats, Ints

SCORE_ERROR = 1e-12  # of a score, whichever way the endpoint computes it
_N_RANDOM_CHECKS = 3
_MAX_CANDIDATES = 256
_MAX_LABEL_SUM = 20_000  # n times the largest class number, for more than two classes
_MAX_EVALUATED_ROWS = 2_000  # rows

_R_SQUARED_ERROR = 1e-12  # of the first answer, relative to 1 + its size


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
        return 1 + len(self.slots) + _N_RANDOM_CHECKS

    def query(self, index: int) -> Array:
        """Return the class numbers of query ``index``."""
        submission = np.zeros(self.spec.n, dtype=np.int64)
        if index == 0:
            submission[0] = 1
        elif index <= len(self.slots):
            first_row, weights = self.code.weights(int(self.slots[index - 1]))
            submission[first_row : first_row + len(weights)] = self.sign * weights
            submission += self.shift
        else:
            submission = seeds.generator(index - len(self.slots), "labels", "totals").integers(
                0, self.spec.classes, self.spec.n
            )
        return submission

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far."""
        quiet, loud = self._candidates(answers, 1), self._candidates(answers, 2)
        candidates = quiet or loud
        no_rows = np.zeros(self.spec.n, dtype=bool)
        labels = candidates[0][0] if candidates else np.zeros(self.spec.n, dtype=np.int64)
        residual = np.full(self.count, np.nan)
        residual[~np.isnan(answers)] = 0.0
        if quiet and not quiet[0][1].any():
            answered = np.flatnonzero(~np.isnan(answers))
            residual[answered] = [
                abs(ratio_score(self.spec, labels, self.query(int(i))) - answers[i]) for i in answered
            ]
        refuted = ~np.isnan(answers) & (quiet == [])
        return Reading(
            labels, _agreed_rows(loud, labels, no_rows), _agreed_rows(quiet, labels, no_rows), residual, refuted
        )

    def _candidates(self, answers: Floats, times: int) -> list[tuple[Ints, Bools]] | None:
        """Return labels and unread rows for all totals that explain the answers; None when they are too many."""
        allowed = self.spec.rounding + times * self.spec.noise + SCORE_ERROR
        answered = [int(index) for index in np.flatnonzero(~np.isnan(answers))]
        submissions = {index: self.query(index) for index in answered}
        possible_totals: list[tuple[int, int]] = []
        for ones, squares in self._totals():
            for index in answered:
                if not len(ones):
                    break
                fits = self._admits(ones, squares, submissions[index], float(answers[index]), allowed)
                ones, squares = ones[fits], squares[fits]
            possible_totals += zip(ones.tolist(), squares.tolist(), strict=True)
            if len(possible_totals) > _MAX_CANDIDATES:
                return None
        read = [self._decode(totals, answers, submissions, allowed) for totals in possible_totals]
        return [candidate for candidate in read if candidate is not None]

    def _totals(self) -> list[tuple[Ints, Ints]] | _PossibleTotals:
        """Return all totals (Σ y, Σ y²), in parts."""
        ones = np.arange(self.spec.n + 1)
        return [(ones, ones)] if self.spec.classes == 2 else _PossibleTotals(self.spec.n, self.spec.classes - 1)

    def _admits(self, ones: Ints, squares: Ints, submission: Ints, answer: float, allowed: float) -> Bools:
        """Flag the totals that admit some sum ``Σ p·y`` with this answer."""
        if isinstance(self.spec.metric, Evaluated):
            return np.array(
                [bool((np.abs(self._evaluation_table(int(s), submission)[1] - answer) <= allowed).any()) for s in ones],
                dtype=bool,
            )
        n, p, max_label = self.spec.n, int(submission.sum()), self.spec.classes - 1
        start, slope, fixed = linear_coefficients(self.spec, ones, squares, submission)
        low = np.maximum(0, p + ones - n) if max_label == 1 else np.zeros(len(ones))
        high = np.minimum(p, ones) if max_label == 1 else np.full(len(ones), max_label * p)
        with np.errstate(divide="ignore", invalid="ignore"):
            sums = np.clip(np.nan_to_num(np.rint((answer - start) / slope)), low, high)
            implied = np.where(np.isnan(fixed), start + slope * sums, fixed)
        return np.abs(implied - answer) <= allowed

    def _decode(
        self, totals: tuple[int, int], answers: Floats, submissions: dict[int, Ints], allowed: float
    ) -> tuple[Ints, Bools] | None:
        """Return labels for these totals, and the rows that stay unread; None where no labels fit."""
        n, max_label = self.spec.n, self.spec.classes - 1
        sums = np.zeros(self.code.count, dtype=np.int64)
        unread = np.zeros(self.code.count, dtype=bool)
        for index, slot in enumerate(self.slots.tolist(), start=1):
            if index not in submissions:
                unread[slot] = True
                continue
            label_sum, is_unique = self._label_sum(totals, submissions[index], float(answers[index]), allowed)
            sums[slot] = self.sign * (label_sum - self.shift * totals[0])
            unread[slot] = not is_unique
        if totals[0] in (0, n * max_label) or totals == (totals[0] // n * n, (totals[0] // n) ** 2 * n):
            # All labels alike, which the totals themselves say.
            labels, rows = np.full(n, totals[0] // n, dtype=np.int64), np.zeros(n, dtype=bool)
        else:
            labels, sound = self.code.decode(sums)
            rows = self.code.rows_in_flagged_blocks(unread)
            if not (sound | rows).all() or (labels[~rows] > max_label).any():
                return None
        if rows.any():
            return labels, rows
        if (int(labels.sum()), int((labels**2).sum())) != totals:
            return None
        implied = [abs(ratio_score(self.spec, labels, submissions[i]) - answers[i]) <= allowed for i in submissions]
        return (labels, rows) if all(implied) else None

    def _label_sum(self, totals: tuple[int, int], submission: Ints, answer: float, allowed: float) -> tuple[int, bool]:
        """Return ``Σ p·y`` behind an answer, and whether it is the only one within reach."""
        p = int(submission.sum())
        if (submission == submission[0]).all():
            return int(submission[0]) * totals[0], True
        if isinstance(self.spec.metric, Evaluated):
            sums, values = self._evaluation_table(totals[0], submission)
            errors = np.abs(values - answer)
            best = int(np.nanargmin(errors)) if not np.isnan(errors).all() else 0
            return int(sums[best]), int((errors <= allowed).sum()) <= 1
        start, slope, fixed = (
            float(part[0]) for part in linear_coefficients(self.spec, *(np.array([t]) for t in totals), submission)
        )
        if not math.isnan(fixed):
            return 0, False
        steps = (answer - start) / slope
        label_sum = int(np.clip(round(steps), 0, (self.spec.classes - 1) * p))
        return label_sum, (1 - abs(steps - round(steps))) * slope > allowed

    def _evaluation_table(self, ones: int, submission: Ints) -> tuple[Ints, Floats]:
        """Return all possible numbers of true positives, and the values of an evaluated metric for them."""
        p, n = int(submission.sum()), self.spec.n
        if (ones, p) not in self._values:
            metric = self.spec.metric
            assert isinstance(metric, Evaluated), "built-in metrics have a formula"
            n_true_positives = np.arange(max(0, p + ones - n), min(p, ones) + 1)
            self._values[ones, p] = (
                n_true_positives,
                metric.values(_arrange_counts(n, ones, p, int(c)) for c in n_true_positives),
            )
        return self._values[ones, p]


class _PossibleTotals:
    """All (Σ y, Σ y²) of n labels up to ``most``: of equal parity, and at least as large as a mean allows."""

    def __init__(self, n: int, max_label: int) -> None:
        self.n, self.max_label = n, max_label

    def __iter__(self) -> Iterator[tuple[Ints, Ints]]:
        for total in range(self.n * self.max_label + 1):
            smallest = max(total, -(-total * total // self.n))
            squares = np.arange(smallest + (smallest - total) % 2, self.max_label * total + 1, 2)
            yield np.full(len(squares), total), squares


def plan_ratio(spec: OracleSpec) -> QueryPlan:
    """Return the plan for balanced accuracy, MCC, QWK, or an evaluated metric that depends on counts.

    Raises:
        divulge.InputError: noise or rounding hides single counts, the noise has no bound, or there are too many rows.
    """
    if spec.noise_kind != "bounded":
        raise InputError(f"noise_kind: {spec.name} is attacked under bounded noise only, got {spec.noise_kind}")
    max_label = spec.classes - 1
    if max_label > 1 and spec.n * max_label > _MAX_LABEL_SUM:
        raise InputError(f"n: for {spec.classes} classes at most {_MAX_LABEL_SUM // max_label} rows, got {spec.n}")
    if isinstance(spec.metric, Evaluated):
        _check_counts(spec)
    if max_label == 1:
        code = detecting_code(spec.n)
        inner = TotalsPlan(spec, code, detecting_queries(code), -1, 0)
    else:
        shift = max_label // 2
        code = codes.build_code(spec.n, spec.classes, shift, dense=False, max_bits=codes.MAX_ADDRESS_BITS)
        inner = TotalsPlan(spec, code, np.arange(code.count), 1, shift)
    return QueryPlan(spec, "totals", inner, _certify_totals(inner))


def _check_counts(spec: OracleSpec) -> None:
    """Refuse an evaluated metric that visibly depends on more than counts."""
    metric = spec.metric
    assert isinstance(metric, Evaluated), "only evaluated metrics are checked"
    if spec.n > _MAX_EVALUATED_ROWS:
        raise InputError(f"n: a metric that is evaluated is read for at most {_MAX_EVALUATED_ROWS} rows, got {spec.n}")
    rng = seeds.generator(0, "labels", "counts")
    for _ in range(20):
        y, p = rng.integers(0, 2, spec.n), rng.integers(0, 2, spec.n)
        value, rearranged_value = (
            metric(y, p),
            metric(*_arrange_counts(spec.n, int(y.sum()), int(p.sum()), int((y & p).sum()))),
        )
        if not math.isclose(value, rearranged_value, rel_tol=1e-9, abs_tol=1e-12) and not (
            math.isnan(value) and math.isnan(rearranged_value)
        ):
            raise InputError(
                f"metric: {metric.name} was declared to depend on counts alone, but rows in another order change it "
                f"from {value:g} to {rearranged_value:g}"
            )


def _arrange_counts(n: int, ones: int, predicted: int, true_positives: int) -> tuple[Ints, Ints]:
    """Return some labels and predictions with these counts."""
    y, p = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    p[:predicted] = 1
    y[:true_positives] = 1
    y[predicted : predicted + ones - true_positives] = 1
    return y, p


def _certify_totals(inner: TotalsPlan) -> Certificate:
    """Return the certificate: for two classes, answers to row 0 alone tell s and its label, later ones the counts."""
    spec = inner.spec
    required = 2 * (spec.tolerance + SCORE_ERROR)
    method = "counts are integers, for labels of both classes"
    open_why = "the totals of the labels are not known in advance; what is proven follows from the answers"
    if spec.classes > 2 or isinstance(spec.metric, Evaluated):
        return Certificate(False, 0.0, required, method, open_why)
    if spec.n < 2:
        return Certificate(False, 0.0, required, method, "labels of both classes need two rows")
    ones = np.arange(1, spec.n)
    start, slope, _ = linear_coefficients(spec, ones, ones, inner.query(0))
    first_answers = np.sort(np.concatenate([start, start + slope]))
    sizes = {int(inner.query(i).sum()) for i in range(1, 1 + len(inner.slots))} - {0, spec.n}
    steps = [float(linear_coefficients(spec, ones, ones, _leading_ones(spec.n, size))[1].min()) for size in sizes]
    largest_step = max(
        float(linear_coefficients(spec, ones, ones, _leading_ones(spec.n, size))[1].max()) for size in {1, *sizes}
    )
    if largest_step <= required:
        raise InputError(
            f"metric: {spec.name} leaks no label for certain at this precision: one label moves the answer by at "
            f"most {largest_step:.3g}, and an error of ±{spec.tolerance:.3g} hides it; it leaks once the error is "
            f"below {largest_step / 2:.3g}"
        )
    separation = min(float(np.diff(first_answers).min()), *steps) if steps else float(np.diff(first_answers).min())
    if separation > required:
        return Certificate(True, separation, required, method)
    return Certificate(False, separation, required, method, open_why)


def _leading_ones(n: int, size: int) -> Ints:
    """Return a submission of class 1 for the first rows."""
    return (np.arange(n) < size).astype(np.int64)


def _agreed_rows(candidates: list[tuple[Ints, Bools]] | None, labels: Ints, no_rows: Bools) -> Bools:
    """Flag rows that every candidate reads, and all alike."""
    agreed = ~no_rows if candidates else no_rows
    for candidate_labels, unread in candidates or ():
        agreed = agreed & ~unread & (candidate_labels == labels)
    return agreed


@dataclass(frozen=True, slots=True, eq=False)
class RSquaredPlan:
    """Zeros everywhere, then the queries of a plan for the mean squared error."""

    spec: OracleSpec
    squares: QueryPlan

    @property
    def count(self) -> int:
        """Number of queries."""
        return 1 + self.squares.count

    def query(self, index: int) -> Array:
        """Predictions of query ``index``."""
        return np.zeros(self.spec.n) if index == 0 else self.squares.inner.query(index - 1)

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far."""
        n = self.spec.n
        no_rows = np.zeros(n, dtype=bool)
        residual = np.full(self.count, np.nan)
        refuted = np.zeros(self.count, dtype=bool)
        if math.isnan(answers[0]):
            return Reading(np.zeros(n, dtype=np.int64), no_rows, no_rows.copy(), residual, refuted)
        quiet, loud = self._possible_ones(float(answers[0]), 1), self._possible_ones(float(answers[0]), 2)
        implied = _zero_prediction_scores(n)
        best = int(np.nanargmin(np.abs(implied - answers[0])))
        residual[0] = abs(implied[best] - answers[0])
        refuted[0] = not quiet.any()
        if best in (0, n):
            labels = np.full(n, int(best == n), dtype=np.int64)
            is_read = [no_rows | (possible.sum() == 1) for possible in (loud, quiet)]
            expected = [r_squared(labels, self.query(index)) for index in range(1, self.count)]
            residual[1:] = np.abs(np.array(expected) - answers[1:])
            refuted[1:] = residual[1:] > self.spec.tolerance + _R_SQUARED_ERROR
            return Reading(labels, is_read[0] & ~refuted.any(), is_read[1] & ~refuted.any(), residual, refuted)
        scale = best * (n - best) / n**2
        reading = self.squares.inner.read((1 - answers[1:]) * scale)
        residual[1:] = reading.residual / scale
        refuted[1:] = reading.refuted & (quiet.sum() == 1)
        is_complete = bool((reading.proven | no_rows).all())
        refuted[0] |= is_complete and quiet.sum() == 1 and int(reading.labels.sum()) != best
        certain, proven = reading.certain & (loud.sum() == 1), reading.proven & (quiet.sum() == 1)
        return Reading(reading.labels, certain & ~refuted[0], proven & ~refuted[0], residual, refuted)

    def _possible_ones(self, answer: float, times: int) -> Bools:
        """Flag the numbers of ones that the first answer admits at so many times the declared noise."""
        allowed = self.spec.rounding + times * self.spec.noise + _R_SQUARED_ERROR * (1 + abs(answer))
        return np.abs(_zero_prediction_scores(self.spec.n) - answer) <= allowed


def _zero_prediction_scores(n: int) -> Floats:
    """Return the scores of zeros for every number of ones."""
    ones = np.arange(n)
    return np.concatenate([[1.0], -(ones / (n - ones))[1:], [0.0]])


def plan_r_squared(spec: OracleSpec, design: Callable[[OracleSpec], QueryPlan]) -> QueryPlan:
    """Return the plan for R².

    Args:
        spec: the oracle.
        design: makes a plan for a mean squared error.

    Raises:
        divulge.InputError: noise without a bound, or nothing leaks at this precision.
    """
    if spec.noise_kind != "bounded":
        raise InputError(f"noise_kind: r2 is attacked under bounded noise only, got {spec.noise_kind}")
    gaps = np.diff(np.sort(_zero_prediction_scores(spec.n)))
    separation, required = float(gaps.min()), 2 * (spec.tolerance + _R_SQUARED_ERROR)
    if separation <= required:
        raise InputError(
            f"metric: r2 leaks no label for certain at this precision: the number of ones has to be read first, and an "
            f"error of ±{spec.tolerance:.3g} hides it; it leaks once the error is below {separation / 2:.3g}"
        )
    # s (n - s)/n² is at most 1/4. What floats add to R² grows with the largest square, so predictions need a limit.
    best: QueryPlan | None = None
    refusal: InputError | None = None
    for extent in 4.0 ** np.arange(14):
        square = Linear(_squared_error, low=-extent, high=1 + extent, name="squares")
        steps = 8 * float_errors.depth(spec.n, spec.summation) + 32
        float_error = ((1 + extent) ** 2 + 0.25) * steps * float_errors.unit_roundoff(spec.float_dtype)
        try:
            squares = design(replace(spec, metric=square, decimals=None, noise=spec.tolerance / 4 + float_error))
        except InputError as error:
            refusal = refusal or error
            continue
        best = squares if best is None or squares.count < best.count else best
    if best is None:
        raise InputError(f"metric: r2 leaks no label for certain at this precision ({refusal})")
    proof = best.certificate
    method = "the number of ones first; then " + proof.method
    certificate = Certificate(proof.certified, min(separation, 4 * proof.separation), required, method, proof.why)
    return QueryPlan(spec, "r2 by " + best.method, RSquaredPlan(spec, best), certificate)


def _squared_error(predictions: Array, label: int) -> Array:
    return (np.asarray(predictions, dtype=float) - label) ** 2
