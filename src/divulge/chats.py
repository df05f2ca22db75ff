"""Chats, and prompts with answers, as records: texts that know where their answers begin.

A record stays one string, so it is compared, split, hashed and stored as any other document. Marks in it (characters
that Unicode reserves for use inside programs) say whose turn begins and which turns a model was trained on;
`divulge.targets.CausalLM` renders them by the tokenizer's chat template, and scores the answers alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.errors import InputError
from divulge.types import SEPARATOR, Records
from divulge.validation import as_list, check_choice, format_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Noncharacters: no text holds them, and what reads words does not see them.
_CONTEXT, _ANSWER, _CONTENT, _FIELDS, _ALL = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3", "\ufdd4"
_MARKS = (_CONTEXT, _ANSWER, _CONTENT, _FIELDS, _ALL)
_CLEANED = str.maketrans(dict.fromkeys((*_MARKS, SEPARATOR), " "))
TOKENS = ("answer", "all")
# Names of roles that chat templates do not know; read in every chat, be its keys "role" and "content" or "from" and
# "value".
_ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant"}
_ASSISTANTS = ("assistant", "model")


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a chat, or the prompt or the answer of a document.

    Args:
        role: whose turn it is; empty in a prompt and its answer, which are joined as they stand.
        content: its text.
        is_answer: whether it is an answer.
        fields: what else the chat template is given of it, such as calls of tools.
    """

    role: str
    content: str
    is_answer: bool
    fields: Mapping[str, Any]

    @property
    def message(self) -> dict[str, Any]:
        """The turn as a chat template reads it."""
        return {"role": self.role, "content": self.content, **self.fields}


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A document of turns.

    Args:
        turns: in their order.
        tokens: which of its tokens are scored and trained on: of "answer"s alone, or "all".
    """

    turns: tuple[Turn, ...]
    tokens: str

    @property
    def is_chat(self) -> bool:
        """Whether turns have roles, so that a chat template puts them together."""
        return bool(self.turns[0].role)

    @property
    def shown_between(self) -> str:
        """What stands between two turns where the document is shown; nothing between a prompt and its answer."""
        return "\n" if self.is_chat else ""


def from_prompts(prompts: object, answers: object, *, tokens: str = "answer", ids: object = None) -> Records:
    """Return records of prompts and their answers, for a model that was tuned on the answers alone.

    A prompt and its answer are joined as they stand: a space or a template between them belongs to one of them.

    Args:
        prompts: ``n`` texts, or ``n`` lists of messages.
        answers: ``n`` texts, or ``n`` lists of messages, of which those of the assistant count.
        tokens: "answer" where the model was tuned on the answers alone, "all" where it was tuned on prompts too.
        ids: one unique identifier per record, or None.

    Raises:
        divulge.InputError: different numbers of both, an empty answer, no texts or messages.

    Examples:
        >>> records = from_prompts(["2 + 2 = ", "3 + 3 = "], ["4", "6"])
        >>> len(records), show_text(records.x[0])
        (2, '2 + 2 = 4')
    """
    prompt_list, answer_list = as_list(prompts, "prompts"), as_list(answers, "answers")
    if len(prompt_list) != len(answer_list):
        raise InputError(f"answers: {len(prompt_list)} are needed (one per prompt), got {len(answer_list)}")
    check_choice(tokens, "tokens", TOKENS)
    pairs = zip(prompt_list, answer_list, strict=True)
    return _as_records([mark_answer(*pair, tokens=tokens, row=row) for row, pair in enumerate(pairs)], ids)


def from_messages(messages: object, *, tokens: str = "answer", ids: object = None) -> Records:
    r"""Return records of chats, for a model that was tuned on the turns of the assistant alone.

    All turns of the assistant count, as with TRL's ``assistant_only_loss``. The tokenizer's chat template puts a chat
    together, with its special tokens once.

    Args:
        messages: ``n`` lists of messages, each with ``role`` and ``content`` (or ``from`` and ``value``), or such lists
            as JSON.
        tokens: "answer" where the model was tuned on the turns of the assistant alone, "all" where it was tuned on all
            tokens.
        ids: one unique identifier per record, or None.

    Raises:
        divulge.InputError: no lists of messages, contents that are no texts, a chat without a turn of the assistant.

    Examples:
        >>> chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
        >>> show_text(from_messages([chat]).x[0])
        'user: Hi\nassistant: Hello'
    """
    check_choice(tokens, "tokens", TOKENS)
    chats = as_list(messages, "messages")
    return _as_records([mark_turns(chat, tokens=tokens, row=row) for row, chat in enumerate(chats)], ids)


def _as_records(texts: Sequence[str], ids: object) -> Records:
    documents = np.empty(len(texts), dtype=object)
    documents[:] = texts
    return Records(documents, ids=ids)


def mark_answer(prompt: object, answer: object, *, tokens: str = "answer", row: int | str = 0) -> str:
    """Return a prompt and its answer as one text; arguments and errors as for `from_prompts`."""
    if not (isinstance(prompt, str) and isinstance(answer, str)):
        prompt, answer = _parse_json(prompt), _parse_json(answer)
    place = f"row {row}" if isinstance(row, int) else row
    if isinstance(prompt, str) and isinstance(answer, str):
        turns = [Turn("", prompt, False, {}), Turn("", answer, True, {})]
    elif isinstance(prompt, list | tuple | np.ndarray) and isinstance(answer, list | tuple | np.ndarray):
        turns = _read_turns(prompt, place, may_answer=False) + _read_turns(answer, place)
    else:
        named = "prompts" if isinstance(answer, str) else "answers"
        value = prompt if isinstance(answer, str) else answer
        raise InputError(f"{named}: {place}: a text is needed (or lists of messages), got {type(value).__name__}")
    return _encode_turns(turns, tokens, f"answers: {place}")


def mark_turns(chat: object, *, tokens: str = "answer", row: int | str = 0) -> str:
    """Return a chat as one text; arguments and errors as for `from_messages`."""
    place = f"row {row}" if isinstance(row, int) else row
    return _encode_turns(_read_turns(_parse_json(chat), place), tokens, f"messages: {place}")


def _parse_json(value: Any) -> Any:
    """Return the messages that a text of JSON holds, as chats are stored in CSV files; else the value."""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        try:
            parsed = json.loads(value)
        except ValueError:
            return value
        return parsed if parsed and all(isinstance(message, dict) for message in parsed) else value
    return value.to_list() if hasattr(value, "to_list") else value


def _read_turns(chat: object, place: str, *, may_answer: bool = True) -> list[Turn]:
    if not isinstance(chat, list | tuple | np.ndarray):
        raise InputError(
            f"messages: {place}: a list of messages with role and content is needed, got {type(chat).__name__}"
        )
    turns = []
    for message in chat:
        given = {key: value for key, value in message.items() if value is not None} if isinstance(message, dict) else {}
        role, content = (
            given.pop(key, given.pop(other, None)) for key, other in (("role", "from"), ("content", "value"))
        )
        if isinstance(content, list | tuple) and all(
            isinstance(part, dict) and part.get("type") == "text" for part in content
        ):
            content = "".join(str(part.get("text", "")) for part in content)
        if content is None and given:  # a call of a tool says nothing beside it
            content = ""
        if not isinstance(role, str) or not role.strip() or not isinstance(content, str):
            raise InputError(f"messages: {place}: each message needs a role, and a content that is a text")
        role = _ROLES.get(role, role)
        turns.append(Turn(role, content, may_answer and role in _ASSISTANTS, given))
    return turns


def _encode_turns(turns: Sequence[Turn], tokens: str, place: str) -> str:
    """Return turns as a text with marks.

    Raises:
        divulge.InputError: nothing that counts as an answer.
    """
    if not any(turn.is_answer and (turn.content.strip() or turn.fields) for turn in turns):
        roles = dict.fromkeys(turn.role for turn in turns if turn.role)
        found = f", its roles are {', '.join(map(format_value, roles))}" if roles else ""
        raise InputError(f"{place}: there is no answer{found}; leave it out")
    pieces = [_ALL if tokens == "all" else ""]
    for turn in turns:
        fields = _FIELDS + _format_fields(turn) if turn.fields else ""
        head, content = turn.role.translate(_CLEANED), turn.content.translate(_CLEANED)
        pieces += [_ANSWER if turn.is_answer else _CONTEXT, head, _CONTENT, content, fields]
    return "".join(pieces)


def _format_fields(turn: Turn) -> str:
    return json.dumps(turn.fields, ensure_ascii=False, sort_keys=True)


def parse_dialogue(text: str) -> Dialogue | None:
    """Return the turns of a document; None for one without marks.

    Examples:
        >>> [turn.content for turn in parse_dialogue(mark_answer("2 + 2 = ", "4")).turns]
        ['2 + 2 = ', '4']
    """
    if not text.startswith((_CONTEXT, _ANSWER, _ALL)):
        return None
    tokens, body = ("all", text[1:]) if text[0] == _ALL else ("answer", text)
    turns = []
    for piece in body.replace(_ANSWER, _CONTEXT + _ANSWER).split(_CONTEXT):
        if piece:
            head, _, rest = piece.partition(_CONTENT)
            content, _, fields = rest.partition(_FIELDS)
            role = head.removeprefix(_ANSWER)
            turns.append(Turn(role, content, head.startswith(_ANSWER), json.loads(fields) if fields else {}))
    return Dialogue(tuple(turns), tokens)


def to_lowercase(text: str) -> str:
    """Return a document with what its turns say in lower case; a template reads their roles and fields as they are."""
    dialogue = parse_dialogue(text)
    if dialogue is None:
        return text.lower()
    turns = [replace(turn, content=turn.content.lower()) for turn in dialogue.turns]
    return _encode_turns(turns, dialogue.tokens, "text")


def score_answers_only(text: str) -> str:
    """Return the document with ``tokens`` "answer", whatever they are: its answers alone are scored."""
    return text.removeprefix(_ALL)


def has_answers(texts: Sequence[str]) -> bool:
    """Return whether any of the documents knows where its answers begin."""
    return any(mark in text for text in texts for mark in (_CONTEXT, _ANSWER))


def scores_answers_alone(texts: Sequence[str]) -> bool:
    """Return whether in any of the records answers are scored and prompts are not."""
    return any(document.startswith((_CONTEXT, _ANSWER)) for text in texts for document in text.split(SEPARATOR))


def remove_marks(text: str) -> str:
    """Return a text of a file without what would be read as a mark."""
    return text.translate(_CLEANED)


def to_plain_texts(texts: Sequence[str], target: str) -> list[str]:
    """Return documents as plain texts, for a target that scores whole texts alone.

    Raises:
        divulge.InputError: chats, or answers that are to be scored alone.
    """
    dialogues = [dialogue for text in texts if (dialogue := parse_dialogue(text)) is not None]
    if any(dialogue.is_chat or dialogue.tokens == "answer" for dialogue in dialogues):
        raise InputError(
            f"target: {target} scores whole texts: it neither tells answers from prompts nor puts a chat together. A "
            "model that runs here does (divulge.targets.CausalLM), and prompts with answers can be whole texts "
            '(tokens = "all")'
        )
    return list(map(show_text, texts)) if dialogues else list(texts)


def find_answer_spans(text: str) -> list[tuple[int, int]]:
    """Return where each answer of a document begins and ends in the text that `show_text` shows.

    Examples:
        >>> find_answer_spans(mark_answer("2 + 2 = ", "4"))
        [(8, 9)]
    """
    dialogue = parse_dialogue(text)
    if dialogue is None:
        return []
    spans, start = [], 0
    for turn in dialogue.turns:
        before, content, after = _format_turn(turn)
        start += len(before)
        end = start + len(content)
        if turn.is_answer:
            spans.append((start, end))
        start = end + len(after) + len(dialogue.shown_between)
    return spans


def show_text(text: str) -> str:
    """Return a record as it is shown to people: documents below each other, and each turn under its role."""
    documents = []
    for document in text.split(SEPARATOR):
        dialogue = parse_dialogue(document)
        if dialogue is None:
            documents.append(document)
        else:
            documents.append(dialogue.shown_between.join("".join(_format_turn(turn)) for turn in dialogue.turns))
    return "\n".join(documents)


def _format_turn(turn: Turn) -> tuple[str, str, str]:
    """Return what is shown before the content of a turn, the content, and what is shown after it."""
    return f"{turn.role}: " if turn.role else "", turn.content, f" {_format_fields(turn)}" if turn.fields else ""


def extract_scored_text(text: str) -> str:
    """Return what is scored of a document: its answers, or all of it where it does not tell them apart."""
    dialogue = parse_dialogue(text)
    if dialogue is None or dialogue.tokens == "all":
        return show_text(text)
    return "\n".join(turn.content for turn in dialogue.turns if turn.is_answer)
