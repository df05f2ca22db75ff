"""Signals of the target and of reference models, arranged as the arrays an attack may read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy, seeds
from divulge.attacks import Need
from divulge.attacks.protocol import REFERENCES
from divulge.errors import InputError
from divulge.signals import classification, internals
from divulge.signals.named import CLASSIFIER_SIGNALS, OutputSignal
from divulge.targets import GivesLabels, GivesLogits
from divulge.targets.rights import class_name
from divulge.types import Evidence, Records, TokenLogs
from divulge.validation import check_choice, check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sklearn import decomposition
    from sklearn.feature_extraction import text as sklearn_text

    from divulge.types import Array, Bools, Floats, Ints
else:
    decomposition = lazy.module("sklearn.decomposition")
    sklearn_text = lazy.module("sklearn.feature_extraction.text")

# More columns than this are reduced to their principal components before a regressor sees them.
MAX_FEATURES = 48


@dataclass(frozen=True, slots=True)
class Layout:
    """Row ranges in every array of an audit: candidates first, then calibration, then population.

    Args:
        candidates: number n of records that are judged.
        calibration: number k of known non-members that are scored with them.
        population: number z of those that attacks may learn from.

    Examples:
        >>> layout = Layout(candidates=4, calibration=2, population=3)
        >>> layout.calibration_rows, layout.population_rows, layout.scored, layout.total
        (slice(4, 6, None), slice(6, 9, None), 6, 9)
    """

    candidates: int
    calibration: int = 0
    population: int = 0

    @property
    def scored(self) -> int:
        """Number of scored records: candidates and calibration."""
        return self.candidates + self.calibration

    @property
    def total(self) -> int:
        """Number of all records."""
        return self.scored + self.population

    @property
    def candidate_rows(self) -> slice:
        """Rows of the candidates."""
        return slice(0, self.candidates)

    @property
    def calibration_rows(self) -> slice:
        """Rows of the calibration records."""
        return slice(self.candidates, self.scored)

    @property
    def scored_rows(self) -> slice:
        """Rows of candidates and calibration records."""
        return slice(0, self.scored)

    @property
    def population_rows(self) -> slice:
        """Rows of the population."""
        return slice(self.scored, self.total)


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """Signals of reference models that were trained in one way.

    Args:
        signals: signal name → ``[m, n + k + z]``; or ``[m, n + k]``.
        trained_on: bool ``[m, n + k + z]``, True where model ``i`` was trained on record ``j``.
        tokens: log-probability of each token, ``[m, t]``, where the records are documents.
    """

    signals: Mapping[str, Floats]
    trained_on: Bools
    tokens: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """Signals of a target, and of reference models where there are any, on the records of an audit.

    Args:
        target: signal name → ``[n + k + z]``; or ``[n + k]``, where the population was not measured.
        layout: which rows are whose.
        labels: ``[n + k + z]``, or None.
        features: ``[n + k + z, d]``, what a regressor may condition on.
        records: ``[n + k + z, ...]``, the records themselves, where a regressor is to read them.
        models: reference models, by the need that they meet.
        tokens: log-probabilities under the target, where the records are documents.
    """

    target: Mapping[str, Floats]
    layout: Layout
    labels: Ints | None = None
    features: Array | None = None
    records: Array | None = None
    models: Mapping[Need, Models] = field(default_factory=dict)
    tokens: TokenLogs | None = None

    def evidence(self, signal: str, needs: frozenset[Need]) -> Evidence:
        """Return the evidence for an attack on ``signal``: the parts it needs, as far as they exist.

        Every attack has arrays of its own (but for those mapped from disk, which cannot be written): one that
        writes into them changes nobody else's.

        Examples:
            >>> measurements = Measurements({"s": np.zeros(5)}, Layout(2, population=3), labels=np.zeros(5, int))
            >>> measurements.evidence("s", frozenset()), measurements.evidence("s", frozenset({Need.POPULATION}))
            (Evidence(n=2, m=0, z=0), Evidence(n=2, m=0, z=3))
        """
        target, scored = self.target[signal], self.layout.scored_rows
        models = next((self.models[need] for need in REFERENCES & needs if need in self.models), None)
        references = None if models is None else models.signals[signal]
        trained_on = None if models is None else models.trained_on
        features = self.features if Need.FEATURES in needs else self.records if Need.RECORDS in needs else None
        labels = self.labels if Need.LABELS in needs else None
        population_rows = self.layout.population_rows if Need.POPULATION in needs else slice(0)
        tokens = None
        if Need.TOKENS in needs and self.tokens is not None:
            model_tokens = None if models is None else models.tokens
            tokens = TokenLogs(self.tokens.offsets, self.tokens.target, model_tokens, self.tokens.wrong)
        return Evidence(
            target=_copy_rows(target, scored),
            population=_copy_rows(target, population_rows),
            references=_copy_columns(references, scored),
            population_references=_copy_columns(references, population_rows),
            trained_on=_copy_columns(trained_on, scored),
            population_trained_on=_copy_columns(trained_on, population_rows),
            features=_copy_rows(features, scored),
            population_features=_copy_rows(features, population_rows),
            labels=_copy_rows(labels, scored),
            population_labels=_copy_rows(labels, population_rows),
            tokens=_select_documents(tokens, scored),
            population_tokens=_select_documents(tokens, population_rows),
        )


def _select_documents(tokens: TokenLogs | None, rows: slice) -> TokenLogs | None:
    """Return the documents at ``rows``; None without any."""
    return None if tokens is None or rows.stop == 0 else tokens.documents(rows)


def _copy_rows(array: Array | None, rows: slice) -> Array | None:
    """Return a copy of the records at ``rows``; None without any."""
    return None if array is None or not len(array[rows]) else np.array(array[rows])


def _copy_columns(matrix: Array | None, rows: slice) -> Array | None:
    """Return a copy of the columns at ``rows``; memory-mapped arrays, which are read-only, are not copied."""
    if matrix is None or not matrix[:, rows].shape[1]:
        return None
    return matrix[:, rows] if isinstance(matrix, np.memmap) else np.array(matrix[:, rows], order="C")


def average_evidence(views: Sequence[Evidence], *, likelihood: bool) -> Evidence:
    """Average one signal over several views of the same records (completions of unknown values).

    Args:
        views: the evidence of each view.
        likelihood: the logarithm of the mean of the exponentials, rather than the mean.

    Examples:
        >>> average_evidence([Evidence([value]) for value in (0.0, 2.0)], likelihood=False).target
        array([1.])
    """

    def mean(parts: Sequence[Floats]) -> Floats:
        stacked = np.stack(parts).astype(np.float64)
        if not likelihood:
            return stacked.mean(axis=0)
        return np.logaddexp.reduce(stacked, axis=0) - np.log(len(stacked))

    references = [view.references for view in views if view.references is not None]
    return replace(
        views[0], target=mean([view.target for view in views]), references=mean(references) if references else None
    )


def leave_one_out(evidence: Evidence, model: int) -> Evidence:
    """Return the evidence of an attack on one of the reference models, which has the others as references.

    The population is what this model was not trained on.

    Args:
        evidence: with reference models that saw no candidate.
        model: which of them is attacked.

    Examples:
        >>> left = leave_one_out(Evidence([0.0, 1.0], [[2.0, 3.0], [4.0, 5.0]]), 1)
        >>> left.target, left.references
        (array([4., 5.]), array([[2., 3.]]))
    """
    assert evidence.references is not None
    others = np.arange(len(evidence.references)) != model
    trained_on = evidence.population_trained_on
    is_out = slice(None) if trained_on is None else ~trained_on[model]
    references = evidence.population_references

    def rows(values: Array | None) -> Array | None:
        return None if values is None else values[is_out]

    return replace(
        evidence,
        target=evidence.references[model],
        references=evidence.references[others],
        trained_on=None if evidence.trained_on is None else evidence.trained_on[others],
        population=None if references is None else references[model][is_out],
        population_references=None if references is None else references[others][:, is_out],
        population_trained_on=None if trained_on is None else trained_on[others][:, is_out],
        population_features=rows(evidence.population_features),
        population_labels=rows(evidence.population_labels),
    )


def signals_from_logits(logits: Floats, labels: Ints | None, signals: Sequence[str | OutputSignal]) -> Floats:
    """Compute several classification signals from logits, ``[n, len(signals)]``.

    Raises:
        divulge.InputError: a signal that needs labels where there are none.

    Examples:
        >>> signals_from_logits(np.array([[3.0, 1.0]]), np.array([0]), ("hinge", "top-two-gap"))
        array([[2., 2.]])
    """
    columns = []
    for signal in map(_output_signal, signals):
        if signal.needs_labels and labels is None:
            raise InputError(f"signal: {signal.name!r} needs the records' labels; without them use 'top-two-gap'")
        columns.append(check_vector(signal.compute(logits, labels), f"signal: {signal.name}", length=len(logits)))
    return np.stack(columns, axis=1) if columns else np.empty((len(logits), 0))


def _output_signal(signal: str | OutputSignal) -> OutputSignal:
    """Return the signal of a classifier's outputs that a name means."""
    if isinstance(signal, OutputSignal):
        return signal
    return CLASSIFIER_SIGNALS[check_choice(signal, "signal", classification.SIGNALS)]


