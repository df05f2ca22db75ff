"""Documents cut into a prompt and what follows it, in tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.validation import check_choice, check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.targets import GivesContinuations

PLACES = ("start", "end", "random")


@dataclass(frozen=True, slots=True)
class Cut:
    """Where documents are cut.

    Args:
        prefix: tokens of the prompt, or the share of the document that it is.
        suffix: tokens after it that the model is to give back.
        place: where prefix and suffix stand: at the "start" of the document, at its "end", or at a "random" place.

    Raises:
        divulge.InputError: fewer than 1 token, a share outside (0, 1), a share at another place than the start.

    Examples:
        >>> Cut(prefix=0.25, suffix=10).prompt(100)
        25
    """

    prefix: int | float = 50
    suffix: int = 50
    place: str = "start"

    def __post_init__(self) -> None:
        check_choice(self.place, "place", PLACES)
        check_integer(self.suffix, "suffix", least=1)
        if not isinstance(self.prefix, float | np.floating):
            check_integer(self.prefix, "prefix", least=1)
            return
        check_number(self.prefix, "prefix", above=0, below=1)
        if self.place != "start":
            raise InputError(f"place: a share of the document starts at its start, got {self.place!r}")

    def prompt(self, tokens: int) -> int:
        """Return the tokens of the prompt of a document with so many tokens."""
        if isinstance(self.prefix, float | np.floating):
            return max(int(self.prefix * tokens + 1e-9), 1)
        return self.prefix

    def first(self, tokens: int, text: str, seed: int) -> int:
        """Return the token at which the prompt begins; a random one depends on the document and the seed alone."""
        spare = tokens - self.prompt(tokens) - self.suffix
        if self.place == "random":
            return int(seeds.generator(seed, "place", text).integers(spare + 1))
        return spare if self.place == "end" else 0


@dataclass(frozen=True, slots=True)
class Passage:
    """A prompt and what follows it.

    Args:
        row: place of the document in its set.
        prefix: tokens of the prompt.
        suffix: the tokens after it.
    """

    row: int
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    @property
    def tokens(self) -> tuple[int, ...]:
        """Both together."""
        return self.prefix + self.suffix


@dataclass(frozen=True, slots=True)
class Passages:
    """The passages of a set of documents.

    Args:
        cut: one a document that is long enough.
        short: documents that are too short.
        shortened: prompts of which the beginning was left out, as the model takes no more.
    """

    cut: tuple[Passage, ...]
    short: int
    shortened: int


def cut_passages(
    target: GivesContinuations, texts: Sequence[str], cut: Cut, room: int, seed: int, name: str
) -> Passages:
    """Cut documents; the prompt loses its beginning where the model cannot take all of it.

    Args:
        target: whose tokens they are.
        texts: the documents.
        cut: where.
        room: tokens of prompt and suffix that the model takes at most.
        seed: of random places.
        name: of the argument, for errors.

    Raises:
        divulge.InputError: a suffix that leaves no room for a prompt, no document that is long enough.
    """
    if cut.suffix >= room:
        raise InputError(f"suffix: must be below {room}, the tokens that the model takes, got {cut.suffix}")
    found, short, shortened = [], 0, 0
    for row, (text, tokens) in enumerate(zip(texts, target.encode(texts), strict=True)):
        prompt = cut.prompt(len(tokens))
        if len(tokens) < prompt + cut.suffix:
            short += 1
            continue
        middle = cut.first(len(tokens), text, seed) + prompt
        n_prefix = min(prompt, room - cut.suffix)
        shortened += n_prefix < prompt
        found.append(Passage(row, tokens[middle - n_prefix : middle], tokens[middle : middle + cut.suffix]))
    if not found:
        needed = (
            f"{cut.prefix} + {cut.suffix}" if cut.prompt(1) == cut.prefix else f"enough for {cut.suffix} + a prompt"
        )
        raise InputError(f"{name}: none of {len(texts)} documents has the tokens that are needed ({needed})")
    return Passages(tuple(found), short, shortened)
