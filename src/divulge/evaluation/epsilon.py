"""Lower bounds on the ε of differential privacy, from scores alone.

A mechanism is (ε, δ)-DP only if every attack obeys TPR ≤ e^ε FPR + δ and TNR ≤ e^ε FNR + δ. Reading off
the *best* threshold without paying for the choice claims ε > 0 of targets that leak nothing (in 35-94 %
of null runs with tools in wide use); everything here pays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from divulge import checks, seeds
from divulge.statistics import intervals
from divulge.statistics.tables import above, table
from divulge.types import Estimate

if TYPE_CHECKING:
    from divulge.types import Bools, Floats

Strategy: TypeAlias = Literal["bonferroni", "split"]
STRATEGIES: tuple[Strategy, ...] = ("bonferroni", "split")
# The end of the `method` of a bound that rests on records surely in, or surely out: TPR / FPR, or TNR / FNR.
BY_MEMBERS, BY_NONMEMBERS = "from sure members", "from sure non-members"


def epsilon_lower_bound(
    scores: object,
    members: object,
    delta: float = 0.0,
    confidence: float = 0.95,
    *,
    strategy: Strategy = "bonferroni",
    seed: int = 0,
) -> Estimate:
    """An ε that the target exceeds with the stated confidence; 0 when nothing can be said.

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

    Returns:
        ``value`` and ``low`` are the bound, ``high`` is infinity: scores bound ε from below only. ``method`` says
        whether a bound above 0 comes from sure members (records that score higher than nearly every non-member)
        or from sure non-members (records that score lower than nearly every member).

    Raises:
        divulge.InputError: NaN or infinity, lengths that differ, members or non-members only, δ outside [0, 1).

    References:
        Nasr et al., Adversary Instantiation, 2021 (Clopper-Pearson audit of ε);
        the scores of members, and of non-members, are taken to be independent draws.

    Examples:
        >>> members = np.arange(2000) < 1000
        >>> round(epsilon_lower_bound(members.astype(float), members).low, 2)
        5.0
    """
    values, truth = table(scores, members)
    error = 1 - checks.number(confidence, "confidence", above=0, below=1)
    slack = _delta(delta)
    chosen = checks.choice(strategy, "strategy", STRATEGIES)
    draw = checks.integer(seed, "seed", least=0)
    if chosen == "split":
        ratios = _split(values, truth, slack, error, draw)
    else:
        ratios = _bonferroni(values, truth, slack, error)
    by_members, by_nonmembers = (float(ratio.max()) for ratio in ratios)
    bound = max(by_members, by_nonmembers, 0.0)
    parts = [f"clopper-pearson, {chosen} over thresholds"]
    if bound > 0:
        parts.append(BY_MEMBERS if by_members >= by_nonmembers else BY_NONMEMBERS)
    return Estimate(bound, bound, np.inf, confidence, ", ".join(parts))


def epsilon_one_run(
    scores: object,
    members: object,
    delta: float = 0.0,
    confidence: float = 0.95,
    *,
    guesses: int | None = None,
) -> Estimate:
    """An ε lower bound from one training run in which every record was included by its own fair coin.

    The half of the guesses with the highest scores is called member, the half with the lowest
    non-member, the rest is abstained from. Under (ε, δ)-DP the number of right guesses is hardly larger
    than Binomial(guesses, e^ε / (1 + e^ε)).

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``; each must have been decided by an independent fair coin before training.
        delta: the δ of (ε, δ)-DP, in [0, 1).
        confidence: P(bound ≤ true ε) is at least this.
        guesses: how many of the ``n`` records to guess, fixed before looking at ``members``. When None,
            n, n/2, n/4, … are tried and the error is divided among them.

    Raises:
        divulge.InputError: as for `epsilon_lower_bound`; ``guesses`` outside 1..n.

    References:
        Steinke, Nasr & Jagielski, Privacy Auditing with One (1) Training Run, 2023, Thm 5.2.

    Examples:
        >>> members = np.arange(1000) % 2 == 0
        >>> round(epsilon_one_run(members.astype(float), members, guesses=1000).low, 2)
        5.81
    """
    values, truth = table(scores, members)
    error = 1 - checks.number(confidence, "confidence", above=0, below=1)
    slack = _delta(delta)
    n = len(values)
    if guesses is None:
        counts = [n >> k for k in range(n.bit_length()) if n >> k >= 8] or [n]
    else:
        counts = [checks.integer(guesses, "guesses", least=1)]
        if counts[0] > n:
            raise checks.InputError(f"guesses: must be at most {n} (the number of records), got {guesses}")
    bounds = [_one_run(values, truth, count, slack, error / len(counts)) for count in counts]
    choice = "guesses fixed" if guesses is not None else f"bonferroni over {len(counts)} numbers of guesses"
    return Estimate(max(bounds), max(bounds), np.inf, confidence, f"one run (Steinke et al. 2023), {choice}")


def _delta(delta: float) -> float:
    checked = checks.number(delta, "delta", above=0, below=1, closed=True)
    return checks.number(checked, "delta", above=0, below=1) if checked else 0.0


def _bonferroni(values: Floats, truth: Bools, delta: float, error: float) -> tuple[Floats, Floats]:
    inside, outside = np.sort(values[truth]), np.sort(values[~truth])
    m, n = len(inside), len(outside)
    up, down = _ranks(n), _ranks(m)
    # Just above the r-th highest non-member, or at the r-th lowest member. An order statistic leaves r - 1
    # of its own kind beyond it; where ties leave fewer, that number would be a choice made by the data.
    fp = np.r_[up - 1.0, above(outside, np.nextafter(inside[down - 1], -np.inf))]
    fn = np.r_[m - above(inside, outside[-up]), down - 1.0]
    return _bounds(fn, m, fp, n, delta, error / len(fp))


def _split(values: Floats, truth: Bools, delta: float, error: float, seed: int) -> tuple[Floats, Floats]:
    rng = seeds.generator(seed, "epsilon", "split")
    # Sorted before they are dealt, so the order of the rows changes nothing.
    choose, measure = zip(*(_deal(np.sort(values[kind]), rng) for kind in (truth, ~truth)), strict=True)
    if not (len(choose[0]) and len(choose[1])):
        return np.zeros(1), np.zeros(1)
    cuts = np.unique(np.r_[choose])
    cut = cuts[np.argmax(np.maximum(*_at(choose, cuts, delta, error)).clip(0))]
    return _at(measure, np.array([cut]), delta, error)


def _at(halves: tuple[Floats, Floats], cuts: Floats, delta: float, error: float) -> tuple[Floats, Floats]:
    """The bounds on ε of the rule "score > cut", at each cut."""
    inside, outside = halves
    m, n = len(inside), len(outside)
    return _bounds(m - above(inside, cuts), m, above(outside, cuts), n, delta, error)


def _deal(ordered: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    first = np.zeros(len(ordered), bool)
    first[rng.permutation(len(ordered))[: len(ordered) // 2]] = True
    return ordered[first], ordered[~first]


def _ranks(n: int) -> np.ndarray:
    """1, 2, 4, … up to n."""
    return 1 << np.arange(int(n).bit_length())


def _bounds(fn: Floats, m: int, fp: Floats, n: int, delta: float, error: float) -> tuple[Floats, Floats]:
    """Two bounds on ε, by TPR / FPR and by TNR / FNR, from ``fn`` of ``m`` missed and ``fp`` of ``n`` selected.

    The same two one-sided bounds, each with half the error, serve both inequalities.
    """
    fnr, fpr = intervals.upper(fn, m, error / 2), intervals.upper(fp, n, error / 2)
    with np.errstate(divide="ignore"):
        by_members = np.log(np.maximum(1 - fnr - delta, 0)) - np.log(fpr)
        by_nonmembers = np.log(np.maximum(1 - fpr - delta, 0)) - np.log(fnr)
    return by_members, by_nonmembers


def _one_run(values: Floats, truth: Bools, guesses: int, delta: float, error: float) -> float:
    """The largest ε at which so many right guesses have a p-value of at most ``error``."""
    from scipy.special import expit

    right, made = _guess(values, truth, guesses)
    if made == 0 or _p_value(right, made, len(values), 0.5, delta) > error:
        return 0.0
    low, high = 0.0, 1.0
    while high < 64 and _p_value(right, made, len(values), expit(high), delta) <= error:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        rejected = _p_value(right, made, len(values), expit(middle), delta) <= error
        low, high = (middle, high) if rejected else (low, middle)
    return low


def _guess(values: Floats, truth: Bools, guesses: int) -> tuple[int, int]:
    """Right guesses and guesses made; records that tie across an edge are abstained from."""
    ordered = np.sort(values)
    top, bottom = guesses // 2, guesses - guesses // 2
    # Scores of equal value are all guessed alike or not at all, so no order of rows can matter.
    yes = values > ordered[-top - 1] if top < len(values) else np.ones(len(values), bool)
    no = values < ordered[bottom] if bottom < len(values) else np.ones(len(values), bool)
    return int((yes & truth).sum() + (no & ~truth).sum()), int(yes.sum() + no.sum())


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
