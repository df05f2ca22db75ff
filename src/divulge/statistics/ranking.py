"""The AUC with its interval, from placements (mid-ranks)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
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
    """Return the AUC, P(a member outscores a non-member) + ½ P(they tie), with an interval, in O(n log n).

    - DeLong's variance from placements (mid-ranks, so ties count one half), on the logit scale so that the
      interval stays in (0, 1), with Brunner & Munzel's t degrees of freedom so that it holds in small samples,
      and with one pseudo-placement of ½ a side.
    - If most placements are equal, that variance rests on the few exceptions in the sample. Gaffke's bound allows for
      unobserved ones; the ends are moved towards it in proportion to the share of pairs of records with equal
      placements. Continuous scores hardly move them.
    - The ends never lie outside the Chernoff-Hoeffding bound for two-sample U-statistics, which holds for every
      distribution and sample size. It is the whole interval if the AUC is 0 or 1, or with a single member or
      non-member.

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
    """Return both ends of the AUC's interval, ``[...]`` each; either errs with half the ``error``."""
    repeated = placed.repeated
    low, high = _delong(placed, _inner(placed.value) & (repeated >= 1), error)
    high = widen_for_ties(high, placed, repeated, 1.0, error / 2)
    low = -widen_for_ties(-low, -placed, repeated, 0.0, error / 2)
    # Chernoff's bound always holds, so the ends need not lie further out.
    value, blocks, limit = placed.value, placed.scarcer, math.log(2 / error)
    return _limit_by_chernoff(value, blocks, limit, low, 0.0), _limit_by_chernoff(value, blocks, limit, high, 1.0)


def _inner(value: Floats) -> Bools:
    return (value > 0) & (value < 1)


def _delong(placed: Placements, constant: Bools, error: float) -> tuple[Floats, Floats]:
    """Return the interval on the logit scale; where it does not exist, [0, 1], or ½ alone if all scores tie."""
    regular = _inner(placed.value) & (placed.scarcer > 1) & ~constant
    value = np.where(regular, placed.value, 0.5)
    v, w = (np.where(regular, part, 1.0) for part in placement_covariance(placed, placed, null=0.5))
    m, n = (np.maximum(side.size, 2) for side in placed.sides)
    reach = special.stdtrit(degrees_of_freedom(v, w, m, n), 1 - error / 2) * np.sqrt(v + w) / (value * (1 - value))
    unknown = np.where(constant, 0.5, 0.0)
    low, high = special.expit(special.logit(value) - reach), special.expit(special.logit(value) + reach)
    return np.where(regular, low, unknown), np.where(regular, high, 1 - unknown)


