"""Comparison of audits of the same candidates (before and after defences)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from divulge import evaluation
from divulge.auditing import result as results_of_audits
from divulge.auditing.findings import CONFIDENCE
from divulge.auditing.gates import format_statistic, reason_of
from divulge.auditing.scopes import group_scopes, split_confidence
from divulge.auditing.wording import list_names
from divulge.errors import InputError
from divulge.report import Chart, DotGrid, Page, Paragraph, Section, Table, charts, formatting, html, notebook
from divulge.report.formatting import format_estimate
from divulge.report.sections import RegulatorAnswers, regulator_section
from divulge.results import ClassifierFit, RegressionFit, StoredRecords, TokenFit
from divulge.validation import (
    check_choice,
    check_instance,
    check_path,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from divulge.auditing.findings import Outcome
    from divulge.auditing.result import Audit
    from divulge.results import Answer
    from divulge.types import Estimate, Tone


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
    first_members, second_members = (audit.members[np.argsort(audit.ids, kind="stable")] for audit in (before, after))
    if not np.array_equal(first_members, second_members):
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
    statistics = ["auc", *(f"tpr@fpr={level:g}" for level in before.fpr if level in after.fpr)]
    return [
        _measure_change(*_pair_outcomes(before, after, name), statistic, confidence)
        for name in comparable
        for statistic in statistics
    ]


def compare_classes(
    before: Audit, after: Audit, recipes: Sequence[str], confidence: float = CONFIDENCE
) -> dict[str, tuple[Difference, ...]]:
    """Return class → paired difference of the AUC of every recipe within it; of classes that both audits judged.

    Args:
        before: an audit.
        after: one of the same candidates, which `compare` takes.
        recipes: which to compare.
        confidence: with which the intervals of all classes and recipes hold together.
    """
    labels, others = (outcome.labels for outcome in _pair_outcomes(before, after, recipes[0]))
    if labels is None or others is None or before.class_names != after.class_names:
        return {}
    if not np.array_equal(labels, others):
        return {}
    judged = [{scope.name for scope in group_scopes(audit).judged if scope.by == "class"} for audit in (before, after)]
    rows = {
        name: labels == label
        for label in np.unique(labels).tolist()
        if (name := f"class {formatting.class_name(label, before.class_names)}") in set.intersection(*judged)
    }
    each = 1 - (1 - confidence) / max(1, len(rows) * len(recipes))
    confidences = [split_confidence(audit).groups for audit in (before, after)]
    pairs = [
        [
            replace(outcome, confidence=own)
            for outcome, own in zip(_pair_outcomes(before, after, name), confidences, strict=True)
        ]
        for name in recipes
    ]
    return {
        name: tuple(_measure_change(*(outcome.on(mask) for outcome in pair), "auc", each) for pair in pairs)
        for name, mask in rows.items()
    }


def _pair_outcomes(before: Audit, after: Audit, recipe: str) -> tuple[Outcome, Outcome]:
    """Return what both audits show by one recipe, in one order of the candidates; copies are no observations."""
    first, second = (audit[recipe].on(np.argsort(audit.ids, kind="stable")) for audit in (before, after))
    counted = np.ones(len(first.scores), dtype=bool) if first.is_counted is None else first.is_counted
    return first.on(counted), second.on(counted)


def _measure_change(before: Outcome, after: Outcome, statistic: str, confidence: float) -> Difference:
    return Difference(
        before.recipe,
        statistic,
        *(evaluation.measure(each.scores, each.members, statistic, each.confidence) for each in (before, after)),
        evaluation.paired_difference(after.scores, before.scores, before.members, statistic, confidence),
    )


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
        class_changes: name of every further run → class → paired differences of the AUC within it, of classes with
            enough records; the intervals of all these hold together with 95 % confidence.
    """

    runs: Mapping[str, Audit]
    changes: Mapping[str, tuple[Difference, ...]]
    left_out: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    class_changes: Mapping[str, Mapping[str, tuple[Difference, ...]]] = field(default_factory=dict)

    @classmethod
    def from_runs(cls, runs: Mapping[str, Audit], recipes: Sequence[str] | None = None) -> Comparison:
        """Compare every run with the first one.

        Raises:
            divulge.InputError: fewer than two runs, or as `compare`.
        """
        baseline, *other_runs = runs
        if not other_runs:
            raise InputError(f"runs: at least 2 are needed, got {len(runs)}")
        before, n_changes = (
            runs[baseline],
            sum(len(compare(runs[baseline], runs[name], recipes)) for name in other_runs),
        )
        each, of_classes = (1 - (1 - CONFIDENCE) / count for count in (n_changes, len(other_runs)))
        changes = {name: tuple(compare(before, runs[name], recipes, confidence=each)) for name in other_runs}
        compared = {name: list(dict.fromkeys(d.recipe for d in changes[name])) for name in other_runs}
        return cls(
            dict(runs),
            changes,
            {} if recipes is not None else {name: find_left_out(before, runs[name]) for name in other_runs},
            {name: compare_classes(before, runs[name], compared[name], of_classes) for name in other_runs},
        )

    def describe_classes(self, name: str) -> str:
        """Say in which classes a run differs, and of the class that changed most by how much; empty without classes."""
        before, by_class = next(iter(self.runs.values())), self.class_changes.get(name, {})
        labels = [] if before.labels is None else np.unique(before.labels).tolist()
        if len(labels) < 2:
            return ""
        names = [f"class {formatting.class_name(label, before.class_names)}" for label in labels]
        if not by_class:
            return "No class has enough records to be compared by itself."
        every = [(class_name, change) for class_name, changes in by_class.items() for change in changes]
        differing = {class_name for class_name, change in every if change.direction}
        largest, change = max(every, key=lambda pair: (abs(pair[1].direction), abs(pair[1].change.value)))
        described = (
            f"Class by class, a difference shows in {len(differing) or 'none'} of {len(by_class):,}; the largest is "
            f"within {largest}: the AUC of {change.recipe} was {change.before.value:.3f} and is "
            f"{change.after.value:.3f} (change {_format_change(change)})."
        )
        others = [each for each in names if each not in by_class]
        return f"{described} Too few records to compare: {list_names(others)}." if others else described

    def judge(self, name: str) -> tuple[str, str, Tone]:
        """Return heading, sentence and tone of what became of a run, and which recipes say nothing of that."""
        before = next(iter(self.runs.values()))
        heading, sentence, tone = judge_ending(self.changes[name], self.runs[name], before)
        risen = [
            class_name
            for class_name, changes in self.class_changes.get(name, {}).items()
            if any(change.direction > 0 for change in changes)
        ]
        less = HEADINGS_BY_TONE["clear"]
        if risen and heading.startswith(less):
            heading = heading.replace(less, f"{less} over all records, more in some classes", 1)
            sentence = f"{sentence} More is given away within {list_names(risen)}."
            tone = "doubt" if tone == "clear" else tone
        if not self.left_out.get(name):
            return heading, sentence, tone
        heading = heading.replace(less, f"{less} by the attacks that can be compared", 1)
        left_out = describe_left_out(self.left_out[name])
        return heading, f"{sentence} Left out, as reference models were trained differently: {left_out}.", tone

    def to_frame(self) -> pl.DataFrame:
        """Return a row for every run, recipe and statistic: before, after, and the change with its interval.

        Those of all candidates come first, then those of classes.
        """
        rows = [
            (
                name,
                d.recipe,
                candidates,
                d.statistic,
                d.before.value,
                d.after.value,
                d.change.value,
                d.change.low,
                d.change.high,
            )
            for name, candidates, d in self.iterate_changes()
        ]
        columns = ["run", "recipe", "candidates", "statistic", "before", "after", "change", "low", "high"]
        return pl.DataFrame(rows, schema=columns, orient="row")

    def iterate_changes(self) -> Iterator[tuple[str, str, Difference]]:
        """Yield run, "all" or a class, and each change."""
        for name, changes in self.changes.items():
            yield from ((name, "all", change) for change in changes)
        for name, by_class in self.class_changes.items():
            yield from ((name, of, change) for of, changes in by_class.items() for change in changes)

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


