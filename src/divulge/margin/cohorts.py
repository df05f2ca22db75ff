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
    from collections.abc import Iterator, Sequence

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
_MAX_CANDIDATES = 64  # values of a column, or records, between which the equations decide
_MAX_WHOLE = 4096  # records of which all values are known, which are tried at once
_MAX_ERROR = 0.25  # of a value that is read, in standard deviations of its column
_N_DRAWS = 60_000  # of other differences, of each kind, to see how often they look like one record
_N_UNTRAINED = 20_000  # of these, for a record of the cohorts
_MAX_EXACT, _MAX_EXACT_WHOLE = 300, 1000  # differences of a kind that are held to one rounding of all numbers
_N_OTHERS = 20_000  # other cohorts that are drawn from the held records, to see how often counts collide
_MAX_CELLS = 128  # distinct records of which such draws may be made; of the others none may be drawn
_N_TIMES = 4  # records of each row of values, on average, from which on their numbers may be by design
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
        is_zero = (coefficients == 0) & (self.rounding[: len(coefficients)] < 1e-5)
        if is_zero.any():
            raise InputError(
                f"coefficients: {int(is_zero.sum())} are exactly 0 to 5 decimals or more, as an L1 penalty makes "
                "them; only fits without one are solved by an equation that can be checked (leave out columns that "
                "were not fitted)"
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

    def __post_init__(self) -> None:
        check_number(self.chance, "chance", above=0, below=1, closed=True)


@dataclass(frozen=True, slots=True)
class OddRecord:
    """The record by which a training set and a subset of the cohorts differ, or several that are alike.

    Args:
        cohorts: names of the subset.
        missing: True for a record that was trained on and is in none of these cohorts, False for one of theirs that was
            not trained on.
        x: its values, ``[d]``.
        y: its label.
        error: largest error of each value, ``[d]``; 0 where it stands in a cohort.
        row: of a record of the cohorts, its place among them, counted from 0.
        chance: at most, that another difference is taken for it.
        y_error: largest error of the label; 0 where it is exact.
        alike: None where one record is told from several that are alike. Else no more is claimed than that a record of
            these values ``x`` differs, and ``y`` is its label if it is one more and alone; this is the share of pairs
            of all the cohorts' records that are alike in every column.
        copies: records of these cohorts that equal one that was not trained on, itself among them; of one that was,
            records of all the cohorts that equal it within its errors. Where there are several, or any, no more is said
            than that records equal to it count once less, or once more.
        equal: a cohort, and a row in it counted from 0, that equals one that was trained on; None where none does.
    """

    cohorts: tuple[str, ...]
    missing: bool
    x: Floats
    y: float
    error: Floats
    row: int | None
    chance: float
    y_error: float
    alike: float | None
    copies: int = 0
    equal: tuple[str, int] | None = None

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
        matches.append(_try_subsets(variant, names, tables, variants[-1].rounding))
        if matches[-1].accepted:  # however a number was rounded, what fits comes before records that may be missing
            return _add_collisions(variant, matches[-1], names, tables)
    if published.scaled or published.penalty is None:
        return _add_collisions(variants[0], matches[0], names, tables)
    subsets = [(each.cohorts, _join(names, tables, each.cohorts)) for each in matches[0].subsets if not each.undecided]
    for variant, match in zip(variants, matches, strict=True):
        odd_record = _find_odd_record(variant, subsets, tables, len(variants))
        if odd_record is not None:
            odd_record = _find_copies(odd_record, names, tables)
            return replace(_add_collisions(variant, match, names, tables), odd_record=odd_record)
    return _add_collisions(variants[0], matches[0], names, tables)


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


def _try_subsets(
    published: Publication, names: Sequence[str], tables: Sequence[tuple[Floats, Floats]], widest: Floats
) -> CohortMatch:
    """Return how well each subset fits; ``widest`` is the rounding of the last variant that is tried."""
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
            told_apart, hidden = _count_told_apart(fit, widest - published.rounding) if accepted else (None, None)
            chance = _false_match(fit)
            results.append(SubsetFit(name, len(y), distance, accepted, chance, fit.penalty, told_apart, hidden))
    ordered = sorted(results, key=lambda each: (not each.accepted, each.distance, len(each.cohorts)))
    return CohortMatch(tuple(ordered), None, published.units, published.decimals)


def _find_copies(odd: OddRecord, names: Sequence[str], tables: Sequence[tuple[Floats, Floats]]) -> OddRecord:
    """Return the record with the number of held records that equal it, those of its own cohorts first."""
    others = () if not odd.missing else tuple(name for name in names if name not in odd.cohorts)
    error, places = np.maximum(odd.error, 1e-9), []
    for name in (*odd.cohorts, *others):
        x, y = tables[names.index(name)]
        # The label of one of several that are alike is that of none of them.
        is_label = np.full(len(y), True) if odd.alike is not None else np.abs(y - odd.y) <= odd.y_error + 1e-9
        rows = np.flatnonzero((np.abs(x - odd.x) <= error).all(axis=1) & is_label).tolist()
        places += [(name, row) for row in rows]
    return replace(odd, copies=len(places), equal=places[0] if odd.missing and places else None)


def _add_collisions(
    published: Publication, match: CohortMatch, names: Sequence[str], tables: Sequence[tuple[Floats, Floats]]
) -> CohortMatch:
    """Raise the chances to those with which cohorts are alike because counts of few distinct records are the same.

    The fewer records, the more collide: of all subsets of as many cohorts the smallest stands for the others.
    """
    everybody, chances = _join(names, tables, names), {}
    for each in sorted(match.subsets, key=lambda each: each.records):
        if not each.undecided and len(each.cohorts) not in chances:
            inside = _join(names, tables, each.cohorts)
            fit = _fit_subset(published, *inside)
            if not isinstance(fit, str):
                chances[len(each.cohorts)] = _bound_collisions(published, fit, inside, everybody)
    subsets = [replace(each, chance=max(each.chance, chances.get(len(each.cohorts), 0.0))) for each in match.subsets]
    return replace(match, subsets=tuple(subsets))


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
    transform, box = _eliminate_penalty(fit)
    return max(_box_chance(transform @ spread @ transform.T, box) for spread in (fit.inverse, robust))


def _box_chance(covariance: Floats, box: Floats) -> float:
    """Bound the probability of a box of these half-widths under a normal distribution, wherever its centre is."""
    if not len(box):
        return 1.0
    order = np.argsort(box / np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny)))
    scale = np.sqrt(np.maximum(np.diag(covariance)[order], np.finfo(float).tiny))
    correlation = covariance[np.ix_(order, order)] / scale / scale[:, None]
    # A jitter widens the conditional spreads by next to nothing and keeps the factor real.
    try:
        factor = np.linalg.cholesky(correlation + 1e-12 * np.eye(len(box)))
    except np.linalg.LinAlgError:
        return 1.0  # it lies on a line or plane, where the box may hold all of it
    widths = 2 * (box[order] / scale) / (np.sqrt(2 * np.pi) * np.diag(factor))
    return float(np.exp(np.log(np.minimum(widths, 1.0)).sum()))


