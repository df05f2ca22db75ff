"""Verdict of an audit in English: every sentence that says why an answer was given."""

from __future__ import annotations

import math
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
    from divulge.results import Answer, PartialKnowledgeSettings, RecipeRun
    from divulge.types import Tone

# Where only a larger leak would have been found, the verdict says in its first words that large ones are meant.
_MODERATE_AUC, _LARGEST_MODERATE_AUC = 0.6, 0.65
_REGRESSIONS = ("LogisticRegression", "LinearRegression", "Ridge", "PoissonRegressor")
_COEFFICIENTS = (
    "Only the model's outputs were looked at. It is a regression, and whoever holds the records can often tell from "
    "the coefficients of one, in its file or in a table, which of them it was fitted on: the command divulge weights "
    "--cohort asks that."
)
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
        details: further such sentences: who can do this, what was taken into account, what to do next.
        pictures: the answer as grids of dots, if it is a rate.
        recipe: the recipe with the strongest evidence; empty without evidence.
        reasons: the same as data, see `divulge.auditing.verdict.decide`; the first decides.
        caveats: what limits the answer, or puts it in doubt: never left out where the answer is told.
        evidence: the figures behind it, in the words of statistics, for the annex.
        deciding: the figure that a leak rests on, where the AUC and TPR over all candidates do not show it; else empty.

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
    caveats: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    deciding: str = ""

    def __repr__(self) -> str:
        return f"Verdict({self.answer!r}: {self.plain})"

    @property
    def text(self) -> str:
        """The whole verdict in words, ready to print."""
        return " ".join((self.plain, *self.caveats, *self.details))

    @property
    def tone(self) -> Tone:
        """Tone of a report that begins with the verdict."""
        return TONES[self.answer]


def write_verdict(audit: Findings, reasons: Sequence[Reason]) -> Verdict:
    """Say the answer by the first of its reasons, and what the others add to it."""
    first, *others = reasons
    said = describe_reason(audit, first)
    caveats, details, evidence = list(said.caveats), list(said.details), list(said.evidence)
    for other in others:
        if first.code in ("proof", "leak", "suspected") and (other.scope is not None or first.code == "proof"):
            measured = describe_reason(audit, other)
            said = replace(said, recipe=measured.recipe)
            evidence += measured.evidence
            if first.code == "proof":
                caveats.append(f"What attacks measure beside that: {measured.plain}")
            elif first.code == "leak" and other.code == "no leak":
                caveats.append("No attack sees a leak by the declared non-members alone.")
            else:
                caveats.append(measured.plain)
        elif other.finding is not None and other.code != "implausible":
            caveats.append(other.finding.sentence)
        else:  # of another scope
            also = describe_reason(audit, other)
            caveats += [also.plain, *also.caveats]
            evidence += also.evidence
            details += () if other.answer == "split is confounded" else also.details
    return replace(
        said, details=tuple(details), caveats=tuple(caveats), evidence=tuple(evidence), reasons=tuple(reasons)
    )


