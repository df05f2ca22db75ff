"""Write reference pages from the code, and notebooks from the pages by role: `python docs/generate.py`."""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections import Counter
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from divulge import recipes, settings
from divulge.cli import STEPS, app, options
from divulge.runs import RESULT_TYPES, json_schema
from divulge.settings import Plan, SyntheticPlan

HERE = Path(__file__).parent / "reference"
ROLES = HERE.parent / "roles"
NOTEBOOKS = HERE.parents[1] / "examples"
GENERATED_BELOW = "<!-- Below this line docs/generate.py writes what the code says. -->"
_PLAN_OPENING = """\
Look up a key of a plan: its values, its default and its meaning. A plan is a TOML file that describes an audit;
`divulge init` writes one to start from, `divulge check` says what is wrong with it, and `divulge audit` runs it. The
plan of `divulge synthetic` holds the table `[synthetic]` alone.

```sh
divulge init
divulge check plan.toml
divulge audit plan.toml --out runs/first
```"""

_SHARED_OPTIONS = """\
Defaults and bounds stand in brackets. A command names its own options first; after *And*, those of this list; after
*Plan*, those that mean what the [key of a plan](plan.md) of this name means (a list there may be repeated here)."""

_RELOCATED = """\
Fewer than one user in a hundred needs these at the command line, and a plan or Python says them. Whoever types one is
told where it is (exit code 2); NAME is the option's own name, with `_` in place of `-`."""

_NUMBER = r"[\d.,]*\d"

# Options that most commands take together stand in their lists under one name.
_BUNDLES = {
    "*columns*": ("--label", "--id", "--text", "--drop"),
    "*specification*": ("--metric", "--classes", "--clip", "--decimals", "--noise", "--submission"),
}


def pages() -> dict[Path, str]:
    """Return the path and the text of each generated page."""
    return {
        HERE / "plan.md": _plan_page(),
        HERE / "attacks.md": _attacks_page(),
        HERE / "commands.md": _commands_page(),
        **{HERE / "schemas" / f"{kind}.json": _schema(kind) for kind in RESULT_TYPES},
        **{NOTEBOOKS / f"{page.stem}.ipynb": _notebook(page) for page in sorted(ROLES.glob("*.md"))},
    }


def _schema(kind: str) -> str:
    return json.dumps(json_schema(kind), indent=1, ensure_ascii=False) + "\n"


def _plan_page() -> str:
    lines = ["# Every key of a plan", "", _PLAN_OPENING, ""]
    listed: dict[str, set[str]] = {}
    for name, model in [*_tables_of_keys("", Plan), ("synthetic", SyntheticPlan)]:
        if name:
            lines += [f"## `[{name}]`", "", inspect.getdoc(model).split("\n", 1)[0], ""]
        rows = {
            key: f"| `{key}` | {_allowed_values(field)} | {_table_cell(field.description)} |"
            for key, field in sorted(model.model_fields.items(), key=lambda item: not item[1].is_required())
            if not _nested_models(field.annotation) or _is_word(field.default)
        }
        above = listed.setdefault(name, set())
        lines += ["| key | value (default) | meaning |", "|---|---|---|"]
        lines += [row for row in rows.values() if row not in above]
        alike = [f"`{key}`" for key, row in rows.items() if row in above]
        lines += ["", f"And, as above, {', '.join(alike)}."] if alike else []
        lines.append("")
        above |= set(rows.values())
    return "\n".join(lines)


def _default_of_key(field: Any) -> str:
    return "needed" if field.is_required() else _format_default(field.default)


def _tables_of_keys(name: str, model: type[BaseModel]) -> list[tuple[str, type[BaseModel]]]:
    tables = [(name, model)]
    for key, field in model.model_fields.items():
        for inner in _nested_models(field.annotation):
            tables += _tables_of_keys(f"{name}.{key}".lstrip("."), inner)
    return tables


def _nested_models(annotation: Any) -> list[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in _nested_models(part)]


def _is_word(default: Any) -> bool:
    """Check whether a key that may be a table is a word otherwise."""
    return isinstance(default, str)


def _allowed_values(field: Any) -> str:
    """Describe the type, the bounds and the default of ``field``."""
    limits, default = _with_signs(settings.format_limits(field)), _default_of_key(field)
    description = " ".join(filter(None, (_type_description(field.annotation), limits)))
    return f"{description} ({default})" if default else description


def _with_signs(limits: str) -> str:
    """Return bounds in words as signs: "at least 1 and below 5" as "≥ 1, < 5"."""
    for words, sign in {" and ": ", ", "at least ": "≥ ", "at most ": "≤ ", "above ": "> ", "below ": "< "}.items():
        limits = limits.replace(words, sign)
    return limits


