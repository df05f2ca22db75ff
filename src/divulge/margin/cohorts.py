"""Which cohorts a published regression was fitted on, by the equation that its coefficients solve.

A penalised maximum-likelihood fit is the one point where the gradient over its training set is 0. So published
coefficients fit a set of records or they do not, up to their decimals and to what the optimiser left; another cohort of
that size hardly ever fits (the idea of arXiv 2602.06110, with a bounded chance).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import optimize, spatial, special

from divulge import seeds
from divulge.errors import InputError
from divulge.validation import (
    check_bool,
    check_choice,
    check_instance,
    check_integer,
    check_matrix,
    check_number,
    check_string,
    check_vector,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Bools, Floats, Ints

Family: TypeAlias = Literal["logistic", "linear", "poisson"]
FAMILIES: tuple[Family, ...] = ("logistic", "linear", "poisson")
MAX_COHORTS = 12
MAX_CHANCE = 1e-3
"""Largest chance that other records fit some subset with which one is named."""
MAX_MISTAKE = 0.005
"""Largest chance that another difference looks like one record with which that is named."""

_NEAR = 20.0  # boxes from the published coefficients, by one Newton step, within which a subset is solved exactly
_MIN_EIGENVALUE = 1e-9  # of the Hessian in units of its diagonal; below, columns are collinear
_SUM_ERROR = 1e-12
_FLOAT_ERROR = 1e-9  # relative, of coefficients at all decimals
_MAX_STEPS = 50
_LONGEST_STEP = 2.0  # of a linear predictor
_SECOND_ORDER = 1.1  # what one record more changes in linear bounds of gradients
_N_TRIALS, _MAX_HIDDEN, _HIDDEN_SHARE = 400, 1024, 0.05
_MAX_CANDIDATES = 64  # records between which the coefficients with each of them decide
_MAX_ERROR = 0.05  # of a value that is read, in standard deviations of its column
_N_DRAWS = 20_000  # of other differences, of each kind, to see how often they look like one record
_MAX_EXACT = 300  # differences that are held to one rounding of all numbers
_N_GROUPS, _GROUP = 500, 30  # of records, to see which columns they differ in
_DENSITY = 0.5  # largest density, per unit of the linear predictor, of a record that is none


@dataclass(frozen=True, slots=True)
class Publication:
    """Published coefficients, and how they were fitted.

    Args:
        coefficients: of ``d`` columns, ``[d]``.
        intercept: None for a fit without one.
        family: "logistic" (labels 0 and 1), "linear" or "poisson" (log link).
        decimals: of coefficients and intercept, or of each of them (coefficients first); None where all digits are
            given.
        penalty: factor of half the squared coefficients beside the summed loss of the records (scikit-learn's 1 / C,
            Ridge's alpha); of "poisson" beside the mean loss (PoissonRegressor's alpha). None where it is not known.
        scaled: whether columns were scaled to mean 0 and standard deviation 1 over the training set.
        penalises_intercept: whether the penalty holds for the intercept, too.
        units: largest rounding error in units of the last decimal: 0.5 for numbers that were rounded to the nearest, 1
            for those that may have been cut off or rounded up.
        gradient: largest entry of the mean gradient at which the optimiser may have stopped. None for 1e-4, as
            scikit-learn's iterative solvers do by default, and 0 for "linear".
    """

    coefficients: Floats
    intercept: float | None
    family: Family = "logistic"
    decimals: int | Sequence[int] | None = None
    penalty: float | None = 0.0
    scaled: bool = False
    penalises_intercept: bool = False
    units: float = 0.5
    gradient: float | None = None

    def __post_init__(self) -> None:
        coefficients = check_vector(self.coefficients, "coefficients")
        if not len(coefficients):
            raise InputError("coefficients: at least 1 is needed")
        object.__setattr__(self, "coefficients", coefficients)
        if self.intercept is not None:
            object.__setattr__(self, "intercept", check_number(self.intercept, "intercept"))
        check_choice(self.family, "family", FAMILIES)
        if self.decimals is not None:
            object.__setattr__(self, "decimals", _check_decimals(self.decimals, len(self.theta)))
        if self.penalty is not None:
            check_number(self.penalty, "penalty", above=0, closed=True, below=np.inf)
        check_bool(self.scaled, "scaled")
        check_bool(self.penalises_intercept, "penalises_intercept")
        check_number(self.units, "units", above=0, below=10)
        if self.gradient is not None:
            check_number(self.gradient, "gradient", above=0, closed=True, below=np.inf)
        is_zero = (coefficients == 0) & (self.rounding[: len(coefficients)] < 1e-3)
        if is_zero.any():
            raise InputError(
                f"coefficients: {int(is_zero.sum())} are exactly 0, as an L1 penalty makes them; only fits "
                "without one are solved by an equation that can be checked (leave out columns that were not fitted)"
            )

    @property
    def theta(self) -> Floats:
        """Coefficients and, last, the intercept where there is one."""
        return self.coefficients if self.intercept is None else np.append(self.coefficients, self.intercept)

    @property
    def rounding(self) -> Floats:
        """Largest distance of each published number from the fitted one, ``[d]``."""
        if self.decimals is None:
            return _FLOAT_ERROR * np.maximum(np.abs(self.theta), 1e-3)
        # The last digits of a float add to a number that ends just at the edge.
        decimals = np.broadcast_to(np.array(self.decimals, float), len(self.theta))
        return self.units * 10.0**-decimals * (1 + 1e-9)

    @property
    def largest_gradient(self) -> float:
        """`gradient`, or its default."""
        return self.gradient if self.gradient is not None else 0.0 if self.family == "linear" else 1e-4

    @property
    def penalised(self) -> Floats:
        """1 for each number that the penalty holds for, else 0."""
        mask = np.ones(len(self.theta))
        if self.intercept is not None and not self.penalises_intercept:
            mask[-1] = 0.0
        return mask


def _check_decimals(decimals: int | Sequence[int], count: int) -> int | tuple[int, ...]:
    if not isinstance(decimals, list | tuple):
        return check_integer(decimals, "decimals", minimum=0, maximum=15)  # ty: ignore[invalid-argument-type]
    if len(decimals) != count:
        raise InputError(f"decimals: one number, or {count}, are needed, got {len(decimals)}")
    return tuple(check_integer(each, "decimals", minimum=0, maximum=15) for each in decimals)


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


@dataclass(frozen=True, slots=True)
class OddRecord:
    """The one record by which a training set and a subset of the cohorts differ.

    Args:
        cohorts: names of the subset.
        missing: True for a record that was trained on and is in none of these cohorts, False for one of theirs that was
            not trained on.
        x: its values, ``[d]``.
        y: its label.
        error: largest error of each value, ``[d]``; 0 where it stands in a cohort.
        row: of a record of the cohorts, its place among them, counted from 0.
        chance: at most, that another difference is taken for it.
    """

    cohorts: tuple[str, ...]
    missing: bool
    x: Floats
    y: float
    error: Floats
    row: int | None
    chance: float


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


@dataclass(frozen=True, slots=True)
class _Fit:
    """The optimum of a subset near the published coefficients."""

    step: Floats  # from the published coefficients to those of the subset, where the penalty fits best
    hessian: Floats
    inverse: Floats
    box: Floats
    free: Floats | None  # derivative of the coefficients by the penalty, where that is fitted
    penalty: float
    design: Floats
    residuals: Floats

    @property
    def is_accepted(self) -> bool:
        return bool(_fits_box(self.step[None], self.box, self.free, self.penalty)[0])


def cohorts(published: Publication, data: Mapping[str, tuple[object, object]]) -> CohortMatch:
    """Find the subsets of cohorts that a published regression can have been fitted on.

    A subset is accepted where its own fit lies within rounding and optimiser of the published numbers; where none does,
    those are tried that would if the numbers were cut off or rounded up. It holds also
    for training sets that differ from it by so few records that the decimals do not show them; `SubsetFit.told_apart`
    says for how many records one is too many.

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
    names, tables = _check_cohorts(published, data)
    _check_columns(published, tables)
    variants = _list_variants(published)
    matches = []
    for variant in variants:
        matches.append(_try_subsets(variant, names, tables))
        if matches[-1].accepted:  # however a number was rounded, what fits comes before records that may be missing
            return matches[-1]
    if published.scaled or published.penalty is None:
        return matches[0]
    subsets = [(each.cohorts, _join(names, tables, each.cohorts)) for each in matches[0].subsets if not each.undecided]
    for variant, match in zip(variants, matches, strict=True):
        odd_record = _find_odd_record(variant, subsets, tables, len(variants))
        if odd_record is not None:
            return replace(match, odd_record=odd_record)
    return matches[0]


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
        if (each.decimals, each.units) not in {(other.decimals, other.units) for other in variants[:place]}
    ]


