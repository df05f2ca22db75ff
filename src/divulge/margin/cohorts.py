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
from scipy import special

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

    from divulge.types import Bools, Floats

Family: TypeAlias = Literal["logistic", "linear", "poisson"]
FAMILIES: tuple[Family, ...] = ("logistic", "linear", "poisson")
MAX_COHORTS = 12
MAX_CHANCE = 1e-3
"""Largest chance of a false statement, over all subsets that are tried, with which one is made."""

_NEAR = 20.0  # boxes from the published coefficients, by one Newton step, within which a subset is solved exactly
_MIN_EIGENVALUE = 1e-9  # of the Hessian in units of its diagonal; below, columns are collinear
_SUM_ERROR = 1e-12
_FLOAT_ERROR = 1e-9  # relative, of coefficients at all decimals
_MAX_STEPS = 50
_LONGEST_STEP = 2.0  # of a linear predictor
_SECOND_ORDER = 1.1  # what the curvature adds to linear bounds of gradients
_N_TRIALS, _MAX_HIDDEN, _HIDDEN_SHARE = 400, 1024, 0.05
_MAX_CANDIDATES = 64  # records between which the coefficients with each of them decide
_MAX_ERROR = 0.05  # of a value that is read, in standard deviations of its column
_N_PAIRS = 20_000  # of records, to see how often two have the same values
_DENSITY = 0.5  # largest density, per unit of the linear predictor, of a record that is none


@dataclass(frozen=True, slots=True)
class Publication:
    """Published coefficients, and how they were fitted.

    Args:
        coefficients: of ``d`` columns, ``[d]``.
        intercept: None for a fit without one.
        family: "logistic" (labels 0 and 1), "linear" or "poisson" (log link).
        decimals: of coefficients and intercept; None where all digits are given.
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
    decimals: int | None = None
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
            check_integer(self.decimals, "decimals", minimum=0, maximum=15)
        if self.penalty is not None:
            check_number(self.penalty, "penalty", above=0, closed=True, below=np.inf)
        check_bool(self.scaled, "scaled")
        check_bool(self.penalises_intercept, "penalises_intercept")
        check_number(self.units, "units", above=0, below=10)
        if self.gradient is not None:
            check_number(self.gradient, "gradient", above=0, closed=True, below=np.inf)
        if (self.decimals is None or self.decimals >= 4) and (coefficients == 0).any():
            raise InputError(
                f"coefficients: {int((coefficients == 0).sum())} are exactly 0, as an L1 penalty makes them; only fits "
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
        return np.full(len(self.theta), self.units * 10.0**-self.decimals * (1 + 1e-9))

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
    """

    subsets: tuple[SubsetFit, ...]
    odd_record: OddRecord | None
    units: float

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
    allowed = sorted({published.units, max(published.units, 1.0)}) if published.decimals is not None else [0.5]
    matches = (_try_subsets(replace(published, units=units), names, tables) for units in allowed)
    tried = []
    for match in matches:
        if match.accepted or match.odd_record is not None:
            return match
        tried.append(match)
    return tried[0]


def _try_subsets(published: Publication, names: Sequence[str], tables: Sequence[tuple[Floats, Floats]]) -> CohortMatch:
    subsets = [
        subset for size in range(1, len(names) + 1) for subset in itertools.combinations(range(len(names)), size)
    ]
    fits, results = {}, []
    for subset in subsets:
        x, y = (np.concatenate([tables[number][part] for number in subset]) for part in (0, 1))
        fit = _fit_subset(published, x, y)
        name = tuple(names[number] for number in subset)
        if isinstance(fit, str):
            results.append(SubsetFit(name, len(y), np.inf, False, 0.0, np.nan, undecided=fit))
            continue
        spread = fit.residuals.std() if published.family == "linear" else 1.0
        distance = float(np.sqrt(fit.step @ fit.hessian @ fit.step / len(fit.step)) / max(spread, np.finfo(float).tiny))
        accepted = fit.is_accepted
        told_apart, hidden = _count_told_apart(fit) if accepted else (None, None)
        results.append(SubsetFit(name, len(y), distance, accepted, _false_match(fit), fit.penalty, told_apart, hidden))
        fits[name] = (fit, x, y)
    odd_record = None
    if not any(each.accepted for each in results) and not published.scaled and published.penalty is not None:
        odd_record = _find_odd_record(published, fits, tables, len(subsets))
    ordered = sorted(results, key=lambda each: (not each.accepted, each.distance, len(each.cohorts)))
    return CohortMatch(tuple(ordered), odd_record, published.units)


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
    design = x if published.intercept is None else np.c_[x, np.ones(len(x))]
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
    design = x if published.intercept is None else np.c_[x, np.ones(len(x))]
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
        if published.family != "linear":  # a long step may overshoot, to where all records have one class
            change = change * min(1.0, _LONGEST_STEP / max(float(np.abs(design @ change).max()), _LONGEST_STEP))
        step = step + change
        if number == 0 and np.abs(step / box).max() > _NEAR:
            break  # far off: one step says so, and what it says is shown
        if np.abs(change / box).max() < 1e-4:
            break
    return _Fit(step, hessian, inverse, box, free, penalty / factor, design, residuals)


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


