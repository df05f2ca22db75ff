"""Which classes and subgroups are exposed: one lane each, every recipe in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.report import Chart, Fold, Section, Table, in_words
from divulge.report.lanes import LANES, lanes
from divulge.report.markdown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.report.page import Block
    from divulge.results import AuditSummary, Group

_MAX_LISTED = 300  # classes or subgroups in a table


def classes_section(summary: AuditSummary, strongest: str) -> Section:
    """A chart of all recipes, and the table of the strongest, by class and by subgroup."""
    blocks: list[Block] = []
    for one in ("class", "group"):
        series = {
            name: _groups_with_auc(recipe.classes if one == "class" else recipe.groups)
            for name, recipe in summary.recipes.items()
        }
        series = {name: groups for name, groups in series.items() if any(row.auc for row in groups.values())}
        if strongest in series:
            blocks.append(_group_chart(summary, series, one, strongest))
        groups = summary.recipes[strongest].classes if one == "class" else summary.recipes[strongest].groups
        if groups:
            blocks.append(
                Fold(f"{strongest} by {one}, in figures", [_group_table(groups, one, strongest, max(summary.fpr))])
            )
    return Section("Classes and subgroups", blocks)


def _groups_with_auc(groups: Mapping[str, Group]) -> Mapping[str, Group]:
    return {name: row for name, row in groups.items() if row.auc is not None}


def _group_chart(summary: AuditSummary, series: Mapping[str, Mapping[str, Group]], one: str, strongest: str) -> Chart:
    unseen = (
        {in_words.class_name(label, summary.class_names) for label in summary.unseen_classes}
        if one == "class"
        else set()
    )
    estimates = {
        name: {
            f"{one} {group}{' (unseen)' if group in unseen else ''}": row.auc
            for group, row in groups.items()
            if row.auc is not None
        }
        for name, groups in series.items()
    }
    count = len(estimates[strongest])
    most = f" The {LANES} with the largest AUC of {count} are shown." if count > LANES else ""
    return Chart(
        lanes(estimates, focus=strongest, quantity="AUC", reference=0.5),
        title=f"AUC by {one}",
        note=f"One dot per recipe. The whiskers are 95 % intervals of one recipe, each by itself; the dashed line is "
        f"guessing.{most}",
    )


def _group_table(groups: Mapping[str, Group], one: str, name: str, level: float) -> Table:
    """The rates of each; of very many, those with the largest AUC."""
    largest = sorted(groups, key=lambda group: -(0.0 if (area := groups[group].auc) is None else area.value))
    kept, count = set(largest[:_MAX_LISTED]), len(groups)
    most = f" Of {count:,}, the {_MAX_LISTED} with the largest AUC are listed; summary.json has all."
    most = most if count > _MAX_LISTED else ""
    columns = [one, "members", "non-members", "AUC", "TPR", "FPR"]
    rows = [
        [group, str(row.members), str(row.nonmembers), *map(shown, (row.auc, row.tpr, row.fpr))]
        for group, row in groups.items()
        if group in kept
    ]
    note = f"TPR and FPR at a common threshold, where the FPR over all non-members is at most {level:g}.{most}"
    return Table(columns, rows, title=f"{name}: by {one}", note=note)
