"""The one record by which a training set differs from cohorts, read off what these leave of the gradient.

Where no subset of the cohorts fits, the gradient over a subset is minus the part of a record that was trained on beside
them, or the part of one of theirs that was left out. A record's part is its values times its residual, with the
residual itself beside the intercept, so the values are a quotient and the label follows. Whether something else would
pass for one record is simulated with records of the cohorts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import optimize, spatial, special

from divulge import seeds
from divulge.margin.published_regression import (
    SECOND_ORDER,
    SUM_ERROR,
    Cohort,
    add_intercept,
    bound_box_probability,
    bound_rate,
    fit_subset,
    invert_hessian,
    join_cohorts,
    loss_derivatives,
)
from divulge.validation import check_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from divulge.margin.published_regression import Publication
    from divulge.types import Bools, Floats, Ints

MAX_MISTAKE = 0.005
"""Largest chance that another difference looks like one record with which that is named."""

_MAX_CANDIDATES = 64  # values of a column, or records, between which the equations decide
_MAX_GRID_CANDIDATES = 4096  # records of which all values lie on grids, which are tried at once
_MAX_ERROR = 0.25  # of a value that is read, in standard deviations of its column
_MAX_DENSITY = 0.5  # per unit of the linear predictor, of what many records leave
_N_GROUPS, _GROUP_SIZE = 500, 30  # of records, to see which columns they differ in
_N_DRAWS = 60_000  # of other differences, of each kind, to see how often they look like one record
_N_UNTRAINED_DRAWS = 20_000  # of these, for a record of the cohorts
_MAX_EXAMINED, _MAX_EXAMINED_GRID = 300, 1000  # differences of a kind that are held to one rounding of all numbers


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


def find_odd_record(
    published: Publication, subsets: Sequence[tuple[str, ...]], tables: Mapping[str, Cohort], n_roundings: int
) -> OddRecord | None:
    """Return the one record by which the training set differs from one of the subsets.

    None where another one demonstrably explains the numbers, too, or something else is too likely to look like it. What
    a record of the cohorts explains is not put down to a missing one, which can often be made to fit.

    Args:
        published: the coefficients, whose penalty is known and whose columns were not scaled.
        subsets: names of the cohorts in each.
        tables: all cohorts.
        n_roundings: number of ways in which the numbers may have been rounded, for each of which this is called.
    """
    if published.intercept is None or published.penalises_intercept:
        return None  # the residual of the record does not stand beside its values
    all_records = join_cohorts(tables, tables)
    columns = [_ValueGrid.from_values(column) for column in all_records.x.T]
    label = replace(_ValueGrid.from_values(all_records.y), low=-np.inf, high=np.inf)
    smallest_cohort = min(len(table.y) for table in tables.values())
    for is_missing in (False, True):
        explanations = []
        for subset in subsets:
            records = join_cohorts(tables, subset)
            remainder = _measure_remainder(published, records, 1 if is_missing else -1)
            reader = _RecordReader(published, subset, records, remainder, columns, label)
            candidates = reader.read_missing() if is_missing else _find_untrained(reader)
            candidates = [each for each in candidates if _explains(published, each, records)]
            if len(candidates) > 1:
                return None
            explanations += [(each, reader) for each in candidates]
        claims = []
        for record, reader in explanations:
            chance = reader.bound_chance(all_records.x, smallest_cohort, is_missing=is_missing)
            chance *= 2 * len(subsets) * n_roundings
            if chance <= MAX_MISTAKE:
                claims += _bound_mistake(record, chance, reader, all_records)
        # Another record whose values are exact, and beside which a subset is accepted, explains as much.
        exact = [record for record, _ in explanations if not record.error.any()]
        if explanations:
            is_alone = len(claims) == 1 and all(each.cohorts == claims[0].cohorts for each in exact)
            return _find_copies(claims[0], tables) if is_alone else None
    return None


@dataclass(frozen=True, slots=True)
class _ValueGrid:
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
    def from_values(cls, values: Floats) -> _ValueGrid:
        """Return the grid of these values, if they lie on one."""
        spread = float(values.std())
        error = 1e-6 * min(spread or 1.0, 1.0)
        for decimals in range(4):
            if np.abs(values * 10**decimals - np.round(values * 10**decimals)).max() < error:
                step = 10.0**-decimals
                return cls(step, spread, float(values.min()) - step / 2, float(values.max()) + step / 2)
        return cls(0.0, spread)

    def accepts(self, values: Floats, errors: Floats) -> Bools:
        """Return which values can be the column's, and are known well enough to say which."""
        if not self.step:
            return errors <= _MAX_ERROR * self.spread
        smallest, largest = np.maximum(values - errors, self.low), np.minimum(values + errors, self.high)
        n_values = np.floor(largest / self.step) - np.ceil(smallest / self.step) + 1
        return (n_values >= 1) & (n_values <= _MAX_CANDIDATES)

    def list_values(self, value: float, error: float) -> tuple[float, ...]:
        """Return the values that the column can have within ``error`` of ``value``, which it accepts."""
        if not self.step:
            return (value,)
        smallest, largest = max(value - error, self.low), min(value + error, self.high)
        places = range(int(np.ceil(smallest / self.step)), int(np.floor(largest / self.step)) + 1)
        return tuple(place * self.step + 0.0 for place in places)  # no -0

    def count_values(self, value: float, error: float) -> float:
        """Return how many values `list_values` returns."""
        if not self.step:
            return 1.0
        smallest, largest = max(value - error, self.low), min(value + error, self.high)
        return np.floor(largest / self.step) - np.ceil(smallest / self.step) + 1

    def bound_chance(self, error: float) -> float:
        """Bound the chance that the column accepts any value at all."""
        return min(1.0, 2 * error / self.step) if self.step else 1.0


