"""A run while it is written: a private folder inside the run directory, of which nothing counts yet."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from divulge import store, tables
from divulge.dossier import mark
from divulge.dossier.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    import polars as pl

    from divulge.types import Array


@dataclass(frozen=True, slots=True)
class Draft:
    """Where a command writes its files; `divulge.dossier.Dossier` publishes them together.

    Names that begin with a dot are never published.

    Args:
        path: the folder to write into.
        home: the directory in which the files will stand.
        old: the finished run of the same kind and key that stands there and will be replaced, if any.
    """

    path: Path
    home: Path
    old: Mark | None = None

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Keep the complete, resolved plan as TOML, which has no word for None: such entries are left out."""
        store.write_text(self.path / "plan.toml", tomli_w.dumps(_said(plan)))

    def write_table(self, name: str, frame: pl.DataFrame) -> None:
        """Keep ``frame`` as ``name``.parquet."""
        store.write_file(self.path / f"{name}.parquet", lambda out: tables.write_parquet(frame, out))

    def write_arrays(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Keep ``arrays`` as ``name``.npz."""
        store.write_arrays(self.path / f"{name}.npz", arrays)

    def write_json(self, name: str, value: object) -> None:
        """Keep ``value`` as ``name``.json."""
        store.write_json(self.path / f"{name}.json", value)

    def take(self, name: str) -> bool:
        """Put a file of the run that will be replaced into the draft; False where there is none, or it is damaged."""
        wanted, there = None if self.old is None else self.old.files.get(name), self.home / name
        if wanted is None or not there.is_file() or there.is_symlink():
            return False
        if store.file_digest(there, inside=self.home) != wanted:
            return False
        place = store.private((self.path / name).parent) / there.name
        try:
            place.hardlink_to(there)
        except OSError:  # a file system without hard links
            with store.atomic(place) as temporary:
                shutil.copyfile(there, temporary)
        return True

    @contextlib.contextmanager
    def workshop(self) -> Generator[Path]:
        """A folder for intermediate files, gone when the block ends."""
        with tempfile.TemporaryDirectory(dir=self.path, prefix=".work.") as folder:
            yield Path(folder)

    @contextlib.contextmanager
    def part(self, name: str, kind: str, key: str) -> Generator[Draft]:
        """The draft of a run inside this one, readable by itself and published with this one."""
        old = mark.peek(self.home / name)
        inner = Draft(store.private(self.path / name), self.home / name, old if old and old.of(kind, key) else None)
        yield inner
        files, parts = contents(inner.path)
        Mark(kind, key, "finished", files, parts).write(inner.path)


def contents(folder: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Digests of the files of a run, by their names, and the names of the runs inside it."""
    names = list(walk(folder))
    parts = tuple(sorted(name.removesuffix(f"/{mark.NAME}") for name in names if name.endswith(f"/{mark.NAME}")))
    own = [name for name in names if not any(name.startswith(f"{part}/") for part in parts)]
    return {name: store.file_digest(folder / name, inside=folder) for name in own if name != mark.NAME}, parts


def walk(folder: Path) -> Iterator[str]:
    """Names of the plain files below ``folder``, sorted, the mark of each run after its files.

    Links and names that begin with a dot are left out.
    """
    entries = sorted(os.scandir(folder), key=lambda entry: (entry.name == mark.NAME, entry.name))
    for entry in entries:
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from (f"{entry.name}/{name}" for name in walk(Path(entry.path)))
        elif entry.is_file():
            yield entry.name


def _said(value: Any) -> Any:
    """``value`` without the entries of tables that are None."""
    if not isinstance(value, dict):
        return value
    return {name: _said(part) for name, part in value.items() if part is not None}
