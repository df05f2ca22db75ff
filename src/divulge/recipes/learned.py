"""Membership learned from the reference models' own training records."""

from dataclasses import dataclass
from typing import Literal

from divulge import attacks
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import RESIDUAL, AttackSettings, for_partial_records, make_recipe, residual, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned(AttackSettings):
    """Log-odds of membership, learned from the reference models' own training records."""

    mode: Literal["offline", "online"] = setting(
        "offline", 'as for lira; "online" learns from the candidates in place of the population'
    )
    few: bool = setting(
        False,
        "training for one to four reference models: the target is one more model that did not see the population",
        documents=(False,),
    )
    inside: bool = setting(
        False,
        "also weighs the angle between a torch network's last hidden layer and the record's class; with few",
        documents=(False,),
    )
    residual: bool = setting(False, RESIDUAL, documents=(False,))
    known: Literal["any", "best"] = setting(
        "any", 'of partly known records the best completion; "best" refuses whole records', documents=("any",)
    )

    def _check_combination(self) -> None:
        if self.few and self.mode == "online":
            self.refuse("few", "mode", "online, the attack learns from the candidates, which the target may have seen")
        if self.inside and not self.few:
            self.refuse("inside", "few", "the angle is weighed only where few reference models are learned from")
        for name in ("few", "residual"):
            if self.known != "any" and getattr(self, name):
                self.refuse("known", name, "a form that refuses whole records is not measured with it")

    def _classifier_recipe(self) -> Recipe:
        name = "learned" if self.mode == "offline" else "learned-online"
        if self.inside:
            name, beside = "learned-white-box", ("feature-angle",)
            summary = "learned-few with the angle between the last hidden layer and the record's class"
        elif self.few:
            name, beside = "learned-few", ()
            summary = "the same with the target among the models not trained on a record; for few references"
        else:
            beside = ()
            summary = {
                "offline": "log-odds learned on the reference models' own records",
                "online": "log-odds learned on models trained on halves of the candidates",
            }[self.mode]
        attack = attacks.Learned(self.mode, few=self.few, beside=self.inside)
        recipe = make_recipe(name, "scaled-logit", attack, summary, beside=beside)
        if self.known == "best" and self.mode == "online":
            summary = "log-odds learned on IN models trained on completed records"
        if self.known == "best":
            return for_partial_records(recipe, f"partial-{name}", summary)
        return residual(recipe) if self.residual else recipe

    def _document_recipe(self) -> Recipe:
        name, models = {
            "offline": ("learned", "the reference models' own documents"),
            "online": ("learned-online", "models fine-tuned on halves of the candidates"),
        }[self.mode]
        return make_recipe(name, "scaled_likelihood", attacks.Learned(self.mode), f"log-odds learned on {models}")