@dataclass(frozen=True, slots=True)
class _Remainder:
    """What a subset leaves of the gradient at the published numbers, and how exactly that is known.

    Args:
        gradient: ``[d]``, summed over the subset, with the penalty's part.
        record_gradients: each record's part of it, ``[n, d]``.
        hessian: ``[d, d]``.
        inverse_hessian: None where there is none.
        rounding: largest distance of each published number from the fitted one, ``[d]``.
        optimiser_error: largest entry of the gradient at which the optimiser stopped.
        curvature: by how much of itself rounding changes a record's part of the Hessian, at most.
    """

    gradient: Floats
    record_gradients: Floats
    hessian: Floats
    inverse_hessian: Floats | None
    rounding: Floats
    optimiser_error: float
    curvature: float

    def bound_errors(self, weights: Floats) -> Floats:
        """Bound the errors of the sums ``weights @ gradient``, ``[k]`` for weights ``[k, d]``.

        Rounding moves all entries together, and what it does to a sum is mostly less than what it does to the parts.
        """
        joint_error = np.abs(weights @ self.hessian) @ self.rounding
        separate_errors = np.abs(weights) @ (np.abs(self.hessian) @ self.rounding)
        optimiser_error = self.optimiser_error * np.abs(weights).sum(axis=1)
        return SECOND_ORDER * joint_error + self.curvature * separate_errors + optimiser_error

    def scale_shifts(self, gradients: Floats) -> Floats | None:
        """Return by how much gradients ``[k, d]`` shift the coefficients, in units of what rounding and optimiser may.

        None where the Hessian has no inverse.
        """
        inverse = self.inverse_hessian
        if inverse is None:
            return None
        allowed = SECOND_ORDER * self.rounding + np.abs(inverse).sum(axis=1) * self.optimiser_error
        return gradients @ inverse / allowed


def _measure_remainder(published: Publication, records: Cohort, n_added: int) -> _Remainder:
    """Return what a subset leaves of the gradient.

    Args:
        published: the coefficients.
        records: of the subset.
        n_added: by how many records the training set is larger, which counts where the penalty is beside the mean loss.
    """
    design, n_trained = add_intercept(published, records.x), len(records.y) + n_added
    residuals, weights = loss_derivatives(published.family, design @ published.theta, records.y)
    factor = n_trained if published.family == "poisson" else 1
    penalty = (published.penalty or 0.0) * factor * published.penalised
    record_gradients = design * residuals[:, None]
    hessian = (design * weights[:, None]).T @ design + np.diag(penalty)
    curvature = 0.0
    if published.family != "linear":
        curvature = float(np.expm1(np.minimum(np.abs(design) @ published.rounding, 1)).max())
    return _Remainder(
        gradient=record_gradients.sum(axis=0) + penalty * published.theta,
        record_gradients=record_gradients,
        hessian=hessian,
        inverse_hessian=invert_hessian(hessian),
        rounding=published.rounding,
        optimiser_error=n_trained * published.largest_gradient + SUM_ERROR * float(np.abs(record_gradients).sum()),
        curvature=curvature,
    )


