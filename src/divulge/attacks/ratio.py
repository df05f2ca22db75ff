"""The likelihood ratio behind RMIA, without a population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from divulge import checks
from divulge.attacks import needs
from divulge.attacks.protocol import Need, Scored

if TYPE_CHECKING:
    from divulge.types import Bools, Evidence, Floats


@dataclass(frozen=True, slots=True)
class LogRatio:
    """``log p_target(y|x) - log mean_r p_r(y|x)``, the ratio of Zarifzadeh et al. 2024, eq. 2, in logarithms.

    RMIA then counts the population records that a candidate's ratio exceeds, which is a monotone function
    of the ratio; where ratios are to be averaged (over completions of one record) or must not tie, the
    ratio itself is wanted. The evidence holds the "negative-loss" signal.

    Args:
        over: "out" (models not trained on the record, where ``trained_on`` is known) or "all" (online: about
            half of the models were trained on it).

    Examples:
        >>> from divulge import Evidence
        >>> LogRatio().score(Evidence(target=[-0.1, -2.0], references=[[-1.0, -2.0], [-1.0, -2.0]]))
        array([0.9, 0. ])
    """

    least_references: ClassVar[int] = 1

    over: Literal["out", "all"] = "out"

    def __post_init__(self) -> None:
        checks.choice(self.over, "LogRatio.over", ("out", "all"))

    @property
    def needs(self) -> frozenset[Need]:
        """Reference models, of the kind that ``over`` says."""
        return frozenset({Need.REFERENCES_OUT if self.over == "out" else Need.REFERENCES_IN_AND_OUT})

    def score(self, evidence: Evidence) -> Floats:
        """The logarithm of the ratio, ``[n]``.

        A record that every reference model was trained on is compared with the mean over all records.

        Raises:
            divulge.InputError: no references, a positive signal, or no OUT model for any record.
        """
        references = needs.part(
            evidence.references, "LogRatio", "references", "log-probabilities of the true class under reference models"
        )
        for values, name in ((evidence.target, "target"), (references, "references")):
            if values.max() > 0:
                raise checks.InputError(
                    f"LogRatio: evidence.{name} must hold log-probabilities, at most 0, got {values.max():g}; "
                    "use the 'negative-loss' signal"
                )
        if self.over == "all" or evidence.trained_on is None:
            return evidence.target - _log_mean(references, np.ones(references.shape, dtype=bool))
        needs.out_models(evidence.trained_on, "LogRatio")
        return evidence.target - _log_mean(references, ~evidence.trained_on)

    def run(self, evidence: Evidence) -> Scored:
        """`score`, as an audit takes it."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> LogRatio:
        """The same: it makes no random draws."""
        return self


def _log_mean(values: Floats, chosen: Bools) -> Floats:
    """Log of the mean of the exponentials of the chosen values of each column."""
    top = values.max(axis=0).astype(np.float64)
    weights = np.where(chosen, np.exp(values - top), 0.0).sum(axis=0)
    count = chosen.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = top + np.log(weights / count)
    usable = np.isfinite(logarithms)
    overall = top.max() + np.log((weights * np.exp(top - top.max())).sum() / count.sum())
    return np.where(usable, logarithms, overall)
