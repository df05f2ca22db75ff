"""What the candidates' own features do not explain."""

from dataclasses import dataclass

from divulge import attacks
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import TREES, AttackSettings, make_recipe, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Transductive(AttackSettings):
    """Signal beyond what the candidates' own features explain, without reference models; for unseen classes."""

    quantile: bool = setting(False, "averages ranks with quantile regression by boosted trees")

    def _classifier_recipe(self) -> Recipe:
        if self.quantile:
            summary = "mean rank under quantile-trees and the transductive attack, for unseen classes"
            return make_recipe("combined", "hinge", attacks.Combined((TREES, attacks.Transductive())), summary)
        summary = "hinge beyond what the candidates' own features explain, for unseen classes"
        return make_recipe("transductive", "hinge", attacks.Transductive(), summary)
