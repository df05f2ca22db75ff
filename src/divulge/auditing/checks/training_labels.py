"""Check whether the labels of the audit are those of the training: a model answers its own records no worse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge import evaluation, lazy, seeds
from divulge.auditing.checks.check import Check
from divulge.duplicates import first_of_each_group, number_groups
from divulge.errors import InputError
from divulge.references import Train
from divulge.report import formatting
from divulge.results import CheckFinding
from divulge.signals.regression import NEGATIVE_SQUARED_LOSS

if TYPE_CHECKING:
    from scipy import signal, stats

    from divulge.auditing.checks.check import ScoredAudit
    from divulge.types import Bools, Floats, Ints
else:
    signal = lazy.module("scipy.signal")
    stats = lazy.module("scipy.stats")

FALSE_ALARM = 1e-3
"""Greatest probability that members of a random split are said to be answered worse."""
_ADVICE = (
    "Labels that were changed before the training for privacy, annotated again later, coded in another order or taken "
    "from another column do that; so does a split whose members are harder. Attacks that read labels then miss what "
    "leaks: audit with the labels of the training, or with recipes that read none, such as max-probability.",
)
_N_CLONES, _TOO_SURE, _BETTER_CLONE = 5, 0.05, 0.1
"""Clones, and by how much a model must be surer of members than right, and its clones right more often, for a doubt."""
_MIN_OF_CLASS = 10  # non-members
_LABEL_FITS = ("negative-loss", "scaled-logit", "confidence", "hinge")
"""Signals that grow with the probability of the label given."""


class LabelsOfTraining(Check):
    """Members answered worse than non-members: the labels given are probably not those of the training.

    A model is right more often on what it was trained on, and surer of its labels. Where it surely is not, it learned
    other labels (randomised response, a later annotation, swapped classes, noise on real values), and attacks that
    read the given ones look for the leak in the wrong place. Members and non-members of one class are compared,
    exactly: how many are right, and how many labels are given at least the class's median probability, over all
    classes and in each; of real values, how many are predicted with at most the median error. Where none of that is
    so, classes may still be in another order, or labels learned that the members' own do not tell.
    """

    name = "labels of the training"

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Compare the target's answers; None where none were recorded or members are not surely worse."""
        records, truth = audit.prepared.inputs.candidates, audit.prepared.inputs.truth
        strata = np.zeros(len(truth), dtype=np.int64) if records.labels is None else records.labels
        # Copies are answered alike, whatever their labels; each group counts once, in favour of the labels.
        groups = number_groups(records.x)
        counted, unit = first_of_each_group(groups, truth), 2 * groups + truth
        compared = []
        for answer in _collect_answers(audit):
            n_right, n_copies = (np.bincount(unit, weights)[unit[counted]] for weights in (answer.is_right, None))
            inside, is_member = answer.compared[counted], truth[counted]
            is_right = np.where(is_member, n_right > 0, n_right == n_copies)[inside]
            p_value = answer.n_tests * members_worse_p_value(is_right, is_member[inside], strata[counted][inside])
            compared.append((p_value, answer, is_right, is_member[inside]))
        if not compared or (worst := min(compared, key=lambda each: each[0]))[0] > FALSE_ALARM:
            sentence = _describe_other_labels(audit, counted)
            return CheckFinding(self.name, "not cleared", sentence, _ADVICE) if sentence else None
        p_value, answer, is_right, is_member = worst
        figures = {
            f"{answer.share}, {side}": evaluation.proportion(int(is_right[rows].sum()), int(rows.sum()))
            for side, rows in (("members", is_member), ("non-members", ~is_member))
        }
        members, nonmembers = (f"{100 * share.value:.1f} %" for share in figures.values())
        return CheckFinding(
            self.name,
            "not cleared",
            f"The model answers its own training records worse than others: it {answer.description} {members} of the "
            f"members{answer.scope} and {nonmembers} of the non-members (p = {p_value:.1g}), so the labels given are "
            "probably not those of the training.",
            _ADVICE,
            figures,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """What the target answers to the candidates.

    Args:
        description: what it does where it is right, as in "it predicts with at most the median error".
        share: the same as a share.
        is_right: bool, ``[n]``.
        compared: the candidates that are compared, bool ``[n]``.
        n_tests: the number of comparisons among which the error is divided, so far as this one is concerned.
        scope: of one class, its name as the end of a phrase.
    """

    description: str
    share: str
    is_right: Bools
    compared: Bools
    n_tests: int
    scope: str = ""


def _collect_answers(audit: ScoredAudit) -> list[_Answers]:
    """Return what can be compared; a third of the error each for classes, probabilities, and those of each class."""
    records, target, rows = (
        audit.prepared.inputs.candidates,
        audit.measurements[0].target,
        audit.prepared.layout.candidate_rows,
    )
    everyone, labels, predicted = np.ones(len(records), dtype=bool), records.labels, audit.log.predicted_labels
    if labels is None:
        if (fit := target.get(NEGATIVE_SQUARED_LOSS.name)) is None:
            return []
        is_right = fit[rows] >= np.median(fit[rows])
        return [_Answers("predicts with at most the median error", "within the median error", is_right, everyone, 1)]
    answers = []
    if predicted is not None:
        answers.append(_Answers("gives the class of", "right", predicted[rows] == labels, everyone, 3))
    fit = next((target[name][rows] for name in _LABEL_FITS if name in target), None)
    if fit is not None:
        classes, index = np.unique(labels, return_inverse=True)
        is_right = fit >= np.array([np.median(fit[index == i]) for i in range(len(classes))])[index]
        words = "gives at least their class's median probability to", "at least the median probability"
        answers.append(_Answers(*words, is_right, everyone, 3))
        for i, name in enumerate(classes):
            scope = f" of class {formatting.class_name(int(name), records.class_names)}"
            answers.append(_Answers(*words, is_right, index == i, 3 * len(classes), scope))
    return answers


def find_exchanged_classes(labels: Ints, predicted: Ints) -> list[int]:
    """Return the classes that a model surely takes for each other on the records that it was trained on, in a cycle.

    With these renamed it would be right more often in each. So no model answers that was trained on the labels given,
    not even with weights: one that gives a rare class to most records of a frequent one gives it to its own, too.

    Args:
        labels: classes of distinct members, ``[n]``.
        predicted: the model's answers, ``[n]``.

    Examples:
        >>> labels = np.repeat([0, 1, 2], 30)
        >>> find_exchanged_classes(labels, np.array([0, 2, 1])[labels])
        [1, 2]
        >>> find_exchanged_classes(labels, np.array([0, 0, 1])[labels])
        []
    """
    classes = np.unique(labels)
    taken_for: dict[int, int] = {}
    for label in classes:
        answers, counts = np.unique(predicted[labels == label], return_counts=True)
        answer, count, n_right = answers[counts.argmax()], counts.max(), counts[answers == label].sum()
        if answer != label and stats.binom.sf(count - 1, count + n_right, 0.5) * len(classes) ** 2 <= FALSE_ALARM:
            taken_for[int(label)] = int(answer)
    exchanged = []
    for label in taken_for:
        reached: int | None = label
        for _ in classes:
            reached = taken_for.get(reached) if reached is not None else None
            if reached == label:
                exchanged.append(label)
                break
    return exchanged


def _describe_other_labels(audit: ScoredAudit, counted: Bools) -> str:
    """Explain by the answers to given classes why these are not those of the training; empty if nothing shows it.

    An estimator that is surer of its own training records than it is right has learned other labels, or is too sure of
    everything (naive Bayes). Clones trained on the members as given tell which: only in the first case are they surely
    right more often on non-members, and so in every class, as weights in the training would not have it.
    """
    prepared, target, predicted = audit.prepared, audit.measurements[0].target, audit.log.predicted_labels
    records, rows, is_member = prepared.inputs.candidates, prepared.layout.candidate_rows, prepared.inputs.truth
    if records.labels is None or predicted is None or prepared.partial_knowledge is not None:
        return ""
    labels, predicted, members, others = records.labels, predicted[rows], counted & is_member, counted & ~is_member
    if exchanged := find_exchanged_classes(labels[members], predicted[members]):
        return (
            "The model surely gives most of its own training records of the "
            f"{formatting.format_classes(exchanged, records.class_names)} the class of another of these, so the "
            "classes are probably in another order than in the training."
        )
    if "max-probability" not in target:
        return ""
    accuracy = evaluation.proportion(int((predicted == labels)[members].sum()), int(members.sum()), 1 - FALSE_ALARM)
    sureness = special.expit(target["max-probability"][rows][members]).mean()
    if sureness <= accuracy.high + _TOO_SURE:
        return ""
    try:
        training = Train(count=1).for_target(prepared.target)
        if not hasattr(training.estimator, "predict_proba"):  # decision values say nothing of how sure it is
            return ""
        clones = [
            training.train_model(records[members], seed=seeds.derive_seed(prepared.seed, "labels of the training", i))
            for i in range(_N_CLONES)
        ]
        clone_answers = [clone.labels(records[others]) for clone in clones]
    except InputError:  # no estimator, or one of which there are no clones
        return ""
    classes, index, counts = np.unique(labels[others], return_inverse=True, return_counts=True)
    is_right, *clone_is_right = (answers == labels[others] for answers in (predicted[others], *clone_answers))
    gains = np.array([np.bincount(index, right * 1.0 - is_right, len(classes)) / counts for right in clone_is_right])
    gain, spread = gains.mean(), gains.mean(axis=1).std(ddof=1) * np.sqrt(1 + 1 / _N_CLONES)
    is_sure = gain > max(_BETTER_CLONE, stats.t.isf(FALSE_ALARM, _N_CLONES - 1) * spread)
    # The spread of clones says nothing of how few the records are: of these more must be won by most clones than lost.
    is_right_by_most = 2 * np.sum(clone_is_right, axis=0) > _N_CLONES
    n_won, n_lost = int((is_right_by_most & ~is_right).sum()), int((~is_right_by_most & is_right).sum())
    is_sure &= stats.binom.sf(n_won - 1, n_won + n_lost, 0.5) <= FALSE_ALARM
    if not is_sure or (gains.mean(axis=0)[counts >= _MIN_OF_CLASS] <= 0).any():
        return ""
    shares = (accuracy.value, sureness, np.mean(clone_is_right), is_right.mean())
    right, sure, by_clone, by_target = (formatting.format_percent(share) for share in shares)
    return (
        f"The model is right on {right} of its own training records, of which it is {sure} sure; and the same "
        f"estimator, trained on them with the labels given, is right on {by_clone} of the non-members where the model "
        f"is on {by_target}, so the labels given are probably not those of the training."
    )


def members_worse_p_value(is_right: Bools, is_member: Bools, strata: Ints) -> float:
    """Return the chance that a random split within each stratum gives so few members right, exactly.

    The number of members that are right is hypergeometric in each stratum, and independent among them.

    Args:
        is_right: which records are answered right, bool ``[n]``.
        is_member: bool, ``[n]``.
        strata: what members and non-members must have in common to be compared, such as the class, int ``[n]``.

    Examples:
        >>> is_member = np.arange(8) < 4
        >>> round(members_worse_p_value(~is_member, is_member, np.zeros(8, int)), 4)  # one of 70 divisions
        0.0143
    """
    excess, chances = 0, np.ones(1)
    for stratum in np.unique(strata):
        right, member = is_right[strata == stratum], is_member[strata == stratum]
        n, n_right, n_members = len(right), int(right.sum()), int(member.sum())
        chances = signal.convolve(chances, _hypergeometric_pmf(n, n_right, n_members))
        excess += int((right & member).sum()) - max(0, n_right + n_members - n)
    return float(min(1.0, chances[: excess + 1].sum()))


def _hypergeometric_pmf(n: int, n_right: int, n_members: int) -> Floats:
    """Return the chance of each possible number of right members, least first; SciPy's takes minutes for 10⁶ records.

    Examples:
        >>> _hypergeometric_pmf(8, 4, 4).round(4).tolist()
        [0.0143, 0.2286, 0.5143, 0.2286, 0.0143]
    """
    count = np.arange(max(0, n_right + n_members - n), min(n_right, n_members), dtype=np.float64)
    ratios = (n_right - count) * (n_members - count) / ((count + 1) * (n - n_right - n_members + count + 1))
    logarithms = np.append(0.0, np.cumsum(np.log(ratios)))
    weights = np.exp(logarithms - logarithms.max())
    return weights / weights.sum()
