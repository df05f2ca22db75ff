"""A claim of differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from divulge.validation import check_number

_LARGEST = 64.0  # ε; a larger one promises nothing that could be tested


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim that a training was (ε, δ)-differentially private, for one record added or removed.

    Args:
        epsilon: ε, in [0, 64].
        delta: δ, in [0, 1).

    Raises:
        divulge.InputError: numbers outside these bounds.

    Examples:
        >>> print(Claim(epsilon=8, delta=1e-5))
        (8, 1e-05)-DP
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_number(self.epsilon, "claim.epsilon", above=0.0, below=_LARGEST, closed=True)
        slack = check_number(self.delta, "claim.delta", above=0.0, below=1.0, closed=True)
        if slack:
            check_number(slack, "claim.delta", above=0.0, below=1.0)

    def __str__(self) -> str:
        return f"({self.epsilon:g}, {self.delta:g})-DP"

    def fnr(self, fpr: float) -> float:
        """The least false-negative rate that the claim allows at this false-positive rate."""
        steep = 1 - self.delta - exp(self.epsilon) * fpr
        return max(0.0, steep, exp(-self.epsilon) * (1 - self.delta - fpr))
