"""The kinds of canaries: how each is made of records, documents or the columns of a table, and told from the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import narwhals as nw
import numpy as np

from divulge import columns, lazy
from divulge.errors import InputError
from divulge.types import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sklearn import neighbors

    from divulge.types import Array, Ints
else:
    neighbors = lazy.module("sklearn.neighbors")

CanaryKind: TypeAlias = Literal["mislabelled", "far", "shuffled", "random", "blank", "random-token", "unigram", "own"]
KINDS: tuple[CanaryKind, ...] = get_args(CanaryKind)
TEXT_KINDS: tuple[CanaryKind, ...] = ("random-token", "unigram")
Rng: TypeAlias = "np.random.Generator"
_MAX_ROUNDS = 20  # of drawing, until enough canaries are distinct


@dataclass(frozen=True, slots=True, eq=False)
class TableDraft:
    """Canaries of a table, by the rows of the data from which their values and labels are taken.

    Args:
        donors: row of each value, ``[n, columns]``.
        numbers: numbers that were drawn, and stand in place of such values, by the name of the column, ``[n]``.
        label_rows: row of each label, ``[n]``; None where the data has no labels.
    """

    donors: Ints
    numbers: Mapping[str, Array]
    label_rows: Ints | None

    def __getitem__(self, rows: Array) -> TableDraft:
        return TableDraft(
            self.donors[rows],
            {name: values[rows] for name, values in self.numbers.items()},
            None if self.label_rows is None else self.label_rows[rows],
        )

    def records(self, data: Records) -> Records:
        """Return the canaries, in the library and with the types of the data's frame."""
        assert data.table is not None
        parts = []
        for position, name in enumerate(data.table.columns):
            series = data.table[name]
            if name in self.numbers:
                dtype = series.dtype if series.dtype.is_integer() or series.dtype.is_float() else None
                values = self.numbers[name].tolist()
                parts.append(nw.new_series(name, values, dtype, backend=data.table.implementation))
            else:
                parts.append(series[self.donors[:, position].tolist()])
        frame = columns.from_series(parts)
        first_rows = np.zeros(len(self.donors), np.int64)
        label_source = data[first_rows if self.label_rows is None else self.label_rows]
        return label_source.without_ids().with_features(None).with_table(frame)


def build_records(
    kind: CanaryKind, data: Records, count: int, rng: Rng, codes: Sequence[str] = ()
) -> tuple[Records, TableDraft | None]:
    """Make ``count`` distinct canaries of a kind, none of which is a record of ``data``.

    Args:
        kind: any of `KINDS` but "own".
        data: records of the training set, or like them.
        count: how many.
        rng: generator of all draws.
        codes: columns whose numbers are codes, such as 007, between which there are none.

    Returns:
        The canaries, and where their values were taken from if the data is a table.

    Raises:
        divulge.InputError: a kind that does not suit the records, more than there can be.
    """
    if are_documents(data) != (kind in TEXT_KINDS):
        material = "documents" if kind in TEXT_KINDS else "numbers"
        raise InputError(f"kind: {kind!r} canaries are made of {material}, and the records are not")
    used = set(fingerprints(data))
    parts: list[tuple[Records, TableDraft | None]] = []
    n_distinct = 0
    for _ in range(_MAX_ROUNDS):
        candidates, draft = _draw(kind, data, count, rng, codes)
        rows = []
        for i, fingerprint in enumerate(fingerprints(candidates)):
            if fingerprint not in used and n_distinct < count:
                used.add(fingerprint)
                rows.append(i)
                n_distinct += 1
        if rows:
            index = np.array(rows)
            parts.append((candidates[index], None if draft is None else draft[index]))
        if n_distinct == count:
            return _join(data, parts)
    raise InputError(
        f"count: only {n_distinct} of {count} different {kind!r} canaries that are no records of the data can be made"
    )


