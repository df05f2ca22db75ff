"""Plans for losses that are sums over rows: one question a digit of the labels, asked one after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks
from divulge.labels import floats
from divulge.labels.answers import Reading
from divulge.labels.certificate import Certificate
from divulge.labels.questions import noise_of

if TYPE_CHECKING:
    from divulge.labels.questions import Question
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Floats


@dataclass(frozen=True, slots=True, eq=False)
class LinearPlan:
    """Questions asked one after the other; together their digits name the class of every row.

    Args:
        spec: the oracle.
        questions: one, or one a factor of K.
        radix: what a digit of each question is worth in the class's number.
        weights: class weights, in which case query 0 counts the classes first.
    """

    spec: OracleSpec
    questions: tuple[Question, ...]
    radix: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of queries."""
        return sum(q.count for q in self.questions) + (self.spec.class_weight is not None)

    def query(self, index: int) -> Array:
        """Predictions of query ``index``."""
        if self.spec.class_weight is not None:
            if index == 0:
                return counting_query(self.spec)
            index -= 1
        for part in self.questions:
            if index < part.count:
                return part.query(index)
            index -= part.count
        raise checks.InputError(f"query: the plan has {self.count} queries only")

    def read(self, answers: Floats) -> Reading:
        """Labels from the answers ``[count]``, NaN where not yet asked."""
        sums, fixed, noise = as_sums(self.spec, answers)
        spec_sigma = self.spec.sigma * self.spec.rows_per_answer
        labels = np.zeros(self.spec.n, dtype=np.int64)
        certain = np.ones(self.spec.n, dtype=bool)
        proven = np.ones(self.spec.n, dtype=bool)
        residual = np.full(self.count, 0.0)
        start = self.count - sum(q.count for q in self.questions)
        for part, worth in zip(self.questions, self.radix, strict=True):
            stop = start + part.count
            reading = part.read(sums[start:stop], fixed[start:stop], noise, spec_sigma)
            labels += worth * reading.labels
            certain &= reading.certain
            proven &= reading.proven
            residual[start:stop] = reading.residual / self.spec.rows_per_answer
            start = stop
        inside = labels < self.spec.classes
        return Reading(np.where(inside, labels, 0), certain & inside, proven & inside, residual)


def as_sums(spec: OracleSpec, answers: Floats) -> tuple[Array, Floats, float]:
    """Answers as sums over rows in extended precision, the error rounding adds to each, and the noise bound.

    For class weights the first answer tells how many rows each class has, hence what the mean was divided by.
    """
    wide = answers.astype(np.longdouble)
    if spec.name == "rmse":
        # A root's noise grows with the answer; all of it is treated as a fixed error, doubled to stay honest.
        sums = wide**2 * spec.n
        rounding = spec.n * (2 * np.abs(answers) * spec.rounding + spec.rounding**2)
        slope = float(np.nanmax(np.abs(answers), initial=0.0))
        noise = spec.noise if spec.noise_kind == "bounded" else 0.0
        return sums, rounding + spec.n * 4 * np.spacing(answers**2), spec.n * (2 * slope * noise + 2 * noise**2)
    scale = spec.rows_per_answer if spec.class_weight is None else weight_total(spec, float(answers[0]))
    noise = spec.noise if spec.noise_kind == "bounded" else 0.0
    # Large answers have no decimals to lose.
    place = np.spacing(np.abs(answers))
    fixed = scale * np.where(place / 2 <= spec.rounding, spec.rounding, 0.0)
    return wide * np.longdouble(scale), np.where(np.isnan(fixed), 0.0, fixed), scale * noise


def counting_query(spec: OracleSpec) -> Array:
    """One confident prediction for all rows: its weighted mean loss tells how many rows each class has."""
    loss = spec.loss()
    return np.repeat(loss.predict(np.array([loss.span / 2]), np.arange(2)), spec.n, axis=0)


def weight_total(spec: OracleSpec, answer: float) -> float:
    """Sum of the weights of the true labels, from the answer to `counting_query`; NaN before it is known."""
    if math.isnan(answer) or spec.class_weight is None:
        return math.nan
    totals, answers = counting_answers(spec)
    return float(totals[np.argmin(np.abs(answers - answer))])


def counting_answers(spec: OracleSpec) -> tuple[Floats, Floats]:
    """For each number of ones 0..n: the sum of the weights and the answer to `counting_query`."""
    low, high = spec.class_weight or (1.0, 1.0)
    row = spec.loss().table(counting_query(spec)[:1])[0]
    ones = np.arange(spec.n + 1)
    totals = low * (spec.n - ones) + high * ones
    return totals, ((spec.n - ones) * row[0] + ones * row[1]) / totals


def check_counting(spec: OracleSpec) -> None:
    """Refuse class weights whose counting query cannot tell the class counts apart at this precision."""
    _, answers = counting_answers(spec)
    closest = float(np.abs(np.diff(answers)).min())
    if closest <= 2 * spec.tolerance + 1e-12:
        raise checks.InputError(
            f"class_weight: the class counts must be read first, and their answers lie {closest:.3g} apart; "
            f"errors reach ±{spec.tolerance:.3g}"
        )


def plain_error(spec: OracleSpec, total: float) -> float:
    """Bound on the float error of a sum of losses of at most ``total``, whatever they are."""
    summed = float(floats.summation(spec.n, total, spec.summation, spec.float_dtype))
    return summed + 4 * total * floats.roundoff(spec.float_dtype)


def certificate(spec: OracleSpec, questions: tuple[Question, ...]) -> Certificate:
    """The certificate of a plan made of integer codes.

    The integer sums of any two labellings differ by at least 1 in some query of some question, by construction
    of the code; so the answers differ by at least one unit, less what the oracle's floats may add.
    """
    scale = spec.rows_per_answer
    method = "integer code, float error bounded along the oracle's sum"
    worst: Certificate | None = None
    for part in questions:
        error = float((part.error + noise_of(spec, part, guard=False)).max()) / scale
        float_error = float(part.error.max()) / scale
        unit = part.unit / scale
        if spec.noise_kind != "bounded":
            return Certificate(False, unit - 2 * float_error, 0.0, method, f"{spec.noise_kind} noise has no bound")
        if unit <= 2 * error:
            why = f"one step is {unit:.3g}, errors may reach ±{error:.3g}"
            return Certificate(False, max(0.0, unit - 2 * float_error), 2 * (error - float_error), method, why)
        found = Certificate(True, unit - 2 * float_error, 2 * (error - float_error), method)
        if worst is None or found.separation - found.needed < worst.separation - worst.needed:
            worst = found
    assert worst is not None, "a plan has at least one question"
    return worst
