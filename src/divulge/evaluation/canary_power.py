"""What canaries can show: how many refute a claim, and how large a violation so many would find."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from scipy.special import bdtr

from divulge.errors import InputError
from divulge.evaluation.families import GaussianMechanism, largest
from divulge.evaluation.guess_bounds import GuessRule, best_errors, guess_counts
from divulge.settings import CanaryPlanSettings
from divulge.validation import check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from divulge.evaluation.families import Families
    from divulge.evaluation.guess_bounds import Sides

_DEFAULTS = CanaryPlanSettings()
_MAX_CANARIES = 1 << 20  # canaries; a plan beyond is no plan


@dataclass(frozen=True, slots=True)
class CanaryPower:
    """What a number of canaries would show of a Gaussian mechanism.

    Args:
        canaries: how many there are, each included by its own fair coin.
        guesses: the number of guesses that shows most.
        epsilon: the true ε, above the claim, that is found.
        power: probability of finding it.
    """

    canaries: int
    guesses: int
    epsilon: float
    power: float


def canaries_needed(
    claimed: float,
    true: float,
    delta: float,
    *,
    power: float = _DEFAULTS.power,
    confidence: float = _DEFAULTS.confidence,
    family: Families | str | None = None,
    sides: Sides | str = _DEFAULTS.sides,
) -> CanaryPower | None:
    """Return the least power of two of canaries that finds a violated claim.

    Args:
        claimed: the ε that is claimed.
        true: the ε that a Gaussian mechanism really has, above ``claimed``.
        delta: the δ of both.
        power: probability with which the violation is to be found.
        confidence: of the bound; the claim is found violated where it is true in 1 - ``confidence`` of audits at most.
        family: what the bound assumes, see `divulge.evaluation.one_run_bound`.
        sides: what is guessed, see `divulge.evaluation.one_run_bound`.

    Returns:
        None where a million canaries would not do.

    Raises:
        divulge.InputError: ``true`` not above ``claimed``, a probability outside (0, 1).

    Examples:
        >>> canaries_needed(1.0, 8.0, 1e-5).canaries, canaries_needed(1.0, 8.0, 1e-5, family="gaussian").canaries
        (128, 32)
    """
    check_number(claimed, "claimed", above=0.0, below=64.0, closed=True)
    check_number(true, "true", above=claimed, below=64.0)
    target_power = CanaryPlanSettings.check(power=power, confidence=confidence, sides=sides).power
    test = _Test.for_claim(claimed, delta, confidence, family, sides)
    strength = _strength_at_epsilon(GaussianMechanism(), true, test.rule.delta)
    low, high = 2, _MAX_CANARIES.bit_length()
    while high - low > 1:  # the power of a test grows with the number of canaries
        middle = (low + high) // 2
        is_powerful = test.with_canaries(1 << middle).best(strength)[1] >= target_power
        low, high = (low, middle) if is_powerful else (middle, high)
    if high == _MAX_CANARIES.bit_length():
        return None
    guesses, attained_power = test.with_canaries(1 << high).best(strength)
    return CanaryPower(1 << high, guesses, true, attained_power)


def smallest_violation(
    canaries: int,
    claimed: float,
    delta: float,
    *,
    power: float = 0.8,
    confidence: float = 0.95,
    family: Families | str | None = None,
    sides: Sides | str = "both",
) -> CanaryPower | None:
    """Return the smallest true ε of a Gaussian mechanism that so many canaries would find to violate the claim.

    Args:
        canaries: number of canaries, each included by its own fair coin.
        claimed: the ε that is claimed.
        delta: the δ of both.
        power: probability with which the violation is to be found.
        confidence: see `canaries_needed`.
        family: see `canaries_needed`.
        sides: see `canaries_needed`.

    Returns:
        None where even a mechanism of ε = 64 would be missed.

    Raises:
        divulge.InputError: no canaries, a claim outside [0, 64), a probability outside (0, 1).

    Examples:
        >>> 1.0 < smallest_violation(1000, 1.0, 1e-5).epsilon < 5.0
        True
    """
    n = check_integer(canaries, "canaries", least=1, most=10**9)
    check_number(claimed, "claimed", above=0.0, below=64.0, closed=True)
    target_power = check_number(power, "power", above=0, below=1)
    game = _Test.for_claim(claimed, delta, confidence, family, sides).with_canaries(n)
    strength = largest(lambda strength: game.best(strength)[1] < target_power)
    guesses, attained_power = game.best(strength)
    epsilon = GaussianMechanism().epsilon(strength, check_number(delta, "delta", above=0, below=1, closed=True))
    return CanaryPower(n, guesses, epsilon, attained_power) if attained_power >= 0.99 * target_power else None


def _strength_at_epsilon(family: Families, epsilon: float, delta: float) -> float:
    return largest(lambda strength: family.epsilon(strength, delta) <= epsilon)


@dataclass(frozen=True, slots=True)
class _Test:
    """The test of one claim: violated where the bound exceeds it."""

    rule: GuessRule
    level: float
    error: float

    @classmethod
    def for_claim(
        cls, claimed: float, delta: float, confidence: float, family: Families | str | None, sides: Sides | str
    ) -> _Test:
        error = 1 - check_number(confidence, "confidence", above=0, below=1)
        if check_number(delta, "delta", above=0, below=1, closed=True) == 0:
            raise InputError("delta: must be above 0, since a Gaussian mechanism has no finite ε at 0")
        rule = GuessRule.from_options(family, None, sides, delta)
        level = claimed if rule.family is None else _strength_at_epsilon(rule.family, claimed, rule.delta)
        return cls(rule, level, error)

    def with_canaries(self, canaries: int) -> _Game:
        """The same with so many canaries."""
        counts = guess_counts(canaries)
        error = self.error / len(counts)
        refutes = partial(self.rule.refutes, self.level, canaries, error=error)
        return _Game(
            canaries, self.rule.sides, {count: _max_refuting_wrong(partial(refutes, count), count) for count in counts}
        )


@dataclass(frozen=True, slots=True)
class _Game:
    """How many wrong guesses still refute the claim, by the number of guesses; -1 where none do."""

    canaries: int
    sides: Sides
    allowed: Mapping[int, int]

    def best(self, strength: float) -> tuple[int, float]:
        """Return the number of guesses that finds a Gaussian mechanism of this strength most often, and how often."""
        return max(((count, self._power(count, strength)) for count in self.allowed), key=itemgetter(1))

    def _power(self, guesses: int, strength: float) -> float:
        if self.allowed[guesses] < 0:
            return 0.0
        errors = best_errors(GaussianMechanism(), strength, self.sides, guesses, self.canaries)
        return float(bdtr(self.allowed[guesses], guesses, errors).mean())


def _max_refuting_wrong(refutes: Callable[[int], bool], guesses: int) -> int:
    """Return the largest number of wrong guesses that refutes, -1 if none does."""
    low, high = -1, guesses
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if refutes(middle) else (low, middle)
    return low
