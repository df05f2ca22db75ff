"""The attacks and their settings. Each is declared once; the list, the plan and the documentation read it from here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeAlias,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from divulge import attacks, regressors, signals
from divulge.completion import Mean
from divulge.errors import InputError
from divulge.recipes.recipe import Imputed, Recipe
from divulge.signals.boundary import BoundaryDistance, NoiseRobustness
from divulge.signals.margin import DeepMultipliers, KKTMultipliers, MarginAbs, MarginBand
from divulge.signals.versions import ImageVersions
from divulge.validation import check_bool, check_choice, format_value

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.attacks import Scores
    from divulge.recipes.recipe import References

Mode: TypeAlias = Literal["offline", "online"]
RecordType: TypeAlias = Literal["classifiers", "documents"]

N_COMPLETIONS = 8
"""Random completions of a partly known record, where an attack averages over them."""

# What a result of `auto` says of the circumstances.
_NO_REFERENCES = "as there are no reference models, with which attacks see more"
_BASE_ALONE = "as there are no fine-tunes on other documents, with which attacks see more"
_LABELS_ONLY = "as the target gives labels alone"

_TREES = attacks.QuantileRegression(conformal=False)

# Recipes that share the object share its queries.
_BOUNDARY, _NOISE, _RECALL = BoundaryDistance(), NoiseRobustness(), signals.ReCaLL()


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of an attack.

    Args:
        name: its name in Python and in a plan.
        default: the value without it.
        choices: every value that it may have; none for the name of a file or folder.
        meaning: what it does, in one line.
    """

    name: str
    default: str | bool
    choices: tuple[str | bool, ...]
    meaning: str

    def __str__(self) -> str:
        if not self.choices:
            return f'{self.name} = "FOLDER"'
        other_choices = [choice for choice in self.choices if choice != self.default]
        choices = " | ".join(_format_toml(choice) for choice in (self.default, *other_choices))
        return f"{self.name} = {choices}"


@dataclass(frozen=True, slots=True)
class _Only:
    """Choices of a setting for classifiers and for documents; None for all of them."""

    classifiers: tuple[str | bool, ...] | None = None
    documents: tuple[str | bool, ...] | None = None


class AttackSettings:
    """Base of the settings of an attack: frozen, checked when they are made, and turned into a recipe by `recipe`.

    A sub-class is a frozen dataclass whose fields are strings (`Literal`, or ``str`` for a folder) or booleans. Its
    docstring says what the attack is in the first line, and what each field does under ``Args``.
    """

    __slots__ = ()

    name: ClassVar[str]
    """The attack's name in a plan and in `divulge list`."""

    def __post_init__(self) -> None:
        for setting in self.settings():
            _check_setting(getattr(self, setting.name), setting, f"{type(self).__name__}.{setting.name}")
        self._check_combination()

    @classmethod
    def description(cls) -> str:
        """Return what the attack is, in one line."""
        return (inspect.getdoc(cls) or cls.name).split("\n", 1)[0]

    @classmethod
    def settings(cls, record_type: RecordType | None = None) -> tuple[Setting, ...]:
        """Return the settings, for records of one type or of any; a setting with a single choice is left out."""
        listed = (inspect.getdoc(cls) or "").partition("Args:\n")[2]
        meanings = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", listed, re.MULTILINE))
        annotations = get_type_hints(cls, include_extras=True)
        settings = []
        for field in fields(cast("Any", cls)):
            choices = _choices(annotations[field.name], record_type)
            if len(choices) != 1:
                meaning = re.sub(r"\s+", " ", meanings.get(field.name, "")).rstrip(".")
                settings.append(Setting(field.name, cast("str | bool", field.default), choices, meaning))
        return tuple(settings)

    @classmethod
    def record_types(cls) -> tuple[RecordType, ...]:
        """Return what the attack is for: classifiers, documents under language models, or both."""
        types: list[RecordType] = []
        if issubclass(cls, _AttacksClassifiers):
            types.append("classifiers")
        if issubclass(cls, _AttacksDocuments):
            types.append("documents")
        return tuple(types)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], key: str, folder: Path | None = None) -> AttackSettings:
        """Return the settings in a plan's table.

        Args:
            table: setting → value.
            key: where the table stands, as errors name it.
            folder: where relative names of folders start; None for the current one.

        Raises:
            divulge.InputError: an unknown setting or value; the message names the key, the choices and the value, and
                the nearest choice.
        """
        settings = {setting.name: setting for setting in cls.settings()}
        if table and not settings:
            raise InputError(f"{key}: {cls.name} has no settings, got {', '.join(table)}")
        for name, value in table.items():
            check_choice(name, f"{key}: setting", settings)
            _check_setting(value, settings[name], f"{key}.{name}")
        named_folders = {name: str(folder / table[name]) for name in table if folder and not settings[name].choices}
        return cls(**{**table, **named_folders})

    def changes(self) -> dict[str, str | bool]:
        """Return the settings that differ from the defaults."""
        values = {setting.name: getattr(self, setting.name) for setting in self.settings()}
        defaults = {setting.name: setting.default for setting in self.settings()}
        return {name: value for name, value in values.items() if value != defaults[name]}

    def recipe(self, *, documents: bool = False) -> Recipe:
        """Return the recipe with these settings.

        Args:
            documents: whether the target is a language model.

        Raises:
            divulge.InputError: an attack or a setting that is for the other type of records.
        """
        record_type: RecordType = "documents" if documents else "classifiers"
        subject = "a language model" if documents else "a classifier"
        if record_type not in self.record_types():
            raise InputError(f"recipes: {self.name!r} is no attack on {subject}, the target")
        choices = {setting.name: setting.choices for setting in self.settings(record_type)}
        for setting in self.settings():
            value = getattr(self, setting.name)
            if setting.name in choices and not choices[setting.name]:
                continue
            if value not in choices.get(setting.name, (setting.default,)):
                allowed = " or ".join(_format_toml(choice) for choice in choices.get(setting.name, (setting.default,)))
                raise InputError(
                    f"{type(self).__name__}.{setting.name}: of {subject} it can be {allowed}, got {_format_toml(value)}"
                )
        if documents:
            assert isinstance(self, _AttacksDocuments)
            return self._document_recipe()
        assert isinstance(self, _AttacksClassifiers)
        return self._classifier_recipe()

    def _check_combination(self) -> None:
        """Check that the settings go together."""

    def refuse(self, setting: str, other_setting: str, reason: str) -> None:
        """Raise an error about two settings that do not go together."""
        pairs = " and ".join(f"{name}={getattr(self, name)!r}" for name in (setting, other_setting))
        raise InputError(f"{type(self).__name__}: {pairs} do not go together: {reason}")


