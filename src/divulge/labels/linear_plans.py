"""Plans for losses that are sums over rows: one integer code per digit of the labels.

A `DigitPlan` puts an integer code into predictions, bounds the error of its sums, and reads its answers back. A
`LinearPlan` asks one of them after the other; together their digits name the class of every row.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.labels import codes, metrics
from divulge.labels.oracles import exceeds_noise, noise_bound
from divulge.labels.plans import Certificate, Reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from divulge.labels.codes import Alphabet, Code
    from divulge.labels.metrics import RowLoss
    from divulge.labels.oracles import OracleSpec
    from divulge.types import Array, Floats, Ints

LOGIT_METRICS = ("softmax_cross_entropy", "sigmoid_cross_entropy")
_CHUNK_SIZE = 2_000_000
MARGIN = 1 + 1e-9  # by which a step is larger than its errors, so that no rounding of this comparison matters
_MAX_TREE_ROWS = 20_000  # above this many rows the float error is bounded by the greatest depth alone


@dataclass(frozen=True, slots=True, eq=False)
class LinearPlan:
    """Digit plans asked one after the other; together their digits name the class of every row.

    Args:
        spec: the oracle.
        digit_plans: one, or one per factor of K.
        radix: place value of each digit in the class's number.
        weights: class weights, in which case query 0 counts the classes first.
    """

    spec: OracleSpec
    digit_plans: tuple[DigitPlan, ...]
    radix: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of queries."""
        return sum(q.count for q in self.digit_plans) + (self.spec.class_weight is not None)

    def query(self, index: int) -> Array:
        """Predictions of query ``index``."""
        if self.spec.class_weight is not None:
            if index == 0:
                return class_count_query(self.spec)
            index -= 1
        for part in self.digit_plans:
            if index < part.count:
                return part.query(index)
            index -= part.count
        raise InputError(f"query: the plan has {self.count} queries only")

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers ``[count]``, NaN where not yet asked."""
        sums = answers_to_sums(self.spec, answers)
        labels = np.zeros(self.spec.n, dtype=np.int64)
        certain = np.ones(self.spec.n, dtype=bool)
        proven = np.ones(self.spec.n, dtype=bool)
        residual = np.full(self.count, 0.0)
        refuted = np.zeros(self.count, dtype=bool)
        excess = np.full(self.count, np.nan)
        for part, place_value, queries in self._parts():
            reading = part.read(sums[queries])
            labels += place_value * reading.labels
            certain &= reading.certain
            proven &= reading.proven
            residual[queries] = reading.residual
            refuted[queries] = reading.refuted
            excess[queries] = np.maximum(reading.residual - sums.fixed[queries] - part.error, 0)
        is_class = labels < self.spec.classes
        if sums.sigma is not None:
            is_answered = ~np.isnan(excess)
            refuted |= is_answered & exceeds_noise(self.spec, (excess / sums.sigma)[is_answered])
        elif (proven & ~is_class).any():
            for part, _, queries in self._parts():
                refuted[queries] |= part.code.queries_in_flagged_blocks(proven & ~is_class)
        if self.spec.class_weight is not None:
            refuted[0] = not _is_class_count(self.spec, float(answers[0]))
        residual = _distance_of_answers(self.spec, answers, residual)
        return Reading(np.where(is_class, labels, 0), certain & is_class, proven & is_class, residual, refuted)

    def _parts(self) -> Iterator[tuple[DigitPlan, int, slice]]:
        """Yield every digit plan, the place value of its digit, and the slice of its answers."""
        start = self.count - sum(q.count for q in self.digit_plans)
        for part, place_value in zip(self.digit_plans, self.radix, strict=True):
            yield part, place_value, slice(start, start + part.count)
            start += part.count


def answers_to_sums(spec: OracleSpec, answers: Floats) -> RowSums:
    """Convert answers to sums over rows, with their errors.

    For class weights the first answer tells how many rows each class has, hence what the mean was divided by.
    """
    wide = answers.astype(np.longdouble)
    size = np.where(np.isnan(answers), 0.0, np.abs(answers))
    place = np.spacing(size)
    noise = noise_bound(spec, len(answers))
    if spec.name in metrics.ROOTS:
        # An error e of a root r is one of 2re + e² of its square; the two kinds of error share e².
        sums = wide**2 * spec.n
        fixed = spec.n * (2 * size * (spec.rounding + 2 * place) + 2 * spec.rounding**2)
        slack = spec.n * 2 * size * place
        sigma = spec.n * (2 * size * spec.sigma + spec.sigma**2)
        slope = float(size.max(initial=0.0))
        bound = np.full(len(answers), spec.n * (2 * slope * noise + 2 * noise**2))
    else:
        scale = spec.rows_per_answer if spec.class_weight is None else total_class_weight(spec, float(answers[0]))
        sums = wide * np.longdouble(scale)
        # Large answers have no decimals to lose; others may lose them by a multiplication and a division.
        fixed = scale * np.where(place / 2 <= spec.rounding, spec.rounding, 0.0)
        slack = scale * np.where(place / 2 <= spec.rounding, place, 0.0)
        sigma = np.full(len(answers), scale * spec.sigma)
        bound = np.full(len(answers), scale * noise)
    fixed, sigma, bound, slack = (np.where(np.isnan(values), 0.0, values) for values in (fixed, sigma, bound, slack))
    return RowSums(sums, fixed, bound, None if spec.noise_kind == "bounded" else sigma, slack, spec.noise_kind)


def _distance_of_answers(spec: OracleSpec, answers: Floats, distance: Floats) -> Floats:
    """Convert distances of sums over rows, ``[count]``, to the unit of the answers."""
    if spec.class_weight is not None:
        return distance / total_class_weight(spec, float(answers[0]))
    distance = distance / spec.rows_per_answer
    if spec.name not in metrics.ROOTS:
        return distance
    return answers - np.sqrt(np.maximum(answers**2 - distance, 0.0))


def _is_class_count(spec: OracleSpec, answer: float) -> bool:
    """Return True if some number of ones gives this answer to `class_count_query`, or it is not yet given."""
    if math.isnan(answer):
        return True
    totals, answers = class_count_answers(spec)
    error = float_error_bound(spec, float((answers * totals).max())) / float(totals.min())
    return float(np.abs(answers - answer).min()) <= _answer_error(spec) + error + 4 * np.spacing(abs(answer))


def class_count_query(spec: OracleSpec) -> Array:
    """Return one confident prediction for all rows: its weighted mean loss tells how many rows each class has."""
    loss = spec.loss()
    return np.repeat(loss.predict(np.array([loss.span / 2]), np.arange(2)), spec.n, axis=0)


def total_class_weight(spec: OracleSpec, answer: float) -> float:
    """Return the sum of the weights of the true labels from the answer to `class_count_query`; NaN without one."""
    if math.isnan(answer) or spec.class_weight is None:
        return math.nan
    totals, answers = class_count_answers(spec)
    return float(totals[np.argmin(np.abs(answers - answer))])


def class_count_answers(spec: OracleSpec) -> tuple[Floats, Floats]:
    """Return, for each number of ones 0..n, the sum of the weights and the answer to `class_count_query`."""
    low, high = spec.class_weight or (1.0, 1.0)
    row = spec.loss().table(class_count_query(spec)[:1])[0]
    ones = np.arange(spec.n + 1)
    totals = low * (spec.n - ones) + high * ones
    return totals, ((spec.n - ones) * row[0] + ones * row[1]) / totals


def check_class_counts(spec: OracleSpec) -> None:
    """Refuse class weights whose counting query cannot tell the class counts apart at this precision."""
    _, answers = class_count_answers(spec)
    closest = float(np.abs(np.diff(answers)).min())
    if closest <= 2 * _answer_error(spec) + 1e-12:
        raise InputError(
            f"class_weight: the class counts must be read first, and their answers lie {closest:.3g} apart; "
            f"errors reach ±{_answer_error(spec):.3g}"
        )


def _answer_error(spec: OracleSpec) -> float:
    """Bound the error of one answer by rounding and noise (stochastic noise: but for one case in a million)."""
    return spec.rounding + noise_bound(spec, 1)


def float_error_bound(spec: OracleSpec, total: float) -> float:
    """Bound the float error of a sum of losses of at most ``total``, whatever they are."""
    summed = float(metrics.summation_error(spec.n, total, spec.summation, spec.float_dtype))
    return summed + 4 * total * metrics.unit_roundoff(spec.float_dtype)


def certify_digit_plans(spec: OracleSpec, digit_plans: tuple[DigitPlan, ...]) -> Certificate:
    """Return the certificate of a plan made of integer codes.

    The integer sums of any two labellings differ by at least 1 in some query of some digit plan, by construction
    of the code; so the answers differ by at least one unit, less what the oracle's floats may add.
    """
    scale = spec.rows_per_answer
    method = "integer code, float error bounded along the oracle's sum"
    worst: Certificate | None = None
    for part in digit_plans:
        error = float((part.error + sum_noise_bound(spec, part, guard=False)).max()) / scale
        float_error = float(part.error.max()) / scale
        unit = part.unit / scale
        if spec.noise_kind != "bounded":
            return Certificate(False, unit - 2 * float_error, 0.0, method, f"{spec.noise_kind} noise has no bound")
        if unit <= 2 * error:
            reason = f"one step is {unit:.3g}, errors may reach ±{error:.3g}"
            return Certificate(False, max(0.0, unit - 2 * float_error), 2 * (error - float_error), method, reason)
        proof = Certificate(True, unit - 2 * float_error, 2 * (error - float_error), method)
        if worst is None or proof.separation - proof.needed < worst.separation - worst.needed:
            worst = proof
    assert worst is not None, "a plan has at least one digit"
    return worst


@dataclass(frozen=True, slots=True, eq=False)
class RowSums:
    """Answers as sums over rows, with their errors.

    Args:
        sums: extended precision, ``[count]``; NaN where not yet asked.
        fixed: errors that are certain facts (rounding).
        noise: what the noise does not exceed, for stochastic noise but for one case in a million.
        sigma: standard deviation of the noise; None for bounded noise.
        slack: what careless rounding to decimals may add; a larger error than that contradicts the declaration.
        noise_kind: "gaussian" or "laplace", where there is a ``sigma``.
    """

    sums: Array
    fixed: Floats
    noise: Floats
    sigma: Floats | None
    slack: Floats
    noise_kind: str = "gaussian"

    def __getitem__(self, part: slice) -> RowSums:
        sigma = None if self.sigma is None else self.sigma[part]
        return RowSums(self.sums[part], self.fixed[part], self.noise[part], sigma, self.slack[part], self.noise_kind)


@dataclass(frozen=True, slots=True, eq=False)
class DigitPlan:
    """Queries for one digit of every label, through one integer code.

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
        first_row, weights = self.code.weights(index)
        idle = self.alphabet.rows[self.alphabet.index(np.zeros(1, dtype=np.int64))]
        predictions = np.repeat(idle, self.code.n, axis=0)
        predictions[first_row : first_row + len(weights)] = self.alphabet.rows[self.alphabet.index(weights)]
        return predictions

    def read(self, row_sums: RowSums) -> Reading:
        """Read digits from the oracle's sums ``[count]``.

        For stochastic noise certain means that the next labelling is a million times less likely in every query
        together, even at twice the declared deviation.
        """
        sums, fixed, noise, sigma = row_sums.sums, row_sums.fixed, row_sums.noise, row_sums.sigma
        missing = np.isnan(sums)
        steps = (np.where(missing, self.base, sums) - self.base) / np.longdouble(self.unit)
        nearest = np.rint(np.clip(steps, -(2.0**61), 2.0**61))
        distance = np.abs(steps - nearest).astype(float) * self.unit
        labels, sound = self.code.decode(nearest.astype(np.int64))
        certain_error = fixed + self.error
        # Another labelling has another integer somewhere, at least one unit away: it would need this much noise.
        required_noise = self.unit - distance - certain_error
        if sigma is not None and row_sums.noise_kind == "laplace":
            # Its density falls by the distance over sigma/√2, not by the square: large noise is far likelier.
            unlikely = sigma / math.sqrt(2) * math.log(1e6 * self.count)
            odds = np.maximum(required_noise, 0) - (distance + certain_error)
            bad, worse = odds <= unlikely, odds <= 2 * unlikely
        elif sigma is not None:
            unlikely = 2 * sigma**2 * math.log(1e6 * self.count)
            odds = np.maximum(required_noise, 0) ** 2 - (distance + certain_error) ** 2
            bad, worse = odds <= unlikely, odds <= 4 * unlikely
        else:
            bad = (distance > certain_error + noise) | (required_noise <= noise)
            worse = (distance > certain_error + 2 * noise) | (required_noise <= 2 * noise)
        certain = sound & ~self.code.rows_in_flagged_blocks(missing | worse)
        proven = sound & ~self.code.rows_in_flagged_blocks(missing | bad)
        allowed = certain_error + noise + row_sums.slack
        # Sums below the lowest or above the highest that labels can make are no sums of labels.
        weights, top = self.alphabet.weights, int(self.digits.max())
        lowest, highest = (top * self.code.totals(weights, side(weights, 0)) for side in (np.minimum, np.maximum))
        refuted = ~missing & (
            (distance > allowed) | (np.maximum(lowest - steps, steps - highest).astype(float) * self.unit > allowed)
        )
        # Sums that are settled, each by itself, and yet together are those of no labels.
        is_settled = ~self.code.rows_in_flagged_blocks(missing | (required_noise <= noise))
        refuted |= self.code.queries_in_flagged_blocks(~sound & is_settled)
        return Reading(labels, certain, proven, np.where(missing, np.nan, distance), refuted)


