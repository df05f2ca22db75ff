"""Files of records: arrays in an ``.npz``, or a table with a column of texts or one column per value.

A folder of images, or a data set that Hugging Face `datasets` saved, is read like a file.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from divulge import people, store, tables
from divulge.datafiles import classes, folders
from divulge.datafiles.layout import DataFile, FileLayout
from divulge.errors import InputError
from divulge.ragged import SEPARATOR
from divulge.store import MAX_LINES_BYTES, open_untrusted
from divulge.types import Records
from divulge.validation import check_array, check_choice, check_ids, check_mask, check_nonempty, format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.tables import Table
    from divulge.types import Array, Bools, Floats

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_LONGEST = 60  # characters of a column's name
_SHOWN = 40  # columns in a message that suggests one
_DIGITS = r"^-?[0-9]+$"
_EXACT = 2**53  # whole numbers beyond this cannot all be told apart as float64


@dataclass(frozen=True, slots=True, eq=False)
class NamedRows:
    """Records ``[n, d]``, their names, and their labels and membership where the file tells."""

    x: Floats
    ids: Array
    y: Array | None = None
    member: Bools | None = None


def read_records(path: Path, layout: FileLayout) -> DataFile:
    """The records in a file.

    Raises:
        divulge.InputError: no such file, a damaged one, columns that are missing or not numeric, no rows, rows without
            a text.
    """
    if not (path.is_file() or path.is_dir()):
        raise InputError(f"no such file: {path}")
    try:
        if path.is_dir() and not _is_table_folder(path):
            return _from_images(path, layout)
        if layout.text is not None:
            return _from_texts(path, layout, layout.text)
        return _from_arrays(path, layout) if path.suffix == ".npz" else _from_table(path, layout)
    except InputError as error:
        said = str(error)
        raise InputError(said if str(path) in said else f"{path}: {said}") from None


def read_named_rows(path: Path) -> NamedRows:
    """The arrays ``x``, and ``y``, ``ids`` and ``member`` where there are any, of an ``.npz``.

    Raises:
        divulge.InputError: no such file, a damaged one, no ``x``, arrays that do not fit each other.
    """
    arrays = store.read_arrays(path)
    if "x" not in arrays:
        raise InputError(f"{path}: an array named x is needed, found {', '.join(sorted(arrays)) or 'nothing'}")
    x = check_nonempty(check_array(arrays["x"], f"{path}: x"), f"{path}: x")
    member = check_mask(arrays["member"], f"{path}: member", (len(x),)) if "member" in arrays else None
    ids = check_ids(arrays["ids"], f"{path}: ids", len(x)) if "ids" in arrays else np.arange(len(x))
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
            raise InputError(f"labels: {path}: an array named 'y' is needed")
    elif tables.is_table_file(path) and path.suffix != ".csv":
        frame = tables.read_table(path, "labels")
        names = [name for name in frame.columns if name.lower() in _HEADERS] or frame.columns
        if len(names) != 1:
            raise InputError(f"labels: {path}: one column is needed, got {_some(names)}")
        labels = tables.to_array(frame[names[0]])
    else:
        try:
            with io.TextIOWrapper(open_untrusted(path, limit=MAX_LINES_BYTES), encoding="utf-8") as lines:
                named = lines.readline().strip().strip('"').lower() in _HEADERS
                lines.seek(0)
                labels = np.loadtxt(lines, dtype=np.int64, ndmin=1, skiprows=int(named))
        except OSError as error:
            raise InputError(f"labels: {path}: cannot be read ({error.strerror or error})") from None
        except ValueError as error:
            raise InputError(f"labels: {path}: one whole number per line is needed ({error})") from None
    return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels


def require_labels(files: dict[str, DataFile], layout: FileLayout) -> None:
    """Raise where labels are needed and a file has none.

    Raises:
        divulge.InputError: it does; its columns are named.
    """
    for key, file in files.items():
        if file.unlabelled:
            raise InputError(f"data.{key}: {file.unlabelled}")
        if file.records.y is None:
            there = f"no column {layout.label!r} among {_some(file.columns)}" if file.columns else "no array 'y'"
            raise InputError(
                f"data.{key}: there are no labels ({there}), which the recipes read; "
                f"set data.label to the column that holds them{classes.likely(file.columns)}"
            )


def _from_arrays(path: Path, layout: FileLayout) -> DataFile:
    arrays = store.read_arrays(path)
    if "x" not in arrays:
        raise InputError(f"an array named 'x' is needed, found {', '.join(arrays) or 'none'}")
    group = None
    if layout.group is not None:
        group = arrays[check_choice(layout.group, "data.group", arrays)]
    if layout.columns is not None:
        raise InputError("data.columns: the array x of an .npz is taken whole; leave them out")
    columns = tuple(map(str, np.ravel(arrays["columns"]))) if "columns" in arrays else ()
    y = arrays.get("y")
    if y is not None:
        classes.check_names(y, layout.classes, "y")
    covariates = {name: arrays[check_choice(name, "data.covariates", arrays)] for name in layout.covariates or ()}
    named = layout.classes if y is not None else None
    records = _check_classes(Records(_scaled(arrays["x"], layout.scale), y, arrays.get("ids"), class_names=named))
    return DataFile(records, group, columns, covariates=covariates)


def _from_images(path: Path, layout: FileLayout) -> DataFile:
    records, names = folders.images(path, layout.classes)
    if any(named is not None for named in (layout.group, layout.text, layout.columns, layout.covariates)):
        raise InputError("data.group, data.text, data.columns, data.covariates: a folder of images has no columns")
    return DataFile(Records(_scaled(records.x, layout.scale), records.y, records.ids), folders=names)


def _is_table_folder(path: Path) -> bool:
    """Whether a folder holds tables, and not images."""
    if tables.is_saved_dataset(path) or any(tables.is_table_file(each) for each in path.iterdir()):
        return True
    return (path / "data").is_dir() and any(tables.is_table_file(each) for each in (path / "data").iterdir())


def _scan(path: Path, layout: FileLayout) -> Table:
    separator = layout.separator if "separator" in layout.named else None
    table = tables.scan_table(path, separator=separator)
    names = table.columns
    for sign, called in _SEPARATORS.items():
        if separator and len(names) == 1 and sign in names[0] and sign != separator:
            raise InputError(
                f"one column only, {format_value(names[0])}: the values seem to be separated by {called}; "
                f"set data.separator = {sign!r}"
            )
    return table


def _from_table(path: Path, layout: FileLayout) -> DataFile:
    if not path.is_dir() and not tables.is_table_file(path):
        check_choice(path.suffix, "file type", [".npz", *tables.ENDINGS])
    if layout.person is not None:
        raise InputError("data.person: several records of one person are put together for data.text only")
    table = _scan(path, layout)
    _require_named(layout, table.columns)
    apart = [name for name in (layout.label, layout.id, layout.group) if name is not None and name in table]
    values = _value_columns(table, layout, apart)
    texts = [*(name for name in (layout.id, layout.group) if name in apart), *layout.codes]
    for name in layout.covariates or ():
        _choose(name, "data.covariates", table.columns)
    frame = table.collect(list(dict.fromkeys([*apart, *values, *(layout.covariates or ())])), texts, with_gaps=values)
    if not len(frame):
        raise InputError(f"a header ({_some(table.columns)}) and no rows; at least 1 record is needed")
    special = _special_columns(frame, layout)
    if layout.columns is None:  # a covariate of words is no value of a record
        words = [name for name in layout.covariates or () if not frame[name].dtype.is_numeric()]
        values = [name for name in values if name not in words or frame[name].dtype == pl.Boolean]
    x = _values(frame.select(values), layout.scale, layout.codes)
    class_names = _class_order(special, layout)
    records = _check_classes(Records(x, special.get(layout.label), special.get(layout.id), class_names=class_names))
    group = special.get(layout.group or "")
    return DataFile(records, group, tuple(values), covariates=_covariates(frame, layout))


def _value_columns(table: Table, layout: FileLayout, apart: Sequence[str]) -> list[str]:
    """The columns that make a record."""
    for name in layout.drop:
        _choose(name, "data.drop", table.columns)
    if layout.columns is None:
        return [name for name in table.columns if name not in apart and name not in layout.drop]
    for name in layout.columns:
        _choose(name, "data.columns", table.columns)
        if name in apart or name in layout.drop:
            raise InputError(f"data.columns: {name!r} is the label, the id or the group, or is dropped")
    return list(layout.columns)


def _from_texts(path: Path, layout: FileLayout, text: str) -> DataFile:
    """Documents from one column; of the others only labels, ids, groups and persons are read."""
    if not path.is_dir() and not tables.is_table_file(path):
        check_choice(path.suffix, "file type of texts", tables.ENDINGS)
    if layout.columns is not None:
        raise InputError("data.columns: of documents, only data.text is read")
    if layout.scale != 1.0:
        raise InputError("data.scale: texts have no scale")
    table = _scan(path, layout)
    _choose(text, "data.text", table.columns)
    _require_named(layout, table.columns)
    readable = any(part.lines is not None for part in table.parts)  # of which a line is named below
    if (kind := table.kind(text)) not in (tables.TEXT, "any", "empty") and not readable:
        raise InputError(f"data.text: {text!r} holds no texts ({kind}); name the column that does")
    words = [name for name in (text, layout.id, layout.group, layout.person) if name is not None and name in table]
    # A label column may hold anything where no language model needs it, so that it is read as texts first.
    labels = [layout.label] if layout.label in table and layout.label not in words else []
    for name in layout.covariates or ():
        _choose(name, "data.covariates", table.columns)
    frame = table.collect(list(dict.fromkeys([*words, *labels, *(layout.covariates or ())])), words)
    if not len(frame):
        raise InputError(f"a header ({_some(table.columns)}) and no rows; at least 1 record is needed")
    special = _special_columns(frame, replace(layout, label=""))
    y, why = classes.of_documents(tables.to_array(frame[layout.label]), layout) if labels else (None, "")
    documents = _texts(frame[text], table)
    group = special.get(layout.group or "")
    if layout.person is not None:
        if layout.covariates is not None:
            raise InputError("data.covariates: records of persons have none")
        return _by_person(documents, frame[layout.person], group)
    records = Records(documents, y, special.get(layout.id))
    return DataFile(records, group, (text,), unlabelled=why, covariates=_covariates(frame, layout))


def _by_person(documents: Array, person: pl.Series, group: Array | None) -> DataFile:
    """One record for each person, in the order of their first documents, with the group of the first."""
    if person.null_count():
        raise InputError(f"data.person: {person.null_count()} records have no person; leave them out")
    records = people.by_person(list(documents), person.to_list())
    first = person.to_frame().with_row_index("row").unique(person.name, keep="first", maintain_order=True)["row"]
    groups = None if group is None else group[first.to_numpy()]
    return DataFile(records, groups, (person.name,), unlabelled="records of persons have no labels")


def _texts(column: pl.Series, table: Table) -> Array:
    """The documents ``[n]``, each with something in it; NumPy's own strings would all be as long as the longest."""
    texts = column.to_list()
    if empty := [row for row, text in enumerate(texts) if not (text or "").strip()]:
        raise InputError(f"{len(empty)} records have no text (first: {table.place(empty[0])}); leave them out")
    array = np.empty(len(texts), dtype=object)
    # Each row of a file is one document, also where it holds the sign that stands between those of a person.
    array[:] = [text.replace(SEPARATOR, " ") for text in texts]
    return array


