"""Lower bounds on the ε of differential privacy, from scores alone.

*Many runs, or many independent records.* A mechanism is (ε, δ)-DP only if every attack obeys TPR ≤ e^ε FPR + δ and
TNR ≤ e^ε FNR + δ. `epsilon_lower_bound` bounds the rates at several thresholds and corrects for their number. (Taking
the best threshold without a correction claims ε > 0 of targets that leak nothing, in 35-94 % of null runs with tools in
wide use.)

*One run.* Every canary was included by its own fair coin. An auditor who sees the model guesses of some canaries
whether they were included. The privacy of the training bounds how many guesses may be right, in three ways:

- "steinke": under (ε, δ)-DP alone, for every mechanism (Steinke, Nasr & Jagielski 2023, Theorem 5.2).
- "f-dp": under the trade-off function of a stated family, however canaries influence each other (Mahloujifar, Melis &
  Chaudhuri 2024, arXiv 2410.22235).
- "tight": under a stated family and canaries that do not influence each other, the exact distribution of the number of
  wrong guesses of the best auditor (arXiv 2509.08704).

`GuessRule` turns a number of wrong guesses into a bound; `one_run_bound`, `epsilon_one_run` and `epsilon_fixed_count`
use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import erfc, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import numpy as np
from scipy import special

from divulge import seeds
from divulge.errors import InputError
from divulge.evaluation import families
from divulge.evaluation.families import GaussianMechanism, SubsampledGaussian, largest
from divulge.statistics import intervals
from divulge.statistics.ranking import check_scores, count_above
from divulge.types import Estimate
from divulge.validation import check_choice, check_integer, check_number, format_value

if TYPE_CHECKING:
    from divulge.evaluation.families import Errors, Families
    from divulge.types import Bools, Floats, Ints

Strategy: TypeAlias = Literal["bonferroni", "split"]
STRATEGIES: tuple[Strategy, ...] = ("bonferroni", "split")
# The end of the `method` of a bound that rests on records surely in, or surely out: TPR / FPR, or TNR / FNR.
FROM_SURE_MEMBERS, FROM_SURE_NONMEMBERS = "from sure members", "from sure non-members"


def epsilon_lower_bound(
    scores: object,
    members: object,
    delta: float = 0.0,
    confidence: float = 0.95,
    *,
    strategy: Strategy = "bonferroni",
    seed: int = 0,
    family: Families | str | None = None,
) -> Estimate:
    """Return an ε that the target exceeds with the stated confidence; 0 when nothing can be said.

    - "bonferroni" tries the ranks 1, 2, 4, … of the non-members from the top and of the members from the
      bottom, and divides the error among them. An order statistic's own rate is Beta distributed
      whatever the data, so a threshold that *is* an order statistic needs no further correction.
    - "split" chooses the threshold on a random half of the records and measures on the other half.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        delta: the δ of (ε, δ)-DP, in [0, 1).
        confidence: P(bound ≤ true ε) is at least this.
        strategy: "bonferroni" or "split".
        seed: of the random half; used by "split" only.
        family: None assumes nothing of the mechanism; "gaussian" assumes a Gaussian one and bounds its μ by
            Φ⁻¹(TPR) - Φ⁻¹(FPR), which sees far larger ε.

    Returns:
        ``value`` and ``low`` are the bound, ``high`` is infinity: scores bound ε from below only. ``method`` says
        whether a bound above 0 comes from sure members (records that score higher than nearly every non-member)
        or from sure non-members (records that score lower than nearly every member).

    Raises:
        divulge.InputError: NaN or infinity, lengths that differ, members or non-members only, δ outside [0, 1),
            another family.

    References:
        Nasr et al., Adversary Instantiation, 2021 (Clopper-Pearson audit of ε);
        the scores of members, and of non-members, are taken to be independent draws.

    Examples:
        >>> members = np.arange(2000) < 1000
        >>> round(epsilon_lower_bound(members.astype(float), members).low, 2)
        5.0
    """
    values, truth = check_scores(scores, members)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    slack = _check_delta(delta)
    assumed = families.resolve_family(family)
    if isinstance(assumed, SubsampledGaussian):
        raise InputError(f"family: None or 'gaussian' is needed here, got {format_value(family)}")
    if assumed is not None and slack == 0:
        raise InputError("delta: must be above 0 for a family: a Gaussian mechanism has no finite ε at 0")
    chosen = check_choice(strategy, "strategy", STRATEGIES)
    draw = check_integer(seed, "seed", least=0)
    tried = (
        _bound_rates_on_halves(values, truth, slack, error, draw)
        if chosen == "split"
        else _bound_rates_at_ranks(values, truth, error)
    )
    if assumed is not None:
        bound = assumed.epsilon(tried.strength, slack)
        return Estimate(bound, bound, np.inf, confidence, f"clopper-pearson, {chosen}; if {assumed.assumes}")
    ratios = tried.ratios(slack)
    from_members, from_nonmembers = (float(ratio.max()) for ratio in ratios)
    bound = max(from_members, from_nonmembers, 0.0)
    parts = [f"clopper-pearson, {chosen} over thresholds"]
    if bound > 0:
        parts.append(FROM_SURE_MEMBERS if from_members >= from_nonmembers else FROM_SURE_NONMEMBERS)
    return Estimate(bound, bound, np.inf, confidence, ", ".join(parts))


def _check_delta(delta: float) -> float:
    checked = check_number(delta, "delta", above=0, below=1, closed=True)
    return check_number(checked, "delta", above=0, below=1) if checked else 0.0


@dataclass(frozen=True, slots=True)
class _Rates:
    """Upper bounds of FNR and FPR at each threshold that was tried, ``[t]``."""

    fnr: Floats
    fpr: Floats

    @classmethod
    def from_counts(cls, fn: Floats, m: int, fp: Floats, n: int, error: float) -> _Rates:
        """From ``fn`` of ``m`` missed and ``fp`` of ``n`` selected; each bound takes half of the error."""
        return cls(intervals.clopper_pearson_upper(fn, m, error / 2), intervals.clopper_pearson_upper(fp, n, error / 2))

    def ratios(self, delta: float) -> tuple[Floats, Floats]:
        """Two bounds on ε, by TPR / FPR and by TNR / FNR: the same two bounds on rates serve both."""
        with np.errstate(divide="ignore"):
            from_members = np.log(np.maximum(1 - self.fnr - delta, 0)) - np.log(self.fpr)
            from_nonmembers = np.log(np.maximum(1 - self.fpr - delta, 0)) - np.log(self.fnr)
        return from_members, from_nonmembers

    @property
    def strength(self) -> float:
        """The largest bound on the μ of a Gaussian mechanism."""
        is_informative = (self.fnr < 1) & (self.fpr < 1)
        return max(
            0.0,
            float(
                (-special.ndtri(self.fnr[is_informative]) - special.ndtri(self.fpr[is_informative])).max(initial=0.0)
            ),
        )


def _bound_rates_at_ranks(values: Floats, truth: Bools, error: float) -> _Rates:
    inside, outside = np.sort(values[truth]), np.sort(values[~truth])
    m, n = len(inside), len(outside)
    up, down = _ranks(n), _ranks(m)
    # Just above the r-th highest non-member, or at the r-th lowest member. An order statistic leaves r - 1
    # of its own kind beyond it; where ties leave fewer, that number would be a choice made by the data.
    fp = np.r_[up - 1.0, count_above(outside, np.nextafter(inside[down - 1], -np.inf))]
    fn = np.r_[m - count_above(inside, outside[-up]), down - 1.0]
    return _Rates.from_counts(fn, m, fp, n, error / len(fp))


def _bound_rates_on_halves(values: Floats, truth: Bools, delta: float, error: float, seed: int) -> _Rates:
    rng = seeds.generator(seed, "epsilon", "split")
    # Sorted before they are dealt, so the order of the rows changes nothing.
    choose, measure = zip(
        *(_split_at_random(np.sort(values[seed_name]), rng) for seed_name in (truth, ~truth)), strict=True
    )
    if not (len(choose[0]) and len(choose[1])):
        return _Rates(np.ones(1), np.ones(1))
    cuts = np.unique(np.r_[choose])
    half_size = cuts[np.argmax(np.maximum(*_rates_above(choose, cuts, error).ratios(delta)).clip(0))]
    return _rates_above(measure, np.array([half_size]), error)


def _rates_above(halves: tuple[Floats, Floats], cuts: Floats, error: float) -> _Rates:
    """Return the rates of the rule "score > cut", at each cut."""
    inside, outside = halves
    m, n = len(inside), len(outside)
    return _Rates.from_counts(m - count_above(inside, cuts), m, count_above(outside, cuts), n, error)


def _split_at_random(ordered: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    first_half = np.zeros(len(ordered), bool)
    first_half[rng.permutation(len(ordered))[: len(ordered) // 2]] = True
    return ordered[first_half], ordered[~first_half]


def _ranks(n: int) -> np.ndarray:
    """1, 2, 4, … up to n."""
    return 1 << np.arange(int(n).bit_length())


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
    ranking = _RankedRecords.from_scores(values, truth, rule, draw)
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
class _RankedRecords:
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
    def from_scores(cls, values: Floats, truth: Bools, rule: GuessRule, seed: int) -> _RankedRecords:
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
        assumed = families.resolve_family(family)
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
