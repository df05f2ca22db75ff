"""Options that several commands share, declared once as the fields of a dataclass."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Out = Annotated[Path | None, typer.Option(help="Run directory to write (default: runs/NAME-TIME).", show_default=False)]
Trust = Annotated[list[str] | None, typer.Option(help="A type to trust in a .skops target; may be repeated.")]


def folder(out: Path | None, name: str) -> Path:
    """The run directory asked for, or a fresh one under ``runs``."""
    return out if out is not None else Path("runs") / f"{name or 'run'}-{time.strftime('%Y%m%d-%H%M%S')}"


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
