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

_TYPICAL_QUANTILE = 0.3  # quantile that stands for the usual score: below one half, so that members move it little
_COARSE_BINS = (20, 10)  # records in a bin, and bins at most, of the straight line
_FINE_BINS = (100, 30)  # the same of what it leaves
_LARGEST_SCORE = 1e150  # score: squares and sums of such still are finite
_MIN_RECORDS_TO_REFINE = 400  # records from which the straight line is refined


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
        if (largest := float(np.abs(scores).max())) > _LARGEST_SCORE:
            raise InputError(f"scores: too large to be adjusted: at most {_LARGEST_SCORE:g} is needed, got {largest:g}")
        order = np.lexsort((scores, blind))
        scores, blind = scores[order], blind[order]
        quantiles = (stats.rankdata(blind) - 0.5) / len(blind)
        rank = special.ndtri(quantiles)
        values, first_rows = np.unique(blind, return_index=True)
        empty = np.empty(0)
        slope, centres, residual_levels = 0.0, empty, empty
        bins = _bins(quantiles, *_COARSE_BINS)
        bin_ranks, typical_scores = _typical_scores(rank, scores, bins)
        if len(bin_ranks) > 1 and np.ptp(typical_scores) > 0:
            centred_ranks = bin_ranks - bin_ranks.mean()
            slope = float((centred_ranks * (typical_scores - typical_scores.mean())).sum() / (centred_ranks**2).sum())
        if len(scores) >= _MIN_RECORDS_TO_REFINE:
            residuals, bins = scores - slope * rank, _bins(quantiles, *_FINE_BINS)
            bin_ranks, typical_scores = _typical_scores(rank, residuals, bins)
            if len(bin_ranks) > 1 and np.ptp(typical_scores) > 0:
                centres, residual_levels = bin_ranks, typical_scores
        return cls(values, rank[first_rows], slope, centres, residual_levels)

    def apply(self, scores: Floats, blind: Floats) -> Floats:
        """Adjust scores ``[n]`` by their blind scores ``[n]``; the same arithmetic for every record."""
        rank = np.interp(blind, self.blind, self.rank)
        adjusted = scores - self.slope * rank
        return adjusted - np.interp(rank, self.centres, self.left) if len(self.centres) else adjusted


def _bins(quantiles: Floats, min_size: int, max_bins: int) -> Ints:
    """Return the bin of each record, of about equally many; equal blind scores stay together."""
    count = min(max(len(quantiles) // min_size, 1), max_bins)
    return np.minimum((quantiles * count).astype(np.int64), count - 1)


def _typical_scores(rank: Floats, scores: Floats, bins: Ints) -> tuple[Floats, Floats]:
    """Return the mean rank and the usual score of each bin."""
    bin_masks = [bins == bin_number for bin_number in np.unique(bins)]
    return np.array([rank[mask].mean() for mask in bin_masks]), np.array(
        [np.quantile(scores[mask], _TYPICAL_QUANTILE) for mask in bin_masks]
    )


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
    candidate_scores, calibration_scores = check_vector(scores, "scores"), check_vector(calibration, "calibration")
    candidate_blind = check_vector(baseline, "baseline", length=len(candidate_scores))
    calibration_blind = check_vector(calibration_baseline, "calibration_baseline", length=len(calibration_scores))
    adjustment = Adjustment.fit(
        np.concatenate([candidate_scores, calibration_scores]), np.concatenate([candidate_blind, calibration_blind])
    )
    return adjustment.apply(candidate_scores, candidate_blind), adjustment.apply(calibration_scores, calibration_blind)


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
    calibration_scores, candidate_scores = (
        check_vector(calibration_baseline, "calibration_baseline"),
        check_vector(baseline, "baseline"),
    )
    p = two_samples.two_sample_p_value(calibration_scores, candidate_scores, seed=seed)
    area = ranking.auc(
        np.concatenate([calibration_scores, candidate_scores]),
        np.arange(len(calibration_scores) + len(candidate_scores)) >= len(calibration_scores),
    )
    description = f"the blind score alone tells candidates from calibration with AUC {area} (1/2 expected)"
    return Control(NAME, p, check_number(level, "level", above=0, below=1), description, area)
