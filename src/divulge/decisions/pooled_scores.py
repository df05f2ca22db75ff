"""Scores computed from the pool of candidates and calibration, which keep every guarantee.

Two ways to make one score of several columns. `adadetect_scores` learns a score from several signals.
`adjust_for_blind_score` subtracts what is usual at a document's blind score. Both treat the pool alike, wherever a
record comes from, so the new scores of non-members are as exchangeable as the columns they were computed from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge import lazy, seeds
from divulge.duplicates import hash_tables, sort_rows
from divulge.errors import InputError
from divulge.validation import check_matrix, check_vector

if TYPE_CHECKING:
    from scipy import stats
    from sklearn import linear_model

    from divulge.types import Floats, Ints
else:
    stats = lazy.module("scipy.stats")
    linear_model = lazy.module("sklearn.linear_model")


def adadetect_scores(candidates: object, calibration: object, *others: object, seed: int = 0) -> tuple[Floats, ...]:
    """Learn one score from several signals; return it for the candidates and for the half of the calibration not used.

    AdaDetect (Marandon et al., "Adaptive novelty detection with false discovery rate guarantee", Annals of Statistics
    2024): a logistic regression on standardised signals and their squares tells one half of the calibration from the
    pool of the other half and the candidates. The pool enters in sorted order and equal rows are scored once, so that
    its records are exchangeable to the last bit. The halves are drawn by ``seed`` and a digest of all signals: scores
    do not depend on the order of rows, and one seed draws different halves for different data.

    Args:
        candidates: signals ``[m, d]``.
        calibration: signals ``[n, d]`` of known non-members.
        others: further tables ``[h, d]``, treated as the candidates are.
        seed: of the split of the calibration.

    Returns:
        Scores ``[m]`` and ``[n - n // 2]``, and ``[h]`` of each further table; larger = less like the calibration.

    Raises:
        divulge.InputError: NaN, infinity, tables of different width, fewer than 4 calibration rows.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> x, known = rng.normal(size=(20, 2)) + 2, rng.normal(size=(60, 2))
        >>> scores, held_out = adadetect_scores(x, known)
        >>> scores.shape, held_out.shape, bool(scores.mean() > held_out.mean())
        ((20,), (30,), True)
    """
    candidate_rows = check_matrix(candidates, "candidates").astype(np.float64)
    calibration_rows = check_matrix(calibration, "calibration", columns=candidate_rows.shape[1]).astype(np.float64)
    other_tables = [
        check_matrix(table, "others", columns=candidate_rows.shape[1]).astype(np.float64) for table in others
    ]
    if len(calibration_rows) < 4:
        raise InputError(f"calibration: at least 4 rows are needed to split it, got {len(calibration_rows)}")
    calibration_rows = sort_rows(calibration_rows)
    order = seeds.generator(seed, "adadetect", hash_tables(calibration_rows, sort_rows(candidate_rows))).permutation(
        len(calibration_rows)
    )
    training = calibration_rows[order[: len(calibration_rows) // 2]]
    held_out = calibration_rows[order[len(calibration_rows) // 2 :]]
    tables = (candidate_rows, held_out, *other_tables)
    rows, row_index = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
    pool = rows[np.sort(row_index.ravel())]
    center, scale = pool.mean(axis=0), pool.std(axis=0)

    def expand(table: Floats) -> Floats:
        standard = (table - center) / np.where(scale > 0, scale, 1.0)
        return np.hstack([standard, np.clip(standard**2, 0, 9)])

    model = linear_model.LogisticRegression(class_weight="balanced", max_iter=200)
    model.fit(expand(np.concatenate([training, pool])), np.repeat([0, 1], [len(training), len(pool)]))
    learned = model.decision_function(expand(rows))[row_index.ravel()]
    return tuple(np.split(learned, np.cumsum([len(table) for table in tables])[:-1]))


_TYPICAL_QUANTILE = 0.3  # quantile that stands for the usual score; below one half, so that members hardly change it
_COARSE_BINS = (20, 10)  # minimum size and maximum number of the bins for the straight line
_FINE_BINS = (100, 30)  # the same for the residuals
_LARGEST_SCORE = 1e150  # squares and sums of such scores are finite
_MIN_RECORDS_TO_REFINE = 400  # number of records from which residuals are modelled


@dataclass(frozen=True, slots=True, eq=False)
class BlindAdjustment:
    """The usual score at each blind score: a straight line fitted to bins, and the residuals of finer bins.

    It depends on the ranks of the blind scores only, not on their units.

    Attributes:
        blind: distinct blind scores of the pool, ascending, ``[k]``.
        rank: their normal scores ``[k]``.
        slope: of the line, per unit of the normal score.
        centres: of the finer bins ``[b]``; empty if there are none.
        residuals: of the line at the centres ``[b]``.
    """

    blind: Floats
    rank: Floats
    slope: float
    centres: Floats
    residuals: Floats

    @classmethod
    def fit(cls, scores: Floats, blind: Floats) -> BlindAdjustment:
        """Fit the usual score to a pool; the order of its records does not matter.

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
        slope, centres, usual_residuals = 0.0, np.empty(0), np.empty(0)
        bins = _bins(quantiles, *_COARSE_BINS)
        bin_ranks, typical_scores = _typical_scores(rank, scores, bins)
        if np.ptp(typical_scores) > 0:
            centred_ranks = bin_ranks - bin_ranks.mean()
            slope = float((centred_ranks * (typical_scores - typical_scores.mean())).sum() / (centred_ranks**2).sum())
        if len(scores) >= _MIN_RECORDS_TO_REFINE:
            residuals, bins = scores - slope * rank, _bins(quantiles, *_FINE_BINS)
            bin_ranks, typical_scores = _typical_scores(rank, residuals, bins)
            if np.ptp(typical_scores) > 0:
                centres, usual_residuals = bin_ranks, typical_scores
        return cls(values, rank[first_rows], slope, centres, usual_residuals)

    def apply(self, scores: Floats, blind: Floats) -> Floats:
        """Return the scores ``[n]`` less the usual score at their blind scores ``[n]``."""
        rank = np.interp(blind, self.blind, self.rank)
        adjusted = scores - self.slope * rank
        return adjusted - np.interp(rank, self.centres, self.residuals) if len(self.centres) else adjusted


def _bins(quantiles: Floats, min_size: int, max_bins: int) -> Ints:
    """Return the bin of each record; bins are of about equal size and equal blind scores share one."""
    count = min(max(len(quantiles) // min_size, 1), max_bins)
    return np.minimum((quantiles * count).astype(np.int64), count - 1)


def _typical_scores(rank: Floats, scores: Floats, bins: Ints) -> tuple[Floats, Floats]:
    """Return the mean rank and the usual score of each bin."""
    bin_masks = [bins == bin_number for bin_number in np.unique(bins)]
    return np.array([rank[mask].mean() for mask in bin_masks]), np.array(
        [np.quantile(scores[mask], _TYPICAL_QUANTILE) for mask in bin_masks]
    )


def adjust_for_blind_score(
    scores: object, calibration: object, baseline: object, calibration_baseline: object
) -> tuple[Floats, Floats]:
    """Subtract from each score what is usual at the document's blind score.

    A blind score comes from a classifier that never saw the model. Where it separates the candidates from the
    calibration, they differ in more than training, and a score that is little else than the blind score selects
    candidates for their date or topic. The usual score is estimated in the pool of candidates and calibration.

    Guarantee: adjusted scores of non-members are as exchangeable as the pairs (score, blind score) are, so every method
    keeps its bound in finite samples. Where non-members among the candidates have other blind scores than the
    calibration and score alike at equal ones, the adjustment removes the shift as far as the usual score is estimated
    correctly: that is simulated, not proven, and such a selection is doubtful.

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
        >>> adjusted, known_adjusted = adjust_for_blind_score(scores, known, newer, older)
        >>> round(scores.mean() - known.mean(), 1), abs(round(adjusted.mean() - known_adjusted.mean(), 1))
        (np.float64(1.1), np.float64(0.0))
    """
    candidate_scores, calibration_scores = check_vector(scores, "scores"), check_vector(calibration, "calibration")
    candidate_blind = check_vector(baseline, "baseline", length=len(candidate_scores))
    calibration_blind = check_vector(calibration_baseline, "calibration_baseline", length=len(calibration_scores))
    adjustment = BlindAdjustment.fit(
        np.concatenate([candidate_scores, calibration_scores]), np.concatenate([candidate_blind, calibration_blind])
    )
    return adjustment.apply(candidate_scores, candidate_blind), adjustment.apply(calibration_scores, calibration_blind)
