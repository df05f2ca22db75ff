"""Scores adjusted for a blind score: what a candidate scores beyond documents that a blind classifier finds alike.

A blind score comes from a classifier that never saw the model. Where it separates the candidates from the calibration,
they differ in more than training, and a score that is little else than the blind score selects candidates for their
date or topic. The adjusted score is the score less what is usual at that blind score, in the pool of candidates and
calibration. The pool is treated as one, whoever comes from where. So adjusted scores of non-members are as exchangeable
as the pairs (score, blind score) are, and every method keeps its bound in finite samples, as with the learned scores of
`divulge.decisions.adadetect`. Where non-members among the candidates have other blind scores than the calibration, and
score alike at equal ones, the adjustment takes out the shift as far as the usual score is estimated right: that is
simulated, not proven, and such a selection stands as doubtful.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

from divulge.decisions.controls import Control
from divulge.errors import InputError
from divulge.statistics import ranking, two_samples
from divulge.validation import check_number, check_vector

if TYPE_CHECKING:
    from divulge.types import Floats, Ints

NAME = "blind score"

_USUAL = 0.3  # quantile that stands for the usual score: below one half, so that members move it little
_ROUGH = (20, 10)  # records in a bin, and bins at most, of the straight line
_FINE = (100, 30)  # the same of what it leaves
_LARGEST = 1e150  # score: squares and sums of such still are finite
_ENOUGH = 400  # records from which the straight line is refined


@dataclass(frozen=True, slots=True, eq=False)
class Adjustment:
    """What is usual at each blind score: a line through bins of like records, and what it leaves.

    It depends on the ranks of the blind scores only, so a blind score in other units adjusts alike.

    Attributes:
        blind: distinct blind scores of the pool, rising, ``[k]``.
        rank: their normal scores ``[k]``.
        slope: of the line, per unit of the normal score.
        centres: of the finer bins ``[b]``; empty where there are none.
        left: what the line leaves there ``[b]``.
    """

    blind: Floats
    rank: Floats
    slope: float
    centres: Floats
    left: Floats

    @classmethod
    def fit(cls, scores: Floats, blind: Floats) -> Adjustment:
        """Learn the usual score from a pool, whose order does not matter.

        Args:
            scores: ``[n]``.
            blind: blind scores ``[n]``.

        Raises:
            divulge.InputError: scores so large that they cannot be subtracted.
        """
        if (largest := float(np.abs(scores).max())) > _LARGEST:
            raise InputError(f"scores: too large to be adjusted: at most {_LARGEST:g} is needed, got {largest:g}")
        order = np.lexsort((scores, blind))
        scores, blind = scores[order], blind[order]
        place = (stats.rankdata(blind) - 0.5) / len(blind)
        rank = special.ndtri(place)
        values, first = np.unique(blind, return_index=True)
        none = np.empty(0)
        slope, centres, left = 0.0, none, none
        bins = _bins(place, *_ROUGH)
        at, usual = _usual_scores(rank, scores, bins)
        if len(at) > 1 and np.ptp(usual) > 0:
            gap = at - at.mean()
            slope = float((gap * (usual - usual.mean())).sum() / (gap**2).sum())
        if len(scores) >= _ENOUGH:
            rest, bins = scores - slope * rank, _bins(place, *_FINE)
            at, usual = _usual_scores(rank, rest, bins)
            if len(at) > 1 and np.ptp(usual) > 0:
                centres, left = at, usual
        return cls(values, rank[first], slope, centres, left)

    def apply(self, scores: Floats, blind: Floats) -> Floats:
        """Adjust scores ``[n]`` by their blind scores ``[n]``; the same arithmetic for every record."""
        rank = np.interp(blind, self.blind, self.rank)
        adjusted = scores - self.slope * rank
        return adjusted - np.interp(rank, self.centres, self.left) if len(self.centres) else adjusted


def _bins(place: Floats, least: int, most: int) -> Ints:
    """The bin of each record, of about equally many; equal blind scores stay together."""
    count = min(max(len(place) // least, 1), most)
    return np.minimum((place * count).astype(np.int64), count - 1)


def _usual_scores(rank: Floats, scores: Floats, bins: Ints) -> tuple[Floats, Floats]:
    """The mean rank and the usual score of each bin."""
    rows = [bins == one for one in np.unique(bins)]
    return np.array([rank[row].mean() for row in rows]), np.array([np.quantile(scores[row], _USUAL) for row in rows])


def adjust_scores(
    scores: object, calibration: object, baseline: object, calibration_baseline: object
) -> tuple[Floats, Floats]:
    """Take out of the scores what is usual at each blind score.

    Args:
        scores: of the candidates ``[m]``.
        calibration: of known non-members ``[n]``.
        baseline: blind scores of the candidates ``[m]``.
        calibration_baseline: of the calibration ``[n]``.

    Returns:
        The adjusted scores of the candidates ``[m]`` and of the calibration ``[n]``.

    Raises:
        divulge.InputError: NaN or infinity, lengths that do not fit.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> newer, older = rng.normal(1, 1, 500), rng.normal(size=500)  # the candidates are newer
        >>> scores, known = newer + 0.1 * rng.normal(size=500), older + 0.1 * rng.normal(size=500)
        >>> adjusted, beside = adjust_scores(scores, known, newer, older)
        >>> round(scores.mean() - known.mean(), 1), abs(round(adjusted.mean() - beside.mean(), 1))
        (np.float64(1.1), np.float64(0.0))
    """
    judged, known = check_vector(scores, "scores"), check_vector(calibration, "calibration")
    blind = check_vector(baseline, "baseline", length=len(judged))
    beside = check_vector(calibration_baseline, "calibration_baseline", length=len(known))
    usual = Adjustment.fit(np.concatenate([judged, known]), np.concatenate([blind, beside]))
    return usual.apply(judged, blind), usual.apply(known, beside)


def control(calibration_baseline: object, baseline: object, *, level: float = 0.05, seed: int = 0) -> Control:
    """Ask whether the blind score alone tells candidates from calibration; if it does, the sets themselves differ.

    That may be the members' doing, so it raises doubt and does not void.

    Args:
        calibration_baseline: blind scores of the calibration ``[n]``.
        baseline: of the candidates ``[m]``.
        level: rate of false alarms, where members differ from non-members only in their training.
        seed: of the random divisions that scores with ties are compared with.

    Raises:
        divulge.InputError: empty, NaN or infinity.

    Examples:
        >>> control([0.0, 1.0, 2.0], [0.5, 1.5]).passed
        True
    """
    known, judged = (
        check_vector(calibration_baseline, "calibration_baseline"),
        check_vector(baseline, "baseline"),
    )
    p = two_samples.two_sample_p_value(known, judged, seed=seed)
    area = ranking.auc(np.concatenate([known, judged]), np.arange(len(known) + len(judged)) >= len(known))
    says = f"the blind score alone tells candidates from calibration with AUC {area} (1/2 expected)"
    return Control(NAME, p, check_number(level, "level", above=0, below=1), says, area)
