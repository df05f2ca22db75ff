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

from divulge import seeds
from divulge.errors import InputError
from divulge.margin.odd_record import find_odd_record
from divulge.margin.published_regression import (
    MIN_EIGENVALUE,
    SECOND_ORDER,
    Cohort,
    Publication,
    add_intercept,
    bound_box_probability,
    bound_rate,
    fit_subset,
    join_cohorts,
    loss_derivatives,
)
from divulge.validation import check_instance, check_matrix, check_number, check_string, check_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.margin.odd_record import OddRecord
    from divulge.margin.published_regression import SubsetOptimum
    from divulge.types import Floats, Ints

MAX_COHORTS = 12
MAX_CHANCE = 1e-3
"""Largest chance that other records fit some subset with which one is named."""

_N_HIDING_DRAWS, _MAX_HIDDEN = 400, 1024  # draws of records that may hide, and most of them in one
_HIDING_SHARE = 0.05  # of the draws that are accepted, from which on so many records can hide
_N_COHORT_DRAWS = 20_000  # other cohorts that are drawn from the held records, to see how often counts collide
_MAX_DISTINCT = 128  # distinct records of which such draws may be made; of the others none may be drawn
_MIN_REPEATS = 4  # records of each row of values, on average, from which on their numbers may be by design


@dataclass(frozen=True, slots=True)
class SubsetFit:
    """How well the published coefficients are those of a subset of the cohorts.

    Args:
        cohorts: names of the subset.
        records: number of its records.
        distance: between its own coefficients and the published ones, in standard errors (root mean square).
        accepted: whether that is within rounding and optimiser.
        chance: at most, that another cohort of this size from the same population is accepted.
        penalty: with which it fits best; the given one where it is known.
        told_apart: number of records without any single one of which it would not be accepted; None if not accepted.
        hidden: about how many records more or fewer would in one case of 20 leave it accepted, a power of 2; None if
            not accepted.
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
        """Chance, at most, that some subset is accepted of coefficients that were fitted on another cohort."""
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

    A subset is accepted where its own fit lies within rounding and optimiser of the published numbers; where none does,
    those are tried that would if the numbers were cut off or rounded up. It holds also for training sets that differ
    from it by so few records that the decimals do not show them; `SubsetFit.told_apart` says for how many records one
    is too many.

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
    matches = []
    for variant in variants:
        matches.append(_compare_subsets(variant, tables, variants[-1].rounding))
        if matches[-1].accepted:  # however a number was rounded, what fits comes before records that may be missing
            return _add_collisions(variant, matches[-1], tables)
    # Where a record moves the columns of all others, or an unknown penalty takes up what it leaves, none can be read.
    if published.scaled or published.penalty is None:
        return _add_collisions(variants[0], matches[0], tables)
    subsets = [each.cohorts for each in matches[0].subsets if not each.undecided]
    for variant, match in zip(variants, matches, strict=True):
        odd_record = find_odd_record(variant, subsets, tables, len(variants))
        if odd_record is not None:
            return replace(_add_collisions(variant, match, tables), odd_record=odd_record)
    return _add_collisions(variants[0], matches[0], tables)


def _check_cohorts(published: Publication, data: Mapping[str, tuple[object, object]]) -> dict[str, Cohort]:
    """Return the cohorts as arrays; raise for what cannot be one."""
    check_instance(published, "published", Publication, "a divulge.margin.Publication")
    if not isinstance(data, Mapping):
        raise InputError(f"data: a mapping of names to x and y is needed, got {type(data).__name__}")
    if not 1 <= len(data) <= MAX_COHORTS:
        raise InputError(f"data: from 1 to {MAX_COHORTS} cohorts are needed, got {len(data)}")
    tables, d = {}, len(published.coefficients)
    for name, x_and_y in data.items():
        check_string(name, "data: the name of a cohort")
        if not isinstance(x_and_y, tuple | list) or len(x_and_y) != 2:
            raise InputError(f"data: cohort {name}: x and y are needed")
        x = check_matrix(x_and_y[0], f"data: cohort {name}: x")
        y = check_vector(x_and_y[1], f"data: cohort {name}: y", length=len(x))
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
    """Raise where columns are collinear over all cohorts, or the coefficients overflow on them."""
    design = add_intercept(published, x)
    norms = np.sqrt((design**2).sum(axis=0))
    if len(x) < design.shape[1]:
        return  # every subset is too small, which is said of each
    if (norms == 0).any() or np.linalg.eigvalsh((design / norms).T @ (design / norms))[0] < MIN_EIGENVALUE:
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
    longest = published.decimals if isinstance(published.decimals, int) else max(published.decimals)
    units = max(published.units, 1.0)
    variants = [replace(published, decimals=longest), published, replace(published, units=units)]
    return [
        each
        for place, each in enumerate(variants)
        if (each.decimals, each.units) not in {(before.decimals, before.units) for before in variants[:place]}
    ]


def _compare_subsets(published: Publication, tables: Mapping[str, Cohort], widest_rounding: Floats) -> CohortMatch:
    """Return how well each subset fits; ``widest_rounding`` is that of the last variant that is tried."""
    results = []
    for size in range(1, len(tables) + 1):
        for subset in itertools.combinations(tables, size):
            records = join_cohorts(tables, subset)
            n = len(records.y)
            optimum = fit_subset(published, records)
            if isinstance(optimum, str):
                results.append(SubsetFit(subset, n, np.inf, False, 0.0, np.nan, undecided=optimum))
                continue
            noise = max(optimum.residuals.std() if published.family == "linear" else 1.0, np.finfo(float).tiny)
            step = optimum.step
            distance = float(np.sqrt(step @ optimum.hessian @ step / len(step)) / noise)
            told_apart, hidden = None, None
            if optimum.is_accepted:
                told_apart, hidden = _count_told_apart(optimum, widest_rounding - published.rounding)
            chance = _bound_false_match(optimum)
            results.append(
                SubsetFit(subset, n, distance, optimum.is_accepted, chance, optimum.penalty, told_apart, hidden)
            )
    ordered = sorted(results, key=lambda each: (not each.accepted, each.distance, len(each.cohorts)))
    return CohortMatch(tuple(ordered), None, published.units, published.decimals)


def _bound_false_match(optimum: SubsetOptimum) -> float:
    """Bound the chance that another cohort of this size is accepted.

    Its coefficients spread as those of a sample do, by the model's own standard errors or the robust ones, whichever
    are smaller as a whole.
    """
    record_gradients = optimum.design * optimum.residuals[:, None]
    robust = optimum.inverse_hessian @ (record_gradients.T @ record_gradients) @ optimum.inverse_hessian
    transform, box = _eliminate_penalty(optimum)
    covariances = (optimum.inverse_hessian, robust)
    return max(bound_box_probability(transform @ covariance @ transform.T, box) for covariance in covariances)


def _eliminate_penalty(optimum: SubsetOptimum) -> tuple[Floats, Floats]:
    """Return the transform of coefficients that no penalty moves, ``[k, d]``, and half the widths of their box."""
    transform, box, slope = np.eye(len(optimum.box)), optimum.box, optimum.penalty_slope
    if slope is not None and np.abs(slope).max() > 0:
        pivot = int(np.argmax(np.abs(slope) / box))  # is eliminated: some penalty puts it anywhere
        ratio = slope / slope[pivot]
        transform = np.delete(transform - np.outer(ratio, np.eye(len(box))[pivot]), pivot, axis=0)
        box = np.delete(box + np.abs(ratio) * box[pivot], pivot)
    return transform, box


def _count_told_apart(optimum: SubsetOptimum, wider_rounding: Floats) -> tuple[int, int]:
    """Count the records without any single one of which a subset would not be accepted, and how many can hide.

    The box is the widest that is tried where narrower ones find nothing: by ``wider_rounding`` wider than this fit's.
    """
    shifts = (optimum.design * optimum.residuals[:, None]) @ optimum.inverse_hessian
    box = SECOND_ORDER * (optimum.box + wider_rounding)
    told_apart = int((~optimum.accepts(optimum.step + shifts, box)).sum())
    # Several records together move the coefficients by a sum of such shifts.
    n = len(shifts)
    draws = seeds.generator(0, "hidden records").integers(n, size=(_N_HIDING_DRAWS, _MAX_HIDDEN))
    hidden, count = 0, 1
    while count <= min(n, _MAX_HIDDEN):
        total_shifts = shifts[draws[:, :count]].sum(axis=1)
        if optimum.accepts(optimum.step + total_shifts, box).mean() < _HIDING_SHARE:
            break
        hidden, count = count, 2 * count
    return told_apart, hidden


def _add_collisions(published: Publication, match: CohortMatch, tables: Mapping[str, Cohort]) -> CohortMatch:
    """Raise the chances to those with which cohorts are alike because counts of few distinct records are the same.

    The fewer records, the more collide: of all subsets of as many cohorts the smallest stands for the others.
    """
    all_records, chances = join_cohorts(tables, tables), {}
    for each in sorted(match.subsets, key=lambda each: each.records):
        if not each.undecided and len(each.cohorts) not in chances:
            records = join_cohorts(tables, each.cohorts)
            optimum = fit_subset(published, records)
            if not isinstance(optimum, str):
                chances[len(each.cohorts)] = _bound_collisions(published, optimum, records, all_records)
    subsets = [replace(each, chance=max(each.chance, chances.get(len(each.cohorts), 0.0))) for each in match.subsets]
    return replace(match, subsets=tuple(subsets))


def _bound_collisions(published: Publication, optimum: SubsetOptimum, records: Cohort, all_records: Cohort) -> float:
    """Bound the chance that another cohort is accepted because counts of few distinct records are the same.

    Other cohorts are drawn from all held records, and again with the rows of values that this one has and other labels,
    as where a trial has as many in each arm. Each moves the coefficients by one Newton step of its own. Counted are
    those that are accepted, and the pairs of which one would be of the other; 0 where neither happens.

    Args:
        published: the coefficients.
        optimum: of the subset.
        records: of the subset.
        all_records: those of all cohorts.
    """
    x, x_all = records.x, all_records.x
    if published.scaled:
        center, spread = x.mean(axis=0), x.std(axis=0)
        x, x_all = (x - center) / spread, (x_all - center) / spread
    d, n = x.shape[1], len(x)
    distinct, counts = np.unique(np.c_[x_all, all_records.y], axis=0, return_counts=True)
    is_discrete, is_complete = 2 * len(counts) <= len(x_all), len(counts) <= _MAX_DISTINCT
    commonest = np.argsort(-counts, kind="stable")[:_MAX_DISTINCT]
    distinct, shares = distinct[commonest], counts[commonest] / len(x_all)
    drawn_share = float(min(shares.sum(), 1.0)) ** n  # chance that a cohort is drawn from these records alone
    rng, draws = seeds.generator(0, "other cohorts"), []
    if drawn_share**2 > 1e-9:
        draws.append((drawn_share, rng.multinomial(n, shares / shares.sum(), size=_N_COHORT_DRAWS)))
    rows, row_counts = np.unique(x, axis=0, return_counts=True)
    if is_complete and len(x) >= _MIN_REPEATS * len(rows):
        relabelled = np.zeros((_N_COHORT_DRAWS, len(distinct)), np.int64)
        for row, row_count in zip(rows, row_counts.tolist(), strict=True):
            has_row = np.flatnonzero((distinct[:, :d] == row).all(axis=1))
            label_shares = shares[has_row] / shares[has_row].sum()
            relabelled[:, has_row] = rng.multinomial(row_count, label_shares, size=_N_COHORT_DRAWS)
        draws.append((1.0, relabelled))
    return max(
        (
            _count_collisions(published, optimum, share, distinct, record_counts, is_discrete=is_discrete)
            for share, record_counts in draws
        ),
        default=0.0,
    )


def _count_collisions(
    published: Publication,
    optimum: SubsetOptimum,
    drawn_share: float,
    distinct: Floats,
    record_counts: Ints,
    *,
    is_discrete: bool,
) -> float:
    """Bound the rate at which cohorts are accepted, of which ``record_counts`` say how often each has which record.

    Args:
        published: the coefficients.
        optimum: of the subset.
        drawn_share: share of cohorts that are of these records alone.
        distinct: values and label of the records, ``[m, d + 1]``.
        record_counts: ``[k, m]``.
        is_discrete: whether none among all these pairs is too few to say that there are none.
    """
    design, mask = add_intercept(published, distinct[:, :-1]), published.penalised
    n = int(record_counts[0].sum())
    penalty = optimum.penalty * (n if published.family == "poisson" else 1)
    residuals, weights = loss_derivatives(published.family, design @ published.theta, distinct[:, -1])
    gradients = record_counts @ (design * residuals[:, None]) + penalty * mask * published.theta
    record_hessians = (design[:, :, None] * design[:, None, :] * weights[:, None, None]).reshape(len(distinct), -1)
    hessians = (record_counts @ record_hessians).reshape(-1, *[design.shape[1]] * 2) + penalty * np.diag(mask)
    scale = np.sqrt(np.maximum(np.diag(optimum.hessian), np.finfo(float).tiny))
    # Cohorts in which a column is constant have no fit; the jitter makes their steps long.
    scaled_hessians = hessians / scale / scale[:, None] + 1e-12 * np.eye(len(scale))
    try:
        steps = -np.linalg.solve(scaled_hessians, (gradients / scale)[:, :, None])[:, :, 0] / scale
    except np.linalg.LinAlgError:
        return 1.0  # beside one record all others are lost, and nothing bounds where such cohorts lie
    n_accepted = int(optimum.accepts(steps, optimum.box).sum())
    transform, box = _eliminate_penalty(optimum)
    if not len(box):
        return 1.0
    chance = drawn_share * bound_rate(n_accepted, len(steps)) if n_accepted else 0.0
    # Two draws of which one would be of the other have the same place in a grid of boxes.
    places = np.floor(np.clip(steps @ transform.T / (2 * box), -1e15, 1e15) + 0.25).astype(np.int64)
    factors = seeds.generator(0, "factors of a hash").integers(2**62, size=places.shape[1]) * 2 + 1
    keys = (places * factors).sum(axis=1)  # overflows, as a hash may
    _, group, group_size = np.unique(keys, return_inverse=True, return_counts=True)
    n_twins = (group_size[group] - 1).astype(float)  # of each draw, those that it is accepted for
    if n_twins.any() or is_discrete:
        n_draws = len(steps)
        pair_rate = (n_twins.mean() + 4 * n_twins.std() / n_draws**0.5 + 8 / n_draws) / (n_draws - 1)
        # Where the published numbers are likely ones, more than on average collide, by the normal law so many times.
        chance = max(chance, drawn_share**2 * float(pair_rate) * 2.0 ** (len(box) / 2))
    return float(min(1.0, chance))
