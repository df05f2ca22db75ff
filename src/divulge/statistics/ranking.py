"""The area under the ROC curve, by ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge.errors import InputError
from divulge.types import Estimate
from divulge.validation import check_mask, check_number, check_vector

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from divulge.types import Array, Bools, Floats

DELONG = "delong, logit scale, Brunner-Munzel degrees of freedom; Gaffke's bound as far as placements repeat"
CHERNOFF = "chernoff-hoeffding bound for U-statistics"


def auc(scores: object, members: object, confidence: float = 0.95) -> Estimate:
    """P(a member outscores a non-member) + ½ P(they tie), with an interval; O(n log n).

    - DeLong's variance from placements (mid-ranks, so ties count one half), on the logit scale so that the
      interval stays in (0, 1), with Brunner & Munzel's t degrees of freedom so that it holds in small samples,
      and with one pseudo-placement of ½ a side.
    - Where most records tie, or all but a few stand in the same place, that variance sees the few exceptions
      of the sample, or none. Gaffke's bound reckons with unseen ones; the ends move out towards it in
      proportion to the share of pairs of records that stand in the same place. Continuous scores hardly
      move them.
    - No end lies outside the Chernoff-Hoeffding bound for two-sample U-statistics, which holds for any
      distribution and sample size. It is the whole interval where the AUC is 0 or 1 or there is one record
      of a kind.

    ``method`` names which.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``, True for members.
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: NaN or infinity, lengths that differ, members or non-members only.

    References:
        DeLong, DeLong & Clarke-Pearson 1988; Sun & Xu 2014 (fast form); Brunner & Munzel 2000;
        Pauly, Asendorf & Konietschke 2016 (logit scale); Gaffke 2005; Hoeffding 1963, §5.

    Examples:
        >>> print(auc([0.1, 0.2, 0.3, 0.4], [False, False, True, False]))
        0.6667 [0.0015, 1.0000]
    """
    values, truth = check_scores(scores, members)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    placed, _ = placements_from_scores(values, truth)
    low, high = auc_bounds(placed, error)
    known = _inner(placed.value) and (placed.scarcer > 1 or placed.repeated >= 1)
    method = DELONG if known else CHERNOFF
    return Estimate(float(placed.value), float(low), float(high), confidence, method)


def auc_bounds(placed: Placements, error: float) -> tuple[Floats, Floats]:
    """Both ends of the AUC's interval, ``[...]`` each; either errs with half the ``error``."""
    repeated = placed.repeated
    low, high = _delong(placed, _inner(placed.value) & (repeated >= 1), error)
    high = widen_for_ties(high, placed, repeated, 1.0, error / 2)
    low = -widen_for_ties(-low, -placed, repeated, 0.0, error / 2)
    # Chernoff's bound always holds: no end need lie further out.
    value, blocks, limit = placed.value, placed.scarcer, math.log(2 / error)
    return _no_further(value, blocks, limit, low, 0.0), _no_further(value, blocks, limit, high, 1.0)


def _inner(value: Floats) -> Bools:
    return (value > 0) & (value < 1)


def _delong(placed: Placements, constant: Bools, error: float) -> tuple[Floats, Floats]:
    """The interval on the logit scale; where it does not exist all of [0, 1], or nothing but ½ if all tie."""
    regular = _inner(placed.value) & (placed.scarcer > 1) & ~constant
    value = np.where(regular, placed.value, 0.5)
    v, w = (np.where(regular, part, 1.0) for part in placement_covariance(placed, placed, null=0.5))
    m, n = (np.maximum(side.size, 2) for side in placed.sides)
    reach = special.stdtrit(degrees_of_freedom(v, w, m, n), 1 - error / 2) * np.sqrt(v + w) / (value * (1 - value))
    unknown = np.where(constant, 0.5, 0.0)
    low, high = special.expit(special.logit(value) - reach), special.expit(special.logit(value) + reach)
    return np.where(regular, low, unknown), np.where(regular, high, 1 - unknown)


