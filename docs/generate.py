"""Pages that are made from the code: every key of a plan, every command. `python docs/generate.py` writes them anew."""

from __future__ import annotations

import inspect
import re
import types
import typing
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from divulge.cli.app import app
from divulge.plan.keys import Plan

HERE = Path(__file__).parent / "reference"


def pages() -> dict[Path, str]:
    """Each page and its text."""
    return {HERE / "plan.md": _plan(), HERE / "commands.md": _commands()}


def _plan() -> str:
    told = ["# Every key of a plan", "", "A plan is a TOML file; `divulge init` writes one to start from.", ""]
    for name, model in _tables("", Plan):
        if name:
            told += [f"## `[{name}]`", "", inspect.getdoc(model).split("\n", 1)[0], ""]
        told += ["| key | value | default | meaning |", "|---|---|---|---|"]
        meanings = _meanings(model)
        for key, field in model.model_fields.items():
            if not _nested(field.annotation):
                default = "needed" if field.is_required() else _default(field.default)
                told.append(f"| `{key}` | {_kind(field)} | {default} | {meanings[key]} |")
        told.append("")
    return "\n".join(told)


def _tables(name: str, model: type[BaseModel]) -> list[tuple[str, type[BaseModel]]]:
    tables = [(name, model)]
    for key, field in model.model_fields.items():
        if inner := _nested(field.annotation):
            tables += _tables(f"{name}.{key}".lstrip("."), inner)
    return tables


def _nested(annotation: Any) -> type[BaseModel] | None:
    options = typing.get_args(annotation) or (annotation,)
    return next((o for o in options if inspect.isclass(o) and issubclass(o, BaseModel)), None)


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """What the docstring says of each field."""
    listed = inspect.getdoc(model).split("Args:\n", 1)[1]
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", listed, re.M)
    return {name: _cell(re.sub(r"\s+", " ", text)) for name, text in entries}


def _kind(field: Any) -> str:
    """What a value may be, in words."""
    bounds = " and ".join(
        f"{sign} {getattr(limit, attribute):g}"
        for limit in field.metadata
        for attribute, sign in (("gt", "above"), ("ge", "at least"), ("lt", "below"))
        if getattr(limit, attribute, None) is not None
    )
    return f"{_words(field.annotation)}{f', {bounds}' if bounds else ''}"


def _words(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _words(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f'`"{value}"`' for value in arguments)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_words(each) for each in arguments if each is not type(None))
    if origin is list:
        return f"list of {_words(arguments[0])}"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}[annotation]


def _default(value: Any) -> str:
    if value is None or value is PydanticUndefined:
        return "–"
    return f"`{value}`".replace("'", '"').replace("True", "true").replace("False", "false")


def _commands() -> str:
    told = ["# Every command", "", "`divulge COMMAND -h` shows the same in a terminal.", ""]
    for path, command in _leaves("divulge", typer.main.get_command(app)):
        told += [f"## `{path}`", "", command.help.strip(), ""]
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        if arguments:
            told += ["| argument | meaning |", "|---|---|"]
            told += [f"| `{p.name}` | {_cell(p.help or '')} |" for p in arguments] + [""]
        options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
        told += ["| option | default | meaning |", "|---|---|---|"]
        told += [f"| `{', '.join(p.opts)}` | {_shown(p)} | {_cell(p.help or '')} |" for p in options] + [""]
    return "\n".join(told)


def _leaves(path: str, command: Any) -> list[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        return [(path, command)]
    return [leaf for name, each in inner.items() for leaf in _leaves(f"{path} {name}", each)]


def _shown(option: Any) -> str:
    if option.required:
        return "needed"
    plain = option.default is not None and option.default is not False and not callable(option.default)
    return f"`{option.default}`" if plain and option.default not in ("", (), []) else "–"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("``", "`").strip()


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
