"""Finished models on disk: named by what made them, written whole or not at all, checked when read."""

from __future__ import annotations

import datetime as dt
import dis
import errno
import functools
import hashlib
import inspect
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import safetensors
from safetensors import numpy as tensors

from divulge import lazy, store
from divulge.errors import InputError
from divulge.store import open_untrusted
from divulge.validation import check_memory, check_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import CodeType, FunctionType

    import filelock
    from filelock import BaseFileLock
    from torch import nn

    from divulge.types import Array, Records
else:
    filelock = lazy.module("filelock")


State: TypeAlias = Literal["good", "damaged", "unfinished", "foreign"]

MARKER = ".divulge-pool"
_MARKER_CONTENT = {"divulge": "pool", "format": 1}
_KEY = "[0-9a-z]{1,64}"
_MODEL = re.compile(rf"({_KEY})\.(json|safetensors)")
_TEMPORARY = re.compile(rf"\.(?:({_KEY})\.(json|safetensors)|{re.escape(MARKER)})\.{store.TEMPORARY_SUFFIX}")
# What else lies in a pool: trials of engines and outputs too large for memory. `Pool.prune` leaves both alone.
_OTHER_FILES = re.compile(r"\.trials/[0-9a-f]{32}\.json|\.signals/outputs-[0-9]+\.npy")


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """One stored model.

    Args:
        key: the digest of everything that determines the model.
        state: "good"; "damaged" (a checksum does not hold); "unfinished" (a write that never ended); "foreign" (a
            file that no pool wrote, or of which nothing is left that shows it: never removed).
        bytes: size on disk.
        stored: when, ISO 8601 in UTC (empty when unreadable).
        about: what was recorded when it was stored (empty when unreadable).
        problem: what is wrong, empty when good.
    """

    key: str
    state: State
    bytes: int
    stored: str
    about: Mapping[str, Any]
    problem: str = ""


class DamagedError(InputError):
    """A stored model whose content is not what was written."""


@dataclass(frozen=True, slots=True)
class _Record:
    """The description of a stored model."""

    key: str
    sha256: str
    bytes: int
    stored: str
    about: dict[str, Any]
    checksum: str


