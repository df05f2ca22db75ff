"""Documents as token ids, and which of these stand in answers: chats are rendered by the tokenizer's chat template."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from divulge import chats
from divulge.errors import InputError
from divulge.store import panic_errors
from divulge.validation import format_exception

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.chats import Dialogue, Turn

_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")  # with which a template marks what the assistant says


@dataclass(frozen=True, slots=True)
class EncodedDocument:
    """A document as a model reads it.

    Args:
        ids: its tokens, special ones included.
        in_answer: whether each token stands in an answer; None where all of them are scored.
    """

    ids: list[int]
    in_answer: list[bool] | None = None

    def head(self, length: int) -> EncodedDocument:
        """Return the first ``length`` tokens."""
        return EncodedDocument(self.ids[:length], None if self.in_answer is None else self.in_answer[:length])

    @property
    def n_scored(self) -> int:
        """Number of tokens that are scored; nothing comes before the first, which has no score."""
        return max(len(self.ids) - 1, 0) if self.in_answer is None else sum(self.in_answer[1:])


@panic_errors("tokenizer")
def encode_document(tokenizer: Any, text: str, bos: str) -> EncodedDocument:
    """Return the tokens of a document, and which of them stand in answers.

    The answers begin where trainers let the loss begin (TRL: ``completion_only_loss``, ``assistant_only_loss``): after
    the tokens that what stands before has by itself; of a chat after the header of the assistant's turn, up to the end
    of the turn. A chat template that marks what the assistant says is followed. A token that holds the end of a prompt
    and the beginning of its answer counts as one of the answer.

    Args:
        tokenizer: of a model.
        text: a document, with the marks of `divulge.chats` where it has answers.
        bos: a policy of `divulge.targets.CausalLM`. The special tokens of a chat are those of its template.

    Raises:
        divulge.InputError: a chat, and a tokenizer without a chat template or with one that refuses it.
    """
    dialogue = chats.parse_dialogue(text)
    if dialogue is not None and dialogue.is_chat:
        return _encode_chat(tokenizer, dialogue, bos)
    whole = text if dialogue is None else "".join(turn.content for turn in dialogue.turns)
    ids = [tokenizer.bos_token_id] if bos == "add" else []
    ids += _tokenize(tokenizer, whole, add_special_tokens=bos == "tokenizer")
    if dialogue is None or dialogue.tokens == "all":
        return EncodedDocument(ids)
    content = _tokenize(tokenizer, whole)
    n_before = _count_leading(ids, content) + _count_shared(content, _tokenize(tokenizer, dialogue.turns[0].content))
    return EncodedDocument(ids, [False] * n_before + [True] * (len(ids) - n_before))


def _count_leading(ids: Sequence[int], content: Sequence[int]) -> int:
    """Return how many special tokens stand before those of the text itself; what stands after it is of the answer."""
    n_special = len(ids) - len(content)
    return next((start for start in range(n_special + 1) if ids[start : start + len(content)] == content), 0)


def _count_shared(ids: Sequence[int], before: Sequence[int]) -> int:
    """Return how many tokens both begin with."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(ids, before, strict=False)))


def _tokenize(tokenizer: Any, text: str, *, add_special_tokens: bool = False) -> list[int]:
    return list(tokenizer(text, add_special_tokens=add_special_tokens, verbose=False)["input_ids"])


def render_chat(tokenizer: Any, dialogue: Dialogue) -> tuple[str, list[tuple[int, int]]]:
    """Return a chat as its template writes it, and where each answer begins and ends in that text."""
    text = _apply_template(tokenizer, dialogue.turns, generation=False)
    spans, done = [], 0
    for number, turn in enumerate(dialogue.turns):
        if turn.is_answer:
            start, end = _find_answer(tokenizer, dialogue.turns, number, text, done)
            spans.append((start, end))
            done = end
    return text, spans


