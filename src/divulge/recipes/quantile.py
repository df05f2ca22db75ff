"""Quantile regression of the signal on records."""

from dataclasses import dataclass
from typing import Literal

from divulge import attacks, regressors
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import TREES, AttackSettings, make_recipe, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(AttackSettings):
    """Quantile regression of the signal on records, without reference models (Bertran et al. 2023)."""

    signal: Literal["hinge", "gap"] = setting(
        "hinge",
        "the true class's logit above the largest other one, or the gap between the two largest logits, which needs no "
        "label (Thaker et al. 2025)",
        documents=("hinge",),
    )
    regressor: Literal["network", "trees"] = setting(
        "network",
        'what predicts mean and spread of a non-member\'s signal. "network" is the published one: a network with a '
        'Gaussian head that reads the record itself and needs torch. "trees" are boosted trees, ours, on features and '
        "class",
    )
    weights: str = setting(
        "",
        "folder of a pretrained image network to fine-tune (the paper's: ConvNeXt-Tiny), in the format of the "
        "transformers library; without it, and beside features of your own, the network reads images as rows of pixels",
        documents=("",),
    )

    def _check_combination(self) -> None:
        if self.weights and self.regressor == "trees":
            self.refuse("regressor", "weights", "trees have no pretrained weights")

    def _classifier_recipe(self) -> Recipe:
        if self.signal == "gap":
            return self._recipe("quantile-gap", "top-two-gap", "top-two gap, for unseen classes (Thaker et al. 2025)")
        return self._recipe("quantile", "hinge", "true-class hinge (Bertran et al. 2023)")

    def _document_recipe(self) -> Recipe:
        return self._recipe("quantile", "log_likelihood", "likelihood (Bertran et al. 2023)")

    def _recipe(self, name: str, signal: str, signal_text: str) -> Recipe:
        if self.regressor == "trees":
            summary = f"the same with boosted trees on features and class: {signal_text}"
            return make_recipe(f"{name}-trees", signal, TREES, summary)
        attack = attacks.QuantileRegression(regressors.Network.published(self.weights or None), conformal=False)
        return make_recipe(name, signal, attack, f"quantile regression on the {signal_text}")