def _join(
    names: Sequence[str], tables: Sequence[tuple[Floats, Floats]], subset: Sequence[str]
) -> tuple[Floats, Floats]:
    x, y = (np.concatenate([tables[names.index(name)][part] for name in subset]) for part in (0, 1))
    return x, y


def _try_subsets(published: Publication, names: Sequence[str], tables: Sequence[tuple[Floats, Floats]]) -> CohortMatch:
    results = []
    for size in range(1, len(names) + 1):
        for name in itertools.combinations(names, size):
            x, y = _join(names, tables, name)
            fit = _fit_subset(published, x, y)
            if isinstance(fit, str):
                results.append(SubsetFit(name, len(y), np.inf, False, 0.0, np.nan, undecided=fit))
                continue
            spread = max(fit.residuals.std() if published.family == "linear" else 1.0, np.finfo(float).tiny)
            distance = float(np.sqrt(fit.step @ fit.hessian @ fit.step / len(fit.step)) / spread)
            accepted = fit.is_accepted
            told_apart, hidden = _count_told_apart(fit) if accepted else (None, None)
            chance = _false_match(fit)
            results.append(SubsetFit(name, len(y), distance, accepted, chance, fit.penalty, told_apart, hidden))
    ordered = sorted(results, key=lambda each: (not each.accepted, each.distance, len(each.cohorts)))
    return CohortMatch(tuple(ordered), None, published.units, published.decimals)


