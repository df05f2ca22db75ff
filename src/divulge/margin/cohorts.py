"""Which cohorts a published regression was fitted on, by the equation that its coefficients solve.

A penalised maximum-likelihood fit is the one point where the gradient over its training set is 0. So published
coefficients fit a set of records or they do not, up to their decimals and to what the optimiser left; another cohort of
that size hardly ever fits (the idea of arXiv 2602.06110, with a bounded chance).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge import seeds
from divulge.errors import InputError
from divulge.margin.odd_record import find_odd_record
from divulge.margin.published_regression import (
    Cohort,
    Publication,
    add_intercept,
    bound_box_probability,
    bound_rate,
    fit_subset,
    invert_hessian,
    join_cohorts,
    leave_out_each,
    loss_derivatives,
)
from divulge.validation import check_instance, check_matrix, check_number, check_string, check_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.margin.odd_record import OddRecord
    from divulge.margin.published_regression import SubsetOptimum
    from divulge.types import Bools, Floats, Ints

MAX_COHORTS = 12
MAX_CHANCE = 1e-3
"""Largest chance that other records fit some subset with which one is named."""

_N_EXAMINED = 16  # accepted subsets of which single records are examined, the nearest first
_N_REFITTED = 400_000  # records that are refitted for these of one subset, all in all
_N_HIDING_DRAWS, _N_SUMMED = 400, 64  # draws of records that may hide, and so many from which on their sum is normal
_HIDING_SHARE = 0.05  # of the draws that are accepted, from which on so many records can hide
_N_COHORT_DRAWS, _N_DRAWN = 20_000, 2_000_000  # other cohorts that are drawn, and numbers that are drawn for them
_MAX_DISTINCT = 128  # distinct records of which other cohorts may be drawn; of the others none may be drawn
_MIN_COUNTED = 20  # draws that are the same, from which on they are counted by themselves
_MAX_MEAN_COUNT = 1e15  # of a Poisson label; larger ones are no whole numbers any more


@dataclass(frozen=True, slots=True)
class SubsetFit:
    """How well the published coefficients are those of a subset of the cohorts.

    Args:
        cohorts: names of the subset.
        records: number of its records.
        distance: between its own coefficients and the published ones, in standard errors (root mean square).
        accepted: whether that is within rounding and optimiser.
        chance: about, and at most, with which another cohort of this size from the same population fits as closely: by
            the normal law of its coefficients, and by draws of records and labels.
        penalty: with which it fits best; the given one where it is known.
        told_apart: number of records without any single one of which it would not be accepted, however the numbers may
            have been rounded, at least; None where that is not examined.
        hidden: about how many records more or fewer would in one case of 20 leave it accepted, however the numbers may
            have been rounded: a power of 2, up to the number of records. By sums of the shifts without a single record.
            None where that is not examined.
        undecided: why nothing can be said of it; empty where something can.
    """

    cohorts: tuple[str, ...]
    records: int
    distance: float
    accepted: bool
    chance: float
    penalty: float
    told_apart: int | None = None
    hidden: int | None = None
    undecided: str = ""

    def __post_init__(self) -> None:
        check_number(self.chance, "chance", above=0, below=1, closed=True)


@dataclass(frozen=True, slots=True)
class CohortMatch:
    """The subsets of some cohorts whose fit a publication may be.

    Args:
        subsets: every subset, those that are accepted first, then by distance.
        odd_record: the record by which training set and a subset differ, where no subset is accepted and one can be
            read off.
        units: rounding error that was allowed, in units of the last decimal.
        decimals: that were allowed for.
    """

    subsets: tuple[SubsetFit, ...]
    odd_record: OddRecord | None
    units: float
    decimals: int | Sequence[int] | None = None

    @property
    def accepted(self) -> tuple[SubsetFit, ...]:
        """The subsets that fit."""
        return tuple(each for each in self.subsets if each.accepted)

    @property
    def chance(self) -> float:
        """Chance, about and at most, that coefficients of another cohort fit some subset as closely as this."""
        return min(1.0, sum(each.chance for each in self.subsets))

    @property
    def match(self) -> SubsetFit | None:
        """The one subset that fits, if no other does, none is undecided, and that is hardly ever chance."""
        accepted = self.accepted
        return accepted[0] if len(accepted) == 1 and self.certain else None

    @property
    def certain(self) -> tuple[str, ...]:
        """Cohorts of every subset that fits, if no subset is undecided, and a fit is hardly ever chance."""
        accepted = self.accepted
        if not accepted or self.chance > MAX_CHANCE or any(each.undecided for each in self.subsets):
            return ()
        return tuple(name for name in accepted[0].cohorts if all(name in each.cohorts for each in accepted))


def cohorts(published: Publication, data: Mapping[str, tuple[object, object]]) -> CohortMatch:
    """Find the subsets of cohorts that a published regression can have been fitted on.

    A subset is accepted where its own fit lies within rounding and optimiser of the published numbers. How these were
    rounded is taken from the closest way in which those subsets fit that fit in any: to as many decimals as the longest
    has, to as many as each has, or cut off. An accepted subset stands also for training sets that differ from it by so
    few records that the decimals do not show them; `SubsetFit.told_apart` says for how many records one is too many.

    Args:
        published: the coefficients, their columns in the order of ``x``.
        data: name of each cohort → its ``x`` ``[n, d]`` and ``y`` ``[n]``; at most `MAX_COHORTS`.

    Raises:
        divulge.InputError: no or too many cohorts, other columns, labels that are none of the family, columns that are
            collinear over all cohorts, coefficients that overflow on these records.

    References:
        arXiv 2602.06110.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> data = {name: (x := rng.normal(size=(50, 2)), x @ [1.0, 2.0] + rng.normal(size=50)) for name in "abc"}
        >>> x, y = (np.concatenate([data[name][part] for name in "ac"]) for part in (0, 1))
        >>> fitted = np.linalg.lstsq(np.c_[x, np.ones(100)], y, rcond=None)[0].round(4)
        >>> cohorts(Publication(fitted[:2], fitted[2], "linear", decimals=4), data).match.cohorts
        ('a', 'c')
    """
    tables = _check_cohorts(published, data)
    _check_columns(published, join_cohorts(tables, tables).x)
    variants = _list_variants(published)
    matches, odd_record = _compare_subsets(variants, tables), None
    accepted = [{each.cohorts for each in match.accepted} for match in matches]
    place = accepted.index(accepted[-1])  # "only this one fits" shall hold however the numbers were rounded
    # Where a record moves the columns of all others, or an unknown penalty takes up what it leaves, none can be read.
    if not accepted[-1] and not published.scaled and published.penalty is not None:
        subsets = [each.cohorts for each in matches[0].subsets if not each.undecided]
        for number, variant in enumerate(variants):
            odd_record = find_odd_record(variant, subsets, tables, len(variants))
            if odd_record is not None:
                place = number
                break
    subsets = _examine_single_records(variants[-1], matches[place].subsets, tables)
    return replace(matches[place], subsets=_add_collisions(variants[place], subsets, tables), odd_record=odd_record)


def _check_cohorts(published: Publication, data: Mapping[str, tuple[object, object]]) -> dict[str, Cohort]:
    """Return the cohorts as arrays; raise for what cannot be one."""
    check_instance(published, "published", Publication, "a divulge.margin.Publication")
    if not isinstance(data, Mapping):
        raise InputError(f"data: a mapping of names to x and y is needed, got {type(data).__name__}")
    if not 1 <= len(data) <= MAX_COHORTS:
        raise InputError(f"data: from 1 to {MAX_COHORTS} cohorts are needed, got {len(data)}")
    is_zero = (published.coefficients == 0) & (published.rounding[: len(published.coefficients)] < 1e-5)
    if is_zero.any():
        raise InputError(
            f"coefficients: {int(is_zero.sum())} are exactly 0 to 5 decimals or more, as an L1 penalty makes them; "
            "only fits without one are solved by an equation that can be checked (leave out columns that "
            "were not fitted)"
        )
    tables, d = {}, len(published.coefficients)
    for name, x_and_y in data.items():
        check_string(name, "data: the name of a cohort")
        if not isinstance(x_and_y, tuple | list) or len(x_and_y) != 2:
            raise InputError(f"data: cohort {name}: x and y are needed")
        x = check_matrix(x_and_y[0], f"data: cohort {name}: x").astype(float)
        y = check_vector(x_and_y[1], f"data: cohort {name}: y", length=len(x)).astype(float)
        if x.shape[1] != d:
            raise InputError(
                f"data: cohort {name}: {d} columns are needed, as there are coefficients, got {x.shape[1]}"
            )
        if published.family == "logistic" and not np.isin(y, (0, 1)).all():
            raise InputError(f"data: cohort {name}: labels 0 and 1 are needed for logistic regression")
        if published.family == "poisson" and ((y < 0).any() or (y % 1 != 0).any()):
            raise InputError(f"data: cohort {name}: counts (whole numbers from 0) are needed for Poisson regression")
        tables[name] = Cohort(x, y)
    return tables


def _check_columns(published: Publication, x: Floats) -> None:
    """Raise where columns, as they are fitted, are collinear over all cohorts, or the coefficients overflow on them."""
    if published.scaled:
        spread = x.std(axis=0)
        x = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    design = add_intercept(published, x)
    if len(x) < design.shape[1]:
        return  # every subset is too small, which is said of each
    penalty = (published.penalty or 0.0) * (len(x) if published.family == "poisson" else 1)
    if invert_hessian(design.T @ design + penalty * np.diag(published.penalised)) is None:
        raise InputError(
            "data: columns are collinear (one is a sum of others, or constant beside an intercept), so many "
            "coefficients fit equally well; leave such columns out of fit and file"
        )
    if published.family == "poisson" and not published.scaled:
        with np.errstate(over="ignore"):
            if not np.isfinite(np.exp(design @ published.theta)).all():
                raise InputError("coefficients: they overflow on these records; are columns coded as in the fit?")


def _list_variants(published: Publication) -> list[Publication]:
    """Return how the numbers may have been rounded, the closest first; each allows all that those before it do."""
    if published.decimals is None:
        return [published]
    # Zeros at the end may have been dropped: then all were rounded to as many decimals as the longest has.
    variants = [
        replace(published, decimals=int(np.max(published.decimals))),
        published,
        replace(published, units=max(published.units, 1.0)),
    ]
    return list({tuple(each.rounding): each for each in reversed(variants)}.values())[::-1]


def _compare_subsets(variants: Sequence[Publication], tables: Mapping[str, Cohort]) -> list[CohortMatch]:
    """Return how well each subset fits, for each way in which the numbers may have been rounded."""
    results: list[list[SubsetFit]] = [[] for _ in variants]
    for size in range(1, len(tables) + 1):
        for subset in itertools.combinations(tables, size):
            records = join_cohorts(tables, subset)
            n, optimum = len(records.y), fit_subset(variants[0], records, variants[-1])
            if isinstance(optimum, str):
                for fits in results:
                    fits.append(SubsetFit(subset, n, np.inf, False, 0.0, np.nan, undecided=optimum))
                continue
            noise = max(optimum.residuals.std() if variants[0].family == "linear" else 1.0, np.finfo(float).tiny)
            step = optimum.step
            distance = float(np.sqrt(step @ optimum.hessian @ step / len(step)) / noise)
            # Its coefficients spread as those of a sample do, by the model's own standard errors or the robust ones.
            gradients, inverse = optimum.record_gradients, optimum.inverse_hessian
            covariances = (inverse * noise**2, inverse @ (gradients.T @ gradients) @ inverse)
            for variant, fits in zip(variants, results, strict=True):
                widened = replace(optimum, box=optimum.box + variant.rounding - variants[0].rounding)
                transform, box = _eliminate_penalty(widened)
                chance = max(bound_box_probability(transform @ each @ transform.T, box) for each in covariances)
                fits.append(SubsetFit(subset, n, distance, widened.is_accepted, chance, optimum.penalty))
    return [
        CohortMatch(
            tuple(sorted(fits, key=lambda each: (not each.accepted, each.distance, len(each.cohorts)))),
            None,
            variant.units,
            variant.decimals,
        )
        for variant, fits in zip(variants, results, strict=True)
    ]


def _eliminate_penalty(optimum: SubsetOptimum) -> tuple[Floats, Floats]:
    """Return the transform of coefficients that no penalty moves, ``[k, d]``, and half the widths of their box."""
    transform, box, slope = np.eye(len(optimum.box)), optimum.box, optimum.penalty_slope
    if slope is not None and np.abs(slope).max() > 0:
        pivot = int(np.argmax(np.abs(slope) / box))  # is eliminated: some penalty puts it anywhere
        ratio = slope / slope[pivot]
        transform = np.delete(transform - np.outer(ratio, np.eye(len(box))[pivot]), pivot, axis=0)
        box = np.delete(box + np.abs(ratio) * box[pivot], pivot)
    return transform, box


def _examine_single_records(
    widest: Publication, subsets: Sequence[SubsetFit], tables: Mapping[str, Cohort]
) -> list[SubsetFit]:
    """Count, of accepted subsets, the records that are told apart by the widest rounding, and those that can hide."""
    examined = []
    for place, each in enumerate(subsets):
        examined.append(each)
        if each.accepted and place < _N_EXAMINED:  # those that are accepted come first
            records = join_cohorts(tables, each.cohorts)
            optimum = fit_subset(widest, records)
            if not isinstance(optimum, str):
                shifts, errors = leave_out_each(widest, optimum)
                told_apart = _count_told_apart(widest, records, optimum, shifts, errors)
                examined[-1] = replace(each, told_apart=told_apart, hidden=_count_hidden(optimum, shifts))
    return examined


def _count_told_apart(
    published: Publication, records: Cohort, optimum: SubsetOptimum, shifts: Floats, errors: Floats
) -> int:
    """Count the records without any single one of which a subset would not be accepted.

    Where one Newton step leaves that open, the others are fitted again, the farthest first, for as many as time allows;
    a record that is still open then does not count.
    """
    if optimum.penalty_slope is not None:
        errors = errors + _bound_penalty_errors(published, optimum, shifts)
    is_known: Bools = np.all(np.isfinite(shifts), axis=1)
    steps = optimum.step + np.where(is_known[:, None], shifts, 0.0)
    is_told_apart = is_known & ~optimum.accepts(steps, optimum.box + errors)
    is_open = ~is_told_apart & ~(is_known & optimum.accepts(steps, optimum.box))
    farthest = np.argsort(-np.abs(steps / optimum.box).max(axis=1) * is_open, kind="stable")[: is_open.sum()]
    for row in farthest[: _N_REFITTED // len(steps)].tolist():
        others = fit_subset(published, Cohort(np.delete(records.x, row, axis=0), np.delete(records.y, row)))
        is_told_apart[row] = not isinstance(others, str) and not others.is_accepted
    return int(is_told_apart.sum())


def _bound_penalty_errors(published: Publication, optimum: SubsetOptimum, shifts: Floats) -> Floats:
    """Bound by how much an unknown penalty moves the coefficients otherwise than along its slope, ``[n, d]``.

    Of all penalties those count that bring the coefficient that it moves most back into its box.
    """
    slope, spreads = optimum.penalty_slope, np.sqrt(np.diag(optimum.inverse_hessian))
    if slope is None or not np.abs(slope).max() > 0:
        return np.zeros_like(shifts)
    pivot = int(np.argmax(np.abs(slope) / optimum.box))
    change = (np.abs(optimum.step[pivot] + shifts[:, pivot]) + optimum.box[pivot]) / np.abs(slope[pivot])
    factor = len(shifts) if published.family == "poisson" else 1
    curvature = change * factor * float((published.penalised * spreads**2).sum())
    predictor_change = change * float(np.abs(optimum.design @ slope).max())
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        relative = np.where(curvature < 0.5, curvature / (1 - curvature) + np.expm1(predictor_change), np.inf)
    # A tenth stands for what a record itself changes in the slope.
    own_change = 0.1 * (np.abs(optimum.step + shifts) + optimum.box)
    return (relative * change * float(np.sqrt(slope @ optimum.hessian @ slope)))[:, None] * spreads + own_change


def _count_hidden(optimum: SubsetOptimum, shifts: Floats) -> int:
    """Return about how many records more or fewer leave a subset accepted in one case of 20, a power of 2.

    Several move the coefficients by a sum of what each of them does, and by the less, the more records there are.
    """
    n = len(shifts)
    shifts = np.where(np.isfinite(shifts), shifts, 1e6 * optimum.box)
    rng, mean = seeds.generator(0, "hidden records"), shifts.mean(axis=0)
    draws = rng.integers(n, size=(_N_HIDING_DRAWS, _N_SUMMED))
    # Sums of many are normal: of a spread as that of random combinations of all.
    factor = np.linalg.qr((shifts - mean) / n**0.5, mode="r")
    normal = rng.normal(size=(_N_HIDING_DRAWS, len(factor))) @ factor
    hidden, count = 0, 1
    while count <= n:
        sums = shifts[draws[:, :count]].sum(axis=1) if count <= _N_SUMMED else count * mean + count**0.5 * normal
        if optimum.accepts(optimum.step + sums * n / (n + count), optimum.box).mean() < _HIDING_SHARE:
            break
        hidden, count = count, 2 * count
    return hidden


def _add_collisions(
    published: Publication, subsets: Sequence[SubsetFit], tables: Mapping[str, Cohort]
) -> tuple[SubsetFit, ...]:
    """Raise chances to those with which another cohort has the same coefficients because its sums are the same.

    The normal law does not know of sums of few distinct values. Of several cohorts they spread more than of each: by
    Minkowski's inequality determinants of their covariances, to the power of 1 / d, add at least. One that has but one
    sum adds nothing.
    """
    all_records, chances = join_cohorts(tables, tables), {}
    for name, records in tables.items():
        optimum = fit_subset(published, records)
        chances[name] = 1.0 if isinstance(optimum, str) else _bound_collisions(published, optimum, records, all_records)
    power, raised = max(len(published.theta) - (published.penalty is None), 1) / 2, []
    for each in subsets:
        spreads = [chances[name] ** (-1 / power) - 1 if chances[name] else np.inf for name in each.cohorts]
        chance = max(each.chance, float((1 + sum(spreads)) ** -power))
        raised.append(each if each.undecided else replace(each, chance=chance))
    return tuple(raised)


def _bound_collisions(published: Publication, optimum: SubsetOptimum, records: Cohort, all_records: Cohort) -> float:
    """Bound the chance that another cohort like this one has its coefficients because its sums are the same.

    Three are drawn: one with the same rows of values and labels of the model, as where a trial is laid out as this one
    was; one of records of all cohorts; and, where few of this one's are distinct, one of its own records.

    Args:
        published: the coefficients.
        optimum: of the cohort.
        records: of the cohort.
        all_records: those of all cohorts.
    """
    x, x_all = records.x, all_records.x
    if published.scaled:
        center, spread = x.mean(axis=0), x.std(axis=0)
        x, x_all = (x - center) / spread, (x_all - center) / spread
    chance = 0.0
    rows, row_sizes = np.unique(add_intercept(published, x), axis=0, return_counts=True)
    sums = _draw_sums(published, optimum, rows, row_sizes, records.y)
    if sums is not None:
        if not np.isfinite(sums).all():
            return 1.0  # beside one record all others are lost, and nothing bounds where such cohorts lie
        chance = _bound_pair_rate(optimum, sums @ optimum.inverse_hessian, is_discrete=2 * len(rows) <= len(x))
    for values, labels in ((x_all, all_records.y), (x, records.y)):
        distinct, counts = np.unique(np.c_[values, labels], axis=0, return_counts=True)
        is_discrete = 2 * len(counts) <= len(labels)
        if values is x and not is_discrete:
            continue
        commonest = np.argsort(-counts, kind="stable")[:_MAX_DISTINCT]
        # The chance that two cohorts are drawn from these records alone.
        share = min(float(counts[commonest].sum() / len(labels)), 1.0) ** (2 * len(x))
        if share > 1e-9:
            steps = _draw_cohorts(published, optimum, distinct[commonest], counts[commonest], len(x))
            chance = max(chance, share * _bound_pair_rate(optimum, steps, is_discrete=is_discrete))
    return min(1.0, chance)


def _draw_sums(
    published: Publication, optimum: SubsetOptimum, rows: Floats, row_sizes: Ints, y: Floats
) -> Floats | None:
    """Draw labels of a cohort by the model of the coefficients, and return the sums of label times row, ``[k, d]``.

    None where labels of a linear fit lie on no grid: then no sums are the same. Not finite where a mean is too large.

    Args:
        published: the coefficients.
        optimum: of the cohort.
        rows: its distinct rows, as they are fitted, ``[m, d]``.
        row_sizes: number of records of each.
        y: its labels.
    """
    rng, n_draws = seeds.generator(0, "other labels"), _limit_draws(len(rows))
    predictor = rows @ (published.theta + np.clip(optimum.step, -optimum.box, optimum.box))
    places = np.round((y - y.min()) * 1e6)
    if np.abs((y - y.min()) * 1e6 - places).max() > 1e-3 or places.max() > 2**53:
        return None
    # Of a linear fit each row's sum is one of its smallest labels, and of a number of steps.
    step, noise = max(int(np.gcd.reduce(places.astype(np.int64))), 1) / 1e6, optimum.residuals.std()
    mean = {"logistic": special.expit, "poisson": np.exp, "linear": lambda at: at - y.min()}[published.family](
        np.minimum(predictor, 700)
    )
    if published.family == "poisson" and mean.max() * row_sizes.max() > _MAX_MEAN_COUNT:
        return np.full((n_draws, rows.shape[1]), np.inf)
    sums, block = np.zeros((n_draws, rows.shape[1])), np.empty((max(_N_DRAWN // n_draws, 1), n_draws))
    for start in range(0, len(rows), len(block)):
        part = slice(start, start + len(block))
        for place, (size, row_mean) in enumerate(zip(row_sizes[part].tolist(), mean[part].tolist(), strict=True)):
            if published.family == "linear":
                draws = size * row_mean + size**0.5 * noise * rng.standard_normal(n_draws)
                block[place] = step * np.round(draws / step)
            elif published.family == "poisson":
                block[place] = rng.poisson(size * row_mean, n_draws)
            else:
                block[place] = rng.binomial(size, row_mean, n_draws) if size > 1 else rng.random(n_draws) < row_mean
        sums += block[: len(rows[part])].T @ rows[part]
    return sums


def _draw_cohorts(published: Publication, optimum: SubsetOptimum, distinct: Floats, counts: Ints, n: int) -> Floats:
    """Draw cohorts of ``n`` of these records, and return the Newton step of each, ``[k, d]``.

    Args:
        published: the coefficients.
        optimum: of a subset.
        distinct: values and label of the records, ``[m, d + 1]``.
        counts: how often each is drawn, ``[m]``, in proportion.
        n: number of records of each cohort.
    """
    design, mask = add_intercept(published, distinct[:, :-1]), published.penalised
    penalty = optimum.penalty * (n if published.family == "poisson" else 1)
    size = _limit_draws(max(len(distinct), design.shape[1] ** 2))
    rng = seeds.generator(0, "other cohorts")
    if n <= 2 * len(distinct):  # few records of each: to draw every record is many times as fast as a multinomial
        owners = np.repeat(np.arange(len(distinct)), counts)
        places = owners[rng.integers(len(owners), size=(size, n))]
        places += len(distinct) * np.arange(size)[:, None]
        drawn = np.bincount(places.ravel(), minlength=size * len(distinct)).reshape(size, -1)
    else:
        drawn = rng.multinomial(n, counts / counts.sum(), size=size)
    residuals, weights = loss_derivatives(published.family, design @ published.theta, distinct[:, -1])
    record_hessians = (design[:, :, None] * design[:, None, :] * weights[:, None, None]).reshape(len(distinct), -1)
    sums = drawn.astype(np.float64) @ np.c_[design * residuals[:, None], record_hessians]
    gradients = sums[:, : design.shape[1]] + penalty * mask * published.theta
    hessians = sums[:, design.shape[1] :].reshape(-1, *[design.shape[1]] * 2) + penalty * np.diag(mask)
    scale = np.sqrt(np.maximum(np.diag(optimum.hessian), np.finfo(float).tiny))
    # Cohorts in which a column is constant have no fit; the jitter makes their steps long.
    scaled_hessians = hessians / scale / scale[:, None] + 1e-12 * np.eye(len(scale))
    try:
        return -np.linalg.solve(scaled_hessians, (gradients / scale)[:, :, None])[:, :, 0] / scale
    except np.linalg.LinAlgError:  # beside one record all others are lost: all are taken to be alike
        return np.zeros_like(gradients)


def _limit_draws(n_numbers: int) -> int:
    """Return how many cohorts to draw of so many numbers each."""
    return int(np.clip(_N_DRAWN // n_numbers, 400, _N_COHORT_DRAWS))


def _bound_pair_rate(optimum: SubsetOptimum, steps: Floats, *, is_discrete: bool) -> float:
    """Bound the rate at which cohorts have the coefficients of a given one, by drawn ones that have one another's.

    Args:
        optimum: of the subset, in whose box coefficients are the same.
        steps: of the coefficients of the drawn cohorts, ``[k, d]``.
        is_discrete: whether none among all their pairs is too few to say that there are none.
    """
    transform, box = _eliminate_penalty(optimum)
    if not len(box):
        return 1.0
    # Two draws of which one would be of the other have the same place in a grid of boxes, 0 at no edge of it.
    places = np.floor(np.clip(steps @ transform.T / (2 * box), -1e15, 1e15) + 0.25).astype(np.int64)
    factors = seeds.generator(0, "factors of a hash").integers(2**62, size=places.shape[1]) * 2 + 1
    keys = (places * factors).sum(axis=1)  # overflows, as a hash may
    _, group, group_sizes = np.unique(keys, return_inverse=True, return_counts=True)
    n_twins, n_draws = (group_sizes[group] - 1).astype(float), len(steps)
    if not n_twins.any() and not is_discrete:
        return 0.0
    pair_rate = float(n_twins.mean() + 4 * n_twins.std() / n_draws**0.5 + 8 / n_draws) / (n_draws - 1)
    # The given one may be a likely one: by the normal law so many times as likely as those drawn are on average.
    rate, largest = pair_rate * 2.0 ** (len(box) / 2), int(group_sizes.max())
    return min(1.0, rate if largest < _MIN_COUNTED else max(rate, bound_rate(largest, n_draws)))
