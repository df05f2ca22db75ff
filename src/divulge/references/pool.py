"""Finished models on disk: named by what made them, written whole or not at all, checked when read."""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import filelock
import safetensors
from safetensors import numpy as tensors

from divulge import store
from divulge.errors import InputError
from divulge.store import open_untrusted
from divulge.validation import check_memory, check_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from filelock import BaseFileLock

    from divulge.types import Array

State: TypeAlias = Literal["good", "damaged", "unfinished", "foreign"]

MARKER = ".divulge-pool"
_MARK = {"divulge": "pool", "format": 1}
_KEY = "[0-9a-z]{1,64}"
_MODEL = re.compile(rf"({_KEY})\.(json|safetensors)")
_TEMPORARY = re.compile(rf"\.(?:({_KEY})\.(json|safetensors)|{re.escape(MARKER)})\.{store.TEMPORARY_SUFFIX}")
# What else lies in a pool: trials of engines and outputs too large for memory. `Pool.prune` leaves both alone.
_BESIDE = re.compile(r"\.trials/[0-9a-f]{32}\.json|\.signals/outputs-[0-9]+\.npy")


@dataclass(frozen=True, slots=True)
class Entry:
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
            if not self._marked():
                self._refuse_foreign()
                with self.lock():
                    self._refuse_foreign()
                    store.write_json(self.path / MARKER, _MARK)
        except OSError as error:
            raise _refused(self.path, error) from None

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
                store.write_json(self._about(key), record)
        except OSError as error:
            raise _refused(self.path, error) from None

    def get(self, key: str) -> dict[str, Array] | None:
        """The arrays stored under ``key``; None when there are none.

        Raises:
            DamagedError: the files do not hold what was written.
        """
        if not os.path.lexists(self._about(key)):
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
            self._about(key).unlink(missing_ok=True)
            self._arrays(key).unlink(missing_ok=True)

    def entries(self, *, verify: bool = False) -> Sequence[Entry]:
        """Everything in the folder, by key; with ``verify`` every array file is read and its checksum compared.

        Raises:
            divulge.InputError: no such folder, or one without any model that is not marked as a pool.
        """
        if not self.path.is_dir():
            raise InputError(f"{self.path}: no such pool of models")
        ours, left, foreign = self._sorted()
        if not self._marked() and not ours:
            raise InputError(f"{self.path}: not a pool of models (no {MARKER} in it, and no model)")
        return (
            *(self._entry(key, verify=verify) for key in ours),
            *(Entry(name, "unfinished", _size([self.path / name]), "", {}, "left by a crash") for name in left),
            *(
                Entry(name, "foreign", _size([self.path / name]), "", {}, "not written by a pool; left alone")
                for name in foreign
            ),
        )

    def prunable(self, *, before: str = "") -> Sequence[Entry]:
        """What `prune` would remove: all that is damaged or unfinished, and models stored before an ISO 8601 time.

        Raises:
            divulge.InputError: no such folder; one that is not marked and holds other files too.
        """
        entries = self.entries(verify=True)
        if not self._marked():
            self._refuse_foreign()
        return [e for e in entries if e.state in ("damaged", "unfinished") or (e.state == "good" and e.stored < before)]

    def prune(self, *, before: str = "", keys: Sequence[str] | None = None) -> Sequence[Entry]:
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
                files = (self._about(entry.key), self._arrays(entry.key), self.path / entry.key)
                for path in [path for path in files if self._ours(path)]:  # judged while the description is there
                    path.unlink()
        return gone

    def lock(self) -> BaseFileLock:
        """The lock that writers of this pool hold for the moment of writing."""
        store.make_private_directory(self.path)
        return filelock.FileLock(self.path / ".lock", mode=0o600)

    def _marked(self) -> bool:
        path = self.path / MARKER
        if path.is_symlink() or not path.is_file():
            return False
        try:
            return bool(store.read_json(path, inside=self.path) == _MARK)
        except InputError:
            return False

    def _refuse_foreign(self) -> None:
        """Raise where the folder holds what no pool writes."""
        strange = self._sorted()[2] if self.path.is_dir() else []
        if strange:
            shown = ", ".join(strange[:5]) + (", …" if len(strange) > 5 else "")
            raise InputError(
                f"pool: {self.path} is not marked as a pool and holds files that no pool writes ({shown}); "
                "give another folder, or move these away"
            )

    def _sorted(self) -> tuple[list[str], list[str], list[str]]:
        """Keys of models, names of temporary files that a crash left, and names of files that are not a pool's."""
        keys, left, foreign = set(), [], []
        for name in self._names():
            path = self.path / name
            if not self._ours(path, name):
                foreign.append(name)
            elif match := _MODEL.fullmatch(name):
                keys.add(match[1])
            elif _TEMPORARY.fullmatch(name):
                left.append(name)
        return sorted(keys), left, foreign

    def _names(self) -> Iterator[str]:
        """Names of all files, and of those in folders that pools have; links are not followed."""
        for entry in sorted(self.path.iterdir()):
            if entry.name in (".trials", ".signals") and entry.is_dir() and not entry.is_symlink():
                yield from (f"{entry.name}/{inner.name}" for inner in sorted(entry.iterdir()))
            else:
                yield entry.name

    def _ours(self, path: Path, name: str = "") -> bool:
        """Whether a file is one that pools write: its name says so, and what it holds does too."""
        name = name or path.name
        if path.is_symlink() or not path.is_file():
            return False
        if match := _MODEL.fullmatch(name):
            return store.starts_with(path, _head(match[1], match[2])) or (
                match[2] == "safetensors" and self._described(match[1])
            )
        if match := _TEMPORARY.fullmatch(name):
            head = _head(match[1], match[2]) if match[1] else json.dumps(_MARK, indent=2).encode()
            return store.starts_with(path, head, cut=True)
        if name in (".lock", MARKER):
            return name == MARKER or not path.stat().st_size
        return _BESIDE.fullmatch(name) is not None

    def _described(self, key: str) -> bool:
        """Whether a sound description names the arrays of ``key``: those of earlier versions do not name themselves."""
        path = self._about(key)
        if path.is_symlink() or not path.is_file():
            return False
        try:
            self._record(key)
        except DamagedError:
            return False
        return True

    def _arrays(self, key: str) -> Path:
        return self.path / f"{key}.safetensors"

    def _about(self, key: str) -> Path:
        return self.path / f"{key}.json"

    def _record(self, key: str) -> _Record:
        path = self._about(key)
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

    def _entry(self, key: str, *, verify: bool) -> Entry:
        size = _size([self._arrays(key), self._about(key)])
        if not self._about(key).exists():
            return Entry(key, "unfinished", size, "", {}, "no description: the write never finished")
        try:
            record = self._record(key)
            if verify:
                self.get(key)
            elif self._arrays(key).stat().st_size != record.bytes:
                raise DamagedError(f"{key}.safetensors: {record.bytes} bytes were written")
        except (DamagedError, FileNotFoundError) as error:
            return Entry(key, "damaged", size, "", {}, str(error))
        return Entry(key, "good", size, record.stored, record.about)


def _head(key: str, kind: str) -> bytes:
    """How a file of a pool begins."""
    if kind == "json":
        return f'{{\n  "key": "{key}",'.encode()
    return f'{{"__metadata__":{{"divulge":"{key}"}}'.encode()


def _size(paths: Sequence[Path]) -> int:
    return sum(path.lstat().st_size for path in paths if path.is_symlink() or path.is_file())


def _checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a description without its own checksum."""
    plain = {name: value for name, value in record.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _refused(path: Path, error: OSError) -> InputError:
    reason = "no space is left on the device" if error.errno == errno.ENOSPC else (error.strerror or str(error))
    return InputError(f"pool: cannot write to {path}: {reason}; models stored before are kept and stay valid")