@runtime_checkable
class _AttacksClassifiers(Protocol):
    def _classifier_recipe(self) -> Recipe: ...


@runtime_checkable
class _AttacksDocuments(Protocol):
    def _document_recipe(self) -> Recipe: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(AttackSettings):
    """Threshold on one signal of the target, LOSS by default; without reference models (Yeom et al. 2018).

    Args:
        signal: the signal. "max-probability" and "gap", that between the two largest logits, need no label;
            "weight-gradient" is the length of the loss's gradient in all weights and needs a torch module.
        known: of partly known records the best completion; "best" refuses whole records.
    """

    name: ClassVar[str] = "loss"

    signal: Annotated[
        Literal[
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
        ],
        _Only(
            classifiers=("loss", "entropy", "gap", "max-probability", "weight-gradient"),
            documents=("loss", "last-tokens", "last-quarter", "zlib", "min-k", "min-k++", "entropy", "recall"),
        ),
    ] = "loss"
    known: Annotated[Literal["any", "best"], _Only(documents=("any",))] = "any"

    def _check_combination(self) -> None:
        if self.known != "any" and self.signal != "loss":
            self.refuse("signal", "known", "only the loss has a form that refuses whole records")

    def _classifier_recipe(self) -> Recipe:
        if self.known == "best":
            return Recipe(
                "partial-loss",
                "negative-loss",
                attacks.Threshold(),
                summary="LOSS on the completed record",
                partial=True,
            )
        signal_and_summary = {
            "loss": ("negative-loss", "LOSS: how small the loss is (Yeom et al. 2018)"),
            "entropy": ("modified-entropy", "modified entropy (Song & Mittal 2021)"),
            "gap": ("top-two-gap", "top-two logit gap; needs no label"),
            "max-probability": ("max-probability", "how sure the target is; needs no label (Salem et al. 2019)"),
            "weight-gradient": (
                "weight-gradient",
                "how short the loss's gradient is in all parameters (Nasr et al. 2019)",
            ),
        }
        signal, summary = signal_and_summary[self.signal]
        return Recipe(self.signal, signal, attacks.Threshold(), summary=summary)

    def _document_recipe(self) -> Recipe:
        signal_and_summary: dict[str, tuple[Any, str]] = {
            "loss": ("log_likelihood", "LOSS: how likely the tokens are on average (Yeom et al. 2018)"),
            "last-tokens": ("last_tokens", "how likely the last tokens are; of a model tuned on answers alone"),
            "last-quarter": ("last_quarter", "how likely the last quarter of the tokens is; of longer answers"),
            "zlib": ("zlib", "likelihood over compressed size (Carlini et al. 2021)"),
            "min-k": ("min_k", "likelihood of the least likely tokens (Shi et al. 2024)"),
            "min-k++": ("min_k_plus", "the same, standardised (Zhang et al. 2025)"),
            "entropy": ("modified_entropy", "modified entropy (Song & Mittal 2021)"),
            "recall": (_RECALL, "likelihood after other documents over likelihood alone (Xie et al. 2024)"),
        }
        signal, summary = signal_and_summary[self.signal]
        return Recipe(self.signal, signal, attacks.Threshold(), summary=summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated(AttackSettings):
    """The target's signal minus its mean under other models (Watson et al. 2022; of a base, Carlini et al. 2021).

    Args:
        reference: the other models: trained on no candidate, or the base that a language model was fine-tuned from.
        tokens: of a document all tokens alike, above all the last, or the last quarter.
    """

    name: ClassVar[str] = "calibrated"

    reference: Annotated[Literal["out", "base"], _Only(classifiers=("out",))] = "out"
    tokens: Annotated[Literal["all", "last", "last-quarter"], _Only(classifiers=("all",))] = "all"

    def _classifier_recipe(self) -> Recipe:
        summary = "loss minus its mean under reference models (Watson et al. 2022)"
        return Recipe("calibrated", "negative-loss", attacks.Calibrated(), "out", summary)

    def _document_recipe(self) -> Recipe:
        if self.tokens != "all":
            name, signal = ("last-tokens", "last_tokens") if self.tokens == "last" else ("last-quarter", "last_quarter")
            models = "the model that was fine-tuned" if self.reference == "base" else "fine-tunes on other documents"
            summary = f"{name.replace('-', ' ')}, relative to {models}"
            return Recipe(f"{name}-{self.reference}", signal, attacks.Calibrated(), self.reference, summary)
        if self.reference == "base":
            summary = "likelihood relative to the model that was fine-tuned (Carlini et al. 2021)"
            return Recipe("base-ratio", "log_likelihood", attacks.Calibrated(), "base", summary)
        summary = "likelihood relative to fine-tunes on other documents (Watson et al. 2022)"
        return Recipe("reference-ratio", "log_likelihood", attacks.Calibrated(), "out", summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels(AttackSettings):
    """Label-only attacks: from the predicted labels of each record and of points around it.

    Args:
        signal: whether the record is told right (one query), its distance to the decision boundary (at most 500),
            or the share of noisy copies told right (50).
        calibrated: less the probability under reference models.
        residual: beyond what the candidates' own features explain.
    """

    name: ClassVar[str] = "labels"

    signal: Literal["correct", "boundary", "noise"] = "correct"
    calibrated: bool = False
    residual: bool = False

    def _check_combination(self) -> None:
        if self.calibrated and self.signal != "correct":
            self.refuse("signal", "calibrated", "reference models are asked about the records themselves alone")

    def _classifier_recipe(self) -> Recipe:
        if self.calibrated:
            recipe = Recipe(
                "correct-calibrated",
                "correctness",
                attacks.Calibrated(),
                "out",
                "labels only: that, minus the probability of it under reference models",
            )
        else:
            signal_and_summary: dict[str, tuple[Any, str, str]] = {
                "correct": ("correctness", "whether the record is told right", "that"),
                "boundary": (_BOUNDARY, "distance to the decision boundary", "that distance"),
                "noise": (_NOISE, "share of noisy copies told right", "that share"),
            }
            signal, summary, fallback_attack = signal_and_summary[self.signal]
            if self.residual:
                return Recipe(
                    f"{self.signal}-residual",
                    signal,
                    attacks.Residual(attacks.Threshold()),
                    features=True,
                    summary=f"labels only: {fallback_attack} beyond what the candidates' own features explain",
                )
            recipe = Recipe(self.signal, signal, attacks.Threshold(), summary=f"labels only: {summary}")
        return _residual(recipe) if self.residual else recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(AttackSettings):
    """Loss under models that learned from the target's labels, which are all that it reads (Li & Zhang 2021)."""

    name: ClassVar[str] = "transfer"

    def _classifier_recipe(self) -> Recipe:
        summary = "labels only: loss under models that learned from the target's labels (Li & Zhang 2021)"
        return Recipe("transfer", "label-loss", attacks.Substitute(), "substitutes", summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiRA(AttackSettings):
    """Likelihood ratio of the signal under models trained with and without the record (Carlini et al. 2022).

    Args:
        mode: "offline" compares with models trained on no candidate, "online" with models that are each trained on a
            random half of the candidates.
        augment: also asks about mirrored and shifted images, 18 queries a record.
        residual: beyond what the candidates' own features explain.
        tokens: the tokens of a document as one mean, or one by one with the correlation between neighbours.
        known: of partly known records the best completion; "best" and "draws" refuse whole records, "draws" averages
            the signal over 8 random completions.
    """

    name: ClassVar[str] = "lira"

    mode: Mode = "offline"
    augment: Annotated[bool, _Only(documents=(False,))] = False
    residual: Annotated[bool, _Only(documents=(False,))] = False
    tokens: Annotated[Literal["mean", "correlated"], _Only(classifiers=("mean",))] = "mean"
    known: Annotated[Literal["any", "best", "draws"], _Only(documents=("any",))] = "any"

    def _check_combination(self) -> None:
        _check_known(self)
        if self.tokens == "correlated" and self.mode == "online":
            self.refuse("tokens", "mode", "the test of tokens is made for models that did not see the document")

    def _classifier_recipe(self) -> Recipe:
        online = self.mode == "online"
        recipe = Recipe(
            "lira-online" if online else "lira",
            "scaled-logit",
            attacks.LiRA(mode=self.mode, variance="global"),
            _reference_models(self.mode),
            "online likelihood ratio (Carlini et al. 2022)"
            if online
            else "offline likelihood ratio, one-sided (Carlini et al. 2022)",
        )
        if self.known != "any":
            summary = "online LiRA, IN models trained on completed records" if online else "offline LiRA"
            if self.known == "draws":
                return _partial(recipe, f"{summary}, its signal averaged over completions", "signal")
            return _partial(recipe, summary if online else f"{summary} on the completed record", best=not online)
        if self.augment:
            recipe = _augmented(recipe, attacks.Averaged(recipe.attack))
        return _residual(recipe) if self.residual else recipe

    def _document_recipe(self) -> Recipe:
        if self.tokens == "correlated":
            summary = "offline likelihood ratio over correlated tokens (after Rossi et al. 2025)"
            return Recipe("lira-sequence", "log_likelihood", attacks.SequenceLiRA(), "out", summary)
        return Recipe(
            "lira-online" if self.mode == "online" else "lira",
            "log_likelihood",
            attacks.LiRA(mode=self.mode),
            _reference_models(self.mode),
            f"{self.mode} likelihood ratio (Carlini et al. 2022)",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BaVarIA(AttackSettings):
    """LiRA with a prior on the variances, for few reference models (Brännvall 2026).

    Args:
        mode: as for lira.
    """

    name: ClassVar[str] = "bavaria"

    mode: Mode = "offline"

    def _classifier_recipe(self) -> Recipe:
        return Recipe(
            "bavaria-online" if self.mode == "online" else "bavaria",
            "scaled-logit",
            attacks.BaVarIA(self.mode),
            _reference_models(self.mode),
            f"{self.mode} LiRA with a prior on variances, for few references (Brännvall 2026)",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RMIA(AttackSettings):
    """Share of known non-members whose probability ratio the record exceeds (Zarifzadeh et al. 2024).

    Args:
        mode: as for lira.
        augment: also asks about mirrored and shifted images, 18 queries a record, which vote.
        residual: beyond what the candidates' own features explain.
        known: of partly known records the best completion. The other choices refuse whole records and read the
            logarithm of the ratio: of the best completion, its mean over 8 random completions ("draws"), or that of
            likelihoods averaged over them ("likelihood").
    """

    name: ClassVar[str] = "rmia"

    mode: Mode = "offline"
    augment: Annotated[bool, _Only(documents=(False,))] = False
    residual: Annotated[bool, _Only(documents=(False,))] = False
    known: Annotated[Literal["any", "best", "draws", "likelihood"], _Only(documents=("any",))] = "any"

    def _check_combination(self) -> None:
        _check_known(self)

    def _classifier_recipe(self) -> Recipe:
        online = self.mode == "online"
        if self.known != "any":
            return self._partial_recipe()
        attack = attacks.RMIA(offline_a=None) if online else attacks.RMIA()
        recipe = Recipe(
            "rmia-online" if online else "rmia",
            "confidence",
            attack,
            _reference_models(self.mode),
            f"{self.mode} relative attack (Zarifzadeh et al. 2024)",
        )
        if self.augment:
            recipe = _augmented(recipe, attacks.MajorityRMIA(attack))
        return _residual(recipe) if self.residual else recipe

    def _partial_recipe(self) -> Recipe:
        # Shares of dominated records tie and cannot be averaged; BASE with a scale of 1 is the ratio in logarithms.
        names = {"draws": "partial-rmia", "likelihood": "partial-marginal", "best": "partial-rmia-best"}
        summaries = {
            "draws": "RMIA's log ratio, averaged over completions",
            "likelihood": "ratio of likelihoods marginalised over completions",
            "best": "RMIA's log ratio on the completed record",
        }
        imputed = {
            "draws": Imputed(N_COMPLETIONS, "score"),
            "likelihood": Imputed(N_COMPLETIONS, "likelihood"),
            "best": Imputed(),
        }
        online = self.mode == "online"
        return Recipe(
            "partial-rmia-online" if online else names[self.known],
            "negative-loss",
            attacks.BASE("online") if online else attacks.BASE(scale=1.0),
            _reference_models(self.mode),
            "RMIA's log ratio, IN models trained on completed records" if online else summaries[self.known],
            imputed[self.known],
            partial=True,
        )

    def _document_recipe(self) -> Recipe:
        online = self.mode == "online"
        return Recipe(
            "rmia-online" if online else "rmia",
            "token_probability",
            attacks.RMIA(offline_a=None if online else 1.0),
            _reference_models(self.mode),
            f"{self.mode} relative attack (Zarifzadeh et al. 2024)",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BASE(AttackSettings):
    """Log-probability beyond that under other models: RMIA without a population (Lassila et al. 2025).

    Args:
        mode: as for lira.
    """

    name: ClassVar[str] = "base"

    mode: Mode = "offline"

    def _classifier_recipe(self) -> Recipe:
        return Recipe(
            "base-online" if self.mode == "online" else "base",
            "negative-loss",
            attacks.BASE(self.mode),
            _reference_models(self.mode),
            f"{self.mode} BASE, RMIA without a population (Lassila et al. 2025)",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned(AttackSettings):
    """Log-odds of membership, learned from the reference models' own training records.

    Args:
        mode: as for lira; "online" learns from the candidates in place of the population.
        few: training for one to four reference models: the target is one more model that did not see the population.
        inside: also weighs the angle between a torch network's last hidden layer and the record's class; with few.
        residual: beyond what the candidates' own features explain.
        known: of partly known records the best completion; "best" refuses whole records.
    """

    name: ClassVar[str] = "learned"

    mode: Mode = "offline"
    few: Annotated[bool, _Only(documents=(False,))] = False
    inside: Annotated[bool, _Only(documents=(False,))] = False
    residual: Annotated[bool, _Only(documents=(False,))] = False
    known: Annotated[Literal["any", "best"], _Only(documents=("any",))] = "any"

    def _check_combination(self) -> None:
        if self.few and self.mode == "online":
            self.refuse("few", "mode", "online, the attack learns from the candidates, which the target may have seen")
        if self.inside and not self.few:
            self.refuse("inside", "few", "the angle is weighed only where few reference models are learned from")
        if self.known != "any":
            for setting in ("few", "residual"):
                if getattr(self, setting):
                    self.refuse("known", setting, "a form that refuses whole records is not measured with it")

    def _classifier_recipe(self) -> Recipe:
        if self.inside:
            recipe = Recipe(
                "learned-white-box",
                "scaled-logit",
                attacks.Learned(few=True, beside=True),
                "out",
                "learned-few with the angle between the last hidden layer and the record's class",
                beside=("feature-angle",),
            )
        elif self.few:
            summary = "the same with the target among the models not trained on a record; for few references"
            recipe = Recipe("learned-few", "scaled-logit", attacks.Learned(few=True), "out", summary)
        else:
            online = self.mode == "online"
            records = "models trained on halves of the candidates" if online else "the reference models' own records"
            recipe = Recipe(
                "learned-online" if online else "learned",
                "scaled-logit",
                attacks.Learned(self.mode),
                _reference_models(self.mode),
                f"log-odds learned on {records}",
            )
            if self.known == "best":
                completed = "log-odds learned on IN models trained on completed records"
                return _partial(recipe, completed if online else recipe.summary)
        return _residual(recipe) if self.residual else recipe

    def _document_recipe(self) -> Recipe:
        online = self.mode == "online"
        return Recipe(
            "learned-online" if online else "learned",
            "scaled_likelihood",
            attacks.Learned(self.mode),
            _reference_models(self.mode),
            "log-odds learned on models fine-tuned on halves of the candidates"
            if online
            else "log-odds learned on the reference models' own documents",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(AttackSettings):
    """Quantile regression of the signal on records, without reference models (Bertran et al. 2023).

    Args:
        signal: the true class's logit above the largest other one, or the gap between the two largest logits, which
            needs no label (Thaker et al. 2025).
        regressor: what predicts mean and spread of a non-member's signal. "network" is the published one: a network
            with a Gaussian head that reads the record itself and needs torch. "trees" are boosted trees, ours, on
            features and class.
        weights: folder of a pretrained image network to fine-tune (the paper's: ConvNeXt-Tiny), in the format of the
            transformers library; without it, and beside features of your own, the network reads images as rows of
            pixels.
    """

    name: ClassVar[str] = "quantile"

    signal: Annotated[Literal["hinge", "gap"], _Only(documents=("hinge",))] = "hinge"
    regressor: Literal["network", "trees"] = "network"
    weights: Annotated[str, _Only(documents=("",))] = ""

    def _check_combination(self) -> None:
        if self.weights and self.regressor == "trees":
            self.refuse("regressor", "weights", "trees have no pretrained weights")

    def _classifier_recipe(self) -> Recipe:
        if self.signal == "gap":
            return self._recipe("quantile-gap", "top-two-gap", "top-two gap, for unseen classes (Thaker et al. 2025)")
        return self._recipe("quantile", "hinge", "true-class hinge (Bertran et al. 2023)")

    def _document_recipe(self) -> Recipe:
        return self._recipe("quantile", "log_likelihood", "likelihood (Bertran et al. 2023)")

    def _recipe(self, name: str, signal: str, signal_text: str) -> Recipe:
        if self.regressor == "trees":
            summary = f"the same with boosted trees on features and class: {signal_text}"
            return Recipe(f"{name}-trees", signal, _TREES, features=True, summary=summary)
        attack = attacks.QuantileRegression(regressors.Network.published(self.weights or None), conformal=False)
        return Recipe(name, signal, attack, features=True, summary=f"quantile regression on the {signal_text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transductive(AttackSettings):
    """Signal beyond what the candidates' own features explain, without reference models; for unseen classes.

    Args:
        quantile: averages ranks with quantile regression by boosted trees.
    """

    name: ClassVar[str] = "transductive"

    quantile: bool = False

    def _classifier_recipe(self) -> Recipe:
        if self.quantile:
            return Recipe(
                "combined",
                "hinge",
                attacks.Combined((_TREES, attacks.Transductive())),
                features=True,
                summary="mean rank under quantile-trees and the transductive attack, for unseen classes",
            )
        summary = "hinge beyond what the candidates' own features explain, for unseen classes"
        return Recipe("transductive", "hinge", attacks.Transductive(), features=True, summary=summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class WBC(AttackSettings):
    """Share of a document's windows that are likelier than under another model (Chen et al. 2026).

    Args:
        reference: the other model: the one that was fine-tuned, or fine-tunes on other documents.
    """

    name: ClassVar[str] = "wbc"

    reference: Literal["base", "out"] = "base"

    def _document_recipe(self) -> Recipe:
        if self.reference == "out":
            summary = "the same, relative to fine-tunes on other documents"
            return Recipe("windows", "log_likelihood", attacks.WBC(), "out", summary)
        summary = "share of windows likelier than under the model that was fine-tuned (Chen et al. 2026)"
        return Recipe("wbc", "log_likelihood", attacks.WBC(), "base", summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class EZ(AttackSettings):
    """Gains over losses in likelihood, at tokens that the target itself would not have put there (Ilić et al. 2026).

    Args:
        reference: the other model: the one that was fine-tuned (the paper's first choice), or fine-tunes on other
            documents.
        smoothed: the logarithm of the ratio with 1 added to both sides, which is ours. As published, a document that
            gains wherever the target is wrong has the lowest score.
    """

    name: ClassVar[str] = "ez"

    reference: Literal["base", "out"] = "base"
    smoothed: bool = False

    def _document_recipe(self) -> Recipe:
        compared_models = (
            "fine-tunes on other documents" if self.reference == "out" else "the model that was fine-tuned"
        )
        summary = f"gains over losses relative to {compared_models}, where the target is wrong"
        name = f"ez{'-out' * (self.reference == 'out')}{'-smoothed' * self.smoothed}"
        source = "smoothed; ours, after Ilić et al. 2026" if self.smoothed else "Ilić et al. 2026"
        return Recipe(name, "log_likelihood", attacks.EZ(self.smoothed), self.reference, f"{summary} ({source})")


@dataclass(frozen=True, slots=True, kw_only=True)
class MRAD(AttackSettings):
    """Descent on the unknown values of partly known records, for comparison (MRAD, arXiv:2508.06244, and kin).

    Args:
        method: deviation of what the descent arrives at, that relative to two shadow models, the norm of the gradient
            alone, or the match with a member's gradient.
    """

    name: ClassVar[str] = "mrad"

    method: Literal["mrad", "mrad-shadow", "gradient-norm", "gradient-matching"] = "mrad"

    def _classifier_recipe(self) -> Recipe:
        signal_and_summary: dict[str, tuple[Any, str]] = {
            "mrad": (
                signals.MRAD(),
                "descend the loss on the unknown values, then detect deviations (MRAD; for comparison)",
            ),
            "mrad-shadow": (signals.MRAD(shadows=2), "MRAD's deviation relative to two shadow models'"),
            "gradient-norm": (
                signals.MRAD(detector="gradient-norm", start=Mean(per_class=False), directions=5),
                "norm of the loss's gradient on the unknown values (for comparison)",
            ),
            "gradient-matching": (signals.GradientMatching(), "match a member's gradient (as DLG does)"),
        }
        signal, summary = signal_and_summary[self.method]
        return Recipe(self.method, signal, attacks.Threshold(), summary=summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin(AttackSettings):
    """Margin attacks on the weights of a homogeneous ReLU network with two classes.

    Args:
        method: the size of the output, how close it is to the margin, the multiplier in the best KKT explanation of the
            weights, or the same for deep networks, of which nothing is proven.
    """

    name: ClassVar[str] = "margin"

    method: Literal["margin-abs", "margin-band", "kkt-nnls", "kkt-nnls-deep"] = "margin-abs"

    def _classifier_recipe(self) -> Recipe:
        signal_and_summary: dict[str, tuple[Any, str]] = {
            "margin-abs": (MarginAbs(), "how large the network's output is"),
            "margin-band": (MarginBand(), "how close the output is to the margin"),
            "kkt-nnls": (KKTMultipliers(), "the record's multiplier in the best KKT explanation of the weights"),
            "kkt-nnls-deep": (
                DeepMultipliers(),
                "the same for deep homogeneous networks, of which nothing is proven",
            ),
        }
        signal, summary = signal_and_summary[self.method]
        return Recipe(self.method, signal, attacks.Threshold(), summary=summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(AttackSettings):
    """Mean of the attacks that do best in the circumstances; its result names them. The default."""

    name: ClassVar[str] = "auto"

    def recipe_in(
        self,
        *,
        documents: bool = False,
        labels_only: bool = False,
        has_references: bool = True,
        has_base: bool = False,
        has_vocabulary: bool = True,
    ) -> Recipe:
        """Return the recipe "auto" for the circumstances; docs/methods/attacks.md says why each is what it is.

        Args:
            documents: whether the target is a language model.
            labels_only: whether a classifier gives labels alone.
            has_references: whether there are reference models (of documents: fine-tunes).
            has_base: whether there is the model that a language model was fine-tuned from.
            has_vocabulary: whether a language model gives probabilities of the whole vocabulary.
        """
        if documents:
            if has_references or has_base:
                return self._document_ratio("out" if has_references else "base", has_vocabulary=has_vocabulary)
            return self._document_threshold(has_vocabulary=has_vocabulary)
        if labels_only:
            return self._label_only_recipe(has_references=has_references)
        return self._classifier_recipe() if has_references else self._recipe_without_references()

    def _classifier_recipe(self) -> Recipe:
        return Recipe(
            "auto",
            "scaled-logit",
            attacks.Auto(),
            "out",
            "mean of the attacks that do best with each reference model as the target",
            features=True,
        )

    def _document_recipe(self) -> Recipe:
        return self._document_ratio("out", has_vocabulary=True)

    def _recipe_without_references(self) -> Recipe:
        names = ("quantile-trees", "transductive")
        return Recipe(
            "auto",
            "hinge",
            attacks.Consensus((_TREES, attacks.Transductive()), names, _NO_REFERENCES),
            features=True,
            summary="mean of quantile-trees and the transductive attack, as there are no reference models",
        )

    def _label_only_recipe(self, *, has_references: bool) -> Recipe:
        if has_references:
            attack = attacks.Consensus((attacks.Calibrated(),), ("correct-calibrated",), _LABELS_ONLY)
            return Recipe("auto", "correctness", attack, "out", "correct-calibrated, as the target gives labels alone")
        reason = f"{_LABELS_ONLY}; {_NO_REFERENCES}"
        return Recipe(
            "auto",
            "correctness",
            attacks.Consensus((attacks.Residual(attacks.Threshold()),), ("correct-residual",), reason),
            features=True,
            summary="labels only: whether the record is told right, beyond what features explain",
        )

    def _document_ratio(self, reference: Literal["out", "base"], *, has_vocabulary: bool) -> Recipe:
        if reference == "base":
            names, other_attack = ("wbc", "base-ratio"), attacks.Calibrated()
        elif has_vocabulary:
            names, other_attack = ("windows", "ez-out-smoothed"), attacks.EZ(smoothed=True)
        else:  # a server does not say where the target is wrong
            names, other_attack = ("windows", "reference-ratio"), attacks.Calibrated()
        attack = attacks.Consensus((attacks.WBC(), other_attack), names, "" if reference == "out" else _BASE_ALONE)
        return Recipe("auto", "log_likelihood", attack, reference, f"mean of {names[0]} and {names[1]}")

    def _document_threshold(self, *, has_vocabulary: bool) -> Recipe:
        name, signal = ("min-k++", "min_k_plus") if has_vocabulary else ("min-k", "min_k")
        attack = attacks.Consensus((attacks.Threshold(),), (name,), _NO_REFERENCES)
        return Recipe("auto", signal, attack, summary=f"{name}, as there are no reference models")


ATTACKS: tuple[type[AttackSettings], ...] = (
    Auto,
    Loss,
    Calibrated,
    LiRA,
    BaVarIA,
    RMIA,
    BASE,
    Learned,
    WBC,
    EZ,
    Quantile,
    Transductive,
    Labels,
    Transfer,
    MRAD,
    Margin,
)
"""Every attack, in the order of the list."""


def _check_setting(value: Any, setting: Setting, key: str) -> None:
    if not setting.choices:
        if not isinstance(value, str):
            raise InputError(f"{key}: the name of a folder is needed, got {format_value(value)}")
    elif all(isinstance(choice, bool) for choice in setting.choices):
        check_bool(value, key)
    else:
        check_choice(value, key, [str(choice) for choice in setting.choices])


def _choices(annotation: Any, record_type: RecordType | None) -> tuple[str | bool, ...]:
    """Return the choices that an annotation names, for records of one type or of any."""
    if get_origin(annotation) is Annotated:
        inner, only = get_args(annotation)
        restricted = None if record_type is None else getattr(only, record_type)
        return _choices(inner, None) if restricted is None else restricted
    return (False, True) if annotation is bool else get_args(annotation)


def _format_toml(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'


def _check_known(settings: LiRA | RMIA) -> None:
    """Check that a form that refuses whole records goes with the other settings."""
    if settings.known == "any":
        return
    for setting in ("augment", "residual"):
        if getattr(settings, setting):
            settings.refuse("known", setting, "a form that refuses whole records is for the records as they are")
    if settings.mode == "online" and settings.known != "best":
        settings.refuse("mode", "known", "models trained on candidates see one completion of each; use known='best'")


def _reference_models(mode: Mode) -> References:
    return "in and out" if mode == "online" else "out"


def _partial(recipe: Recipe, summary: str, average: Literal["signal"] | None = None, *, best: bool = False) -> Recipe:
    """Return the form of a recipe that refuses whole records."""
    return replace(
        recipe,
        name=f"partial-{recipe.name}{'-best' * best}",
        summary=summary,
        imputed=recipe.imputed if average is None else Imputed(N_COMPLETIONS, average),
        partial=True,
    )


def _augmented(recipe: Recipe, attack: Scores) -> Recipe:
    """Return the recipe with an attack that asks about several versions of every image."""
    return replace(
        recipe,
        name=f"{recipe.name}-augmented",
        attack=attack,
        versions=ImageVersions(),
        summary=f"{recipe.name} on images as they are, mirrored and shifted: 18 queries a record",
    )


def _residual(recipe: Recipe) -> Recipe:
    """Return what the recipe's score has beyond what the records' features explain."""
    return replace(
        recipe,
        name=f"{recipe.name}-residual",
        attack=attacks.Residual(recipe.attack),
        features=True,
        summary=f"{recipe.name} beyond what the candidates' own features explain",
    )
