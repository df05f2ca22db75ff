"""What stands where in a file, and what was read from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.tables import ColumnNames
    from divulge.types import Array, Records


@dataclass(frozen=True, slots=True)
class FileLayout:
    """What stands where in a file.

    Args:
        label: column of the classes.
        id: column of the identifiers.
        group: column of the subgroups; None where there are none.
        text: column of the documents; None for records of numbers.
        person: column of whose each document is; None where each row is a record of its own.
        drop: columns that are not part of a record.
        covariates: columns of the covariates; None where none are named.
        scale: factor on every value.
        separator: between the values of a ``.csv``; where the user did not set it, that of the header.
        columns: of the values of a record, in their order; all that are left when None.
        classes: names of the classes, in the order of the model's outputs; None where they are numbers.
        codes: columns of values that are read as texts where a text file does not say, such as 007.
        named: which of these the user set, so that they must be there.
    """

    label: str = "label"
    id: str = "id"
    group: str | None = None
    text: str | None = None
    person: str | None = None
    drop: tuple[str, ...] = ()
    scale: float = 1.0
    separator: str = ","
    columns: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    covariates: tuple[str, ...] | None = None
    codes: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: ColumnNames, **defaults: Any) -> FileLayout:
        """Return the layout of files whose columns have these names; ``defaults`` hold where the user named none."""
        settings = {key: value for key, value in defaults.items() if key not in names.model_fields_set}
        own = names.model_dump() | settings
        own["drop"] = tuple(own["drop"])
        return cls(**own, named=frozenset(names.model_fields_set))


@dataclass(frozen=True, slots=True, eq=False)
class DataFile:
    """What one file holds.

    Args:
        records: of the file.
        group: column of the subgroups; None where none is named.
        columns: their names, where they have some.
        folders: names of the classes, where each has a folder of images.
        unlabelled: of documents, why their labels could not be read: no language model needs them.
        covariates: their columns, by name.
    """

    records: Records
    group: Any = None
    columns: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    unlabelled: str = ""
    covariates: Mapping[str, Array] = field(default_factory=dict)
