"""What a defence changed, in a sentence and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.auditing import plausibility
from divulge.auditing.compare import compare
from divulge.auditing.verdict import CONFIDENCE
from divulge.report import Chart, Dots, Page, Paragraph, Section, Table, charts, in_words, regulators
from divulge.report.markdown import shown
from divulge.report.regulators import Answers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.compare import Difference
    from divulge.auditing.result import Audit
    from divulge.types import Tone

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
            f"The second run gives away less by some measures and more by others: {_describe_change(fallen)}, but {_describe_change(risen)}. "
            f"{counted}",
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
        f"{_statistic_name(one.statistic)} of {one.recipe} {verb} from {one.before.value:.3f} to {one.after.value:.3f} (change "
        f"{shown(one.change, '+')})"
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
