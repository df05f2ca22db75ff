"""SACRO-ML's target folders: ``target.yaml``, a model, and arrays of training and test records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from divulge import store, tables
from divulge.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from divulge.types import Array

TARGET_FILE = "target.yaml"
CONVERTER = "examples/convert_to_skops.py"
"""The script that turns pickles into files that Divulge reads, in the place where they were made."""
_MAX_BYTES = 5_000_000


@dataclass(frozen=True, slots=True, eq=False)
class SacroFolder:
    """A target folder of SACRO-ML.

    Args:
        folder: where it lies.
        model_name: class of the model.
        model: file of the model.
        arrays: ``X_train``, ``y_train``, ``X_test``, ``y_test`` → their files, as far as there are any.
        columns: names of the columns, where the folder names each of them; else empty.
    """

    folder: Path
    model_name: str
    model: Path
    arrays: dict[str, Path]
    columns: tuple[str, ...]

    def read_array(self, name: str) -> Array:
        """Read one array: ``.npy``, or ``.csv`` without a header, as SACRO-ML writes it.

        Raises:
            divulge.InputError: the folder has none of this name, a pickle, or a file that is no table of numbers.
        """
        path = self.arrays.get(name)
        if path is None:
            raise InputError(f"model: {self.folder / TARGET_FILE} names no {name}_path; its records are needed")
        refuse_pickle(path, "model")
        try:
            if path.suffix == ".npy":
                return np.load(path, allow_pickle=False)
            if path.suffix == ".csv":
                return np.loadtxt(path, delimiter=",", ndmin=1 if name.startswith("y") else 2)
        except (OSError, ValueError) as error:
            raise InputError(f"model: {path} is no table of numbers ({error})") from None
        raise InputError(f"model: {path}: .npy or .csv is needed")

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the training and test records as tables ``train`` and ``test``, with the column ``label``.

        Raises:
            divulge.InputError: see `read_array`; arrays that do not fit each other.
        """
        frames = {}
        for side in ("train", "test"):
            x, y = self.read_array(f"X_{side}"), self.read_array(f"y_{side}").squeeze()
            if x.ndim != 2 or y.shape != x.shape[:1]:
                raise InputError(f"model: X_{side} of shape {x.shape} does not fit y_{side} of shape {y.shape}")
            names = self.columns if len(self.columns) == x.shape[1] else [f"x{i}" for i in range(x.shape[1])]
            label = y.astype(np.int64) if np.array_equal(y, np.rint(y)) else y
            frames[side] = tables.from_arrays({str(name): x[:, i] for i, name in enumerate(names)} | {"label": label})
        return frames


def is_sacro_folder(path: Path) -> bool:
    """Return whether a folder has a ``target.yaml``."""
    return path.is_dir() and (path / TARGET_FILE).is_file()


def read_sacro_folder(path: Path) -> SacroFolder:
    """Read the ``target.yaml`` of a folder; no array and no model is opened.

    Raises:
        divulge.InputError: no such file, not YAML, aliases, no model, a file outside the folder.
    """
    file = path / TARGET_FILE
    try:
        content = yaml.load(store.read_untrusted(file).decode()[:_MAX_BYTES], _PlainLoader)  # noqa: S506  a safe loader
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"model: {file} is not readable YAML ({detail})") from None
    if not isinstance(content, dict) or not content.get("model_path"):
        raise InputError(f"model: {file} names no model (model_path)")
    arrays = {
        name: _inside(path, content[f"{name}_path"])
        for name in ("X_train", "y_train", "X_test", "y_test")
        if content.get(f"{name}_path")
    }
    return SacroFolder(
        path, str(content.get("model_name", "")), _inside(path, content["model_path"]), arrays, _columns(content)
    )


class _PlainLoader(yaml.SafeLoader):
    """YAML of plain values; aliases, by which a small file grows without bound, are refused."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it holds an alias")
        return super().compose_node(parent, index)


def _inside(folder: Path, name: object) -> Path:
    path = folder / str(name)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"model: {folder / TARGET_FILE} names {name}, which lies outside of it")
    return path


def _columns(content: dict[str, Any]) -> tuple[str, ...]:
    """Return the name of each column, where every feature stands in one column of its own."""
    features = content.get("features")
    entries = list(features.values()) if isinstance(features, dict) else []
    if not all(isinstance(entry, dict) and len(entry.get("indices") or ()) == 1 for entry in entries):
        return ()
    names = {entry["indices"][0]: str(entry.get("name", "")) for entry in entries}
    ordered = tuple(names[i] for i in range(len(names))) if set(names) == set(range(len(entries))) else ()
    return ordered if len({*ordered, "label"}) == len(ordered) + 1 else ()


def refuse_pickle(path: Path, key: str) -> None:
    """Pass if a file is no pickle by its name.

    Raises:
        divulge.InputError: it is; the message says how it is converted.
    """
    if path.suffix.lower() in (".pkl", ".pickle", ".joblib"):
        raise InputError(
            f"{key}: {path} is a pickle, a program that runs when it is opened, and is not read here. Where it was "
            f"made, run: python {CONVERTER} {path.name} (docs/security.md)"
        )
