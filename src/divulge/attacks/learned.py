"""A membership score learned from the reference models, whose own training records are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from divulge import lazy, seeds
from divulge.attacks import protocol
from divulge.attacks.protocol import Attack, Need
from divulge.attacks.reference_moments import ColumnMoments, LessOne, equal_counts, moments
from divulge.errors import InputError
from divulge.validation import check_bool, check_choice, check_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sklearn import linear_model, pipeline, preprocessing

    from divulge.types import Bools, Evidence, Floats, Ints
else:
    linear_model = lazy.module("sklearn.linear_model")
    pipeline = lazy.module("sklearn.pipeline")
    preprocessing = lazy.module("sklearn.preprocessing")


@dataclass(frozen=True, slots=True)
class Learned(Attack):
    """Log-odds of membership, from a logistic regression fitted on the reference models.

    Every reference model is attacked with the others, as in LiRA's and RMIA's leave-one-out evaluations; it is
    known what each was trained on, so the weights of what is known of a record need no assumption: its
    signal, the mean of the OUT models' signals, both as scaled logits and as log-probabilities, and the
    logarithm of the OUT models' mean probability (RMIA's denominator). LiRA's Gaussians and RMIA's ratio are
    fixed choices of such weights. The attack classifier of Shokri et al. 2017 is the same idea with one
    model's outputs alone.

    The evidence holds the "scaled-logit" signal.

    Args:
        mode: "offline" learns from the population, on which the reference models were trained; "online" from
            the candidates themselves, and also reads the mean of the IN models.
        most: greatest number of (model, record) pairs to learn from; records are drawn if there are more.
        seed: of that draw, and of the OUT models drawn.
        few: learn from few reference models. The target, which saw none of the population, is one more OUT model in
            each, so one reference is enough; and every record that is learned from has equally many OUT models, drawn
            at random. Otherwise members have more of them than others have, as no candidate has, and with few models
            that spoils the weights. Offline only.
        beside: also weighs further signals of the same records, of which the evidence has one `Evidence` each in
            ``queries``: each signal and its mean over the OUT models. With ``few`` alone.

    Raises:
        divulge.InputError: a setting out of its range.

    Examples:
        >>> from divulge import Evidence
        >>> rng = np.random.default_rng(0)
        >>> inside = rng.random((8, 200)) < 0.5
        >>> signals = rng.normal(size=200) + rng.normal(size=(8, 200)) + 2 * inside
        >>> scores = Learned("online").score(Evidence(signals[0], signals[1:], inside[1:]))
        >>> bool(scores[inside[0]].mean() > scores[~inside[0]].mean() + 1)
        True
    """

    mode: Literal["offline", "online"] = "offline"
    most: int = 200_000
    seed: int = 0
    few: bool = False
    beside: bool = False

    def __post_init__(self) -> None:
        check_choice(self.mode, "Learned.mode", ("offline", "online"))
        check_integer(self.most, "Learned.most", minimum=1)
        check_integer(self.seed, "Learned.seed", minimum=0)
        if check_bool(self.few, "Learned.few") and self.mode == "online":
            raise InputError("Learned.few: only offline, where the target saw none of the population")
        if check_bool(self.beside, "Learned.beside") and not self.few:
            raise InputError("Learned.beside: only with few=True")

    @property
    def least_references(self) -> int:
        """Fewest reference models: each is attacked with the others, which must both hold and lack a record."""
        return 1 if self.few else 3

    @property
    def needs(self) -> frozenset[Need]:
        """Reference models, and offline the population that they were trained on."""
        mode_needs = protocol.references_for_mode(self.mode, Need.POPULATION)
        return mode_needs | {Need.QUERIES} if self.beside else mode_needs

    def score(self, evidence: Evidence) -> Floats:
        """Log-odds, ``[n]``.

        Raises:
            divulge.InputError: no references, fewer than 3 of them (than 1 with ``few``), none known to be trained on a
                record (of the population, offline) and none known not to be, or all trained on every candidate.
        """
        references = _references(evidence)
        protocol.out_models(evidence.trained_on, "Learned")
        signals, trained_on = self._training_signals(evidence, references)
        if len(signals) < self.least_references or trained_on.all() or not trained_on.any():
            raise InputError(
                f"Learned: at least {self.least_references} reference models that were trained on some of the records "
                f"and not on others are needed, got {len(signals)} models, trained on {trained_on.mean():.0%} of the "
                "pairs"
            )
        description = "further signals of the same records, one Evidence each"
        further_evidence = (
            protocol.part(evidence.queries, "Learned(beside=True)", "queries", description) if self.beside else ()
        )
        learned = (
            self._fit_few(signals, trained_on, evidence, further_evidence)
            if self.few
            else self._fit(signals, trained_on)
        )
        inside = np.zeros(references.shape, dtype=bool) if evidence.trained_on is None else evidence.trained_on
        views = _views(references)
        out = [_averages(view, ~inside) for view in views]
        within = [_averages(view, inside) for view in views[:2]] if self.mode == "online" else []
        features = _features(_views(evidence.target), out, within)
        further_signals = [
            (signal_evidence.target, _references(signal_evidence)) for signal_evidence in further_evidence
        ]
        return learned.decision_function(
            _with_further_signals(
                features,
                [(values, _averages(reference_signals, ~inside)) for values, reference_signals in further_signals],
            )
        )

    def _training_signals(self, evidence: Evidence, references: Floats) -> tuple[Floats, Bools]:
        """Signals of records whose membership in each reference model is known, ``[m, k]``, and that membership."""
        if self.mode == "online":
            signals, trained_on = references, evidence.trained_on
        else:
            signals, trained_on = evidence.population_references, evidence.population_trained_on
        prefix = "" if self.mode == "online" else "population_"
        membership = protocol.part(
            trained_on, "Learned", f"{prefix}trained_on", "what each reference model was trained on"
        )
        training_signals = protocol.part(signals, "Learned", f"{prefix}references", "scaled logits of the population")
        rows = self._rows(training_signals)
        return training_signals[:, rows], membership[:, rows]

    def _rows(self, training_signals: Floats) -> Ints | slice:
        """Return the records to learn from."""
        count = max(1, self.most // len(training_signals))
        if count >= training_signals.shape[1]:
            return slice(None)
        return np.sort(seeds.generator(self.seed, "learned").permutation(training_signals.shape[1])[:count])

    def _fit_few(
        self, signals: Floats, trained_on: Bools, evidence: Evidence, further_evidence: Sequence[Evidence]
    ) -> pipeline.Pipeline:
        """Fit as `_fit` does, with the target among the OUT models, and equally many of these for every record."""
        target = self._target_signals(evidence)
        further_training_signals = [
            (
                self._training_signals(signal_evidence, _references(signal_evidence))[0],
                self._target_signals(signal_evidence),
            )
            for signal_evidence in further_evidence
        ]
        rows, truth = [], []
        for model, is_member in enumerate(trained_on):
            rng = seeds.generator(self.seed, "learned", "few", model)
            out = np.vstack([np.delete(~trained_on, model, axis=0), np.ones_like(is_member)])
            out_models, has_enough_models = equal_counts(out, is_member, rng)
            other_signals = np.vstack([np.delete(signals, model, axis=0), target])[:, has_enough_models]
            means = [_averages(view, out_models[:, has_enough_models]) for view in _views(other_signals)]
            features = _features(_views(signals[model, has_enough_models]), means, [])
            further_columns = [
                (
                    values[model, has_enough_models],
                    _averages(
                        np.vstack([np.delete(values, model, axis=0), target_values])[:, has_enough_models],
                        out_models[:, has_enough_models],
                    ),
                )
                for values, target_values in further_training_signals
            ]
            rows.append(_with_further_signals(features, further_columns))
            truth.append(is_member[has_enough_models])
        return _regression().fit(np.concatenate(rows), np.concatenate(truth))

    def _target_signals(self, evidence: Evidence) -> Floats:
        """Return the target's signals of the records to learn from."""
        population = protocol.part(evidence.population, "Learned(few=True)", "population", "the target's scaled logits")
        assert evidence.population_references is not None
        return population[self._rows(evidence.population_references)]

    def _fit(self, signals: Floats, trained_on: Bools) -> pipeline.Pipeline:
        views = _views(signals)
        out = [LessOne(moments(view, trained_on, complement=True)) for view in views]
        within = [LessOne(moments(view, trained_on)) for view in views[:2]] if self.mode == "online" else []
        rows = []
        for model, is_member in enumerate(trained_on):
            target_views = [view[model] for view in views]
            out_means = [less_one(values, ~is_member) for less_one, values in zip(out, target_views, strict=True)]
            in_means = [
                less_one(values, is_member)
                for less_one, values in zip(within, target_views[: len(within)], strict=True)
            ]
            rows.append(_features(target_views, out_means, in_means))
        return _regression().fit(np.concatenate(rows), trained_on.ravel())


