"""Verdict and summary of an audit.

The verdict is one of: a leak found, none found, too little data to say, a confounded split. The summary holds every
number of the report.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from divulge import evaluation
from divulge.auditing import comparability, plausibility
from divulge.auditing.findings import CONFIDENCE, realised_fpr
from divulge.decisions import fpr as by_fpr
from divulge.duplicates import first_of_each_group
from divulge.errors import InputError
from divulge.report import DotGrid, formatting
from divulge.report.formatting import format_estimate
from divulge.report.page import MAX_DOTS
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
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from divulge.auditing.findings import Findings, Outcome
    from divulge.evaluation import Detectable, SurestRecords
    from divulge.report.formatting import NaturalFrequency
    from divulge.results import Answer, BlindBaseline, CheckEffect, RecipeRun
    from divulge.types import Array, Estimate, Ints, Selection, Tone

# Shares of the error; the other intervals have the rest, so that many classes do not drown what is seen over all.
_GROUPS_SHARE = 0.1  # of all classes and groups
_EXPOSED_SHARE = 0.1  # of the members that stand above every non-member
# The largest AUC that may go unseen and "no leak found" still be said: halfway between guessing and certainty.
LARGEST_UNSEEN_AUC = 0.75
NEXT_STEPS = (
    "What to do next: draw members and non-members at random from one pool, before training, so that whole groups of "
    "equal or related records are on one side; take out exact copies (duplicates='drop'); leave out what only one set "
    "has (a source, a date, a class)"
)

TONES: Mapping[Answer, Tone] = {
    "leak found": "leak",
    "no leak found": "clear",
    "too little data to say": "undecided",
    "split is confounded": "void",
}
_SEVERITY: Sequence[Answer] = ("leak found", "split is confounded", "too little data to say", "no leak found")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a model.

    Args:
        answer: "leak found": an interval excludes what a model that leaks nothing would have; all intervals hold
            at once with 95 % confidence. "no leak found": none does, and an AUC of 0.75 would have been found with
            80 % probability. "too little data to say": none does, and an AUC of 0.75 would have been missed more
            often than that, or the target is no better on its own training records than a constant answer is.
            "split is confounded": members can be told from non-members without the model. Where there are
            covariates, the intervals are those of scores adjusted for them.
        plain: the answer in a sentence that needs no statistics.
        details: further sentences: who can do this, and the evidence.
        pictures: the answer as grids of dots, if it is a rate.
        recipe: the recipe with the strongest evidence; empty without evidence.

    Examples:
        >>> Verdict("too little data to say", "Too little data to say: with 1 member and 1 non-member ...").tone
        'undecided'
    """

    answer: Answer
    plain: str
    details: tuple[str, ...] = ()
    pictures: tuple[DotGrid, ...] = ()
    recipe: str = ""

    def __repr__(self) -> str:
        return f"Verdict({self.answer!r}: {self.plain})"

    @property
    def text(self) -> str:
        """The whole verdict, ready to print."""
        return " ".join((self.plain, *self.details))

    @property
    def tone(self) -> Tone:
        """Tone of a report that begins with the verdict."""
        return TONES[self.answer]


@dataclass(frozen=True, slots=True)
class Scope:
    """Candidates on which one verdict is reached.

    Args:
        name: "unseen classes", "all", or one class or group, such as "class 3".
        suffix: the scope as the end of a sentence; empty for a single scope.
        outcomes: every recipe's scores of these candidates.
        adjusted: whether the scores are adjusted for covariates.
        by: "class" or "group" of a scope that is one of them; empty for the others.
    """

    name: str
    suffix: str
    outcomes: tuple[Outcome, ...]
    adjusted: bool = False
    by: str = ""

    @property
    def members(self) -> int:
        """Number of members."""
        return int(self.outcomes[0].members.sum())

    @property
    def nonmembers(self) -> int:
        """Number of non-members."""
        return len(self.outcomes[0].members) - self.members

    def family(self, statistic: str) -> Literal["overall", "groups", "exposed"]:
        """Return with which other intervals that of a statistic shares its part of the error; see `Confidences`."""
        return "groups" if self.by else "exposed" if statistic.startswith("exposed") else "overall"


def scopes(audit: Findings) -> tuple[Scope, ...]:
    """Return the unseen classes (if any) and all candidates, with adjusted scores.

    Unseen classes of which balancing leaves members or non-members alone are shown without adjustment, and nobody is
    accused by them.
    """
    adjusted = _make_scopes(
        audit, tuple(audit.adjusted(name).distinct for name in audit), adjusted=audit.adjustment is not None
    )
    pairs = zip(adjusted, unadjusted_scopes(audit), strict=True)
    return tuple(scope if scope.members and scope.nonmembers else raw for scope, raw in pairs)


def unadjusted_scopes(audit: Findings) -> tuple[Scope, ...]:
    """Return the same scopes with unadjusted scores."""
    return _make_scopes(audit, tuple(audit.outcome(name).distinct for name in audit), adjusted=False)