def describe_reason(audit: Findings, reason: Reason) -> Verdict:
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
            if reason.code == "implausible":  # which more data do not mend
                opening = f"No answer{suffix}: "
            return Verdict(reason.answer, f"{opening}{finding.sentence}", finding.details)
        case "explained by records":
            names, blind = formatting.join_words(reason.recipes), audit.about.measured(BlindBaseline)
            sentence = (
                "training records and others are told apart only once differences between the two groups are taken "
                "into account; such a difference may hide a leak."
                if reason.is_hidden
                else "training records and others are told apart, but no longer once differences between the two "
                "groups are taken into account; a difference that is too small to be seen would do the same."
            )
            details = (f"{NEXT_STEPS}.",)
            evidence = (f"This is so of {names}.", *([] if blind is None else [describe_smallest_shift(blind)]))
        case "no overlap":
            assert audit.adjustment is not None
            names = describe_covariates(audit.adjustment)
            sentence = f"hardly any training records and others of these are alike in {names}."
            details, evidence = (f"{REDRAW_ADVICE}.",), ()
        case "copies":
            sentence, details, evidence = f"{describe_copies(audit.about)}.", (), ()
        case _:
            sentence, details, evidence = _describe_too_few(reason)
    return Verdict(reason.answer, f"Too little data to say{suffix}: {sentence}", details, evidence=evidence)


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
            f"{strongest.estimate.high:,.0f} of {scope.members:,} training records stand out{scope.suffix} from all "
            f"but at most 2 of {scope.nonmembers:,} others, where chance gives about {chance:,.0f}: at least "
            f"{strongest.estimate.low:,.0f} can be recognised because they were used for training."
        )
    else:
        plain, pictures = describe_claim(strongest, scope.suffix, surest)
    worst = _find_worst_groups(list(zip(reason.claim_scopes, claims, strict=True)))
    blind, confirmed = audit.about.measured(BlindBaseline), strongest.recipe in audit.unexplained_scores
    is_adjusted = audit.adjustment is not None
    details = [
        _describe_adversary(audit.about.recipes[strongest.recipe], audit.about.settings.partial),
        *(_describe_worst_group(scope, claim, n) for scope, claim, n in worst),
    ]
    if is_adjusted or (blind is not None and confirmed):
        details.append(_REMAINS)
    if strongest.statistic == "TPR":
        details.append("The other training records may be at risk, too.")
    evidence = [
        f"The strongest evidence is {strongest}. The intervals of all recipes hold simultaneously with "
        f"{formatting.format_percent(CONFIDENCE)} confidence.",
        *(f"Within {scope.name} alone ({format_counts(scope.members, scope.nonmembers)}): {claim}."
          for scope, claim, _ in worst),
    ]  # fmt: skip
    if audit.adjustment is not None:
        evidence.append(describe_adjustment(audit.adjustment))
    if blind is not None and confirmed:
        evidence.append(
            "A leak also shows in the scores after what the records alone explain has been subtracted. "
            f"{describe_smallest_shift(blind)}"
        )
    deciding = _describe_deciding(audit, scope, strongest)
    return Verdict(
        "leak found", plain, tuple(details), pictures, strongest.recipe, evidence=tuple(evidence), deciding=deciding
    )


def _describe_deciding(audit: Findings, scope: Scope, claim: TestedStatistic) -> str:
    """Name the figure that decided, where a table of AUC and TPR over all candidates does not hold it.

    Of a bound on ε the other one is named as well: tables give the lower of those by the scores and by what of them
    the records do not explain.
    """
    if claim.statistic in ("AUC", "TPR") and not scope.by:
        return ""
    where = f" Within {scope.name} alone," if scope.by else ""
    deciding = f"What decided:{where} {claim}."
    outcome = next(outcome for outcome in scope.outcomes if outcome.recipe == claim.recipe)
    if claim.statistic != "ε" or outcome.unexplained is None:
        return deciding
    confidence = simultaneous_confidence(audit)
    low = evaluation.epsilon_lower_bound(outcome.unexplained, outcome.members, confidence=confidence).low
    if low >= claim.estimate.low:
        return deciding
    auc = evaluation.auc(outcome.unexplained, outcome.members, confidence)
    also = f", and its AUC is {formatting.format_estimate(auc)}" if auc.low > 0.5 else ""
    return (
        f"{deciding} This is the bound by the score as it is. Less what the records alone explain, the score shows "
        f"ε ≥ {formatting.format_lower_bound(low)}, the lower bound that the tables give{also}."
    )


def _find_worst_groups(groups: Sequence[tuple[Scope, TestedStatistic]]) -> list[tuple[Scope, TestedStatistic, int]]:
    """Return the class and the group that leak most, and how many of their kind leak by themselves."""
    by_kind = ([pair for pair in groups if pair[0].by == kind] for kind in ("class", "group"))
    return [(*max(pairs, key=lambda pair: pair[1].strength), len(pairs)) for pairs in by_kind if pairs]


