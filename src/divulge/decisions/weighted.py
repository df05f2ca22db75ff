"""Decisions where the calibration differs from the candidates in known ways: weights and strata.

*Weights.* Calibration records count by how much they look like the candidates. If a non-member's score depends on where
the record comes from only through its features (covariate shift), calibration scores weighted by the density ratio
``w(x) = p_candidates(x) / p_calibration(x)`` give valid p-values (Tibshirani, Barber, Candès & Ramdas, "Conformal
prediction under covariate shift", 2019). `decide` bounds the false-positive rate with them, `select` the false
discovery rate. Neither the assumption nor an estimated ratio is exact; the guarantee says so.

*Strata.* Each candidate is compared with the calibration of its own year, source or length: `select_within_strata`.
Nothing is estimated, but a small stratum has no small p-values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy, seeds, statistics
from divulge.decisions import fpr as fpr_decisions
from divulge.decisions.fdr import benjamini_hochberg
from divulge.decisions.methods import check_fdr
from divulge.duplicates import hash_tables, keep_together
from divulge.errors import InputError
from divulge.settings import DecisionSettings
from divulge.types import Guarantee, Selection
from divulge.validation import check_instance, check_integer, check_matrix, check_names, check_number, check_vector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sklearn import linear_model, preprocessing

    from divulge.types import Array, Bools, Floats, Ints
else:
    linear_model = lazy.module("sklearn.linear_model")
    preprocessing = lazy.module("sklearn.preprocessing")

_DEFAULTS = DecisionSettings()
_FOLDS = 5
_LARGEST_VALUE = 1e100  # The square of a larger number overflows.


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Density ratios, up to a common factor.

    Args:
        calibration: of each calibration record, ``[n]``, ≥ 0.
        candidates: of each candidate, ``[m]``, ≥ 0.
        auc: of the classifier that tells candidates from calibration, from 0.5 (alike) to 1 (no overlap, so no
            correction is possible); NaN if unknown.
    """

    calibration: Floats
    candidates: Floats
    auc: float = math.nan

    def __post_init__(self) -> None:
        for name in ("calibration", "candidates"):
            object.__setattr__(self, name, _check_weights(getattr(self, name), f"weights.{name}"))
        if not (isinstance(self.auc, float) and math.isnan(self.auc)):
            check_number(self.auc, "weights.auc", above=0, below=1, closed=True)

    @property
    def effective(self) -> float:
        """Effective sample size of the calibration, ``(Σw)² / Σw²`` (Kish 1965)."""
        total = math.fsum(self.calibration)  # An exact sum does not depend on the order of rows.
        return total * total / math.fsum(self.calibration**2) if total > 0 else 0.0

    def reachable(self, fpr: float) -> float:
        """Return the share of candidates whose p-value can be ``fpr`` or less; the others weigh too much themselves.

        It reveals missing overlap where the effective sample size does not: a smooth classifier gives similar weights
        to all calibration records that are far from the candidates.
        """
        total = math.fsum(self.calibration)
        return float((self.candidates * (1 - fpr) <= fpr * total).mean())


def density_ratio(calibration_features: object, features: object, *, like: object = None, seed: int = 0) -> Weights:
    """Estimate density ratios with a classifier that tells candidates from calibration records.

    Logistic regression on standardised features. The weight of a record is the odds under a model fitted without the
    record's fold, so that no record is weighted by a classifier trained on it. Records with equal features have equal
    weights, and weights do not depend on the order of records.

    The candidates stand for the non-members among them, which is wrong where members have other features, for example
    older dates. Known non-members drawn as the candidates were, ``like``, then take their place.

    Args:
        calibration_features: features or embeddings of the calibration records, ``[n, d]``.
        features: the same of the candidates, ``[m, d]``.
        like: the same of known non-members like those among the candidates, ``[k, d]``; None stands for the candidates.
        seed: of the folds.

    Raises:
        divulge.InputError: different widths, or fewer than 10 records on either side.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> weights = density_ratio(rng.normal(size=(2000, 1)), rng.normal(1, 1, size=(2000, 1)))
        >>> bool(600 < weights.effective < 900)  # in theory 2000 / E[w²] = 2000 / e
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
    if any(np.unique(is_candidate[fold != k]).size < 2 for k in range(_FOLDS)):
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
    """Return weighted conformal p-values ``[m]``: ``(Σ w_i·1{c_i ≥ s_j} + w_j) / (Σ w_i + w_j)``.

    With equal weights these are `divulge.decisions.fpr.p_values`.

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
    # The total weight of the calibration scores from the i-th smallest on.
    cumulative_weight = np.append(np.cumsum(calibration_weights[order][::-1])[::-1], 0.0)
    weight_at_or_above = cumulative_weight[np.searchsorted(calibration[order], candidates, side="left")]
    return (weight_at_or_above + candidate_weights) / (cumulative_weight[0] + candidate_weights)


