"""A signal less its mean under other models."""

from dataclasses import dataclass
from typing import Literal

from divulge import attacks
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import AttackSettings, make_recipe, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated(AttackSettings):
    """The target's signal minus its mean under other models (Watson et al. 2022; of a base, Carlini et al. 2021)."""

    reference: Literal["out", "base"] = setting(
        "out",
        "the other models: trained on no candidate, or the base that a language model was fine-tuned from",
        classifiers=("out",),
    )
    tokens: Literal["all", "last", "last-quarter"] = setting(
        "all", "of a document all tokens alike, above all the last, or the last quarter", classifiers=("all",)
    )

    def _classifier_recipe(self) -> Recipe:
        summary = "loss minus its mean under reference models (Watson et al. 2022)"
        return make_recipe("calibrated", "negative-loss", attacks.Calibrated(), summary)

    def _document_recipe(self) -> Recipe:
        models = "the model that was fine-tuned" if self.reference == "base" else "fine-tunes on other documents"
        if self.tokens == "all":
            name, source = {
                "base": ("base-ratio", "Carlini et al. 2021"),
                "out": ("reference-ratio", "Watson et al. 2022"),
            }[self.reference]
            signal, summary = "log_likelihood", f"likelihood relative to {models} ({source})"
        else:
            ending, signal = {"last": ("last-tokens", "last_tokens"), "last-quarter": ("last-quarter", "last_quarter")}[
                self.tokens
            ]
            name, summary = f"{ending}-{self.reference}", f"{ending.replace('-', ' ')}, relative to {models}"
        return make_recipe(name, signal, attacks.Calibrated(), summary, references=self.reference)
