"""Token log-probabilities of documents of different lengths, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from divulge.errors import InputError
from divulge.validation import check_instance, check_labels, check_mask, check_matrix, check_vector

if TYPE_CHECKING:
    from typing import TypeAlias

    Floats: TypeAlias = NDArray[np.floating[Any]]

SEPARATOR = "\x1e"
"""Separates the documents of a person in one record (ASCII's record separator), see `divulge.people`."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenLogs:
    """Log-probabilities of the tokens of ``n`` documents, one document after the other, under a target and others.

    Args:
        offsets: document ``i`` has the tokens ``offsets[i]:offsets[i + 1]``, at least one, ``[n + 1]``.
        target: log-probability of each token under the target, ``[t]``.
        references: the same under each of ``m`` reference models, ``[m, t]``.
        wrong: bool ``[t]``, True where the target's likeliest token is another one; None if that is not known.

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
    wrong: NDArray[np.bool_] | None = None

    def __init__(self, offsets: object, target: object, references: object = None, wrong: object = None) -> None:
        checked_offsets = check_labels(offsets, "offsets")
        if checked_offsets[0] != 0 or (np.diff(checked_offsets) < 1).any():
            raise InputError("offsets: numbers that start at 0 and rise are needed (no document is empty)")
        n_tokens = int(checked_offsets[-1])
        object.__setattr__(self, "offsets", checked_offsets)
        checked_target = check_vector(target, "target", length=n_tokens)
        object.__setattr__(self, "target", _check_nonpositive(checked_target, "target"))
        if references is not None:
            references = _check_nonpositive(check_matrix(references, "references", columns=n_tokens), "references")
        object.__setattr__(self, "references", references)
        object.__setattr__(self, "wrong", None if wrong is None else check_mask(wrong, "wrong", (n_tokens,)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each document, ``[n]``."""
        return np.diff(self.offsets)

    @property
    def document(self) -> NDArray[np.int64]:
        """Number of the document of each token, ``[t]``."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def documents(self, rows: slice) -> TokenLogs:
        """Return the documents in ``rows``, a slice without a step."""
        start, stop, _ = rows.indices(len(self))
        begin, end = int(self.offsets[start]), int(self.offsets[stop])
        references = None if self.references is None else self.references[:, begin:end]
        wrong = None if self.wrong is None else self.wrong[begin:end].copy()
        return TokenLogs(self.offsets[start : stop + 1] - begin, self.target[begin:end].copy(), references, wrong)

    def mean(self, values: Floats) -> Floats:
        """Return the mean of ``values`` ``[t]`` over the tokens of each document, ``[n]``."""
        return np.add.reduceat(values, self.offsets[:-1]) / self.lengths


def _check_nonpositive(values: Floats, name: str) -> Floats:
    if values.size and (highest := float(values.max())) > 1e-3:  # A softmax in float32 may slightly exceed 0.
        raise InputError(f"{name}: log-probabilities, at most 0, are needed, got {highest:g}")
    return values


def check_token_logs(value: object, name: str, documents: int | None) -> TokenLogs | None:
    """Return ``value`` if it holds the token log-probabilities of so many documents, or is None.

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
