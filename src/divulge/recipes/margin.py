"""Attacks on the weights of homogeneous ReLU networks."""

from dataclasses import dataclass
from typing import Any, Literal

from divulge import attacks
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import AttackSettings, make_recipe, setting
from divulge.signals.margin import DeepMultipliers, KKTMultipliers, MarginAbs, MarginBand

_METHODS: dict[str, tuple[Any, str]] = {
    "margin-abs": (MarginAbs(), "how large the network's output is"),
    "margin-band": (MarginBand(), "how close the output is to the margin"),
    "kkt-nnls": (KKTMultipliers(), "the record's multiplier in the best KKT explanation of the weights"),
    "kkt-nnls-deep": (DeepMultipliers(), "the same for deep homogeneous networks, of which nothing is proven"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin(AttackSettings):
    """Margin attacks on the weights of a homogeneous ReLU network, or of the head of a frozen body."""

    method: Literal["margin-abs", "margin-band", "kkt-nnls", "kkt-nnls-deep"] = setting(
        "margin-abs",
        "the size of the output, how close it is to the margin, the multiplier in the best KKT explanation of the "
        "weights, or the same for deep networks, of which nothing is proven",
    )

    def _classifier_recipe(self) -> Recipe:
        signal, summary = _METHODS[self.method]
        return make_recipe(self.method, signal, attacks.Threshold(), summary)
