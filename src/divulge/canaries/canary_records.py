"""Make canaries: unusual records, each of which is added to the training set or left out at random.

A model that was trained on such a record usually scores it unlike one that was left out.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from divulge import columns, lazy, seeds, store
from divulge.errors import InputError
from divulge.run_directory import RunDirectory
from divulge.settings import CanarySettings
from divulge.types import Records
from divulge.validation import (
    check_bool,
    check_choice,
    check_instance,
    check_mask,
    check_path,
    format_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sklearn import neighbors

    from divulge.types import Array, Bools, Ints
else:
    neighbors = lazy.module("sklearn.neighbors")

Design: TypeAlias = Literal["coins", "fixed"]
DESIGNS: tuple[Design, ...] = get_args(Design)
Kind: TypeAlias = Literal["mislabelled", "far", "shuffled", "random", "blank", "random-token", "unigram", "own"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TEXT_KINDS: tuple[Kind, ...] = ("random-token", "unigram")
Rng: TypeAlias = "np.random.Generator"
RUN_TYPE = "canaries"
_MIN_COUNT = 8  # fewer than 8 canaries prove nothing at 95 % confidence
_DEFAULTS = CanarySettings()
_MAX_ROUNDS = 20  # of drawing, until enough canaries are distinct


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
    """

    records: Records
    included: Bools
    design: Design
    kind: Kind
    seed: int
    trained_on: int

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
        return Canaries(self.records, included, self.design, self.kind, seed, self.trained_on)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write ``insert.npz``, to be added to the training set, and ``secret/``, to be kept from whoever trains.

        Raises:
            divulge.InputError: the folder is in use, cannot be written, or holds canaries (unless ``overwrite``).
        """
        place = check_path(folder, "out")
        insert, records = _to_arrays(self.insert), _to_arrays(self.records)
        key = store.hash_values(RUN_TYPE, self.seed, self.design, self.kind, *(v for _, v in sorted(records.items())))
        with RunDirectory(place).writing(RUN_TYPE, key, overwrite=check_bool(overwrite, "overwrite")) as draft:
            draft.write_arrays("insert", insert)
            draft.write_arrays("secret/canaries", records | {"included": self.included})
            metadata = _Metadata(1, self.design, self.kind, self.seed, self.trained_on)
            draft.write_json("secret/canaries", asdict(metadata))

    @classmethod
    def load(cls, folder: str | Path) -> Canaries:
        """Load the canaries that `save` wrote; ``insert.npz`` may have been moved to where the model was trained.

        Raises:
            divulge.InputError: no canaries there, damaged ones, an ``insert.npz`` with other records.
        """
        place = check_path(folder, "canaries")
        directory = RunDirectory(place)
        try:
            canaries = directory.read(RUN_TYPE, lambda: _read(directory), only="secret/")
        except InputError as error:
            raise InputError(f"canaries: {error}") from None
        if os.path.lexists(place / "insert.npz"):
            _check_insert(store.read_arrays(place / "insert.npz", inside=place), canaries, place / "insert.npz")
        return canaries


def make(
    data: Records,
    *,
    kind: Kind | str = _DEFAULTS.kind,
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
            "shuffled" (each value from another record), "random", "blank" (one value throughout); for documents
            "random-token" or "unigram". "own" where ``own`` is given.
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
    _check_values(check_instance(data, "data", Records), "data")
    settings = CanarySettings.check(design=design, seed=seed, **({"kind": kind, "count": count} if own is None else {}))
    chosen_kind: Kind = settings.kind if own is None else "own"
    chosen_seed = secrets.randbits(63) if settings.seed is None else settings.seed
    if own is None:
        built = _build(chosen_kind, data, settings.count, seeds.generator(chosen_seed, "canaries", "records"))
        records = built if data.table is None else _name_columns(built.x, built.y, data.table.columns)
    else:
        records = _check_own(check_instance(own, "own", Records), data)
    included = _draw_included(len(records), settings.design, seeds.generator(chosen_seed, "canaries", "coins"))
    canaries = Canaries(records, included, settings.design, chosen_kind, chosen_seed, len(data))
    if out is not None:
        canaries.save(out, overwrite=overwrite)
    return canaries


def check_not_trained_on(canaries: Canaries, training: Records) -> None:
    """Raise where a canary that was not included is among the records of the training set.

    Raises:
        divulge.InputError: there is one; its score says nothing, and no bound holds.
    """
    in_training = set(fingerprints(_in_order_of(canaries.records, training, "training")))
    excluded = [
        i
        for i, fingerprint in enumerate(fingerprints(canaries.records))
        if fingerprint in in_training and not canaries.included[i]
    ]
    if excluded:
        raise InputError(
            f"training: {len(excluded)} canaries that were not to be included are records of the training set "
            f"(first: canary {excluded[0]}); without them no bound on ε holds"
        )


def _check_values(records: Records, name: str) -> None:
    """Raise for records that canaries cannot imitate: values that are not numbers, classes without an order."""
    if records.encoder is not None and not records.encoder.is_plain:
        raise InputError(
            f"{name}: canaries are made of numbers or of documents, and the table holds texts, categories, dates or "
            "missing values; encode it, or name the documents as data.text"
        )
    if records.class_names is not None and not records.has_class_order:
        raise InputError(
            f"{name}: the classes have names, {format_value(list(records.class_names))}; set data.classes to all of "
            "them, in the order of the model's outputs"
        )


def _name_columns(x: Array, y: Array | None, names: Sequence[str]) -> Records:
    return Records(columns.frame_of_array(x, names), y)


def _in_order_of(template: Records, records: Records, name: str) -> Records:
    """Return ``records`` with its columns in the order of ``template``, where both have names.

    Raises:
        divulge.InputError: columns that are missing or too many.
    """
    if template.table is None or records.table is None:
        return records
    return Records(columns.match_columns(records.table, tuple(template.table.columns), name), records.y, records.ids)


def _check_own(canaries: Records, data: Records) -> Records:
    _check_values(canaries, "own")
    canaries = _in_order_of(data, canaries, "own")
    if (canaries.y is None) != (data.y is None) or canaries.x.shape[1:] != data.x.shape[1:]:
        raise InputError(f"own: canaries of the data's shape and with labels as it are needed, got {canaries!r}")
    distinct = set(fingerprints(canaries))
    if len(distinct) < len(canaries):
        raise InputError(f"own: {len(canaries) - len(distinct)} canaries repeat others; each must be unique")
    if shared := len(distinct & set(fingerprints(data))):
        raise InputError(f"own: {shared} canaries are records of the data; the model would know them anyway")
    if len(canaries) < _MIN_COUNT:
        raise InputError(f"own: at least {_MIN_COUNT} canaries are needed, got {len(canaries)}")
    return (
        Records(canaries.x, canaries.y)
        if data.table is None
        else _name_columns(canaries.x, canaries.y, data.table.columns)
    )


def _draw_included(count: int, design: Design, rng: np.random.Generator) -> Bools:
    if design == "coins":
        return rng.random(count) < 0.5
    return rng.permutation(count) < count // 2


@dataclass(frozen=True, slots=True)
class _Metadata:
    """Metadata stored beside the secret arrays."""

    version: int
    design: Design
    kind: Kind
    seed: int
    trained_on: int


def _to_arrays(records: Records) -> dict[str, Any]:
    x = records.x.astype(str) if _are_documents(records) else records.x  # objects cannot be stored without pickle
    names = {} if records.table is None else {"columns": np.array(records.table.columns)}
    return {"x": x} | ({} if records.y is None else {"y": records.y}) | names


def _read(directory: RunDirectory) -> Canaries:
    path = directory.path / "secret" / "canaries"
    arrays = directory.read_arrays("secret/canaries")
    metadata = store.parse_json(directory.read_json("secret/canaries"), _Metadata, path.with_suffix(".json"))
    if "x" not in arrays or "included" not in arrays:
        raise InputError(f"{path}.npz: damaged: arrays named x and included are needed, got {sorted(arrays)}")
    names = arrays.get("columns")
    if names is not None and (names.ndim != 1 or names.dtype.kind != "U" or (len(names),) != arrays["x"].shape[1:]):
        raise InputError(f"{path}.npz: damaged: columns must be the names of the {arrays['x'].shape[1:]} values")
    records = (
        Records(arrays["x"], arrays.get("y"))
        if names is None
        else _name_columns(arrays["x"], arrays.get("y"), names.tolist())
    )
    included = check_mask(arrays["included"], f"{path}.npz: included", (len(records),))
    return Canaries(records, included, metadata.design, metadata.kind, metadata.seed, metadata.trained_on)


def _check_insert(arrays: dict[str, Any], canaries: Canaries, path: Path) -> None:
    count = len(arrays["x"]) if "x" in arrays and np.ndim(arrays["x"]) else 0
    if count != canaries.included.sum():
        raise InputError(f"{path}: holds {count} canaries, but {canaries.included.sum()} were to be included")
    if sorted(fingerprints(Records(arrays["x"], arrays.get("y")))) != sorted(fingerprints(canaries.insert)):
        raise InputError(f"{path}: holds other canaries than were to be included")


def _build(kind: Kind, data: Records, count: int, rng: Rng) -> Records:
    """Make ``count`` distinct canaries of a kind, none of which is a record of ``data``.

    Args:
        kind: any of `KINDS` but "own".
        data: records of the training set, or like them.
        count: how many.
        rng: generator of all draws.

    Raises:
        divulge.InputError: a kind that does not suit the records, more than there can be.
    """
    if _are_documents(data) != (kind in TEXT_KINDS):
        material = "documents" if kind in TEXT_KINDS else "numbers"
        raise InputError(f"kind: {kind!r} canaries are made of {material}, and the records are not")
    used = set(fingerprints(data))
    chosen: list[tuple[Array, int | None]] = []
    for _ in range(_MAX_ROUNDS):
        x, y = _MAKERS[kind](data, count, rng)
        candidates = Records(x, y)
        for i, fingerprint in enumerate(fingerprints(candidates)):
            if fingerprint not in used and len(chosen) < count:
                used.add(fingerprint)
                chosen.append((candidates.x[i], None if candidates.y is None else int(candidates.y[i])))
        if len(chosen) == count:
            labels = None if data.y is None else [label for _, label in chosen]
            return Records(np.array([x for x, _ in chosen]), labels)
    raise InputError(
        f"count: only {len(chosen)} of {count} different {kind!r} canaries that are no records of the data can be made"
    )


def fingerprints(records: Records) -> list[bytes]:
    """Return one byte string per record; two are equal exactly where values and labels are equal."""
    labels = [b""] * len(records) if records.y is None else [str(label).encode() for label in records.y.tolist()]
    return [_content(x) + b"\xff" + label for x, label in zip(records.x, labels, strict=True)]


def _are_documents(records: Records) -> bool:
    """Return whether the records are texts."""
    return records.x.dtype.kind in "OU"


def _content(x: Array | str) -> bytes:
    # All values in one precision, so that a copy as float64 or as integers counts as the same record.
    return x.encode() if isinstance(x, str) else (np.asarray(x, np.float32) + 0.0).tobytes()


def _mislabelled(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """Return real records with a wrong label."""
    labels = _require_labels(data, count)
    rows = rng.permutation(len(data))[:count]
    return data.x[rows], _draw_other_labels(labels[rows], np.unique(labels), rng)


def _isolated(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """Return the records farthest from their nearest neighbour, with a wrong label."""
    labels = _require_labels(data, count)
    flat = data.x.reshape(len(data), -1).astype(np.float64)
    spread = flat.std(0)
    flat = (flat - flat.mean(0)) / np.where(spread > 0, spread, 1.0)
    distances = neighbors.NearestNeighbors(n_neighbors=min(2, len(flat))).fit(flat).kneighbors(flat)[0][:, -1]
    rows = np.argsort(-distances, kind="stable")[:count]
    return data.x[rows], _draw_other_labels(labels[rows], np.unique(labels), rng)


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


def _require_labels(data: Records, count: int) -> Ints:
    if count > len(data):
        raise InputError(f"count: must be at most {len(data)}, one canary per record, got {count}")
    if data.y is None or len(np.unique(data.y)) < 2:
        raise InputError("data: a wrong label needs labels of at least 2 classes, which the records lack")
    return data.y


def _draw_labels(data: Records, count: int, rng: Rng) -> Ints | None:
    """Draw labels evenly from those of the data; None where it has none."""
    return None if data.y is None else rng.choice(np.unique(data.y), count)


def _draw_other_labels(labels: Ints, classes: Ints, rng: Rng) -> Ints:
    """Draw labels evenly from the other classes."""
    step = rng.integers(1, len(classes), len(labels))
    return classes[(np.searchsorted(classes, labels) + step) % len(classes)]


_MAKERS: Mapping[str, Callable[[Records, int, Rng], tuple[Array, Ints | None]]] = {
    "mislabelled": _mislabelled,
    "far": _isolated,
    "shuffled": _shuffled,
    "random": _random,
    "blank": _blank,
    "random-token": _random_token,
    "unigram": _unigram,
}
