"""Policy gates: limits on what a study measured, each kept, broken, or neither."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from divulge import evaluation, store
from divulge.auditing.checks.copies import describe_copies, hidden_share
from divulge.auditing.checks.covariates import describe_contrary_evidence, describe_covariates
from divulge.auditing.findings import CONFIDENCE
from divulge.auditing.scopes import group_scopes, scopes, split_confidence, unadjusted_scopes
from divulge.auditing.verdict import decide_verdict, find_hidden_leaks
from divulge.auditing.wording import WITHOUT_REFERENCES, describe_reason, list_names, uses_references
from divulge.errors import InputError
from divulge.evaluation.comparison import parse_fpr
from divulge.evaluation.exposure import chance_of_exposed
from divulge.report import Section, Table, formatting
from divulge.report.formatting import format_estimate
from divulge.settings import GatePlan
from divulge.validation import (
    as_list,
    check_choice,
    check_number,
    check_string,
    format_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from divulge.auditing.findings import Outcome
    from divulge.auditing.result import Audit
    from divulge.auditing.scopes import Scope
    from divulge.auditing.wording import Verdict
    from divulge.results import CheckEffect
    from divulge.run_directory import RunDraft
    from divulge.types import Bools, Estimate, Floats

METRICS = ("auc", "advantage", "epsilon", "exposed", "tpr@fpr=LEVEL")
COUNTS = {
    "exposed": "members",
    "cohorts": "cohorts",
    "records": "records",
    "copies": "rows",
}  # metric → what it is a number of
GROUPINGS = ("class", "group")
REVERSED = "the score points the wrong way: the AUC of the opposite score is above the limit"


State: TypeAlias = Literal["kept", "undecided", "broken"]
STATES: tuple[State, ...] = ("kept", "undecided", "broken")  # from best to worst


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on one statistic of a study.

    Args:
        metric: of an audit "auc", "advantage", "epsilon", "exposed" or "tpr@fpr=0.01"; other studies have their own.
        limit: the largest value that is allowed.

    Raises:
        divulge.InputError: a limit that every model keeps or none can: outside (0, 1) for AUC and TPR, negative or
            infinite for ε, no whole number for what is counted (`COUNTS`), outside [0, 1) for any other.
    """

    metric: str
    limit: float

    def __post_init__(self) -> None:
        is_rate = self.metric.startswith("tpr@fpr=")
        if is_rate:
            parse_fpr(self.metric)
        zero = self.metric != "auc" and not is_rate
        is_count = self.metric in COUNTS
        upper = np.inf if is_count or self.metric == "epsilon" else 1
        if not ((0 < self.limit < upper) or (zero and self.limit == 0)):
            allowed = f"{'[' if zero else '('}0, {upper:g})"
            raise InputError(f"policy: the limit of {self.metric} must lie in {allowed}, got {self.limit:g}")
        if is_count and self.limit % 1:
            unit = COUNTS[self.metric]
            raise InputError(f"policy: the limit of {self.metric} must be a whole number of {unit}, got {self.limit:g}")

    @classmethod
    def parse(cls, text: str, metrics: Sequence[str] = METRICS, subject: str = "an audit") -> Limit:
        """Parse ``METRIC:LIMIT``.

        Args:
            text: such as "tpr@fpr=0.001:0.02".
            metrics: those that may be limited.
            subject: what they are metrics of, for messages.

        Raises:
            divulge.InputError: text that is not of this form, another metric, a limit out of its range.

        Examples:
            >>> Limit.parse("tpr@fpr=0.001:0.02"), Limit.parse("share:0", ["share"], "attribute inference")
            (Limit(metric='tpr@fpr=0.001', limit=0.02), Limit(metric='share', limit=0.0))
        """
        metric, _, bound = check_string(text, "policy").replace(" ", "").rpartition(":")
        try:
            limit = float(bound) if metric else None
        except ValueError:
            limit = None
        if limit is None:
            example = metrics[-1].replace("LEVEL", "0.001")
            raise InputError(f"policy: METRIC:LIMIT is needed (such as {example}:0.02), got {format_value(text)}")
        if metric not in metrics and not (metric.startswith("tpr@fpr=") and "tpr@fpr=LEVEL" in metrics):
            raise InputError(f"policy: {metric!r} is unknown; the metrics of {subject} are {', '.join(metrics)}")
        return cls(metric, limit)


