"""A recipe pairs a signal with an attack and gives the pair its name."""

from divulge.recipes.augmented import augmented_recipes
from divulge.recipes.documents import document_recipes
from divulge.recipes.label_only import label_recipes
from divulge.recipes.names import everything, resolve, seeded
from divulge.recipes.partial import partial_recipes
from divulge.recipes.recipe import (
    RESERVED,
    Imputed,
    PartialMeasure,
    PartialSignal,
    PreparedSignal,
    Recipe,
    References,
    Signal,
)
from divulge.recipes.white_box import weight_recipes
from divulge.recipes.whole import recipes

__all__ = [
    "RESERVED",
    "Imputed",
    "PartialMeasure",
    "PartialSignal",
    "PreparedSignal",
    "Recipe",
    "References",
    "Signal",
    "augmented_recipes",
    "document_recipes",
    "everything",
    "label_recipes",
    "partial_recipes",
    "recipes",
    "resolve",
    "seeded",
    "weight_recipes",
]