def decide(calibration: object, scores: object, fpr: float, weights: Weights) -> Selection:
    """Select the candidates whose weighted p-value is at most ``fpr``.

    Args:
        calibration: scores of calibration records, ``[n]``.
        scores: scores of the candidates, ``[m]``.
        fpr: the level, in (0, 1).
        weights: density ratios of both.

    Raises:
        divulge.InputError: the effective sample size of the calibration is too small for the level, or half of the
            candidates could not be selected with any score, as too few calibration records look like them.

    Examples:
        >>> decide(range(99), [98.5, 5.0], 0.01, Weights(np.ones(99), np.ones(2))).selected
        array([ True, False])
    """
    level = check_number(fpr, "fpr", above=0, below=1)
    check_instance(weights, "weights", Weights, "what density_ratio returned")
    n_needed, effective = fpr_decisions.required_calibration(level), weights.effective
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
        raise InputError(f"{name}: weights must be ≥ 0 and not all zero, got a minimum of {weights.min():g}")
    if not 1 / _LARGEST_VALUE < weights.max() < _LARGEST_VALUE:
        raise InputError(f"{name}: the largest must lie between {1 / _LARGEST_VALUE:g} and {_LARGEST_VALUE:g}")
    return weights


def _auc(above: Floats, below: Floats) -> float:
    is_above = np.arange(len(above) + len(below)) < len(above)
    return float(statistics.placements_from_scores(np.concatenate([above, below]), is_above)[0].value)


ASSUMES_TRUE_WEIGHTS = (
    "a non-member's score depends on whether it is a candidate or a calibration record only through what is weighted",
    "the weights are, up to a common factor, the true density ratio of non-member candidates to the calibration",
)
_EXACT = 1e-12  # Tolerance, as a share of all weight, so that equal weights decide as counts do.


def select(
    candidates: object, calibration: object, weights: Weights, *, fdr: float = _DEFAULTS.fdr, seed: int = 0
) -> Selection:
    """Select candidates that were used for training, with FDR at most ``fdr`` if the weights are right.

    Let ``w(x)`` be the density of the features among non-member candidates over that among the calibration. Then
    ``p_j = (Σ w_i·1{S_i ≥ T_j} + w_j) / (Σ w_i + w_j)`` is a p-value. Benjamini and Hochberg's step-up is not known to
    keep its bound on such p-values, which share their weights. The selection of Jin and Candès does:

    1. For candidate ``j``, pool it with the calibration and compute everybody else's p-values from the pool. Let
       ``R_j`` be the size of the step-up's selection, with ``j`` counted as selected. Given the records of the pool, a
       non-member ``j`` is each of them with probability ``w / Σ w``, independently of ``R_j``.
    2. ``j`` is kept if ``p_j ≤ fdr · R_j / m``, which has probability at most ``fdr · R_j / m`` given the pool.
    3. Of these, with one uniform ``ξ``, the largest ``r`` is taken such that ``r`` of them have ``ξ R_j ≤ r``. Where
       ``j`` is selected, the mean of ``1 / r`` over ``ξ`` is at most ``1 / R_j``. The sum over non-members is
       ``fdr · m0 / m``.

    Equal weights give Benjamini and Hochberg's selection for every ``ξ``. If weights are wrong by a factor of up to
    ``γ`` either way, apart from a common factor, the probability of the second step and with it the bound is at most
    ``γ²`` times as large.

    Args:
        candidates: scores ``[m]``, larger = more member-like.
        calibration: scores ``[n]`` of known non-members.
        weights: density ratios of both, see `density_ratio`; those of candidates must be above 0.
        fdr: bound on the expected share of non-members among the selected.
        seed: of ``ξ``.

    Raises:
        divulge.InputError: NaN or infinity, lengths that do not fit; weights too uneven for the level: the
            effective sample size is too small, or half of the candidates lie where there is hardly any calibration.

    References:
        Jin & Candès, "Model-free selective inference under covariate shift via weighted conformal p-values", Biometrika
        2025 (arXiv 2307.09291; homogeneous pruning); here ties count against the candidate.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> x_known, x = rng.normal(size=2000), rng.normal(1, 1, 100)  # a feature that raises all scores
        >>> known, scores = x_known + rng.normal(size=2000), x + rng.normal(size=100) + 4 * (np.arange(100) < 50)
        >>> select(scores, known, Weights(np.exp(x_known), np.exp(x)), fdr=0.1)
        Selection(55 of 100 selected; FDR ≤ 0.1, assuming a non-member...)
    """
    level = check_fdr(fdr)
    check_integer(seed, "seed", minimum=0)
    scores, calibration_scores = check_vector(candidates, "candidates"), check_vector(calibration, "calibration")
    p = p_values(calibration_scores, scores, weights)
    _require_sufficient_weights(weights, level)
    sizes = _step_up_sizes(scores, calibration_scores, weights, level)
    passes_first_step = p <= level * sizes / len(p) + _EXACT
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
    return Selection(selected, p, threshold, None, Guarantee("FDR", level, ASSUMES_TRUE_WEIGHTS), tuple(warnings))


