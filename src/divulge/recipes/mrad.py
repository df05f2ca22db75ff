"""Descent on the unknown values of partly known records."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from divulge import attacks, signals
from divulge.completion import ConditionalGaussian, Mean
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import AttackSettings, make_recipe, setting

_GRADIENT_NORM = signals.MRAD(detector="gradient-norm", start=Mean(per_class=False), directions=5)
_SUMMARIES = {
    "mrad": "descend the loss on the unknown values, then detect deviations (MRAD; for comparison)",
    "mrad-shadow": "MRAD's deviation relative to two shadow models'",
    "gradient-norm": "norm of the loss's gradient on the unknown values (for comparison)",
    "gradient-matching": "match a member's gradient (as DLG does)",
}
_STARTS: dict[str, Any] = {"zeros": "zeros", "mean": Mean(per_class=False), "gaussian": ConditionalGaussian()}


@dataclass(frozen=True, slots=True, kw_only=True)
class MRAD(AttackSettings):
    """Descent on the unknown values of partly known records, for comparison (MRAD, arXiv:2508.06244, and kin)."""

    method: Literal["mrad", "mrad-shadow", "gradient-norm", "gradient-matching"] = setting(
        "mrad",
        "deviation of what the descent arrives at, that relative to two shadow models, the norm of the gradient alone, "
        "or the match with a member's gradient",
    )
    access: Literal["white", "black"] = setting("white", "the target's gradients, or estimates from its outputs")
    detector: Literal["cade", "msad", "nci"] = setting("cade", "what measures the deviation")
    start: Literal["zeros", "mean", "gaussian"] = setting("zeros", "unknown values before the descent")
    clip: Literal["none", "range"] = setting("none", "whether the completion is clipped to the range of each column")
    step: float = setting(1000.0, "η, the size of a step")
    iterations: int = setting(1, "N, the number of steps")
    directions: int = setting(100, "m, pairs of queries for a gradient in a black box")
    epsilon: float = setting(0.01, "ε, how far apart these are, in the unit of the records")

    def _check_combination(self) -> None:
        allowed = {"gradient-norm": ("access",), "gradient-matching": ()}.get(self.method)
        for name in self.changes():
            if allowed is not None and name != "method" and name not in allowed:
                self.refuse("method", name, "there is no descent whose result is measured")
        for name in ("directions", "epsilon"):
            if name in self.changes() and self.access == "white":
                self.refuse("access", name, "gradients of the target are not estimated")

    def _classifier_recipe(self) -> Recipe:
        if self.method == "gradient-matching":
            signal: Any = signals.GradientMatching()
        elif self.method == "gradient-norm":
            signal = replace(_GRADIENT_NORM, access=self.access)
        else:
            signal = signals.MRAD(
                step=float(self.step),
                iterations=self.iterations,
                access=self.access,
                directions=self.directions,
                epsilon=float(self.epsilon),
                clip=None if self.clip == "none" else "range",
                detector=self.detector,
                start=_STARTS[self.start],
                shadows=2 if self.method == "mrad-shadow" else 0,
            )
        # The paper's name is for its definition; a variant says what is other.
        others = {name: value for name, value in self.changes().items() if name != "method"}
        suffixes = [f"-{value}" if isinstance(value, str) else f"-{name}-{value:g}" for name, value in others.items()]
        return make_recipe(self.method + "".join(suffixes), signal, attacks.Threshold(), _SUMMARIES[self.method])
