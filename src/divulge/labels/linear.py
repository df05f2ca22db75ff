"""Plans for losses that are sums over rows: integer codes put into predictions, and read back from answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks
from divulge.labels import alphabet as alphabets
from divulge.labels import codes, floats
from divulge.labels.answers import Reading
from divulge.labels.certify import Certificate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.labels.alphabet import Alphabet
    from divulge.labels.codes import Code
    from divulge.labels.losses import Loss
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Floats, Ints

_CHUNK = 2_000_000
_TREE_ROWS = 20_000  # above this many rows the float error is bounded by the greatest depth alone


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One digit of every label, asked through one code.

    Args:
        digits: the digit of each class, ``[K]``.
        code: who gets which weight in which query.
        alphabet: the predictions behind the weights.
        unit: loss difference (summed over rows) of one integer step.
        base: sum of the losses were all digits 0, per query, in extended precision.
        error: bound on the oracle's float error of a sum, per query.
    """

    digits: Ints
    code: Code
    alphabet: Alphabet
    unit: float
    base: Array
    error: Floats

    @property
    def count(self) -> int:
        """Number of queries."""
        return self.code.count

    def query(self, index: int) -> Array:
        """Predictions of one query."""
        first, weights = self.code.weights(index)
        idle = self.alphabet.rows[self.alphabet.index(np.zeros(1, dtype=np.int64))]
        found = np.repeat(idle, self.code.n, axis=0)
        found[first : first + len(weights)] = self.alphabet.rows[self.alphabet.index(weights)]
        return found

    def read(self, sums: Array, fixed: Floats, noise: float, sigma: float = 0.0) -> Reading:
        """Digits from the oracle's sums ``[count]``.

        Args:
            sums: answers as sums over rows, extended precision; NaN where not yet asked.
            fixed: errors of a sum that are certain facts (rounding), per query.
            noise: declared bound on the noise of a sum.
            sigma: standard deviation of stochastic noise of a sum; then certain means that the next labelling is
                a million times less likely in every query together, even at twice this deviation.
        """
        missing = np.isnan(sums)
        steps = (np.where(missing, self.base, sums) - self.base) / np.longdouble(self.unit)
        whole = np.rint(np.clip(steps, -(2.0**61), 2.0**61))
        distance = np.abs(steps - whole).astype(float) * self.unit
        labels, sound = self.code.decode(whole.astype(np.int64))
        known = fixed + self.error
        # Another labelling has another integer somewhere, at least one unit away: it would need this much noise.
        needed = self.unit - distance - known
        if sigma:
            unlikely = 2 * sigma**2 * math.log(1e6 * self.count)
            odds = np.maximum(needed, 0) ** 2 - (distance + known) ** 2
            bad, worse = odds <= unlikely, odds <= 4 * unlikely
        else:
            bad = (distance > known + noise) | (needed <= noise)
            worse = (distance > known + 2 * noise) | (needed <= 2 * noise)
        certain = sound & ~self.code.rows_of(missing | worse)
        proven = sound & ~self.code.rows_of(missing | bad)
        return Reading(labels, certain, proven, np.where(missing, np.nan, distance))


def question(
    spec: OracleSpec,
    loss: Loss,
    digits: Ints,
    *,
    dense: bool,
    most: int,
    span: float | None = None,
    guard: bool = False,
    rigorous: bool = True,
) -> Question | None:
    """The question with the fewest queries whose unit outweighs all noise; None when not one step fits.

    With ``guard`` a unit also outweighs three times the declared noise, so that every label is certain, not
    only proven. Of all units that need equally many queries the largest is taken: the margin costs nothing.
    """
    gap = loss.reach(digits) if span is None else span / int(digits.max())
    base = int(digits.max()) + 1
    noise = spec.rows_per_answer * spec.tolerance if spec.name != "rmse" else 0.0
    least = (3 if guard else 2) * noise * (1 + 1e-9) + 4 * floats.roundoff(spec.float_dtype) * spec.n
    for _ in range(40):
        bound = int(min(gap / least, 2.0**58))
        if bound < 1:
            return None
        bound = codes.relaxed(spec.n, base, bound, dense=dense, most=most)
        unit = gap / bound * (1 - 1e-12)
        found = assemble(spec, loss, digits, base, bound, unit, dense=dense, most=most)
        error = found.error if rigorous else typical(spec, found)
        needed = 2 * float((error + _noise(spec, found, guard)).max()) * (1 + 1e-9)
        if unit >= needed:
            return found
        least = max(needed, least * (1 + 1e-6))
    return None


def typical(spec: OracleSpec, found: Question) -> Floats:
    """What the float error of a sum hardly ever exceeds: eight roundings of the total (errors average out)."""
    return 8 * floats.roundoff(spec.float_dtype) * found.code.totals(found.alphabet.weights, found.alphabet.size)


def _noise(spec: OracleSpec, found: Question, guard: bool) -> Floats | float:
    """Bound on the noise of a sum, per query (for a root the noise grows with the answer)."""
    declared = (1.5 if guard else 1.0) * (spec.noise if spec.noise_kind == "bounded" else 0.0)
    tolerance = spec.rounding + declared
    if spec.name != "rmse":
        return spec.rows_per_answer * tolerance
    high = found.code.totals(found.alphabet.weights, found.alphabet.high)
    return spec.n * (2 * np.sqrt(high / spec.n) * tolerance + tolerance**2)