def _draw(
    kind: CanaryKind, data: Records, count: int, rng: Rng, codes: Sequence[str]
) -> tuple[Records, TableDraft | None]:
    """Draw canaries, some of which may be equal."""
    if data.table is not None:
        draft = _TABLE_MAKERS[kind](data, count, rng)
        if kind == "random" and any(name in draft.numbers for name in codes):
            donors = draft.donors.copy()
            for name in codes:
                if name in draft.numbers:
                    donors[:, data.table.columns.index(name)] = rng.integers(0, len(data), len(donors))
            numbers = {name: values for name, values in draft.numbers.items() if name not in codes}
            draft = TableDraft(donors, numbers, draft.label_rows)
        return draft.records(data), draft
    x, label_rows = _MAKERS[kind](data, count, rng)
    records = Records(x)
    return records if label_rows is None else records.with_y_of(data[label_rows]), None


def _join(data: Records, parts: list[tuple[Records, TableDraft | None]]) -> tuple[Records, TableDraft | None]:
    drafts = [draft for _, draft in parts if draft is not None]
    if not drafts:
        return Records.concatenate([records for records, _ in parts]), None
    label_rows = [draft.label_rows for draft in drafts if draft.label_rows is not None]
    draft = TableDraft(
        np.concatenate([draft.donors for draft in drafts]),
        {name: np.concatenate([draft.numbers[name] for draft in drafts]) for name in drafts[0].numbers},
        np.concatenate(label_rows) if label_rows else None,
    )
    return draft.records(data), draft


def fingerprints(records: Records) -> list[bytes]:
    """Return one byte string per record; two are equal exactly where values and labels are equal.

    Numbers are compared in single precision, so that a copy as float64 or as integers counts as the same record, and
    columns by their names.
    """
    if records.table is None:
        contents = [
            x.encode() if isinstance(x, str) else (np.asarray(x, np.float32) + 0.0).tobytes() for x in records.x
        ]
    else:
        contents = columns.row_digests(records.table, single_precision=True)
    return [content + b"\xff" + label for content, label in zip(contents, spell_labels(records), strict=True)]


def label_values(records: Records) -> Array | None:
    """Return the labels as the user has them, ``[n]``: names of classes, truth values or numbers; None without."""
    if records.y is None or records.class_names is None:
        return records.y
    names = np.array(records.class_names, dtype=object)
    if set(records.class_names) == {"False", "True"}:
        return (names == "True")[records.y]
    if all(name.removeprefix("-").isdecimal() and str(int(name)) == name for name in records.class_names):
        return names.astype(np.int64)[records.y]
    return names[records.y].astype(str)


def spell_labels(records: Records) -> list[bytes]:
    """Return each record's label as bytes, the same for 1, 1.0 and True; empty ones without labels."""
    labels = label_values(records)
    if labels is None:
        return [b""] * len(records)
    return [_spell_label(label).encode() for label in labels.tolist()]


