"""Lower bounds on the ε of differential privacy, from scores alone.

A mechanism is (ε, δ)-DP only if every attack obeys TPR ≤ e^ε FPR + δ and TNR ≤ e^ε FNR + δ. Reading off
the *best* threshold without paying for the choice claims ε > 0 of targets that leak nothing (in 35-94 %
of null runs with tools in wide use); everything here pays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from scipy import special

from divulge import seeds
from divulge.errors import InputError
from divulge.evaluation import families
from divulge.evaluation.families import SubsampledGaussian
from divulge.statistics import intervals
from divulge.statistics.ranking import check_scores, count_above
from divulge.types import Estimate
from divulge.validation import check_choice, check_integer, check_number, format_value

if TYPE_CHECKING:
    from divulge.evaluation.families import Families
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
    slack = _delta(delta)
    assumed = families.named(family)
    if isinstance(assumed, SubsampledGaussian):
        raise InputError(f"family: None or 'gaussian' is needed here, got {format_value(family)}")
    if assumed is not None and slack == 0:
        raise InputError("delta: must be above 0 for a family: a Gaussian mechanism has no finite ε at 0")
    chosen = check_choice(strategy, "strategy", STRATEGIES)
    draw = check_integer(seed, "seed", least=0)
    tried = _split(values, truth, slack, error, draw) if chosen == "split" else _bonferroni(values, truth, error)
    if assumed is not None:
        bound = assumed.epsilon(tried.strength, slack)
        return Estimate(bound, bound, np.inf, confidence, f"clopper-pearson, {chosen}; if {assumed.assumes}")
    ratios = tried.ratios(slack)
    from_members, from_nonmembers = (float(ratio.max()) for ratio in ratios)
    bound = max(from_members, from_nonmembers, 0.0)
    parts = [f"clopper-pearson, {chosen} over thresholds"]
    if bound > 0:
        parts.append(BY_MEMBERS if from_members >= from_nonmembers else BY_NONMEMBERS)
    return Estimate(bound, bound, np.inf, confidence, ", ".join(parts))


def _delta(delta: float) -> float:
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


def _bonferroni(values: Floats, truth: Bools, error: float) -> _Rates:
    inside, outside = np.sort(values[truth]), np.sort(values[~truth])
    m, n = len(inside), len(outside)
    up, down = _ranks(n), _ranks(m)
    # Just above the r-th highest non-member, or at the r-th lowest member. An order statistic leaves r - 1
    # of its own kind beyond it; where ties leave fewer, that number would be a choice made by the data.
    fp = np.r_[up - 1.0, count_above(outside, np.nextafter(inside[down - 1], -np.inf))]
    fn = np.r_[m - count_above(inside, outside[-up]), down - 1.0]
    return _Rates.from_counts(fn, m, fp, n, error / len(fp))


def _split(values: Floats, truth: Bools, delta: float, error: float, seed: int) -> _Rates:
    rng = seeds.generator(seed, "epsilon", "split")
    # Sorted before they are dealt, so the order of the rows changes nothing.
    choose, measure = zip(*(_deal(np.sort(values[seed_name]), rng) for seed_name in (truth, ~truth)), strict=True)
    if not (len(choose[0]) and len(choose[1])):
        return _Rates(np.ones(1), np.ones(1))
    cuts = np.unique(np.r_[choose])
    half_size = cuts[np.argmax(np.maximum(*_at(choose, cuts, error).ratios(delta)).clip(0))]
    return _at(measure, np.array([half_size]), error)


def _at(halves: tuple[Floats, Floats], cuts: Floats, error: float) -> _Rates:
    """Return the rates of the rule "score > cut", at each cut."""
    inside, outside = halves
    m, n = len(inside), len(outside)
    return _Rates.from_counts(m - count_above(inside, cuts), m, count_above(outside, cuts), n, error)


def _deal(ordered: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    first_half = np.zeros(len(ordered), bool)
    first_half[rng.permutation(len(ordered))[: len(ordered) // 2]] = True
    return ordered[first_half], ordered[~first_half]


def _ranks(n: int) -> np.ndarray:
    """1, 2, 4, … up to n."""
    return 1 << np.arange(int(n).bit_length())
