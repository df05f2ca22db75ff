"""Verdict of an audit as data: the answer, the reasons for it by code, and their figures.

`PRECEDENCE` is the whole order in which reasons decide. `divulge.auditing.wording` says them in English.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from divulge.auditing import wording
from divulge.auditing.checks.copies import count_copies
from divulge.auditing.scopes import (
    LARGEST_UNSEEN_AUC,
    GroupScopes,
    group_scopes,
    scopes,
    smallest_detectable_leak,
    split_confidence,
    test_statistics,
    unadjusted_scopes,
)
from divulge.results import CheckEffect

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from divulge.auditing.findings import Findings
    from divulge.auditing.scopes import Confidences, Scope, TestedStatistic
    from divulge.auditing.wording import Verdict
    from divulge.evaluation import Detectable
    from divulge.results import Answer, CheckFinding
    from divulge.types import Estimate

Code: TypeAlias = (
    CheckEffect
    | Literal[
        "leak by scores",
        "contrary scores",
        "explained by records",
        "no overlap",
        "copies",
        "too few records",
        "no leak",
    ]
)
"""What a reason is: the effect of a finding, or what scores show."""

PRECEDENCE: Mapping[Code, Answer] = {
    "proof": "leak found",  # training records stand in the model itself, whether or not the sets can be compared
    "leak by scores": "leak found",
    "leak": "leak found",  # that a check finds, and the declared non-members may hide
    "not comparable": "split is confounded",  # members can be told from non-members without the model
    "contrary scores": "split is confounded",  # they can be told by raw scores, and not by adjusted ones
    "implausible": "too little data to say",  # the target may be another model than the one that was trained on them
    "explained by records": "too little data to say",  # scores and scores less what records explain disagree
    "no overlap": "too little data to say",  # balancing left members or non-members alone
    "too few records": "too little data to say",
    "copies": "too little data to say",  # the same, where copies in another set may be what hides a leak
    "not cleared": "too little data to say",  # by a check, though no attack saw a leak
    "suspected": "too little data to say",
    "unsure": "too little data to say",
    "no leak": "no leak found",
    "not checked": "no leak found",
}
"""What each reason makes of the verdict, in the order in which they decide: the first that there is does.

Scores are asked only where the sets are comparable, of the unseen classes first, then of all; the first that applies to
a scope is its reason.
"""

DOUBTS: Collection[Code] = (
    "implausible", "explained by records", "no overlap", "copies", "not cleared", "suspected",
)  # fmt: skip
"""Reasons for "too little data to say" that more records of the same kind need not mend; no limit is kept then."""

_SEVERITY: Sequence[Answer] = ("leak found", "split is confounded", "too little data to say", "no leak found")


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for an answer, or for a doubt about it.

    Args:
        code: what it is.
        finding: of the check that gives it; None where scores do.
        scope: the candidates that it is about; None for all of the audit.
        claims: statistics behind it, the strongest first; of several scopes the strongest of each.
        claim_scopes: the scope of each of these.
        recipes: recipes that it names.
        is_hidden: whether these show something only once what the records explain is taken out.
        smallest_leak: the smallest leak that would have been seen.
        groups: classes and groups that were judged besides, where no leak was found.
    """

    code: Code
    finding: CheckFinding | None = None
    scope: Scope | None = None
    claims: tuple[TestedStatistic, ...] = ()
    claim_scopes: tuple[Scope, ...] = ()
    recipes: tuple[str, ...] = ()
    is_hidden: bool = False
    smallest_leak: Detectable | None = None
    groups: GroupScopes | None = None

    @property
    def is_doubt(self) -> bool:
        """Whether no limit is kept whatever scores are: those that show more than unexplained ones may keep it."""
        return self.code in DOUBTS and (self.code != "explained by records" or self.is_hidden)

    @property
    def answer(self) -> Answer:
        """The answer if nothing takes precedence."""
        return PRECEDENCE[self.code]

    @property
    def figures(self) -> dict[str, Estimate]:
        """What was measured, by name."""
        claims = {f"{claim.recipe}: {claim.statistic}": claim.estimate for claim in self.claims}
        return claims | dict({} if self.finding is None else self.finding.figures)


def decide_verdict(audit: Findings) -> Verdict:
    """Decide what leaks, with what confidence and under which threat model, and say it."""
    return wording.write_verdict(audit, decide(audit))


def decide(audit: Findings) -> tuple[Reason, ...]:
    """Return the reasons for the answer: the first decides, the others are told as well."""
    by_scores = _decide_by_scores(audit)
    found = [Reason(finding.effect, finding) for finding in audit.about.findings if finding.effect != "none"]
    by_code = {code: tuple(reason for reason in found if reason.code == code) for code in PRECEDENCE}
    suspected, unclear = by_code["suspected"], by_code["not cleared"] or by_code["unsure"]
    first = min((*by_scores, *found), key=lambda reason: list(PRECEDENCE).index(reason.code))
    match first.code:  # a suspicion is told whatever decides
        case "proof":
            return first, by_scores[0]
        case "suspected":
            return *suspected, by_scores[0], *by_code["unsure"]
        case "leak":
            return *by_code["leak"], by_scores[0], *suspected
        case "not cleared" | "unsure":
            return *unclear, *suspected
        case "no leak":
            return *by_scores, *by_code["not checked"]
    # Scores decide. What keeps a model from being cleared, or finds a leak too, is a detail then.
    if by_code["leak"]:
        unclear = tuple(reason for reason in found if reason.code in ("leak", "not cleared", "unsure"))
    return *by_scores, *unclear, *suspected