def _references(evidence: Evidence) -> Floats:
    description = "the signal of the candidates under reference models"
    return protocol.part(evidence.references, "Learned", "references", description)


def _averages(values: Floats, keep: Bools) -> ColumnMoments:
    """Means alone, by plain sums: of probabilities from 1 down to 1e-30, differences would leave rounding errors."""
    return moments(values, keep, spread=False)


def _with_further_signals(features: Floats, further_signals: Sequence[tuple[Floats, ColumnMoments]]) -> Floats:
    """Return the features with each further signal and its mean over OUT models, ``[n, 5 + 2k]``."""
    return np.column_stack([features, *(column for values, out in further_signals for column in (values, _mean(out)))])


def _regression() -> pipeline.Pipeline:
    return pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression(max_iter=1000))


def _views(logits: Floats) -> list[Floats]:
    """Scaled logits, and the log-probabilities and probabilities that they mean."""
    log = -np.logaddexp(0.0, -logits.astype(np.float64))
    return [logits.astype(np.float64), log, np.exp(log)]


def _features(target_views: Sequence[Floats], out: Sequence[ColumnMoments], within: Sequence[ColumnMoments]) -> Floats:
    """Return the features of the regression, ``[n, 5]``; online with the IN means and distances to them, ``[n, 9]``."""
    outside = [_mean(each) for each in out]
    columns = [*target_views[:2], *outside[:2], np.log(np.maximum(outside[2], 1e-30))]
    for value, a, each in zip(target_views, outside, within, strict=False):
        b = _mean(each)
        columns += [b, (value - (a + b) / 2) * (b - a)]
    return np.stack(columns, axis=1)


def _mean(side: ColumnMoments) -> Floats:
    """Return each record's mean; that of all records where it has no value."""
    return np.where(side.count > 0, side.mean, side.grand_mean)
