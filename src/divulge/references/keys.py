"""Names for models: a digest of everything that determines the result of training."""

from __future__ import annotations

import functools
import inspect
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import store

if TYPE_CHECKING:
    from torch import nn

    from divulge.types import Records

ARITHMETIC = 3
"""Raised whenever a change to the training code changes what it computes."""


def data(records: Records, *, labelled: bool = True) -> str:
    """Digest of records, as they are and as they are encoded, and of their labels."""
    table = () if records.table is None else (tuple(records.table.columns), b"".join(records.digests()).hex())
    return store.hash_values(records.x, records.y if labelled else None, *table)


def function(thing: object) -> str:
    """Digest of what a function does, as far as that can be seen: name, source, defaults and captured values.

    A captured object without a value of its own (its repr holds an address) makes a digest that never
    matches again: retraining is slow, a stale model would be wrong.

    Examples:
        >>> function(lambda x: x + 1) == function(lambda x: x + 2)
        False
    """
    if isinstance(thing, functools.partial):
        return store.hash_values("partial", function(thing.func), *map(value, thing.args), *_items(thing.keywords))
    if inspect.ismethod(thing):
        return store.hash_values("method", function(thing.__func__), value(thing.__self__))
    if inspect.isclass(thing):
        return store.hash_values("class", thing.__module__, thing.__qualname__, _source(thing))
    if not inspect.isfunction(thing):
        return store.hash_values("object", repr(thing))
    code = thing.__code__
    parts = [thing.__module__, thing.__qualname__, _source(thing), code.co_code.hex()]
    parts.append(repr([c for c in code.co_consts if not inspect.iscode(c)]))
    parts += map(value, thing.__defaults__ or ())
    parts += _items(thing.__kwdefaults__ or {})
    parts += [_cell(cell) for cell in thing.__closure__ or ()]
    return store.hash_values("function", *parts)


def settings(config: Any) -> list[tuple[str, str]]:
    """The fields of a configuration that decide what comes out; how it is run decides nothing."""
    execution = ("make_model", "count", "engine", "device", "workers", "lr")  # `learning_rate` stands for the last
    pairs = [(f.name, value(getattr(config, f.name))) for f in fields(config) if f.name not in execution]
    return [*pairs, ("learning_rate", repr(config.learning_rate))]


def architecture(module: nn.Module) -> str:
    """Digest of a network's structure, its plain attributes, the source of its own classes, and its first weights."""
    parts: list[object] = [repr(module)]
    for name, part in module.named_modules():
        if not type(part).__module__.startswith("torch."):
            parts += [name, type(part).__qualname__, _source(type(part))]
        plain = {k: v for k, v in vars(part).items() if isinstance(v, bool | int | float | str | tuple)}
        parts.append(sorted((k, repr(v)) for k, v in plain.items()))
    for name, tensor in module.state_dict().items():
        parts += [name, _bits(tensor)]
    return store.hash_values("architecture", *parts)


def _bits(tensor: Any) -> np.ndarray[Any, Any]:
    plain = tensor.detach().cpu()
    return (plain.float() if plain.dtype.is_floating_point and plain.element_size() < 4 else plain).numpy()


def _items(values: dict[str, object]) -> list[str]:
    return [f"{name}={value(item)}" for name, item in sorted(values.items())]


def value(thing: object) -> str:
    """Digest or repr of an argument, a default or a captured value."""
    if isinstance(thing, np.ndarray):
        return store.hash_values(thing)
    if inspect.isfunction(thing) or inspect.isclass(thing) or inspect.ismethod(thing):
        return function(thing)
    if isinstance(thing, functools.partial):
        return function(thing)
    return repr(thing)


def _cell(cell: Any) -> str:
    try:
        return value(cell.cell_contents)
    except ValueError:  # a recursive function, not yet bound
        return "empty"


def _source(value: Any) -> str:
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return ""
