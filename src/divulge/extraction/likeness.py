"""How alike a generated text and the text of a document are."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


class Likeness(NamedTuple):
    """Similarity of two texts.

    Attributes:
        longest: length in tokens of the longest common run.
        overlap: share of the tokens of both in matching runs (Ratcliff & Obershelp 1988); 1 for equal texts.
    """

    longest: int
    overlap: float


def likeness(generated: Sequence[Hashable], suffix: Sequence[Hashable]) -> Likeness:
    """Return the similarity of a generated text and the suffix of a document.

    Examples:
        >>> likeness([1, 2, 3, 9], [0, 1, 2, 3])
        Likeness(longest=3, overlap=0.75)
    """
    matcher = SequenceMatcher(None, list(generated), list(suffix), autojunk=False)
    return Likeness(matcher.find_longest_match().size, matcher.ratio())
