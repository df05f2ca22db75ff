"""Report of a label inference attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from divulge.report import charts, formatting
from divulge.report.charts import Curve
from divulge.report.page import Bullet, BulletList, Chart, Collapsible, DotGrid, Paragraph, Section, Table
from divulge.report.run_kinds import Headline, RunKind
from divulge.report.sections import ADVICE_TITLE, RegulatorAnswers, regulator_section
from divulge.results import MEANING, LabelsSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.results import DefenceSummary

_ADVERSARY = (
    "Who can do this: anyone who may send predictions of their choice and sees the score of each; they need neither "
    "the model nor what the rows hold."
)


@dataclass(frozen=True, slots=True)
class LabelsRun:
    """An attack on labels.

    Args:
        summary: what it found.
        progress: numbers of answers, and the share of labels recovered after them.
    """

    summary: LabelsSummary
    progress: tuple[Sequence[int], Sequence[float]]


def headline(run: LabelsRun) -> Headline:
    """Return how many labels were read from how many scores, or why none are given."""
    summary = run.summary
    if summary.contradiction is not None:
        text = formatting.as_sentence(summary.contradiction)
        return Headline("plain", text, "The answers contradict the specification")
    rows, right = summary.oracle.rows, summary.right
    proven = (
        f"{summary.proven:,} follow from the scores if the noise kept to what was declared, {summary.certain:,} even "
        "if it was twice that."
        if summary.proven
        else "Nothing is proven."
        if summary.oracle.noise_kind == "bounded"
        else "No label is beyond doubt, for this noise has no bound. The labels are best guesses, and may be right."
    )
    leaks = summary.proven > 0 or (right is not None and right > 0.9 * rows)
    n_read = summary.proven if right is None else right
    return Headline(
        tone="leak" if leaks else "unproven" if summary.determined else "plain",
        text=_verdict(summary),
        heading="Labels leak" if leaks else "",
        details=(_ADVERSARY, proven),
        pictures=(DotGrid.from_count(n_read, rows, "labels"),),
    )


def _verdict(summary: LabelsSummary) -> str:
    rows, right = summary.oracle.rows, summary.right
    # Under noise without a bound the others are guesses, and may be right all the same.
    sure = "" if summary.oracle.noise_kind == "bounded" else " beyond doubt"
    count_text = f"{summary.proven:,} of {rows:,} labels were read{sure}"
    if right is not None:
        count_text = f"{right:,} of {rows:,} labels were recovered"
    scores = "1 score" if summary.queries == 1 else f"{summary.queries:,} scores"
    caveat = (
        f" {summary.determined:,} follow if the endpoint is as declared, but {summary.caveat}."
        if summary.caveat
        else ""
    )
    return f"{count_text} from {scores}.{caveat}"


def sections(run: LabelsRun) -> list[Section]:
    """Return what prevents the attack, and how fast labels leak."""
    summary = run.summary
    if summary.contradiction is not None:
        text = "Nothing follows from the answers of an undeclared oracle, so no labels are given."
        return [Section("What this means", (Paragraph(text),))]
    return [
        Section(ADVICE_TITLE, _defence(summary.defence)),
        Section("How fast labels leak", (_speed(summary), _progress(*run.progress))),
        regulator_section(
            RegulatorAnswers(
                means="scores of predictions that the attacker chose.",
                queries=f"On the hidden labels of the scored rows, which are no training data: {_verdict(summary)}",
                unit="The label of one row.",
            )
        ),
    ]


def settings(defence: DefenceSummary) -> list[tuple[str, str, str]]:
    """Return every single setting: its name, its value, and what it is."""
    return [
        (name, "none suffices alone" if value is None else f"{value:.4g}", MEANING[name])
        for name, value in defence.settings.items()
    ]


def _speed(summary: LabelsSummary) -> Table:
    plan, limit = summary.plan, summary.limit
    return Table(
        ("plan", "queries", "labels per query"),
        (
            (plan.method, str(plan.queries), f"{plan.labels_per_query:.2f}"),
            ("upper bound for any plan", str(limit.queries), f"{limit.labels_per_query:.2f}"),
        ),
        note=f"What limits a query: {limit.binds}. {formatting.as_sentence(plan.certificate)}",
    )


def _defence(defence: DefenceSummary) -> tuple[BulletList | Collapsible, ...]:
    single_settings = Table(
        ("setting", "value", "what it is", "formula"),
        [(*row, defence.formulas[row[0]]) for row in settings(defence)],
        note=f"Each alone holds {defence.queries:,} queries to {formatting.format_percent(defence.accuracy)} accuracy "
        "on balanced labels.",
    )
    steps = BulletList(
        [Bullet(f"{number}.", formatting.as_sentence(line)) for number, line in enumerate(defence.advice, start=1)],
        "Each of these suffices by itself",
    )
    return (steps, Collapsible("What a single setting takes, with its formula", (single_settings,)))


def _facts(run: LabelsRun) -> dict[str, str]:
    summary, oracle = run.summary, run.summary.oracle
    return {
        "metric": oracle.metric,
        "rows": f"{oracle.rows:,}",
        "classes": str(oracle.classes),
        "clip": f"{oracle.clip:.3g}" if oracle.clip else "none",
        "decimals": "not rounded" if oracle.decimals is None else str(oracle.decimals),
        "noise": f"{oracle.noise:g} ({oracle.noise_kind})",
        "rows scored": f"{summary.scored:,}",
        "control queries": "answered as these labels imply" if summary.checked else "not answered or contradicted",
        "largest residual": f"{summary.residual:.3g}",
    }


def _progress(places: Sequence[int], shares: Sequence[float]) -> Chart:
    return Chart(
        charts.lines({"determined": Curve(places, shares)}, x="queries answered", y="share of labels determined"),
        title="Share of labels that the answers determine, by number of queries",
        note="Labels of a block of queries are read together, when its last answer arrives.",
    )


LABELS = RunKind(
    name="labels",
    title="Labels behind a scoring endpoint",
    summary_type=LabelsSummary,
    sections=sections,
    headline=headline,
    facts=_facts,
)
