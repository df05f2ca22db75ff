"""False-positive rates under covariate shift: calibration records count by how much they look like the candidates.

The auditor has calibration records of seen classes and asks about another one. If a non-member's score depends on
its class only through the features (covariate shift), calibration scores weighted by the density ratio
``w(x) = p_candidates(x) / p_calibration(x)`` give valid p-values (Tibshirani, Barber, Candès & Ramdas, Conformal
prediction under covariate shift, 2019). Neither the assumption nor an estimated ratio is exact; the guarantee says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn import linear_model, preprocessing

from divulge import seeds
from divulge.decisions.fpr import required_calibration
from divulge.errors import InputError
from divulge.statistics import ranking
from divulge.statistics.duplicates import hash_tables, keep_together
from divulge.types import Guarantee, Selection
from divulge.validation import check_instance, check_matrix, check_number, check_vector

if TYPE_CHECKING:
    from divulge.types import Floats

_FOLDS = 5
_LARGEST_VALUE = 1e100  # a square of more overflows


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Density ratios, up to a common factor.

    Args:
        calibration: of each calibration record, ``[n]``, ≥ 0.
        candidates: of each candidate, ``[m]``, ≥ 0.
        auc: how well the two kinds can be told apart, 0.5 (not at all) to 1 (no overlap, no correction).
    """

    calibration: Floats
    candidates: Floats
    auc: float = math.nan

    def __post_init__(self) -> None:
        for name in ("calibration", "candidates"):
            object.__setattr__(self, name, _check_weights(getattr(self, name), f"weights.{name}"))
        if not (isinstance(self.auc, float) and math.isnan(self.auc)):  # not known
            check_number(self.auc, "weights.auc", above=0, below=1, closed=True)

    @property
    def effective(self) -> float:
        """How many equally weighted calibration records these are worth, ``(Σw)² / Σw²`` (Kish 1965)."""
        total = math.fsum(self.calibration)  # exact, so that no order of the rows changes a bit
        return total * total / math.fsum(self.calibration**2) if total > 0 else 0.0

    def reachable(self, fpr: float) -> float:
        """Share of candidates whose p-value could be ``fpr`` at all; the others weigh too much themselves.

        A smooth classifier spreads its weights evenly over calibration records nowhere near the candidates, so the
        effective sample size alone does not notice that nothing overlaps; this does.
        """
        total = math.fsum(self.calibration)
        return float((self.candidates * (1 - fpr) <= fpr * total).mean())


def density_ratio(calibration_features: object, features: object, *, like: object = None, seed: int = 0) -> Weights:
    """Weights from a probabilistic classifier that tells candidates from calibration records.

    Logistic regression on standardised features; each record's weight is the odds that a model fitted without
    its fold gives it, so that no record is weighted by a classifier that has learnt it by heart. Records with
    equal features weigh the same, and no order of the records changes a weight.

    The candidates stand for the non-members among them, which is wrong where members have other features: older
    dates, say. Known non-members that were drawn as the candidates were, ``like``, then take their place.

    Args:
        calibration_features: features or embeddings of the calibration records, ``[n, d]``.
        features: the same of the candidates, ``[m, d]``.
        like: the same of known non-members like those among the candidates, ``[k, d]``; the candidates when None.
        seed: of the folds.

    Raises:
        divulge.InputError: different widths, or fewer than 10 records on either side.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> found = density_ratio(rng.normal(size=(2000, 1)), rng.normal(1, 1, size=(2000, 1)))
        >>> bool(600 < found.effective < 900)  # 2000 / E[w²] = 2000 / e on paper
        True
    """
    calibration = _check_features(calibration_features, "calibration_features", None)
    candidates = _check_features(features, "features", calibration.shape[1])
    nonmembers_like = candidates if like is None else _check_features(like, "like", calibration.shape[1])
    for name, table in (
        ("calibration_features", calibration),
        ("features" if like is None else "like", nonmembers_like),
    ):
        if len(table) < 2 * _FOLDS:
            raise InputError(f"{name}: at least {2 * _FOLDS} records are needed for weights, got {len(table)}")
    order = np.concatenate([np.lexsort(calibration.T), len(calibration) + np.lexsort(nonmembers_like.T)])
    rows = np.vstack([calibration, nonmembers_like])[order] + 0.0
    scaler = preprocessing.StandardScaler().fit(rows)
    x, candidate_features = scaler.transform(rows), scaler.transform(candidates + 0.0)
    is_candidate = np.arange(len(x)) >= len(calibration)
    rng = seeds.generator(seed, "weights", "folds", hash_tables(rows))
    fold = keep_together(np.r_[rng.permutation(len(calibration)), rng.permutation(len(nonmembers_like))] % _FOLDS, rows)
    log_odds, candidate_log_odds = np.empty(len(x)), np.zeros(len(candidates))
    if any(np.unique(is_candidate[fold != k]).size < 2 for k in range(_FOLDS)):  # all records of a side are one record
        raise InputError(
            "calibration_features, features: too few different records for weights; equal records share a fold, and "
            "one side is left in a single fold"
        )
    for k in range(_FOLDS):
        model = linear_model.LogisticRegression(C=1.0, max_iter=500).fit(x[fold != k], is_candidate[fold != k])
        log_odds[fold == k] = model.decision_function(x[fold == k])
        candidate_log_odds += model.decision_function(candidate_features) / _FOLDS
    _, row_index = np.unique(rows, axis=0, return_inverse=True)
    log_odds[order] = (np.bincount(row_index.ravel(), log_odds) / np.bincount(row_index.ravel()))[row_index.ravel()]
    candidate_side_log_odds = log_odds[is_candidate] if like is None else candidate_log_odds
    odds = [
        np.exp(np.clip(values, -50, 50)) * len(calibration) / len(nonmembers_like)
        for values in (log_odds[~is_candidate], candidate_side_log_odds)
    ]
    return Weights(*odds, _auc(log_odds[is_candidate], log_odds[~is_candidate]))