def gridded(spec: OracleSpec, loss: Loss, digits: Ints, *, dense: bool, most: int) -> Question | None:
    """The question for a noiseless oracle with probability rows, whose losses all lie on one grid.

    The grid is the spacing of floats at the largest possible sum, so that the oracle adds up without error
    and only the rounding of the mean is left. None when the rows could not sum to one well enough.
    """
    gap = loss.reach(digits)
    base = int(digits.max()) + 1
    grid = float(np.spacing(spec.n * math.log(spec.classes)))
    step = 2
    while grid < 1e-10 and step <= 64:
        bound = codes.relaxed(spec.n, base, int(gap / (step * grid)), dense=dense, most=most)
        unit = grid * math.floor(gap / bound / grid)
        found = assemble(spec, loss, digits, base, bound, unit, grid=grid, dense=dense, most=most)
        largest = float(found.code.totals(found.alphabet.weights, found.alphabet.high).max())
        needed = 2 * float(found.error.max()) * (1 + 1e-9)
        if float(np.spacing(largest)) > grid:
            grid *= 2
        elif unit > needed:
            return found
        else:
            step = max(step + 1, math.ceil(needed / grid))
    return None


def on_logits(spec: OracleSpec, loss: Loss, digits: Ints) -> Question | None:
    """The question for unbounded losses on logits: only the mantissa limits, and powers of two waste none of it."""
    base = int(digits.max()) + 1
    mantissa = np.finfo(spec.float_dtype).nmant
    size = math.floor(mantissa / math.log2(base) + 1e-12)
    if base**size > 2**mantissa:
        size -= 1
    # So large that ln K a row vanishes beside one step: sums are then exact in whatever order they are formed.
    rest = 16 * spec.n * math.log(spec.classes)
    unit = 2.0 ** math.ceil(math.log2(max(rest * 2.0**mantissa, 1e6 * spec.rows_per_answer * spec.tolerance)))
    largest = unit * 2.0**mantissa
    if size < 1 or largest > float(np.finfo(spec.float_dtype).max) / 4:
        return None
    return assemble(spec, loss, digits, base, base ** (size - 1), unit, grid=unit)


def assemble(
    spec: OracleSpec,
    loss: Loss,
    digits: Ints,
    base: int,
    bound: int,
    unit: float,
    *,
    grid: float = 0.0,
    dense: bool = False,
    most: int = 0,
) -> Question:
    """The question for weights up to ``bound`` and this unit, with the error its sums can have."""
    code = codes.build(spec.n, base, bound, dense=dense, most=most)
    found = alphabets.make(spec, loss, code.alphabet(), unit, digits, grid)
    start = code.totals(found.weights, found.base.astype(np.longdouble))
    high = code.totals(found.weights, found.size)
    rounding = floats.answer_rounding(spec.n, high, spec.float_dtype)
    deviation = code.totals(found.weights, found.deviation)
    if not math.isfinite(loss.span) and grid:
        error = rounding + 1.01 * deviation
    elif grid:
        error = rounding + _drift(spec, code, found, grid)
    else:
        error = rounding + deviation + _summation(spec, code, found, high)
    # What this machine itself adds when it subtracts the base from the answer.
    own = 8 * float(np.finfo(np.longdouble).eps) * high
    return Question(digits, code, found, unit, start, (error + own) * (1 + 1e-12))


def _indices(spec: OracleSpec, code: Code, found: Alphabet) -> Iterator[Ints]:
    """Position in the alphabet of every row's weight, ``[q, n]``, some queries at a time."""
    idle = int(found.index(np.zeros(1, dtype=np.int64))[0])
    chunk = max(1, _CHUNK // spec.n)
    for start in range(0, code.count, chunk):
        index = np.full((min(chunk, code.count - start), spec.n), idle)
        for offset in range(len(index)):
            first, weights = code.weights(start + offset)
            index[offset, first : first + len(weights)] = found.index(weights)
        yield index


def _summation(spec: OracleSpec, code: Code, found: Alphabet, high: Floats) -> Floats:
    unit = floats.roundoff(spec.float_dtype)
    worst = floats.summation(spec.n, high, spec.summation, spec.float_dtype)
    if spec.n > _TREE_ROWS or float(worst.max()) < 1e-3 * spec.rows_per_answer * spec.tolerance:
        return worst
    depths = floats.depths(spec.n, spec.summation)
    steps = float(depths.max())
    return np.concatenate([found.size[i] @ depths for i in _indices(spec, code, found)]) * (unit / (1 - steps * unit))


def _drift(spec: OracleSpec, code: Code, found: Alphabet, grid: float) -> Floats:
    return np.concatenate(
        [
            floats.drift(found.low[i], found.high[i], found.deviation[i], grid, spec.summation, spec.float_dtype)
            for i in _indices(spec, code, found)
        ]
    )


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
    # A rounded answer is the float nearest to a decimal; large answers have no decimals to lose.
    place = np.spacing(np.abs(answers))
    fixed = scale * np.where(place < spec.rounding, spec.rounding + place, 0.0)
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
        error = float((part.error + _noise(spec, part, guard=False)).max()) / scale
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
