"""Mixtures of Gaussians, each with a covariance of its own, fitted by expectation and maximisation.

Shapes: ``n`` points, ``d`` columns, ``k`` Gaussians.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy, seeds

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import linalg, special

    Floats = NDArray[np.floating[Any]]
    Ints = NDArray[np.int64]
else:
    linalg = lazy.module("scipy.linalg")
    special = lazy.module("scipy.special")

_RIDGE = 1e-3  # added to every variance: no Gaussian shrinks to a point
_LEAST_GAIN = 1e-3  # of the mean log-likelihood, in a round that is followed by another
_MOST_ROUNDS = 100
_STARTS = 2


@dataclass(frozen=True, slots=True, eq=False)
class GaussianMixture:
    """A density ``Σ_j weight_j·N(mean_j, (whitening_j whitening_jᵀ)⁻¹)``.

    Args:
        weights: ``[k]``, they sum to one.
        means: ``[k, d]``.
        whitenings: upper triangular, ``[k, d, d]``.
    """

    weights: Floats
    means: Floats
    whitenings: Floats

    def log_density(self, points: Floats) -> Floats:
        """Logarithm of the density at points ``[n, d]``, ``[n]``."""
        return special.logsumexp(self.parts(points), axis=1)

    def parts(self, points: Floats) -> Floats:
        """Logarithm of what each Gaussian adds to the density, ``[n, k]``."""
        half = np.stack(
            [((points - mean) @ root) ** 2 @ np.full(points.shape[1], 0.5) for mean, root in self._gaussians()], axis=1
        )
        size = np.log(np.diagonal(self.whitenings, axis1=1, axis2=2)).sum(axis=1)
        return np.log(self.weights) + size - 0.5 * points.shape[1] * np.log(2 * np.pi) - half

    def bic(self, points: Floats) -> float:
        """Schwarz's criterion on the points that it was fitted to; smaller is better."""
        k, d = self.means.shape
        free = k * d * (d + 1) / 2 + k * d + k - 1
        return float(free * np.log(len(points)) - 2 * self.log_density(points).sum())

    def _gaussians(self) -> zip[tuple[Floats, Floats]]:
        return zip(self.means, self.whitenings, strict=True)


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
    """A mixture of ``k`` Gaussians: the likelier one of two that start from the groups of k-means.

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
    now, before = _maximised(points, np.eye(int(groups.max()) + 1)[groups]), -np.inf
    for _ in range(_MOST_ROUNDS):
        parts = now.parts(points)
        density = special.logsumexp(parts, axis=1)
        if abs(density.mean() - before) < _LEAST_GAIN:
            break
        before = density.mean()
        now = _maximised(points, np.exp(parts - density[:, None]))
    return now


def _maximised(points: Floats, shares: Floats) -> GaussianMixture:
    """The likeliest mixture if point ``i`` belongs to Gaussian ``j`` by ``shares[i, j]``."""
    sizes = shares.sum(axis=0) + 10 * np.finfo(np.float64).eps
    means = shares.T @ points / sizes[:, None]
    identity = np.eye(points.shape[1])
    whitenings = []
    for share, mean, size in zip(shares.T, means, sizes, strict=True):
        away = points - mean
        lower = np.linalg.cholesky((share[:, None] * away).T @ away / size + _RIDGE * identity)
        whitenings.append(linalg.solve_triangular(lower, identity, lower=True).T)
    return GaussianMixture(sizes / sizes.sum(), means, np.stack(whitenings))


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
