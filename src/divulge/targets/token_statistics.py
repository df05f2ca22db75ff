"""Per-token statistics of documents under a language model: what a forward pass is reduced to."""

from __future__ import annotations

import itertools
import zlib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from divulge import chats, people, types
from divulge.errors import InputError
from divulge.settings import DecodingSettings
from divulge.store import panic_errors
from divulge.targets import chat_templates
from divulge.validation import check_array, check_labels, check_mask, check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.targets.chat_templates import EncodedDocument
    from divulge.types import Bools, Floats, Ints


# What is kept of the distribution over the vocabulary at each token, beside the token's own log-probability.
VOCABULARY = ("entropy", "variance", "modified_entropy", "renyi_half", "renyi_two", "renyi_inf")
PER_TOKEN = ("logp", *VOCABULARY)


@dataclass(frozen=True, slots=True, eq=False)
class TokenStatistics:
    """Statistics of ``n`` documents with ``t`` scored tokens in all, one document after the other.

    All logarithms are natural; ``p`` is the model's distribution over the vocabulary at a token. A
    document without scored tokens (empty, or one token without a BOS before it) keeps its place.

    Args:
        offsets: document ``i`` has the tokens ``offsets[i]:offsets[i + 1]``, ``[n + 1]``.
        zlib_bytes: size of the UTF-8 text under zlib, ``[n]``.
        logp: log-probability of the token that stands there, ``[t]``.
        entropy: ``-Σ p log p``, ``[t]``; None for targets that do not show the distribution.
        variance: of ``log p`` under ``p``, ``[t]``.
        modified_entropy: ``-(1 - p_y) log p_y - Σ_{k≠y} p_k log(1 - p_k)`` (Song & Mittal 2021), ``[t]``.
        renyi_half: Rényi entropy of order ½, ``2 log Σ √p``, ``[t]``.
        renyi_two: of order 2, ``-log Σ p²``, ``[t]``.
        renyi_inf: of order ∞, ``-log max p``, ``[t]``.
        skipped: place of each document that the model could not take → why.

    Examples:
        >>> stats = TokenStatistics(np.array([0, 2, 2]), np.array([9, 8]), logp=np.array([-1.0, -3.0]))
        >>> len(stats), stats.lengths
        (2, array([2, 0]))
    """

    offsets: Ints
    zlib_bytes: Ints
    logp: Floats
    entropy: Floats | None = None
    variance: Floats | None = None
    modified_entropy: Floats | None = None
    renyi_half: Floats | None = None
    renyi_two: Floats | None = None
    renyi_inf: Floats | None = None
    skipped: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        offsets = check_labels(self.offsets, "offsets")
        if offsets[0] != 0 or (np.diff(offsets) < 0).any():
            raise InputError("offsets: numbers that start at 0 and never fall are needed")
        object.__setattr__(self, "offsets", offsets)
        for name, length in (("zlib_bytes", len(offsets) - 1), *((name, int(offsets[-1])) for name in PER_TOKEN)):
            values = getattr(self, name)
            if values is not None or name not in VOCABULARY:
                column = check_array(values, name, finite=False)
                if column.shape != (length,):
                    raise InputError(f"{name}: {length} values are needed, got shape {column.shape}")
                object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.zlib_bytes)

    @property
    def lengths(self) -> Ints:
        """Number of scored tokens of each document, ``[n]``."""
        return np.diff(self.offsets)

    @classmethod
    def from_documents(
        cls, texts: Sequence[str], rows: Sequence[Mapping[str, Floats]], skipped: Mapping[int, str] | None = None
    ) -> TokenStatistics:
        """Build statistics from one mapping of name to values per document; all have the same names.

        Raises:
            divulge.InputError: a row whose columns differ in length.
        """
        lengths = [len(row["logp"]) for row in rows]
        if any(len(values) != length for row, length in zip(rows, lengths, strict=True) for values in row.values()):
            raise InputError("token statistics: the columns of a document differ in length")
        names = [name for name in PER_TOKEN if rows and name in rows[0]]
        joined = {name: np.concatenate([np.asarray(row[name], np.float64) for row in rows]) for name in names}
        joined.setdefault("logp", np.empty(0))
        return cls(
            np.append(0, np.cumsum(lengths, dtype=np.int64)), compressed_sizes(texts), **joined, skipped=skipped or {}
        )

    def rows(self) -> dict[str, list[Floats]]:
        """Return each available statistic, split into documents."""
        columns = {part.name: getattr(self, part.name) for part in fields(self) if part.name in PER_TOKEN}
        cuts = self.offsets[1:-1]
        return {name: np.split(values, cuts) for name, values in columns.items() if values is not None}


