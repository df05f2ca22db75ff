"""Where the scored tokens of a text stand in it."""

from __future__ import annotations

from typing import Any

from divulge import people, ragged
from divulge.store import panic_errors
from divulge.targets.statistics import GivesTokens


def ends(target: GivesTokens, record: str) -> list[int] | None:
    """The place in ``record`` where each scored token ends, never falling; None where the target does not show it.

    Args:
        target: a language model.
        record: one document, or several of one person.
    """
    places, begin = [], 0
    for text in people.split_record(record):
        own = _ends(target, text)
        if own is None:
            return None
        places += [begin + place for place in own]
        begin += len(text) + len(ragged.SEPARATOR)
    return places


def _ends(target: GivesTokens, text: str) -> list[int] | None:
    tokenizer: Any = getattr(target, "tokenizer", None)
    if not getattr(tokenizer, "is_fast", False):
        return None
    bos = getattr(target, "bos", "tokenizer")
    with panic_errors("tokenizer"):
        cut = tokenizer(text, add_special_tokens=bos == "tokenizer", return_offsets_mapping=True, verbose=False)
    places = [end for _, end in cut["offset_mapping"]]
    if bos != "add":
        places = places[1:]  # nothing comes before the first token, so it has no score
    if getattr(target, "truncation", "") == "head":
        places = places[: int(getattr(target, "length", None) or len(places) + 1) - 1]
    highest, rising = 0, []
    for place in places:
        highest = max(highest, place)
        rising.append(highest)
    return rising
