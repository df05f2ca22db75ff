"""The likelihood ratio attack and its forms."""

from dataclasses import dataclass
from typing import Literal

from divulge import attacks
from divulge.recipes.recipe import Imputed, Recipe
from divulge.recipes.settings import (
    N_COMPLETIONS,
    RESIDUAL,
    AttackSettings,
    augmented,
    check_known,
    for_partial_records,
    make_recipe,
    residual,
    setting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiRA(AttackSettings):
    """Likelihood ratio of the signal under models trained with and without the record (Carlini et al. 2022)."""

    mode: Literal["offline", "online"] = setting(
        "offline",
        '"offline" compares with models trained on no candidate, "online" with models that are each trained on a '
        "random half of the candidates",
    )
    augment: bool = setting(
        False, "also asks about mirrored and shifted images, 18 queries a record", documents=(False,)
    )
    residual: bool = setting(False, RESIDUAL, documents=(False,))
    tokens: Literal["mean", "correlated"] = setting(
        "mean",
        "the tokens of a document as one mean, or one by one with the correlation between neighbours",
        classifiers=("mean",),
    )
    known: Literal["any", "best", "draws"] = setting(
        "any",
        'of partly known records the best completion; "best" and "draws" refuse whole records, "draws" averages the '
        "signal over 8 random completions",
        documents=("any",),
    )

    def _check_combination(self) -> None:
        check_known(self)
        if self.tokens == "correlated" and self.mode == "online":
            self.refuse("tokens", "mode", "the test of tokens is made for models that did not see the document")

    def _classifier_recipe(self) -> Recipe:
        name, sidedness = ("lira", ", one-sided") if self.mode == "offline" else ("lira-online", "")
        summary = f"{self.mode} likelihood ratio{sidedness} (Carlini et al. 2022)"
        recipe = make_recipe(name, "scaled-logit", attacks.LiRA(self.mode), summary)
        if self.known == "draws":
            imputed = Imputed(N_COMPLETIONS, "signal")
            return for_partial_records(
                recipe, "partial-lira", "offline LiRA, its signal averaged over completions", imputed
            )
        if self.known == "best" and self.mode == "online":
            return for_partial_records(
                recipe, "partial-lira-online", "online LiRA, IN models trained on completed records"
            )
        if self.known == "best":
            return for_partial_records(recipe, "partial-lira-best", "offline LiRA on the completed record")
        if self.augment:
            recipe = augmented(recipe, attacks.Averaged(recipe.attack))
        return residual(recipe) if self.residual else recipe

    def _document_recipe(self) -> Recipe:
        if self.tokens == "correlated":
            summary = "offline likelihood ratio over correlated tokens (after Rossi et al. 2025)"
            return make_recipe("lira-sequence", "log_likelihood", attacks.SequenceLiRA(), summary)
        name = "lira" if self.mode == "offline" else "lira-online"
        summary = f"{self.mode} likelihood ratio (Carlini et al. 2022)"
        return make_recipe(name, "log_likelihood", attacks.LiRA(self.mode), summary)
