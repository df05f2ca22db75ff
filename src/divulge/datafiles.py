"""Records and labels from files: arrays in an ``.npz``, or a table with a column of texts or one column per value.

A folder of images or of texts, or a data set that Hugging Face `datasets` saved, is read like a file.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import polars as pl

from divulge import chats, errors, lazy, people, store, tables
from divulge.columns import nameless_columns
from divulge.errors import InputError, missing_extra
from divulge.store import MAX_LINES_BYTES, open_untrusted
from divulge.types import Records
from divulge.validation import (
    check_array,
    check_choice,
    check_ids,
    check_integer,
    check_labels,
    check_mask,
    check_memory,
    check_nonempty,
    format_exception,
    format_value,
    require_callable,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

    from PIL import Image

    from divulge.tables import ColumnNames, Table
    from divulge.types import Array, Bools, Floats
else:
    Image = lazy.module("PIL.Image")

_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")  # modes with at most 8 bits per channel
_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Columns and settings with which a file is read.

    Args:
        label: column of the classes.
        id: column of the identifiers.
        group: column of the subgroups; None if there are none.
        text: column of the documents; None for records of numbers.
        messages: column of chats, in place of ``text``.
        prompt: column of prompts, in place of ``text``; ``answer`` is that of their answers.
        answer: column of the answers.
        tokens: which tokens of chats and answers count, see `divulge.chats`.
        person: column that names the person of each document; None if each row is a record of its own.
        drop: columns that are not part of a record.
        covariates: columns of the covariates; None if none are named.
        scale: factor on every value.
        separator: between the values of a ``.csv``; found in the header unless the user set it.
        columns: of the values of a record, in their order; None takes all that are left.
        classes: names of the classes, in the order of the model's outputs; None if classes are numbers.
        features: beginning of the names of columns (of an ``.npz``, name of an array) that are features of a record
            and no part of it; None if there are none.
        codes: columns of a text file that are read as texts, such as 007.
        user_set: names of the settings that the user made; columns among them must exist.
        real_values: whether labels may be real values, and not classes alone.
    """

    label: str = "label"
    id: str = "id"
    group: str | None = None
    text: str | None = None
    messages: str | None = None
    prompt: str | None = None
    answer: str | None = None
    tokens: str = "answer"
    person: str | None = None
    drop: tuple[str, ...] = ()
    scale: float = 1.0
    separator: str = ","
    columns: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    covariates: tuple[str, ...] | None = None
    features: str | None = None
    codes: tuple[str, ...] = ()
    user_set: frozenset[str] = frozenset()
    real_values: bool = False

    @classmethod
    def from_column_names(cls, names: ColumnNames, **defaults: Any) -> FileLayout:
        """Return the layout of files with these column names; ``defaults`` apply where the user named none."""
        settings = {key: value for key, value in defaults.items() if key not in names.model_fields_set}
        if names.model_fields_set & {"messages", "prompt", "answer"}:
            settings.pop("text", None)
        options = names.model_dump() | settings
        options["drop"] = tuple(options["drop"])
        return cls(**options, user_set=frozenset(names.model_fields_set))

    def document_columns(self) -> dict[str, str]:
        """Return the columns that documents are read from, by the keys that name them; none for records of numbers.

        Raises:
            divulge.InputError: a prompt without an answer, an answer without a prompt, several of these ways at once.
        """
        keys = ("text", "messages", "prompt", "answer")
        named = {key: name for key in keys if (name := getattr(self, key)) is not None}
        if named and tuple(named) not in (("text",), ("messages",), ("prompt", "answer")):
            raise InputError(
                "data.text, data.messages, data.prompt, data.answer: documents are read from one column of texts, from "
                f"one of messages, or from one of prompts and one of answers, got {', '.join(named)}"
            )
        return named


@dataclass(frozen=True, slots=True, eq=False)
class DataFile:
    """The content of one file.

    Args:
        records: of the file.
        group: subgroup of each record; None if no column is named.
        columns: names of the values of a record, if they have names.
        folders: names of the classes, if each has a folder of images.
        unlabelled: reason why the labels of documents could not be read; empty if they could.
        covariates: columns of the covariates, by name.
        stores_types: whether the file says of which type a column is, as no CSV file does.
    """

    records: Records
    group: Any = None
    columns: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    unlabelled: str = ""
    covariates: Mapping[str, Array] = field(default_factory=dict)
    stores_types: bool = True


_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_MAX_NAME_LENGTH = 60  # characters of a column's name in a message
_DIGITS = r"^-?[0-9]+$"
_MAX_EXACT_INTEGER = 2**53  # float64 cannot represent all whole numbers beyond this


@dataclass(frozen=True, slots=True, eq=False)
class NamedRows:
    """Records ``[n, …]`` and their names; labels, membership and names of the columns, if the file has them."""

    x: Floats
    ids: Array
    y: Array | None = None
    member: Bools | None = None
    columns: tuple[str, ...] = ()


def read_records(path: Path, layout: FileLayout) -> DataFile:
    """Read the records in a file, or in a folder of images, texts, tables or a saved data set.

    Raises:
        divulge.InputError: no such file, a damaged one, columns that are missing or not numeric, no rows, rows without
            a text.
    """
    if not (path.is_file() or path.is_dir()):
        raise InputError(f"no such file: {path}")
    try:
        if path.is_dir() and not tables.is_table(path):
            return _from_images(path, layout)
        if tables.is_text_folder(path):
            layout = _layout_of_texts(layout)
        if documents := layout.document_columns():
            return _from_texts(path, layout, documents)
        return _from_arrays(path, layout) if path.suffix == ".npz" else _from_table(path, layout)
    except InputError as error:
        message = str(error)
        raise InputError(message if str(path) in message else f"{path}: {message}") from None


