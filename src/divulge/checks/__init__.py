"""Validation of what users hand in: every error names the argument, the bound and the value."""

from divulge.checks.numpy_arrays import array, identifiers, labels, mask, matrix, nonempty, plain, records, vector
from divulge.checks.scalars import (
    able,
    choice,
    flag,
    instance,
    integer,
    levels,
    listed,
    number,
    path,
    reason,
    shown,
    text,
    texts,
)
from divulge.checks.sizes import available, memory, readable
from divulge.errors import InputError, MissingExtraError, extra

__all__ = [
    "InputError",
    "MissingExtraError",
    "able",
    "array",
    "available",
    "choice",
    "extra",
    "flag",
    "identifiers",
    "instance",
    "integer",
    "labels",
    "levels",
    "listed",
    "mask",
    "matrix",
    "memory",
    "nonempty",
    "number",
    "path",
    "plain",
    "readable",
    "reason",
    "records",
    "shown",
    "text",
    "texts",
    "vector",
]
