"""A published regression, and the fit of a set of records as seen from its coefficients.

`cohorts` asks which records fit, `odd_record` which single record keeps them from it. Both need the optimum near the
published numbers, how far rounding and optimiser may have moved these, and how often other records land as near.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import special

from divulge.errors import InputError
from divulge.validation import check_bool, check_choice, check_integer, check_number, check_vector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from divulge.types import Bools, Floats

Family: TypeAlias = Literal["logistic", "linear", "poisson"]
FAMILIES: tuple[Family, ...] = ("logistic", "linear", "poisson")
MIN_EIGENVALUE = 1e-9
"""Smallest eigenvalue of a Hessian in units of its diagonal; below, columns are collinear."""
SUM_ERROR = 1e-12
"""Largest error of a floating-point sum, relative to the sum of the sizes of what is added."""
SECOND_ORDER = 1.1
"""Factor of bounds that are linear in the coefficients, for what the curvature and one record more change in them."""
FLOAT_ERROR = 1e-9
"""Relative error of coefficients that are given with all digits, between libraries and machines."""

_LARGEST = 1e300  # of a penalty or a gradient
_MAX_DECIMALS = 15
_MAX_STEPS = 100
_MAX_LEVERAGE = 0.99  # of a record, up to which the others are taken to have a fit of their own
_MAX_REACH = 0.999 / np.e  # beyond it no u is at most so many times exp(u)
_MAX_FIRST_STEP = 20.0  # half-widths of the box; a subset whose first Newton step is longer is not solved exactly


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """Published coefficients, and how they were fitted.

    Args:
        coefficients: of ``d`` columns, ``[d]``.
        intercept: None for a fit without one.
        family: "logistic" (labels 0 and 1), "linear" or "poisson" (log link).
        decimals: of coefficients and intercept, or of each of them (coefficients first), below 0 for numbers rounded to
            tens or hundreds; None where all digits are given.
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
        object.__setattr__(self, "coefficients", coefficients)
        if self.intercept is not None:
            object.__setattr__(self, "intercept", check_number(self.intercept, "intercept"))
        check_choice(self.family, "family", FAMILIES)
        if self.decimals is not None:
            object.__setattr__(self, "decimals", _check_decimals(self.decimals, len(self.theta)))
        if self.penalty is not None:
            check_number(self.penalty, "penalty", above=0, closed=True, below=_LARGEST)
        check_bool(self.scaled, "scaled")
        check_bool(self.penalises_intercept, "penalises_intercept")
        check_number(self.units, "units", above=0, below=10)
        if self.gradient is not None:
            check_number(self.gradient, "gradient", above=0, closed=True, below=_LARGEST)

    @property
    def theta(self) -> Floats:
        """Coefficients and, last, the intercept where there is one."""
        return self.coefficients if self.intercept is None else np.append(self.coefficients, self.intercept)

    @property
    def rounding(self) -> Floats:
        """Largest distance of each published number from the fitted one, ``[d]``."""
        if self.decimals is None:
            return FLOAT_ERROR * np.maximum(np.abs(self.theta), 1e-3)
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
        return check_integer(decimals, "decimals", minimum=-_MAX_DECIMALS, maximum=_MAX_DECIMALS)  # ty: ignore[invalid-argument-type]
    if len(decimals) != count:
        raise InputError(f"decimals: one number, or {count}, are needed, got {len(decimals)}")
    return tuple(check_integer(each, "decimals", minimum=-_MAX_DECIMALS, maximum=_MAX_DECIMALS) for each in decimals)


class Cohort(NamedTuple):
    """The records of a cohort, or of several that are joined."""

    x: Floats  # [n, d]
    y: Floats  # [n]


def join_cohorts(tables: Mapping[str, Cohort], names: Iterable[str]) -> Cohort:
    """Return the records of some of the cohorts as one table."""
    joined = [tables[name] for name in names]
    return Cohort(np.concatenate([each.x for each in joined]), np.concatenate([each.y for each in joined]))


