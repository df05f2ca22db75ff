"""Difficulty calibration: what the target knows beyond what any model would know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from divulge.attacks import needs
from divulge.attacks.protocol import Need, Scored
from divulge.attacks.reference_moments import moments
from divulge.validation import check_choice

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Signal under the target minus the mean signal under reference models.

    Watson et al. 2022 (arXiv:2111.08440), equation 2. The mean is over the models that were not
    trained on the record; averaging over all of them subtracts part of what is looked for.

    Args:
        over: "out" (models not trained on the record, where ``trained_on`` is known) or "all".

    Examples:
        >>> from divulge import Evidence
        >>> Calibrated().score(Evidence(target=[3.0, 1.0], references=[[1.0, 1.0], [3.0, 0.0]]))
        array([1. , 0.5])
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES_OUT})
    least_references: ClassVar[int] = 1

    over: Literal["out", "all"] = "out"

    def __post_init__(self) -> None:
        check_choice(self.over, "Calibrated.over", ("out", "all"))

    def score(self, evidence: Evidence) -> Floats:
        """``target - mean(references)``, ``[n]``, in the unit of the signal.

        A record that every reference model was trained on is compared with the mean of all OUT values
        of all records: nothing is known of its own difficulty.

        Raises:
            divulge.InputError: no references, or no OUT model for any record.
        """
        references = needs.part(
            evidence.references, "Calibrated", "references", "signals of the candidates under reference models"
        )
        if self.over == "all":
            return evidence.target - moments(references).mean
        needs.out_models(evidence.trained_on, "Calibrated")
        out = moments(references, evidence.trained_on, complement=True)
        return evidence.target - np.where(out.count > 0, out.mean, out.grand_mean)

    def run(self, evidence: Evidence) -> Scored:
        """`score`, as an audit takes it."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> Calibrated:
        """The same: it makes no random draws."""
        return self