def _check_cohorts(
    published: Publication, data: Mapping[str, tuple[object, object]]
) -> tuple[list[str], list[tuple[Floats, Floats]]]:
    check_instance(published, "published", Publication, "a divulge.margin.Publication")
    if not isinstance(data, Mapping):
        raise InputError(f"data: a mapping of names to x and y is needed, got {type(data).__name__}")
    if not 1 <= len(data) <= MAX_COHORTS:
        raise InputError(f"data: from 1 to {MAX_COHORTS} cohorts are needed, got {len(data)}")
    tables, d = [], len(published.coefficients)
    for name, parts in data.items():
        check_string(name, "data: the name of a cohort")
        if not isinstance(parts, tuple | list) or len(parts) != 2:
            raise InputError(f"data: cohort {name}: x and y are needed")
        x, y = parts
        x_values = check_matrix(x, f"data: cohort {name}: x")
        y_values = check_vector(y, f"data: cohort {name}: y", length=len(x_values))
        if x_values.shape[1] != d:
            raise InputError(
                f"data: cohort {name}: {d} columns are needed, as there are coefficients, got {x_values.shape[1]}"
            )
        if published.family == "logistic" and not np.isin(y_values, (0, 1)).all():
            raise InputError(f"data: cohort {name}: labels 0 and 1 are needed for logistic regression")
        if published.family == "poisson" and ((y_values < 0).any() or (y_values % 1 != 0).any()):
            raise InputError(f"data: cohort {name}: counts (whole numbers from 0) are needed for Poisson regression")
        tables.append((x_values, y_values))
    return list(data), tables


def _check_columns(published: Publication, tables: Sequence[tuple[Floats, Floats]]) -> None:
    x = np.concatenate([table[0] for table in tables])
    design = _add_intercept(published, x)
    norms = np.sqrt((design**2).sum(axis=0))
    if len(x) < design.shape[1]:
        return  # every subset is too small, which is said of each
    if (norms == 0).any() or np.linalg.eigvalsh((design / norms).T @ (design / norms))[0] < _MIN_EIGENVALUE:
        raise InputError(
            "data: columns are collinear (one is a sum of others, or constant beside an intercept), so many "
            "coefficients fit equally well; leave such columns out of fit and file"
        )
    if published.family == "poisson" and not published.scaled:
        with np.errstate(over="ignore"):
            if not np.isfinite(np.exp(design @ published.theta)).all():
                raise InputError("coefficients: they overflow on these records; are columns coded as in the fit?")


def _fit_subset(published: Publication, x: Floats, y: Floats) -> _Fit | str:
    """Return the optimum of a subset as seen from the published coefficients, or why it cannot be told."""
    if published.scaled:
        spread = x.std(axis=0)
        if (spread == 0).any():
            return "a column is constant"
        x = (x - x.mean(axis=0)) / spread
    design = _add_intercept(published, x)
    if len(y) <= design.shape[1]:
        return "no more records than coefficients"
    start, mask, n = published.theta, published.penalised, len(y)
    factor = n if published.family == "poisson" else 1
    is_fitted = published.penalty is None
    penalty = 0.0 if published.penalty is None else published.penalty * factor
    step, free = np.zeros(len(start)), None
    for number in range(_MAX_STEPS):
        with np.errstate(over="ignore", invalid="ignore"):
            residuals, weights = _residuals(published.family, design @ (start + step), y)
            hessian = (design * weights[:, None]).T @ design + penalty * np.diag(mask)
            gradient = design.T @ residuals + penalty * mask * (start + step)
        inverse = _invert(hessian)
        if inverse is None:
            return "columns are collinear, or labels are separated"
        # Beside what the optimiser left stands what floating-point sums of this size lose.
        lost = n * published.largest_gradient + _SUM_ERROR * (np.abs(design).T @ (np.abs(y) + np.abs(residuals)))
        box = published.rounding + np.abs(inverse) @ lost
        change = -inverse @ gradient
        if is_fitted:
            free = -inverse @ (mask * (start + step))
            ahead, scale = step + change, 1 / box**2
            shift = -float((free * scale) @ ahead) / max(float((free * scale) @ free), np.finfo(float).tiny)
            shift = max(shift, -penalty)
            penalty, change = penalty + shift, change + shift * free
        if number == 0 and np.abs(change / box).max() > _NEAR:
            step = change
            break  # far off: one step says so, and what it says is shown
        is_reached = np.abs(change / box).max() < 1e-4
        if published.family != "linear":  # a long step may overshoot, to where all records have one class
            change = change * min(1.0, _LONGEST_STEP / max(float(np.abs(design @ change).max()), _LONGEST_STEP))
        step = step + change
        if is_reached:
            break
    else:
        return "its optimum was not reached"
    return _Fit(step, hessian, inverse, box, free, penalty / factor, design, residuals)


