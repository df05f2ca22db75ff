"""The recipes for networks whose weights the auditor holds, and can look into."""

from __future__ import annotations

from functools import cache

from divulge.attacks import Learned, Threshold
from divulge.recipes.recipe import Recipe
from divulge.signals.homogeneous import DeepMultipliers
from divulge.signals.margin import KKTMultipliers, MarginAbs, MarginBand


@cache
def weight_recipes() -> tuple[Recipe, ...]:
    """Return the recipes for homogeneous ReLU networks with two classes, whose weights the auditor holds."""
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


@cache
def white_box_recipes() -> tuple[Recipe, ...]:
    """Return the recipes that look inside torch networks of any number of classes, the target and the reference models.

    Examples:
        >>> [recipe.name for recipe in white_box_recipes()]
        ['weight-gradient', 'learned-white-box']
    """
    return (
        Recipe(
            "weight-gradient",
            "weight-gradient",
            Threshold(),
            summary="how short the loss's gradient is in all parameters (Nasr et al. 2019)",
        ),
        Recipe(
            "learned-white-box",
            "scaled-logit",
            Learned(few=True, beside=True),
            "out",
            "learned-few with the angle between the last hidden layer and the record's class",
            beside=("feature-angle",),
        ),
    )
