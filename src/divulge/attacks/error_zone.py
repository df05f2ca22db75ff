"""Error-zone comparison of two language models: at the tokens that the target itself would not have put there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from divulge.attacks import protocol
from divulge.attacks.protocol import Need, Scored
from divulge.validation import check_bool

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats

_LEAST_ERRORS = 2


@dataclass(frozen=True, slots=True)
class EZ:
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
    least_references: ClassVar[int] = 1

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
        has_ratio = (losses > 0) & (errors >= _LEAST_ERRORS)
        with np.errstate(over="ignore"):
            ratio = gains / np.where(has_ratio, losses, 1.0)
        return np.where(has_ratio, np.minimum(ratio, np.finfo(np.float64).max), 0.0)

    def run(self, evidence: Evidence) -> Scored:
        """Return `score` as a `Scored`."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> EZ:
        """Return the attack itself: it makes no random draws."""
        return self
