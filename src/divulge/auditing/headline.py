"""The strongest evidence of a leak, in a sentence that needs no statistics, and as a picture of the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from divulge.report import Dots, in_words
from divulge.report.dots import MOST

if TYPE_CHECKING:
    from divulge.report.in_words import OutOf
    from divulge.types import Estimate


@dataclass(frozen=True, slots=True)
class TestedStatistic:
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
            return f"{self.recipe}: {statistic} ≥ {in_words.least(e.low)}, {chance}"
        turned = "; the score points the wrong way; reversed, it finds members" if self.below else ""
        level = f" at FPR {self.chance:g}" if self.statistic == "TPR" else ""
        return f"{self.recipe}: {statistic} {e.value:.3f} [{e.low:.3f}, {e.high:.3f}]{level}, {chance}{turned}"


@dataclass(frozen=True, slots=True)
class Headline:
    """What can be done, in words and as grids of dots."""

    words: str
    pictures: tuple[Dots, ...] = ()


def make_headline(claim: TestedStatistic, where: str = "") -> Headline:
    """A claim as whoever has never heard of it can repeat it.

    Args:
        claim: evidence of a leak.
        where: among which candidates, as the end of a phrase.

    Examples:
        >>> from divulge.types import Estimate
        >>> rate = Estimate(0.073, 0.041, 0.118, 0.95, "clopper-pearson")
        >>> make_headline(TestedStatistic("lira", "TPR", 0.01, rate)).words
        'About 7 of 100 training records (4 to 12) can be recognised while wrongly accusing at most 1 of 100 others.'
    """
    if claim.statistic == "TPR":
        return _tpr_headline(claim, where)
    if claim.statistic == "AUC":
        return _auc_headline(claim, where)
    return Headline(
        f"Of some records it can be told{where} whether they were used for training, with more certainty than "
        "guessing allows."
    )


def _tpr_headline(claim: TestedStatistic, where: str) -> Headline:
    shown, others = in_words.out_of(claim.estimate, claim.chance), in_words.of_others(claim.chance)
    words = (
        f"About {shown.counted('training records')} can be recognised{where} while wrongly accusing at most {others}."
    )
    return Headline(words, dot_grids(shown, claim.chance))


def dot_grids(shown: OutOf, fpr: float) -> tuple[Dots, ...]:
    """Training records recognised beside others accused; none where either is of more than a thousand."""
    accused = in_words.one_in(fpr)
    if accused is None or max(accused[1], shown.of) > MOST:
        return ()
    if accused[1] < shown.of:  # grids of one size can be compared
        accused = accused[0] * shown.of // accused[1], shown.of
    others = Dots(f"{accused[0]:,} of {accused[1]:,} others are wrongly accused, at most", *accused)
    return _dot_grid(f"{shown.counted('training records')} are recognised", shown), others


def _auc_headline(claim: TestedStatistic, where: str) -> Headline:
    """An AUC is the chance to be right about a pair; below one half, that of the opposite answer."""
    area = claim.estimate
    if claim.below:
        area = replace(area, value=1 - area.value, low=1 - area.high, high=1 - area.low)
    shown = in_words.out_of(area, claim.chance)
    begun = f"{where.strip()}, shown" if where else "shown"
    words = (
        f"{in_words.capital(begun)} a training record and another one, the attack tells which is which in about "
        f"{shown.counted('cases')}; guessing is right in {shown.of // 2:,}."
    )
    if shown.of > MOST:
        return Headline(words)
    guessed = Dots(f"{shown.of // 2:,} of {shown.of:,} by guessing", shown.of // 2, shown.of, chance=True)
    return Headline(words, (_dot_grid(f"{shown.counted('pairs')} are told right", shown), guessed))


def _dot_grid(caption: str, shown: OutOf) -> Dots:
    return Dots(caption, shown.value, shown.of, shown.low, shown.high)
