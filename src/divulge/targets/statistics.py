"""Per-token statistics of documents under a language model: what a forward pass is reduced to."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from divulge.errors import InputError
from divulge.validation import check_array, check_labels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Floats, Ints

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
            given = getattr(self, name)
            if given is not None or name not in VOCABULARY:
                object.__setattr__(self, name, _check_column(given, name, length))

    def __len__(self) -> int:
        return len(self.zlib_bytes)

    @property
    def lengths(self) -> Ints:
        """Number of scored tokens of each document, ``[n]``."""
        return np.diff(self.offsets)

    @classmethod
    def of(
        cls, texts: Sequence[str], rows: Sequence[Mapping[str, Floats]], skipped: Mapping[int, str] | None = None
    ) -> TokenStatistics:
        """From one mapping of name to values per document; all have the same names.

        Raises:
            divulge.InputError: a row whose columns differ in length.
        """
        lengths = [len(row["logp"]) for row in rows]
        if any(len(values) != length for row, length in zip(rows, lengths, strict=True) for values in row.values()):
            raise InputError("token statistics: the columns of a document differ in length")
        names = [name for name in PER_TOKEN if rows and name in rows[0]]
        joined = {name: np.concatenate([np.asarray(row[name], np.float64) for row in rows]) for name in names}
        joined.setdefault("logp", np.empty(0))
        return cls(np.append(0, np.cumsum(lengths, dtype=np.int64)), compressed_sizes(texts), **joined, skipped=skipped or {})

    def rows(self) -> dict[str, list[Floats]]:
        """Each statistic that is there, cut into documents."""
        columns = {part.name: getattr(self, part.name) for part in fields(self) if part.name in PER_TOKEN}
        cuts = self.offsets[1:-1]
        return {name: np.split(values, cuts) for name, values in columns.items() if values is not None}


def _check_column(value: object, name: str, length: int) -> Floats | Ints:
    """Numbers ``[length]``, where there may be none at all."""
    values = check_array(value, name, finite=False)
    if values.shape != (length,):
        raise InputError(f"{name}: {length} values are needed, got shape {values.shape}")
    return values


def compressed_sizes(texts: Sequence[str]) -> Ints:
    """Bytes of each text, as UTF-8, under zlib.

    Examples:
        >>> compressed_sizes(["", "aaaaaaaaaaaaaaaaaaaaaaaa"])
        array([ 8, 11])
    """
    return np.array([len(zlib.compress(text.encode())) for text in texts], np.int64)


@runtime_checkable
class GivesTokens(Protocol):
    """A language model that can be asked how likely the tokens of a text are."""

    def tokens(self, texts: Sequence[str], *, vocabulary: bool = True) -> TokenStatistics:
        """Statistics of each text, in the order given; without ``vocabulary``, log-probabilities are enough."""
        ...

    def key(self) -> Mapping[str, Any]:
        """What decides the numbers: model revision, tokenizer, BOS policy, truncation, dtype."""
        ...