def _spell_label(label: object) -> str:
    """Spell a label the same for 1, 1.0 and True: some of the records alone may show another type than all of them."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return {"True": "1", "False": "0"}.get(str(label), str(label))


def are_documents(records: Records) -> bool:
    """Return whether the records are texts."""
    return records.table is None and records.x.dtype.kind in "OU"


# Rows of the data, whatever the records are.


def _mislabelled_rows(data: Records, count: int, rng: Rng) -> tuple[Ints, Ints]:
    """Return some rows, and for each one of another label."""
    labels = _require_labels(data, count)
    rows = rng.permutation(len(data))[:count]
    return rows, _draw_other_labels(labels, rows, rng)


def _isolated_rows(data: Records, count: int, rng: Rng) -> tuple[Ints, Ints]:
    """Return the rows farthest from their nearest neighbour, and for each one of another label."""
    labels = _require_labels(data, count)
    flat = data.x.reshape(len(data), -1).astype(np.float64)
    spread = flat.std(0)
    flat = (flat - flat.mean(0)) / np.where(spread > 0, spread, 1.0)
    distances = neighbors.NearestNeighbors(n_neighbors=min(2, len(flat))).fit(flat).kneighbors(flat)[0][:, -1]
    rows = np.argsort(-distances, kind="stable")[:count]
    return rows, _draw_other_labels(labels, rows, rng)


def _require_labels(data: Records, count: int) -> Array:
    if count > len(data):
        raise InputError(f"count: must be at most {len(data)}, one canary per record, got {count}")
    if data.y is None or len(np.unique(data.y)) < 2:
        raise InputError("data: a wrong label needs labels of at least 2 classes, which the records lack")
    return data.y


def _draw_labels(data: Records, count: int, rng: Rng) -> Ints | None:
    """Draw rows whose labels are drawn evenly from those of the data; None where it has none."""
    if data.y is None:
        return None
    first_rows = np.unique(data.y, return_index=True)[1]
    return first_rows[rng.integers(0, len(first_rows), count)]


def _draw_other_labels(labels: Array, rows: Ints, rng: Rng) -> Ints:
    """Draw for each of some rows a row of another label, all others being as likely."""
    classes, first_rows = np.unique(labels, return_index=True)
    step = rng.integers(1, len(classes), len(rows))
    return first_rows[(np.searchsorted(classes, labels[rows]) + step) % len(classes)]


# Arrays and documents.


def _mislabelled(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """Return real records with a wrong label."""
    rows, label_rows = _mislabelled_rows(data, count, rng)
    return data.x[rows], label_rows


def _isolated(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """Return the records farthest from their nearest neighbour, with a wrong label."""
    rows, label_rows = _isolated_rows(data, count, rng)
    return data.x[rows], label_rows


def _shuffled(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """Take every value from another record: columns keep their distribution and lose their dependence."""
    flat = data.x.reshape(len(data), -1)
    rows = rng.integers(0, len(flat), (count, flat.shape[1]))
    return np.take_along_axis(flat, rows, 0).reshape(count, *data.x.shape[1:]), _draw_labels(data, count, rng)


def _random(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """Draw values evenly between the least and the greatest of their column."""
    low, high = data.x.min(0).astype(np.float64), data.x.max(0).astype(np.float64)
    return _cast_like(rng.uniform(low, high, (count, *data.x.shape[1:])), data.x), _draw_labels(data, count, rng)


def _blank(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """Return constant records, each with its own value."""
    level = rng.uniform(float(data.x.min()), float(data.x.max()), count)
    shape = (count, *(1 for _ in data.x.shape[1:]))
    return _cast_like(np.broadcast_to(level.reshape(shape), (count, *data.x.shape[1:])), data.x), _draw_labels(
        data, count, rng
    )


def _random_token(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """Draw documents of uniformly drawn words, as long as those of the data."""
    return _draw_words(data, count, rng, lambda words: np.unique(words))


def _unigram(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """Draw documents of words as frequent as in the data, and as long as those of the data."""
    return _draw_words(data, count, rng, lambda words: words)


def _draw_words(data: Records, count: int, rng: Rng, pool: Callable[[Array], Array]) -> tuple[Array, Ints | None]:
    documents = [str(text).split() for text in data.x]
    words = pool(np.array([word for document in documents for word in document]))
    if not len(words):
        raise InputError("data: the documents have no words")
    lengths = rng.choice([max(len(document), 1) for document in documents], count)
    return np.array([" ".join(rng.choice(words, length)) for length in lengths]), _draw_labels(data, count, rng)


def _cast_like(values: Array, data: Array) -> Array:
    return np.rint(values).astype(data.dtype) if data.dtype.kind in "iub" else values.astype(data.dtype)


_MAKERS: Mapping[str, Callable[[Records, int, Rng], tuple[Array, Ints | None]]] = {
    "mislabelled": _mislabelled,
    "far": _isolated,
    "shuffled": _shuffled,
    "random": _random,
    "blank": _blank,
    "random-token": _random_token,
    "unigram": _unigram,
}


# Tables with named columns.


def _mislabelled_in_table(data: Records, count: int, rng: Rng) -> TableDraft:
    """Return real rows with a wrong label."""
    rows, label_rows = _mislabelled_rows(data, count, rng)
    return TableDraft(np.tile(rows[:, None], _width(data)), {}, label_rows)


def _isolated_in_table(data: Records, count: int, rng: Rng) -> TableDraft:
    """Return the rows farthest from their nearest neighbour in the table's numeric encoding, with a wrong label."""
    rows, label_rows = _isolated_rows(data, count, rng)
    return TableDraft(np.tile(rows[:, None], _width(data)), {}, label_rows)


