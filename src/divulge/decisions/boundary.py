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
    judged = Judged.of(candidates, calibration)
    known, scores, m = judged.counts.calibration + 0.0, judged.scores + 0.0, judged.counts.total
    slope = math.floor(level * (len(known) + 1) / m + 1e-9)
    if slope < 1:
        raise InputError(
            f"calibration: {len(known)} scores are too few to bound the last of {m} candidates at fdr={level:g}; "
            f"at least {required_calibration(m, level, 1)} are needed"
        )
    chosen = _best(known, scores, slope, seed)
    low = float(scores[chosen].min()) if chosen.any() else math.inf
    return Selection(chosen, judged.p_values, low, None, Guarantee(KIND, level, ASSUMES))


def _best(known: np.ndarray, scores: np.ndarray, slope: int, seed: int) -> np.ndarray:
    """Which candidates are selected, ``[m]``; ``known`` is ascending."""
    n, ascending = len(known), np.argsort(scores, kind="stable")
    both = np.append(known, scores[ascending])
    drawn = seeds.generator(seed, "boundary", hash_tables(known, scores[ascending])).random(len(both))
    place = np.lexsort((drawn, -both))
    judged = place >= n
    above = np.cumsum(~judged)[judged]
    gain = slope * np.arange(1, len(scores) + 1) - above - 1
    best = int(np.argmax(gain))
    chosen = np.zeros(len(scores), bool)
    if gain[best] > 0:
        chosen[ascending[place[judged][: best + 1] - n]] = True
    return chosen
