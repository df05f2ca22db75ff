"""Decisions about records of classes of which there is no calibration record: calibrated with whole classes.

The K classes that there are records of stand for those that there are none of. Two promises are offered and never
blurred. *Average*: FPR ≤ level on average over classes like these. *Most*: in a share of such classes, 90 % by default,
FPR ≤ level within the class. Both assume that non-members of a class are independent draws and that classes are
exchangeable: their number counts, however many records they have.

They hold for scores of the target alone. An attack that learnt from the classes that there are records of treats them
otherwise than the rest, so no exchange of classes leaves its scores as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from divulge.decisions.fpr import required_calibration, training_conditional_rank
from divulge.decisions.fpr import threshold as fpr_threshold
from divulge.errors import InputError
from divulge.types import Guarantee, Selection, ShortRepr
from divulge.validation import check_choice, check_names, check_number, check_vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.types import Array, Bools, Floats

Promise: TypeAlias = Literal["average", "most"]
PROMISES: tuple[Promise, ...] = ("average", "most")
SHARE = 0.9
"""Share of classes that "most" speaks of."""
# Of the misses that exact quantiles would allow, so many are used; the rest pays for quantiles being estimated. The
# promise holds for every value below 1, and only what is called depends on it. This one is a compromise set by hand: of
# 200 classes, at FPR 10 %, it calls 2.5 % of non-members where classes have 400 records and differ by one standard
# deviation (.9: 2.7 %), and 1.8 % where they have 50 and are nearly alike (.7: 2.7 %).
_USED_SHARE = 0.8
_ROUNDING = 1e-9  # of sums of shares


@dataclass(frozen=True, slots=True)
class ClassThreshold:
    """A threshold on scores of unseen classes: candidates at or above it are called members. Converts to float.

    Attributes:
        value: the smallest score that is called.
        fpr: the requested level.
        guarantee: the claim and its assumptions.
        classes: number of classes that it is calibrated with.

    Examples:
        >>> t = threshold(range(40), np.repeat(range(20), 2), fpr=0.1)
        >>> t.classes, t.select([37.0, 39.0])
        (20, array([False,  True]))
    """

    value: float
    fpr: float
    guarantee: Guarantee
    classes: int

    def __float__(self) -> float:
        return self.value

    def select(self, scores: object) -> Bools:
        """Return a mask ``[m]`` of the scores ``[m]`` that reach the threshold."""
        return check_vector(scores, "scores") >= self.value


def threshold(
    calibration: object, classes: object, fpr: float, *, promise: Promise = "average", share: float = SHARE
) -> ClassThreshold:
    """Return the lowest threshold that keeps a promise about a class without calibration records.

    With ``S_k`` the scores of class k, and a candidate called where its score is above t:

    - average: t is the largest score with ``(1 + Σ_k share of S_k at or above it) / (K + 1) > fpr``.
      It is a quantile of the mean of the classes' empirical distributions, to which the
      unseen class adds a mass of 1 / (K + 1) at infinity (hierarchical conformal prediction). Were the unseen class's
      own records there, the candidate would be a random draw of the K + 1 classes; to put them at infinity is to err
      on the safe side. Classes are exchangeable with the numbers of their records: these say nothing of the scores.
    - most: ``u_k`` is an upper confidence bound of class k's (1 - fpr)-quantile, by a conformal rank, right with
      probability 1 - δ; infinity with too few records. t is the e-th largest of them. The class misses the level only
      if fewer than e of the bounds reach its quantile. Its quantile has a uniform rank among K + 1, and each of
      those above it is covered with probability 1 - δ: so a miss has at most the probability
      ``Σ_m P(Bin(m, 1 - δ) < e) / (K + 1) ≤ e / ((1 - δ)(K + 1))``. δ is chosen to make that 1 - share, from K alone.
      It holds whatever the numbers of records are.

    Args:
        calibration: scores of known non-members, ``[n]``; larger means more like a member.
        classes: their classes, ``[n]``, texts or whole numbers.
        fpr: the level, in (0, 1).
        promise: "average" or "most".
        share: of the classes that "most" speaks of.

    Raises:
        divulge.InputError: too few classes for the level, or for the share (the message says how many are needed), or
            too few records in them; a level or share outside (0, 1); NaN or infinity among the scores.

    References:
        Lee, Barber & Willett, Distribution-free inference with hierarchical data, 2023 (arXiv 2306.06342), for the
        average.
    """
    level = check_number(fpr, "fpr", above=0, below=1)
    fraction = check_number(share, "share", above=0, below=1)
    check_choice(promise, "promise", PROMISES)
    _, by_class = _split_by_class(calibration, classes)
    k, needed = len(by_class), required_classes(level, promise=promise, share=fraction)
    if k < needed:
        raise InputError(
            f"classes: {needed} classes with calibration records are needed for a promise about an unseen one "
            f"({_describe_promise(promise, fraction)}, at {level:g}), got {k}"
        )
    value = _average_threshold(by_class, level) if promise == "average" else _most_threshold(by_class, level, fraction)
    if value == math.inf:
        raise InputError(
            f"classes: too few of the {k} classes have calibration records enough for a promise about an unseen one "
            f"({_describe_promise(promise, fraction)}, at {level:g})"
        )
    return ClassThreshold(value, level, _make_guarantee(promise, level, fraction, k), k)


def required_classes(fpr: float, *, promise: Promise = "average", share: float = SHARE) -> int:
    """Return the smallest number of classes with which a promise can be given: 1/fpr - 1, or more than share allows.

    Examples:
        >>> required_classes(0.05), required_classes(0.05, promise="most")
        (19, 10)
    """
    level = Fraction(str(check_number(fpr, "fpr", above=0, below=1)))
    share_of_misses = 1 - Fraction(str(check_number(share, "share", above=0, below=1)))
    if check_choice(promise, "promise", PROMISES) == "average":
        return math.ceil(1 / level) - 1
    return math.floor(1 / share_of_misses)  # the smallest K with (K + 1)(1 - share) > 1


def p_values(calibration: object, classes: object, scores: object) -> Floats:
    """Return p-values of candidates of an unseen class, ``(1 + Σ_k share of class k at or above s) / (K + 1)``.

    Null hypothesis: the candidate is a non-member of a class that is exchangeable with the K classes. On average over
    classes P(p ≤ a) ≤ a; see `threshold` at "average", which selects where ``p ≤ fpr``.

    Raises:
        divulge.InputError: NaN or infinity, not one class for each calibration score.

    Examples:
        >>> p_values([1.0, 2.0, 3.0], ["a", "a", "b"], [0.0, 2.0, 9.0]).round(3)
        array([1.   , 0.833, 0.333])
    """
    _, by_class = _split_by_class(calibration, classes)
    ordered, tails = _tail_sums(by_class)
    place = np.searchsorted(ordered, check_vector(scores, "scores"), side="left")
    return (1 + np.append(tails, 0.0)[place]) / (len(by_class) + 1)


def decide(
    calibration: object,
    classes: object,
    scores: object,
    fpr: float,
    *,
    promise: Promise = "average",
    share: float = SHARE,
) -> Selection:
    """Select the candidates of unseen classes whose score reaches `threshold`.

    Examples:
        >>> decide(range(40), np.repeat(range(20), 2), [37.0, 39.0], fpr=0.1).selected
        array([False,  True])
    """
    cutoff = threshold(calibration, classes, fpr, promise=promise, share=share)
    candidates = check_vector(scores, "scores")
    selected = cutoff.select(candidates)
    return Selection(
        selected=selected,
        p_values=p_values(calibration, classes, candidates),
        threshold=float(candidates[selected].min()) if selected.any() else math.inf,
        usage=None,
        guarantee=cutoff.guarantee,
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeftOutClasses(ShortRepr):
    """Rates of thresholds within each class, learnt from the other classes alone.

    Args:
        names: of the classes, ``[K]``.
        records: number of calibration records of each, ``[K]``.
        pooled: FPR of the threshold that takes all other records for one sample, ``[K]``.
        average: that of the promise "average", ``[K]``; None with too few classes.
        most: that of the promise "most", ``[K]``; None with too few.
    """

    names: Array
    records: Array
    pooled: Floats
    average: Floats | None
    most: Floats | None


def leave_one_class_out(calibration: object, classes: object, fpr: float, *, share: float = SHARE) -> LeftOutClasses:
    """Take each class in turn as unseen: the share of it that thresholds learnt from the others call members.

    Args:
        calibration: scores of known non-members, ``[n]``.
        classes: their classes, ``[n]``.
        fpr: the level.
        share: of the classes that "most" speaks of.

    Raises:
        divulge.InputError: fewer than two classes, or what `threshold` refuses.

    Examples:
        >>> rates = leave_one_class_out([1.0, 2.0, 3.0, 9.0], ["a", "a", "b", "b"], fpr=0.5)
        >>> rates.pooled, rates.most is None
        (array([0., 1.]), True)
    """
    level = check_number(fpr, "fpr", above=0, below=1)
    fraction = check_number(share, "share", above=0, below=1)
    names, by_class = _split_by_class(calibration, classes)
    if len(names) < 2:
        raise InputError(f"classes: at least 2 classes are needed to leave one out, got {len(names)}")

    def left_out_rates(find_threshold: Callable[[list[Floats]], float]) -> Floats:
        cutoffs = [find_threshold([*by_class[:i], *by_class[i + 1 :]]) for i in range(len(by_class))]
        return np.array([np.mean(own >= cutoff) for own, cutoff in zip(by_class, cutoffs, strict=True)])

    def is_enough(promise: Promise) -> bool:
        return len(by_class) > required_classes(level, promise=promise, share=fraction)

    return LeftOutClasses(
        names,
        np.array([len(own) for own in by_class]),
        left_out_rates(lambda rest: _pooled_threshold(rest, level)),
        left_out_rates(lambda rest: _average_threshold(rest, level)) if is_enough("average") else None,
        left_out_rates(lambda rest: _most_threshold(rest, level, fraction)) if is_enough("most") else None,
    )


def _split_by_class(calibration: object, classes: object) -> tuple[Array, list[Floats]]:
    """Return the names of the classes, and the scores of each."""
    scores = check_vector(calibration, "calibration")
    labels = check_names(classes, "classes", length=len(scores))
    names, index, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    return names, np.split(scores[np.argsort(index, kind="stable")], np.cumsum(sizes)[:-1])


def _tail_sums(by_class: list[Floats]) -> tuple[Floats, Floats]:
    """Return the distinct scores in order, and of each the sum over classes of the share at or above it."""
    weights = np.concatenate([np.full(len(own), 1 / len(own)) for own in by_class])
    ordered, index = np.unique(np.concatenate(by_class), return_inverse=True)
    return ordered, np.cumsum(np.bincount(index, weights).astype(np.float64)[::-1])[::-1]


def _average_threshold(by_class: list[Floats], level: float) -> float:
    """Return the smallest value above every score of which too much of the classes is at or above it."""
    ordered, tails = _tail_sums(by_class)
    allowed = float(Fraction(str(level)) * (len(by_class) + 1) - 1)
    return math.nextafter(float(ordered[tails > allowed + _ROUNDING].max()), math.inf)


def _most_threshold(by_class: list[Floats], level: float, share: float) -> float:
    """Return the smallest value above the e-th largest of the classes' upper bounds; infinity if that is infinite."""
    allowed_misses = float((1 - Fraction(str(share))) * (len(by_class) + 1))
    exceedances = max(1, math.floor(_USED_SHARE * allowed_misses))
    confidence = exceedances / allowed_misses  # 1 - δ
    bounds = []
    for own in by_class:
        rank = training_conditional_rank(len(own), level, confidence)
        bounds.append(math.inf if rank < 1 else float(np.partition(own, len(own) - rank)[len(own) - rank]))
    return math.nextafter(sorted(bounds, reverse=True)[exceedances - 1], math.inf)


def _pooled_threshold(by_class: list[Floats], level: float) -> float:
    pooled = np.concatenate(by_class)
    return math.inf if len(pooled) < required_calibration(level) else float(fpr_threshold(pooled, level))


def _describe_promise(promise: Promise, share: float) -> str:
    if promise == "average":
        return "FPR on average over classes like these"
    return f"FPR in {100 * share:g} % of classes like these"


def _make_guarantee(promise: Promise, level: float, share: float, k: int) -> Guarantee:
    sizes = ", with the numbers of their records" if promise == "average" else ""
    return Guarantee(
        _describe_promise(promise, share),
        level,
        (
            f"unseen classes and the {k} of the calibration are exchangeable{sizes}",
            "non-members of a class are independent draws",
        ),
    )
