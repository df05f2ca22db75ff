"""Rates of a decision, tables by group, and the most exposed records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import statistics
from divulge.errors import InputError
from divulge.statistics import auc, check_fpr, check_scores
from divulge.types import Estimate
from divulge.validation import check_bool, check_ids, check_integer, check_mask, check_nonempty, check_number, to_numpy

if TYPE_CHECKING:
    from divulge.types import Bools, Floats


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a decision with exact intervals; None if there was no record to count.

    Attributes:
        tpr: share of members selected.
        fpr: share of non-members selected.
        precision: share of the selected that are members.
        accuracy: share of all records that are decided correctly.
        members: number of members.
        nonmembers: number of non-members.
    """

    tpr: Estimate | None
    fpr: Estimate | None
    precision: Estimate | None
    accuracy: Estimate
    members: int
    nonmembers: int


def rates(selected: object, members: object, confidence: float = 0.95) -> Rates:
    """Return TPR, FPR, precision and accuracy of a decision that did not use ``members``.

    Args:
        selected: bool ``[n]``, the decision.
        members: bool ``[n]``; members alone or non-members alone are allowed.
        confidence: coverage of each interval.

    Raises:
        divulge.InputError: nothing, not bool, lengths that differ.

    Examples:
        >>> print(rates([True, False, True], [True, True, False]).tpr)
        0.5000 [0.0126, 0.9874]
    """
    selected_mask = check_nonempty(check_mask(selected, "selected", (None,)), "selected")
    truth = check_mask(members, "members", (None,))
    if truth.shape != selected_mask.shape:
        raise InputError(f"members: {len(selected_mask)} values are needed (one per decision), got {len(truth)}")
    m, n = int(truth.sum()), int((~truth).sum())
    true_positives, false_positives = int((selected_mask & truth).sum()), int((selected_mask & ~truth).sum())
    return Rates(
        tpr=_proportion_or_none(true_positives, m, confidence),
        fpr=_proportion_or_none(false_positives, n, confidence),
        precision=_proportion_or_none(true_positives, true_positives + false_positives, confidence),
        accuracy=statistics.proportion(true_positives + n - false_positives, m + n, confidence),
        members=m,
        nonmembers=n,
    )


@dataclass(frozen=True, slots=True)
class Subgroup:
    """One row of a table by group.

    Attributes:
        group: the group's name, as given.
        members: number of members in it.
        nonmembers: number of non-members in it.
        auc: within the group; None when it lacks members or non-members.
        tpr: share of its members above the common threshold; None without members.
        fpr: share of its non-members above the common threshold; None without non-members.
    """

    group: Any
    members: int
    nonmembers: int
    auc: Estimate | None
    tpr: Estimate | None
    fpr: Estimate | None


def subgroups(
    scores: object,
    members: object,
    groups: object,
    fpr: float = 0.01,
    confidence: float = 0.95,
    *,
    simultaneous: bool = False,
) -> tuple[Subgroup, ...]:
    """Return a table by class, or by any other grouping.

    TPR and FPR are at one threshold for all groups, that of `tpr_at_fpr` on all non-members, as for an attacker who
    does not know the group. A group whose FPR is far from ``fpr`` is treated differently by the common threshold. The
    intervals take the threshold as given.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        groups: ``[n]``, whole numbers or strings.
        fpr: the false-positive rate over all non-members.
        confidence: coverage of each interval, or of all intervals of a column at once when ``simultaneous``.
        simultaneous: whether to divide the error among the groups (Bonferroni), for statements such as "class 3 leaks
            most".

    Raises:
        divulge.InputError: as for `tpr_at_fpr`; one group per record is needed.

    Examples:
        >>> rows = subgroups([0.9, 0.1, 0.8, 0.7], [True, False, True, False], ["a", "a", "b", "b"], fpr=0.5)
        >>> [(row.group, row.members, row.tpr.value) for row in rows]
        [('a', 1, 1.0), ('b', 1, 1.0)]
    """
    values, truth = check_scores(scores, members)
    names = to_numpy(groups, "groups")
    if names.shape != values.shape:
        raise InputError(f"groups: {len(values)} values are needed (one per score), got shape {names.shape}")
    outside = np.sort(values[~truth])
    level = check_fpr(len(outside), check_number(fpr, "fpr", above=0, below=1))
    threshold = outside[-1 - int(np.floor(level * len(outside) + 1e-9))]
    try:
        distinct, index = np.unique(names, return_inverse=True)
    except TypeError as error:
        raise InputError(f"groups: values of one kind are needed, strings or numbers ({error})") from None
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    each_confidence = 1 - error / len(distinct) if check_bool(simultaneous, "simultaneous") else confidence
    order = np.argsort(index, kind="stable")
    group_rows = np.split(order, np.cumsum(np.bincount(index))[:-1])
    return tuple(
        _subgroup(name, values[rows], truth[rows], threshold, each_confidence)
        for name, rows in zip(distinct.tolist(), group_rows, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Exposure:
    """A member that the attack finds easily.

    Attributes:
        id: the record's identifier.
        score: its score.
        nonmembers_as_high: share of non-members that score as high or higher, with its exact interval.
    """

    id: Any
    score: float
    nonmembers_as_high: Estimate


def most_exposed(
    scores: object, members: object, ids: object = None, k: int = 10, confidence: float = 0.95
) -> tuple[Exposure, ...]:
    """Return the ``k`` members with the highest scores, most exposed first; ties are in the order of their ids.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        ids: one unique identifier per record; ``0..n-1`` when None.
        k: how many at most.
        confidence: coverage of each interval.

    Raises:
        divulge.InputError: NaN or infinity, lengths that differ, repeated ids, members or non-members only.

    Examples:
        >>> [found.id for found in most_exposed([0.9, 0.5, 0.7], [True, False, True], ["x", "y", "z"], k=1)]
        ['x']
    """
    values, truth = check_scores(scores, members)
    names = np.arange(len(values)) if ids is None else check_ids(ids, "ids", len(values))
    outside = np.sort(values[~truth])
    # Sorted by id, then stably by score, as lexsort does not take ids that are objects.
    order = np.argsort(names, kind="stable")
    order = order[truth[order]]
    order = order[np.argsort(-values[order], kind="stable")][: check_integer(k, "k", least=1)]
    n_as_high = len(outside) - np.searchsorted(outside, values[order], side="left")
    return tuple(
        Exposure(name, float(values[i]), statistics.proportion(int(count), len(outside), confidence))
        for i, name, count in zip(order, names[order].tolist(), n_as_high, strict=True)
    )


def _proportion_or_none(successes: int, trials: int, confidence: float) -> Estimate | None:
    return statistics.proportion(successes, trials, confidence) if trials else None


def _subgroup(name: Any, values: Floats, truth: Bools, threshold: float, confidence: float) -> Subgroup:
    group_rates = rates(values > threshold, truth, confidence)
    has_both = group_rates.members > 0 and group_rates.nonmembers > 0
    auc_estimate = auc(values, truth, confidence) if has_both else None
    return Subgroup(name, group_rates.members, group_rates.nonmembers, auc_estimate, group_rates.tpr, group_rates.fpr)
