"""The first line of a report: a leak found, none found (and what would have been seen), or too little data to say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from divulge import evaluation
from divulge.auditing import headline
from divulge.auditing.headline import Tested
from divulge.report import in_words
from divulge.report.markdown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.auditing.findings import Findings, Outcome
    from divulge.evaluation import Detectable
    from divulge.report import Dots
    from divulge.results import Answer, Conducted
    from divulge.types import Tone

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
        plain: the answer in a sentence that needs no statistics.
        more: who can do this, and the numbers it rests on.
        pictures: the answer as grids of dots, where it is a rate.
        recipe: the one with the strongest evidence; empty where none has any.

    Examples:
        >>> Verdict("too little data to say", "Too little data to say: with 1 member and 1 non-member ...").tone
        'undecided'
    """

    answer: Answer
    plain: str
    more: tuple[str, ...] = ()
    pictures: tuple[Dots, ...] = ()
    recipe: str = ""

    @property
    def text(self) -> str:
        """The whole of it, ready to print."""
        return " ".join((self.plain, *self.more))

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
    where = f" on the {in_words.classes(audit.unseen_classes)}"
    return Scope("unseen classes", where, unseen), Scope("all", " on all classes", outcomes)


def claims(scope: Scope, levels: Sequence[float], confidence: float) -> list[Tested]:
    """AUC, TPR and ε of every recipe, each with an interval of that ``confidence``."""
    claimed = []
    for outcome in scope.outcomes:
        scores, truth, name = outcome.scores, outcome.members, outcome.recipe
        claimed.append(Tested(name, "AUC", 0.5, evaluation.auc(scores, truth, confidence)))
        for level in _supported(scope, levels):
            rate = evaluation.tpr_at_fpr(scores, truth, level, confidence)
            claimed.append(Tested(name, "TPR", level, rate))
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
        return _confounded(
            "The split is confounded: a classifier that never saw the model tells members from non-members "
            f"(AUC {shown(area)}, p = {blind.p_value:.2g})."
        )
    if audit.about.told_apart:
        return _confounded(
            "The split is confounded: words, years or lengths tell members from non-members without the model (the "
            "warnings name them)."
        )
    first, *more = (_judged(audit, scope) for scope in scopes(audit))
    if first.answer == "leak found" or all(other.answer == first.answer for other in more):
        return first
    # The unseen classes show nothing, and all classes show more: a leak, or enough data to say that there is none.
    both = [*more, first] if more[0].answer == "leak found" else [first, *more]
    rest = [sentence for one in both[1:] for sentence in (one.plain, *one.more)]
    return replace(both[0], more=(*both[0].more, *rest))


def _confounded(plain: str) -> Verdict:
    return Verdict("split is confounded", plain, ("No number below can be attributed to the model.",))


def _judged(audit: Findings, scope: Scope) -> Verdict:
    seen = [claim for claim in claims(scope, audit.fpr, at_once(audit)) if claim.leak]
    texts = audit.about.texts
    owed = () if texts is None else texts.owed_to_length(1 - at_once(audit))
    leaks = [claim for claim in seen if claim.recipe not in owed]
    if leaks:
        return _leak(audit, scope, max(leaks, key=lambda claim: claim.strength))
    if seen and texts is not None:
        names = ", ".join(dict.fromkeys(claim.recipe for claim in seen))
        return _confounded(
            f"The split may be confounded: members and non-members differ in length (p = {texts.length:.2g}), and what "
            f"{names} found is not seen among documents of like length."
        )
    smallest = detectable(audit, scope)
    if smallest.auc is not None and smallest.auc <= UNSEEN:
        return _nothing(audit, scope, smallest, smallest.auc)
    return _too_little(scope, smallest)


def _leak(audit: Findings, scope: Scope, worst: Tested) -> Verdict:
    """What can be done, in words and as a picture; then by whom, and the figure it rests on."""
    said = headline.of(worst, scope.where)
    evidence = (
        f"The strongest evidence is {worst}. The intervals of all recipes hold simultaneously with "
        f"{in_words.per_cent(CONFIDENCE)} confidence."
    )
    partial = audit.about.settings.partial
    whole = partial is None or partial.share == 1
    knows = "" if whole else f" They know {in_words.per_cent(partial.share)} of each record's values."
    more = (_adversary(audit.about.recipes[worst.recipe]) + knows, evidence)
    return Verdict("leak found", said.words, more, said.pictures, worst.recipe)


def _nothing(audit: Findings, scope: Scope, smallest: Detectable, area: float) -> Verdict:
    rate, unseen = "", ()
    if smallest.tpr is not None:
        rate = f" or a TPR of {smallest.tpr:.3f} at FPR {smallest.fpr:g}"
    else:
        least = evaluation.nonmembers_to_tell(smallest.fpr, smallest.confidence)
        missing = f"{least:,} non-members" if scope.nonmembers < least else "more members"
        level = in_words.per_cent(smallest.fpr)
        unseen = (f"No TPR at FPR {level} could have been told from chance: that would take {missing}.",)
    return Verdict(
        "no leak found",
        f"No leak found{scope.where}: no attack that was run tells training records from others measurably better "
        "than guessing.",
        (
            f"The smallest that would have been found with {in_words.per_cent(smallest.power)} probability is an AUC "
            f"of {area:.3f}{rate}, under the model of {smallest.method}.",
            *unseen,
            f"A smaller leak, or one confined to a few records, may have been missed. {_tried(audit)}",
        ),
    )


def _too_little(scope: Scope, smallest: Detectable) -> Verdict:
    needed = evaluation.records_to_see(UNSEEN, smallest.confidence, smallest.power)
    return Verdict(
        "too little data to say",
        f"Too little data to say{scope.where}: with {counted(scope.members, scope.nonmembers)}, even an AUC of "
        f"{UNSEEN:g}, halfway between guessing and certainty, could well be missed.",
        (f"Finding one with {in_words.per_cent(smallest.power)} probability takes about {needed:,} of each kind.",),
    )


def counted(members: int, nonmembers: int) -> str:
    """Numbers of records in words.

    Examples:
        >>> counted(1, 2500)
        '1 member and 2,500 non-members'
    """
    words = [f"{n:,} {kind}{'' if n == 1 else 's'}" for n, kind in ((members, "member"), (nonmembers, "non-member"))]
    return " and ".join(words)


def _tried(audit: Findings) -> str:
    """Against whom nothing was found."""
    needs = {recipe.references for recipe in audit.about.recipes.values()}
    stronger = (
        "" if needs & {"out", "in and out"} else ". One who trains reference models was not tried, and may find more"
    )
    return f"The adversaries that were tried: {', '.join(audit.about.recipes)}{stronger}."


def _adversary(recipe: Conducted) -> str:
    models = {
        "none": "no reference models",
        "out": "reference models trained on other data of the same kind",
        "in and out": "reference models trained on halves of population and candidates",
        "base": "the model that it was fine-tuned from",
        "substitutes": "models trained on other data of the same kind, as the target labels it",
    }[recipe.references]
    return f"The adversary needs {recipe.reads} ({recipe.signal}) and {models}."
