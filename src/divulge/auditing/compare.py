"""Before and after a defence, and whether a policy is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from divulge import evaluation
from divulge.auditing import covariate_adjustment, plausibility
from divulge.auditing.verdict import CONFIDENCE, find_hidden_leaks, unadjusted_scopes, scopes, decide_verdict
from divulge.errors import InputError
from divulge.evaluation.comparison import STATISTICS, asked_fpr
from divulge.results.recorded import UNEQUAL
from divulge.validation import check_choice, check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.findings import Outcome
    from divulge.auditing.result import Audit
    from divulge.auditing.verdict import Scope
    from divulge.types import Estimate


METRICS = ("auc", "advantage", "epsilon")
CONFOUNDED = "the split is confounded: members can be told from non-members without the model"
REVERSED = "the score points the wrong way: the AUC of the opposite score is above the limit"
EXPLAINED_BY_RECORDS = (
    "not so once what the records alone explain is taken out of the score: a difference between the sets that is too "
    "small for the blind baseline to see could do the same, or hide it"
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One statistic of one recipe in two audits of the same candidates; ``change`` is second minus first."""

    recipe: str
    statistic: str
    before: Estimate
    after: Estimate
    change: Estimate


def compare(
    before: Audit, after: Audit, recipes: Sequence[str] | None = None, *, confidence: float = CONFIDENCE
) -> list[Difference]:
    """Paired differences, recipe by recipe.

    Args:
        before: an audit.
        after: one of the same candidates.
        recipes: which to compare; None for all that both audits ran.
        confidence: of the interval of each change.

    Raises:
        divulge.InputError: other candidates, another truth, no recipe in common, a recipe that one of the audits did
            not run, or one whose reference models were trained in another way.
    """
    if len(before.ids) != len(after.ids) or set(before.ids.tolist()) != set(after.ids.tolist()):
        raise InputError(
            f"compare: the audits have different candidates ({len(before.ids)} and {len(after.ids)} ids); "
            "differences are paired record by record"
        )
    if before.ids.tolist() == after.ids.tolist() and before.candidates != after.candidates:
        raise InputError(
            "compare: the ids agree, but the records or their membership do not; differences are paired record by "
            "record"
        )
    to, of = np.argsort(before.ids, kind="stable"), np.argsort(after.ids, kind="stable")
    if not np.array_equal(before.members[to], after.members[of]):
        raise InputError("compare: the audits disagree on which candidates are members")
    shared = [name for name in before if name in after.scores]
    if not shared:
        raise InputError(f"compare: no recipe in common ({', '.join(before)}; {', '.join(after)})")
    if recipes is not None:
        shared = [check_choice(name, "recipes", shared) for name in recipes]
    _check_same_training(before, after, shared)
    differences = []
    statistics = ["auc", *(f"tpr@fpr={level:g}" for level in before.fpr if level in after.fpr)]
    for name in shared:
        first, second = before[name].on(to), after[name].on(of)
        if first.counted is not None:  # copies are no further observations
            first, second = first.on(first.counted), second.on(first.counted)
        differences += [_measure_difference(name, first, second, statistic, confidence) for statistic in statistics]
    return differences


def _check_same_training(before: Audit, after: Audit, recipes: Sequence[str]) -> None:
    """Refuses where the difference would be one of the attack and not of the target."""
    apart = {name: _training_differences(before, after, name) for name in recipes}
    if told := [f"{name} ({', '.join(ways)})" for name, ways in apart.items() if ways]:
        rest = [name for name, ways in apart.items() if not ways]
        instead = f"; recipes that can be compared: {', '.join(rest)}" if rest else ""
        raise InputError(
            f"compare: the reference models of the two audits were trained differently: {'; '.join(told)}{instead}"
        )


def _training_differences(before: Audit, after: Audit, name: str) -> list[str]:
    """Settings of a recipe's reference models that differ, in words."""
    first, second = (
        {"references": recipe.references, **(recipe.training or {})}
        for recipe in (before.about.recipes[name], after.about.recipes[name])
    )
    return [
        f"{setting}: {first.get(setting, 'unknown')} before, {second.get(setting, 'unknown')} after"
        for setting in dict.fromkeys([*first, *second])
        if first.get(setting) != second.get(setting)
    ]


def _measure_difference(name: str, first: Outcome, second: Outcome, statistic: str, confidence: float) -> Difference:
    return Difference(
        name,
        statistic,
        evaluation.measure(first.scores, first.members, statistic),
        evaluation.measure(second.scores, second.members, statistic),
        evaluation.paired_difference(second.scores, first.scores, first.members, statistic, confidence),
    )


