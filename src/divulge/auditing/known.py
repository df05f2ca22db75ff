"""What the report says about partly known records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge import evaluation
from divulge.errors import InputError
from divulge.report import Chart, Paragraph, Section, Table, charts, in_words
from divulge.report.markdown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.auditing.findings import Findings
    from divulge.report.page import Block
    from divulge.results import PartlyKnown
    from divulge.types import Estimate


def known_share_section(audit: Findings, inner: Sequence[Findings]) -> Section:
    """The known share, the imputer behind the numbers, and, where several shares were tried, curves over them.

    Args:
        audit: the audit reported.
        inner: the same audit under other conditions; those of partly known records are shown beside it.
    """
    partial = audit.about.settings.partial
    if partial is None:
        return Section("Known share", [])
    blocks: list[Block] = [Paragraph(_describe_completion(partial)), _completion_table(audit)]
    audits = sorted((a for a in (audit, *inner) if a.about.settings.partial is not None), key=_known_share)
    if len(audits) > 1:
        statistics = {"auc": ("AUC", 0.5), f"tpr@fpr={min(audit.fpr):g}": _tpr_label(min(audit.fpr))}
        blocks += [_known_share_chart(audits, statistic, *named) for statistic, named in statistics.items()]
        blocks.append(_known_share_table(audits, {statistic: name for statistic, (name, _) in statistics.items()}))
    return Section("Known share", blocks)


def _describe_completion(partial: PartlyKnown) -> str:
    if partial.share == 1.0:
        return "Every value of every record is known; nothing was completed."
    drawn = f" and {partial.draws} random draws" if partial.draws else ""
    return (
        f"The adversary knows {in_words.per_cent(partial.share)} of the values. The others were completed from the "
        f"population by: {partial.imputer} (the single best completion{drawn} of every record). A number made with "
        "another imputer is another attack's."
    )


def _completion_table(audit: Findings) -> Table:
    recipes = audit.about.recipes
    rows = [[name, recipes[name].completed_by or "nothing", str(recipes[name].queries)] for name in audit]
    return Table(["recipe", "completed by", "queries"], rows, title="How each number was computed")


def _tpr_label(level: float) -> tuple[str, float]:
    return f"TPR at FPR {in_words.per_cent(level)}", level


def _known_share(audit: Findings) -> float:
    partial = audit.about.settings.partial
    return 1.0 if partial is None else partial.share


def _known_share_chart(audits: Sequence[Findings], statistic: str, name: str, chance: float) -> Chart:
    curves = {}
    for recipe in audits[0]:
        points = [(_known_share(audit), _measure_or_none(audit, recipe, statistic)) for audit in audits]
        held = [(share, estimate) for share, estimate in points if estimate is not None]
        if held:
            shares = [share for share, _ in held]
            parts = ([getattr(estimate, part) for _, estimate in held] for part in ("value", "low", "high"))
            curves[recipe] = charts.Curve(shares, *parts)
    spec = charts.lines(curves, x="known share of the record", y=name, reference=chance)
    note = "The band is a 95 % interval. The same candidates, with more and more of each record known."
    return Chart(spec, title=f"{name} by known share", note=note)


def _measure_or_none(audit: Findings, recipe: str, statistic: str) -> Estimate | None:
    """None where the recipe was not run, or has too few records for the statistic."""
    if recipe not in audit.scores:
        return None
    try:
        outcome = audit[recipe].distinct
        return evaluation.measure(outcome.scores, outcome.members, statistic)
    except InputError:
        return None


def _known_share_table(audits: Sequence[Findings], statistics: Mapping[str, str]) -> Table:
    whole = next((audit for audit in audits if _known_share(audit) == 1.0), None)
    rows = []
    for audit in audits:
        for recipe in audit:
            measured = [shown(_measure_or_none(audit, recipe, statistic)) for statistic in statistics]
            queries = str(audit.about.recipes[recipe].queries)
            rows.append([f"{_known_share(audit):.0%}", recipe, *measured, _gap_to_whole(audit, whole, recipe), queries])
    columns = ["known", "recipe", *statistics.values(), "AUC minus that of the whole record", "queries"]
    note = "The gap's interval is for paired differences, record by record."
    if whole is None:
        note = "No gap to the whole record is shown: add the share 1 (known = [..., 'share:1'])."
    return Table(columns, rows, title="By known share", note=note)


def _gap_to_whole(audit: Findings, whole: Findings | None, recipe: str) -> str:
    if whole is None or whole is audit or recipe not in whole.scores:
        return "–"
    one, other = audit[recipe], whole[recipe]
    if one.counted is not None:  # copies are no further observations
        one, other = one.on(one.counted), other.on(one.counted)
    return shown(evaluation.paired_difference(one.scores, other.scores, one.members, "auc"), "+")