def _bound_collisions(
    published: Publication, fit: _Fit, inside: tuple[Floats, Floats], everybody: tuple[Floats, Floats]
) -> float:
    """Bound the chance that another cohort is accepted because counts of few distinct records are the same.

    Other cohorts are drawn from all held records, and again with the rows of values that this one has and other labels,
    as where a trial has as many in each arm. Each moves the coefficients by one Newton step of its own. Counted are
    those that are accepted, and the pairs of which one would be of the other; 0 where neither happens.

    Args:
        published: the coefficients.
        fit: of the subset.
        inside: its records.
        everybody: those of all cohorts.
    """
    x, x_all = inside[0], everybody[0]
    if published.scaled:
        center, spread = x.mean(axis=0), x.std(axis=0)
        x, x_all = (x - center) / spread, (x_all - center) / spread
    d, n = x.shape[1], len(x)
    cells, counts = np.unique(np.c_[x_all, everybody[1]], axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MAX_CELLS]
    cells, shares = cells[order], counts[order] / len(x_all)
    kept = float(min(shares.sum(), 1.0)) ** n  # chance that one is drawn from these alone
    rng, draws = seeds.generator(0, "other cohorts"), []
    if kept**2 > 1e-9:
        draws.append((kept, cells, rng.multinomial(n, shares / shares.sum(), size=_N_OTHERS)))
    rows, sizes = np.unique(x, axis=0, return_counts=True)
    if len(counts) <= _MAX_CELLS and len(x) >= _N_TIMES * len(rows):
        fixed = np.zeros((_N_OTHERS, len(cells)), np.int64)
        for row, size in zip(rows, sizes.tolist(), strict=True):
            of_row = np.flatnonzero((cells[:, :d] == row).all(axis=1))
            fixed[:, of_row] = rng.multinomial(size, shares[of_row] / shares[of_row].sum(), size=_N_OTHERS)
        draws.append((1.0, cells, fixed))
    is_discrete = 2 * len(counts) <= len(x_all)
    return max((_count_collisions(published, fit, *each, is_discrete=is_discrete) for each in draws), default=0.0)