def _require_sufficient_weights(weights: Weights, level: float) -> None:
    if weights.candidates.min() <= 0:
        raise InputError("weights.candidates: must be above 0; 0 means that no such document is a non-member")
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
    """Return ``R_j`` of the candidates that can pass the first step, ``[m]``; for others the number above them plus 1.

    Candidates above ``j`` have smaller p-values in the pool of ``j`` than ``j`` has, so only lower ranks matter: the
    ``k``-th best is within the level if ``w_j`` is at most a bound that does not depend on ``j``.
    """
    m, total = len(scores), math.fsum(weights.calibration)
    best = np.sort(scores)[::-1]
    order = np.lexsort((weights.calibration, calibration))
    cumulative_weight = np.append(np.cumsum(weights.calibration[order][::-1])[::-1], 0.0)
    weight_at_or_above = cumulative_weight[np.searchsorted(calibration[order], best, side="left")]
    fractions = level * np.arange(1, m + 1) / m
    bound = (fractions * total - weight_at_or_above) / (1 - fractions) + _EXACT * total
    best_bounds = np.maximum.accumulate(bound[::-1])  # the largest bound of the last 1, 2, … ranks, ascending
    largest = m - np.searchsorted(best_bounds, weights.candidates, side="left")
    n_above = m - np.searchsorted(best[::-1], scores, side="right")
    return np.maximum(largest, n_above + 1)


def _prune(passes_first_step: Bools, sizes: Floats) -> Bools:
    """Return the largest set that passes the first step and has no size greater than its own number of candidates."""
    ordered = np.sort(sizes[passes_first_step])
    admissible = np.flatnonzero(ordered <= np.arange(1, len(ordered) + 1))
    return passes_first_step & (sizes <= (admissible[-1] + 1 if len(admissible) else 0))