def summarise_changes(
    changes: Sequence[Difference], doubt: str = "", stored: str = "", baseline: str = ""
) -> tuple[str, Tone]:
    """Summarise the changes in a sentence, with its tone.

    Args:
        changes: differences whose intervals hold together.
        doubt: why numbers of the second run may be too low, or be of another model
            (`divulge.auditing.checks.target_fit`); then a fall is no evidence for a defence.
        stored: what is said of training records that stand in the second model; then it gives away no less.
        baseline: why numbers of the first run may say nothing of its model (`describe_doubt`); then no change is one
            from that model to the second.
    """
    fallen = [difference for difference in changes if difference.direction < 0]
    risen = [difference for difference in changes if difference.direction > 0]
    counts = f"Of {len(changes)} comparisons {len(fallen)} show less, {len(risen)} more, {{}} cannot be told."
    counts = counts.format(len(changes) - len(fallen) - len(risen))
    if stored:
        return f"The second run gives its records away whatever the attacks measure: {stored}. {counts}", "leak"
    if baseline:
        return f"Nothing can be said of the change: of the first run, {baseline}. {counts}", "undecided"
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
            f"What a defence changed cannot be told: of the second run, {doubt}. That its numbers are lower is no "
            "evidence for a defence.",
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


def class_table(by_class: Mapping[str, Sequence[Difference]]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the table of changes within classes."""
    columns, _ = change_table(())
    rows = [[name, *row] for name, changes in by_class.items() for row in change_table(changes)[1]]
    return ["candidates", *columns], rows


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
    stored, doubt = reason_of(after, "proof"), _describe_other_model(after)
    baseline = "" if before is None else describe_doubt(before)
    # What is measured against non-members that the model was trained on, or that hide a leak, may be too low.
    lowered = [f for f in after.about.findings if f.effect == "not cleared" or f.trained_on == "nonmembers"]
    if lowered and not doubt:
        doubt = lowered[0].sentence[0].lower() + lowered[0].sentence[1:].rstrip(".")
    sentence, tone = summarise_changes(changes, doubt, stored, baseline)
    has_fallen = any(difference.direction < 0 for difference in changes)
    heading = _NOTHING_SAID if tone == "undecided" and has_fallen else HEADINGS_BY_TONE[tone]
    heading = CHANGE_UNKNOWN if baseline else heading
    answer = after.verdict.answer
    if before is not None and heading == HEADINGS_BY_TONE["undecided"]:
        sentence = f"{sentence} {_join_verdicts(before.verdict.answer, answer)}".rstrip()
    if stored:
        return "Training records stand in the second model", sentence, tone
    if answer == "leak found":
        ending = "a leak is found all the same" if tone == "clear" else "a leak is found"
        # A leak is something said of the second model: what cannot be told is the change alone.
        beginning = CHANGE_UNKNOWN if heading == _NOTHING_SAID else heading
        return f"{beginning}, and {ending}", f"{sentence} {after.verdict.plain}", "leak"
    if answer == "split is confounded":
        return _NOTHING_SAID, f"{sentence} {after.verdict.plain}", "void"
    return heading, sentence, tone


def describe_doubt(audit: Audit) -> str:
    """Say why numbers of a run say nothing of its model, from which no change is measured; empty where they do."""
    verdict = audit.verdict
    if verdict.answer == "split is confounded":
        return f"{verdict.plain[0].lower()}{verdict.plain[1:]}".rstrip(".")
    return "" if verdict.answer == "leak found" else _describe_other_model(audit)


def _describe_other_model(audit: Audit) -> str:
    implausible = reason_of(audit, "implausible")
    return f"{implausible}. So it may be another model" if implausible else ""


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
CHANGE_UNKNOWN = "What changed cannot be told"


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
    class_note = (
        f"The intervals of all classes hold together with {formatting.format_percent(CONFIDENCE)} confidence, apart "
        "from those of all records."
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
        pictures=() if heading.startswith(CHANGE_UNKNOWN) else _change_pictures(comparison.changes[best], tone),
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
            *(
                Section(
                    f"Changes within classes: {name}" if several else "Changes within classes",
                    [Paragraph(comparison.describe_classes(name)), Table(*class_table(by_class), note=class_note)],
                )
                for name, by_class in comparison.class_changes.items()
                if by_class
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
