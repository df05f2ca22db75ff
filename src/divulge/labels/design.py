"""Design of the plan with the fewest queries for an oracle."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.labels import codes, count_plans, linear_plans, paper_codes, search, single_rows, split, stochastic
from divulge.labels.linear_plans import LinearPlan
from divulge.labels.metrics import Evaluated, KnownRange
from divulge.labels.oracles import COUNT_METRICS, RATIO_METRICS, OracleSpec
from divulge.labels.plans import QueryPlan, describe_missing_code
from divulge.settings import DesignSettings
from divulge.validation import check_bool, check_choice, check_instance, check_integer, check_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from divulge.labels.linear_plans import DigitPlan
    from divulge.labels.metrics import RowLoss

METHODS = ("auto", "positional", "weighing", "dense", *paper_codes.PAPER_METHODS)
_MAX_GRID_ROWS = 20_000
_TRIAL_ADDRESS_BITS = 5
_MAX_SPLITS = 39
_MAX_ROWS, _MAX_CLASSES = 10**8, 10**4  # designs beyond take hours, and no endpoint takes such submissions
_NEXT_SMALLER_RADIX = {2: 1, 3: 2, 5: 3}


def design(
    spec: OracleSpec,
    method: str = DesignSettings().method,
    *,
    guard: bool = False,
    rigorous: bool = True,
    block: int | None = None,
    queries: int | None = None,
) -> QueryPlan:
    """Design the plan with the fewest queries that recovers every label.

    Args:
        spec: what is known of the oracle.
        method: "positional": one weight a power of K, each query on its own. "weighing": blocks of queries
            that share their rows (powers of K). "dense": weighing with Conway-Guy sets, and K split into its
            factors where that is shorter. "auto": the shortest of these. "theorem3", "theorem14",
            "corollary2", "primes" and "exhaustive" are the codes of the paper, as baselines. Of a hidden split
            (``spec.scored``) every method reads which rows are scored as well, by pairs of opposite queries.
        guard: pay for a margin that makes every label certain, not only proven, under the declared noise.
        rigorous: bound the oracle's float error by proof. False: by what it typically is (eight roundings of the
            total), which matters for noiseless oracles alone; the plan then has no certificate.
        block: largest number of address bits of a block (a block has ``2^block`` queries); default 11.
        queries: for noise without a bound that is too large for integer codes: how many queries to ask.

    Raises:
        divulge.InputError: no code is known at this precision (which is no all-clear), or the method
            does not apply to the metric; more than 10^8 rows or 10^4 classes, or a submission that does not fit
            into memory.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> design(OracleSpec(n=2201, noise=1e-4), method="weighing").count
        207
    """
    check_instance(spec, "spec", OracleSpec, "a labels.OracleSpec")
    check_choice(method, "method", METHODS)
    check_bool(guard, "guard")
    check_bool(rigorous, "rigorous")
    if queries is not None:
        check_integer(queries, "queries", minimum=1)
    _check_size(spec)
    max_bits = codes.MAX_ADDRESS_BITS if block is None else min(check_integer(block, "block", minimum=0), 13)
    if isinstance(spec.metric, KnownRange):
        raise InputError(
            f"metric: of {spec.name} only the range is known, so there is no code; labels.capacity says what it tells"
        )
    if isinstance(spec.metric, Evaluated) or spec.name in RATIO_METRICS:
        return _plan_nonadditive(spec, method, options=_Options(guard, rigorous, max_bits))
    if spec.scored != "all":
        return split.plan_split(spec, method, guard=guard, max_bits=max_bits)
    if method in paper_codes.PAPER_METHODS:
        return paper_codes.plan_paper_code(spec, method)
    if spec.name in COUNT_METRICS:
        return count_plans.plan_counts(spec, queries)
    if spec.class_weight is not None:
        linear_plans.check_class_counts(spec)
    options = _Options(guard, rigorous, max_bits)
    if spec.noise_kind == "bounded":
        return plan_linear(spec, method, options)
    return _plan_stochastic(spec, method, options, queries)


def _check_size(spec: OracleSpec) -> None:
    """Refuse sizes that could not be designed in reasonable time, or not be submitted."""
    for name, value, limit in (("n", spec.n, _MAX_ROWS), ("classes", spec.classes, _MAX_CLASSES)):
        if value > limit:
            raise InputError(f"{name}: a design takes at most {limit:,}, got {value:,}")
    columns = 1 if spec.submission == "positive" else spec.classes
    check_memory(8.0 * spec.n * columns, "n", f"one submission has {spec.n:,} rows of {columns:,} numbers; take fewer")


def _plan_nonadditive(spec: OracleSpec, method: str, options: _Options) -> QueryPlan:
    """Plan for a metric that is no sum over rows and has its own code, or is known by evaluation only."""
    if method != "auto":
        raise InputError(f"method: {spec.name} has one code of its own; use auto, got {method}")
    if spec.scored != "all":
        raise InputError(f"scored: {spec.name} is not a mean over rows, so unscored rows would not cancel")
    if spec.name == "r2":
        return count_plans.plan_r_squared(spec, lambda squared: plan_linear(squared, method, options))
    if spec.name == "map_at_k":
        return count_plans.plan_top_ranks(spec)
    if isinstance(spec.metric, Evaluated) and spec.metric.depends_on == "labels":
        return search.plan_search(spec)
    return count_plans.plan_ratio(spec)


@dataclass(frozen=True, slots=True)
class _Options:
    guard: bool
    rigorous: bool
    max_bits: int


def _plan_stochastic(spec: OracleSpec, method: str, options: _Options, queries: int | None) -> QueryPlan:
    """Plan with integer codes whose half step is many standard deviations; with signs where no step fits."""
    bounded = stochastic.bounded_equivalent(spec)
    if queries is None and bounded.loss().span > 2 * bounded.rows_per_answer * bounded.tolerance * (1 + 1e-6):
        plan = plan_linear(bounded, method, options)
        if isinstance(plan.inner, LinearPlan):
            inner = LinearPlan(spec, plan.inner.digit_plans, plan.inner.radix)
            return QueryPlan(spec, plan.method, inner, linear_plans.certify_digit_plans(spec, inner.digit_plans))
    return stochastic.plan_signs(spec, queries)


def plan_linear(spec: OracleSpec, method: str, options: _Options) -> QueryPlan:
    """Return the shortest integer code for a loss that is a sum over rows."""
    loss = spec.loss()
    if loss.largest_gap(np.arange(spec.classes)) <= 0:
        raise InputError(
            f"clip: {spec.epsilon:g} leaves no probabilities of {spec.classes} classes that add up to one inside the "
            "clip; labels may leak all the same, but no code is known here"
        )
    max_bits = 0 if method == "positional" else options.max_bits
    dense = method in ("auto", "dense") and loss.has_bounded_base

    def plan_splits(splits: Iterable[tuple[int, ...]]) -> list[list[DigitPlan]]:
        plans = (_plan_digits(spec, loss, split, dense, max_bits, options) for split in splits)
        return [digit_plans for digit_plans in plans if digit_plans]

    splits = _radix_splits(spec.classes, dense)
    splits.sort(key=lambda split: _estimate_queries(spec, loss, split, dense, max_bits))
    candidates = plan_splits(splits[:2])
    if not candidates and not dense:
        candidates = plan_splits([(2,) * math.ceil(math.log2(spec.classes))])
    if not candidates:
        threshold = loss.span / (2 * spec.rows_per_answer)
        single_rows_plan = single_rows.find_single_rows(spec) if method in ("auto", "positional") else None
        if single_rows_plan is not None:
            return single_rows_plan
        raise InputError(
            describe_missing_code(
                spec,
                f"one label moves the answer by at most {2 * threshold:.3g}, and an error of ±{spec.tolerance:.3g} may "
                f"hide it from the codes here, which need one below {threshold:.3g}",
            )
        )
    best = tuple(min(candidates, key=lambda digit_plans: sum(part.count for part in digit_plans)))
    inner = LinearPlan(spec, best, tuple(int(np.flatnonzero(part.digits)[0]) for part in best))
    code_types = {part.code.method for part in best}
    name = next(code_type for code_type in ("dense", "weighing", "positional") if code_type in code_types)
    certificate = linear_plans.certify_digit_plans(spec, inner.digit_plans)
    return QueryPlan(spec, name if method == "auto" else method, inner, certificate)


def _radix_splits(classes: int, dense: bool) -> list[tuple[int, ...]]:
    """List ways to ask for a class digit by digit: K itself and, when ``dense``, radices with product K or just above.

    Examples:
        >>> _radix_splits(6, True)
        [(6,), (2, 2, 2), (2, 3), (3, 2)]
    """
    splits: list[tuple[int, ...]] = [(classes,)]
    if dense:
        # Where there are many ways to split, none is much shorter than the others, and all are longer than K itself.
        several = list(itertools.islice(_minimal_radices(classes, ()), _MAX_SPLITS))
        splits += several if len(several) < _MAX_SPLITS else []
    return sorted(set(splits), key=lambda split: (len(split) > 1, split))


def _minimal_radices(classes: int, start: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield two or more radices whose product reaches ``classes``, but not with any of them one step smaller."""
    product = math.prod(start)
    if product >= classes:
        if len(start) > 1 and all(product // radix * _NEXT_SMALLER_RADIX[radix] < classes for radix in start):
            yield start
        return
    for radix in _NEXT_SMALLER_RADIX:
        yield from _minimal_radices(classes, (*start, radix))


def _estimate_queries(spec: OracleSpec, loss: RowLoss, split: tuple[int, ...], dense: bool, max_bits: int) -> float:
    """Estimate how many queries a split into digits needs, from the noise alone."""
    unit = 2 * spec.rows_per_answer * spec.tolerance + 1e-15 * spec.n
    total = 0.0
    place_value = 1
    for radix in split:
        gap = loss.largest_gap(np.arange(spec.classes) // place_value % radix)
        bound = int(min(gap / unit, 2.0**50))
        total += codes.count_queries(spec.n, radix, bound, dense, max_bits) if bound else math.inf
        place_value *= radix
    return total


def _plan_digits(
    spec: OracleSpec, loss: RowLoss, split: tuple[int, ...], dense: bool, max_bits: int, options: _Options
) -> list[DigitPlan] | None:
    digit_plans = []
    place_value = 1
    for radix in split:
        digits = np.arange(spec.classes) // place_value % radix
        place_value *= radix
        digit_plan = _plan_digit(spec, loss, digits, dense, max_bits, options)
        if digit_plan is None:
            return None
        digit_plans.append(digit_plan)
    return digit_plans


def _plan_digit(
    spec: OracleSpec, loss: RowLoss, digits: np.ndarray, dense: bool, max_bits: int, options: _Options
) -> DigitPlan | None:
    if spec.name in linear_plans.LOGIT_METRICS:
        return linear_plans.plan_on_logits(spec, loss, digits)
    # Larger blocks read more per query, but their larger sums cost mantissa: neither always wins.
    sizes = sorted({0, min(2, max_bits), max_bits})
    if spec.name == "mse" and spec.float_dtype == "float64" and spec.n <= _MAX_GRID_ROWS:
        digit_plan = linear_plans.plan_squares(spec, loss, digits, sizes=sizes, guard=options.guard)
        return _shortest([digit_plan, _plan_unbounded(spec, loss, digits, dense, max_bits, options)])
    if not math.isfinite(loss.span):
        return _plan_unbounded(spec, loss, digits, dense, max_bits, options)
    # Without any noise all losses are moved to a grid on which sums of probability rows carry no error.
    is_noiseless = spec.tolerance == 0 and spec.noise_kind == "bounded" and spec.class_weight is None
    has_rows = spec.name == "log_loss" and spec.submission == "rows" and spec.float_dtype == "float64"
    if is_noiseless and has_rows and spec.n <= _MAX_GRID_ROWS:
        return _shortest([linear_plans.plan_on_grid(spec, loss, digits, dense=False, max_bits=k) for k in sizes])
    if spec.submission == "positive" and spec.name == "log_loss":
        return _plan_single_column(spec, loss, digits, dense, max_bits, options)
    # Without noise only the float error is left, which grows with the weights: denser is not always better.
    code_types = [(dense, max_bits)] if spec.tolerance else [(dense, max_bits), (False, max_bits), (False, 0)]
    return _shortest_over(spec, loss, digits, code_types, options)


def _shortest(candidates: Iterable[DigitPlan | None]) -> DigitPlan | None:
    return min(
        (candidate for candidate in candidates if candidate), key=lambda candidate: candidate.count, default=None
    )


def _shortest_over(
    spec: OracleSpec,
    loss: RowLoss,
    digits: np.ndarray,
    code_types: list[tuple[bool, int]],
    options: _Options,
    spans: tuple[float | None, ...] = (None,),
) -> DigitPlan | None:
    """Return the shortest digit plan over code types (dense or not, address bits of a block) and spans."""
    make = functools.partial(
        linear_plans.plan_digit, spec, loss, digits, guard=options.guard, rigorous=options.rigorous
    )
    combinations = itertools.product(dict.fromkeys(code_types), spans)
    return _shortest([make(dense=dense, max_bits=max_bits, span=span) for (dense, max_bits), span in combinations])


def _plan_single_column(
    spec: OracleSpec, loss: RowLoss, digits: np.ndarray, dense: bool, max_bits: int, options: _Options
) -> DigitPlan | None:
    """Plan for one column of log loss, whose grid of 1 - p is coarse near 1, by trying less confident spans."""
    trials = []
    for share in (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5):
        span = share * loss.two_sided
        digit_plan = _shortest_over(spec, loss, digits, [(dense, min(max_bits, _TRIAL_ADDRESS_BITS))], options, (span,))
        trials.append((math.inf if digit_plan is None else digit_plan.count, -span))
    spans = tuple(-span for _, span in sorted(trials)[:2])
    best = _shortest_over(spec, loss, digits, [(dense, max_bits)], options, spans)
    if loss.span > loss.two_sided:
        # Near 0 the grid is fine, and a query on its own needs no gap the other way round.
        parts = (1.0, 0.9, 0.8, 0.6, 0.4, 0.2)
        single_query = _shortest_over(
            spec, loss, digits, [(dense, 0), (False, 0)], options, tuple(p * loss.span for p in parts)
        )
        best = _shortest([best, single_query])
    return best


def _plan_unbounded(
    spec: OracleSpec, loss: RowLoss, digits: np.ndarray, dense: bool, max_bits: int, options: _Options
) -> DigitPlan | None:
    """Plan for an unbounded loss: a larger span has more steps until its own float error eats them."""
    best = None
    # n losses must not overflow the oracle's floats; a loss without a bounded base grows like the gap's square.
    largest = math.log2(float(np.finfo(spec.float_dtype).max) / (8 * spec.n)) / (1 if loss.has_bounded_base else 2)
    centre, width = min(24.0, largest), 8.0
    while width >= 1:
        # Small blocks tell where the best span lies; large ones cost more to try and want it a little smaller.
        for exponent in (centre - 2 * width, centre - width, centre, centre + width, centre + 2 * width):
            if exponent > largest:
                continue
            code_types = [(dense, min(max_bits, _TRIAL_ADDRESS_BITS)), (False, 0)]
            digit_plan = _shortest_over(spec, loss, digits, code_types, options, (2.0**exponent,))
            if digit_plan is not None and (best is None or digit_plan.count < best.count):
                best, centre = digit_plan, exponent
        width /= 2
    code_types = [(dense, max_bits)] if max_bits > _TRIAL_ADDRESS_BITS else []
    spans = tuple(2.0 ** (centre - shift) for shift in range(4))
    return _shortest([best, _shortest_over(spec, loss, digits, code_types, options, spans)])
