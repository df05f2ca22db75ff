"""Knockoffs made of paraphrases: a baseline whose assumption fails, kept with the test that shows it.

Hu et al. 2025 (KTD) compare a document's score with that of a paraphrase of it and count negative
differences to bound false discoveries (Barber & Candès 2015, knockoff+). It needs the difference of a
non-member to be as often negative as positive. Paraphrases by a language model read less naturally to
the examined model than the original does, so non-members favour the original too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from divulge.decisions.controls import Control
from divulge.validation import check_number, check_vector

if TYPE_CHECKING:
    from divulge.types import Bools


def select(originals: object, knockoffs: object, *, fdr: float) -> tuple[Bools, float]:
    """Return the knockoff+ selection: differences of at least a threshold that negative differences bound.

    It is the smallest ``t`` with ``(1 + #{W ≤ -t}) / #{W ≥ t} ≤ fdr``.

    Args:
        originals: scores ``[m]`` of the documents, larger = more member-like.
        knockoffs: scores ``[m]`` of their paraphrases.
        fdr: bound on the false discovery rate, valid only if differences of non-members are symmetric.

    Returns:
        Selected, bool ``[m]``, and the threshold on the difference (infinity when nothing is selected).

    Raises:
        divulge.InputError: NaN, infinity, different lengths.

    Examples:
        >>> select([3.0, 2.0, 4.0, 0.1, 5.0], [0.0, 0.0, 0.0, 0.2, 0.0], fdr=0.3)
        (array([ True,  True,  True, False,  True]), 2.0)
    """
    check_number(fdr, "fdr", above=0, below=1)
    scores = check_vector(originals, "originals")
    difference = scores - check_vector(knockoffs, "knockoffs", length=len(scores))
    steps = np.unique(np.abs(difference[difference != 0]))
    ordered = np.sort(difference)
    negative = np.searchsorted(ordered, -steps, side="right")
    positive = len(ordered) - np.searchsorted(ordered, steps, side="left")
    reached = np.flatnonzero((1 + negative) <= fdr * positive)
    if not reached.size:
        return np.zeros(len(scores), bool), np.inf
    threshold = float(steps[reached[0]])
    return difference >= threshold, threshold


def symmetry(originals: object, knockoffs: object, *, level: float = 0.05) -> Control:
    """Return whether known non-members favour original and paraphrase equally, as knockoffs need.

    An exact sign test and Wilcoxon's signed-rank test, each at half the level.

    Args:
        originals: scores ``[n]`` of known non-members.
        knockoffs: scores ``[n]`` of their paraphrases.
        level: rate of false alarms.

    Raises:
        divulge.InputError: NaN, infinity, different lengths.

    Examples:
        >>> symmetry(np.arange(30.0), np.zeros(30)).passed
        False
    """
    check_number(level, "level", above=0, below=1)
    scores = check_vector(originals, "originals")
    difference = scores - check_vector(knockoffs, "knockoffs", length=len(scores))
    difference = difference[difference != 0]
    if not len(difference):
        return Control("symmetry", 1.0, level, "every paraphrase scores exactly as its original", conclusive=True)
    favoured = int((difference > 0).sum())
    p = min(stats.binomtest(favoured, len(difference)).pvalue, stats.wilcoxon(difference, method="approx").pvalue)
    says = f"{favoured} of {len(difference)} known non-members score above their own paraphrase"
    return Control("symmetry", min(2 * float(p), 1.0), level, says, conclusive=True)
