"""The recipes for networks whose weights the auditor holds."""

from __future__ import annotations

from functools import cache

from divulge.attacks import Threshold
from divulge.recipes.recipe import Recipe
from divulge.signals.homogeneous import DeepMultipliers
from divulge.signals.margin import KKTMultipliers, MarginAbs, MarginBand


@cache
def weight_recipes() -> tuple[Recipe, ...]:
    """The recipes for homogeneous ReLU networks with two classes, whose weights the auditor holds."""
    return (
        Recipe("margin-abs", MarginAbs(), Threshold(), summary="how large the network's output is"),
        Recipe("margin-band", MarginBand(), Threshold(), summary="how close the output is to the margin"),
        Recipe(
            "kkt-nnls",
            KKTMultipliers(),
            Threshold(),
            summary="the record's multiplier in the best KKT explanation of the weights",
        ),
        Recipe(
            "kkt-nnls-deep",
            DeepMultipliers(),
            Threshold(),
            summary="the same for deep homogeneous networks, of which nothing is proven",
        ),
    )