@dataclass(frozen=True, slots=True)
class Pool:
    """A folder of finished models, shared freely between runs and processes; only its owner can read it.

    A model is two files: ``<key>.safetensors`` with its arrays and ``<key>.json`` with their SHA-256 and a
    description. The second is written last: without it the model does not count. Nothing is ever unpickled.
    A file ``.divulge-pool`` marks the folder; a folder with other files in it never becomes a pool.

    Args:
        path: the folder; made when the first model is stored.

    Examples:
        >>> import tempfile, numpy as np
        >>> pool = Pool(Path(tempfile.mkdtemp()))
        >>> pool.put("abc", {"w": np.ones(2)}, {"model": 0})
        >>> pool.get("abc")["w"], pool.get("unknown")
        (array([1., 1.]), None)
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", check_path(self.path, "path"))

    def claim(self) -> None:
        """Make the folder, or mark one that holds nothing but models as the pool it is.

        Raises:
            divulge.InputError: other files are in it, or it cannot be written.
        """
        try:
            if not self._has_marker():
                self._refuse_foreign()
                with self.lock():
                    self._refuse_foreign()
                    store.write_json(self.path / MARKER, _MARKER_CONTENT)
        except OSError as error:
            raise _write_error(self.path, error) from None

    def put(self, key: str, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> None:
        """Store a finished model.

        Raises:
            divulge.InputError: the disk is full or the folder cannot be written, what was stored before stays valid;
                the folder is not a pool.
        """
        assert re.fullmatch(_KEY, key)
        self.claim()
        content = tensors.save(dict(arrays), metadata={"divulge": key})
        record: dict[str, Any] = {
            "key": key,
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
            "stored": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "about": dict(about),
        }
        record["checksum"] = _checksum(record)
        try:
            with self.lock():  # both files of a key come from one writer
                store.write_bytes(self._arrays(key), content)
                store.write_json(self._description_path(key), record)
        except OSError as error:
            raise _write_error(self.path, error) from None

    def get(self, key: str) -> dict[str, Array] | None:
        """Return the arrays stored under ``key``; None if there are none.

        Raises:
            DamagedError: the files do not hold what was written.
        """
        if not os.path.lexists(self._description_path(key)):
            return None
        record = self._record(key)
        content = self._content(key)
        if hashlib.sha256(content).hexdigest() != record.sha256:
            raise DamagedError(f"{self._arrays(key).name}: its checksum does not match ({len(content)} bytes)")
        try:
            return tensors.load(content)
        except (safetensors.SafetensorError, ValueError, KeyError) as error:
            raise DamagedError(f"{self._arrays(key).name}: {error}") from None

    def discard(self, key: str) -> None:
        """Remove what is stored under ``key``, the description first."""
        with self.lock():
            self._description_path(key).unlink(missing_ok=True)
            self._arrays(key).unlink(missing_ok=True)

    def entries(self, *, verify: bool = False) -> Sequence[PoolEntry]:
        """List everything in the folder by key; with ``verify``, every array file is read and its checksum compared.

        Raises:
            divulge.InputError: no such folder, or one without any model that is not marked as a pool.
        """
        if not self.path.is_dir():
            raise InputError(f"{self.path}: no such pool of models")
        keys, unfinished, foreign = self._sorted()
        if not self._has_marker() and not keys:
            raise InputError(f"{self.path}: not a pool of models (no {MARKER} in it, and no model)")
        return (
            *(self._entry(key, verify=verify) for key in keys),
            *(
                PoolEntry(name, "unfinished", _disk_size([self.path / name]), "", {}, "left by a crash")
                for name in unfinished
            ),
            *(
                PoolEntry(name, "foreign", _disk_size([self.path / name]), "", {}, "not written by a pool; left alone")
                for name in foreign
            ),
        )

    def prunable(self, *, before: str = "") -> Sequence[PoolEntry]:
        """List what `prune` would remove: everything damaged or unfinished, and models stored before an ISO 8601 time.

        Raises:
            divulge.InputError: no such folder; one that is not marked and holds other files too.
        """
        entries = self.entries(verify=True)
        if not self._has_marker():
            self._refuse_foreign()
        return [e for e in entries if e.state in ("damaged", "unfinished") or (e.state == "good" and e.stored < before)]

    def prune(self, *, before: str = "", keys: Sequence[str] | None = None) -> Sequence[PoolEntry]:
        """Remove what `prunable` lists, or of that the given keys alone; say what was removed.

        Only files that show, by their name and by their content, that a pool wrote them are removed.

        Raises:
            divulge.InputError: see `prunable`.
        """
        self.prunable(before=before)
        self.claim()
        with self.lock():  # nobody is in the middle of writing
            gone = [entry for entry in self.prunable(before=before) if keys is None or entry.key in keys]
            for entry in gone:
                files = (self._description_path(entry.key), self._arrays(entry.key), self.path / entry.key)
                for path in [
                    path for path in files if self._is_pool_file(path)
                ]:  # judged while the description is there
                    path.unlink()
        return gone

    def lock(self) -> BaseFileLock:
        """Return the lock that writers of this pool hold while they write."""
        store.make_private_directory(self.path)
        return filelock.FileLock(self.path / ".lock", mode=0o600)

    def _has_marker(self) -> bool:
        path = self.path / MARKER
        if path.is_symlink() or not path.is_file():
            return False
        try:
            return bool(store.read_json(path, inside=self.path) == _MARKER_CONTENT)
        except InputError:
            return False

    def _refuse_foreign(self) -> None:
        """Raise where the folder holds what no pool writes."""
        foreign = self._sorted()[2] if self.path.is_dir() else []
        if foreign:
            listed_names = ", ".join(foreign[:5]) + (", …" if len(foreign) > 5 else "")
            raise InputError(
                f"pool: {self.path} is not marked as a pool and holds files that no pool writes ({listed_names}); "
                "give another folder, or move these away"
            )

    def _sorted(self) -> tuple[list[str], list[str], list[str]]:
        """Sort file names into keys of models, temporary files that a crash left, and files that are not a pool's."""
        keys, unfinished, foreign = set(), [], []
        for name in self._names():
            path = self.path / name
            if not self._is_pool_file(path, name):
                foreign.append(name)
            elif match := _MODEL.fullmatch(name):
                keys.add(match[1])
            elif _TEMPORARY.fullmatch(name):
                unfinished.append(name)
        return sorted(keys), unfinished, foreign

    def _names(self) -> Iterator[str]:
        """List all files, and those in folders that pools have; links are not followed."""
        for entry in sorted(self.path.iterdir()):
            if entry.name in (".trials", ".signals") and entry.is_dir() and not entry.is_symlink():
                yield from (f"{entry.name}/{inner.name}" for inner in sorted(entry.iterdir()))
            else:
                yield entry.name

    def _is_pool_file(self, path: Path, name: str = "") -> bool:
        """Check by name and content whether a pool wrote a file."""
        name = name or path.name
        if path.is_symlink() or not path.is_file():
            return False
        if match := _MODEL.fullmatch(name):
            return store.starts_with(path, _expected_prefix(match[1], match[2])) or (
                match[2] == "safetensors" and self._has_description(match[1])
            )
        if match := _TEMPORARY.fullmatch(name):
            head = _expected_prefix(match[1], match[2]) if match[1] else json.dumps(_MARKER_CONTENT, indent=2).encode()
            return store.starts_with(path, head, may_be_shorter=True)
        if name in (".lock", MARKER):
            return name == MARKER or not path.stat().st_size
        return _OTHER_FILES.fullmatch(name) is not None

    def _has_description(self, key: str) -> bool:
        """Check whether a description names the arrays of ``key``, whose own head may be damaged."""
        path = self._description_path(key)
        if path.is_symlink() or not path.is_file():
            return False
        try:
            self._record(key)
        except DamagedError:
            return False
        return True

    def _arrays(self, key: str) -> Path:
        return self.path / f"{key}.safetensors"

    def _description_path(self, key: str) -> Path:
        return self.path / f"{key}.json"

    def _record(self, key: str) -> _Record:
        path = self._description_path(key)
        try:
            plain = store.read_json(path, inside=self.path)
            record = store.parse_json(plain, _Record, path)
        except InputError as error:
            raise DamagedError(str(error)) from None
        if record.key != key or record.checksum != _checksum(plain):
            raise DamagedError(f"{path.name}: its checksum does not match")
        return record

    def _content(self, key: str) -> bytes:
        try:
            with open_untrusted(self._arrays(key), inside=self.path) as file:
                check_memory(2 * os.fstat(file.fileno()).st_size, file.name, "the model is larger than memory")
                return file.read()
        except FileNotFoundError:
            raise DamagedError(f"{self._arrays(key).name}: missing") from None
        except InputError as error:
            raise DamagedError(str(error)) from None

    def _entry(self, key: str, *, verify: bool) -> PoolEntry:
        size = _disk_size([self._arrays(key), self._description_path(key)])
        if not self._description_path(key).exists():
            return PoolEntry(key, "unfinished", size, "", {}, "no description: the write never finished")
        try:
            record = self._record(key)
            if verify:
                self.get(key)
            elif self._arrays(key).stat().st_size != record.bytes:
                raise DamagedError(f"{key}.safetensors: {record.bytes} bytes were written")
        except (DamagedError, FileNotFoundError) as error:
            return PoolEntry(key, "damaged", size, "", {}, str(error))
        return PoolEntry(key, "good", size, record.stored, record.about)


