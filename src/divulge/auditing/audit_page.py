"""The audit's report: the verdict first, then what to do about it, then the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.auditing import class_lanes, decision_tables, exposed, fairness, known, recipe_tables, shift, trade_off
from divulge.auditing.audit_summary import summarise
from divulge.auditing.recipe_tables import notes, table
from divulge.auditing.verdict import counted, verdict
from divulge.report import Fold, Link, Page, Section, Table, advice
from divulge.results import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.auditing.findings import Findings
    from divulge.results import Answer, AuditSummary

__all__ = ["notes", "page", "table"]

_HEADINGS: Mapping[Answer, str] = {
    "leak found": "Leak found",
    "no leak found": "No leak found",
    "too little data to say": "Too little data to say",
    "split is confounded": "Nothing can be said of the model",
}


def page(audit: Findings, summary: AuditSummary, inner: Mapping[str, Findings]) -> Page:
    """The report as data; every number in it comes from a summary or from the scores.

    Args:
        audit: what was found.
        summary: `Audit.summary` of it.
        inner: the same audit under other conditions, by name.
    """
    said, strongest = verdict(audit), _strongest(audit, summary)
    sections = [
        _advice(audit, summary),
        Section("Evidence", [recipe_tables.best(summary, strongest), recipe_tables.every(summary)]),
        known.section(audit, tuple(inner.values())),
        trade_off.section(audit, strongest),
        class_lanes.section(summary, strongest),
        decision_tables.section(summary, strongest),
        shift.section(audit.about.transfer),
        exposed.section(audit, strongest),
        fairness.section(summary),
        _others({name: summarise(other) for name, other in inner.items()}),
        _reproduce(summary),
    ]
    return Page(
        title="Membership inference audit",
        verdict=said.plain,
        tone=said.tone,
        sections=[section for section in sections if section.blocks],
        facts=_facts(summary),
        heading=_HEADINGS[said.answer],
        pictures=said.pictures,
        more=said.more,
    )


def _strongest(audit: Findings, summary: AuditSummary) -> str:
    """The recipe that the verdict names; where it names none, the one with the largest AUC."""
    areas = {name: recipe.auc for name, recipe in summary.recipes.items()}
    largest = max(areas, key=lambda name: 0.0 if (area := areas[name]) is None else area.value)
    return verdict(audit).recipe or largest


def _advice(audit: Findings, summary: AuditSummary) -> Section:
    leaks = summary.verdict.answer == "leak found"
    return Section(
        "What to do about it", advice.against_membership(documents=audit.about.texts is not None) if leaks else []
    )


def _others(inner: Mapping[str, AuditSummary]) -> Section:
    links = [Link(f"{name}/report.html", name, f"{one.verdict.text}") for name, one in inner.items()]
    return Section("The same audit under other conditions", links)


def _reproduce(summary: AuditSummary) -> Section:
    about, environment = summary.about, summary.about.environment
    rows = [["seed", str(about.settings.seed)], ["divulge", summary.divulge]]
    rows += [["python", environment.python], *([name, v] for name, v in environment.packages.items())]
    rows += [[f"{name} digest", digest[:16]] for name, digest in plain(about.settings.data).items()]
    rows += [["git commit", environment.git_commit or "–"], ["reference engine", about.engine or "–"]]
    timings = [[name, f"{seconds:.2f}"] for name, seconds in about.timings.items()]
    attacks = [[name, recipe.attack] for name, recipe in about.recipes.items()]
    return Section(
        "Reproduce it",
        [
            Fold("Seeds, versions, digests", [Table(["what", "value"], rows)]),
            Fold("Configuration of every recipe", [Table(["recipe", "configuration"], attacks)]),
            Fold("Time", [Table(["step", "seconds"], timings)]),
        ],
    )


def _facts(summary: AuditSummary) -> dict[str, str]:
    counts = summary.about.counts
    return {
        "candidates": counted(counts.members, counts.nonmembers),
        "auditor holds": f"{counts.population + counts.calibration:,} records",
        "unseen classes": ", ".join(map(str, summary.unseen_classes)) or "none",
        "seed": str(summary.about.settings.seed),
        "divulge": summary.divulge,
    }
