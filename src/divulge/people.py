"""Several documents of one person as one record, so that persons are scored, split and decided on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.types import SEPARATOR, Records
from divulge.validation import check_records, format_value, to_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Bools, Ints


def by_person(texts: object, people: object) -> Records:
    """Return one record per person with all their documents, in order of first appearance; its id is the person.

    A language model scores each document separately, and the score of a person uses all their tokens. Reference models
    are trained on all documents of a person or on none, and calibration sets whole persons aside, so false-positive
    rates and false discovery rates are rates of persons.

    Persons are duplicates where all their documents are. A document that persons of two sets share was both trained on
    and not: an audit refuses it, takes it out of everybody (``duplicates="drop"``) or keeps it, with a warning. Within
    a set it may be shared.

    Args:
        texts: the documents, ``n`` strings.
        people: the person of each document, ``n`` names.

    Raises:
        divulge.InputError: texts that are no strings, another number of names, a document without a name.

    Examples:
        >>> records = by_person(["hello", "bye", "hi"], ["ann", "ann", "bob"])
        >>> records.ids.tolist(), [split_record(record) for record in records.x]
        (['ann', 'bob'], [['hello', 'bye'], ['hi']])
    """
    data = check_records(texts, "texts")
    if data.dtype != object:
        raise InputError(f"texts: documents (strings) are needed, got {data.dtype}")
    count = len(data)
    names = list(people) if isinstance(people, list | tuple) else to_numpy(people, "people").tolist()
    if not isinstance(names, list) or len(names) != count:
        raise InputError(
            f"people: {count} names are needed (one per document), got {len(names) if isinstance(names, list) else 1}"
        )
    for row, name in enumerate(names):  # documents without a name are not of one person
        if not isinstance(name, str | int | np.integer) or isinstance(name, bool) or not str(name).strip():
            raise InputError(f"people: a text or a whole number is needed, got {format_value(name)} in row {row}")
    names = [str(name) for name in names]
    documents: dict[str, list[str]] = {}
    for name, text in zip(names, data, strict=True):
        documents.setdefault(name, []).append(text.replace(SEPARATOR, " "))
    joined = np.array([SEPARATOR.join(parts) for parts in documents.values()], dtype=object)
    return Records(joined, ids=np.array(list(documents)))


def split_record(record: str) -> list[str]:
    """Return the documents of a record."""
    return record.split(SEPARATOR)


def split_documents(records: Sequence[str]) -> tuple[list[str], Ints]:
    """Return all documents of all records, and the number of documents of each record."""
    documents = [split_record(record) for record in records]
    counts = np.array([len(texts) for texts in documents], dtype=np.int64)
    return [text for texts in documents for text in texts], counts


def find_shared_documents(sets: Sequence[Records]) -> set[str]:
    """Return the documents that stand in records of more than one set, where any record has several documents.

    Examples:
        >>> one, other = Records(["a" + SEPARATOR + "b", "c"]), Records(["b", "d"])
        >>> find_shared_documents([one, other]), find_shared_documents([Records(["b"]), other])
        ({'b'}, set())
    """
    if not any(SEPARATOR in record for records in sets for record in records.x):
        return set()
    earlier_documents, shared = set[str](), set[str]()
    for records in sets:
        documents = {document for record in records.x for document in split_record(record)}
        shared |= documents & earlier_documents
        earlier_documents |= documents
    return shared


def remove_documents(records: Records, documents: set[str]) -> tuple[Records | None, Bools]:
    """Return the records without some documents, and which of them have any left, ``[n]``; None where none has.

    Examples:
        >>> left, has_any = remove_documents(Records(["a" + SEPARATOR + "b", "b"]), {"b"})
        >>> left.x.tolist(), has_any.tolist()
        (['a'], [True, False])
    """
    remaining = [[text for text in split_record(record) if text not in documents] for record in records.x]
    has_any = np.array([bool(texts) for texts in remaining])
    if not has_any.any():
        return None, has_any
    joined = np.array([SEPARATOR.join(texts) for texts in remaining if texts], dtype=object)
    return records[has_any].with_values(joined), has_any


def record_offsets(offsets: Ints, counts: Ints) -> Ints:
    """Return the offsets of the tokens of records from those of their documents.

    Examples:
        >>> record_offsets(np.array([0, 2, 5, 6]), np.array([2, 1]))
        array([0, 5, 6])
    """
    return offsets[np.append(0, np.cumsum(counts))]
