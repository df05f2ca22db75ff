"""Cut documents into a prompt and the suffix that follows it, in tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.settings import CutSettings
from divulge.validation import check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.targets import GivesContinuations

_CUT = CutSettings()


@dataclass(frozen=True, slots=True)
class Cut:
    """Settings for cutting documents into a prompt and a suffix.

    Args:
        prefix: number of tokens of the prompt, or its share of the document.
        suffix: number of tokens after the prompt that the model is to return.
        place: where prefix and suffix stand: at the "start" of the document, at its "end", or at a "random" place.

    Raises:
        divulge.InputError: fewer than 1 token, a share outside (0, 1), a share at another place than the start.

    Examples:
        >>> Cut(prefix=0.25, suffix=10).prompt_length(100)
        25
    """

    prefix: int | float = _CUT.prefix
    suffix: int = _CUT.suffix
    place: str = _CUT.place

    def __post_init__(self) -> None:
        CutSettings.check_attributes(self, "prefix")
        if not isinstance(self.prefix, float | np.floating):
            check_integer(self.prefix, "prefix", least=1)
            return
        check_number(self.prefix, "prefix", above=0, below=1)
        if self.place != "start":
            raise InputError(f"place: a share of the document starts at its start, got {self.place!r}")

    def prompt_length(self, n_tokens: int) -> int:
        """Return the number of prompt tokens of a document of ``n_tokens``."""
        if isinstance(self.prefix, float | np.floating):
            return max(int(self.prefix * n_tokens + 1e-9), 1)
        return self.prefix

    def prompt_start(self, n_tokens: int, text: str, seed: int) -> int:
        """Return the position of the first prompt token; a random one depends only on the document and the seed."""
        spare = n_tokens - self.prompt_length(n_tokens) - self.suffix
        if self.place == "random":
            return int(seeds.generator(seed, "place", text).integers(spare + 1))
        return spare if self.place == "end" else 0


@dataclass(frozen=True, slots=True)
class Passage:
    """The prompt and the suffix of one document.

    Args:
        row: row of the document in its set.
        prefix: token numbers of the prompt.
        suffix: token numbers of the suffix.
    """

    row: int
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    @property
    def tokens(self) -> tuple[int, ...]:
        """Prompt and suffix together."""
        return self.prefix + self.suffix


@dataclass(frozen=True, slots=True)
class Passages:
    """The passages of a set of documents.

    Args:
        passages: one for each document that is long enough.
        short: number of documents that are too short.
        shortened: number of prompts that lost their beginning because the model takes no more tokens.
    """

    passages: tuple[Passage, ...]
    short: int
    shortened: int


def cut_passages(
    target: GivesContinuations, texts: Sequence[str], cut: Cut, max_tokens: int, seed: int, name: str
) -> Passages:
    """Cut documents; a prompt loses its beginning where the model cannot take all of it.

    Args:
        target: the model whose tokenizer is used.
        texts: the documents.
        cut: how to cut them.
        max_tokens: tokens of prompt and suffix together that the model takes at most.
        seed: of random places.
        name: name of the argument, for errors.

    Raises:
        divulge.InputError: a suffix that leaves no room for a prompt, no document that is long enough.
    """
    if cut.suffix >= max_tokens:
        raise InputError(f"suffix: must be below {max_tokens}, the tokens that the model takes, got {cut.suffix}")
    passages, short, shortened = [], 0, 0
    for row, (text, tokens) in enumerate(zip(texts, target.encode(texts), strict=True)):
        prompt_length = cut.prompt_length(len(tokens))
        if len(tokens) < prompt_length + cut.suffix:
            short += 1
            continue
        split = cut.prompt_start(len(tokens), text, seed) + prompt_length
        n_prefix = min(prompt_length, max_tokens - cut.suffix)
        shortened += n_prefix < prompt_length
        passages.append(Passage(row, tokens[split - n_prefix : split], tokens[split : split + cut.suffix]))
    if not passages:
        required = (
            f"{cut.prefix} + {cut.suffix}"
            if cut.prompt_length(1) == cut.prefix
            else f"enough for {cut.suffix} + a prompt"
        )
        raise InputError(f"{name}: none of {len(texts)} documents has the tokens that are needed ({required})")
    return Passages(tuple(passages), short, shortened)
