"""From what a user names to a recipe."""

from __future__ import annotations

import dataclasses
from typing import Any

from divulge import attacks, errors, user_code
from divulge.errors import InputError
from divulge.recipes.augmented import augmented_recipes
from divulge.recipes.documents import document_recipes
from divulge.recipes.label_only import label_recipes
from divulge.recipes.partial import partial_recipes
from divulge.recipes.recipe import Recipe
from divulge.recipes.white_box import weight_recipes, white_box_recipes
from divulge.recipes.whole import recipes
from divulge.targets import declared_modality, is_language_model
from divulge.validation import check_choice, check_instance


def everything() -> tuple[Recipe, ...]:
    """All recipes for classifiers: whole records, versions of them, labels alone, partly known records, weights."""
    inside = (*weight_recipes(), *white_box_recipes())
    return (*recipes(), *augmented_recipes(), *label_recipes(), *partial_recipes(), *inside)


def resolve(wanted: object, *, documents: bool = False) -> Recipe:
    """Return the recipe that ``wanted`` means.

    Args:
        wanted: a recipe, the name of one, or a third party's ``"module:Class"`` (a `Recipe`, or a callable
            that returns one).
        documents: whether the target is a language model: names then mean the recipes for documents.

    Raises:
        divulge.InputError: unknown name (the nearest is suggested), an import that fails, another type.

    Examples:
        >>> resolve("loss").signal
        'negative-loss'
    """
    if isinstance(wanted, Recipe):
        return wanted
    if not isinstance(wanted, str):
        raise InputError(f"recipes: a name or a Recipe is needed, got {type(wanted).__name__}")
    if ":" in wanted:
        return _third_party(wanted)
    recipes_by_name = {recipe.name: recipe for recipe in (document_recipes() if documents else everything())}
    return recipes_by_name[check_choice(wanted, "recipes", recipes_by_name)]


def resolve_for(target: Any, wanted: object) -> Recipe:
    """Return the recipe that ``wanted`` means for a target, whose modality may have recipes of its own.

    Raises:
        divulge.InputError: as `resolve`.
    """
    modality = declared_modality(target)
    if modality is not None:
        return modality.resolve_recipe(wanted)
    return resolve(wanted, documents=is_language_model(target))


def seeded(recipe: Recipe, seed: int) -> Recipe:
    """Return the recipe with the run's seed in its attack, and in the attacks that one is made of, where they draw."""
    return dataclasses.replace(recipe, attack=attacks.seeded(recipe.attack, seed))


def _third_party(name: str) -> Recipe:
    user_object = user_code.import_object(name, "recipes").value
    if isinstance(user_object, Recipe):
        return user_object
    if not callable(user_object):
        raise InputError(f"recipes: {name!r} is a {type(user_object).__name__}, not a divulge.recipes.Recipe")
    with errors.user_code_errors(f"recipes: {name!r}"):
        recipe = user_object()
    return check_instance(recipe, f"recipes: what {name!r} returns", Recipe, "a divulge.recipes.Recipe")
