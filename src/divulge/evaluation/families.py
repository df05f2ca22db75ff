"""Families of mechanisms, by how private each member is: what a bound on ε may be told to assume.

A mechanism is described by its *privacy loss* l = log P(z)/Q(z) of an observation z, with P its law where the record
was used and Q where it was not. Everything that an audit of one record can see follows from the law of l.
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

_REACH = 10.0  # standard deviations on either side that hold all but 1e-23 of a normal law
_CELLS = 4000  # of the observation, for one step
_GRID, _FINEST = 1 << 15, 1 << 20  # cells of the privacy loss, for a composition
_HALVINGS = 20  # of an interval as long as its lower end, or 1, which leaves a millionth of it
_SHARP = 6.0  # strength of each of several steps beyond which no grid holds the sum; a larger one counts as this
_SETTLED = 104.0  # a privacy loss e^40 beyond the largest ε
_LARGEST = 64.0  # ε, and strength of a mechanism, beyond which nothing is told apart


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLoss:
    """The law of a mechanism's privacy loss, on a grid.

    Args:
        loss: values of log P/Q, ``[k]``.
        used: their probabilities where the record was used, ``[k]``.
        unused: their probabilities where it was not, ``[k]``.
    """

    loss: Floats
    used: Floats
    unused: Floats

    def delta(self, epsilon: float) -> float:
        """Return the least δ at which the mechanism is (ε, δ)-DP, for a record added and for one removed."""
        added = self.used @ -np.expm1(np.minimum(epsilon - self.loss, 0.0))
        removed = self.unused @ -np.expm1(np.minimum(epsilon + self.loss, 0.0))
        return float(max(added, removed))

    def errors(self, *, both_sides: bool = True) -> Errors:
        """Return how often the best guesses are wrong; each record is used with probability 1/2.

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
    """How often the best guesses of the most telling records are wrong.

    Args:
        shares: of all records, ascending from 0 to 1, ``[k]``.
        missed: share of all records that are guessed wrongly among the most telling ``shares``, ``[k]``.
    """

    shares: Floats
    missed: Floats

    def mean(self, shares: Floats) -> Floats:
        """Return the mean error of the guesses if made of the most telling share of records only, ``[s]``."""
        return np.interp(shares, self.shares, self.missed) / shares


@runtime_checkable
class Family(Protocol):
    """Mechanisms of one kind, ordered by a strength ≥ 0: at 0 nothing leaks, and more leaks the larger it is."""

    @property
    def assumes(self) -> str:
        """What is taken for granted, in words."""
        ...

    def losses(self, strength: float) -> PrivacyLoss:
        """Return the privacy loss of the mechanism of this strength."""
        ...

    def epsilon(self, strength: float, delta: float) -> float:
        """Return the least ε at which the mechanism of this strength is (ε, δ)-DP."""
        ...


@dataclass(frozen=True, slots=True)
class GaussianMechanism:
    """Observations N(0, 1) where the record was not used and N(μ, 1) where it was; the strength is μ.

    Full-batch DP-SGD is of this family, and DP-SGD of many small steps nearly so (Dong, Roth & Su 2019).

    Examples:
        >>> round(GaussianMechanism().epsilon(1.0, 1e-5), 3)
        4.377
    """

    name: ClassVar[str] = "gaussian"

    @property
    def assumes(self) -> str:
        """What is taken for granted, in words."""
        return "what the model gives away of each canary is that of a Gaussian mechanism"

    def losses(self, strength: float) -> PrivacyLoss:
        """See `Family`."""
        return _step_loss(strength, lambda z: strength * z - strength**2 / 2)

    def epsilon(self, strength: float, delta: float) -> float:
        """By the exact formula of Balle & Wang 2018; at δ = 0 there is no finite one."""

        def exceeds(epsilon: float) -> bool:
            inner, outer = strength / 2 - epsilon / strength, -strength / 2 - epsilon / strength
            return float(special.ndtr(inner) - np.exp(epsilon + special.log_ndtr(outer))) > delta

        return largest(exceeds) if strength > 0 else 0.0


@dataclass(frozen=True, slots=True)
class SubsampledGaussian:
    """DP-SGD as accountants see it: each step uses the record with probability ``rate``; the strength is 1/σ.

    Of several steps, a strength above 6 counts as 6: its ε is stated too low, so a bound on ε is, too.

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
        check_integer(self.steps, "steps", least=1, most=10**7)

    @property
    def assumes(self) -> str:
        """What is taken for granted, in words."""
        return (
            f"what the model gives away of each canary is that of {self.steps} steps of a Gaussian mechanism that "
            f"uses it with probability {self.rate:g}"
        )

    def losses(self, strength: float) -> PrivacyLoss:
        """See `Family`."""
        with np.errstate(divide="ignore"):
            unused = np.log1p(-self.rate)
        mu = strength if self.steps == 1 else min(strength, _SHARP)
        step_loss = _step_loss(mu, lambda z: np.logaddexp(unused, np.log(self.rate) + mu * z - mu**2 / 2))
        # No step takes back more than log(1 - rate), so one loss of this size settles the sum of all.
        return _compose(replace(step_loss, loss=np.minimum(step_loss.loss, _SETTLED - self.steps * unused)), self.steps)

    def epsilon(self, strength: float, delta: float) -> float:
        """See `Family`."""
        losses = self.losses(strength)
        return largest(lambda epsilon: losses.delta(epsilon) > delta)


Families: TypeAlias = GaussianMechanism | SubsampledGaussian


def _step_loss(strength: float, loss: Callable[[Floats], Floats]) -> PrivacyLoss:
    """One observation, N(0, 1) where the record was not used, whose privacy loss is known."""
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
    centre = float(means.mean())
    reach = float(
        steps * np.ptp(means) / 2 + _REACH * np.sqrt(steps) * spreads.max() + np.abs(step_loss.loss - centre).max()
    )
    # Sharing a loss between two cells adds to its variance: little beside a step's own on a grid much finer, or little
    # beside the size of the sum.
    sizes = np.sqrt(steps) * spreads + steps * np.abs(means)
    harmless = float(0.02 * sizes.min() / np.sqrt(steps))
    cells = _GRID
    while cells < _FINEST and 2.0 * reach / cells > max(float(spreads.min()) / 4, harmless):
        cells *= 2
    width = 2.0 * max(reach, 1e-9) / cells
    if width > max(float(spreads.min()), harmless, 1e-9):
        raise InputError(
            f"family: {steps} steps that tell so little each cannot be composed to any precision; take 'gaussian'"
        )

    def convolve_mass(mass: Floats) -> Floats:
        positions = (step_loss.loss - centre) / width
        cell = np.floor(positions).astype(np.int64)
        # A loss between two cells is shared so that its mean stays.
        spread = np.bincount(cell % cells, mass * (1 - positions + cell), cells)
        spread += np.bincount((cell + 1) % cells, mass * (positions - cell), cells)
        summed = np.fft.irfft(np.fft.rfft(spread / spread.sum()) ** steps, cells)
        return np.fft.fftshift(np.maximum(summed, 0.0))

    loss = steps * centre + width * (np.arange(cells) - cells // 2)
    return PrivacyLoss(loss, convolve_mass(step_loss.used), convolve_mass(step_loss.unused))


def largest(holds: Callable[[float], bool]) -> float:
    """The largest number in [0, 64] at which ``holds`` is true, which it is below and is not above; 0 if nowhere."""
    if not holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < _LARGEST and holds(high):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def resolve_family(family: Families | str | None) -> Families | None:
    """Return the family that was named or given.

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
