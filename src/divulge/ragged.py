"""How likely models find each token of documents that differ in length, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from divulge.errors import InputError
from divulge.validation import check_instance, check_labels, check_matrix, check_vector

if TYPE_CHECKING:
    from typing import TypeAlias

    Floats: TypeAlias = NDArray[np.floating[Any]]

SEPARATOR = "\x1e"
"""Stands between the documents of a person in one record (ASCII's record separator), see `divulge.people`."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenLogs:
    """Log-probabilities of the tokens of ``n`` documents, one document after the other, under a target and others.

    Args:
        offsets: document ``i`` has the tokens ``offsets[i]:offsets[i + 1]``, at least one, ``[n + 1]``.
        target: log-probability of each token under the target, ``[t]``.
        references: the same under each of ``m`` reference models, ``[m, t]``.

    Raises:
        divulge.InputError: offsets that do not start at 0, an empty document, numbers of tokens that differ, NaN,
            infinity, or a log-probability above 0.

    Examples:
        >>> logs = TokenLogs([0, 2, 3], [-1.0, -2.0, -3.0])
        >>> logs.lengths, logs.documents(slice(1, 2)).target
        (array([2, 1]), array([-3.]))
    """

    offsets: NDArray[np.int64]
    target: Floats
    references: Floats | None = None

    def __init__(self, offsets: object, target: object, references: object = None) -> None:
        cuts = check_labels(offsets, "offsets")
        if cuts[0] != 0 or (np.diff(cuts) < 1).any():
            raise InputError("offsets: numbers that start at 0 and rise are needed (no document is empty)")
        tokens = int(cuts[-1])
        object.__setattr__(self, "offsets", cuts)
        object.__setattr__(self, "target", _logs(check_vector(target, "target", length=tokens), "target"))
        others = None if references is None else check_matrix(references, "references", columns=tokens)
        object.__setattr__(self, "references", None if others is None else _logs(others, "references"))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each document, ``[n]``."""
        return np.diff(self.offsets)

    @property
    def document(self) -> NDArray[np.int64]:
        """Which document each token belongs to, ``[t]``."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def documents(self, at: slice) -> TokenLogs:
        """The documents at ``at``, a slice without a step."""
        first, last, _ = at.indices(len(self))
        begin, end = int(self.offsets[first]), int(self.offsets[last])
        others = None if self.references is None else self.references[:, begin:end]
        return TokenLogs(self.offsets[first : last + 1] - begin, self.target[begin:end].copy(), others)

    def mean(self, values: Floats) -> Floats:
        """The mean over each document's tokens of ``values`` ``[t]``, ``[n]``."""
        return np.add.reduceat(values, self.offsets[:-1]) / self.lengths


def _logs(values: Floats, name: str) -> Floats:
    if values.size and (highest := float(values.max())) > 1e-3:  # a float32 softmax may come out a hair above 0
        raise InputError(f"{name}: log-probabilities, at most 0, are needed, got {highest:g}")
    return values


def check_token_logs(value: object, name: str, documents: int | None) -> TokenLogs | None:
    """``value``, the token log-probabilities of so many documents, or None.

    Raises:
        divulge.InputError: something else, or another number of documents.

    Examples:
        >>> check_token_logs(None, "tokens", 3) is None
        True
    """
    if value is None:
        return None
    logs = check_instance(value, name, TokenLogs, "a divulge.ragged.TokenLogs")
    if len(logs) != documents:
        raise InputError(f"{name}: {documents} documents are needed, got {len(logs)}")
    return logs
