"""Options that several commands share, declared once as the fields of a dataclass."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import re
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from divulge.errors import InputError
from divulge.settings import ColumnNames

# A key of a plan wherever it stands, or what a message begins with.
_NAMED = re.compile(r"(?<![\w./-])(?:data|target|references)\.(?P<dotted>\w+)|^(?P<first>\w+)(?=: )")
_ID = typer.Option(help="Column of the ids, which are read as texts.", show_default=False)
_TEXT = typer.Option(help="Column of the documents.", show_default=False)


@dataclasses.dataclass
class TextColumns:
    """Columns of a table of documents; see `divulge.tables.ColumnNames`."""

    id: Annotated[str | None, _ID] = None
    text: Annotated[str | None, _TEXT] = None

    def names(self) -> ColumnNames:
        """Return what the user named."""
        return ColumnNames.from_options(**dataclasses.asdict(self))


@dataclasses.dataclass
class RecordColumns(TextColumns):
    """Columns of a table of records; see `divulge.tables.ColumnNames`."""

    label: Annotated[str | None, typer.Option(help="Column of the labels.", show_default=False)] = None
    group: Annotated[str | None, typer.Option(help="Column of the subgroups.", show_default=False)] = None
    person: Annotated[str | None, typer.Option(help="Column of whose each document is.", show_default=False)] = None
    drop: Annotated[list[str] | None, typer.Option(help="A column that is no part of a record; may be repeated.")] = (
        None
    )


Out = Annotated[Path | None, typer.Option(help="Run directory to write (default: runs/NAME-TIME).", show_default=False)]
Trust = Annotated[list[str] | None, typer.Option(help="A type to trust in a .skops target; may be repeated.")]


def folder(out: Path | None, name: str) -> Path:
    """The run directory asked for, or a fresh one under ``runs``."""
    return out if out is not None else Path("runs") / f"{name or 'run'}-{time.strftime('%Y%m%d-%H%M%S')}"


def spoken(message: str, command: Any, arguments: Sequence[str]) -> str:
    """The message with keys of a plan, and arguments of a function, as the options of a command that takes no plan.

    Args:
        message: of an error; it may begin with the name of an argument, and hold keys such as ``data.text``.
        command: as Click knows it.
        arguments: what the user typed, which is left as it is.
    """
    if any(one.name == "plan" for one in command.params):
        return message
    flags = {one.name: one.opts[0] for one in command.params if one.opts[0].startswith("--") and not one.is_flag}

    def option(found: re.Match[str]) -> str:
        whole, name = found[0], found["dotted"] or found["first"]
        return whole if whole in arguments else flags.get(name, whole)

    return _NAMED.sub(option, message)


@contextlib.contextmanager
def naming(option: str) -> Generator[None]:
    """Errors about a model that is loaded inside the block name this option."""
    try:
        yield
    except InputError as error:
        raise InputError(re.sub(r"^(target\.)?(model|base): ", f"{option}: ", str(error))) from None


def unfold(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every parameter that is a dataclass of options replaced by that dataclass's fields.

    Examples:
        >>> @dataclasses.dataclass
        ... class Size:
        ...     width: int = 1
        ...     height: int = 2
        >>> @unfold
        ... def area(size: Size, unit: str = "m") -> None:
        ...     print(size.width * size.height, unit)
        >>> area(width=3, unit="cm")
        6 cm
        >>> list(inspect.signature(area).parameters)
        ['width', 'height', 'unit']
    """
    own = inspect.signature(command, eval_str=True).parameters
    groups = {name: option.annotation for name, option in own.items() if dataclasses.is_dataclass(option.annotation)}
    shown: list[inspect.Parameter] = []
    for name, option in own.items():
        parameters = inspect.signature(groups[name], eval_str=True).parameters.values() if name in groups else [option]
        shown += [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            fields = [field.name for field in dataclasses.fields(group)]
            given[name] = group(**{field: given.pop(field) for field in fields if field in given})
        command(**given)

    run.__annotations__ = {option.name: option.annotation for option in shown}
    run.__signature__ = inspect.Signature(shown)  # ty: ignore[missing-attribute] (read by inspect)
    return run
