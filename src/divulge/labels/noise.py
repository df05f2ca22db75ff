"""Whether what is left of the answers is more than the declared stochastic noise explains."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from divulge.labels.spec import OracleSpec
    from divulge.types import Floats

FALSE_ALARM = 1e-6  # chance of each of these tests to refute an oracle that is what was declared


def reach(spec: OracleSpec, count: int) -> float:
    """What the noise of none of ``count`` answers exceeds: the declared bound, or but for one case in a million.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> reach(OracleSpec(n=9, noise=0.1), 5), round(reach(OracleSpec(n=9, noise=0.1, noise_kind="gaussian"), 1), 3)
        (0.1, 0.489)
    """
    if spec.noise_kind == "gaussian":
        return -spec.noise * NormalDist().inv_cdf(FALSE_ALARM / (2 * count))
    if spec.noise_kind == "laplace":
        return -spec.noise * math.log(FALSE_ALARM / count)
    return spec.noise


def too_loud(spec: OracleSpec, ratios: Floats) -> bool:
    """The answers lie further from what labels could give than noise of this kind brings about.

    Args:
        spec: the oracle; stochastic noise.
        ratios: how far each answer lies away, at least, in standard deviations ``[q]``. The distance to the
            nearest possible answer is never larger than the noise itself, so its sum follows a known law at most:
            χ² for the squares of Gaussian noise, gamma for Laplace noise.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> spec = OracleSpec(n=9, noise=0.1, noise_kind="gaussian")
        >>> too_loud(spec, np.full(8, 1.0)), too_loud(spec, np.full(8, 3.0))
        (False, True)
    """
    if not len(ratios):
        return False
    if spec.noise_kind == "gaussian":
        return float(ratios @ ratios) > float(stats.chi2.isf(FALSE_ALARM, len(ratios)))
    return math.sqrt(2) * float(np.abs(ratios).sum()) > float(stats.gamma.isf(FALSE_ALARM, len(ratios)))


def largest_norm(spec: OracleSpec, count: int) -> float:
    """Norm that the noise of ``count`` answers exceeds with a chance below one in a million, in the answer's unit.

    Gaussian noise: the quantile of χ². Laplace noise, whose squares have no exponential moments: every draw stays
    below T = b·ln(2·10⁶·count) but for half that chance, and Bernstein's inequality bounds the sum of squares cut
    at T² but for the other half (mean 2b², variance at most 20b⁴ each).
    """
    if spec.noise_kind == "gaussian":
        drawn = spec.noise**2 * float(stats.chi2.isf(FALSE_ALARM, count))
    else:
        room = math.log(2 / FALSE_ALARM)
        most = (room + math.log(count)) ** 2
        drawn = spec.noise**2 * (2 * count + math.sqrt(40 * count * room + (most * room / 3) ** 2) + most * room / 3)
    return math.sqrt(drawn) + math.sqrt(count) * spec.rounding


def least_norm(signs: Floats, sums: Floats, guess: Floats) -> float:
    """Lower bound on ‖sums - signs·labels‖ over labels in [-1, 1] (so over all labels ±1), by weak duality.

    For every vector u, ½‖sums - signs·z‖² ≥ u·sums - ½‖u‖² - ‖signsᵀu‖₁ wherever z lies in the box; u is what is left
    at a good z, found by projected gradient steps from ``guess``.

    Examples:
        >>> least_norm(np.eye(2), np.array([3.0, -1.0]), np.ones(2))
        2.0
    """
    z = guess.copy()
    # Rows of a Hadamard matrix: no step larger than 1 over their largest squared length overshoots.
    step = 1 / max(signs.shape)
    best = 0.0
    for _ in range(100):
        left = sums - signs @ z
        pulled = signs.T @ left
        best = max(best, float(left @ sums - 0.5 * (left @ left) - np.abs(pulled).sum()))
        z = np.clip(z + step * pulled, -1, 1)
    return math.sqrt(2 * best)