def _make_scopes(audit: Findings, outcomes: tuple[Outcome, ...], *, adjusted: bool) -> tuple[Scope, ...]:
    if not audit.unseen_classes:
        return (Scope("all", "", outcomes, adjusted),)
    unseen = tuple(outcome.unseen for outcome in outcomes)
    suffix = f" on the {formatting.format_unseen_classes(audit.unseen_classes, audit.class_names)}"
    return Scope("unseen classes", suffix, unseen, adjusted), Scope("all", " on all classes", outcomes, adjusted)


@dataclass(frozen=True, slots=True)
class GroupScopes:
    """Classes and declared groups, each judged by itself.

    Args:
        judged: those with enough records: members that all outscore the non-members would be seen.
        unadjusted: the same with unadjusted scores.
        too_few: names of the others.
    """

    judged: tuple[Scope, ...] = ()
    unadjusted: tuple[Scope, ...] = ()
    too_few: tuple[str, ...] = ()


def group_scopes(audit: Findings) -> GroupScopes:
    """Return each class, and each group that was declared, as a scope of its own.

    Sizes alone decide which are judged: as many of the largest as could each show a leak while they share the error.
    """
    groups = _measure_groups(audit)
    judged = groups[: _count_judged(audit, [size for size, *_ in groups])]
    adjusted, unadjusted = scopes(audit)[-1], unadjusted_scopes(audit)[-1]
    rows, raw_rows = _compared_rows(audit, adjusted=adjusted.adjusted), _compared_rows(audit, adjusted=False)

    def select(scope: Scope, scope_rows: Ints) -> tuple[Scope, ...]:
        return tuple(
            Scope(
                f"{by} {name}",
                f" within {by} {name}",
                tuple(outcome.on((values == value)[scope_rows]) for outcome in scope.outcomes),
                scope.adjusted,
                by,
            )
            for _, by, name, values, value in judged
        )

    too_few = tuple(f"{by} {name}" for _, by, name, *_ in groups[len(judged) :])
    return GroupScopes(select(adjusted, rows), select(unadjusted, raw_rows), too_few)


def _measure_groups(audit: Findings) -> list[tuple[int, str, str, Array, Any]]:
    """Return size, kind, name, values ``[n]`` and own value of each class and group, largest first.

    The size is the number of members or of non-members, whichever is smaller.
    """
    rows = _compared_rows(audit, adjusted=scopes(audit)[-1].adjusted)
    groups = []
    for by, values in (("class", audit.labels), ("group", audit.groups)):
        if values is None:
            continue
        distinct, index = np.unique(values[rows], return_inverse=True)
        n_members = np.bincount(index[audit.members[rows]], minlength=len(distinct))
        sizes = np.minimum(n_members, np.bincount(index, minlength=len(distinct)) - n_members)
        for value, size in zip(distinct, sizes, strict=True) if len(distinct) > 1 else ():
            name = formatting.class_name(int(value), audit.class_names) if by == "class" else str(value)
            groups.append((int(size), by, name, values, value))
    return sorted(groups, key=lambda group: -group[0])


def _compared_rows(audit: Findings, *, adjusted: bool) -> Ints:
    """Return the rows of the candidates behind a scope of all, ``[k]``."""
    rows = np.arange(len(audit.members))
    if adjusted and audit.adjustment is not None:
        return rows[audit.adjustment.is_included]
    return rows if audit.duplicate_groups is None else rows[first_of_each_group(audit.duplicate_groups, audit.members)]


def _count_judged(audit: Findings, sizes: Sequence[int]) -> int:
    """Return how many of the largest groups could each show a perfect AUC while they share the error."""
    error = (1 - CONFIDENCE) * _GROUPS_SHARE
    shown = [size * np.log(2) > np.log(2 * _count_group_tests(audit, k) / error) for k, size in enumerate(sizes, 1)]
    return shown.index(False) if False in shown else len(shown)


def _count_group_tests(audit: Findings, n_groups: int) -> int:
    """Return how many intervals there are of so many groups: AUC, TPR and exposed members of every recipe."""
    return 3 * n_groups * len(audit)


@dataclass(frozen=True, slots=True)
class Confidences:
    """Confidence of each interval, by what it is of; all hold at once.

    Args:
        overall: AUC, ε and each TPR, of all candidates and of unseen classes.
        groups: every statistic of a class or group.
        exposed: exposed members among all candidates, and among unseen classes.
    """

    overall: float
    groups: float
    exposed: float


def split_confidence(
    audit: Findings, confidence: float = CONFIDENCE, *, overall: int = 0, groups: int = 0, exposed: int = 0
) -> Confidences:
    """Return the confidence of each interval for which all intervals of the verdict hold (Bonferroni).

    Otherwise, among five recipes with three statistics each, one would exclude chance by luck in every other
    audit of a model that leaks nothing. Classes and groups share a tenth of the error, and exposed members have
    another.

    Args:
        audit: the audit.
        confidence: with which all hold.
        overall: how many intervals of all candidates are needed, where that is more than the verdict's own.
        groups: the same of classes and groups.
        exposed: the same of exposed members.
    """
    n_judged = _count_judged(audit, [size for size, *_ in _measure_groups(audit)])
    groups_share = _GROUPS_SHARE if n_judged else 0.0
    parts = (
        (1 - groups_share - _EXPOSED_SHARE, max(overall, count_intervals(audit))),
        (_GROUPS_SHARE, max(groups, _count_group_tests(audit, max(1, n_judged)))),
        (_EXPOSED_SHARE, max(exposed, sum(len(scope.outcomes) for scope in scopes(audit)))),
    )
    return Confidences(*(1 - (1 - confidence) * share / count for share, count in parts))


