"""Questions: an integer code put into predictions, with the error its sums can have, and its answers read back."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.labels import alphabet as alphabets
from divulge.labels import codes, floats
from divulge.labels.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from divulge.labels.alphabet import Alphabet
    from divulge.labels.codes import Code
    from divulge.labels.loss import Loss
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Bools, Floats, Ints

LOGITS = ("softmax_cross_entropy", "sigmoid_cross_entropy")
_CHUNK = 2_000_000
_TREE_ROWS = 20_000  # above this many rows the float error is bounded by the greatest depth alone


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Answers as sums over rows.

    Args:
        sums: extended precision, ``[count]``; NaN where not yet asked.
        fixed: errors that are certain facts (rounding).
        noise: what the noise does not exceed, for stochastic noise but for one case in a million.
        sigma: standard deviation of the noise; None for bounded noise.
        slack: what careless rounding to decimals may add; a larger error than that contradicts the declaration.
    """

    sums: Array
    fixed: Floats
    noise: Floats
    sigma: Floats | None
    slack: Floats

    def __getitem__(self, part: slice) -> Sums:
        sigma = None if self.sigma is None else self.sigma[part]
        return Sums(self.sums[part], self.fixed[part], self.noise[part], sigma, self.slack[part])


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
        predictions = np.repeat(idle, self.code.n, axis=0)
        predictions[first : first + len(weights)] = self.alphabet.rows[self.alphabet.index(weights)]
        return predictions

    def read(self, given: Sums) -> Reading:
        """Digits from the oracle's sums ``[count]``.

        For stochastic noise certain means that the next labelling is a million times less likely in every query
        together, even at twice the declared deviation.
        """
        sums, fixed, noise, sigma = given.sums, given.fixed, given.noise, given.sigma
        missing = np.isnan(sums)
        steps = (np.where(missing, self.base, sums) - self.base) / np.longdouble(self.unit)
        whole = np.rint(np.clip(steps, -(2.0**61), 2.0**61))
        distance = np.abs(steps - whole).astype(float) * self.unit
        labels, sound = self.code.decode(whole.astype(np.int64))
        known = fixed + self.error
        # Another labelling has another integer somewhere, at least one unit away: it would need this much noise.
        needed = self.unit - distance - known
        if sigma is not None:
            unlikely = 2 * sigma**2 * math.log(1e6 * self.count)
            odds = np.maximum(needed, 0) ** 2 - (distance + known) ** 2
            bad, worse = odds <= unlikely, odds <= 4 * unlikely
        else:
            bad = (distance > known + noise) | (needed <= noise)
            worse = (distance > known + 2 * noise) | (needed <= 2 * noise)
        certain = sound & ~self.code.rows_of(missing | worse)
        proven = sound & ~self.code.rows_of(missing | bad)
        allowed = known + noise + given.slack
        refuted = ~missing & ((distance > allowed) | self._outside(steps, allowed))
        # Sums that are settled, each by itself, and yet together are those of no labels.
        settled = ~self.code.rows_of(missing | (needed <= noise))
        refuted |= self.code.queries_of(~sound & settled)
        return Reading(labels, certain, proven, np.where(missing, np.nan, distance), refuted)

    def _outside(self, steps: Array, allowed: Floats) -> Bools:
        """Sums below the least or above the largest that labels can make in their query."""
        weights, top = self.alphabet.weights, int(self.digits.max())
        least, most = (top * self.code.totals(weights, side(weights, 0)) for side in (np.minimum, np.maximum))
        return np.maximum(least - steps, steps - most).astype(float) * self.unit > allowed


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
        assembled = assemble(spec, loss, digits, base, bound, unit, dense=dense, most=most)
        error = assembled.error if rigorous else typical(spec, assembled)
        needed = 2 * float((error + noise_of(spec, assembled, guard)).max()) * (1 + 1e-9)
        if unit >= needed:
            return assembled
        least = max(needed, least * (1 + 1e-6))
    return None


def typical(spec: OracleSpec, asked: Question) -> Floats:
    """What the float error of a sum hardly ever exceeds: eight roundings of the total (errors average out)."""
    return 8 * floats.roundoff(spec.float_dtype) * asked.code.totals(asked.alphabet.weights, asked.alphabet.size)


def noise_of(spec: OracleSpec, asked: Question, guard: bool) -> Floats | float:
    """Bound on the noise of a sum, per query (for a root the noise grows with the answer)."""
    declared = (1.5 if guard else 1.0) * (spec.noise if spec.noise_kind == "bounded" else 0.0)
    tolerance = spec.rounding + declared
    if spec.name != "rmse":
        return spec.rows_per_answer * tolerance
    high = asked.code.totals(asked.alphabet.weights, asked.alphabet.high)
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
        assembled = assemble(spec, loss, digits, base, bound, unit, grid=grid, dense=dense, most=most)
        largest = float(assembled.code.totals(assembled.alphabet.weights, assembled.alphabet.high).max())
        needed = 2 * float(assembled.error.max()) * (1 + 1e-9)
        if float(np.spacing(largest)) > grid:
            grid *= 2
        elif unit > needed:
            return assembled
        else:
            step = max(step + 1, math.ceil(needed / grid))
    return None


