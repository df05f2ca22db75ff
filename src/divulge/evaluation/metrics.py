"""Statistics of scores and decisions, each with an interval: ROC curve, TPR at an FPR, advantage, rates, groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import statistics
from divulge.errors import InputError
from divulge.statistics import auc, check_fpr, check_scores, count_above, min_nonmembers, split_scores
from divulge.types import Estimate, ShortRepr
from divulge.validation import check_bool, check_ids, check_integer, check_mask, check_nonempty, check_number, to_numpy

if TYPE_CHECKING:
    from divulge.types import Bools, Floats


TPR = "clopper-pearson, threshold by order statistics"
# Maximum number of FPR levels at which the band of a curve is computed; each takes about 15 µs.
BAND = 2000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ROC(ShortRepr):
    """An ROC curve with a pointwise band; ``p`` points from (0, 0) to (1, 1).

    Attributes:
        fpr: share of non-members selected at each threshold, ``[p]``, ascending.
        tpr: share of members selected, ``[p]``.
        thresholds: a record is selected if its score is ≥ this; the first is infinity, ``[p]``.
        low: lower end of the band for the true TPR at a true FPR of ``fpr``, ``[p]``.
        high: upper end, ``[p]``.
        confidence: coverage of the band at each point (not of the whole curve at once).
        method: by which the band was computed.
    """

    fpr: Floats
    tpr: Floats
    thresholds: Floats
    low: Floats
    high: Floats
    confidence: float
    method: str

    def __len__(self) -> int:
        return len(self.fpr)


def roc(scores: object, members: object, confidence: float = 0.95) -> ROC:
    """Return the ROC curve, with one point per distinct score, so that records that tie are selected together.

    Draw it in steps: between two points there is no threshold, and the chord claims a power that only a random choice
    among ties would have. The band has the meaning and the method of `tpr_at_fpr`.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        confidence: coverage of the band at each point.

    Raises:
        divulge.InputError: NaN or infinity, lengths that differ, members or non-members only.

    Examples:
        >>> curve = roc([0.9, 0.5, 0.5, 0.1], [True, True, False, False])
        >>> curve.fpr, curve.tpr, curve.thresholds
        (array([0. , 0. , 0.5, 1. ]), array([0. , 0.5, 1. , 1. ]), array([inf, 0.9, 0.5, 0.1]))
    """
    inside, outside = split_scores(scores, members)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    distinct = np.unique(np.r_[inside, outside])[::-1]
    # Selected at a threshold t (score ≥ t) are the scores strictly above the next smaller one.
    below = np.r_[distinct, -np.inf]
    fpr, tpr = count_above(outside, below) / len(outside), count_above(inside, below) / len(inside)
    # Both ends of the band increase with the FPR, so between two levels of the grid the outer ones are valid.
    levels = np.unique(fpr)
    grid = levels[np.unique(np.geomspace(1, len(levels), BAND).round().astype(int)) - 1]
    low, high = _band(inside, outside, grid, error)
    low, high = low[np.searchsorted(grid, fpr, side="right") - 1], high[np.searchsorted(grid, fpr, side="left")]
    return ROC(fpr, tpr, np.r_[np.inf, distinct], low, high, confidence, TPR)


def tpr_at_fpr(scores: object, members: object, fpr: float, confidence: float = 0.95) -> Estimate:
    """Return the true-positive rate at a false-positive rate of at most ``fpr``.

    The value is conservative: the TPR at the lowest threshold whose empirical FPR is ≤ ``fpr``, without interpolation.
    The interval covers the true TPR at the true threshold, which is estimated from finitely many non-members: order
    statistics of the non-members bracket the threshold, Clopper-Pearson the share of members above either bracket, and
    each of the four steps errs with at most a quarter of the error. An interval for the TPR alone, as usually printed,
    is too short. With few non-members above the threshold the lower end is 0.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        fpr: the false-positive rate, in (0, 1).
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: fewer than ``1/fpr - 1`` non-members, and as for `roc`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> members = np.arange(2000) < 1000
        >>> print(tpr_at_fpr(rng.normal(size=2000) + 2.0 * members, members, fpr=0.05))
        0.6290 [0.5211, 0.6895]
    """
    inside, outside = split_scores(scores, members)
    level = check_fpr(len(outside), fpr)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    # The (floor(fpr n) + 1)-th largest non-member is the first that must not be selected.
    allowed = int(np.floor(level * len(outside) + 1e-9))
    value = float(count_above(inside, outside[-1 - allowed])) / len(inside)
    low, high = _band(inside, outside, np.array([level]), error)
    return Estimate(value, float(low[0]), float(high[0]), confidence, TPR)


def tnr_at_fnr(scores: object, members: object, fnr: float, confidence: float = 0.95) -> Estimate:
    """Return the true-negative rate at a false-negative rate of at most ``fnr``; `tpr_at_fpr` with the sides exchanged.

    Dodd et al. 2025 (arXiv:2510.19773) use that of the LOSS attack as a proxy of the TPR of LiRA at a low FPR, since
    records that a model memorised no longer have large losses. It is an estimate of another attack's power and no bound
    on it; the documentation measures how far the two agree.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        fnr: the false-negative rate, in (0, 1).
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: fewer than ``1/fnr - 1`` members, and as for `roc`.

    Examples:
        >>> losses = np.r_[np.linspace(0, 1, 100), np.linspace(0, 2, 100)]
        >>> tnr_at_fnr(-losses, np.arange(200) < 100, fnr=0.05).value
        0.52
    """
    inside, outside = split_scores(scores, members)
    check_number(fnr, "fnr", above=0, below=1)
    if len(inside) < (min_members := min_nonmembers(fnr)):
        raise InputError(f"fnr: {fnr:g} needs at least {min_members} members, got {len(inside)}")
    return tpr_at_fpr(-np.r_[inside, outside], np.arange(len(inside) + len(outside)) >= len(inside), fnr, confidence)


def advantage(scores: object, members: object, confidence: float = 0.95) -> Estimate:
    """Return the largest TPR - FPR over all thresholds (Yeom et al. 2018), with an interval for a maximum.

    The maximum of a noisy curve is biased upwards, so an interval for the best threshold alone would not cover. The
    error of the maximum is at most the sum of the errors of the two empirical distribution functions, which Massart's
    form of the Dvoretzky-Kiefer-Wolfowitz inequality bounds for all thresholds at once.

    Raises:
        divulge.InputError: as for `roc`.

    Examples:
        >>> print(advantage([3.0, 4.0, 1.0, 2.0], [True, True, False, False]))
        1.0000 [0.0000, 1.0000]
    """
    inside, outside = split_scores(scores, members)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    cuts = np.r_[inside, outside]
    gaps = count_above(inside, cuts) / len(inside) - count_above(outside, cuts) / len(outside)
    value = max(0.0, float(gaps.max()))
    # Either end of the interval uses two distribution functions, each with a quarter of the error.
    reach = sum(np.sqrt(np.log(4 / error) / (2 * len(half))) for half in (inside, outside))
    return Estimate(value, max(0.0, value - reach), min(1.0, value + reach), confidence, "dvoretzky-kiefer-wolfowitz")


def _band(inside: Floats, outside: Floats, fpr: Floats, error: float) -> tuple[Floats, Floats]:
    """Return bounds of the true TPR at each true FPR; each end errs with at most ``error / 2``."""
    step = error / 4
    m = len(inside)
    # -inf means that no order statistic is low enough, +inf that none is high enough.
    padded = np.r_[-np.inf, outside, np.inf]
    highest = padded[len(outside) + 1 - statistics.upper_bound_rank(len(outside), fpr, step).astype(int)]
    lowest = padded[len(outside) + 1 - statistics.lower_bound_rank(len(outside), fpr, step).astype(int)]
    low = statistics.clopper_pearson_lower(count_above(inside, highest), m, step)
    high = statistics.clopper_pearson_upper(count_above(inside, lowest), m, step)
    return low, high


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
    level = check_fpr(len(outside), fpr)
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
    order = order[np.argsort(-values[order], kind="stable")][: check_integer(k, "k", minimum=1)]
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