def simultaneous_confidence(audit: Findings) -> float:
    """Return the confidence of AUC, ε and each TPR of all candidates; see `split_confidence`."""
    return split_confidence(audit).overall


def count_intervals(audit: Findings) -> int:
    """Return how many AUCs, bounds on ε and TPRs of all candidates and of unseen classes the verdict rests on."""
    return sum(len(scope.outcomes) * (2 + len(_supported_levels(scope, audit.fpr))) for scope in scopes(audit))


def test_statistics(scope: Scope, levels: Sequence[float], confidences: Confidences) -> list[TestedStatistic]:
    """Return AUC, TPR, ε and exposed members of every recipe; of a class or group one TPR, and no ε."""
    tested, supported = [], _supported_levels(scope, levels)
    confidence, exposed_confidence = (getattr(confidences, scope.family(name)) for name in ("AUC", "exposed members"))
    for outcome in scope.outcomes:
        scores, truth, name = outcome.scores, outcome.members, outcome.recipe
        tested.append(TestedStatistic(name, "AUC", 0.5, evaluation.auc(scores, truth, confidence), scope.adjusted))
        for level in sorted(supported)[-1:] if scope.by else supported:
            rate = evaluation.tpr_at_fpr(scores, truth, level, confidence)
            tested.append(TestedStatistic(name, "TPR", level, rate, scope.adjusted))
        if not scope.by:
            bound = evaluation.epsilon_lower_bound(scores, truth, confidence=confidence)
            tested.append(TestedStatistic(name, "ε", 0.0, bound, scope.adjusted))
        exposed = evaluation.exposed_members(scores, truth, exposed_confidence)
        tested.append(TestedStatistic(name, "exposed members", 0.0, exposed, scope.adjusted, scope.members))
    return tested


def _supported_levels(scope: Scope, levels: Sequence[float]) -> list[float]:
    return [level for level in levels if scope.nonmembers >= evaluation.min_nonmembers(level)]


def smallest_detectable_leak(audit: Findings, scope: Scope) -> Detectable:
    """Return the smallest detectable leak, at the largest FPR at which any TPR is detectable.

    Where non-members are copies of members, of which the model may be surer than of any other record, an AUC must be
    the larger by that; of a TPR nothing is said then, as the copies decide the threshold.
    """
    levels, confidence = sorted(audit.fpr, reverse=True), simultaneous_confidence(audit)
    candidates = [evaluation.smallest_detectable(scope.members, scope.nonmembers, fpr, confidence) for fpr in levels]
    leak = next((leak for leak in candidates if leak.tpr is not None), candidates[0])
    hidden = comparability.hidden_share(audit, scope.members, scope.nonmembers)
    if not hidden:
        return leak
    auc = np.inf if leak.auc is None or hidden == 1 else leak.auc / (1 - hidden)
    return replace(leak, auc=float(auc) if auc < 1 else None, tpr=None)


def decide_verdict(audit: Findings) -> Verdict:
    """Decide what leaks, with what confidence and under which threat model.

    Training records that stand in the model itself come before everything that is measured: they are there, whether or
    not the sets are comparable otherwise. Where these are not, the records' own repetitions are the control (see
    `divulge.inspection.find_stored_records`).
    """
    stored = audit.about.stored
    if stored is not None and stored.proven:
        measured = _decide_by_scores(audit)
        return Verdict(
            "leak found",
            stored.sentence,
            (
                "Whoever holds the file holds these records, and needs no attack.",
                stored.evidence,
                f"What attacks measure beside that: {measured.plain}",
            ),
            recipe=measured.recipe,
        )
    decided = _weigh_findings(audit, _decide_by_scores(audit))
    if stored is not None and stored.suspected and decided.answer == "split is confounded":
        return replace(decided, details=(*decided.details, stored.sentence))
    if stored is not None and stored.suspected and decided.answer == "no leak found":
        return Verdict("too little data to say", f"Too little data to say: {stored.sentence}", (decided.plain,))
    return decided


_ANSWERS: Mapping[CheckEffect, Answer] = {
    "leak": "leak found",
    "not comparable": "split is confounded",
    "not cleared": "too little data to say",
    "unsure": "too little data to say",
}
"""What a finding makes of a verdict, first to last in precedence."""


