"""Conformal p-values: how unusual is a score among known non-members?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.decisions import counts as counting
from divulge.validation import check_number, check_vector

if TYPE_CHECKING:
    from divulge.types import Bools, Floats


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
    calibration = np.sort(check_vector(calibration, "calibration"))
    return counting.p_values(check_vector(scores, "scores"), calibration)


def step_up(p_values: object, level: float) -> Bools:
    """Benjamini and Hochberg's selection ``[m]``, of p-values that need not share a grid.

    Args:
        p_values: ``[m]``, in [0, 1].
        level: the largest ``k`` is taken such that ``k`` p-values are at most ``level · k / m``.

    Raises:
        divulge.InputError: an array that is empty, not one-dimensional, or has NaN or infinity; a level outside (0, 1).

    References:
        Benjamini & Hochberg, Controlling the false discovery rate, 1995.

    Examples:
        >>> step_up([0.03, 0.5, 0.06], 0.1)
        array([ True, False,  True])
    """
    p, level = check_vector(p_values, "p_values"), check_number(level, "level", above=0, below=1)
    ordered = np.sort(p)
    reached = np.flatnonzero(ordered * len(p) <= level * np.arange(1, len(p) + 1) * (1 + 1e-12))
    return p <= ordered[reached[-1]] if len(reached) else np.zeros(len(p), bool)
