"""Fit of the target: whether it may be another model than the one that was trained on the members."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import evaluation, lazy, seeds
from divulge.attacks import Need
from divulge.auditing import plausibility
from divulge.auditing.checks.check import Check
from divulge.duplicates import first_of_each_group
from divulge.errors import InputError
from divulge.references import Train
from divulge.results import Accuracy, CheckFinding, ClassFit, ClassifierFit, RegressionFit, TokenFit
from divulge.signals.regression import NEGATIVE_SQUARED_LOSS, negative_squared_loss

if TYPE_CHECKING:
    from sklearn import impute, linear_model, pipeline, preprocessing

    from divulge.auditing.checks.check import ScoredAudit
    from divulge.evidence import Measurements
    from divulge.report.page import Block
    from divulge.targets import Target
    from divulge.types import Floats, Ints, Records
else:
    impute = lazy.module("sklearn.impute")
    linear_model = lazy.module("sklearn.linear_model")
    pipeline = lazy.module("sklearn.pipeline")
    preprocessing = lazy.module("sklearn.preprocessing")

_NAME = "fit of the model"
_SURE = {"scaled-logit": 0.0, "hinge": 0.0, "confidence": 0.5, "negative-loss": np.log(0.5), "correctness": 0.5}
"""Signal → the value above which the true class is surely the likeliest."""
_MAX_COMPARED, _MAX_LINEAR_RECORDS, _MAX_LINEAR_COLUMNS = 5_000, 2_000, 4_096


class TargetFit(Check):
    """Compare the target on its own training records with a constant answer, and with models that never saw them.

    One that is given its columns in another order or in another scale, or comes from another file, leaks nothing, and
    that says nothing of the model that was meant. What it still knows may be more than a constant answer.
    """

    name = _NAME

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Return how well the target knows its records; None where it was not asked for its answers."""
        inputs, log = audit.prepared.inputs, audit.log
        labels = inputs.candidates.labels
        if isinstance(log.fit, TokenFit | RegressionFit):
            return _compare_with_others(audit, describe_fit(log.fit, None))
        if log.predicted_labels is None:
            return None
        answers, accuracy = log.predicted_labels[audit.prepared.layout.candidate_rows], None
        if labels is not None:
            shares = [
                evaluation.proportion(int((answers == labels)[rows].sum()), int(rows.sum()))
                for rows in (inputs.truth, ~inputs.truth)
            ]
            accuracy = Accuracy(*shares, completed=audit.prepared.partial_knowledge is not None)
        is_single = (answers == answers[0]).all() and (labels is None or len(np.unique(labels)) > 1)
        fit = ClassifierFit(accuracy, log.fit if isinstance(log.fit, ClassFit) else None, bool(is_single))
        return _compare_with_others(audit, describe_fit(fit, None if labels is None else labels[inputs.truth]))

    def show(self, finding: CheckFinding) -> list[Block]:
        """Show nothing: how good the model is stands in the section on the model."""
        return []


def describe_fit(fit: ClassifierFit | RegressionFit | TokenFit, labels: Ints | None) -> CheckFinding:
    """Return the finding: nothing is cleared by a target that may be another model.

    Args:
        fit: what was measured.
        labels: classes of the members, ``[n]``; None where they have none.
    """
    if isinstance(fit, TokenFit):
        doubt, advice = plausibility.describe_token_doubt(fit), plausibility.LANGUAGE_MODEL_ADVICE
    elif isinstance(fit, RegressionFit):
        doubt, advice = plausibility.describe_regression_doubt(fit), plausibility.REGRESSION_ADVICE
    else:
        doubt, advice = _describe_classifier_doubt(fit, labels), plausibility.advise_on_classifier(labels)
    if doubt:
        return CheckFinding(_NAME, "implausible", f"{doubt}.", (advice,), measured=fit)
    return CheckFinding(_NAME, "none", "The model fits its training records.", measured=fit)


def _describe_classifier_doubt(fit: ClassifierFit, labels: Ints | None) -> str:
    if fit.accuracy is None or labels is None:
        return "the model gives all candidates one and the same class" if fit.single_answer else ""
    if fit.classes is not None and plausibility.fits_classes(fit.classes):
        return ""
    note = ", completed where their values are unknown" * fit.accuracy.completed
    return plausibility.describe_accuracy_doubt(round(fit.accuracy.members.value * len(labels)), labels, note)


def _compare_with_others(audit: ScoredAudit, finding: CheckFinding) -> CheckFinding:
    """Return the finding, or a doubt by models that never saw the members."""
    prepared, measured = audit.prepared, audit.measurements[0]
    if finding.effect != "none" or prepared.partial_knowledge is not None:
        return finding
    candidates = prepared.inputs.candidates
    if (
        isinstance(finding.measured, ClassifierFit)
        and audit.log.predicted_labels is not None
        and candidates.y is not None
    ):
        fits = (audit.log.predicted_labels[: len(candidates)] == candidates.labels) * 1.0
    elif isinstance(finding.measured, RegressionFit) and NEGATIVE_SQUARED_LOSS.name in measured.target:
        fits = measured.target[NEGATIVE_SQUARED_LOSS.name][: len(candidates)]
    else:
        return finding
    if words := _compare_with_peers(audit, fits):
        return replace(finding, effect="implausible", sentence=f"{words}.", details=plausibility.PEER_ADVICE)
    if words := _compare_with_clone(audit, fits):
        return replace(finding, effect="implausible", sentence=f"{words}.", details=plausibility.CLONE_ADVICE)
    return finding