def _count_collisions(
    published: Publication, fit: _Fit, kept: float, cells: Floats, counts: Ints, *, is_discrete: bool
) -> float:
    """Bound the rate at which cohorts are accepted, of which ``counts`` say how often each has which record.

    Args:
        published: the coefficients.
        fit: of the subset.
        kept: share of cohorts that are of these records alone.
        cells: values and label of the records, ``[m, d + 1]``.
        counts: ``[k, m]``.
        is_discrete: whether none among all these pairs is too few to say that there are none.
    """
    design, mask = _add_intercept(published, cells[:, :-1]), published.penalised
    n = int(counts[0].sum())
    penalty = fit.penalty * (n if published.family == "poisson" else 1)
    residuals, weights = _residuals(published.family, design @ published.theta, cells[:, -1])
    gradients = counts @ (design * residuals[:, None]) + penalty * mask * published.theta
    parts = (design[:, :, None] * design[:, None, :] * weights[:, None, None]).reshape(len(cells), -1)
    hessians = (counts @ parts).reshape(-1, *[design.shape[1]] * 2) + penalty * np.diag(mask)
    scale = np.sqrt(np.maximum(np.diag(fit.hessian), np.finfo(float).tiny))
    # Cohorts in which a column is constant have no fit; the jitter makes their steps long.
    scaled = hessians / scale / scale[:, None] + 1e-12 * np.eye(len(scale))
    steps = -np.linalg.solve(scaled, (gradients / scale)[:, :, None])[:, :, 0] / scale
    n_hits = int(_fits_box(steps, fit.box, fit.free, fit.penalty).sum())
    transform, box = _eliminate_penalty(fit)
    chance = kept * _upper_rate(n_hits, len(steps)) if n_hits else 0.0
    if not len(box):
        return 1.0
    places = np.floor(np.clip(steps @ transform.T / (2 * box), -1e15, 1e15) + 0.25).astype(np.int64)
    factors = seeds.generator(0, "factors of a hash").integers(2**62, size=places.shape[1]) * 2 + 1
    keys = (places * factors).sum(axis=1)  # overflows, as a hash may
    _, group, size = np.unique(keys, return_inverse=True, return_counts=True)
    others = (size[group] - 1).astype(float)  # of each draw, those that it is accepted for
    if others.any() or is_discrete:
        n_draws = len(steps)
        upper = (others.mean() + 4 * others.std() / n_draws**0.5 + 8 / n_draws) / (n_draws - 1)
        # Where the published numbers are likely ones, more than on average collide, by the normal law so many times.
        chance = max(chance, kept**2 * float(upper) * 2.0 ** (len(box) / 2))
    return float(min(1.0, chance))


def _eliminate_penalty(fit: _Fit) -> tuple[Floats, Floats]:
    """Return the transform of coefficients that no penalty moves, ``[k, d]``, and half the widths of their box."""
    transform, box = np.eye(len(fit.box)), fit.box
    if fit.free is not None and np.abs(fit.free).max() > 0:
        pivot = int(np.argmax(np.abs(fit.free) / box))  # is eliminated: some penalty puts it anywhere
        ratio = fit.free / fit.free[pivot]
        transform = np.delete(transform - np.outer(ratio, np.eye(len(box))[pivot]), pivot, axis=0)
        box = np.delete(box + np.abs(ratio) * box[pivot], pivot)
    return transform, box


def _count_told_apart(fit: _Fit, wider: Floats) -> tuple[int, int]:
    """Count the records without any single one of which a subset would not be accepted, and how many can hide.

    The box is the widest that is tried where narrower ones find nothing: ``wider`` than this fit's.
    """
    shifts, box = (fit.design * fit.residuals[:, None]) @ fit.inverse, _SECOND_ORDER * (fit.box + wider)
    told_apart = int((~_fits_box(fit.step + shifts, box, fit.free, fit.penalty)).sum())
    # Several records together move the coefficients by a sum of such shifts.
    n = len(shifts)
    picks = seeds.generator(0, "hidden records").integers(n, size=(_N_TRIALS, _MAX_HIDDEN))
    moved, hidden, count = np.zeros((_N_TRIALS, shifts.shape[1])), 0, 1
    while count <= min(n, _MAX_HIDDEN):
        moved = shifts[picks[:, :count]].sum(axis=1)
        if _fits_box(fit.step + moved, box, fit.free, fit.penalty).mean() < _HIDDEN_SHARE:
            break
        hidden, count = count, 2 * count
    return told_apart, hidden


