"""Reference models as controls: what the same attacks say of models that saw none of the candidates."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from divulge.attacks import Need
from divulge.attacks.bavaria import BaVarIA
from divulge.attacks.lira import LiRA
from divulge.attacks.rmia import BASE, RMIA
from divulge.attacks.threshold import Calibrated, Threshold
from divulge.auditing import signals
from divulge.auditing.checks.check import Check
from divulge.auditing.findings import CONFIDENCE
from divulge.duplicates import first_of_each_group
from divulge.errors import InputError
from divulge.evaluation import blind, control_models
from divulge.evaluation.agreement import mean_overlap
from divulge.evidence import leave_one_out
from divulge.report.formatting import capitalize, format_estimate, format_percent, join_words
from divulge.results import CheckFinding, ReferenceComparison

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from divulge.auditing.checks.check import ScoredAudit
    from divulge.evaluation.control_models import ControlComparison
    from divulge.evidence import Models
    from divulge.types import Floats

_Scores: TypeAlias = "tuple[str, Floats, Floats, bool]"
"""Name, the target's scores, the controls', and whether these are relative to references."""

MIN_DECIDING = 8
"""Fewer controls inform, and decide nothing."""
_DECISION_CONFIDENCE = 0.995  # benchmarks/controls.py: honest models are accused in at most 3 % of each world
_LIKE_POPULATION = 0.1  # p-value below which members seem to be of another kind, in which case nothing is decided
_MIN_SIDE = 10  # distinct members, or non-members
_UNITS = ("scaled-logit", "hinge", "negative-loss", "confidence")  # of the true class's probability, all in one order
_RERUN = (Calibrated, LiRA, RMIA, BASE, BaVarIA)  # attacks that may be run once for each control in no time
UNEXPLAINED = "signal less references, and less what unseen records explain"
_COLUMNS = (
    "attack",
    "AUC under the target",
    "mean of the controls",
    "least to most",
    "difference",
    "rank",
)


class Controls(Check):
    """Compare the target with reference models that saw no candidate, as if each of these were the target."""

    name = "reference models as controls"

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Return AUCs under target and controls; None without two controls of classes that the auditor holds."""
        prepared, measured = audit.prepared, audit.measurements[0]
        inputs, models = prepared.inputs, measured.models.get(Need.REFERENCES_OUT)
        if models is None or len(models.trained_on) < control_models.MIN_CONTROLS or inputs.candidates.labels is None:
            return None
        if inputs.unseen_classes or prepared.partial_knowledge is not None or measured.tokens is not None:
            return None
        counted = np.ones(len(inputs.truth), dtype=bool)
        if inputs.duplicate_groups is not None:
            counted = first_of_each_group(inputs.duplicate_groups, inputs.truth)
        truth = inputs.truth[counted]
        if min(int(truth.sum()), int((~truth).sum())) < _MIN_SIDE:
            return None
        overlap = mean_overlap(models.trained_on)
        compared: dict[str, ControlComparison] = {}
        for name, target, controls, subtracts_references in (
            *_attack_scores(audit, models),
            *_unexplained(audit, models),
        ):
            compared[name] = control_models.compare_auc(
                target[counted],
                controls[:, counted],
                truth,
                overlap=overlap,
                subtracts_references=subtracts_references,
                confidence=_DECISION_CONFIDENCE if name == UNEXPLAINED else CONFIDENCE,
            )
        return _describe(audit, compared, len(models.trained_on)) if compared else None


def _attack_scores(audit: ScoredAudit, models: Models) -> Iterator[_Scores]:
    """Yield the scores of each recipe that reads one signal, or is run again in no time with each control as target."""
    measured, recipes = audit.measurements[0], audit.prepared.inputs.recipes
    names, rows = signals.signal_names(recipes), measured.layout.candidate_rows
    unit = next((name for name in _UNITS if name in models.signals), "")
    for recipe in recipes:
        name = names[recipe.name]
        if recipe.versions is not None or recipe.beside:
            continue
        if isinstance(recipe.attack, Threshold):
            read = unit if name in _UNITS else name  # thresholds of one probability rank records alike
            if read in models.signals and read in measured.target:
                yield recipe.name, measured.target[read][rows], models.signals[read][:, rows], False
        elif isinstance(recipe.attack, _RERUN) and Need.REFERENCES_OUT in recipe.needs:
            evidence = measured.evidence(name, recipe.needs)
            with contextlib.suppress(InputError):  # fewer references, or records that one did not see, than it needs
                scores = [
                    recipe.attack.run(leave_one_out(evidence, model)).scores for model in range(len(models.trained_on))
                ]
                yield recipe.name, audit.scores[recipe.name], np.stack(scores)[:, rows], True