class _Readings(NamedTuple):
    """What gradients ``[k, d]`` would be as single records."""

    x: Floats  # [k, d - 1]
    x_error: Floats
    y: Floats
    y_error: Floats  # of a class: of the linear predictor, which its probability gives a second time
    is_single: Bools  # whether residual, predictor and label agree

    def take(self, place: int) -> _Readings:
        """Return those of one gradient."""
        row = [place]
        return _Readings(self.x[row], self.x_error[row], self.y[row], self.y_error[row], self.is_single[row])


@dataclass(frozen=True, slots=True)
class _RecordReader:
    """Reads a record off what a subset leaves of the gradient: x times its residual, with the residual beside it.

    What is left must be that of one record: its label one of the family, its linear predictor that of its residual, and
    each value one that the column can have, known to a small part of the column's spread.

    Args:
        published: the coefficients.
        subset: names of its cohorts.
        records: of the subset.
        remainder: what they leave of the gradient.
        columns: the values that each column takes.
        label: the values that the label takes.
    """

    published: Publication
    subset: tuple[str, ...]
    records: Cohort
    remainder: _Remainder
    columns: Sequence[_ValueGrid]
    label: _ValueGrid

    def read_missing(self) -> list[OddRecord]:
        """Return the records that the gradient can be one of; where several values can be, so do several records."""
        readings = self._read(self.remainder.gradient[None])
        if not self._is_plausible(readings)[0]:
            return []
        records = list(self._list_records(self.remainder.gradient, readings))
        if len(records) > (_MAX_CANDIDATES if self._has_only_grids else 1):
            return []
        errors = np.where([column.step > 0 for column in self.columns], 0.0, readings.x_error[0])
        return [OddRecord(self.subset, True, x, y, errors, None, 1.0, y_error, None) for x, y, y_error in records]

    def bound_chance(self, x: Floats, n_differing: int, *, is_missing: bool) -> float:
        """Bound the chance that what many records leave together passes for one.

        A column in which all of them are the same gives its value away by itself, and columns that hang together count
        once: the chances of those that differ by themselves are multiplied, over groups that are drawn from ``x``.

        Args:
            x: records like those that the difference is made of.
            n_differing: number of them, at least.
            is_missing: whether the one is in none of the cohorts, and not one of the subset's records.
        """
        readings = self._read(self.remainder.gradient[None])
        x_error, chance = readings.x_error[0], self._bound_sum_chance(n_differing)
        label_chance = self._bound_label_chance(float(readings.y_error[0]))
        chances = np.array([column.bound_chance(error) for column, error in zip(self.columns, x_error, strict=True)])
        has_no_grid = np.array([not column.step for column in self.columns])
        if not is_missing and has_no_grid.any():  # must hit one of the subset's values
            spread = np.atleast_2d(np.cov(self.records.x[:, has_no_grid].T))
            chance *= min(1.0, len(self.records.x) * bound_box_probability(spread, x_error[has_no_grid]))
        order = np.argsort(chances)
        group_size = max(2, min(n_differing, _GROUP_SIZE, len(x)))
        groups = seeds.generator(0, "groups of records").integers(len(x), size=(_N_GROUPS, group_size))
        differences = x[groups[:, 1:]] - x[groups[:, :1]]
        scale = np.maximum(x.std(axis=0), np.finfo(float).tiny)
        # A column that the ones before it determine has 0 on the diagonal, and says nothing of its own.
        factor: Floats = np.asarray(np.linalg.qr((differences / scale)[:, :, order], mode="r"))
        diagonal = np.abs(np.diagonal(factor, axis1=1, axis2=2))
        differs = np.zeros((_N_GROUPS, len(chances)), bool)
        differs[:, : diagonal.shape[1]] = diagonal > 1e-9
        group_chances = label_chance * np.where(differs, chances[order], 1.0).prod(axis=1)
        # Where all columns differ, the record must explain the rounding of all numbers at once, too.
        if is_missing and self._has_only_grids:
            group_chances[differs.all(axis=1)] = min(
                label_chance * chances.prod(), self._count_expected_records(readings)
            )
        return chance * float(group_chances.mean())

    def sample_passes(self, gradients: Floats, differing_x: Floats) -> tuple[int, Bools, Bools]:
        """Return how many gradients ``[k, d]`` are plausible as one record's, and what the first of these pass for.

        Args:
            gradients: that differences leave.
            differing_x: values of the records of each, ``[k, m, d - 1]``.

        Returns:
            Their number; whether the first pass for one record; and whether they do so for none of their own.
        """
        readings = self._read(gradients)
        plausible = np.flatnonzero(self._is_plausible(readings))
        examined = plausible[: _MAX_EXAMINED_GRID if self._has_only_grids else _MAX_EXAMINED]
        steps = np.array([column.step for column in self.columns])
        passes, is_misread = np.zeros(len(examined), bool), np.zeros(len(examined), bool)
        for number, place in enumerate(examined.tolist()):
            reading = readings.take(place)
            records = [x for x, _, _ in self._list_records(gradients[place], reading)]
            passes[number] = len(records) > 0
            error = np.where(steps, steps / 2, reading.x_error[0])
            distances = np.abs(np.array(records).reshape(-1, 1, len(steps)) - differing_x[place])
            is_misread[number] = passes[number] and not (distances <= error).all(axis=2).any()
        return len(plausible), passes, is_misread

    @property
    def _is_class(self) -> bool:
        return self.published.family == "logistic"

    @property
    def _has_only_grids(self) -> bool:
        return all(column.step for column in self.columns)

    def _read(self, gradients: Floats) -> _Readings:
        """Divide gradients ``[k, d]`` by their residuals, and bound the errors of what that gives."""
        remainder, coefficients = self.remainder, self.published.coefficients
        hessian, rounding, d = remainder.hessian, remainder.rounding, len(coefficients)
        separate_errors = np.abs(hessian) @ rounding
        residual_error = float(remainder.bound_errors(np.eye(len(rounding))[d:])[0])
        negative_residual = gradients[:, d]  # the gradient is minus that of the record
        is_single = np.abs(negative_residual) > 2 * residual_error
        if self._is_class:
            is_single &= np.abs(negative_residual) < 1 - 2 * residual_error
        negative_residual = np.where(is_single, negative_residual, 0.5)
        gradients = np.where(is_single[:, None], gradients, 0.0)
        smallest_residual = np.where(is_single, np.abs(negative_residual) - residual_error, 0.5)
        x = gradients[:, :d] / negative_residual[:, None]
        x_error = np.empty_like(x)
        for place in range(d):
            values = x[:, place]
            joint_error = np.abs(hessian[place] - values[:, None] * hessian[d]) @ rounding
            curvature_error = remainder.curvature * (separate_errors[place] + np.abs(values) * separate_errors[d])
            optimiser_error = remainder.optimiser_error * (1 + np.abs(values))
            x_error[:, place] = (SECOND_ORDER * joint_error + curvature_error + optimiser_error) / smallest_residual
        x_error[~is_single] = np.inf  # where the residual is not known, nothing is
        weights, y = self._label_equation(x, negative_residual, np.ones(d, bool))
        widening = np.ones(len(x))  # of the label's linear bound, as the mean's slope changes within the errors
        if self._is_class:
            slope_change = 1 - residual_error / np.minimum(np.abs(negative_residual), 1 - np.abs(negative_residual))
            widening = np.where(is_single, 1 / np.where(is_single, slope_change, 1.0), np.inf)
        elif self.published.family == "poisson":
            has_slope = coefficients != 0  # an error without bound is none of what does not count
            widening = np.exp(np.minimum(x_error[:, has_slope] @ np.abs(coefficients[has_slope]), 700))
        with np.errstate(over="ignore", invalid="ignore"):
            y_error = remainder.bound_errors(weights) * widening * np.abs(negative_residual) / smallest_residual
            y_error = np.nan_to_num(y_error, nan=np.inf, posinf=np.inf)
        y_error[~is_single] = np.inf
        if self._is_class:
            is_single &= np.abs(y) <= y_error
            y = (negative_residual > 0).astype(float)
        return _Readings(x, x_error, y, y_error, is_single & np.isfinite(y_error))

    def _label_equation(self, x: Floats, negative_residual: Floats, is_read: Bools) -> tuple[Floats, Floats]:
        """Return what the gradient says of the label, ``[k]``, and before it its derivative by the gradient.

        That is the label itself; of a class the distance of the linear predictor from its probability's, which is 0.

        Args:
            x: values ``[k, d]``.
            negative_residual: ``[k]``.
            is_read: which columns were read off the gradient; the others are known.
        """
        slopes = np.where(is_read, self.published.coefficients, 0.0)
        predictor = x @ self.published.coefficients + float(self.published.intercept or 0.0)
        weights = np.c_[
            np.broadcast_to(slopes, x.shape) / negative_residual[:, None], -(x @ slopes) / negative_residual
        ]
        if self._is_class:
            mean = (negative_residual > 0) - negative_residual
            weights[:, -1] += 1 / (mean * (1 - mean))
            return weights, predictor - special.logit(mean)
        mean = predictor
        if self.published.family == "poisson":
            mean = np.exp(np.clip(predictor, -700, 700))
            weights *= mean[:, None]
        weights[:, -1] += 1
        return weights, mean + negative_residual

    def _is_plausible(self, readings: _Readings) -> Bools:
        """Return which gradients could be of one record, each of its values taken by itself."""
        passes = readings.is_single.copy()
        for place, column in enumerate(self.columns):
            passes &= column.accepts(readings.x[:, place], readings.x_error[:, place])
        if self.published.family == "poisson":
            passes &= self.label.accepts(readings.y, readings.y_error) & (readings.y + readings.y_error >= 0)
        return passes

    def _list_records(self, gradient: Floats, reading: _Readings) -> Iterator[tuple[Floats, float, float]]:
        """Yield values, label and the label's error of each record of which one rounding makes the gradient.

        More of them than can be tried are taken to do so.
        """
        options = [
            column.list_values(float(value), float(error))
            for column, value, error in zip(self.columns, reading.x[0], reading.x_error[0], strict=True)
        ]
        n_records = np.prod([float(len(each)) for each in options])
        if n_records > (_MAX_GRID_CANDIDATES if self._has_only_grids else _MAX_CANDIDATES):
            for _ in range(_MAX_CANDIDATES + 1):
                yield reading.x[0], float(reading.y[0]), np.inf
            return
        x = np.array(list(itertools.product(*options)))
        if self._has_only_grids:
            low, high = self._label_range(gradient, x)
            for place in np.flatnonzero(low <= high).tolist():
                for y, error in self._list_labels(float(low[place]), float(high[place])):
                    yield x[place], y, error
        else:
            yield from self._list_partial(gradient, x, reading)

    def _label_range(self, gradient: Floats, x: Floats) -> tuple[Floats, Floats]:
        """Return between which labels each record ``[k, d]`` explains the gradient; the first is larger where none do.

        Rounding and optimiser leave the residual of a record a range by each coefficient.
        """
        remainder, design = self.remainder, np.c_[x, np.ones(len(x))]
        inverse, rounding = remainder.inverse_hessian, remainder.rounding
        if inverse is None:
            return np.full(len(x), -np.inf), np.full(len(x), np.inf)
        gradient_error = remainder.optimiser_error + remainder.curvature * (np.abs(remainder.hessian) @ rounding)
        allowed_shift = SECOND_ORDER * rounding + np.abs(inverse) @ gradient_error
        shift_per_residual = design @ inverse
        shift_per_residual = np.where(shift_per_residual == 0, np.finfo(float).tiny, shift_per_residual)
        ends = np.stack([(sign * allowed_shift - gradient @ inverse) / shift_per_residual for sign in (-1.0, 1.0)])
        low, high = ends.min(axis=0).max(axis=1), ends.max(axis=0).min(axis=1)
        mean, weights = loss_derivatives(self.published.family, design @ self.published.theta, np.zeros(len(x)))
        own_error = SECOND_ORDER * weights * (np.abs(design) @ rounding)  # of which the Hessian knows nothing
        is_possible = low <= high
        return (
            np.where(is_possible, mean - high - own_error, np.inf),
            np.where(is_possible, mean - low + own_error, -np.inf),
        )

    def _list_labels(self, low: float, high: float) -> list[tuple[float, float]]:
        """Return the labels in a range, each with its error; as one where real numbers need not be told apart."""
        if not self.label.step:
            return [((low + high) / 2, (high - low) / 2)]
        step = self.label.step
        start, stop = np.ceil(low / step), np.floor(high / step)
        if self.published.family != "linear":
            start = max(start, 0.0)
        if self._is_class:
            stop = min(stop, 1.0)
        if start > stop:
            return []
        if self.published.family == "linear" and start < stop:
            return [((low + high) / 2, (high - low) / 2)]
        # Two already are more than one record, so further ones need not be listed.
        return [(place * step + 0.0, 0.0) for place in np.arange(start, min(stop, start + 1) + 1).tolist()]

    def _list_partial(self, gradient: Floats, x: Floats, reading: _Readings) -> Iterator[tuple[Floats, float, float]]:
        """Yield which records ``[k, d]`` it can be, of whose values some are read with an error.

        Each of the others is held to its grid, and the label to its own or to its probability, by an equation that is
        linear in the rounding.
        """
        d, is_read = len(gradient) - 1, np.array([not column.step for column in self.columns])
        grid_columns, y, y_error = np.flatnonzero(~is_read), float(reading.y[0]), float(reading.y_error[0])
        labels: tuple[float, ...] = (y,)
        has_label = self._is_class or self.label.step > 0
        if has_label and not self._is_class:
            has_label = self.label.count_values(y, y_error) <= _MAX_CANDIDATES
            labels = self.label.list_values(y, y_error) if has_label else (y,)
        for values, label in itertools.product(x, labels):
            weights = np.zeros((len(grid_columns) + has_label, d + 1))
            weights[np.arange(len(grid_columns)), grid_columns] = 1.0
            weights[: len(grid_columns), d] = -values[grid_columns]
            targets = -weights @ gradient
            if has_label:
                equation, value = self._label_equation(values[None], gradient[None, d], is_read)
                weights[-1], targets[-1] = equation[0], (0.0 if self._is_class else label) - value[0]
            if not len(weights) or self._has_rounding(weights, targets):
                yield values, label, 0.0 if has_label else y_error

    def _has_rounding(self, weights: Floats, targets: Floats) -> bool:
        """Return whether some rounding changes the sums ``weights @ gradient`` by ``targets``, ``[k]``."""
        remainder, rounding = self.remainder, self.remainder.rounding
        separate_errors = np.abs(weights) @ (np.abs(remainder.hessian) @ rounding)
        slack = remainder.curvature * separate_errors + remainder.optimiser_error * np.abs(weights).sum(axis=1)
        matrix = weights @ remainder.hessian * rounding
        if len(matrix) == len(rounding) and np.linalg.matrix_rank(matrix) == len(rounding):  # one rounding does
            inverse = np.linalg.inv(matrix)
            return bool(np.all(np.abs(inverse @ targets) <= SECOND_ORDER + np.abs(inverse) @ slack))
        if np.any(np.abs(targets) > SECOND_ORDER * np.abs(matrix).sum(axis=1) + slack):
            return False
        scale = np.tile(np.maximum(np.abs(matrix).max(axis=1), slack), 2)
        sums, limits = np.concatenate([matrix, -matrix]), np.concatenate([targets + slack, slack - targets])
        bounds = (-SECOND_ORDER, SECOND_ORDER)
        solution = optimize.linprog(np.zeros(len(rounding)), sums / scale[:, None], limits / scale, bounds=bounds)
        return solution.status != 2  # 2: there is none

    def _bound_sum_chance(self, n_differing: int) -> float:
        """Bound the chance that the residuals of so many records add up to what one can leave."""
        if not self._is_class:
            return 1.0
        # Of labels, given the probabilities.
        variance = n_differing * float(self.remainder.hessian[-1, -1]) / len(self.records.y)
        return min(1.0, 2 / float(np.sqrt(2 * np.pi * variance)))

    def _bound_label_chance(self, error: float) -> float:
        """Bound the chance that many records together leave what agrees with a label."""
        return min(1.0, 2 * error * _MAX_DENSITY) if self._is_class else self.label.bound_chance(error)

    def _count_expected_records(self, readings: _Readings) -> float:
        """Return how many records of known values explain the gradient, on average, wherever their grid lies."""
        errors, steps = readings.x_error[0], np.array([column.step for column in self.columns])
        if not np.isfinite(errors).all():
            return 1.0
        offsets = seeds.generator(0, "places of a grid").uniform(-1.0, 1.0, size=(_MAX_GRID_CANDIDATES, len(errors)))
        low, high = self._label_range(self.remainder.gradient, readings.x[0] + offsets * errors)
        share = low <= high
        if self.label.step:
            share = np.clip((high - low) / self.label.step, 0.0, 1.0) * share
        return float(np.prod(2 * errors / steps)) * bound_rate(int(np.ceil(share.sum())), len(share))


