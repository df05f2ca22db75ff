"""Does a false-positive rate that was learned on seen classes hold on a class of which the auditor has no records?

Thaker et al. 2025 (arXiv:2506.06488, Theorem 5.3, §5 and App. G): a linear quantile regressor that minimises the
pinball loss on seen records keeps its level on query records if the density ratio between query and seen records is a
linear function of the regressor's last layer, and the regressor's errors are uncorrelated with every linear function of
it (multi-accuracy; Kim et al. 2022). Both can be examined without a labelled record of the unseen class.

`measure_linearity` is their estimate (§5.1), `multiaccuracy` their Definition 5.2. `assess` is ours: it measures the
ratio on seen records to which no mixture was fitted, where the regressor's errors are known, and its linear functions
are those of the plane of two principal components.

Shapes: ``z`` seen records (known non-members), ``n`` query records, ``h`` columns of the embedding (the last layer φ).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from divulge import lazy, seeds
from divulge.errors import InputError
from divulge.types import Estimate, ShortRepr
from divulge.validation import check_mask, check_matrix, check_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn import decomposition
    from sklearn import mixture as mixtures

    from divulge.types import Array, Bools, Floats
else:
    decomposition = lazy.module("sklearn.decomposition")
    mixtures = lazy.module("sklearn.mixture")

# A query record is outside if it lies further out than all but this share of the seen records.
_TAIL = 0.01


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TransferAssessment(ShortRepr):
    """Evidence on whether a false-positive rate holds on query records.

    Attributes:
        level: the nominal rate.
        expected_fpr: the rate on query records if non-members with the same embedding behave the same in both classes:
            the seen records' rate, weighted by the density ratio.
        outside: share of query records further out than all but 1 % of the seen ones.
        effective: effective sample size of the weighted seen records, ``(Σw)² / Σw²``.
        error: mean squared error of the linear fit to the density ratio (whose mean is 1).
        explained: share of the ratio's variance that the fit explains.
        violation: multi-accuracy violation, the largest ``|E[c(x)·(selected - level)]|`` over linear ``c``
            with ``E[c²] = 1``.
        p_value: of a violation as large by chance.
        bound: ``|FPR on query records - level|`` is at most this, by Cauchy-Schwarz over the last three.
        seen: the seen records in the plane of the two components, ``[k, 2]``.
        query: the query records there, ``[n, 2]``.
        ratio: density ratio of each row of ``seen``, ``[k]``.
        linear: the linear fit to it, ``[k]``.
    """

    level: float
    expected_fpr: Estimate
    outside: float
    effective: float
    error: float
    explained: float
    violation: float
    p_value: float
    bound: float
    seen: Floats
    query: Floats
    ratio: Floats
    linear: Floats

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons why the rate is not expected to hold; empty if there is no evidence against it."""
        messages = []
        if self.effective * self.level < 1:
            messages.append(
                f"the seen records carry the weight of {self.effective:.0f} of the query class, "
                f"and {1 / self.level:.0f} are needed to resolve a rate of {self.level:g}"
            )
        if self.outside > 10 * _TAIL:
            messages.append(f"{self.outside:.0%} of the query records lie where almost no seen record does")
        if self.expected_fpr.low > self.level:
            messages.append(
                f"the rate expected there is {self.expected_fpr.value:.3f} "
                f"[{self.expected_fpr.low:.3f}, {self.expected_fpr.high:.3f}]"
            )
        if self.p_value < 0.01:
            messages.append(
                f"the errors on seen records depend on the embedding (violation {self.violation:.2g}, "
                f"p = {self.p_value:.1g})"
            )
        return tuple(messages)

    @property
    def holds(self) -> bool:
        """Whether the rate is expected to hold on the query records."""
        return not self.reasons

    def __str__(self) -> str:
        if self.holds:
            return (
                f"The FPR of {self.level:g} is expected to hold on this class, because its records lie among the seen "
                f"ones and the rate expected there is {self.expected_fpr.value:.3f} "
                f"[{self.expected_fpr.low:.3f}, {self.expected_fpr.high:.3f}]; this assumes that non-members "
                "with the same embedding behave alike in both."
            )
        return f"The FPR of {self.level:g} is not expected to hold on this class, because {'; '.join(self.reasons)}."