ASSUMES_ALIKE_WITHIN_STRATA = (
    "within each stratum non-member candidates are exchangeable with the calibration records",
)


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """The stratum of every document, as texts or whole numbers.

    Args:
        candidates: ``[m]``.
        calibration: ``[n]``.
        holdout: ``[h]``, of a holdout to be compared within strata; None if there is none.

    Raises:
        divulge.InputError: neither texts nor whole numbers, or no stratum with both candidates and calibration.

    Examples:
        >>> Strata(["2019", "2023"], ["2023", "2023"]).uncovered
        1
    """

    candidates: Any
    calibration: Any
    holdout: Any = None

    def __post_init__(self) -> None:
        for name in ("candidates", "calibration", "holdout"):
            value = getattr(self, name)
            if value is not None or name != "holdout":
                object.__setattr__(self, name, check_names(value, f"strata.{name}").astype(str))
        if self.uncovered == len(self.candidates):
            raise InputError("strata: no calibration record is of the stratum of any candidate")

    @property
    def uncovered(self) -> int:
        """Number of candidates in strata without calibration, whose p-value is 1."""
        return int((~np.isin(self.candidates, self.calibration)).sum())

    def iterate_rows(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield the rows of the candidates and of the calibration of each stratum that has both."""
        names, candidate_rows = _rows_by_stratum(self.candidates)
        calibration_names, calibration_rows = _rows_by_stratum(self.calibration)
        _, candidate_index, calibration_index = np.intersect1d(
            names, calibration_names, assume_unique=True, return_indices=True
        )
        for i, j in zip(candidate_index.tolist(), calibration_index.tolist(), strict=True):
            yield candidate_rows[i], calibration_rows[j]


def _rows_by_stratum(strata: Array) -> tuple[Array, list[Ints]]:
    """Return the names of the strata and the rows of each."""
    names, stratum_index, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    return names, np.split(np.argsort(stratum_index, kind="stable"), np.cumsum(sizes)[:-1])


def stratified_p_values(candidates: object, calibration: object, strata: Strata) -> Floats:
    """Return conformal p-values within strata, ``[m]``; 1 in a stratum without calibration.

    Raises:
        divulge.InputError: NaN or infinity, lengths that do not fit.

    Examples:
        >>> stratified_p_values([5.0, 5.0, 5.0], [1.0, 9.0, 2.0], Strata(["a", "b", "c"], ["a", "b", "a"])).round(3)
        array([0.333, 1.   , 1.   ])
    """
    check_instance(strata, "strata", Strata, "a decisions.weighted.Strata")
    scores = check_vector(candidates, "candidates", length=len(strata.candidates))
    calibration_scores = check_vector(calibration, "calibration", length=len(strata.calibration))
    p = np.ones(len(scores))
    for candidate_rows, calibration_rows in strata.iterate_rows():
        p[candidate_rows] = fpr_decisions.p_values(calibration_scores[calibration_rows], scores[candidate_rows])
    return p


def select_within_strata(
    candidates: object, calibration: object, strata: Strata, *, fdr: float = _DEFAULTS.fdr
) -> Selection:
    """Select candidates that were used for training, each compared with the calibration of its stratum.

    If non-members of one stratum score alike among candidates and calibration, p-values within strata are valid,
    whatever the shares of the strata. Benjamini and Hochberg's step-up on all of them keeps its bound: given everybody
    else, a non-member is each record of its stratum's pool with equal probability, and the argument of `select` applies
    with equal weights within each stratum.

    Args:
        candidates: scores ``[m]``, larger = more member-like.
        calibration: scores ``[n]`` of known non-members.
        strata: of candidates and calibration.
        fdr: bound on the expected share of non-members among the selected.

    Raises:
        divulge.InputError: NaN or infinity, lengths that do not fit, strata too small for any selection.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> known_year, year = np.repeat([0, 1], 500), np.repeat([0, 1], [50, 150])  # scores rise with the year
        >>> known, scores = rng.normal(size=1000) + 3 * known_year, rng.normal(size=200) + 3 * year
        >>> scores[:100] += 4
        >>> select_within_strata(scores, known, Strata(year, known_year), fdr=0.1)
        Selection(104 of 200 selected; FDR ≤ 0.1, assuming within each stratum non-member ...)
    """
    level = check_fdr(fdr)
    p, m = stratified_p_values(candidates, calibration, strata), len(strata.candidates)
    smallest_p = np.ones(m)
    for candidate_rows, calibration_rows in strata.iterate_rows():
        smallest_p[candidate_rows] = 1 / (len(calibration_rows) + 1)
    if not benjamini_hochberg(smallest_p, level).any():
        raise InputError(
            f"calibration: its strata are too small for fdr={level:g}: not even a selection of all candidates could be "
            f"proven; a stratum of all candidates would take {math.ceil(1 / level - 1 - 1e-9)} records"
        )
    selected = benjamini_hochberg(p, level)
    threshold = float(check_vector(candidates, "candidates")[selected].min()) if selected.any() else math.inf
    warning = f"{strata.uncovered} of {m} candidates are of strata without calibration and cannot be selected"
    return Selection(
        selected,
        p,
        threshold,
        None,
        Guarantee("FDR", level, ASSUMES_ALIKE_WITHIN_STRATA),
        (warning,) if strata.uncovered else (),
    )
