"""LiRA with a prior on the variances."""

from dataclasses import dataclass
from typing import Literal

from divulge import attacks
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import AS_LIRA, AttackSettings, make_recipe, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class BaVarIA(AttackSettings):
    """LiRA with a prior on the variances, for few reference models (Brännvall 2026)."""

    mode: Literal["offline", "online"] = setting("offline", AS_LIRA)

    def _classifier_recipe(self) -> Recipe:
        name = "bavaria" if self.mode == "offline" else "bavaria-online"
        summary = f"{self.mode} LiRA with a prior on variances, for few references (Brännvall 2026)"
        return make_recipe(name, "scaled-logit", attacks.BaVarIA(self.mode), summary)
