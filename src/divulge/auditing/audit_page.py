"""The audit's report: the verdict first, then what to do about it, then the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge import evaluation
from divulge.auditing import class_lanes, decision_tables, exposed, fairness, known, recipe_tables, shift, trade_off
from divulge.auditing.recipe_tables import notes, table
from divulge.auditing.verdict import at_once, counted, scopes, verdict
from divulge.errors import InputError
from divulge.report import Collapsible, Link, Page, Section, Table, formatting, sections
from divulge.report.formatting import format_estimate, format_percent_estimate
from divulge.report.sections import RegulatorAnswers
from divulge.results import to_json_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.auditing.findings import Findings
    from divulge.auditing.verdict import Verdict
    from divulge.results import Answer, AuditSummary
    from divulge.results.provenance import Provenance

__all__ = ["notes", "page", "table"]

_HEADINGS: Mapping[Answer, str] = {
    "leak found": "Leak found",
    "no leak found": "No leak found",
    "too little data to say": "Too little data to say",
    "split is confounded": "Nothing can be said of the model",
}


def page(
    audit: Findings,
    summary: AuditSummary,
    said: Verdict,
    inner: Mapping[str, Findings],
    made: Provenance | None = None,
) -> Page:
    """The report as data; every number in it comes from a summary or from the scores.

    Args:
        audit: what was found.
        summary: `Audit.summary` of it.
        said: its verdict.
        inner: the same audit under other conditions, by name.
        made: where the run comes from, where that was noted.
    """
    strongest = said.recipe or _largest(summary)
    page_sections = [
        _advice(audit, summary),
        Section("Evidence", [recipe_tables.best(summary, strongest), recipe_tables.every(summary)]),
        known.section(audit, tuple(inner.values())),
        trade_off.section(audit, strongest),
        class_lanes.section(summary, strongest),
        decision_tables.section(summary, strongest),
        shift.section(audit.about.transfer),
        *([] if said.answer == "split is confounded" else [exposed.section(audit, strongest)]),
        fairness.section(summary),
        _others(inner),
        sections.regulator_section(_answers(audit, said, summary, strongest)),
        _origin(summary, made),
    ]
    return Page(
        title="Membership inference audit",
        verdict=said.plain,
        tone=said.tone,
        sections=[section for section in page_sections if section.blocks],
        facts=_facts(summary) | sections.date_fact(made),
        heading=_HEADINGS[said.answer],
        pictures=said.pictures,
        more=said.more,
    )


def _largest(summary: AuditSummary) -> str:
    """The recipe with the largest AUC, where the verdict names none."""
    areas = {name: recipe.auc for name, recipe in summary.recipes.items()}
    return max(areas, key=lambda name: 0.0 if (area := areas[name]) is None else area.value)


def _advice(audit: Findings, summary: AuditSummary) -> Section:
    leaks = summary.verdict.answer == "leak found"
    return Section(
        sections.ADVICE_TITLE, sections.membership_advice(documents=audit.about.texts is not None) if leaks else []
    )


def _answers(audit: Findings, said: Verdict, summary: AuditSummary, strongest: str) -> RegulatorAnswers:
    valid = summary.verdict.answer != "split is confounded"
    bound = _epsilon(audit, strongest) if valid else None
    epsilon = None
    if bound is not None:
        epsilon = (
            f"Scores under one trained model bound it from below only: ε ≥ {formatting.format_lower_bound(bound)}. A "
            "claim that training keeps an ε is tested by divulge canaries."
        )
    return RegulatorAnswers(
        means=f"membership inference by {', '.join(summary.recipes)}.",
        extraction=None,
        queries=f"On membership alone: {said.plain}" if valid else f"No. {said.plain}",
        epsilon=epsilon,
        unit="One record, as it was given to the audit.",
    )


def _epsilon(audit: Findings, recipe: str) -> float | None:
    """Bound ε by the scores that the verdict judges, and by what the records leave unexplained of them if that is less.

    None where there are too few records.
    """
    outcome, confidence = scopes(audit)[-1].outcomes[list(audit).index(recipe)], at_once(audit)
    judged = [scores for scores in (outcome.scores, outcome.unexplained) if scores is not None]
    try:
        bounds = [evaluation.epsilon_lower_bound(one, outcome.members, confidence=confidence) for one in judged]
    except InputError:
        return None
    return min(bound.low for bound in bounds)


def _others(inner: Mapping[str, Findings]) -> Section:
    links = [Link(f"{name}/report.html", f"Report: {name}.", verdict(other).plain) for name, other in inner.items()]
    return Section("The same audit under other conditions", links)


def _origin(summary: AuditSummary, made: Provenance | None) -> Section:
    about = summary.about
    settings = about.settings
    told = {"seed": str(settings.seed), "target": settings.target}
    if (accuracy := about.accuracy) is not None:
        of = "completed " if accuracy.completed else ""
        told |= {f"target's accuracy on {of}members": format_percent_estimate(accuracy.members)}
        told |= {f"target's accuracy on {of}non-members": format_percent_estimate(accuracy.nonmembers)}
    if (fit := about.token_fit) is not None:
        told |= {f"target's log-probability of a {fit.unit} of the members": f"{fit.members:.3f}"}
        told |= {f"beyond {fit.unit} frequencies of the population": format_estimate(fit.gain, "+")}
    rows = [[f"{name}, SHA-256", digest] for name, digest in to_json_values(settings.data).items()]
    rows += [["reference models", settings.references], ["trained by", about.engine or "–"]]
    timings = [[name, f"{seconds:.2f}"] for name, seconds in about.timings.items()]
    attacks = [[name, recipe.attack] for name, recipe in about.recipes.items()]
    more = [
        Collapsible("Records and reference models", [Table(["what", "value"], rows, sortable=False)]),
        Collapsible("Configuration of every recipe", [Table(["recipe", "configuration"], attacks)]),
        Collapsible("Time", [Table(["step", "seconds"], timings)]),
    ]
    return sections.provenance_section(made, told, more)


def _facts(summary: AuditSummary) -> dict[str, str]:
    counts = summary.about.counts
    return {
        "candidates": counted(counts.members, counts.nonmembers),
        "auditor holds": f"{counts.population + counts.calibration:,} records",
        "unseen classes": ", ".join(formatting.class_name(one, summary.class_names) for one in summary.unseen_classes)
        or "none",
        "divulge": summary.divulge,
    }
