"""Conformal p-values: how unusual is a score among known non-members?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import checks
from divulge.decisions import counts as counting

if TYPE_CHECKING:
    from divulge.types import Floats


def p_values(calibration: object, scores: object) -> Floats:
    """Conformal p-value of each score: ``(1 + #{calibration ≥ s}) / (n + 1)``.

    For a non-member exchangeable with the ``n`` calibration scores, P(p ≤ a) ≤ a for every a, in finite samples and
    whatever the distribution; ties count against the candidate, so they only increase p.

    Args:
        calibration: scores of known non-members, ``[n]``; larger means more like a member.
        scores: scores of the candidates, ``[m]``.

    Returns:
        p-values in ``[1/(n+1), 1]``, ``[m]``; ten million against a million take some five sorts of the former.

    Raises:
        divulge.InputError: an array that is empty, not one-dimensional, or has NaN or infinity.

    References:
        Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World, 2005;
        Bates, Candès, Lei, Romano & Sesia, Testing for outliers with conformal p-values, 2023, eq. 2.

    Examples:
        >>> p_values([1.0, 2.0, 2.0, 3.0], [0.0, 2.0, 9.0])
        array([1. , 0.8, 0.2])
    """
    calibration = np.sort(checks.vector(calibration, "calibration"))
    return counting.p_values(checks.vector(scores, "scores"), calibration)