State: TypeAlias = Literal["kept", "undecided", "broken"]
STATES: tuple[State, ...] = ("kept", "undecided", "broken")  # from best to worst


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on one statistic.

    Args:
        metric: "auc", "advantage", "epsilon" or "tpr@fpr=0.01".
        limit: the largest value that is allowed.

    Raises:
        divulge.InputError: another metric, or a limit that every model keeps or none can: outside (0, 1) for AUC and
            TPR, outside [0, 1) for the advantage, negative or infinite for ε.

    Examples:
        >>> Limit.parse("tpr@fpr=0.001:0.02")
        Limit(metric='tpr@fpr=0.001', limit=0.02)
    """

    metric: str
    limit: float

    def __post_init__(self) -> None:
        if self.metric.startswith("tpr@fpr="):
            asked_fpr(self.metric)
        elif self.metric not in METRICS:
            raise InputError(f"--max: {self.metric!r} is unknown (known: {', '.join(STATISTICS)})")
        zero, most = self.metric in ("advantage", "epsilon"), np.inf if self.metric == "epsilon" else 1
        if not ((0 < self.limit < most) or (zero and self.limit == 0)):
            raise InputError(
                f"--max: the limit of {self.metric} must lie in {'[' if zero else '('}0, {most:g}), got {self.limit:g}"
            )

    @classmethod
    def parse(cls, text: str) -> Limit:
        """From ``METRIC:LIMIT``.

        Raises:
            divulge.InputError: text that is not of this form.
        """
        metric, _, bound = text.replace(" ", "").rpartition(":")
        try:
            limit = float(bound) if metric else None
        except ValueError:
            limit = None
        if limit is None:
            raise InputError(f"--max: METRIC:LIMIT is needed (such as tpr@fpr=0.001:0.02), got {text!r}")
        return cls(metric, limit)


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether one recipe keeps one policy.

    Args:
        recipe: name of the recipe.
        scope: "all" candidates, or the "unseen classes" alone.
        metric: the policy's statistic.
        limit: the policy's limit.
        estimate: the statistic, with an interval that holds together with those of all other rulings; None where
            there are too few records for it.
        doubt: why nothing can be ruled whatever the interval; empty where that is not so.
        adjusted: whether the statistic is one of scores adjusted for covariates.
    """

    recipe: str
    scope: str
    metric: str
    limit: float
    estimate: Estimate | None
    doubt: str = ""
    adjusted: bool = False

    @property
    def state(self) -> State:
        """Kept when even the upper end of the interval is at most the limit, broken when even the lower is above it."""
        if self.doubt or self.estimate is None:
            return "undecided"
        if self.estimate.low > self.limit:
            return "broken"
        return "kept" if self.estimate.high <= self.limit else "undecided"

    @property
    def reason(self) -> str:
        """Why it is undecided; empty where it is not."""
        if self.state != "undecided":
            return ""
        if self.doubt:
            return self.doubt
        if self.metric == "epsilon":
            return "scores bound ε from below only: a limit on it can be shown broken, never shown kept"
        return f"the limit of {self.metric} lies within the interval; more records would narrow it"


def gate(audit: Audit, policy: str | Sequence[str], *, confidence: float = CONFIDENCE) -> list[Ruling]:
    """Hold every recipe of ``audit`` against one or more policies such as ``"tpr@fpr=0.001:0.02"``.

    All intervals hold at once (Bonferroni over recipes, scopes and statistics), so with probability ``confidence``
    no ruling is wrong, however many there are: none is "broken" that keeps its limit, none "kept" that does not.

    Args:
        audit: the audit; where it has unseen classes they are judged alone, and all candidates besides.
        policy: ``METRIC:LIMIT`` with METRIC one of auc, advantage, epsilon, tpr@fpr=LEVEL; or several.
        confidence: probability that all rulings are right.

    Returns:
        A ruling for each recipe, scope and policy. Where the split is confounded all are undecided: no number can
        be blamed on the model. Where there are covariates, the statistics are those of scores adjusted for them, and
        nothing is "kept" that is above its limit without adjustment, or whose AUC is so when it is turned round. None
        is "broken", or "kept", where the score less what the records alone explain says otherwise. None is "kept" by a
        target that is no better on its own training records than a constant answer: it may be another model than the
        one that was trained on them.

    Raises:
        divulge.InputError: no policy, one that cannot be read, a confidence outside (0, 1).
    """
    limits = [Limit.parse(text) for text in ([policy] if isinstance(policy, str) else policy)]
    if not limits:
        raise InputError("--max: at least 1 METRIC:LIMIT is needed, got none")
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    metrics = {one.metric: None for one in limits}
    asked = {
        (outcome.recipe, scope.name, metric): (outcome, without, scope.adjusted, _missing_reason(audit, scope, metric))
        for scope, raw in zip(scopes(audit), unadjusted_scopes(audit), strict=True)
        for outcome, without in zip(scope.outcomes, raw.outcomes, strict=True)
        for metric in metrics
    }
    each = 1 - error / max(1, sum(not lacking for *_, lacking in asked.values()))
    rulings = {
        key: None if lacking else evaluation.measure(outcome.scores, outcome.members, key[-1], each)
        for key, (outcome, *_, lacking) in asked.items()
    }
    unadjusted = {
        key: evaluation.measure(without.scores, without.members, key[-1], each)
        for key, (_, without, adjusted, lacking) in asked.items()
        if adjusted and not lacking
    }
    blind, adjustment = audit.about.blind_baseline, audit.adjustment
    void = CONFOUNDED if audit.about.told_apart or (blind is not None and blind.confounded) else ""
    if adjustment is not None and adjustment.confounded:
        void = covariate_adjustment.describe_confounding(adjustment).rstrip(".")
    if not void and (found := decide_verdict(audit)).answer == "split is confounded":
        void = found.plain.rstrip(".")
    unlike = plausibility.describe_doubt(audit)
    hidden = {(name, scope.name) for scope in scopes(audit) for name in find_hidden_leaks(audit, scope)}
    unexplained = {
        key: evaluation.measure(outcome.unexplained, outcome.members, key[-1], each)
        for key, (outcome, *_, lacking) in asked.items()
        if outcome.unexplained is not None and not lacking
    }
    return [
        Ruling(
            name,
            scope,
            metric,
            one.limit,
            measured,
            void
            or lacking
            or _contrary_reason(audit, name, one, measured, unadjusted.get((name, scope, metric)), each)
            or _explained_reason(measured, unexplained.get((name, scope, metric)), one, hidden=(name, scope) in hidden)
            or _reversed_reason(measured, one)
            or _implausible_reason(measured, one.limit, unlike),
            adjusted=adjusted,
        )
        for one in limits
        for (name, scope, metric), (*_, adjusted, lacking) in asked.items()
        if metric == one.metric
        for measured in [rulings[name, scope, metric]]
    ]