def _add_intercept(published: Publication, x: Floats) -> Floats:
    return x if published.intercept is None else np.c_[x, np.ones(len(x))]


def _residuals(family: Family, predictor: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the derivative of each record's loss by its linear predictor, ``[n]``, and the second derivative."""
    if family == "linear":
        return predictor - y, np.ones(len(y))
    if family == "logistic":
        p = special.expit(predictor)
        return p - y, p * (1 - p)
    mean = np.exp(np.minimum(predictor, 700))
    return mean - y, mean


def _invert(hessian: Floats) -> Floats | None:
    diagonal = np.sqrt(np.diag(hessian))
    if not (np.isfinite(hessian).all() and (diagonal > 0).all()):
        return None
    values, vectors = np.linalg.eigh(hessian / diagonal / diagonal[:, None])
    if values[0] < _MIN_EIGENVALUE:
        return None
    return (vectors / values) @ vectors.T / diagonal / diagonal[:, None]


def _fits_box(steps: Floats, box: Floats, free: Floats | None, penalty: float) -> Bools:
    """Return which steps ``[k, d]`` lie in the box, for some penalty of at least 0 where that is free."""
    if free is None:
        return np.all(np.abs(steps) <= box, axis=1)
    is_moved = np.abs(free) > 1e-12 * box
    stays = np.all(np.abs(steps[:, ~is_moved]) <= box[~is_moved], axis=1)
    if not is_moved.any():
        return stays
    ends = np.stack([(sign * box[is_moved] - steps[:, is_moved]) / free[is_moved] for sign in (-1.0, 1.0)])
    low = np.maximum(ends.min(axis=0).max(axis=1), -penalty)
    return stays & (low <= ends.max(axis=0).min(axis=1))


def _false_match(fit: _Fit) -> float:
    """Bound the chance that another cohort of this size is accepted.

    Its coefficients spread as those of a sample do, by the model's own standard errors or the robust ones, whichever
    are smaller as a whole; given those before it, each lies in its side of the box with at most length times density.
    """
    scores = fit.design * fit.residuals[:, None]
    robust = fit.inverse @ (scores.T @ scores) @ fit.inverse
    transform, box = np.eye(len(fit.box)), fit.box
    if fit.free is not None and np.abs(fit.free).max() > 0:
        pivot = int(np.argmax(np.abs(fit.free) / box))  # is eliminated: some penalty puts it anywhere
        ratio = fit.free / fit.free[pivot]
        transform = np.delete(transform - np.outer(ratio, np.eye(len(box))[pivot]), pivot, axis=0)
        box = np.delete(box + np.abs(ratio) * box[pivot], pivot)
    return max(_box_chance(transform @ spread @ transform.T, box) for spread in (fit.inverse, robust))


def _box_chance(covariance: Floats, box: Floats) -> float:
    """Bound the probability of a box of these half-widths under a normal distribution, wherever its centre is."""
    if not len(box):
        return 1.0
    order = np.argsort(box / np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny)))
    scale = np.sqrt(np.maximum(np.diag(covariance)[order], np.finfo(float).tiny))
    correlation = covariance[np.ix_(order, order)] / scale / scale[:, None]
    # A jitter widens the conditional spreads by next to nothing and keeps the factor real.
    factor = np.linalg.cholesky(correlation + 1e-12 * np.eye(len(box)))
    widths = 2 * (box[order] / scale) / (np.sqrt(2 * np.pi) * np.diag(factor))
    return float(np.exp(np.log(np.minimum(widths, 1.0)).sum()))


def _count_told_apart(fit: _Fit) -> tuple[int, int]:
    """Count the records without any single one of which a subset would not be accepted, and how many can hide."""
    shifts = (fit.design * fit.residuals[:, None]) @ fit.inverse
    told_apart = int((~_fits_box(fit.step + shifts, fit.box, fit.free, fit.penalty)).sum())
    # Several records together move the coefficients by a sum of such shifts; the box is the one for cut-off numbers,
    # which is tried where the narrow one finds nothing.
    n = len(shifts)
    picks = seeds.generator(0, "hidden records").integers(n, size=(_N_TRIALS, _MAX_HIDDEN))
    moved, hidden, count = np.zeros((_N_TRIALS, shifts.shape[1])), 0, 1
    while count <= min(n, _MAX_HIDDEN):
        moved = shifts[picks[:, :count]].sum(axis=1)
        if _fits_box(fit.step + moved, 2 * fit.box, fit.free, fit.penalty).mean() < _HIDDEN_SHARE:
            break
        hidden, count = count, 2 * count
    return told_apart, hidden


