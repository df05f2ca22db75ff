"""Verdict of an audit in English: every sentence that says why an answer was given."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from divulge import evaluation
from divulge.auditing.checks.blind_baseline import describe_smallest_shift
from divulge.auditing.checks.check import NEXT_STEPS, REDRAW_ADVICE, confounded_details
from divulge.auditing.checks.copies import count_copies, describe_copies
from divulge.auditing.checks.covariates import describe_adjustment, describe_contrary_evidence, describe_covariates
from divulge.auditing.findings import CONFIDENCE
from divulge.auditing.scopes import LARGEST_UNSEEN_AUC, simultaneous_confidence, split_confidence
from divulge.report import DotGrid, formatting
from divulge.report.page import MAX_DOTS
from divulge.results import BlindBaseline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.auditing.findings import Findings
    from divulge.auditing.scopes import GroupScopes, Scope, TestedStatistic
    from divulge.auditing.verdict import Reason
    from divulge.evaluation import SurestRecords
    from divulge.report.formatting import NaturalFrequency
    from divulge.results import Answer, RecipeRun
    from divulge.types import Tone

TONES: Mapping[Answer, Tone] = {
    "leak found": "leak",
    "no leak found": "clear",
    "too little data to say": "undecided",
    "split is confounded": "void",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a model.

    Args:
        answer: "leak found": an interval excludes what a model that leaks nothing would have; all intervals hold
            at once with 95 % confidence. "no leak found": none does, and an AUC of 0.75 would have been found with
            80 % probability. "too little data to say": none does, and an AUC of 0.75 would have been missed more
            often than that, or the target is no better on its own training records than a constant answer is.
            "split is confounded": members can be told from non-members without the model. Where there are
            covariates, the intervals are those of scores adjusted for them.
        plain: the answer in a sentence that needs no statistics.
        details: further sentences: who can do this, and the evidence.
        pictures: the answer as grids of dots, if it is a rate.
        recipe: the recipe with the strongest evidence; empty without evidence.
        reasons: the same as data, see `divulge.auditing.verdict.decide`; the first decides.

    Examples:
        >>> Verdict("too little data to say", "Too little data to say: with 1 member and 1 non-member ...").tone
        'undecided'
    """

    answer: Answer
    plain: str
    details: tuple[str, ...] = ()
    pictures: tuple[DotGrid, ...] = ()
    recipe: str = ""
    reasons: tuple[Reason, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        return f"Verdict({self.answer!r}: {self.plain})"

    @property
    def text(self) -> str:
        """The whole verdict, ready to print."""
        return " ".join((self.plain, *self.details))

    @property
    def tone(self) -> Tone:
        """Tone of a report that begins with the verdict."""
        return TONES[self.answer]


def write_verdict(audit: Findings, reasons: Sequence[Reason]) -> Verdict:
    """Say the answer by the first of its reasons, and what the others add to it."""
    first, *others = reasons
    said, details = _describe_reason(audit, first), list[str]()
    for other in others:
        if first.code in ("proof", "leak", "suspected") and (other.scope is not None or first.code == "proof"):
            measured = _describe_reason(audit, other)
            said = replace(said, recipe=measured.recipe)
            if first.code == "proof":
                details.append(f"What attacks measure beside that: {measured.plain}")
            elif first.code == "leak" and other.code == "no leak":
                details.append("No attack sees a leak by the declared non-members alone.")
            else:
                details.append(measured.plain)
        elif other.finding is not None and other.code != "implausible":
            details.append(other.finding.sentence)
        else:  # of another scope
            also = _describe_reason(audit, other)
            details += [also.plain] if other.answer == "split is confounded" else [also.plain, *also.details]
    return replace(said, details=(*said.details, *details), reasons=tuple(reasons))


def _describe_reason(audit: Findings, reason: Reason) -> Verdict:
    """Say one reason, as if it were the only one."""
    finding, scope = reason.finding, reason.scope
    suffix = "" if scope is None else scope.suffix
    match reason.code:
        case "leak by scores":
            return _describe_leak(audit, reason)
        case "no leak":
            return _describe_no_leak(audit, reason)
        case "contrary scores":
            assert audit.adjustment is not None
            doubt = describe_contrary_evidence(audit.adjustment, reason.recipes)
            return Verdict(reason.answer, f"The split may be confounded{suffix}: {doubt}.", confounded_details())
        case _ if finding is not None:
            opening = f"Too little data to say{suffix}: " if reason.answer == "too little data to say" else ""
            return Verdict(reason.answer, f"{opening}{finding.sentence}", finding.details)
        case "explained by records":
            names, blind = formatting.join_words(reason.recipes), audit.about.measured(BlindBaseline)
            sentence = (
                f"by {names} members can be told from non-members only once what the records alone explain is taken "
                "out; a difference between the sets may hide a leak."
                if reason.is_hidden
                else f"by {names} members can be told from non-members, but no longer once what the records alone "
                "explain is taken out; a difference between the sets that is too small for the blind baseline to see "
                "would do the same."
            )
            details = (
                *([] if blind is None else [describe_smallest_shift(blind)]),
                f"{NEXT_STEPS}; or name the columns in which the sets may differ as covariates, so that like is "
                "compared with like.",
            )
        case "no overlap":
            assert audit.adjustment is not None
            names = describe_covariates(audit.adjustment)
            sentence = f"hardly any members and non-members of these are alike in {names}."
            details = (f"{REDRAW_ADVICE}.",)
        case "copies":
            sentence, details = f"{describe_copies(audit.about)}.", ()
        case _:
            sentence, details = _describe_too_few(reason)
    return Verdict(reason.answer, f"Too little data to say{suffix}: {sentence}", details)


def _describe_leak(audit: Findings, reason: Reason) -> Verdict:
    """Say what can be done, by whom, and the evidence."""
    assert reason.scope is not None
    scope, (strongest, *claims) = reason.scope, reason.claims
    surest, pictures = None, tuple[DotGrid, ...]()
    if strongest.statistic == "ε":
        outcome = next(outcome for outcome in scope.outcomes if outcome.recipe == strongest.recipe)
        surest = evaluation.surest_records(outcome.scores, outcome.members, simultaneous_confidence(audit))
    if strongest.statistic == "exposed members":
        chance = 3 * scope.members / (scope.nonmembers + 1)
        plain = (
            f"{strongest.estimate.high:,.0f} of {scope.members:,} training records score higher{scope.suffix} than all "
            f"but at most 2 of {scope.nonmembers:,} others, where chance gives about {chance:,.0f}: at least "
            f"{strongest.estimate.low:,.0f} can be recognised because they were used for training."
        )
    else:
        plain, pictures = describe_claim(strongest, scope.suffix, surest)
    evidence = (
        f"The strongest evidence is {strongest}. The intervals of all recipes hold simultaneously with "
        f"{formatting.format_percent(CONFIDENCE)} confidence."
    )
    partial = audit.about.settings.partial
    knows_everything = partial is None or partial.share == 1
    knowledge = (
        "" if knows_everything else f" They know {formatting.format_percent(partial.share)} of each record's values."
    )
    blind, confirmed = audit.about.measured(BlindBaseline), strongest.recipe in audit.unexplained_scores
    shift_sentence = "" if blind is None or not confirmed else (
        "A leak also shows in the scores after what the records alone explain has been subtracted. "
        f"{describe_smallest_shift(blind)}"
    )  # fmt: skip
    adjustment_sentence = "" if audit.adjustment is None else describe_adjustment(audit.adjustment)
    details = tuple(
        filter(
            None,
            (
                _describe_adversary(audit.about.recipes[strongest.recipe]) + knowledge,
                evidence,
                *_describe_worst_groups(list(zip(reason.claim_scopes, claims, strict=True))),
                adjustment_sentence,
                shift_sentence,
            ),
        )
    )
    return Verdict("leak found", plain, details, pictures, strongest.recipe)


def _describe_worst_groups(worst: Sequence[tuple[Scope, TestedStatistic]]) -> tuple[str, ...]:
    """Name the class and the group that leak most."""
    sentences = []
    for by in ("class", "group"):
        if leaking := [pair for pair in worst if pair[0].by == by]:
            scope, claim = max(leaking, key=lambda pair: pair[1].strength)
            counts = format_counts(scope.members, scope.nonmembers)
            others = f", the worst of {len(leaking):,} that leak by themselves" if len(leaking) > 1 else ""
            sentences.append(f"Within {scope.name} alone ({counts}{others}): {claim}.")
    return tuple(sentences)


def _describe_no_leak(audit: Findings, reason: Reason) -> Verdict:
    """Say what was tried, and the smallest leak that would have been found."""
    scope, smallest_leak = reason.scope, reason.smallest_leak
    assert scope is not None
    assert smallest_leak is not None
    rate, undetectable = "", ()
    if smallest_leak.tpr is not None:
        rate = f" or a TPR of {smallest_leak.tpr:.3f} at FPR {smallest_leak.fpr:g}"
    elif count_copies(audit.about):
        undetectable = (f"{formatting.capitalize(describe_copies(audit.about))}.",)
    else:
        required = evaluation.nonmembers_to_tell(smallest_leak.fpr, smallest_leak.confidence)
        missing = f"{required:,} non-members" if scope.nonmembers < required else "more members"
        level = formatting.format_percent(smallest_leak.fpr)
        undetectable = (f"No TPR at FPR {level} could have been told from chance: that would take {missing}.",)
    return Verdict(
        reason.answer,
        f"No leak found{scope.suffix}: no attack that was run tells training records from others measurably better "
        "than guessing.",
        (
            f"The smallest that would have been found with {formatting.format_percent(smallest_leak.power)} "
            f"probability is an AUC of {smallest_leak.auc:.3f}{rate}, under the model of {smallest_leak.method}.",
            *undetectable,
            *(() if audit.adjustment is None else (describe_adjustment(audit.adjustment),)),
            *([] if reason.groups is None else _describe_cleared_groups(reason.groups)),
            f"{_describe_unseen_records(audit, scope)} {_describe_attacks(audit)}",
        ),
    )


def _describe_cleared_groups(groups: GroupScopes) -> list[str]:
    """Say which classes and groups were judged by themselves, and which have too few records."""
    n_judged, too_few = len(groups.judged), groups.too_few
    sentences = []
    if n_judged:
        listed = (
            formatting.format_count(n_judged, "class or group") if n_judged == 1 else f"{n_judged:,} classes or groups"
        )
        sentences.append(f"Nor does any of {listed} leak measurably by itself.")
    if too_few:
        sentences.append(f"Too few records to judge by themselves: {list_names(too_few)}.")
    return sentences


_MAX_NAMED = 10


def list_names(names: Sequence[str]) -> str:
    """List names, of many the first.

    Examples:
        >>> list_names(["class 1", "class 4"]), list_names([f"class {i}" for i in range(40)])[-22:]
        ('class 1 and class 4', 'class 9 and 30 further')
    """
    further = [f"{len(names) - _MAX_NAMED:,} further"] if len(names) > _MAX_NAMED else []
    return formatting.join_words([*names[:_MAX_NAMED], *further])


def _describe_unseen_records(audit: Findings, scope: Scope) -> str:
    """Say how many fully exposed members would have been seen; fewer may have been missed."""
    count = None
    if not count_copies(audit.about):
        confidence = split_confidence(audit).exposed
        count = evaluation.smallest_exposed(scope.members, scope.nonmembers, confidence)
    if count is None:
        return "A smaller leak, or one confined to a few records, may have been missed."
    return (
        f"{count:,} of {scope.members:,} members that score higher than every non-member would have been found with "
        "80 % probability; a smaller leak, or one of fewer records, may have been missed."
    )


def _describe_too_few(reason: Reason) -> tuple[str, tuple[str, ...]]:
    scope, smallest_leak = reason.scope, reason.smallest_leak
    assert scope is not None
    assert smallest_leak is not None
    auc = LARGEST_UNSEEN_AUC
    n_required = evaluation.records_to_see(auc, smallest_leak.confidence, smallest_leak.power)
    return (
        f"with {format_counts(scope.members, scope.nonmembers)}, even an AUC of {auc:g}, halfway between guessing and "
        "certainty, could well be missed.",
        (
            f"Finding one with {formatting.format_percent(smallest_leak.power)} probability takes about {n_required:,} "
            "of each kind.",
        ),
    )


def format_counts(members: int, nonmembers: int) -> str:
    """Format the numbers of members and non-members.

    Examples:
        >>> format_counts(1, 2500)
        '1 member and 2,500 non-members'
    """
    parts = [f"{n:,} {noun}{'' if n == 1 else 's'}" for n, noun in ((members, "member"), (nonmembers, "non-member"))]
    return " and ".join(parts)


def _describe_attacks(audit: Findings) -> str:
    """List the attacks that found nothing."""
    needs = {recipe.references for recipe in audit.about.recipes.values()}
    stronger = (
        "" if needs & {"out", "in and out"} else ". One who trains reference models was not tried, and may find more"
    )
    names = [
        f"{name} (the {recipe.signal.replace('_', ' ')} alone)" if recipe.signal.startswith("last_") else name
        for name, recipe in audit.about.recipes.items()
    ]
    return f"The adversaries that were tried: {', '.join(names)}{stronger}."


def _describe_adversary(recipe: RecipeRun) -> str:
    models = {
        "none": "no reference models",
        "out": "reference models trained on other data of the same kind",
        "in and out": "reference models trained on halves of population and candidates",
        "base": "the model that it was fine-tuned from",
        "substitutes": "models trained on other data of the same kind, as the target labels it",
    }[recipe.references]
    return f"The adversary needs {recipe.reads} ({recipe.signal}) and {models}."


def describe_claim(
    statistic: TestedStatistic, suffix: str = "", surest: SurestRecords | None = None
) -> tuple[str, tuple[DotGrid, ...]]:
    """State a claim in a sentence that needs no statistics, and as grids of dots.

    Args:
        statistic: evidence of a leak.
        suffix: among which candidates, as the end of a phrase.
        surest: the records from which a bound on ε comes, where that is the evidence.

    Examples:
        >>> from divulge.auditing.scopes import TestedStatistic
        >>> from divulge.types import Estimate
        >>> rate = Estimate(0.073, 0.041, 0.118, 0.95, "clopper-pearson")
        >>> describe_claim(TestedStatistic("lira", "TPR", 0.01, rate))[0]
        'About 7 of 100 training records (4 to 12) can be recognised while wrongly accusing at most 1 of 100 others.'
    """
    if statistic.statistic == "TPR":
        rate = formatting.natural_frequency(statistic.estimate, statistic.chance)
        accused = formatting.format_others(statistic.chance)
        sentence = f"About {rate.describe('training records')} can be recognised{suffix} while wrongly accusing at most"
        return f"{sentence} {accused}.", dot_grids(rate, statistic.chance)
    if statistic.statistic == "AUC":
        auc = statistic.estimate
        if statistic.below:  # the score reversed finds members
            auc = replace(auc, value=1 - auc.value, low=1 - auc.high, high=1 - auc.low)
        rate = formatting.natural_frequency(auc, statistic.chance)
        opening = f"{suffix.strip()}, shown" if suffix else "shown"
        sentence = (
            f"{formatting.capitalize(opening)} a training record and another one, the attack tells which is which in "
            f"about {rate.describe('cases')}; guessing is right in {rate.total // 2:,}."
        )
        if rate.total > MAX_DOTS:
            return sentence, ()
        guessed = DotGrid(
            f"{rate.total // 2:,} of {rate.total:,} by guessing", rate.total // 2, rate.total, chance=True
        )
        return sentence, (_dot_grid(f"{rate.describe('pairs')} are told right", rate), guessed)
    if surest is not None:
        return _describe_surest(surest, suffix), _draw_surest(surest)
    return (
        f"Of some records it can be told{suffix} whether they were used for training, with more certainty than "
        "guessing allows."
    ), ()


def _describe_surest(surest: SurestRecords, suffix: str) -> str:
    """Say how many records are told apart almost surely, and how many of the others they are mistaken for.

    Examples:
        >>> from divulge.evaluation import SurestRecords
        >>> _describe_surest(SurestRecords(False, 12, 500, 0, 480), "")
        '12 of 500 other records can be ruled out as training data: none of 480 training records scores as low.'
        >>> _describe_surest(SurestRecords(True, 12, 500, 2, 480), " on all classes")
        '12 of 500 training records score so high on all classes that only 2 of 480 other records do, which ...'
    """
    other_side, records = (
        ("other records", "training records") if surest.members else ("training records", "other records")
    )
    right = f"{surest.right:,} of {surest.total:,} {records}"
    wrong = f"{surest.wrong:,} of {surest.n_others:,} {other_side}"
    end = "high" if surest.members else "low"
    if surest.wrong:
        do = "does" if surest.wrong == 1 else "do"
        return f"{right} score so {end}{suffix} that only {wrong} {do}, which chance does not explain."
    claim = "recognised" if surest.members else "ruled out as training data"
    return f"{right} can be {claim}{suffix}: none of {surest.n_others:,} {other_side} scores as {end}."


def _draw_surest(surest: SurestRecords) -> tuple[DotGrid, ...]:
    """Draw the records that are told apart beside those that they are mistaken for; not of more than a thousand."""
    if max(surest.total, surest.n_others) > MAX_DOTS:
        return ()
    end = "high" if surest.members else "low"
    captions = ("training records", "other records") if surest.members else ("other records", "training records")
    return (
        DotGrid(f"{surest.right:,} of {surest.total:,} {captions[0]} score so {end}", surest.right, surest.total),
        DotGrid(f"{surest.wrong:,} of {surest.n_others:,} {captions[1]} do", surest.wrong, surest.n_others),
    )


def dot_grids(rate: NaturalFrequency, fpr: float) -> tuple[DotGrid, ...]:
    """Draw recognised members beside accused non-members; empty if either is of more than a thousand."""
    accused = formatting.round_frequency(fpr)
    if accused is None or max(accused[1], rate.total) > MAX_DOTS:
        return ()
    if accused[1] < rate.total:  # grids of one size can be compared
        accused = accused[0] * rate.total // accused[1], rate.total
    accused_dots = DotGrid(f"{accused[0]:,} of {accused[1]:,} others are wrongly accused, at most", *accused)
    return _dot_grid(f"{rate.describe('training records')} are recognised", rate), accused_dots


def _dot_grid(caption: str, rate: NaturalFrequency) -> DotGrid:
    return DotGrid(caption, rate.value, rate.total, rate.low, rate.high)