def _describe_worst_group(scope: Scope, claim: TestedStatistic, count: int) -> str:
    """Say in which class or group the leak shows most, and how much of it shows there."""
    kinds = "classes" if scope.by == "class" else "groups"
    where = f"in {count:,} {kinds} taken one by one, most in" if count > 1 else "within"
    opening = f"The leak also shows {where} {scope.name}{'' if count > 1 else ' alone'}"
    if claim.statistic not in ("AUC", "TPR"):
        return f"{opening}."
    sentence = describe_claim(claim, " there")[0]
    return f"{opening}: {sentence[0].lower()}{sentence[1:]}"


def describe_silence(reason: Reason) -> str:
    """Return the first words where no leak was found: that the test was weak, if so."""
    return "No leak found by a weak test" if is_coarse(reason) else "No leak found"


def is_coarse(reason: Reason) -> bool:
    """Return whether only a large leak would have been found."""
    smallest = reason.smallest_leak
    return smallest is not None and smallest.auc is not None and smallest.auc > _LARGEST_MODERATE_AUC


def _describe_no_leak(audit: Findings, reason: Reason) -> Verdict:
    """Say what was tried, and the smallest leak that would have been found."""
    scope, smallest_leak = reason.scope, reason.smallest_leak
    assert scope is not None
    assert smallest_leak is not None
    assert smallest_leak.auc is not None
    rate, plain_rate, undetectable, copies, larger_test = "", "", (), (), ()
    power = formatting.format_percent(smallest_leak.power)
    if smallest_leak.tpr is not None:
        rate = f" or a TPR of {smallest_leak.tpr:.3f} at FPR {smallest_leak.fpr:g}"
        accused = formatting.format_others(smallest_leak.fpr, _round_to(smallest_leak.tpr))
        recognised = _round_up(smallest_leak.tpr)
        plain_rate = f", or recognises {recognised} training records while wrongly accusing at most {accused}"
    elif count_copies(audit.about):
        copies = (f"{formatting.capitalize(describe_copies(audit.about))}.",)
    else:
        required = evaluation.nonmembers_to_tell(smallest_leak.fpr, smallest_leak.confidence)
        missing = f"{required:,} non-members" if scope.nonmembers < required else "more members"
        level = formatting.format_percent(smallest_leak.fpr)
        undetectable = (f"No TPR at FPR {level} could have been told from chance: that would take {missing}.",)
    unseen, few = _describe_unseen_records(audit, scope)
    limits = (
        f"How good was this test? It would have noticed, {round(10 * smallest_leak.power)} times in 10, a leak by "
        "which an attacker, shown a training record and another one, tells which is which in "
        f"{_round_up(smallest_leak.auc)} cases (guessing is right in half){plain_rate}. {few}"
    )
    if is_coarse(reason):
        n_required = evaluation.records_to_see(_MODERATE_AUC, smallest_leak.confidence, smallest_leak.power)
        larger_test = (
            f"To notice as often a smaller leak, by which an attacker is right in {100 * _MODERATE_AUC:.0f} of 100 "
            f"cases, takes about {n_required:,} training records and as many others.",
        )
    tried, names = _describe_attacks(audit)
    estimator = audit.about.estimator
    return Verdict(
        reason.answer,
        f"{describe_silence(reason)}{scope.suffix}: no attack that was run tells training records from others "
        f"measurably better than guessing{', but only a large leak would have shown' if is_coarse(reason) else ''}"
        f"{'' if uses_references(audit) else f'; {WITHOUT_REFERENCES}'}.",
        (
            tried,
            *([] if reason.groups is None else _describe_cleared_groups(reason.groups)),
            *([_COEFFICIENTS] if estimator is not None and estimator.name in _REGRESSIONS else []),
        ),
        caveats=(limits, *larger_test, *copies),
        evidence=(
            f"The smallest that would have been found with {power} "
            f"probability is an AUC of {smallest_leak.auc:.3f}{rate}, under the model of {smallest_leak.method}.",
            *undetectable,
            *(() if audit.adjustment is None else (describe_adjustment(audit.adjustment),)),
            *unseen,
            names,
        ),
    )