@dataclass(frozen=True, slots=True)
class _Gradient:
    """What a subset leaves of the gradient at the published numbers, and how exactly that is known.

    Args:
        value: ``[d]``, summed over the subset, with the penalty's part.
        hessian: ``[d, d]``.
        rounding: largest distance of each published number from the fitted one, ``[d]``.
        stopped: largest entry of the gradient at which the optimiser stopped.
        curvature: by how much of itself rounding changes a record's part of the Hessian, at most.
    """

    value: Floats
    hessian: Floats
    rounding: Floats
    stopped: float
    curvature: float

    def bound(self, weights: Floats) -> Floats:
        """Bound the errors of the sums ``weights @ value``, ``[k]`` for weights ``[k, d]``.

        Rounding moves all entries together, and what it does to a sum is mostly less than what it does to the parts.
        """
        together = np.abs(weights @ self.hessian) @ self.rounding
        apart = np.abs(weights) @ (np.abs(self.hessian) @ self.rounding)
        return _SECOND_ORDER * together + self.curvature * apart + self.stopped * np.abs(weights).sum(axis=1)


def _find_odd_record(
    published: Publication,
    subsets: Sequence[tuple[tuple[str, ...], tuple[Floats, Floats]]],
    tables: Sequence[tuple[Floats, Floats]],
    n_variants: int,
) -> OddRecord | None:
    """Return the one record by which the training set differs from one of the subsets, if one alone explains it."""
    if published.intercept is None or published.penalises_intercept:
        return None
    x_all, y_all = (np.concatenate([table[part] for table in tables]) for part in (0, 1))
    columns, label = [_Column.of_values(column) for column in x_all.T], _Column.of_values(y_all)
    group = min(len(table[1]) for table in tables)
    found = []
    for name, (x, y) in subsets:
        for is_missing in (True, False):
            gradient, scores = _measure_gradient(published, x, y, 1 if is_missing else -1)
            reader = _Reader(published, gradient, columns, label)
            candidates = reader.read_missing() if is_missing else _find_untrained(gradient, scores, x, y)
            candidates = [each for each in candidates if _explains(published, each, x, y)]
            if len(candidates) != 1:
                continue
            chance = reader.bound_chance(x_all, group, None if is_missing else x) * 2 * len(subsets) * n_variants
            parts = _measure_gradient(published, x_all, y_all, 0)[1]
            near = 0.0
            for draws in _draw_differences(scores, parts, _draw_twins(x_all, columns)):
                if len(draws) and chance + near <= MAX_MISTAKE:
                    passes = reader.is_read(draws) if is_missing else _is_untrained(gradient, scores, draws)
                    near = max(near, _upper_rate(passes))
            chance += near
            if chance <= MAX_MISTAKE:
                found.append(replace(candidates[0], cohorts=name, chance=chance))
    return found[0] if len(found) == 1 else None


def _measure_gradient(published: Publication, x: Floats, y: Floats, further: int) -> tuple[_Gradient, Floats]:
    """Return the gradient of a subset, and each record's part of it ``[n, d]``.

    Args:
        published: the coefficients.
        x: of the subset.
        y: of the subset.
        further: by how many records the training set is larger, which counts where the penalty is beside the mean loss.
    """
    design, n_trained = _add_intercept(published, x), len(y) + further
    residuals, weights = _residuals(published.family, design @ published.theta, y)
    factor = n_trained if published.family == "poisson" else 1
    penalty = (published.penalty or 0.0) * factor * published.penalised
    scores = design * residuals[:, None]
    gradient = _Gradient(
        scores.sum(axis=0) + penalty * published.theta,
        (design * weights[:, None]).T @ design + np.diag(penalty),
        published.rounding,
        n_trained * published.largest_gradient + _SUM_ERROR * float(np.abs(scores).sum()),
        0.0
        if published.family == "linear"
        else float(np.expm1(np.minimum(np.abs(design) @ published.rounding, 1)).max()),
    )
    return gradient, scores