def _require_named(layout: FileLayout, header: Sequence[str]) -> None:
    """Raise where a column is missing that the user named."""
    for key in sorted(layout.named & {"label", "id", "group", "person"}):
        if (name := getattr(layout, key)) is not None:
            _choose(name, f"data.{key}", header)
    if layout.person is not None:
        _choose(layout.person, "data.person", header)


def _choose(name: str, key: str, header: Sequence[str]) -> None:
    """Raise where a column is missing, with the nearest of those that there are; of many, or long ones, some."""
    if name not in header:
        check_choice(name, key, [each for each in header if len(each) <= _LONGEST][:_SHOWN])


def _special_columns(frame: pl.DataFrame, layout: FileLayout) -> dict[str, Array]:
    """Labels, ids and groups, by the names of their columns."""
    names = [layout.label, layout.id, *([] if layout.group is None else [layout.group])]
    special = {name: tables.to_array(frame[name]) for name in names if name in frame.columns}
    if layout.label in special:
        classes.check_names(special[layout.label], layout.classes, layout.label)
    return special


def _class_order(special: dict[str, Array], layout: FileLayout) -> tuple[str, ...] | None:
    return layout.classes if layout.label in special else None


def _covariates(frame: pl.DataFrame, layout: FileLayout) -> dict[str, Array]:
    """The columns that are named as covariates."""
    return {name: tables.to_array(frame[name]) for name in layout.covariates or ()}