def _expected_prefix(key: str, suffix: str) -> bytes:
    """Return the bytes with which a file of a pool begins."""
    if suffix == "json":
        return f'{{\n  "key": "{key}",'.encode()
    return f'{{"__metadata__":{{"divulge":"{key}"}}'.encode()


def _disk_size(paths: Sequence[Path]) -> int:
    return sum(path.lstat().st_size for path in paths if path.is_symlink() or path.is_file())


def _checksum(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a description without its own checksum."""
    plain = {name: value for name, value in record.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _write_error(path: Path, error: OSError) -> InputError:
    reason = "no space is left on the device" if error.errno == errno.ENOSPC else (error.strerror or str(error))
    return InputError(f"pool: cannot write to {path}: {reason}; models stored before are kept and stay valid")


ARITHMETIC_VERSION = 3
"""Raised whenever a change to the training code changes what it computes."""


def digest_records(records: Records, *, labelled: bool = True) -> str:
    """Return a digest of records, of their encoding and of their labels."""
    table = () if records.table is None else (tuple(records.table.columns), b"".join(records.digests()).hex())
    return store.hash_values(records.x, records.y if labelled else None, *table)


def digest_function(function: object) -> str:
    """Return a digest of a function: name, source, defaults, captured values, and what it reads from its module.

    Constants, helpers and modules of the user's own are followed; of installed packages the names are enough. A value
    without a digest of its own (its repr holds an address) makes one that never matches again: retraining is slow, a
    stale model would be wrong.

    Examples:
        >>> digest_function(lambda x: x + 1) == digest_function(lambda x: x + 2)
        False
        >>> sine, cosine = lambda x: np.sin(x), lambda x: np.cos(x)
        >>> digest_function(sine) == digest_function(cosine)
        False
    """
    return _digest_callable(function, ())


def _digest_callable(function: object, visited: tuple[object, ...]) -> str:
    if isinstance(function, functools.partial):
        parts = [_digest_callable(function.func, visited), *(_digest(value, visited) for value in function.args)]
        return store.hash_values("partial", *parts, *_digest_items(function.keywords, visited))
    if inspect.ismethod(function):
        owner = _digest(function.__self__, visited)
        return store.hash_values("method", _digest_callable(function.__func__, visited), owner)
    if any(function is earlier for earlier in visited):
        return "recursive"
    if inspect.isclass(function):
        return _digest_class(function, (*visited, function))
    if inspect.isbuiltin(function):
        owner = function.__self__
        named = owner is None or inspect.ismodule(owner) or inspect.isclass(owner)
        parts = [str(function.__module__), function.__qualname__]
        return store.hash_values("builtin", *parts, repr(owner) if named else _digest(owner, visited))
    wrapped = getattr(function, "__wrapped__", None)
    if not inspect.isfunction(function):
        return store.hash_values("object", repr(function) if wrapped is None else _digest_callable(wrapped, visited))
    inner = (*visited, function)
    parts = [function.__module__, function.__qualname__, _source_code(function), *_digest_code(function.__code__)]
    parts += [_digest(value, inner) for value in function.__defaults__ or ()]
    parts += _digest_items(function.__kwdefaults__ or {}, inner)
    parts += [_digest_cell(cell, inner) for cell in function.__closure__ or ()]
    return store.hash_values("function", *parts, *_digest_globals(function, inner))


def _digest_class(class_: type, visited: tuple[object, ...]) -> str:
    source = _source_code(class_)
    parts = [] if source else _digest_members(class_)
    parts += _digest_class_globals(class_, visited)
    return store.hash_values("class", class_.__module__, class_.__qualname__, source, *parts)


def _digest_class_globals(class_: type, visited: tuple[object, ...]) -> list[str]:
    """Return digests of the base classes of a class of the user's own, and of what its methods read from its module."""
    if _is_installed(class_.__module__):
        return []
    parts = [_digest_callable(base, visited) for base in class_.__bases__ if not _is_installed(base.__module__)]
    return [*parts, *(part for _, method in _methods(class_) for part in _digest_globals(method, visited))]


def _digest_code(code: CodeType) -> list[str]:
    """Return what a function's code does: two lambdas of one line differ in nothing else, not even in the bytes."""
    # The order of a set of texts changes from one process to the next.
    constants = [
        sorted(map(repr, c)) if isinstance(c, frozenset) else c for c in code.co_consts if not inspect.iscode(c)
    ]
    inner = [part for c in code.co_consts if inspect.iscode(c) for part in _digest_code(c)]
    return [code.co_code.hex(), repr(constants), repr(code.co_names), *inner]


def _digest_globals(function: FunctionType, visited: tuple[object, ...]) -> list[str]:
    """Return digests of what a function of the user's own reads from its module, by name."""
    if _is_installed(function.__module__ or ""):
        return []
    names = sorted(_global_names(function.__code__) & function.__globals__.keys())
    return _digest_items({name: function.__globals__[name] for name in names}, visited)


def _global_names(code: CodeType) -> set[str]:
    names = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_global_names(inner) for inner in code.co_consts if inspect.iscode(inner)))


