"""Attacks that read predicted labels alone."""

from dataclasses import dataclass
from typing import Any, Literal

from divulge import attacks
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import RESIDUAL, AttackSettings, make_recipe, residual, setting
from divulge.signals.boundary import BoundaryDistance, NoiseRobustness

# Recipes that share the object of a signal share its queries.
_SIGNALS: dict[str, tuple[Any, str, str]] = {
    "correct": ("correctness", "whether the record is told right", "that"),
    "boundary": (BoundaryDistance(), "distance to the decision boundary", "that distance"),
    "noise": (NoiseRobustness(), "share of noisy copies told right", "that share"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels(AttackSettings):
    """Label-only attacks: from the predicted labels of each record and of points around it."""

    signal: Literal["correct", "boundary", "noise"] = setting(
        "correct",
        "whether the record is told right (one query), its distance to the decision boundary (at most 500), or the "
        "share of noisy copies told right (50)",
    )
    calibrated: bool = setting(False, "less the probability under reference models")
    residual: bool = setting(False, RESIDUAL)

    def _check_combination(self) -> None:
        if self.calibrated and self.signal != "correct":
            self.refuse("signal", "calibrated", "reference models are asked about the records themselves alone")

    def _classifier_recipe(self) -> Recipe:
        signal, summary, pronoun = _SIGNALS[self.signal]
        if self.calibrated:
            summary = "labels only: that, minus the probability of it under reference models"
            recipe = make_recipe("correct-calibrated", signal, attacks.Calibrated(), summary)
            return residual(recipe) if self.residual else recipe
        if self.residual:
            summary = f"labels only: {pronoun} beyond what the candidates' own features explain"
            return make_recipe(f"{self.signal}-residual", signal, attacks.Residual(attacks.Threshold()), summary)
        return make_recipe(self.signal, signal, attacks.Threshold(), f"labels only: {summary}")
