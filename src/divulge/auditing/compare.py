"""Comparison of audits of the same candidates (before and after defences), and policy gates."""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
import polars as pl

from divulge import evaluation, store
from divulge.auditing import result as results_of_audits
from divulge.auditing.checks.copies import describe_copies, hidden_share
from divulge.auditing.checks.covariates import describe_contrary_evidence, describe_covariates
from divulge.auditing.findings import CONFIDENCE
from divulge.auditing.scopes import group_scopes, scopes, split_confidence, unadjusted_scopes
from divulge.auditing.verdict import decide_verdict, find_hidden_leaks
from divulge.auditing.wording import list_names
from divulge.errors import InputError
from divulge.evaluation.comparison import parse_fpr
from divulge.evaluation.exposure import chance_of_exposed
from divulge.report import Chart, DotGrid, Page, Paragraph, Section, Table, charts, formatting, html, notebook
from divulge.report.formatting import format_estimate
from divulge.report.sections import RegulatorAnswers, regulator_section
from divulge.results import ClassifierFit, RegressionFit, StoredRecords, TokenFit
from divulge.settings import GatePlan
from divulge.validation import (
    as_list,
    check_choice,
    check_instance,
    check_number,
    check_path,
    check_string,
    format_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from divulge.auditing.findings import Outcome
    from divulge.auditing.result import Audit
    from divulge.auditing.scopes import Scope
    from divulge.results import Answer, CheckEffect
    from divulge.run_directory import RunDraft
    from divulge.types import Bools, Estimate, Floats, Tone

METRICS = ("auc", "advantage", "epsilon", "exposed", "tpr@fpr=LEVEL")
COUNTS = {"exposed": "members", "cohorts": "cohorts", "records": "records"}  # metric → what it is a number of
GROUPINGS = ("class", "group")
REVERSED = "the score points the wrong way: the AUC of the opposite score is above the limit"


@dataclass(frozen=True, slots=True)
class Difference:
    """A statistic of one recipe in two audits of the same candidates; ``change`` is second minus first."""

    recipe: str
    statistic: str
    before: Estimate
    after: Estimate
    change: Estimate

    @property
    def direction(self) -> int:
        """Return 1 where the second run gives away more by this statistic, -1 where less, 0 where neither is shown.

        An AUC that falls gives away less only as long as it is not below one half: from there on the score reversed
        finds members. So of an AUC that is surely below one half, before or after, its distance from it counts.
        """
        if self.change.low <= 0 <= self.change.high:
            return 0
        if self.statistic != "auc" or min(self.before.high, self.after.high) >= 0.5:
            return 1 if self.change.low > 0 else -1
        (before_low, before_high), (after_low, after_high) = map(_advantage_range, (self.before, self.after))
        return 1 if after_low > before_high else -1 if after_high < before_low else 0


def _advantage_range(auc: Estimate) -> tuple[float, float]:
    """Return the lowest and the highest distance from one half that an interval of the AUC allows."""
    ends = abs(auc.low - 0.5), abs(auc.high - 0.5)
    return (0.0 if auc.low <= 0.5 <= auc.high else min(ends)), max(ends)


def compare(
    before: Audit, after: Audit, recipes: Sequence[str] | None = None, *, confidence: float = CONFIDENCE
) -> list[Difference]:
    """Return paired differences for every recipe.

    Args:
        before: an audit.
        after: one of the same candidates.
        recipes: which to compare; None for all that both audits ran, except those of `find_left_out`.
        confidence: of the interval of each change.

    Raises:
        divulge.InputError: other candidates, another truth, no recipe in common, a recipe that one of the audits did
            not run, or one that is named (or any) whose reference models were trained in another way.
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
    before_order, after_order = np.argsort(before.ids, kind="stable"), np.argsort(after.ids, kind="stable")
    if not np.array_equal(before.members[before_order], after.members[after_order]):
        raise InputError("compare: the audits disagree on which candidates are members")
    shared = [name for name in before if name in after.scores]
    if not shared:
        raise InputError(f"compare: no recipe in common ({', '.join(before)}; {', '.join(after)})")
    if recipes is not None:
        shared = [check_choice(name, "recipes", shared) for name in recipes]
    left_out = find_left_out(before, after)
    comparable = [name for name in shared if name not in left_out]
    if not comparable or (recipes is not None and len(comparable) < len(shared)):
        described = describe_left_out({name: left_out[name] for name in shared if name in left_out})
        hint = f"; recipes that can be compared: {', '.join(comparable)}" if comparable else ""
        raise InputError(f"compare: the reference models of the two audits were trained differently: {described}{hint}")
    differences = []
    statistics = ["auc", *(f"tpr@fpr={level:g}" for level in before.fpr if level in after.fpr)]
    for name in comparable:
        before_outcome, after_outcome = before[name].on(before_order), after[name].on(after_order)
        if before_outcome.is_counted is not None:  # copies are no further observations
            before_outcome, after_outcome = (
                before_outcome.on(before_outcome.is_counted),
                after_outcome.on(before_outcome.is_counted),
            )
        differences += [
            Difference(
                name,
                statistic,
                evaluation.measure(before_outcome.scores, before_outcome.members, statistic, before_outcome.confidence),
                evaluation.measure(after_outcome.scores, after_outcome.members, statistic, after_outcome.confidence),
                evaluation.paired_difference(
                    after_outcome.scores, before_outcome.scores, before_outcome.members, statistic, confidence
                ),
            )
            for statistic in statistics
        ]
    return differences


def find_left_out(before: Audit, after: Audit) -> dict[str, str]:
    """Return recipe → which settings of its reference models differ: scores of both audits are not of one scale.

    Args:
        before: an audit.
        after: another.
    """
    left_out = {}
    for name in before:
        if name not in after.scores:
            continue
        before_settings, after_settings = (
            {"references": recipe.references, **(recipe.training or {})}
            for recipe in (before.about.recipes[name], after.about.recipes[name])
        )
        if names := _find_differences(before_settings, after_settings):
            further = [f"{len(names) - _MAX_DIFFERENCES:,} further"] if len(names) > _MAX_DIFFERENCES else []
            left_out[name] = formatting.join_words([*names[:_MAX_DIFFERENCES], *further])
    return left_out


_MAX_DIFFERENCES = 3  # settings that are named


def _find_differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names of what differs; of estimators, those of their parameters.

    Examples:
        >>> _find_differences({"estimator": "Tree(depth=3, seed=0)"}, {"estimator": "Tree(depth=None, seed=0)"})
        ['depth']
    """
    names: dict[str, None] = {}
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) == after.get(name):
            continue
        parts = [_split_description(settings.get(name, "")) for settings in (before, after)]
        (head, inner), (other_head, other_inner) = parts
        inner_names = _find_differences(inner, other_inner) if head == other_head and inner and other_inner else []
        # An element of a list has no name of its own, and is called by that of the list.
        names |= dict.fromkeys(name if each.isdecimal() else each for each in inner_names or [name])
    return list(names)