def assess(seen: object, query: object, selected: object, level: float, *, seed: int = 0) -> TransferAssessment:
    """Assess whether the attack's false-positive rate on seen records holds on query records.

    Both sets are projected on their two principal components; a Gaussian mixture (its size by BIC) is fitted to
    the query records and to half of the seen ones, and everything else is measured on the other half.

    Args:
        seen: embeddings of known non-members of seen classes, ``[z, h]``, on which the regressor was not trained.
        query: embeddings of records of the unseen class, members and non-members alike, ``[n, h]``.
        selected: bool ``[z]``, True where the attack calls the seen record a member at nominal ``level``.
        level: the nominal false-positive rate.
        seed: of the halves and the mixtures.

    Raises:
        divulge.InputError: fewer than 50 records on either side, embeddings of different widths, a level
            outside (0, 1).

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> near = assess(rng.normal(size=(4000, 4)), rng.normal(size=(500, 4)), rng.random(4000) < 0.05, 0.05)
        >>> near.holds
        True
        >>> far = assess(rng.normal(size=(4000, 4)), rng.normal(6, 1, size=(500, 4)), rng.random(4000) < 0.05, 0.05)
        >>> far.holds, far.outside
        (False, 1.0)
    """
    rate = check_number(level, "level", above=0, below=1)
    seen_rows, query_rows = check_embeddings(seen, query)
    selected_mask = _check_selected(selected, len(seen_rows))
    plane = _common_plane(seen_rows, query_rows, seed)
    seen_plane, query_plane = plane[: len(seen_rows)], plane[len(seen_rows) :]
    order = seeds.generator(seed, "transfer", "halves").permutation(len(seen_plane))
    mixture_rows, test_rows = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    seen_mixture, query_mixture = fit_mixture(seen_plane[mixture_rows], seed), fit_mixture(query_plane, seed)
    log_seen = seen_mixture.score_samples(seen_plane[test_rows])
    log_ratio = query_mixture.score_samples(seen_plane[test_rows]) - log_seen
    ratio = np.exp(log_ratio - log_ratio.max())
    ratio /= ratio.mean()
    columns = orthonormal_basis(seen_plane[test_rows])
    weights = columns.T @ ratio / len(ratio)
    linear = columns @ weights
    residual = selected_mask[test_rows].astype(np.float64) - rate
    size, p_value = multiaccuracy_violation(columns, residual, rate)
    error = float(np.mean((ratio - linear) ** 2))
    spread = float(ratio.var())
    return TransferAssessment(
        level=rate,
        expected_fpr=_weighted_rate(ratio, selected_mask[test_rows]),
        outside=float((seen_mixture.score_samples(query_plane) < np.quantile(log_seen, _TAIL)).mean()),
        effective=float(ratio.sum() ** 2 / (ratio**2).sum()),
        error=error,
        explained=1.0 - error / spread if spread > 0 else 1.0,
        violation=size,
        p_value=p_value,
        bound=float(np.linalg.norm(weights) * size + np.sqrt(error * np.mean(residual**2))),
        seen=seen_plane[test_rows],
        query=query_plane,
        ratio=ratio,
        linear=linear,
    )


def _common_plane(seen_features: Floats, query: Floats, seed: int) -> Floats:
    """Return both sets on two principal components, seen first, scaled to unit variance; the sets have equal weight."""
    centre, scale = seen_features.mean(axis=0), seen_features.std(axis=0)
    standardised = (np.vstack([seen_features, query]).astype(np.float64) - centre) / np.where(scale > 0, scale, 1.0)
    rng = seeds.generator(seed, "transfer", "plane")
    size = max(len(seen_features), len(query))
    rows = np.r_[rng.permutation(len(seen_features)), len(seen_features) + rng.permutation(len(query))]
    balanced_rows = np.r_[np.resize(rows[: len(seen_features)], size), np.resize(rows[len(seen_features) :], size)]
    width = min(_COMPONENTS, standardised.shape[1])
    fitted = decomposition.PCA(width, svd_solver="full").fit(standardised[balanced_rows])
    plane = fitted.transform(standardised)
    plane /= np.maximum(plane[: len(seen_features)].std(axis=0), 1e-12)
    return plane if width == _COMPONENTS else np.column_stack([plane, np.zeros(len(plane))])


