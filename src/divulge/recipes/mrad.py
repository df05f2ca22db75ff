"""Descent on the unknown values of partly known records."""

from dataclasses import dataclass
from typing import Any, Literal

from divulge import attacks, signals
from divulge.completion import Mean
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import AttackSettings, make_recipe, setting

_METHODS: dict[str, tuple[Any, str]] = {
    "mrad": (signals.MRAD(), "descend the loss on the unknown values, then detect deviations (MRAD; for comparison)"),
    "mrad-shadow": (signals.MRAD(shadows=2), "MRAD's deviation relative to two shadow models'"),
    "gradient-norm": (
        signals.MRAD(detector="gradient-norm", start=Mean(per_class=False), directions=5),
        "norm of the loss's gradient on the unknown values (for comparison)",
    ),
    "gradient-matching": (signals.GradientMatching(), "match a member's gradient (as DLG does)"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MRAD(AttackSettings):
    """Descent on the unknown values of partly known records, for comparison (MRAD, arXiv:2508.06244, and kin)."""

    method: Literal["mrad", "mrad-shadow", "gradient-norm", "gradient-matching"] = setting(
        "mrad",
        "deviation of what the descent arrives at, that relative to two shadow models, the norm of the gradient alone, "
        "or the match with a member's gradient",
    )

    def _classifier_recipe(self) -> Recipe:
        signal, summary = _METHODS[self.method]
        return make_recipe(self.method, signal, attacks.Threshold(), summary)
