"""What the settings of every attack have in common; each attack has a file of its own beside this one.

An attack in `divulge.attacks` turns numbers into scores. Settings are what a user asks for by name, in Python or in a
plan, and they choose more than that: which signal the target is asked for, on which versions or completions of a
record, which reference models are trained, and what turns all of this into a score.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast, get_args, get_origin, get_type_hints

from divulge import attacks
from divulge.attacks import Need, adapt
from divulge.attacks.protocol import REFERENCES
from divulge.errors import InputError
from divulge.recipes.recipe import Imputed, Recipe
from divulge.signals.versions import ImageVersions
from divulge.validation import check_bool, check_choice, check_integer, check_number, format_value

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.attacks import Scores
    from divulge.recipes.recipe import References

RecordType: TypeAlias = Literal["classifiers", "documents"]

AS_LIRA = "as for lira"
RESIDUAL = "beyond what the candidates' own features explain"
N_COMPLETIONS = 8
"""Random completions of a partly known record, where an attack averages over them."""

TREES = attacks.QuantileRegression(conformal=False)
"""Quantile regression by boosted trees, which needs no torch."""

_SUBJECTS = {"classifiers": "a classifier", "documents": "a language model"}


Value: TypeAlias = str | bool | int | float


def setting(
    default: Value,
    meaning: str,
    *,
    classifiers: tuple[str | bool, ...] | None = None,
    documents: tuple[str | bool, ...] | None = None,
) -> Any:
    """Return the field of a setting.

    Args:
        default: the value without it.
        meaning: what it does, in one line.
        classifiers: the choices that it has for classifiers, where these are not all of them.
        documents: likewise for documents under language models.
    """
    only = {"classifiers": classifiers, "documents": documents}
    return field(default=default, metadata={"meaning": meaning, "only": only})


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of an attack.

    Args:
        name: its name in Python and in a plan.
        default: the value without it.
        choices: every value that it may have; none for a number, or the name of a file or folder.
        meaning: what it does, in one line.
        number: int for whole numbers from 1, float for numbers above 0; None for anything else.
    """

    name: str
    default: Value
    choices: tuple[str | bool, ...]
    meaning: str
    number: type[int] | type[float] | None = None

    def __str__(self) -> str:
        if self.number is not None:
            return f"{self.name} = {self.default:g}"
        if not self.choices:
            return f'{self.name} = "FOLDER"'
        other_choices = [choice for choice in self.choices if choice != self.default]
        choices = " | ".join(_format_toml(choice) for choice in (self.default, *other_choices))
        return f"{self.name} = {choices}"

    def check(self, value: Any, key: str) -> None:
        """Check that ``value`` is a choice; an error names it ``key``.

        Raises:
            divulge.InputError: it is not.
        """
        if self.number is int:
            check_integer(value, key, minimum=1)
        elif self.number is float:
            check_number(value, key, above=0)
        elif not self.choices:
            if not isinstance(value, str):
                raise InputError(f"{key}: the name of a folder is needed, got {format_value(value)}")
        elif all(isinstance(choice, bool) for choice in self.choices):
            check_bool(value, key)
        else:
            check_choice(value, key, [str(choice) for choice in self.choices])


