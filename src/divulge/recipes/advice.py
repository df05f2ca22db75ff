"""Recipes for an auditor's circumstances, the best measured first, and the figures that come with Divulge."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal, TypeAlias

from divulge.attacks import adapt
from divulge.errors import InputError
from divulge.recipes.catalogue import augmented_recipes, label_recipes, recipes, weight_recipes, white_box_recipes
from divulge.types import Estimate
from divulge.validation import (
    as_list,
    check_bool,
    check_choice,
    check_instance,
    check_integer,
    check_string,
    format_value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.recipes.recipe import Recipe

DataType: TypeAlias = Literal["images", "tables", "text"]
Right: TypeAlias = Literal["labels", "probabilities", "logits", "weights"]

UNDERSTOOD = (
    "'labels only', 'probabilities', 'logits' or 'weights'; a number of references, as in '2 references' or "
    "'no references'; 'known classes' or 'unseen classes'; 'images', 'tables' or 'text'"
)
_PHRASES: dict[str, tuple[str, object]] = {
    "labels only": ("right", "labels"),
    "labels": ("right", "labels"),
    "probabilities": ("right", "probabilities"),
    "logits": ("right", "logits"),
    "weights": ("right", "weights"),
    "known classes": ("unseen", False),
    "unseen classes": ("unseen", True),
    "images": ("kind", "images"),
    "tables": ("kind", "tables"),
    "text": ("kind", "text"),
    "texts": ("kind", "text"),
    "no references": ("references", 0),
}
_FIELD_DESCRIPTIONS = {
    "right": "what the target gives",
    "unseen": "the classes",
    "kind": "the kind of records",
    "references": "the number of references",
}
# How the figures' intervals were made.
_REFERENCE_COUNT = re.compile(r"(\d{1,9}) references?")


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Circumstances of an auditor: data, access and budget.

    Args:
        right: what the target gives: "labels", "probabilities", "logits" or "weights"; each includes those before it.
        references: number of reference models that can be trained.
        unseen: whether the auditor lacks records of the candidates' classes.
        kind: "images", "tables" or "text"; None for any.

    Raises:
        divulge.InputError: an unknown right or kind, a number of references that is not from 0 to 1,000,000.

    Examples:
        >>> Circumstances.parse("labels only, 2 references")
        Circumstances(right='labels', references=2, unseen=False, kind=None)
    """

    right: Right = "logits"
    references: int = 0
    unseen: bool = False
    kind: DataType | None = None

    def __post_init__(self) -> None:
        check_choice(self.right, "right", ("labels", "probabilities", "logits", "weights"))
        check_integer(self.references, "references", minimum=0, maximum=10**6)
        check_bool(self.unseen, "unseen")
        if self.kind is not None:
            check_choice(self.kind, "kind", ("images", "tables", "text"))

    @classmethod
    def parse(cls, text: str) -> Circumstances:
        """Parse a few words, separated by commas or "and".

        Raises:
            divulge.InputError: words that are not understood, or two that contradict each other; the message names
                all that is understood.
        """
        fields: dict[str, object] = {}
        phrases = [" ".join(part.split()) for part in re.split(r"[,;]|\band\b", check_string(text, "for").lower())]
        for phrase in filter(None, phrases) if any(phrases) else phrases:
            name, value = _parse_phrase(phrase.replace("reference model", "reference"))
            if fields.setdefault(name, value) != value:
                raise InputError(
                    f"for: {format_value(text)} says two things about {_FIELD_DESCRIPTIONS[name]}; say one"
                )
        return cls(**fields)  # ty: ignore[invalid-argument-type]

    def __str__(self) -> str:
        right = {"labels": "labels only"}.get(self.right, self.right)
        count = f"{self.references or 'no'} reference{'s' * (self.references != 1)}"
        classes = "unseen classes" if self.unseen else "known classes"
        return ", ".join([right, count, classes, *([self.kind] if self.kind else [])])


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A recipe that can run, and what it did.

    Args:
        recipe: what to name in an audit.
        figures: one for each data set of the kind that was asked for; none where nothing was measured.
    """

    recipe: Recipe
    figures: tuple[Performance, ...]


def advise(circumstances: Circumstances | str, figures: Sequence[Performance] | None = None) -> tuple[Suggestion, ...]:
    """Return the recipes for whole records that can run, best measured first, those never measured last.

    Figures are those with the largest measured number of reference models that is not above what there is. The
    order is that of the TPR at 1 % as a share of the best recipe's on the same data set, averaged over the data
    sets where the recipe was measured: each of them counts alike, however much its targets leak. Figures whose
    intervals overlap are in no certain order.

    Args:
        circumstances: what the auditor has, also as words that `Circumstances.parse` understands.
        figures: what was measured; None: the figures that come with Divulge.

    Raises:
        divulge.InputError: words that are not understood.

    Examples:
        >>> advise("labels only, images")[0].recipe.name in ("boundary", "boundary-residual", "correct", "noise")
        True
    """
    if isinstance(circumstances, str):
        requested = Circumstances.parse(circumstances)
    else:
        requested = check_instance(circumstances, "circumstances", Circumstances, "a text or a Circumstances")
    performances = measured() if figures is None else as_list(figures, "figures")
    for figure in performances:
        check_instance(figure, "figures", Performance, "a divulge.recipes.Performance")
    suggested = [
        Suggestion(recipe, _applicable_figures(performances, recipe, requested))
        for recipe in _runnable_recipes(requested)
    ]
    best: dict[str, float] = {}
    for figure in (figure for suggestion in suggested for figure in suggestion.figures):
        best[figure.data.title] = max(best.get(figure.data.title, 0.0), figure.tpr.value)

    def sort_key(suggestion: Suggestion) -> tuple[bool, float]:
        shares = [figure.tpr.value / (best[figure.data.title] or 1.0) for figure in suggestion.figures]
        return not shares, -sum(shares) / max(len(shares), 1)

    return tuple(sorted(suggested, key=sort_key))


def _parse_phrase(phrase: str) -> tuple[str, object]:
    if count_match := _REFERENCE_COUNT.fullmatch(phrase):
        return "references", int(count_match[1])
    if phrase not in _PHRASES:
        raise InputError(f"for: {format_value(phrase)} is not understood; understood are {UNDERSTOOD}")
    return _PHRASES[phrase]


def _runnable_recipes(circumstances: Circumstances) -> list[Recipe]:
    output_recipes = (
        ()
        if circumstances.right == "labels"
        else (*recipes(), *(augmented_recipes() if circumstances.kind != "tables" else ()))
    )
    weight_based_recipes = (*weight_recipes(), *white_box_recipes()) if circumstances.right == "weights" else ()
    return [
        recipe
        for recipe in (*output_recipes, *label_recipes(), *weight_based_recipes)
        if adapt(recipe.attack).least_references <= circumstances.references
        if not (recipe.needs_numbers and circumstances.kind == "text")
    ]


def _applicable_figures(
    figures: Sequence[Performance], recipe: Recipe, circumstances: Circumstances
) -> tuple[Performance, ...]:
    budget = 0 if recipe.references == "none" else circumstances.references
    applicable = [
        figure
        for figure in figures
        if figure.recipe == recipe.name and figure.unseen == circumstances.unseen and figure.references <= budget
        if circumstances.kind in (None, figure.data.kind)
    ]
    most_references = max((figure.references for figure in applicable), default=0)
    return tuple(figure for figure in applicable if figure.references == most_references)


@dataclass(frozen=True, slots=True)
class DataSet:
    """Data set of the measured tables.

    Args:
        title: what the data set is called.
        kind: "images", "tables" or "text".
        members: number of members among the candidates.
        nonmembers: number of the others.
        target: what kind of model was attacked.
        seeds: number of independent runs, each with its own target, members and reference models.
    """

    title: str
    kind: DataType
    members: int
    nonmembers: int
    target: str
    seeds: int


@dataclass(frozen=True, slots=True)
class Performance:
    """One recipe on one data set.

    Args:
        recipe: its name.
        data: the data set.
        unseen: whether on classes of which the auditor had no records.
        references: number of reference models.
        auc: area under the ROC curve.
        tpr: true-positive rate at a false-positive rate of 1 %.
        strict: the same at 0.1 %; None where there were fewer than 1,000 non-members.
        seconds: of one processor core for the attack, without training.
    """

    recipe: str
    data: DataSet
    unseen: bool
    references: int
    auc: Estimate
    tpr: Estimate
    strict: Estimate | None
    seconds: float


@cache
def measured() -> tuple[Performance, ...]:
    """Return all figures, as `benchmarks/membership.py` left them.

    Examples:
        >>> sorted({one.data.kind for one in measured()})
        ['images', 'tables', 'text']
    """
    text = (resources.files("divulge.recipes") / "measured.json").read_text(encoding="utf8")
    contents = json.loads(text)
    sets = {key: DataSet(**fields) for key, fields in contents["sets"].items()}
    return tuple(
        Performance(
            recipe,
            sets[key],
            classes == "unseen",
            count,
            _estimate(auc),
            _estimate(tpr),
            None if strict is None else _estimate(strict),
            seconds,
        )
        for key, classes, count, recipe, auc, tpr, strict, seconds in contents["rows"]
    )


def _estimate(ends: list[float]) -> Estimate:
    value, low, high = ends
    return Estimate(value, low, high, 0.95, "student over runs")