def _split_description(text: str) -> tuple[str, dict[str, str]]:
    """Split what describes an estimator, or a list, into its head and name or number → description of each part.

    Examples:
        >>> _split_description("Pipeline(steps=[['a, b', Tree(depth=3)]], verbose=False)")
        ('Pipeline', {'steps': "[['a, b', Tree(depth=3)]]", 'verbose': 'False'})
        >>> _split_description("0.5"), _split_description("<a function>")
        (('0.5', {}), ('<a function>', {}))
    """
    try:
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Call):
            arguments = {part.arg or "": ast.unparse(part.value) for part in tree.keywords}
            arguments |= {str(place): ast.unparse(part) for place, part in enumerate(tree.args)}
            return ast.unparse(tree.func), arguments
        if isinstance(tree, ast.List | ast.Tuple):
            return "[]", {str(place): ast.unparse(part) for place, part in enumerate(tree.elts)}
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # no expression, or a hostile one
        pass
    return text, {}


def describe_left_out(left_out: Mapping[str, str]) -> str:
    """List recipes that cannot be compared, each with the settings that differ; those of the same settings together.

    Examples:
        >>> describe_left_out({"lira": "max_depth", "rmia": "max_depth", "loss-out": "count"})
        'lira and rmia (max_depth), loss-out (count)'
    """
    recipes: dict[str, list[str]] = {}
    for recipe, settings in left_out.items():
        recipes.setdefault(settings, []).append(recipe)
    return ", ".join(f"{list_names(names)} ({settings})" for settings, names in recipes.items())


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
        if self.state == "kept" and self.unjudged:
            names: dict[str, list[str]] = {}
            for name in self.unjudged:
                names.setdefault(name.partition(" ")[0], []).append(name)
            parts = [
                f"judged within no {kind} ({list_names(of_kind)})"
                if kind in self.unjudged_by
                else f"not judged within {list_names(of_kind)}"
                for kind, of_kind in names.items()
            ]
            return f"{' and '.join(parts)}, where so few records could seldom show that the limit is kept"
        if self.state != "undecided":
            return ""
        if self.doubt:
            return self.doubt
        if self.metric == "epsilon":
            return "scores bound ε from below only: a limit on it can be shown broken, never shown kept"
        return f"the limit of {self.metric} lies within the interval; more records would narrow it"

    @property
    def answer(self) -> str:
        """The state as tables show it: what is kept over all records, and was judged within no class, is not just kept.

        Examples:
            >>> from divulge.types import Estimate
            >>> auc = Estimate(0.5, 0.45, 0.54, 0.95, "")
            >>> Ruling("loss", "all", "auc", 0.55, auc, unjudged=("class 0", "class 1"), unjudged_by=("class",)).answer
            'kept (no class)'
        """
        if self.state == "kept" and self.unjudged_by:
            return f"kept (no {' or '.join(self.unjudged_by)})"
        return "BROKEN" if self.state == "broken" else self.state

    def __bool__(self) -> bool:
        return self.state == "kept"

    def __str__(self) -> str:
        estimate = format_statistic(self.metric, self.estimate)
        return f"{self.state}: {self.metric} of {self.recipe} on {self.scope} is {estimate}, limit {self.limit:g}"


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

    def describe(self) -> list[str]:
        """Return each ruling in a line, those of one reason below it, so that it stands there once.

        Examples:
            >>> Rulings([Ruling("loss", "all", "auc", 0.6, None, doubt="too few records")]).describe()
            ['too few records', 'undecided: auc of loss on all is –, limit 0.6']
        """
        lines: dict[str, list[str]] = {"": []}  # those without a reason come first, as none belongs to them
        for ruling in self:
            lines.setdefault(ruling.reason, [ruling.reason]).append(str(ruling))
        return [line for of_reason in lines.values() for line in of_reason]

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
        that may be exceeded beneath copies of members among the non-members.

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
    void, stored = _void_reason(audit), reason_of(audit, "proof")
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
            )
        ruling = Ruling(outcome.recipe, scope.name, limit.metric, limit.limit, measured, doubt, scope.adjusted)
        return replace(ruling, stored=stored, by=scope.by)

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
        first = next((ruling for ruling in deciding if ruling.unjudged_by), deciding[0])
        reasons = dict.fromkeys(ruling.reason for ruling in (first, *deciding) if ruling.reason)
        rows.append((limit, first.answer, "; ".join((str(first).partition(": ")[2], *reasons))))
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