def _contrary_reason(
    audit: Audit, recipe: str, limit: Limit, measured: Estimate | None, raw: Estimate | None, confidence: float
) -> str:
    """Why another comparison of the same run forbids the ruling; empty where none does."""
    if measured is None:
        return ""
    texts = audit.about.texts
    if audit.adjustment is None:
        if texts is None:
            return ""
        if measured.low > limit.limit:
            owed = recipe in texts.owed_to_length(1 - confidence)
            return covariate_adjustment.EXPLAINED_BY_LENGTH if owed else ""
        masked = texts.length <= UNEQUAL and recipe in texts.seen_at_equal_length(1 - confidence)
        return covariate_adjustment.describe_contrary_evidence(audit, (), confidence) if masked else ""
    if measured.high <= limit.limit and raw is not None and _is_above(raw, limit):
        return covariate_adjustment.describe_contrary_evidence(audit, [recipe], confidence)
    return ""


def _explained_reason(measured: Estimate | None, unexplained: Estimate | None, limit: Limit, *, hidden: bool) -> str:
    """Why a limit is not ruled broken, or kept, where the unexplained score does not say the same; empty if it does.

    ``hidden`` where the verdict finds a leak in the unexplained score alone.
    """
    if measured is None or unexplained is None:
        return ""
    broken, kept = measured.low > limit.limit, measured.high <= limit.limit
    contradicted = (broken and unexplained.low <= limit.limit) or (kept and (hidden or _is_above(unexplained, limit)))
    return EXPLAINED_BY_RECORDS if contradicted else ""


def _reversed_reason(measured: Estimate | None, limit: Limit) -> str:
    """Why a limit on the AUC is not kept by a score that finds members when it is turned round; empty elsewhere."""
    kept = measured is not None and measured.high <= limit.limit
    return REVERSED if measured is not None and kept and _is_above(measured, limit) else ""


def _is_above(estimate: Estimate, limit: Limit) -> bool:
    """Whether the interval lies above the limit; of an AUC, also that of the opposite score."""
    return estimate.low > limit.limit or (limit.metric == "auc" and 1 - estimate.high > limit.limit)


def _implausible_reason(measured: Estimate | None, limit: float, doubt: str) -> str:
    """Why a limit is not kept by a target that may be another model; empty where it is broken all the same."""
    return doubt if doubt and (measured is None or measured.low <= limit) else ""


def _missing_reason(audit: Audit, scope: Scope, metric: str) -> str:
    """What the statistic lacks, in words; empty where there are records enough."""
    if audit.adjustment is not None and not scope.adjusted:
        apart = covariate_adjustment.describe_covariates(audit.adjustment)
        return f"hardly any members and non-members{scope.where} are alike in {apart}"
    if not metric.startswith("tpr@fpr="):
        return ""
    level = asked_fpr(metric)
    least = evaluation.least_nonmembers(level)
    if scope.nonmembers >= least:
        return ""
    return f"{metric} needs {least:,} non-members{scope.where}, and there are {scope.nonmembers:,}"
