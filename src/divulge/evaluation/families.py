"""Families of mechanisms that a bound on ε may assume, ordered by their strength.

A mechanism is described by its *privacy loss* l = log P(z)/Q(z) of an observation z, with P the distribution if the
record was used and Q if it was not. The distribution of l determines everything that an audit of one record can
observe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from scipy import special

from divulge.errors import InputError
from divulge.validation import check_choice, check_integer, check_number, format_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.types import Floats

_REACH = 10.0  # standard deviations on either side, outside of which a normal distribution has a mass of 1e-23
_CELLS = 4000  # grid points of the observation of one step
_MIN_CELLS, _MAX_CELLS = 1 << 15, 1 << 20  # grid points of the privacy loss of a composition
_HALVINGS = 20  # bisections; they leave a millionth of the interval
_MAX_STEP_STRENGTH = 6.0  # of each of several steps; no grid can hold the sum of stronger ones
_SETTLED_LOSS = 104.0  # a privacy loss that exceeds the largest ε by 40
_MAX_LEVEL = 64.0  # largest ε, and largest strength of a mechanism, that are considered


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLoss:
    """The distribution of a mechanism's privacy loss, on a grid.

    Args:
        loss: values of log P/Q, ``[k]``.
        used: their probabilities if the record was used, ``[k]``.
        unused: their probabilities if it was not, ``[k]``.
    """

    loss: Floats
    used: Floats
    unused: Floats

    def delta(self, epsilon: float) -> float:
        """Return the smallest δ at which the mechanism is (ε, δ)-DP, for a record added and for one removed."""
        added = self.used @ -np.expm1(np.minimum(epsilon - self.loss, 0.0))
        removed = self.unused @ -np.expm1(np.minimum(epsilon + self.loss, 0.0))
        return float(max(added, removed))

    def errors(self, *, both_sides: bool = True) -> Errors:
        """Return the error rates of the best guesses, where each record is used with probability 1/2.

        Args:
            both_sides: whether guesses may be "used" and "not used", or "used" only.
        """
        informativeness = np.abs(self.loss) if both_sides else self.loss
        order = np.argsort(-informativeness, kind="stable")
        mass = (self.used + self.unused)[order]
        wrong = mass / (1.0 + np.exp(np.minimum(informativeness[order], 700.0)))
        total, missed = (np.concatenate([[0.0], np.cumsum(part)]) for part in (mass, wrong))
        return Errors(total / total[-1], missed / total[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Error rates of the best guesses of the most informative records.

    Args:
        shares: of all records, ascending from 0 to 1, ``[k]``.
        missed: share of all records that are guessed wrongly among the most informative ``shares``, ``[k]``.
    """

    shares: Floats
    missed: Floats

    def mean(self, shares: Floats) -> Floats:
        """Return the mean error of guesses of the most informative share of records, ``[s]``."""
        return np.interp(shares, self.shares, self.missed) / shares


@runtime_checkable
class Family(Protocol):
    """Mechanisms of one kind, ordered by a strength ≥ 0: nothing leaks at 0, and more at larger strengths."""

    @property
    def assumes(self) -> str:
        """Assumptions, in words."""
        ...

    def losses(self, strength: float) -> PrivacyLoss:
        """Return the privacy loss of the mechanism of this strength."""
        ...

    def epsilon(self, strength: float, delta: float) -> float:
        """Return the smallest ε at which the mechanism of this strength is (ε, δ)-DP."""
        ...


@dataclass(frozen=True, slots=True)
class GaussianMechanism:
    """The Gaussian mechanism: observations N(0, 1) without the record and N(μ, 1) with it; the strength is μ.

    Full-batch DP-SGD is of this family, and DP-SGD of many small steps nearly so (Dong, Roth & Su 2019).

    Examples:
        >>> round(GaussianMechanism().epsilon(1.0, 1e-5), 3)
        4.377
    """

    name: ClassVar[str] = "gaussian"

    @property
    def assumes(self) -> str:
        """Assumptions, in words."""
        return "what the model gives away of each canary is that of a Gaussian mechanism"

    def losses(self, strength: float) -> PrivacyLoss:
        """See `Family`."""
        return _step_loss(strength, lambda z: strength * z - strength**2 / 2)

    def epsilon(self, strength: float, delta: float) -> float:
        """Return ε by the exact formula of Balle & Wang 2018; at δ = 0 none is finite."""

        def exceeds(epsilon: float) -> bool:
            inner, outer = strength / 2 - epsilon / strength, -strength / 2 - epsilon / strength
            return float(special.ndtr(inner) - np.exp(epsilon + special.log_ndtr(outer))) > delta

        return largest(exceeds) if strength > 0 else 0.0