def _find_answer(tokenizer: Any, turns: Sequence[Turn], number: int, text: str, done: int) -> tuple[int, int]:
    """Return where an answer begins and ends in a rendered chat.

    The chat up to it, with the header of the assistant's turn, is how the rendered chat begins, but for templates that
    write later turns otherwise; there the words of the answer are looked for.
    """
    try:
        before = _apply_template(tokenizer, turns[:number], generation=True) if number else ""
        until = _apply_template(tokenizer, turns[: number + 1], generation=False)
    except InputError:
        before = until = ""
    content = turns[number].content.strip()
    start = len(before) if before and text.startswith(before) else text.find(content, done)
    if start < 0 or not (content or before):
        raise InputError(
            "tokenizer: its chat template changes answers, so they cannot be told from prompts; mark them in it by "
            '{% generation %}, or set tokens = "all"'
        )
    return start, len(until) if until and text.startswith(until) else start + len(content)


def _apply_template(tokenizer: Any, turns: Sequence[Turn], *, generation: bool) -> str:
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(
            "tokenizer: it has no chat template, and chats are put together by one; set tokenizer.chat_template as it "
            "was in training, or name the columns of prompt and answer"
        )
    messages = [turn.message for turn in turns]
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generation))
    except Exception as error:  # whatever a template raises, which is code of the tokenizer
        raise InputError(f"tokenizer: its chat template refuses a chat ({format_exception(error)})") from None


def _encode_chat(tokenizer: Any, dialogue: Dialogue, bos: str) -> EncodedDocument:
    template = getattr(tokenizer, "chat_template", None)
    counts_all_turns = all(turn.is_answer == (turn.role == "assistant") for turn in dialogue.turns)
    if dialogue.tokens == "all":
        ids = _tokenize(tokenizer, _apply_template(tokenizer, dialogue.turns, generation=False))
        in_answer = None
    elif isinstance(template, str) and _GENERATION.search(template) and counts_all_turns and tokenizer.is_fast:
        encoding = tokenizer.apply_chat_template(
            [turn.message for turn in dialogue.turns],
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        ids, in_answer = list(encoding["input_ids"]), [bool(mask) for mask in encoding["assistant_masks"]]
    else:
        text, spans = render_chat(tokenizer, dialogue)
        ids = _tokenize(tokenizer, text)
        in_answer = [False] * len(ids)
        for start, end in spans:
            first, last = _count_shared(ids, _tokenize(tokenizer, text[:start])), len(_tokenize(tokenizer, text[:end]))
            in_answer[first:last] = [True] * (min(last, len(ids)) - first)
    if bos == "add" and ids[:1] != [tokenizer.bos_token_id]:
        return EncodedDocument([tokenizer.bos_token_id, *ids], None if in_answer is None else [False, *in_answer])
    return EncodedDocument(ids, in_answer)


@panic_errors("tokenizer")
def find_answer_tokens(tokenizer: Any, text: str, bos: str, document: EncodedDocument) -> list[tuple[int, int]]:
    """Return where each scored token of answers begins and ends in the text that `divulge.chats.show_text` shows.

    What a template writes after an answer, such as the end of a turn, is nowhere: it begins and ends where that ends.

    Args:
        tokenizer: a fast one.
        text: a document with answers.
        bos: a policy of `divulge.targets.CausalLM`.
        document: its tokens.
    """
    dialogue = chats.parse_dialogue(text)
    shown = chats.find_answer_spans(text)
    if dialogue is None or not dialogue.is_chat:
        whole, starts = chats.show_text(text), [place for place, _ in shown]
    else:
        whole, rendered = render_chat(tokenizer, dialogue)
        answers = [turn.content for turn in dialogue.turns if turn.is_answer]
        indents = [len(answer) - len(answer.lstrip()) for answer in answers]  # which templates may leave out
        starts = [
            whole.find(answer.strip(), start) - indent
            for answer, indent, (start, _) in zip(answers, indents, rendered, strict=True)
        ]
    special = bos == "tokenizer" and not (dialogue is not None and dialogue.is_chat)
    encoding = tokenizer(whole, add_special_tokens=special, return_offsets_mapping=True, verbose=False)
    offsets = [(0, 0)] * (len(document.ids) - len(encoding["input_ids"])) + list(encoding["offset_mapping"])
    spans, number, done = [], 0, 0
    for (start, end), is_scored in list(zip(offsets, document.in_answer or (), strict=False))[1:]:
        if is_scored and shown:
            while number + 1 < len(shown) and start >= starts[number + 1]:
                number += 1
            (low, high), shift = shown[number], starts[number]
            places = [min(max(low + place - shift, done, low), max(high, done)) for place in (start, end)]
            spans.append((places[0], places[1]))
            done = places[1]
    return spans