_MISSED = 0.2  # probability with which a limit that holds is not shown to be kept within some class
_CHANCE: Mapping[str, float] = {"auc": 0.5, "advantage": 0.0, "exposed": 0.0}  # that of a TPR is its FPR


def _void_reason(audit: Audit) -> str:
    """Explain why no number of the audit can be blamed on the model; empty if the split is not confounded.

    Of several reasons that of the covariates, which the user named, says most; it is the last.
    """
    if incomparable := audit.about.with_effect("not comparable"):
        return incomparable[-1].reason
    verdict = decide_verdict(audit)
    return verdict.plain.rstrip(".") if verdict.answer == "split is confounded" else ""


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
        return ""
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
    return ""


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


HEADINGS_BY_TONE: dict[Tone, str] = {
    "clear": "Less is given away",
    "leak": "More is given away",
    "doubt": "Less by some measures, more by others",
    "undecided": "No difference could be shown",
}


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Audits of the same candidates, each compared with the first.

    Args:
        runs: name → audit; the first is the one that the others are compared with.
        changes: name of every further run → its paired differences; the intervals of all hold together with 95 %
            confidence.
        left_out: name of every further run → the recipes that cannot be compared, and which settings of their reference
            models differ.
    """

    runs: Mapping[str, Audit]
    changes: Mapping[str, tuple[Difference, ...]]
    left_out: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def from_runs(cls, runs: Mapping[str, Audit], recipes: Sequence[str] | None = None) -> Comparison:
        """Compare every run with the first one.

        Raises:
            divulge.InputError: fewer than two runs, or as `compare`.
        """
        baseline, *other_runs = runs
        if not other_runs:
            raise InputError(f"runs: at least 2 are needed, got {len(runs)}")
        n_changes = sum(len(compare(runs[baseline], runs[name], recipes)) for name in other_runs)
        confidence = 1 - (1 - CONFIDENCE) / n_changes
        return cls(
            dict(runs),
            {name: tuple(compare(runs[baseline], runs[name], recipes, confidence=confidence)) for name in other_runs},
            {} if recipes is not None else {name: find_left_out(runs[baseline], runs[name]) for name in other_runs},
        )

    def judge(self, name: str) -> tuple[str, str, Tone]:
        """Return heading, sentence and tone of what became of a run, and which recipes say nothing of that."""
        before = next(iter(self.runs.values()))
        heading, sentence, tone = judge_ending(self.changes[name], self.runs[name], before)
        if not self.left_out.get(name):
            return heading, sentence, tone
        less = HEADINGS_BY_TONE["clear"]
        heading = heading.replace(less, f"{less} by the attacks that can be compared", 1)
        left_out = describe_left_out(self.left_out[name])
        return heading, f"{sentence} Left out, as reference models were trained differently: {left_out}.", tone

    def to_frame(self) -> pl.DataFrame:
        """Return a row for every run, recipe and statistic: before, after, and the change with its interval."""
        rows = [
            (name, d.recipe, d.statistic, d.before.value, d.after.value, d.change.value, d.change.low, d.change.high)
            for name, changes in self.changes.items()
            for d in changes
        ]
        columns = ["run", "recipe", "statistic", "before", "after", "change", "low", "high"]
        return pl.DataFrame(rows, schema=columns, orient="row")

    def report(self, path: str | Path) -> Path:
        """Write the comparison as an HTML page to ``path`` and return it."""
        html.write(comparison_page(self), Path(path))
        return Path(path)

    def _repr_html_(self) -> str:
        page = comparison_page(self)
        columns, rows = overview_table(self)
        return notebook.render(page.heading, page.verdict, page.tone, details=page.details, columns=columns, rows=rows)

    def __repr__(self) -> str:
        baseline, *other_runs = self.runs
        n_changes = len(next(iter(self.changes.values())))
        return f"Comparison({', '.join(other_runs)} with {baseline}; {n_changes} changes each)"


def compare_runs(*runs: Audit | str | Path, recipes: Sequence[str] | None = None) -> Comparison:
    """Compare audits of the same candidates: what a defence changed, and what it cost.

    Args:
        *runs: results or run directories, at least two; all are compared with the first.
        recipes: which to compare; None for all that the audits have in common, except those whose reference models
            were trained in another way (``left_out`` names them).

    Returns:
        A `Comparison`; ``report(path)`` writes it as a page, ``to_frame()`` gives the differences as a table.

    Raises:
        divulge.InputError: fewer than two runs, other candidates, no recipe in common, a recipe that is named (or all)
            whose reference models were trained in another way, no finished audit in a directory.

    Examples:
        >>> compare_runs("runs/plain", "runs/private")  # doctest: +SKIP
        Comparison(private with plain; 4 changes each)
    """
    names = [run.name if isinstance(run, Path) else Path(run).name if isinstance(run, str) else "" for run in runs]
    runs_by_name = {
        name if name and names.count(name) == 1 else f"run {number}": open_audit(run)
        for number, (name, run) in enumerate(zip(names, runs, strict=True), start=1)
    }
    return Comparison.from_runs(runs_by_name, recipes)


def open_audit(run: Audit | str | Path) -> Audit:
    """Return the audit, read from its directory where that is what is given."""
    if isinstance(run, str | Path):
        return results_of_audits.load(check_path(run, "run"))
    return check_instance(run, "run", results_of_audits.Audit, "an audit's result or its run directory")


def summarise_changes(changes: Sequence[Difference], doubt: str = "", stored: str = "") -> tuple[str, Tone]:
    """Summarise the changes in a sentence, with its tone.

    Args:
        changes: differences whose intervals hold together.
        doubt: why numbers of the second run may be too low, or be of another model
            (`divulge.auditing.checks.target_fit`); then a fall is no evidence for a defence.
        stored: what is said of training records that stand in the second model; then it gives away no less.
    """
    fallen = [difference for difference in changes if difference.direction < 0]
    risen = [difference for difference in changes if difference.direction > 0]
    counts = f"Of {len(changes)} comparisons {len(fallen)} show less, {len(risen)} more, {{}} cannot be told."
    counts = counts.format(len(changes) - len(fallen) - len(risen))
    if stored:
        return f"The second run gives its records away whatever the attacks measure: {stored}. {counts}", "leak"
    if not fallen and not risen:
        return f"No difference could be shown between the runs. {counts}", "undecided"
    if fallen and risen:
        return (
            "The second run gives away less by some measures and more by others: "
            f"{_describe_change(fallen)}, but {_describe_change(risen)}. {counts}",
            "doubt",
        )
    if fallen and doubt:
        return (
            f"What a defence changed cannot be told: of the second run, {doubt}. "
            f"{formatting.capitalize(_describe_change(fallen))}. {counts}",
            "undecided",
        )
    moved, direction = (fallen, "less") if fallen else (risen, "more")
    return f"The second run gives away {direction}: {_describe_change(moved)}. {counts}", "clear" if fallen else "leak"


def _foremost_change(changes: Sequence[Difference]) -> Difference:
    """Return the change of the strongest attack, its AUC first; the largest change would flatter a defence."""
    return max(
        changes,
        key=lambda difference: (
            difference.statistic == "auc",
            max(
                max(value, 1 - value if difference.statistic == "auc" else 0.0)
                for value in (difference.before.value, difference.after.value)
            ),
        ),
    )


def _describe_change(changes: Sequence[Difference]) -> str:
    foremost = _foremost_change(changes)
    verb = "fell" if foremost.change.high < 0 else "rose"
    before, after = (
        format_statistic(foremost.statistic, estimate).partition(" [")[0]
        for estimate in (foremost.before, foremost.after)
    )
    turned = (
        ", where the score reversed finds members" if foremost.statistic == "auc" and foremost.after.high < 0.5 else ""
    )
    return (
        f"{_statistic_name(foremost.statistic)} of {foremost.recipe} {verb} from {before} to {after}{turned} (change "
        f"{_format_change(foremost)})"
    )


def change_table(changes: Sequence[Difference]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the table of changes, in the units of the reports."""
    columns = ["recipe", "statistic", "before", "after", "change"]
    return columns, [
        [
            d.recipe,
            _statistic_name(d.statistic),
            format_statistic(d.statistic, d.before),
            format_statistic(d.statistic, d.after),
            _format_change(d),
        ]
        for d in changes
    ]


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
        return f"{estimate.value:,.0f} [{estimate.low:,.0f}, {estimate.high:,.0f}]"
    return formatting.format_percent_estimate(estimate) if name.startswith("tpr@") else format_estimate(estimate)