@dataclass(frozen=True, slots=True)
class SubsetOptimum:
    """The optimum of a subset of the records near the published coefficients.

    Args:
        step: from the published coefficients to the subset's own, ``[d]``, where the penalty fits best.
        hessian: ``[d, d]``.
        inverse_hessian: ``[d, d]``.
        box: largest step of each coefficient that rounding and optimiser explain, ``[d]``.
        penalty_slope: derivative of the coefficients by the penalty, ``[d]``; None where the penalty is known.
        penalty: the given one, or with which the subset fits best.
        design: columns as they were fitted, and a last one of ones for the intercept, ``[n, d]``.
        residuals: derivative of each record's loss by its linear predictor, ``[n]``.
    """

    step: Floats
    hessian: Floats
    inverse_hessian: Floats
    box: Floats
    penalty_slope: Floats | None
    penalty: float
    design: Floats
    residuals: Floats

    @property
    def record_gradients(self) -> Floats:
        """Each record's part of the gradient, ``[n, d]``."""
        return self.design * self.residuals[:, None]

    @property
    def is_accepted(self) -> bool:
        """Whether the published coefficients can be those of the subset."""
        return bool(self.accepts(self.step[None], self.box)[0])

    def accepts(self, steps: Floats, box: Floats) -> Bools:
        """Return which steps ``[k, d]`` lie in ``box``, for some penalty of at least 0 where that is not known.

        Args:
            steps: from the published coefficients.
            box: half-widths, ``[d]`` or one for each step, ``[k, d]``.
        """
        slope, box = self.penalty_slope, np.broadcast_to(box, steps.shape)
        if slope is None:
            return np.all(np.abs(steps) <= box, axis=1)
        is_moved = np.abs(slope) > 1e-12 * self.box
        unmoved_fit = np.all(np.abs(steps[:, ~is_moved]) <= box[:, ~is_moved], axis=1)
        if not is_moved.any():
            return unmoved_fit
        # Each coefficient allows an interval of penalties; some penalty must lie in all of them.
        ends = np.stack([(sign * box - steps)[:, is_moved] / slope[is_moved] for sign in (-1.0, 1.0)])
        low = np.maximum(ends.min(axis=0).max(axis=1), -self.penalty)
        return unmoved_fit & (low <= ends.max(axis=0).min(axis=1))


