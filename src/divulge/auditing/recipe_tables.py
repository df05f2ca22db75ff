"""Every recipe's numbers as tables, and what the tables leave open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.evaluation.epsilon import BY_NONMEMBERS
from divulge.report import Fold, Paragraph, Table, in_words
from divulge.report.markdown import percent, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.report.page import Block
    from divulge.results import AuditSummary, Numbers

_INTERVALS_NOTE = (
    "All intervals of AUC, TPR and ε hold together with 95 % confidence, here and in the verdict; that of the "
    "advantage is as wide as each of them. TPR at FPR is conservative: the threshold's own uncertainty is in the "
    "interval. ε is a lower bound, 0 where nothing can be claimed; it assumes independent scores, which is only "
    "approximately true under a single trained model."
)


def recipe_table(
    summary: AuditSummary, *, unseen: bool = False, adjusted: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the table of attacks: of all candidates, of the unseen classes alone, or adjusted."""
    levels = [f"{level:g}" for level in summary.fpr]
    columns = [
        "recipe",
        "AUC",
        *(f"TPR at FPR {in_words.per_cent(level)}" for level in summary.fpr),
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
        epsilon = "–" if numbers.epsilon is None else in_words.least(numbers.epsilon.low)
        rates = [percent(numbers.tpr_at_fpr[level]) for level in levels]
        queries = str(summary.about.recipes[name].queries)
        rows.append([name, shown(numbers.auc), *rates, shown(numbers.advantage), epsilon, queries])
    return columns, rows


def recipe_notes(summary: AuditSummary) -> list[str]:
    """What the tables of attacks leave open: where an ε comes from, which false-positive rates were not kept."""
    return [*_sure_nonmember_notes(summary), *_exceeded_fpr_notes(summary)]


def _sure_nonmember_notes(summary: AuditSummary) -> list[str]:
    bounds = [
        f"{name}{where} (ε ≥ {in_words.least(epsilon.low)})"
        for name, where, numbers in _iterate_numbers(summary)
        if (epsilon := numbers.epsilon) and epsilon.method.endswith(BY_NONMEMBERS)
    ]
    why = "records that score lower than nearly every member; TPR counts sure members, and may still be at chance"
    return [f"bounds that come from sure non-members, {why}: {', '.join(bounds)}"] if bounds else []


def _exceeded_fpr_notes(summary: AuditSummary) -> list[str]:
    kinds: dict[str, list[str]] = {}
    for name, where, numbers in _iterate_numbers(summary):
        for level, rate in numbers.realised_fpr.items():
            if rate and rate.broken:
                whose = kinds.setdefault(
                    f"the realised FPR at nominal {in_words.per_cent(float(level))}{where} is TOO HIGH", []
                )
                whose.append(f"{name} {percent(rate.rate)} (p = {rate.p_value:.2g})")
    why = "the luck of one calibration does not explain it"
    return [f"{kind}, {why}: {', '.join(whose)}" for kind, whose in kinds.items()]


def _iterate_numbers(summary: AuditSummary) -> Iterator[tuple[str, str, Numbers]]:
    """Every recipe's numbers: of all candidates, then of the unseen classes alone."""
    for name, recipe in summary.recipes.items():
        yield name, "", recipe
        if recipe.unseen is not None:
            yield name, " on the unseen classes", recipe.unseen


def strongest_recipe_table(summary: AuditSummary, name: str) -> Table:
    """One recipe in full: each statistic with its interval, beside what guessing has."""
    recipe = summary.recipes[name]
    scopes: dict[str, Numbers] = {"": recipe}
    if recipe.unseen:
        scopes = {"unseen classes": recipe.unseen, "all candidates": recipe}
    if summary.adjusted is not None:
        without = {f"{scope} without adjustment".lstrip(): numbers for scope, numbers in scopes.items()}
        scopes = {"adjusted": summary.adjusted.recipes[name], **without}
    rows = [["AUC", *(shown(one.auc) for one in scopes.values()), "0.5"]]
    for level in summary.fpr:
        rates = [percent(one.tpr_at_fpr[f"{level:g}"]) for one in scopes.values()]
        rows.append([f"TPR at FPR {in_words.per_cent(level)}", *rates, in_words.per_cent(level)])
    rows.append(["advantage", *(shown(one.advantage) for one in scopes.values()), "0"])
    bounds = ["–" if one.epsilon is None else f"≥ {in_words.least(one.epsilon.low)}" for one in scopes.values()]
    rows.append(["ε", *bounds, "0"])
    values = [scope or "value" for scope in scopes]
    return Table(
        ["statistic", *values, "by guessing"],
        rows,
        title=f"{name}: {describe_recipe(summary, name)}",
        note=_INTERVALS_NOTE if summary.adjusted is None else f"{summary.adjusted.text} {_INTERVALS_NOTE}",
        sortable=False,
    )


def describe_recipe(summary: AuditSummary, name: str) -> str:
    """What a recipe does, in a line."""
    about = summary.about.recipes[name]
    return about.summary or about.signal


def all_recipes_fold(summary: AuditSummary) -> Fold:
    """All recipes, on all candidates and on the unseen classes, and what was run."""
    blocks: list[Block] = []
    if summary.unseen_classes:
        listed = ", ".join(in_words.class_name(one, summary.class_names) for one in summary.unseen_classes)
        title = f"Unseen classes {listed}: the auditor holds no record of them"
        blocks.append(Table(*recipe_table(summary, unseen=True), title=title))
    if summary.adjusted is not None:
        blocks.append(
            Table(*recipe_table(summary, adjusted=True), title="Adjusted for covariates, as the verdict judges")
        )
    title = "All candidates" if summary.adjusted is None else "All candidates, without adjustment"
    blocks.append(Table(*recipe_table(summary), title=title))
    blocks += [Paragraph(in_words.sentence(text)) for text in recipe_notes(summary)]
    explained = [[name, r.signal, r.summary, r.references] for name, r in summary.about.recipes.items()]
    blocks.append(Table(["recipe", "signal", "attack", "reference models"], explained, title="What was run"))
    return Fold(f"All recipes ({len(summary.recipes)})", blocks)
