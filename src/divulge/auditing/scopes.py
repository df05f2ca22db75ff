"""What a verdict is reached on: candidates, their classes and groups, and statistics whose intervals hold at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from divulge import evaluation
from divulge.auditing.checks.copies import hidden_share
from divulge.auditing.findings import CONFIDENCE
from divulge.duplicates import first_of_each_group
from divulge.report import formatting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.findings import Findings, Outcome
    from divulge.evaluation import Detectable
    from divulge.types import Array, Estimate, Ints

# The largest AUC that may go unseen and "no leak found" still be said: halfway between guessing and certainty.
LARGEST_UNSEEN_AUC = 0.75
# Shares of the error; the other intervals have the rest, so that many classes do not drown what is seen over all.
_GROUPS_SHARE = 0.1  # of all classes and groups
_EXPOSED_SHARE = 0.1  # of the members that stand above every non-member


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
    They stand in the order of classes, and of the names of groups.
    """
    groups = _measure_groups(audit)
    n_judged = _count_judged(audit, [size for size, *_ in groups])
    judged, others = (
        sorted(part, key=lambda group: (group[1], group[4])) for part in (groups[:n_judged], groups[n_judged:])
    )
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

    too_few = tuple(f"{by} {name}" for _, by, name, *_ in others)
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
    # Chernoff's interval of a perfect AUC excludes one half where 2 ** size exceeds 2 / (error of a single test).
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
    hidden = hidden_share(audit.about, scope.members, scope.nonmembers)
    if not hidden:
        return leak
    auc = np.inf if leak.auc is None or hidden == 1 else leak.auc / (1 - hidden)
    return replace(leak, auc=float(auc) if auc < 1 else None, tpr=None)


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
