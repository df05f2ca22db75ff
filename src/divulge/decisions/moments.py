"""PTDI with confirmed members: the share of non-members by moments, corrected for what its scatter costs.

Liu et al. (arXiv 2510.09717v1) report an adjusted moment estimator for the case that some members are known. The
summary that we work from gives no formula, so this one is ours: the natural equation of moments with a correction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from divulge.decisions.methods import PTDI
from divulge.validation import check_bool, check_number, check_vector

if TYPE_CHECKING:
    from divulge.decisions.counts import Counts
    from divulge.types import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Non-members are counted where members are rare, less the members that confirmed ones say lie there too.

    With ``F`` the shares of candidates, calibration and confirmed members in the region R of `PTDI`,
    ``F_candidates = (1 - π) F_calibration + π F_members``, so ``1 - π = (F_candidates - F_members) / (F_calibration -
    F_members)``: `PTDI` takes ``F_members`` for 0. P-values are multiplied by ``x = max(1 - π̂, s)``, s the estimate's
    standard error, times ``1 + s² / x²``: to second order, one over that is on average no more than ``1 / (1 - π)``.
    Where the confirmed members are no rarer in R than the calibration, nothing is subtracted and the p-values are not
    made smaller.

    It is not proven to bound false discoveries. Simulations over many kinds of members have found no case in which it
    fails while the confirmed members score like those among the candidates; where the confirmed ones score lower, it
    does fail.

    Args:
        members: scores ``[k]`` of documents known to have been used, larger = more member-like.
        eta: share of calibration in R. Members there no longer cost power, so it may be large.
        corrected: False leaves the scatter as it is. That is no bound; it is here to be compared with.

    Raises:
        divulge.InputError: no scores, NaN or infinity; ``eta`` outside (0, 1).

    Examples:
        >>> from divulge.decisions import Moments, fdr
        >>> rng = np.random.default_rng(0)
        >>> scores = np.append(rng.normal(1.2, 1, 700), rng.normal(size=300))
        >>> calibration, confirmed = rng.normal(size=500), rng.normal(1.2, 1, 500)
        >>> [fdr.select(scores, calibration, fdr=0.1, method=m).count for m in ("ptdi", Moments(confirmed))]
        [233, 273]
    """

    members: object
    eta: float = 0.5
    corrected: bool = True
    _scores: Floats = field(init=False, repr=False)

    name: ClassVar[str] = "moments"

    def __post_init__(self) -> None:
        object.__setattr__(self, "_scores", check_vector(self.members, "members"))
        check_number(self.eta, "eta", above=0, below=1)
        check_bool(self.corrected, "corrected")

    def null_share(self, counts: Counts) -> tuple[float, float]:
        """Return the estimated share of non-members as numerator and denominator."""
        beyond, inside = PTDI(self.eta).region(counts)
        n, m, k = len(counts.calibration), counts.total, len(self._scores)
        if not inside:
            return 1.0, 0.0
        # R holds what is strictly below the first calibration score outside it.
        n_members_inside = int(np.sum(self._scores < counts.calibration[inside]))
        candidate_rate, calibration_rate, member_rate = (1 + beyond) / (m + 1), inside / n, n_members_inside / (k + 1)
        if member_rate >= calibration_rate:
            return max(candidate_rate / calibration_rate, 1.0), 1.0
        share = (candidate_rate - member_rate) / (calibration_rate - member_rate)
        if not self.corrected:
            return max(share, 1e-9), 1.0
        error = _standard_error(
            (candidate_rate, calibration_rate, (n_members_inside + 0.5) / (k + 1)), (m, n, k), share
        ) / (calibration_rate - member_rate)
        raised = max(share, error)
        return raised + error**2 / raised, 1.0

    def caution(self, m: int) -> tuple[str, ...]:
        """Return a warning: always one, as the bound is simulated and not proven."""
        return ("moments has no proof: its bound was only simulated, and rests on confirmed members like the others",)


def _standard_error(rates: tuple[float, float, float], sizes: tuple[int, int, int], share: float) -> float:
    """Standard error of ``F_candidates - (1 - π) F_calibration - π F_members``."""
    clipped = min(max(share, 0.0), 1.0)
    weights = (1.0, clipped, 1 - clipped)
    variances = (w * w * r * (1 - r) / size for w, r, size in zip(weights, rates, sizes, strict=True))
    return math.sqrt(sum(variances))