def _values(frame: pl.DataFrame, scale: float, codes: Sequence[str]) -> pl.DataFrame:
    """The columns of the records, numbers among them scaled.

    Raises:
        divulge.InputError: no column, columns of lists, whole numbers that float64 cannot tell apart, a scale of texts.
    """
    if not frame.columns:
        raise InputError("no column is left for the values of the records")
    if nested := [name for name in frame.columns if frame[name].dtype.is_nested()]:
        raise InputError(
            f"the columns {_some(nested)} hold lists or images, and a value is a number, a text or a date; bring them "
            "as the array x of an .npz, or images in a folder for each class"
        )
    if huge := [name for name in frame.columns if name not in codes and _is_huge(frame[name])]:
        raise InputError(
            f"column {huge[0]!r} holds whole numbers beyond ±2^53, which float64 cannot tell apart; name it as "
            "data.id or leave it out"
        )
    if scale == 1.0:
        return frame
    if odd := [name for name in frame.columns if not frame[name].dtype.is_numeric()]:
        raise InputError(f"data.scale: {scale:g} is a factor on numbers, and the columns {_some(odd)} hold none")
    return frame.select(pl.all().cast(pl.Float32) * pl.lit(scale, dtype=pl.Float32))


def _is_huge(column: pl.Series) -> bool:
    """Whether some are whole numbers that float64 cannot tell apart; of a CSV those beyond 64 bits come as texts."""
    if column.dtype.is_integer():
        lowest, highest = column.min(), column.max()
        return any(isinstance(one, int) and abs(one) > _EXACT for one in (lowest, highest))
    if column.dtype == pl.String:
        there = column.drop_nulls()
        return len(there) > 0 and bool(there.str.contains(_DIGITS).all())
    return False


def _some(names: Sequence[str]) -> str:
    said = ", ".join(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…" for name in names[:20])
    return f"{said}, … ({len(names)} in all)" if len(names) > 20 else said


def _scaled(x: Array, scale: float) -> Array:
    return x if scale == 1.0 else check_array(x, "x").astype(np.float32) * np.float32(scale)


def _check_classes(records: Records) -> Records:
    """Return the records if their labels, where they have some, are of classes: files hold no real values yet."""
    if records.y is not None and records.labels is None:
        raise InputError("y: whole-number labels are needed, or names of classes, got float")
    return records
