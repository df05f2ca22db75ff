"""The codes of the paper, as baselines: Theorems 3 and 14 here, those decoded by enumeration in `tables`.

Source: Aggarwal, Kasiviswanathan, Xu, Feyisetan, Teissier (2021). How the text is read:
Theorem 3 with k = 1..K (with k from 0 its separation is τ·ln 3 < 2τ), Theorem 14 with Nτ in the exponent
(as a factor, N = 2 and τ = 1/18 give θ = 1/2 and no separation at all), and the mean runs over all N scored rows,
not over the M rows of a block (Figure 2 of the paper averages over M, and its "M" counts queries). Behind a softmax
or a sigmoid the logits are the logarithms of Theorem 3's entries, so nothing is doubly exponential.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.labels import enumerated_codes, linear, questions
from divulge.labels.plans import QueryPlan
from divulge.labels.reading import Reading

if TYPE_CHECKING:
    from divulge.labels.loss import Loss
    from divulge.labels.questions import Question
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Floats, Ints

METHODS = ("theorem3", "theorem14", *enumerated_codes.METHODS)


def plan(spec: OracleSpec, method: str) -> QueryPlan:
    """The paper's plan, block by block of as many rows as the oracle's range and noise allow.

    Raises:
        divulge.InputError: stochastic noise, a metric without per-row losses, or no row fits.
    """
    if spec.noise_kind != "bounded" or spec.class_weight is not None:
        raise InputError(f"method: {method} is stated for bounded noise and unweighted classes only")
    loss = spec.loss()
    if method in enumerated_codes.METHODS:
        table = enumerated_codes.plan(spec, loss, method)
        return QueryPlan(spec, method, table, table.certificate())
    return _theorem(spec, loss, method)


def _theorem(spec: OracleSpec, loss: Loss, method: str) -> QueryPlan:
    if method == "theorem14" and spec.classes != 2:
        raise InputError(f"method: theorem14 is stated for 2 classes, got {spec.classes}")
    if not math.isfinite(loss.span) and spec.name not in questions.LOGITS:
        raise InputError(f"method: {method} is for cross-entropies and bounded losses; {spec.name} has no bound")
    digits = np.arange(2) if method == "theorem14" else 2 ** np.arange(spec.classes) - 1
    base = 2 if method == "theorem14" else 2**spec.classes
    question: Question | None = None
    for rows in range(1, 60 // (base.bit_length() - 1)):
        longer = _code(spec, loss, digits, base, rows)
        if longer is None:
            break
        question = longer
    if question is None:
        raise InputError(f"method: {method} cannot read even one label per query at this noise")
    inner = PaperPlan(spec, question)
    return QueryPlan(spec, method, inner, linear.certificate(spec, (question,)))


def _code(spec: OracleSpec, loss: Loss, digits: Ints, base: int, rows: int) -> Question | None:
    """The theorem's code for so many rows a query; None when noise and float error leave no room for it."""
    bound = base ** (rows - 1)
    noise = spec.rows_per_answer * spec.tolerance
    gap = loss.reach(digits)
    if math.isfinite(gap):
        unit = gap / bound
    else:
        # Logits have no range to fill: any unit well above the noise shows what the float error is.
        unit = 4 * math.log(3) * max(noise, 1.0)
        if unit * bound * int(digits.max()) > float(np.finfo(spec.float_dtype).max) / (4 * spec.n):
            return None
    error = float(questions.assemble(spec, loss, digits, base, bound, unit).error.max())
    # 3 to the power of the noise, and k (or n) counted from 1: one step is 2·ln 3 times the noise.
    least = 2 * math.log(3) * (noise + error)
    return questions.assemble(spec, loss, digits, base, bound, least) if unit >= least else None


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
