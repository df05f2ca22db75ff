"""A run directory: one writer at a time, a whole run or none, every file checked before it is believed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import polars as pl
import tomli_w

from divulge import lazy, store, tables
from divulge._version import __version__
from divulge.errors import InputError
from divulge.store import open_untrusted
from divulge.validation import check_path, format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from divulge.types import Array

    Result = TypeVar("Result")
    import filelock
else:
    filelock = lazy.module("filelock")

FORMAT = 2
MANIFEST_NAME = "run.json"
LOCK_NAME = ".lock"
STAGED_NAME = re.compile(r"\.staged-[0-9a-f]{32}")
_SUPERSEDED = ".superseded.json"
# Files that a reader may edit: nothing is ever computed from them.
_EDITABLE_FILES = ("plan.toml", "report.html", "inputs/")
_OWN_FILES = re.compile(rf"\.lock|\.run\.json\.{store.TEMPORARY_SUFFIX}|{STAGED_NAME.pattern}")
_READ_ATTEMPTS = 3  # to read one run while others are published in its place
_LOCK_TIMEOUT = 60  # seconds to wait for a writer that is moving its files


class ReplacedError(InputError):
    """A run directory that other runs were published in, again and again, while it was read."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A directory of plain files: JSON, TOML, Parquet and arrays without pickle.

    Only its owner can read it. It holds one run, finished or not, whole: `writing` and `changing` publish all
    files at one moment, so that an interruption (even ``kill -9``) leaves the old run or the new one.

    Args:
        path: the directory.
    """

    path: Path

    @contextlib.contextmanager
    def writing(self, kind: str, key: str, *, overwrite: bool = False, keep: Sequence[str] = ()) -> Generator[RunDraft]:
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
        try:
            store.make_private_directory(self.path)
        except OSError as error:
            raise InputError(f"out: {self.path} cannot be created ({error.strerror})") from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise InputError(f"out: {self.path} is not writable")
        with self._locked():
            old = self._begin(kind, key, overwrite)
            draft = self._draft(store.hash_values(kind, key), keep, old if old and old.is_finished(kind, key) else None)
            for entry in self.path.iterdir():
                if _OWN_FILES.fullmatch(entry.name) and entry.name not in (LOCK_NAME, draft.path.name):
                    _discard(entry)
            try:
                yield draft
                publish_run(draft, Manifest(kind, key), old)
            except BaseException:
                self._discard_draft(draft, keep)
                raise

    @contextlib.contextmanager
    def changing(self, kind: str) -> Generator[RunDraft]:
        """Write some files of the finished run of ``kind`` again; all of them change at one moment.

        Raises:
            divulge.InputError: see `read`; another process is writing here.
        """
        read_manifest(self.path)
        with self._locked():
            old = self._check(kind)
            draft = self._draft(store.hash_values("change", kind, old.key))
            try:
                yield draft
                publish_change(draft, old)
            except BaseException:
                self._discard_draft(draft, ())
                raise

    def read(self, kind: str, work: Callable[[], Result], *, only: str = "") -> Result:
        """Return ``work()`` on the finished run of ``kind``; all that it reads is of one and the same run.

        Args:
            kind: of run.
            work: reads the directory.
            only: folder to which the check of the digests is confined.

        Raises:
            divulge.InputError: no run, another kind, an unfinished run, another format, a damaged file.
            ReplacedError: other runs were published here each time that it was read.
        """
        for _ in range(_READ_ATTEMPTS):
            before = self._read_settled_manifest()
            try:
                self._check(kind, only)
                result = work()
            except (InputError, OSError):
                if self._read_settled_manifest() == before:
                    raise
                continue  # another process published a run meanwhile
            if self._read_settled_manifest() == before:
                return result
        raise ReplacedError(f"{self.path}: other runs are being published here while it is read; try again")

    def open(self, kind: str, *, only: str = "") -> RunDirectory:
        """Check that this is a finished, undamaged run of ``kind``; return the directory. Errors as for `read`."""
        return self.read(kind, lambda: self, only=only)

    def kind(self) -> str:
        """Return the kind of the run in this directory.

        Raises:
            divulge.InputError: there is no run.
        """
        return self._read_settled_manifest().kind

    def holds(self, kind: str) -> bool:
        """Return whether this directory holds a run of ``kind``, finished or not."""
        manifest = peek_manifest(self.path)
        return manifest is not None and manifest.kind == kind

    def finished(self, kind: str) -> bool:
        """Return whether this directory holds a finished run of ``kind``."""
        manifest = self._read_settled_manifest()
        return manifest.is_finished(kind, manifest.key)

    def read_table(self, name: str) -> pl.DataFrame:
        """Return the table in ``name``.parquet.

        Raises:
            divulge.InputError: missing or damaged.
        """
        path = self.path / f"{name}.parquet"
        with open_untrusted(path, inside=self.path) as file:
            table = tables.read_parquet(file)
        for column, dtype in table.schema.items():
            if dtype.is_nested() or dtype in (pl.Binary, pl.Object):  # no run has such columns
                raise InputError(f"{path}: damaged, column {column!r} holds {dtype}")
        return table

    def read_arrays(self, name: str) -> dict[str, Array]:
        """Return the arrays in ``name``.npz."""
        return store.read_arrays(self.path / f"{name}.npz", inside=self.path)

    def read_json(self, name: str) -> Any:
        """Return the value in ``name``.json."""
        return store.read_json(self.path / f"{name}.json", inside=self.path)

    @contextlib.contextmanager
    def _locked(self, patience: float = 0) -> Generator[None]:
        """Lock this directory for writing, and finish moving files that were published before.

        The lock file stays: were it removed, two processes could each hold a lock of that name.
        """
        with contextlib.ExitStack() as locks:
            for folder in (*self._enclosing_runs(), self.path):
                _check_lock_file(folder / LOCK_NAME)
                try:
                    locks.enter_context(filelock.FileLock(folder / LOCK_NAME, timeout=patience, mode=0o600))
                except filelock.Timeout:
                    raise InputError(f"out: another process is writing to {folder}") from None
                except OSError as error:
                    raise InputError(f"{folder}: cannot be written ({error.strerror or error})") from None
                if peek_manifest(folder):
                    finish_publishing(folder)
            yield

    def _enclosing_runs(self) -> list[Path]:
        """Return the run directories of which this one is a part, outermost first."""
        home = self.path.absolute()
        above = [(folder, peek_manifest(folder)) for folder in reversed(home.parents[:2])]
        return [folder for folder, owner in above if owner and home.relative_to(folder).as_posix() in owner.parts]

    def _read_settled_manifest(self) -> Manifest:
        """Return the manifest, after moving files that were published but not yet in their place."""
        manifests = {folder: read_manifest(folder) for folder in (*self._enclosing_runs(), self.path)}
        if any(manifest.staged and (folder / manifest.staged).is_dir() for folder, manifest in manifests.items()):
            with self._locked(_LOCK_TIMEOUT):
                return read_manifest(self.path)
        return manifests[self.path]

    def _check(self, kind: str, only: str = "") -> Manifest:
        manifest = read_manifest(self.path)
        if manifest.kind != kind:
            raise InputError(f"{self.path}: holds a run of kind {manifest.kind!r}, not {kind!r}")
        if manifest.state != "finished":
            raise InputError(f"{self.path}: the run is not finished; repeat its command to go on")
        for name, sha in manifest.files.items():
            if name.startswith(only) and not name.startswith(_EDITABLE_FILES):
                path = self.path / name
                try:
                    is_same = store.hash_file(path, inside=self.path) == sha
                except OSError as error:
                    raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
                if not is_same:
                    raise InputError(f"{path}: damaged, it is not what the run wrote (its checksum does not match)")
        return manifest

    def _begin(self, kind: str, key: str, overwrite: bool) -> Manifest | None:
        """Return the finished run that will be replaced; without one, mark the directory as running and return None."""
        if (manifest := self.check_is_free(overwrite=overwrite)) is not None:
            if manifest.state == "finished":
                return manifest
            if (manifest.kind, manifest.key) != (kind, key) and not overwrite:
                raise InputError(
                    f"out: {self.path} holds an unfinished run of another plan; give another directory, or "
                    "overwrite=True (--overwrite)"
                )
        Manifest(kind, key).write(self.path)
        return None

    def check_is_free(self, *, overwrite: bool) -> Manifest | None:
        """Return the manifest of a run that may be replaced or gone on with; None where there is none."""
        try:
            if not (self.path / MANIFEST_NAME).exists():
                if any(not _OWN_FILES.fullmatch(entry.name) for entry in self.path.iterdir()):
                    raise InputError(f"out: {self.path} is not empty and holds no run; give another directory")
                return None
        except OSError as error:
            raise InputError(f"out: {self.path} cannot be read ({error.strerror})") from None
        manifest = read_manifest(self.path)
        if manifest.state == "finished" and not overwrite:
            raise InputError(
                f"out: {self.path} holds a finished run; give another directory, or overwrite=True (--overwrite)"
            )
        return manifest

    def _draft(self, name: str, keep: Sequence[str] = (), old: Manifest | None = None) -> RunDraft:
        """Return a draft that is empty but for finished work of an interrupted run with the same key."""
        folder = self.path / f".staged-{name[:32]}"
        if folder.is_symlink():
            folder.unlink()
        for entry in store.make_private_directory(folder).iterdir():
            if entry.name not in keep:
                _discard(entry)
        return RunDraft(folder, self.path, old)

    def _discard_draft(self, draft: RunDraft, keep: Sequence[str]) -> None:
        """Clean up after an error: remove the draft and the manifest, but keep what the run can be resumed from."""
        manifest = read_manifest(self.path)
        if manifest.staged or any((draft.path / name).exists() for name in keep):
            return  # published already, or worth keeping
        shutil.rmtree(draft.path, ignore_errors=True)
        only_own_files = (
            entry.name == MANIFEST_NAME or _OWN_FILES.fullmatch(entry.name) for entry in self.path.iterdir()
        )
        if manifest.state == "running" and all(only_own_files):
            (self.path / MANIFEST_NAME).unlink()


def check_out(out: str | Path | None, *, overwrite: bool = False) -> Path | None:
    """Return the run directory that is to be written, checked before any work starts; None for None.

    Raises:
        divulge.InputError: no path, a directory that holds a finished run (unless ``overwrite``), or files and no run.
    """
    if out is None:
        return None
    folder = check_path(out, "out")
    if folder.is_dir():
        RunDirectory(folder).check_is_free(overwrite=overwrite)
    return folder


def _check_lock_file(path: Path) -> None:
    """Raise if the lock file is a link or anything else that is not a regular file.

    A link would be followed, and what it leads to would be emptied; opening a FIFO may wait for ever.
    """
    try:
        is_regular = stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_regular:
        raise InputError(f"{path}: a file is needed for the lock of a run; remove what stands there")


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@dataclass(frozen=True, slots=True)
class RunDraft:
    """Folder into which a command writes its files; `divulge.run_directory.RunDirectory` publishes them together.

    Names that begin with a dot are never published.

    Args:
        path: the folder to write into.
        home: the directory in which the files will stand.
        old: the finished run of the same kind and key that stands there and will be replaced, if any.
    """

    path: Path
    home: Path
    old: Manifest | None = None

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Write the complete, resolved plan as TOML; entries that are None are left out, as TOML has no null."""
        store.write_text(self.path / "plan.toml", tomli_w.dumps(_drop_none(plan)))

    def write_table(self, name: str, frame: pl.DataFrame) -> None:
        """Write ``frame`` to ``name``.parquet."""
        store.write_file(self.path / f"{name}.parquet", lambda out: tables.write_parquet(frame, out))

    def write_arrays(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Write ``arrays`` to ``name``.npz."""
        store.write_arrays(self.path / f"{name}.npz", arrays)

    def write_json(self, name: str, value: object) -> None:
        """Write ``value`` to ``name``.json."""
        store.write_json(self.path / f"{name}.json", value)

    def take(self, name: str) -> bool:
        """Put a file of the run that will be replaced into the draft; False where there is none, or it is damaged."""
        expected_digest, source = None if self.old is None else self.old.files.get(name), self.home / name
        if expected_digest is None or not source.is_file() or source.is_symlink():
            return False
        if store.hash_file(source, inside=self.home) != expected_digest:
            return False
        place = store.make_private_directory((self.path / name).parent) / source.name
        try:
            place.hardlink_to(source)
        except OSError:  # a file system without hard links
            with store.atomic_write(place) as temporary:
                shutil.copyfile(source, temporary)
        return True

    @contextlib.contextmanager
    def scratch_folder(self) -> Generator[Path]:
        """Yield a folder for intermediate files; it is removed when the block ends."""
        with tempfile.TemporaryDirectory(dir=self.path, prefix=".work.") as folder:
            yield Path(folder)

    @contextlib.contextmanager
    def part(self, name: str, kind: str, key: str) -> Generator[RunDraft]:
        """Yield the draft of a run inside this one, which can be read by itself and is published with this one."""
        old = peek_manifest(self.home / name)
        inner = RunDraft(
            store.make_private_directory(self.path / name),
            self.home / name,
            old if old and old.is_finished(kind, key) else None,
        )
        yield inner
        files, parts = list_contents(inner.path)
        Manifest(kind, key, "finished", files, parts).write(inner.path)


def list_contents(folder: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return file name → digest of a run's files, and the names of the runs inside it."""
    names = list(walk_files(folder))
    parts = tuple(
        sorted(name.removesuffix(f"/{MANIFEST_NAME}") for name in names if name.endswith(f"/{MANIFEST_NAME}"))
    )
    own_names = [name for name in names if not any(name.startswith(f"{part}/") for part in parts)]
    return {name: store.hash_file(folder / name, inside=folder) for name in own_names if name != MANIFEST_NAME}, parts


def walk_files(folder: Path) -> Iterator[str]:
    """Yield the names of the plain files below ``folder``, sorted, the manifest of each run after its files.

    Links and names that begin with a dot are left out.
    """
    entries = sorted(os.scandir(folder), key=lambda entry: (entry.name == MANIFEST_NAME, entry.name))
    for entry in entries:
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from (f"{entry.name}/{name}" for name in walk_files(Path(entry.path)))
        elif entry.is_file():
            yield entry.name


def _drop_none(value: Any) -> Any:
    """Return ``value`` without entries of (nested) tables that are None."""
    if not isinstance(value, dict):
        return value
    return {name: _drop_none(part) for name, part in value.items() if part is not None}


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of ``run.json``.

    Args:
        kind: "audit", "identification", "scores" or "submissions".
        key: names the work that an interrupted run is resumed for.
        state: "running" until everything is published.
        files: path below the run directory → SHA-256.
        parts: folders below it that hold runs of their own, published with this one.
        staged: the folder from which published files are still to be moved to their places; empty when none.
        format: of the directory.
    """

    kind: str
    key: str
    state: Literal["running", "finished"] = "running"
    files: dict[str, str] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    staged: str = ""
    format: int = FORMAT

    def is_finished(self, kind: str, key: str) -> bool:
        """Return whether this is a finished run of ``kind`` with ``key``."""
        return (self.kind, self.key, self.state) == (kind, key, "finished")

    def write(self, folder: Path) -> None:
        """Write this manifest into ``folder``, atomically."""
        store.write_json(folder / MANIFEST_NAME, asdict(self))


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest in ``folder``.

    Raises:
        divulge.InputError: none there, another format, or not what `Manifest.write` writes.
    """
    path = folder / MANIFEST_NAME
    if not path.is_file() and not path.is_symlink() and not path.exists():
        raise InputError(f"{folder}: not a run directory (no {MANIFEST_NAME})")
    content = store.read_json(path, inside=folder)
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise InputError(f"{path}: damaged, not the mark of a run")
    if content["format"] != FORMAT:
        raise InputError(
            f"{folder}: format {content['format']} is not {FORMAT}, the only one that divulge {__version__} reads; "
            "run it again into another directory"
        )
    parsed = store.parse_json(content, Manifest, path)
    names = (*parsed.files, *parsed.parts)
    if set(content) != set(Manifest.__slots__) or not all(map(is_safe_name, names)):
        raise InputError(f"{path}: damaged, not the mark of a run")
    if parsed.staged and not STAGED_NAME.fullmatch(parsed.staged):
        raise InputError(f"{path}: damaged, {parsed.staged!r} is no folder of staged files")
    return parsed


def peek_manifest(folder: Path) -> Manifest | None:
    """Return the manifest in ``folder``; None if there is none that this version reads."""
    try:
        return read_manifest(folder)
    except InputError:
        return None


def is_safe_name(name: str) -> bool:
    """Return whether ``name`` is a plain relative path that stays below its folder.

    Examples:
        >>> is_safe_name("documents/a.parquet"), is_safe_name("../a"), is_safe_name("/a"), is_safe_name("a/./b")
        (True, False, False, False)
    """
    path = PurePosixPath(name)
    plain = bool(path.parts) and not path.is_absolute() and ".." not in path.parts and str(path) == name
    return plain and path.parts != (MANIFEST_NAME,) and not any(sign in name for sign in "\\:\0")


def publish_run(draft: RunDraft, new: Manifest, old: Manifest | None) -> None:
    """Publish ``draft`` in the place of everything the run ``old`` held."""
    files, parts = list_contents(draft.path)
    staged = set(walk_files(draft.path))
    superseded = {} if old is None else {name: sha for name, sha in _all_files(draft.home, old) if name not in staged}
    _commit(draft, replace(new, state="finished", files=files, parts=parts), superseded)


def publish_change(draft: RunDraft, old: Manifest) -> None:
    """Publish ``draft`` over the files of the same names of the run ``old``; its other files stay."""
    files, _ = list_contents(draft.path)
    _commit(draft, replace(old, files=dict(sorted((old.files | files).items()))), {})


def _commit(draft: RunDraft, new: Manifest, superseded: Mapping[str, str]) -> None:
    for name in walk_files(draft.path):
        _check_path_is_free(draft.home, name)
        store.make_durable(draft.path / name)
    store.write_json(draft.path / _SUPERSEDED, superseded)
    store.sync_directory(draft.path)
    replace(new, staged=draft.path.name).write(draft.home)
    finish_publishing(draft.home)


def finish_publishing(home: Path) -> None:
    """Move files that are published but not yet in their place; most directories have none.

    Raises:
        divulge.InputError: a folder on the way is a link, so a file would leave the directory.
    """
    manifest = read_manifest(home)
    if not manifest.staged:
        return
    staged = home / manifest.staged
    if staged.is_dir() and not staged.is_symlink():
        for name in list(walk_files(staged)):
            _check_path_is_free(home, name)
            store.make_private_directory((home / name).parent)
            (staged / name).replace(home / name)
        _remove(home, staged / _SUPERSEDED)
        shutil.rmtree(staged)
    replace(manifest, staged="").write(home)


def _check_path_is_free(home: Path, name: str) -> None:
    """Raise if something that is no folder is in the way to a file, or a folder in the place of the file."""
    for parent in (home / name).relative_to(home).parents:
        folder = home / parent
        if folder != home and (folder.is_symlink() or (folder.exists() and not folder.is_dir())):
            raise InputError(f"out: {folder} is where a folder of the run belongs; move it away")
    if (home / name).is_dir():
        raise InputError(f"out: the folder {home / name} is where a file of the run belongs; move it away")


def _all_files(home: Path, old: Manifest) -> list[tuple[str, str]]:
    """Return the files of a run and of the runs inside it, with the digests they were published with."""
    files = list(old.files.items())
    for part in old.parts:
        with contextlib.suppress(InputError):
            inner = read_manifest(home / part)
            files += [(f"{part}/{name}", sha) for name, sha in _all_files(home / part, inner)]
            files.append((f"{part}/{MANIFEST_NAME}", store.hash_file(home / part / MANIFEST_NAME, inside=home)))
    return files


def _remove(home: Path, listed: Path) -> None:
    """Remove files of the previous run that the new one lacks, unless they were changed since they were written."""
    if not listed.is_file():
        return
    superseded = store.parse_json(store.read_json(listed, inside=home), dict[str, str], listed)
    for name, sha in superseded.items():
        path = home / name
        if not is_safe_name(name):
            raise InputError(f"{listed}: damaged, {format_value(name)} is no file of a run")
        if path.is_symlink() or not path.is_file():
            continue
        if store.hash_file(path, inside=home) != sha:
            continue
        path.unlink()
        if path.name == MANIFEST_NAME:  # of a part: whoever locks one holds the lock of the whole, as we do
            (path.parent / LOCK_NAME).unlink(missing_ok=True)
        for folder in path.relative_to(home).parents:
            if folder.parts:
                with contextlib.suppress(OSError):  # not empty: something else stands there too
                    (home / folder).rmdir()