def _type_description(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type_description(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f'`"{value}"`' for value in arguments)
    if origin in (types.UnionType, typing.Union):
        parts = (_type_description(each) for each in arguments if each is not type(None))
        return " or ".join(dict.fromkeys(parts))
    if origin is dict:
        return "tables"
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return "a table"
    if origin in (list, tuple):
        return f"list of {_type_description(arguments[0])}"
    return {str: "text", Any: "text", int: "integer", float: "number", bool: "truth value"}[annotation]


def _format_default(value: Any) -> str:
    if value is None or value is PydanticUndefined or value == "" or value == []:
        return ""
    value = list(value) if isinstance(value, tuple) else value
    return f"`{value}`".replace("'", '"').replace("True", "true").replace("False", "false")


def _attacks_page() -> str:
    rows = {attack: _setting_rows(attack) for attack in recipes.ATTACKS}
    uses = Counter(row for of_attack in rows.values() for row in of_attack)
    shared = [row for row, count in uses.items() if count > 1]
    lines = [
        "# Every attack and its settings",
        "",
        "A plan's `recipes` name attacks; a table `[recipe.NAME]` gives one of them settings. In Python an attack is a",
        'class of `divulge.recipes`, named here in brackets: `recipes=[LiRA(mode="online")]`. Defaults come first.',
        "*Names* stand for settings: take them where one attack is wanted in two forms.",
        "What each attack computes: [Attacks](../methods/index.md).",
        "",
        *("A setting that several attacks have:", ""),
        *("| setting | value | for | meaning |", "|---|---|---|---|"),
        *shared,
        "",
    ]
    for attack in recipes.ATTACKS:
        lines += [f"## `{attack.name}`", "", f"{attack.description()} (`{attack.__name__}`)", ""]
        own = [row for row in rows[attack] if uses[row] == 1]
        lines += ["| setting | value | for | meaning |", "|---|---|---|---|", *own, ""] if own else []
        others = [row.split(" | ")[0].strip("| ") for row in rows[attack] if uses[row] > 1]
        lines += [f"And, as above, {', '.join(others)}.", ""] if others else []
        lines += [f"Names: {_format_forms(attack)}.", ""] if _format_forms(attack) else []
    return "\n".join(lines)


def _format_forms(attack: type[recipes.AttackSettings]) -> str:
    """Return the names of ``attack``'s forms but the default, with the settings that a name does not say itself."""
    forms = {**recipes.aliases(documents=False), **recipes.aliases(documents=True)}
    changes = {name: form.changes() for name, form in forms.items() if type(form) is attack and form.changes()}
    plain = [name for name, settings in changes.items() if list(settings.values()) == [name]]
    keys = list(dict.fromkeys(key for name in plain for key in changes[name]))
    parts = [f"`{name}` ({_format_settings(settings)})" for name, settings in changes.items() if name not in plain]
    return ", ".join([f"the values of `{key}`" for key in keys] + parts)


def _setting_rows(attack: type[recipes.AttackSettings]) -> list[str]:
    """Return a row for each setting, and one for each record type where its choices differ."""
    rows = []
    for setting in attack.settings():
        choices = {
            record_type: next((s for s in attack.settings(record_type) if s.name == setting.name), None)
            for record_type in attack.record_types()
        }
        values = {record_type: _format_choices(s) for record_type, s in choices.items() if s is not None}
        grouped = {text: [r for r, each in values.items() if each == text] for text in values.values()}
        for i, (text, record_types) in enumerate(grouped.items()):
            meaning = "the same" if i else _table_cell(setting.meaning)
            rows.append(f"| `{setting.name}` | {text} | {', '.join(record_types)} | {meaning} |")
    return rows


def _format_choices(setting: recipes.Setting) -> str:
    return ", ".join(f"`{choice}`" for choice in str(setting).partition(" = ")[2].split(" | "))


def _format_settings(changes: dict[str, Any]) -> str:
    return "`" + ", ".join(f"{name} = {json.dumps(value)}" for name, value in changes.items()) + "`"


def _commands_page() -> str:
    written_by_hand = (HERE / "commands.md").read_text(encoding="utf-8").split(GENERATED_BELOW)[0]
    commands = _subcommands("divulge", typer.main.get_command(app))
    rows = {path: _option_rows(command) for path, command in commands}
    uses = Counter(row for of_command in rows.values() for row in of_command)
    shared = [row for row, count in uses.items() if count > 1]
    lines = [written_by_hand + GENERATED_BELOW, "", "## Options of several commands", "", _SHARED_OPTIONS, ""]
    lines += [_format_option(*row) for row in shared if not _is_key(*row)]
    lines += _as_keys([row for row in shared if _is_key(*row)])
    lines += [f"- {name}: {', '.join(f'`{each}`' for each in names)}." for name, names in _BUNDLES.items()] + [""]
    for path, command in commands:
        lines += [f"## `{path}`", "", command.help.strip(), ""]
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        others = _bundle([row[0] for row in rows[path] if uses[row] > 1])
        lines += [_format_option(p.name, "needed" if p.required else "", _table_cell(p.help or "")) for p in arguments]
        own = [row for row in rows[path] if uses[row] == 1]
        lines += [_format_option(*row) for row in own if not _is_key(*row)]
        lines += _as_keys([row for row in own if _is_key(*row)])
        lines += [f"- And {', '.join(others)}."] if others else []
        lines.append("")
    return "\n".join([*lines, "## What is not an option", "", _RELOCATED, "", *_relocated_rows(), ""])


def _relocated_rows() -> list[str]:
    """Return a row for each place that has what is no option of a command."""
    rows = ["| command | no option | say it as |", "|---|---|---|"]
    steps = {name: " ".join(words) for words, name in STEPS.items()}
    for command, places in options.RELOCATED.items():
        for names, place in places.items():
            flags = ", ".join(f"`--{name.replace('_', '-')}`" for name in names.split())
            rows.append(f"| `{steps.get(command, command)}` | {flags} | {place} |")
    return rows


def _as_keys(rows: list[tuple[str, str, str]]) -> list[str]:
    names = ", ".join(f"`{names}`" for names, _, _ in rows)
    return [f"- Plan: {names}."] if rows else []


def _bundle(names: list[str]) -> list[str]:
    """Return options as they are listed: those of a bundle under its name, where all of them are taken."""
    whole = {name: options for name, options in _BUNDLES.items() if set(options) <= set(names)}
    covered = {option for options in whole.values() for option in options}
    return [*whole, *(f"`{name}`" for name in names if name not in covered)]


def _is_key(names: str, default: str, meaning: str) -> bool:
    """Whether the page on plans has a key of this name that says the same."""
    fields = [
        field
        for _, model in _tables_of_keys("", Plan)
        for key, field in model.model_fields.items()
        if f"--{key.replace('_', '-')}" == names
    ]
    return any(
        meaning.startswith(_table_cell(field.description or "\0")) and default in ("", _default_of_key(field))
        for field in fields
    )


def _format_option(names: str, default: str, meaning: str) -> str:
    """Return an option as an item of a list, with the bounds at the end of its help as signs beside the default."""
    limits = re.search(
        rf" ((?:At least|Above|At most|Below) {_NUMBER}(?: and (?:at most|below) {_NUMBER})?)\.", meaning
    )
    if limits:
        meaning = meaning.replace(limits[0], "")
        default = ", ".join(filter(None, (default, _with_signs(limits[1][0].lower() + limits[1][1:]))))
    return f"- `{names}`{f' ({default})' if default else ''}: {meaning}"


def _option_rows(command: Any) -> list[tuple[str, str, str]]:
    """Return the names, the default and the meaning of each option of ``command``."""
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    return [(", ".join(p.opts), _default_of_option(p), _table_cell(p.help or "")) for p in options]


def _notebook(page: Path) -> str:
    """Return a page by role as a notebook: its Python and its commands as cells that run, the rest as text."""
    cells: list[dict[str, Any]] = []
    # Links lead from the folder of the notebooks to the page's neighbours.
    text = re.sub(r"\]\((?!https?:|#|\.\./)([^)]+)\)", r"](../docs/roles/\1)", page.read_text(encoding="utf-8"))
    text = re.sub(r"\]\(\.\./(?!docs/roles/)([^)]+)\)", r"](../docs/\1)", text)
    words, *others = re.split(r"^```(python|console)\n(.*?)^```\n", text, flags=re.M | re.S)
    for language, block, following in zip(["", *others[::3]], ["", *others[1::3]], [words, *others[2::3]], strict=True):
        source = re.sub(r"^\$ ", "!", block, flags=re.M) if language == "console" else block
        cells += [
            _cell(cell_type, text.strip("\n"), len(cells) + i)
            for i, (cell_type, text) in enumerate(
                (kind, part) for kind, part in (("code", source), ("markdown", following)) if part.strip()
            )
        ]
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _cell(cell_type: str, source: str, number: int) -> dict[str, Any]:
    cell = {"cell_type": cell_type, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if cell_type == "code" else {})


def _subcommands(path: str, command: Any) -> list[tuple[str, Any]]:
    """Return every command with its name, steps by their names; former names that are no steps are left out."""
    if not hasattr(command, "commands"):
        return [(path, command)]
    inner = {name: command.get_command(None, name) for name in command.commands}
    steps = {name: " ".join(words) for words, name in STEPS.items()} if path == "divulge" else {}
    shown = {
        steps.get(name, name): each
        for name, each in inner.items()
        if name in steps or not command.commands[name].hidden
    }
    return [leaf for name, each in shown.items() for leaf in _subcommands(f"{path} {name}", each)]


def _default_of_option(option: Any) -> str:
    if option.required:
        return "needed"
    default = ", ".join(map(str, option.default)) if isinstance(option.default, list | tuple) else option.default
    has_default = default is not None and default is not False and not callable(default)
    return f"`{default}`" if has_default and default != "" else ""


def _table_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("``", "`").strip()


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
