"""The default: the attacks that do best in the circumstances."""

from dataclasses import dataclass
from typing import Literal

from divulge import attacks
from divulge.recipes.recipe import Recipe
from divulge.recipes.settings import AS_LIRA, TREES, AttackSettings, make_recipe, setting

# What a result says of the circumstances.
_NO_REFERENCES = "as there are no reference models, with which attacks see more"
_BASE_ALONE = "as there are no fine-tunes on other documents, with which attacks see more"
_LABELS_ONLY = "as the target gives labels alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(AttackSettings):
    """Mean of the attacks that do best in the circumstances; its result names them. The default."""

    mode: Literal["offline", "online"] = setting("offline", AS_LIRA, documents=("offline",))

    def _classifier_recipe(self) -> Recipe:
        if self.mode == "online":
            summary = "mean of rmia-online and learned-online: reference models saw half of the candidates"
            return make_recipe("auto-online", "scaled-logit", attacks.AutoOnline(), summary)
        return self.recipe_in()

    def _document_recipe(self) -> Recipe:
        return self.recipe_in(documents=True)

    def recipe_in(
        self,
        *,
        documents: bool = False,
        labels_only: bool = False,
        has_references: bool = True,
        has_base: bool = False,
        has_vocabulary: bool = True,
        short_answers: bool = False,
    ) -> Recipe:
        """Return the recipe "auto" for the circumstances; docs/methods/attacks.md says why each is what it is.

        Args:
            documents: whether the target is a language model.
            labels_only: whether a classifier gives labels alone.
            has_references: whether there are reference models (of documents: fine-tunes).
            has_base: whether there is the model that a language model was fine-tuned from.
            has_vocabulary: whether a language model gives probabilities of the whole vocabulary.
            short_answers: whether tokens of answers alone are scored, and there are few of them.
        """
        if documents and (has_references or has_base):
            return self._document_ratio("out" if has_references else "base", has_vocabulary=has_vocabulary)
        if documents and short_answers:
            # Of one token, the likelier of two, min-k++ is √((1 - p) / p): it falls as a model becomes certain of it.
            attack = attacks.Consensus((attacks.Threshold(),), ("loss",), _NO_REFERENCES)
            return make_recipe("auto", "log_likelihood", attack, "loss, as there are no reference models")
        if documents:
            name, signal = ("min-k++", "min_k_plus") if has_vocabulary else ("min-k", "min_k")
            attack = attacks.Consensus((attacks.Threshold(),), (name,), _NO_REFERENCES)
            return make_recipe("auto", signal, attack, f"{name}, as there are no reference models")
        if labels_only and has_references:
            attack = attacks.Consensus((attacks.Calibrated(),), ("correct-calibrated",), _LABELS_ONLY)
            return make_recipe("auto", "correctness", attack, "correct-calibrated, as the target gives labels alone")
        if labels_only:
            inner, reason = attacks.Residual(attacks.Threshold()), f"{_LABELS_ONLY}; {_NO_REFERENCES}"
            attack = attacks.Consensus((inner,), ("correct-residual",), reason)
            summary = "labels only: whether the record is told right, beyond what features explain"
            return make_recipe("auto", "correctness", attack, summary)
        if has_references:
            summary = "mean of the attacks that did best on the reference models, or a usual one if these cannot tell"
            return make_recipe("auto", "scaled-logit", attacks.Auto(), summary)
        names = ("quantile-trees", "transductive")
        attack = attacks.Consensus((TREES, attacks.Transductive()), names, _NO_REFERENCES, "transductive")
        summary = "mean of quantile-trees and the transductive attack, as there are no reference models"
        return make_recipe("auto", "hinge", attack, summary)

    def _document_ratio(self, reference: Literal["out", "base"], *, has_vocabulary: bool) -> Recipe:
        if reference == "base":
            names, other_attack = ("wbc", "base-ratio"), attacks.Calibrated()
        elif has_vocabulary:
            names, other_attack = ("windows", "ez-out-smoothed"), attacks.EZ(smoothed=True)
        else:  # a server does not say where the target is wrong
            names, other_attack = ("windows", "reference-ratio"), attacks.Calibrated()
        attack = attacks.Consensus((attacks.WBC(), other_attack), names, "" if reference == "out" else _BASE_ALONE)
        summary = f"mean of {names[0]} and {names[1]}"
        return make_recipe("auto", "log_likelihood", attack, summary, references=reference)
