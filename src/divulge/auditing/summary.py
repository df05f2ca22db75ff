"""Every number of the report, as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from divulge import checks, evaluation
from divulge._version import __version__
from divulge.auditing.nominal import realised
from divulge.auditing.verdict import detectable, scopes, verdict
from divulge.decisions import fpr as by_fpr

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.auditing.outcome import Findings, Outcome
    from divulge.types import Array, Estimate


def summarise(audit: Findings) -> dict[str, Any]:
    """The audit in numbers; see `divulge.auditing.Audit.summary`."""
    found = verdict(audit)
    return {
        "divulge": __version__,
        "verdict": {"answer": found.answer, "tone": found.tone, "text": found.text},
        "fpr": list(audit.fpr),
        "unseen_classes": list(audit.unseen_classes),
        "counts": dict(audit.about["counts"]),
        "blind_baseline": audit.about["blind_baseline"],
        "transfer": audit.about["transfer"],
        "duplicates": audit.about["duplicates"],
        "warnings": list(audit.warnings),
        "partial": audit.about.get("partial"),
        "recipes": {name: _recipe(audit, audit[name]) for name in audit},
        "smallest_detectable": asdict(detectable(audit, scopes(audit)[0])),
    }


def as_data(estimate: Estimate) -> dict[str, Any]:
    """An estimate as plain data; an unbounded end (the upper one of ε) is None, which JSON can say."""
    return {name: None if part in (float("inf"), float("-inf")) else part for name, part in asdict(estimate).items()}


def numbers(outcome: Outcome, fpr: tuple[float, ...], tests: int) -> dict[str, Any]:
    """AUC, advantage, ε, TPR and realised FPR at each level; None where the records do not suffice for one.

    Args:
        outcome: a recipe's scores of some candidates.
        fpr: the levels.
        tests: how many realised FPRs the audit judges.
    """
    return {
        "members": int(outcome.members.sum()),
        "nonmembers": int((~outcome.members).sum()),
        "auc": _or_none(lambda: outcome.auc),
        "advantage": _or_none(lambda: outcome.advantage),
        "epsilon": _or_none(outcome.epsilon),
        "tpr_at_fpr": {f"{level:g}": _or_none(lambda a=level: outcome.tpr_at_fpr(a)) for level in fpr},
        "realised_fpr": {f"{level:g}": _realised(outcome, level, tests) for level in fpr},
    }


def _realised(outcome: Outcome, level: float, tests: int) -> dict[str, Any] | None:
    """The realised FPR as data, and how it compares with the nominal one."""
    try:
        found = realised(outcome, level, tests)
    except checks.InputError:
        return None
    return as_data(found.rate) | {"p_value": found.p_value, "broken": found.broken, "judged": found.judged}


def _recipe(audit: Findings, outcome: Outcome) -> dict[str, Any]:
    tests = len(audit) * len(audit.fpr) * len(scopes(audit))
    found = dict(audit.about["recipes"][outcome.recipe]) | numbers(outcome, audit.fpr, tests)
    found["decisions"] = {f"{level:g}": _decision(outcome, level) for level in audit.fpr}
    if raw := found.pop("raw_thresholds"):
        found["raw_fpr"] = {level: as_data(_raw_fpr(outcome, threshold)) for level, threshold in raw.items()}
    if audit.unseen_classes:
        found["unseen"] = numbers(outcome.unseen, audit.fpr, tests)
    if audit.labels is not None:
        found["classes"] = _subgroups(outcome, audit.labels, max(audit.fpr))
    if audit.groups is not None:
        found["groups"] = _subgroups(outcome, audit.groups, max(audit.fpr))
    return found


def _decision(outcome: Outcome, level: float) -> dict[str, Any] | None:
    """Who is called a member at this level, and what is claimed; None with too few calibration records."""
    try:
        made = outcome.selection(fpr=level)
    except checks.InputError:
        return None
    return {
        "selected": made.count,
        "guarantee": str(made.guarantee),
        "one_calibration": as_data(by_fpr.realised_interval(len(outcome.nulls), level)),
        "warnings": list(made.warnings),
    }


def _subgroups(outcome: Outcome, names: Array, level: float) -> dict[str, Any]:
    """Each group's AUC, and its TPR and FPR at the threshold of all; None where it has one kind of record only."""
    return {
        str(row.group): {
            "members": row.members,
            "nonmembers": row.nonmembers,
            "auc": row.auc and as_data(row.auc),
            "tpr": row.tpr and as_data(row.tpr),
            "fpr": row.fpr and as_data(row.fpr),
        }
        for row in evaluation.subgroups(outcome.scores, outcome.members, names, level)
    }


def _raw_fpr(outcome: Outcome, threshold: float) -> Estimate:
    """FPR of the threshold the regressor would set by itself."""
    outside = outcome.scores[~outcome.members]
    return evaluation.intervals.proportion(int((outside > threshold).sum()), len(outside))


def _or_none(work: Callable[[], Estimate]) -> dict[str, Any] | None:
    """An estimate as data; None where there are too few records for it (never zero, never a guess)."""
    try:
        return as_data(work())
    except checks.InputError:
        return None
