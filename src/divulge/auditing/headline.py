"""The strongest evidence of a leak, in a sentence that needs no statistics, and as a picture of the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from divulge.report import DotGrid, formatting
from divulge.report.page import MAX_DOTS

if TYPE_CHECKING:
    from divulge.report.formatting import NaturalFrequency
    from divulge.types import Estimate


@dataclass(frozen=True, slots=True)
class Tested:
    """One statistic of one recipe beside what a model that leaks nothing would have: for a TPR, its FPR.

    ``adjusted`` where the scores are adjusted for covariates.
    """

    recipe: str
    statistic: Literal["AUC", "TPR", "ε"]
    chance: float
    estimate: Estimate
    adjusted: bool = False

    @property
    def below(self) -> bool:
        """Whether the AUC lies below chance: then the score turned round finds members.

        A TPR there says nothing: where scores tie, its threshold takes in less than the FPR asked for.
        """
        return self.statistic == "AUC" and self.estimate.high < self.chance

    @property
    def leak(self) -> bool:
        """Whether the interval excludes what a model that leaks nothing has."""
        return self.below or self.estimate.low > self.chance

    @property
    def strength(self) -> float:
        """Distance of the interval from chance, in units of chance; 0 for ε, named where nothing else is found."""
        gap = self.chance - self.estimate.high if self.below else self.estimate.low - self.chance
        return gap / self.chance if self.chance else 0.0

    def __str__(self) -> str:
        e, chance = self.estimate, f"where a model that leaks nothing has {self.chance:g}"
        statistic = f"adjusted {self.statistic}" if self.adjusted else self.statistic
        if not self.chance:
            return f"{self.recipe}: {statistic} ≥ {formatting.format_lower_bound(e.low)}, {chance}"
        turned = "; the score points the wrong way; reversed, it finds members" if self.below else ""
        level = f" at FPR {self.chance:g}" if self.statistic == "TPR" else ""
        return f"{self.recipe}: {statistic} {e.value:.3f} [{e.low:.3f}, {e.high:.3f}]{level}, {chance}{turned}"


@dataclass(frozen=True, slots=True)
class Headline:
    """What can be done, in words and as grids of dots."""

    words: str
    pictures: tuple[DotGrid, ...] = ()


def of(claim: Tested, where: str = "") -> Headline:
    """A claim as whoever has never heard of it can repeat it.

    Args:
        claim: evidence of a leak.
        where: among which candidates, as the end of a phrase.

    Examples:
        >>> from divulge.types import Estimate
        >>> rate = Estimate(0.073, 0.041, 0.118, 0.95, "clopper-pearson")
        >>> of(Tested("lira", "TPR", 0.01, rate)).words
        'About 7 of 100 training records (4 to 12) can be recognised while wrongly accusing at most 1 of 100 others.'
    """
    if claim.statistic == "TPR":
        return _recognised(claim, where)
    if claim.statistic == "AUC":
        return _told_apart(claim, where)
    return Headline(
        f"Of some records it can be told{where} whether they were used for training, with more certainty than "
        "guessing allows."
    )


def _recognised(claim: Tested, where: str) -> Headline:
    shown, others = formatting.natural_frequency(claim.estimate, claim.chance), formatting.format_others(claim.chance)
    words = (
        f"About {shown.describe('training records')} can be recognised{where} while wrongly accusing at most {others}."
    )
    return Headline(words, grids(shown, claim.chance))


def grids(shown: NaturalFrequency, fpr: float) -> tuple[DotGrid, ...]:
    """Training records recognised beside others accused; none where either is of more than a thousand."""
    accused = formatting.round_frequency(fpr)
    if accused is None or max(accused[1], shown.total) > MAX_DOTS:
        return ()
    if accused[1] < shown.total:  # grids of one size can be compared
        accused = accused[0] * shown.total // accused[1], shown.total
    others = DotGrid(f"{accused[0]:,} of {accused[1]:,} others are wrongly accused, at most", *accused)
    return _grid(f"{shown.describe('training records')} are recognised", shown), others


def _told_apart(claim: Tested, where: str) -> Headline:
    """An AUC is the chance to be right about a pair; below one half, that of the opposite answer."""
    area = claim.estimate
    if claim.below:
        area = replace(area, value=1 - area.value, low=1 - area.high, high=1 - area.low)
    shown = formatting.natural_frequency(area, claim.chance)
    begun = f"{where.strip()}, shown" if where else "shown"
    words = (
        f"{formatting.capitalize(begun)} a training record and another one, the attack tells which is which in about "
        f"{shown.describe('cases')}; guessing is right in {shown.total // 2:,}."
    )
    if shown.total > MAX_DOTS:
        return Headline(words)
    guessed = DotGrid(
        f"{shown.total // 2:,} of {shown.total:,} by guessing", shown.total // 2, shown.total, chance=True
    )
    return Headline(words, (_grid(f"{shown.describe('pairs')} are told right", shown), guessed))


def _grid(caption: str, shown: NaturalFrequency) -> DotGrid:
    return DotGrid(caption, shown.value, shown.total, shown.low, shown.high)