def _is_installed(module: str) -> bool:
    """Check whether a module is Python's own, of this package, or in a folder of installed packages."""
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names or package == "divulge":
        return True
    loaded = sys.modules.get(module) or sys.modules.get(package)
    return not _INSTALLED_FOLDERS.isdisjoint(Path(getattr(loaded, "__file__", None) or "").parts)


_INSTALLED_FOLDERS = {"site-packages", "dist-packages"}


def _digest_members(class_: type) -> list[str]:
    """Return what the methods and plain attributes of a class do, where its source was not kept."""
    parts: list[str] = [repr(class_.__bases__)]
    for name, function in _methods(class_):
        parts += [name, *_digest_code(function.__code__), repr((function.__defaults__, function.__kwdefaults__))]
    for name, member in sorted(vars(class_).items()):
        if name in ("__doc__", "__firstlineno__", "__static_attributes__"):
            continue
        if isinstance(member, bool | int | float | str | bytes | tuple | list | dict):
            parts += [name, repr(member)]
    return parts


def _methods(class_: type) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions of a class, those of its properties and static ones as well."""
    for name, member in sorted(vars(class_).items()):
        accessors = (member.fget, member.fset, member.fdel) if isinstance(member, property) else (member,)
        for function in (getattr(accessor, "__func__", accessor) for accessor in accessors):
            if inspect.isfunction(function):
                yield name, function


def list_settings(config: Any) -> list[tuple[str, str]]:
    """List the settings that determine the trained models; where they are trained determines nothing."""
    execution = [
        "make_model",
        "count",
        "engine",
        "device",
        "workers",
        "gpus",
        "match",
        "lr",
    ]  # `learning_rate` is listed
    if config.stop_after is None:  # models that were stored before there was this setting keep their keys
        execution.append("stop_after")
    pairs = [(f.name, digest_value(getattr(config, f.name))) for f in fields(config) if f.name not in execution]
    return [*pairs, ("learning_rate", repr(config.learning_rate))]


def digest_architecture(module: nn.Module) -> str:
    """Return a digest of a network's structure, attributes, source of its own classes, and first weights."""
    return _digest_network(module, ())


