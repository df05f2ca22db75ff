"""Gains over losses in likelihood, where the target is wrong."""

from dataclasses import dataclass
from typing import Literal

from divulge import attacks
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import AttackSettings, make_recipe, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class EZ(AttackSettings):
    """Gains over losses in likelihood, at tokens that the target itself would not have put there (Ilić et al. 2026)."""

    reference: Literal["base", "out"] = setting(
        "base",
        "the other model: the one that was fine-tuned (the paper's first choice), or fine-tunes on other documents",
    )
    smoothed: bool = setting(
        False,
        "the logarithm of the ratio with 1 added to both sides, which is ours. As published, a document that "
        "gains wherever the target is wrong has the lowest score",
    )

    def _document_recipe(self) -> Recipe:
        models = "the model that was fine-tuned" if self.reference == "base" else "fine-tunes on other documents"
        source = "smoothed; ours, after Ilić et al. 2026" if self.smoothed else "Ilić et al. 2026"
        return make_recipe(
            f"ez{'-out' * (self.reference == 'out')}{'-smoothed' * self.smoothed}",
            "log_likelihood",
            attacks.EZ(self.smoothed),
            f"gains over losses relative to {models}, where the target is wrong ({source})",
            references=self.reference,
        )
