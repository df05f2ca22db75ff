"""The recipes for targets that give labels alone."""

from __future__ import annotations

from functools import cache

from divulge.attacks import Calibrated, Residual, Substitute, Threshold
from divulge.recipes.recipe import Recipe
from divulge.signals.boundary import BoundaryDistance, NoiseRobustness


@cache
def label_recipes() -> tuple[Recipe, ...]:
    """Return the recipes that read nothing but the predicted class, of each record and of points around it.

    Examples:
        >>> [recipe.name for recipe in label_recipes()]
        ['correct', 'correct-calibrated', 'transfer', 'boundary', 'boundary-residual', 'noise']
    """
    distance = BoundaryDistance()
    return (
        Recipe("correct", "correctness", Threshold(), summary="labels only: whether the record is told right"),
        Recipe(
            "correct-calibrated",
            "correctness",
            Calibrated(),
            "out",
            "labels only: that, minus the probability of it under reference models",
        ),
        Recipe(
            "transfer",
            "label-loss",
            Substitute(),
            "substitutes",
            "labels only: loss under models that learned from the target's labels (Li & Zhang 2021)",
        ),
        Recipe("boundary", distance, Threshold(), summary="labels only: distance to the decision boundary"),
        Recipe(
            "boundary-residual",
            distance,
            Residual(Threshold()),
            features=True,
            summary="labels only: that distance beyond what the candidates' own features explain",
        ),
        Recipe("noise", NoiseRobustness(), Threshold(), summary="labels only: share of noisy copies told right"),
    )