def _find_odd_record(
    published: Publication,
    fits: Mapping[tuple[str, ...], tuple[_Fit, Floats, Floats]],
    tables: Sequence[tuple[Floats, Floats]],
    n_subsets: int,
) -> OddRecord | None:
    """Return the one record by which the training set differs from one of the subsets, if one alone explains it."""
    x_all, y_all = (np.concatenate([table[part] for table in tables]) for part in (0, 1))
    columns, labels = [_Column.of_values(column) for column in x_all.T], _Column.of_values(y_all)
    penalty, found, agrees = published.penalty or 0.0, [], _compare_pairs(x_all)
    for name, (fit, x, y) in fits.items():
        factor = len(y) if published.family == "poisson" else 1
        mask, design = published.penalised, fit.design
        residuals, weights = _residuals(published.family, design @ published.theta, y)
        hessian = (design * weights[:, None]).T @ design + penalty * factor * np.diag(mask)
        gradient = design.T @ residuals + penalty * factor * mask * published.theta
        error = _SECOND_ORDER * (np.abs(hessian) @ published.rounding) + len(y) * published.largest_gradient
        for record in (
            *_read_missing(published, gradient, error, columns, labels, agrees),
            *_find_untrained(design * residuals[:, None], x, y, gradient, error),
        ):
            odd = replace(record, cohorts=name, chance=record.chance * 2 * n_subsets)
            if odd.chance <= MAX_CHANCE and _explains(published, odd, x, y):
                found.append(odd)
    return found[0] if len(found) == 1 else None


def _compare_pairs(x: Floats) -> Bools:
    """Return which columns two records drawn at random have the same value in, ``[pairs, d]``."""
    rng, n = seeds.generator(0, "pairs of records"), len(x)
    first = rng.integers(n, size=_N_PAIRS)
    return x[first] == x[(first + rng.integers(1, max(n, 2), size=_N_PAIRS)) % n]


def _pass_for_one(chances: Floats, agrees: Bools) -> float:
    """Return the chance that two records pass for one in some columns.

    In a column where both have the same value, so has what they leave together: only the others speak against two.
    """
    return float(np.where(agrees, 1.0, chances).prod(axis=1).mean())


def _read_missing(
    published: Publication,
    gradient: Floats,
    error: Floats,
    columns: Sequence[_Column],
    labels: _Column,
    agrees: Bools,
) -> list[OddRecord]:
    """Read a record off what the others leave of the gradient: x times its residual, with the residual beside it.

    What is left must be that of one record: its label one of the family, its linear predictor that of its residual, and
    each value one that the column can have, known to a small part of the column's spread. Where several values can be,
    so do several records.
    """
    if published.intercept is None or published.penalises_intercept:
        return []
    left, left_error = float(gradient[-1]), float(error[-1])  # minus the residual of the record
    if abs(left) <= 2 * left_error:
        return []
    x = gradient[:-1] / left
    x_error = (error[:-1] + np.abs(x) * left_error) / (abs(left) - left_error)
    predictor = float(x @ published.coefficients) + float(published.intercept)
    predictor_error = float(np.abs(published.coefficients) @ x_error)
    values = [column.read(*value) for column, value in zip(columns, zip(x, x_error, strict=True), strict=True)]
    if published.family == "logistic":
        label = _read_class(left, left_error, predictor, predictor_error)
    else:
        is_linear = published.family == "linear"
        mean = predictor if is_linear else float(np.exp(min(predictor, 700)))
        slope = 1.0 if is_linear else mean * float(np.exp(min(predictor_error, 700)))
        label = labels.read(left + mean, left_error + slope * predictor_error)
    if label is None or None in values or (published.family == "poisson" and label.values[0] < 0):
        return []
    read = [*(value for value in values if value is not None), label]
    chances = np.array([value.chance for value in read[:-1]])
    n_records = int(np.prod([len(value.values) for value in read]))
    errors = np.array([value.error for value in read[:-1]])
    # Exact values must give the coefficients exactly, which two records hardly ever do; others cannot be held to that.
    chance = label.chance * (_pass_for_one(chances, agrees) if errors.any() else float(chances.prod()))
    if n_records > (1 if errors.any() else _MAX_CANDIDATES):
        return []
    return [
        OddRecord((), True, np.array(record[:-1]), record[-1], errors, None, chance)
        for record in itertools.product(*(value.values for value in read))
    ]


class _Value(NamedTuple):
    """What a value can be by the coefficients, its largest error, and the chance that a wrong one passes for one."""

    values: tuple[float, ...]
    error: float
    chance: float


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

    def read(self, value: float, error: float) -> _Value | None:
        """Return the values that the column can have near ``value``; None where there is none, or there are many."""
        if not self.step:
            return _Value((value,), error, 1.0) if error <= _MAX_ERROR * self.spread else None
        first, last = np.ceil((value - error) / self.step), np.floor((value + error) / self.step)
        if not first <= last < first + _MAX_CANDIDATES:
            return None
        places = range(int(first), int(last) + 1)
        return _Value(tuple(place * self.step for place in places), 0.0, min(1.0, 2 * error / self.step))


def _read_class(left: float, left_error: float, predictor: float, predictor_error: float) -> _Value | None:
    """Return the class of a record of this residual, if its probability is that of its linear predictor."""
    y = float(left > 0)
    mean = y - left
    if not left_error < mean < 1 - left_error:
        return None
    slope = min(edge * (1 - edge) for edge in (mean - left_error, mean + left_error))
    error = predictor_error + left_error / slope
    if abs(special.logit(mean) - predictor) > error:
        return None
    return _Value((y,), 0.0, min(1.0, 2 * error * _DENSITY))


def _find_untrained(scores: Floats, x: Floats, y: Floats, gradient: Floats, error: Floats) -> list[OddRecord]:
    """Return the record whose part of the gradient is all that is left of it, if one alone is near enough."""
    rows = np.flatnonzero((np.abs(scores - gradient) <= error).all(axis=1))
    distinct = {(*x[row], y[row]) for row in rows}
    if len(distinct) != 1:
        return []
    chance = len(scores) * _box_chance(np.cov(scores.T).reshape(scores.shape[1], -1), error)
    row = int(rows[0])
    return [OddRecord((), False, x[row], float(y[row]), np.zeros(x.shape[1]), row, min(1.0, chance))]


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
