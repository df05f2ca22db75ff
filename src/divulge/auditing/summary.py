"""Every number of the report."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from divulge import evaluation
from divulge.auditing import comparability
from divulge.auditing.findings import realised_fpr
from divulge.auditing.verdict import decide_verdict, scopes, simultaneous_confidence, smallest_detectable_leak
from divulge.decisions import fpr as by_fpr
from divulge.errors import InputError
from divulge.results import (
    AdjustmentSummary,
    AuditSummary,
    Called,
    DecisionSummary,
    Group,
    LowerBound,
    Numbers,
    RealisedRate,
    RecipeSummary,
    SmallestLeak,
    VerdictSummary,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from divulge.auditing.findings import Findings, Outcome
    from divulge.auditing.verdict import Verdict
    from divulge.types import Array, Estimate, Ints, Selection


def summarise_audit(audit: Findings, said: Verdict | None = None) -> AuditSummary:
    """The audit in numbers; see `divulge.auditing.Audit.summary`.

    Args:
        audit: what was found.
        said: its verdict, where that is known already.
    """
    outcome, smallest = said or decide_verdict(audit), smallest_detectable_leak(audit, scopes(audit)[0])
    return AuditSummary(
        verdict=VerdictSummary(outcome.answer, outcome.tone, outcome.text),
        fpr=audit.fpr,
        unseen_classes=audit.unseen_classes,
        recipes={name: _summarise_recipe(audit, audit[name]) for name in audit},
        smallest_detectable=SmallestLeak(*(getattr(smallest, field.name) for field in fields(SmallestLeak))),
        about=audit.about,
        texts={str(row): text for row, text in audit.exhibits.items() if isinstance(text, str)},
        heat={str(row): strip for row, strip in audit.heat.items()},
        class_names=audit.class_names,
        adjusted=_summarise_adjusted(audit),
    )


def _summarise_adjusted(audit: Findings) -> AdjustmentSummary | None:
    """The comparison that the verdict judges; None where there is nothing to adjust for."""
    tests, confidence = len(audit) * len(audit.fpr) * len(scopes(audit)), simultaneous_confidence(audit)
    own = {name: summarise_outcome(audit.adjusted(name), audit.fpr, tests, confidence) for name in audit}
    return comparability.summarise_adjustment(audit, own)


def summarise_outcome(outcome: Outcome, fpr: tuple[float, ...], tests: int, confidence: float) -> Numbers:
    """AUC, advantage, ε, TPR and realised FPR at each level; None where the records do not suffice for one.

    Args:
        outcome: a recipe's scores of some candidates.
        fpr: the levels.
        tests: how many realised FPRs the audit judges.
        confidence: of each interval; the verdict's, so that a number has one interval wherever it is read.
    """
    outcome = outcome.distinct
    scores, truth = outcome.scores, outcome.members
    bound = _none_if_too_few(lambda: evaluation.epsilon_lower_bound(scores, truth, confidence=confidence))
    return Numbers(
        members=int(outcome.members.sum()),
        nonmembers=int((~outcome.members).sum()),
        auc=_none_if_too_few(lambda: evaluation.auc(scores, truth, confidence)),
        advantage=_none_if_too_few(lambda: evaluation.advantage(scores, truth, confidence)),
        epsilon=None if bound is None else LowerBound(bound.value, bound.low, bound.confidence, bound.method),
        tpr_at_fpr={
            f"{level:g}": _none_if_too_few(lambda a=level: evaluation.tpr_at_fpr(scores, truth, a, confidence))
            for level in fpr
        },
        realised_fpr={f"{level:g}": _realised_rate(outcome, level, tests) for level in fpr},
    )


def summarise_decision(outcome: Outcome, made: Selection, fpr: float | None, tests: int) -> DecisionSummary:
    """A decision on a finished audit and, where ``fpr`` was asked for, whether it was kept.

    Args:
        outcome: a recipe's scores of the candidates.
        made: the decision.
        fpr: the false-positive rate asked for; None where the decision bounds something else.
        tests: how many such questions are asked.
    """
    one, counted = outcome.distinct, slice(None) if outcome.counted is None else outcome.counted
    kept = None if fpr is None else realised_fpr(one.scores[~one.members], one.calibration, fpr, tests)
    above = kept is not None and kept.rate.low > kept.nominal
    over = [f"{outcome.recipe}: the realised FPR at nominal {fpr:g} is {kept.rate}, {kept.judged}"] if above else []
    rates = evaluation.rates(made.selected[counted], one.members)
    return DecisionSummary(
        selected=made.count,
        threshold=made.threshold if made.count else None,
        tpr=rates.tpr,
        fpr=rates.fpr,
        precision=rates.precision,
        accuracy=rates.accuracy,
        members=rates.members,
        nonmembers=rates.nonmembers,
        guarantee=str(made.guarantee),
        warnings=(*made.warnings, *over),
    )


def _realised_rate(outcome: Outcome, level: float, tests: int) -> RealisedRate | None:
    """The realised FPR, and how it compares with the nominal one."""
    try:
        rate = realised_fpr(outcome.scores[~outcome.members], outcome.calibration, level, tests)
    except InputError:
        return None
    return RealisedRate(rate.rate, rate.p_value, rate.broken, rate.judged)


def _summarise_recipe(audit: Findings, outcome: Outcome) -> RecipeSummary:
    tests, level = len(audit) * len(audit.fpr) * len(scopes(audit)), max(audit.fpr)
    counted = slice(None) if outcome.counted is None else outcome.counted
    confidence = simultaneous_confidence(audit)
    whole = summarise_outcome(outcome, audit.fpr, tests, confidence)
    raw = audit.about.recipes[outcome.recipe].raw_thresholds
    return RecipeSummary(
        *(getattr(whole, field.name) for field in fields(Numbers)),
        decisions={
            f"{each:g}": _summarise_selection(outcome, each, made)
            for each, made in outcome.selections(audit.fpr).items()
        },
        raw_fpr={each: _raw_fpr(outcome, threshold) for each, threshold in raw.items()},
        unseen=summarise_outcome(outcome.unseen, audit.fpr, tests, confidence) if audit.unseen_classes else None,
        classes={}
        if audit.labels is None
        else _summarise_subgroups(outcome.distinct, _class_of_each(audit, audit.labels)[counted], level),
        groups={} if audit.groups is None else _summarise_subgroups(outcome.distinct, audit.groups[counted], level),
    )


def _class_of_each(audit: Findings, labels: Ints) -> Array:
    """The class of each candidate by its name, where it has one."""
    return labels if audit.class_names is None else np.array(audit.class_names)[labels]


def _summarise_selection(outcome: Outcome, level: float, made: Selection | None) -> Called | None:
    """Who is called a member at this level, and what is claimed; None with too few calibration records."""
    if made is None:
        return None
    interval = by_fpr.realised_interval(len(outcome.calibration), level)
    return Called(made.count, str(made.guarantee), interval, tuple(made.warnings))


def _summarise_subgroups(outcome: Outcome, names: Array, level: float) -> Mapping[str, Group]:
    """Each group's AUC, and its TPR and FPR at the threshold of all; None where it has one kind of record only."""
    rows = evaluation.subgroups(outcome.scores, outcome.members, names, level)
    return {str(row.group): Group(row.members, row.nonmembers, row.auc, row.tpr, row.fpr) for row in rows}


def _raw_fpr(outcome: Outcome, threshold: float) -> Estimate:
    """FPR of the threshold the regressor would set by itself."""
    one = outcome.distinct
    outside = one.scores[~one.members]
    return evaluation.intervals.proportion(int((outside > threshold).sum()), len(outside))


def _none_if_too_few(work: Callable[[], Estimate]) -> Estimate | None:
    """An estimate; None where there are too few records for it (never zero, never a guess)."""
    try:
        return work()
    except InputError:
        return None
