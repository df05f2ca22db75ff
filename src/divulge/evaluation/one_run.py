"""Lower bounds on ε from one training run in which every canary was included by its own fair coin.

An auditor who sees the model guesses of some canaries whether they were included. How many guesses may be right is
bounded by the privacy of the training, in three ways:

- "steinke": under (ε, δ)-DP alone, whatever the mechanism (Steinke, Nasr & Jagielski 2023, Theorem 5.2).
- "f-dp": under the trade-off function of a stated family, whatever the canaries do to each other (Mahloujifar,
  Melis & Chaudhuri 2024, arXiv 2410.22235).
- "tight": under a stated family and canaries that do not disturb each other, the exact law of the number of wrong
  guesses of the best auditor (arXiv 2509.08704).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import numpy as np

from divulge import checks
from divulge.evaluation import families
from divulge.evaluation.families import Gaussian, largest
from divulge.statistics.tables import table
from divulge.types import Estimate

if TYPE_CHECKING:
    from divulge.evaluation.families import Errors, Families
    from divulge.types import Bools, Floats

Bound: TypeAlias = Literal["steinke", "f-dp", "tight"]
Sides: TypeAlias = Literal["both", "in"]
BOUNDS: tuple[Bound, ...] = get_args(Bound)
SIDES: tuple[Sides, ...] = get_args(Sides)
COINS = "each canary was included by its own fair coin"
APART = "what the model tells of one canary does not depend on the coins of the others"
_NODES = 400  # of the quadrature over how telling the guessed canaries are
_LEAST_GUESSES = 8  # fewer cannot bound ε at 95 %
_SOURCES: dict[Bound, str] = {
    "steinke": "one run (Steinke et al. 2023)",
    "f-dp": "one run (Mahloujifar et al. 2024)",
    "tight": "one run (tight within the family)",
}


def one_run_bound(
    *,
    canaries: int,
    guesses: int,
    wrong: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    family: Families | str | None = None,
    bound: Bound | str | None = None,
    sides: Sides | str = "both",
) -> Estimate:
    """An ε lower bound from counts alone: of so many canaries so many were guessed, so many of them wrongly.

    Args:
        canaries: number of canaries, each included by its own fair coin.
        guesses: how many were guessed; a number fixed before any score was seen.
        wrong: how many of these guesses were wrong.
        delta: the δ of (ε, δ)-DP, in [0, 1).
        confidence: P(bound ≤ true ε) is at least this.
        family: what is assumed of the mechanism: None (nothing), "gaussian", or a value of
            `divulge.evaluation.families`.
        bound: "steinke", "f-dp" or "tight", see the module; by default "tight" where a family is given and
            "steinke" where none is.
        sides: whether guesses were "both" (included and not included) or "in" (included only).

    Returns:
        ``value`` and ``low`` are the bound, ``high`` is infinity; ``method`` names the bound and what it assumes.

    Raises:
        divulge.InputError: more guesses than canaries, more wrong than guesses, δ outside [0, 1), a bound that needs
            a family and has none, or has one it ignores.

    Examples:
        >>> counts = dict(canaries=10_000, guesses=2_500, wrong=364, delta=1e-5)
        >>> round(one_run_bound(**counts).low, 3), round(one_run_bound(**counts, family="gaussian").low, 3)
        (1.674, 4.137)
    """
    n = checks.integer(canaries, "canaries", least=1, most=10**9)
    r = checks.integer(guesses, "guesses", least=1, most=n)
    u = checks.integer(wrong, "wrong", least=0, most=r)
    error = 1 - checks.number(confidence, "confidence", above=0, below=1)
    rule = Rule.of(family, bound, sides, delta)
    low = rule.epsilon(n, r, u, error)
    return Estimate(low, low, np.inf, confidence, f"{rule.method}, guesses fixed")


def epsilon_one_run(
    scores: object,
    members: object,
    delta: float = 0.0,
    confidence: float = 0.95,
    *,
    guesses: int | None = None,
    family: Families | str | None = None,
    bound: Bound | str | None = None,
    sides: Sides | str = "both",
) -> Estimate:
    """An ε lower bound from one training run in which every record was included by its own fair coin.

    The half of the guesses with the highest scores is called member, the half with the lowest non-member (or, with
    ``sides="in"``, all of them member), the rest is abstained from.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``; each must have been decided by an independent fair coin before training.
        delta: the δ of (ε, δ)-DP, in [0, 1).
        confidence: P(bound ≤ true ε) is at least this.
        guesses: how many of the ``n`` records to guess, fixed before looking at ``members``. When None,
            n, n/2, n/4, … are tried and the error is divided among them.
        family: see `one_run_bound`.
        bound: see `one_run_bound`.
        sides: see `one_run_bound`.

    Raises:
        divulge.InputError: as for `epsilon_lower_bound` and `one_run_bound`; ``guesses`` outside 1..n.

    Examples:
        >>> members = np.arange(1000) % 2 == 0
        >>> round(epsilon_one_run(members.astype(float), members, guesses=1000).low, 2)
        5.81
    """
    values, truth = table(scores, members)
    error = 1 - checks.number(confidence, "confidence", above=0, below=1)
    rule = Rule.of(family, bound, sides, delta)
    n = len(values)
    if guesses is None:
        counts = [n >> k for k in range(n.bit_length()) if n >> k >= _LEAST_GUESSES] or [n]
    else:
        counts = [checks.integer(guesses, "guesses", least=1)]
        if counts[0] > n:
            raise checks.InputError(f"guesses: must be at most {n} (the number of records), got {guesses}")
    shares = [count // 2 if rule.sides == "both" else count for count in counts]
    low = max(
        rule.epsilon(n, *_guess(values, truth, top, count - top, rule), error / len(counts))
        for top, count in zip(shares, counts, strict=True)
    )
    choice = "guesses fixed" if guesses is not None else f"bonferroni over {len(counts)} numbers of guesses"
    return Estimate(low, low, np.inf, confidence, f"{rule.method}, {choice}")


@dataclass(frozen=True, slots=True)
class Rule:
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
    def of(cls, family: Families | str | None, bound: Bound | str | None, sides: Sides | str, delta: float) -> Rule:
        """The rule that was asked for.

        Raises:
            divulge.InputError: see `one_run_bound`.
        """
        assumed = families.named(family)
        default = "steinke" if assumed is None else "tight"
        chosen = cast("Bound", default if bound is None else checks.choice(bound, "bound", BOUNDS))
        if (chosen == "steinke") != (assumed is None):
            holds = "holds for every mechanism" if assumed else "needs a family, such as 'gaussian'"
            raise checks.InputError(f"family: the bound {chosen!r} {holds}, got {checks.shown(family)}")
        if chosen == "f-dp" and not isinstance(assumed, Gaussian):
            raise checks.InputError(f"family: the bound 'f-dp' takes 'gaussian', got {checks.shown(family)}")
        side = cast("Sides", checks.choice(sides, "sides", SIDES))
        slack = checks.number(delta, "delta", above=0, below=1, closed=True)
        return cls(chosen, assumed, side, checks.number(slack, "delta", above=0, below=1) if slack else 0.0)

    @property
    def method(self) -> str:
        """The bound and what it assumes."""
        return "; ".join([_SOURCES[self.bound], *([f"if {' and '.join(self.assumes)}"] if self.family else [])])

    @property
    def assumes(self) -> tuple[str, ...]:
        """One sentence per assumption beside the coins."""
        family = () if self.family is None else (self.family.assumes,)
        return (*family, APART) if self.bound == "tight" else family

    def epsilon(self, canaries: int, guesses: int, wrong: int, error: float) -> float:
        """The largest ε at which so few wrong guesses have a probability of at most ``error``."""
        if guesses == 0:
            return 0.0
        if self.family is None:
            return _steinke(canaries, guesses, wrong, self.delta, error)
        refuted = self._refuted_tight if self.bound == "tight" else _refuted_f_dp
        strength = largest(lambda strength: refuted(strength, canaries, guesses, wrong, error))
        return self.family.epsilon(strength, self.delta)

    def _refuted_tight(self, strength: float, canaries: int, guesses: int, wrong: int, error: float) -> bool:
        """Whether even the best auditor of this mechanism is that rarely wrong with probability ``error`` at most.

        The share of canaries at least as telling as the last one guessed is a Beta variable; given it, the guesses
        are wrong independently, with the mean error of that share.
        """
        from scipy.special import bdtr

        assert self.family is not None
        means = _errors(self.family, strength, self.sides).mean(_shares(guesses, canaries))
        return float(bdtr(wrong, guesses, means).mean()) <= error


@lru_cache(maxsize=1024)
def _errors(family: Families, strength: float, sides: Sides) -> Errors:
    # A search by halving comes back to the same strengths.
    return family.losses(strength).errors(both_sides=sides == "both")


@lru_cache(maxsize=64)
def _shares(guesses: int, canaries: int) -> Floats:
    """Quantiles of the share of canaries at least as telling as the last one guessed, ``[q]``."""
    from scipy.special import betaincinv

    levels = (np.arange(_NODES) + 0.5) / _NODES
    return np.ones(1) if guesses == canaries else betaincinv(guesses + 1, canaries - guesses, levels)


def _refuted_f_dp(strength: float, canaries: int, guesses: int, wrong: int, error: float) -> bool:
    """Whether under μ-Gaussian DP so few guesses are wrong with probability ``error`` at most: the paper's recursion.

    It follows two shares of all canaries, guessed rightly and guessed wrongly in the unlikely event, from "all of
    ``right`` and more" down to "any number"; if they outgrow the share that was guessed, the event is too unlikely.
    """
    from scipy.special import ndtr, ndtri

    right = guesses - wrong
    rightly, wrongly = error * right / canaries, error * wrong / canaries
    for i in range(right - 1, -1, -1):
        least = max(float(ndtr(ndtri(min(rightly, 1.0)) - strength)), wrongly)
        rightly += i / (guesses - i) * (least - wrongly)
        wrongly = least
        if rightly + wrongly >= guesses / canaries:
            return True
    return False


def _steinke(canaries: int, guesses: int, wrong: int, delta: float, error: float) -> float:
    from scipy.special import expit

    return largest(lambda epsilon: _p_value(guesses - wrong, guesses, canaries, float(expit(epsilon)), delta) <= error)


def _guess(values: Floats, truth: Bools, top: int, bottom: int, rule: Rule) -> tuple[int, int]:
    """Guesses made and wrong ones: the ``top`` highest are called included, the ``bottom`` lowest not.

    Scores of equal value are all guessed alike or not at all, so no order of rows can matter: those that tie across
    an edge are abstained from. Where the bound rests on the number of guesses being fixed, they count as wrong.
    """
    ordered = np.sort(values)
    yes = values > ordered[-top - 1] if top < len(values) else np.ones(len(values), bool)
    no = values < ordered[bottom] if bottom < len(values) else np.ones(len(values), bool)
    no &= ~yes
    made, wrong = int(yes.sum() + no.sum()), int((yes & ~truth).sum() + (no & truth).sum())
    return (made, wrong) if rule.family is None else (top + bottom, wrong + top + bottom - made)


def _p_value(right: int, made: int, n: int, chance: float, delta: float) -> float:
    """P(at least ``right`` of ``made`` guesses are right) under (ε, δ)-DP with e^ε/(1+e^ε) = ``chance``."""
    from scipy.special import bdtrc

    tail = float(bdtrc(right - 1, made, chance)) if right > 0 else 1.0
    if delta == 0 or right == 0:
        return tail
    # Thm 5.2: δ lets the adversary move mass by i right guesses at a price of 1/i.
    i = np.arange(1, right + 1)
    reachable = np.where(right - i > 0, bdtrc(np.maximum(right - i - 1, 0), made, chance), 1.0)
    return min(1.0, tail + 2 * n * delta * float(np.max((reachable - tail) / i)))