def _layout_of_texts(layout: FileLayout) -> FileLayout:
    """Return how a folder of texts is read, whose columns have names of their own."""
    if {*layout.document_columns()} - {"text"} or layout.person is not None or layout.group is not None:
        raise InputError("data.messages, data.prompt, data.person, data.group: a folder of texts has no columns")
    return replace(layout, text="text", id="id", user_set=layout.user_set - {"text", "id", "label"})


@dataclass(frozen=True, slots=True, eq=False)
class FileRows:
    """Rows of a table, in which every value is spelled as in the file.

    Args:
        frame: all columns; texts of a CSV file, and otherwise of the file's types.
        ending: of a file that these rows can be added to: ``.csv``, ``.jsonl`` or ``.parquet``.
        separator: between the values of a CSV file.
    """

    frame: pl.DataFrame
    ending: str
    separator: str = ","

    def filter(self, mask: Bools) -> FileRows:
        """Return the rows of a mask ``[n]``."""
        return replace(self, frame=self.frame.filter(pl.Series(mask)))

    def with_columns_of(self, source: FileRows) -> FileRows:
        """Return the rows with the columns of others, in their order; what these lack is missing."""
        empty = {name: dtype for name, dtype in source.frame.schema.items() if name not in self.frame.columns}
        filled = self.frame.with_columns(pl.lit(None, dtype=dtype).alias(name) for name, dtype in empty.items())
        return replace(self, frame=filled.select(source.frame.columns))

    def find_codes(self) -> tuple[str, ...]:
        """Return the columns of a CSV file with digits after a zero, as in 007, which no number is spelled with."""
        if self.ending != ".csv":
            return ()
        return tuple(name for name in self.frame.columns if self.frame[name].str.contains(r"^0\d+$").any())

    def spell_numbers(self, name: str, numbers: Array) -> pl.Series:
        """Return numbers ``[n]`` as the values of a column are: of its type, or with its decimal mark."""
        column = self.frame[name]
        if self.ending != ".csv":
            return pl.Series(name, numbers).cast(column.dtype)
        texts = [str(int(value)) if float(value).is_integer() else repr(float(value)) for value in numbers.tolist()]
        has_commas = bool(column.str.contains(",", literal=True).any())
        return pl.Series(name, [text.replace(".", ",") for text in texts] if has_commas else texts, pl.String)

    def spell_new_ids(self, name: str, count: int) -> pl.Series:
        """Return ``count`` identifiers that a column does not have: numbers after its largest, else canary-1, ….

        They are missing where the column can hold neither.
        """
        column = self.frame[name]
        numbers = column.cast(pl.Int64, strict=False)
        is_number = numbers.is_not_null() & (numbers.cast(pl.String) == column.cast(pl.String))
        if (column.dtype.is_integer() or self.ending == ".csv") and (is_number | column.is_null()).all():
            largest = max([0, *numbers.drop_nulls().to_list()])
            new = pl.Series(name, [str(largest + number) for number in range(1, count + 1)], pl.String)
            return new.cast(column.dtype, strict=False)
        if column.dtype != pl.String:
            return pl.repeat(None, count, dtype=column.dtype, eager=True).alias(name)
        prefix = "canary-"
        while column.str.starts_with(prefix).any():
            prefix = f"_{prefix}"
        return pl.Series(name, [f"{prefix}{number}" for number in range(1, count + 1)], pl.String)

    def to_bytes(self) -> bytes:
        """Return the file of these rows."""
        out = io.BytesIO()
        if self.ending == ".csv":
            self.frame.write_csv(out, separator=self.separator)
        elif self.ending == ".jsonl":
            self.frame.write_ndjson(out)
        else:
            tables.write_parquet(self.frame, out)
        return out.getvalue()


def read_rows(path: Path, layout: FileLayout) -> FileRows:
    """Read all columns of a table, or of a folder of tables, as its file spells them; errors as for `read_records`."""
    table = _scan(path, layout)
    separators = {None if part.delimited is None else part.delimited.separator for part in table.parts}
    if len(separators) == 1 and None not in separators:
        return FileRows(table.collect(texts=table.columns), ".csv", str(separators.pop()))
    ending = ".jsonl" if all(part.lines is not None for part in table.parts) else ".parquet"
    # In JSON lines a key may hold lists or objects, which are no values of a column and so no part of a record.
    names = [name for name in table.columns if ending != ".jsonl" or table.column_type(name) in _SCALAR_TYPES]
    return FileRows(table.collect(names), ending)


_SCALAR_TYPES = (tables.NUMBER, tables.TEXT, "true or false", "empty")


