"""R² of labels 0 and 1: ``1 - R² = n·MSE / (s (n - s)/n)`` with s ones, so that one query more makes it an MSE.

Predicting 0 everywhere scores ``-s/(n - s)``, which tells s. All other queries are those of a plan for the mean squared
error, whose answers are ``(1 - R²)·s (n - s)/n²``. With one class only the labels' spread is 0; scikit-learn then gives
1 to perfect predictions and 0 to all others, and so does the oracle here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.labels import floats
from divulge.labels.certificate import Certificate
from divulge.labels.losses import Linear
from divulge.labels.plans import QueryPlan
from divulge.labels.ratios import r_squared
from divulge.labels.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Bools, Floats

_FLOAT_ERROR = 1e-12  # of the first answer, relative to 1 + its size


@dataclass(frozen=True, slots=True, eq=False)
class SpreadPlan:
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
        """Labels from the answers so far."""
        n = self.spec.n
        nothing = np.zeros(n, dtype=bool)
        residual = np.full(self.count, np.nan)
        refuted = np.zeros(self.count, dtype=bool)
        if math.isnan(answers[0]):
            return Reading(np.zeros(n, dtype=np.int64), nothing, nothing.copy(), residual, refuted)
        quiet, loud = self._ones(float(answers[0]), 1), self._ones(float(answers[0]), 2)
        implied = _first_answers(n)
        best = int(np.nanargmin(np.abs(implied - answers[0])))
        residual[0] = abs(implied[best] - answers[0])
        refuted[0] = not quiet.any()
        if best in (0, n):
            labels = np.full(n, int(best == n), dtype=np.int64)
            alone = [nothing | (one.sum() == 1) for one in (loud, quiet)]
            expected = [r_squared(labels, self.query(index)) for index in range(1, self.count)]
            residual[1:] = np.abs(np.array(expected) - answers[1:])
            refuted[1:] = residual[1:] > self.spec.tolerance + _FLOAT_ERROR
            return Reading(labels, alone[0] & ~refuted.any(), alone[1] & ~refuted.any(), residual, refuted)
        scale = best * (n - best) / n**2
        reading = self.squares.inner.read((1 - answers[1:]) * scale)
        residual[1:] = reading.residual / scale
        refuted[1:] = reading.refuted & (quiet.sum() == 1)
        settled = bool((reading.proven | nothing).all())
        refuted[0] |= settled and quiet.sum() == 1 and int(reading.labels.sum()) != best
        certain, proven = reading.certain & (loud.sum() == 1), reading.proven & (quiet.sum() == 1)
        return Reading(reading.labels, certain & ~refuted[0], proven & ~refuted[0], residual, refuted)

    def _ones(self, answer: float, times: int) -> Bools:
        """Which numbers of ones the first answer admits at so many times the declared noise."""
        allowed = self.spec.rounding + times * self.spec.noise + _FLOAT_ERROR * (1 + abs(answer))
        return np.abs(_first_answers(self.spec.n) - answer) <= allowed


def _first_answers(n: int) -> Floats:
    """Scores of zeros for every number of ones."""
    ones = np.arange(n)
    return np.concatenate([[1.0], -(ones / (n - ones))[1:], [0.0]])


def plan(spec: OracleSpec, design: Callable[[OracleSpec], QueryPlan]) -> QueryPlan:
    """The plan for R².

    Args:
        spec: the oracle.
        design: makes a plan for a mean squared error.

    Raises:
        divulge.InputError: noise without a bound, or nothing leaks at this precision.
    """
    if spec.noise_kind != "bounded":
        raise InputError(f"noise_kind: r2 is attacked under bounded noise only, got {spec.noise_kind}")
    gaps = np.diff(np.sort(_first_answers(spec.n)))
    separation, needed = float(gaps.min()), 2 * (spec.tolerance + _FLOAT_ERROR)
    if separation <= needed:
        raise InputError(
            f"metric: r2 leaks no label for certain at this precision: the number of ones has to be read first, and an "
            f"error of ±{spec.tolerance:.3g} hides it; it leaks once the error is below {separation / 2:.3g}"
        )
    # s (n - s)/n² is at most 1/4. What floats add to R² grows with the largest square, so predictions need a limit.
    best: QueryPlan | None = None
    refusal: InputError | None = None
    for reach in 4.0 ** np.arange(14):
        square = Linear(_squares, low=-reach, high=1 + reach, name="squares")
        steps = 8 * floats.depth(spec.n, spec.summation) + 32
        own = ((1 + reach) ** 2 + 0.25) * steps * floats.roundoff(spec.float_dtype)
        try:
            squares = design(replace(spec, metric=square, decimals=None, noise=spec.tolerance / 4 + own))
        except InputError as error:
            refusal = refusal or error
            continue
        best = squares if best is None or squares.count < best.count else best
    if best is None:
        raise InputError(f"metric: r2 leaks no label for certain at this precision ({refusal})")
    proof = best.certificate
    method = "the number of ones first; then " + proof.method
    certificate = Certificate(proof.certified, min(separation, 4 * proof.separation), needed, method, proof.why)
    return QueryPlan(spec, "r2 by " + best.method, SpreadPlan(spec, best), certificate)


def _squares(predictions: Array, label: int) -> Array:
    return (np.asarray(predictions, dtype=float) - label) ** 2