def _format_change(difference: Difference) -> str:
    if not difference.statistic.startswith("tpr@"):
        return format_estimate(difference.change, "+")
    value, low, high = (100 * end for end in (difference.change.value, difference.change.low, difference.change.high))
    return f"{value:+z.1f} [{low:+z.1f}, {high:+z.1f}] points"


def overview_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return a row for each run: verdict, AUC of its strongest attack, records that stand in it, how good it is."""
    utilities = {name: _utility(audit) for name, audit in comparison.runs.items()}
    measures = list(dict.fromkeys(measure for utility in utilities.values() for measure in utility))
    stored_counts = {name: count_stored_records(audit) for name, audit in comparison.runs.items()}
    stored = ["stored records"] if any(stored_counts.values()) else []
    rows = []
    for name, (strongest, area) in _strongest_areas(comparison).items():
        worth = [utilities[name].get(measure, "–") for measure in measures]
        count = [f"{stored_counts[name]:,}" for _ in stored]
        rows.append([name, comparison.runs[name].verdict.answer, strongest, format_estimate(area), *count, *worth])
    return ["run", "verdict", "strongest attack", "AUC", *stored, *measures], rows


def count_stored_records(audit: Audit) -> int:
    """Return how many members were proven to stand in the model itself."""
    stored = audit.about.measured(StoredRecords)
    return stored.found if stored is not None else 0


def _utility(audit: Audit) -> dict[str, str]:
    """Return accuracy, R² and mean absolute error, or perplexity of a run's target; empty where they are not known."""
    about, classifier = audit.about, audit.about.measured(ClassifierFit)
    if classifier is not None and classifier.accuracy is not None:
        shares = ("members", classifier.accuracy.members), ("non-members", classifier.accuracy.nonmembers)
        return {f"accuracy on {name}": formatting.format_percent_estimate(share) for name, share in shares}
    regression, tokens = about.measured(RegressionFit), about.measured(TokenFit)
    return formatting.format_regression_fit(regression) | formatting.format_token_fit(tokens)


