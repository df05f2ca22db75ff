"""Where tokens stand in a text, by what each of them shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNREADABLE = "�"  # what servers show of a token that is part of a character


def count_tokens_before(tokens: Sequence[str], text: str, start: int) -> int | None:
    """Return how many tokens end at or before ``start``; None where the tokens do not add up to the text.

    Tokens are matched to the text one after the other. Servers show some of them without the space before them, and
    parts of a character as a replacement; a special token may stand before the text. A token that holds the end of what
    stands before ``start`` and the beginning of what stands after it counts as one of the latter.

    Examples:
        >>> count_tokens_before(["<s>", "2", "+", "2", "=", "4"], "2 + 2 = 4", 7)
        5
        >>> count_tokens_before(["2 +", " 2 = 4"], "2 + 2 = 4", 8)
        1
        >>> count_tokens_before(["3", " + 3"], "2 + 2 = 4", 8)
    """
    matches = [_match_tokens(tokens, text, start)]
    if tokens and tokens[0].strip() and not text.startswith(tokens[0]):
        matches.append(_match_tokens(tokens[1:], text, start))
        matches[-1] = None if matches[-1] is None else matches[-1] + 1
    return next((count for count in matches if count is not None), None)


def _match_tokens(tokens: Sequence[str], text: str, start: int) -> int | None:
    position, n_before, unread = 0, 0, 0  # unread: tokens since the last one whose place is known
    for token in tokens:
        visible = token.strip()
        if _UNREADABLE in token or not token:
            unread += 1
            continue
        if not visible:  # spaces; those that begin a later token are matched with it
            if unread:
                unread += 1
                continue
            n_spaces = len(text[position:]) - len(text[position:].lstrip())
            position += min(len(token), n_spaces)
        else:
            found = text.find(visible, position)
            # Between two tokens stands white space alone, or the characters of the unread ones.
            if found < 0 or (text[position:found].strip() and not unread):
                return None
            if unread:
                if position < start < found:
                    return None
                n_before += unread if found <= start else 0
            position, unread = found + len(visible), 0
        n_before += position <= start
    rest = text[position:]
    if rest.strip() and not unread:
        return None
    if unread and position < start:
        return None
    return n_before
