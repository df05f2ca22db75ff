"""A hidden public/private split: which rows an endpoint scores at all, and the labels of those.

Every row is one of three things: not scored, label 0, label 1. Queries come in pairs, the second with every
row's preference reversed. All unscored rows cancel in the difference of the two answers, and so
does everything a row adds whatever its label; what remains of a row of weight w is -w, 0 or w steps: a digit
with three values, which the integer codes read (`divulge.labels.codes`, K = 3).

The oracle divides by the number m of rows it scores. Where that number is not known either, every possible m is
tried: the answers must come out as whole steps, the labels read must be m in number, and three further pairs of
random signs must agree. A label is claimed only when all numbers m that stay possible give the same one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.labels import codes, metrics
from divulge.labels.linear_plans import MARGIN
from divulge.labels.plans import Certificate, QueryPlan, Reading, describe_missing_code
from divulge.validation import check_choice

if TYPE_CHECKING:
    from divulge.labels.codes import Code
    from divulge.labels.metrics import RowLoss
    from divulge.labels.oracles import OracleSpec
    from divulge.types import Array, Bools, Floats, Ints

SPLIT_METHODS = ("auto", "weighing", "positional")
_N_RANDOM_CHECKS = 3
_MAX_CANDIDATES = 64
_DIGITS = np.arange(2)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """The labels read for one possible number of scored rows.

    Args:
        scored: that number.
        digits: -1, 0 or 1 (label 0, not scored, label 1), ``[n]``.
        unread: rows whose answers are missing or allow another reading, ``[n]``.
        consistent: there is no evidence against this number.
        residual: distance of each pair's difference from a whole number of steps, in the answers' unit.
    """

    scored: int
    digits: Ints
    unread: Bools
    consistent: bool
    residual: Floats


@dataclass(frozen=True, slots=True, eq=False)
class SplitPlan:
    """Pairs of queries with opposite preferences.

    Args:
        spec: the oracle.
        code: weights of the rows in each pair; digits are label sign + 1.
        weights: every weight and its opposite, ascending, ``[U]``.
        rows: their predictions, ``[U, ...]``.
        unit: difference of one step, as a sum over rows.
        error: bound on the float error of each pair's difference, as a sum; the pairs of random signs last.
    """

    spec: OracleSpec
    code: Code
    weights: Ints
    rows: Array
    unit: float
    error: Floats

    @property
    def count(self) -> int:
        """Number of queries."""
        return 2 * len(self.error)

    def query(self, index: int) -> Array:
        """Predictions of query ``index``."""
        pair, is_reversed = divmod(index, 2)
        if pair < self.code.count:
            weights = np.zeros(self.spec.n, dtype=np.int64)
            first_row, code_weights = self.code.weights(pair)
            weights[first_row : first_row + len(code_weights)] = code_weights
        else:
            weights = self.code.bound * self.draw_signs(pair - self.code.count)
        return self.rows[np.searchsorted(self.weights, -weights if is_reversed else weights)]

    def draw_signs(self, index: int) -> Ints:
        """Return the sign of each row in a query that checks the others, ``[n]``."""
        return seeds.generator(index, "labels", "split").choice(np.array([-1, 1]), self.spec.n)

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far; -1 for rows that are not scored."""
        wide = answers.astype(np.longdouble)
        differences = wide[0::2] - wide[1::2]
        places = np.spacing(np.abs(answers))
        rounding = np.where(places / 2 <= self.spec.rounding, self.spec.rounding + places, 0.0)
        fixed = np.where(np.isnan(answers), 0.0, rounding).reshape(-1, 2).sum(axis=1)
        possible = self._possible_readings(differences, fixed + 2 * self.spec.noise)
        possible_at_double_noise = self._possible_readings(differences, fixed + 4 * self.spec.noise)
        best = min(
            possible or possible_at_double_noise or [self._read_candidate(self.spec.most_scored, differences, fixed)],
            key=lambda candidate: float(np.nanmax(candidate.residual, initial=0.0)),
        )
        labels = np.where(best.digits == 0, -1, (best.digits + 1) // 2)
        residual = np.repeat(best.residual / 2, 2)
        # Not one number of scored rows, with any labels, gives these answers.
        refuted = ~np.isnan(residual) & (possible == [])
        return Reading(
            labels, _agreed_rows(possible_at_double_noise, best), _agreed_rows(possible, best), residual, refuted
        )

    def _possible_readings(self, differences: Array, allowed: Floats) -> list[Candidate] | None:
        """Read the answers for every number of scored rows that this noise admits; None when they are too many."""
        is_known = not isinstance(self.spec.scored, str) or self.spec.reduction == "sum"
        scored_numbers = np.array([self.spec.most_scored]) if is_known else np.arange(1, self.spec.n + 1)
        for pair in np.flatnonzero(~np.isnan(differences[: self.code.count])):
            scale = self._scale(scored_numbers)
            steps = differences[pair] * scale / np.longdouble(self.unit)
            distance = np.abs(steps - np.rint(steps)).astype(float) * self.unit
            scored_numbers = scored_numbers[distance <= allowed[pair] * scale + self.error[pair]]
        if len(scored_numbers) > _MAX_CANDIDATES:
            return None
        candidates = [self._read_candidate(int(number), differences, allowed) for number in scored_numbers]
        return [candidate for candidate in candidates if candidate.consistent]

    def _scale(self, scored: Ints | int) -> Floats | float:
        return np.asarray(scored, dtype=float) if self.spec.reduction == "mean" else np.ones(np.shape(scored))

    def _read_candidate(self, scored: int, differences: Array, allowed: Floats) -> Candidate:
        code, scale = self.code, float(self._scale(scored))
        missing = np.isnan(differences)
        steps = np.where(missing, 0.0, differences)[: code.count] * scale / np.longdouble(self.unit)
        nearest = np.rint(np.clip(steps, -(2.0**61), 2.0**61))
        distance = np.abs(steps - nearest).astype(float) * self.unit
        noise = allowed[: code.count] * scale + self.error[: code.count]
        unread = code.rows_in_flagged_blocks(missing[: code.count] | (self.unit - distance <= noise))
        # Digits count from 0: every row's weight is added once.
        weight_totals = code.totals(self.weights, self.weights)
        decoded, sound = code.decode(nearest.astype(np.int64) + weight_totals)
        digits = decoded - 1
        n_read = int(np.abs(digits[~unread]).sum())
        is_consistent = bool((sound | unread).all()) and bool((distance <= noise)[~missing[: code.count]].all())
        if self.spec.reduction == "mean":
            is_consistent = is_consistent and n_read <= scored <= n_read + int(unread.sum())
        if not unread.any():
            is_consistent = is_consistent and self._passes_checks(digits, scale, differences, allowed)
        residual = np.concatenate([distance / scale, np.zeros(len(self.error) - code.count)])
        return Candidate(scored, digits, unread, is_consistent, np.where(missing, np.nan, residual))

    def _passes_checks(self, digits: Ints, scale: float, differences: Array, allowed: Floats) -> bool:
        """Return True if the pairs of random signs agree with these digits."""
        for pair in range(self.code.count, len(self.error)):
            implied = self.unit * self.code.bound * int(self.draw_signs(pair - self.code.count) @ digits)
            off = abs(float(differences[pair] * scale) - implied)
            if off > allowed[pair] * scale + self.error[pair] + 1e-15 * abs(implied):
                return False
        return True


def _agreed_rows(candidates: list[Candidate] | None, best: Candidate) -> Bools:
    """Flag rows that every candidate reads, and all alike."""
    agreed = np.full(len(best.digits), bool(candidates))
    for candidate in candidates or ():
        agreed &= ~candidate.unread & (candidate.digits == best.digits)
    return agreed


def plan_split(spec: OracleSpec, method: str, *, guard: bool, max_bits: int) -> QueryPlan:
    """Return the plan of pairs that reads every row.

    Raises:
        divulge.InputError: more than two classes, stochastic noise, class weights, a metric that is no sum over rows
            or does not treat both labels alike, or nothing leaks at this precision.
    """
    check_choice(method, "method (for a split)", SPLIT_METHODS)
    if spec.classes != 2 or spec.noise_kind != "bounded" or spec.class_weight is not None:
        raise InputError("scored: a split is read for 2 unweighted classes under bounded noise only")
    if spec.name in ("f1", "auc", *metrics.ROOTS):
        raise InputError(f"scored: {spec.name} is not a mean over rows, so unscored rows would not cancel")
    loss = (
        spec.loss()
        if spec.name != "accuracy"
        else metrics.RowLoss(
            # Accuracy as if it were a loss: a row of weight 1 is predicted 1, of weight -1 (or none) 0.
            1.0,
            lambda gaps, _: (gaps > 0).astype(float),
            lambda p: np.stack([p < 0.5, p >= 0.5], axis=1).astype(float),
            (),
        )
    )
    sizes = [0] if method == "positional" else [0, max_bits]
    plans = [
        pairs
        for span in _candidate_spans(spec, loss)
        for size in sizes
        if (pairs := _shortest_pairs(spec, loss, span, size, guard))
    ]
    if not plans:
        threshold = min(loss.two_sided, 1e300) / (4 * spec.rows_per_answer)
        raise InputError(
            describe_missing_code(
                spec,
                f"an error of ±{spec.tolerance:.3g} may hide single rows of the split from the codes here, which need "
                f"one below {threshold:.3g} (if the metric treats both labels alike)",
            )
        )
    best = min(plans, key=lambda pairs: pairs.count)
    return QueryPlan(spec, "split", best, _certify_pairs(best))


def _candidate_spans(spec: OracleSpec, loss: RowLoss) -> list[float]:
    if math.isfinite(loss.span):
        span = min(loss.largest_gap(_DIGITS), loss.two_sided)
        # One column is coarse near 1, where a less confident prediction is closer to what it should be.
        one_column = spec.submission == "positive" and spec.name == "log_loss"
        return [part * span for part in ((1.0, 0.9, 0.8, 0.65, 0.5) if one_column else (1.0,))]
    # n losses must not overflow the oracle's floats; a loss without a bounded base grows like the gap's square.
    largest = math.log2(float(np.finfo(spec.float_dtype).max) / (8 * spec.n)) / (1 if loss.has_bounded_base else 2)
    max_exponent = min(largest, 90 if spec.float_dtype == "float64" else 50)
    return [2.0**exponent for exponent in range(0, max(math.ceil(max_exponent), 1), 2)]


def _shortest_pairs(spec: OracleSpec, loss: RowLoss, span: float, max_bits: int, guard: bool) -> SplitPlan | None:
    """Return the shortest code whose steps outweigh the noise of a difference and eight times the float error."""
    scale = spec.rows_per_answer
    noise = scale * (4 * spec.rounding + (6 if guard else 4) * spec.noise)
    smallest_unit = noise * MARGIN + 8 * metrics.unit_roundoff(spec.float_dtype) * spec.n
    for _ in range(40):
        bound = int(min(span / smallest_unit, 2.0**50))
        if bound < 1:
            return None
        # A count cannot be weighted: only single steps are there.
        bound = 1 if spec.name == "accuracy" else codes.relax_bound(spec.n, 3, bound, dense=False, max_bits=max_bits)
        pairs = _assemble_pairs(spec, loss, bound, span / bound, max_bits)
        required_unit = (noise + 8 * float(pairs.error[: pairs.code.count].max())) * MARGIN
        if pairs.unit >= required_unit:
            return pairs
        smallest_unit = max(required_unit, smallest_unit * (1 + 1e-6))
    return None


def _assemble_pairs(spec: OracleSpec, loss: RowLoss, bound: int, unit: float, max_bits: int) -> SplitPlan:
    code = codes.build_code(spec.n, 3, bound, dense=False, max_bits=max_bits)
    code_weights = np.append(code.alphabet(), bound)
    weights = np.unique(np.concatenate([code_weights, -code_weights]))
    rows = loss.predict(unit * weights, _DIGITS)
    table = loss.table(rows)
    # Opposite weights stand at opposite ends; the float error of the losses themselves counts as well.
    reversed_table = table[::-1]
    implied = unit * np.multiply.outer(weights, np.array([-1.0, 1.0]))
    deviation = np.abs(table - reversed_table - implied).max(axis=1)
    size = np.abs(np.concatenate([table, reversed_table], axis=1)).max(axis=1)
    deviation = np.where(weights == 0, 0.0, deviation + 8 * codes.ulps(size, spec.float_dtype))
    high, drift = code.totals(weights, size), code.totals(weights, deviation)
    n_checks = 0 if not isinstance(spec.scored, str) or spec.reduction == "sum" else _N_RANDOM_CHECKS
    high = np.append(high, np.full(n_checks, spec.n * size[-1]))
    drift = np.append(drift, np.full(n_checks, spec.n * deviation[-1]))
    error = 2 * metrics.summation_error(spec.n, high, spec.summation, spec.float_dtype) + drift
    return SplitPlan(spec, code, weights, rows, unit, error)


def _certify_pairs(pairs: SplitPlan) -> Certificate:
    spec = pairs.spec
    scale = spec.rows_per_answer
    separation = (pairs.unit - 2 * float(pairs.error[: pairs.code.count].max())) / scale
    required = 4 * spec.tolerance
    method = "integer code on differences of pairs"
    if isinstance(spec.scored, str) and spec.reduction == "mean":
        reason = "the number of scored rows is not known in advance; the result says what follows from the answers"
        return Certificate(False, separation, required, method, reason)
    return Certificate(separation > required, separation, required, method)