def _weigh_findings(audit: Findings, decided: Verdict) -> Verdict:
    """Return the verdict that the checks leave of the one by scores.

    What keeps a model from being cleared, or finds a leak too, is a detail where scores showed a leak anyway.
    """
    for effect, answer in _ANSWERS.items():
        findings = [finding for finding in audit.about.findings if finding.effect == effect]
        if not findings:
            continue
        if effect == "leak" and decided.answer == "leak found":
            findings = [finding for finding in audit.about.findings if finding.is_obstacle]
            return replace(decided, details=(*decided.details, *(finding.sentence for finding in findings)))
        if answer == "too little data to say" and decided.answer != "no leak found":
            return replace(decided, details=(*decided.details, *(finding.sentence for finding in findings)))
        first, *others = findings
        details = (*first.details, *(finding.sentence for finding in others))
        if answer == "too little data to say":
            return Verdict(answer, f"Too little data to say: {first.sentence}", details)
        if effect == "leak":
            is_clear = decided.answer == "no leak found"
            by_scores = "No attack sees a leak by the declared non-members alone." if is_clear else decided.plain
            details = (*details, by_scores)
        return Verdict(answer, first.sentence, details, recipe=decided.recipe)
    if decided.answer != "no leak found":
        return decided
    unchecked = (finding.sentence for finding in audit.about.findings if finding.effect == "not checked")
    return replace(decided, details=(*decided.details, *unchecked))


def _decide_by_scores(audit: Findings) -> Verdict:
    """Decide by the scores of the attacks alone."""
    blind = audit.about.blind_baseline
    if blind is not None and blind.confounded:
        auc = blind.auc
        return _confounded_verdict(
            "The split is confounded: a classifier that never saw the model tells members from non-members "
            f"(AUC {format_estimate(auc)}, p = {blind.p_value:.2g}).",
            blind.differences,
        )
    if audit.about.texts is not None and (signs := audit.about.texts.signs):
        return _confounded_verdict(
            "The split is confounded: words, years or lengths tell members from non-members without the model.", signs
        )
    adjustment = audit.adjustment
    if adjustment is not None and adjustment.confounded:
        return _confounded_verdict(comparability.describe_confounding(adjustment))
    verdicts = [_judge_scope(audit, *pair) for pair in zip(scopes(audit), unadjusted_scopes(audit), strict=True)]
    worst, *remaining = sorted(verdicts, key=lambda verdict: _SEVERITY.index(verdict.answer))
    # A cleared scope never hides a leak or an open question in another. A leak on the unseen classes, or sets that
    # cannot be compared, leave nothing to add.
    if worst.answer == "split is confounded" or (worst is verdicts[0] and worst.answer == "leak found"):
        return worst
    additions = [
        sentence
        for verdict in remaining
        if verdict.answer != worst.answer
        for sentence in (
            (verdict.plain,) if verdict.answer == "split is confounded" else (verdict.plain, *verdict.details)
        )
    ]
    return replace(worst, details=(*worst.details, *additions))


def _confounded_verdict(sentence: str, differences: Sequence[str] = ()) -> Verdict:
    """Return the verdict on a confounded split, with what separates the sets and what to do next."""
    difference_sentence = f"What tells them apart: {'; '.join(differences)}." if differences else ""
    advice = comparability.advise_redraw(differences) or NEXT_STEPS
    details = ("No number below can be attributed to the model.", difference_sentence, f"{advice}.")
    return Verdict("split is confounded", sentence, tuple(filter(None, details)))


def _judge_scope(audit: Findings, scope: Scope, unadjusted: Scope) -> Verdict:
    """Reach the verdict on one scope from adjusted scores; contradictory evidence leaves it undecided.

    Classes and groups are judged with all candidates.
    """
    confidences = split_confidence(audit)
    groups = group_scopes(audit) if scope.name == "all" else GroupScopes()
    evidence = [_find_leaks(audit, each, confidences) for each in (scope, *groups.judged)]
    by_scope = zip((scope, *groups.judged), evidence, strict=True)
    worst = [
        (each, max(found.confirmed, key=lambda claim: claim.strength)) for each, found in by_scope if found.confirmed
    ]
    if worst:  # All candidates come first; else the worst class or group.
        is_overall = not worst[0][0].by
        strongest = worst[0] if is_overall else max(worst, key=lambda pair: pair[1].strength)
        return _leak_verdict(audit, *strongest, _describe_worst_groups(worst))
    raw_tests = [] if evidence[0].leaks else test_statistics(unadjusted, audit.fpr, confidences)
    raw_leaks = [claim.recipe for claim in raw_tests if claim.leak]
    if doubt := comparability.describe_contrary_evidence(audit, raw_leaks):
        return _confounded_verdict(f"The split may be confounded{scope.suffix}: {doubt}.")
    if implausible := plausibility.describe_doubt(audit):
        return Verdict(
            "too little data to say",
            f"Too little data to say{scope.suffix}: {implausible}.",
            (plausibility.doubt_advice(audit),),
        )
    for each, found in zip((scope, *groups.judged), evidence, strict=True):
        if found.leaks or found.hidden_recipes:
            return _explained_verdict(
                audit, each, dict.fromkeys(claim.recipe for claim in found.leaks), found.hidden_recipes
            )
    # If balancing leaves nothing to compare there is no adjusted score, and a raw score may reflect the covariates.
    if audit.adjustment is not None and not scope.adjusted:
        return _no_overlap_verdict(audit, scope)
    smallest_leak = smallest_detectable_leak(audit, scope)
    if smallest_leak.auc is not None and smallest_leak.auc <= LARGEST_UNSEEN_AUC:
        return _no_leak_verdict(audit, scope, smallest_leak, smallest_leak.auc, groups)
    return (
        _copies_verdict(audit, scope)
        if comparability.count_copies(audit)
        else _too_little_verdict(scope, smallest_leak)
    )


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


