"""Distributions of the source for which near-orthogonality (Assumption 3.1) can be checked in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy import stats

from divulge import seeds
from divulge.errors import InputError
from divulge.validation import check_integer, check_matrix, check_number, require_callable

if TYPE_CHECKING:
    from divulge.types import Floats


_MOST = 10**7  # inputs, and records
_FARTHEST = 1e6  # a mean; beyond, the quantiles of the norms are not to be had


class Source(Protocol):
    """A distribution of records."""

    @property
    def dimension(self) -> int:
        """Number d of inputs."""
        ...

    def sample(self, n: int, seed: int) -> Floats:
        """``n`` independent records ``[n, d]``."""
        ...

    def extremes(self, n: int, tau: float) -> tuple[float, float]:
        """(δ, Δ) with |x_i·x_j| ≤ δ for all pairs and ‖x_i‖² ≥ Δ for all i, with chance at least 1 - tau."""
        ...


@dataclass(frozen=True, slots=True)
class Sphere:
    """Uniform on the sphere of radius √d.

    Examples:
        >>> Sphere(100).extremes(20, 0.05)[1]
        100.0
    """

    dimension: int

    def __post_init__(self) -> None:
        check_integer(self.dimension, "Sphere.dimension", least=1, most=_MOST)

    def sample(self, n: int, seed: int) -> Floats:
        """``n`` independent records ``[n, d]``."""
        x = seeds.generator(seed, "source", "sphere").normal(size=(n, self.dimension))
        return x * (np.sqrt(self.dimension) / np.linalg.norm(x, axis=1, keepdims=True))

    def extremes(self, n: int, tau: float) -> tuple[float, float]:
        """(x·x'/d)² ~ Beta(1/2, (d-1)/2) exactly; a union bound over the n(n-1)/2 pairs."""
        quantile = (
            float(stats.beta.isf(_per_pair(n, tau), 0.5, (self.dimension - 1) / 2)) if self.dimension > 1 else 1.0
        )
        return float(self.dimension * np.sqrt(quantile)), float(self.dimension)


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Equal mixture of Gaussians with identity covariance.

    Args:
        means: ``[k, d]``.

    Examples:
        >>> Mixture(np.zeros((2, 50))).sample(3, seed=0).shape
        (3, 50)
    """

    means: Floats

    def __post_init__(self) -> None:
        means = check_matrix(self.means, "Mixture.means")
        if not means.shape[1] or np.abs(means).max() > _FARTHEST:
            raise InputError(f"Mixture.means: at least 1 input is needed, and no value beyond ±{_FARTHEST:g}")
        object.__setattr__(self, "means", means)

    @property
    def dimension(self) -> int:
        """Number d of inputs."""
        return self.means.shape[1]

    def sample(self, n: int, seed: int) -> Floats:
        """``n`` independent records ``[n, d]``."""
        rng = seeds.generator(seed, "source", "mixture")
        which = rng.integers(len(self.means), size=n)
        return self.means[which] + rng.normal(size=(n, self.dimension))

    def extremes(self, n: int, tau: float) -> tuple[float, float]:
        """Norms by non-central χ² quantiles, x·x' given x' by its normal law, a union bound over everything.

        The events are n norms from below, n from above and n(n-1)/2 pairs; the number of components does not
        enter because each is bounded by the worst mean. Counting n pairs instead of n² (as between the
        statement and the proof of Lemma D.5) does not hold.
        """
        lengths = np.sum(self.means**2, axis=1)
        least = min(float(_squared_norms(self.dimension, c).ppf(tau / (4 * n))) for c in lengths)
        most = max(float(_squared_norms(self.dimension, c).isf(tau / (4 * n))) for c in lengths)
        reach = float(stats.norm.isf(_per_pair(n, tau / 2) / 2))
        return float((np.sqrt(lengths.max()) + reach) * np.sqrt(most)), least


@dataclass(frozen=True, slots=True)
class Gaussian:
    """N(μ, I) with μ = (mean, 0, …, 0).

    Examples:
        >>> Gaussian(30).sample(2, seed=1).shape
        (2, 30)
    """

    dimension: int
    mean: float = 0.0

    def __post_init__(self) -> None:
        check_integer(self.dimension, "Gaussian.dimension", least=1, most=_MOST)
        check_number(self.mean, "Gaussian.mean", above=-_FARTHEST, below=_FARTHEST, closed=True)

    def _mixture(self) -> Mixture:
        means = np.zeros((1, self.dimension))
        means[0, 0] = self.mean
        return Mixture(means)

    def sample(self, n: int, seed: int) -> Floats:
        """``n`` independent records ``[n, d]``."""
        return self._mixture().sample(n, seed)

    def extremes(self, n: int, tau: float) -> tuple[float, float]:
        """As for a mixture of one component."""
        return self._mixture().extremes(n, tau)


@dataclass(frozen=True, slots=True)
class Assumption:
    """Assumption 3.1 for ``n`` records of a source, with chance at least 1 - tau.

    Args:
        delta: bound on |x_i·x_j| over pairs, a fresh record included.
        Delta: bound on ‖x_i‖² from below.
        ratio: n·δ/Δ.
        bound: |Φ(x)|/m of a fresh record is at most this; infinity where nothing is proven.
        says_something: whether ``bound`` is below 1.
        tau: chance that any of it fails.
    """

    delta: float
    Delta: float
    ratio: float
    bound: float
    says_something: bool
    tau: float


def assumption(source: Source, n: int, tau: float = 0.05) -> Assumption:
    """Whether ``n`` records of ``source`` and a fresh one are near-orthogonal enough to prove membership.

    Args:
        source: where records come from.
        n: number of training records, at least 2.
        tau: chance with which the statement may fail.

    Raises:
        divulge.InputError: n < 2, tau outside (0, 1).

    Examples:
        >>> assumption(Sphere(1000), n=20).says_something, assumption(Sphere(200_000), n=20).says_something
        (False, True)
    """
    require_callable(source, "source", "extremes")
    check_integer(n, "n", least=2, most=_MOST)
    check_number(tau, "tau", above=0.0, below=1.0)
    delta, least = source.extremes(n + 1, tau)
    # The bias appends a 1 to every record, which adds 1 to every product.
    room = (least + 1.0) - 2 * (n - 1) * (delta + 1.0)
    bound = float(n * (delta + 1.0) / room) if room > 0 else float("inf")
    return Assumption(delta, least, n * delta / least if least > 0 else float("inf"), bound, bound < 1.0, tau)


def _per_pair(n: int, tau: float) -> float:
    return tau / (n * (n - 1) / 2)


def _squared_norms(dimension: int, centre: float) -> Any:
    """The law of ‖x‖² for x ~ N(μ, I) with ‖μ‖² = centre."""
    return stats.ncx2(dimension, centre) if centre > 0 else stats.chi2(dimension)
