"""The simplest attack: the signal itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from divulge.attacks.protocol import Need, Scored

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats


@dataclass(frozen=True, slots=True)
class Threshold:
    """The target's signal is the score (LOSS attack: Yeom et al. 2018, arXiv:1709.01604).

    Needs no reference models. It cannot tell a memorised record from an easy one, so it is the
    baseline that every other attack has to beat.

    Examples:
        >>> from divulge import Evidence
        >>> Threshold().score(Evidence(target=[0.3, 0.9]))
        array([0.3, 0.9])
    """

    needs: ClassVar[frozenset[Need]] = frozenset()
    least_references: ClassVar[int] = 0

    def score(self, evidence: Evidence) -> Floats:
        """Return the signal of each candidate, ``[n]``."""
        return np.array(evidence.target, dtype=np.float64)

    def run(self, evidence: Evidence) -> Scored:
        """`score`, as an audit takes it."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> Threshold:
        """The same: it makes no random draws."""
        return self
