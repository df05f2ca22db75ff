"""The three bounds on ε from one run: how surprising a number of wrong guesses is, and the ε that it refutes.

`divulge.evaluation.one_run` says what each assumes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import erfc, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import numpy as np
from scipy import special

from divulge.errors import InputError
from divulge.evaluation import families
from divulge.evaluation.families import GaussianMechanism, largest
from divulge.validation import check_choice, check_number, format_value

if TYPE_CHECKING:
    from divulge.evaluation.families import Errors, Families
    from divulge.types import Floats, Ints

Bound: TypeAlias = Literal["steinke", "f-dp", "tight"]
Sides: TypeAlias = Literal["both", "in"]
BOUNDS: tuple[Bound, ...] = get_args(Bound)
SIDES: tuple[Sides, ...] = get_args(Sides)
COINS = "each canary was included by its own fair coin"
ASSUMES_INDEPENDENT_CANARIES = "what the model tells of one canary does not depend on the coins of the others"
_LEAST_GUESSES = 8  # fewer cannot bound ε at 95 %
_SINGLE = 4096  # right guesses up to which each is looked at by itself
_NODES = 400  # of the quadrature over how telling the guessed canaries are
_ROOT = sqrt(2.0)
_quantile = NormalDist().inv_cdf
_SOURCES: dict[Bound, str] = {
    "steinke": "one run (Steinke et al. 2023)",
    "f-dp": "one run (Mahloujifar et al. 2024)",
    "tight": "one run (tight within the family)",
}


@dataclass(frozen=True, slots=True)
class GuessRule:
    """How a number of wrong guesses becomes a bound on ε.

    Args:
        bound: "steinke", "f-dp" or "tight".
        family: what is assumed of the mechanism; None for "steinke" alone.
        sides: whether canaries are guessed included and not included, or included only.
        delta: the δ of (ε, δ)-DP.
    """

    bound: Bound
    family: Families | None
    sides: Sides
    delta: float

    @classmethod
    def from_options(
        cls, family: Families | str | None, bound: Bound | str | None, sides: Sides | str, delta: float
    ) -> GuessRule:
        """Return the rule that was asked for.

        Raises:
            divulge.InputError: see `one_run_bound`.
        """
        assumed = families.named(family)
        default = "steinke" if assumed is None else "tight"
        chosen = cast("Bound", default if bound is None else check_choice(bound, "bound", BOUNDS))
        if (chosen == "steinke") != (assumed is None):
            holds = "holds for every mechanism" if assumed else "needs a family, such as 'gaussian'"
            raise InputError(f"family: the bound {chosen!r} {holds}, got {format_value(family)}")
        if chosen == "f-dp" and not isinstance(assumed, GaussianMechanism):
            raise InputError(f"family: the bound 'f-dp' takes 'gaussian', got {format_value(family)}")
        side = cast("Sides", check_choice(sides, "sides", SIDES))
        slack = check_number(delta, "delta", above=0, below=1, closed=True)
        if assumed is not None and slack == 0:
            raise InputError("delta: must be above 0 for a family, since a Gaussian mechanism has no finite ε at 0")
        return cls(chosen, assumed, side, check_number(slack, "delta", above=0, below=1) if slack else 0.0)

    @property
    def method(self) -> str:
        """The bound and what it assumes."""
        source = _SOURCES[self.bound] + (", one-sided" if self.sides == "in" else "")
        return "; ".join([source, *([f"if {' and '.join(self.assumes)}"] if self.family else [])])

    @property
    def assumes(self) -> tuple[str, ...]:
        """One sentence per assumption beside the coins."""
        family = () if self.family is None else (self.family.assumes,)
        return (*family, ASSUMES_INDEPENDENT_CANARIES) if self.bound == "tight" else family

    def epsilon(self, canaries: int, guesses: int, wrong: int, error: float, *, swaps: bool = False) -> float:
        """Return the largest ε that so few wrong guesses refute, with probability ``error`` at most where it is true.

        Args:
            canaries: number of coins.
            guesses: how many of them were guessed.
            wrong: how many of these guesses were wrong.
            error: probability of refuting what is true.
            swaps: a coin decides which of two canaries is included, which counts as one record added and one removed.
        """
        return _epsilon(self, canaries, guesses, wrong, error, swaps) if guesses else 0.0

    def refutes(
        self, level: float, canaries: int, guesses: int, wrong: int, error: float, *, swaps: bool = False
    ) -> bool:
        """Return whether so few wrong guesses refute a level: a strength of the family, or an ε where there is none."""
        if self.bound == "tight":
            return self._refuted_tight(level, canaries, guesses, wrong, error)
        if self.bound == "f-dp":
            return _refuted_f_dp(level, canaries, guesses, wrong, error)
        chance, slack = (2 * level, self.delta * (1 + np.exp(level))) if swaps else (level, self.delta)
        return _p_value(guesses - wrong, guesses, canaries, 1 / (1 + np.exp(-chance)), min(slack, 1.0)) <= error

    def _refuted_tight(self, strength: float, canaries: int, guesses: int, wrong: int, error: float) -> bool:
        """Whether even the best auditor of this mechanism is that rarely wrong with probability ``error`` at most.

        The share of canaries at least as telling as the last one guessed is a Beta variable; given it, the guesses
        are wrong independently, with the mean error of that share.
        """
        assert self.family is not None
        errors = best_errors(self.family, strength, self.sides, guesses, canaries)
        return float(special.bdtr(wrong, guesses, errors).mean()) <= error


def guess_counts(canaries: int) -> list[int]:
    """Numbers of guesses to try and to pay for: all canaries, half of them, a quarter, and so on."""
    return [canaries >> k for k in range(canaries.bit_length()) if canaries >> k >= _LEAST_GUESSES] or [canaries]


@lru_cache(maxsize=1 << 14)
def _epsilon(rule: GuessRule, canaries: int, guesses: int, wrong: int, error: float, swaps: bool) -> float:
    # In many games the same counts come again.
    if rule.family is None:
        return largest(lambda epsilon: rule.refutes(epsilon, canaries, guesses, wrong, error, swaps=swaps))
    strength = largest(lambda strength: rule.refutes(strength, canaries, guesses, wrong, error))
    return rule.family.epsilon(strength / 2 if swaps else strength, rule.delta)


def best_errors(family: Families, strength: float, sides: Sides, guesses: int, canaries: int) -> Floats:
    """Mean errors of the best auditor's guesses, at quantiles of how telling the guessed canaries are, ``[q]``."""
    return _errors(family, strength, sides).mean(_shares(guesses, canaries))