def plan_digit(
    spec: OracleSpec,
    loss: RowLoss,
    digits: Ints,
    *,
    dense: bool,
    max_bits: int,
    span: float | None = None,
    guard: bool = False,
    rigorous: bool = True,
) -> DigitPlan | None:
    """Return the digit plan with the fewest queries whose unit outweighs all noise; None when no step fits.

    With ``guard`` a unit also outweighs three times the declared noise, so that every label is certain, not
    only proven. Of all units that need equally many queries the largest is taken: the margin costs nothing.
    """
    gap = loss.largest_gap(digits) if span is None else span / int(digits.max())
    base = int(digits.max()) + 1
    noise = spec.rows_per_answer * spec.tolerance if spec.name not in metrics.ROOTS else 0.0
    smallest_unit = (3 if guard else 2) * noise * MARGIN + 4 * metrics.unit_roundoff(spec.float_dtype) * spec.n
    for _ in range(40):
        bound = int(min(gap / smallest_unit, 2.0**58))
        if bound < 1:
            return None
        bound = codes.relax_bound(spec.n, base, bound, dense=dense, max_bits=max_bits)
        unit = gap / bound * (1 - 1e-12)
        digit_plan = assemble_digit_plan(spec, loss, digits, base, bound, unit, dense=dense, max_bits=max_bits)
        error = digit_plan.error if rigorous else typical_float_error(spec, digit_plan)
        required_unit = 2 * float((error + sum_noise_bound(spec, digit_plan, guard)).max()) * MARGIN
        if unit >= required_unit:
            return digit_plan
        smallest_unit = max(required_unit, smallest_unit * (1 + 1e-6))
    return None