def _check_features(value: object, name: str, columns: int | None) -> Floats:
    table = check_matrix(value, name, columns=columns)
    if np.abs(table).max() > _LARGEST_VALUE:
        raise InputError(f"{name}: values beyond ±{_LARGEST_VALUE:g} cannot be standardised")
    return table.astype(np.float64)


def p_values(calibration: object, scores: object, weights: Weights) -> Floats:
    """Weighted conformal p-values ``[m]``: ``(Σ w_i·1{c_i ≥ s_j} + w_j) / (Σ w_i + w_j)``.

    With equal weights these are `divulge.decisions.conformal.p_values`.

    Raises:
        divulge.InputError: lengths that do not fit, negative weights, or weights that are all zero.

    References:
        Tibshirani et al. 2019, lemma 3 and corollary 1.

    Examples:
        >>> equal = Weights(np.ones(4), np.ones(2))
        >>> p_values([1.0, 2.0, 2.0, 3.0], [2.0, 9.0], equal)
        array([0.8, 0.2])
    """
    check_instance(weights, "weights", Weights, "what density_ratio returned")
    calibration = check_vector(calibration, "calibration")
    candidates = check_vector(scores, "scores")
    calibration_weights = _check_weights(weights.calibration, "weights.calibration", len(calibration))
    candidate_weights = _check_weights(weights.candidates, "weights.candidates", len(candidates))
    order = np.lexsort((calibration_weights, calibration))
    # Weight of all calibration scores from the i-th smallest on; nothing beyond the largest.
    cumulative_weight = np.append(np.cumsum(calibration_weights[order][::-1])[::-1], 0.0)
    weight_at_or_above = cumulative_weight[np.searchsorted(calibration[order], candidates, side="left")]
    return (weight_at_or_above + candidate_weights) / (cumulative_weight[0] + candidate_weights)


def decide(calibration: object, scores: object, fpr: float, weights: Weights) -> Selection:
    """Call members the candidates whose weighted p-value is at most ``fpr``.

    Args:
        calibration: scores of calibration records, ``[n]``.
        scores: scores of the candidates, ``[m]``.
        fpr: the level, in (0, 1).
        weights: density ratios of both.

    Raises:
        divulge.InputError: the calibration's effective sample size is smaller than the level needs, or no score would
            be high enough for half of the candidates: too few calibration records look like them to say anything.

    Examples:
        >>> decide(range(99), [98.5, 5.0], 0.01, Weights(np.ones(99), np.ones(2))).selected
        array([ True, False])
    """
    level = check_number(fpr, "fpr", above=0, below=1)
    check_instance(weights, "weights", Weights, "what density_ratio returned")
    n_needed, effective = required_calibration(level), weights.effective
    if round(effective, 6) < n_needed:
        raise InputError(
            f"weights: the {len(weights.calibration)} calibration records are worth {effective:.1f} that look like the "
            f"candidates, and {n_needed} are needed for an FPR of {level:g}; no valid correction is possible"
        )
    reachable = weights.reachable(level)
    if reachable < 0.5:
        raise InputError(
            f"weights: only {reachable:.0%} of the candidates lie where there are enough calibration records for an "
            f"FPR of {level:g}; no valid correction is possible"
        )
    candidates = check_vector(scores, "scores")
    p = p_values(calibration, candidates, weights)
    selected = p <= level
    return Selection(
        selected=selected,
        p_values=p,
        threshold=float(candidates[selected].min()) if selected.any() else math.inf,
        usage=None,
        guarantee=Guarantee(
            "marginal FPR",
            level,
            (
                "a non-member's score depends on its class only through the features",
                "the estimated density ratio is the true one",
            ),
        ),
        warnings=(
            f"{len(weights.calibration)} calibration records count as {effective:.0f}; "
            f"{reachable:.0%} of the candidates could be selected at all",
        ),
    )


def _check_weights(value: object, name: str, length: int | None = None) -> Floats:
    weights = check_vector(value, name, length=length)
    if weights.min() < 0 or not weights.any():
        raise InputError(f"{name}: weights must be ≥ 0 and not all zero, got a least of {weights.min():g}")
    if not 1 / _LARGEST_VALUE < weights.max() < _LARGEST_VALUE:
        raise InputError(f"{name}: the largest must lie between {1 / _LARGEST_VALUE:g} and {_LARGEST_VALUE:g}")
    return weights


def _auc(above: Floats, below: Floats) -> float:
    is_above = np.arange(len(above) + len(below)) < len(above)
    return float(ranking.placements_from_scores(np.concatenate([above, below]), is_above)[0].value)
