"""False discoveries under covariate shift: calibration documents count by how much they look like the candidates.

Where calibration and candidates differ in length, date or source, a non-member's score may still depend on these alone
in the same way on both sides. With ``w(x)``, the density of these features among non-member candidates over that among
the calibration, ``p_j = (Σ w_i·1{S_i ≥ T_j} + w_j) / (Σ w_i + w_j)`` is a p-value. Benjamini and Hochberg's step-up is
not known to keep its bound on such p-values, which share their weights; Jin and Candès's selection is:

1. For candidate ``j``, put it and the calibration together, as they would be if ``j`` were one of them, and take
   everybody else's p-values from that: the step-up with ``j`` counted as selected would select ``R_j``. Given who is in
   that heap, a non-member ``j`` is each of them with probability ``w / Σ w``, whatever ``R_j`` is.
2. ``j`` stays if ``p_j ≤ fdr · R_j / m``, which has probability at most ``fdr · R_j / m`` given the heap.
3. Of these, with one uniform ``ξ``, the largest ``r`` is taken such that ``r`` of them have ``ξ R_j ≤ r``: the mean of
   ``1 / r`` over ``ξ``, where ``j`` is selected, is at most ``1 / R_j``. The sum over non-members is ``fdr · m0 / m``.

Equal weights give Benjamini and Hochberg's selection, whatever ``ξ`` is. Where the weights are wrong by a factor of up
to ``γ`` either way, whatever common factor they have, the second step has a probability of at most ``γ²`` times as
much, and so has the bound.

Source: Jin & Candès, "Model-free selective inference under covariate shift via weighted conformal p-values",
Biometrika 2025 (arXiv 2307.09291; homogeneous pruning); with p-values that count ties against the candidate.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.decisions import weighted
from divulge.decisions.weighted import Weights
from divulge.errors import InputError
from divulge.statistics.duplicates import hash_tables
from divulge.types import Guarantee, Selection
from divulge.validation import check_integer, check_number, check_vector

if TYPE_CHECKING:
    from divulge.types import Bools, Floats, Ints

ASSUMES = (
    "a non-member's score depends on whether it is a candidate or a calibration record only through what is weighted",
    "the weights are, up to a common factor, the true density ratio of non-member candidates to the calibration",
)
_EXACT = 1e-12  # of all weight: equal weights must meet the level exactly where whole numbers do


def select(candidates: object, calibration: object, weights: Weights, *, fdr: float = 0.05, seed: int = 0) -> Selection:
    """The candidates that were used for training; where the weights are right, at a false discovery rate of ``fdr``.

    Args:
        candidates: scores ``[m]``, larger = more member-like.
        calibration: scores ``[n]`` of known non-members.
        weights: density ratios of both, see `divulge.decisions.weighted.density_ratio`; those of candidates above 0.
        fdr: bound on the expected share of non-members among the selected.
        seed: of the one number that is drawn.

    Raises:
        divulge.InputError: NaN or infinity, lengths that do not fit; weights that cannot carry the level: the
            calibration is worth too few records that look like the candidates, or half of the candidates lie where
            there is next to none.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> x, of = rng.normal(size=2000), rng.normal(1, 1, 100)  # a feature that raises all scores
        >>> known, scores = x + rng.normal(size=2000), of + rng.normal(size=100) + 4 * (np.arange(100) < 50)
        >>> select(scores, known, weighted.Weights(np.exp(x), np.exp(of)), fdr=0.1)
        Selection(55 of 100 selected; FDR ≤ 0.1, assuming a non-member...)
    """
    level = check_number(fdr, "fdr", above=1e-12, below=1)
    check_integer(seed, "seed", least=0)
    scores, calibration_scores = check_vector(candidates, "candidates"), check_vector(calibration, "calibration")
    p_values = weighted.p_values(calibration_scores, scores, weights)
    _check_weights_suffice(weights, level)
    sizes = _step_up_sizes(scores, calibration_scores, weights, level)
    passes_first_step = p_values <= level * sizes / len(p_values) + _EXACT
    uniform = seeds.generator(
        seed, "weighted fdr", hash_tables(*(np.sort(side) + 0.0 for side in (scores, calibration_scores)))
    ).random()
    selected = _prune(passes_first_step, uniform * sizes)
    warnings = [
        f"{len(calibration_scores)} calibration records count as {weights.effective:.0f} that look like the candidates"
    ]
    if passes_first_step.any() and not selected.any():
        warnings.append(
            f"nothing was selected: the step that corrects for unequal weights left none of {passes_first_step.sum()}"
        )
    threshold = float(scores[selected].min()) if selected.any() else math.inf
    return Selection(selected, p_values, threshold, None, Guarantee("FDR", level, ASSUMES), tuple(warnings))


def _check_weights_suffice(weights: Weights, level: float) -> None:
    if weights.candidates.min() <= 0:
        raise InputError("weights.candidates: must be above 0; 0 says that no such document is unused")
    effective, reachable = weights.effective, weights.reachable(level)
    if level * (round(effective, 6) + 1) < 1 - 1e-9:
        raise InputError(
            f"weights: the {len(weights.calibration)} calibration records are worth {effective:.1f} that look like the "
            f"candidates, and {math.ceil(1 / level - 1 - 1e-9)} are needed for fdr={level:g}; no valid correction is "
            "possible"
        )
    if reachable < 0.5:
        raise InputError(
            f"weights: only {reachable:.0%} of the candidates lie where there are enough calibration records for "
            f"fdr={level:g}; no valid correction is possible"
        )


def _step_up_sizes(scores: Floats, calibration: Floats, weights: Weights, level: float) -> Ints:
    """``R_j`` of the candidates that can stay, ``[m]``; others get one more than the number that score above them.

    Better candidates than ``j`` have smaller p-values in the heap of ``j`` than ``j`` has, so only the ``k`` beyond
    them decide: the ``k``-th best is within the level where ``w_j`` is at most a bound that no ``j`` enters.
    """
    m, total = len(scores), math.fsum(weights.calibration)
    best = np.sort(scores)[::-1]
    order = np.lexsort((weights.calibration, calibration))
    cumulative_weight = np.append(np.cumsum(weights.calibration[order][::-1])[::-1], 0.0)
    weight_at_or_above = cumulative_weight[np.searchsorted(calibration[order], best, side="left")]
    fractions = level * np.arange(1, m + 1) / m
    bound = (fractions * total - weight_at_or_above) / (1 - fractions) + _EXACT * total
    best_bounds = np.maximum.accumulate(bound[::-1])  # ascending: the largest bound of the last 1, 2, … ranks
    largest = m - np.searchsorted(best_bounds, weights.candidates, side="left")
    n_above = m - np.searchsorted(best[::-1], scores, side="right")
    return np.maximum(largest, n_above + 1)


def _prune(passes_first_step: Bools, sizes: Floats) -> Bools:
    """Return the largest set of candidates that pass the first step such that each one's size is at most its number."""
    ordered = np.sort(sizes[passes_first_step])
    fitting = np.flatnonzero(ordered <= np.arange(1, len(ordered) + 1))
    return passes_first_step & (sizes <= (fitting[-1] + 1 if len(fitting) else 0))
