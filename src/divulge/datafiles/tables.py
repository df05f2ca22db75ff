"""Files of records: arrays in an ``.npz``, or a table with a column of texts or one column per value.

A folder of images, or a data set that Hugging Face `datasets` saved, is read like a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks, frames, store
from divulge.datafiles import classes, folders, json_lines
from divulge.datafiles.layout import DataFile, FileLayout
from divulge.frames import Frame
from divulge.ragged import SEPARATOR
from divulge.types import Records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Array, Bools, Floats

_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_TABLES = (".parquet", ".csv", *json_lines.ENDINGS)
_LONGEST = 60  # characters of a column's name
_SHOWN = 40  # columns in a message that suggests one
_DIGITS = re.compile(r"-?[0-9]+")
_EXACT = 2**53  # whole numbers beyond this cannot all be told apart as float64


@dataclass(frozen=True, slots=True, eq=False)
class NamedRows:
    """Records ``[n, d]``, their names, and their labels and membership where the file tells."""

    x: Floats
    ids: Array
    y: Array | None = None
    member: Bools | None = None


def read(path: Path, layout: FileLayout) -> DataFile:
    """The records in a file.

    Raises:
        divulge.InputError: no such file, a damaged one, columns that are missing or not numeric, no rows, rows without
            a text.
    """
    if not (path.is_file() or path.is_dir()):
        raise checks.InputError(f"no such file: {path}")
    try:
        if path.is_dir() and not folders.saved(path):
            return _from_images(path, layout)
        if layout.text is not None:
            return _from_texts(path, layout, layout.text)
        return _from_arrays(path, layout) if path.suffix == ".npz" else _from_table(path, layout)
    except checks.InputError as error:
        said = str(error)
        raise checks.InputError(said if str(path) in said else f"{path}: {said}") from None


def read_rows(path: Path) -> NamedRows:
    """The arrays ``x``, and ``y``, ``ids`` and ``member`` where there are any, of an ``.npz``.

    Raises:
        divulge.InputError: no such file, a damaged one, no ``x``, arrays that do not fit each other.
    """
    arrays = store.read_arrays(path)
    if "x" not in arrays:
        raise checks.InputError(f"{path}: an array named x is needed, found {', '.join(sorted(arrays)) or 'nothing'}")
    x = checks.nonempty(checks.array(arrays["x"], f"{path}: x"), f"{path}: x")
    member = checks.mask(arrays["member"], f"{path}: member", (len(x),)) if "member" in arrays else None
    ids = checks.identifiers(arrays["ids"], f"{path}: ids", len(x)) if "ids" in arrays else np.arange(len(x))
    return NamedRows(x.reshape(len(x), -1).astype(float), ids, arrays.get("y"), member)


_HEADERS = ("label", "labels", "y", "class", "target", "truth")


def read_labels(path: Path) -> Array:
    """Labels: one number per line, under a header or not, a ``.npy``, or the array ``y`` of an ``.npz``.

    Raises:
        divulge.InputError: a file that cannot be read, or holds anything else.
    """
    if path.suffix == ".npy":
        labels = store.read_array(path)
    elif path.suffix == ".npz":
        labels = store.read_arrays(path).get("y")
        if labels is None:
            raise checks.InputError(f"labels: {path}: an array named 'y' is needed")
    else:
        try:
            with path.open(encoding="utf-8") as lines:
                named = lines.readline().strip().strip('"').lower() in _HEADERS
            labels = np.loadtxt(path, dtype=np.int64, ndmin=1, skiprows=int(named))
        except OSError as error:
            raise checks.InputError(f"labels: {path}: cannot be read ({error.strerror or error})") from None
        except ValueError as error:
            raise checks.InputError(f"labels: {path}: one whole number per line is needed ({error})") from None
    return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels


def refuse_unlabelled(files: dict[str, DataFile], layout: FileLayout) -> None:
    """Raise where labels are needed and a file has none.

    Raises:
        divulge.InputError: it does; its columns are named.
    """
    for key, file in files.items():
        if file.unlabelled:
            raise checks.InputError(f"data.{key}: {file.unlabelled}")
        if file.records.y is None:
            there = f"no column {layout.label!r} among {_some(file.columns)}" if file.columns else "no array 'y'"
            raise checks.InputError(
                f"data.{key}: there are no labels ({there}), which the recipes read; "
                f"set data.label to the column that holds them{classes.likely(file.columns)}"
            )


def _from_arrays(path: Path, layout: FileLayout) -> DataFile:
    arrays = store.read_arrays(path)
    if "x" not in arrays:
        raise checks.InputError(f"an array named 'x' is needed, found {', '.join(arrays) or 'none'}")
    group = None
    if layout.group is not None:
        group = arrays[checks.choice(layout.group, "data.group", arrays)]
    if layout.columns is not None:
        raise checks.InputError("data.columns: the array x of an .npz is taken whole; leave them out")
    columns = tuple(map(str, np.ravel(arrays["columns"]))) if "columns" in arrays else ()
    y = None if "y" not in arrays else classes.numbered(arrays["y"], layout.classes, "y")
    return DataFile(Records(_scaled(arrays["x"], layout.scale), y, arrays.get("ids")), group, columns)


def _from_images(path: Path, layout: FileLayout) -> DataFile:
    records, names = folders.images(path, layout.classes)
    if layout.group is not None or layout.text is not None or layout.columns is not None:
        raise checks.InputError("data.group, data.text, data.columns: a folder of images has no columns")
    return DataFile(Records(_scaled(records.x, layout.scale), records.y, records.ids), folders=names)


def _from_table(path: Path, layout: FileLayout) -> DataFile:
    frame = _frame(path, layout)
    _named(layout, frame.names)
    apart = _apart(frame, layout)
    rest = _values(frame, layout, list(apart))
    _refuse_odd(rest)
    x = np.empty((len(rest), len(rest.names)), order="F")
    for at, values in enumerate(rest.columns.values()):
        x[:, at] = values
    records = Records(_scaled(x, layout.scale), apart.get(layout.label), apart.get(layout.id))
    return DataFile(records, apart.get(layout.group or ""), rest.names)


def _values(frame: Frame, layout: FileLayout, apart: Sequence[str]) -> Frame:
    """The columns that make a record."""
    if layout.columns is None:
        return frame.drop(apart)
    for name in layout.columns:
        _choose(name, "data.columns", frame.names)
        if name in apart:
            raise checks.InputError(f"data.columns: {name!r} is the label, the id or the group")
    return frame.select(layout.columns)


def _from_texts(path: Path, layout: FileLayout, text: str) -> DataFile:
    """Documents from one column; of the others only labels, ids and groups are read."""
    kind = "" if path.is_dir() else checks.choice(path.suffix, "file type of texts", _TABLES)
    if layout.columns is not None:
        raise checks.InputError("data.columns: of documents, only data.text is read")
    if layout.scale != 1.0:
        raise checks.InputError("data.scale: texts have no scale")
    wanted = tuple(dict.fromkeys((text, layout.label, layout.id, *([] if layout.group is None else [layout.group]))))
    if kind in json_lines.ENDINGS:
        table = json_lines.read(path, wanted)
        header, frame, where = table.keys, table.frame, [f"line {number}" for number in table.numbers]
        _choose(text, "data.text", header)
    elif not kind:
        frame = folders.arrow(path)
        header, where = frame.names, [f"row {row}" for row in range(len(frame))]
        _choose(text, "data.text", header)
    else:
        with store.tables(str(path)):
            header, frame = _columns(path, kind, layout, wanted)
        where = [f"row {row}" for row in range(len(frame))]
    _named(layout, header)
    if not len(frame):
        raise checks.InputError(f"a header ({_some(frame.names)}) and no rows; at least 1 record is needed")
    apart = _apart(frame, replace(layout, label=""))
    y, why = classes.of_documents(frame[layout.label], layout) if layout.label in frame else (None, "")
    records = Records(_texts(frame[text], text, where), y, apart.get(layout.id))
    return DataFile(records, apart.get(layout.group or ""), (text,), unlabelled=why)


def _columns(path: Path, kind: str, layout: FileLayout, wanted: Sequence[str]) -> tuple[Sequence[str], Frame]:
    """The names of all columns, and those of the wanted that there are; the first, which holds the texts, as text."""
    sign = "" if kind == ".parquet" else _separator(path, layout)
    header = frames.header(path, sign)
    _choose(wanted[0], "data.text", header)
    there = [name for name in wanted if name in header]
    if kind == ".parquet":
        return header, frames.parquet(path, there)
    return header, frames.csv(path, sign, names=there, texts=wanted[0])


def _separator(path: Path, layout: FileLayout) -> str:
    """What the user set, or else what separates the names of the header, where commas do not."""
    names = frames.header(path, layout.separator)
    for sign, called in _SEPARATORS.items():
        if len(names) == 1 and sign in names[0] and sign != layout.separator:
            if "separator" not in layout.named:
                return sign
            raise checks.InputError(
                f"one column only, {checks.shown(names[0])}: the values seem to be separated by {called}; "
                f"set data.separator = {sign!r}"
            )
    return layout.separator


def _texts(column: Array, name: str, where: Sequence[str]) -> Array:
    """The documents ``[n]``, each with something in it; NumPy's own strings would all be as long as the longest."""
    texts = column.tolist()
    if odd := [text for text in texts if not (text is None or isinstance(text, str))]:
        kind = type(odd[0]).__name__ if column.dtype == object else column.dtype.name
        raise checks.InputError(f"data.text: {name!r} holds no texts ({kind.capitalize()}); name the column that does")
    if empty := [place for place, text in zip(where, texts, strict=True) if not (text or "").strip()]:
        raise checks.InputError(f"{len(empty)} records have no text (first: {empty[0]}); leave them out")
    array = np.empty(len(texts), dtype=object)
    # Each row of a file is one document, also where it holds the sign that stands between those of a person.
    array[:] = [text.replace(SEPARATOR, " ") for text in texts]
    return array


