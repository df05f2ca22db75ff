"""The codes of Aggarwal, Kasiviswanathan, Xu, Feyisetan and Teissier (2021), as baselines.

Theorem 3 is ``θ_{n,k} ∝ 3^(2^((n-1)K+k)·Nτ)``, n counting a block's rows and k the classes from 1 to K (with k from 0
its separation is τ·ln 3 < 2τ), and Theorem 14 is ``θ_n = 3^(2^n·Nτ)/(1 + 3^(2^n·Nτ))``, with Nτ in the exponent (as a
factor, N = 2 and τ = 1/18 give θ = 1/2 and no separation at all). N is the number of rows in the oracle's mean: all
scored rows, not the M rows of a block (Figure 2 of the paper averages over M, and its "M" counts queries). τ is what an
answer may be off by. Where that is so small that the oracle's own float error matters, it is added to τ, and without
noise it is all of τ (Remark 1). Behind a softmax or a sigmoid the logits are the logarithms of these entries, less
those of the first class, so nothing is doubly exponential.

The other codes are decoded by enumeration. Appendix B ("primes"): rows proportional to distinct primes, two classes or
more, for the cross-entropies. Corollary 3: losses ln(p_i)/N apart, for squared Euclidean and norm-like losses (and, by
Theorem 6, any other loss of two classes). Corollary 2: ``θ_i = 1/(1 + 3^(2^i·Nτ))`` for the Itakura-Saito loss.
"exhaustive" takes any loss.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.labels import linear_plans
from divulge.labels.plans import Certificate, QueryPlan, Reading

if TYPE_CHECKING:
    from divulge.labels.linear_plans import DigitPlan
    from divulge.labels.metrics import RowLoss
    from divulge.labels.oracles import OracleSpec
    from divulge.types import Array, Floats, Ints

PAPER_METHODS = ("theorem3", "theorem14", "corollary2", "primes", "exhaustive")
_CROSS_ENTROPIES = ("log_loss", "softmax_cross_entropy", "sigmoid_cross_entropy")
_MAX_LABELLINGS = 4096
_MAX_LOG_ODDS = 700.0  # log-odds
_LOGIT_SPAN = 40.0  # span of `exhaustive` where the loss has none


def plan_paper_code(spec: OracleSpec, method: str) -> QueryPlan:
    """Return the paper's plan, in blocks of as many rows as the oracle's range and noise allow.

    Raises:
        divulge.InputError: stochastic noise, a metric without per-row losses, or no row fits.
    """
    if spec.noise_kind != "bounded" or spec.class_weight is not None:
        raise InputError(f"method: {method} is stated for bounded noise and unweighted classes only")
    loss = spec.loss()
    if method in ("corollary2", "primes", "exhaustive"):
        table = plan_enumerated(spec, loss, method)
        return QueryPlan(spec, method, table, table.certificate())
    if method == "theorem14" and spec.classes != 2:
        raise InputError(f"method: theorem14 is stated for 2 classes, got {spec.classes}")
    if spec.name not in _CROSS_ENTROPIES:
        raise InputError(
            f"method: {method} is stated for cross-entropies ({', '.join(_CROSS_ENTROPIES)}), got {spec.name}; "
            "'positional' is the like of it for other losses"
        )
    digits = np.arange(2) if method == "theorem14" else 2 ** np.arange(spec.classes) - 1
    base = 2 if method == "theorem14" else 2**spec.classes
    digit_plan: DigitPlan | None = None
    for rows in range(1, 60 // (base.bit_length() - 1)):
        longer = _theorem_code(spec, loss, digits, base, rows)
        if longer is None:
            break
        digit_plan = longer
    if digit_plan is None:
        raise InputError(f"method: {method} cannot read even one label per query at this noise")
    inner = PaperPlan(spec, digit_plan)
    return QueryPlan(spec, method, inner, linear_plans.certify_digit_plans(spec, (digit_plan,)))


def _theorem_code(spec: OracleSpec, loss: RowLoss, digits: Ints, base: int, rows: int) -> DigitPlan | None:
    """Return the theorem's code for so many rows a query; None when noise and float error leave no room for it."""
    bound = base ** (rows - 1)
    noise = spec.rows_per_answer * spec.tolerance
    gap = loss.largest_gap(digits)
    if spec.name == "log_loss" and spec.submission == "positive":
        # The paper's rows approach 1, where one column of floats is coarse: nearer than this, 1 - p would be 0.
        gap = min(gap, -math.log(float(np.finfo(spec.float_dtype).eps)) / int(digits.max()))
    if math.isfinite(gap):
        largest_unit = gap / bound
    else:
        # Logits have no range to fill: any unit well above the noise shows what the float error is.
        largest_unit = 4 * math.log(3) * max(noise, 1.0)
        if largest_unit * bound * int(digits.max()) > float(np.finfo(spec.float_dtype).max) / (4 * spec.n):
            return None

    def assemble(unit: float) -> DigitPlan:
        return linear_plans.assemble_digit_plan(spec, loss, digits, base, bound, unit, mirrored=True)

    # 3 to the power of the noise, and k (or n) counted from 1: one step is 2·ln 3 times the noise.
    unit = 2 * math.log(3) * noise
    if 0 < unit <= largest_unit:
        literal_plan = assemble(unit)
        if unit >= 2 * (noise + float(literal_plan.error.max())) * linear_plans.MARGIN:
            return literal_plan
    unit = 2 * math.log(3) * (noise + float(assemble(largest_unit).error.max()))
    return assemble(unit) if unit <= largest_unit else None


