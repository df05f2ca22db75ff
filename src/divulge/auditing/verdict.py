"""The first line of a report: a leak found, none found (and what would have been seen), or too little data to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from divulge import evaluation
from divulge.report.markdown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.auditing.findings import Findings, Outcome
    from divulge.evaluation import Detectable
    from divulge.results import Answer, Conducted
    from divulge.types import Estimate, Tone

CONFIDENCE = 0.95
# The largest AUC that may go unseen and "no leak found" still be said: halfway between guessing and certainty.
UNSEEN = 0.75

TONES: Mapping[Answer, Tone] = {
    "leak found": "leak",
    "no leak found": "clear",
    "too little data to say": "undecided",
    "split is confounded": "void",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an audit says of a model.

    Args:
        answer: "leak found": an interval excludes what a model that leaks nothing would have; all intervals hold
            at once with 95 % confidence. "no leak found": none does, and an AUC of 0.75 would have been found with
            80 % probability. "too little data to say": none does, and an AUC of 0.75 would have been missed more
            often than that. "split is confounded": members can be told from non-members without the model.
        text: the answer with its numbers, ready to print.

    Examples:
        >>> Verdict("too little data to say", "Too little data to say: with 1 member and 1 non-member ...").tone
        'undecided'
    """

    answer: Answer
    text: str

    @property
    def tone(self) -> Tone:
        """The tone of a report that begins with it."""
        return TONES[self.answer]


@dataclass(frozen=True, slots=True)
class Scope:
    """Candidates that are judged together.

    Args:
        name: "unseen classes" or "all".
        where: the same as the end of a sentence; empty where there is nothing to set it apart from.
        outcomes: every recipe's scores of these candidates.
    """

    name: str
    where: str
    outcomes: tuple[Outcome, ...]

    @property
    def members(self) -> int:
        """Number of members."""
        return int(self.outcomes[0].members.sum())

    @property
    def nonmembers(self) -> int:
        """Number of non-members."""
        return len(self.outcomes[0].members) - self.members


def scopes(audit: Findings) -> tuple[Scope, ...]:
    """The unseen classes alone where there are some, and always all candidates."""
    outcomes = tuple(audit[name] for name in audit)
    if not audit.unseen_classes:
        return (Scope("all", "", outcomes),)
    unseen = tuple(outcome.unseen for outcome in outcomes)
    where = f" on the unseen classes {list(audit.unseen_classes)}"
    return Scope("unseen classes", where, unseen), Scope("all", " over all classes", outcomes)


@dataclass(frozen=True, slots=True)
class Tested:
    """One statistic of one recipe beside what a model that leaks nothing would have."""

    recipe: str
    statistic: str
    chance: float
    estimate: Estimate

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
        if not self.chance:
            return f"{self.recipe}: {self.statistic} ≥ {e.low:.2f}, {chance}"
        turned = "; the score points the wrong way; reversed, it finds members" if self.below else ""
        return f"{self.recipe}: {self.statistic} {e.value:.3f} [{e.low:.3f}, {e.high:.3f}], {chance}{turned}"


def claims(scope: Scope, levels: Sequence[float], confidence: float) -> list[Tested]:
    """AUC, TPR and ε of every recipe, each with an interval of that ``confidence``."""
    claimed = []
    for outcome in scope.outcomes:
        scores, truth, name = outcome.scores, outcome.members, outcome.recipe
        claimed.append(Tested(name, "AUC", 0.5, evaluation.auc(scores, truth, confidence)))
        for level in _supported(scope, levels):
            rate = evaluation.tpr_at_fpr(scores, truth, level, confidence)
            claimed.append(Tested(name, f"TPR at FPR {level:g}", level, rate))
        bound = evaluation.epsilon_lower_bound(scores, truth, confidence=confidence)
        claimed.append(Tested(name, "ε", 0.0, bound))
    return claimed


def at_once(audit: Findings) -> float:
    """The confidence of each interval that lets all intervals behind the verdict hold at once (Bonferroni).

    Otherwise, among five recipes with three statistics each, one would exclude chance by luck in every other
    audit of a model that leaks nothing.
    """
    tests = sum(len(scope.outcomes) * (2 + len(_supported(scope, audit.fpr))) for scope in scopes(audit))
    return 1 - (1 - CONFIDENCE) / tests


def _supported(scope: Scope, levels: Sequence[float]) -> list[float]:
    return [level for level in levels if scope.nonmembers >= evaluation.least_nonmembers(level)]


