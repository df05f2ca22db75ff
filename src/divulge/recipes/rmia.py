"""The relative attack and its forms."""

from dataclasses import dataclass
from typing import Literal

from divulge import attacks
from divulge.recipes.recipe import Imputed, Recipe
from divulge.recipes.settings import (
    AS_LIRA,
    N_COMPLETIONS,
    RESIDUAL,
    AttackSettings,
    augmented,
    check_known,
    make_recipe,
    residual,
    setting,
)

# Of an attack on models that saw no candidate: name, summary, and how completions become one score.
_PARTIAL_FORMS = {
    "draws": ("partial-rmia", "RMIA's log ratio, averaged over completions", Imputed(N_COMPLETIONS, "score")),
    "likelihood": (
        "partial-marginal",
        "ratio of likelihoods marginalised over completions",
        Imputed(N_COMPLETIONS, "likelihood"),
    ),
    "best": ("partial-rmia-best", "RMIA's log ratio on the completed record", Imputed()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RMIA(AttackSettings):
    """Share of known non-members whose probability ratio the record exceeds (Zarifzadeh et al. 2024)."""

    mode: Literal["offline", "online"] = setting("offline", AS_LIRA)
    augment: bool = setting(
        False,
        "also asks about mirrored and shifted images, 18 queries a record, which vote",
        documents=(False,),
    )
    residual: bool = setting(False, RESIDUAL, documents=(False,))
    known: Literal["any", "best", "draws", "likelihood"] = setting(
        "any",
        "of partly known records the best completion. The other choices refuse whole records and read the logarithm of "
        'the ratio: of the best completion, its mean over 8 random completions ("draws"), or that of likelihoods '
        'averaged over them ("likelihood")',
        documents=("any",),
    )

    def _check_combination(self) -> None:
        check_known(self)

    def _classifier_recipe(self) -> Recipe:
        if self.known != "any":
            return self._partial_recipe()
        name, offline_a = ("rmia", 0.3) if self.mode == "offline" else ("rmia-online", None)
        attack = attacks.RMIA(offline_a=offline_a)
        recipe = make_recipe(name, "confidence", attack, f"{self.mode} relative attack (Zarifzadeh et al. 2024)")
        if self.augment:
            recipe = augmented(recipe, attacks.MajorityRMIA(attack))
        return residual(recipe) if self.residual else recipe

    def _partial_recipe(self) -> Recipe:
        # Shares of dominated records tie and cannot be averaged; BASE with a scale of 1 is the ratio in logarithms.
        attack: attacks.BASE
        if self.mode == "online":
            name, imputed, attack = "partial-rmia-online", Imputed(), attacks.BASE("online")
            summary = "RMIA's log ratio, IN models trained on completed records"
        else:
            name, summary, imputed = _PARTIAL_FORMS[self.known]
            attack = attacks.BASE(scale=1.0)
        return make_recipe(name, "negative-loss", attack, summary, imputed=imputed, partial=True)

    def _document_recipe(self) -> Recipe:
        name, offline_a = ("rmia", 1.0) if self.mode == "offline" else ("rmia-online", None)
        summary = f"{self.mode} relative attack (Zarifzadeh et al. 2024)"
        return make_recipe(name, "token_probability", attacks.RMIA(offline_a=offline_a), summary)
