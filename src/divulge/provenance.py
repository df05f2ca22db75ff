"""Provenance of a run: when it was made, by which command, from which files, with which software."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from divulge import store
from divulge._version import __version__
from divulge.errors import InputError
from divulge.machine import current_time
from divulge.store import to_json_values

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from divulge.run_directory import RunDraft


PROVENANCE_FILE = "provenance.json"
_HEADER_OPTION = "--header"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "lightgbm", "torch", "transformers", "polars", "ray")
COMMAND: ContextVar[tuple[str, ...]] = ContextVar("command", default=())
"""Command line that is running; empty where Divulge is used from Python."""
_INPUT_FILES: ContextVar[Mapping[str, Sequence[Path]]] = ContextVar("input_files", default=MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Environment:
    """The software and the machine that a run was made with."""

    divulge: str
    python: str
    platform: str
    cpu_count: int | None
    packages: Mapping[str, str]
    git_commit: str | None


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
    """Provenance of a run.

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


@contextmanager
def record_command(command: Sequence[str]) -> Generator[None]:
    """Record ``command`` as the origin of everything that is written within this context."""
    tokens = COMMAND.set(tuple(command)), _INPUT_FILES.set({})
    try:
        yield
    finally:
        COMMAND.reset(tokens[0])
        _INPUT_FILES.reset(tokens[1])


def declare_input_files(**files: Path | str | None) -> None:
    """Declare the files that the running command reads, role by role; paths that do not exist are left out later."""
    _INPUT_FILES.set({role.replace("_", " "): [Path(path)] for role, path in files.items() if path is not None})


def list_declared_files(role: str) -> list[Path]:
    """Return the files that the running command declared for a role and that exist."""
    return [path for path in _INPUT_FILES.get().get(role, ()) if path.exists()]


def collect_provenance(files: Mapping[str, Sequence[Path]] | None = None) -> Provenance:
    """Return the provenance of the work in progress.

    Args:
        files: role → files and folders that were read; by default those that the command declared.
    """
    inputs = _INPUT_FILES.get() if files is None else files
    sources = tuple(describe_source(role, path) for role, paths in inputs.items() for path in paths if path.exists())
    command = escape_name(shlex.join(_hide_headers(COMMAND.get())))
    return Provenance(current_time(), command, sources, collect_environment())


def write_provenance(draft: RunDraft, files: Mapping[str, Sequence[Path]] | None = None) -> Provenance:
    """Write the provenance of the run that is being written into ``draft``; see `collect_provenance`."""
    provenance = collect_provenance(files)
    draft.write_json(PROVENANCE_FILE.removesuffix(".json"), to_json_values(provenance))
    return provenance


def read_provenance(*folders: Path | None) -> Provenance | None:
    """Read the provenance in the first of ``folders`` that has one; None if none has.

    Raises:
        divulge.InputError: a damaged file.
    """
    paths = (folder / PROVENANCE_FILE for folder in folders if folder is not None)
    path = next(filter(os.path.lexists, paths), None)
    if path is None:
        return None
    content = store.read_json(path, inside=path.parent)
    if not isinstance(content, dict):
        raise InputError(f"{path}: damaged: an object is needed")
    return store.parse_json(content, Provenance, path)


def describe_source(role: str, path: Path) -> Source:
    """Return name, digest and size of a file, or of a folder with all files in it."""
    if path.is_file():
        return Source(role, escape_name(path.name), store.hash_file(path), path.stat().st_size)
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    digests = [(file.relative_to(path).as_posix(), store.hash_file(file)) for file in files]
    return Source(role, escape_name(path.name), store.hash_values(*digests), sum(file.stat().st_size for file in files))


def collect_environment() -> Environment:
    """Return versions, kind of machine, and the git commit of the working directory where there is one."""
    commit = None
    if (git := shutil.which("git")) is not None:
        result = subprocess.run([git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
        commit = result.stdout.strip() if result.returncode == 0 else None
    versions = dict(_read_versions())
    return Environment(__version__, platform.python_version(), platform.platform(), os.cpu_count(), versions, commit)


@functools.cache
def _read_versions() -> dict[str, str]:
    """Return the versions of the packages that are installed, which takes a tenth of a small audit."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def escape_name(name: str) -> str:
    r"""Return a name from the system as valid text; bytes that are not UTF-8 become escape sequences.

    Examples:
        >>> print(escape_name("a" + chr(0xDCFF)))
        a\udcff
    """
    return name.encode("utf-8", "backslashreplace").decode()


def _hide_headers(command: Sequence[str]) -> list[str]:
    """Replace the values of headers, which hold keys, because reports are passed on.

    Examples:
        >>> _hide_headers(["attack", "--header", "X-Key: 123", "--header=Authorization: Bearer 123"])
        ['attack', '--header', 'X-Key: …', '--header=Authorization: …']
    """
    words, is_header = [], False
    for word in command:
        option, equals, value = word.partition("=")
        if is_header:
            words.append(_hide_value(word))
        elif option == _HEADER_OPTION and equals:
            words.append(f"{option}={_hide_value(value)}")
        else:
            words.append(word)
        is_header = word == _HEADER_OPTION and not is_header
    return words


def _hide_value(header: str) -> str:
    name, colon, _ = header.partition(":")
    return f"{name}: …" if colon else "…"
