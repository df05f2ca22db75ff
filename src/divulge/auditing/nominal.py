"""Whether a threshold kept its nominal false-positive rate on true non-members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge.decisions import fpr as by_fpr
from divulge.statistics import intervals

if TYPE_CHECKING:
    from divulge.types import Estimate, Floats, Ints

# How often, over all thresholds of an audit together, one that kept its rate is said to have broken it.
FPR_FALSE_ALARM = 0.05


@dataclass(frozen=True, slots=True)
class RealisedFpr:
    """The realised false-positive rate of a conformal threshold, next to its nominal one.

    Args:
        nominal: the level asked for.
        rate: share of true non-members called members, with its exact interval.
        p_value: P(so many or more of the non-members lie above the threshold), if they are exchangeable with the
            calibration records; the scatter of the threshold itself is in it.
        tests: how many thresholds the audit judges; the false alarm is divided among them.
    """

    nominal: float
    rate: Estimate
    p_value: float
    tests: int = 1

    @property
    def broken(self) -> bool:
        """Whether the rate is higher than one calibration explains."""
        return self.p_value < FPR_FALSE_ALARM / self.tests

    @property
    def judged(self) -> str:
        """The two rates compared, in words.

        Examples:
            >>> from divulge.evaluation import proportion
            >>> RealisedFpr(0.05, proportion(14, 100), 0.02).judged
            'TOO HIGH: the luck of one calibration does not explain it (p = 0.02)'
        """
        if self.broken:
            return f"TOO HIGH: the luck of one calibration does not explain it (p = {self.p_value:.2g})"
        if self.rate.low > self.nominal:
            return f"above, as in one of {1 / self.p_value:,.0f} calibrations"
        if self.rate.high < self.nominal:
            return "below"
        return "agrees"


def realised_fpr(nonmembers: Floats, calibration: Floats, level: float, tests: int = 1) -> RealisedFpr:
    """The realised false-positive rate on non-members ``[n]`` of the threshold at ``level`` of calibration scores.

    Raises:
        divulge.InputError: too few calibration records for the level, no non-members.
    """
    threshold = by_fpr.threshold(calibration, level)
    above, n = int(threshold.select(nonmembers).sum()), len(nonmembers)
    # Of exchangeable records the number above the r-th largest of k is beta-binomial; ties only lower it.
    tail = _beta_binomial_pmf(np.arange(above, n + 1), n, threshold.rank, threshold.calibration + 1 - threshold.rank)
    return RealisedFpr(level, intervals.proportion(above, n), min(float(tail.sum()), 1.0), tests)


def _beta_binomial_pmf(k: Ints, n: int, a: float, b: float) -> Floats:
    """P(k of n) where the probability of each is Beta(a, b); scipy.stats has it, ten times slower."""
    log = special.betaln(k + a, n - k + b) - special.betaln(a, b) - special.betaln(n - k + 1, k + 1)
    return np.exp(log) / (n + 1)
