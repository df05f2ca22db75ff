"""How likely is the last candidate of a selection a non-member? A bound for that one, not for the selection's average.

A false discovery rate is an average over the selection: the best candidates pay for those near its edge. The boundary
false discovery rate is the probability that anything is selected and its last candidate, the one with the lowest score,
is a non-member. The support line of Soloff, Xiang & Fithian selects the ``k`` best for which ``level · k / m`` exceeds
the ``k``-th p-value most. With independent p-values that bounds it; with conformal ones, which share one calibration
set, it need not (Gao, Roquain & Xiang). Here the line's slope is whole: ``a = floor(level · (n + 1) / m)`` calibration
ranks per candidate, and of equal gains the smallest selection is taken.

That is enough for ``a · m0 / (n + 1)``, with ``m0`` non-members, which is at most ``level · m0 / m``. Take a non-member
and the calibration together, ``n + 1`` scores, and all other candidates as they are: each of the ``n + 1`` is the
non-member's with equal probability. Count the ``K`` of them that would make it the last one selected. Between it and
the next of the ``n + 1`` there is then no other candidate, so from each of the ``K`` places to the next the line's best
gain falls by 1 or more, all gains being whole; and a place that lies ``a + 1`` or more below the best gain is not
chosen, as the candidate itself adds ``a`` and leaves one calibration score fewer above those before it. So ``K ≤ a``.

Sources: Soloff, Xiang & Fithian, "The edge of discovery", Annals of Statistics 2024 (support line); Gao, Roquain &
Xiang, "Conformal novelty detection with false discovery rate control at the boundary", arXiv 2601.02610, of which the
abstract and the introduction were read: its own procedures may be others.
"""

from __future__ import annotations

import math

import numpy as np

from divulge import seeds
from divulge.decisions.fdr import ASSUMES, Judged, required_calibration
from divulge.errors import InputError
from divulge.statistics.duplicates import hash_tables
from divulge.types import Guarantee, Selection
from divulge.validation import check_integer, check_number

KIND = "FDR of the last candidate selected"


def select(candidates: object, calibration: object, *, fdr: float = 0.05, seed: int = 0) -> Selection:
    """The largest lead over the support line: the last candidate selected is a non-member with probability ≤ ``fdr``.

    The order of equal scores is drawn, so that it may cut through candidates that tie.

    Args:
        candidates: scores ``[m]``, larger = more member-like.
        calibration: scores ``[n]`` of known non-members; ``n + 1 ≥ m / fdr`` are needed.
        fdr: bound on the probability that anything is selected and its last candidate is a non-member.
        seed: of the order of equal scores.

    Raises:
        divulge.InputError: NaN or infinity, empty or constant scores, fewer calibration scores than are needed.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> scores, known = np.append(rng.normal(3, 1, 50), rng.normal(size=50)), rng.normal(size=1000)
        >>> select(scores, known, fdr=0.1)
        Selection(44 of 100 selected; FDR of the last candidate selected ≤ 0.1, assuming non-member ...)
    """
    level = check_number(fdr, "fdr", above=1e-12, below=1)
    check_integer(seed, "seed", least=0)
    lookup = Judged.of(candidates, calibration)
    calibration_scores, scores, m = lookup.counts.calibration + 0.0, lookup.scores + 0.0, lookup.counts.total
    slope = math.floor(level * (len(calibration_scores) + 1) / m + 1e-9)
    if slope < 1:
        raise InputError(
            f"calibration: {len(calibration_scores)} scores are too few to bound the last of {m} candidates "
            f"at fdr={level:g}; "
            f"at least {required_calibration(m, level, 1)} are needed"
        )
    selected = _support_line_selection(calibration_scores, scores, slope, seed)
    threshold = float(scores[selected].min()) if selected.any() else math.inf
    return Selection(selected, lookup.p_values, threshold, None, Guarantee(KIND, level, ASSUMES))


def _support_line_selection(calibration: np.ndarray, scores: np.ndarray, slope: int, seed: int) -> np.ndarray:
    """Return which candidates are selected, ``[m]``; ``calibration`` is ascending."""
    n, ascending = len(calibration), np.argsort(scores, kind="stable")
    pooled = np.append(calibration, scores[ascending])
    tie_breakers = seeds.generator(seed, "boundary", hash_tables(calibration, scores[ascending])).random(len(pooled))
    order = np.lexsort((tie_breakers, -pooled))
    is_candidate = order >= n
    n_calibration_above = np.cumsum(~is_candidate)[is_candidate]
    gains = slope * np.arange(1, len(scores) + 1) - n_calibration_above - 1
    best = int(np.argmax(gains))
    selected = np.zeros(len(scores), bool)
    if gains[best] > 0:
        selected[ascending[order[is_candidate][: best + 1] - n]] = True
    return selected