def typical_float_error(spec: OracleSpec, digit_plan: DigitPlan) -> Floats:
    """Return a typical float error of each sum: eight roundings of the total (errors average out)."""
    return (
        8
        * metrics.unit_roundoff(spec.float_dtype)
        * digit_plan.code.totals(digit_plan.alphabet.weights, digit_plan.alphabet.size)
    )


def sum_noise_bound(spec: OracleSpec, digit_plan: DigitPlan, guard: bool) -> Floats | float:
    """Bound the noise of a sum, per query (for a root the noise grows with the answer)."""
    bound = (1.5 if guard else 1.0) * (spec.noise if spec.noise_kind == "bounded" else 0.0)
    tolerance = spec.rounding + bound
    if spec.name not in metrics.ROOTS:
        return spec.rows_per_answer * tolerance
    high = digit_plan.code.totals(digit_plan.alphabet.weights, digit_plan.alphabet.high)
    return spec.n * (2 * np.sqrt(high / spec.n) * tolerance + tolerance**2)


def plan_on_grid(spec: OracleSpec, loss: RowLoss, digits: Ints, *, dense: bool, max_bits: int) -> DigitPlan | None:
    """Return the digit plan for a noiseless oracle with probability rows, whose losses all lie on one grid.

    The grid is the spacing of floats at the largest possible sum, so that the oracle adds up without error
    and only the rounding of the mean is left. None when the rows could not sum to one well enough.
    """
    gap = loss.largest_gap(digits)
    base = int(digits.max()) + 1
    grid = float(np.spacing(spec.n * math.log(spec.classes)))
    step = 2
    while grid < 1e-10 and step <= 64:
        bound = codes.relax_bound(spec.n, base, int(gap / (step * grid)), dense=dense, max_bits=max_bits)
        unit = grid * math.floor(gap / bound / grid)
        digit_plan = assemble_digit_plan(
            spec, loss, digits, base, bound, unit, grid=grid, dense=dense, max_bits=max_bits
        )
        largest = float(digit_plan.code.totals(digit_plan.alphabet.weights, digit_plan.alphabet.high).max())
        required_unit = 2 * float(digit_plan.error.max()) * MARGIN
        if float(np.spacing(largest)) > grid:
            grid *= 2
        elif unit > required_unit:
            return digit_plan
        else:
            step = max(step + 1, math.ceil(required_unit / grid))
    return None


