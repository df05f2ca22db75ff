"""Summary of an audit: every number of its report."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from divulge import evaluation
from divulge.auditing.checks.covariates import describe_adjustment
from divulge.auditing.findings import realised_fpr
from divulge.auditing.scopes import scopes, simultaneous_confidence, smallest_detectable_leak, split_confidence
from divulge.auditing.verdict import decide_verdict
from divulge.decisions import fpr as by_fpr
from divulge.errors import InputError
from divulge.results import (
    AdjustmentSummary,
    AuditSummary,
    DecisionSummary,
    GroupStatistics,
    LowerBound,
    MemberCalls,
    RealisedRate,
    RecipeStatistics,
    RecipeSummary,
    SmallestLeak,
    VerdictSummary,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from divulge.auditing.findings import Findings, Outcome
    from divulge.auditing.wording import Verdict
    from divulge.types import Array, Estimate, Selection


def summarise_audit(audit: Findings, audit_verdict: Verdict | None = None) -> AuditSummary:
    """Summarise an audit; see `divulge.auditing.Audit.summary`.

    Args:
        audit: what was found.
        audit_verdict: its verdict, where that is known already.
    """
    decided, smallest_leak = audit_verdict or decide_verdict(audit), smallest_detectable_leak(audit, scopes(audit)[0])
    return AuditSummary(
        verdict=VerdictSummary(decided.answer, decided.tone, decided.text),
        fpr=audit.fpr,
        unseen_classes=audit.unseen_classes,
        recipes={name: _summarise_recipe(audit, audit[name]) for name in audit},
        smallest_detectable=SmallestLeak(*(getattr(smallest_leak, field.name) for field in fields(SmallestLeak))),
        about=audit.about,
        texts={str(row): text for row, text in audit.exhibits.items() if isinstance(text, str)},
        heat={str(row): strip for row, strip in audit.heat.items()},
        class_names=audit.class_names,
        adjusted=_summarise_adjusted(audit),
    )


def _summarise_adjusted(audit: Findings) -> AdjustmentSummary | None:
    """Summarise the adjusted comparison behind the verdict; None if nothing is adjusted."""
    adjustment = audit.adjustment
    if adjustment is None:
        return None
    tests, confidence = len(audit) * len(audit.fpr) * len(scopes(audit)), simultaneous_confidence(audit)
    n_members = int((adjustment.is_included & audit.members).sum())
    return AdjustmentSummary(
        adjusted_for=adjustment.adjusted_for,
        members=n_members,
        nonmembers=int(adjustment.is_included.sum()) - n_members,
        explained=adjustment.explained,
        p_before=adjustment.p_before,
        p_value=adjustment.p_value,
        overlap=adjustment.overlap,
        recipes={name: summarise_outcome(audit.adjusted(name), audit.fpr, tests, confidence) for name in audit},
        text=describe_adjustment(adjustment),
    )


def summarise_outcome(outcome: Outcome, fpr: tuple[float, ...], tests: int, confidence: float) -> RecipeStatistics:
    """Return AUC, advantage, ε, TPR and realised FPR at each level; None where records are too few.

    Args:
        outcome: a recipe's scores of some candidates.
        fpr: the levels.
        tests: how many realised FPRs the audit judges.
        confidence: of each interval; the verdict's, so that a number has one interval wherever it is read.
    """
    outcome = outcome.distinct
    scores, truth = outcome.scores, outcome.members
    return RecipeStatistics(
        members=int(outcome.members.sum()),
        nonmembers=int((~outcome.members).sum()),
        auc=_none_if_too_few(lambda: evaluation.auc(scores, truth, confidence)),
        advantage=_none_if_too_few(lambda: evaluation.advantage(scores, truth, confidence)),
        epsilon=_bound_epsilon(outcome, confidence),
        tpr_at_fpr={
            f"{level:g}": _none_if_too_few(lambda a=level: evaluation.tpr_at_fpr(scores, truth, a, confidence))
            for level in fpr
        },
        realised_fpr={f"{level:g}": _realised_rate(outcome, level, tests) for level in fpr},
    )


def _bound_epsilon(outcome: Outcome, confidence: float) -> LowerBound | None:
    """Return the lower of the bounds on ε by the scores and by what of them the records do not explain.

    None where there are too few records.
    """
    bounds = []
    for scores in (outcome.scores, outcome.unexplained):
        if scores is None:
            continue
        try:
            bound = evaluation.epsilon_lower_bound(scores, outcome.members, confidence=confidence)
        except InputError:
            return None
        bounds.append(LowerBound(bound.value, bound.low, bound.confidence, bound.method))
    return min(bounds, key=lambda bound: bound.low)


def summarise_decision(outcome: Outcome, selection: Selection, fpr: float | None, tests: int) -> DecisionSummary:
    """Summarise a decision on a finished audit; check the realised rate if ``fpr`` was requested.

    Args:
        outcome: a recipe's scores of the candidates.
        selection: the decision.
        fpr: the false-positive rate asked for; None where the decision bounds something else.
        tests: how many such questions are asked.
    """
    distinct, counted_rows = outcome.distinct, slice(None) if outcome.is_counted is None else outcome.is_counted
    realised = (
        None
        if fpr is None or selection.guarantee.kind != by_fpr.MARGINAL
        else realised_fpr(distinct.scores[~distinct.members], distinct.calibration, fpr, tests)
    )
    exceeds = realised is not None and realised.rate.low > realised.nominal
    overrun = (
        [f"{outcome.recipe}: the realised FPR at nominal {fpr:g} is {realised.rate}, {realised.judged}"]
        if exceeds
        else []
    )
    is_selected = selection.selected[counted_rows]
    rates, fpr_unseen = evaluation.rates(is_selected, distinct.members), None
    if distinct.labels is not None and (is_unseen := np.isin(distinct.labels, outcome.unseen_classes)).any():
        fpr_unseen = evaluation.rates(is_selected[is_unseen], distinct.members[is_unseen]).fpr
    return DecisionSummary(
        selected=selection.count,
        threshold=selection.threshold if selection.count else None,
        tpr=rates.tpr,
        fpr=rates.fpr,
        precision=rates.precision,
        accuracy=rates.accuracy,
        members=rates.members,
        nonmembers=rates.nonmembers,
        guarantee=str(selection.guarantee),
        warnings=(*selection.warnings, *overrun),
        fpr_unseen=fpr_unseen,
    )


def _realised_rate(outcome: Outcome, level: float, tests: int) -> RealisedRate | None:
    """Return the realised FPR compared with the nominal one; None if records are too few."""
    try:
        realised = realised_fpr(outcome.scores[~outcome.members], outcome.calibration, level, tests)
    except InputError:
        return None
    return RealisedRate(realised.rate, realised.p_value, realised.broken, realised.judged)


def _summarise_recipe(audit: Findings, outcome: Outcome) -> RecipeSummary:
    tests = len(audit) * len(audit.fpr) * len(scopes(audit))
    counted_rows = slice(None) if outcome.is_counted is None else outcome.is_counted
    confidences = split_confidence(audit)
    confidence = confidences.overall
    all_candidates = summarise_outcome(outcome, audit.fpr, tests, confidence)
    raw_thresholds = audit.about.recipes[outcome.recipe].raw_thresholds
    classes = None
    if audit.labels is not None:
        classes = audit.labels if audit.class_names is None else np.array(audit.class_names)[audit.labels]
    return RecipeSummary(
        *(getattr(all_candidates, field.name) for field in fields(RecipeStatistics)),
        decisions={
            f"{level:g}": None
            if selection is None  # too few calibration records
            else MemberCalls(
                selection.count,
                str(selection.guarantee),
                by_fpr.realised_interval(len(outcome.calibration), level),
                tuple(selection.warnings),
            )
            for level, selection in outcome.selections(audit.fpr).items()
        },
        raw_fpr={fpr_level: _raw_fpr(outcome, threshold) for fpr_level, threshold in raw_thresholds.items()},
        unseen=summarise_outcome(outcome.unseen, audit.fpr, tests, confidence) if audit.unseen_classes else None,
        classes={}
        if classes is None
        else _summarise_subgroups(outcome.distinct, classes[counted_rows], audit.fpr, confidences.groups),
        groups={}
        if audit.groups is None
        else _summarise_subgroups(outcome.distinct, audit.groups[counted_rows], audit.fpr, confidences.groups),
    )


def _summarise_subgroups(
    outcome: Outcome, names: Array, levels: Sequence[float], confidence: float
) -> Mapping[str, GroupStatistics]:
    """Return each group's AUC and own TPR, and its TPR and FPR at the common threshold."""
    groups = {}
    for row in evaluation.subgroups(outcome.scores, outcome.members, names, max(levels), confidence):
        supported = [level for level in levels if row.nonmembers >= evaluation.min_nonmembers(level)]
        own_tpr = None
        if supported and row.members:
            is_inside = names == row.group
            own = outcome.scores[is_inside], outcome.members[is_inside]
            own_tpr = evaluation.tpr_at_fpr(*own, max(supported), confidence)
        groups[str(row.group)] = GroupStatistics(row.members, row.nonmembers, row.auc, row.tpr, row.fpr, own_tpr)
    return groups


def _raw_fpr(outcome: Outcome, threshold: float) -> Estimate:
    """Return the FPR of the threshold that the regressor itself sets."""
    distinct = outcome.distinct
    nonmember_scores = distinct.scores[~distinct.members]
    return evaluation.proportion(int((nonmember_scores > threshold).sum()), len(nonmember_scores))


def _none_if_too_few(work: Callable[[], Estimate]) -> Estimate | None:
    """Return an estimate, or None if there are too few records for it."""
    try:
        return work()
    except InputError:
        return None
