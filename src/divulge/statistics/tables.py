"""Score tables: what every statistic here starts from, checked once."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.validation import check_mask, check_number, check_vector

if TYPE_CHECKING:
    from divulge.types import Bools, Floats


def table(scores: object, members: object, name: str = "scores") -> tuple[Floats, Bools]:
    """Scores ``[n]`` and membership ``[n]``, both checked; at least one record of each kind.

    Raises:
        divulge.InputError: NaN or infinity, nothing, lengths that differ, members or non-members only.
    """
    values = check_vector(scores, name)
    truth = check_mask(members, "members", (None,))
    if truth.shape != values.shape:
        raise InputError(f"members: {len(values)} values are needed (one per score), got {len(truth)}")
    count = int(truth.sum())
    if count in (0, len(truth)):
        raise InputError(
            f"members: at least 1 member and 1 non-member are needed, got {count} and {len(truth) - count}"
        )
    return values, truth


def halves(scores: object, members: object) -> tuple[Floats, Floats]:
    """The scores of members and of non-members, each sorted: row order is forgotten here.

    Examples:
        >>> halves([0.1, 0.9, 0.4], [False, True, False])
        (array([0.9]), array([0.1, 0.4]))
    """
    values, truth = table(scores, members)
    return np.sort(values[truth]), np.sort(values[~truth])


def above(ordered: Floats, thresholds: Floats) -> Floats:
    """How many of the sorted scores lie strictly above each threshold."""
    return (len(ordered) - np.searchsorted(ordered, thresholds, side="right")).astype(np.float64)


def least_nonmembers(fpr: float) -> int:
    """How many non-members it takes to speak of a false-positive rate of ``fpr``.

    Examples:
        >>> least_nonmembers(0.01)
        99
    """
    level = check_number(fpr, "fpr", above=0, below=1)
    return ceil(1 / Fraction(str(level))) - 1


def supported(nonmembers: int, fpr: float) -> float:
    """``fpr``, if this many non-members can resolve it.

    Raises:
        divulge.InputError: fewer than ``1/fpr - 1`` non-members.
    """
    needed = least_nonmembers(fpr)
    if nonmembers < needed:
        raise InputError(f"fpr: {needed} non-members are needed for an FPR of {fpr:g}, got {nonmembers}")
    return float(fpr)
