"""Before and after a defence, and whether a policy is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from divulge import evaluation
from divulge.auditing import comparability, plausibility
from divulge.auditing.verdict import CONFIDENCE, decide_verdict, find_hidden_leaks, scopes, unadjusted_scopes
from divulge.errors import InputError
from divulge.evaluation.comparison import STATISTICS, asked_fpr
from divulge.report import Chart, Dots, Page, Paragraph, Section, Table, charts, in_words, regulators
from divulge.report.markdown import shown
from divulge.report.regulators import Answers
from divulge.results.recorded import UNEQUAL
from divulge.validation import check_choice, check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.findings import Outcome
    from divulge.auditing.result import Audit
    from divulge.auditing.verdict import Scope
    from divulge.types import Estimate, Tone

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
        void = comparability.describe_confounding(adjustment).rstrip(".")
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
            return comparability.EXPLAINED_BY_LENGTH if owed else ""
        masked = texts.length <= UNEQUAL and recipe in texts.seen_at_equal_length(1 - confidence)
        return comparability.describe_contrary_evidence(audit, (), confidence) if masked else ""
    if measured.high <= limit.limit and raw is not None and _is_above(raw, limit):
        return comparability.describe_contrary_evidence(audit, [recipe], confidence)
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
        apart = comparability.describe_covariates(audit.adjustment)
        return f"hardly any members and non-members{scope.where} are alike in {apart}"
    if not metric.startswith("tpr@fpr="):
        return ""
    level = asked_fpr(metric)
    least = evaluation.min_nonmembers(level)
    if scope.nonmembers >= least:
        return ""
    return f"{metric} needs {least:,} non-members{scope.where}, and there are {scope.nonmembers:,}"


_HEADINGS_BY_TONE: dict[Tone, str] = {
    "clear": "Less is given away",
    "leak": "More is given away",
    "doubt": "Less by some measures, more by others",
    "undecided": "No difference could be shown",
}


def compare_simultaneously(before: Audit, after: Audit) -> list[Difference]:
    """Paired differences whose intervals hold together with 95 % confidence (Bonferroni); errors as `compare`."""
    single = compare(before, after)
    return compare(before, after, confidence=1 - (1 - CONFIDENCE) / len(single))


def summarise_changes(changes: Sequence[Difference], doubt: str = "") -> tuple[str, Tone]:
    """The answer in a sentence, and its tone.

    Args:
        changes: differences whose intervals hold together.
        doubt: why the second target may be another model, see `divulge.auditing.plausibility.doubt`; then nothing
            that fell is to the credit of a defence.
    """
    fallen = [one for one in changes if one.change.high < 0]
    risen = [one for one in changes if one.change.low > 0]
    counted = f"Of {len(changes)} comparisons {len(fallen)} fell, {len(risen)} rose, {{}} cannot be told."
    counted = counted.format(len(changes) - len(fallen) - len(risen))
    if not fallen and not risen:
        return f"No difference could be shown between the runs. {counted}", "undecided"
    if fallen and risen:
        return (
            "The second run gives away less by some measures and more by others: "
            f"{_describe_change(fallen)}, but {_describe_change(risen)}. {counted}",
            "doubt",
        )
    if fallen and doubt:
        return (
            f"What a defence changed cannot be told: of the second run, {doubt}. So it may be another model. "
            f"{in_words.capital(_describe_change(fallen))}. {counted}",
            "undecided",
        )
    which, way = (fallen, "less") if fallen else (risen, "more")
    return f"The second run gives away {way}: {_describe_change(which)}. {counted}", "clear" if fallen else "leak"


def _foremost_change(changes: Sequence[Difference]) -> Difference:
    """The change of the strongest attack, by its AUC where that changed: the largest change would flatter a defence."""
    return max(changes, key=lambda one: (one.statistic == "auc", max(one.before.value, one.after.value)))


def _describe_change(changes: Sequence[Difference]) -> str:
    one = _foremost_change(changes)
    verb = "fell" if one.change.high < 0 else "rose"
    return (
        f"{_statistic_name(one.statistic)} of {one.recipe} {verb} from {one.before.value:.3f} to {one.after.value:.3f} "
        f"(change {shown(one.change, '+')})"
    )


def change_table(changes: Sequence[Difference]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the table of changes."""
    columns = ["recipe", "statistic", "before", "after", "change"]
    return columns, [
        [d.recipe, _statistic_name(d.statistic), shown(d.before), shown(d.after), shown(d.change, "+")] for d in changes
    ]


def comparison_page(before: Audit, after: Audit, changes: Sequence[Difference]) -> Page:
    """The finding, a chart of the changes for each statistic, and all of them in figures."""
    said, tone = summarise_changes(changes, plausibility.describe_doubt(after))
    sure = in_words.per_cent(CONFIDENCE)
    unlike = tone == "undecided" and any(one.change.high < 0 for one in changes)
    note = (
        "The same records in both runs; changes are paired record by record. The intervals of all changes hold "
        f"together with {sure} confidence. Before and after have {sure} intervals of their own."
    )
    return Page(
        title="What a defence changed",
        verdict=said,
        tone=tone,
        heading="Nothing can be said of the second model" if unlike else _HEADINGS_BY_TONE[tone],
        pictures=_change_pictures(changes, tone),
        more=(f"Before: {before.verdict.plain}", f"After: {after.verdict.plain}"),
        sections=[
            Section("Changes", [*_change_charts(changes), Table(*change_table(changes), note=note)]),
            Section("What this does not say", [Paragraph(_LIMITS)]),
            regulators.section(_regulator_answers(said, changes)),
        ],
    )


def _change_pictures(changes: Sequence[Difference], tone: Tone) -> tuple[Dots, ...]:
    """The AUC of which the verdict speaks, before and after, as pairs told right."""
    moved = [one for one in changes if one.change.high < 0 or one.change.low > 0]
    if tone not in ("clear", "leak") or _foremost_change(moved).statistic != "auc":
        return ()
    one = _foremost_change(moved)
    counts = {"Before": round(100 * one.before.value), "After": round(100 * one.after.value)}
    return tuple(
        Dots(f"{when}: about {count} of 100 pairs are told right (by guessing: 50)", count, 100)
        for when, count in counts.items()
    )


def _regulator_answers(said: str, changes: Sequence[Difference]) -> Answers:
    names = ", ".join(dict.fromkeys(one.recipe for one in changes))
    return Answers(
        means=f"membership inference by {names}, on both models.",
        queries=f"On membership alone: {said}",
        unit="One record, as it was given to the audits.",
    )


_LIMITS = (
    "A smaller number under these attacks is no proof against others; an attack that is made for the defence may find "
    "more. What the defence costs the model is in its accuracy, which both reports show where it is known."
)


def _change_charts(changes: Sequence[Difference]) -> list[Chart]:
    made = []
    for statistic in dict.fromkeys(one.statistic for one in changes):
        estimates = {one.recipe: one.change for one in changes if one.statistic == statistic}
        spec = charts.intervals(estimates, quantity=f"change of {_statistic_name(statistic)}", reference=0.0)
        note = "Left of the dashed line: less than before."
        made.append(Chart(spec, title=f"Change of {_statistic_name(statistic)}", note=note))
    return made


def _statistic_name(statistic: str) -> str:
    level = statistic.removeprefix("tpr@fpr=")
    return "AUC" if statistic == "auc" else f"TPR at FPR {in_words.per_cent(float(level))}"