def _find_untrained(reader: _RecordReader) -> list[OddRecord]:
    """Return the records whose part of the gradient is all that is left of it, each once."""
    (x, y), remainder = reader.records, reader.remainder
    shifts = remainder.scale_shifts(remainder.record_gradients - remainder.gradient)
    # Twice what may be: refits decide.
    rows = [] if shifts is None else np.flatnonzero((np.abs(shifts) <= 2).all(axis=1)).tolist()
    row_of_record = {(*x[row], y[row]): row for row in reversed(rows)}  # the first of equal ones
    return [
        OddRecord(reader.subset, False, x[row], float(y[row]), np.zeros(x.shape[1]), row, 1.0, 0.0, None)
        for row in row_of_record.values()
    ]


def _explains(published: Publication, odd: OddRecord, records: Cohort) -> bool:
    """Return whether the subset is accepted with, or without, the record."""
    if odd.missing:
        if odd.error.any():  # values that are not exact do not give the coefficients exactly
            return True
        trained = Cohort(np.vstack([records.x, odd.x]), np.append(records.y, odd.y))
    else:
        row = odd.row or 0
        trained = Cohort(np.delete(records.x, row, axis=0), np.delete(records.y, row))
    optimum = fit_subset(published, trained)
    return not isinstance(optimum, str) and optimum.is_accepted