def fit_subset(published: Publication, records: Cohort, widest: Publication | None = None) -> SubsetOptimum | str:
    """Return the optimum of a subset as seen from the published coefficients, or why it cannot be told.

    Args:
        published: the coefficients.
        records: of the subset.
        widest: the same with the widest rounding in which the optimum shall be found; None for that of ``published``.
    """
    y = records.y
    design = _build_design(published, records.x)
    if design is None:
        return "a column is constant"
    if len(y) <= design.shape[1]:
        return "no more records than coefficients"
    start, mask, n = published.theta, published.penalised, len(y)
    wider = 0.0 if widest is None else widest.rounding - published.rounding
    factor = n if published.family == "poisson" else 1
    has_unknown_penalty = published.penalty is None
    penalty = 0.0 if published.penalty is None else published.penalty * factor
    step, penalty_slope, widest_box = np.zeros(len(start)), None, np.zeros(len(start))
    for number in range(_MAX_STEPS):
        with np.errstate(over="ignore", invalid="ignore"):
            residuals, weights = loss_derivatives(published.family, design @ (start + step), y)
            hessian = (design * weights[:, None]).T @ design + penalty * np.diag(mask)
            gradient = design.T @ residuals + penalty * mask * (start + step)
        inverse = invert_hessian(hessian)
        if inverse is None:
            return "columns are collinear, or labels are separated"
        # Beside what the optimiser left stands what floating-point sums of this size lose.
        sum_errors = SUM_ERROR * (np.abs(design).T @ (np.abs(y) + np.abs(residuals)))
        box = published.rounding + np.abs(inverse) @ (n * published.largest_gradient + sum_errors)
        change = -inverse @ gradient
        if has_unknown_penalty:
            penalty_slope = -inverse @ (mask * (start + step))
            # The penalty that brings the next step nearest to the published numbers, in units of the box.
            next_step, scale = step + change, 1 / box**2
            norm = max(float((penalty_slope * scale) @ penalty_slope), np.finfo(float).tiny)
            shift = -float((penalty_slope * scale) @ next_step) / norm
            shift = max(shift, -penalty)
            penalty, change = penalty + shift, change + shift * penalty_slope
        # Far off, no more is needed than about how far. A convex loss has no optimum on the side to which it rises.
        widest_box = np.maximum(widest_box, box + wider)
        falls_away = gradient @ step < -np.abs(gradient) @ widest_box and not has_unknown_penalty
        if falls_away or (number == 0 and _is_far(published.family, change, hessian, inverse, widest_box, design)):
            step = step + change
            break
        is_reached = np.abs(change / box).max() < 1e-4
        if published.family != "linear":
            # A long step may overshoot; so shortened, none does, as the third derivative is at most the second
            # (Sun and Tran-Dinh, arXiv 1703.04599).
            longest = max(float(np.abs(design @ change).max()), np.finfo(float).tiny)
            change = change * np.log1p(longest) / longest
        step = step + change
        if is_reached:
            break
    else:
        return "its optimum was not reached"
    if published.family == "linear":
        residuals = design @ (start + step) - y  # exact, however far the step
    slope = None if penalty_slope is None else np.asarray(factor * penalty_slope)  # by the penalty as published
    return SubsetOptimum(step, hessian, inverse, box, slope, penalty / factor, design, residuals)


def _build_design(published: Publication, x: Floats) -> Floats | None:
    """Return the columns as they are fitted; None where one that is scaled is constant."""
    if published.scaled:
        spread = x.std(axis=0)
        if (spread == 0).any():
            return None
        x = (x - x.mean(axis=0)) / spread
    return add_intercept(published, x)


def _is_far(family: Family, change: Floats, hessian: Floats, inverse: Floats, box: Floats, design: Floats) -> bool:
    """Return whether a Newton step from the published numbers is longer than one to an optimum in the box can be."""
    if family == "linear":
        return bool(np.abs(change / box).max() > _MAX_FIRST_STEP)
    # Where predictors change by u, the curvature of logistic and Poisson losses changes by a factor of exp(u) at most,
    # and so does, in its norm, the step.
    predictor_change = float((np.abs(design) @ box).max())
    wrong = np.sqrt(np.diag(inverse)) * np.expm1(min(predictor_change, 1.0)) * np.sqrt(box @ np.abs(hessian) @ box)
    return predictor_change < 1 and bool(np.any(np.abs(change) > _MAX_FIRST_STEP * box + wrong))


