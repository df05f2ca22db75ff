"""Before and after a defence, and whether a policy is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks, evaluation
from divulge.auditing.summary import scopes

if TYPE_CHECKING:
    from divulge.auditing.outcome import Outcome
    from divulge.auditing.result import Audit
    from divulge.types import Estimate


@dataclass(frozen=True, slots=True)
class Difference:
    """One statistic of one recipe in two audits of the same candidates; ``change`` is second minus first."""

    recipe: str
    statistic: str
    before: Estimate
    after: Estimate
    change: Estimate


def compare(before: Audit, after: Audit) -> list[Difference]:
    """Paired differences, recipe by recipe, over the recipes that both audits ran.

    Raises:
        divulge.InputError: other candidates, another truth, no recipe in common.
    """
    if len(before.ids) != len(after.ids) or set(before.ids.tolist()) != set(after.ids.tolist()):
        raise checks.InputError(
            f"compare: the audits are of different candidates ({len(before.ids)} and {len(after.ids)} ids); "
            "differences are paired record by record"
        )
    if before.ids.tolist() == after.ids.tolist() and before.candidates != after.candidates:
        raise checks.InputError(
            "compare: the ids agree, but the records or the truth behind them do not; differences are paired record by "
            "record"
        )
    to, of = np.argsort(before.ids, kind="stable"), np.argsort(after.ids, kind="stable")
    if not np.array_equal(before.members[to], after.members[of]):
        raise checks.InputError("compare: the audits disagree on which candidates are members")
    shared = [name for name in before if name in after.scores]
    if not shared:
        raise checks.InputError(f"compare: no recipe in common ({', '.join(before)}; {', '.join(after)})")
    found = []
    statistics = ["auc", *(f"tpr@fpr={level:g}" for level in before.fpr if level in after.fpr)]
    for name in shared:
        first, second = before[name].on(to), after[name].on(of)
        found += [_difference(name, first, second, statistic) for statistic in statistics]
    return found


def _difference(name: str, first: Outcome, second: Outcome, statistic: str) -> Difference:
    return Difference(
        name,
        statistic,
        evaluation.measure(first.scores, first.members, statistic),
        evaluation.measure(second.scores, second.members, statistic),
        evaluation.paired_difference(second.scores, first.scores, first.members, statistic),
    )


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether one recipe keeps a policy: broken when even the lower end of the interval is above the limit."""

    recipe: str
    scope: str
    metric: str
    limit: float
    estimate: Estimate

    @property
    def broken(self) -> bool:
        """True when the lower end of the interval is above the limit."""
        return self.estimate.low > self.limit


def gate(audit: Audit, policy: str) -> list[Ruling]:
    """Hold every recipe of ``audit`` against a policy such as ``"tpr@fpr=0.001:0.02"``.

    Args:
        audit: the audit; where it has unseen classes they are judged alone, and all candidates besides.
        policy: ``METRIC:LIMIT`` with METRIC one of auc, advantage, epsilon, tpr@fpr=LEVEL.

    Raises:
        divulge.InputError: a policy that cannot be read, too few non-members for the level.
    """
    metric, _, bound = policy.replace(" ", "").rpartition(":")
    try:
        limit = float(bound)
    except ValueError:
        limit = float("nan")
    if not metric or not np.isfinite(limit):
        raise checks.InputError(f"--max: METRIC:LIMIT is needed (such as tpr@fpr=0.001:0.02), got {policy!r}")
    rulings = []
    for name in audit:
        for outcome, scope in zip(scopes(audit, name), ("unseen classes", "all"), strict=False):
            estimate = evaluation.measure(outcome.scores, outcome.members, metric)
            rulings.append(Ruling(name, scope if audit.unseen_classes else "all", metric, limit, estimate))
    return rulings
