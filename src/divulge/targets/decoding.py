"""How a language model is made to write, and how likely it then writes a given continuation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from divulge.errors import InputError
from divulge.validation import check_integer, check_labels, check_mask, check_number, check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Bools, Floats, Ints


_MOST_TOKENS = 10**9


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the next token is drawn: the temperature first, then the top k, then the top p, as `transformers` does.

    Args:
        temperature: logits are divided by it.
        top_k: only the k most likely tokens can be drawn; all when None.
        top_p: only the most likely tokens that together reach this share can be drawn; all when None.

    Raises:
        divulge.InputError: a temperature outside [0.01, 100], k below 1, a share outside (0, 1].

    Examples:
        >>> print(Decoding(temperature=0.8, top_k=40))
        temperature 0.8, top k 40
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        check_number(self.temperature, "temperature", above=0.01, below=100, closed=True)
        if self.top_k is not None:
            check_integer(self.top_k, "top_k", least=1, most=_MOST_TOKENS)
        if self.top_p is not None and check_number(self.top_p, "top_p", above=0, below=1, closed=True) == 0:
            raise InputError("top_p: must lie in (0, 1], got 0")

    def __str__(self) -> str:
        told = [f"temperature {self.temperature:g}"]
        told += [f"{name} {value:g}" for name, value in (("top k", self.top_k), ("top p", self.top_p)) if value]
        return ", ".join(told)


@dataclass(frozen=True, slots=True, eq=False)
class Continuations:
    """The tokens of ``n`` suffixes, each after its prefix, one suffix after the other, ``t`` tokens in all.

    Args:
        offsets: suffix ``i`` has the tokens ``offsets[i]:offsets[i + 1]``, ``[n + 1]``.
        logp: log-probability with which the token is drawn, ``[t]``; minus infinity where it never is.
        greedy: bool ``[t]``, True where the token is the most likely one (the first, if several are).

    Raises:
        divulge.InputError: arrays that do not fit each other.

    Examples:
        >>> two = Continuations([0, 2, 3], [-1.0, -0.5, -np.inf], np.array([True, True, False]))
        >>> two.log_p, two.verbatim
        (array([-1.5, -inf]), array([ True, False]))
    """

    offsets: Ints
    logp: Floats
    greedy: Bools

    def __post_init__(self) -> None:
        offsets = check_labels(self.offsets, "offsets")
        if offsets[0] != 0 or (np.diff(offsets) < 1).any():
            raise InputError("offsets: numbers that start at 0 and rise are needed")
        object.__setattr__(self, "offsets", offsets)
        if len(offsets) > 1:
            logp = check_vector(self.logp, "logp", length=int(offsets[-1]), finite=False)
            if np.isnan(logp).any() or (logp > 1e-5).any():
                raise InputError("logp: logarithms of probabilities are needed, some are NaN or above 0")
            object.__setattr__(self, "logp", np.minimum(logp, 0.0))
            object.__setattr__(self, "greedy", check_mask(self.greedy, "greedy", (int(offsets[-1]),)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Ints:
        """Number of tokens of each suffix, ``[n]``."""
        return np.diff(self.offsets)

    @property
    def log_p(self) -> Floats:
        """Logarithm of the probability of each suffix as a whole, ``[n]``."""
        return np.add.reduceat(self.logp, self.offsets[:-1]) if len(self) else np.empty(0)

    @property
    def verbatim(self) -> Bools:
        """Whether greedy decoding gives the whole suffix, ``[n]``."""
        return np.logical_and.reduceat(self.greedy, self.offsets[:-1]) if len(self) else np.empty(0, bool)


@runtime_checkable
class GivesContinuations(Protocol):
    """A language model that can be asked for continuations of a prompt, in its own tokens."""

    @property
    def length(self) -> int | None:
        """Tokens that it takes at most, prompt and continuation together."""
        ...

    @property
    def start(self) -> tuple[int, ...]:
        """The tokens that stand before every prompt: a BOS, or none."""
        ...

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of each text, without those of `start`."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        ...

    def continuations(
        self, prefixes: Sequence[Sequence[int]], suffixes: Sequence[Sequence[int]], *, decoding: Decoding | None = None
    ) -> Continuations:
        """How likely each suffix follows its prefix."""
        ...

    def greedy(self, prefixes: Sequence[Sequence[int]], tokens: int) -> list[tuple[int, ...]]:
        """The greedy continuation of each prefix, ``tokens`` long."""
        ...

    def key(self) -> Mapping[str, Any]:
        """What decides the numbers."""
        ...