def _utility_on_others(audit: Audit) -> tuple[str, Estimate] | None:
    """Return what a run's target is worth on the non-members, and what measures it; None where it is not known."""
    about = audit.about
    if (classifier := about.measured(ClassifierFit)) is not None and classifier.accuracy is not None:
        return "accuracy", classifier.accuracy.nonmembers
    if (regression := about.measured(RegressionFit)) is not None:
        return "mean absolute error", regression.error_nonmembers
    if (tokens := about.measured(TokenFit)) is not None and tokens.perplexity_nonmembers is not None:
        return f"perplexity of a {tokens.unit}", tokens.perplexity_nonmembers
    return None


def _trade_off_chart(comparison: Comparison) -> list[Chart]:
    """Draw what each run gives away over what its model is worth; empty where that is not known of every run."""
    utilities = {name: _utility_on_others(audit) for name, audit in comparison.runs.items()}
    known = {name: utility for name, utility in utilities.items() if utility is not None}
    measures = {measure for measure, _ in known.values()}
    if len(known) < len(utilities) or len(measures) != 1:
        return []
    (measure,) = measures
    areas = _strongest_areas(comparison)
    spec = charts.trade_off(
        {name: (known[name][1], area) for name, (_, area) in areas.items()},
        x=f"{measure} on non-members",
        y="AUC of the strongest attack",
        reference=0.5,
        percent=measure == "accuracy",
    )
    better = "right" if measure == "accuracy" else "left"
    note = f"Lower is more private, further to the {better} is more useful; the dashed line is guessing."
    return [Chart(spec, title="Privacy against utility", note=note)]


