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

from divulge import seeds, statistics
from divulge.errors import InputError
from divulge.evaluation import families
from divulge.evaluation.families import GaussianMechanism, SubsampledGaussian, largest
from divulge.statistics import check_scores, count_above
from divulge.types import Estimate
from divulge.validation import check_choice, check_integer, check_number, format_value

if TYPE_CHECKING:
    from divulge.evaluation.families import Errors, Families
    from divulge.types import Bools, Floats, Ints

Strategy: TypeAlias = Literal["bonferroni", "split"]
STRATEGIES: tuple[Strategy, ...] = ("bonferroni", "split")
# Last part of `method`: whether the bound comes from TPR / FPR or from TNR / FNR.
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
    """Return a lower bound on ε with the stated confidence; 0 if the scores refute no ε.

    - "bonferroni" takes as thresholds the ranks 1, 2, 4, … of the non-members from the top and of the members from the
      bottom, and divides the error among them. The rate of an order statistic is Beta distributed for any data, so a
      threshold that *is* an order statistic needs no further correction.
    - "split" chooses the threshold on a random half of the records and measures on the other half.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        delta: the δ of (ε, δ)-DP, in [0, 1).
        confidence: P(bound ≤ true ε) is at least this.
        strategy: "bonferroni" or "split".
        seed: of the random half; used by "split" only.
        family: None assumes nothing of the mechanism; "gaussian" assumes a Gaussian one and bounds its μ by
            Φ⁻¹(TPR) - Φ⁻¹(FPR), which gives far larger bounds.

    Returns:
        ``value`` and ``low`` are the bound, ``high`` is infinity: scores bound ε from below only. ``method`` says
        whether a bound above 0 comes from sure members (records that score higher than nearly every non-member) or from
        sure non-members (records that score lower than nearly every member).

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
    # 0 is pure differential privacy, while 1 promises nothing: one end is allowed and the other is not.
    checked = check_number(delta, "delta", above=0, below=1, closed=True)
    slack = check_number(checked, "delta", above=0, below=1) if checked else 0.0
    assumed = families.resolve_family(family)
    if isinstance(assumed, SubsampledGaussian):
        raise InputError(f"family: None or 'gaussian' is needed here, got {format_value(family)}")
    if assumed is not None and slack == 0:
        raise InputError("delta: must be above 0 for a family: a Gaussian mechanism has no finite ε at 0")
    chosen = check_choice(strategy, "strategy", STRATEGIES)
    draw = check_integer(seed, "seed", minimum=0)
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


@dataclass(frozen=True, slots=True)
class SurestRecords:
    """Records beyond the threshold from which a lower bound on ε comes.

    Args:
        members: whether they are taken for members; else for non-members.
        right: how many of that side lie beyond the threshold.
        total: how many there are on that side.
        wrong: how many of the other side lie beyond it.
        n_others: how many there are on the other side.
    """

    members: bool
    right: int
    total: int
    wrong: int
    n_others: int


def surest_records(scores: object, members: object, confidence: float = 0.95) -> SurestRecords | None:
    """Return the records of which membership can be told most surely: those behind `epsilon_lower_bound`.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        confidence: of the bound.

    Returns:
        How many lie beyond the threshold that gives the bound, and how many of the other side do; None where the bound
        is 0.

    Raises:
        divulge.InputError: as `epsilon_lower_bound`.

    Examples:
        >>> members = np.arange(2000) < 1000
        >>> surest_records(np.where(members, 1.0, np.arange(2000) % 2), members)
        SurestRecords(members=False, right=500, total=1000, wrong=0, n_others=1000)
    """
    values, truth = check_scores(scores, members)
    tried = _bound_rates_at_ranks(values, truth, 1 - check_number(confidence, "confidence", above=0, below=1))
    from_members, from_nonmembers = tried.ratios(0.0)
    if max(from_members.max(), from_nonmembers.max()) <= 0:
        return None
    inside, outside = np.sort(values[truth]), np.sort(values[~truth])
    thresholds = np.r_[outside[-_ranks(len(outside))], np.nextafter(inside[_ranks(len(inside)) - 1], -np.inf)]
    is_member = bool(from_members.max() >= from_nonmembers.max())
    threshold = thresholds[int(np.argmax(from_members if is_member else from_nonmembers))]
    above, wrongly_above = int(count_above(inside, threshold)), int(count_above(outside, threshold))
    if is_member:
        return SurestRecords(True, above, len(inside), wrongly_above, len(outside))
    return SurestRecords(False, len(outside) - wrongly_above, len(outside), len(inside) - above, len(inside))


@dataclass(frozen=True, slots=True)
class _Rates:
    """Upper bounds of FNR and FPR at each threshold, ``[t]``."""

    fnr: Floats
    fpr: Floats

    @classmethod
    def from_counts(cls, fn: Floats, m: int, fp: Floats, n: int, error: float) -> _Rates:
        """Bound the rates from ``fn`` of ``m`` members missed and ``fp`` of ``n`` non-members selected."""
        return cls(
            statistics.clopper_pearson_upper(fn, m, error / 2), statistics.clopper_pearson_upper(fp, n, error / 2)
        )

    def ratios(self, delta: float) -> tuple[Floats, Floats]:
        """Return two bounds on ε at each threshold, from TPR / FPR and from TNR / FNR."""
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
    # The thresholds lie just above the r-th highest non-member, or at the r-th lowest member. Of its own side r - 1
    # records lie beyond an order statistic. Ties may leave fewer there, but that number would be chosen by the data.
    fp = np.r_[up - 1.0, count_above(outside, np.nextafter(inside[down - 1], -np.inf))]
    fn = np.r_[m - count_above(inside, outside[-up]), down - 1.0]
    return _Rates.from_counts(fn, m, fp, n, error / len(fp))


def _bound_rates_on_halves(values: Floats, truth: Bools, delta: float, error: float, seed: int) -> _Rates:
    rng = seeds.generator(seed, "epsilon", "split")
    # Scores are sorted before they are divided, so that the order of rows does not matter.
    choose, measure = zip(
        *(_split_at_random(np.sort(values[seed_name]), rng) for seed_name in (truth, ~truth)), strict=True
    )
    if not (len(choose[0]) and len(choose[1])):
        return _Rates(np.ones(1), np.ones(1))
    cuts = np.unique(np.r_[choose])
    best_cut = cuts[np.argmax(np.maximum(*_rates_above(choose, cuts, error).ratios(delta)).clip(0))]
    return _rates_above(measure, np.array([best_cut]), error)


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
    """Return 1, 2, 4, … up to n."""
    return 1 << np.arange(int(n).bit_length())


# Memberships that fair coins give less often are refused.
_MIN_FAIR_PROBABILITY = 1e-9


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
    """Return an ε lower bound from the numbers of canaries, of guesses and of wrong guesses.

    Args:
        canaries: number of canaries, each included by its own fair coin.
        guesses: number of canaries that were guessed; it must be fixed before any score is seen.
        wrong: number of wrong guesses.
        delta: the δ of (ε, δ)-DP, in [0, 1).
        confidence: P(bound ≤ true ε) is at least this.
        family: assumption about the mechanism: None (no assumption), "gaussian", or a value of
            `divulge.evaluation.families`.
        bound: "steinke", "f-dp" or "tight", see the module; by default "tight" with a family and
            "steinke" without.
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
    n = check_integer(canaries, "canaries", minimum=1, maximum=10**9)
    r = check_integer(guesses, "guesses", minimum=1, maximum=n)
    u = check_integer(wrong, "wrong", minimum=0, maximum=r)
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

    One half of the guesses says "member" of the records with the highest scores, the other half "non-member" of those
    with the lowest. With ``sides="in"`` all say "member", and as many guesses count as wrong as are right only because
    more records were included than not. Of the remaining records nothing is guessed.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``; each must have been decided by an independent fair coin before training.
        delta: the δ of (ε, δ)-DP, in [0, 1).
        confidence: P(bound ≤ true ε) is at least this.
        guesses: number of the ``n`` records to guess, fixed without looking at ``members``. None tries n, n/2, n/4, …
            and divides the error among them.
        family: see `one_run_bound`.
        bound: see `one_run_bound`.
        sides: see `one_run_bound`.
        seed: of the order of equal scores; unused for pure ε-DP.

    Raises:
        divulge.InputError: a number of members that fair coins would hardly give; as for
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
    require_fair_coins(truth)
    draw = check_integer(seed, "seed", minimum=0)
    if guesses is None:
        counts = guess_counts(n)
    else:
        counts = [check_integer(guesses, "guesses", minimum=1)]
        if counts[0] > n:
            raise InputError(f"guesses: must be at most {n} (the number of records), got {guesses}")
    shares = [count // 2 if rule.sides == "both" else count for count in counts]
    ranking = _RankedRecords.from_scores(values, truth, rule, draw)
    low = max(
        rule.epsilon(n, *ranking.guess(top, count - top), error / len(counts))
        for top, count in zip(shares, counts, strict=True)
    )
    choice = "guesses fixed" if guesses is not None else f"bonferroni over {len(counts)} numbers of guesses"
    discount = ", less the guesses that the share of members makes right" if rule.sides == "in" else ""
    return Estimate(low, low, np.inf, confidence, f"{rule.method}{discount}, {choice}")


def require_fair_coins(members: Bools) -> None:
    """Raise if fair coins would hardly give so many or so few members; every bound from one run assumes fair coins.

    Raises:
        divulge.InputError: fair coins would do so with a probability below 1e-9.
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

    With a fixed number of members the coins of records are not independent, so `epsilon_one_run` does not apply.
    Records are paired at random instead. In a pair with one member, a fair coin, independent of all others, decided
    which of the two it is. The guess is the record with the higher score, and the pairs that differ most are guessed
    first. Such a coin exchanges one record for another, which (ε, δ)-DP covers as one added and one removed.

    Args:
        scores: ``[n]``; larger means more like a member. The order of rows must have been fixed before the subset was
            drawn, as that of `divulge.canaries` is; in rows sorted by membership pairs are no coins.
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
    # Pairs are formed by position alone; a pairing that used scores or membership would not leave coins fair.
    order = seeds.generator(check_integer(seed, "seed", minimum=0), "epsilon", "pairs").permutation(len(values))
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
        abstains: whether records that tie with a record beyond the limit are not guessed.
    """

    scores: Floats
    top: Ints
    bottom: Ints
    abstains: bool

    @classmethod
    def from_scores(cls, values: Floats, truth: Bools, rule: GuessRule, seed: int) -> _RankedRecords:
        """Rank the records.

        Under pure ε-DP the number of guesses may depend on the scores, so ties are not broken. Otherwise the bound
        needs a fixed number, and ties are broken at random, independently of membership.
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
        """Return the numbers of guesses and of wrong ones if the ``top`` highest are called members, the lowest not.

        Those that the share of members alone makes right count as wrong. With fair coins this only lowers the bound;
        with others, a model that knows nothing proves nothing.
        """
        n = len(self.scores)
        if self.abstains and top < n:
            top = n - int(np.searchsorted(self.scores, self.scores[n - top - 1], side="right"))
        if self.abstains and bottom < n:
            bottom = int(np.searchsorted(self.scores, self.scores[bottom], side="left"))
        guesses, wrong = top + bottom, int(self.top[top] + self.bottom[bottom])
        return guesses, min(guesses, wrong + count_lucky(top - bottom, int(self.bottom[n]), n))


def count_lucky(surplus: int, members: int, n: int) -> int:
    """Return how many of the guesses are right only because members and others differ in number.

    Where six of ten records are members, "member" is right in six of ten, whatever the scores: one more than half.

    Args:
        surplus: how many more guesses say "member" than "non-member".
        members: number of members.
        n: number of records.
    """
    return max(0, round(surplus * (2 * members - n) / (2 * n)))


def _ascending_order(values: Floats, seed: int) -> Ints:
    """Return the ascending order of the values; equal values are in random order."""
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
_MIN_GUESSES = 8  # fewer cannot bound ε at 95 %
_MAX_SINGLE = 4096  # numbers of right guesses up to which each is examined by itself
_NODES = 400  # of the quadrature over the informativeness of the guessed canaries
_ROOT = sqrt(2.0)
_quantile = NormalDist().inv_cdf
_SOURCES: dict[Bound, str] = {
    "steinke": "one run (Steinke et al. 2023)",
    "f-dp": "one run (Mahloujifar et al. 2024)",
    "tight": "one run (tight within the family)",
}


@dataclass(frozen=True, slots=True)
class GuessRule:
    """A rule that turns a number of wrong guesses into a bound on ε.

    Args:
        bound: "steinke", "f-dp" or "tight".
        family: assumption about the mechanism; None for "steinke" alone.
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
        """Return the rule for checked options.

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
        """The assumptions beside fair coins, one sentence each."""
        family = () if self.family is None else (self.family.assumes,)
        return (*family, ASSUMES_INDEPENDENT_CANARIES) if self.bound == "tight" else family

    def epsilon(self, canaries: int, guesses: int, wrong: int, error: float, *, swaps: bool = False) -> float:
        """Return the largest ε that so few wrong guesses refute; for a true ε the probability is at most ``error``.

        Args:
            canaries: number of coins.
            guesses: number of guesses.
            wrong: number of wrong guesses.
            error: probability of refuting a true ε.
            swaps: whether a coin decides which of two canaries is included, which is one record added and one removed.
        """
        return _epsilon(self, canaries, guesses, wrong, error, swaps) if guesses else 0.0

    def refutes(
        self, level: float, canaries: int, guesses: int, wrong: int, error: float, *, swaps: bool = False
    ) -> bool:
        """Return whether so few wrong guesses refute a level: a strength of the family, or an ε without a family."""
        if self.bound == "tight":
            # The share of canaries at least as informative as the last one guessed is a Beta variable; given it,
            # guesses are wrong independently, with the mean error of that share.
            assert self.family is not None
            errors = best_errors(self.family, level, self.sides, guesses, canaries)
            return float(special.bdtr(wrong, guesses, errors).mean()) <= error
        if self.bound == "f-dp":
            # The recursion of Mahloujifar et al. follows two shares of all canaries, those guessed rightly and those
            # guessed wrongly in the unlikely event, from "at least so many right guesses" down to "any number". If they
            # exceed the share of guessed canaries, the event is too unlikely.
            right = guesses - wrong
            rightly, wrongly = error * right / canaries, error * wrong / canaries
            share = guesses / canaries
            # Functions of the standard library are many times faster than SciPy's on scalars.
            for i in range(right - 1, -1, -1):
                min_right = max(erfc((level - _quantile(rightly)) / _ROOT) / 2, wrongly)
                rightly += i / (guesses - i) * (min_right - wrongly)
                wrongly = min_right
                if rightly + wrongly >= share:
                    return True
            return False
        chance, slack = (2 * level, self.delta * (1 + np.exp(level))) if swaps else (level, self.delta)
        return _p_value(guesses - wrong, guesses, canaries, 1 / (1 + np.exp(-chance)), min(slack, 1.0)) <= error


def guess_counts(canaries: int) -> list[int]:
    """Return the numbers of guesses to try: all canaries, a half, a quarter and so on."""
    return [canaries >> k for k in range(canaries.bit_length()) if canaries >> k >= _MIN_GUESSES] or [canaries]


@lru_cache(maxsize=1 << 14)
def _epsilon(rule: GuessRule, canaries: int, guesses: int, wrong: int, error: float, swaps: bool) -> float:
    # Cached, as many games have the same counts.
    if rule.family is None:
        return largest(lambda epsilon: rule.refutes(epsilon, canaries, guesses, wrong, error, swaps=swaps))
    strength = largest(lambda strength: rule.refutes(strength, canaries, guesses, wrong, error))
    return rule.family.epsilon(strength / 2 if swaps else strength, rule.delta)


def best_errors(family: Families, strength: float, sides: Sides, guesses: int, canaries: int) -> Floats:
    """Return mean errors of the best auditor, at quantiles of the informativeness of the guessed canaries, ``[q]``."""
    levels = (np.arange(_NODES) + 0.5) / _NODES
    shares = np.ones(1) if guesses == canaries else special.betaincinv(guesses + 1, canaries - guesses, levels)
    return _errors(family, strength, sides).mean(shares)


@lru_cache(maxsize=32)
def _errors(family: Families, strength: float, sides: Sides) -> Errors:
    # Cached, as a bisection returns to the same strengths.
    return family.losses(strength).errors(both_sides=sides == "both")


def _p_value(right: int, guesses: int, n: int, chance: float, delta: float) -> float:
    """Return P(at least ``right`` of ``guesses`` are right) under (ε, δ)-DP with e^ε/(1+e^ε) = ``chance``."""
    tail = float(special.bdtrc(right - 1, guesses, chance)) if right > 0 else 1.0
    if delta == 0 or right == 0:
        return tail
    # Theorem 5.2 of Steinke et al.: δ lets the adversary move mass by i right guesses at a cost of 1/i.
    ends = _steps(right)
    starts = np.append(1, ends[:-1] + 1)
    reachable = np.where(right - ends > 0, special.bdtrc(np.maximum(right - ends - 1, 0), guesses, chance), 1.0)
    return min(1.0, tail + 2 * n * delta * float(np.max((reachable - tail) / starts)))


@lru_cache(maxsize=64)
def _steps(max_value: int) -> Ints:
    """Return the last number of each block of 1, 2, …, ``max_value``: single numbers, then blocks 0.1 % wide.

    A block is bounded by its largest gain at its smallest cost, which errs by 0.1 % on the safe side.
    """
    count = int(np.log(max(max_value / _MAX_SINGLE, 1.0)) / np.log1p(1e-3)) + 1
    wide = (_MAX_SINGLE * (1 + 1e-3) ** np.arange(1, count + 1)).astype(np.int64)
    return np.unique(
        np.concatenate([np.arange(1, min(max_value, _MAX_SINGLE) + 1), wide[wide < max_value], [max_value]])
    )