def read_named_rows(
    path: Path,
    layout: FileLayout = FileLayout(),
    order: Sequence[str] = (),
    levels: Mapping[str, tuple[str, tables.Level]] | None = None,
) -> NamedRows:
    """Read records of numbers from a table, or the arrays ``x`` and, if present, ``y``, ``ids`` and ``member``.

    Args:
        path: of a table, of a folder of tables, or of an ``.npz``.
        layout: columns of the table; membership stands in a column ``member``.
        order: columns of the values of a record in the order to return them in; as they stand in the table when empty.
        levels: name in ``order`` → column and a value of it: 1 where it stands there, else 0.

    Raises:
        divulge.InputError: a missing or damaged file, no ``x``, arrays of different lengths, columns that are missing,
            that are too many or that hold no numbers, a value that is missing.
    """
    if not tables.is_table(path):
        arrays = store.read_arrays(path)
        if "x" not in arrays:
            raise InputError(f"{path}: an array named x is needed, found {', '.join(sorted(arrays)) or 'nothing'}")
        x, arrays_by_role, columns = arrays["x"], arrays, ()
    else:
        frame = tables.read_table(path, texts=[layout.id, *layout.codes])
        for key in sorted(layout.user_set & {"label", "id"}):
            try:
                _require_column(getattr(layout, key), f"data.{key}", frame.columns)
            except InputError as error:
                raise InputError(f"{error} in {path}") from None
        roles = {layout.label: "y", layout.id: "ids", _MEMBER: "member"}
        frame = frame.drop([name for name in layout.drop if name not in roles], strict=False)
        frame = tables.code_levels(frame, levels or {}, path)
        arrays_by_role = {role: tables.to_array(frame[name]) for name, role in roles.items() if name in frame.columns}
        columns = tuple(name for name in frame.columns if name not in roles)
        nameless = set(nameless_columns(columns)) - {*order}
        columns = tuple(name for name in columns if name not in nameless)
        if order and sorted(order) != sorted(columns):
            missing, further = sorted({*order} - {*columns}), sorted({*columns} - {*order})
            made = next((name for name in missing if set(name) & set(":(^*")), None)
            advice = "" if made is None else f" (make a column called {format_value(made)} here, as the fit had it)"
            lacks = [f"lacks {_format_names(missing)}{advice}"] if missing else []
            which = "this" if len(further) == 1 else "one of them"
            label = "" if "y" in arrays_by_role else f"; or is {which} --label?"
            holds = [f"has the further columns {_format_names(further)} (--drop leaves out{label})"] if further else []
            raise InputError(f"{path}: {' and '.join([*lacks, *holds])}; needed are {_format_names(order)}")
        columns = tuple(order) or columns
        values = _check_values(frame.select(columns), 1.0, ())
        if texts := [name for name in columns if not values[name].dtype.is_numeric()]:
            raise InputError(f"{path}: numbers are needed, and the columns {_format_names(texts)} hold none")
        x = values.to_numpy()
    x = check_nonempty(check_array(x, f"{path}: x"), f"{path}: x")
    member = arrays_by_role.get("member")
    if member is not None:
        if member.dtype.kind in "iu" and np.isin(member, (0, 1)).all():
            member = member.astype(bool)
        member = check_mask(member, f"{path}: member", (len(x),))
    ids = check_ids(arrays_by_role["ids"], f"{path}: ids", len(x)) if "ids" in arrays_by_role else np.arange(len(x))
    return NamedRows((x if x.ndim > 1 else x[:, None]).astype(float), ids, arrays_by_role.get("y"), member, columns)


_MEMBER = "member"
_HEADERS = ("label", "labels", "y", "class", "target", "truth")


def read_labels(path: Path, label: str | None = None) -> Array:
    """Read labels from a table, lines of numbers with or without a header, a ``.npy``, or ``y`` of an ``.npz``.

    Args:
        path: of the file, or of a folder of tables.
        label: the column; None takes the only one, or the one of a usual name.

    Raises:
        divulge.InputError: a file that cannot be read, or holds anything else.
    """
    if path.suffix == ".npy":
        labels = store.read_array(path)
    elif path.suffix == ".npz":
        labels = store.read_arrays(path).get("y")
        if labels is None:
            raise InputError(f"labels: {path}: an array named 'y' is needed")
    elif tables.is_table(path):
        labels = _read_label_column(path, label)
    else:
        try:
            with io.TextIOWrapper(open_untrusted(path, limit=MAX_LINES_BYTES), encoding="utf-8") as lines:
                has_header = lines.readline().strip().strip('"').lower() in _HEADERS
                lines.seek(0)
                labels = np.loadtxt(lines, dtype=np.int64, ndmin=1, skiprows=int(has_header))
        except OSError as error:
            raise InputError(f"labels: {path}: cannot be read ({error.strerror or error})") from None
        except ValueError as error:
            raise InputError(f"labels: {path}: one whole number per line is needed ({error})") from None
    return labels.astype(np.int64) if labels.dtype.kind in "iub" else labels


def _read_label_column(path: Path, label: str | None) -> Array:
    """Return the labels in a table; a single column may have a label in place of its name.

    Raises:
        divulge.InputError: no such column, several that may be it, values that are no whole numbers.
    """
    table = tables.scan_table(path, "labels")
    if label is not None:
        _require_column(label, "--label", table.columns)
    names = [label] if label else [name for name in table.columns if name.lower() in _HEADERS] or list(table.columns)
    if len(names) != 1:
        raise InputError(f"labels: {path}: one column is needed, got {_format_names(names)}; --label names it")
    (name,) = names
    column = table.collect(names)[name]
    if not label and re.fullmatch(r"\s*[+-]?\d+\s*", name) and column.dtype.is_integer():  # there is no header
        column = pl.concat([pl.Series(name, [int(name)], column.dtype), column])
    elif name.strip().lower() in ("", "nan", "na", "null", "none") or is_number(name):
        raise InputError(f"labels: {path}: one whole number per line is needed, got {format_value(name)} in the first")
    if not (column.dtype.is_integer() or column.dtype == pl.Boolean) or column.null_count():
        raise InputError(
            f"labels: {path}: one whole number per line is needed, and the column {format_value(name)} holds others"
        )
    return tables.to_array(column)