def _bound_mistake(record: OddRecord, chance: float, reader: _RecordReader, all_records: Cohort) -> list[OddRecord]:
    """Return the record with the chance that another difference passes for it, where that is small enough.

    Two records that are alike leave what one leaves, but for its label. Where that does not tell them from one, it is
    claimed that a record of these values differs, and not that no other does; `OddRecord.alike` says how often two are
    alike.

    Args:
        record: that is read.
        chance: that a difference of many records passes.
        reader: that read it.
        all_records: those of all cohorts.
    """
    remainder, rates, misread_rates, min_residual, single_share = reader.remainder, [], [], 0.0, 1.0
    for difference, gradients, differing_x in _draw_differences(reader, all_records):
        if not len(gradients):
            continue
        if not record.missing:
            draws = gradients[:_N_UNTRAINED_DRAWS]
            rates.append(bound_rate(int(_passes_for_untrained(remainder, draws).sum()), len(draws)))
            continue
        # Only a residual as large as this one's tells as exactly what it is of. Differences that leave one, and pass,
        # are counted in units of the single records that do.
        residual = np.abs(gradients[:, -1])
        if difference == "one more":
            min_residual = min(abs(float(remainder.gradient[-1])), float(np.quantile(residual, 0.9)))
            single_share = float((residual >= min_residual).mean())
            continue
        is_counted = residual >= min_residual
        n_plausible, passes, is_misread = reader.sample_passes(gradients[is_counted], differing_x[is_counted])
        rates.append(_bound_sampled_rate(passes, n_plausible, len(gradients)) / single_share)
        # Of two that are drawn, as many are alike as there are; and one of another weight is read as what it is.
        if difference not in ("two alike", "one of another weight"):
            misread_rates.append(_bound_sampled_rate(is_misread, n_plausible, len(gradients)) / single_share)
            if chance + misread_rates[-1] > MAX_MISTAKE:
                return []
    mistake = chance + max(rates)
    if mistake <= MAX_MISTAKE:
        return [replace(record, chance=mistake)]
    if not record.missing:
        return []
    mistake = chance + max(misread_rates)
    counts = np.unique(all_records.x, axis=0, return_counts=True)[1].astype(float)
    n_pairs = len(all_records.x) * (len(all_records.x) - 1)
    return [replace(record, chance=mistake, alike=float((counts * (counts - 1)).sum() / n_pairs))]


