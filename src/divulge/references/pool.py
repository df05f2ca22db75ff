"""Finished models on disk: named by what made them, written whole or not at all, checked when read."""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from divulge import checks, store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from filelock import BaseFileLock

    from divulge.types import Array

State: TypeAlias = Literal["good", "damaged", "unfinished"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored model.

    Args:
        key: the digest of everything that determines the model.
        state: "good"; "damaged" (a checksum does not hold); "unfinished" (a write that never ended).
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


class DamagedError(ValueError):
    """A stored model whose content is not what was written."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A folder of finished models, shared freely between runs and processes.

    A model is two files: ``<key>.safetensors`` with its arrays and ``<key>.json`` with their SHA-256 and a
    description. The second is written last: without it the model does not count. Nothing is ever unpickled.

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

    def put(self, key: str, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> None:
        """Store a finished model.

        Raises:
            divulge.InputError: the disk is full or the folder cannot be written; what was stored before stays valid.
        """
        from safetensors.numpy import save

        content = save(dict(arrays))
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
        from safetensors.numpy import load

        if not self._about(key).exists():
            return None
        record = self._record(key)
        content = self._content(key)
        if hashlib.sha256(content).hexdigest() != record["sha256"]:
            raise DamagedError(f"{self._arrays(key).name}: its checksum does not hold ({len(content)} bytes)")
        return load(content)

    def discard(self, key: str) -> None:
        """Remove what is stored under ``key``, the description first."""
        with self.lock():
            self._about(key).unlink(missing_ok=True)
            self._arrays(key).unlink(missing_ok=True)

    def entries(self, *, verify: bool = False) -> Sequence[Entry]:
        """Everything in the folder, by key; with ``verify`` every array file is read and its checksum compared."""
        if not self.path.is_dir():
            raise checks.InputError(f"{self.path}: no such pool of models")
        keys = {file.stem for file in self.path.iterdir() if file.suffix in (".json", ".safetensors")}
        found = [self._entry(key, verify=verify) for key in sorted(keys) if not key.startswith(".")]
        left = [file for file in self.path.iterdir() if file.suffix == ".tmp"]
        return (
            *found,
            *(Entry(file.name, "unfinished", file.stat().st_size, "", {}, "left by a crash") for file in left),
        )

    def prune(self, *, before: str = "") -> Sequence[Entry]:
        """Remove what is damaged or unfinished, and models stored before an ISO 8601 time; say what was removed."""
        with self.lock():  # nobody is in the middle of writing
            gone = [e for e in self.entries(verify=True) if e.state != "good" or e.stored < before]
            for entry in gone:
                for path in (self._about(entry.key), self._arrays(entry.key), self.path / entry.key):
                    path.unlink(missing_ok=True)
        return gone

    def lock(self) -> BaseFileLock:
        """The lock that writers of this pool hold for the moment of writing."""
        from filelock import FileLock

        self.path.mkdir(parents=True, exist_ok=True)
        return FileLock(self.path / ".lock")

    def _arrays(self, key: str) -> Path:
        return self.path / f"{key}.safetensors"

    def _about(self, key: str) -> Path:
        return self.path / f"{key}.json"

    def _record(self, key: str) -> dict[str, Any]:
        path = self._about(key)
        try:
            record = store.read_json(path)
        except checks.InputError as error:
            raise DamagedError(str(error)) from None
        if not isinstance(record, dict) or record.get("key") != key or record.get("checksum") != _checksum(record):
            raise DamagedError(f"{path.name}: its checksum does not hold")
        return record

    def _content(self, key: str) -> bytes:
        try:
            return self._arrays(key).read_bytes()
        except FileNotFoundError:
            raise DamagedError(f"{self._arrays(key).name}: missing") from None

    def _entry(self, key: str, *, verify: bool) -> Entry:
        files = [file for file in (self._arrays(key), self._about(key)) if file.exists()]
        size = sum(file.stat().st_size for file in files)
        if not self._about(key).exists():
            return Entry(key, "unfinished", size, "", {}, "no description: the write never ended")
        try:
            record = self._record(key)
            if verify:
                self.get(key)
            elif self._arrays(key).stat().st_size != record["bytes"]:
                raise DamagedError(f"{key}.safetensors: {record['bytes']} bytes were written")
        except (DamagedError, FileNotFoundError) as error:
            return Entry(key, "damaged", size, "", {}, str(error))
        return Entry(key, "good", size, record["stored"], record["about"])


def _checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a description without its own checksum."""
    plain = {name: value for name, value in record.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _refused(path: Path, error: OSError) -> checks.InputError:
    reason = "no space is left on the device" if error.errno == errno.ENOSPC else (error.strerror or str(error))
    return checks.InputError(f"pool: cannot write to {path}: {reason}; models stored before are kept and stay valid")