@dataclass(frozen=True, slots=True)
class _Gradient:
    """What a subset leaves of the gradient at the published numbers, and how exactly that is known.

    Args:
        value: ``[d]``, summed over the subset, with the penalty's part.
        hessian: ``[d, d]``.
        inverse: of the Hessian; None where there is none.
        rounding: largest distance of each published number from the fitted one, ``[d]``.
        stopped: largest entry of the gradient at which the optimiser stopped.
        curvature: by how much of itself rounding changes a record's part of the Hessian, at most.
    """

    value: Floats
    hessian: Floats
    inverse: Floats | None
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
    """Return the one record by which the training set differs from one of the subsets, if one alone explains it.

    What a record of the cohorts explains is not put down to a missing one, which can often be made to fit.
    """
    if published.intercept is None or published.penalises_intercept:
        return None
    x_all, y_all = (np.concatenate([table[part] for table in tables]) for part in (0, 1))
    columns = [_Column.of_values(column) for column in x_all.T]
    label = replace(_Column.of_values(y_all), low=-np.inf, high=np.inf)
    group = min(len(table[1]) for table in tables)
    for is_missing in (False, True):
        explained = []
        for name, (x, y) in subsets:
            gradient, scores = _measure_gradient(published, x, y, 1 if is_missing else -1)
            reader = _Reader(published, gradient, columns, label, len(y))
            records = reader.read_missing() if is_missing else _find_untrained(gradient, scores, x, y)
            records = [replace(each, cohorts=name) for each in records if _explains(published, each, x, y)]
            if len(records) > 1:
                return None
            explained += [(each, reader, (x, scores)) for each in records]
        named = []
        for record, reader, inside in explained:
            chance = reader.bound_chance(x_all, group, None if is_missing else inside[0])
            chance *= 2 * len(subsets) * n_variants
            if chance <= MAX_MISTAKE:
                everybody = (x_all, _measure_gradient(published, x_all, y_all, 0)[1])
                named += _bound_mistake(record, chance, reader, inside, everybody, dict(subsets)[record.cohorts][1])
        if explained:
            return named[0] if len(named) == 1 else None
    return None


