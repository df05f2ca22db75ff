"""Conditional distributions of a signal: location and scale given features and class.

A regressor is a configuration; ``fit`` returns a new fitted object and leaves the regressor as it was.
Shapes: ``z`` records to fit on, ``n`` to predict, ``d`` features.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from divulge import lazy, seeds
from divulge.duplicates import keep_together
from divulge.errors import InputError
from divulge.validation import check_instance, check_integer, check_number, check_vector

if TYPE_CHECKING:
    import lightgbm

    from divulge.types import Array, Bools, Floats, Ints
else:
    lightgbm = lazy.module("lightgbm")


class Fitted(Protocol):
    """Fitted regressor; ``labels`` is passed if the method has such a parameter."""

    def predict(self, features: Array) -> tuple[Floats, Floats]:
        """Location ``[n]`` and scale ``[n]`` (> 0) of the signal of a non-member with these features."""
        ...


class SignalRegressor(Protocol):
    """Regressor, as an attack uses it: ``fit(features, signal)``.

    ``fit`` may also take ``labels`` (class of each record, or None) and ``seed``; they are passed where
    they are asked for. It returns an object with ``predict(features)``; a regressor that fits itself and
    returns None is copied first. Features are ``[z, ...]`` as the evidence holds them (a network may want
    images), and ``[z, 0]`` when there are none. One with ``reads_records = True`` is given the records themselves in an
    audit, and one with ``least_records = n`` at least ``n`` of the population. Two methods are optional:
    ``notes(features)``, what the reader of the result must know, and ``check_installed()``, which raises before work
    starts if something is missing.
    """

    def fit(self, features: Array, signal: Floats) -> Any:
        """Return the fitted object, or None where it is the regressor itself."""
        ...


def fit(regressor: SignalRegressor, features: Array, signal: Floats, labels: Ints | None, seed: int) -> Fitted:
    """Fit a copy of ``regressor``; the object handed in stays as it was.

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
    """Predict location and scale, float64 ``[n]`` each.

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
        check_integer(self.least, "PerClass.least", minimum=2)

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
        """Return location and scale of each record's class; the pooled ones for other classes and without labels."""
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
class Booster:
    """Settings of gradient-boosted trees (LightGBM).

    Args:
        rounds: most trees.
        rate: learning rate.
        leaves: most leaves of a tree.
        least_in_leaf: fewest records in a leaf.
        patience: trees without improvement on the held-out part before it stops.
    """

    rounds: int = 200
    rate: float = 0.05
    leaves: int = 15
    least_in_leaf: int = 20
    patience: int = 20

    def __post_init__(self) -> None:
        check_integer(self.rounds, "Booster.rounds", minimum=1)
        check_number(self.rate, "Booster.rate", above=0, below=1, closed=True)
        check_integer(self.leaves, "Booster.leaves", minimum=2)
        check_integer(self.least_in_leaf, "Booster.least_in_leaf", minimum=1)
        check_integer(self.patience, "Booster.patience", minimum=1)

    def fit(
        self, objective: str, table: Floats, target: Floats, train: Bools, stop: Bools, seed: int, alpha: float = 0.5
    ) -> Any:
        """Trees for ``target`` grown on the rows ``train`` until those in ``stop`` no longer gain.

        The result is the same on every machine and for any number of cores: one thread, row order fixed.
        """
        settings = {
            "objective": objective,
            "alpha": alpha,
            "learning_rate": self.rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.least_in_leaf,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "seed": seed,
            "verbosity": -1,
        }
        fitted = lightgbm.Dataset(table[train], target[train])
        return lightgbm.train(
            settings,
            fitted,
            num_boost_round=self.rounds,
            valid_sets=[lightgbm.Dataset(table[stop], target[stop], reference=fitted)],
            callbacks=[lightgbm.early_stopping(self.patience, verbose=False)],
        )


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
        check_integer(self.folds, "Boosted.folds", minimum=3)
        check_integer(self.least, "Boosted.least", minimum=10 * self.folds)

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
        # Rows that are equal are one record.
        folds = keep_together(folds, table if labels is None else np.column_stack([table, labels]))
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


def crossfit(
    booster: Booster, objective: str, table: Floats, target: Floats, folds: Ints, seed: int
) -> tuple[tuple[Any, ...], Floats]:
    """Fit one model per fold; return them, and what each predicts (before any link function) of records new to it.

    Model k leaves out fold k, whose records it predicts, and fold k + 1, on which it stops: a fold that
    chose the number of trees is not unseen.

    Returns:
        The models, and their out-of-fold predictions ``[z]``.
    """
    count = int(folds.max()) + 1
    models, unseen = [], np.empty(len(target))
    for k in range(count):
        out, stop = folds == k, folds == (k + 1) % count
        model = booster.fit(objective, table, target, ~(out | stop), stop, seed)
        unseen[out] = model.predict(table[out], raw_score=True)
        models.append(model)
    return tuple(models), unseen
