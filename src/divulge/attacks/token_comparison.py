"""Comparisons of two language models, token by token: in windows, and at the tokens that the target gets wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from divulge.attacks import protocol
from divulge.attacks.protocol import Attack, Need
from divulge.errors import InputError
from divulge.validation import as_list, check_bool, check_integer

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats, Ints

LENGTHS = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)
"""Lengths of the windows, in tokens."""
_MIN_ERRORS = 2  # tokens of a document that EZ needs


@dataclass(frozen=True, slots=True)
class WBC(Attack):
    """The share of sliding windows in which the target finds the text more likely than a reference model does.

    Chen et al. 2026 (arXiv:2601.02751): for each window length, the fraction of windows whose mean loss is lower
    under the target; then the mean over lengths. The reference is the model that the target was fine-tuned from. With
    several reference models the mean of their log-probabilities stands for one.

    A window longer than the document is cut to the document, so that short documents are judged too.

    Args:
        lengths: of the windows, in tokens.

    Raises:
        divulge.InputError: no length, or one below 1.

    Examples:
        >>> from divulge import Evidence
        >>> from divulge.types import TokenLogs
        >>> logs = TokenLogs([0, 3], [-1.0, -2.0, -1.0], [[-2.0, -1.0, -2.0]])
        >>> WBC((1, 3)).score(Evidence(target=[0.0], tokens=logs)).round(4)
        array([0.8333])
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES_BASE, Need.TOKENS})
    lengths: tuple[int, ...] = LENGTHS

    def __post_init__(self) -> None:
        lengths = tuple(
            check_integer(length, "WBC.lengths", minimum=1, maximum=10**9)
            for length in as_list(self.lengths, "WBC.lengths")
        )
        if not lengths:
            raise InputError("WBC.lengths: at least 1 length is needed, got none")
        object.__setattr__(self, "lengths", lengths)

    def score(self, evidence: Evidence) -> Floats:
        """Return the mean share of windows, ``[n]``, in [0, 1].

        Raises:
            divulge.InputError: no tokens, or none under reference models.
        """
        logs = protocol.part(evidence.tokens, "WBC", "tokens", "log-probabilities of each token")
        reference_logs = protocol.part(logs.references, "WBC", "tokens.references", "the same under a reference model")
        gain = logs.target - reference_logs.mean(axis=0, dtype=np.float64)
        return np.mean([_share_of_windows_won(gain, logs.offsets, length) for length in self.lengths], axis=0)


def _share_of_windows_won(gain: Floats, offsets: Ints, length: int) -> Floats:
    """Return the share of each document's windows of ``length`` tokens whose sum of ``gain`` is above 0, ``[n]``."""
    lengths = np.diff(offsets)
    window_lengths = np.minimum(lengths, length)
    windows = lengths - window_lengths + 1
    document = np.repeat(np.arange(len(lengths)), windows)
    window_starts = np.arange(len(document)) - np.repeat(np.cumsum(windows) - windows, windows) + offsets[document]
    # Added up afresh for each window: of differences of a running total, rounding would decide where gains cancel.
    sums, last_token = np.zeros(len(window_starts)), len(gain) - 1
    for place in range(int(window_lengths.max())):
        sums += np.where(place < window_lengths[document], gain[np.minimum(window_starts + place, last_token)], 0.0)
    return np.bincount(document, weights=sums > 0, minlength=len(lengths)) / windows


@dataclass(frozen=True, slots=True)
class EZ(Attack):
    """Gains over losses in log-probability, at the places where the target's likeliest token is another one.

    Ilić et al. 2026 (arXiv:2601.12104). With d the log-probability of a token under the target less that under the
    reference, and E the places of a document where the target is wrong, the score is Σ max(d, 0) / Σ max(-d, 0) over E.
    The reference is the model that the target was fine-tuned from. With several reference models the mean of their
    log-probabilities stands for one.

    As in the released code, the first scored token is left out, and a document has the score 0 where it has no loss or
    fewer than two errors. That is the lowest score of all, yet a document that gains at every error is among the surest
    members:

    >>> from divulge import Evidence
    >>> from divulge.types import TokenLogs
    >>> target = [-2.0, -1.0, -1.0, -2.0, -1.0, -3.0, -2.0, -3.0, -3.0]  # three documents, of tokens at -2 before
    >>> logs = TokenLogs([0, 3, 6, 9], target, [[-2.0] * 9], wrong=[True] * 9)
    >>> evidence = Evidence([0.0, 0.0, 0.0], tokens=logs)
    >>> EZ().score(evidence)  # it gains at both places, at one, at none
    array([0., 1., 0.])
    >>> EZ(smoothed=True).score(evidence).round(2)
    array([ 1.1,  0. , -1.1])

    Args:
        smoothed: log((Σ max(d, 0) + 1) / (Σ max(-d, 0) + 1)) over all of E instead. Ours: it has no such zero.

    Raises:
        divulge.InputError: a setting that is not True or False.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES_BASE, Need.TOKENS, Need.VOCABULARY})
    smoothed: bool = False

    def __post_init__(self) -> None:
        check_bool(self.smoothed, "EZ.smoothed")

    def score(self, evidence: Evidence) -> Floats:
        """Return the ratio, or the logarithm of the smoothed one, ``[n]``.

        Raises:
            divulge.InputError: no tokens, none under reference models, or not known where the target is wrong.
        """
        logs = protocol.part(evidence.tokens, "EZ", "tokens", "log-probabilities of each token")
        references = protocol.part(logs.references, "EZ", "tokens.references", "the same under a reference model")
        wrong = protocol.part(logs.wrong, "EZ", "tokens.wrong", "where the target's likeliest token is another one")
        if not self.smoothed:
            wrong = wrong.copy()
            wrong[logs.offsets[:-1]] = False
        gain = np.where(wrong, logs.target - references.mean(axis=0, dtype=np.float64), 0.0)
        gains, losses, errors = (
            np.add.reduceat(values, logs.offsets[:-1])
            for values in (np.maximum(gain, 0.0), np.maximum(-gain, 0.0), wrong.astype(np.int64))
        )
        if self.smoothed:
            return np.log1p(gains) - np.log1p(losses)
        has_ratio = (losses > 0) & (errors >= _MIN_ERRORS)
        with np.errstate(over="ignore"):
            ratio = gains / np.where(has_ratio, losses, 1.0)
        return np.where(has_ratio, np.minimum(ratio, np.finfo(np.float64).max), 0.0)
