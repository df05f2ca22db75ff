"""Where a run comes from: when, by which command, of which files, with which software."""

from __future__ import annotations

import os
import shlex
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from divulge import store
from divulge.errors import InputError
from divulge.machine import current_time
from divulge.results.environment import environment
from divulge.results.json_files import to_json_values
from divulge.results.recorded import Environment

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from divulge.run_directory import RunDraft

NAME = "provenance.json"
_HEADER = "--header"
COMMAND: ContextVar[tuple[str, ...]] = ContextVar("command", default=())
"""The command line that is running; empty where Divulge is used from Python."""
_FILES: ContextVar[Mapping[str, Sequence[Path]]] = ContextVar("files", default=MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Source:
    """A file that a run read.

    Args:
        role: what it is to the run ("members", "model").
        name: its name, without the directories above it.
        digest: SHA-256 of its content; of the names and contents of all its files, if it is a folder.
        size: in bytes.
    """

    role: str
    name: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a run comes from.

    Args:
        date: when it was written, in UTC to the second.
        command: the command line as it was given; empty where Divulge was used from Python.
        sources: the files that were read.
        environment: the software.
    """

    date: str
    command: str
    sources: tuple[Source, ...]
    environment: Environment


def write(draft: RunDraft, files: Mapping[str, Sequence[Path]] | None = None) -> Provenance:
    """Note in ``draft`` where the run that is being written comes from.

    Args:
        draft: the run.
        files: role → files and folders that were read; those that the command named when None.
    """
    made = now(files)
    draft.write_json(NAME.removesuffix(".json"), to_json_values(made))
    return made


def reading(**files: Path | str | None) -> None:
    """Say which files the running command reads, role by role; what is no file or folder is left out."""
    _FILES.set({role.replace("_", " "): [Path(path)] for role, path in files.items() if path is not None})


@contextmanager
def running(command: Sequence[str]) -> Generator[None]:
    """While a command line runs: what is written then says so."""
    tokens = COMMAND.set(tuple(command)), _FILES.set({})
    try:
        yield
    finally:
        COMMAND.reset(tokens[0])
        _FILES.reset(tokens[1])


def now(files: Mapping[str, Sequence[Path]] | None = None) -> Provenance:
    """Where what is being done comes from; see `write`. Without ``files``, those that the command named."""
    named = _FILES.get() if files is None else files
    sources = tuple(source(role, path) for role, paths in named.items() for path in paths if path.exists())
    return Provenance(current_time(), spelt(shlex.join(_shareable(COMMAND.get()))), sources, environment())


def spelt(name: str) -> str:
    r"""Return a name from the system as text: what of it is not UTF-8 is spelt out.

    Examples:
        >>> print(spelt("a" + chr(0xDCFF)))
        a\udcff
    """
    return name.encode("utf-8", "backslashreplace").decode()


def _shareable(command: Sequence[str]) -> list[str]:
    """The command without what headers hold: a report is passed on, and a header is where a key stands.

    Examples:
        >>> _shareable(["attack", "--header", "X-Key: 123", "--header=Authorization: Bearer 123"])
        ['attack', '--header', 'X-Key: …', '--header=Authorization: …']
    """
    told, secret = [], False
    for word in command:
        option, given, value = word.partition("=")
        if secret:
            told.append(_named(word))
        elif option == _HEADER and given:
            told.append(f"{option}={_named(value)}")
        else:
            told.append(word)
        secret = word == _HEADER and not secret
    return told


def _named(header: str) -> str:
    name, colon, _ = header.partition(":")
    return f"{name}: …" if colon else "…"


def read(*folders: Path | None) -> Provenance | None:
    """What `write` noted in the first of ``folders`` that has it; None where none has.

    Raises:
        divulge.InputError: a damaged file.
    """
    path = next((folder / NAME for folder in folders if folder is not None and os.path.lexists(folder / NAME)), None)
    if path is None:
        return None
    content = store.read_json(path, inside=path.parent)
    if not isinstance(content, dict):
        raise InputError(f"{path}: damaged: an object is needed")
    return store.parse_json(content, Provenance, path)


def source(role: str, path: Path) -> Source:
    """A file, or a folder with all that is in it."""
    if path.is_file():
        return Source(role, spelt(path.name), store.hash_file(path), path.stat().st_size)
    inside = sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    digests = [(file.relative_to(path).as_posix(), store.hash_file(file)) for file in inside]
    return Source(role, spelt(path.name), store.hash_values(*digests), sum(file.stat().st_size for file in inside))