def query_target(
    target: GivesLogits | GivesLabels, records: Records, signals: Sequence[str | OutputSignal]
) -> tuple[Floats | None, Ints]:
    """Query the target once; return its logits, if it gives any, and its predicted labels.

    Raises:
        divulge.InputError: a signal that reads logits of a target that gives none.
    """
    if isinstance(target, GivesLogits):
        logits = target.logits(records)
        return logits, logits.argmax(axis=1)
    output_signals = [_output_signal(signal) for signal in signals]
    if isinstance(target, GivesLabels) and all(signal.output == "labels" for signal in output_signals):
        return None, target.labels(records)
    listed = ", ".join(signal.name for signal in output_signals)
    raise InputError(f"target: {class_name(target)} gives no logits, which {listed} read")


def signals_from_answers(
    logits: Floats | None,
    predicted_labels: Ints,
    labels: Ints | None,
    signals: Sequence[str | OutputSignal],
    classes: int = 2,
) -> Floats:
    """Compute several classification signals from a target's answers, ``[n, len(signals)]``.

    Those that need labels alone are given no more, whatever else the target said.

    Raises:
        divulge.InputError: as `signals_from_logits`.
    """
    label_table = classification.one_hot_logits(predicted_labels, classes)
    columns = [
        signals_from_logits(label_table if logits is None or signal.output == "labels" else logits, labels, (signal,))
        for signal in map(_output_signal, signals)
    ]
    return np.hstack(columns) if columns else np.empty((len(predicted_labels), 0))