def _unexplained(audit: ScoredAudit, models: Models) -> Iterator[_Scores]:
    """Yield signals relative to references, less what unseen records explain; nothing where these are too few."""
    measured, prepared = audit.measurements[0], audit.prepared
    records, n_candidates = prepared.views[0], measured.layout.candidates
    unit = next((name for name in _UNITS if name in models.signals and name in measured.target), None)
    if unit is None or records.labels is None:
        return
    asked = slice(min(len(measured.target[unit]), models.signals[unit].shape[1]))
    is_population = np.arange(measured.layout.total) >= n_candidates
    with contextlib.suppress(InputError):  # too few controls or records, or texts without words
        features = signals.record_features(records, is_population, prepared.seed)
        target, controls = control_models.subtract_explained(
            measured.target[unit][asked],
            models.signals[unit][:, asked],
            models.trained_on[:, asked],
            records.labels[asked],
            features[asked],
            n_candidates,
        )
        yield UNEXPLAINED, target, controls, True


def _describe(audit: ScoredAudit, compared: Mapping[str, ControlComparison], k: int) -> CheckFinding:
    """Return the finding: the decisive comparison if it accuses, else the first; then a table of all."""
    decisive = compared.get(UNEXPLAINED)
    is_above = decisive is not None and decisive.difference.low > 0
    obstacle = (
        _find_obstacle(audit, k, is_above=is_above) if decisive else "too few records that no model saw are known"
    )
    is_leak = is_above and not obstacle
    if is_leak:
        sentence = (
            f"Training records can be recognised by comparison: this model is surer of them than {k} models that never "
            "saw them, and the kind of records (their classes and columns) does not explain that."
        )
    else:
        name, first = next(iter(compared.items()))
        sentence = (
            f"As controls, {k} reference models that saw no candidate have an AUC of {first.mean:.3f} by {name}, the "
            f"target one of {first.target.value:.3f}: a difference of {format_estimate(first.difference, '+')}."
        )
    decision = (
        f"They accuse where the {format_percent(_DECISION_CONFIDENCE)} interval of the last row lies above 0. It is of "
        "the target's answers less those of the references, less a regression of this difference on unseen records."
    )
    above = [name for name, each in compared.items() if (each.controls < each.target.value).all()]
    notes = dict.fromkeys(f"{capitalize(each.note)}." for each in compared.values() if each.note)
    details = (
        f"They inform and decide nothing: {obstacle}." if obstacle else decision,
        *([f"Above all {k} controls: {join_words(above)}."] if above else []),
        *notes,
        "Differences assume a population like the whole training set. Where its classes are in another mix or follow "
        "another rule, those of the other rows accuse models that leak nothing, too. No difference proves no safety.",
    )
    figures = {f"{name}: difference from the controls": each.difference for name, each in compared.items()}
    table = (_COLUMNS, *(_make_row(name, each) for name, each in compared.items()))
    return CheckFinding(Controls().name, "leak" if is_leak else "none", sentence, details, figures, table)


def _find_obstacle(audit: ScoredAudit, k: int, *, is_above: bool) -> str:
    """Return why the controls may not decide; empty where they may. Sets are compared only if they would accuse."""
    if k < MIN_DECIDING:
        return f"{MIN_DECIDING} controls are the least that decide, and there are {k}"
    reports = [
        each
        for found in audit.findings
        if isinstance(found.measured, ReferenceComparison)
        for each in found.measured.agreement
    ]
    agreement = next((each for each in reports if each.references == "out"), None)
    if agreement is None or agreement.differs is None:
        return "whether they answer like the target cannot be said"
    if agreement.differs:
        return "on records that neither saw they answer otherwise than the target"
    return _compare_members_with_population(audit) if is_above else ""


def _compare_members_with_population(audit: ScoredAudit) -> str:
    """Return why members are not like the population that the controls learned from; empty if they are."""
    inputs, records = audit.prepared.inputs, audit.prepared.views[0]
    assert records.y is not None
    is_member = np.zeros(len(records), dtype=bool)
    is_member[: len(inputs.truth)] = inputs.truth
    is_compared = is_member | (np.arange(len(records)) >= len(inputs.truth))
    features = None if records.features is None else records.features[is_compared]
    try:
        compared = blind.baseline_with_features(
            records.x[is_compared], records.y[is_compared], features, is_member[is_compared], audit.prepared.seed
        )
    except InputError as error:
        return f"whether members are like the population cannot be said ({error})"
    if compared.p_value > _LIKE_POPULATION:
        return ""
    return f"members seem to differ from the population, from which they learned (p = {compared.p_value:.2g})"


def _make_row(name: str, each: ControlComparison) -> tuple[str, ...]:
    rank = 1 + int((each.controls >= each.target.value).sum())
    return (
        name,
        f"{each.target.value:.3f}",  # its interval stands elsewhere
        f"{each.mean:.3f}",
        f"{each.controls.min():.3f} to {each.controls.max():.3f}",
        format_estimate(each.difference, "+"),
        f"{rank} of {len(each.controls) + 1} (p = {each.p_value:.2g})",
    )
