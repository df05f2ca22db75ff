"""Is the density ratio between query and seen records a linear function of the regressor's last layer?

Thaker et al. 2025 (arXiv:2506.06488, Theorem 5.3): a linear quantile regressor that minimises the pinball loss on
seen records keeps its level on query records when it is. This module has their estimate of it (§5.1) and what
`divulge.evaluation.transfer` shares with it: mixtures, an orthonormal basis, the multi-accuracy violation.

Shapes: ``z`` seen records, ``n`` query records, ``h`` columns of the last layer φ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special
from sklearn import decomposition
from sklearn import mixture as mixtures

from divulge import seeds
from divulge.errors import InputError
from divulge.validation import check_mask, check_matrix, check_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.types import Bools, Floats

COMPONENTS = 2
MIN_RECORDS = 50
_MIXTURES = 5
_LARGEST = 300.0  # of a log ratio: its square is still a float64


@dataclass(frozen=True, slots=True, eq=False)
class Linearity:
    """The density ratio at the query records, and its linear fit on the last layer.

    Attributes:
        error: mean squared error of the fit on the records it was fitted to, as published.
        fresh_error: the same on records it was not fitted to (two halves, each predicted from the other).
        variance: of the ratio: the error of the best constant. A small ``error`` says something only beside it.
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
        """Share of the ratio's variance that the fit explains on fresh records; negative when worse than a constant."""
        return 1.0 - self.fresh_error / self.variance if self.variance > 0 else 1.0


class Violation(NamedTuple):
    """How far a regressor is from multi-accuracy.

    Args:
        size: the largest ``|E[c(x)·(selected - level)]|``.
        p_value: chance of as much from a perfect regressor.
    """

    size: float
    p_value: float


def measure(seen: object, query: object, *, seed: int = 0) -> Linearity:
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
        >>> found = measure(rng.normal(size=(4000, 4)), rng.normal(0.3, 1, size=(2000, 4)))
        >>> found.error < found.variance
        True
    """
    seen_rows, query_rows = both(seen, query)
    project = _principal_plane(seen_rows)
    with np.errstate(over="ignore", invalid="ignore"):
        seen_plane, query_plane = project(seen_rows), project(query_rows)
    if not (np.isfinite(query_plane).all() and np.isfinite(query_plane**2).all()):
        raise InputError(f"query: values up to {np.abs(query_rows).max():g} are too far from seen for a density")
    seen_mixture, query_mixture = mixture(seen_plane, seed), mixture(query_plane, seed)
    ratio = np.exp(
        np.clip(query_mixture.score_samples(query_plane) - seen_mixture.score_samples(query_plane), -_LARGEST, _LARGEST)
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
    if len(rows) < MIN_RECORDS:
        raise InputError(f"embedding: at least {MIN_RECORDS} records are needed, got {len(rows)}")
    selected_mask = check_mask(selected, "selected", (len(rows),))
    return violation(basis(rows), selected_mask.astype(np.float64) - rate, rate)


def both(seen: object, query: object) -> tuple[Floats, Floats]:
    """Two embeddings of one width with enough records for a density."""
    seen_rows = check_matrix(seen, "seen")
    query_rows = check_matrix(query, "query", columns=seen_rows.shape[1])
    for name, side in (("seen", seen_rows), ("query", query_rows)):
        if len(side) < MIN_RECORDS:
            raise InputError(
                f"{name}: at least {MIN_RECORDS} records are needed to estimate a density, got {len(side)}"
            )
    return seen_rows, query_rows


def mixture(points: Floats, seed: int) -> mixtures.GaussianMixture:
    """Return the Gaussian mixture with the lowest BIC."""
    state = seeds.derive_seed(seed, "transfer", "mixture")
    max_components = max(1, min(_MIXTURES, len(points) // 20))
    fits = [
        mixtures.GaussianMixture(k, reg_covar=1e-3, random_state=state).fit(points)
        for k in range(1, max_components + 1)
    ]
    return min(fits, key=lambda fitted: fitted.bic(points))


def basis(points: Floats) -> Floats:
    """1 and the linear functions of the points, orthonormal over them: ``basisᵀ basis / n = 1``."""
    columns = np.column_stack([np.ones(len(points)), points])
    u, size, _ = np.linalg.svd(columns, full_matrices=False)
    return u[:, size > 1e-9 * size[0]] * np.sqrt(len(points))


def violation(columns: Floats, residual: Floats, level: float) -> Violation:
    """``max |E[c·residual]|`` over linear c with ``E[c²] = 1``, and the chance of as much from a perfect regressor."""
    n, k = columns.shape
    moments = columns.T @ residual / n
    size = float(moments @ moments)
    return Violation(float(np.sqrt(size)), float(special.chdtrc(k, n * size / (level * (1 - level)))))


def _principal_plane(seen: Floats) -> Callable[[Floats], Floats]:
    """Return a function that projects on the principal components of ``seen``, where each has unit variance."""
    fitted = decomposition.PCA(min(COMPONENTS, seen.shape[1]), svd_solver="full").fit(seen.astype(np.float64))
    size = np.maximum(np.sqrt(fitted.explained_variance_), 1e-12)
    return lambda points: fitted.transform(points.astype(np.float64)) / size


def _least_squares_fit(columns: Floats, target: Floats, rows: Bools) -> Floats:
    """Least squares of ``target`` on a constant and the columns, fitted on ``rows`` and predicted everywhere."""
    full = np.column_stack([np.ones(len(columns)), columns]).astype(np.float64)
    return full @ np.linalg.lstsq(full[rows], target[rows])[0]