@dataclass(frozen=True, slots=True)
class SubsampledGaussian:
    """Subsampled Gaussian mechanism (DP-SGD): each step uses the record with probability ``rate``; the strength is 1/σ.

    With several steps, a strength above 6 counts as 6; its ε is then too low, and so is a bound on ε, which stays
    valid.

    Args:
        rate: probability with which a step uses a record that is in the training set, in (0, 1].
        steps: number of steps, all of which the auditor observes.

    Raises:
        divulge.InputError: a rate outside (0, 1], fewer than one step.

    Examples:
        >>> round(SubsampledGaussian(rate=0.1, steps=100).epsilon(1.0, 1e-5), 2)
        7.05
    """

    rate: float
    steps: int = 1

    name: ClassVar[str] = "subsampled gaussian"

    def __post_init__(self) -> None:
        rate = check_number(self.rate, "rate", above=0.0, below=1.0, closed=True)
        check_number(rate, "rate", above=0.0)
        check_integer(self.steps, "steps", minimum=1, maximum=10**7)

    @property
    def assumes(self) -> str:
        """Assumptions, in words."""
        return (
            f"what the model gives away of each canary is that of {self.steps} steps of a Gaussian mechanism that "
            f"uses it with probability {self.rate:g}"
        )

    def losses(self, strength: float) -> PrivacyLoss:
        """See `Family`."""
        with np.errstate(divide="ignore"):
            unused = np.log1p(-self.rate)
        mu = strength if self.steps == 1 else min(strength, _MAX_STEP_STRENGTH)
        step_loss = _step_loss(mu, lambda z: np.logaddexp(unused, np.log(self.rate) + mu * z - mu**2 / 2))
        # A step reduces the sum by at most -log(1 - rate), so a loss of this size determines the sum.
        return _compose(
            replace(step_loss, loss=np.minimum(step_loss.loss, _SETTLED_LOSS - self.steps * unused)), self.steps
        )

    def epsilon(self, strength: float, delta: float) -> float:
        """See `Family`."""
        losses = self.losses(strength)
        return largest(lambda epsilon: losses.delta(epsilon) > delta)


Families: TypeAlias = GaussianMechanism | SubsampledGaussian


def _step_loss(strength: float, loss: Callable[[Floats], Floats]) -> PrivacyLoss:
    """Return the privacy loss of one observation, N(0, 1) without the record, as a function of the observation."""
    z = np.linspace(-_REACH, _REACH + strength, _CELLS)
    unused = np.exp(-(z**2) / 2) * (z[1] - z[0]) / np.sqrt(2 * np.pi)
    value = loss(z)
    return PrivacyLoss(value, np.exp(value - z**2 / 2) * (z[1] - z[0]) / np.sqrt(2 * np.pi), unused)


def _compose(step_loss: PrivacyLoss, steps: int) -> PrivacyLoss:
    """Return the sum of ``steps`` independent losses, by Fourier transform."""
    if steps == 1:
        return step_loss
    means = np.array([step_loss.loss @ step_loss.used, step_loss.loss @ step_loss.unused])
    spreads = np.sqrt(
        np.maximum([step_loss.loss**2 @ step_loss.used, step_loss.loss**2 @ step_loss.unused] - means**2, 0.0)
    )
    # The grid has to hold the sum: both means, so many standard deviations, and one loss that is far from all others.
    centre = float(means.mean())
    reach = float(
        steps * np.ptp(means) / 2 + _REACH * np.sqrt(steps) * spreads.max() + np.abs(step_loss.loss - centre).max()
    )
    # Dividing a loss between two cells adds to its variance. That is little compared with a step's own variance if the
    # grid is much finer, or with the size of the sum.
    sizes = np.sqrt(steps) * spreads + steps * np.abs(means)
    harmless = float(0.02 * sizes.min() / np.sqrt(steps))
    cells = _MIN_CELLS
    while cells < _MAX_CELLS and 2.0 * reach / cells > max(float(spreads.min()) / 4, harmless):
        cells *= 2
    width = 2.0 * max(reach, 1e-9) / cells
    if width > max(float(spreads.min()), harmless, 1e-9):
        raise InputError(
            f"family: {steps} steps with so little privacy loss each cannot be composed precisely; use 'gaussian'"
        )

    def convolve_mass(mass: Floats) -> Floats:
        positions = (step_loss.loss - centre) / width
        cell = np.floor(positions).astype(np.int64)
        # A loss between two cells is divided so that the mean is kept.
        spread = np.bincount(cell % cells, mass * (1 - positions + cell), cells)
        spread += np.bincount((cell + 1) % cells, mass * (positions - cell), cells)
        # The transform of a sum of independent losses is the product of their transforms.
        summed = np.fft.irfft(np.fft.rfft(spread / spread.sum()) ** steps, cells)
        return np.fft.fftshift(np.maximum(summed, 0.0))

    loss = steps * centre + width * (np.arange(cells) - cells // 2)
    return PrivacyLoss(loss, convolve_mass(step_loss.used), convolve_mass(step_loss.unused))


def largest(holds: Callable[[float], bool]) -> float:
    """Return the largest number in [0, 64] up to which ``holds`` is true, by bisection; 0 if it is true nowhere."""
    if not holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < _MAX_LEVEL and holds(high):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def resolve_family(family: Families | str | None) -> Families | None:
    """Return the family of a name; return a family as it is.

    Raises:
        divulge.InputError: anything but "gaussian", `GaussianMechanism`, `SubsampledGaussian` or None.
    """
    if family is None or isinstance(family, GaussianMechanism | SubsampledGaussian):
        return family
    if isinstance(family, str):
        check_choice(family, "family", ("gaussian",))
        return GaussianMechanism()
    raise InputError(
        "family: None, 'gaussian', GaussianMechanism() or SubsampledGaussian(rate, steps) is needed, "
        f"got {format_value(family)}"
    )