def plan_squares(
    spec: OracleSpec, loss: RowLoss, digits: Ints, *, sizes: Sequence[int], guard: bool = False
) -> DigitPlan | None:
    """Return the digit plan for a mean squared error in float64, whose losses lie on the grid of the largest sum.

    A prediction ``(1 - x)/2`` costs ``(1 - x)²/4`` or ``(1 + x)²/4``. With x a power of two times a small integer
    these squares lie on the grid of floats, or so close to it that the oracle's sums of them show no trace of the
    difference: hardly anything but the rounding of the mean is left. The shortest over the ``sizes`` of blocks.
    """
    best: DigitPlan | None = None
    noise = spec.rows_per_answer * (spec.rounding + (1.5 if guard else 1.0) * spec.noise)
    # The noise, or the rounding of a mean of at least 1/4, sets the unit; large weights may need a larger one.
    smallest_unit = 2 * max(noise, spec.rows_per_answer * 2.0**-55)
    for max_bits, factor in itertools.product(sizes, (1, 3)):
        start = math.ceil(math.log2(smallest_unit / factor))
        for exponent in range(start, start + 3):
            best = _plan_squares_with_unit(spec, loss, digits, factor * 2.0**exponent, noise, max_bits, best) or best
    return best


def _plan_squares_with_unit(
    spec: OracleSpec, loss: RowLoss, digits: Ints, unit: float, noise: float, max_bits: int, rival: DigitPlan | None
) -> DigitPlan | None:
    """Return the digit plan with this unit and fewer queries than the rival's; None when there is none."""

    def fits(bits: int) -> bool:
        # The first query alone rules most sizes out.
        code = codes.build_code(spec.n, 2, 2**bits, dense=False, max_bits=max_bits)
        weights = code.alphabet()
        grid = _largest_spacing(code, unit)
        alphabet = codes.make_alphabet(spec, loss, weights, unit, digits, grid)
        return unit > 2 * (noise + float(_grid_errors(spec, code, alphabet, grid, max_queries=1)[0]))

    # A square beyond 2^54 units has no place left for one unit.
    low, high = 0, min(50, math.floor((56 - math.log2(unit)) / 2) + 1)
    while rival is not None and low < high and codes.count_queries(spec.n, 2, 2**low, False, max_bits) >= rival.count:
        low += 1
    if low >= high or not fits(low):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    code = codes.build_code(spec.n, 2, 2**low, dense=False, max_bits=max_bits)
    digit_plan = assemble_digit_plan(
        spec, loss, digits, 2, 2**low, unit, max_bits=max_bits, grid=_largest_spacing(code, unit)
    )
    is_shorter = rival is None or digit_plan.count < rival.count
    return digit_plan if is_shorter and unit > 2 * (noise + float(digit_plan.error.max())) * MARGIN else None


