"""The recipes that ask about several versions of every record."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from divulge.attacks import RMIA, Averaged, LiRA, MajorityRMIA
from divulge.recipes.recipe import Recipe
from divulge.recipes.whole import recipes
from divulge.signals.versions import ImageVersions


@cache
def augmented_recipes() -> tuple[Recipe, ...]:
    """Return the recipes that ask about images as they are, mirrored and shifted: 18 queries a record.

    For tables, or versions of one's own, ``dataclasses.replace(recipe, versions=…)`` makes others of them.

    Examples:
        >>> [recipe.name for recipe in augmented_recipes()]
        ['lira-augmented', 'lira-online-augmented', 'rmia-augmented', 'rmia-online-augmented']
    """
    attacks = {
        "lira": Averaged(LiRA()),
        "lira-online": Averaged(LiRA("online")),
        "rmia": MajorityRMIA(),
        "rmia-online": MajorityRMIA(RMIA(offline_a=None)),
    }
    plain = {recipe.name: recipe for recipe in recipes()}
    return tuple(
        replace(
            plain[name],
            name=f"{name}-augmented",
            attack=attack,
            versions=ImageVersions(),
            summary=f"{name} on images as they are, mirrored and shifted: 18 queries a record",
        )
        for name, attack in attacks.items()
    )