def _limit_by_chernoff(value: Floats, blocks: Floats, limit: float, end: Floats, furthest: float) -> Floats:
    """Return the end, or the last p towards ``furthest`` with ``blocks · KL(value ‖ p) ≤ limit`` if that is nearer.

    A two-sample U-statistic averages averages of min(m, n) independent pairs, so Chernoff's bound for
    that many Bernoulli draws holds for it (Hoeffding 1963, eq. 5.7 ff.).
    """

    def beyond(p: Floats) -> Bools:
        return blocks * (special.rel_entr(value, p) + special.rel_entr(1 - value, 1 - p)) > limit

    if not beyond(end).any():
        return end
    # Bisection between the value, which is inside, and the end of the scale.
    inner, outer = np.asarray(value), np.full_like(value, furthest)
    for _ in range(60):
        middle = (inner + outer) / 2
        is_beyond = beyond(middle)
        inner, outer = np.where(is_beyond, inner, middle), np.where(is_beyond, middle, outer)
    return np.where(beyond(end), outer, end)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Contributions of the members, or of the non-members, to a mean.

    Attributes:
        values: contribution of a record at each level, ``[..., k]``.
        counts: number of records at each level, ``[..., k]``.
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
        """Share of pairs of records with equal contributions, ``[...]``; 1 if there is a single record."""
        order = np.argsort(self.values, axis=-1, kind="stable")
        values, counts = (np.take_along_axis(part, order, -1) for part in (self.values, self.counts))
        # Equal contributions may differ by rounding; different placements differ by more than 1e-9.
        is_edge = np.diff(values, axis=-1) > 1e-9
        cumulative = counts.cumsum(-1)
        before = np.maximum.accumulate(np.where(is_edge, cumulative[..., :-1], 0.0), axis=-1)
        run = cumulative - np.concatenate([np.zeros_like(cumulative[..., :1]), before], -1)
        is_last = np.concatenate([is_edge, np.ones_like(cumulative[..., :1], bool)], -1)
        pairs = np.where(is_last, run * (run - 1), 0.0).sum(-1)
        return np.where(self.size > 1, pairs / np.maximum(self.size * (self.size - 1), 1), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Placements:
    """A mean over members that equals a mean over non-members.

    Attributes:
        members: contributions of members; for the AUC the share of non-members below each.
        nonmembers: contributions of non-members; for the AUC the share of members above each.
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
        """Number of members or of non-members, whichever is smaller, ``[...]``."""
        return np.minimum(self.members.size, self.nonmembers.size)

    @property
    def repeated(self) -> Floats:
        """Geometric mean of the shares of pairs with equal contributions, from 0 to 1, ``[...]``."""
        return np.sqrt(self.members.repeated * self.nonmembers.repeated)

    def __neg__(self) -> Placements:
        return Placements(*(Side(-side.values, side.counts) for side in self.sides))

    def __sub__(self, other: Placements) -> Placements:
        pairs = zip(self.sides, other.sides, strict=True)
        return Placements(*(Side(x.values - y.values, x.counts) for x, y in pairs))


def placements_from_counts(inside: Array, outside: Array) -> Placements:
    """Return placements from counts at ascending levels; ties count one half, so the mean is the AUC.

    Args:
        inside: members at each level, ``[..., k]``.
        outside: non-members at each level, ``[..., k]``.

    Examples:
        >>> placed = placements_from_counts(np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0]))
        >>> placed.members.values[[1, 3]], placed.nonmembers.values[[0, 2]], placed.value
        (array([0.5, 1. ]), array([1. , 0.5]), np.float64(0.75))
    """
    a, b = np.asarray(inside, np.float64), np.asarray(outside, np.float64)
    m, n = a.sum(-1, keepdims=True), b.sum(-1, keepdims=True)
    below, above = (b.cumsum(-1) - b / 2) / n, (m - a.cumsum(-1) + a / 2) / m
    return Placements(Side(below, a), Side(above, b))


def placements_from_scores(values: Floats, truth: Bools) -> tuple[Placements, Array]:
    """Return placements at each distinct score, ascending, and the level of each record.

    Args:
        values: scores, ``[n]``.
        truth: True for members, ``[n]``.
    """
    levels, level = np.unique(values, return_inverse=True)
    inside = np.bincount(level[truth], minlength=len(levels))
    return placements_from_counts(inside, np.bincount(level, minlength=len(levels)) - inside), level


def placements_per_record(placed: Placements, level: Array, truth: Bools) -> Placements:
    """Return the same placements with one level per record, in the order of ``level``."""
    inside = truth.astype(np.float64)
    return Placements(Side(placed.members.values[level], inside), Side(placed.nonmembers.values[level], 1 - inside))


def placement_covariance(first: Placements, second: Placements, null: float) -> tuple[Floats, Floats]:
    """Return the covariance of two means over the same records, by members and non-members, ``[...]`` each.

    DeLong, DeLong & Clarke-Pearson 1988, with one pseudo-placement on either side at ``null``, the value without a
    leak. (Without these, the coverage with few members near an AUC of 1 is .915 instead of .95.) A part with a single
    record is infinite.
    """
    a, b = first.value, second.value
    shrunk = (a - null) * (b - null)

    def part(x: Side, y: Side) -> Floats:
        spread = (x.counts * (x.values - a[..., None]) * (y.values - b[..., None])).sum(-1) + shrunk
        return np.where(x.size > 1, spread / np.maximum(x.size - 1, 1) / x.size, np.inf)

    return part(first.members, second.members), part(first.nonmembers, second.nonmembers)


def degrees_of_freedom(v: ArrayLike, w: ArrayLike, m: ArrayLike, n: ArrayLike) -> Floats:
    """Return the degrees of freedom of a variance ``v + w`` from m and n records (Brunner & Munzel 2000)."""
    v, w, m, n = (np.asarray(part, np.float64) for part in (v, w, m, n))
    return (v + w) ** 2 / (v**2 / (m - 1) + w**2 / (n - 1))


def widen_for_ties(end: Floats, mean: Placements, weight: Floats, max_value: float, error: float) -> Floats:
    """Move an upper end towards `gaffke_bound` in proportion to the share of pairs with equal contributions.

    If nearly all contributions are equal, the variance rests on the few exceptions in the sample. The end is moved all
    the way if half of the pairs are equal, and not at all if none are.

    Args:
        end: upper end by the variance, ``[...]``.
        mean: the mean.
        weight: `Placements.repeated` of the mean, the same for both ends.
        max_value: largest contribution of a record.
        error: probability that the end is too low.
    """
    if not weight.any():
        return end
    return end + np.minimum(2 * weight, 1.0) * np.maximum(gaffke_bound(mean, weight, max_value, error) - end, 0.0)


def gaffke_bound(mean: Placements, weight: Floats, max_value: float, error: float) -> Floats:
    """Return an upper bound of the mean that allows for values that were not observed.

    Members and non-members each get an additional record of weight ``weight`` with the largest contribution, and
    records are weighted at random (Dirichlet, the Bayesian bootstrap): the bound is a quantile of the mean over such
    weights. For one sample and a weight of 1 it is Gaffke's bound, and for zeros and ones Clopper & Pearson's. The
    quantile is that of a gamma distribution with the first three moments of the mean.

    References:
        Gaffke 2005; Learned-Miller & Thomas 2019 (one sample); Fay, Proschan & Brittain 2015 (two);
        Wilson & Hilferty 1931 (the quantile).
    """
    m, n = mean.members.size, mean.nonmembers.size
    sides = (
        _bootstrap_moments(mean.members, n, weight, max_value),
        _bootstrap_moments(mean.nonmembers, m, weight, max_value),
    )
    variance = sides[0][1] + sides[1][1]
    varies = variance > 1e-30
    spread = np.sqrt(np.where(varies, variance, 1.0))
    skewness = (sides[0][2] + sides[1][2]) / spread**3
    return sides[0][0] + np.where(varies, spread * _gamma_quantile(skewness, special.ndtri(1 - error)), 0.0)


def _bootstrap_moments(
    side: Side, opposite_size: Floats, weight: Floats, max_value: float
) -> tuple[Floats, Floats, Floats]:
    """Return mean, variance and third central moment over random weights, with one record added to either side."""
    # The opposite side, too, has an additional record with the largest contribution.
    values = (side.values * opposite_size[..., None] + (weight * max_value)[..., None]) / (opposite_size + weight)[
        ..., None
    ]
    total = side.size + weight
    mean = ((side.counts * values).sum(-1) + weight * max_value) / total
    gaps, gap = values - mean[..., None], max_value - mean
    second_moment = ((side.counts * gaps**2).sum(-1) + weight * gap**2) / total
    third_moment = ((side.counts * gaps**3).sum(-1) + weight * gap**3) / total
    return mean, second_moment / (total + 1), 2 * third_moment / ((total + 1) * (total + 2))


def _gamma_quantile(skewness: Floats, z: float) -> Floats:
    """Return the quantile of a gamma distribution of mean 0 and variance 1 at the normal quantile ``z``."""
    is_symmetric = np.abs(skewness) < 1e-6
    g = np.where(is_symmetric, 1.0, skewness)
    return np.where(is_symmetric, z, (2 / g) * (np.maximum(1 + g * z / 6 - g**2 / 36, 0.0) ** 3 - 1))


def check_scores(scores: object, members: object, name: str = "scores") -> tuple[Floats, Bools]:
    """Return checked scores ``[n]`` and membership ``[n]``, with at least one member and one non-member.

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
    """Return the sorted scores of members and of non-members.

    Examples:
        >>> split_scores([0.1, 0.9, 0.4], [False, True, False])
        (array([0.9]), array([0.1, 0.4]))
    """
    values, truth = check_scores(scores, members)
    return np.sort(values[truth]), np.sort(values[~truth])


def count_above(ordered: Floats, thresholds: Floats) -> Floats:
    """Return how many of the sorted scores lie strictly above each threshold."""
    return (len(ordered) - np.searchsorted(ordered, thresholds, side="right")).astype(np.float64)


def min_nonmembers(fpr: float) -> int:
    """Return the smallest number of non-members that can resolve a false-positive rate of ``fpr``.

    Examples:
        >>> min_nonmembers(0.01)
        99
    """
    level = check_number(fpr, "fpr", above=0, below=1)
    return math.ceil(1 / Fraction(str(level))) - 1


def check_fpr(nonmembers: int, fpr: float) -> float:
    """Return ``fpr`` if so many non-members can resolve it.

    Raises:
        divulge.InputError: fewer than ``1/fpr - 1`` non-members.
    """
    n_required = min_nonmembers(fpr)
    if nonmembers < n_required:
        raise InputError(f"fpr: {n_required} non-members are needed for an FPR of {fpr:g}, got {nonmembers}")
    return float(fpr)
