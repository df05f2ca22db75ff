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

ARITHMETIC_VERSION = 3
"""Raised whenever a change to the training code changes what it computes."""


def digest_records(records: Records, *, labelled: bool = True) -> str:
    """Digest of records, as they are and as they are encoded, and of their labels."""
    table = () if records.table is None else (tuple(records.table.columns), b"".join(records.digests()).hex())
    return store.digest(records.x, records.y if labelled else None, *table)


def digest_function(thing: object) -> str:
    """Digest of what a function does, as far as that can be seen: name, source, defaults and captured values.

    A captured object without a value of its own (its repr holds an address) makes a digest that never
    matches again: retraining is slow, a stale model would be wrong.

    Examples:
        >>> digest_function(lambda x: x + 1) == digest_function(lambda x: x + 2)
        False
    """
    if isinstance(thing, functools.partial):
        return store.digest("partial", digest_function(thing.func), *map(digest_value, thing.args), *_digest_items(thing.keywords))
    if inspect.ismethod(thing):
        return store.digest("method", digest_function(thing.__func__), digest_value(thing.__self__))
    if inspect.isclass(thing):
        return store.digest("class", thing.__module__, thing.__qualname__, _source_code(thing))
    if not inspect.isfunction(thing):
        return store.digest("object", repr(thing))
    code = thing.__code__
    parts = [thing.__module__, thing.__qualname__, _source_code(thing), code.co_code.hex()]
    parts.append(repr([c for c in code.co_consts if not inspect.iscode(c)]))
    parts += map(digest_value, thing.__defaults__ or ())
    parts += _digest_items(thing.__kwdefaults__ or {})
    parts += [_digest_cell(cell) for cell in thing.__closure__ or ()]
    return store.digest("function", *parts)


def list_settings(config: Any) -> list[tuple[str, str]]:
    """The fields of a configuration that decide what comes out; how it is run decides nothing."""
    execution = ("make_model", "count", "engine", "device", "workers", "lr")  # `learning_rate` stands for the last
    pairs = [(f.name, digest_value(getattr(config, f.name))) for f in fields(config) if f.name not in execution]
    return [*pairs, ("learning_rate", repr(config.learning_rate))]


def digest_architecture(module: nn.Module) -> str:
    """Digest of a network's structure, its plain attributes, the source of its own classes, and its first weights."""
    parts: list[object] = [repr(module)]
    for name, part in module.named_modules():
        if not type(part).__module__.startswith("torch."):
            parts += [name, type(part).__qualname__, _source_code(type(part))]
        plain = {k: v for k, v in vars(part).items() if isinstance(v, bool | int | float | str | tuple)}
        parts.append(sorted((k, repr(v)) for k, v in plain.items()))
    for name, tensor in module.state_dict().items():
        parts += [name, _to_numpy(tensor)]
    return store.digest("architecture", *parts)


def _to_numpy(tensor: Any) -> np.ndarray[Any, Any]:
    plain = tensor.detach().cpu()
    return (plain.float() if plain.dtype.is_floating_point and plain.element_size() < 4 else plain).numpy()


def _digest_items(values: dict[str, object]) -> list[str]:
    return [f"{name}={digest_value(item)}" for name, item in sorted(values.items())]


def digest_value(thing: object) -> str:
    """Digest or repr of an argument, a default or a captured value."""
    if isinstance(thing, np.ndarray):
        return store.digest(thing)
    if inspect.isfunction(thing) or inspect.isclass(thing) or inspect.ismethod(thing):
        return digest_function(thing)
    if isinstance(thing, functools.partial):
        return digest_function(thing)
    return repr(thing)


def _digest_cell(cell: Any) -> str:
    try:
        return digest_value(cell.cell_contents)
    except ValueError:  # a recursive function, not yet bound
        return "empty"


def _source_code(value: Any) -> str:
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return ""