@dataclass(frozen=True, slots=True)
class _Column:
    """What values a column takes.

    Args:
        step: the largest power of 10, down to 0.001, of which all are multiples; 0 where there is none.
        spread: their standard deviation.
    """

    step: float
    spread: float

    @classmethod
    def of_values(cls, values: Floats) -> _Column:
        for decimals in range(4):
            if np.abs(values * 10**decimals - np.round(values * 10**decimals)).max() < 1e-6:
                return cls(10.0**-decimals, float(values.std()))
        return cls(0.0, float(values.std()))

    def accepts(self, values: Floats, errors: Floats) -> Bools:
        """Return which values can be the column's, and are known well enough to say which."""
        if not self.step:
            return errors <= _MAX_ERROR * self.spread
        n_values = np.floor((values + errors) / self.step) - np.ceil((values - errors) / self.step) + 1
        return (n_values >= 1) & (n_values <= _MAX_CANDIDATES)

    def list_values(self, value: float, error: float) -> tuple[float, ...]:
        """Return the values that the column can have within ``error`` of ``value``, which it accepts."""
        if not self.step:
            return (value,)
        first, last = int(np.ceil((value - error) / self.step)), int(np.floor((value + error) / self.step))
        return tuple(place * self.step for place in range(first, last + 1))

    def chance(self, error: float) -> float:
        """Return the chance that the column accepts any value at all."""
        return min(1.0, 2 * error / self.step) if self.step else 1.0


