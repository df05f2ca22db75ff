"""Every recipe's numbers as tables, and what the tables leave open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.evaluation.epsilon import BY_NONMEMBERS
from divulge.report import Collapsible, Paragraph, Table, formatting
from divulge.report.formatting import format_estimate, format_percent_estimate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.report.page import Block
    from divulge.results import AuditSummary, RecipeStatistics

_TOGETHER = (
    "All intervals of AUC, TPR and ε hold together with 95 % confidence, here and in the verdict; that of the "
    "advantage is as wide as each of them. TPR at FPR is conservative: the threshold's own uncertainty is in the "
    "interval. ε is a lower bound, 0 where nothing can be claimed; it assumes independent scores, which is only "
    "approximately true under a single trained model."
)


def table(summary: AuditSummary, *, unseen: bool = False, adjusted: bool = False) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the table of attacks: of all candidates, of the unseen classes alone, or adjusted."""
    levels = [f"{level:g}" for level in summary.fpr]
    columns = [
        "recipe",
        "AUC",
        *(f"TPR at FPR {formatting.format_percent(level)}" for level in summary.fpr),
        "advantage",
        "ε ≥",
        "queries",
    ]
    rows = []
    for name, recipe in summary.recipes.items():
        numbers = recipe.unseen if unseen else recipe
        if adjusted and summary.adjusted is not None:
            numbers = summary.adjusted.recipes[name]
        if numbers is None:
            continue
        epsilon = "–" if numbers.epsilon is None else formatting.format_lower_bound(numbers.epsilon.low)
        rates = [format_percent_estimate(numbers.tpr_at_fpr[level]) for level in levels]
        queries = str(summary.about.recipes[name].queries)
        rows.append([name, format_estimate(numbers.auc), *rates, format_estimate(numbers.advantage), epsilon, queries])
    return columns, rows


def notes(summary: AuditSummary) -> list[str]:
    """What the tables of attacks leave open: where an ε comes from, which false-positive rates were not kept."""
    return [*_sure_nonmembers(summary), *_overruns(summary)]


def _sure_nonmembers(summary: AuditSummary) -> list[str]:
    bounds = [
        f"{name}{where} (ε ≥ {formatting.format_lower_bound(epsilon.low)})"
        for name, where, numbers in _everywhere(summary)
        if (epsilon := numbers.epsilon) and epsilon.method.endswith(BY_NONMEMBERS)
    ]
    why = "records that score lower than nearly every member; TPR counts sure members, and may still be at chance"
    return [f"bounds that come from sure non-members, {why}: {', '.join(bounds)}"] if bounds else []


def _overruns(summary: AuditSummary) -> list[str]:
    kinds: dict[str, list[str]] = {}
    for name, where, numbers in _everywhere(summary):
        for level, rate in numbers.realised_fpr.items():
            if rate and rate.broken:
                whose = kinds.setdefault(
                    f"the realised FPR at nominal {formatting.format_percent(float(level))}{where} is TOO HIGH", []
                )
                whose.append(f"{name} {format_percent_estimate(rate.rate)} (p = {rate.p_value:.2g})")
    why = "the luck of one calibration does not explain it"
    return [f"{kind}, {why}: {', '.join(whose)}" for kind, whose in kinds.items()]


def _everywhere(summary: AuditSummary) -> Iterator[tuple[str, str, RecipeStatistics]]:
    """Every recipe's numbers: of all candidates, then of the unseen classes alone."""
    for name, recipe in summary.recipes.items():
        yield name, "", recipe
        if recipe.unseen is not None:
            yield name, " on the unseen classes", recipe.unseen


def best(summary: AuditSummary, name: str) -> Table:
    """One recipe in full: each statistic with its interval, beside what guessing has."""
    recipe = summary.recipes[name]
    scopes: dict[str, RecipeStatistics] = {"": recipe}
    if recipe.unseen:
        scopes = {"unseen classes": recipe.unseen, "all candidates": recipe}
    if summary.adjusted is not None:
        without = {f"{scope} without adjustment".lstrip(): numbers for scope, numbers in scopes.items()}
        scopes = {"adjusted": summary.adjusted.recipes[name], **without}
    rows = [["AUC", *(format_estimate(one.auc) for one in scopes.values()), "0.5"]]
    for level in summary.fpr:
        rates = [format_percent_estimate(one.tpr_at_fpr[f"{level:g}"]) for one in scopes.values()]
        rows.append([f"TPR at FPR {formatting.format_percent(level)}", *rates, formatting.format_percent(level)])
    rows.append(["advantage", *(format_estimate(one.advantage) for one in scopes.values()), "0"])
    bounds = [
        "–" if one.epsilon is None else f"≥ {formatting.format_lower_bound(one.epsilon.low)}" for one in scopes.values()
    ]
    rows.append(["ε", *bounds, "0"])
    values = [scope or "value" for scope in scopes]
    return Table(
        ["statistic", *values, "by guessing"],
        rows,
        title=f"{name}: {recipe_words(summary, name)}",
        note=_TOGETHER if summary.adjusted is None else f"{summary.adjusted.text} {_TOGETHER}",
        sortable=False,
    )


def recipe_words(summary: AuditSummary, name: str) -> str:
    """What a recipe does, in a line."""
    about = summary.about.recipes[name]
    return about.summary or about.signal


def every(summary: AuditSummary) -> Collapsible:
    """All recipes, on all candidates and on the unseen classes, and what was run."""
    blocks: list[Block] = []
    if summary.unseen_classes:
        listed = ", ".join(formatting.class_name(one, summary.class_names) for one in summary.unseen_classes)
        title = f"Unseen classes {listed}: the auditor holds no record of them"
        blocks.append(Table(*table(summary, unseen=True), title=title))
    if summary.adjusted is not None:
        blocks.append(Table(*table(summary, adjusted=True), title="Adjusted for covariates, as the verdict judges"))
    title = "All candidates" if summary.adjusted is None else "All candidates, without adjustment"
    blocks.append(Table(*table(summary), title=title))
    blocks += [Paragraph(formatting.as_sentence(text)) for text in notes(summary)]
    explained = [[name, r.signal, r.summary, r.references] for name, r in summary.about.recipes.items()]
    blocks.append(Table(["recipe", "signal", "attack", "reference models"], explained, title="What was run"))
    return Collapsible(f"All recipes ({len(summary.recipes)})", blocks)
