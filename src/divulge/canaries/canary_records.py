"""Make canaries: unusual records, each of which is added to the training set or left out at random.

A model that was trained on such a record usually scores it unlike one that was left out.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import narwhals as nw
import numpy as np
import polars as pl

from divulge import columns, datafiles, seeds, store
from divulge.canaries.canary_kinds import (
    KINDS,
    TEXT_KINDS,
    CanaryKind,
    build_records,
    fingerprints,
    label_values,
    spell_labels,
)
from divulge.datafiles import FileLayout, FileRows
from divulge.duplicates import match_records
from divulge.errors import InputError
from divulge.run_directory import RunDirectory
from divulge.settings import CanarySettings
from divulge.types import Records
from divulge.validation import check_bool, check_choice, check_instance, check_mask, check_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.canaries.canary_kinds import TableDraft
    from divulge.run_directory import RunDraft
    from divulge.types import Bools

__all__ = ["DESIGNS", "KINDS", "TEXT_KINDS", "Canaries", "CanaryKind", "Design", "make", "make_from_file"]

Design: TypeAlias = Literal["coins", "fixed"]
DESIGNS: tuple[Design, ...] = get_args(Design)
RUN_TYPE = "canaries"
_MIN_COUNT = 8  # fewer than 8 canaries prove nothing at 95 % confidence
_DEFAULTS = CanarySettings()


@dataclass(frozen=True, slots=True, eq=False)
class Canaries:
    """Canaries, and which of them were included.

    Args:
        records: the canaries, ``n`` of them.
        included: bool ``[n]``: which canaries go into the training set; a secret from whoever trains.
        design: "coins" (each by its own fair coin) or "fixed" (half of them, drawn at random).
        kind: how they were made, see `make`.
        seed: of the canaries and of the coins.
        trained_on: number of records of the training set they were made for.
        rows: the canaries as rows of the table that they were made for; None where that is no file of a table.
    """

    records: Records
    included: Bools
    design: Design
    kind: CanaryKind
    seed: int
    trained_on: int
    rows: CanaryRows | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_mask(self.included, "included", (len(check_instance(self.records, "records", Records)),))
        check_choice(self.design, "design", DESIGNS)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def insert(self) -> Records:
        """The canaries to add to the training set."""
        return self.records[self.included]

    def redrawn(self, seed: int) -> Canaries:
        """Return the same canaries, with inclusion drawn anew from ``seed``."""
        included = _draw_included(len(self), self.design, seeds.generator(seed, "canaries", "coins"))
        return replace(self, included=included, seed=seed)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write ``insert``, to be added to the training set, and ``secret/``, to be kept from whoever trains.

        It is an ``.npz`` for arrays and documents. For a table it is one with the same columns and types, and the
        labels in a column of their own.

        Raises:
            divulge.InputError: the folder is in use, cannot be written, or holds canaries (unless ``overwrite``).
        """
        place = check_path(folder, "out")
        rows = self._file_rows()
        content = _to_arrays(self.records) if rows is None else {"rows": rows.file.to_bytes()}
        key = store.hash_values(RUN_TYPE, self.seed, self.design, self.kind, *(v for _, v in sorted(content.items())))
        with RunDirectory(place).writing(RUN_TYPE, key, overwrite=check_bool(overwrite, "overwrite")) as draft:
            if rows is None:
                draft.write_arrays("insert", _to_arrays(self.insert))
            else:
                _write_rows(draft, "insert", rows.file.filter(self.included))
            self.write_secret(draft)

    def write_secret(self, draft: RunDraft) -> None:
        """Write ``secret/``: all canaries, and which were included."""
        rows = self._file_rows()
        if rows is None:
            draft.write_arrays("secret/canaries", _to_arrays(self.records) | {"included": self.included})
        else:
            _write_rows(draft, "secret/canaries", rows.file)
            draft.write_arrays("secret/canaries", {"included": self.included})
        order = self.records.class_names if self.records.has_class_order else None
        table = None if rows is None else rows.description
        metadata = asdict(_Metadata(1, self.design, self.kind, self.seed, self.trained_on, order, table))
        if metadata["table"] is not None:
            del metadata["table"]["layout"]["user_set"]  # which columns the user named matters while a file is read
        draft.write_json("secret/canaries", metadata)

    def _file_rows(self) -> CanaryRows | None:
        return self.rows if self.rows is not None or self.records.table is None else _rows_of_table(self.records)

    @classmethod
    def load(cls, folder: str | Path, *, texts: Sequence[str] = ()) -> Canaries:
        """Load the canaries that `save` wrote; the file to insert may have been moved to where the model was trained.

        Args:
            folder: which `save` wrote.
            texts: columns of a CSV file that are read as texts, such as 007, because the model was fitted on texts.

        Raises:
            divulge.InputError: no canaries there, damaged ones, an ``insert`` with other records.
        """
        place = check_path(folder, "canaries")
        directory = RunDirectory(place)
        try:
            canaries = directory.read(RUN_TYPE, lambda: read_secret(directory, texts), only="secret/")
        except InputError as error:
            raise InputError(f"canaries: {error}") from None
        path = place / f"insert{'.npz' if canaries.rows is None else canaries.rows.file.ending}"
        if os.path.lexists(path):
            if canaries.rows is None:
                arrays = store.read_arrays(path, inside=path.parent)
                if "x" not in arrays or not np.ndim(arrays["x"]):
                    raise InputError(f"{path}: holds 0 canaries, but {canaries.included.sum()} were to be included")
                insert, table = Records(arrays["x"], arrays.get("y")), canaries.records.table
                if table is not None:
                    insert = Records(columns.frame_of_array(insert.x, table.columns), arrays.get("y"))
            else:
                insert = _read_table(path, canaries.rows.description, ())[1]
            if len(insert) != canaries.included.sum():
                raise InputError(
                    f"{path}: holds {len(insert)} canaries, but {canaries.included.sum()} were to be included"
                )
            if sorted(fingerprints(insert)) != sorted(fingerprints(canaries.insert)):
                raise InputError(f"{path}: holds other canaries than were to be included")
        return canaries


