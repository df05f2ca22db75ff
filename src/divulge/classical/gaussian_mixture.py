"""Mixtures of Gaussians, each with a covariance of its own, fitted by expectation and maximisation.

Shapes: ``n`` points, ``d`` columns, ``k`` Gaussians.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import seeds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]
    Ints = NDArray[np.int64]

_RIDGE = 1e-3  # added to every variance: no Gaussian shrinks to a point
_LEAST_GAIN = 1e-4  # of the mean log-likelihood, in a round that is followed by another
_MOST_ROUNDS = 100
_STARTS = 2


@dataclass(frozen=True, slots=True, eq=False)
class GaussianMixture:
    """A density ``Σ_j weight_j·N(mean_j, (whitening_jᵀ whitening_j)⁻¹)``.

    Args:
        weights: ``[k]``, they sum to one.
        means: ``[k, d]``.
        whitenings: lower triangular, ``[k, d, d]``.
    """

    weights: Floats
    means: Floats
    whitenings: Floats

    def log_density(self, points: Floats) -> Floats:
        """Logarithm of the density at points ``[n, d]``, ``[n]``."""
        return _total(self.parts(points))

    def parts(self, points: Floats) -> Floats:
        """Logarithm of what each Gaussian adds to the density, ``[k, n]``."""
        columns = np.ascontiguousarray(points.T)
        size = np.log(self.weights) + np.log(np.diagonal(self.whitenings, axis1=1, axis2=2)).sum(axis=1)
        made = np.empty((len(self.weights), len(points)))
        for row, mean, whitening in zip(made, self.means, self.whitenings, strict=True):
            white = whitening @ (columns - mean[:, None])
            white *= white
            row[:] = white.sum(axis=0)
        return (size - 0.5 * points.shape[1] * np.log(2 * np.pi))[:, None] - 0.5 * made

    def bic(self, points: Floats) -> float:
        """Schwarz's criterion on the points that it was fitted to; smaller is better."""
        k, d = self.means.shape
        free = k * d * (d + 1) / 2 + k * d + k - 1
        return float(free * np.log(len(points)) - 2 * self.log_density(points).sum())


def best(points: Floats, most: int, seed: int) -> GaussianMixture:
    """Of mixtures of one to ``most`` Gaussians, the one with the lowest BIC.

    Args:
        points: ``[n, d]``, at least ``most``.
        most: greatest number of Gaussians.
        seed: of the starts.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> found = best(np.concatenate([rng.normal(0, 1, (300, 2)), rng.normal(9, 1, (300, 2))]), 4, 0)
        >>> (np.sort(found.means.round(0), axis=0) + 0.0).tolist()
        [[0.0, 0.0], [9.0, 9.0]]
    """
    fits = [fit(points, k, seed) for k in range(1, most + 1)]
    return min(fits, key=lambda fitted: fitted.bic(points))


def fit(points: Floats, k: int, seed: int) -> GaussianMixture:
    """A mixture of ``k`` Gaussians: the likelier one of two, from different groups of k-means.

    Args:
        points: ``[n, d]``, at least k.
        k: how many Gaussians.
        seed: of the starts.
    """
    starts = range(_STARTS if k > 1 else 1)
    fits = [_climbed(points, _groups(points, k, seeds.generator(seed, "mixture", k, start))) for start in starts]
    return max(fits, key=lambda fitted: fitted.log_density(points).sum())


def _climbed(points: Floats, groups: Ints) -> GaussianMixture:
    """From these groups, until a round gains next to nothing."""
    now, before = _maximised(points, np.eye(int(groups.max()) + 1)[:, groups]), -np.inf
    for _ in range(_MOST_ROUNDS):
        parts = now.parts(points)
        density = _total(parts)
        if abs(density.mean() - before) < _LEAST_GAIN:
            break
        before = density.mean()
        now = _maximised(points, np.exp(parts - density))
    return now


def _maximised(points: Floats, shares: Floats) -> GaussianMixture:
    """The likeliest mixture if point ``i`` belongs to Gaussian ``j`` by ``shares[j, i]``."""
    sizes = shares.sum(axis=1) + 10 * np.finfo(np.float64).eps
    means = shares @ points / sizes[:, None]
    columns = np.ascontiguousarray(points.T)
    away = [columns - mean[:, None] for mean in means]
    spread = np.stack([(share * one) @ one.T for share, one in zip(shares, away, strict=True)]) / sizes[:, None, None]
    lower = np.linalg.cholesky(spread + _RIDGE * np.eye(points.shape[1]))
    return GaussianMixture(sizes / sizes.sum(), means, np.linalg.inv(lower))


def _total(parts: Floats) -> Floats:
    """Logarithm of the sum over Gaussians, ``[n]``."""
    largest = parts.max(axis=0)
    return largest + np.log(np.exp(parts - largest).sum(axis=0))


def _groups(points: Floats, k: int, rng: np.random.Generator) -> Ints:
    """Which of k groups each point is in: k-means from Arthur & Vassilvitskii's (2007) centres, ``[n]``."""
    centres = points[rng.integers(len(points), size=1)]
    while len(centres) < k:
        nearest = _squares(points, centres).min(axis=1)
        total = nearest.sum()
        drawn = rng.choice(len(points), 2 + k, p=nearest / total if total > 0 else None)
        # Of some candidates, the one that leaves the points nearest to their centres.
        left = np.minimum(nearest[:, None], _squares(points, points[drawn])).sum(axis=0)
        centres = np.vstack([centres, points[drawn[left.argmin()]]])
    groups = np.zeros(len(points), dtype=np.int64)
    for _ in range(_MOST_ROUNDS):
        before, groups = groups, _squares(points, centres).argmin(axis=1)
        if (groups == before).all():
            break
        sizes = np.bincount(groups, minlength=k)
        sums = np.stack([np.bincount(groups, weights=column, minlength=k) for column in points.T], axis=1)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return groups


def _squares(points: Floats, centres: Floats) -> Floats:
    """Squared distances ``[n, k]``."""
    return np.stack([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=1)
