"""The audit's report: the verdict first, then what to do about it, then the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge import evaluation
from divulge.auditing import class_lanes, decision_tables, exposed, fairness, known, recipe_tables, shift, trade_off
from divulge.auditing.recipe_tables import recipe_notes, recipe_table
from divulge.auditing.verdict import simultaneous_confidence, format_counts, scopes, decide_verdict
from divulge.errors import InputError
from divulge.report import Fold, Link, Page, Section, Table, advice, in_words, origin, regulators
from divulge.report.markdown import percent, shown
from divulge.report.regulators import Answers
from divulge.results import to_json_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.auditing.findings import Findings
    from divulge.auditing.verdict import Verdict
    from divulge.results import Answer, AuditSummary
    from divulge.results.provenance import Provenance

__all__ = ["recipe_notes", "audit_page", "recipe_table"]

_HEADINGS: Mapping[Answer, str] = {
    "leak found": "Leak found",
    "no leak found": "No leak found",
    "too little data to say": "Too little data to say",
    "split is confounded": "Nothing can be said of the model",
}


def audit_page(
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
    strongest = said.recipe or _largest_auc(summary)
    sections = [
        _advice_section(audit, summary),
        Section(
            "Evidence",
            [recipe_tables.strongest_recipe_table(summary, strongest), recipe_tables.all_recipes_fold(summary)],
        ),
        known.known_share_section(audit, tuple(inner.values())),
        trade_off.trade_off_section(audit, strongest),
        class_lanes.classes_section(summary, strongest),
        decision_tables.decisions_section(summary, strongest),
        shift.transfer_section(audit.about.transfer),
        *([] if said.answer == "split is confounded" else [exposed.exposed_section(audit, strongest)]),
        fairness.fairness_section(summary),
        _links_section(inner),
        regulators.section(_regulator_answers(audit, said, summary, strongest)),
        _origin_section(summary, made),
    ]
    return Page(
        title="Membership inference audit",
        verdict=said.plain,
        tone=said.tone,
        sections=[section for section in sections if section.blocks],
        facts=_facts(summary) | origin.date(made),
        heading=_HEADINGS[said.answer],
        pictures=said.pictures,
        more=said.more,
    )


def _largest_auc(summary: AuditSummary) -> str:
    """The recipe with the largest AUC, where the verdict names none."""
    areas = {name: recipe.auc for name, recipe in summary.recipes.items()}
    return max(areas, key=lambda name: 0.0 if (area := areas[name]) is None else area.value)


def _advice_section(audit: Findings, summary: AuditSummary) -> Section:
    leaks = summary.verdict.answer == "leak found"
    return Section(advice.TITLE, advice.against_membership(documents=audit.about.texts is not None) if leaks else [])


def _regulator_answers(audit: Findings, said: Verdict, summary: AuditSummary, strongest: str) -> Answers:
    valid = summary.verdict.answer != "split is confounded"
    bound = _epsilon_bound(audit, strongest) if valid else None
    epsilon = None
    if bound is not None:
        epsilon = (
            f"Scores under one trained model bound it from below only: ε ≥ {in_words.least(bound)}. A claim that "
            "training keeps an ε is tested by divulge canaries."
        )
    return Answers(
        means=f"membership inference by {', '.join(summary.recipes)}.",
        extraction=None,
        queries=f"On membership alone: {said.plain}" if valid else f"No. {said.plain}",
        epsilon=epsilon,
        unit="One record, as it was given to the audit.",
    )


def _epsilon_bound(audit: Findings, recipe: str) -> float | None:
    """Bound ε by the scores that the verdict judges, and by what the records leave unexplained of them if that is less.

    None where there are too few records.
    """
    outcome, confidence = scopes(audit)[-1].outcomes[list(audit).index(recipe)], simultaneous_confidence(audit)
    judged = [scores for scores in (outcome.scores, outcome.unexplained) if scores is not None]
    try:
        bounds = [evaluation.epsilon_lower_bound(one, outcome.members, confidence=confidence) for one in judged]
    except InputError:
        return None
    return min(bound.low for bound in bounds)


def _links_section(inner: Mapping[str, Findings]) -> Section:
    links = [
        Link(f"{name}/report.html", f"Report: {name}.", decide_verdict(other).plain) for name, other in inner.items()
    ]
    return Section("The same audit under other conditions", links)


def _origin_section(summary: AuditSummary, made: Provenance | None) -> Section:
    about = summary.about
    settings = about.settings
    told = {"seed": str(settings.seed), "target": settings.target}
    if (accuracy := about.accuracy) is not None:
        of = "completed " if accuracy.completed else ""
        told |= {f"target's accuracy on {of}members": percent(accuracy.members)}
        told |= {f"target's accuracy on {of}non-members": percent(accuracy.nonmembers)}
    if (fit := about.token_fit) is not None:
        told |= {f"target's log-probability of a {fit.unit} of the members": f"{fit.members:.3f}"}
        told |= {f"beyond {fit.unit} frequencies of the population": shown(fit.gain, "+")}
    rows = [[f"{name}, SHA-256", digest] for name, digest in to_json_values(settings.data).items()]
    rows += [["reference models", settings.references], ["trained by", about.engine or "–"]]
    timings = [[name, f"{seconds:.2f}"] for name, seconds in about.timings.items()]
    attacks = [[name, recipe.attack] for name, recipe in about.recipes.items()]
    more = [
        Fold("Records and reference models", [Table(["what", "value"], rows, sortable=False)]),
        Fold("Configuration of every recipe", [Table(["recipe", "configuration"], attacks)]),
        Fold("Time", [Table(["step", "seconds"], timings)]),
    ]
    return origin.section(made, told, more)


def _facts(summary: AuditSummary) -> dict[str, str]:
    counts = summary.about.counts
    return {
        "candidates": format_counts(counts.members, counts.nonmembers),
        "auditor holds": f"{counts.population + counts.calibration:,} records",
        "unseen classes": ", ".join(in_words.class_name(one, summary.class_names) for one in summary.unseen_classes)
        or "none",
        "divulge": summary.divulge,
    }