def _draw_differences(reader: _RecordReader, all_records: Cohort) -> list[tuple[str, Floats, Floats]]:
    """Draw other differences from the training set.

    Returns:
        Of each kind what ``k`` of them leave of the gradient, ``[k, d]``, and the values of their records,
        ``[k, m, d - 1]``.
    """
    published, rng = reader.published, seeds.generator(0, "other differences")
    (x, y), record_gradients = reader.records, reader.remainder.record_gradients
    x_all, all_gradients = all_records.x, _compute_record_gradients(published, all_records)
    twins = _draw_twins(x_all, reader.columns)
    added = rng.integers(len(x_all), size=(3, _N_DRAWS))
    removed = rng.integers(len(x), size=_N_DRAWS)
    also_removed = (removed + rng.integers(1, max(len(x), 2), size=_N_DRAWS)) % len(x)
    weight = rng.choice([-2.0, -1.0, 0.0], size=_N_DRAWS) + rng.uniform(0.05, 0.95, size=_N_DRAWS)

    x_removed, removed_gradients = x[removed], record_gradients[removed]
    corrected, column = x_removed.copy(), rng.integers(x.shape[1], size=_N_DRAWS)
    corrected[np.arange(_N_DRAWS), column] = x_all[added[0], column]
    corrected_gradients = _compute_record_gradients(published, Cohort(corrected, y[removed]))

    return [
        ("one more", -all_gradients[added[0]], x_all[added[:1]].swapaxes(0, 1)),
        ("two more", -all_gradients[added[:2]].sum(axis=0), x_all[added[:2]].swapaxes(0, 1)),
        ("three more", -all_gradients[added].sum(axis=0), x_all[added].swapaxes(0, 1)),
        ("two alike", -all_gradients[twins].sum(axis=1), x_all[twins]),
        (
            "two fewer",
            removed_gradients + record_gradients[also_removed],
            np.stack([x_removed, x[also_removed]], axis=1),
        ),
        (
            "one more, one fewer",
            removed_gradients - all_gradients[added[0]],
            np.stack([x_removed, x_all[added[0]]], axis=1),
        ),
        ("one corrected", removed_gradients - corrected_gradients, np.stack([x_removed, corrected], axis=1)),
        ("one of another weight", weight[:, None] * removed_gradients, x_removed[:, None]),
    ]


