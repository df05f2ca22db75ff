"""Whether the sets of records of an audit go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import recipes as book
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.recipes import Recipe
    from divulge.types import Records

    Sets = Mapping[str, Records]


def check_record_sets(sets: Sets, recipes: Sequence[Recipe]) -> None:
    """Raise where members, non-members and population do not go together, or lack what the recipes read.

    Raises:
        divulge.InputError: other shapes, labels or kinds of ids; an id in two sets; labels that are missing, or one.
    """
    _check_same_shape(sets)
    _check_id_types(sets)
    _check_distinct_ids(sets)
    _check_labels_present(sets, recipes)
    _check_numeric(sets, recipes)
    _check_several_classes(sets)


def check_documents(sets: Sets) -> None:
    """Raise where records are no documents, or empty ones.

    Raises:
        divulge.InputError: numbers in place of texts; a text without a visible character.
    """
    for name, records in sets.items():
        if records.x.dtype != object:
            texts = [] if records.encoder is None else [
                column.name for column in records.encoder.columns if column.measure in ("text", "category")
            ]  # fmt: skip
            instead = f"; name the column of the documents as data.text (it may be {texts[0]!r})" if texts else ""
            raise InputError(
                f"{name}: the target is a language model, so documents (strings) are needed, got "
                f"{records.x.dtype}{instead}"
            )
        empty = [row for row, text in enumerate(records.x) if not text.strip()]
        if empty:
            raise InputError(f"{name}: {len(empty)} documents are empty (first: row {empty[0]}); leave them out")


def _check_same_shape(sets: Sets) -> None:
    shapes = {name: records.x.shape[1:] for name, records in sets.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"records: all sets must have the same shape, got {listed}")
    labelled = {name: records.y is not None for name, records in sets.items()}
    if len(set(labelled.values())) > 1:
        without = ", ".join(name for name, has in labelled.items() if not has)
        raise InputError(f"records: every set must have labels, or none; {without} has none")


def _check_id_types(sets: Sets) -> None:
    """Ids go into a Parquet file and are compared between the sets."""
    kinds = {}
    for name, records in sets.items():
        if records.ids is None:
            continue
        kind = records.ids.dtype.kind
        kinds[name] = (
            "strings" if kind == "U" or all(isinstance(one, str) for one in records.ids) else records.ids.dtype.name
        )
        if kinds[name] == "object":
            raise InputError(f"{name}: ids must be strings or whole numbers of at most 64 bits")
    if "strings" in kinds.values() and len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        raise InputError(f"records: ids of all sets must be of the same kind, got {listed}")


def _check_distinct_ids(sets: Sets) -> None:
    for first, second in (("members", "nonmembers"), ("members", "population"), ("nonmembers", "population")):
        ids, others = sets[first].ids, sets[second].ids
        shared = np.array([]) if ids is None or others is None else np.intersect1d(ids, others)
        if shared.size:
            raise InputError(
                f"{first}, {second}: {len(shared)} ids occur in both sets (first: {shared.tolist()[0]!r}); "
                "a record can be in only one of them"
            )


def _check_labels_present(sets: Sets, recipes: Sequence[Recipe]) -> None:
    needing = [recipe.name for recipe in recipes if recipe.needs_labels]
    if needing and sets["members"].y is None:
        usable = [recipe.name for recipe in book.recipes() if not recipe.needs_labels]
        raise InputError(
            f"recipes: {', '.join(needing)} read the records' labels, but there are none; "
            f"without labels use {', '.join(usable)}"
        )


def _check_numeric(sets: Sets, recipes: Sequence[Recipe]) -> None:
    needing = [recipe.name for recipe in recipes if recipe.needs_numbers]
    if needing and sets["members"].x.dtype == object:
        raise InputError(
            f"recipes: {', '.join(needing)} move records a little, which numbers allow and texts do not; of texts use "
            "correct, correct-calibrated, transfer, or recipes that read the target's outputs"
        )


def _check_several_classes(sets: Sets) -> None:
    labels = [records.y for records in sets.values() if records.y is not None]
    if labels and len(classes := np.unique(np.concatenate(labels))) < 2:
        raise InputError(
            f"records: all labels are {classes[0]}; with a single class, a classifier's output carries no information"
        )