@dataclass(frozen=True, slots=True)
class TableDescription:
    """How the rows of a table are read again as records.

    Args:
        ending: of the file.
        library: of the data frame that they were made from.
        layout: columns and settings.
    """

    ending: str
    library: str
    layout: FileLayout


@dataclass(frozen=True, slots=True, eq=False)
class CanaryRows:
    """Canaries as rows of a table, and how they are read again."""

    file: FileRows
    description: TableDescription


def make(
    data: Records,
    *,
    kind: CanaryKind | str = _DEFAULTS.kind,
    count: int = _DEFAULTS.count,
    design: Design | str = _DEFAULTS.design,
    own: Records | None = None,
    seed: int | None = _DEFAULTS.seed,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> Canaries:
    """Make canaries for a training set.

    Canaries change the model: a few hundred mislabelled records among some thousands cost accuracy;
    `divulge.canaries.play` measures how much.

    Args:
        data: the training set, or records like it; no canary will be one of them.
        kind: "mislabelled" (real records under a wrong label), "far" (the most isolated ones, under a wrong label),
            "shuffled" (each value from another record), "random" (numbers from the range of their column, other values
            each as likely as the next), "blank" (one number throughout); for documents "random-token" or "unigram".
            "own" where ``own`` is given.
        count: how many; `divulge.evaluation.canaries_needed` says how many a claim needs.
        design: "coins" (each is included by its own fair coin) or "fixed" (half of them, drawn at random: the bound
            is weaker).
        own: canaries of the user's own.
        seed: of the canaries and of the coins. Whoever knows it knows the coins, so by default it is drawn from the
            system's entropy and stored with the secret.
        out: folder to write, see `Canaries.save`.
        overwrite: replace canaries in ``out``.

    Raises:
        divulge.InputError: a kind that does not suit the records, more canaries than there can be, or
            ``own`` canaries that repeat or are records of the data.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> canaries = make(Records(rng.normal(size=(50, 3)), rng.integers(0, 2, 50)), count=20, seed=0)
        >>> len(canaries), len(canaries.insert) == int(canaries.included.sum())
        (20, True)
    """
    canaries, _ = _make(check_instance(data, "data", Records), own, kind=kind, count=count, design=design, seed=seed)
    if out is not None:
        canaries.save(out, overwrite=overwrite)
    return canaries


def make_from_file(
    path: Path,
    layout: FileLayout,
    *,
    own: Path | None = None,
    out: Path | None = None,
    overwrite: bool = False,
    **settings: Any,
) -> Canaries:
    """Make canaries for the training set in a file; those of a table are spelled as its rows are.

    Args:
        path: of the file, or of a folder of tables.
        layout: its columns.
        own: file of the user's own canaries, with the same columns.
        out: folder to write, see `Canaries.save`.
        overwrite: replace canaries in ``out``.
        settings: ``kind``, ``count``, ``design`` and ``seed``, as for `make`.

    Raises:
        divulge.InputError: a file that cannot be read, and what `make` refuses.
    """
    files = {"data": _read_file(path, layout)}
    if own is not None:
        files["own"] = _read_file(own, layout)
        if codes := datafiles.find_code_columns(list(files.values())):
            layout = replace(layout, codes=codes)
            files = {"data": _read_file(path, layout), "own": _read_file(own, layout)}
    data, own_records = files["data"].records, files["own"].records if own is not None else None
    source = None if data.table is None else datafiles.read_rows(path, layout)
    codes = () if source is None else source.find_codes()
    canaries, draft = _make(data, own_records, codes=codes, **settings)
    if data.table is not None and source is not None:
        own_rows = None if own is None else datafiles.read_rows(own, layout)
        file = _spell_rows(source, data, layout, draft) if own_rows is None else own_rows.with_columns_of(source)
        if layout.id in source.frame.columns and file.frame[layout.id].null_count() == len(file.frame):
            # Rows without an identifier could not be audited as members in a plan that names the column.
            ids = source.spell_new_ids(layout.id, len(file.frame))
            file = replace(file, frame=file.frame.with_columns(ids))
        texts = [name for name in data.table.columns if data.table[name].dtype == nw.String]
        file_layout = replace(
            _layout_of_values(data, layout.label),
            scale=layout.scale,
            separator=file.separator,
            classes=layout.classes,
            codes=tuple(texts) if file.ending == ".csv" else (),
        )
        canaries = replace(canaries, rows=CanaryRows(file, TableDescription(file.ending, "polars", file_layout)))
    if out is not None:
        canaries.save(out, overwrite=overwrite)
    return canaries


def _read_file(path: Path, layout: FileLayout) -> datafiles.DataFile:
    """Read records, without the row numbers that a data frame wrote."""
    if {*layout.document_columns()} - {"text"}:
        raise InputError("messages, prompt, answer: canaries are rows of values, or documents of one column (text)")
    file = datafiles.read_records(path, layout)
    names = [] if file.records.table is None else columns.nameless_columns(file.records.table.columns)
    return datafiles.read_records(path, replace(layout, drop=(*layout.drop, *names))) if names else file


def read_beside(canaries: Canaries, path: Path) -> Records:
    """Read records in a file of the same columns as the one that the canaries were made for."""
    layout = FileLayout(text="text" if canaries.records.x.dtype == object else None)
    if canaries.rows is not None and (table := canaries.records.table) is not None:
        own_layout = canaries.rows.description.layout
        layout = FileLayout(
            label=own_layout.label,
            id="",  # rows that were added as canaries have none
            columns=tuple(table.columns),
            codes=tuple(name for name in table.columns if table[name].dtype == nw.String),
            scale=own_layout.scale,
            classes=own_layout.classes,
        )
    return datafiles.read_records(path, layout).records


def _make(
    data: Records,
    own: Records | None,
    *,
    kind: str,
    count: int,
    design: str,
    seed: int | None,
    codes: Sequence[str] = (),
) -> tuple[Canaries, TableDraft | None]:
    """Make canaries; also return where the values of those of a table were taken from."""
    data = _without_row_numbers(data)
    settings = CanarySettings.check(design=design, seed=seed, **({"kind": kind, "count": count} if own is None else {}))
    chosen_kind: CanaryKind = settings.kind if own is None else "own"
    chosen_seed = secrets.randbits(63) if settings.seed is None else settings.seed
    draft = None
    if own is None:
        rng = seeds.generator(chosen_seed, "canaries", "records")
        records, draft = build_records(chosen_kind, data, settings.count, rng, codes)
    else:
        canaries = check_instance(own, "own", Records)
        canaries = _align_columns(data, canaries, "own")
        if (canaries.y is None) != (data.y is None) or canaries.x.shape[1:] != data.x.shape[1:]:
            raise InputError(f"own: canaries of the data's shape and with labels as it are needed, got {canaries!r}")
        distinct = set(fingerprints(canaries))
        if len(distinct) < len(canaries):
            raise InputError(f"own: {len(canaries) - len(distinct)} canaries repeat others; each must be unique")
        if shared := int(find_copies(canaries, data).sum()):
            raise InputError(f"own: {shared} canaries are records of the data; the model would know them anyway")
        if len(canaries) < _MIN_COUNT:
            raise InputError(f"own: at least {_MIN_COUNT} canaries are needed, got {len(canaries)}")
        records = canaries.without_ids().with_features(None)
    included = _draw_included(len(records), settings.design, seeds.generator(chosen_seed, "canaries", "coins"))
    return Canaries(records, included, settings.design, chosen_kind, chosen_seed, len(data)), draft


def check_not_trained_on(canaries: Canaries, training: Records) -> None:
    """Raise where a canary that was not included is among the records of the training set.

    Raises:
        divulge.InputError: there is one, whose score says nothing, so that no bound holds; or it cannot be told, as one
            has labels and the other has none.
    """
    records = canaries.records
    if records.y is None:
        training = training.with_y_of(records[np.zeros(len(training), np.int64)])
    elif training.y is None:
        raise InputError("training: its labels are needed, as the canaries have labels; name their column")
    left_out = np.flatnonzero(~canaries.included)
    excluded = left_out[find_copies(records[left_out], _align_columns(records, training, "training"))]
    if len(excluded):
        raise InputError(
            f"training: {len(excluded)} canaries that were not to be included are records of the training set "
            f"(first: canary {excluded[0]}); without them no bound on ε holds"
        )


def find_copies(canaries: Records, others: Records) -> Bools:
    """Return which canaries are among other records of the same columns, in whatever precision these are stored.

    Of few canaries those that are rounded further than to single precision may be coincidences, and are not counted.
    """
    if not len(canaries):
        return np.zeros(0, dtype=bool)
    groups, other_groups = match_records({"canaries": canaries, "records": others}).groups
    known: set[Any] = {*zip(other_groups.tolist(), spell_labels(others), strict=True)} | {*fingerprints(others)}
    keys = zip(groups.tolist(), spell_labels(canaries), fingerprints(canaries), strict=True)
    return np.array([(group, label) in known or fingerprint in known for group, label, fingerprint in keys])


def _without_row_numbers(records: Records) -> Records:
    """Return the records without the row numbers that a data frame wrote, as every audit reads them."""
    names = [] if records.table is None else columns.nameless_columns(records.table.columns)
    return records.without_columns(names) if names else records


def _align_columns(template: Records, records: Records, name: str) -> Records:
    """Return ``records`` with its columns in the order of ``template``, where both have names.

    Raises:
        divulge.InputError: columns that are missing or too many.
    """
    if template.table is not None and not columns.nameless_columns(template.table.columns):
        records = _without_row_numbers(records)
    if template.table is None or records.table is None or template.encoder is None:
        return records
    columns.match_columns(records.table, template.table.columns, name)
    return records.with_encoder(template.encoder)


def _draw_included(count: int, design: Design, rng: np.random.Generator) -> Bools:
    if design == "coins":
        return rng.random(count) < 0.5
    return rng.permutation(count) < count // 2


@dataclass(frozen=True, slots=True)
class _Metadata:
    """Metadata stored beside the secret arrays."""

    version: int
    design: Design
    kind: CanaryKind
    seed: int
    trained_on: int
    class_order: tuple[str, ...] | None = None
    table: TableDescription | None = None


def _to_arrays(records: Records) -> dict[str, Any]:
    x = records.x.astype(str) if records.x.dtype.kind in "OU" else records.x  # objects cannot be stored without pickle
    y = label_values(records)
    return {"x": x} | ({} if y is None else {"y": y})


def _rows_of_table(records: Records) -> CanaryRows:
    """Return the rows of a data frame, with its types, and the labels in a column of their own."""
    assert records.table is not None
    frame, labels = columns.to_polars(records.table), label_values(records)
    label = "label"
    while label in frame.columns:
        label = f"_{label}"
    if labels is not None:
        frame = frame.with_columns(pl.Series(label, labels.tolist()))
    layout = replace(_layout_of_values(records, label), real_values=True)
    description = TableDescription(".parquet", records.table.implementation.value, layout)
    return CanaryRows(FileRows(frame, ".parquet"), description)


def _layout_of_values(records: Records, label: str) -> FileLayout:
    """Return the layout of a table of canaries, in which nothing but their values and labels is read."""
    assert records.table is not None
    return FileLayout(label=label, id="", columns=tuple(records.table.columns))


def _spell_rows(source: FileRows, data: Records, layout: FileLayout, draft: TableDraft | None) -> FileRows:
    """Return canaries as rows of the file that they were made for; what is no part of a record is missing in them."""
    assert data.table is not None
    assert draft is not None
    spelled = {}
    for name in source.frame.columns:
        column = source.frame[name]
        if name in draft.numbers:
            spelled[name] = source.spell_numbers(name, draft.numbers[name] / layout.scale)
        elif name in data.table.columns:
            spelled[name] = column.gather(draft.donors[:, data.table.columns.index(name)])
        elif name == layout.label and draft.label_rows is not None:
            spelled[name] = column.gather(draft.label_rows)
        else:
            spelled[name] = pl.repeat(None, len(draft.donors), dtype=column.dtype, eager=True).alias(name)
    return replace(source, frame=pl.DataFrame(spelled))


def _write_rows(draft: RunDraft, name: str, rows: FileRows) -> None:
    path = draft.path / f"{name}{rows.ending}"
    store.make_private_directory(path.parent)
    store.write_file(path, lambda out: out.write(rows.to_bytes()))


def read_secret(directory: RunDirectory, texts: Sequence[str] = ()) -> Canaries:
    """Return the canaries that `Canaries.write_secret` wrote into a run of any kind."""
    path = directory.path / "secret" / "canaries"
    arrays = directory.read_arrays("secret/canaries")
    metadata = store.parse_json(directory.read_json("secret/canaries"), _Metadata, path.with_suffix(".json"))
    required = {"included"} if metadata.table is not None else {"x", "included"}
    if not required <= set(arrays):
        raise InputError(
            f"{path}.npz: damaged: arrays named {' and '.join(sorted(required))} are needed, got {sorted(arrays)}"
        )
    rows = None
    if metadata.table is not None:
        rows, records = _read_table(path.with_suffix(metadata.table.ending), metadata.table, texts)
    else:
        records = Records(arrays["x"], arrays.get("y"))
    if metadata.class_order is not None and (labels := label_values(records)) is not None:
        values = records.x if records.table is None else records.table.to_native()
        records = Records(values, list(map(str, labels.tolist())), class_names=metadata.class_order)
    included = check_mask(arrays["included"], f"{path}.npz: included", (len(records),))
    return Canaries(records, included, metadata.design, metadata.kind, metadata.seed, metadata.trained_on, rows)


def _read_table(path: Path, description: TableDescription, texts: Sequence[str]) -> tuple[CanaryRows, Records]:
    """Return the canaries in a file of a table, as rows and as records in the library that they were made in."""
    check_choice(description.ending, f"{path}: ending", (".csv", ".jsonl", ".parquet"))
    layout = description.layout
    if description.ending == ".csv":
        codes = tuple(dict.fromkeys([*layout.codes, *texts]))
        layout = replace(layout, codes=codes, user_set=frozenset({"separator"}))
    description = replace(description, layout=layout)
    records = datafiles.read_records(path, layout).records
    if records.table is None:
        raise InputError(f"{path}: damaged: a table with named columns is needed")
    if description.library == "pandas" and columns.has_pandas():
        frame = columns.read_frame(columns.to_library(records.table, "pandas"), "x")
        records = records.with_table(frame)
    return CanaryRows(datafiles.read_rows(path, layout), description), records