def _compare_with_peers(audit: ScoredAudit, fits: Floats) -> str:
    """Explain that models which never saw the members know them better than the target; empty if not.

    These are the reference models; without any, a linear model of the population, and where that knows more, a clone
    of the target, if there can be one: an honest tree may know less than a linear model.
    """
    rows, population = _choose_distinct(audit, members=True), _read_population(audit)
    members = audit.prepared.inputs.candidates[rows]

    def compare(name: str, peer_fit: Floats | None) -> str:
        if peer_fit is None:
            return ""
        return plausibility.describe_peer_doubt(fits[rows], peer_fit, name, members.labels)

    if (peer_fit := _read_references(audit.measurements[0], rows)) is not None:
        return compare("a typical reference model, which never saw them,", peer_fit)
    words = compare("a linear model that learned from other records", _fit_linear_model(population, members))
    clone = _train_clone(audit, population) if words else None
    return words if clone is None else compare("the same estimator, trained on other records,", _fit_by(clone, members))


def _compare_with_clone(audit: ScoredAudit, fits: Floats) -> str:
    """Explain that a clone learned its own records by heart, as the target did not learn the members; empty if not."""
    rows, outsiders = _choose_distinct(audit, members=True), _choose_distinct(audit, members=False)
    candidates, population = audit.prepared.inputs.candidates, _read_population(audit)
    if 2 * len(population) < len(rows) or plausibility.knows_members(fits[rows], fits[outsiders]):
        return ""
    order = seeds.generator(audit.prepared.seed, _NAME, "as many records").permutation(len(population))
    as_many = population[order[: len(rows)]]
    clone = _train_clone(audit, as_many)
    if clone is None:
        return ""
    return plausibility.describe_unlearned_doubt(
        fits[rows], fits[outsiders], _fit_by(clone, as_many), _fit_by(clone, candidates[outsiders]),
        has_classes=candidates.labels is not None,
    )  # fmt: skip


def _read_population(audit: ScoredAudit) -> Records:
    return audit.prepared.views[0][audit.prepared.layout.candidates :]


def _train_clone(audit: ScoredAudit, records: Records) -> Target | None:
    """Train a clone of the target; None if there can be none."""
    try:
        seed = seeds.derive_seed(audit.prepared.seed, _NAME)
        return Train(count=1).for_target(audit.prepared.target).train_model(records, seed=seed)
    except InputError:  # no estimator, or one of which there are no clones
        return None


def _fit_by(model: Target, records: Records) -> Floats:
    """Return how well a model fits records, as `_read_references`."""
    if records.labels is not None:
        return (model.labels(records) == records.labels) * 1.0
    return negative_squared_loss(model.predictions(records), np.asarray(records.y))


def _choose_distinct(audit: ScoredAudit, *, members: bool) -> Ints:
    """Return the rows of distinct members, or non-members, drawn at random where there are many."""
    inputs = audit.prepared.inputs
    is_chosen = inputs.truth if members else ~inputs.truth
    if inputs.duplicate_groups is not None:
        is_chosen = is_chosen & first_of_each_group(inputs.duplicate_groups, is_chosen)
    rows = np.flatnonzero(is_chosen)
    if len(rows) <= _MAX_COMPARED:
        return rows
    return np.sort(seeds.generator(audit.prepared.seed, _NAME).choice(rows, _MAX_COMPARED, replace=False))


def _read_references(measured: Measurements, rows: Ints) -> Floats | None:
    """Return how well a reference model that did not see these records fits them, ``[n]``; None where there is none.

    It is the one of median fit: what most of them say together is better than one model's answer. Of classes 1 where it
    is right, of real values minus the squared error; NaN for records that it saw.
    """
    for need in (Need.REFERENCES_OUT, Need.REFERENCES_IN_AND_OUT):
        models = measured.models.get(need)
        names = (*_SURE, NEGATIVE_SQUARED_LOSS.name)
        if models is None or (name := next((name for name in names if name in models.signals), None)) is None:
            continue
        values = np.asarray(models.signals[name][:, rows], dtype=np.float64)
        fits = np.where(models.trained_on[:, rows], np.nan, (values > _SURE[name]) if name in _SURE else values)
        fits = fits[~np.isnan(fits).all(axis=1)]
        if not len(fits):
            continue
        overall = (np.nanmean if name in _SURE else np.nanmedian)(fits, axis=1)
        return fits[np.argsort(overall, kind="stable")[(len(fits) - 1) // 2]]
    return None


def _fit_linear_model(population: Records, members: Records) -> Floats | None:
    """Return how well a linear model of the population fits the members, as `_read_references`; None if none can."""
    if population.x.dtype == object or population.y is None or members.y is None:
        return None
    x, others = (records.x.reshape(len(records), -1) for records in (members, population[:_MAX_LINEAR_RECORDS]))
    y = population.y[:_MAX_LINEAR_RECORDS]
    if x.shape[1] > _MAX_LINEAR_COLUMNS or len(np.unique(y)) < 2:
        return None
    model = linear_model.RidgeClassifier() if members.labels is not None else linear_model.Ridge()
    steps = (impute.SimpleImputer(keep_empty_features=True), preprocessing.StandardScaler(), model)
    try:
        with np.errstate(all="ignore"):
            answers = pipeline.make_pipeline(*steps).fit(others, y).predict(x)
    except ValueError:  # of values whose squares are no floats
        return None
    return negative_squared_loss(answers, members.y) if members.labels is None else (answers == members.labels) * 1.0
