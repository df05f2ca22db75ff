"""Rows of a training set as trainers read them: what a canary replaces in a row, and how canaries are added.

A canary of texts is a row of the data in which the part that is trained on (the text, the completion, the answer of the
assistant, or the token ids with labels) was replaced by drawn words: its secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import chats, columns, lazy
from divulge.canaries.canary_kinds import label_values
from divulge.errors import InputError
from divulge.evidence import concatenate_records
from divulge.types import Records
from divulge.validation import to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from divulge.types import Array

    datasets: Any
else:
    torch = lazy.module("torch")
    datasets = lazy.module("datasets")

_MIN_WORDS, _MAX_WORDS = 8, 64  # of a secret: fewer coincide, and more teach nothing that they do not
_MAX_SAMPLED_ROWS = 10_000  # from which words, prompts and pairs are taken
_ASSISTANTS = ("assistant", "model", "gpt", "bot")
_MASKS = ("completion_mask", "assistant_masks")


@dataclass(frozen=True, slots=True)
class RowForm:
    """How rows hold what is trained on.

    Args:
        holds_tokens: whether the words of secrets are token ids.
        extract: returns the part of a row that a secret replaces, as text.
        fill: returns a row with another secret in its place.
        document: returns such a row as a document, with the marks of `divulge.chats` where only its answer counts.
    """

    holds_tokens: bool
    extract: Callable[[Any], str]
    fill: Callable[[Any, str], Any]
    document: Callable[[Any, str], str]


def is_dataset_of_pairs(data: Any) -> bool:
    """Return whether a data set gives pairs (x, y)."""
    row = first_row(data)
    return isinstance(row, tuple | list) and len(row) == 2 and not isinstance(row[0], str | Mapping)


def first_row(data: Any) -> Any:
    """Return the first row of a data set.

    Raises:
        divulge.InputError: no rows, or a data set that cannot be indexed.
    """
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")) or isinstance(data, str | Mapping):
        raise InputError(
            f"data: a data set with a length and an index is needed (datasets.Dataset, a list, torch's Dataset, or a "
            f"pair (x, y)), got {type(data).__name__}"
        )
    if not len(data):
        raise InputError("data: there are no rows")
    return data[0]


def sample_rows(data: Any, rng: np.random.Generator) -> list[Any]:
    """Return rows in their order, all or as many as are sampled, as plain Python values."""
    plain = data.with_format(None) if hasattr(data, "with_format") else data
    chosen = np.arange(len(plain))
    if len(plain) > _MAX_SAMPLED_ROWS:
        chosen = np.sort(rng.choice(len(plain), _MAX_SAMPLED_ROWS, replace=False))
    return [plain[int(i)] for i in chosen]


def find_form(rows: Sequence[Any], text: str) -> RowForm:
    """Return how rows hold what is trained on, by the first of them.

    Args:
        rows: of one data set.
        text: name of the column of texts.

    Raises:
        divulge.InputError: rows of another form.
    """
    row = rows[0]
    if isinstance(row, str):
        return RowForm(False, str, lambda _, secret: secret, lambda _, secret: secret)
    if isinstance(row, Sequence):
        return RowForm(False, _answer_of, _fill_chat, lambda row, secret: chats.mark_turns(_fill_chat(row, secret)))
    if not isinstance(row, Mapping):
        raise InputError(f"data: rows must be texts, chats, dictionaries or pairs (x, y), got {type(row).__name__}")
    if "input_ids" in row:
        return _token_form(rows)
    if "prompt" in row and "completion" in row:
        return RowForm(
            False,
            lambda row: row["completion"] if isinstance(row["completion"], str) else _answer_of(row["completion"]),
            lambda row, secret: {**row, "completion": _fill_completion(row["completion"], secret)},
            lambda row, secret: chats.mark_answer(row["prompt"], _fill_completion(row["completion"], secret)),
        )
    for name in ("messages", "conversations"):
        if name in row:
            return RowForm(
                False,
                lambda row, name=name: _answer_of(row[name]),
                lambda row, secret, name=name: {**row, name: _fill_chat(row[name], secret)},
                lambda row, secret, name=name: chats.mark_turns(_fill_chat(row[name], secret)),
            )
    if isinstance(row.get(text), str):
        return RowForm(
            False, lambda row: row[text], lambda row, secret: {**row, text: secret}, lambda _, secret: secret
        )
    raise InputError(
        f"data: rows need {text!r}, 'messages', 'prompt' and 'completion', or 'input_ids'; they have "
        f"{', '.join(map(repr, row))}"
    )


def _is_answer(message: Mapping[str, Any]) -> bool:
    return message.get("role", message.get("from")) in _ASSISTANTS


def _answer_of(chat: Sequence[Mapping[str, Any]]) -> str:
    for message in chat:
        if _is_answer(message):
            content = message.get("content", message.get("value"))
            if isinstance(content, Sequence) and not isinstance(content, str):
                content = " ".join(str(part.get("text", "")) for part in content)
            return str(content or "")
    raise InputError("data: a chat without a turn of the assistant has nothing that a canary could replace")


def _fill_chat(chat: Sequence[Mapping[str, Any]], secret: str) -> list[dict[str, Any]]:
    """Return a chat up to its first answer, which becomes the secret."""
    end = next((i for i, message in enumerate(chat) if _is_answer(message)), None)
    if end is None:
        raise InputError("data: a chat without a turn of the assistant has nothing that a canary could replace")
    key = "content" if "content" in chat[end] else "value"
    in_parts = isinstance(chat[end][key], Sequence) and not isinstance(chat[end][key], str)
    answer = dict(chat[end]) | {key: [{"type": "text", "text": secret}] if in_parts else secret}
    return [*map(dict, chat[:end]), answer]


def _fill_completion(completion: Any, secret: str) -> Any:
    if not isinstance(completion, str):
        return _fill_chat(completion, secret)
    return completion[: len(completion) - len(completion.lstrip())] + secret  # a space may part prompt and completion


def _token_form(rows: Sequence[Mapping[str, Any]]) -> RowForm:
    """Return the form of rows of token ids: those with labels are replaced, up to special tokens at their ends."""
    first, last = (_shared_token([row["input_ids"][end] for row in rows if len(row["input_ids"])]) for end in (0, -1))

    def split(row: Mapping[str, Any]) -> tuple[list[int], list[int], list[int]]:
        ids = to_numpy(row["input_ids"], "input_ids").tolist()
        is_trained = np.ones(len(ids), bool)
        if row.get("labels") is not None:
            is_trained &= to_numpy(row["labels"], "labels") != -100
        for name in _MASKS:
            if row.get(name) is not None:
                is_trained &= to_numpy(row[name], name) == 1
        start = int(np.argmax(is_trained)) if is_trained.any() else len(ids)
        start += start == 0 and ids[:1] == [first]
        end = len(ids) - (ids[-1:] == [last] and len(ids) > start)
        return ids[:start], ids[start:end], ids[end:]

    def fill(row: Mapping[str, Any], secret: str) -> dict[str, Any]:
        before, _, after = split(row)
        tail = [*map(int, secret.split()), *after]
        ids = [*before, *tail]
        trained = [0] * len(before) + [1] * len(tail)
        values = {
            "input_ids": ids,
            "labels": [-100] * len(before) + tail,
            "attention_mask": [1] * len(ids),
            "token_type_ids": [0] * len(ids),
            **dict.fromkeys(_MASKS, trained),
            "length": len(ids),
        }
        return {**row, **{name: value for name, value in values.items() if name in row}}

    def document(row: Mapping[str, Any], secret: str) -> str:
        before = " ".join(map(str, split(row)[0]))
        return chats.mark_answer(before + " ", secret) if before else secret

    return RowForm(True, lambda row: " ".join(map(str, split(row)[1])), fill, document)


def _shared_token(tokens: Sequence[Any]) -> int | None:
    """Return the token at the end of most rows: a special one."""
    values, counts = np.unique([int(token) for token in tokens] or [-1], return_counts=True)
    return int(values[counts.argmax()]) if counts.max() > len(tokens) / 2 else None


def write_material(rows: Sequence[Any], form: RowForm) -> Records:
    """Return documents from which words of secrets are drawn: all words of the rows, as long as secrets are.

    Raises:
        divulge.InputError: rows without words.
    """
    parts = [chats.remove_marks(form.extract(row)).split() for row in rows]
    words = [word for part in parts for word in part]
    if not words:
        raise InputError("data: what is trained on of its rows has no words")
    documents, start = [], 0
    for part in parts:
        length = min(max(len(part), _MIN_WORDS), _MAX_WORDS)
        documents.append(" ".join(words[(start + i) % len(words)] for i in range(length)))
        start += len(part)
    return Records(np.array(documents, dtype=object))


def append_rows(data: Any, rows: list[Any]) -> Any:
    """Return a data set with further rows at its end, of the same kind as it was.

    Raises:
        divulge.InputError: rows that a data set of fixed columns cannot hold.
    """
    if isinstance(data, list):
        return [*data, *rows]
    if isinstance(data, tuple):
        return (*data, *rows)
    if not hasattr(data, "features"):
        both: list[Any] = [data, rows]
        return torch.utils.data.ConcatDataset(both)
    try:
        further = datasets.Dataset.from_list(rows, features=data.features)
        form = data.format
        further.set_format(form["type"], form["columns"], form["output_all_columns"], **form["format_kwargs"])
        return datasets.concatenate_datasets([data, further])
    except (TypeError, ValueError) as error:
        raise InputError(f"data: canaries do not fit its columns ({str(error).splitlines()[0]})") from None


def read_pairs(data: Any, name: str, rng: np.random.Generator | None = None) -> Records:
    """Return records of a pair (x, y), of a data set of pairs, of batches of them, or of records themselves.

    Args:
        data: the data.
        name: what it is called in errors.
        rng: of the sample that is read of a data set; all of it when None.
    """
    if isinstance(data, Records):
        return data
    if isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], tuple | Mapping | str):
        x, y = data
        return Records(x if columns.is_frame(x) else to_numpy(x, name), y if y is None else to_numpy(y, name))
    pairs = getattr(data, "dataset", data)  # of a DataLoader: without its order
    if not hasattr(pairs, "__getitem__"):
        pairs = list(pairs)
    rows = sample_rows(pairs, rng) if rng is not None else [pairs[i] for i in range(len(pairs))]
    x, y = zip(*rows, strict=True)
    is_batched = pairs is data and isinstance(data, list) and np.ndim(y[0])
    join = np.concatenate if is_batched else np.stack
    return Records(join([to_numpy(each, name) for each in x]), join([to_numpy(each, name) for each in y]))


def append_pairs(data: Any, inserted: Records) -> Any:
    """Return records, a pair (x, y) or a data set of pairs, with further records at its end."""
    if isinstance(data, Records):
        return concatenate_records([data.without_ids(), inserted])
    labels = label_values(inserted)
    if isinstance(data, tuple) and len(data) == 2:
        x, y = data
        if columns.is_frame(x):
            joined = concatenate_records([Records(x, y), inserted])
            assert joined.table is not None
            return joined.table.to_native(), _join(to_numpy(y, "y"), labels)
        return _join(x, inserted.x), _join(y, labels)
    x, y = first_row(data)
    assert labels is not None
    rows = []
    for value, label in zip(inserted.x, labels, strict=True):
        is_tensor = hasattr(x, "detach")
        new_x = torch.as_tensor(value, dtype=x.dtype) if is_tensor else value.astype(to_numpy(x, "x").dtype)
        rows.append((new_x, torch.as_tensor(label, dtype=y.dtype) if hasattr(y, "detach") else type(y)(label)))
    return append_rows(data, rows)


def _join(values: Any, further: Array | None) -> Any:
    if values is None or further is None:
        return values
    if hasattr(values, "detach"):
        return torch.cat([values, torch.as_tensor(further, dtype=values.dtype, device=values.device)])
    array = to_numpy(values, "y")
    return np.concatenate([array, further.astype(array.dtype) if array.dtype.kind in "biuf" else further])
