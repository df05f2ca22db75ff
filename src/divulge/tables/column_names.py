"""Which columns of a table mean what: the same words in plans, on the command line and in Python."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from divulge.errors import InputError


class ColumnNames(BaseModel):
    """The columns of a table that are no values of a record, by what they mean.

    Every command that reads a table takes these as options, and a plan's ``[data]`` as keys.

    Attributes:
        label: the classes, or the real values of a regression.
        id: the identifiers, which are texts.
        text: the documents; None for records of columns.
        group: the subgroups that are reported apart.
        person: whose each row is: all rows of one person are one record.
        drop: columns that are not part of a record.

    Examples:
        >>> ColumnNames(id="Exhibit", text="Text").required()
        {'id': 'Exhibit', 'text': 'Text'}
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    label: str = "label"
    id: str = "id"
    text: str | None = None
    group: str | None = None
    person: str | None = None
    drop: Annotated[list[str], Field()] = []

    def required(self) -> dict[str, str]:
        """Return the columns that the user named, by what they mean: they must be there."""
        return {
            key: name
            for key in ("label", "id", "text", "group", "person")
            if key in self.model_fields_set and (name := getattr(self, key)) is not None
        }

    def special(self) -> list[str]:
        """Return the names of all columns that are no values of a record, whether or not a table has them."""
        names = [self.label, self.id, self.text, self.group, self.person]
        return list(dict.fromkeys([*(name for name in names if name), *self.drop]))

    @classmethod
    def from_options(cls, **options: Any) -> ColumnNames:
        """Return the names from options of the command line, of which None means that the user did not say.

        Raises:
            divulge.InputError: two columns that are one.
        """
        named = {key: value for key, value in options.items() if value is not None and value != []}
        if len(set(map(str, named.values()))) < len(named):
            twice = next(name for name in named.values() if list(named.values()).count(name) > 1)
            raise InputError(f"--{next(iter(named))}: {twice!r} is named for two things")
        return cls(**named)
