"""Windows of a document that are likelier than under another model."""

from dataclasses import dataclass
from typing import Literal

from divulge import attacks
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import AttackSettings, make_recipe, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class WBC(AttackSettings):
    """Share of a document's windows that are likelier than under another model (Chen et al. 2026)."""

    reference: Literal["base", "out"] = setting(
        "base", "the other model: the one that was fine-tuned, or fine-tunes on other documents"
    )

    def _document_recipe(self) -> Recipe:
        name, summary = {
            "base": ("wbc", "share of windows likelier than under the model that was fine-tuned (Chen et al. 2026)"),
            "out": ("windows", "the same, relative to fine-tunes on other documents"),
        }[self.reference]
        return make_recipe(name, "log_likelihood", attacks.WBC(), summary, references=self.reference)