def _describe_worst_groups(worst: Sequence[tuple[Scope, TestedStatistic]]) -> tuple[str, ...]:
    """Name the class and the group that leak most."""
    sentences = []
    for by in ("class", "group"):
        if leaking := [pair for pair in worst if pair[0].by == by]:
            scope, claim = max(leaking, key=lambda pair: pair[1].strength)
            counts = format_counts(scope.members, scope.nonmembers)
            others = f", the worst of {len(leaking):,} that leak by themselves" if len(leaking) > 1 else ""
            sentences.append(f"Within {scope.name} alone ({counts}{others}): {claim}.")
    return tuple(sentences)


def _explained_verdict(audit: Findings, scope: Scope, leaking: Iterable[str], hidden_recipes: Sequence[str]) -> Verdict:
    """Return the verdict if scores and unexplained scores disagree."""
    names = list(leaking)
    explanation = (
        f"by {formatting.join_words(names)} members can be told from non-members, but no longer once what the records "
        "alone explain is taken out; a difference between the sets that is too small for the blind baseline to see "
        "would do the same."
        if names
        else f"by {formatting.join_words(hidden_recipes)} members can be told from non-members only once what the "
        "records alone "
        "explain is taken out; a difference between the sets may hide a leak."
    )
    blind = audit.about.blind_baseline
    return Verdict(
        "too little data to say",
        f"Too little data to say{scope.suffix}: {explanation}",
        (
            *([] if blind is None else [_describe_smallest_shift(blind)]),
            f"{NEXT_STEPS}; or name the columns in which the sets may differ as covariates, so that like is compared "
            "with like.",
        ),
    )


def _describe_smallest_shift(blind: BlindBaseline) -> str:
    if blind.detectable is None:
        return "With so few records, no shift of one column would surely have been seen by the blind baseline."
    return (
        "The smallest shift of one column that the blind baseline would have seen with about 80 % probability tells "
        f"members from non-members with AUC {blind.detectable:.3f}."
    )


def _leak_verdict(audit: Findings, scope: Scope, strongest: TestedStatistic, worst_groups: tuple[str, ...]) -> Verdict:
    """Return the verdict on a leak: what can be done, by whom, and the evidence."""
    surest = None
    if strongest.statistic == "ε":
        outcome = next(outcome for outcome in scope.outcomes if outcome.recipe == strongest.recipe)
        surest = evaluation.surest_records(outcome.scores, outcome.members, simultaneous_confidence(audit))
    if strongest.statistic == "exposed members":
        headline = Headline(_describe_exposed(strongest, scope))
    else:
        headline = make_headline(strongest, scope.suffix, surest)
    evidence = (
        f"The strongest evidence is {strongest}. The intervals of all recipes hold simultaneously with "
        f"{formatting.format_percent(CONFIDENCE)} confidence."
    )
    partial = audit.about.settings.partial
    knows_everything = partial is None or partial.share == 1
    knowledge = (
        "" if knows_everything else f" They know {formatting.format_percent(partial.share)} of each record's values."
    )
    blind, confirmed = audit.about.blind_baseline, strongest.recipe in audit.unexplained_scores
    shift_sentence = "" if blind is None or not confirmed else (
        "A leak also shows in the scores after what the records alone explain has been subtracted. "
        f"{_describe_smallest_shift(blind)}"
    )  # fmt: skip
    adjustment_sentence = "" if audit.adjustment is None else comparability.describe_adjustment(audit.adjustment)
    details = tuple(
        filter(
            None,
            (
                _describe_adversary(audit.about.recipes[strongest.recipe]) + knowledge,
                evidence,
                *worst_groups,
                adjustment_sentence,
                shift_sentence,
            ),
        )
    )
    return Verdict("leak found", headline.words, details, headline.pictures, strongest.recipe)


def _describe_exposed(claim: TestedStatistic, scope: Scope) -> str:
    """Say how many members stand above nearly every non-member, and how many of them not by chance."""
    chance = 3 * scope.members / (scope.nonmembers + 1)
    return (
        f"{claim.estimate.high:,.0f} of {scope.members:,} training records score higher{scope.suffix} than all but at "
        f"most 2 of {scope.nonmembers:,} others, where chance gives about {chance:,.0f}: at least "
        f"{claim.estimate.low:,.0f} can be recognised because they were used for training."
    )


