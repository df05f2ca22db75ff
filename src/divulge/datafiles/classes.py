"""Classes that have names, and the column that may hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.datafiles.layout import FileLayout
from divulge.errors import InputError
from divulge.validation import check_choice, check_labels, format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Array, Ints

_USUAL = ("label", "labels", "class", "classes", "target", "y", "category", "outcome", "diagnosis")
_SHOWN = 20  # names in a message


def check_names(values: Array, classes: Sequence[str] | None, column: str) -> None:
    """Pass if labels and the names of classes fit each other.

    Raises:
        divulge.InputError: records without a class; names of classes where the labels are numbers.
    """
    kept = [value for value in values.tolist() if value is not None] if values.dtype.kind in "OU" else values.tolist()
    if len(kept) < len(values):
        raise InputError(f"{column!r}: {len(values) - len(kept)} records have no class; leave them out")
    if classes is not None and not all(isinstance(value, str) for value in kept):
        raise InputError(f"data.classes: the classes in {column!r} are numbers, which need no names")


def numbered(values: Array, classes: Sequence[str] | None, column: str) -> Array:
    """Names of classes as their places in ``classes``; numbers as they are.

    Args:
        values: the labels ``[n]``.
        classes: all names, in the order of the model's outputs.
        column: where the labels come from, for messages.

    Raises:
        divulge.InputError: names without ``classes``, a name that is not among them, numbers with them.

    Examples:
        >>> numbered(np.array(["dog", "cat", "dog"]), ["cat", "dog"], "label")
        array([1, 0, 1])
    """
    kept = [value for value in values.tolist() if value is not None] if values.dtype.kind in "OU" else []
    if not kept or not all(isinstance(value, str) for value in kept):
        if classes is not None:
            raise InputError(f"data.classes: the classes in {column!r} are numbers, which need no names")
        return values
    if len(kept) < len(values):
        raise InputError(f"{column!r}: {len(values) - len(kept)} records have no class; leave them out")
    names, places = np.unique(np.array(kept), return_inverse=True)
    if classes is None:
        raise InputError(
            f"the classes in {column!r} have names; set data.classes to all of them, in the order of the model's "
            f"outputs: {_some(names)} in alphabetical order, which scikit-learn and image folders use"
        )
    place = {name: at for at, name in enumerate(classes)}
    for name in names:
        check_choice(str(name), f"data.classes: a class in {column!r}", classes)
    return np.array([place[str(name)] for name in names], dtype=np.int64)[places]


def of_documents(values: Array, layout: FileLayout) -> tuple[Ints | None, str]:
    """Labels of documents, or None and why they cannot be read: no language model needs them, and whoever does asks.

    Raises:
        divulge.InputError: they cannot be read, and the user named their column.

    Examples:
        >>> of_documents(np.array(["dog", "cat"]), FileLayout(classes=("cat", "dog")))
        (array([1, 0]), '')
        >>> of_documents(np.array([-1, 0]), FileLayout())
        (None, "'label': labels must be ≥ 0, got -1")
    """
    try:
        return check_labels(numbered(values, layout.classes, layout.label), repr(layout.label)), ""
    except InputError as error:
        if "label" in layout.named:
            raise
        return None, str(error)


def likely(columns: Sequence[str]) -> str:
    """The column that may hold the classes, as a suggestion; empty without one.

    Examples:
        >>> likely(["age", "Target"]), likely(["age"])
        ("; 'Target' may be it", '')
    """
    for usual in _USUAL:
        for column in columns:
            if column.lower() == usual:
                return f"; {column!r} may be it"
    return ""


def _some(names: Array) -> str:
    said = ", ".join(format_value(str(name)) for name in names[:_SHOWN])
    return f"[{said}{', …' if len(names) > _SHOWN else ''}]"
