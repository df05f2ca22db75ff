"""The transfer attack: a model that learned from the target's labels answers in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from divulge.attacks import needs
from divulge.attacks.protocol import Need, Scored
from divulge.attacks.reference_moments import moments

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats


@dataclass(frozen=True, slots=True)
class Substitute:
    """How probable substitutes of the target find the true class, where the target finds it at all.

    Li & Zhang 2021 (arXiv:2007.15528), the transfer attack, as the code published with it computes the score: the
    smaller the loss of a substitute, the more like a member, and a record that the target tells wrong is less like one
    than all that it tells right. The evidence holds the "label-loss" signal: of the target 0 or -800, of the references
    ``log p(y)``. They are models trained on the auditor's records as the target labels them. The paper trains one; of
    several the mean loss counts.

    No substitute ever learned from a candidate. What they know of membership is how the target's answers differ near
    its members, and whether the target tells the record itself right.

    Examples:
        >>> from divulge import Evidence
        >>> right, wrong = 0.0, -800.0
        >>> evidence = Evidence([right, right, wrong], references=[[-1.0, -5.0, -1.0], [-3.0, -5.0, -1.0]])
        >>> Substitute().score(evidence)
        array([  -2.,   -5., -800.])
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES_SUBSTITUTES})
    least_references: ClassVar[int] = 1

    def score(self, evidence: Evidence) -> Floats:
        """Return the smaller of the target's signal and the substitutes' mean, ``[n]``, in nats; at most 0.

        Raises:
            divulge.InputError: no references, or a positive signal.
        """
        description = "log-probabilities of the true class under substitutes of the target"
        references = needs.part(evidence.references, "Substitute", "references", description)
        needs.log_probabilities(evidence.target, references, "Substitute", "label-loss")
        return np.minimum(evidence.target, moments(references, spread=False).mean)

    def run(self, evidence: Evidence) -> Scored:
        """`score`, as an audit takes it."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> Substitute:
        """The same: it makes no random draws."""
        return self