def is_number(text: str) -> bool:
    """Check whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def require_labels(files: dict[str, DataFile], layout: FileLayout) -> None:
    """Raise if a file has no labels.

    Raises:
        divulge.InputError: a file has none; the message names its columns.
    """
    for key, file in files.items():
        if file.unlabelled:
            raise InputError(f"data.{key}: {file.unlabelled}")
        if file.records.y is None:
            reason = (
                f"no column {layout.label!r} among {_format_names(file.columns)}" if file.columns else "no array 'y'"
            )
            advice = f"set data.label to the column that holds them{suggest_label_column(file.columns)}"
            if found := find_answer_columns(file.columns):
                keys = " and ".join(f"{key} = {name!r}" for key, name in found.items())
                advice += f"; of a language model write {keys} into [data] of a plan (divulge init does)"
            raise InputError(f"data.{key}: there are no labels ({reason}), which the recipes read; {advice}")


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
        check_class_names(y, layout.classes, "y")
    covariates = {name: arrays[check_choice(name, "data.covariates", arrays)] for name in layout.covariates or ()}
    class_names = layout.classes if y is not None else None
    x = _scale_array(arrays["x"], layout.scale)
    records = _check_classes(Records(x, y, arrays.get("ids"), class_names=class_names), layout)
    if layout.features is not None:
        if (role := _ROLES_OF_ARRAYS.get(layout.features)) is not None:
            raise InputError(
                f"data.features: the array {layout.features!r} holds {role}; name one of what else is known of them"
            )
        records = _add_features(records, arrays[check_choice(layout.features, "data.features", arrays)])
    return DataFile(records, group, columns, covariates=covariates)


_ROLES_OF_ARRAYS = {
    "x": "the records themselves, from which attacks learn anyway",
    "y": "the labels of the records",
    "ids": "the identifiers of the records",
    "columns": "the names of the columns of the records",
}


def _from_images(path: Path, layout: FileLayout) -> DataFile:
    records, names = read_image_folder(path, layout.classes)
    column_settings = (layout.group, *layout.document_columns(), layout.columns, layout.covariates, layout.features)
    if any(name is not None for name in column_settings):
        raise InputError(
            "data.group, data.text, data.columns, data.covariates, data.features: a folder of images has no columns"
        )
    return DataFile(Records(_scale_array(records.x, layout.scale), records.y, records.ids), folders=names)


def _scan(path: Path, layout: FileLayout) -> Table:
    separator = layout.separator if "separator" in layout.user_set else None
    table = tables.scan_table(path, separator=separator)
    names = table.columns
    for sign, plural in _SEPARATORS.items():
        if separator and len(names) == 1 and sign in names[0] and sign != separator:
            raise InputError(
                f"one column only, {format_value(names[0])}: the values seem to be separated by {plural}; "
                f"set data.separator = {sign!r}"
            )
    return table


def _from_table(path: Path, layout: FileLayout) -> DataFile:
    if not path.is_dir() and not tables.is_table_file(path):
        tables.reject_convertible_file(path)
        check_choice(path.suffix, "file type", [".npz", *tables.ENDINGS])
    if layout.person is not None:
        raise InputError("data.person: several records of one person are put together for data.text only")
    table = _scan(path, layout)
    _require_named(layout, table.columns)
    special_names = [name for name in (layout.label, layout.id, layout.group) if name is not None and name in table]
    values = _value_columns(table, layout, special_names)
    features = _feature_columns(table, layout)
    values = [name for name in values if name not in features]
    texts = [*(name for name in (layout.id, layout.group) if name in special_names), *layout.codes]
    for name in layout.covariates or ():
        _require_column(name, "data.covariates", table.columns)
    frame = table.collect(
        list(dict.fromkeys([*special_names, *values, *features, *(layout.covariates or ())])), texts, with_gaps=values
    )
    if not len(frame):
        raise InputError(f"a header ({_format_names(table.columns)}) and no rows; at least 1 record is needed")
    special = _special_columns(frame, layout)
    if layout.columns is None:  # A covariate of words is not part of a record.
        words = [name for name in layout.covariates or () if not frame[name].dtype.is_numeric()]
        values = [name for name in values if name not in words or frame[name].dtype == pl.Boolean]
    stores_types = all(part.delimited is None for part in table.parts)
    x = _check_values(frame.select(values), layout.scale, layout.codes, stores_types=stores_types)
    class_names = layout.classes if layout.label in special else None
    records = Records(x, special.get(layout.label), special.get(layout.id), class_names=class_names)
    records = _add_features(_check_classes(records, layout), frame.select(features) if features else None)
    group = special.get(layout.group or "")
    covariates = _covariate_columns(frame, layout)
    return DataFile(records, group, tuple(values), covariates=covariates, stores_types=stores_types)


def find_code_columns(files: Sequence[DataFile], texts: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the columns that look like numbers in one CSV file and hold texts in another file: 007 here and A1 there.

    Columns that are numbers in a file that stores types are none; read again with `FileLayout.codes`, the others are
    texts everywhere.

    Args:
        files: of all sets.
        texts: columns that are known to be texts, such as those of which the target knows texts.
    """
    is_text: dict[str, set[bool]] = {}
    numbers: set[str] = set()
    for file in files:
        if (table := file.records.table) is None:
            continue
        for name in table.columns:
            if not table[name].is_null().all():
                has_texts = isinstance(table[name].dtype, nw.String | nw.Categorical | nw.Enum)
                is_text.setdefault(name, set()).add(has_texts)
                if name in texts and table[name].dtype.is_numeric():
                    is_text[name].add(True)
                numbers |= {name} if file.stores_types and not has_texts else set()
    return tuple(name for name, answers in is_text.items() if len(answers) > 1 and name not in numbers)


_FEW_TEXTS = 0.05  # of a column: no more are slips of the pen, and not codes such as A1


def find_texts_among_numbers(sets: Mapping[str, Records]) -> list[str]:
    """Describe columns of numbers that a few texts make columns of categories, by set, row and column.

    Args:
        sets: name → records in the order of their file.

    Examples:
        >>> import polars as pl
        >>> ages = [str(age) for age in range(20, 60)]
        >>> found = find_texts_among_numbers({"members": Records(pl.DataFrame({"age": [*ages, "unknown"]}))})
        >>> found[0].partition(": the")[0], len(found)
        ("members: row 41 (the header not counted), column 'age'", 1)
    """
    found = []
    for key, records in sets.items():
        for name in [] if records.table is None else records.table.columns:
            column = records.table[name]  # ty: ignore[not-subscriptable] (a table, or the loop is empty)
            if not isinstance(column.dtype, nw.String | nw.Categorical | nw.Enum):
                continue
            values = [value for value in enumerate(column.to_list(), start=1) if value[1] is not None]
            texts = [(row, value) for row, value in values if not is_number(value)]
            if not 0 < len(texts) <= _FEW_TEXTS * len(values):
                continue
            row, value = texts[0]
            further = f" ({len(texts) - 1:,} more such rows)" if len(texts) > 1 else ""
            found.append(
                f"{key}: row {row:,} (the header not counted), column {name!r}: the text {format_value(value)} stands "
                f"among numbers{further}, so the whole column is read as categories; write a number, or leave the cell "
                "empty where it is not known"
            )
    return found


