"""Models that learned from the target's labels, as an attack on it."""

from dataclasses import dataclass

from divulge import attacks
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import AttackSettings, make_recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(AttackSettings):
    """Loss under models that learned from the target's labels, which are all that it reads (Li & Zhang 2021)."""

    def _classifier_recipe(self) -> Recipe:
        summary = "labels only: loss under models that learned from the target's labels (Li & Zhang 2021)"
        return make_recipe("transfer", "label-loss", attacks.Substitute(), summary)
