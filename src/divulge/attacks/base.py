"""BASE: the target's log-probability beyond what reference models expect of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from divulge.attacks import needs
from divulge.attacks.protocol import Need, Scored
from divulge.attacks.ratio import log_mean
from divulge.validation import check_choice, check_number

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats


@dataclass(frozen=True, slots=True)
class BASE:
    """``log p_target - logsumexp_r log p_r + log R``: the approximate Bayes-optimal attack.

    Lassila et al. 2025 (arXiv:2505.24089). The evidence holds the "negative-loss" signal, ``log p(y)``. Online, the
    mean runs over all reference models, of which about half were trained on the record. Offline it runs over the
    models that were not, and the published code multiplies it by a constant, .33, in place of the IN models that are
    missing; their softmax temperature of 2 is not applied here. Online it is `LogRatio` over all models.

    Args:
        mode: "offline" (OUT models only; every reference is one when ``trained_on`` is None) or "online".
        scale: factor on the reference models' mean, offline, in [0, 1]; 0 is the LOSS attack, 1 is `LogRatio`.

    Raises:
        divulge.InputError: a setting out of its range.

    Examples:
        >>> from divulge import Evidence
        >>> BASE().score(Evidence(target=[-0.1, -2.0], references=[[-1.0, -3.0], [-1.0, -3.0]])).round(2)
        array([ 0.23, -1.01])
    """

    least_references: ClassVar[int] = 1

    mode: Literal["offline", "online"] = "offline"
    scale: float = 0.33

    def __post_init__(self) -> None:
        check_choice(self.mode, "BASE.mode", ("offline", "online"))
        check_number(self.scale, "BASE.scale", above=0, below=1, closed=True)

    @property
    def needs(self) -> frozenset[Need]:
        """Reference models, of the kind that ``mode`` says."""
        return needs.references_for_mode(self.mode)

    def score(self, evidence: Evidence) -> Floats:
        """Log-probability beyond what is expected, ``[n]``, in nats.

        A record that every reference model was trained on is compared with the mean over all records.

        Raises:
            divulge.InputError: no references, a positive signal, or offline no OUT model for any record.
        """
        description = "log-probabilities of the true class under reference models"
        references = needs.part(evidence.references, "BASE", "references", description)
        needs.log_probabilities(evidence.target, references, "BASE")
        if self.mode == "online":
            return evidence.target - log_mean(references, None)
        needs.out_models(evidence.trained_on, "BASE")
        return evidence.target - self.scale * log_mean(references, evidence.trained_on)

    def run(self, evidence: Evidence) -> Scored:
        """`score`, as an audit takes it."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> BASE:
        """The same: it makes no random draws."""
        return self
