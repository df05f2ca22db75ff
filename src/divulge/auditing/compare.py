"""Before and after a defence, and whether a policy is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from divulge import checks, evaluation
from divulge.auditing.verdict import CONFIDENCE, scopes
from divulge.evaluation.comparison import STATISTICS, asked_fpr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.findings import Outcome
    from divulge.auditing.result import Audit
    from divulge.auditing.verdict import Scope
    from divulge.types import Estimate


METRICS = ("auc", "advantage", "epsilon")
CONFOUNDED = "the split is confounded: members can be told from non-members without the model"
LENGTHS = "members and non-members differ in length, and nothing is seen among documents of like length"


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
        raise checks.InputError(
            f"compare: the audits have different candidates ({len(before.ids)} and {len(after.ids)} ids); "
            "differences are paired record by record"
        )
    if before.ids.tolist() == after.ids.tolist() and before.candidates != after.candidates:
        raise checks.InputError(
            "compare: the ids agree, but the records or their membership do not; differences are paired record by "
            "record"
        )
    to, of = np.argsort(before.ids, kind="stable"), np.argsort(after.ids, kind="stable")
    if not np.array_equal(before.members[to], after.members[of]):
        raise checks.InputError("compare: the audits disagree on which candidates are members")
    shared = [name for name in before if name in after.scores]
    if not shared:
        raise checks.InputError(f"compare: no recipe in common ({', '.join(before)}; {', '.join(after)})")
    if recipes is not None:
        shared = [checks.choice(name, "recipes", shared) for name in recipes]
    _same_models(before, after, shared)
    differences = []
    statistics = ["auc", *(f"tpr@fpr={level:g}" for level in before.fpr if level in after.fpr)]
    for name in shared:
        first, second = before[name].on(to), after[name].on(of)
        differences += [_difference(name, first, second, statistic, confidence) for statistic in statistics]
    return differences


def _same_models(before: Audit, after: Audit, recipes: Sequence[str]) -> None:
    """Refuses where the difference would be one of the attack and not of the target."""
    apart = {name: _apart(before, after, name) for name in recipes}
    if told := [f"{name} ({', '.join(ways)})" for name, ways in apart.items() if ways]:
        rest = [name for name, ways in apart.items() if not ways]
        instead = f"; recipes that can be compared: {', '.join(rest)}" if rest else ""
        raise checks.InputError(
            f"compare: the reference models of the two audits were trained differently: {'; '.join(told)}{instead}"
        )


def _apart(before: Audit, after: Audit, name: str) -> list[str]:
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


def _difference(name: str, first: Outcome, second: Outcome, statistic: str, confidence: float) -> Difference:
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
            raise checks.InputError(f"--max: {self.metric!r} is unknown (known: {', '.join(STATISTICS)})")
        zero, most = self.metric in ("advantage", "epsilon"), np.inf if self.metric == "epsilon" else 1
        if not ((0 < self.limit < most) or (zero and self.limit == 0)):
            raise checks.InputError(
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
            raise checks.InputError(f"--max: METRIC:LIMIT is needed (such as tpr@fpr=0.001:0.02), got {text!r}")
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
    """

    recipe: str
    scope: str
    metric: str
    limit: float
    estimate: Estimate | None
    doubt: str = ""

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
        be blamed on the model. Where documents differ in length, none is "broken" by a recipe that does not tell
        members from non-members of like length.

    Raises:
        divulge.InputError: no policy, one that cannot be read, a confidence outside (0, 1).
    """
    limits = [Limit.parse(text) for text in ([policy] if isinstance(policy, str) else policy)]
    if not limits:
        raise checks.InputError("--max: at least 1 METRIC:LIMIT is needed, got none")
    error = 1 - checks.number(confidence, "confidence", above=0, below=1)
    asked = {
        (outcome.recipe, scope.name, metric): (outcome, _lacking(scope, metric))
        for scope in scopes(audit)
        for outcome in scope.outcomes
        for metric in {one.metric: None for one in limits}
    }
    each = 1 - error / max(1, sum(not lacking for _, lacking in asked.values()))
    rulings = {
        key: None if lacking else evaluation.measure(outcome.scores, outcome.members, key[-1], each)
        for key, (outcome, lacking) in asked.items()
    }
    blind = audit.about.blind_baseline
    void = CONFOUNDED if audit.about.told_apart or (blind is not None and blind.confounded) else ""
    texts = audit.about.texts
    owed = () if texts is None else texts.owed_to_length(1 - each)
    return [
        Ruling(name, scope, metric, one.limit, measured, void or lacking or _long(measured, one.limit, name in owed))
        for one in limits
        for (name, scope, metric), (_, lacking) in asked.items()
        if metric == one.metric
        for measured in [rulings[name, scope, metric]]
    ]


def _long(measured: Estimate | None, limit: float, owed: bool) -> str:
    """Why a broken limit is not blamed on the model; empty where it is, or nothing is broken."""
    return LENGTHS if owed and measured is not None and measured.low > limit else ""


def _lacking(scope: Scope, metric: str) -> str:
    """What the statistic lacks, in words; empty where there are records enough."""
    if not metric.startswith("tpr@fpr="):
        return ""
    level = asked_fpr(metric)
    least = evaluation.least_nonmembers(level)
    if scope.nonmembers >= least:
        return ""
    return f"{metric} needs {least:,} non-members{scope.where}, and there are {scope.nonmembers:,}"
