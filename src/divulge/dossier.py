"""A run directory: everything a run produced, written atomically, enough to recompute every number."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge import checks, store
from divulge._version import __version__

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    import polars as pl

FORMAT = 1

# What a run may leave behind, and all that `overwrite` may remove.
FILES = (
    "run.json",
    "plan.toml",
    "scores.parquet",
    "nulls.parquet",
    "exhibits.npz",
    "summary.json",
    "report.html",
)

_LOCK = ".lock"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "lightgbm", "torch", "transformers", "polars", "ray")


@dataclass(frozen=True, slots=True)
class Dossier:
    """A directory of plain files: JSON, TOML, Parquet and arrays without pickle.

    Args:
        path: the directory.
    """

    path: Path

    @contextlib.contextmanager
    def claimed(self) -> Generator[None]:
        """Nobody else writes here meanwhile.

        Raises:
            divulge.InputError: another process does, or the directory cannot be made.
        """
        from filelock import FileLock, Timeout

        self._make()
        lock = FileLock(self.path / _LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise checks.InputError(f"out: another process is writing to {self.path}") from None
        try:
            yield
        finally:
            lock.release()
            (self.path / _LOCK).unlink(missing_ok=True)

    def begin(self, kind: str, key: str, *, overwrite: bool = False) -> None:
        """Claim the directory for a run; an interrupted run of the same ``key`` is taken up again.

        Raises:
            divulge.InputError: not writable, not empty without being a run, or holding another run (unless
                ``overwrite``, which removes only files a run writes; finished models in ``pool/`` stay).
        """
        self._make()
        mark = self.path / "run.json"
        if any(entry.name != _LOCK for entry in self.path.iterdir()) and not mark.exists():
            raise checks.InputError(f"out: {self.path} is not empty and holds no run; give another directory")
        if mark.exists() and not overwrite:
            found = store.read_json(mark)
            if found.get("state") == "finished":
                raise checks.InputError(f"out: {self.path} holds a finished run; give another directory or overwrite")
            if found.get("key") != key:
                raise checks.InputError(
                    f"out: {self.path} holds an unfinished run of another plan; give another directory or overwrite"
                )
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)
        store.write_json(mark, {"format": FORMAT, "kind": kind, "key": key, "state": "running"})

    def finish(self) -> None:
        """Mark the run as whole; written last."""
        mark = self.path / "run.json"
        store.write_json(mark, store.read_json(mark) | {"state": "finished"})

    def open(self, kind: str) -> Dossier:
        """This dossier, after checking that it holds a finished run of ``kind``.

        Raises:
            divulge.InputError: no run, another kind, an unfinished run, a format this version does not know.
        """
        found = self.mark()
        if found.get("kind") != kind:
            raise checks.InputError(f"{self.path}: holds a run of kind {found.get('kind')!r}, not {kind!r}")
        if found.get("state") != "finished":
            raise checks.InputError(f"{self.path}: the run is not finished; repeat its command to go on")
        if found.get("format") != FORMAT:
            raise checks.InputError(
                f"{self.path}: format {found.get('format')!r} is not {FORMAT}, which divulge {__version__} reads"
            )
        return self

    def finished(self, kind: str) -> bool:
        """Whether a finished run of ``kind`` lies here."""
        found = self.mark()
        return found.get("kind") == kind and found.get("state") == "finished"

    def mark(self) -> dict[str, Any]:
        """What `begin` and `finish` wrote: format, kind, key, state."""
        mark = self.path / "run.json"
        if not mark.is_file():
            raise checks.InputError(f"{self.path}: not a run directory (no run.json)")
        return dict(store.read_json(mark))

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Keep the complete, resolved plan as TOML."""
        import tomli_w

        store.write_text(self.path / "plan.toml", tomli_w.dumps(plan))

    def read_plan(self) -> dict[str, Any]:
        """The plan as it was resolved."""
        try:
            return tomllib.loads((self.path / "plan.toml").read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise checks.InputError(f"{self.path / 'plan.toml'}: cannot be read ({error})") from None

    def write_table(self, name: str, frame: pl.DataFrame) -> None:
        """Keep ``frame`` as ``name``.parquet."""
        with store.atomic(self.path / f"{name}.parquet") as temporary:
            frame.write_parquet(temporary)

    def read_table(self, name: str) -> pl.DataFrame:
        """The frame kept as ``name``.parquet.

        Raises:
            divulge.InputError: missing or damaged.
        """
        import polars as pl

        path = self.path / f"{name}.parquet"
        if not path.is_file():
            raise checks.InputError(f"{path}: no such file")
        try:
            return pl.read_parquet(path)
        except Exception as error:
            raise checks.InputError(f"{path}: damaged or half-written ({error})") from None

    def write_json(self, name: str, value: object) -> None:
        """Keep ``value`` as ``name``.json."""
        store.write_json(self.path / f"{name}.json", value)

    def read_json(self, name: str) -> Any:
        """The value kept as ``name``.json."""
        return store.read_json(self.path / f"{name}.json")

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise checks.InputError(f"out: {self.path} cannot be made ({error.strerror})") from None
        if not os.access(self.path, os.W_OK):
            raise checks.InputError(f"out: {self.path} is not writable")


def environment() -> dict[str, Any]:
    """Versions, machine kind and the git commit of the working directory, where there is one."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "divulge": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "packages": versions,
        "git_commit": _commit(),
    }


def _commit() -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    answer = subprocess.run([git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    return answer.stdout.strip() if answer.returncode == 0 else None
