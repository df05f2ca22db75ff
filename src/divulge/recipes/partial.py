"""The recipes for records of which only part is known."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from divulge.attacks import BASE, Threshold
from divulge.completion import Mean
from divulge.recipes.recipe import Imputed, Recipe
from divulge.recipes.whole import recipes
from divulge.signals import MRAD, GradientMatching


@cache
def partial_recipes() -> tuple[Recipe, ...]:
    """Return the recipes for records of which only part is known (``dv.audit(known=…)``).

    Every recipe for whole records takes partly known ones too, with the best completion of each. Some have a second
    name here, under which they refuse whole records.

    Examples:
        >>> [recipe.name for recipe in partial_recipes()][:3]
        ['partial-loss', 'partial-lira', 'partial-rmia']
    """
    draws = 8
    ratio = Recipe(
        "partial-rmia",
        "negative-loss",
        BASE(scale=1.0),
        "out",
        "RMIA's log ratio, averaged over completions",
        Imputed(draws, "score"),
        partial=True,
    )
    return (
        _partial("loss", "LOSS on the completed record"),
        _partial("lira", "offline LiRA, its signal averaged over completions", Imputed(draws, "signal")),
        ratio,
        replace(
            ratio,
            name="partial-marginal",
            summary="ratio of likelihoods marginalised over completions",
            imputed=Imputed(draws, "likelihood"),
        ),
        _partial("learned", "log-odds learned on the reference models' own records"),
        _partial("lira-online", "online LiRA, IN models trained on completed records"),
        replace(
            ratio,
            name="partial-rmia-online",
            attack=BASE("online"),
            references="in and out",
            summary="RMIA's log ratio, IN models trained on completed records",
            imputed=Imputed(),
        ),
        _partial("learned-online", "log-odds learned on IN models trained on completed records"),
        Recipe(
            "mrad",
            MRAD(),
            Threshold(),
            summary="descend the loss on the unknown values, then detect deviations (MRAD; for comparison)",
        ),
        Recipe("mrad-shadow", MRAD(shadows=2), Threshold(), summary="MRAD's deviation relative to two shadow models'"),
        Recipe(
            "gradient-norm",
            MRAD(detector="gradient-norm", start=Mean(per_class=False), directions=5),
            Threshold(),
            summary="norm of the loss's gradient on the unknown values (for comparison)",
        ),
        Recipe("gradient-matching", GradientMatching(), Threshold(), summary="match a member's gradient (as DLG does)"),
    )


def _partial(name: str, summary: str, imputed: Imputed | None = None) -> Recipe:
    """Return the recipe for whole records of that name, for partly known ones alone."""
    base_recipe = next(recipe for recipe in recipes() if recipe.name == name)
    return replace(
        base_recipe, name=f"partial-{name}", summary=summary, imputed=imputed or base_recipe.imputed, partial=True
    )
