"""The likelihood ratio behind RMIA, without a population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from divulge.attacks import needs
from divulge.attacks.protocol import Need, Scored
from divulge.attacks.reference_moments import blocks
from divulge.validation import check_choice

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
        check_choice(self.over, "LogRatio.over", ("out", "all"))

    @property
    def needs(self) -> frozenset[Need]:
        """Reference models, of the kind that ``over`` says."""
        return frozenset({Need.REFERENCES_OUT if self.over == "out" else Need.REFERENCES_IN_AND_OUT})

    def score(self, evidence: Evidence) -> Floats:
        """Return the logarithm of the ratio, ``[n]``.

        A record that every reference model was trained on is compared with the mean over all records.

        Raises:
            divulge.InputError: no references, a positive signal, or no OUT model for any record.
        """
        references = needs.part(
            evidence.references, "LogRatio", "references", "log-probabilities of the true class under reference models"
        )
        needs.log_probabilities(evidence.target, references, "LogRatio")
        if self.over == "all":
            return evidence.target - log_mean(references, None)
        needs.out_models(evidence.trained_on, "LogRatio")
        return evidence.target - log_mean(references, evidence.trained_on)

    def run(self, evidence: Evidence) -> Scored:
        """`score`, as an audit takes it."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> LogRatio:
        """The same: it makes no random draws."""
        return self


def log_mean(values: Floats, left_out: Bools | None) -> Floats:
    """Log of the mean of the exponentials of each column; of all columns for one without a value.

    Blocks of columns stay in the cache, and a memory-mapped matrix is never loaded whole.

    Args:
        values: ``[m, n]``.
        left_out: bool ``[m, n]``, True where a value does not count; every value counts when None.
    """
    top, sums, count = (np.empty(values.shape[1]) for _ in range(3))
    for block in blocks(values):
        is_used = None if left_out is None or not left_out[:, block].any() else ~left_out[:, block]
        top[block], sums[block], count[block] = _sums(values[:, block], is_used)
    has_values = count > 0
    if has_values.all():
        return top + np.log(sums / count)
    highest = top[has_values].max()
    overall = highest + np.log((sums[has_values] * np.exp(top[has_values] - highest)).sum() / count.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(has_values, top + np.log(sums / count), overall)


def _sums(values: Floats, is_used: Bools | None) -> tuple[Floats, Floats, Floats | int]:
    """Return the largest value of each column, the sum of the exponentials below it, and how many values there are.

    Exponentials in single precision are five times faster; the logarithm of their sum errs by 1e-7 at most.
    """
    if is_used is None:
        top, count = values.max(axis=0).astype(np.float64), len(values)
        below = np.subtract(values, top, dtype=np.float64).astype(np.float32)
        return top, np.add.reduce(np.exp(below, out=below), axis=0, dtype=np.float64), count
    count = is_used.sum(axis=0)
    top = np.where(count, np.where(is_used, values, -np.inf).max(axis=0), 0.0)
    below = np.minimum(values - top, 0.0, dtype=np.float64).astype(np.float32)  # what is left out may lie above
    np.exp(below, out=below)
    below *= is_used
    return top, np.add.reduce(below, axis=0, dtype=np.float64), count
