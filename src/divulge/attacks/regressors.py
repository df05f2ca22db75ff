"""Conditional distributions of a signal: location and scale (or quantiles) given features and class.

A regressor is a configuration; ``fit`` returns a new fitted object and leaves the regressor as it was.
Shapes: ``z`` records to fit on, ``n`` to predict, ``d`` features.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np
from scipy import special

from divulge import seeds
from divulge.attacks.boosting import Booster, crossfit
from divulge.errors import InputError
from divulge.statistics.duplicates import keep_together
from divulge.validation import check_instance, check_integer, check_rates, check_vector

if TYPE_CHECKING:
    from divulge.types import Array, Floats, Ints


class Fitted(Protocol):
    """What predicts; ``labels`` is passed where the method has such a parameter."""

    def predict(self, features: Array) -> tuple[Floats, Floats]:
        """Location ``[n]`` and scale ``[n]`` (> 0) of the signal of a non-member with these features."""
        ...


class Regressor(Protocol):
    """What an attack needs of a regressor: ``fit(features, signal)``.

    ``fit`` may also take ``labels`` (class of each record, or None) and ``seed``; they are passed where
    they are asked for. It returns an object with ``predict(features)``; a regressor that fits itself and
    returns None is copied first. Features are ``[z, ...]`` as the evidence holds them (a network may want
    images), and ``[z, 0]`` when there are none.
    """

    def fit(self, features: Array, signal: Floats) -> Any:
        """Return the fitted object, or None where it is the regressor itself."""
        ...


@runtime_checkable
class Quantiles(Protocol):
    """A fitted object that knows more than location and scale."""

    def normal_scores(self, signal: Floats, features: Array, labels: Ints | None = None) -> Floats:
        """``Φ⁻¹`` of the conditional quantile level of each signal, ``[n]``."""
        ...


def fit(regressor: Regressor, features: Array, signal: Floats, labels: Ints | None, seed: int) -> Fitted:
    """``regressor`` fitted; the object handed in stays as it was.

    Examples:
        >>> import numpy as np
        >>> fitted = fit(Marginal(), np.empty((3, 0)), np.array([1.0, 2.0, 3.0]), None, seed=0)
        >>> predict(fitted, np.empty((1, 0)), None)
        (array([2.]), array([1.]))
    """
    fresh = copy.deepcopy(regressor)
    fitted = fresh.fit(features, signal, **_accepted_arguments(fresh.fit, labels=labels, seed=seed))
    return cast("Fitted", fresh if fitted is None else fitted)


def predict(fitted: Fitted, features: Array, labels: Ints | None) -> tuple[Floats, Floats]:
    """Location and scale, float64 ``[n]`` each.

    Raises:
        divulge.InputError: the regressor returned something of another shape.
    """
    location, scale = fitted.predict(features, **_accepted_arguments(fitted.predict, labels=labels))
    n = len(features)
    return (
        check_vector(location, "regressor: location", length=n, finite=False),
        check_vector(scale, "regressor: scale", length=n, finite=False),
    )


def _accepted_arguments(method: Any, **offered: Any) -> dict[str, Any]:
    parameters = inspect.signature(method).parameters
    return {name: value for name, value in offered.items() if name in parameters}


@dataclass(frozen=True, slots=True)
class Marginal:
    """One location and one scale for every record: mean and standard deviation of the population."""

    def fit(self, features: Array, signal: Floats) -> FittedClasses:
        """Mean and standard deviation (scale 1 where the signal is constant)."""
        none = np.empty(0)
        return FittedClasses(_location(signal), _scale(signal), none.astype(np.int64), none, none)


@dataclass(frozen=True, slots=True)
class PerClass:
    """Location and scale of each class.

    Args:
        least: a class with fewer population records, or with none at all, has the pooled location and scale.
    """

    least: int = 10

    def __post_init__(self) -> None:
        check_integer(self.least, "PerClass.least", least=2)

    def fit(self, features: Array, signal: Floats, labels: Ints | None = None) -> FittedClasses:
        """Mean and standard deviation of each class; only the pooled ones without labels."""
        if labels is None:
            return Marginal().fit(features, signal)
        classes, counts = np.unique(labels, return_counts=True)
        frequent_classes = classes[counts >= self.least]
        groups = [signal[labels == label] for label in frequent_classes]
        return FittedClasses(
            location=_location(signal),
            scale=_scale(signal),
            classes=frequent_classes,
            locations=np.array([_location(group) for group in groups]),
            scales=np.array([_scale(group, otherwise=_scale(signal)) for group in groups]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class FittedClasses:
    """Pooled location and scale, and those of the classes that have their own."""

    location: float
    scale: float
    classes: Ints
    locations: Floats
    scales: Floats

    def predict(self, features: Array, labels: Ints | None = None) -> tuple[Floats, Floats]:
        """Of each record's class; the pooled ones for other classes and without labels."""
        location, scale = np.full(len(features), self.location), np.full(len(features), self.scale)
        if labels is not None and self.classes.size:
            class_index = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
            is_known = self.classes[class_index] == labels
            location[is_known], scale[is_known] = (
                self.locations[class_index[is_known]],
                self.scales[class_index[is_known]],
            )
        return location, scale