def _draw_twins(x: Floats, columns: Sequence[_ValueGrid]) -> Ints:
    """Draw pairs of records ``[k, 2]`` that are alike in every column with a grid; none where no two are."""
    rng = seeds.generator(0, "records that are alike")
    grid_x = x[:, [bool(column.step) for column in columns]]
    groups = np.zeros(len(x), np.int64)
    if grid_x.shape[1]:
        groups = np.unique(grid_x, axis=0, return_inverse=True)[1].ravel()
    order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
    starts, rows_with_twin = np.cumsum(sizes) - sizes, np.flatnonzero(sizes[groups] > 1)
    if not len(rows_with_twin):
        return np.zeros((0, 2), np.int64)
    rows = rows_with_twin[rng.integers(len(rows_with_twin), size=_N_DRAWS)]
    place_in_group = np.empty(len(x), np.int64)
    place_in_group[order] = np.arange(len(x)) - np.repeat(starts, sizes)
    size = sizes[groups[rows]]
    step = 1 + (rng.random(_N_DRAWS) * (size - 1)).astype(np.int64)
    return np.stack([rows, order[starts[groups[rows]] + (place_in_group[rows] + step) % size]], axis=1)


def _compute_record_gradients(published: Publication, records: Cohort) -> Floats:
    """Return each record's part of the gradient at the published numbers, ``[n, d]``."""
    design = add_intercept(published, records.x)
    return design * loss_derivatives(published.family, design @ published.theta, records.y)[0][:, None]


