"""Attacks that fit nothing: the target's signal, alone, less that of other models, or followed through training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from divulge.attacks import protocol
from divulge.attacks.protocol import Attack, Need
from divulge.attacks.reference_moments import moments
from divulge.errors import InputError
from divulge.validation import check_choice, check_matrix, check_number

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats


@dataclass(frozen=True, slots=True)
class Threshold(Attack):
    """The target's signal is the score (LOSS attack: Yeom et al. 2018, arXiv:1709.01604).

    Needs no reference models. It cannot tell a memorised record from an easy one, so it is the
    baseline that every other attack has to beat.

    Examples:
        >>> from divulge import Evidence
        >>> Threshold().score(Evidence(target=[0.3, 0.9]))
        array([0.3, 0.9])
    """

    needs: ClassVar[frozenset[Need]] = frozenset()

    def score(self, evidence: Evidence) -> Floats:
        """Return the signal of each candidate, ``[n]``."""
        return np.array(evidence.target, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Calibrated(Attack):
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
        references = protocol.part(
            evidence.references, "Calibrated", "references", "signals of the candidates under reference models"
        )
        if self.over == "all":
            return evidence.target - moments(references).mean
        protocol.out_models(evidence.trained_on, "Calibrated")
        out = moments(references, evidence.trained_on, complement=True)
        return evidence.target - np.where(out.count > 0, out.mean, out.grand_mean)


@dataclass(frozen=True, slots=True)
class Substitute(Attack):
    """Mean log-probability of the true class under substitute models, or the target's own signal where that is lower.

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

    def score(self, evidence: Evidence) -> Floats:
        """Return the smaller of the target's signal and the substitutes' mean, ``[n]``, in nats; at most 0.

        Raises:
            divulge.InputError: no references, or a positive signal.
        """
        description = "log-probabilities of the true class under substitutes of the target"
        references = protocol.part(evidence.references, "Substitute", "references", description)
        protocol.log_probabilities(evidence.target, references, "Substitute", "label-loss")
        return np.minimum(evidence.target, moments(references, spread=False).mean)


def at_risk(losses: object, *, low: float = 0.25, high: float = 0.75) -> Floats:
    """Return how far each record's loss moved during training: LT-IQR, the interquartile range of its loss trace.

    Pollock et al. 2024 (arXiv:2411.05743). A record that was learnt late, and learnt in the end, gives itself away
    more than one that was easy from the start. No model but the one in training is needed, and no record outside the
    training set. This ranks members; it does not tell them from others, and it bounds nothing.

    Args:
        losses: of each training record after each epoch, ``[epochs, records]``, at least 2 epochs.
        low: lower quantile.
        high: upper quantile.

    Returns:
        float64 ``[records]``, larger = more at risk, in the unit of the losses.

    Raises:
        divulge.InputError: NaN or infinity, fewer than 2 epochs, quantiles outside [0, 1] or not in order.

    Examples:
        >>> at_risk([[2.0, 2.0], [1.5, 0.1], [1.0, 0.1], [0.1, 0.0], [0.1, 0.0]])
        array([1.4, 0.1])
    """
    traces = check_matrix(losses, "losses")
    if len(traces) < 2:
        raise InputError(f"losses: at least 2 epochs are needed, got {len(traces)}")
    check_number(low, "low", above=0, below=1, closed=True)
    check_number(high, "high", above=0, below=1, closed=True)
    if low >= high:
        raise InputError(f"low: must be less than high, got {low:g} and {high:g}")
    lower, upper = np.quantile(traces.astype(np.float64, copy=False), (low, high), axis=0)
    return upper - lower