def _round_up(share: float) -> str:
    """Write a share as a count of a hundred, or of a thousand where it is small; never less than it is.

    Examples:
        >>> _round_up(0.571), _round_up(0.0312)
        ('58 of 100', '32 of 1,000')
    """
    total = _round_to(share)
    return f"{math.ceil(share * total - 1e-9):,} of {total:,}"


def _round_to(share: float) -> int:
    return 100 if share >= 0.1 else 1_000


def _describe_cleared_groups(groups: GroupScopes) -> list[str]:
    """Say which classes and groups were judged by themselves, and which have too few records."""
    n_judged, too_few = len(groups.judged), groups.too_few
    sentences = []
    if n_judged:
        names = [scope.name for scope in groups.judged]
        each = "" if n_judged == 1 else "each "
        sentences.append(f"Nor does a leak show in {list_names(names)}, {each}judged by itself.")
    if too_few:
        sentences.append(f"Too few records to be judged separately: {list_names(too_few)}.")
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


def _describe_unseen_records(audit: Findings, scope: Scope) -> tuple[tuple[str, ...], str]:
    """Say how many fully exposed members would have been seen, in figures and in words; fewer may have been missed."""
    count = None
    if not count_copies(audit.about):
        confidence = split_confidence(audit).exposed
        count = evaluation.smallest_exposed(scope.members, scope.nonmembers, confidence)
    if count is None:
        return (), "A smaller leak, or one that concerns a few records alone, is overlooked more often."
    figures = (
        f"{count:,} of {scope.members:,} members that score higher than every non-member would have been found with "
        "80 % probability."
    )
    if count == 1:
        return (figures,), "A smaller leak is overlooked more often."
    few = f"{count:,} of the {scope.members:,} training records"
    return (figures,), (
        f"A smaller leak is overlooked more often. A leak of fewer than {few} may be overlooked, too, even if these "
        "are recognised without fail."
    )


