"""A run directory: one writer at a time, a whole run or none, every file checked before it is believed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import filelock

from divulge import store, tables
from divulge.dossier import mark, publish
from divulge.dossier.draft import Draft
from divulge.dossier.mark import Mark
from divulge.errors import InputError
from divulge.untrusted import open_untrusted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import polars as pl

    from divulge.types import Array

    Found = TypeVar("Found")

# Files that a reader may edit: nothing is ever computed from them.
_FREE = ("plan.toml", "report.html", "inputs/")
_OURS = re.compile(rf"\.lock|\.run\.json\.{store.TEMPORARY}|{mark.STAGED.pattern}")
_ATTEMPTS = 3  # to read one run while others are published in its place
_PATIENCE = 60  # seconds to wait for a writer that is moving its files


class ReplacedError(InputError):
    """A run directory that other runs were published in, again and again, while it was read."""


@dataclass(frozen=True, slots=True)
class Dossier:
    """A directory of plain files: JSON, TOML, Parquet and arrays without pickle.

    Only its owner can read it. It holds one run, finished or not, whole: `writing` and `changing` publish all
    files at one moment, so that an interruption (even ``kill -9``) leaves the old run or the new one.

    Args:
        path: the directory.
    """

    path: Path

    @contextlib.contextmanager
    def writing(self, kind: str, key: str, *, overwrite: bool = False, keep: Sequence[str] = ()) -> Generator[Draft]:
        """Write a run; it is published when the block ends well, in the place of one that was there.

        Args:
            kind: of run.
            key: names the work that an interrupted run is resumed for; another one is refused.
            overwrite: replace a finished run, or an unfinished one with another key. Files a run did not write, and
                finished models in ``pool/``, stay.
            keep: names in the draft of finished work that outlives an interruption.

        Raises:
            divulge.InputError: another process is writing here, the directory cannot be made or written, is not
                empty without being a run, or holds a run (unless ``overwrite``).
        """
        self._make()
        with self._locked():
            old = self._begin(kind, key, overwrite)
            draft = self._draft(store.digest(kind, key), keep, old if old and old.of(kind, key) else None)
            for left in self.path.iterdir():
                if _OURS.fullmatch(left.name) and left.name not in (mark.LOCK, draft.path.name):
                    _discard(left)
            try:
                yield draft
                publish.whole(draft, Mark(kind, key), old)
            except BaseException:
                self._withdraw(draft, keep)
                raise

    @contextlib.contextmanager
    def changing(self, kind: str) -> Generator[Draft]:
        """Write some files of the finished run of ``kind`` again; all of them change at one moment.

        Raises:
            divulge.InputError: see `read`; another process is writing here.
        """
        mark.read(self.path)
        with self._locked():
            old = self._check(kind)
            draft = self._draft(store.digest("change", kind, old.key))
            try:
                yield draft
                publish.change(draft, old)
            except BaseException:
                self._withdraw(draft, ())
                raise

    def read(self, kind: str, work: Callable[[], Found], *, only: str = "") -> Found:
        """What ``work`` makes of the finished run of ``kind`` here, all of it from one and the same run.

        Args:
            kind: of run.
            work: reads the directory.
            only: folder to which the check of the digests is confined.

        Raises:
            divulge.InputError: no run, another kind, an unfinished run, another format, a damaged file.
            ReplacedError: other runs were published here each time that it was read.
        """
        for _ in range(_ATTEMPTS):
            before = self._settled()
            try:
                self._check(kind, only)
                result = work()
            except (InputError, OSError):
                if self._settled() == before:
                    raise
                continue  # another process published a run meanwhile
            if self._settled() == before:
                return result
        raise ReplacedError(f"{self.path}: other runs are being published here while it is read; try again")

    def open(self, kind: str, *, only: str = "") -> Dossier:
        """This dossier, after checking that it holds a finished, undamaged run of ``kind``; errors as for `read`."""
        return self.read(kind, lambda: self, only=only)

    def kind(self) -> str:
        """Which kind of run lies here.

        Raises:
            divulge.InputError: none.
        """
        return self._settled().kind

    def holds(self, kind: str) -> bool:
        """Whether a run of ``kind`` lies here, finished or not."""
        there = mark.peek(self.path)
        return there is not None and there.kind == kind

    def finished(self, kind: str) -> bool:
        """Whether a finished run of ``kind`` lies here."""
        there = self._settled()
        return there.of(kind, there.key)

    def read_plan(self) -> dict[str, Any]:
        """The plan as it was resolved."""
        try:
            return tomllib.loads(store.read_text(self.path / "plan.toml", inside=self.path))
        except ValueError as error:
            raise InputError(f"{self.path / 'plan.toml'}: cannot be read ({error})") from None

    def read_table(self, name: str) -> pl.DataFrame:
        """The table kept as ``name``.parquet.

        Raises:
            divulge.InputError: missing or damaged.
        """
        path = self.path / f"{name}.parquet"
        with open_untrusted(path, inside=self.path) as opened:
            return tables.read_parquet(opened)

    def read_arrays(self, name: str) -> dict[str, Array]:
        """The arrays kept as ``name``.npz."""
        return store.read_arrays(self.path / f"{name}.npz", inside=self.path)

    def read_json(self, name: str) -> Any:
        """The value kept as ``name``.json."""
        return store.read_json(self.path / f"{name}.json", inside=self.path)

    def _make(self) -> None:
        try:
            store.private(self.path)
        except OSError as error:
            raise InputError(f"out: {self.path} cannot be created ({error.strerror})") from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise InputError(f"out: {self.path} is not writable")

    @contextlib.contextmanager
    def _locked(self, patience: float = 0) -> Generator[None]:
        """Nobody else writes here meanwhile, and what was published before has been moved to its place.

        The lock file stays: were it removed, two processes could each hold a lock of that name.
        """
        with contextlib.ExitStack() as held:
            for folder in (*self._owners(), self.path):
                _refuse_odd_lock(folder / mark.LOCK)
                try:
                    held.enter_context(filelock.FileLock(folder / mark.LOCK, timeout=patience, mode=0o600))
                except filelock.Timeout:
                    raise InputError(f"out: another process is writing to {folder}") from None
                except OSError as error:
                    raise InputError(f"{folder}: cannot be written ({error.strerror or error})") from None
                if mark.peek(folder):
                    publish.settle(folder)
            yield

    def _owners(self) -> list[Path]:
        """Run directories, outermost first, of which this one is a part."""
        home = self.path.absolute()
        above = [(folder, mark.peek(folder)) for folder in reversed(home.parents[:2])]
        return [folder for folder, owner in above if owner and home.relative_to(folder).as_posix() in owner.parts]

    def _settled(self) -> Mark:
        """The mark, after what was published has been moved to its place."""
        marks = {folder: mark.read(folder) for folder in (*self._owners(), self.path)}
        if any(one.staged and (folder / one.staged).is_dir() for folder, one in marks.items()):
            with self._locked(_PATIENCE):
                return mark.read(self.path)
        return marks[self.path]

    def _check(self, kind: str, only: str = "") -> Mark:
        there = mark.read(self.path)
        if there.kind != kind:
            raise InputError(f"{self.path}: holds a run of kind {there.kind!r}, not {kind!r}")
        if there.state != "finished":
            raise InputError(f"{self.path}: the run is not finished; repeat its command to go on")
        for name, sha in there.files.items():
            if name.startswith(only) and not name.startswith(_FREE):
                self._same(self.path / name, sha)
        return there

    def _same(self, path: Path, sha: str) -> None:
        try:
            same = store.file_digest(path, inside=self.path) == sha
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
        if not same:
            raise InputError(f"{path}: damaged, it is not what the run wrote (its checksum does not match)")

    def _begin(self, kind: str, key: str, overwrite: bool) -> Mark | None:
        """The finished run that will be replaced, if any; a directory without one is marked as running."""
        if not (self.path / mark.NAME).exists():
            if any(not _OURS.fullmatch(entry.name) for entry in self.path.iterdir()):
                raise InputError(f"out: {self.path} is not empty and holds no run; give another directory")
        elif not (overwrite and mark.earlier(self.path)):
            there = mark.read(self.path)
            if there.state == "finished" and overwrite:
                return there
            if there.state == "finished":
                raise InputError(f"out: {self.path} holds a finished run; give another directory or overwrite")
            if (there.kind, there.key) != (kind, key) and not overwrite:
                raise InputError(
                    f"out: {self.path} holds an unfinished run of another plan; give another directory or overwrite"
                )
        Mark(kind, key).write(self.path)
        return None

    def _draft(self, name: str, keep: Sequence[str] = (), old: Mark | None = None) -> Draft:
        """An empty draft, but for finished work of an interrupted run with the same key."""
        folder = self.path / f".staged-{name[:32]}"
        if folder.is_symlink():
            folder.unlink()
        for left in store.private(folder).iterdir():
            if left.name not in keep:
                _discard(left)
        return Draft(folder, self.path, old)

    def _withdraw(self, draft: Draft, keep: Sequence[str]) -> None:
        """After an error: no trace of the run is left but what it can be resumed from."""
        there = mark.read(self.path)
        if there.staged or any((draft.path / name).exists() for name in keep):
            return  # published already, or worth keeping
        shutil.rmtree(draft.path, ignore_errors=True)
        ours = (entry.name == mark.NAME or _OURS.fullmatch(entry.name) for entry in self.path.iterdir())
        if there.state == "running" and all(ours):
            (self.path / mark.NAME).unlink()


def _refuse_odd_lock(path: Path) -> None:
    """Raise where a lock would be taken on something else than a file in this directory.

    A link would be followed, and what it leads to would be emptied; opening a FIFO may wait for ever.
    """
    try:
        regular = stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not regular:
        raise InputError(f"{path}: a file is needed for the lock of a run; remove what stands there")


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