def detectable(audit: Findings, scope: Scope) -> Detectable:
    """The smallest leak the verdict would have reported; at the largest FPR at which any TPR would have been seen."""
    levels, confidence = sorted(audit.fpr, reverse=True), at_once(audit)
    smallest = [evaluation.smallest_detectable(scope.members, scope.nonmembers, fpr, confidence) for fpr in levels]
    return next((one for one in smallest if one.tpr is not None), smallest[0])


def verdict(audit: Findings) -> Verdict:
    """What leaks, how sure we are, under which threat model."""
    blind = audit.about.blind_baseline
    if blind is not None and blind.confounded:
        area = blind.auc
        return Verdict(
            "split is confounded",
            "The split is confounded: a classifier that never saw the model tells members from non-members "
            f"(AUC {shown(area)}, p = {blind.p_value:.2g}). No number "
            "below can be attributed to the model.",
        )
    if audit.about.told_apart:
        return Verdict(
            "split is confounded",
            "The split is confounded: words, years or lengths tell members from non-members without the model (the "
            "warnings name them). No number below can be attributed to the model.",
        )
    first, *more = (_judged(audit, scope) for scope in scopes(audit))
    if first.answer == "leak found" or all(other.answer == first.answer for other in more):
        return first
    # The unseen classes show nothing, and all classes show more: a leak, or enough data to say that there is none.
    both = [*more, first] if more[0].answer == "leak found" else [first, *more]
    return Verdict(both[0].answer, " ".join(one.text for one in both))


def _judged(audit: Findings, scope: Scope) -> Verdict:
    leaks = [claim for claim in claims(scope, audit.fpr, at_once(audit)) if claim.leak]
    if leaks:
        worst = max(leaks, key=lambda claim: claim.strength)
        return Verdict(
            "leak found",
            f"This model reveals who was in its training data{scope.where}. The strongest evidence is {worst} "
            f"(the intervals of all recipes hold simultaneously with {CONFIDENCE:.0%} confidence). "
            f"{_adversary(audit.about.recipes[worst.recipe])}",
        )
    smallest = detectable(audit, scope)
    if smallest.auc is not None and smallest.auc <= UNSEEN:
        return Verdict("no leak found", _nothing(scope, smallest, smallest.auc))
    return Verdict("too little data to say", _too_little(scope, smallest))


def _nothing(scope: Scope, smallest: Detectable, area: float) -> str:
    rate, unseen = "", ""
    if smallest.tpr is not None:
        rate = f" or a TPR of {smallest.tpr:.3f} at FPR {smallest.fpr:g}"
    else:
        least = evaluation.nonmembers_to_tell(smallest.fpr, smallest.confidence)
        missing = f"{least:,} non-members" if scope.nonmembers < least else "more members"
        unseen = f" No TPR at FPR {smallest.fpr:g} could have been told from chance: that would take {missing}."
    return (
        f"No leak found{scope.where}. The smallest that would have been found with {smallest.power:.0%} probability "
        f"is an AUC of {area:.3f}{rate}, under the model of {smallest.method}.{unseen} A smaller leak, or one confined "
        "to a few records, may have been missed."
    )


def _too_little(scope: Scope, smallest: Detectable) -> str:
    needed = evaluation.records_to_see(UNSEEN, smallest.confidence, smallest.power)
    return (
        f"Too little data to say{scope.where}: with {counted(scope.members, scope.nonmembers)}, even an AUC of "
        f"{UNSEEN:g}, halfway between guessing and certainty, could well be missed. Finding "
        f"one with {smallest.power:.0%} probability takes about {needed:,} of each kind."
    )


def counted(members: int, nonmembers: int) -> str:
    """Numbers of records in words.

    Examples:
        >>> counted(1, 2500)
        '1 member and 2,500 non-members'
    """
    words = [f"{n:,} {kind}{'' if n == 1 else 's'}" for n, kind in ((members, "member"), (nonmembers, "non-member"))]
    return " and ".join(words)


def _adversary(recipe: Conducted) -> str:
    models = {
        "none": "no reference models",
        "out": "reference models trained on other data of the same kind",
        "in and out": "reference models trained on halves of population and candidates",
        "base": "the model that it was fine-tuned from",
    }[recipe.references]
    return f"The adversary needs {recipe.reads} ({recipe.signal}) and {models}."