def compressed_sizes(texts: Sequence[str]) -> Ints:
    """Return the bytes of each text, as UTF-8, under zlib; of its answers where it tells them apart.

    Examples:
        >>> compressed_sizes(["", "aaaaaaaaaaaaaaaaaaaaaaaa"])
        array([ 8, 11])
    """
    return np.array([len(zlib.compress(chats.extract_scored_text(text).encode())) for text in texts], np.int64)


@runtime_checkable
class GivesTokens(Protocol):
    """A language model that can be asked how likely the tokens of a text are."""

    def tokens(self, texts: Sequence[str], *, vocabulary: bool = True) -> TokenStatistics:
        """Statistics of each text, in the order given; without ``vocabulary``, log-probabilities are enough."""
        ...

    def key(self) -> Mapping[str, Any]:
        """Return what determines the numbers: model revision, tokenizer, BOS policy, truncation, dtype."""
        ...


@runtime_checkable
class ReadsAnswers(Protocol):
    """A language model that knows of documents with answers which of its tokens these are, see `divulge.chats`."""

    def encode_documents(self, texts: Sequence[str]) -> list[EncodedDocument]:
        """Return the token ids of each text and which of them are scored."""
        ...


_DECODING = DecodingSettings()


@dataclass(frozen=True, slots=True)
class Decoding:
    """Sampling of the next token: the temperature first, then the top k, then the top p, as `transformers` does.

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

    temperature: float = _DECODING.temperature
    top_k: int | None = _DECODING.top_k
    top_p: float | None = _DECODING.top_p

    def __post_init__(self) -> None:
        DecodingSettings.check_attributes(self)

    def __str__(self) -> str:
        parts = [f"temperature {self.temperature:g}"]
        parts += [f"{name} {value:g}" for name, value in (("top k", self.top_k), ("top p", self.top_p)) if value]
        return ", ".join(parts)


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
        """Largest number of tokens that the model takes, prompt and continuation together."""
        ...

    @property
    def start(self) -> tuple[int, ...]:
        """The tokens that stand before every prompt: a BOS, or none."""
        ...

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the tokens of each text, without those of `start`."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        ...

    def continuations(
        self, prefixes: Sequence[Sequence[int]], suffixes: Sequence[Sequence[int]], *, decoding: Decoding | None = None
    ) -> Continuations:
        """Return how likely each suffix follows its prefix."""
        ...

    def greedy(self, prefixes: Sequence[Sequence[int]], tokens: int) -> list[tuple[int, ...]]:
        """Return the greedy continuation of each prefix, ``tokens`` long."""
        ...

    def key(self) -> Mapping[str, Any]:
        """Return what determines the numbers."""
        ...


def token_ends(target: GivesTokens, record: str) -> list[int] | None:
    """Return where in ``record`` each scored token ends, never falling; None where the target does not show it.

    Args:
        target: a language model.
        record: one document, or several of one person; places are those of the text that is shown of it
            (`divulge.chats.show_text`).
    """
    spans = token_spans(target, record)
    return None if spans is None else [end for _, end in spans]


def token_spans(target: GivesTokens, record: str) -> list[tuple[int, int]] | None:
    """Return where each scored token begins and ends, as `token_ends`; none begins before the last one ended."""
    spans, offset = [], 0
    for text in people.split_record(record):
        document_spans = _document_token_spans(target, text)
        if document_spans is None:
            return None
        spans += [(offset + start, offset + end) for start, end in document_spans]
        offset += len(chats.show_text(text)) + len(types.SEPARATOR)
    return spans


def _document_token_spans(target: GivesTokens, text: str) -> list[tuple[int, int]] | None:
    tokenizer: Any = getattr(target, "tokenizer", None)
    if not getattr(tokenizer, "is_fast", False):
        return None
    bos = getattr(target, "bos", "tokenizer")
    dialogue = chats.parse_dialogue(text)
    if dialogue is not None and dialogue.tokens == "answer":
        if not isinstance(target, ReadsAnswers):
            return None
        (document,) = target.encode_documents([text])
        return chat_templates.find_answer_tokens(tokenizer, text, bos, document)
    if dialogue is not None and dialogue.is_chat:
        return None  # what its template writes around the turns is not shown
    text = chats.show_text(text)
    with panic_errors("tokenizer"):
        encoding = tokenizer(text, add_special_tokens=bos == "tokenizer", return_offsets_mapping=True, verbose=False)
    places = [end for _, end in encoding["offset_mapping"]]
    if bos != "add":
        places = places[1:]  # nothing comes before the first token, so it has no score
    if getattr(target, "truncation", "") == "head":
        places = places[: int(getattr(target, "length", None) or len(places) + 1) - 1]
    ends = list(itertools.accumulate(places, max))
    return list(zip([0, *ends[:-1]], ends, strict=False))