@dataclass(frozen=True, slots=True)
class Boosted:
    """Location and scale of the class, corrected by gradient boosting on the features.

    The signal is first standardised within its class. Boosted trees (LightGBM) then fit its mean, and
    the log-variance of the **out-of-fold** residuals (residuals of records a model was fitted on are too
    small, and an attack that believes them calls every outsider unusual). The log-variance is fitted by
    the gamma objective on squared residuals with a log link, which is the Gaussian likelihood in the
    log-variance. Each fold's trees stop early on a second fold and predict a third; the prediction is the
    mean over folds, and the scale is corrected so that out-of-fold residuals have variance 1.

    Without features, or with fewer than ``least`` records, this is `PerClass`.

    Args:
        booster: how the trees grow.
        folds: number of folds; at least 3.
        least: number of population records below which no trees are grown.
    """

    booster: Booster = field(default_factory=Booster)
    folds: int = 5
    least: int = 200

    def __post_init__(self) -> None:
        check_instance(self.booster, "Boosted.booster", Booster)
        check_integer(self.folds, "Boosted.folds", least=3)
        check_integer(self.least, "Boosted.least", least=10 * self.folds)

    def fit(
        self, features: Array, signal: Floats, labels: Ints | None = None, seed: int = 0
    ) -> FittedClasses | FittedBoosted:
        """Return the fitted trees, the same for the same seed."""
        base = PerClass().fit(features, signal, labels)
        table = _feature_table(features)
        if table.shape[1] == 0 or len(signal) < self.least:
            return base
        location, scale = base.predict(features, labels)
        standard = (signal - location) / scale
        folds = seeds.generator(seed, "boosted", "folds").permutation(len(signal)) % self.folds
        folds = keep_together(folds, _with_labels(table, labels))
        draw = seeds.derive_seed(seed, "boosted", "trees")
        means, mean = crossfit(self.booster, "regression", table, standard, folds, draw)
        squares = (standard - mean) ** 2
        if not squares.any():
            return base
        log_variances, log_variance = crossfit(
            self.booster, "gamma", table, np.maximum(squares, 1e-9 * squares.mean()), folds, draw
        )
        stretch = float(np.sqrt(np.mean(squares * np.exp(-log_variance))))
        return FittedBoosted(base, means, log_variances, stretch)


@dataclass(frozen=True, slots=True, eq=False)
class FittedBoosted:
    """A base per class, and trees of each fold for mean and log-variance of the standardised signal."""

    base: FittedClasses
    means: tuple[Any, ...]
    log_variances: tuple[Any, ...]
    stretch: float

    def predict(self, features: Array, labels: Ints | None = None) -> tuple[Floats, Floats]:
        """Means over the folds, back in the unit of the signal."""
        location, scale = self.base.predict(features, labels)
        table = _feature_table(features)
        mean = np.mean([tree.predict(table) for tree in self.means], axis=0)
        log_variance = np.mean([tree.predict(table, raw_score=True) for tree in self.log_variances], axis=0)
        return location + scale * mean, scale * self.stretch * np.exp(0.5 * log_variance)


@dataclass(frozen=True, slots=True)
class Pinball:
    """Several conditional quantiles at once, by the pinball loss (Bertran et al. 2023, arXiv:2307.03694).

    The signal is standardised within its class; boosted trees fit each quantile with early stopping on a
    fifth of the records. Quantiles fitted one by one may cross; sorting them never fits worse
    (Chernozhukov et al. 2010, doi:10.3982/ECTA7880). Between two quantiles, and beyond the outermost, the
    level follows a Gaussian through both, so that no level saturates and no two signals tie.

    Without features, or with fewer than ``least`` records, quantiles are those of the standardised
    population.

    Args:
        levels: quantile levels, increasing, in (0, 1); at least two.
        booster: how the trees grow.
        least: number of population records below which no trees are grown.
    """

    levels: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
    booster: Booster = field(default_factory=lambda: Booster(least_in_leaf=50))
    least: int = 500

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", check_rates(self.levels, "Pinball.levels", increasing=True))
        check_instance(self.booster, "Pinball.booster", Booster)
        check_integer(self.least, "Pinball.least", least=50)

    def fit(self, features: Array, signal: Floats, labels: Ints | None = None, seed: int = 0) -> FittedQuantiles:
        """Return the fitted quantiles, the same for the same seed."""
        base = PerClass().fit(features, signal, labels)
        location, scale = base.predict(features, labels)
        standard = (signal - location) / scale
        table = _feature_table(features)
        if table.shape[1] == 0 or len(signal) < self.least:
            return FittedQuantiles(base, self.levels, tuple(np.quantile(standard, self.levels).tolist()))
        stop = seeds.generator(seed, "pinball", "stop").permutation(len(signal)) % 5 == 0
        stop = keep_together(stop, _with_labels(table, labels))
        draw = seeds.derive_seed(seed, "pinball", "trees")
        heads = tuple(
            self.booster.fit("quantile", table, standard, ~stop, stop, draw, alpha=level) for level in self.levels
        )
        return FittedQuantiles(base, self.levels, heads)


