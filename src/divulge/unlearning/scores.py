"""Scores of every record under every model: read from tables of scores, or asked of the models themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import columns
from divulge.auditing.language_modality import LanguageModel
from divulge.auditing.modality import Classifier, Modality, measure_outputs
from divulge.duplicates import match_records, number_groups
from divulge.errors import InputError
from divulge.evidence import query_target, signals_from_answers
from divulge.references import FineTune, Train, splits
from divulge.signals import tokens
from divulge.signals.named import OutputSignal
from divulge.study import open_subject
from divulge.targets import TokenStatistics, is_label_only
from divulge.targets.rights import check_outputs
from divulge.types import AuditData, Records
from divulge.validation import check_ids, check_instance, check_vector, format_value

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.references import Progress
    from divulge.settings import Outputs
    from divulge.targets import Task
    from divulge.types import Array, Bools, Floats

ID, SCORE, CORRECT = "id", "score", "correct"
_CLASSIFIER_SIGNAL, _LABEL_SIGNAL = "scaled-logit", "correctness"
_LARGEST_SCORE = 1e300  # sums and differences of a few must stay finite
_TOKEN_SIGNAL = "log-likelihood per token"  # noqa: S105 - the name of a signal


@dataclass(frozen=True, slots=True, eq=False)
class ModelScores:
    """Scores of one model on all records.

    Args:
        scores: ``[n]``, larger = more like a training record.
        correct: 1 where the model predicts the record's class, ``[n]``; None where nobody knows.
        signal: what the scores are.
    """

    scores: Floats
    correct: Floats | None
    signal: str


def is_score_table(value: Any) -> bool:
    """Tell a table of scores from a model."""
    if isinstance(value, Mapping):
        return True
    return columns.is_frame(value)


def read_scores(table: Any, ids: Array, name: str) -> ModelScores:
    """Return the scores of the records ``ids`` in a table with columns "id" and "score", and "correct" where it is.

    Raises:
        divulge.InputError: a column that is missing, ids that repeat, a record without a score, NaN or infinity.
    """
    if isinstance(table, Mapping):
        columns_by_name = {str(key): np.asarray(value) for key, value in table.items()}
    else:
        frame = columns.read_frame(table, name)
        columns_by_name = {key: frame[key].to_numpy() for key in frame.columns}
    if missing := [key for key in (ID, SCORE) if key not in columns_by_name]:
        raise InputError(f"{name}: a table of scores has the columns 'id' and 'score', this one lacks {missing[0]!r}")
    values = check_vector(columns_by_name[SCORE], f"{name}: score")
    if (largest := float(np.abs(values).max())) > _LARGEST_SCORE:
        raise InputError(f"{name}: score: values within ±{_LARGEST_SCORE:g} are needed, got {largest:g}")
    places = {key: row for row, key in enumerate(check_ids(columns_by_name[ID], f"{name}: id", len(values)).tolist())}
    absent = [key for key in ids.tolist() if key not in places]
    if absent:
        raise InputError(
            f"{name}: {len(absent)} of the {len(ids)} records have no score (first: {format_value(absent[0])})"
        )
    rows = np.array([places[key] for key in ids.tolist()])
    correct = None
    if CORRECT in columns_by_name:
        correct = check_vector(columns_by_name[CORRECT], f"{name}: correct", length=len(values))[rows]
        if not np.isin(correct, (0, 1)).all():
            raise InputError(f"{name}: correct: 0 or 1 is needed for each record, got {correct.max():g}")
    return ModelScores(values[rows], correct, SCORE)


def score_model(
    model: Any, sets: Sequence[Records], name: str, *, outputs: Outputs, device: str, task: Task = "auto"
) -> ModelScores:
    """Ask a model about all records, set after set.

    Classifiers that show probabilities are read by the log odds of the record's class (Carlini et al. 2022), those
    that show labels by whether it is right, language models by the mean log-likelihood of a token, and models that
    declare a `divulge.auditing.Modality` by the first of its recipes that needs no reference models.

    Raises:
        divulge.InputError: a model that cannot be asked, records that do not fit it.
    """
    third = sets[2] if len(sets) > 2 else sets[1]
    data = AuditData(members=sets[0], nonmembers=sets[1], population=third)
    try:
        subject = open_subject(model, data, outputs=outputs, device=device, task=task)
        target, modality, data = subject.target, subject.modality, subject.data
        modality.check_records({"forget": data.members, "never": data.nonmembers})
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    parts = [data.members, data.nonmembers, data.population][: len(sets)]
    records = Records.concatenate([check_instance(part, "records", Records) for part in parts])
    if isinstance(modality, LanguageModel):
        stats = target.tokens(list(records.x), vocabulary=False)
        return ModelScores(_check_scored(tokens.log_likelihood(stats), name), None, _TOKEN_SIGNAL)
    if isinstance(modality, Classifier):
        labels = records.labels
        if labels is None:
            raise InputError("forget, never: classifiers are read by the class of each record, and there is no y")
        signal = _LABEL_SIGNAL if is_label_only(target) else _CLASSIFIER_SIGNAL
        logits, predicted = query_target(target, records, (signal,))
        try:
            check_outputs(target, logits, labels)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        classes = 1 + int(max(labels.max(), predicted.max())) if logits is None else logits.shape[1]
        if labels.max() >= classes:
            raise InputError(f"{name}: it has {classes} classes, and the records have a class {labels.max()}")
        scores = signals_from_answers(logits, predicted, labels, (signal,), classes)[:, 0]
        return ModelScores(scores, (predicted == labels).astype(np.float64), signal)
    output_signal = declared_signal(modality)
    scores = measure_outputs(target, records, (output_signal,))[output_signal.name]
    return ModelScores(scores, None, output_signal.name)


def declared_signal(modality: Modality) -> OutputSignal:
    """Return the signal of the first recipe of a declared modality that needs no reference models.

    Raises:
        divulge.InputError: it has none.
    """
    for recipe in modality.known_recipes():
        if isinstance(recipe.signal, OutputSignal) and not recipe.needs_training:
            return recipe.signal
    raise InputError(f"after: {modality.name} declares no recipe that reads its outputs alone")


def _check_scored(scores: Floats, name: str) -> Floats:
    if (empty := np.flatnonzero(np.isnan(scores))).size:
        raise InputError(f"{name}: {empty.size} documents have no token that could be scored; leave them out")
    return scores


def train_controls(
    references: Any,
    population: Records,
    after: Any,
    sets: Sequence[Records],
    *,
    outputs: Outputs,
    device: str,
    task: Task,
    seed: int,
    pool: Path | None,
    progress: Progress | None,
    trained_on: Bools | None = None,
    saw_candidates: bool = False,
) -> Floats:
    """Train reference models on halves of the population, and return their scores of all records ``[k, n]``.

    With ``trained_on``, bool ``[k, z]``, each learns from these records of the population. Where those may be records
    that were to be forgotten or never used (``saw_candidates``), a model's score of a record that it was trained on is
    NaN, and all records that are compared must be among them, so that it is known who saw which.

    Raises:
        divulge.InputError: too few records, records to be forgotten or never used among them (or, where they may be,
            not among them), and what training refuses.
    """
    check_instance(population, "population", Records)
    compared = {"forget": sets[0], "never": sets[1], "population": population}
    *candidate_groups, population_groups = match_records(compared).groups
    shared = int(np.isin(np.concatenate(candidate_groups), population_groups).sum())
    if shared and not saw_candidates:
        raise InputError(
            f"population: {shared} records to be forgotten or never used are in it, so that the reference models would "
            "have seen them; leave them out"
        )
    options: dict[str, Any] = {"outputs": outputs, "device": device, "task": task}
    subject = open_subject(after, AuditData(members=sets[0], nonmembers=sets[1], population=population), **options)
    target, modality = subject.target, subject.modality
    if isinstance(references, Train):
        references = references.for_target(subject.model)
    population_records = check_instance(subject.data.population, "population", Records)
    parts = [subject.data.members, subject.data.nonmembers]
    if len(sets) > 2:
        further_data = AuditData(members=sets[2], nonmembers=sets[2], population=population)
        parts.append(open_subject(after, further_data, **options).data.members)
    records = Records.concatenate(parts)
    if trained_on is None:
        trained_on = splits.offline(
            len(population_records),
            max(references.count, 2),
            seed,
            labels=population_records.labels,
            groups=number_groups(population_records.x, population_records.y),
        ).trained_on[: references.count]
    trained_mask = _find_training_records(
        records, population_records, trained_on, n_compared=len(sets[0]) + len(sets[1]), required=saw_candidates
    )
    options = {"seed": seed, "observe": (records,), "pool": pool, "progress": progress}
    if isinstance(references, FineTune):
        offsets = target.tokens(list(records.x), vocabulary=False).offsets
        outputs_of_all = references.fit(population_records, trained_on, **options).outputs[0]
        blank = np.zeros(len(records), dtype=np.int64)
        scores = [
            tokens.log_likelihood(TokenStatistics(offsets, blank, logp=np.asarray(row, np.float64)))
            for row in outputs_of_all
        ]
        return np.where(trained_mask, np.nan, [_check_scored(row, "references") for row in scores])
    if isinstance(modality, Classifier):
        label_only = is_label_only(target)
        logits, predicted = query_target(target, records, (_LABEL_SIGNAL if label_only else _CLASSIFIER_SIGNAL,))
        labels = records.labels
        assert labels is not None
        classes = 1 + int(max(labels.max(), predicted.max())) if logits is None else logits.shape[1]
        trained = references.fit(population_records, trained_on, classes=classes, **options)
        signal = _LABEL_SIGNAL if label_only else _CLASSIFIER_SIGNAL
        scores = [
            signals_from_answers(answers, answers.argmax(axis=1), labels, (signal,), classes)[:, 0]
            for answers in np.asarray(trained.outputs[0], np.float64)
        ]
        return np.where(trained_mask, np.nan, scores)
    output_signal = declared_signal(modality)

    def measure(model: Any, observed: Records) -> Floats:
        return measure_outputs(model, observed, (output_signal,))[output_signal.name][:, None]

    outputs_of_all = references.fit(population_records, trained_on, measure=measure, **options).outputs[0]
    return np.where(trained_mask, np.nan, np.asarray(outputs_of_all, np.float64)[:, :, 0])


def _find_training_records(
    records: Records, trained_records: Records, trained_on: Bools, *, n_compared: int, required: bool
) -> Bools:
    """Return which of the records each model was trained on, bool ``[k, n]``; copies of a record count as the record.

    Raises:
        divulge.InputError: a record that is compared is not among those whose training is known.
    """
    groups, trained_groups = match_records({"records": records, "training records": trained_records}).groups
    places: dict[int, list[int]] = {}
    for row, group in enumerate(trained_groups.tolist()):
        places.setdefault(group, []).append(row)
    rows_of_each = [places.get(group, []) for group in groups.tolist()]
    if required and (absent := sum(not rows for rows in rows_of_each[:n_compared])):
        raise InputError(
            f"references: {absent} of the {n_compared} records to be forgotten or never used are not among the records "
            "of the audit, so that nobody knows which of its models saw them; models of an online audit compare its "
            "own members and non-members"
        )
    return np.stack([trained_on[:, rows].any(axis=1) for rows in rows_of_each], axis=1)
