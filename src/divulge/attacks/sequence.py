"""The likelihood ratio over a document's tokens, whose deviations hang together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from divulge.attacks import needs
from divulge.attacks.protocol import Need, Scored
from divulge.errors import InputError

if TYPE_CHECKING:
    from divulge.ragged import TokenLogs
    from divulge.types import Evidence, Floats

_LEVELS = 16  # of how likely a token is, each with its own spread
_SMALLEST = 1e-12


@dataclass(frozen=True, slots=True)
class SequenceLiRA:
    """Offline LiRA on the tokens of a document, with the correlation between neighbours.

    The sum of a document's log-probabilities does not have the sum of their variances: what one model finds easier
    than another goes on for several tokens (Rossi et al. 2025, arXiv:2506.05126, who model the vector of losses as
    one Gaussian). Here the deviation of each token from the reference models' mean is divided by its spread, and the
    standardised deviations are taken as an autoregression of order one. The score is the test of a common shift of
    all of them, ``1ᵀR⁻¹z / √(1ᵀR⁻¹1)``: a standard normal for a non-member, were the model exact.

    The form of the covariance is ours: the spread of a token is that of all tokens that the reference models find as
    likely on average (few models say little about a single token's), and one correlation holds for all documents.

    Examples:
        >>> from divulge import Evidence
        >>> from divulge.ragged import TokenLogs
        >>> rng = np.random.default_rng(0)
        >>> others = -1 + 0.1 * rng.normal(size=(3, 40))
        >>> others -= others.max() + 1
        >>> own = others.mean(axis=0) + np.repeat([0.3, 0.0], 20)
        >>> scores = SequenceLiRA().score(Evidence(target=[0, 0], tokens=TokenLogs([0, 20, 40], own, others)))
        >>> bool(scores[0] > scores[1] + 5)
        True
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES_OUT, Need.TOKENS})
    least_references: ClassVar[int] = 2

    def score(self, evidence: Evidence) -> Floats:
        """Return the test's statistic, ``[n]``.

        Raises:
            divulge.InputError: no tokens, or fewer than 2 reference models.
        """
        logs = needs.part(evidence.tokens, "SequenceLiRA", "tokens", "log-probabilities of each token")
        reference_logs = needs.part(
            logs.references, "SequenceLiRA", "tokens.references", "the same under reference models"
        )
        if len(reference_logs) < self.least_references:
            raise InputError(f"SequenceLiRA: at least 2 reference models are needed, got {len(reference_logs)}")
        mean = reference_logs.mean(axis=0, dtype=np.float64)
        spread = _spread(reference_logs, mean)
        inside = np.ones(len(mean) - 1, dtype=bool)
        inside[logs.offsets[1:-1] - 1] = False  # pairs that lie in two documents
        rho = _correlation((reference_logs - mean) / spread, inside)
        standard = (logs.target - mean) / (spread * np.sqrt(1.0 + 1.0 / len(reference_logs)))
        return _shift_statistic(standard, logs, rho)

    def run(self, evidence: Evidence) -> Scored:
        """`score`, as an audit takes it."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> SequenceLiRA:
        """The same: it makes no random draws."""
        return self


def _spread(reference_logs: Floats, mean: Floats) -> Floats:
    """Standard deviation between models of tokens as likely as each, ``[t]``; 1 where nothing varies."""
    squares = ((reference_logs - mean) ** 2).sum(axis=0) / (len(reference_logs) - 1)
    edges = np.unique(np.quantile(mean, np.linspace(0.0, 1.0, _LEVELS + 1)[1:-1]))
    level = np.searchsorted(edges, mean, side="right")
    count = np.maximum(np.bincount(level, minlength=len(edges) + 1), 1)
    variance = np.bincount(level, weights=squares, minlength=len(edges) + 1) / count
    overall = squares.mean() if squares.mean() > _SMALLEST else 1.0
    return np.sqrt(np.where(variance > _SMALLEST, variance, overall))[level]


def _correlation(standard: Floats, inside: np.ndarray) -> float:
    """Of neighbouring tokens' deviations, in [0, 0.99]; 0 without any pair."""
    if not inside.any():
        return 0.0
    products = (standard[:, :-1] * standard[:, 1:])[:, inside].mean()
    return float(np.clip(products / max(float((standard**2).mean()), _SMALLEST), 0.0, 0.99))


def _shift_statistic(standard: Floats, logs: TokenLogs, rho: float) -> Floats:
    """``1ᵀR⁻¹z / √(1ᵀR⁻¹1)`` of each document, where ``R`` has ``rho`` to the power of the distance, ``[n]``."""
    # The row sums of R⁻¹ are 1 / (1 + ρ) at both ends and (1 - ρ) / (1 + ρ) between; 1 for a single token.
    weights = np.full(len(standard), (1.0 - rho) / (1.0 + rho))
    weights[logs.offsets[:-1]] = weights[logs.offsets[1:] - 1] = 1.0 / (1.0 + rho)
    weights[logs.offsets[:-1][logs.lengths == 1]] = 1.0
    starts = logs.offsets[:-1]
    return np.add.reduceat(weights * standard, starts) / np.sqrt(np.add.reduceat(weights, starts))
