"""`divulge list`: what there is, and what suits an auditor's circumstances."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import lazy
from divulge.cli import printing

if TYPE_CHECKING:
    from divulge import recipes
    from divulge.signals import classification, internals
    from divulge.types import Estimate
else:
    classification = lazy.module("divulge.signals.classification")
    internals = lazy.module("divulge.signals.internals")
    recipes = lazy.module("divulge.recipes")

_RECORD_TYPES: dict[recipes.RecordType, str] = {
    "classifiers": "attacks",
    "documents": "attacks on documents, under language models",
}
# Recipes shown with their figures; the others by name.
_SHOWN = 5


def list_all(
    json: printing.Json = False,
    situation: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="Only what can run in your circumstances, best measured first: 'labels only, 2 references', say.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Attacks with their settings, signals and embedded data sets; with --for, the recipes that suit you."""
    if situation is not None:
        _suited(situation, json)
        return
    signals = {name: str(f.__doc__).split("\n", 1)[0] for name, f in classification.SIGNALS.items()}
    signals |= dict(internals.SIGNALS)
    data_sets = {
        "images": "10,000 images of clothing in 10 classes (Fashion-MNIST; Zalando, MIT licence)",
        "text": "the 1,233 paragraphs of 80 to 1,200 characters of Python's manual, as Python ships it",
    }
    if json:
        printing.as_json(
            {
                "recipes": {recipe.name: recipe.summary for recipe in recipes.everything()},
                "recipes for documents": {recipe.name: recipe.summary for recipe in recipes.document_recipes()},
                "signals": signals,
                "data sets": data_sets,
                "attacks": [_attack_as_json(attack) for attack in recipes.ATTACKS],
                "aliases": {
                    record_type: {
                        name: {"attack": settings.name, "settings": settings.changes()}
                        for name, settings in recipes.aliases(documents=record_type == "documents").items()
                    }
                    for record_type in _RECORD_TYPES
                },
            }
        )
        return
    for record_type, title in _RECORD_TYPES.items():
        rows = [
            (attack.name, attack.description(), "; ".join(map(str, attack.settings(record_type))) or "–")
            for attack in recipes.ATTACKS
            if record_type in attack.record_types()
        ]
        printing.table(title, ["name", "what it is", "settings, the default first"], rows)
    names = dict.fromkeys([*recipes.aliases(), *recipes.aliases(documents=True)])
    _say(f"Also by name, each an attack with settings (docs/methods): {', '.join(names)}")
    for title, entries in {"signals": signals, "data sets": data_sets}.items():
        printing.table(title, ["name", "what it is"], entries.items())


def _attack_as_json(attack: type[recipes.AttackSettings]) -> dict[str, Any]:
    return {
        "name": attack.name,
        "what it is": attack.description(),
        "settings": {
            record_type: [
                {
                    "name": setting.name,
                    "default": setting.default,
                    "choices": list(setting.choices),
                    "meaning": setting.meaning,
                }
                for setting in attack.settings(record_type)
            ]
            for record_type in attack.record_types()
        },
    }


def _suited(words: str, json: bool) -> None:
    asked = recipes.Circumstances.parse(words)
    suggested = recipes.advise(asked)
    if json:
        printing.as_json({"for": str(asked), "recipes": [_plain(one) for one in suggested]})
        return
    known = [one for one in suggested if one.figures]
    printing.line(f"For: {asked}", style="bold")
    if asked.references and not any(one.recipe.references != "none" for one in suggested):
        _say("No recipe for these circumstances uses reference models.")
    if known:
        _say(
            "Best first: TPR at 1 % as a share of the best recipe's, mean over the data sets. Figures whose intervals "
            "overlap are in no certain order."
        )
    for one in known[:_SHOWN]:
        _show(one)
    if others := [one.recipe.name for one in known[_SHOWN:]]:
        _say(f"Then: {', '.join(others)}. Their figures: --json")
    if others := [one.recipe.name for one in suggested if not one.figures]:
        _say(f"Not measured in these circumstances: {', '.join(others)}")
    if known:
        _say(_where(known))


def _show(one: recipes.Suggestion) -> None:
    count = one.figures[0].references
    models = f"{count} reference{'s' * (count != 1)}" if count else "no references"
    models += ", trained on candidates too" * (one.recipe.references == "in and out")
    printing.line()
    printing.line(f"{one.recipe.name} ({models})", style="bold")
    printing.line(f"  {'':14}{'AUC':19}TPR at 1 %")
    for figure in one.figures:
        printing.line(f"  {figure.data.title:14}{_short(figure.auc):19}{_short(figure.tpr)}")


def _short(of: Estimate) -> str:
    value, low, high = (f"{end:.3f}".removeprefix("0") for end in (of.value, of.low, of.high))
    return f"{value} [{low}, {high}]"


def _where(known: list[recipes.Suggestion]) -> str:
    data = {figure.data.title: figure.data for one in known for figure in one.figures}
    sizes = "; ".join(f"{of.title}: {of.members:,} members, {of.nonmembers:,} others" for of in data.values())
    first = next(iter(data.values()))
    return (
        f"Measured on targets of one kind ({first.target}), {first.seeds} runs each; 95 % intervals over runs and "
        f"records. {sizes}. Other targets may leak more or less, and the order may differ."
    )


def _plain(one: recipes.Suggestion) -> dict[str, Any]:
    return {
        "name": one.recipe.name,
        "summary": one.recipe.summary,
        "measured": [
            {
                "data set": figure.data.title,
                "kind": figure.data.kind,
                "unseen classes": figure.unseen,
                "references": figure.references,
                "auc": _ends(figure.auc),
                "tpr at 1 %": _ends(figure.tpr),
                "tpr at 0.1 %": None if figure.strict is None else _ends(figure.strict),
                "seconds": figure.seconds,
            }
            for figure in one.figures
        ],
    }


def _ends(of: Estimate) -> dict[str, float]:
    return {"value": of.value, "low": of.low, "high": of.high, "confidence": of.confidence}


def _say(text: str) -> None:
    """A paragraph, no wider than the terminal."""
    printing.line()
    for part in textwrap.wrap(text, max(30, min(shutil.get_terminal_size().columns, 80)), break_on_hyphens=False):
        printing.line(part)
