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
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge import seeds
from divulge.errors import InputError
from divulge.evaluation.families import SubsampledGaussian
from divulge.evaluation.guess_bounds import GuessRule, guess_counts
from divulge.statistics.ranking import check_scores
from divulge.types import Estimate
from divulge.validation import check_integer, check_number, format_value

if TYPE_CHECKING:
    from divulge.evaluation.families import Families
    from divulge.evaluation.guess_bounds import Bound, Sides
    from divulge.types import Bools, Floats, Ints

_MIN_FAIR_PROBABILITY = 1e-9  # probability of a draw of fair coins below which it is taken for none


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
    """Return an ε lower bound from counts alone: of so many canaries so many were guessed, so many of them wrongly.

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
    n = check_integer(canaries, "canaries", least=1, most=10**9)
    r = check_integer(guesses, "guesses", least=1, most=n)
    u = check_integer(wrong, "wrong", least=0, most=r)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    rule = GuessRule.from_options(family, bound, sides, delta)
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
    seed: int = 0,
) -> Estimate:
    """Return an ε lower bound from one training run in which every record was included by its own fair coin.

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
        seed: of breaking ties between scores, by the rows' positions; unused for pure ε-DP.

    Raises:
        divulge.InputError: so many members, or so few, that no fair coins can have decided; as for
            `epsilon_lower_bound` and `one_run_bound`; ``guesses`` outside 1..n.

    Examples:
        >>> members = np.arange(1000) % 2 == 0
        >>> round(epsilon_one_run(members.astype(float), members, guesses=1000).low, 2)
        5.81
    """
    values, truth = check_scores(scores, members)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    rule = GuessRule.from_options(family, bound, sides, delta)
    n = len(values)
    refuse_unfair(truth)
    draw = check_integer(seed, "seed", least=0)
    if guesses is None:
        counts = guess_counts(n)
    else:
        counts = [check_integer(guesses, "guesses", least=1)]
        if counts[0] > n:
            raise InputError(f"guesses: must be at most {n} (the number of records), got {guesses}")
    shares = [count // 2 if rule.sides == "both" else count for count in counts]
    ranking = _Ranking.from_scores(values, truth, rule, draw)
    low = max(
        rule.epsilon(n, *ranking.guess(top, count - top), error / len(counts))
        for top, count in zip(shares, counts, strict=True)
    )
    choice = "guesses fixed" if guesses is not None else f"bonferroni over {len(counts)} numbers of guesses"
    return Estimate(low, low, np.inf, confidence, f"{rule.method}, {choice}")


def refuse_unfair(members: Bools) -> None:
    """Raise where so many members, or so few, are no draw of fair coins: every bound of one run rests on them.

    Raises:
        divulge.InputError: then; fair coins do it in one of a thousand million draws.
    """
    smaller_side = int(min(members.sum(), (~members).sum()))
    if 2 * float(special.bdtr(smaller_side, len(members), 0.5)) < _MIN_FAIR_PROBABILITY:
        raise InputError(
            f"members: {int(members.sum())} of {len(members)} is no draw of fair coins, on which the bound rests"
        )


def epsilon_fixed_count(
    scores: object,
    members: object,
    delta: float = 0.0,
    confidence: float = 0.95,
    *,
    family: Families | str | None = None,
    seed: int = 0,
) -> Estimate:
    """Return an ε lower bound from one training run in which a fixed number of records, drawn at random, was included.

    Coins of records that are drawn to a fixed number are not independent, so `epsilon_one_run` does not apply.
    Records are paired at random instead. Of a pair with one record in and one out it is a fair coin, independent of
    all others, which of the two is in; the guess is the one that scores higher, and the pairs that differ most are
    guessed first. Such a coin swaps one record for another, which (ε, δ)-DP covers as one added and one removed.

    Args:
        scores: ``[n]``; larger means more like a member. The order of the rows must have been fixed before the subset
            was drawn, as that of `divulge.canaries` is; sorted by membership it would make the pairs no coins.
        members: bool ``[n]``; a random subset of fixed size was included.
        delta: the δ of (ε, δ)-DP with records added or removed, in [0, 1).
        confidence: P(bound ≤ true ε) is at least this.
        family: None or "gaussian", see `one_run_bound`.
        seed: of the pairing.

    Raises:
        divulge.InputError: as for `epsilon_lower_bound`; another family.

    Examples:
        >>> members = np.arange(1000) % 2 == 0
        >>> 1.5 < epsilon_fixed_count(members.astype(float), members).low < 3.0
        True
    """
    values, truth = check_scores(scores, members)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    rule = GuessRule.from_options(family, None, "both", delta)
    if isinstance(rule.family, SubsampledGaussian):
        raise InputError(f"family: None or 'gaussian' is needed here, got {format_value(family)}")
    # By position alone: a pairing that looked at scores or at who was in would settle what is to be left to chance.
    order = seeds.generator(check_integer(seed, "seed", least=0), "epsilon", "pairs").permutation(len(values))
    first_of_pair, second_of_pair = order[: len(order) // 2], order[len(order) // 2 : len(order) // 2 * 2]
    mixed = truth[first_of_pair] != truth[second_of_pair]
    score_leads, first_is_member = (values[first_of_pair] - values[second_of_pair])[mixed], truth[first_of_pair][mixed]
    low = 0.0
    if n := len(score_leads):
        counts, order = guess_counts(n), _ascending_order(np.abs(score_leads), seed)
        is_wrong = ((score_leads > 0) != first_is_member)[order]
        low = max(
            rule.epsilon(n, count, int(is_wrong[n - count :].sum()), error / len(counts), swaps=True)
            for count in counts
        )
    return Estimate(low, low, np.inf, confidence, f"{rule.method}, of {n} pairs, each a coin between two canaries")


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Records from the lowest score to the highest.

    Args:
        scores: ``[n]``, ascending.
        top: number of non-members among the k highest, ``[n + 1]``.
        bottom: number of members among the k lowest, ``[n + 1]``.
        abstains: whether records that tie across an edge are abstained from.
    """

    scores: Floats
    top: Ints
    bottom: Ints
    abstains: bool

    @classmethod
    def from_scores(cls, values: Floats, truth: Bools, rule: GuessRule, seed: int) -> _Ranking:
        """Under pure ε-DP the number of guesses may depend on the scores, so no tie is broken.

        Elsewhere the bound rests on a fixed number, and ties are broken by chance, of which membership knows nothing.
        """
        order = _ascending_order(values, seed)
        members = truth[order]
        return cls(
            values[order],
            np.append(0, np.cumsum(~members[::-1])),
            np.append(0, np.cumsum(members)),
            rule.family is None and rule.delta == 0,
        )

    def guess(self, top: int, bottom: int) -> tuple[int, int]:
        """Guesses made and wrong ones: the ``top`` highest are called included, the ``bottom`` lowest not."""
        n = len(self.scores)
        if self.abstains and top < n:
            top = n - int(np.searchsorted(self.scores, self.scores[n - top - 1], side="right"))
        if self.abstains and bottom < n:
            bottom = int(np.searchsorted(self.scores, self.scores[bottom], side="left"))
        return top + bottom, int(self.top[top] + self.bottom[bottom])


def _ascending_order(values: Floats, seed: int) -> Ints:
    """Return the order of the values, ascending; equal ones in an order that is drawn by position."""
    order = np.argsort(values)
    if np.all(np.diff(values[order]) > 0):
        return order
    tie_breakers = seeds.generator(seed, "epsilon", "ties").permutation(len(values))
    return np.lexsort((tie_breakers, values))
