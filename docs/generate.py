"""Write the reference pages of plan keys and commands from the code: `python docs/generate.py`."""

from __future__ import annotations

import inspect
import types
import typing
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from divulge import settings
from divulge.cli import app
from divulge.settings import Plan

HERE = Path(__file__).parent / "reference"
GENERATED_BELOW = "<!-- Below this line docs/generate.py writes what the code says. -->"
_PLAN_OPENING = """\
Look up a key of a plan: its values, its default and its meaning. A plan is a TOML file that describes an audit;
`divulge init` writes one to start from, `divulge check` says what is wrong with it, and `divulge audit` runs it.

```sh
divulge init
divulge check plan.toml
divulge audit plan.toml --out runs/first
```"""


def pages() -> dict[Path, str]:
    """Return the path and the text of each generated page."""
    return {HERE / "plan.md": _plan_page(), HERE / "commands.md": _commands_page()}


def _plan_page() -> str:
    lines = ["# Every key of a plan", "", _PLAN_OPENING, ""]
    for name, model in _tables_of_keys("", Plan):
        if name:
            lines += [f"## `[{name}]`", "", inspect.getdoc(model).split("\n", 1)[0], ""]
        lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
        for key, field in sorted(model.model_fields.items(), key=lambda item: not item[1].is_required()):
            if not _nested_models(field.annotation):
                default = "needed" if field.is_required() else _format_default(field.default)
                lines.append(f"| `{key}` | {_allowed_values(field)} | {default} | {_table_cell(field.description)} |")
        lines.append("")
    return "\n".join(lines)


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


def _allowed_values(field: Any) -> str:
    """Describe the type and the bounds of ``field``."""
    limits = settings.format_limits(field)
    return f"{_type_description(field.annotation)}{f', {limits}' if limits else ''}"


def _type_description(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type_description(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f'`"{value}"`' for value in arguments)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_type_description(each) for each in arguments if each is not type(None))
    if origin in (list, tuple):
        return f"list of {_type_description(arguments[0])}"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}[annotation]


def _format_default(value: Any) -> str:
    if value is None or value is PydanticUndefined:
        return "–"
    value = list(value) if isinstance(value, tuple) else value
    return f"`{value}`".replace("'", '"').replace("True", "true").replace("False", "false")


def _commands_page() -> str:
    written_by_hand = (HERE / "commands.md").read_text(encoding="utf-8").split(GENERATED_BELOW)[0]
    lines = [written_by_hand + GENERATED_BELOW, ""]
    for path, command in _subcommands("divulge", typer.main.get_command(app)):
        lines += [f"## `{path}`", "", command.help.strip(), ""]
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        if arguments:
            lines += ["| argument | meaning |", "|---|---|"]
            lines += [f"| `{p.name}` | {_table_cell(p.help or '')} |" for p in arguments] + [""]
        options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
        lines += ["| option | default | meaning |", "|---|---|---|"]
        lines += [
            f"| `{', '.join(p.opts)}` | {_default_of_option(p)} | {_table_cell(p.help or '')} |" for p in options
        ] + [""]
    return "\n".join(lines)


def _subcommands(path: str, command: Any) -> list[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        return [(path, command)]
    return [leaf for name, each in inner.items() for leaf in _subcommands(f"{path} {name}", each)]


def _default_of_option(option: Any) -> str:
    if option.required:
        return "needed"
    default = ", ".join(map(str, option.default)) if isinstance(option.default, list | tuple) else option.default
    has_default = default is not None and default is not False and not callable(default)
    return f"`{default}`" if has_default and default != "" else "–"


def _table_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("``", "`").strip()


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
