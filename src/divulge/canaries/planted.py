"""Canaries: records made for the test, each of which is put into the training set, or is not, by chance."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import numpy as np

from divulge import seeds, store
from divulge.canaries import kinds
from divulge.canaries.kinds import KINDS, Kind
from divulge.errors import InputError
from divulge.run_directory import RunDirectory
from divulge.types import Records
from divulge.validation import (
    check_bool,
    check_choice,
    check_instance,
    check_integer,
    check_mask,
    check_path,
    format_value,
)

if TYPE_CHECKING:
    from divulge.types import Bools

Design: TypeAlias = Literal["coins", "fixed"]
DESIGNS: tuple[Design, ...] = get_args(Design)
KIND = "canaries"
_LEAST, _MOST = 8, 10**6  # fewer canaries than 8 prove nothing at 95 %


@dataclass(frozen=True, slots=True, eq=False)
class Canaries:
    """Canaries, and which of them were included.

    Args:
        records: the canaries, ``n`` of them.
        included: bool ``[n]``: which of them belong into the training set. To be kept from whoever trains.
        design: "coins" (each by its own fair coin) or "fixed" (half of them, drawn at random).
        kind: what they are made of.
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
        """What is to be added to the training set."""
        return self.records[self.included]

    def redrawn(self, seed: int) -> Canaries:
        """The same canaries with coins of another seed."""
        drawn = _drawn(len(self), self.design, seeds.generator(seed, "canaries", "coins"))
        return Canaries(self.records, drawn, self.design, self.kind, seed, self.trained_on)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write ``insert.npz``, to be added to the training set, and ``secret/``, to be kept from whoever trains.

        Raises:
            divulge.InputError: the folder is in use, cannot be written, or holds canaries (unless ``overwrite``).
        """
        place = check_path(folder, "out")
        insert, all_of_them = _arrays(self.insert), _arrays(self.records)
        key = store.hash_values(KIND, self.seed, self.design, self.kind, *(v for _, v in sorted(all_of_them.items())))
        with RunDirectory(place).writing(KIND, key, overwrite=check_bool(overwrite, "overwrite")) as draft:
            draft.write_arrays("insert", insert)
            draft.write_arrays("secret/canaries", all_of_them | {"included": self.included})
            draft.write_json("secret/canaries", _Kept(1, self.design, self.kind, self.seed, self.trained_on).plain())

    @classmethod
    def load(cls, folder: str | Path) -> Canaries:
        """The canaries that `save` wrote; ``insert.npz`` may be gone, to where the model was trained.

        Raises:
            divulge.InputError: no canaries there, damaged ones, an ``insert.npz`` that is not theirs.
        """
        place = check_path(folder, "canaries")
        dossier = RunDirectory(place)
        try:
            canaries = dossier.read(KIND, lambda: _read(dossier), only="secret/")
        except InputError as error:
            raise InputError(f"canaries: {error}") from None
        if os.path.lexists(place / "insert.npz"):
            _same(store.read_arrays(place / "insert.npz", inside=place), canaries, place / "insert.npz")
        return canaries


def make(
    data: Records,
    *,
    kind: Kind | str = "mislabelled",
    count: int = 1000,
    design: Design | str = "coins",
    own: Records | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> Canaries:
    """Canaries for a training set.

    They change the model: a few hundred mislabelled records among some thousands cost accuracy.
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
        seed: of the canaries and of the coins. Who knows it knows the coins, so by default it is drawn from the
            system's entropy, and kept with the secret.
        out: folder to write, see `Canaries.save`.
        overwrite: replace canaries in ``out``.

    Raises:
        divulge.InputError: a kind that does not suit the records, more canaries than there can be, canaries of the
            user's own that repeat or are records of the data.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> canaries = make(Records(rng.normal(size=(50, 3)), rng.integers(0, 2, 50)), count=20, seed=0)
        >>> len(canaries), len(canaries.insert) == int(canaries.included.sum())
        (20, True)
    """
    _refuse_names(check_instance(data, "data", Records), "data")
    chosen = cast("Kind", "own" if own is not None else check_choice(kind, "kind", [k for k in KINDS if k != "own"]))
    how = cast("Design", check_choice(design, "design", DESIGNS))
    start = secrets.randbits(63) if seed is None else check_integer(seed, "seed", least=0)
    if own is None:
        n = check_integer(count, "count", least=_LEAST, most=_MOST)
        records = kinds.build(chosen, data, n, seeds.generator(start, "canaries", "records"))
    else:
        records = _own(check_instance(own, "own", Records), data)
    included = _drawn(len(records), how, seeds.generator(start, "canaries", "coins"))
    canaries = Canaries(records, included, how, chosen, start, len(data))
    if out is not None:
        canaries.save(out, overwrite=overwrite)
    return canaries


def refuse_known(canaries: Canaries, training: Records) -> None:
    """Raise where a canary that was not included is among the records of the training set.

    Raises:
        divulge.InputError: then its score says nothing, and no bound holds.
    """
    there = set(kinds.names(training))
    known = [i for i, name in enumerate(kinds.names(canaries.records)) if name in there and not canaries.included[i]]
    if known:
        raise InputError(
            f"training: {len(known)} canaries that were not to be included are records of the training set "
            f"(first: canary {known[0]}); without them no bound on ε holds"
        )


def _refuse_names(records: Records, name: str) -> None:
    """Refuse what canaries, which are made of numbers, cannot be written back as."""
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


def _own(own: Records, data: Records) -> Records:
    _refuse_names(own, "own")
    if (own.y is None) != (data.y is None) or own.x.shape[1:] != data.x.shape[1:]:
        raise InputError(f"own: canaries of the data's shape and with labels as it are needed, got {own!r}")
    named = kinds.names(own)
    if len(set(named)) < len(named):
        raise InputError(f"own: {len(named) - len(set(named))} canaries repeat others; each must be unique")
    if shared := len(set(named) & set(kinds.names(data))):
        raise InputError(f"own: {shared} canaries are records of the data; the model would know them anyway")
    if len(own) < _LEAST:
        raise InputError(f"own: at least {_LEAST} canaries are needed, got {len(own)}")
    return Records(own.x, own.y)


def _drawn(count: int, design: Design, rng: np.random.Generator) -> Bools:
    if design == "coins":
        return rng.random(count) < 0.5
    return rng.permutation(count) < count // 2


@dataclass(frozen=True, slots=True)
class _Kept:
    """The description that stands beside the secret arrays."""

    version: int
    design: Design
    kind: Kind
    seed: int
    trained_on: int

    def plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def _arrays(records: Records) -> dict[str, Any]:
    x = records.x.astype(str) if kinds.documents(records) else records.x  # objects cannot be stored without pickle
    return {"x": x} if records.y is None else {"x": x, "y": records.y}


def _read(dossier: RunDirectory) -> Canaries:
    path = dossier.path / "secret" / "canaries"
    arrays = dossier.read_arrays("secret/canaries")
    kept = store.parse_json(dossier.read_json("secret/canaries"), _Kept, path.with_suffix(".json"))
    if "x" not in arrays or "included" not in arrays:
        raise InputError(f"{path}.npz: damaged: arrays named x and included are needed, got {sorted(arrays)}")
    records = Records(arrays["x"], arrays.get("y"))
    included = check_mask(arrays["included"], f"{path}.npz: included", (len(records),))
    return Canaries(records, included, kept.design, kept.kind, kept.seed, kept.trained_on)


def _same(arrays: dict[str, Any], canaries: Canaries, path: Path) -> None:
    rows = len(arrays["x"]) if "x" in arrays and np.ndim(arrays["x"]) else 0
    if rows != canaries.included.sum():
        raise InputError(f"{path}: holds {rows} canaries, but {canaries.included.sum()} were to be included")
    if sorted(kinds.names(Records(arrays["x"], arrays.get("y")))) != sorted(kinds.names(canaries.insert)):
        raise InputError(f"{path}: holds other canaries than were to be included")
