"""Documents cut into stretches that a language model can take, and stretches of similar length put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a document that is run through the model at once.

    Args:
        document: which.
        start: place of its first token in the document.
        tokens: its token ids.
        skip: how many of its predictions were already made by the window before.
    """

    document: int
    start: int
    tokens: tuple[int, ...]
    skip: int


def split_windows(document: int, tokens: Sequence[int], length: int, stride: int) -> list[Window]:
    """Windows of at most ``length`` tokens, ``stride`` apart; each token is scored once, with all context it can have.

    Examples:
        >>> [(w.tokens, w.skip) for w in split_windows(0, [1, 2, 3, 4, 5], length=3, stride=2)]
        [((1, 2, 3), 0), ((3, 4, 5), 0)]
        >>> [(w.tokens, w.skip) for w in split_windows(0, [1, 2, 3, 4], length=3, stride=1)]
        [((1, 2, 3), 0), ((2, 3, 4), 1)]
    """
    cut, scored = [], 1  # the first token is predicted by nothing
    for start in range(0, max(len(tokens) - 1, 0), stride):
        piece = tuple(tokens[start : start + length])
        cut.append(Window(document, start, piece, scored - start - 1))
        scored = start + len(piece)
        if scored >= len(tokens):
            break
    return cut


def batch_windows(cut: Sequence[Window], budget: int) -> Iterator[list[Window]]:
    """Windows of similar length together, with at most ``budget`` tokens per batch, padding included."""
    batch: list[Window] = []
    for window in sorted(cut, key=lambda w: len(w.tokens), reverse=True):
        longest = len(batch[0].tokens) if batch else 0
        if batch and (len(batch) + 1) * longest > budget:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch
