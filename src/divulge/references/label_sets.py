"""How many classes records have."""

from __future__ import annotations

from divulge.errors import InputError
from divulge.types import Records
from divulge.validation import check_instance, check_integer, check_labels


def count_classes(records: Records, classes: int | None) -> int:
    """Number of classes: what the user says, or the largest label plus one.

    Raises:
        divulge.InputError: no labels, a label outside the set, fewer than 2 classes, or fewer records than classes
            where the labels alone say how many there are (they may be something else).
    """
    check_instance(records, "records", Records)
    if records.y is None:
        raise InputError("records: labels are needed to train on, got y=None")
    width = int(records.y.max()) + 1 if classes is None else check_integer(classes, "classes", least=2)
    check_labels(records.y, "records.y", classes=width)
    if width < 2:
        raise InputError("records.y: at least 2 classes are needed, got 1 (or give the size of the label set)")
    if classes is None and len(records) < width:
        raise InputError(f"records: at least as many as classes ({width}) are needed, got {len(records)}")
    return width
