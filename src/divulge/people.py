"""Several documents of one person as one record: what is asked, set aside, split and decided is then the person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.errors import InputError
from divulge.ragged import SEPARATOR
from divulge.types import Records
from divulge.validation import check_records, format_value, to_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Ints


def by_person(texts: object, people: object) -> Records:
    """One record per person, of all their documents, in order of first appearance; its id is the person's.

    A language model is asked about each document by itself, and a person's score is that of all their tokens
    together. Reference models are trained on all documents of a person or on none, and calibration sets whole persons
    aside, so a false-positive rate or a false discovery rate is one of persons.

    Args:
        texts: the documents, ``n`` strings.
        people: whose each is, ``n`` names.

    Raises:
        divulge.InputError: no strings, another number of names, a document without a name.

    Examples:
        >>> records = by_person(["hello", "bye", "hi"], ["ann", "ann", "bob"])
        >>> records.ids.tolist(), [split_record(record) for record in records.x]
        (['ann', 'bob'], [['hello', 'bye'], ['hi']])
    """
    data = check_records(texts, "texts")
    if data.dtype != object:
        raise InputError(f"texts: documents (strings) are needed, got {data.dtype}")
    names = _names(people, len(data))
    own: dict[str, list[str]] = {}
    for name, text in zip(names, data, strict=True):
        own.setdefault(name, []).append(text.replace(SEPARATOR, " "))
    joined = np.array([SEPARATOR.join(parts) for parts in own.values()], dtype=object)
    return Records(joined, ids=np.array(list(own)))


def _names(people: Any, count: int) -> list[str]:
    """Whose each document is; documents without a name are not those of one nameless person."""
    given = list(people) if isinstance(people, list | tuple) else to_numpy(people, "people").tolist()
    if not isinstance(given, list) or len(given) != count:
        raise InputError(
            f"people: {count} names are needed (one per document), got {len(given) if isinstance(given, list) else 1}"
        )
    for row, name in enumerate(given):
        if not isinstance(name, str | int | np.integer) or isinstance(name, bool) or not str(name).strip():
            raise InputError(f"people: a text or a whole number is needed, got {format_value(name)} in row {row}")
    return [str(name) for name in given]


def split_record(record: str) -> list[str]:
    """The documents of a record."""
    return record.split(SEPARATOR)


def split_documents(records: Sequence[str]) -> tuple[list[str], Ints]:
    """All documents of all records, and how many each record has."""
    cut = [split_record(record) for record in records]
    return [text for texts in cut for text in texts], np.array([len(texts) for texts in cut], dtype=np.int64)


def record_offsets(offsets: Ints, counts: Ints) -> Ints:
    """Offsets of the tokens of records, from those of their documents.

    Examples:
        >>> record_offsets(np.array([0, 2, 5, 6]), np.array([2, 1]))
        array([0, 5, 6])
    """
    return offsets[np.append(0, np.cumsum(counts))]