def _bound_mistake(
    record: OddRecord,
    chance: float,
    reader: _Reader,
    inside: tuple[Floats, Floats],
    everybody: tuple[Floats, Floats],
    y: Floats,
) -> list[OddRecord]:
    """Return the record with the chance that another difference passes for it, where that is small enough.

    Two records that are alike leave what one leaves, but for its label. Where that does not tell them from one, it is
    claimed that a record of these values differs, and not that no other does; `OddRecord.alike` says how often two are
    alike.

    Args:
        record: that is read.
        chance: that a difference of many records passes.
        reader: that read it.
        inside: values of the subset, and their parts of the gradient.
        everybody: the same of all cohorts.
        y: labels of the subset.
    """
    rates, misread_rates, least, share = [], [], 0.0, 1.0
    for kind, draws, values in _draw_differences(reader, inside, everybody, y):
        if not len(draws):
            continue
        if not record.missing:
            draws = draws[:_N_UNTRAINED]
            rates.append(_upper_rate(int(_is_untrained(reader.gradient, inside[1], draws).sum()), len(draws)))
            continue
        # Only a residual as large as this one's tells as exactly what it is of. Differences that leave one, and pass,
        # are counted in units of the single records that do.
        size = np.abs(draws[:, -1])
        if kind == "one more":
            least = min(abs(float(reader.gradient.value[-1])), float(np.quantile(size, 0.9)))
            share = float((size >= least).mean())
            continue
        is_counted = size >= least
        n_near, passes, is_misread = reader.sample_passes(draws[is_counted], values[is_counted])
        rates.append(_bound_rate(passes, n_near, len(draws)) / share)
        # Of two that are drawn, as many are alike as there are; and one of another weight is read as what it is.
        if kind not in ("two alike", "one of another weight"):
            misread_rates.append(_bound_rate(is_misread, n_near, len(draws)) / share)
            if chance + misread_rates[-1] > MAX_MISTAKE:
                return []
    mistake = chance + max(rates)
    if mistake <= MAX_MISTAKE:
        return [replace(record, chance=mistake)]
    if not record.missing:
        return []
    mistake = chance + max(misread_rates)
    counts = np.unique(everybody[0], axis=0, return_counts=True)[1].astype(float)
    n_pairs = len(everybody[0]) * (len(everybody[0]) - 1)
    return [replace(record, chance=mistake, alike=float((counts * (counts - 1)).sum() / n_pairs))]


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
    hessian = (design * weights[:, None]).T @ design + np.diag(penalty)
    gradient = _Gradient(
        scores.sum(axis=0) + penalty * published.theta,
        hessian,
        _invert(hessian),
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
        low: just below the smallest that a column with a grid can have.
        high: just above the largest.
    """

    step: float
    spread: float
    low: float = -np.inf
    high: float = np.inf

    @classmethod
    def of_values(cls, values: Floats) -> _Column:
        spread = float(values.std())
        for decimals in range(4):
            if np.abs(values * 10**decimals - np.round(values * 10**decimals)).max() < 1e-6:
                step = 10.0**-decimals
                return cls(step, spread, float(values.min()) - step / 2, float(values.max()) + step / 2)
        return cls(0.0, spread)

    def accepts(self, values: Floats, errors: Floats) -> Bools:
        """Return which values can be the column's, and are known well enough to say which."""
        if not self.step:
            return errors <= _MAX_ERROR * self.spread
        first, last = np.maximum(values - errors, self.low), np.minimum(values + errors, self.high)
        n_values = np.floor(last / self.step) - np.ceil(first / self.step) + 1
        return (n_values >= 1) & (n_values <= _MAX_CANDIDATES)

    def list_values(self, value: float, error: float) -> tuple[float, ...]:
        """Return the values that the column can have within ``error`` of ``value``, which it accepts."""
        if not self.step:
            return (value,)
        first, last = max(value - error, self.low), min(value + error, self.high)
        places = range(int(np.ceil(first / self.step)), int(np.floor(last / self.step)) + 1)
        return tuple(place * self.step + 0.0 for place in places)  # no -0

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

    def take(self, place: int) -> _Values:
        """Return those of one gradient."""
        at = [place]
        return _Values(self.x[at], self.x_error[at], self.y[at], self.y_error[at], self.is_one[at])


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
    n_records: int

    def read_missing(self) -> list[OddRecord]:
        """Return the records that the gradient can be one of; where several values can be, so do several records."""
        read = self._values(self.gradient.value[None])
        if not self._is_near(read)[0]:
            return []
        records = list(self._list_records(self.gradient.value, read))
        if len(records) > (_MAX_CANDIDATES if self._is_whole else 1):
            return []
        errors = np.where([column.step > 0 for column in self.columns], 0.0, read.x_error[0])
        return [OddRecord((), True, x, y, errors, None, 1.0, y_error, None) for x, y, y_error in records]

    def sample_passes(self, gradients: Floats, differing: Floats) -> tuple[int, Bools, Bools]:
        """Return how many gradients ``[k, d]`` are near one record's, and what the first of these pass for.

        Args:
            gradients: that differences leave.
            differing: values of the records of each, ``[k, m, d - 1]``.

        Returns:
            Their number; whether the first pass for one record; and whether they do so for none of their own.
        """
        read = self._values(gradients)
        near = np.flatnonzero(self._is_near(read))
        some = near[: _MAX_EXACT_WHOLE if self._is_whole else _MAX_EXACT]
        passes, is_misread, steps = np.zeros(len(some), bool), np.zeros(len(some), bool), [c.step for c in self.columns]
        for number, place in enumerate(some.tolist()):
            one = read.take(place)
            records = [x for x, _, _ in self._list_records(gradients[place], one)]
            passes[number] = len(records) > 0
            error = np.where(steps, np.array(steps) / 2, one.x_error[0])
            apart = np.abs(np.array(records).reshape(-1, 1, len(steps)) - differing[place])
            is_misread[number] = passes[number] and not (apart <= error).all(axis=2).any()
        return len(near), passes, is_misread

    def _list_records(self, gradient: Floats, read: _Values) -> Iterator[tuple[Floats, float, float]]:
        """Yield values, label and the label's error of each record of which one rounding makes the gradient.

        More of them than can be tried are taken to do so.
        """
        options = [
            column.list_values(float(value), float(error))
            for column, value, error in zip(self.columns, read.x[0], read.x_error[0], strict=True)
        ]
        n_records = np.prod([float(len(each)) for each in options])
        if n_records > (_MAX_WHOLE if self._is_whole else _MAX_CANDIDATES):
            for _ in range(_MAX_CANDIDATES + 1):
                yield read.x[0], float(read.y[0]), np.inf
            return
        x = np.array(list(itertools.product(*options)))
        if self._is_whole:
            low, high = self._label_range(gradient, x)
            for place in np.flatnonzero(low <= high).tolist():
                for y, error in self._list_labels(float(low[place]), float(high[place])):
                    yield x[place], y, error
        else:
            yield from self._list_partial(gradient, x, read)

    def _label_range(self, gradient: Floats, x: Floats) -> tuple[Floats, Floats]:
        """Return between which labels each record ``[k, d]`` explains the gradient; the first is larger where none do.

        Rounding and optimiser leave the residual of a record a range by each coefficient.
        """
        parts, design = self.gradient, np.c_[x, np.ones(len(x))]
        inverse = parts.inverse
        if inverse is None:
            return np.full(len(x), -np.inf), np.full(len(x), np.inf)
        left = parts.stopped + parts.curvature * (np.abs(parts.hessian) @ parts.rounding)
        limit, moves = _SECOND_ORDER * parts.rounding + np.abs(inverse) @ left, design @ inverse
        moves = np.where(moves == 0, np.finfo(float).tiny, moves)
        ends = np.stack([(sign * limit - gradient @ inverse) / moves for sign in (-1.0, 1.0)])
        low, high = ends.min(axis=0).max(axis=1), ends.max(axis=0).min(axis=1)
        mean, weights = _residuals(self.published.family, design @ self.published.theta, np.zeros(len(x)))
        own = _SECOND_ORDER * weights * (np.abs(design) @ parts.rounding)  # of which the Hessian knows nothing
        return np.where(low <= high, mean - high - own, np.inf), np.where(low <= high, mean - low + own, -np.inf)

    def _list_labels(self, low: float, high: float) -> list[tuple[float, float]]:
        """Return the labels in a range, each with its error; as one where real numbers need not be told apart."""
        if not self.label.step:
            return [((low + high) / 2, (high - low) / 2)]
        step = self.label.step
        first, last = np.ceil(low / step), np.floor(high / step)
        if self.published.family != "linear":
            first = max(first, 0.0)
        if self._is_class:
            last = min(last, 1.0)
        if first > last:
            return []
        if self.published.family == "linear" and first < last:
            return [((low + high) / 2, (high - low) / 2)]
        return [(place * step + 0.0, 0.0) for place in np.arange(first, min(last, first + 1) + 1).tolist()]

    def _list_partial(self, gradient: Floats, x: Floats, read: _Values) -> Iterator[tuple[Floats, float, float]]:
        """Yield which records ``[k, d]`` it can be, of whose values some are read with an error.

        Each of the others is held to its grid, and the label to its own or to its probability, by an equation that is
        linear in the rounding.
        """
        last, is_read = len(gradient) - 1, np.array([not column.step for column in self.columns])
        grids, y, y_error = np.flatnonzero(~is_read), float(read.y[0]), float(read.y_error[0])
        labels: tuple[float, ...] = (y,)
        has_label = self._is_class or self.label.step > 0
        if has_label and not self._is_class:
            labels = self.label.list_values(y, y_error)
            if len(labels) > _MAX_CANDIDATES:
                has_label, labels = False, (y,)
        for values, label in itertools.product(x, labels):
            weights = np.zeros((len(grids) + has_label, last + 1))
            weights[np.arange(len(grids)), grids] = 1.0
            weights[: len(grids), last] = -values[grids]
            targets = -weights @ gradient
            if has_label:
                equation, value = self._label_equation(values[None], gradient[None, last], is_read)
                weights[-1], targets[-1] = equation[0], (0.0 if self._is_class else label) - value[0]
            if not len(weights) or self._has_rounding(weights, targets):
                yield values, label, 0.0 if has_label else y_error

    def _has_rounding(self, weights: Floats, targets: Floats) -> bool:
        """Return whether some rounding changes the sums ``weights @ value`` by ``targets``, ``[k]``."""
        hessian, rounding = self.gradient.hessian, self.gradient.rounding
        apart = np.abs(weights) @ (np.abs(hessian) @ rounding)
        slack = self.gradient.curvature * apart + self.gradient.stopped * np.abs(weights).sum(axis=1)
        matrix = weights @ hessian * rounding
        if len(matrix) == len(rounding) and np.linalg.matrix_rank(matrix) == len(rounding):  # one rounding does
            inverse = np.linalg.inv(matrix)
            return bool(np.all(np.abs(inverse @ targets) <= _SECOND_ORDER + np.abs(inverse) @ slack))
        if np.any(np.abs(targets) > _SECOND_ORDER * np.abs(matrix).sum(axis=1) + slack):
            return False
        scale = np.tile(np.maximum(np.abs(matrix).max(axis=1), slack), 2)
        both, limits = np.concatenate([matrix, -matrix]), np.concatenate([targets + slack, slack - targets])
        bounds = (-_SECOND_ORDER, _SECOND_ORDER)
        found = optimize.linprog(np.zeros(len(rounding)), both / scale[:, None], limits / scale, bounds=bounds)
        return found.status != 2  # 2: there is none

    def _is_near(self, read: _Values) -> Bools:
        """Return which gradients could be of one record, each of its values taken by itself."""
        passes = read.is_one.copy()
        for place, column in enumerate(self.columns):
            passes &= column.accepts(read.x[:, place], read.x_error[:, place])
        if self.published.family == "poisson":
            passes &= self.label.accepts(read.y, read.y_error) & (read.y + read.y_error >= 0)
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
        label_chance = self._label_chance(float(read.y_error[0]))
        chance = self._total_chance(group)
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
        by_group = label_chance * np.where(differs, chances[order], 1.0).prod(axis=1)
        if known is None and self._is_whole:
            by_group[differs.all(axis=1)] = min(label_chance * chances.prod(), self._joint_chance(read))
        return chance * float(by_group.mean())

    def _joint_chance(self, read: _Values) -> float:
        """Return how many records of known values explain the gradient, on average, wherever their grid lies."""
        errors, steps = read.x_error[0], np.array([column.step for column in self.columns])
        if not np.isfinite(errors).all():
            return 1.0
        offsets = seeds.generator(0, "places of a grid").uniform(-1.0, 1.0, size=(_MAX_WHOLE, len(errors)))
        low, high = self._label_range(self.gradient.value, read.x[0] + offsets * errors)
        share = low <= high
        if self.label.step:
            share = np.clip((high - low) / self.label.step, 0.0, 1.0) * share
        return float(np.prod(2 * errors / steps)) * _upper_rate(int(np.ceil(share.sum())), len(share))

    def _total_chance(self, group: int) -> float:
        """Bound the chance that the residuals of so many records add up to what one can leave."""
        if not self._is_class:
            return 1.0
        variance = group * float(self.gradient.hessian[-1, -1]) / self.n_records  # of labels, given the probabilities
        return min(1.0, 2 / float(np.sqrt(2 * np.pi * variance)))

    @property
    def _is_class(self) -> bool:
        return self.published.family == "logistic"

    @property
    def _is_whole(self) -> bool:
        return all(column.step for column in self.columns)

    def _label_chance(self, error: float) -> float:
        return min(1.0, 2 * error * _DENSITY) if self._is_class else self.label.chance(error)

    def _mean(self, predictor: Floats) -> Floats:
        if self._is_class:
            return special.expit(predictor)
        return np.exp(np.clip(predictor, -700, 700)) if self.published.family == "poisson" else predictor

    def _label_equation(self, x: Floats, left: Floats, is_read: Bools) -> tuple[Floats, Floats]:
        """Return what the gradient says of the label, ``[k]``, and before it its derivative by the gradient.

        That is the label itself; of a class the distance of the linear predictor from its probability's, which is 0.

        Args:
            x: values ``[k, d]``.
            left: minus the residuals, ``[k]``.
            is_read: which columns were read off the gradient; the others are known.
        """
        used = np.where(is_read, self.published.coefficients, 0.0)
        predictor = x @ self.published.coefficients + float(self.published.intercept or 0.0)
        weights = np.c_[np.broadcast_to(used, x.shape) / left[:, None], -(x @ used) / left]
        mean = self._mean(predictor)
        if self._is_class:
            mean = (left > 0) - left
            weights[:, -1] += 1 / (mean * (1 - mean))
            return weights, predictor - special.logit(mean)
        if self.published.family == "poisson":
            weights *= mean[:, None]
        weights[:, -1] += 1
        return weights, mean + left

    def _values(self, gradients: Floats) -> _Values:
        gradient, coefficients = self.gradient, self.published.coefficients
        hessian, rounding, last = gradient.hessian, gradient.rounding, len(coefficients)
        apart = np.abs(hessian) @ rounding
        left_error = float(gradient.bound(np.eye(len(rounding))[last:])[0])
        left = gradients[:, last]  # minus the residual of the record
        is_one = np.abs(left) > 2 * left_error
        if self._is_class:
            is_one &= (np.abs(left) > 2 * left_error) & (np.abs(left) < 1 - 2 * left_error)
        left = np.where(is_one, left, 0.5)
        gradients = np.where(is_one[:, None], gradients, 0.0)
        least = np.where(is_one, np.abs(left) - left_error, 0.5)
        x = gradients[:, :last] / left[:, None]
        x_error = np.empty_like(x)
        for place in range(last):
            values = x[:, place]
            together = np.abs(hessian[place] - values[:, None] * hessian[last]) @ rounding
            parts = apart[place] + np.abs(values) * apart[last]
            stopped = gradient.stopped * (1 + np.abs(values))
            x_error[:, place] = (_SECOND_ORDER * together + gradient.curvature * parts + stopped) / least
        x_error[~is_one] = np.inf  # where the residual is not known, nothing is
        weights, value = self._label_equation(x, left, np.ones(last, bool))
        widened = np.ones(len(x))
        if self._is_class:
            least_part = 1 - left_error / np.minimum(np.abs(left), 1 - np.abs(left))
            widened = np.where(is_one, 1 / np.where(is_one, least_part, 1.0), np.inf)
        elif self.published.family == "poisson":
            widened = np.exp(np.minimum(x_error @ np.abs(coefficients), 700))
        with np.errstate(over="ignore", invalid="ignore"):
            y_error = np.nan_to_num(gradient.bound(weights) * widened * np.abs(left) / least, nan=np.inf, posinf=np.inf)
        y_error[~is_one] = np.inf
        if self._is_class:
            is_one &= np.abs(value) <= y_error
            value = (left > 0).astype(float)
        return _Values(x, x_error, value, y_error, is_one & np.isfinite(y_error))


def _find_untrained(gradient: _Gradient, scores: Floats, x: Floats, y: Floats) -> list[OddRecord]:
    """Return the records whose part of the gradient is all that is left of it, each once."""
    scaled = _scale_shifts(gradient, scores - gradient.value)
    rows = [] if scaled is None else np.flatnonzero((np.abs(scaled) <= 2).all(axis=1)).tolist()  # refits decide
    first = {(*x[row], y[row]): row for row in reversed(rows)}
    return [
        OddRecord((), False, x[row], float(y[row]), np.zeros(x.shape[1]), row, 1.0, 0.0, None) for row in first.values()
    ]


def _is_untrained(gradient: _Gradient, scores: Floats, gradients: Floats) -> Bools:
    """Return which gradients ``[k, d]`` pass for the part of one of the records."""
    records, others = _scale_shifts(gradient, scores), _scale_shifts(gradient, gradients)
    if records is None or others is None:
        return np.ones(len(gradients), bool)
    return spatial.KDTree(records).query_ball_point(others, 1.0, p=np.inf, return_length=True) > 0


def _scale_shifts(gradient: _Gradient, gradients: Floats) -> Floats | None:
    """Return by how much gradients ``[k, d]`` shift the coefficients, in units of what rounding and optimiser may."""
    inverse = gradient.inverse
    if inverse is None:
        return None
    return gradients @ inverse / (_SECOND_ORDER * gradient.rounding + np.abs(inverse).sum(axis=1) * gradient.stopped)


def _draw_differences(
    reader: _Reader, inside: tuple[Floats, Floats], everybody: tuple[Floats, Floats], y: Floats
) -> list[tuple[str, Floats, Floats]]:
    """Draw other differences from the training set.

    Returns:
        Of each kind what ``k`` of them leave of the gradient, ``[k, d]``, and the values of their records,
        ``[k, m, d - 1]``.
    """
    rng = seeds.generator(0, "other differences")
    (x, scores), (x_all, parts), twins = inside, everybody, _draw_twins(everybody[0], reader.columns)
    further = rng.integers(len(x_all), size=(3, _N_DRAWS))
    first = rng.integers(len(x), size=_N_DRAWS)
    second = (first + rng.integers(1, max(len(x), 2), size=_N_DRAWS)) % len(x)
    weight = rng.choice([-2.0, -1.0, 0.0], size=_N_DRAWS) + rng.uniform(0.05, 0.95, size=_N_DRAWS)

    corrected, column = x[first], rng.integers(x.shape[1], size=_N_DRAWS)
    corrected[np.arange(_N_DRAWS), column] = x_all[further[0], column]
    design = np.c_[corrected, np.ones(_N_DRAWS)]
    residuals = _residuals(reader.published.family, design @ reader.published.theta, y[first])[0]

    return [
        ("one more", -parts[further[0]], x_all[further[:1]].swapaxes(0, 1)),
        ("two more", -parts[further[:2]].sum(axis=0), x_all[further[:2]].swapaxes(0, 1)),
        ("three more", -parts[further].sum(axis=0), x_all[further].swapaxes(0, 1)),
        ("two alike", -parts[twins].sum(axis=1), x_all[twins]),
        ("two fewer", scores[first] + scores[second], np.stack([x[first], x[second]], axis=1)),
        ("one more, one fewer", scores[first] - parts[further[0]], np.stack([x[first], x_all[further[0]]], axis=1)),
        ("one corrected", scores[first] - design * residuals[:, None], np.stack([x[first], corrected], axis=1)),
        ("one of another weight", weight[:, None] * scores[first], x[first][:, None]),
    ]


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


def _bound_rate(passes: Bools, n_near: int, n_draws: int) -> float:
    """Return the upper end of the rate at which draws pass, of which those that are near were looked at in part."""
    if len(passes) == n_near:
        return _upper_rate(int(passes.sum()), n_draws)
    return _upper_rate(n_near, n_draws) * _upper_rate(int(passes.sum()), len(passes))


def _upper_rate(count: int, total: int) -> float:
    """Return the upper end of a rate, with 97.5 % confidence."""
    return 1.0 if count == total else float(special.betaincinv(count + 1, total - count, 0.975))


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