def _no_leak_verdict(
    audit: Findings, scope: Scope, smallest_leak: Detectable, auc: float, groups: GroupScopes
) -> Verdict:
    rate, undetectable = "", ()
    if smallest_leak.tpr is not None:
        rate = f" or a TPR of {smallest_leak.tpr:.3f} at FPR {smallest_leak.fpr:g}"
    elif comparability.count_copies(audit):
        undetectable = (f"{formatting.capitalize(comparability.describe_copies(audit))}.",)
    else:
        required = evaluation.nonmembers_to_tell(smallest_leak.fpr, smallest_leak.confidence)
        missing = f"{required:,} non-members" if scope.nonmembers < required else "more members"
        level = formatting.format_percent(smallest_leak.fpr)
        undetectable = (f"No TPR at FPR {level} could have been told from chance: that would take {missing}.",)
    return Verdict(
        "no leak found",
        f"No leak found{scope.suffix}: no attack that was run tells training records from others measurably better "
        "than guessing.",
        (
            f"The smallest that would have been found with {formatting.format_percent(smallest_leak.power)} "
            f"probability is an AUC of {auc:.3f}{rate}, under the model of {smallest_leak.method}.",
            *undetectable,
            *(() if audit.adjustment is None else (comparability.describe_adjustment(audit.adjustment),)),
            *_describe_cleared_groups(groups),
            f"{_describe_unseen_records(audit, scope)} {_describe_attacks(audit)}",
        ),
    )


def _describe_cleared_groups(groups: GroupScopes) -> list[str]:
    """Say which classes and groups were judged by themselves, and which have too few records."""
    n_judged, too_few = len(groups.judged), groups.too_few
    sentences = []
    if n_judged:
        listed = (
            formatting.format_count(n_judged, "class or group") if n_judged == 1 else f"{n_judged:,} classes or groups"
        )
        sentences.append(f"Nor does any of {listed} leak measurably by itself.")
    if too_few:
        sentences.append(f"Too few records to judge by themselves: {list_names(too_few)}.")
    return sentences


_MAX_NAMED = 10


def list_names(names: Sequence[str]) -> str:
    """List names, of many the first.

    Examples:
        >>> list_names(["class 1", "class 4"]), list_names([f"class {i}" for i in range(40)])[-22:]
        ('class 1 and class 4', 'class 9 and 30 further')
    """
    further = [f"{len(names) - _MAX_NAMED:,} further"] if len(names) > _MAX_NAMED else []
    return formatting.join_words([*names[:_MAX_NAMED], *further])


def _describe_unseen_records(audit: Findings, scope: Scope) -> str:
    """Say how many fully exposed members would have been seen; fewer may have been missed."""
    count = None
    if not comparability.count_copies(audit):
        confidence = split_confidence(audit).exposed
        count = evaluation.smallest_exposed(scope.members, scope.nonmembers, confidence)
    if count is None:
        return "A smaller leak, or one confined to a few records, may have been missed."
    return (
        f"{count:,} of {scope.members:,} members that score higher than every non-member would have been found with "
        "80 % probability; a smaller leak, or one of fewer records, may have been missed."
    )


def _too_little_verdict(scope: Scope, smallest_leak: Detectable) -> Verdict:
    n_required = evaluation.records_to_see(LARGEST_UNSEEN_AUC, smallest_leak.confidence, smallest_leak.power)
    return Verdict(
        "too little data to say",
        f"Too little data to say{scope.suffix}: with {format_counts(scope.members, scope.nonmembers)}, even an AUC of "
        f"{LARGEST_UNSEEN_AUC:g}, halfway between guessing and certainty, could well be missed.",
        (
            f"Finding one with {formatting.format_percent(smallest_leak.power)} probability takes about {n_required:,} "
            "of each kind.",
        ),
    )


def _copies_verdict(audit: Findings, scope: Scope) -> Verdict:
    """Return the verdict if copies of members among the non-members would hide a leak."""
    return Verdict(
        "too little data to say", f"Too little data to say{scope.suffix}: {comparability.describe_copies(audit)}."
    )


def _no_overlap_verdict(audit: Findings, scope: Scope) -> Verdict:
    """Return the verdict if balancing left members or non-members of the unseen classes alone."""
    adjustment = audit.adjustment
    in_covariates = "" if adjustment is None else f" in {comparability.describe_covariates(adjustment)}"
    return Verdict(
        "too little data to say",
        f"Too little data to say{scope.suffix}: hardly any members and non-members of these are alike{in_covariates}.",
        (f"{comparability.REDRAW_ADVICE}.",),
    )


def format_counts(members: int, nonmembers: int) -> str:
    """Format the numbers of members and non-members.

    Examples:
        >>> format_counts(1, 2500)
        '1 member and 2,500 non-members'
    """
    parts = [f"{n:,} {noun}{'' if n == 1 else 's'}" for n, noun in ((members, "member"), (nonmembers, "non-member"))]
    return " and ".join(parts)


def _describe_attacks(audit: Findings) -> str:
    """List the attacks that found nothing."""
    needs = {recipe.references for recipe in audit.about.recipes.values()}
    stronger = (
        "" if needs & {"out", "in and out"} else ". One who trains reference models was not tried, and may find more"
    )
    names = [
        f"{name} (the {recipe.signal.replace('_', ' ')} alone)" if recipe.signal.startswith("last_") else name
        for name, recipe in audit.about.recipes.items()
    ]
    return f"The adversaries that were tried: {', '.join(names)}{stronger}."


