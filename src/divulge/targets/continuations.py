"""A causal language model goes on from a prompt: how likely with given tokens, and with which when greedy.

Documents are turned into tokens once and cut between two of them, so no token of a suffix depends on where the cut is.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from divulge.errors import InputError, missing_extra
from divulge.store import panic_errors
from divulge.targets.decoding import Continuations, Decoding
from divulge.targets.pretrained import known_tokens
from divulge.targets.token_reduction import drawn
from divulge.targets.token_windows import Window, batches
from divulge.validation import check_instance, check_integer

try:
    import torch
except ImportError:  # pragma: no cover - exercised by the light install
    raise missing_extra("torch", "text") from None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_DECODING = "a divulge.targets.Decoding"


class Batched(Protocol):
    """What this file needs of a `divulge.targets.CausalLM`."""

    @property
    def model(self) -> Any:
        """The `transformers` model."""

    @property
    def length(self) -> int | None:
        """Longest stretch given to it."""

    @property
    def budget(self) -> int | None:
        """Tokens in a batch."""

    def side_by_side(
        self, work: Sequence[Sequence[Window]], reducing: Callable[..., torch.Tensor]
    ) -> Iterator[Sequence[np.ndarray]]:
        """What ``reducing`` makes of each batch."""


@panic_errors("tokenizer")
def start(tokenizer: Any, bos: str) -> tuple[int, ...]:
    """The tokens that a tokenizer puts before a text under one of the policies of `CausalLM`."""
    if bos == "add":
        return (tokenizer.bos_token_id,)
    if bos == "none":
        return ()
    whole, plain = (tokenizer("a", add_special_tokens=special)["input_ids"] for special in (True, False))
    places = range(len(whole) - len(plain) + 1)
    return tuple(whole[: next((at for at in places if whole[at : at + len(plain)] == plain), 0)])


@panic_errors("tokenizer")
def encode(tokenizer: Any, texts: Sequence[str]) -> list[tuple[int, ...]]:
    """The tokens of each text, without special ones around them.

    Raises:
        divulge.InputError: something that is not a string.
    """
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InputError("texts: a sequence of strings is needed")
    return [tuple(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]) for text in texts]


def score(
    target: Batched,
    prefixes: Sequence[Sequence[int]],
    suffixes: Sequence[Sequence[int]],
    decoding: Decoding | None = None,
) -> Continuations:
    """The log-probability of each token of a suffix after its prefix and the suffix's tokens before it.

    Batches, windows and precision are those of `CausalLM.tokens`: documents of similar length together, padding on the
    right, logits cast up before the softmax.

    Args:
        target: the model.
        prefixes: token ids, at least one each; `CausalLM.start` belongs to them where the model is used with it.
        suffixes: token ids, at least one each, as many as there are prefixes.
        decoding: how tokens are drawn; as the model says when None.

    Raises:
        divulge.InputError: an empty prefix or suffix, more tokens than the model takes, ids that it does not have.
    """
    chosen = Decoding() if decoding is None else check_instance(decoding, "decoding", Decoding, _DECODING)
    if len(prefixes) != len(suffixes):
        raise InputError(f"suffixes: {len(prefixes)} are needed (one per prefix), got {len(suffixes)}")
    for number, (prefix, suffix) in enumerate(zip(prefixes, suffixes, strict=True)):
        _refuse(target, number, prefix, suffix)
    cut = [
        Window(number, 0, (*prefix, *suffix), len(prefix) - 1)
        for number, (prefix, suffix) in enumerate(zip(prefixes, suffixes, strict=True))
    ]
    work = list(batches(cut, target.budget or 1))
    rows: list[np.ndarray] = [np.empty((2, 0))] * len(cut)
    for batch, parts in zip(work, target.side_by_side(work, partial(drawn, decoding=chosen)), strict=True):
        for window, part in zip(batch, parts, strict=True):
            rows[window.document] = part
    joined = np.concatenate(rows, axis=1) if rows else np.empty((2, 0))
    offsets = np.append(0, np.cumsum([part.shape[1] for part in rows], dtype=np.int64))
    return Continuations(offsets, joined[0].astype(np.float64), joined[1] > 0)


def _refuse(target: Batched, number: int, prefix: Sequence[int], suffix: Sequence[int]) -> None:
    for name, tokens in (("prefixes", prefix), ("suffixes", suffix)):
        if not len(tokens):
            raise InputError(f"{name}: at least 1 token is needed, entry {number} has none")
        if min(tokens) < 0:
            raise InputError(f"{name}: tokens are numbers from 0 on, entry {number} has {min(tokens)}")
    known_tokens(target.model, [prefix, suffix])
    if len(prefix) + len(suffix) > (target.length or 0):
        raise InputError(
            f"prefixes: entry {number} has {len(prefix) + len(suffix)} tokens with its suffix, the model takes at most "
            f"{target.length}"
        )


@torch.inference_mode()
def greedy(target: Batched, prefixes: Sequence[Sequence[int]], tokens: int) -> list[tuple[int, ...]]:
    """The most likely token again and again, ``tokens`` of them after each prefix; an end of text does not stop it.

    Prefixes of one length go together, so there is no padding.

    Raises:
        divulge.InputError: an empty prefix, more tokens than the model takes.
    """
    count = check_integer(tokens, "tokens", least=1)
    for number, prefix in enumerate(prefixes):
        _refuse(target, number, prefix, [0] * count)
    made: list[tuple[int, ...]] = [()] * len(prefixes)
    order = sorted(range(len(prefixes)), key=lambda at: len(prefixes[at]))
    for length, same in groupby(order, key=lambda at: len(prefixes[at])):
        places = list(same)
        step = max((target.budget or 1) // (length + count), 1)
        for first in range(0, len(places), step):
            some = places[first : first + step]
            for at, row in zip(some, _go_on(target.model, [prefixes[at] for at in some], count), strict=True):
                made[at] = tuple(row)
    return made


def _go_on(model: Any, prefixes: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """Greedy continuations of prefixes of one length; keys and values are kept where the model keeps any."""
    whole = given = torch.tensor([list(prefix) for prefix in prefixes], device=model.device)
    kept = None
    for _ in range(count):
        answer = model(input_ids=given, past_key_values=kept, use_cache=True)
        following = answer.logits[:, -1].float().argmax(-1, keepdim=True)
        whole = torch.cat([whole, following.to(whole.device)], dim=1)
        kept = getattr(answer, "past_key_values", None)
        given = whole if kept is None else whole[:, -1:]
    return whole[:, -count:].tolist()
