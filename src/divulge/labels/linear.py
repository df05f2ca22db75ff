"""Plans for losses that are sums over rows: one question per digit of the labels, asked one after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.labels import floats
from divulge.labels.certificate import Certificate
from divulge.labels.noise import reach, too_loud
from divulge.labels.questions import Sums, noise_of
from divulge.labels.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.labels.questions import Question
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Floats


@dataclass(frozen=True, slots=True, eq=False)
class LinearPlan:
    """Questions asked one after the other; together their digits name the class of every row.

    Args:
        spec: the oracle.
        questions: one, or one per factor of K.
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
        raise InputError(f"query: the plan has {self.count} queries only")

    def read(self, answers: Floats) -> Reading:
        """Labels from the answers ``[count]``, NaN where not yet asked."""
        sums = as_sums(self.spec, answers)
        labels = np.zeros(self.spec.n, dtype=np.int64)
        certain = np.ones(self.spec.n, dtype=bool)
        proven = np.ones(self.spec.n, dtype=bool)
        residual = np.full(self.count, 0.0)
        refuted = np.zeros(self.count, dtype=bool)
        excess = np.full(self.count, np.nan)
        for part, worth, own in self._parts():
            reading = part.read(sums[own])
            labels += worth * reading.labels
            certain &= reading.certain
            proven &= reading.proven
            residual[own] = reading.residual / self.spec.rows_per_answer
            refuted[own] = reading.refuted
            excess[own] = np.maximum(reading.residual - sums.fixed[own] - part.error, 0)
        inside = labels < self.spec.classes
        if sums.sigma is not None:
            asked = ~np.isnan(excess)
            refuted |= asked & too_loud(self.spec, (excess / sums.sigma)[asked])
        elif (proven & ~inside).any():
            for part, _, own in self._parts():
                refuted[own] |= part.code.queries_of(proven & ~inside)
        if self.spec.class_weight is not None:
            refuted[0] = not _counted(self.spec, float(answers[0]))
        return Reading(np.where(inside, labels, 0), certain & inside, proven & inside, residual, refuted)

    def _parts(self) -> Iterator[tuple[Question, int, slice]]:
        """Every question, what its digit is worth, and where its answers stand."""
        start = self.count - sum(q.count for q in self.questions)
        for part, worth in zip(self.questions, self.radix, strict=True):
            yield part, worth, slice(start, start + part.count)
            start += part.count


def as_sums(spec: OracleSpec, answers: Floats) -> Sums:
    """What the answers say of the sums over rows.

    For class weights the first answer tells how many rows each class has, hence what the mean was divided by.
    """
    wide = answers.astype(np.longdouble)
    size = np.where(np.isnan(answers), 0.0, np.abs(answers))
    place = np.spacing(size)
    noise = reach(spec, len(answers))
    if spec.name == "rmse":
        # An error e of a root r is one of 2re + e² of its square; the two kinds of error share e².
        sums = wide**2 * spec.n
        fixed = spec.n * (2 * size * (spec.rounding + 2 * place) + 2 * spec.rounding**2)
        slack = spec.n * 2 * size * place
        sigma = spec.n * (2 * size * spec.sigma + spec.sigma**2)
        slope = float(size.max(initial=0.0))
        bound = np.full(len(answers), spec.n * (2 * slope * noise + 2 * noise**2))
    else:
        scale = spec.rows_per_answer if spec.class_weight is None else weight_total(spec, float(answers[0]))
        sums = wide * np.longdouble(scale)
        # Large answers have no decimals to lose; others may lose them by a multiplication and a division.
        fixed = scale * np.where(place / 2 <= spec.rounding, spec.rounding, 0.0)
        slack = scale * np.where(place / 2 <= spec.rounding, place, 0.0)
        sigma = np.full(len(answers), scale * spec.sigma)
        bound = np.full(len(answers), scale * noise)
    fixed, sigma, bound, slack = (np.where(np.isnan(values), 0.0, values) for values in (fixed, sigma, bound, slack))
    return Sums(sums, fixed, bound, None if spec.noise_kind == "bounded" else sigma, slack)


def _counted(spec: OracleSpec, answer: float) -> bool:
    """The answer to `counting_query` is that of some number of ones; an answer not given yet contradicts nothing."""
    if math.isnan(answer):
        return True
    totals, answers = counting_answers(spec)
    error = plain_error(spec, float((answers * totals).max())) / float(totals.min())
    return float(np.abs(answers - answer).min()) <= _reach(spec) + error + 4 * np.spacing(abs(answer))


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
    if closest <= 2 * _reach(spec) + 1e-12:
        raise InputError(
            f"class_weight: the class counts must be read first, and their answers lie {closest:.3g} apart; "
            f"errors reach ±{_reach(spec):.3g}"
        )


def _reach(spec: OracleSpec) -> float:
    """What rounding and noise add to one answer at most (stochastic noise: but for one case in a million)."""
    return spec.rounding + reach(spec, 1)


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
        proof = Certificate(True, unit - 2 * float_error, 2 * (error - float_error), method)
        if worst is None or proof.separation - proof.needed < worst.separation - worst.needed:
            worst = proof
    assert worst is not None, "a plan has at least one question"
    return worst
