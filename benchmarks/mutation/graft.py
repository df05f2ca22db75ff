"""Puts a fault into modules that are imported already: functions and classes stay the objects that others hold.

The outermost statement with the fault is run again in its module. Of a function or class, what it computes (code and
default values) is moved into the one that was there; any other name is replaced wherever it was imported to.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
from types import FunctionType, ModuleType

from mutants import Fault


def graft(fault: Fault) -> None:
    """Put the fault into this process."""
    name = fault.file.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module = importlib.import_module(name)
    for statement in ast.parse(fault.source).body:
        first = min([statement.lineno, *(part.lineno for part in getattr(statement, "decorator_list", ()))])
        if first <= fault.line <= (statement.end_lineno or statement.lineno):
            _run(statement, module, str(module.__file__))


def _run(statement: ast.stmt, module: ModuleType, file: str) -> None:
    before = dict(vars(module))
    future = ast.parse("from __future__ import annotations").body
    exec(compile(ast.Module([*future, statement], []), file, "exec"), vars(module))  # the project's own code
    for name, new in list(vars(module).items()):
        old = before.get(name, new)
        if new is old:
            continue
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            setattr(module, name, old)
            _move(new, old)
        else:
            for other in list(sys.modules.values()):
                if getattr(other, "__name__", "").startswith("divulge") and vars(other).get(name) is old:
                    setattr(other, name, new)


def _move(new: object, old: object) -> None:
    """What ``new`` computes into ``old``."""
    if inspect.isclass(new) and inspect.isclass(old):
        for name, part in vars(new).items():
            there = vars(old).get(name)
            if name in ("__dict__", "__weakref__", "__doc__", "__module__", "__slots__") or inspect.isdatadescriptor(
                part
            ):
                if isinstance(part, property) and isinstance(there, property):
                    _move(part.fget, there.fget)
            elif _function(part) is not None:
                _move(part, there)
            elif not inspect.ismemberdescriptor(part) and not inspect.isgetsetdescriptor(part):
                setattr(old, name, part)
        return
    one, other = _function(new), _function(old)
    if one is not None and other is not None:
        other.__code__, other.__defaults__, other.__kwdefaults__ = one.__code__, one.__defaults__, one.__kwdefaults__


def _function(thing: object) -> FunctionType | None:
    if isinstance(thing, functools.cached_property):
        thing = thing.func
    thing = (
        inspect.unwrap(getattr(thing, "__func__", thing)) if callable(thing) or hasattr(thing, "__func__") else thing
    )
    return thing if isinstance(thing, FunctionType) else None