class AttackSettings:
    """Base of the settings of an attack: frozen, checked when they are made, and turned into a recipe by `recipe`.

    A sub-class is a frozen dataclass whose fields are each a `setting`: strings (`Literal`, or ``str`` for a folder),
    booleans, whole numbers from 1 or numbers above 0. The first line of its docstring says what the attack is. It has
    ``_classifier_recipe``, ``_document_recipe`` or both, as it is for classifiers, for documents under language
    models, or for both.
    """

    __slots__ = ()

    name: ClassVar[str]
    """The attack's name in a plan and in `divulge list`: that of its class in small letters."""

    def __init_subclass__(cls) -> None:
        cls.name = cls.__name__.lower()

    def __post_init__(self) -> None:
        for each in self.settings():
            each.check(getattr(self, each.name), f"{type(self).__name__}.{each.name}")
        self._check_combination()

    def _check_combination(self) -> None:
        """Check that the settings go together; `refuse` says that two do not."""

    def _classifier_recipe(self) -> Recipe:
        """Return the recipe with these settings for classifiers."""
        raise InputError(f"recipes: {self.name!r} is no attack on a classifier, the target")

    def _document_recipe(self) -> Recipe:
        """Return the recipe with these settings for documents under language models."""
        raise InputError(f"recipes: {self.name!r} is no attack on a language model, the target")

    def refuse(self, name: str, other_name: str, reason: str) -> None:
        """Raise an error about two settings that do not go together."""
        pairs = " and ".join(f"{each}={getattr(self, each)!r}" for each in (name, other_name))
        raise InputError(f"{type(self).__name__}: {pairs} do not go together: {reason}")

    @classmethod
    def description(cls) -> str:
        """Return what the attack is, in one line."""
        return (inspect.getdoc(cls) or cls.name).split("\n", 1)[0]

    @classmethod
    def settings(cls, record_type: RecordType | None = None) -> tuple[Setting, ...]:
        """Return the settings, for records of one type or of any; a setting with a single choice is left out."""
        annotations = get_type_hints(cls)
        settings = []
        for each in fields(cast("Any", cls)):
            annotation = annotations[each.name]
            if "meaning" not in each.metadata or not (
                annotation in (bool, str, int, float) or get_origin(annotation) is Literal
            ):
                raise InputError(
                    f"{cls.__name__}.{each.name}: a field that divulge.recipes.setting makes is needed, of type "
                    "Literal, str (a folder), bool, int or float"
                )
            choices = (False, True) if annotation is bool else get_args(annotation)
            if record_type is not None and each.metadata["only"][record_type] is not None:
                choices = each.metadata["only"][record_type]
            if len(choices) != 1:
                number = annotation if annotation in (int, float) else None
                settings.append(
                    Setting(each.name, cast("Value", each.default), choices, each.metadata["meaning"], number)
                )
        return tuple(settings)

    @classmethod
    def record_types(cls) -> tuple[RecordType, ...]:
        """Return what the attack is for: classifiers, documents under language models, or both."""
        methods: dict[RecordType, str] = {"classifiers": "_classifier_recipe", "documents": "_document_recipe"}
        return tuple(
            record_type
            for record_type, method in methods.items()
            if getattr(cls, method) is not getattr(AttackSettings, method)
        )

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
        settings = {each.name: each for each in cls.settings()}
        if table and not settings:
            raise InputError(f"{key}: {cls.name} has no settings, got {', '.join(table)}")
        for name, value in table.items():
            settings[check_choice(name, f"{key}: setting", settings)].check(value, f"{key}.{name}")
        named_folders = {
            name: str(folder / table[name])
            for name in table
            if folder and not settings[name].choices and settings[name].number is None
        }
        return cls(**{**table, **named_folders})

    def changes(self) -> dict[str, Value]:
        """Return the settings that differ from the defaults."""
        values = {each.name: (getattr(self, each.name), each.default) for each in self.settings()}
        return {name: value for name, (value, default) in values.items() if value != default}

    def recipe(self, *, documents: bool = False) -> Recipe:
        """Return the recipe with these settings.

        Args:
            documents: whether the target is a language model.

        Raises:
            divulge.InputError: an attack or a setting that is for the other type of records.
        """
        record_type: RecordType = "documents" if documents else "classifiers"
        choices = {each.name: each.choices for each in self.settings(record_type)}
        if record_type in self.record_types():
            for each in self.settings():
                value, allowed = getattr(self, each.name), choices.get(each.name, (each.default,))
                if allowed and value not in allowed:
                    raise InputError(
                        f"{type(self).__name__}.{each.name}: of {_SUBJECTS[record_type]} it can be "
                        f"{' or '.join(map(_format_toml, allowed))}, got {_format_toml(value)}"
                    )
        return self._document_recipe() if documents else self._classifier_recipe()


def make_recipe(
    name: str, signal: Any, attack: Scores, summary: str, references: References | None = None, **more: Any
) -> Recipe:
    """Return a recipe with the features, and unless ``references`` says others the models, that its attack needs."""
    needs = adapt(attack).needs
    if references is None:
        needed = {need.removeprefix("references ") for need in needs & REFERENCES}
        references = cast("References", needed.pop() if needed else "none")
    features = bool(needs & {Need.FEATURES, Need.RECORDS})
    return Recipe(name, signal, attack, references, summary, features=features, **more)


def augmented(recipe: Recipe, attack: Scores) -> Recipe:
    """Return the recipe with an attack that asks about several versions of every image."""
    return replace(
        recipe,
        name=f"{recipe.name}-augmented",
        attack=attack,
        versions=ImageVersions(),
        summary=f"{recipe.name} on images as they are, mirrored and shifted: 18 queries a record",
    )


def residual(recipe: Recipe) -> Recipe:
    """Return what the recipe's score has beyond what the records' features explain."""
    return replace(
        recipe,
        name=f"{recipe.name}-residual",
        attack=attacks.Residual(recipe.attack),
        features=True,
        summary=f"{recipe.name} beyond what the candidates' own features explain",
    )


def for_partial_records(recipe: Recipe, name: str, summary: str, imputed: Imputed | None = None) -> Recipe:
    """Return the form of a recipe that refuses whole records."""
    return replace(recipe, name=name, summary=summary, imputed=imputed or recipe.imputed, partial=True)


def check_known(settings: Any) -> None:
    """Check that a form that refuses whole records goes with the other settings of LiRA or RMIA.

    Raises:
        divulge.InputError: it does not.
    """
    if settings.known == "any":
        return
    for name in ("augment", "residual"):
        if getattr(settings, name):
            settings.refuse("known", name, "a form that refuses whole records is for the records as they are")
    if settings.mode == "online" and settings.known != "best":
        settings.refuse("mode", "known", "models trained on candidates see one completion of each; use known='best'")


def _format_toml(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'