def _strongest_areas(comparison: Comparison) -> dict[str, tuple[str, Estimate]]:
    """Return the attack with the largest AUC in each run, and its AUC: among those that are compared, or left out.

    Whose reference models were trained as each run's own says as much of that run as any other.
    """
    compared = dict.fromkeys(d.recipe for changes in comparison.changes.values() for d in changes)
    shared = [*compared, *(recipe for left_out in comparison.left_out.values() for recipe in left_out)]
    areas = {}
    for name, audit in comparison.runs.items():
        strongest = max((recipe for recipe in shared if recipe in audit), key=lambda recipe: audit[recipe].auc.value)
        areas[name] = strongest, audit[strongest].auc
    return areas


def judge_ending(changes: Sequence[Difference], after: Audit, before: Audit | None = None) -> tuple[str, str, Tone]:
    """Return heading, sentence and tone of what became of one run; a leak that is left is never good news.

    Args:
        changes: its differences from the run that it is compared with.
        after: the run itself.
        before: that run, so that verdicts which differ are not taken for a change; None leaves that out.
    """
    implausible, stored = reason_of(after, "implausible"), reason_of(after, "proof")
    doubt = f"{implausible}. So it may be another model" if implausible else ""
    # What is measured against non-members that the model was trained on, or that hide a leak, may be too low.
    lowered = [f for f in after.about.findings if f.effect == "not cleared" or f.trained_on == "nonmembers"]
    if lowered and not doubt:
        doubt = lowered[0].sentence[0].lower() + lowered[0].sentence[1:].rstrip(".")
    sentence, tone = summarise_changes(changes, doubt, stored)
    has_fallen = any(difference.direction < 0 for difference in changes)
    heading = _NOTHING_SAID if tone == "undecided" and has_fallen else HEADINGS_BY_TONE[tone]
    answer = after.verdict.answer
    if before is not None and heading == HEADINGS_BY_TONE["undecided"]:
        sentence = f"{sentence} {_join_verdicts(before.verdict.answer, answer)}".rstrip()
    if stored:
        return "Training records stand in the second model", sentence, tone
    if answer == "leak found":
        ending = "a leak is found all the same" if tone == "clear" else "a leak is found"
        # A leak is something said of the second model: what cannot be told is the change alone.
        beginning = "What changed cannot be told" if heading == _NOTHING_SAID else heading
        return f"{beginning}, and {ending}", f"{sentence} {after.verdict.plain}", "leak"
    if answer == "split is confounded":
        return _NOTHING_SAID, f"{sentence} {after.verdict.plain}", "void"
    return heading, sentence, tone