def _named(layout: FileLayout, header: Sequence[str]) -> None:
    """Raise where a column is missing that the user named."""
    for key in sorted(layout.named & {"label", "id", "group"}):
        _choose(getattr(layout, key), f"data.{key}", header)


def _choose(name: str, key: str, header: Sequence[str]) -> None:
    """Raise where a column is missing, with the nearest of those that there are; of many, or long ones, some."""
    if name not in header:
        checks.choice(name, key, [each for each in header if len(each) <= _LONGEST][:_SHOWN])


def _apart(frame: Frame, layout: FileLayout) -> dict[str, Array]:
    """Labels, ids and groups, by the names of their columns."""
    names = [layout.label, layout.id, *([] if layout.group is None else [layout.group])]
    apart = {name: frame[name] for name in names if name in frame}
    if layout.label in apart:
        apart[layout.label] = classes.numbered(apart[layout.label], layout.classes, layout.label)
    return apart


def _frame(path: Path, layout: FileLayout) -> Frame:
    if path.is_dir():
        return folders.arrow(path)
    kind = checks.choice(path.suffix, "file type", [".npz", *_TABLES])
    if kind in json_lines.ENDINGS:
        return json_lines.read(path).frame
    with store.tables(str(path)):
        frame = frames.parquet(path) if kind == ".parquet" else frames.csv(path, _separator(path, layout))
    if not len(frame):
        raise checks.InputError(f"a header ({_some(frame.names)}) and no rows; at least 1 record is needed")
    return frame