def _describe_too_few(reason: Reason) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return sentence, details and evidence of an audit with too few records."""
    scope, smallest_leak = reason.scope, reason.smallest_leak
    assert scope is not None
    assert smallest_leak is not None
    auc = LARGEST_UNSEEN_AUC
    n_required = evaluation.records_to_see(auc, smallest_leak.confidence, smallest_leak.power)
    power = formatting.format_percent(smallest_leak.power)
    training = "1 training record" if scope.members == 1 else f"{scope.members:,} training records"
    others = "1 other" if scope.nonmembers == 1 else f"{scope.nonmembers:,} others"
    return (
        f"with {training} and {others}, even a large leak could well be missed.",
        (f"About {n_required:,} of each would show a large one in {round(10 * smallest_leak.power)} of 10 audits.",),
        (
            f"A large leak here means an AUC of {auc:g}, halfway between guessing and certainty: finding one with "
            f"{power} probability takes about {n_required:,} members and non-members.",
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


def uses_references(audit: Findings) -> bool:
    """Return whether some attack compared the model with others that were trained like it."""
    needs = {recipe.references for recipe in audit.about.recipes.values()}
    return bool(needs & {"out", "in and out", "substitutes"})


WITHOUT_REFERENCES = "attacks that train models of their own to compare with were not run, and may find more"


def _describe_attacks(audit: Findings) -> tuple[str, str]:
    """Say which attacks found nothing: how many and what they lacked, and their names."""
    n = len(audit.about.recipes)
    tried = f"{n:,} attacks were tried" if n > 1 else "One attack was tried"
    names = [
        f"{name} (the {recipe.signal.replace('_', ' ')} alone)" if recipe.signal.startswith("last_") else name
        for name, recipe in audit.about.recipes.items()
    ]
    return f"{tried}.", f"The attacks that were tried: {', '.join(names)}."


_REMAINS = (
    "The result remains when the differences that can be seen between training records and others are taken into "
    "account."
)
_OTHER_MODELS = {
    "none": "",
    "out": "can train models of their own on similar data",
    "in and out": "can train models of their own on similar data, with these records and without",
    "base": "has the model that it was fine-tuned from",
    "substitutes": "can train models of their own on similar data, as the model labels it",
}


def _describe_adversary(recipe: RecipeRun, partial: PartialKnowledgeSettings | None) -> str:
    """Say who must know and be able to do what."""
    knowledge = "has the record in question"
    if partial is not None and partial.share < 1:
        knowledge = f"knows {formatting.format_percent(partial.share)} of the values of the record in question"
    reads = recipe.reads.replace("the target's", "the model's").replace("each candidate", "it")
    able = [knowledge, f"sees {reads}", *filter(None, [_OTHER_MODELS[recipe.references]])]
    return f"Who can do this: anyone who {formatting.join_words(able)}."


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
            f"about {rate.describe('such pairs')}; guessing is right in {rate.total // 2:,}."
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
        'For 12 of 500 other records it can be told that they were not used for training: none of 480 training ...'
        >>> _describe_surest(SurestRecords(True, 12, 500, 2, 480), " on all classes")
        '12 of 500 training records stand out on all classes as used for training: only 2 of 480 other records ...'
    """
    other_side, records = (
        ("other records", "training records") if surest.members else ("training records", "other records")
    )
    right = f"{surest.right:,} of {surest.total:,} {records}"
    negation = "" if surest.members else "not "
    if surest.wrong:
        looks = "looks" if surest.wrong == 1 else "look"
        return (
            f"{right} stand out{suffix} as {negation}used for training: only {surest.wrong:,} of {surest.n_others:,} "
            f"{other_side} {looks} like them, fewer than chance explains."
        )
    return (
        f"For {right} it can be told{suffix} that they were {negation}used for training: none of {surest.n_others:,} "
        f"{other_side} looks like them."
    )


def _draw_surest(surest: SurestRecords) -> tuple[DotGrid, ...]:
    """Draw the records that are told apart beside those that they are mistaken for; not of more than a thousand."""
    if max(surest.total, surest.n_others) > MAX_DOTS:
        return ()
    captions = ("training records", "other records") if surest.members else ("other records", "training records")
    negation = "" if surest.members else "not "
    return (
        DotGrid(
            f"{surest.right:,} of {surest.total:,} {captions[0]} stand out as {negation}used",
            surest.right,
            surest.total,
        ),
        DotGrid(f"{surest.wrong:,} of {surest.n_others:,} {captions[1]} look like them", surest.wrong, surest.n_others),
    )


def dot_grids(rate: NaturalFrequency, fpr: float) -> tuple[DotGrid, ...]:
    """Draw recognised members beside accused non-members; empty if either is of more than a thousand."""
    accused = formatting.round_frequency(fpr)
    if accused is None or max(accused[1], rate.total) > MAX_DOTS:
        return ()
    if accused[1] < rate.total:  # grids of one size can be compared
        accused = accused[0] * rate.total // accused[1], rate.total
    caption = f"{accused[0]:,} of {accused[1]:,} others are wrongly accused, at most"
    accused_dots = DotGrid(caption, 0, accused[1], high=accused[0])
    return _dot_grid(f"{rate.describe('training records')} are recognised", rate), accused_dots


def _dot_grid(caption: str, rate: NaturalFrequency) -> DotGrid:
    return DotGrid(caption, rate.value, rate.total, rate.low, rate.high)