def _join_verdicts(before: Answer, after: Answer) -> str:
    """Say that verdicts which differ show no change where no difference could be shown; empty where they agree."""
    if before == after:
        return ""
    change = "deterioration" if after == "leak found" else "improvement" if before == "leak found" else "change"
    return (
        f"The verdicts differ (before: {before}; after: {after}), but that is no {change} that was shown: what is just "
        "enough for an answer in one run may just fall short in the other."
    )


_NOTHING_SAID = "Nothing can be said of the second model"


def comparison_page(comparison: Comparison) -> Page:
    """Build the page of a comparison: the finding on every run, charts of the changes, and all changes in figures.

    Where there are several further runs the page speaks first of the one that gives away least, by its strongest
    attack.
    """
    before = next(iter(comparison.runs.values()))
    endings = {name: comparison.judge(name) for name in comparison.changes}
    largest_distance = {
        name: max(
            abs(comparison.runs[name][recipe].auc.value - 0.5)
            for recipe in (*(change.recipe for change in changes), *comparison.left_out.get(name, ()))
        )
        for name, changes in comparison.changes.items()
    }
    best = min(
        comparison.changes, key=lambda name: (endings[name][0].startswith(_NOTHING_SAID), largest_distance[name])
    )
    heading, sentence, tone = endings[best]
    several = len(endings) > 1
    worth = "What a model is worth on records that it never saw is told by the non-members."
    note = (
        "The same records in all runs; changes are paired record by record. The intervals of all changes hold together "
        f"with {formatting.format_percent(CONFIDENCE)} confidence. Before and after are the numbers of the runs' own "
        "reports."
    )
    limits = (
        "A smaller number under these attacks is no proof against others; an attack that is made for the defence may "
        "find more. What the defence costs the model is in how well it predicts records that it never saw."
    )
    other_verdicts = [f"{name}: {text}" for name, (_, text, _) in endings.items() if name != best]
    names = ", ".join(dict.fromkeys(difference.recipe for difference in comparison.changes[best]))
    return Page(
        title="What a defence changed",
        verdict=f"{best}: {sentence}" if several else sentence,
        tone=tone,
        heading=heading,
        pictures=_change_pictures(comparison.changes[best], tone),
        details=(*other_verdicts, f"Before: {before.verdict.plain}", f"After: {comparison.runs[best].verdict.plain}"),
        sections=[
            Section(
                "Runs",
                [Table(*overview_table(comparison), sortable=False, note=worth), *_trade_off_chart(comparison)],
            ),
            *(
                Section(
                    f"Changes: {name}" if several else "Changes",
                    [*_change_charts(changes), Table(*change_table(changes), note=note)],
                )
                for name, changes in comparison.changes.items()
            ),
            Section("What this does not say", [Paragraph(limits)]),
            regulator_section(
                RegulatorAnswers(
                    means=f"membership inference by {names}, on both models.",
                    queries=f"On membership alone: {sentence}",
                    unit="One record, as it was given to the audits.",
                )
            ),
        ],
    )