def find_empty_columns(sets: Mapping[str, Records]) -> list[str]:
    """Describe columns without a value in any row of a set.

    Args:
        sets: name → records in the order of their file.

    Examples:
        >>> import polars as pl
        >>> table = pl.DataFrame({"age": [30, 41], "gain": [None, None]}, schema={"age": pl.Int64, "gain": pl.Float64})
        >>> print(*find_empty_columns({"candidates": Records(table)}))
        candidates: column 'gain' is empty in every row: a model that is asked so answers about other records
    """
    found = []
    for key, records in sets.items():
        names = [] if records.table is None else records.table.columns
        empty = [name for name in names if records.table[name].is_null().all()]  # ty: ignore[not-subscriptable]
        if empty:
            are = "is" if len(empty) == 1 else "are"
            listed = ", ".join(map(repr, empty))
            found.append(
                f"{key}: column{'s' * (len(empty) > 1)} {listed} {are} empty in every row: a model that is asked so "
                "answers about other records"
            )
    return found


def _feature_columns(table: Table, layout: FileLayout) -> list[str]:
    """Return the columns that are features of a record, by the beginning of their names."""
    if layout.features is None:
        return []
    names = [name for name in table.columns if name.startswith(layout.features)]
    if not names:
        raise InputError(
            f"data.features: no column begins with {layout.features!r}, found {_format_names(table.columns)}"
        )
    return names


def _add_features(records: Records, values: Any) -> Records:
    """Return the records with these features."""
    if values is None:
        return records
    try:
        return records.with_features(values)
    except InputError as error:
        raise InputError(f"data.{error}") from None


def _value_columns(table: Table, layout: FileLayout, special_names: Sequence[str]) -> list[str]:
    """Return the columns that are part of a record."""
    for name in layout.drop:
        _require_column(name, "data.drop", table.columns)
    if layout.columns is None:
        return [name for name in table.columns if name not in special_names and name not in layout.drop]
    for name in layout.columns:
        _require_column(name, "data.columns", table.columns)
        if name in special_names or name in layout.drop:
            raise InputError(f"data.columns: {name!r} is the label, the id or the group, or is dropped")
    return list(layout.columns)


def _from_texts(path: Path, layout: FileLayout, documents_from: Mapping[str, str]) -> DataFile:
    """Read documents from their columns, and labels, ids, groups, persons and covariates from others."""
    if not path.is_dir() and not tables.is_table_file(path):
        tables.reject_convertible_file(path)
        check_choice(path.suffix, "file type of texts", tables.ENDINGS)
    _check_text_layout(layout, tuple(documents_from.values()))
    table = _scan(path, layout)
    check_text_column(table, layout)
    for key, name in documents_from.items():
        _require_column(name, f"data.{key}", table.columns)
    _require_named(layout, table.columns)
    names_lines = any(part.lines is not None for part in table.parts)  # Their errors name the line, below.
    text = layout.text
    if text and (column_type := table.column_type(text)) not in (tables.TEXT, "any", "empty") and not names_lines:
        raise InputError(f"data.text: {text!r} holds no texts ({column_type}); name the column that does")
    words = [name for name in (text, layout.id, layout.group, layout.person) if name is not None and name in table]
    # No language model needs labels, so a label column may hold anything and is read as texts first.
    labels = [layout.label] if layout.label in table and layout.label not in words else []
    for name in layout.covariates or ():
        _require_column(name, "data.covariates", table.columns)
    features = _feature_columns(table, layout)
    names = list(dict.fromkeys([*words, *labels, *features, *(layout.covariates or ())]))
    chat_records = None if text else read_chats(table, documents_from, layout.tokens)
    frame = table.collect(names, words) if names else pl.DataFrame({"row": range(len(chat_records or ()))})
    if not len(frame):
        raise InputError(f"a header ({_format_names(table.columns)}) and no rows; at least 1 record is needed")
    special = _special_columns(frame, replace(layout, label=""))
    y, unlabelled = encode_document_classes(tables.to_array(frame[layout.label]), layout) if labels else (None, "")
    documents = _check_documents(frame[text], table) if text else np.array([*(chat_records or ()), None])[:-1]
    group = special.get(layout.group or "")
    if layout.person is not None:
        if layout.covariates is not None:
            raise InputError("data.covariates: records of persons have none")
        if features:
            raise InputError("data.features: records of persons have none")
        return _join_by_person(documents, frame[layout.person], group)
    records = Records(documents, y, special.get(layout.id))
    records = _add_features(records, frame.select(features) if features else None)
    columns = tuple(documents_from.values())
    return DataFile(records, group, columns, unlabelled=unlabelled, covariates=_covariate_columns(frame, layout))


def check_text_column(table: Table, layout: FileLayout) -> None:
    """Check that whole texts are what the user wants of a table that seems to hold answers, too.

    Raises:
        divulge.InputError: it seems so, and there is no column of texts, or the user named none.
    """
    is_named = "text" in layout.user_set and layout.text in table
    if layout.text is not None and not is_named and (found := find_answer_columns(table.columns)):
        keys = " and ".join(f"data.{key} = {name!r}" for key, name in found.items())
        has = "also has answers" if layout.text in table else f"has no column {layout.text!r}"
        raise InputError(f"data.text: the table {has}; set {keys} to score answers, or data.text to score whole texts")