def _describe_adversary(recipe: RecipeRun) -> str:
    models = {
        "none": "no reference models",
        "out": "reference models trained on other data of the same kind",
        "in and out": "reference models trained on halves of population and candidates",
        "base": "the model that it was fine-tuned from",
        "substitutes": "models trained on other data of the same kind, as the target labels it",
    }[recipe.references]
    return f"The adversary needs {recipe.reads} ({recipe.signal}) and {models}."


@dataclass(frozen=True, slots=True)
class TestedStatistic:
    """A statistic of one recipe and its value without a leak: for a TPR, its FPR.

    ``adjusted`` if the scores are adjusted for covariates. ``total`` is what a count is out of.
    """

    recipe: str
    statistic: Literal["AUC", "TPR", "ε", "exposed members"]
    chance: float
    estimate: Estimate
    adjusted: bool = False
    total: int = 0

    @property
    def evidence(self) -> Literal["exposed members", "below", "above"]:
        """What other scores of the recipe must show as well to confirm it."""
        return "exposed members" if self.statistic == "exposed members" else "below" if self.below else "above"

    @property
    def below(self) -> bool:
        """Whether the AUC lies below chance, so that the reversed score finds members.

        A TPR there says nothing: where scores tie, its threshold takes in less than the FPR asked for.
        """
        return self.statistic == "AUC" and self.estimate.high < self.chance

    @property
    def leak(self) -> bool:
        """Whether the interval excludes the value without a leak."""
        return self.below or self.estimate.low > self.chance

    @property
    def strength(self) -> float:
        """Distance of the interval from chance, in units of chance; of exposed members their share; 0 for ε."""
        if self.total:
            return self.estimate.low / self.total
        gap = self.chance - self.estimate.high if self.below else self.estimate.low - self.chance
        return gap / self.chance if self.chance else 0.0

    def __str__(self) -> str:
        e, chance = self.estimate, f"where a model that leaks nothing has {self.chance:g}"
        statistic = f"adjusted {self.statistic}" if self.adjusted else self.statistic
        if self.statistic == "exposed members":
            return (
                f"{self.recipe}: at least {e.low:,.0f} of {self.total:,} members stand above the non-members, {chance}"
            )
        if not self.chance:
            return f"{self.recipe}: {statistic} ≥ {formatting.format_lower_bound(e.low)}, {chance}"
        turned = "; the score points the wrong way; reversed, it finds members" if self.below else ""
        level = f" at FPR {self.chance:g}" if self.statistic == "TPR" else ""
        return f"{self.recipe}: {statistic} {e.value:.3f} [{e.low:.3f}, {e.high:.3f}]{level}, {chance}{turned}"


@dataclass(frozen=True, slots=True)
class Headline:
    """A claim as a sentence and as grids of dots."""

    words: str
    pictures: tuple[DotGrid, ...] = ()


def make_headline(statistic: TestedStatistic, suffix: str = "", surest: SurestRecords | None = None) -> Headline:
    """State a claim in a sentence that needs no statistics.

    Args:
        statistic: evidence of a leak.
        suffix: among which candidates, as the end of a phrase.
        surest: the records from which a bound on ε comes, where that is the evidence.

    Examples:
        >>> from divulge.types import Estimate
        >>> rate = Estimate(0.073, 0.041, 0.118, 0.95, "clopper-pearson")
        >>> make_headline(TestedStatistic("lira", "TPR", 0.01, rate)).words
        'About 7 of 100 training records (4 to 12) can be recognised while wrongly accusing at most 1 of 100 others.'
    """
    if statistic.statistic == "TPR":
        return _tpr_headline(statistic, suffix)
    if statistic.statistic == "AUC":
        return _auc_headline(statistic, suffix)
    if surest is not None:
        return Headline(_describe_surest(surest, suffix), _draw_surest(surest))
    return Headline(
        f"Of some records it can be told{suffix} whether they were used for training, with more certainty than "
        "guessing allows."
    )


def _describe_surest(surest: SurestRecords, suffix: str) -> str:
    """Say how many records are told apart almost surely, and how many of the others they are mistaken for.

    Examples:
        >>> from divulge.evaluation import SurestRecords
        >>> _describe_surest(SurestRecords(False, 12, 500, 0, 480), "")
        '12 of 500 other records can be ruled out as training data: none of 480 training records scores as low.'
        >>> _describe_surest(SurestRecords(True, 12, 500, 2, 480), " on all classes")
        '12 of 500 training records score so high on all classes that only 2 of 480 other records do, which ...'
    """
    other_side, records = (
        ("other records", "training records") if surest.members else ("training records", "other records")
    )
    right = f"{surest.right:,} of {surest.total:,} {records}"
    wrong = f"{surest.wrong:,} of {surest.n_others:,} {other_side}"
    end = "high" if surest.members else "low"
    if surest.wrong:
        do = "does" if surest.wrong == 1 else "do"
        return f"{right} score so {end}{suffix} that only {wrong} {do}, which chance does not explain."
    claim = "recognised" if surest.members else "ruled out as training data"
    return f"{right} can be {claim}{suffix}: none of {surest.n_others:,} {other_side} scores as {end}."