def _change_pictures(changes: Sequence[Difference], tone: Tone) -> tuple[DotGrid, ...]:
    """Draw the AUC named in the verdict, before and after, as correctly ordered pairs."""
    moved = [difference for difference in changes if difference.direction]
    if not moved or tone not in ("clear", "leak") or _foremost_change(moved).statistic != "auc":
        return ()
    difference = _foremost_change(moved)
    counts = {
        name: round(100 * (1 - auc.value if auc.high < 0.5 else auc.value))
        for name, auc in (("Before", difference.before), ("After", difference.after))
    }
    return tuple(
        DotGrid(f"{run}: about {count} of 100 pairs are told right (by guessing: 50)", count, 100)
        for run, count in counts.items()
    )


def _change_charts(changes: Sequence[Difference]) -> list[Chart]:
    change_charts = []
    for statistic in dict.fromkeys(difference.statistic for difference in changes):
        estimates = {
            difference.recipe: difference.change for difference in changes if difference.statistic == statistic
        }
        spec = charts.intervals(
            estimates,
            quantity=f"change of {_statistic_name(statistic)}",
            reference=0.0,
            unit="points" if statistic.startswith("tpr@") else "",
        )
        note = "Left of the dashed line: less than before."
        change_charts.append(Chart(spec, title=f"Change of {_statistic_name(statistic)}", note=note))
    return change_charts


def _statistic_name(statistic: str) -> str:
    level = statistic.removeprefix("tpr@fpr=")
    return "AUC" if statistic == "auc" else f"TPR at FPR {formatting.format_percent(float(level))}"