@dataclass(frozen=True, slots=True, eq=False)
class PaperPlan:
    """A theorem's code: positional in base ``2^K`` (Theorem 3) or 2 (Theorem 14)."""

    spec: OracleSpec
    digit_plan: DigitPlan

    @property
    def count(self) -> int:
        """Number of queries."""
        return self.digit_plan.count

    def query(self, index: int) -> Array:
        """Predictions of query ``index``."""
        return self.digit_plan.query(index)

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far."""
        sums = linear_plans.answers_to_sums(self.spec, answers)
        reading = self.digit_plan.read(sums)
        digits = self.digit_plan.digits
        labels = np.searchsorted(digits, reading.labels).clip(0, len(digits) - 1)
        valid = digits[labels] == reading.labels
        residual = reading.residual / self.spec.rows_per_answer
        refuted = reading.refuted | self.digit_plan.code.queries_in_flagged_blocks(reading.proven & ~valid)
        return Reading(labels, reading.certain & valid, reading.proven & valid, residual, refuted)


@dataclass(frozen=True, slots=True, eq=False)
class TablePlan:
    """Blocks of rows whose answers are looked up among those of all labellings of the block.

    Args:
        rows: predictions of the block's rows, ``[M, ...]``.
        idle: prediction of all other rows.
        sums: sum of the block's losses for every labelling, ascending, ``[K^M]``.
        labellings: the labels behind each sum, ``[K^M, M]``.
        idle_loss: loss of an idle row.
        error: bound on the float error of a sum.
    """

    spec: OracleSpec
    rows: Array
    idle: Array
    sums: Floats
    labellings: Ints
    idle_loss: float
    error: float

    @property
    def count(self) -> int:
        """Number of queries."""
        return -(-self.spec.n // len(self.rows))

    def certificate(self) -> Certificate:
        """Compare the smallest distance of two sums with twice the noise."""
        scale = self.spec.rows_per_answer
        separation = float(np.diff(self.sums).min()) / scale - 2 * self.error / scale
        required = 2 * self.spec.tolerance
        if separation > required:
            return Certificate(True, separation, required, "all labellings of a block enumerated")
        return Certificate(
            False, max(separation, 0.0), required, "enumeration", "two labellings give answers too close to each other"
        )

    def query(self, index: int) -> Array:
        """Predictions of query ``index``."""
        predictions = np.repeat(self.idle, self.spec.n, axis=0)
        first_row = index * len(self.rows)
        width = min(len(self.rows), self.spec.n - first_row)
        predictions[first_row : first_row + width] = self.rows[:width]
        return predictions

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far."""
        sums = linear_plans.answers_to_sums(self.spec, answers)
        m = len(self.rows)
        labels = np.zeros(self.count * m, dtype=np.int64)
        certain = np.zeros(self.count * m, dtype=bool)
        proven = np.zeros(self.count * m, dtype=bool)
        residual = np.full(self.count, np.nan)
        refuted = np.zeros(self.count, dtype=bool)
        for index in np.flatnonzero(~np.isnan(answers)):
            width = min(m, self.spec.n - int(index) * m)
            part = slice(int(index) * m, int(index) * m + m)
            total = float(sums.sums[index] - np.longdouble(self.idle_loss) * (self.spec.n - width))
            block_sums, block_labellings = self.sums, self.labellings
            if width < len(self.rows):
                losses = self.spec.loss().table(self.rows)
                keep = (block_labellings[:, width:] == 0).all(axis=1)
                block_sums = block_sums[keep] - losses[width:, 0].sum()
                block_labellings = block_labellings[keep]
            distances = np.abs(block_sums - total)
            nearest = int(distances.argmin())
            labels[part], best_distance = block_labellings[nearest], float(distances[nearest])
            second_distance = float(np.delete(distances, nearest).min(initial=math.inf))
            certain_error, noise = float(sums.fixed[index]) + self.error, float(sums.noise[index])
            certain[part] = second_distance > certain_error + 2 * noise
            proven[part] = second_distance > certain_error + noise >= best_distance
            refuted[index] = best_distance > certain_error + noise + float(sums.slack[index])
            residual[index] = best_distance / self.spec.rows_per_answer
        n = self.spec.n
        return Reading(labels[:n], certain[:n], proven[:n], residual, refuted)