def _largest_spacing(code: Code, unit: float) -> float:
    """Return the spacing of floats at the largest sum of squares that labels can make."""
    weights = code.alphabet()
    return float(np.spacing(code.totals(weights, (1 + np.abs(weights) * unit) ** 2 / 4).max()))


def plan_on_logits(spec: OracleSpec, loss: RowLoss, digits: Ints) -> DigitPlan | None:
    """Return the digit plan for unbounded losses on logits, where powers of two use the whole mantissa."""
    base = int(digits.max()) + 1
    mantissa = np.finfo(spec.float_dtype).nmant
    size = math.floor(mantissa / math.log2(base) + 1e-12)
    if base**size > 2**mantissa:
        size -= 1
    # So large that ln K a row vanishes beside one step: sums are then exact in whatever order they are formed.
    idle_loss = 16 * spec.n * math.log(spec.classes)
    unit = 2.0 ** math.ceil(math.log2(max(idle_loss * 2.0**mantissa, 1e6 * spec.rows_per_answer * spec.tolerance)))
    largest = unit * 2.0**mantissa
    if size < 1 or largest > float(np.finfo(spec.float_dtype).max) / 4:
        return None
    return assemble_digit_plan(spec, loss, digits, base, base ** (size - 1), unit, grid=unit)


