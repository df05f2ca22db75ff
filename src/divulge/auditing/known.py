"""What the report says about partly known records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge import evaluation
from divulge.errors import InputError
from divulge.report import Chart, Paragraph, Section, Table, charts, formatting
from divulge.report.formatting import format_estimate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.auditing.findings import Findings
    from divulge.report.page import Block
    from divulge.results import PartialKnowledge
    from divulge.types import Estimate


def section(audit: Findings, inner: Sequence[Findings]) -> Section:
    """The known share, the imputer behind the numbers, and, where several shares were tried, curves over them.

    Args:
        audit: the audit reported.
        inner: the same audit under other conditions; those of partly known records are shown beside it.
    """
    partial = audit.about.settings.partial
    if partial is None:
        return Section("Known share", [])
    blocks: list[Block] = [Paragraph(_described(partial)), _completers(audit)]
    audits = sorted((a for a in (audit, *inner) if a.about.settings.partial is not None), key=_share)
    if len(audits) > 1:
        statistics = {"auc": ("AUC", 0.5), f"tpr@fpr={min(audit.fpr):g}": _tpr(min(audit.fpr))}
        blocks += [_chart(audits, statistic, *named) for statistic, named in statistics.items()]
        blocks.append(_table(audits, {statistic: name for statistic, (name, _) in statistics.items()}))
    return Section("Known share", blocks)


def _described(partial: PartialKnowledge) -> str:
    if partial.share == 1.0:
        return "Every value of every record is known; nothing was completed."
    drawn = f" and {partial.draws} random draws" if partial.draws else ""
    return (
        f"The adversary knows {formatting.format_percent(partial.share)} of the values. The others were completed from "
        f"the population by: {partial.imputer} (the single best completion{drawn} of every record). A number made with "
        "another imputer is another attack's."
    )


def _completers(audit: Findings) -> Table:
    recipes = audit.about.recipes
    rows = [[name, recipes[name].completed_by or "nothing", str(recipes[name].queries)] for name in audit]
    return Table(["recipe", "completed by", "queries"], rows, title="How each number was computed")


def _tpr(level: float) -> tuple[str, float]:
    return f"TPR at FPR {formatting.format_percent(level)}", level


def _share(audit: Findings) -> float:
    partial = audit.about.settings.partial
    return 1.0 if partial is None else partial.share


def _chart(audits: Sequence[Findings], statistic: str, name: str, chance: float) -> Chart:
    curves = {}
    for recipe in audits[0]:
        points = [(_share(audit), _measured(audit, recipe, statistic)) for audit in audits]
        held = [(share, estimate) for share, estimate in points if estimate is not None]
        if held:
            shares = [share for share, _ in held]
            parts = ([getattr(estimate, part) for _, estimate in held] for part in ("value", "low", "high"))
            curves[recipe] = charts.Curve(shares, *parts)
    spec = charts.lines(curves, x="known share of the record", y=name, reference=chance)
    note = "The band is a 95 % interval. The same candidates, with more and more of each record known."
    return Chart(spec, title=f"{name} by known share", note=note)


def _measured(audit: Findings, recipe: str, statistic: str) -> Estimate | None:
    """None where the recipe was not run, or has too few records for the statistic."""
    if recipe not in audit.scores:
        return None
    try:
        outcome = audit[recipe].distinct
        return evaluation.measure(outcome.scores, outcome.members, statistic)
    except InputError:
        return None


def _table(audits: Sequence[Findings], statistics: Mapping[str, str]) -> Table:
    whole = next((audit for audit in audits if _share(audit) == 1.0), None)
    rows = []
    for audit in audits:
        for recipe in audit:
            measured = [format_estimate(_measured(audit, recipe, statistic)) for statistic in statistics]
            queries = str(audit.about.recipes[recipe].queries)
            rows.append([f"{_share(audit):.0%}", recipe, *measured, _gap(audit, whole, recipe), queries])
    columns = ["known", "recipe", *statistics.values(), "AUC minus that of the whole record", "queries"]
    note = "The gap's interval is for paired differences, record by record."
    if whole is None:
        note = "No gap to the whole record is shown: add the share 1 (known = [..., 'share:1'])."
    return Table(columns, rows, title="By known share", note=note)


def _gap(audit: Findings, whole: Findings | None, recipe: str) -> str:
    if whole is None or whole is audit or recipe not in whole.scores:
        return "–"
    one, other = audit[recipe], whole[recipe]
    if one.counted is not None:  # copies are no further observations
        one, other = one.on(one.counted), other.on(one.counted)
    return format_estimate(evaluation.paired_difference(one.scores, other.scores, one.members, "auc"), "+")