def _weighted_rate(weights: Floats, chosen: Array) -> Estimate:
    """Return a weighted share with Wilson's interval at the effective sample size."""
    # Kish's effective size: so many equal weights would have the variance of these. 97.5 % of deviates are below z.
    z, effective = 1.959963984540054, float(weights.sum() ** 2 / (weights**2).sum())
    share = float(np.average(chosen, weights=weights))
    centre = (share + z * z / (2 * effective)) / (1 + z * z / effective)
    reach = z / (1 + z * z / effective) * np.sqrt(share * (1 - share) / effective + z * z / (4 * effective**2))
    low, high = max(0.0, float(centre - reach)), min(1.0, float(centre + reach))
    return Estimate(share, low, high, 0.95, "wilson at the effective sample size")


_COMPONENTS = 2
_MIN_RECORDS = 50
_MIXTURES = 5
_MAX_LOG_RATIO = 300.0  # the square of the ratio is still finite


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Linearity(ShortRepr):
    """The density ratio at the query records, and its linear fit on the last layer.

    Attributes:
        error: mean squared error of the fit on the records it was fitted to, as published.
        fresh_error: the same on records it was not fitted to (two halves, each predicted from the other).
        variance: of the ratio, which is the error of the best constant; compare ``error`` with it.
        ratio: density of the query records over that of the seen ones, at each query record, ``[n]``.
        linear: the fit, ``[n]``.
    """

    error: float
    fresh_error: float
    variance: float
    ratio: Floats
    linear: Floats

    @property
    def explained(self) -> float:
        """Share of the ratio's variance that the fit explains on fresh records; negative if a constant is better."""
        return 1.0 - self.fresh_error / self.variance if self.variance > 0 else 1.0


class Violation(NamedTuple):
    """Distance of a regressor from multi-accuracy.

    Args:
        size: the largest ``|E[c(x)·(selected - level)]|``.
        p_value: probability of a violation at least as large for a perfect regressor.
    """

    size: float
    p_value: float


