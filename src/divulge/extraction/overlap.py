"""How much of a text stands in another one, in tokens."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Likeness(NamedTuple):
    """How alike two texts are.

    Attributes:
        longest: tokens of the longest run that stands in both.
        overlap: tokens in matching runs, of both texts over both (Ratcliff & Obershelp 1988); 1 for equal ones.
    """

    longest: int
    overlap: float


def likeness(made: Sequence[int], wanted: Sequence[int]) -> Likeness:
    """How alike a generated text is to the one wanted.

    Examples:
        >>> likeness([1, 2, 3, 9], [0, 1, 2, 3])
        Likeness(longest=3, overlap=0.75)
    """
    compared = SequenceMatcher(None, list(made), list(wanted), autojunk=False)
    return Likeness(compared.find_longest_match().size, compared.ratio())