def _passes_for_untrained(remainder: _Remainder, gradients: Floats) -> Bools:
    """Return which gradients ``[k, d]`` pass for the part of one of the subset's records."""
    record_shifts, shifts = remainder.scale_shifts(remainder.record_gradients), remainder.scale_shifts(gradients)
    if record_shifts is None or shifts is None:
        return np.ones(len(gradients), bool)
    distances, _ = spatial.KDTree(record_shifts).query(shifts, p=np.inf, distance_upper_bound=np.nextafter(1.0, 2.0))
    passes: Bools = distances <= 1.0  # infinite where none of the records is as near
    return passes


def _bound_sampled_rate(passes: Bools, n_plausible: int, n_draws: int) -> float:
    """Return the upper end of the rate at which draws pass, of which those that are plausible were examined in part."""
    if len(passes) == n_plausible:
        return bound_rate(int(passes.sum()), n_draws)
    return bound_rate(n_plausible, n_draws) * bound_rate(int(passes.sum()), len(passes))


def _find_copies(odd: OddRecord, tables: Mapping[str, Cohort]) -> OddRecord:
    """Return the record with the number of held records that equal it, those of its own cohorts first."""
    other_cohorts = () if not odd.missing else tuple(name for name in tables if name not in odd.cohorts)
    error, copies = np.maximum(odd.error, 1e-9 * np.abs(odd.x)), []
    for name in (*odd.cohorts, *other_cohorts):
        x, y = tables[name]
        # The label of one of several that are alike is that of none of them.
        has_label = np.full(len(y), True) if odd.alike is not None else np.abs(y - odd.y) <= odd.y_error + 1e-9
        rows = np.flatnonzero((np.abs(x - odd.x) <= error).all(axis=1) & has_label).tolist()
        copies += [(name, row) for row in rows]
    return replace(odd, copies=len(copies), equal=copies[0] if odd.missing and copies else None)