def _digest_network(module: nn.Module, visited: tuple[object, ...]) -> str:
    parts: list[object] = [repr(module)]
    inner = (*visited, module)
    for name, part in module.named_modules():
        attributes = {k: v for k, v in vars(part).items() if k not in _STATE_OF_MODULES and v is not None}
        is_own = not type(part).__module__.startswith("torch.")
        if is_own:
            parts += [name, type(part).__qualname__, _source_code(type(part))]
        plain = {k: v for k, v in attributes.items() if isinstance(v, _PLAIN_ATTRIBUTES) and _is_plain(v)}
        parts.append(sorted((k, repr(v)) for k, v in plain.items()))
        if is_own:
            others = {k: v for k, v in attributes.items() if k not in plain}
            parts += [*_digest_items(others, (*inner, part)), *_digest_class_globals(type(part), inner)]
    for name, tensor in module.state_dict().items():
        parts += [name, _to_numpy(tensor)]
    return store.hash_values("architecture", *parts)


_PLAIN_ATTRIBUTES = (bool, int, float, str, tuple)

# What `state_dict` holds, what `named_modules` lists, and hooks, which a copy of the network has under other numbers.
_STATE_OF_MODULES = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"} | {
    f"_{kind}_hooks{suffix}"
    for kind in ("backward", "backward_pre", "forward", "forward_pre", "state_dict", "state_dict_pre",
                 "load_state_dict_pre", "load_state_dict_post")
    for suffix in ("", "_with_kwargs", "_always_called")
}  # fmt: skip


def _to_numpy(tensor: Any) -> np.ndarray[Any, Any]:
    plain = tensor.detach().cpu()
    return (plain.float() if plain.dtype.is_floating_point and plain.element_size() < 4 else plain).numpy()


