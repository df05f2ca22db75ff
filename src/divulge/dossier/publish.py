"""From a draft to a published run: one atomic replacement decides, the files follow it to their places.

A draft stands in a folder of its own inside the run directory. The run is published when ``run.json`` is
replaced by a mark that names this folder and the digest of every file: before that moment the directory holds
the old run whole, after it the new one. Moving the files to their places can be interrupted anywhere; whoever
opens the directory next, to read or to write, moves the rest first.
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from divulge import store
from divulge.dossier import mark, shape
from divulge.dossier.draft import contents, walk
from divulge.dossier.mark import Mark
from divulge.errors import InputError
from divulge.validation import format_value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from divulge.dossier.draft import Draft

_SUPERSEDED = ".superseded.json"


def whole(draft: Draft, new: Mark, old: Mark | None) -> None:
    """Publish ``draft`` in the place of everything the run ``old`` held."""
    files, parts = contents(draft.path)
    staged = set(walk(draft.path))
    gone = {} if old is None else {name: sha for name, sha in _everything(draft.home, old) if name not in staged}
    _commit(draft, replace(new, state="finished", files=files, parts=parts), gone)


def change(draft: Draft, old: Mark) -> None:
    """Publish ``draft`` over the files of the same names of the run ``old``; its other files stay."""
    files, _ = contents(draft.path)
    _commit(draft, replace(old, files=dict(sorted((old.files | files).items()))), {})


def _commit(draft: Draft, new: Mark, gone: Mapping[str, str]) -> None:
    for name in walk(draft.path):
        _refuse_blocked(draft.home, name)
        store.seal(draft.path / name)
    store.write_json(draft.path / _SUPERSEDED, gone)
    store.sync(draft.path)
    replace(new, staged=draft.path.name).write(draft.home)
    settle(draft.home)


def settle(home: Path) -> None:
    """Move what is published but not yet in its place; nothing to do in most directories.

    Raises:
        divulge.InputError: a folder on the way is a link, so a file would leave the directory.
    """
    there = mark.read(home)
    if not there.staged:
        return
    staged = home / there.staged
    if staged.is_dir() and not staged.is_symlink():
        for name in list(walk(staged)):
            _refuse_blocked(home, name)
            store.private((home / name).parent)
            (staged / name).replace(home / name)
        _remove(home, staged / _SUPERSEDED)
        shutil.rmtree(staged)
    replace(there, staged="").write(home)


def _refuse_blocked(home: Path, name: str) -> None:
    """Raise where something else than a folder stands on the way to a file, or a folder in its place."""
    for above in (home / name).relative_to(home).parents:
        at = home / above
        if at != home and (at.is_symlink() or (at.exists() and not at.is_dir())):
            raise InputError(f"out: {at} is where a folder of the run belongs; move it away")
    if (home / name).is_dir():
        raise InputError(f"out: the folder {home / name} is where a file of the run belongs; move it away")


def _everything(home: Path, old: Mark) -> list[tuple[str, str]]:
    """Files of a run and of the runs inside it, with the digests they were published with."""
    files = list(old.files.items())
    for part in old.parts:
        with contextlib.suppress(InputError):
            inner = mark.read(home / part)
            files += [(f"{part}/{name}", sha) for name, sha in _everything(home / part, inner)]
            files.append((f"{part}/{mark.NAME}", store.file_digest(home / part / mark.NAME, inside=home)))
    return files


def _remove(home: Path, listed: Path) -> None:
    """Take away files of the run before that the new one lacks, where they are still what was written."""
    if not listed.is_file():
        return
    superseded = shape.parse(store.read_json(listed, inside=home), dict[str, str], listed)
    for name, sha in superseded.items():
        path = home / name
        if not mark.is_below(name):
            raise InputError(f"{listed}: damaged, {format_value(name)} is no file of a run")
        if path.is_symlink() or not path.is_file():
            continue
        if store.file_digest(path, inside=home) != sha:
            continue
        path.unlink()
        if path.name == mark.NAME:  # of a part: whoever locks one holds the lock of the whole, as we do
            (path.parent / mark.LOCK).unlink(missing_ok=True)
        for folder in path.relative_to(home).parents:
            if folder.parts:
                with contextlib.suppress(OSError):  # not empty: something else stands there too
                    (home / folder).rmdir()