def assemble_digit_plan(
    spec: OracleSpec,
    loss: RowLoss,
    digits: Ints,
    base: int,
    bound: int,
    unit: float,
    *,
    grid: float = 0.0,
    dense: bool = False,
    max_bits: int = 0,
    mirrored: bool = False,
) -> DigitPlan:
    """Assemble the digit plan for weights up to ``bound`` and this unit, and bound the error of its sums.

    Weights of a code that is ``mirrored`` are negative: the class with the largest digit is the likeliest.
    """
    code = codes.build_code(spec.n, base, bound, dense=dense, max_bits=max_bits)
    if mirrored:
        code = codes.mirrored(code)
    alphabet = codes.make_alphabet(spec, loss, code.alphabet(), unit, digits, grid)
    start = code.totals(alphabet.weights, alphabet.base.astype(np.longdouble))
    high = code.totals(alphabet.weights, alphabet.size)
    # The mean is rounded to a float, and again when noise is added or decimals are cut; what is far smaller than
    # the spacing of floats changes nothing.
    half = metrics.mean_rounding(spec.n, high + spec.rows_per_answer * spec.tolerance, spec.float_dtype)
    rounding = half + sum(np.minimum(half, spec.rows_per_answer * size) for size in (spec.noise, spec.rounding))
    deviation = code.totals(alphabet.weights, alphabet.deviation)
    if grid and spec.name in LOGIT_METRICS:
        error = rounding + 1.01 * deviation
    elif grid:
        error = rounding + _grid_errors(spec, code, alphabet, grid)
    else:
        error = rounding + deviation + _summation_errors(spec, code, alphabet, high)
    # What this machine itself adds when it subtracts the base from the answer.
    subtraction_error = 8 * float(np.finfo(np.longdouble).eps) * high
    return DigitPlan(digits, code, alphabet, unit, start, (error + subtraction_error) * (1 + 1e-12))


def _weight_indices(spec: OracleSpec, code: Code, alphabet: Alphabet, max_queries: int | None = None) -> Iterator[Ints]:
    """Yield the position in the alphabet of every row's weight, ``[q, n]``, a chunk of queries at a time."""
    idle = int(alphabet.index(np.zeros(1, dtype=np.int64))[0])
    chunk = max(1, _CHUNK_SIZE // spec.n)
    n_queries = code.count if max_queries is None else min(max_queries, code.count)
    for start in range(0, n_queries, chunk):
        index = np.full((min(chunk, n_queries - start), spec.n), idle)
        for offset in range(len(index)):
            first_row, weights = code.weights(start + offset)
            index[offset, first_row : first_row + len(weights)] = alphabet.index(weights)
        yield index


def _summation_errors(spec: OracleSpec, code: Code, alphabet: Alphabet, high: Floats) -> Floats:
    unit = metrics.unit_roundoff(spec.float_dtype)
    worst = metrics.summation_error(spec.n, high, spec.summation, spec.float_dtype)
    if spec.n > _MAX_TREE_ROWS or float(worst.max()) < 1e-3 * spec.rows_per_answer * spec.tolerance:
        return worst
    depths = metrics.depths(spec.n, spec.summation)
    steps = float(depths.max())
    return np.concatenate([alphabet.size[i] @ depths for i in _weight_indices(spec, code, alphabet)]) * (
        unit / (1 - steps * unit)
    )


def _grid_errors(
    spec: OracleSpec, code: Code, alphabet: Alphabet, grid: float, max_queries: int | None = None
) -> Floats:
    return np.concatenate(
        [
            metrics.grid_error(
                alphabet.low[i], alphabet.high[i], alphabet.deviation[i], grid, spec.summation, spec.float_dtype
            )
            for i in _weight_indices(spec, code, alphabet, max_queries)
        ]
    )