def squares(
    spec: OracleSpec, loss: Loss, digits: Ints, *, sizes: Sequence[int], guard: bool = False
) -> Question | None:
    """The question for a mean squared error in float64, whose losses lie on the grid of the largest sum.

    A prediction ``(1 - x)/2`` costs ``(1 - x)²/4`` or ``(1 + x)²/4``. With x a power of two times a small integer
    these squares lie on the grid of floats, or so close to it that the oracle's sums of them show no trace of the
    difference: hardly anything but the rounding of the mean is left. The shortest over the ``sizes`` of blocks.
    """
    best: Question | None = None
    noise = spec.rows_per_answer * (spec.rounding + (1.5 if guard else 1.0) * spec.noise)
    # The noise, or the rounding of a mean of at least 1/4, sets the unit; large weights may need a larger one.
    least = 2 * max(noise, spec.rows_per_answer * 2.0**-55)
    for most, odd in itertools.product(sizes, (1, 3)):
        start = math.ceil(math.log2(least / odd))
        for exponent in range(start, start + 3):
            best = _squares(spec, loss, digits, odd * 2.0**exponent, noise, most, best) or best
    return best


def _squares(
    spec: OracleSpec, loss: Loss, digits: Ints, unit: float, noise: float, most: int, rival: Question | None
) -> Question | None:
    """The question with this unit and fewer queries than the rival's; None when there is none."""

    def fits(bits: int) -> bool:
        # The first query alone rules most sizes out.
        code = codes.build(spec.n, 2, 2**bits, dense=False, most=most)
        weights = code.alphabet()
        grid = _largest_spacing(code, unit)
        alphabet = alphabets.make(spec, loss, weights, unit, digits, grid)
        return unit > 2 * (noise + float(_drift(spec, code, alphabet, grid, most=1)[0]))

    # A square beyond 2^54 units has no place left for one unit.
    low, high = 0, min(50, math.floor((56 - math.log2(unit)) / 2) + 1)
    while rival is not None and low < high and codes.queries(spec.n, 2, 2**low, False, most) >= rival.count:
        low += 1
    if low >= high or not fits(low):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    code = codes.build(spec.n, 2, 2**low, dense=False, most=most)
    whole = assemble(spec, loss, digits, 2, 2**low, unit, most=most, grid=_largest_spacing(code, unit))
    better = rival is None or whole.count < rival.count
    return whole if better and unit > 2 * (noise + float(whole.error.max())) * (1 + 1e-9) else None


def _largest_spacing(code: Code, unit: float) -> float:
    """Spacing of floats at the largest sum of squares that labels can make."""
    weights = code.alphabet()
    return float(np.spacing(code.totals(weights, (1 + np.abs(weights) * unit) ** 2 / 4).max()))


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
    alphabet = alphabets.make(spec, loss, code.alphabet(), unit, digits, grid)
    start = code.totals(alphabet.weights, alphabet.base.astype(np.longdouble))
    high = code.totals(alphabet.weights, alphabet.size)
    # The mean is rounded to a float, and again when noise is added or decimals are cut; what is far smaller than
    # the spacing of floats changes nothing.
    half = floats.answer_rounding(spec.n, high + spec.rows_per_answer * spec.tolerance, spec.float_dtype)
    rounding = half + sum(np.minimum(half, spec.rows_per_answer * size) for size in (spec.noise, spec.rounding))
    deviation = code.totals(alphabet.weights, alphabet.deviation)
    if grid and spec.name in LOGITS:
        error = rounding + 1.01 * deviation
    elif grid:
        error = rounding + _drift(spec, code, alphabet, grid)
    else:
        error = rounding + deviation + _summation(spec, code, alphabet, high)
    # What this machine itself adds when it subtracts the base from the answer.
    own = 8 * float(np.finfo(np.longdouble).eps) * high
    return Question(digits, code, alphabet, unit, start, (error + own) * (1 + 1e-12))


def _indices(spec: OracleSpec, code: Code, alphabet: Alphabet, most: int | None = None) -> Iterator[Ints]:
    """Position in the alphabet of every row's weight, ``[q, n]``, some queries at a time (the first ``most``)."""
    idle = int(alphabet.index(np.zeros(1, dtype=np.int64))[0])
    chunk = max(1, _CHUNK // spec.n)
    last = code.count if most is None else min(most, code.count)
    for start in range(0, last, chunk):
        index = np.full((min(chunk, last - start), spec.n), idle)
        for offset in range(len(index)):
            first, weights = code.weights(start + offset)
            index[offset, first : first + len(weights)] = alphabet.index(weights)
        yield index


def _summation(spec: OracleSpec, code: Code, alphabet: Alphabet, high: Floats) -> Floats:
    unit = floats.roundoff(spec.float_dtype)
    worst = floats.summation(spec.n, high, spec.summation, spec.float_dtype)
    if spec.n > _TREE_ROWS or float(worst.max()) < 1e-3 * spec.rows_per_answer * spec.tolerance:
        return worst
    depths = floats.depths(spec.n, spec.summation)
    steps = float(depths.max())
    return np.concatenate([alphabet.size[i] @ depths for i in _indices(spec, code, alphabet)]) * (
        unit / (1 - steps * unit)
    )


def _drift(spec: OracleSpec, code: Code, alphabet: Alphabet, grid: float, most: int | None = None) -> Floats:
    return np.concatenate(
        [
            floats.drift(
                alphabet.low[i], alphabet.high[i], alphabet.deviation[i], grid, spec.summation, spec.float_dtype
            )
            for i in _indices(spec, code, alphabet, most)
        ]
    )