def parse_limits(policy: str | Sequence[str], metrics: Sequence[str], subject: str) -> list[Limit]:
    """Parse one or more ``METRIC:LIMIT``; arguments and errors as for `Limit.parse`, and no text is an error too."""
    texts = [policy] if isinstance(policy, str) else as_list(policy, "policy")
    if not texts:
        raise InputError("policy: at least 1 METRIC:LIMIT is needed, got none")
    return [Limit.parse(text, metrics, subject) for text in texts]


@dataclass(frozen=True, slots=True)
class Ruling:
    """Result of holding one recipe against one policy; true only if the limit is kept.

    Args:
        recipe: name of the recipe.
        scope: "all" candidates, the "unseen classes" alone, or one class or group, such as "class 3".
        metric: the policy's statistic.
        limit: the policy's limit.
        estimate: the statistic, with an interval that holds together with those of all other rulings; None where
            there are too few records for it.
        doubt: why nothing can be ruled whatever the interval; empty where that is not so.
        adjusted: whether the statistic is one of scores adjusted for covariates.
        stored: what is said of training records that stand in the model itself; no limit is kept then. Empty where none
            were found.
        by: "class" or "group" where the scope is one; else empty.
        unjudged: classes and groups within which the limit was not judged, as so few records could not show it kept.
        unjudged_by: "class" or "group", or both, where it was judged within none of them.
        open_verdict: why the audit as a whole has too few records to say "no leak", whether or not a limit is kept;
            empty where it can.
        untried: which stronger attacks were not run; empty where they were.
    """

    recipe: str
    scope: str
    metric: str
    limit: float
    estimate: Estimate | None
    doubt: str = ""
    adjusted: bool = False
    stored: str = ""
    by: str = ""
    unjudged: tuple[str, ...] = ()
    unjudged_by: tuple[str, ...] = ()
    open_verdict: str = ""
    untried: str = ""

    @property
    def state(self) -> State:
        """Kept if the upper end of the interval is at most the limit, broken if the lower end is above it.

        Broken, too, where training records stand in the model: whoever reads them there is right about every one.
        """
        if self.stored:
            return "broken"
        if self.doubt or self.estimate is None:
            return "undecided"
        if self.estimate.low > self.limit:
            return "broken"
        return "kept" if self.estimate.high <= self.limit else "undecided"

    @property
    def reason(self) -> str:
        """Reason for an undecided ruling, or for one that was not measured; what a kept one leaves out; else empty."""
        if self.stored:
            return self.stored
        if self.state == "kept":
            return "; ".join(filter(None, (self._describe_unjudged(), self.open_verdict, self.untried)))
        if self.state != "undecided":
            return ""
        if self.doubt:
            return self.doubt
        if self.metric == "epsilon":
            return "scores bound ε from below only: a limit on it can be shown broken, never shown kept"
        return f"the limit of {self.metric} lies within the interval; more records would narrow it"

    def _describe_unjudged(self) -> str:
        names: dict[str, list[str]] = {}
        for name in self.unjudged:
            names.setdefault(name.partition(" ")[0], []).append(name)
        parts = [
            f"judged within no {kind} ({list_names(of_kind)})"
            if kind in self.unjudged_by
            else f"not judged within {list_names(of_kind)}"
            for kind, of_kind in names.items()
        ]
        few = "where so few records could seldom show that the limit is kept"
        return f"{' and '.join(parts)}, {few}" if parts else ""

    @property
    def answer(self) -> str:
        """The state as tables show it, with what is missing from "kept": classes, a verdict, reference models.

        Examples:
            >>> from divulge.types import Estimate
            >>> auc = Estimate(0.5, 0.45, 0.54, 0.95, "")
            >>> Ruling("loss", "all", "auc", 0.55, auc, unjudged=("class 0", "class 1"), unjudged_by=("class",)).answer
            'kept (no class)'
            >>> Ruling("loss", "all", "auc", 0.55, auc, open_verdict="too few records to say").answer
            'kept (no verdict)'
            >>> Ruling("loss", "all", "auc", 0.55, auc, untried="attacks with references were not run").answer
            'kept (no references)'
        """
        missing = [
            " or ".join(self.unjudged_by), "verdict" if self.open_verdict else "", "references" if self.untried else ""
        ]  # fmt: skip
        if self.state == "kept" and any(missing):
            return f"kept (no {', no '.join(filter(None, missing))})"
        return "BROKEN" if self.state == "broken" else self.state

    def __bool__(self) -> bool:
        return self.state == "kept"

    @property
    def subject(self) -> str:
        """What is ruled on: a metric of a recipe on some candidates."""
        return f"{self.metric} of {self.recipe} on {self.scope}"

    def __str__(self) -> str:
        estimate = format_statistic(self.metric, self.estimate)
        return f"{self.answer.lower()}: {self.subject} is {estimate}, limit {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits that an audit is held to where a gate is given none: the table ``[gate]`` of its plan.

    Args:
        limits: each as METRIC:LIMIT; empty where the plan has none.
        by: what is held to them besides all candidates.

    Raises:
        divulge.InputError: a limit that cannot be read or is of no audit's metric, another grouping.
    """

    limits: tuple[str, ...] = ()
    by: tuple[str, ...] = GROUPINGS

    @classmethod
    def from_plan(cls, plan: Mapping[str, Any] | None) -> Policy:
        """Check the table ``[gate]`` of a plan."""
        table = (plan or {}).get("gate")
        if table is None:
            return cls()
        try:
            settings = GatePlan.check(**table)
            parse_limits(settings.max, METRICS, "an audit")
            return cls(settings.max, parse_groupings(settings.by))
        except InputError as error:
            key = str(error).replace("policy: ", "max: ", 1)
            raise InputError(f"gate.{key}") from None

    def write(self, draft: RunDraft) -> None:
        """Keep the limits with the run, under its digests: ``plan.toml`` may be edited, and decides nothing."""
        if self.limits:
            draft.write_json(_POLICY, {"max": self.limits, "by": ",".join(self.by) or "none"})

    @classmethod
    def read(cls, folder: Path) -> Policy:
        """Read the limits that were kept with the run in ``folder``; none where its plan had none."""
        path = folder / f"{_POLICY}.json"
        if not os.path.lexists(path):
            return cls()
        table = store.read_json(path, inside=folder)
        try:
            return cls.from_plan({"gate": table if isinstance(table, dict) else {}})
        except InputError as error:
            raise InputError(f"{path}: damaged: {error}") from None


_POLICY = "limits"  # name of the file, without its suffix


class Rulings(Sequence[Ruling]):
    """Rulings of a gate: a sequence that is true only if every limit is kept, so that a test can assert it.

    Args:
        rulings: a ruling for each limit and for what it was held against.

    Examples:
        >>> from divulge.types import Estimate
        >>> rulings = Rulings([Ruling("loss", "all", "auc", 0.55, Estimate(0.7, 0.6, 0.8, 0.95, ""))])
        >>> rulings
        Rulings(broken: 1 of 1)
          broken: auc of loss on all is 0.700 [0.600, 0.800], limit 0.55
        >>> rulings.state, bool(rulings), len(rulings)
        ('broken', False, 1)
    """

    def __init__(self, rulings: Iterable[Ruling] = ()) -> None:
        self._rulings = tuple(rulings)

    @property
    def state(self) -> State:
        """The worst state of all rulings; "undecided" without any."""
        return max((ruling.state for ruling in self), key=STATES.index, default="undecided")

    @property
    def answer(self) -> str:
        """The state as tables show it: of several rulings that are in it, of the one that says most."""
        return max((ruling.answer for ruling in self if ruling.state == self.state), key=len, default=self.state)

    def group_by_limit(self) -> dict[str, Rulings]:
        """Return ``METRIC:LIMIT`` → its rulings, the worst first: a limit has one state, whatever it was held against.

        Examples:
            >>> from divulge.types import Estimate
            >>> kept, broken = Estimate(0.5, 0.45, 0.54, 0.95, ""), Estimate(0.7, 0.6, 0.8, 0.95, "")
            >>> rulings = Rulings([Ruling(name, "all", "auc", 0.55, auc) for name, auc in (("a", kept), ("b", broken))])
            >>> {limit: (held.state, held[0].recipe) for limit, held in rulings.group_by_limit().items()}
            {'auc:0.55': ('broken', 'b')}
        """
        groups: dict[str, list[Ruling]] = {}
        for ruling in self:
            groups.setdefault(f"{ruling.metric}:{ruling.limit:.15g}", []).append(ruling)
        return {
            limit: Rulings(sorted(held, key=lambda ruling: -STATES.index(ruling.state)))
            for limit, held in groups.items()
        }

    def __bool__(self) -> bool:
        return self.state == "kept"

    @overload
    def __getitem__(self, index: int) -> Ruling: ...
    @overload
    def __getitem__(self, index: slice) -> Rulings: ...
    def __getitem__(self, index: int | slice) -> Ruling | Rulings:
        """Return a ruling, or several as `Rulings`."""
        return Rulings(self._rulings[index]) if isinstance(index, slice) else self._rulings[index]

    def __len__(self) -> int:
        return len(self._rulings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(other) == self._rulings

    def __hash__(self) -> int:
        return hash(self._rulings)

    def group_by_reason(self) -> dict[str, Rulings]:
        """Return reason → the rulings that have it, whose candidates its figures are of; those without one first."""
        groups: dict[str, list[Ruling]] = {"": []}
        for ruling in self:
            groups.setdefault(ruling.reason, []).append(ruling)
        return {reason: Rulings(held) for reason, held in groups.items() if held}

    def list_subjects(self) -> str:
        """Name what is ruled on, of many the first."""
        return list_names([ruling.subject for ruling in self])

    def describe(self) -> list[str]:
        """Return each ruling in a line, those of one reason below it, so that it stands there once.

        Examples:
            >>> Rulings([Ruling("loss", "all", "auc", 0.6, None, doubt="too few records")]).describe()
            ['too few records', 'undecided: auc of loss on all is –, limit 0.6']
        """
        groups = self.group_by_reason()
        lines: list[str] = []
        for reason, held in groups.items():
            whose = f"{held.list_subjects()}: " if len(groups) > 1 else ""
            lines += [f"{whose}{reason}"] * bool(reason) + [str(ruling) for ruling in held]
        return lines

    def __repr__(self) -> str:
        """Return the state, and the rulings that are in it, below why; of many the first."""
        worst = Rulings(ruling for ruling in self if ruling.state == self.state)
        lines = [f"Rulings({self.state}: {len(worst):,} of {len(self):,})", *worst[:_MAX_SHOWN].describe()]
        further = [f"{len(worst) - _MAX_SHOWN:,} more"] if len(worst) > _MAX_SHOWN else []
        return "\n  ".join([*lines, *further])


_MAX_SHOWN = 10  # rulings in a repr


def gate(
    audit: Audit,
    policy: str | Sequence[str],
    *,
    confidence: float = CONFIDENCE,
    by: str | Sequence[str] = GROUPINGS,
) -> Rulings:
    """Hold every recipe of ``audit`` against one or more policies such as ``"tpr@fpr=0.001:0.02"``.

    The intervals are those of verdict and report, which hold at once (Bonferroni over recipes, scopes and statistics);
    only where there are more rulings than intervals there are they wider. So with probability ``confidence`` no ruling
    is wrong, however many there are: none is "broken" that keeps its limit, none "kept" that does not.

    Every class, and every group that was declared, is held to the same limits, except one on ε. A class with
    so few records that it would seldom be shown to keep the limit if it were like all others is not judged, and the
    ruling on all candidates, which may be "kept", names it in ``unjudged``; unless it is above the limit and leaks (at
    1 - ``confidence`` over all classes). Where no class at all was judged, ``unjudged_by`` says so.

    ``exposed:5`` allows 5 members that stand above the non-members (of their class) beyond chance; see
    `divulge.evaluation.exposed_members`. It is broken where more surely do, and kept where no more than 5 members are
    above all but two of the non-members. AUC and TPR cannot see 100 of 20,000.

    Args:
        audit: the audit; where it has unseen classes they are judged alone, and all candidates besides.
        policy: ``METRIC:LIMIT`` with METRIC one of auc, advantage, epsilon, exposed, tpr@fpr=LEVEL; or several.
        confidence: probability that all rulings are right.
        by: what else is held to the limits: "class", "group", both (the default), or "none".

    Returns:
        A ruling for each policy, scope and recipe, then those of classes and groups; false unless all are kept. Where
        the split is confounded all are undecided: no number can be blamed on the model. Where there are covariates, the
        statistics are those of scores adjusted for them, and nothing is "kept" that is above its limit without
        adjustment, or whose AUC is so when it is turned round. None is "broken", or "kept", where the score less what
        the records alone explain says otherwise. None is "kept" by a target that is no better on its own training
        records than a constant answer: it may be another model than the one that was trained on them. None is "kept"
        that may be exceeded beneath copies of members among the non-members, or while the verdict is "too little data
        to say" for a doubt about model or records. Where it is so for want of records alone, ``open_verdict`` of what
        is kept says that.

    Raises:
        divulge.InputError: no policy, one that cannot be read, a confidence outside (0, 1), another grouping.
    """
    limits = parse_limits(policy, METRICS, "an audit")
    check_number(confidence, "confidence", above=0, below=1)
    groupings = parse_groupings(by)
    groups = group_scopes(audit)
    scope_pairs = [
        *zip(scopes(audit), unadjusted_scopes(audit), strict=True),
        *(pair for pair in zip(groups.judged, groups.unadjusted, strict=True) if pair[0].by in groupings),
    ]
    metrics = dict.fromkeys(limit.metric for limit in limits)
    missing_reasons = {
        (scope.name, metric): _missing_reason(audit, scope, metric) for scope, _ in scope_pairs for metric in metrics
    }
    n_measured = Counter(
        scope.family(metric)
        for scope, _ in scope_pairs
        for metric in metrics
        for _ in scope.outcomes
        if not missing_reasons[scope.name, metric]
    )
    confidences = split_confidence(audit, confidence, **n_measured)
    hidden_leaks = {scope.name: find_hidden_leaks(audit, scope) for scope, _ in scope_pairs}
    hidden_shares = {scope.name: hidden_share(audit.about, scope.members, scope.nonmembers) for scope, _ in scope_pairs}
    verdict = decide_verdict(audit)
    void, stored = _void_reason(audit, verdict), reason_of(audit, "proof")
    verdict_doubt, open_verdict = _describe_undecided(audit, verdict)
    untried = WITHOUT_REFERENCES * (not uses_references(audit))
    too_few = tuple(name for name in groups.too_few if name.partition(" ")[0] in groupings)

    def rule(limit: Limit, scope: Scope, outcome: Outcome, raw: Outcome) -> Ruling:
        missing = missing_reasons[scope.name, limit.metric]
        measured, doubt = None, void or missing
        if not missing:
            single_confidence = getattr(confidences, scope.family(limit.metric))

            def measure(scores: Floats, members: Bools) -> Estimate:
                return evaluation.measure(scores, members, limit.metric, single_confidence)

            measured = measure(outcome.scores, outcome.members)
            unadjusted = measure(raw.scores, raw.members) if scope.adjusted else None
            unexplained = None if outcome.unexplained is None else measure(outcome.unexplained, outcome.members)
            doubt = void or _describe_doubt(
                audit,
                limit,
                measured,
                recipe=outcome.recipe,
                unadjusted=unadjusted,
                unexplained=unexplained,
                is_hidden=outcome.recipe in hidden_leaks[scope.name],
                hidden=hidden_shares[scope.name],
                verdict_doubt=verdict_doubt,
                too_few=_describe_few_nonmembers(limit, scope, single_confidence),
            )
        ruling = Ruling(outcome.recipe, scope.name, limit.metric, limit.limit, measured, doubt, scope.adjusted)
        beside_all = {} if scope.by else {"open_verdict": open_verdict, "untried": untried}
        return replace(ruling, stored=stored, by=scope.by, **beside_all)

    # A class of too few records to be shown to keep a limit is held to it all the same where it surely leaks.
    noticed = 1 - (1 - confidence) / max(1, len(groups.judged) * len(audit))
    rulings: list[Ruling] = []
    for limit in limits:
        pairs = scope_pairs if limit.metric != "epsilon" else [pair for pair in scope_pairs if not pair[0].by]
        unjudged = {name: list(too_few) if limit.metric != "epsilon" else [] for name in audit}
        ruled: list[Ruling] = []
        of_all: dict[str, Estimate | None] = {}
        for scope, unadjusted_scope in pairs:
            for outcome, raw in zip(scope.outcomes, unadjusted_scope.outcomes, strict=True):
                if scope.by and not (
                    _can_keep(limit, scope, of_all[outcome.recipe], confidences.groups, len(groups.judged))
                    or _exceeds(outcome, limit, noticed)
                ):
                    unjudged[outcome.recipe].append(scope.name)
                    continue
                ruled.append(rule(limit, scope, outcome, raw))
                if not scope.by:
                    of_all[outcome.recipe] = ruled[-1].estimate
        judged = {(ruling.recipe, ruling.by) for ruling in ruled}
        for ruling in ruled:
            names = tuple(unjudged[ruling.recipe]) if ruling.scope == "all" else ()
            kinds = dict.fromkeys(name.partition(" ")[0] for name in names)
            by_none = tuple(kind for kind in kinds if (ruling.recipe, kind) not in judged)
            rulings.append(replace(ruling, unjudged=names, unjudged_by=by_none))
    return Rulings(sorted(rulings, key=lambda ruling: bool(ruling.by)))  # all candidates first


def limits_section(rulings: Rulings) -> Section:
    """Return the answers on the limits of a plan for a report: a row each, with a deciding ruling and all reasons."""
    rows = []
    for limit, held in rulings.group_by_limit().items():
        deciding = [ruling for ruling in held if ruling.state == held.state]
        first = next(ruling for ruling in deciding if ruling.answer == held.answer)
        reasons = [first.reason] if first.reason else []
        reasons += [
            f"{others.list_subjects()}: {reason}"
            for reason, others in Rulings(deciding).group_by_reason().items()
            if reason not in ("", first.reason)
        ]
        rows.append((limit, held.answer, "; ".join((str(first).partition(": ")[2], *reasons))))
    return Section("Limits of the plan", [Table(("limit", "answer", "why"), rows, sortable=False)])


def parse_groupings(by: str | Sequence[str]) -> tuple[str, ...]:
    """Return by what a gate judges besides all candidates.

    Raises:
        divulge.InputError: something else than "class", "group", both or "none".

    Examples:
        >>> parse_groupings("class, group"), parse_groupings("none")
        (('class', 'group'), ())
    """
    words = by.split(",") if isinstance(by, str) else as_list(by, "by")
    groupings = [check_choice(str(word).strip(), "by", (*GROUPINGS, "none")) for word in words]
    if "none" in groupings and len(groupings) > 1:
        raise InputError("by: 'none' stands alone, got " + format_value(by))
    return tuple(grouping for grouping in groupings if grouping != "none")


def _exceeds(outcome: Outcome, limit: Limit, confidence: float) -> bool:
    """Check whether a class or group is above the limit and surely leaks: too little to accuse it, or to clear it."""
    try:
        estimate = evaluation.measure(outcome.scores, outcome.members, limit.metric, confidence)
    except InputError:
        return False
    chance = _CHANCE.get(limit.metric)
    leaks = _is_above(estimate, replace(limit, limit=parse_fpr(limit.metric) if chance is None else chance))
    value = max(estimate.value, 1 - estimate.value) if limit.metric == "auc" else estimate.value
    return leaks and value > limit.limit


def _can_keep(limit: Limit, scope: Scope, of_all: Estimate | None, confidence: float, n_scopes: int) -> bool:
    """Check whether so many records would show with 80 % probability that a limit is kept by a class like all others.

    An AUC as far below the limit as that of all candidates is must be told from it; so must a TPR and an advantage.
    Members above all but two non-members must be so few by chance in all classes and groups together.
    """
    if limit.metric == "exposed":
        return n_scopes * chance_of_exposed(scope.members, scope.nonmembers, int(limit.limit)) <= _MISSED
    if of_all is None:
        return False
    chance = _CHANCE.get(limit.metric)
    chance = parse_fpr(limit.metric) if chance is None else chance
    margin = limit.limit - max(of_all.value, chance)
    if limit.metric == "advantage":
        members = scope.outcomes[0].members
        return evaluation.advantage(np.zeros(len(members)), members, confidence).high <= margin
    smallest = evaluation.smallest_detectable(scope.members, scope.nonmembers, chance, confidence)
    detectable = smallest.auc if limit.metric == "auc" else smallest.tpr
    return detectable is not None and detectable - chance <= margin


def _describe_few_nonmembers(limit: Limit, scope: Scope, confidence: float) -> str:
    """Say how many non-members a limit of a TPR needs where so few could show it broken by no leak; else nothing."""
    if not limit.metric.startswith("tpr"):
        return ""
    needed = evaluation.nonmembers_to_tell(parse_fpr(limit.metric), confidence)
    if scope.nonmembers >= needed:
        return ""
    return (
        f"with {scope.nonmembers:,} non-members no leak, however clear, is shown to break a limit of {limit.metric}: "
        f"that takes {needed:,}; exposed:LIMIT and auc:LIMIT can be ruled on with fewer"
    )


_MISSED = 0.2  # probability with which a limit that holds is not shown to be kept within some class
_CHANCE: Mapping[str, float] = {"auc": 0.5, "advantage": 0.0, "exposed": 0.0}  # that of a TPR is its FPR


def _void_reason(audit: Audit, verdict: Verdict) -> str:
    """Explain why no number of the audit can be blamed on the model; empty if the split is not confounded.

    Of several reasons that of the covariates, which the user named, says most; it is the last.
    """
    if incomparable := audit.about.with_effect("not comparable"):
        return incomparable[-1].reason
    return verdict.plain.rstrip(".") if verdict.answer == "split is confounded" else ""


def describe_open_verdict(reason: str) -> str:
    """Say beside what is kept that "no leak" could not be said, and why.

    Examples:
        >>> describe_open_verdict("Too little data to say: with 20 records even a large leak could be missed.")
        'the audit could not say "no leak": with 20 records even a large leak could be missed'
    """
    reason = reason.removeprefix("Too little data to say: ").rstrip(".")
    return f'the audit could not say "no leak": {reason[0].lower()}{reason[1:]}'


def _describe_undecided(audit: Audit, verdict: Verdict) -> tuple[str, str]:
    """Say why there is "too little data to say": by which no limit is kept, and which leaves those kept that are.

    Numbers that may be of another model, or that the sets themselves may have made, are below no limit. Too few records
    widen intervals, and one that lies below its limit all the same is right.
    """
    if verdict.answer != "too little data to say":
        return "", ""
    doubts = [reason for reason in verdict.reasons if reason.is_doubt]
    if not doubts:
        return "", describe_open_verdict(verdict.plain)
    finding = doubts[0].finding
    return (describe_reason(audit, doubts[0]).plain.rstrip(".") if finding is None else finding.reason), ""


def reason_of(audit: Audit, effect: CheckEffect) -> str:
    """Return what the first finding of an effect says, as the reason for a ruling; empty without any."""
    return next((finding.reason for finding in audit.about.with_effect(effect)), "")


def _describe_doubt(
    audit: Audit,
    limit: Limit,
    measured: Estimate,
    *,
    recipe: str,
    unadjusted: Estimate | None,
    unexplained: Estimate | None,
    is_hidden: bool,
    hidden: float,
    verdict_doubt: str,
    too_few: str,
) -> str:
    """Say why a measured statistic does not rule, by the first reason that there is; empty where it rules.

    Other comparisons of the same scores come first, then what checks found. What says that a model gives away more
    speaks against "kept" alone, never against "broken".

    Args:
        audit: the audit.
        limit: the limit that the statistic is held against.
        measured: the statistic.
        recipe: name of the recipe.
        unadjusted: the same without adjustment for covariates; None where nothing is adjusted.
        unexplained: the same of the score less what the records alone explain; None where that is not known.
        is_hidden: whether the verdict finds a leak in this score alone.
        hidden: largest share of the non-members that may be members in truth, as copies.
        verdict_doubt: why the verdict is undecided; empty where it is not, or for want of records alone.
        too_few: why so few non-members cannot show the limit broken; empty where they can.
    """
    is_kept, is_broken = measured.high <= limit.limit, measured.low > limit.limit
    if is_kept and unadjusted is not None and _is_above(unadjusted, limit):
        assert audit.adjustment is not None
        return describe_contrary_evidence(audit.adjustment, [recipe])
    if unexplained is not None:
        is_contrary = unexplained.low <= limit.limit if is_broken else is_hidden or _is_above(unexplained, limit)
        if is_contrary and (is_broken or is_kept):
            return _describe_contrary(limit, unexplained, is_broken=is_broken)
    if is_kept and _is_above(measured, limit):
        return REVERSED
    if not is_broken and (implausible := reason_of(audit, "implausible")):
        return implausible
    if not is_kept:
        return "" if is_broken else too_few
    # AUC and advantage are compared once more as the largest that they can be without the copies, of which the model
    # may be surer than of any other record. Of a TPR the copies decide the threshold, so nothing remains to compare.
    is_kept_without_copies = {
        "auc": max(measured.high, 1 - measured.low) <= limit.limit * (1 - hidden),
        "advantage": measured.high + hidden <= limit.limit * (1 - hidden),
    }
    if hidden and not is_kept_without_copies.get(limit.metric, False):
        return describe_copies(audit.about)
    for finding in audit.about.findings:
        # What is found of members against another set than the non-members is held against a limit on the AUC itself.
        area = finding.member_auc if limit.metric == "auc" else None
        is_uncleared = finding.effect in ("suspected", "not cleared", "leak")
        if is_uncleared if area is None else area.high > limit.limit:
            return finding.reason
    return verdict_doubt


def _describe_contrary(limit: Limit, unexplained: Estimate, *, is_broken: bool) -> str:
    """Say what the score shows once what the records alone explain is taken out, and what to do."""
    if is_broken:
        outcome = (
            "which is not surely above the limit: a difference between the sets may have done what looks like a leak"
        )
    elif _is_above(unexplained, limit):
        outcome = "which is above the limit: a difference between the sets may hide a leak"
    else:
        outcome = (
            "and some measure of that score shows a leak, where none of the score as it is does: a difference between "
            "the sets may hide it"
        )
    return (
        f"less what the records alone explain, {limit.metric} is {format_statistic(limit.metric, unexplained)}, "
        f"{outcome}. Draw members and non-members at random from one pool, or take more records, and audit again"
    )


def _is_above(estimate: Estimate, limit: Limit) -> bool:
    """Check whether the interval lies above the limit; for an AUC, also that of the reversed score."""
    return estimate.low > limit.limit or (limit.metric == "auc" and 1 - estimate.high > limit.limit)


def _missing_reason(audit: Audit, scope: Scope, metric: str) -> str:
    """Explain what the statistic lacks; empty if there are enough records."""
    if audit.adjustment is not None and not scope.adjusted:
        names = describe_covariates(audit.adjustment)
        return f"hardly any members and non-members{scope.suffix} are alike in {names}"
    if not metric.startswith("tpr@fpr="):
        return ""
    level = parse_fpr(metric)
    required = evaluation.min_nonmembers(level)
    if scope.nonmembers >= required:
        return ""
    return f"{metric} needs {required:,} non-members{scope.suffix}, and there are {scope.nonmembers:,}"


def format_statistic(name: str, estimate: Estimate | None) -> str:
    """Format an estimate in the unit in which reports show its statistic: rates in per cent, others as they are.

    Examples:
        >>> from divulge.types import Estimate
        >>> format_statistic("tpr@fpr=0.01", Estimate(0.32, 0.102, 0.565, 0.95, "")), format_statistic("auc", None)
        ('32.0 % [10.2, 56.5]', '–')
        >>> format_statistic("exposed", Estimate(11, 3, 14, 0.95, ""))
        '11 [3, 14]'
    """
    if name in COUNTS and estimate is not None:
        is_exact = name == "copies" and estimate.low == estimate.high
        interval = "" if is_exact else f" [{estimate.low:,.0f}, {estimate.high:,.0f}]"
        return f"{estimate.value:,.0f}{interval}"
    return formatting.format_percent_estimate(estimate) if name.startswith("tpr@") else format_estimate(estimate)