def target_signals(
    target: GivesLogits | GivesLabels, records: Records, signals: Sequence[str | OutputSignal], classes: int = 2
) -> Floats:
    """Compute several signals of a classifier, ``[n, len(signals)]``; it is queried for outputs once.

    For signals of its inside (`divulge.signals.internals`) it is looked into.

    Raises:
        divulge.InputError: as `query_target` and `signals_from_answers`; a signal of its inside that it does not give.

    Examples:
        >>> from divulge.targets import CallableTarget
        >>> target = CallableTarget(lambda x: np.array([[0.0, 2.0]]))
        >>> target_signals(target, Records([[0.0]], [1]), ("confidence", "correctness")).round(2)
        array([[0.88, 1.  ]])
    """
    if white_box := [name for name in signals if isinstance(name, str) and name in internals.SIGNALS]:
        values: dict[str | OutputSignal, Floats] = dict(
            zip(white_box, internals.measure(target, records, white_box).T, strict=True)
        )
        output_signals = [name for name in signals if name not in values]
        values |= (
            dict(zip(output_signals, target_signals(target, records, output_signals, classes).T, strict=True))
            if output_signals
            else {}
        )
        return np.stack([values[name] for name in signals], axis=1)
    logits, predicted_labels = query_target(target, records, signals)
    return signals_from_answers(logits, predicted_labels, records.labels, signals, classes)


def regression_features(records: Records, fit_on: Bools, seed: int) -> Floats:
    """Return the features of a quantile regressor: the records, reduced if they are wide.

    Args:
        records: rows, images or documents, ``n`` of them.
        fit_on: bool ``[n]``, the records the reduction may learn from (the auditor's own).
        seed: of the reduction.

    Returns:
        float64 ``[n, d]`` with ``d`` at most `MAX_FEATURES`.
    """
    state = seeds.derive_seed(seed, "features")
    if records.x.dtype == object:
        # One-letter words count: a text of digits must have some word.
        vectorizer = sklearn_text.TfidfVectorizer(max_features=20_000, sublinear_tf=True, token_pattern=r"\S+")  # noqa: S106 - no password
        try:
            vectorizer.fit(records.x[fit_on])
        except ValueError:  # an empty vocabulary
            raise InputError("records: the texts that a regressor may learn from have no words") from None
        sparse = vectorizer.transform(records.x)
        width = min(MAX_FEATURES, sparse.shape[1] - 1)
        if width < 1:
            return sparse.toarray()
        return decomposition.TruncatedSVD(width, random_state=state).fit(sparse[fit_on]).transform(sparse)
    return reduce_width(records.x.reshape(len(records), -1).astype(np.float64), fit_on, state)


def reduce_width(table: Floats, fit_on: Bools, random_state: int) -> Floats:
    """Return a table as it is, or its `MAX_FEATURES` leading principal components where it is wider.

    Args:
        table: numbers ``[n, d]``.
        fit_on: bool ``[n]``, the rows that the components are fitted on.
        random_state: of the decomposition.

    Examples:
        >>> reduce_width(np.ones((3, 2)), np.ones(3, dtype=bool), 0).shape
        (3, 2)
    """
    if table.shape[1] <= MAX_FEATURES:
        return table
    width = min(MAX_FEATURES, int(fit_on.sum()))
    components = decomposition.PCA(width, svd_solver="randomized", random_state=random_state)
    return components.fit(table[fit_on]).transform(table)


def concatenate_records(parts: Sequence[Records]) -> Records:
    """Concatenate records in order; labels and ids are kept if every part has them."""
    shapes = {part.x.shape[1:] for part in parts}
    if len(shapes) > 1:
        raise InputError(f"records: all must have the same shape, got {', '.join(map(str, sorted(shapes)))}")
    return Records.concatenate(parts)