def digest_value(value: object) -> str:
    """Return a digest or repr of an argument, a default or a captured value.

    Arrays, tensors, frames and networks count with all their values, and objects of the user's own classes with all
    their attributes, as their repr may leave these out.
    """
    return _digest(value, ())


def _digest(value: Any, visited: tuple[object, ...]) -> str:
    if _is_plain(value):
        return repr(value)
    if isinstance(value, functools.partial) or inspect.isroutine(value) or inspect.isclass(value):
        return _digest_callable(value, visited)
    if inspect.ismodule(value):
        source = () if _is_installed(value.__name__) else (_source_code(value),)
        return store.hash_values("module", value.__name__, *source)
    if any(value is earlier for earlier in visited):
        return "recursive"
    inner = (*visited, value)
    if isinstance(value, dict | list | tuple | set | frozenset):
        return _digest_container(value, inner)
    if is_dataclass(value):
        parts = [_digest(getattr(value, field.name), inner) for field in fields(value)]
        is_plain = all(_is_plain(getattr(value, field.name)) for field in fields(value))
        return repr(value) if is_plain else store.hash_values("dataclass", type(value).__qualname__, *parts)
    arrays = _as_arrays(value)
    if arrays is not None:
        return store.hash_values(*(_digest(part, inner) if isinstance(part, list) else part for part in arrays))
    return _digest_object(value, inner)


def _digest_object(value: Any, visited: tuple[object, ...]) -> str:
    if callable(getattr(value, "state_dict", None)) and callable(getattr(value, "named_modules", None)):
        return _digest_network(value, visited)
    if isinstance(value, np.random.Generator):
        return store.hash_values("generator", _digest(value.bit_generator.state, visited))
    has_full_repr = type(value).__repr__ is not object.__repr__ and not callable(getattr(value, "get_params", None))
    if not hasattr(value, "__dict__") or (has_full_repr and _is_installed(type(value).__module__)):
        return repr(value)
    return store.hash_values("object", _digest_callable(type(value), visited), *_digest_items(vars(value), visited))


_PLAIN = (bool, int, float, complex, str, bytes, np.generic)
_MAX_PLAIN_DEPTH = 4


def _is_plain(value: object, depth: int = 0) -> bool:
    """Check whether the repr of a value says all: numbers and texts, and containers of them that have an order."""
    if value is None or isinstance(value, _PLAIN):
        return True
    if depth == _MAX_PLAIN_DEPTH or not isinstance(value, dict | list | tuple):
        return False
    items = [*value.keys(), *value.values()] if isinstance(value, dict) else value
    return all(_is_plain(item, depth + 1) for item in items)


def _digest_container(
    values: dict[Any, Any] | list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any], visited: tuple[object, ...]
) -> str:
    if isinstance(values, dict):
        parts = [f"{_digest(key, visited)}: {_digest(item, visited)}" for key, item in values.items()]
    else:
        parts = [_digest(item, visited) for item in values]
    return store.hash_values(type(values).__name__, *(sorted(parts) if isinstance(values, set | frozenset) else parts))


def _as_arrays(value: Any) -> tuple[object, ...] | None:
    """Return arrays, tensors, frames and sparse matrices as arrays with their columns; None for anything else."""
    if isinstance(value, np.ndarray):
        return (value,) if value.dtype != object else (value.shape, value.ravel().tolist())
    if callable(getattr(value, "detach", None)):
        return "tensor", _to_numpy(value)
    if callable(getattr(value, "tocoo", None)):
        entries = value.tocoo()
        return "sparse", entries.shape, entries.row, entries.col, entries.data
    if not hasattr(value, "__array__"):
        return None
    columns, index = list(getattr(value, "columns", ())), list(getattr(value, "index", ()))
    values = np.asarray(value)
    return type(value).__name__, columns, index, values if values.dtype != object else (values.ravel().tolist())


def _digest_items(values: Mapping[str, object], visited: tuple[object, ...]) -> list[str]:
    return [f"{name}={_digest(item, visited)}" for name, item in sorted(values.items())]


def _digest_cell(cell: Any, visited: tuple[object, ...]) -> str:
    try:
        return _digest(cell.cell_contents, visited)
    except ValueError:  # a recursive function, not yet bound
        return "empty"


def _source_code(value: Any) -> str:
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return ""
