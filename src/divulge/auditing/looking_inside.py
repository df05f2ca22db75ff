"""Recipes that look inside the network: whether target and reference models let them, and what is seen there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from divulge import lazy
from divulge.errors import InputError
from divulge.references import Train
from divulge.signals import internals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.recipes import Recipe
    from divulge.targets import torch_modules
    from divulge.types import Floats, Records
else:
    torch_modules = lazy.module("divulge.targets.torch_modules")

_ASKED = 2  # records that show whether a network can be looked into


def check(target: Any, references: Any, recipes: Sequence[Recipe], records: Records) -> None:
    """Pass if whatever the recipes look into can be; an untrained network stands in for the reference models.

    Raises:
        divulge.InputError: the target is no torch module, or its outputs are not those of its last linear layer; the
            same of the network that reference models are made of. (What a function of the user's own returns is
            found out with the first reference model.)
    """
    looking = [recipe for recipe in recipes if recipe.inside]
    if not looking:
        return
    names, some = names_of(looking), records[:_ASKED]
    internals.require_white_box(target, ", ".join(recipe.name for recipe in looking))
    internals.measure(target, some, names)
    trained = [recipe for recipe in looking if recipe.references != "none"]
    if trained and isinstance(references, Train):
        of_reference(torch_modules.TorchTarget(references.untrained(), device="cpu"), some, names_of(trained))


def names_of(recipes: Sequence[Recipe]) -> tuple[str, ...]:
    """The signals of a network's inside that the recipes read, each once."""
    return tuple(dict.fromkeys(name for recipe in recipes for name in recipe.inside))


def of_reference(target: Any, records: Records, names: Sequence[str]) -> Floats:
    """`internals.measure`, with errors that say whose they are.

    Raises:
        divulge.InputError: as there.
    """
    try:
        return internals.measure(target, records, names)
    except InputError as error:
        raise InputError(f"references: a reference model as the {error}") from None