def measure_linearity(seen: object, query: object, *, seed: int = 0) -> Linearity:
    """Return the estimate of Thaker et al. 2025, §5.1.

    Both sets are projected on the two principal components of the seen one, a Gaussian mixture is fitted to each, and
    the ratio of their densities at the query records is fitted by least squares on φ (all of its columns, and a
    constant). The paper does not say how many Gaussians there are; BIC chooses among one to five.

    Args:
        seen: last layer on the records that the regressor learnt from, ``[z, h]``.
        query: last layer on the evaluation records, ``[n, h]``.
        seed: of the mixtures and the halves.

    Raises:
        divulge.InputError: fewer than 50 records on either side, or different widths.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> fit = measure_linearity(rng.normal(size=(4000, 4)), rng.normal(0.3, 1, size=(2000, 4)))
        >>> fit.error < fit.variance
        True
    """
    seen_rows, query_rows = check_embeddings(seen, query)
    project = _principal_plane(seen_rows)
    with np.errstate(over="ignore", invalid="ignore"):
        seen_plane, query_plane = project(seen_rows), project(query_rows)
        is_finite = np.isfinite(query_plane**2).all()
    if not is_finite:
        raise InputError(f"query: values up to {np.abs(query_rows).max():g} are too far from seen for a density")
    seen_mixture, query_mixture = fit_mixture(seen_plane, seed), fit_mixture(query_plane, seed)
    ratio = np.exp(
        np.clip(
            query_mixture.score_samples(query_plane) - seen_mixture.score_samples(query_plane),
            -_MAX_LOG_RATIO,
            _MAX_LOG_RATIO,
        )
    )
    rows = np.ones(len(query_rows), dtype=bool)
    in_first_half = np.zeros(len(query_rows), dtype=bool)
    in_first_half[seeds.generator(seed, "linearity", "halves").permutation(len(query_rows))[: len(query_rows) // 2]] = (
        True
    )
    linear = _least_squares_fit(query_rows, ratio, rows)
    held_out_fit = np.where(
        in_first_half,
        _least_squares_fit(query_rows, ratio, ~in_first_half),
        _least_squares_fit(query_rows, ratio, in_first_half),
    )
    return Linearity(
        error=float(np.mean((ratio - linear) ** 2)),
        fresh_error=float(np.mean((ratio - held_out_fit) ** 2)),
        variance=float(ratio.var()),
        ratio=ratio,
        linear=linear,
    )


def multiaccuracy(embedding: object, selected: object, level: float) -> Violation:
    """Return the largest ``|E[c(x)·(selected - level)]|`` over linear ``c`` of φ with ``E[c²] = 1``, and its p-value.

    Thaker et al. 2025, Definition 5.2, where ``c`` may be any linear function; over those, the largest value is 0
    or infinite, so that ``c`` is scaled here.

    Args:
        embedding: last layer, ``[n, h]``.
        selected: bool ``[n]``, True where the signal lies above the predicted quantile.
        level: the nominal rate of True.

    Raises:
        divulge.InputError: fewer than 50 records, no value per record, a level outside (0, 1).

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(5000, 2))
        >>> size, p_value = multiaccuracy(x, rng.random(5000) < 0.1, 0.1)
        >>> size < 0.02, p_value > 0.01
        (True, True)
    """
    rate = check_number(level, "level", above=0, below=1)
    rows = check_matrix(embedding, "embedding")
    if len(rows) < _MIN_RECORDS:
        raise InputError(f"embedding: at least {_MIN_RECORDS} records are needed, got {len(rows)}")
    selected_mask = _check_selected(selected, len(rows))
    return multiaccuracy_violation(orthonormal_basis(rows), selected_mask.astype(np.float64) - rate, rate)


def check_embeddings(seen: object, query: object) -> tuple[Floats, Floats]:
    """Return two checked embeddings of one width, with enough records for a density."""
    seen_rows = check_matrix(seen, "seen")
    query_rows = check_matrix(query, "query", columns=seen_rows.shape[1])
    for name, side in (("seen", seen_rows), ("query", query_rows)):
        if len(side) < _MIN_RECORDS:
            raise InputError(
                f"{name}: at least {_MIN_RECORDS} records are needed to estimate a density, got {len(side)}"
            )
    return seen_rows, query_rows


def _check_selected(selected: object, records: int) -> Bools:
    """Return the mask of selected records, one value for each."""
    mask = check_mask(selected, "selected", (None,))
    if len(mask) != records:
        raise InputError(f"selected: {records} values are needed (one per record), got {len(mask)}")
    return mask


def fit_mixture(points: Floats, seed: int) -> mixtures.GaussianMixture:
    """Return the Gaussian mixture with the lowest BIC."""
    state = seeds.derive_seed(seed, "transfer", "mixture")
    max_components = max(1, min(_MIXTURES, len(points) // 20))
    fits = [
        mixtures.GaussianMixture(k, reg_covar=1e-3, random_state=state).fit(points)
        for k in range(1, max_components + 1)
    ]
    return min(fits, key=lambda fitted: fitted.bic(points))


def orthonormal_basis(points: Floats) -> Floats:
    """Return a basis of 1 and the linear functions of the points with ``basisᵀ basis / n = 1``, ``[n, k]``."""
    columns = np.column_stack([np.ones(len(points)), points])
    u, size, _ = np.linalg.svd(columns, full_matrices=False)
    return u[:, size > 1e-9 * size[0]] * np.sqrt(len(points))


def multiaccuracy_violation(columns: Floats, residual: Floats, level: float) -> Violation:
    """Return ``max |E[c·residual]|`` over linear c with ``E[c²] = 1``, and its p-value."""
    n, k = columns.shape
    moments = columns.T @ residual / n
    size = float(moments @ moments)
    return Violation(float(np.sqrt(size)), float(special.chdtrc(k, n * size / (level * (1 - level)))))


def _principal_plane(seen_features: Floats) -> Callable[[Floats], Floats]:
    """Return a projection on the principal components of ``seen_features``, where each has unit variance."""
    fitted = decomposition.PCA(min(_COMPONENTS, seen_features.shape[1]), svd_solver="full").fit(
        seen_features.astype(np.float64)
    )
    size = np.maximum(np.sqrt(fitted.explained_variance_), 1e-12)
    return lambda points: fitted.transform(points.astype(np.float64)) / size


def _least_squares_fit(columns: Floats, target: Floats, rows: Bools) -> Floats:
    """Fit ``target`` on a constant and the columns by least squares on ``rows``; return predictions of all rows."""
    full = np.column_stack([np.ones(len(columns)), columns]).astype(np.float64)
    return full @ np.linalg.lstsq(full[rows], target[rows])[0]