@dataclass(frozen=True, slots=True, eq=False)
class FittedQuantiles:
    """Quantiles of the standardised signal: numbers, or trees that give them."""

    base: FittedClasses
    levels: tuple[float, ...]
    heads: tuple[Any, ...]

    def quantiles(self, features: Array, labels: Ints | None = None) -> Floats:
        """Conditional quantiles ``[n, levels]`` in the unit of the signal, never crossing."""
        location, scale = self.base.predict(features, labels)
        return location[:, None] + scale[:, None] * self._standard(features)

    def predict(self, features: Array, labels: Ints | None = None) -> tuple[Floats, Floats]:
        """Location and scale of the Gaussian through the two innermost and the two outermost quantiles."""
        quantiles, normal_levels = self.quantiles(features, labels), _normal_quantiles(self.levels)
        scale = (quantiles[:, -1] - quantiles[:, 0]) / (normal_levels[-1] - normal_levels[0])
        scale = np.where(scale > 0, scale, self.base.predict(features, labels)[1])
        middle = int(np.abs(normal_levels).argmin())
        return quantiles[:, middle] - normal_levels[middle] * scale, scale

    def normal_scores(self, signal: Floats, features: Array, labels: Ints | None = None) -> Floats:
        """``Φ⁻¹`` of the conditional level of each signal: linear between the two quantiles around it, ``[n]``."""
        location, scale = self.base.predict(features, labels)
        standard, quantiles, normal_levels = (
            (signal - location) / scale,
            self._standard(features),
            _normal_quantiles(self.levels),
        )
        lower_index = np.clip((quantiles <= standard[:, None]).sum(axis=1) - 1, 0, len(normal_levels) - 2)
        rows = np.arange(len(quantiles))
        rise = normal_levels[lower_index + 1] - normal_levels[lower_index]
        # Equal outer quantiles would make the extrapolation a cliff: it is at least a tenth as wide as
        # the whole distribution says.
        overall_scale = (quantiles[:, -1] - quantiles[:, 0]) / (normal_levels[-1] - normal_levels[0])
        width = np.maximum(
            quantiles[rows, lower_index + 1] - quantiles[rows, lower_index],
            0.1 * rise * np.where(overall_scale > 0, overall_scale, 1.0),
        )
        return normal_levels[lower_index] + (standard - quantiles[rows, lower_index]) / width * rise

    def _standard(self, features: Array) -> Floats:
        if isinstance(self.heads[0], float):
            return np.tile(np.sort(self.heads), (len(features), 1))
        table = _feature_table(features)
        return np.sort(np.column_stack([head.predict(table) for head in self.heads]), axis=1)


def _normal_quantiles(levels: tuple[float, ...]) -> Floats:
    return np.asarray(special.ndtri(levels), dtype=np.float64)


def _location(signal: Floats) -> float:
    """Mean; exactly the signal where it is constant."""
    return float(signal[0] + (signal - signal[0]).mean())


def _scale(signal: Floats, otherwise: float = 1.0) -> float:
    """Standard deviation; ``otherwise`` where it cannot be told or is zero."""
    spread = float((signal - signal[0]).std(ddof=1)) if len(signal) > 1 else 0.0
    return spread if spread > 0.0 else otherwise


def _feature_table(features: Array) -> Floats:
    """Features as floats ``[n, d]``."""
    if features.dtype == object:
        raise InputError("features: numbers are needed by this regressor, got texts")
    table = features.reshape(len(features), int(np.prod(features.shape[1:])))
    return table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)


def _with_labels(table: Floats, labels: Ints | None) -> Array:
    """Features beside classes: rows that are equal are one record."""
    return table if labels is None else np.column_stack([table, labels])