def _no_further(value: Floats, blocks: Floats, limit: float, end: Floats, furthest: float) -> Floats:
    """The end, or the last p towards ``furthest`` with ``blocks · KL(value ‖ p) ≤ limit`` if that is nearer.

    A two-sample U-statistic averages averages of min(m, n) independent pairs, so Chernoff's bound for
    that many Bernoulli draws holds for it (Hoeffding 1963, eq. 5.7 ff.).
    """

    def beyond(p: Floats) -> Bools:
        return blocks * (special.rel_entr(value, p) + special.rel_entr(1 - value, 1 - p)) > limit

    if not beyond(end).any():
        return end
    # Bisection between the value (within) and the end of the scale.
    within, without = np.asarray(value), np.full_like(value, furthest)
    for _ in range(60):
        middle = (within + without) / 2
        out = beyond(middle)
        within, without = np.where(out, within, middle), np.where(out, middle, without)
    return np.where(beyond(end), without, end)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """What the records of one kind add to a mean.

    Attributes:
        values: of a record at each level, ``[..., k]``.
        counts: records at each level, ``[..., k]``.
    """

    values: Floats
    counts: Floats

    @property
    def size(self) -> Floats:
        """Number of records, ``[...]``."""
        return self.counts.sum(-1)

    @property
    def mean(self) -> Floats:
        """Mean over the records, ``[...]``."""
        return (self.values * self.counts).sum(-1) / self.size

    @property
    def repeated(self) -> Floats:
        """Share of pairs of records that add the same, ``[...]``; 1 where there is one record only."""
        order = np.argsort(self.values, axis=-1, kind="stable")
        values, counts = (np.take_along_axis(part, order, -1) for part in (self.values, self.counts))
        # Equal numbers may have been reached by different sums; placements are multiples of more than 1e-9.
        edge = np.diff(values, axis=-1) > 1e-9
        seen = counts.cumsum(-1)
        before = np.maximum.accumulate(np.where(edge, seen[..., :-1], 0.0), axis=-1)
        run = seen - np.concatenate([np.zeros_like(seen[..., :1]), before], -1)
        last = np.concatenate([edge, np.ones_like(seen[..., :1], bool)], -1)
        pairs = np.where(last, run * (run - 1), 0.0).sum(-1)
        return np.where(self.size > 1, pairs / np.maximum(self.size * (self.size - 1), 1), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Placements:
    """A mean over members that is at once a mean over non-members.

    Attributes:
        members: what members add; for the AUC the share of non-members below each.
        nonmembers: what non-members add; for the AUC the share of members above each.
    """

    members: Side
    nonmembers: Side

    @property
    def sides(self) -> tuple[Side, Side]:
        """Members, non-members."""
        return self.members, self.nonmembers

    @property
    def value(self) -> Floats:
        """The mean, ``[...]``."""
        return self.members.mean

    @property
    def scarcer(self) -> Floats:
        """Records of the kind there are fewer of, ``[...]``."""
        return np.minimum(self.members.size, self.nonmembers.size)

    @property
    def repeated(self) -> Floats:
        """How far the mean rests on few distinct values, from 0 to 1: the geometric mean of both kinds', ``[...]``."""
        return np.sqrt(self.members.repeated * self.nonmembers.repeated)

    def __neg__(self) -> Placements:
        return Placements(*(Side(-side.values, side.counts) for side in self.sides))

    def __sub__(self, other: Placements) -> Placements:
        pairs = zip(self.sides, other.sides, strict=True)
        return Placements(*(Side(x.values - y.values, x.counts) for x, y in pairs))


def placements_from_counts(inside: Array, outside: Array) -> Placements:
    """Placements of tables of counts, levels rising; ties count one half, so the mean is the AUC.

    Args:
        inside: members at each level, ``[..., k]``.
        outside: non-members at each level, ``[..., k]``.

    Examples:
        >>> found = placements_from_counts(np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0]))
        >>> found.members.values[[1, 3]], found.nonmembers.values[[0, 2]], found.value
        (array([0.5, 1. ]), array([1. , 0.5]), np.float64(0.75))
    """
    a, b = np.asarray(inside, np.float64), np.asarray(outside, np.float64)
    m, n = a.sum(-1, keepdims=True), b.sum(-1, keepdims=True)
    below, above = (b.cumsum(-1) - b / 2) / n, (m - a.cumsum(-1) + a / 2) / m
    return Placements(Side(below, a), Side(above, b))


def placements_from_scores(values: Floats, truth: Bools) -> tuple[Placements, Array]:
    """Placements at each distinct score, rising, and the level of each record.

    Args:
        values: scores, ``[n]``.
        truth: True for members, ``[n]``.
    """
    levels, level = np.unique(values, return_inverse=True)
    inside = np.bincount(level[truth], minlength=len(levels))
    return placements_from_counts(inside, np.bincount(level, minlength=len(levels)) - inside), level


def placements_per_record(placed: Placements, level: Array, truth: Bools) -> Placements:
    """The same mean with one level per record, in the order of ``level``."""
    inside = truth.astype(np.float64)
    return Placements(Side(placed.members.values[level], inside), Side(placed.nonmembers.values[level], 1 - inside))


def placement_covariance(first: Placements, second: Placements, null: float) -> tuple[Floats, Floats]:
    """Covariance of two means over the same records, as the members' part and the non-members', ``[...]`` each.

    DeLong, DeLong & Clarke-Pearson 1988, with one pseudo-placement per kind at ``null``, the value of no leak:
    without it a handful of members near an AUC of 1 covers .915 instead of .95. Infinite where a kind has
    one record only.
    """
    a, b = first.value, second.value
    shrunk = (a - null) * (b - null)

    def part(x: Side, y: Side) -> Floats:
        spread = (x.counts * (x.values - a[..., None]) * (y.values - b[..., None])).sum(-1) + shrunk
        return np.where(x.size > 1, spread / np.maximum(x.size - 1, 1) / x.size, np.inf)

    return part(first.members, second.members), part(first.nonmembers, second.nonmembers)


def degrees_of_freedom(v: ArrayLike, w: ArrayLike, m: ArrayLike, n: ArrayLike) -> Floats:
    """Degrees of freedom of a variance ``v + w``, its parts from m and n records (Brunner & Munzel 2000)."""
    v, w, m, n = (np.asarray(part, np.float64) for part in (v, w, m, n))
    return (v + w) ** 2 / (v**2 / (m - 1) + w**2 / (n - 1))


def widen_for_ties(end: Floats, mean: Placements, weight: Floats, most: float, error: float) -> Floats:
    """An upper end by a variance, moved out towards `gaffke` as far as records add the same.

    Where nearly all do, a variance sees the few exceptions in the sample, or none. The end is moved all the
    way where half of the pairs of records add the same, and not at all where none do.

    Args:
        end: what the mean is below by its variance, ``[...]``.
        mean: the mean.
        weight: its `Placements.repeated`, the same for both ends.
        most: what a record can add at most.
        error: probability that the end is too low.
    """
    if not weight.any():
        return end
    return end + np.minimum(2 * weight, 1.0) * np.maximum(gaffke_bound(mean, weight, most, error) - end, 0.0)


def gaffke_bound(mean: Placements, weight: Floats, most: float, error: float) -> Floats:
    """An upper end that reckons with values not seen so far.

    Each kind is given an unseen record that adds the most it could, ``weight`` strong, and the records are
    weighted at random (Dirichlet, the Bayesian bootstrap): the bound is a quantile of the mean over such
    weights. For one kind of records and a weight of 1 that is Gaffke's bound, and for zeros and ones Clopper &
    Pearson's. The quantile is that of a gamma distribution with the mean's first three moments.

    References:
        Gaffke 2005; Learned-Miller & Thomas 2019 (one kind of records); Fay, Proschan & Brittain 2015 (two);
        Wilson & Hilferty 1931 (the quantile).
    """
    m, n = mean.members.size, mean.nonmembers.size
    sides = _unseen(mean.members, n, weight, most), _unseen(mean.nonmembers, m, weight, most)
    variance = sides[0][1] + sides[1][1]
    known = variance > 1e-30
    spread = np.sqrt(np.where(known, variance, 1.0))
    skewness = (sides[0][2] + sides[1][2]) / spread**3
    return sides[0][0] + np.where(known, spread * _gamma_quantile(skewness, special.ndtri(1 - error)), 0.0)


def _unseen(side: Side, others: Floats, weight: Floats, most: float) -> tuple[Floats, Floats, Floats]:
    """Mean, variance and third central moment over random weights, one record added to either kind."""
    # Among the other kind, too, there is one now that adds the most.
    values = (side.values * others[..., None] + (weight * most)[..., None]) / (others + weight)[..., None]
    total = side.size + weight
    mean = ((side.counts * values).sum(-1) + weight * most) / total
    gaps, gap = values - mean[..., None], most - mean
    second = ((side.counts * gaps**2).sum(-1) + weight * gap**2) / total
    third = ((side.counts * gaps**3).sum(-1) + weight * gap**3) / total
    return mean, second / (total + 1), 2 * third / ((total + 1) * (total + 2))


def _gamma_quantile(skewness: Floats, z: float) -> Floats:
    """Quantile of a gamma distribution of mean 0 and variance 1 where a normal one has ``z``."""
    flat = np.abs(skewness) < 1e-6
    g = np.where(flat, 1.0, skewness)
    return np.where(flat, z, (2 / g) * (np.maximum(1 + g * z / 6 - g**2 / 36, 0.0) ** 3 - 1))


def check_scores(scores: object, members: object, name: str = "scores") -> tuple[Floats, Bools]:
    """Scores ``[n]`` and membership ``[n]``, both checked; at least one record of each kind.

    Raises:
        divulge.InputError: NaN or infinity, nothing, lengths that differ, members or non-members only.
    """
    values = check_vector(scores, name)
    truth = check_mask(members, "members", (None,))
    if truth.shape != values.shape:
        raise InputError(f"members: {len(values)} values are needed (one per score), got {len(truth)}")
    count = int(truth.sum())
    if count in (0, len(truth)):
        raise InputError(
            f"members: at least 1 member and 1 non-member are needed, got {count} and {len(truth) - count}"
        )
    return values, truth


def split_scores(scores: object, members: object) -> tuple[Floats, Floats]:
    """The scores of members and of non-members, each sorted: row order is forgotten here.

    Examples:
        >>> split_scores([0.1, 0.9, 0.4], [False, True, False])
        (array([0.9]), array([0.1, 0.4]))
    """
    values, truth = check_scores(scores, members)
    return np.sort(values[truth]), np.sort(values[~truth])


def count_above(ordered: Floats, thresholds: Floats) -> Floats:
    """How many of the sorted scores lie strictly above each threshold."""
    return (len(ordered) - np.searchsorted(ordered, thresholds, side="right")).astype(np.float64)


def min_nonmembers(fpr: float) -> int:
    """How many non-members it takes to speak of a false-positive rate of ``fpr``.

    Examples:
        >>> min_nonmembers(0.01)
        99
    """
    level = check_number(fpr, "fpr", above=0, below=1)
    return ceil(1 / Fraction(str(level))) - 1


def check_fpr(nonmembers: int, fpr: float) -> float:
    """``fpr``, if this many non-members can resolve it.

    Raises:
        divulge.InputError: fewer than ``1/fpr - 1`` non-members.
    """
    needed = min_nonmembers(fpr)
    if nonmembers < needed:
        raise InputError(f"fpr: {needed} non-members are needed for an FPR of {fpr:g}, got {nonmembers}")
    return float(fpr)