def leave_out_each(published: Publication, optimum: SubsetOptimum) -> tuple[Floats, Floats]:
    """Return by how much the coefficients of a subset move without each of its records.

    That is one Newton step of the other records. Columns that were scaled are scaled anew, in which all coefficients
    change, and of a mean loss (Poisson) the penalty falls with the number of records.

    Args:
        published: the coefficients.
        optimum: of the subset, which is accepted.

    Returns:
        The shifts, ``[n, d]``, and bounds on their errors, ``[n, d]``; infinite where there may be no fit without it.
    """
    design, mask, (n, d) = optimum.design, published.penalised, optimum.design.shape
    theta = published.theta + optimum.step
    _, weights = loss_derivatives(published.family, design @ theta, np.zeros(n))
    penalties = optimum.penalty * (np.array([n, n - 1]) if published.family == "poisson" else np.ones(2))
    shifts, errors = np.full((n, d), np.inf), np.full((n, d), np.inf)
    if published.scaled and published.intercept is None:
        return shifts, errors  # what moves the columns is not made up for
    inverse_rows = design @ optimum.inverse_hessian
    sizes = np.einsum("ij,ij->i", inverse_rows, design)
    leverage = np.minimum(weights * sizes, 1.0)
    for rows in np.array_split(np.arange(n), -(-n * d * d // 2**21)):
        rows = rows[leverage[rows] < _MAX_LEVERAGE]
        x, transform = design[rows], np.tile(np.eye(d), (len(rows), 1, 1))
        if published.scaled:
            n_columns, place = len(published.coefficients), np.arange(len(published.coefficients))
            mean = -x[:, :n_columns] / (n - 1)
            variance = (n - x[:, :n_columns] ** 2) / (n - 1) - mean**2
            transform[:, place, place] = np.sqrt(np.maximum(variance, 0.0))
            transform[:, -1, :n_columns] = mean
        penalty = penalties[1] * np.swapaxes(transform, 1, 2) @ (mask[:, None] * transform)
        penalty = penalty - penalties[0] * np.diag(mask)
        hessians = optimum.hessian + penalty - weights[rows, None, None] * x[:, :, None] * x[:, None, :]
        gradients = penalty @ theta - x * optimum.residuals[rows, None]
        change = -np.linalg.solve(hessians, gradients[:, :, None])[:, :, 0]
        shifts[rows] = np.einsum("nij,nj->ni", transform, theta + change) - theta
        errors[rows] = 0.0
        if published.family != "linear":
            # In the norm of the Hessian the step is wrong by exp(u) - 1 of itself at most, where the exact one changes
            # predictors by u; that u is at most `reach` times exp(u).
            left = 1 - leverage[rows]
            norm = np.sqrt(np.maximum(-np.einsum("ni,ni->n", gradients, change), 0.0))
            reach = np.sqrt(sizes.max() / left) * norm
            is_bounded = reach < _MAX_REACH
            relative = np.expm1(-special.lambertw(-np.minimum(reach, _MAX_REACH)).real)
            bounds = (relative * norm / np.sqrt(left))[:, None] * np.sqrt(np.diag(optimum.inverse_hessian))
            errors[rows] = np.where(is_bounded[:, None], np.einsum("nij,nj->ni", np.abs(transform), bounds), np.inf)
    return shifts, errors


def add_intercept(published: Publication, x: Floats) -> Floats:
    """Return ``x`` with a last column of ones where the regression has an intercept."""
    return x if published.intercept is None else np.c_[x, np.ones(len(x))]


def loss_derivatives(family: Family, predictor: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the derivative of each record's loss by its linear predictor, ``[n]``, and the second derivative."""
    if family == "linear":
        return predictor - y, np.ones(len(y))
    if family == "logistic":
        p = special.expit(predictor)
        return p - y, p * (1 - p)
    mean = np.exp(np.minimum(predictor, 700))
    return mean - y, mean


def invert_hessian(hessian: Floats) -> Floats | None:
    """Return the inverse; None where columns are collinear or entries are not finite."""
    diagonal = np.sqrt(np.diag(hessian))
    if not (np.isfinite(hessian).all() and (diagonal > 0).all()):
        return None
    eigenvalues, vectors = np.linalg.eigh(hessian / diagonal / diagonal[:, None])
    if eigenvalues[0] < MIN_EIGENVALUE:
        return None
    return (vectors / eigenvalues) @ vectors.T / diagonal / diagonal[:, None]


def bound_box_probability(covariance: Floats, box: Floats) -> float:
    """Bound the probability of a box of these half-widths under a normal distribution, wherever its centre is.

    Given the coordinates before it, each lies in its side of the box with at most length times density.
    """
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


def bound_rate(count: int, total: int) -> float:
    """Return the upper end of a rate, with 97.5 % confidence."""
    return 1.0 if count == total else float(special.betaincinv(count + 1, total - count, 0.975))
