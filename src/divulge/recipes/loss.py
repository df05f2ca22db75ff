"""Thresholds on one signal of the target."""

from dataclasses import dataclass
from typing import Any, Literal

from divulge import attacks, signals
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import AttackSettings, make_recipe, setting

_CLASSIFIER_SIGNALS = {
    "loss": ("negative-loss", "LOSS: how small the loss, the model's error, is (Yeom et al. 2018)"),
    "entropy": ("modified-entropy", "modified entropy (Song & Mittal 2021)"),
    "gap": ("top-two-gap", "top-two logit gap; needs no label"),
    "max-probability": ("max-probability", "how sure the target is; needs no label (Salem et al. 2019)"),
    "weight-gradient": ("weight-gradient", "how short the loss's gradient is in all parameters (Nasr et al. 2019)"),
}
# Recipes that share the object of a signal share its queries.
_DOCUMENT_SIGNALS: dict[str, tuple[Any, str]] = {
    "loss": ("log_likelihood", "LOSS: how likely the tokens are on average (Yeom et al. 2018)"),
    "last-tokens": ("last_tokens", "how likely the last tokens are; of a model tuned on answers alone"),
    "last-quarter": ("last_quarter", "how likely the last quarter of the tokens is; of longer answers"),
    "zlib": ("zlib", "likelihood over compressed size (Carlini et al. 2021)"),
    "min-k": ("min_k", "likelihood of the least likely tokens (Shi et al. 2024)"),
    "min-k++": ("min_k_plus", "the same, standardised (Zhang et al. 2025)"),
    "entropy": ("modified_entropy", "modified entropy (Song & Mittal 2021)"),
    "recall": (signals.ReCaLL(), "likelihood after other documents over likelihood alone (Xie et al. 2024)"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(AttackSettings):
    """Threshold on one signal of the target, LOSS by default; without reference models (Yeom et al. 2018)."""

    signal: Literal[
        "loss",
        "entropy",
        "gap",
        "max-probability",
        "weight-gradient",
        "last-tokens",
        "last-quarter",
        "zlib",
        "min-k",
        "min-k++",
        "recall",
    ] = setting(
        "loss",
        'the signal. "max-probability" and "gap", that between the two largest logits, need no label; '
        '"weight-gradient" is the length of the loss\'s gradient in all weights and needs a torch module',
        classifiers=tuple(_CLASSIFIER_SIGNALS),
        documents=tuple(_DOCUMENT_SIGNALS),
    )
    known: Literal["any", "best"] = setting(
        "any", 'of partly known records the best completion; "best" refuses whole records', documents=("any",)
    )

    def _check_combination(self) -> None:
        if self.known != "any" and self.signal != "loss":
            self.refuse("signal", "known", "only the loss has a form that refuses whole records")

    def _classifier_recipe(self) -> Recipe:
        signal, summary = _CLASSIFIER_SIGNALS[self.signal]
        if self.known == "best":
            summary = "LOSS on the completed record"
            return make_recipe("partial-loss", signal, attacks.Threshold(), summary, partial=True)
        return make_recipe(self.signal, signal, attacks.Threshold(), summary)

    def _document_recipe(self) -> Recipe:
        signal, summary = _DOCUMENT_SIGNALS[self.signal]
        return make_recipe(self.signal, signal, attacks.Threshold(), summary)