class _Values(NamedTuple):
    """What gradients ``[k, d]`` would be as single records."""

    x: Floats  # [k, d - 1]
    x_error: Floats
    y: Floats
    y_error: Floats  # of a class: of the linear predictor, which its probability gives a second time
    is_one: Bools  # whether residual, predictor and label agree
    weights: Floats  # [k, d], derivative of y by the gradient; of a class: of the gap
    gap: Floats  # of a class: between predictor and its probability's


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a record off what the others leave of the gradient: x times its residual, with the residual beside it.

    What is left must be that of one record: its label one of the family, its linear predictor that of its residual, and
    each value one that the column can have, known to a small part of the column's spread.
    """

    published: Publication
    gradient: _Gradient
    columns: Sequence[_Column]
    label: _Column

    def read_missing(self) -> list[OddRecord]:
        """Return the records that the gradient can be one of; where several values can be, so do several records."""
        value = self.gradient.value[None]
        if not self.is_read(value)[0]:
            return []
        read = self._values(value)
        exact = [column.step > 0 for column in self.columns]
        options = [
            column.list_values(*each)
            for column, each in zip(
                self.columns, zip(read.x[0].tolist(), read.x_error[0].tolist(), strict=True), strict=True
            )
        ]
        options.append((float(read.y[0]),) if self._is_class else self.label.list_values(read.y[0], read.y_error[0]))
        n_records = np.prod([float(len(each)) for each in options])
        if n_records > (_MAX_CANDIDATES if all(exact) else 1):
            return []
        errors = np.where(exact, 0.0, read.x_error[0])
        return [
            OddRecord((), True, np.array(record[:-1]), record[-1], errors, None, 1.0)
            for record in itertools.product(*options)
        ]

    def is_read(self, gradients: Floats) -> Bools:
        """Return which gradients ``[k, d]`` pass for those of one record."""
        passes = self._is_near(gradients)
        if 0 < passes.sum() <= _MAX_EXACT:
            passes[passes] = [self._is_possible(each) for each in gradients[passes]]
        return passes

    def _is_possible(self, gradient: Floats) -> bool:
        """Check that one and the same rounding of all numbers makes the gradient that of a record.

        Each value is held to a grid, or to the label's probability, by an equation that is linear in the rounding.
        """
        read, last = self._values(gradient[None]), len(gradient) - 1
        grids = [place for place, column in enumerate(self.columns) if column.step]
        options = [self.columns[j].list_values(float(read.x[0, j]), float(read.x_error[0, j])) for j in grids]
        y, has_label = float(read.y[0]), self._is_class or self.label.step > 0
        if has_label:
            options.append((y,) if self._is_class else self.label.list_values(y, float(read.y_error[0])))
        if not options or np.prod([float(len(each)) for each in options]) > _MAX_CANDIDATES:
            return True
        weights = np.zeros((len(options), last + 1))
        weights[np.arange(len(grids)), grids] = 1.0
        weights[len(grids) :] = read.weights
        for values in map(np.array, itertools.product(*options)):
            weights[: len(grids), last] = -values[: len(grids)]
            targets = -weights @ gradient
            if has_label:
                targets[-1] = -float(read.gap[0]) if self._is_class else values[-1] - y
            if self._has_rounding(weights, targets):
                return True
        return False

    def _has_rounding(self, weights: Floats, targets: Floats) -> bool:
        """Return whether some rounding changes the sums ``weights @ value`` by ``targets``, ``[k]``."""
        hessian, rounding = self.gradient.hessian, self.gradient.rounding
        apart = np.abs(weights) @ (np.abs(hessian) @ rounding)
        slack = self.gradient.curvature * apart + self.gradient.stopped * np.abs(weights).sum(axis=1)
        matrix = weights @ hessian * rounding
        if len(matrix) == len(rounding) and np.linalg.matrix_rank(matrix) == len(rounding):  # one rounding does
            inverse = np.linalg.inv(matrix)
            return bool(np.all(np.abs(inverse @ targets) <= _SECOND_ORDER + np.abs(inverse) @ slack))
        scale = np.tile(np.maximum(np.abs(matrix).max(axis=1), slack), 2)
        both, limits = np.concatenate([matrix, -matrix]), np.concatenate([targets + slack, slack - targets])
        bounds = (-_SECOND_ORDER, _SECOND_ORDER)
        found = optimize.linprog(np.zeros(len(rounding)), both / scale[:, None], limits / scale, bounds=bounds)
        return found.status != 2  # 2: there is none

    def _is_near(self, gradients: Floats) -> Bools:
        read = self._values(gradients)
        passes = read.is_one.copy()
        for place, column in enumerate(self.columns):
            passes &= column.accepts(read.x[:, place], read.x_error[:, place])
        if not self._is_class:
            passes &= self.label.accepts(read.y, read.y_error)
            if self.published.family == "poisson":
                passes &= read.y > -0.5
        return passes

    def bound_chance(self, x: Floats, group: int, known: Floats | None) -> float:
        """Bound the chance that what many records leave together passes for one.

        A column in which all of them are the same gives its value away by itself, and columns that hang together count
        once: the chances of those that differ by themselves are multiplied, over groups that are drawn from ``x``.

        Args:
            x: records like those that the difference is made of.
            group: number of them, at least.
            known: the records ``[n, d]`` that the one must be among; None for one that is none of them.
        """
        read = self._values(self.gradient.value[None])
        chances = np.array([column.chance(error) for column, error in zip(self.columns, read.x_error[0], strict=True)])
        chance = self._label_chance(float(read.y_error[0]))
        is_free = np.array([not column.step for column in self.columns])
        if known is not None and is_free.any():  # must hit one of their values
            spread = np.atleast_2d(np.cov(known[:, is_free].T))
            chance *= min(1.0, len(known) * _box_chance(spread, read.x_error[0][is_free]))
        order = np.argsort(chances)
        size = max(2, min(group, _GROUP, len(x)))
        picks = seeds.generator(0, "groups of records").integers(len(x), size=(_N_GROUPS, size))
        differences = x[picks[:, 1:]] - x[picks[:, :1]]
        scale = np.maximum(x.std(axis=0), np.finfo(float).tiny)
        factor: Floats = np.asarray(np.linalg.qr((differences / scale)[:, :, order], mode="r"))
        diagonal = np.abs(np.diagonal(factor, axis1=1, axis2=2))
        differs = np.zeros((_N_GROUPS, len(chances)), bool)
        differs[:, : diagonal.shape[1]] = diagonal > 1e-9
        return chance * float(np.where(differs, chances[order], 1.0).prod(axis=1).mean())

    @property
    def _is_class(self) -> bool:
        return self.published.family == "logistic"

    def _label_chance(self, error: float) -> float:
        return min(1.0, 2 * error * _DENSITY) if self._is_class else self.label.chance(error)

    def _values(self, gradients: Floats) -> _Values:
        coefficients, gradient = self.published.coefficients, self.gradient
        hessian, rounding, last = gradient.hessian, gradient.rounding, len(coefficients)
        apart = np.abs(hessian) @ rounding
        unit = np.eye(len(rounding))[last:]
        left_error = float(gradient.bound(unit)[0])
        left = gradients[:, last]  # minus the residual of the record
        is_one = np.abs(left) > 2 * left_error
        left = np.where(is_one, left, 1.0)
        gradients = np.where(is_one[:, None], gradients, 0.0)
        least = np.where(is_one, np.abs(left) - left_error, 1.0)
        x = gradients[:, :last] / left[:, None]
        x_error = np.empty_like(x)
        for place in range(last):
            values = x[:, place]
            together = np.abs(hessian[place] - values[:, None] * hessian[last]) @ rounding
            parts = apart[place] + np.abs(values) * apart[last]
            stopped = gradient.stopped * (1 + np.abs(values))
            x_error[:, place] = (_SECOND_ORDER * together + gradient.curvature * parts + stopped) / least
        slope = x @ coefficients
        predictor = slope + float(self.published.intercept or 0.0)
        weights = np.c_[np.broadcast_to(coefficients, x.shape) / left[:, None], -slope / left]  # of the predictor
        if self._is_class:
            y = (left > 0).astype(float)
            mean = y - left
            is_one &= (mean > 2 * left_error) & (mean < 1 - 2 * left_error)
            mean = np.where(is_one, mean, 0.5)
            weights[:, last] += 1 / (mean * (1 - mean))
            widened = 1 / (1 - left_error / np.minimum(mean, 1 - mean))
            y_error = gradient.bound(weights) * widened * np.abs(left) / least
            is_one &= np.abs(predictor - special.logit(mean)) <= y_error
            return _Values(x, x_error, y, y_error, is_one, weights, predictor - special.logit(mean))
        mean, widened = predictor, np.ones(len(x))
        if self.published.family == "poisson":
            mean = np.exp(np.clip(predictor, -700, 700))
            weights *= mean[:, None]
            widened = np.exp(np.minimum(x_error @ np.abs(coefficients), 700))
        weights[:, last] += 1
        with np.errstate(over="ignore", invalid="ignore"):
            y_error = np.nan_to_num(gradient.bound(weights) * widened * np.abs(left) / least, nan=np.inf)
        return _Values(x, x_error, mean + left, y_error, is_one & np.isfinite(y_error), weights, np.zeros(len(x)))


def _find_untrained(gradient: _Gradient, scores: Floats, x: Floats, y: Floats) -> list[OddRecord]:
    """Return the record whose part of the gradient is all that is left of it, if one alone is near enough."""
    scaled = _scale_shifts(gradient, scores - gradient.value)
    rows = [] if scaled is None else np.flatnonzero((np.abs(scaled) <= 1).all(axis=1)).tolist()
    if len({(*x[row], y[row]) for row in rows}) != 1:
        return []
    row = int(rows[0])
    return [OddRecord((), False, x[row], float(y[row]), np.zeros(x.shape[1]), row, 1.0)]


def _is_untrained(gradient: _Gradient, scores: Floats, gradients: Floats) -> Bools:
    """Return which gradients ``[k, d]`` pass for the part of one of the records."""
    records, others = _scale_shifts(gradient, scores), _scale_shifts(gradient, gradients)
    if records is None or others is None:
        return np.ones(len(gradients), bool)
    return spatial.KDTree(records).query_ball_point(others, 1.0, p=np.inf, return_length=True) > 0


def _scale_shifts(gradient: _Gradient, gradients: Floats) -> Floats | None:
    """Return by how much gradients ``[k, d]`` shift the coefficients, in units of what rounding and optimiser may."""
    inverse = _invert(gradient.hessian)
    if inverse is None:
        return None
    return gradients @ inverse / (_SECOND_ORDER * gradient.rounding + np.abs(inverse).sum(axis=1) * gradient.stopped)


def _draw_differences(inside: Floats, everybody: Floats, twins: Ints) -> list[Floats]:
    """Draw what other differences from the training set leave of the gradient: some of each kind, ``[k, d]``.

    Two or three records more, two that are alike, two fewer, one more and one fewer, and a record that counts more or
    less than once.
    """
    rng = seeds.generator(0, "other differences")
    further = everybody[rng.integers(len(everybody), size=(3, _N_DRAWS))]
    first = rng.integers(len(inside), size=_N_DRAWS)
    second = (first + rng.integers(1, max(len(inside), 2), size=_N_DRAWS)) % len(inside)
    weight = rng.choice([-2.0, -1.0, 0.0], size=_N_DRAWS) + rng.uniform(0.05, 0.95, size=_N_DRAWS)
    return [
        -further[:2].sum(axis=0), -further.sum(axis=0), -everybody[twins].sum(axis=1),
        inside[first] + inside[second], inside[first] - further[0], weight[:, None] * inside[first],
    ]  # fmt: skip


def _draw_twins(x: Floats, columns: Sequence[_Column]) -> Ints:
    """Draw pairs of records ``[k, 2]`` that are alike in every column with a grid; none where no two are."""
    rng = seeds.generator(0, "records that are alike")
    grid = x[:, [bool(column.step) for column in columns]]
    groups = np.unique(grid, axis=0, return_inverse=True)[1].ravel() if grid.shape[1] else np.zeros(len(x), np.int64)
    order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
    starts, rows = np.cumsum(sizes) - sizes, np.flatnonzero(sizes[groups] > 1)
    if not len(rows):
        return np.zeros((0, 2), np.int64)
    first = rows[rng.integers(len(rows), size=_N_DRAWS)]
    place = np.empty(len(x), np.int64)
    place[order] = np.arange(len(x)) - np.repeat(starts, sizes)
    size = sizes[groups[first]]
    step = 1 + (rng.random(_N_DRAWS) * (size - 1)).astype(np.int64)
    return np.stack([first, order[starts[groups[first]] + (place[first] + step) % size]], axis=1)


def _upper_rate(hits: Bools) -> float:
    """Return the upper end of the rate at which these hits occur, with 95 % confidence."""
    count, total = int(hits.sum()), len(hits)
    return 1.0 if count == total else float(special.betaincinv(count + 1, total - count, 0.95))


def _explains(published: Publication, odd: OddRecord, x: Floats, y: Floats) -> bool:
    """Return whether the subset is accepted with, or without, the record."""
    if odd.missing:
        x, y = np.vstack([x, odd.x]), np.append(y, odd.y)
        if odd.error.any():  # values that are not exact do not give the coefficients exactly
            return True
    else:
        x, y = np.delete(x, odd.row or 0, axis=0), np.delete(y, odd.row or 0)
    fit = _fit_subset(published, x, y)
    return not isinstance(fit, str) and fit.is_accepted