def _refuse_odd(rest: Frame) -> None:
    if not rest.names:
        raise checks.InputError("no column is left for the values of the records")
    huge = [name for name, values in rest.columns.items() if _huge(values)]
    wrong = [name for name, values in rest.columns.items() if name not in huge and not _numeric(values)]
    if nested := [name for name in wrong if _nested(rest[name])]:
        raise checks.InputError(
            f"the columns {_some(nested)} hold lists or images, and a value is a number; bring them as the array "
            "x of an .npz, or images in a folder for each class"
        )
    if wrong:
        raise checks.InputError(
            f"the columns {_some(wrong)} are not numeric; encode them, or name one as data.label, data.id or "
            "data.group, or as data.text if it holds the documents; or name those that make a record in data.columns"
        )
    if huge:
        raise checks.InputError(
            f"column {huge[0]!r} holds whole numbers beyond ±2^53, which float64 cannot tell apart; name it as "
            "data.id or leave it out"
        )


def _numeric(values: Array) -> bool:
    """Whether a column holds numbers or truth values, of which some may be missing."""
    kinds = set(map(type, values.tolist())) if values.dtype == object else {bool}
    return values.dtype.kind in "biuf" or kinds == {bool, type(None)}


def _nested(values: Array) -> bool:
    """Whether each value of a column holds several, as lists and the images of `datasets` do."""
    return any(isinstance(value, list | tuple | dict | np.ndarray) for value in values.tolist())


def _huge(values: Array) -> bool:
    """Whether some are whole numbers that float64 cannot tell apart; of a CSV those beyond 64 bits come as texts."""
    if values.dtype != object:
        return values.dtype.kind in "iu" and bool(((values > _EXACT) | (values < -_EXACT)).any())
    there = [str(value) if type(value) is int else value for value in values.tolist() if value is not None]
    digits = all(isinstance(value, str) and _DIGITS.fullmatch(value) for value in there)
    return digits and any(len(value) > 400 or abs(int(value)) > _EXACT for value in there)


def _some(names: Sequence[str]) -> str:
    said = ", ".join(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…" for name in names[:20])
    return f"{said}, … ({len(names)} in all)" if len(names) > 20 else said


def _scaled(x: Array, scale: float) -> Array:
    return x if scale == 1.0 else checks.array(x, "x").astype(np.float32) * np.float32(scale)