def _draw_surest(surest: SurestRecords) -> tuple[DotGrid, ...]:
    """Draw the records that are told apart beside those that they are mistaken for; not of more than a thousand."""
    if max(surest.total, surest.n_others) > MAX_DOTS:
        return ()
    end = "high" if surest.members else "low"
    captions = ("training records", "other records") if surest.members else ("other records", "training records")
    return (
        DotGrid(f"{surest.right:,} of {surest.total:,} {captions[0]} score so {end}", surest.right, surest.total),
        DotGrid(f"{surest.wrong:,} of {surest.n_others:,} {captions[1]} do", surest.wrong, surest.n_others),
    )


def _tpr_headline(statistic: TestedStatistic, suffix: str) -> Headline:
    rate = formatting.natural_frequency(statistic.estimate, statistic.chance)
    accused = formatting.format_others(statistic.chance)
    sentence = (
        f"About {rate.describe('training records')} can be recognised{suffix} while wrongly accusing at most {accused}."
    )
    return Headline(sentence, dot_grids(rate, statistic.chance))


def dot_grids(rate: NaturalFrequency, fpr: float) -> tuple[DotGrid, ...]:
    """Draw recognised members beside accused non-members; empty if either is of more than a thousand."""
    accused = formatting.round_frequency(fpr)
    if accused is None or max(accused[1], rate.total) > MAX_DOTS:
        return ()
    if accused[1] < rate.total:  # grids of one size can be compared
        accused = accused[0] * rate.total // accused[1], rate.total
    accused_dots = DotGrid(f"{accused[0]:,} of {accused[1]:,} others are wrongly accused, at most", *accused)
    return _dot_grid(f"{rate.describe('training records')} are recognised", rate), accused_dots


def _auc_headline(statistic: TestedStatistic, suffix: str) -> Headline:
    """State an AUC as the chance to order a pair correctly; below one half, the reversed chance."""
    auc = statistic.estimate
    if statistic.below:
        auc = replace(auc, value=1 - auc.value, low=1 - auc.high, high=1 - auc.low)
    rate = formatting.natural_frequency(auc, statistic.chance)
    opening = f"{suffix.strip()}, shown" if suffix else "shown"
    sentence = (
        f"{formatting.capitalize(opening)} a training record and another one, the attack tells which is which in about "
        f"{rate.describe('cases')}; guessing is right in {rate.total // 2:,}."
    )
    if rate.total > MAX_DOTS:
        return Headline(sentence)
    guessed = DotGrid(f"{rate.total // 2:,} of {rate.total:,} by guessing", rate.total // 2, rate.total, chance=True)
    return Headline(sentence, (_dot_grid(f"{rate.describe('pairs')} are told right", rate), guessed))


def _dot_grid(caption: str, rate: NaturalFrequency) -> DotGrid:
    return DotGrid(caption, rate.value, rate.total, rate.low, rate.high)


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
    tests, confidence = len(audit) * len(audit.fpr) * len(scopes(audit)), simultaneous_confidence(audit)
    recipe_numbers = {name: summarise_outcome(audit.adjusted(name), audit.fpr, tests, confidence) for name in audit}
    return comparability.summarise_adjustment(audit, recipe_numbers)


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
        None if fpr is None else realised_fpr(distinct.scores[~distinct.members], distinct.calibration, fpr, tests)
    )
    exceeds = realised is not None and realised.rate.low > realised.nominal
    overrun = (
        [f"{outcome.recipe}: the realised FPR at nominal {fpr:g} is {realised.rate}, {realised.judged}"]
        if exceeds
        else []
    )
    rates = evaluation.rates(selection.selected[counted_rows], distinct.members)
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
    return RecipeSummary(
        *(getattr(all_candidates, field.name) for field in fields(RecipeStatistics)),
        decisions={
            f"{fpr_level:g}": _summarise_selection(outcome, fpr_level, selection)
            for fpr_level, selection in outcome.selections(audit.fpr).items()
        },
        raw_fpr={fpr_level: _raw_fpr(outcome, threshold) for fpr_level, threshold in raw_thresholds.items()},
        unseen=summarise_outcome(outcome.unseen, audit.fpr, tests, confidence) if audit.unseen_classes else None,
        classes={}
        if audit.labels is None
        else _summarise_subgroups(
            outcome.distinct, _class_of_each(audit, audit.labels)[counted_rows], audit.fpr, confidences.groups
        ),
        groups={}
        if audit.groups is None
        else _summarise_subgroups(outcome.distinct, audit.groups[counted_rows], audit.fpr, confidences.groups),
    )


def _class_of_each(audit: Findings, labels: Ints) -> Array:
    """Return the class name of each candidate, or its number if classes have no names."""
    return labels if audit.class_names is None else np.array(audit.class_names)[labels]


def _summarise_selection(outcome: Outcome, level: float, selection: Selection | None) -> MemberCalls | None:
    """Summarise a selection and its guarantee; None with too few calibration records."""
    if selection is None:
        return None
    interval = by_fpr.realised_interval(len(outcome.calibration), level)
    return MemberCalls(selection.count, str(selection.guarantee), interval, tuple(selection.warnings))


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