@lru_cache(maxsize=32)
def _errors(family: Families, strength: float, sides: Sides) -> Errors:
    # A search by halving comes back to the same strengths.
    return family.losses(strength).errors(both_sides=sides == "both")


@lru_cache(maxsize=64)
def _shares(guesses: int, canaries: int) -> Floats:
    """Quantiles of the share of canaries at least as telling as the last one guessed, ``[q]``."""
    levels = (np.arange(_NODES) + 0.5) / _NODES
    return np.ones(1) if guesses == canaries else special.betaincinv(guesses + 1, canaries - guesses, levels)


def _refuted_f_dp(strength: float, canaries: int, guesses: int, wrong: int, error: float) -> bool:
    """Whether under μ-Gaussian DP so few guesses are wrong with probability ``error`` at most: the paper's recursion.

    It follows two shares of all canaries, guessed rightly and guessed wrongly in the unlikely event, from "all of
    ``right`` and more" down to "any number"; if they outgrow the share that was guessed, the event is too unlikely.
    """
    right = guesses - wrong
    rightly, wrongly = error * right / canaries, error * wrong / canaries
    share = guesses / canaries
    # Scalars of the standard library: many times faster here than those of SciPy.
    for i in range(right - 1, -1, -1):
        min_right = max(erfc((strength - _quantile(rightly)) / _ROOT) / 2, wrongly)
        rightly += i / (guesses - i) * (min_right - wrongly)
        wrongly = min_right
        if rightly + wrongly >= share:
            return True
    return False


def _p_value(right: int, guesses: int, n: int, chance: float, delta: float) -> float:
    """P(at least ``right`` of ``made`` guesses are right) under (ε, δ)-DP with e^ε/(1+e^ε) = ``chance``."""
    tail = float(special.bdtrc(right - 1, guesses, chance)) if right > 0 else 1.0
    if delta == 0 or right == 0:
        return tail
    # Thm 5.2: δ lets the adversary move mass by i right guesses at a price of 1/i.
    ends = _steps(right)
    starts = np.append(1, ends[:-1] + 1)
    reachable = np.where(right - ends > 0, special.bdtrc(np.maximum(right - ends - 1, 0), guesses, chance), 1.0)
    return min(1.0, tail + 2 * n * delta * float(np.max((reachable - tail) / starts)))


@lru_cache(maxsize=64)
def _steps(max_value: int) -> Ints:
    """The last number of each block of 1, 2, …, ``max_value``: single numbers first, then blocks of a thousandth.

    A block is judged by its largest gain at its smallest price, which errs by a thousandth, on the safe side.
    """
    count = int(np.log(max(max_value / _SINGLE, 1.0)) / np.log1p(1e-3)) + 1
    wide = (_SINGLE * (1 + 1e-3) ** np.arange(1, count + 1)).astype(np.int64)
    return np.unique(np.concatenate([np.arange(1, min(max_value, _SINGLE) + 1), wide[wide < max_value], [max_value]]))
