"""Quantile regression: the signal relative to that of non-members with the same features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import special

from divulge import seeds
from divulge.attacks import protocol, regressors
from divulge.attacks.protocol import Attack, Need, Scored
from divulge.errors import InputError
from divulge.validation import check_bool, check_choice, check_integer, check_number, require_callable

if TYPE_CHECKING:
    from divulge.types import Array, Evidence, Floats, Ints


_MIN_POPULATION = 4  # records, of which one may be kept for calibration


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Records with what the regressor may look at."""

    signal: Floats
    features: Array
    labels: Ints | None

    def rows(self, index: Ints) -> _Part:
        return _Part(self.signal[index], self.features[index], None if self.labels is None else self.labels[index])


@dataclass(frozen=True, slots=True)
class QuantileRegression(Attack):
    """Distance of the signal above that of non-members with the same features.

    Bertran et al. 2023 (arXiv:2307.03694). A regressor learns the distribution of the signal of
    non-members (the population) given features and class; no reference model is trained. The score is
    ``(signal - location) / scale``, or the conditional quantile level.

    The level that a regressor promises is only as good as its fit: on census records, the nominal 99 %
    quantile of four regressors let through between 0.00 and 1.5 % of the non-members. With ``conformal=True`` a random
    part of the population is therefore kept away from the regressor and scored like the candidates.
    These calibration scores are exchangeable with those of non-members whatever the regressor, and
    `divulge.decisions.fpr.threshold` turns them into a guarantee. With the k-th
    largest of n calibration scores as threshold, one split's FPR is Beta(k, n + 1 - k); 0.1 % wants about 10,000.

    Args:
        regressor: see `divulge.attacks.regressors.SignalRegressor`; `Boosted` by default.
        conformal: keep a calibration part; its scores are ``run(evidence).calibration``.
        calibration: share of the population that is kept for it, in (0, 1).
        output: "z" (in standard deviations, never saturates) or "level" (in [0, 1]; ties at 1 beyond z = 8.3).
        seed: of the split and of the regressor.

    Examples:
        >>> import numpy as np
        >>> from divulge import Evidence
        >>> evidence = Evidence(target=[0.0, 3.0], population=np.linspace(-1, 1, 200))
        >>> scored = QuantileRegression(seed=1).run(evidence)
        >>> scored.scores.round(1), scored.calibration.shape
        (array([0. , 5.3]), (100,))
    """

    regressor: regressors.SignalRegressor = field(default_factory=regressors.Boosted)
    conformal: bool = True
    calibration: float = field(default=0.5, kw_only=True)
    output: Literal["z", "level"] = field(default="z", kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        require_callable(self.regressor, "QuantileRegression.regressor", "fit")
        check_bool(self.conformal, "QuantileRegression.conformal")
        check_number(self.calibration, "QuantileRegression.calibration", above=0, below=1)
        check_choice(self.output, "QuantileRegression.output", ("z", "level"))
        check_integer(self.seed, "QuantileRegression.seed", minimum=0)

    @property
    def needs(self) -> frozenset[Need]:
        """Population, labels, and what the regressor learns from: the records themselves, or features of them."""
        reads_records = getattr(self.regressor, "reads_records", False)
        return frozenset({Need.POPULATION, Need.RECORDS if reads_records else Need.FEATURES, Need.LABELS})

    @property
    def least_population(self) -> int:
        """Fewest population records to learn from, the calibration part among them."""
        least = int(getattr(self.regressor, "least_records", 2))
        if not self.conformal:
            return max(_MIN_POPULATION, least)
        # The calibration part is at least one record and leaves at least two.
        n = max(_MIN_POPULATION, least)
        while n - self._calibration_size(n) < least:
            n += 1
        return n

    def _calibration_size(self, z: int) -> int:
        return min(max(1, round(self.calibration * z)), z - 2)

    def run(self, evidence: Evidence) -> Scored:
        """Scores of the candidates and of the calibration part, by the same fitted regressor.

        A regressor that returns NaN, infinity or a scale ≤ 0 for any record (it diverged) is replaced by
        `Marginal` for all records, and a note says so. So does one on candidates of classes that the
        population lacks: there is no conditional distribution to learn for them. A third says so where the regressor
        learned nothing from the features.

        Raises:
            divulge.InputError: no population or fewer than 4 records in it; features or labels of one
                side only, or of different widths.
        """
        candidates, population = _parts(evidence)
        train, calibration_part = self._split(population)
        parts = (candidates,) if calibration_part is None else (candidates, calibration_part)
        notes = _unseen_class_notes(candidates, population)
        if callable(describe := getattr(self.regressor, "notes", None)):
            notes += tuple(describe(train.features))
        draw = seeds.derive_seed(self.seed, "quantile", "regressor")
        with np.errstate(all="ignore"):
            predictions = _fit_and_predict(self.regressor, train, parts, draw)
            z_scores = _z_scores(parts, predictions)
        if all(np.isfinite(scores).all() for scores in z_scores):
            notes += _constant_notes(self.regressor, train, candidates, predictions[0])
        else:
            notes += (
                f"{type(self.regressor).__name__} diverged (NaN or a scale ≤ 0); used one location and scale for all",
            )
            z_scores = _z_scores(parts, _fit_and_predict(regressors.Marginal(), train, parts, draw))
        if self.output == "level":
            z_scores = tuple(special.ndtr(scores) for scores in z_scores)
        return Scored(z_scores[0], notes, self.nominal_threshold, None if calibration_part is None else z_scores[1])

    def nominal_threshold(self, fpr: float) -> float:
        """Return the threshold of a perfect regressor: the raw, uncalibrated decision at ``fpr``.

        Reported next to the conformal one, to show why calibration is needed; it guarantees nothing.

        Examples:
            >>> round(QuantileRegression().nominal_threshold(0.01), 4)
            2.3263
        """
        level = check_number(fpr, "fpr", above=0, below=1)
        return 1.0 - level if self.output == "level" else -float(special.ndtri(level))

    def _split(self, population: _Part) -> tuple[_Part, _Part | None]:
        z = len(population.signal)
        if z < _MIN_POPULATION:
            raise InputError(
                f"QuantileRegression: evidence.population has {z} records, at least {_MIN_POPULATION} are needed"
            )
        if not self.conformal:
            return population, None
        order = seeds.generator(self.seed, "quantile", "calibration").permutation(z)
        n_calibration = self._calibration_size(z)
        return population.rows(np.sort(order[n_calibration:])), population.rows(np.sort(order[:n_calibration]))


def _fit_and_predict(
    regressor: regressors.SignalRegressor, train: _Part, parts: tuple[_Part, ...], seed: int
) -> tuple[tuple[Floats, Floats], ...]:
    """Return location and scale of the records of every part, by a regressor fitted on ``train``."""
    fitted = regressors.fit(regressor, train.features, train.signal, train.labels, seed)
    return tuple(regressors.predict(fitted, part.features, part.labels) for part in parts)


def _z_scores(parts: tuple[_Part, ...], predictions: tuple[tuple[Floats, Floats], ...]) -> tuple[Floats, ...]:
    """Return conditional z-scores of every part; NaN where a scale is not > 0."""
    return tuple(
        (part.signal - location) / np.where(scale > 0, scale, np.nan)
        for part, (location, scale) in zip(parts, predictions, strict=True)
    )


_SAME = 1e-6  # standard deviations within which two predictions are one: rounding of 32-bit networks


def _constant_notes(
    regressor: regressors.SignalRegressor, train: _Part, candidates: _Part, predicted: tuple[Floats, Floats]
) -> tuple[str, ...]:
    """Note that a regressor predicts the same of all candidates, or of all candidates of a class, whatever they are."""
    n = len(candidates.signal)
    if n < 2 or not candidates.features.size:
        return ()
    location, scale = predicted
    if not (np.isfinite(location).all() and np.isfinite(scale).all()):
        return ()
    unit = scale.mean() or 1.0  # a regressor may find no scale where the signal is constant
    values = np.column_stack([location, scale]) / unit
    beginning = (
        f"{type(regressor).__name__} learned nothing from the features of {len(train.signal):,} population records"
    )
    if (np.ptp(values, axis=0) <= _SAME).all():
        return (f"{beginning}: one location and scale for all, so the scores rank records as the signal alone does",)
    if candidates.labels is None or len(np.unique(candidates.labels)) == n:
        return ()
    classes, index = np.unique(candidates.labels, return_inverse=True)
    spreads = [np.ptp(values[index == k], axis=0) for k in range(len(classes))]
    if (np.array(spreads) <= _SAME).all():
        return (f"{beginning}: one location and scale for each class, so a record is compared with its class alone",)
    return ()


def _parts(evidence: Evidence) -> tuple[_Part, _Part]:
    """Check that candidates and population go together, and return both."""
    name = "QuantileRegression"
    population = protocol.part(evidence.population, name, "population", "the target's signal on known non-members")
    features, population_features = evidence.features, evidence.population_features
    if features is not None or population_features is not None:
        features = protocol.part(features, name, "features", "population_features is given")
        population_features = protocol.part(population_features, name, "population_features", "features is given")
        if features.shape[1:] != population_features.shape[1:]:
            raise InputError(
                f"{name}: evidence.features has shape {features.shape[1:]} per record, "
                f"population_features {population_features.shape[1:]}"
            )
    else:
        features, population_features = np.empty((len(evidence), 0)), np.empty((len(population), 0))
    labels, other_labels = evidence.labels, evidence.population_labels
    if labels is not None or other_labels is not None:
        labels = protocol.part(labels, name, "labels", "population_labels is given")
        other_labels = protocol.part(other_labels, name, "population_labels", "labels is given")
    return _Part(evidence.target, features, labels), _Part(population, population_features, other_labels)


def _unseen_class_notes(candidates: _Part, population: _Part) -> tuple[str, ...]:
    if candidates.labels is None or population.labels is None:
        return ()
    strange = np.setdiff1d(candidates.labels, population.labels)
    if not strange.size:
        return ()
    count = int(np.isin(candidates.labels, strange).sum())
    return (
        f"{count:,} of the {len(candidates.labels):,} records scored belong to classes missing from the population "
        f"({', '.join(map(str, strange))}): scored by the pooled distribution, and not covered by its calibration",
    )