def _decide_by_scores(audit: Findings) -> tuple[Reason, ...]:
    """Return what the scores of the attacks show of each scope, where members and non-members are comparable."""
    if findings := audit.about.with_effect("not comparable"):
        return (Reason("not comparable", findings[0]),)
    reasons = [_judge_scope(audit, *pair) for pair in zip(scopes(audit), unadjusted_scopes(audit), strict=True)]
    worst, *remaining = sorted(reasons, key=lambda reason: _SEVERITY.index(reason.answer))
    # A cleared scope never hides a leak or an open question in another. A leak on the unseen classes, or sets that
    # cannot be compared, leave nothing to add.
    if worst.answer == "split is confounded" or (worst is reasons[0] and worst.answer == "leak found"):
        return (worst,)
    return worst, *(reason for reason in remaining if reason.answer != worst.answer)


def _judge_scope(audit: Findings, scope: Scope, unadjusted: Scope) -> Reason:
    """Return the first reason, in the order of `PRECEDENCE`, that the scores of one scope give.

    Classes and groups are judged with all candidates.
    """
    confidences = split_confidence(audit)
    groups = group_scopes(audit) if scope.name == "all" else GroupScopes()
    evidence = [(each, _find_leaks(audit, each, confidences)) for each in (scope, *groups.judged)]
    if confirmed := [
        (each, max(found.confirmed, key=lambda claim: claim.strength)) for each, found in evidence if found.confirmed
    ]:
        # All candidates come first; else the worst class or group.
        is_overall = not confirmed[0][0].by
        strongest = confirmed[0] if is_overall else max(confirmed, key=lambda pair: pair[1].strength)
        claim_scopes, claims = zip(*confirmed, strict=True)
        return Reason("leak by scores", scope=strongest[0], claims=(strongest[1], *claims), claim_scopes=claim_scopes)
    raw_tests = [] if evidence[0][1].leaks else test_statistics(unadjusted, audit.fpr, confidences)
    raw_leaks = tuple(claim.recipe for claim in raw_tests if claim.leak)
    if raw_leaks and audit.adjustment is not None:
        return Reason("contrary scores", scope=scope, recipes=raw_leaks)
    if implausible := audit.about.with_effect("implausible"):
        return Reason("implausible", implausible[0], scope)
    for each, found in evidence:
        if found.leaks or found.hidden_recipes:
            leaking = tuple(dict.fromkeys(claim.recipe for claim in found.leaks))
            recipes = leaking or found.hidden_recipes
            return Reason("explained by records", scope=each, recipes=recipes, is_hidden=not leaking)
    # If balancing leaves nothing to compare there is no adjusted score, and a raw score may reflect the covariates.
    if audit.adjustment is not None and not scope.adjusted:
        return Reason("no overlap", scope=scope)
    smallest = smallest_detectable_leak(audit, scope)
    if smallest.auc is not None and smallest.auc <= LARGEST_UNSEEN_AUC:
        return Reason("no leak", scope=scope, smallest_leak=smallest, groups=groups)
    return Reason("copies" if count_copies(audit.about) else "too few records", scope=scope, smallest_leak=smallest)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Evidence of a leak in one scope.

    Args:
        leaks: statistics whose interval excludes chance.
        confirmed: those that the unexplained scores confirm.
        hidden_recipes: recipes with evidence in the unexplained scores alone.
    """

    leaks: list[TestedStatistic]
    confirmed: list[TestedStatistic]
    hidden_recipes: tuple[str, ...]


def _find_leaks(audit: Findings, scope: Scope, confidences: Confidences) -> _Evidence:
    """Return what the scores show of a leak, and what of it the unexplained scores confirm.

    Recipes without such scores are confirmed as they are.
    """
    comparable = scope.adjusted or audit.adjustment is None
    leaks = [claim for claim in (test_statistics(scope, audit.fpr, confidences) if comparable else ()) if claim.leak]
    unexplained_scope = replace(
        scope,
        outcomes=tuple(
            replace(outcome, scores=outcome.unexplained)
            for outcome in scope.outcomes
            if outcome.unexplained is not None
        ),
    )
    unexplained_leaks = {
        (claim.recipe, claim.evidence)
        for claim in (test_statistics(unexplained_scope, audit.fpr, confidences) if unexplained_scope.outcomes else ())
        if claim.leak
    }
    without_unexplained = {outcome.recipe for outcome in scope.outcomes if outcome.unexplained is None}
    confirmed = [
        claim
        for claim in leaks
        if claim.recipe in without_unexplained or (claim.recipe, claim.evidence) in unexplained_leaks
    ]
    leaking = {claim.recipe for claim in leaks}
    hidden = tuple(dict.fromkeys(name for name, _ in sorted(unexplained_leaks) if name not in leaking))
    return _Evidence(leaks, confirmed, hidden)


def find_hidden_leaks(audit: Findings, scope: Scope) -> tuple[str, ...]:
    """Return recipes that show a leak only in the unexplained scores."""
    has_unexplained = any(outcome.unexplained is not None for outcome in scope.outcomes)
    return _find_leaks(audit, scope, split_confidence(audit)).hidden_recipes if has_unexplained else ()
