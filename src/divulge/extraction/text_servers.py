"""Prompts for servers that show text alone, and the comparison of what they answer, word by word."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from divulge import chats, store
from divulge.errors import InputError
from divulge.extraction.likeness import likeness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from divulge.extraction.completions import Passage
    from divulge.targets.endpoint import GeneratedText, GivesText, Prompt
    from divulge.types import Records

# A word, a sign, or a letter of a script that writes no spaces, each with the white space before it.
_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0e7f"
_WORD = re.compile(rf"\s*(?:[{_ALONE}]|[^\W{_ALONE}]+|[^\w\s])")
_TOKENS_OF_A_WORD, _SPARE_TOKENS = 3, 8


class Outcome(NamedTuple):
    """One answer compared with what stands in the document.

    Attributes:
        verbatim: whether the suffix stands in the answer word for word.
        longest: length in words of the longest common run.
        overlap: share of the words of both in matching runs.
        is_cut: whether more tokens might have made it verbatim.
        is_withheld: whether the server gave no answer by its own account.
        text: the answer; None where no texts may be stored.
    """

    verbatim: bool
    longest: int
    overlap: float
    is_cut: bool
    is_withheld: bool
    text: str | None


@dataclass(frozen=True)
class TextModel:
    """A server that gives text alone, as a model whose tokens are words.

    Args:
        server: it.
    """

    server: GivesText
    start: ClassVar[tuple[()]] = ()
    length: ClassVar[int] = 10**9

    def key(self) -> Mapping[str, Any]:
        """Return what determines the answers."""
        return self.server.key()

    def encode(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the words of each text as it is shown; none reaches over the beginning or the end of the answer."""
        words = []
        for text in texts:
            shown, cuts = chats.show_text(text), [0]
            if span := chats.find_answer_spans(text)[-1:]:
                cuts += span[0]
            parts = (shown[start:stop] for start, stop in zip(cuts, [*cuts[1:], None], strict=True))
            words.append(tuple(word for part in parts for word in split_words(part)))
        return words

    def decode(self, words: Sequence[str]) -> str:
        """Return the text of words."""
        return "".join(words)

    def find_last_answer(self, text: str) -> tuple[int, int] | None:
        """Return where the last answer begins and ends among the words of a document; None without answers."""
        if not (spans := chats.find_answer_spans(text)):
            return None
        shown, (start, stop) = chats.show_text(text), spans[-1]
        n_before = len(split_words(shown[:start]))
        return n_before, n_before + len(split_words(shown[start:stop]))

    def complete(
        self,
        records: Records,
        passages: Sequence[Passage],
        journal: Path | None,
        *,
        show_records: bool,
        progress: Callable[[int], None],
    ) -> list[Outcome]:
        """Ask for the suffix of each passage, and compare; what ``journal`` holds is not asked again.

        Args:
            records: the documents.
            passages: of them.
            journal: file that takes each outcome as it comes; None to keep none.
            show_records: whether texts may be stored.
            progress: called with the number of finished passages.
        """
        outcomes = _read_journal(journal)
        names = [store.hash_values(passage.prefix, passage.suffix) for passage in passages]
        open_rows = [row for row, name in enumerate(names) if name not in outcomes]
        prompts = [self._make_prompt(str(records.x[passages[row].row]), passages[row]) for row in open_rows]
        lock = threading.Lock()

        def keep(place: int, answer: GeneratedText) -> None:
            row = open_rows[place]
            outcome = compare_texts(answer, passages[row].suffix, show_records=show_records)
            with lock:
                outcomes[names[row]] = outcome
                if journal is not None:
                    journal.parent.mkdir(parents=True, exist_ok=True)
                    with journal.open("a", encoding="utf-8") as file:  # a killed run may have left half a line
                        file.write("\n" + json.dumps([names[row], outcome]))
                progress(sum(name in outcomes for name in names))

        longest_suffix = max((len(passages[row].suffix) for row in open_rows), default=0)
        self.server.generate(prompts, _TOKENS_OF_A_WORD * longest_suffix + _SPARE_TOKENS, keep)
        return [outcomes[name] for name in names]

    def _make_prompt(self, document: str, passage: Passage) -> Prompt:
        dialogue = chats.parse_dialogue(document)
        if dialogue is None:
            return self.server.make_prompt(self.decode(passage.prefix))
        last = max(number for number, turn in enumerate(dialogue.turns) if turn.is_answer)
        return self.server.make_prompt(dialogue.turns[:last])


def split_words(text: str) -> list[str]:
    """Return words and signs, each with the white space before it.

    Examples:
        >>> split_words("It was a dark, stormy night.")
        ['It', ' was', ' a', ' dark', ',', ' stormy', ' night', '.']
    """
    return _WORD.findall(text)


def compare_texts(answer: GeneratedText, suffix: Sequence[str], *, show_records: bool = True) -> Outcome:
    """Compare an answer with the words that follow in the document, white space apart.

    Where the suffix stands anywhere in the answer it is given back: chat models may say something before it.
    """
    wanted = [word.strip() for word in suffix]
    words = [word.strip() for word in split_words(answer.text)]
    n = len(wanted)
    places = [place for place in range(len(words) - n + 1) if words[place : place + n] == wanted]
    first = places[0] if places else 0
    match = likeness(words[first : first + n], wanted)
    is_cut = answer.is_cut and not places and len(words) < n
    text = answer.text if show_records else None
    return Outcome(bool(places), match.longest, match.overlap, is_cut, answer.is_withheld, text)


def _read_journal(journal: Path | None) -> dict[str, Outcome]:
    if journal is None or not journal.exists():
        return {}
    outcomes = {}
    for line in store.read_text(journal, limit=store.MAX_LINES_BYTES).split("\n"):
        try:
            name, values = json.loads(line)
            outcomes[str(name)] = Outcome(*values)
        except (ValueError, TypeError):  # the last line of a killed run may be cut; it is asked again
            continue
    return outcomes


def describe_text_only(*sets: Sequence[Outcome]) -> list[str]:
    """Return what has to be known of answers that were compared as text."""
    outcomes = [outcome for side in sets for outcome in side]
    counts = {
        "were withheld by the server, and count as not given back": sum(each.is_withheld for each in outcomes),
        "ended before as many words as were asked for had come": sum(each.is_cut for each in outcomes),
    }
    return [
        "the server shows text alone, so only its likeliest answers were compared, word by word; how likely members "
        "are when answers are drawn, and what other prompts bring back, was not measured",
        *(f"{count} of {len(outcomes)} answers {reason}" for reason, count in counts.items() if count),
    ]


def require_greedy(decoding: object) -> None:
    """Raise where a server of texts is asked to draw.

    Raises:
        divulge.InputError: a decoding.
    """
    if decoding is not None:
        raise InputError("decoding: a server of texts is asked for its likeliest answer; what it draws is not measured")
