"""How well each recipe did, by data set and number of reference models: figures that come with Divulge."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, TypeAlias

from divulge.types import Estimate

Kind: TypeAlias = Literal["images", "tables", "text"]

METHOD = "student over runs"


@dataclass(frozen=True, slots=True)
class DataSet:
    """What was measured on.

    Args:
        title: what the data set is called.
        kind: "images", "tables" or "text".
        members: number of members among the candidates.
        nonmembers: number of the others.
        target: what kind of model was attacked.
        seeds: number of independent runs, each with its own target, members and reference models.
    """

    title: str
    kind: Kind
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
    """All figures, as `benchmarks/membership.py` left them.

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
    return Estimate(value, low, high, 0.95, METHOD)