def _shuffled_in_table(data: Records, count: int, rng: Rng) -> TableDraft:
    """Take every value, missing ones too, from another row of the same column."""
    donors = rng.integers(0, len(data), (count, _width(data)))
    return TableDraft(donors, {}, _draw_labels(data, count, rng))


def _random_in_table(data: Records, count: int, rng: Rng) -> TableDraft:
    """Draw numbers evenly from the range of their column, and of other values one, each as likely as the next."""
    donors = np.zeros((count, _width(data)), np.int64)
    numbers = {}
    for position, column in enumerate(_read_columns(data)):
        present = np.flatnonzero(~column.missing)
        if not len(present):
            continue
        if column.measure == "number":
            numbers[column.name] = _draw_numbers(data, [column], count, rng)
        else:
            first_rows = present[np.unique(column.values[present].astype(str), return_index=True)[1]]
            donors[:, position] = first_rows[rng.integers(0, len(first_rows), count)]
    return TableDraft(donors, numbers, _draw_labels(data, count, rng))


def _blank_in_table(data: Records, count: int, rng: Rng) -> TableDraft:
    """Return rows of one number throughout, each with its own."""
    read = _read_columns(data)
    if unsuitable := [column.name for column in read if column.measure != "number" or column.missing.all()]:
        raise InputError(
            f"kind: 'blank' canaries hold one number throughout, and the columns {columns.format_names(unsuitable)} "
            "hold no numbers; 'shuffled' and 'random' canaries can be made of them"
        )
    level = _draw_numbers(data, read, count, rng)
    rounded_level = np.rint(level).astype(np.int64)
    numbers = {column.name: rounded_level if _is_whole(data, column) else level for column in read}
    return TableDraft(np.zeros((count, len(read)), np.int64), numbers, _draw_labels(data, count, rng))


def _draw_numbers(data: Records, pooled: list[columns.Column], count: int, rng: Rng) -> Array:
    """Draw evenly between the least and the greatest number of some columns."""
    low = min(float(np.nanmin(column.values)) for column in pooled)
    high = max(float(np.nanmax(column.values)) for column in pooled)
    values = rng.uniform(low, high, count)
    return np.rint(values).astype(np.int64) if all(_is_whole(data, column) for column in pooled) else values


def _is_whole(data: Records, column: columns.Column) -> bool:
    """Return whether a column holds whole numbers alone, by its type or, with gaps, by its values."""
    assert data.table is not None
    dtype = data.table[column.name].dtype
    if dtype.is_integer():
        return True
    present = column.values[~column.missing]
    return bool(column.missing.any() and (present == np.rint(present)).all())


def _width(data: Records) -> int:
    assert data.table is not None
    return len(data.table.columns)


def _read_columns(data: Records) -> list[columns.Column]:
    assert data.table is not None
    return [columns.read_column(data.table, name) for name in data.table.columns]


_TABLE_MAKERS: Mapping[str, Callable[[Records, int, Rng], TableDraft]] = {
    "mislabelled": _mislabelled_in_table,
    "far": _isolated_in_table,
    "shuffled": _shuffled_in_table,
    "random": _random_in_table,
    "blank": _blank_in_table,
}
