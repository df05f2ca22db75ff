"""A recipe pairs a signal with an attack and gives the pair its name."""

from divulge.recipes.advice import Circumstances, Suggestion, advise
from divulge.recipes.augmented import augmented_recipes
from divulge.recipes.documents import document_recipes
from divulge.recipes.label_only import label_recipes
from divulge.recipes.measured import DataSet, Performance, measured
from divulge.recipes.names import everything, resolve, resolve_for, seeded
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
from divulge.recipes.white_box import weight_recipes, white_box_recipes
from divulge.recipes.whole import recipes

__all__ = [
    "RESERVED",
    "Circumstances",
    "DataSet",
    "Imputed",
    "PartialMeasure",
    "PartialSignal",
    "Performance",
    "PreparedSignal",
    "Recipe",
    "References",
    "Signal",
    "Suggestion",
    "advise",
    "augmented_recipes",
    "document_recipes",
    "everything",
    "label_recipes",
    "measured",
    "partial_recipes",
    "recipes",
    "resolve",
    "resolve_for",
    "seeded",
    "weight_recipes",
    "white_box_recipes",
]