def read_chats(table: Table, columns: Mapping[str, str], tokens: str = "answer") -> list[str]:
    """Return the documents of a column of messages, or of one of prompts and one of answers, see `divulge.chats`.

    Args:
        table: that they stand in.
        columns: their names, by "messages" or by "prompt" and "answer".
        tokens: which tokens count.

    Raises:
        divulge.InputError: a row without messages or without an answer; it is named.
    """
    mark = chats.mark_turns if "messages" in columns else chats.mark_answer
    documents = []
    for row, values in enumerate(zip(*(table.values(name) for name in columns.values()), strict=True)):
        try:
            values = [_spell(value) if "answer" in columns else value for value in values]
            documents.append(mark(*values, tokens=tokens))
        except InputError:
            mark(*values, tokens=tokens, row=table.place(row))  # raises again, and names the place
            raise
    return documents


def _spell(value: Any) -> Any:
    """Return a prompt or an answer that a file stores as a number, or as true or false, as a text."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value


_MESSAGES = ("messages", "conversations", "conversation", "chat", "dialogue", "dialog")
_PROMPTS = ("prompt", "instruction", "question", "query", "input")
_ANSWERS = ("completion", "answer", "response", "output", "chosen")


def find_answer_columns(names: Sequence[str]) -> dict[str, str]:
    """Return the columns of messages, or of prompts and answers, that a table seems to have, by their keys in a plan.

    A table in which two columns may be the prompt, such as instruction and input, has none: a template joins these.
    """
    columns = {name.lower(): name for name in names}
    if messages := [columns[name] for name in _MESSAGES if name in columns]:
        return {"messages": messages[0]}
    prompts, answers = ([columns[name] for name in usual if name in columns] for usual in (_PROMPTS, _ANSWERS))
    return {"prompt": prompts[0], "answer": answers[0]} if len(prompts) == 1 and answers else {}


def _check_text_layout(layout: FileLayout, documents_from: tuple[str, ...]) -> None:
    """Check what a layout says beside the column of the documents."""
    if layout.columns is not None:
        raise InputError("data.columns: of documents, only data.text is read")
    if layout.scale != 1.0:
        raise InputError("data.scale: texts have no scale")
    if layout.person in documents_from:
        raise InputError(
            f"data.person: {layout.person!r} is the column of the documents; name the one of whose each is"
        )


def _join_by_person(documents: Array, person: pl.Series, group: Array | None) -> DataFile:
    """Return one record per person, in the order of their first documents, with the group of the first."""
    if person.null_count():
        raise InputError(f"data.person: {person.null_count()} records have no person; leave them out")
    records = people.by_person(list(documents), person.to_list())
    first_rows = person.to_frame().with_row_index("row").unique(person.name, keep="first", maintain_order=True)["row"]
    groups = None if group is None else group[first_rows.to_numpy()]
    return DataFile(records, groups, (person.name,), unlabelled="records of persons have no labels")


def _check_documents(column: pl.Series, table: Table) -> Array:
    """Return the documents ``[n]`` as objects, as NumPy strings would all take the length of the longest."""
    texts = column.to_list()
    if empty := [row for row, text in enumerate(texts) if not (text or "").strip()]:
        raise InputError(f"{len(empty)} records have no text (first: {table.place(empty[0])}); leave them out")
    array = np.empty(len(texts), dtype=object)
    # Each row is one document, even if it contains the separator between the documents of a person.
    array[:] = list(map(chats.remove_marks, texts))
    return array


def _require_named(layout: FileLayout, header: Sequence[str]) -> None:
    """Raise if a column that the user named is missing."""
    for key in sorted(layout.user_set & {"label", "id", "group", "person"}):
        if (name := getattr(layout, key)) is not None:
            _require_column(name, f"data.{key}", header)
    if layout.person is not None:
        _require_column(layout.person, "data.person", header)


def _require_column(name: str, key: str, header: Sequence[str]) -> None:
    """Raise if a column is missing; the message suggests the nearest of the others."""
    if name not in header:
        check_choice(name, key, [each for each in header if len(each) <= _MAX_NAME_LENGTH])


def _special_columns(frame: pl.DataFrame, layout: FileLayout) -> dict[str, Array]:
    """Return labels, ids and groups, by the names of their columns."""
    names = [layout.label, layout.id, *([] if layout.group is None else [layout.group])]
    special = {name: tables.to_array(frame[name]) for name in names if name in frame.columns}
    if layout.label in special:
        check_class_names(special[layout.label], layout.classes, layout.label)
    return special


def _covariate_columns(frame: pl.DataFrame, layout: FileLayout) -> dict[str, Array]:
    """Return the columns that the user named as covariates."""
    return {name: tables.to_array(frame[name]) for name in layout.covariates or ()}


def _check_values(
    frame: pl.DataFrame, scale: float, codes: Sequence[str], *, stores_types: bool = False
) -> pl.DataFrame:
    """Check the columns of the records and scale their numbers.

    Raises:
        divulge.InputError: no column, columns of lists, whole numbers that float64 cannot tell apart, a scale of texts.
    """
    if not frame.columns:
        raise InputError("no column is left for the values of the records")
    if nested := [name for name in frame.columns if frame[name].dtype.is_nested()]:
        raise InputError(
            f"the columns {_format_names(nested)} hold lists or images, and a value is a number, a text or a date; "
            "bring them as the array x of an .npz, images in a folder for each class, or, where chats are read, name "
            "their column (data.messages)"
        )
    if huge := [name for name in frame.columns if name not in codes and _is_huge(frame[name], stores_types)]:
        raise InputError(
            f"column {huge[0]!r} holds whole numbers beyond ±2^53, which float64 cannot tell apart; name it as "
            "data.id or leave it out"
        )
    if scale == 1.0:
        return frame
    if odd := [name for name in frame.columns if not frame[name].dtype.is_numeric()]:
        raise InputError(
            f"data.scale: {scale:g} is a factor on numbers, and the columns {_format_names(odd)} hold none"
        )
    return frame.select(pl.all().cast(pl.Float32) * pl.lit(scale, dtype=pl.Float32))


def _is_huge(column: pl.Series, stores_types: bool) -> bool:
    """Return whether the column has whole numbers that float64 cannot represent; in CSV some are digits of a text."""
    if column.dtype.is_integer():
        lowest, highest = column.min(), column.max()
        return any(isinstance(value, int) and abs(value) > _MAX_EXACT_INTEGER for value in (lowest, highest))
    if column.dtype == pl.String and not stores_types:
        present = column.drop_nulls()
        return len(present) > 0 and bool(present.str.contains(_DIGITS).all())
    return False


def _format_names(names: Sequence[str]) -> str:
    listing = ", ".join(name if len(name) <= _MAX_NAME_LENGTH else f"{name[:_MAX_NAME_LENGTH]}…" for name in names[:20])
    return f"{listing}, … ({len(names)} in all)" if len(names) > 20 else listing


def _scale_array(x: Array, scale: float) -> Array:
    return x if scale == 1.0 else check_array(x, "x").astype(np.float32) * np.float32(scale)


def _check_classes(records: Records, layout: FileLayout) -> Records:
    """Return the records if their labels, where they have some, are of classes, or real values are welcome."""
    if layout.real_values:
        return records
    labelled = records.with_class_labels()
    if labelled.y is not None and labelled.labels is None:
        raise InputError("y: whole-number labels are needed, or names of classes, got float")
    return labelled


_USUAL_LABEL_COLUMNS = ("label", "labels", "class", "classes", "target", "y", "category", "outcome", "diagnosis")
_MAX_CLASS_NAMES = 20  # names in a message
_MISSING_CLASSES = {*tables.MISSING, "?"}


def check_class_names(values: Array, classes: Sequence[str] | None, column: str) -> None:
    """Check that labels and the names of classes fit each other.

    Raises:
        divulge.InputError: records without a class, or with a word such as NA for one that ``classes`` does not name;
            names of classes although labels are numbers.
    """
    present = (
        [value for value in values.tolist() if value is not None] if values.dtype.kind in "OU" else values.tolist()
    )
    if len(present) < len(values):
        raise InputError(f"{column!r}: {len(values) - len(present)} records have no class; leave them out")
    named = classes or ()
    words = [v for v in present if isinstance(v, str) and v.strip() in _MISSING_CLASSES and v not in named]
    if words:
        raise InputError(
            f"{column!r}: {len(words)} records have no class: {format_value(words[0])} is a word for a missing value; "
            "leave them out, or, if it is a class, name all classes in data.classes"
        )
    if classes is not None and not all(isinstance(value, str) for value in present):
        raise InputError(f"data.classes: the classes in {column!r} are numbers, which need no names")


def encode_classes(values: Array, classes: Sequence[str] | None, column: str) -> Array:
    """Return names of classes as positions in ``classes``; return numbers as they are.

    Args:
        values: the labels ``[n]``.
        classes: all names, in the order of the model's outputs.
        column: name of the label column, for messages.

    Raises:
        divulge.InputError: names without ``classes``, a name that is not among them, ``classes`` for numbers.

    Examples:
        >>> encode_classes(np.array(["dog", "cat", "dog"]), ["cat", "dog"], "label")
        array([1, 0, 1])
    """
    present = [value for value in values.tolist() if value is not None] if values.dtype.kind in "OU" else []
    if not present or not all(isinstance(value, str) for value in present):
        if classes is not None:
            raise InputError(f"data.classes: the classes in {column!r} are numbers, which need no names")
        return values
    if len(present) < len(values):
        raise InputError(f"{column!r}: {len(values) - len(present)} records have no class; leave them out")
    names, name_index = np.unique(np.array(present), return_inverse=True)
    if classes is None:
        listing = ", ".join(format_value(str(name)) for name in names[:_MAX_CLASS_NAMES])
        listing += ", …" if len(names) > _MAX_CLASS_NAMES else ""
        raise InputError(
            f"the classes in {column!r} have names; set data.classes to all of them, in the order of the model's "
            f"outputs: [{listing}] in alphabetical order, which scikit-learn and image folders use"
        )
    positions = {name: i for i, name in enumerate(classes)}
    for name in names:
        check_choice(str(name), f"data.classes: a class in {column!r}", classes)
    return np.array([positions[str(name)] for name in names], dtype=np.int64)[name_index]


def encode_document_classes(values: Array, layout: FileLayout) -> tuple[Array | None, str]:
    """Return labels or real values of documents, or None and the reason why they cannot be read.

    A language model needs none.

    Raises:
        divulge.InputError: they cannot be read although the user named their column.

    Examples:
        >>> encode_document_classes(np.array(["dog", "cat"]), FileLayout(classes=("cat", "dog")))
        (array([1, 0]), '')
        >>> encode_document_classes(np.array([-1, 0]), FileLayout())
        (None, "'label': labels must be ≥ 0, got -1")
    """
    if layout.real_values and values.dtype.kind == "f" and np.isfinite(values).all() and (values % 1 != 0).any():
        return values, ""
    try:
        return check_labels(encode_classes(values, layout.classes, layout.label), repr(layout.label)), ""
    except InputError as error:
        if "label" in layout.user_set:
            raise
        return None, str(error)


def suggest_label_column(columns: Sequence[str]) -> str:
    """Suggest the column that may hold the classes; empty if there is none.

    Examples:
        >>> suggest_label_column(["age", "Target"]), suggest_label_column(["age"])
        ("; 'Target' may be it", '')
    """
    for usual in _USUAL_LABEL_COLUMNS:
        for column in columns:
            if column.lower() == usual:
                return f"; {column!r} may be it"
    return ""


def read_image_folder(path: Path, classes: Sequence[str] | None) -> tuple[Records, tuple[str, ...]]:
    """Read images ``[n, channels, height, width]`` in [0, 1], as torchvision's ``ToTensor``, and class names.

    Hidden files and folders, those of an operating system, and folders without an image are ignored, at every depth.

    Args:
        path: a folder with one folder of images for each class.
        classes: the names of all classes, in the order of the model's outputs; None takes the names of the folders in
            alphabetical order.

    Raises:
        divulge.InputError: no such folders, images of different sizes, files that are no images, too little memory.
        divulge.MissingExtraError: Pillow is not installed.
    """
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and not tables.is_hidden(folder, path))
    class_files = {folder.name: files for folder in folders if (files := _image_files(folder))}
    if not class_files:
        for file in sorted(file for file in path.iterdir() if file.is_file() and not tables.is_hidden(file, path)):
            tables.reject_convertible_file(file)
        tables.check_no_texts(path)
        raise InputError(
            f"{path} is no folder of images (one folder for each class, of {' '.join(_ENDINGS)}), nor of tables or "
            "texts (.txt), nor a data set that was saved by `datasets`"
        )
    positions = {name: i for i, name in enumerate(class_files if classes is None else classes)}
    for name in class_files:
        check_choice(name, "data.classes: a folder's name", positions)
    labels = np.repeat([positions[name] for name in class_files], [len(files) for files in class_files.values()])
    all_files = [file for files in class_files.values() for file in files]
    ids = [file.relative_to(path).as_posix() for file in all_files]
    return Records(_read_images(all_files), labels, ids), tuple(positions)


def _image_files(folder: Path) -> list[Path]:
    return sorted(
        file for file in folder.rglob("*") if file.suffix.lower() in _ENDINGS and not tables.is_hidden(file, folder)
    )


def _read_images(files: Sequence[Path]) -> np.ndarray:
    height, width = _read_pixels(files[0], None).shape[-2:]
    check_memory(4.0 * len(files) * 3 * width * height, str(files[0].parent.parent), "use fewer images")
    is_grey = {_image_mode(file) for file in files} <= {"L", "1"}
    images = np.empty((len(files), 1 if is_grey else 3, height, width), dtype=np.float32)
    for row, file in enumerate(files):
        pixels = _read_pixels(file, "L" if is_grey else "RGB")
        if pixels.shape[-2:] != (height, width):
            raise InputError(
                f"{file}: {pixels.shape[-2]} x {pixels.shape[-1]} pixels where {files[0].name} has {height} x {width}; "
                "bring all images to the size that the model takes"
            )
        images[row] = pixels
    images /= np.float32(255)
    return images


def _image_mode(file: Path) -> str:
    with _open_image(file) as image:
        if image.mode not in _MODES:
            raise InputError(
                f"{file}: pixels of 8 bits are needed, and its mode is {image.mode!r}; save it with 8 bits, or bring "
                "the arrays as an .npz"
            )
        return image.mode


def _read_pixels(file: Path, mode: str | None) -> np.ndarray:
    """Return the pixels of an image, channels first, from 0 to 255."""
    with _open_image(file) as image:
        try:
            pixels = np.asarray(image if mode is None else image.convert(mode))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise InputError(f"{file}: damaged or half-written ({format_exception(error)})") from None
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


@contextlib.contextmanager
def _open_image(file: Path) -> Generator[Image.Image]:
    with contextlib.ExitStack() as stack:
        try:
            image = Image.open(stack.enter_context(open_untrusted(file)))
        except ImportError:
            raise missing_extra("Pillow", "images") from None
        except InputError:
            raise
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise InputError(f"{file}: no image ({format_exception(error)})") from None
        yield image


def from_pairs(dataset: Any) -> Records:
    """Convert a torch ``Dataset``, or any other sequence of ``(x, y)`` pairs, to records.

    Args:
        dataset: has a length and gives ``(x, y)`` for each number below it; all are read, into memory.

    Raises:
        divulge.InputError: no length, no pairs, values of different shapes, or what `Records` refuses.

    Examples:
        >>> from_pairs([(np.zeros(3), 0), (np.ones(3), 1)])
        Records(n=2, shape=(3,), classes=2)
    """
    if not hasattr(dataset, "__getitem__") and hasattr(dataset, "dataset"):
        raise InputError(
            "dataset: a data set is needed, got a loader of batches; pass its .dataset (or divulge.Records(x, y) of "
            "what it gives, if it is changed on the way)"
        )
    require_callable(dataset, "dataset", "__len__", "__getitem__")
    with errors.user_code_errors("dataset: its length"):
        count = len(dataset)
    check_integer(count, "dataset: its length", minimum=1)
    x: list[Any] = []
    y: list[Any] = []
    for row in range(count):
        with errors.user_code_errors("dataset"):
            pair = dataset[row]
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(
                f"dataset: pairs (x, y) are needed, got {format_value(pair)} at {row}; divulge.Records(x, y) takes "
                "columns as they are"
            )
        with errors.user_code_errors("dataset: as an array"):
            x.append(pair[0] if isinstance(pair[0], str) else np.asarray(pair[0]))
            y.append(np.asarray(pair[1]).tolist())
    if len(shapes := sorted({np.shape(value) for value in x})) > 1:
        raise InputError(f"dataset: all x need one shape, got {shapes[0]} and {shapes[1]}")
    return Records(np.array(x, dtype=object) if x and isinstance(x[0], str) else np.array(x), y)
