"""RMIA without a population."""

from dataclasses import dataclass
from typing import Literal

from divulge import attacks
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import AS_LIRA, AttackSettings, make_recipe, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class BASE(AttackSettings):
    """Log-probability beyond that under other models: RMIA without a population (Lassila et al. 2025)."""

    mode: Literal["offline", "online"] = setting("offline", AS_LIRA)

    def _classifier_recipe(self) -> Recipe:
        name = "base" if self.mode == "offline" else "base-online"
        summary = f"{self.mode} BASE, RMIA without a population (Lassila et al. 2025)"
        return make_recipe(name, "negative-loss", attacks.BASE(self.mode), summary)
