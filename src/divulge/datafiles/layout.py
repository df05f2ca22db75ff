"""What stands where in a file, and what was read from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from divulge.types import Records


@dataclass(frozen=True, slots=True)
class FileLayout:
    """What stands where in a file.

    Args:
        label: column of the classes.
        id: column of the identifiers.
        group: column of the subgroups; None where there are none.
        text: column of the documents; None for records of numbers.
        scale: factor on every value.
        separator: between the values of a ``.csv``; where the user did not set it, that of the header.
        columns: of the values of a record, in their order; all that are left when None.
        classes: names of the classes, in the order of the model's outputs; None where they are numbers.
        named: which of these the user set, so that they must be there.
    """

    label: str = "label"
    id: str = "id"
    group: str | None = None
    text: str | None = None
    scale: float = 1.0
    separator: str = ","
    columns: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    named: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class DataFile:
    """What one file holds.

    Args:
        records: of the file.
        group: column of the subgroups; None where none is named.
        columns: their names, where they have some.
        folders: names of the classes, where each has a folder of images.
        unlabelled: of documents, why their labels could not be read: no language model needs them.
    """

    records: Records
    group: Any = None
    columns: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    unlabelled: str = ""
