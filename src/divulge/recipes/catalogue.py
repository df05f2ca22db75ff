"""The recipes that come with Divulge: names, the settings that they stand for, and how a request becomes a recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from divulge import attacks, errors, user_code
from divulge.errors import InputError
from divulge.recipes.auto import Auto
from divulge.recipes.base import BASE
from divulge.recipes.bavaria import BaVarIA
from divulge.recipes.calibrated import Calibrated
from divulge.recipes.ez import EZ
from divulge.recipes.labels import Labels
from divulge.recipes.learned import Learned
from divulge.recipes.lira import LiRA
from divulge.recipes.loss import Loss
from divulge.recipes.margin import Margin
from divulge.recipes.mrad import MRAD
from divulge.recipes.quantile import Quantile
from divulge.recipes.recipe import Recipe
from divulge.recipes.rmia import RMIA
from divulge.recipes.settings import AttackSettings
from divulge.recipes.transductive import Transductive
from divulge.recipes.transfer import Transfer
from divulge.recipes.wbc import WBC
from divulge.signals.regression import NEGATIVE_SQUARED_LOSS
from divulge.targets import declared_modality, is_language_model, is_regression_model
from divulge.validation import check_choice

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from divulge.attacks.auto import Unit

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
"""Every attack, in the order of the list. A new one is a file beside this one and a line here."""

_WHOLE_RECORDS: dict[str, AttackSettings] = {
    "loss": Loss(),
    "entropy": Loss(signal="entropy"),
    "gap": Loss(signal="gap"),
    "max-probability": Loss(signal="max-probability"),
    "calibrated": Calibrated(),
    "lira": LiRA(),
    "lira-online": LiRA(mode="online"),
    "bavaria": BaVarIA(),
    "bavaria-online": BaVarIA(mode="online"),
    "rmia": RMIA(),
    "rmia-online": RMIA(mode="online"),
    "base": BASE(),
    "base-online": BASE(mode="online"),
    "learned": Learned(),
    "learned-few": Learned(few=True),
    "learned-online": Learned(mode="online"),
    "quantile": Quantile(),
    "quantile-gap": Quantile(signal="gap"),
    "quantile-trees": Quantile(regressor="trees"),
    "quantile-gap-trees": Quantile(signal="gap", regressor="trees"),
    "transductive": Transductive(),
    "combined": Transductive(quantile=True),
    "lira-residual": LiRA(residual=True),
    "rmia-residual": RMIA(residual=True),
    "learned-residual": Learned(residual=True),
    "auto": Auto(),
    "auto-online": Auto(mode="online"),
}
_AUGMENTED: dict[str, AttackSettings] = {
    "lira-augmented": LiRA(augment=True),
    "lira-online-augmented": LiRA(mode="online", augment=True),
    "rmia-augmented": RMIA(augment=True),
    "rmia-online-augmented": RMIA(mode="online", augment=True),
}
_LABEL_ONLY: dict[str, AttackSettings] = {
    "correct": Labels(),
    "correct-calibrated": Labels(calibrated=True),
    "transfer": Transfer(),
    "boundary": Labels(signal="boundary"),
    "boundary-residual": Labels(signal="boundary", residual=True),
    "noise": Labels(signal="noise"),
}
_PARTIAL_RECORDS: dict[str, AttackSettings] = {
    "partial-loss": Loss(known="best"),
    "partial-lira": LiRA(known="draws"),
    "partial-rmia": RMIA(known="draws"),
    "partial-marginal": RMIA(known="likelihood"),
    "partial-learned": Learned(known="best"),
    "partial-lira-online": LiRA(mode="online", known="best"),
    "partial-rmia-online": RMIA(mode="online", known="best"),
    "partial-learned-online": Learned(mode="online", known="best"),
    "mrad": MRAD(),
    "mrad-shadow": MRAD(method="mrad-shadow"),
    "gradient-norm": MRAD(method="gradient-norm"),
    "gradient-matching": MRAD(method="gradient-matching"),
}
_WEIGHTS: dict[str, AttackSettings] = {
    "margin-abs": Margin(),
    "margin-band": Margin(method="margin-band"),
    "kkt-nnls": Margin(method="kkt-nnls"),
    "kkt-nnls-deep": Margin(method="kkt-nnls-deep"),
}
_WHITE_BOX: dict[str, AttackSettings] = {
    "weight-gradient": Loss(signal="weight-gradient"),
    "learned-white-box": Learned(few=True, inside=True),
}
_SPECIAL = _AUGMENTED | _LABEL_ONLY | _PARTIAL_RECORDS | _WEIGHTS | _WHITE_BOX
_DOCUMENTS: dict[str, AttackSettings] = {
    "loss": Loss(),
    "last-tokens": Loss(signal="last-tokens"),
    "last-quarter": Loss(signal="last-quarter"),
    "zlib": Loss(signal="zlib"),
    "min-k": Loss(signal="min-k"),
    "min-k++": Loss(signal="min-k++"),
    "entropy": Loss(signal="entropy"),
    "recall": Loss(signal="recall"),
    "base-ratio": Calibrated(reference="base"),
    "reference-ratio": Calibrated(),
    "last-tokens-base": Calibrated(reference="base", tokens="last"),
    "last-tokens-out": Calibrated(tokens="last"),
    "last-quarter-base": Calibrated(reference="base", tokens="last-quarter"),
    "last-quarter-out": Calibrated(tokens="last-quarter"),
    "wbc": WBC(),
    "windows": WBC(reference="out"),
    "ez": EZ(),
    "ez-smoothed": EZ(smoothed=True),
    "ez-out": EZ(reference="out"),
    "ez-out-smoothed": EZ(reference="out", smoothed=True),
    "lira": LiRA(),
    "lira-sequence": LiRA(tokens="correlated"),
    "lira-online": LiRA(mode="online"),
    "rmia": RMIA(),
    "rmia-online": RMIA(mode="online"),
    "learned": Learned(),
    "learned-online": Learned(mode="online"),
    "quantile": Quantile(),
    "quantile-trees": Quantile(regressor="trees"),
    "auto": Auto(),
}

# What of the true class's probability a classifier's recipe reads: of an error's likelihood, the same.
_ERROR_UNITS: dict[str, Unit] = {
    "negative-loss": "log-probability",
    "confidence": "probability",
    "scaled-logit": "scaled logit",
    "hinge": "scaled logit",
}


def aliases(*, documents: bool = False) -> Mapping[str, AttackSettings]:
    """Return every recipe's name with the settings that it stands for, in the order of the report.

    An attack that has no other name here is called as it is.

    Args:
        documents: the names that hold where the target is a language model.

    Examples:
        >>> aliases()["lira-online"].changes()
        {'mode': 'online'}
    """
    named = _DOCUMENTS if documents else _WHOLE_RECORDS | _SPECIAL
    record_type = "documents" if documents else "classifiers"
    attacks_with_names = {type(settings) for settings in named.values()}
    return named | {
        attack.name: attack()
        for attack in ATTACKS
        if record_type in attack.record_types() and attack not in attacks_with_names
    }


@cache
def everything() -> tuple[Recipe, ...]:
    """Return all named recipes for classifiers: whole records, versions of them, labels, partly known ones, weights."""
    return tuple(settings.recipe() for settings in aliases().values())


@cache
def recipes() -> tuple[Recipe, ...]:
    """Return the recipes for whole records, in the order of the report.

    Examples:
        >>> [recipe.name for recipe in recipes()][:4]
        ['loss', 'entropy', 'gap', 'max-probability']
    """
    return tuple(recipe for recipe in everything() if recipe.name not in _SPECIAL)


def augmented_recipes() -> tuple[Recipe, ...]:
    """Return the recipes that ask about images as they are, mirrored and shifted: 18 queries a record.

    For tables, or versions of one's own, ``dataclasses.replace(recipe, versions=…)`` makes others of them.
    """
    return _named_in(_AUGMENTED)


def label_recipes() -> tuple[Recipe, ...]:
    """Return the recipes that read nothing but the predicted class, of each record and of points around it."""
    return _named_in(_LABEL_ONLY)


def partial_recipes() -> tuple[Recipe, ...]:
    """Return the recipes for records of which only part is known (``dv.audit(known=…)``).

    Every recipe for whole records takes partly known ones too, with the best completion of each. Some have a second
    name here, under which they refuse whole records.
    """
    return _named_in(_PARTIAL_RECORDS)


def weight_recipes() -> tuple[Recipe, ...]:
    """Return the recipes for homogeneous ReLU networks with two classes, whose weights the auditor holds."""
    return _named_in(_WEIGHTS)


def white_box_recipes() -> tuple[Recipe, ...]:
    """Return the recipes that look inside torch networks of any number of classes, the target and the references."""
    return _named_in(_WHITE_BOX)


@cache
def document_recipes() -> tuple[Recipe, ...]:
    """Return the recipes that `divulge.audit` knows where the target is a language model, in the order of the report.

    Several are called as their counterparts for classifiers are: the same attack, on the likelihood of the document.
    """
    return tuple(settings.recipe(documents=True) for settings in aliases(documents=True).values())


def _named_in(table: Mapping[str, AttackSettings]) -> tuple[Recipe, ...]:
    return tuple(recipe for recipe in everything() if recipe.name in table)


@cache
def regression_recipes() -> tuple[Recipe, ...]:
    """Return the recipes that `divulge.audit` knows where the target is a regression model, in the order of the report.

    They are called as their counterparts for classifiers are: the same attack, where the likelihood of the target's
    error takes the place of a class's probability (`divulge.attacks.OnErrors`).
    """
    return tuple(on_errors(recipe) for recipe in recipes() if recipe.signal_name in _ERROR_UNITS)


def on_errors(recipe: Recipe) -> Recipe:
    """Return a classifier's recipe as one for regression models.

    Raises:
        divulge.InputError: its signal is no function of the true class's probability; it asks about versions of
            records, completes them, or trains substitutes.

    Examples:
        >>> on_errors(resolve("lira")).signal_name
        'negative-squared-loss'
    """
    unit = _ERROR_UNITS.get(recipe.signal_name)
    is_plain = recipe.versions is None and not (
        recipe.beside or recipe.needs_known or recipe.references == "substitutes"
    )
    if unit is None or not is_plain:
        usable = [each.name for each in regression_recipes()]
        raise InputError(
            f"recipes: {recipe.name} is no attack on a regression model, the target; there are: {', '.join(usable)}"
        )
    return dataclasses.replace(recipe, signal=NEGATIVE_SQUARED_LOSS, attack=attacks.OnErrors(recipe.attack, unit))


def resolve_regression(requested: object) -> Recipe:
    """Return the recipe for regression models that ``requested`` means, as `resolve` does for classifiers.

    A `Recipe`, or the name of a third party's, is taken as it is.

    Raises:
        divulge.InputError: as `resolve`; an attack that regression models have none of.
    """
    recipe = resolve(requested)
    is_named = isinstance(requested, AttackSettings) or (isinstance(requested, str) and ":" not in requested)
    return on_errors(recipe) if is_named else recipe


def resolve(requested: object, *, documents: bool = False) -> Recipe:
    """Return the recipe that ``requested`` means.

    Args:
        requested: a recipe, settings of an attack, the name of a recipe or of an attack, or a third party's
            ``"module:NAME"`` (one of these, a class of settings, or a function that returns one).
        documents: whether the target is a language model: names then mean the recipes for documents.

    Raises:
        divulge.InputError: unknown name (the nearest is suggested), an import that fails, another type, settings that
            do not suit the target.

    Examples:
        >>> resolve("loss").signal
        'negative-loss'
        >>> resolve(LiRA(mode="online")).name
        'lira-online'
    """
    if isinstance(requested, Recipe):
        return requested
    if isinstance(requested, AttackSettings):
        return requested.recipe(documents=documents)
    if not isinstance(requested, str):
        given = type(requested)
        raise InputError(
            f"recipes: a name, settings such as divulge.recipes.LiRA(), or a Recipe is needed, got "
            f"{given.__module__}.{given.__qualname__}"
        )
    if ":" in requested:
        user_object = user_code.import_object(requested, "recipes").value
        if callable(user_object):
            with errors.user_code_errors(f"recipes: {requested!r}"):
                user_object = user_object()
        if not isinstance(user_object, Recipe | AttackSettings):
            raise InputError(
                f"recipes: {requested!r}: a divulge.recipes.Recipe or settings of an attack are needed, got "
                f"{type(user_object).__name__}"
            )
        return resolve(user_object, documents=documents)
    record_type = "documents" if documents else "classifiers"
    settings = {attack.name: attack() for attack in ATTACKS if record_type in attack.record_types()}
    settings |= aliases(documents=documents)
    return settings[check_choice(requested, "recipes", settings)].recipe(documents=documents)


def resolve_for(target: Any, requested: object) -> Recipe:
    """Return the recipe that ``requested`` means for a target, whose modality may have recipes of its own.

    Raises:
        divulge.InputError: as `resolve`.
    """
    modality = declared_modality(target)
    if modality is not None:
        return modality.resolve_recipe(requested)
    if is_regression_model(target):
        return resolve_regression(requested)
    return resolve(requested, documents=is_language_model(target))


def configure(
    names: Sequence[str], tables: Mapping[str, Mapping[str, Any]], folder: Path | None = None
) -> tuple[str | AttackSettings, ...]:
    """Return what a plan requests: names, and settings in the place of names that have a table.

    Args:
        names: the plan's ``recipes``.
        tables: the plan's ``[recipe.NAME]`` tables.
        folder: where relative names of folders in them start; None for the current one.

    Raises:
        divulge.InputError: a table for an attack that is not among the names, or that there is not; an unknown setting
            or value.

    Examples:
        >>> configure(["loss", "lira"], {"lira": {"mode": "online"}})[1].mode
        'online'
    """
    attacks_by_name = {attack.name: attack for attack in ATTACKS}
    configured = {}
    for name, table in tables.items():
        alias = aliases().get(name) or aliases(documents=True).get(name)
        if name not in attacks_by_name and alias is not None:
            settings = ", ".join(f"{key}={value!r}" for key, value in alias.changes().items())
            raise InputError(f"recipe.{name}: {name!r} is {alias.name!r} with {settings}; write [recipe.{alias.name}]")
        attack = attacks_by_name[check_choice(name, "recipe", attacks_by_name)]
        if name not in names:
            raise InputError(
                f"recipe.{name}: these are settings of {name!r}, which recipes ({', '.join(names)}) does not name"
            )
        configured[name] = attack.from_table(table, f"recipe.{name}", folder)
    return tuple(configured.get(name, name) for name in names)


def seeded(recipe: Recipe, seed: int) -> Recipe:
    """Return the recipe with the run's seed in its attack, and in the attacks that one is made of, where they draw."""
    return dataclasses.replace(recipe, attack=attacks.seeded(recipe.attack, seed))