def plan_enumerated(spec: OracleSpec, loss: RowLoss, method: str) -> TablePlan:
    """Return the plan with the largest blocks whose labellings all give answers far enough apart.

    Raises:
        divulge.InputError: the code is not stated for the metric, or no row fits.
    """
    if method == "corollary2" and spec.name != "itakura_saito":
        raise InputError(f"method: corollary2 is stated for itakura_saito, got {spec.name}")
    if method == "primes" and spec.classes > 2 and spec.name not in _CROSS_ENTROPIES:
        raise InputError(f"method: for {spec.name} primes are stated for 2 classes, got {spec.classes}")
    max_rows = min(int(math.log(_MAX_LABELLINGS) / math.log(spec.classes)), spec.n)
    if method == "corollary2":
        # The losses are exponential in the log-odds, and must stay within the doubles.
        max_rows = min(max_rows, max(0, math.floor(math.log2(_MAX_LOG_ODDS) - math.log2(_first_odds(spec)))))
    best: TablePlan | None = None
    for m in range(1, max_rows + 1):
        rows = _block_rows(spec, loss, method, m)
        idle = loss.predict(np.zeros(1), np.arange(spec.classes))
        losses = loss.table(rows)
        labellings = np.array(list(itertools.product(range(spec.classes), repeat=m)), dtype=np.int64)
        sums = np.array([math.fsum(losses[np.arange(m), labels]) for labels in labellings])
        order = np.argsort(sums)
        idle_loss = float(loss.table(idle)[0, 0])
        total = float(losses.max(axis=1).sum()) + spec.n * idle_loss
        error = 2 * linear_plans.float_error_bound(spec, total)
        table = TablePlan(spec, rows, idle, sums[order], labellings[order], idle_loss, error)
        if not table.certificate().certified:
            break
        best = table
    if best is None:
        raise InputError(f"method: {method} cannot read even one label per query at this noise")
    return best


def _block_rows(spec: OracleSpec, loss: RowLoss, method: str, m: int) -> Array:
    """Return the predictions of a block of m rows."""
    digits = np.arange(spec.classes)
    if method == "corollary2":
        odds = _first_odds(spec) * 2.0 ** np.arange(1, m + 1)
        return np.stack([1 / (1 + np.exp(-odds)), np.exp(-np.logaddexp(0, odds))], axis=1)
    if method == "primes" and spec.name in _CROSS_ENTROPIES:
        # Class probabilities are proportional to primes: the product behind a sum of losses has one factorisation.
        numbers = np.array(first_primes(m * spec.classes), dtype=float).reshape(m, -1)
        if spec.name == "softmax_cross_entropy":
            return np.log(numbers).astype(spec.float_dtype)
        if spec.name == "sigmoid_cross_entropy":
            return np.log(numbers[:, 1] / numbers[:, 0]).astype(spec.float_dtype)
        rows = (numbers / numbers.sum(axis=1, keepdims=True)).astype(spec.float_dtype)
        return rows[:, 1] if spec.submission == "positive" else rows
    if method == "primes":
        return loss.predict(np.log(first_primes(m)) / spec.n, digits)
    span = loss.largest_gap(digits) if math.isfinite(loss.span) else _LOGIT_SPAN
    return loss.predict(span * float(spec.classes) ** np.arange(1 - m, 1), digits)


def _first_odds(spec: OracleSpec) -> float:
    """Return half the log-odds of Corollary 2's first row: ln 3·Nτ; without noise any positive τ will do (Remark 1)."""
    return math.log(3) * spec.rows_per_answer * (spec.tolerance or 1e-3)


def first_primes(count: int) -> list[int]:
    """Return the first primes.

    Examples:
        >>> first_primes(6)
        [2, 3, 5, 7, 11, 13]
    """
    found_primes: list[int] = []
    for number in itertools.count(2):
        if len(found_primes) == count:
            break
        if all(number % prime for prime in found_primes if prime * prime <= number):
            found_primes.append(number)
    return found_primes
