"""Members that stand above the non-members: which, how many beyond chance, and how many would have been seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge.statistics import count_above, split_scores
from divulge.types import Estimate
from divulge.validation import check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.types import Bools, Floats, Ints

EXPOSED = "negative hypergeometric, members above the highest non-members"
MAX_AS_HIGH = 2
"""A member is exposed if at most so many non-members score as high: one odd non-member must not hide a hundred."""
_SHARES = np.array([0.5, 0.25, 0.25])  # of the error, by the number of non-members that score as high
_MAX_RECORDS = 10**7
_MAX_SHOWN = 10  # non-members that may score as high as a member that is shown


def exposed_members(scores: object, members: object, confidence: float = 0.95) -> Estimate:
    """Return how many members stand above every non-member, with bounds on how many do so beyond chance.

    If e members are set aside and the others score like non-members, the number of these others above the highest
    non-member has a negative hypergeometric distribution, whatever the scores are; so have the numbers above the second
    and the third highest. ``low`` is the smallest e that these counts do not refute: at least so many members score
    higher than records do that the model was not trained on. It is exact for all sample sizes. Members that tie with a
    non-member do not stand above it, which can only lower the bound. ``high`` is the number of members that at most two
    non-members equal or exceed; no more can be exposed in that sense.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        confidence: P(``low`` ≤ number of members that do not score like non-members) is at least this.

    Raises:
        divulge.InputError: NaN or infinity, lengths that differ, members or non-members only.

    Examples:
        >>> members = np.arange(200) < 100
        >>> print(exposed_members(np.r_[np.arange(900, 920), np.arange(80), np.arange(100)], members))
        20.0000 [16.0000, 20.0000]
    """
    inside, outside = split_scores(scores, members)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    m, n = len(inside), len(outside)
    depths = np.arange(min(MAX_AS_HIGH + 1, n))
    counts = count_above(inside, outside[n - 1 - depths]).astype(np.int64)
    allowed = error * _SHARES[depths]
    # The p-value increases with the number of members that are set aside: the smallest that is not refuted, bisected.
    low_ends, ends = np.zeros(len(depths), np.int64), counts.copy()
    if (_tail(counts, m, n, depths) > allowed).all():
        ends[:] = 0
    while (ends > low_ends).any():
        middle = (low_ends + ends) // 2
        is_refuted = _tail(counts - middle, m - middle, n, depths) <= allowed
        low_ends, ends = np.where(is_refuted, middle + 1, low_ends), np.where(is_refuted, ends, middle)
    low = int(ends.max())
    high = int(counts[-1]) if n > MAX_AS_HIGH else m
    return Estimate(float(max(counts[0], low)), float(low), float(high), confidence, EXPOSED)


def rank_exposed(scores: Floats, members: Bools, labels: Ints | None = None) -> Ints:
    """Return the rows of the members that nearly no non-member of their own class scores as high as, clearest first.

    At most ten non-members of the class, and at most one in twenty, may score as high: a score that hundreds of others
    reach exposes nobody.

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        labels: class of each record ``[n]``; None where all are compared with all.

    Examples:
        >>> members = np.array([True, True, True, False, False, False])
        >>> rank_exposed(np.array([0.9, 0.7, 0.5, 0.8, 0.4, 0.3]), members, np.array([0, 1, 0, 0, 1, 1]))
        array([0, 1])
    """
    classes = np.zeros(len(scores), np.int64) if labels is None else labels
    n_as_high, n_nonmembers = np.zeros(len(scores)), np.zeros(len(scores))
    for label in np.unique(classes):
        rows = np.flatnonzero(classes == label)
        outside = np.sort(scores[rows[~members[rows]]])
        n_as_high[rows] = len(outside) - np.searchsorted(outside, scores[rows], side="left")
        n_nonmembers[rows] = len(outside)
    is_exposed = members & (n_nonmembers > 0) & (n_as_high <= np.minimum(_MAX_SHOWN, n_nonmembers / 20))
    shares = n_as_high / np.maximum(n_nonmembers, 1)
    order = np.lexsort((-scores, shares))
    return order[is_exposed[order]]


def smallest_exposed(n_members: int, n_nonmembers: int, confidence: float = 0.95, power: float = 0.8) -> int | None:
    """Return the smallest number of members that `exposed_members` finds with probability ``power``.

    They score higher than every non-member, while all other members score like non-members.

    Args:
        n_members: number of members audited.
        n_nonmembers: number of non-members.
        confidence: of the lower bound, which must exceed 0.
        power: probability with which it does.

    Returns:
        None if no number is found with that probability.

    Raises:
        divulge.InputError: fewer than one record of a kind, a rate outside (0, 1).

    Examples:
        >>> smallest_exposed(1000, 1000, 0.999), smallest_exposed(20_000, 20_000, 0.999), smallest_exposed(3, 3)
        (11, 11, None)
    """
    m = check_integer(n_members, "n_members", minimum=1, maximum=_MAX_RECORDS)
    n = check_integer(n_nonmembers, "n_nonmembers", minimum=1, maximum=_MAX_RECORDS)
    allowed = (1 - check_number(confidence, "confidence", above=0, below=1)) * _SHARES[0]
    target_power = check_number(power, "power", above=0, below=1)
    run = _first(m, lambda k: bool(_tail(k, m, n, 0) <= allowed))
    # The more are exposed, the fewer others must join them above the highest non-member.
    return None if run is None else _first(run, lambda k: bool(_tail(run - k, m - k, n, 0) >= target_power))


def chance_of_exposed(n_members: int, n_nonmembers: int, limit: int) -> float:
    """Return the probability that more than ``limit`` members stand above all but two non-members by chance.

    Examples:
        >>> round(chance_of_exposed(1000, 1000, 5), 3), chance_of_exposed(4, 100, 5)
        (0.144, 0.0)
    """
    return float(_tail(limit + 1, n_members, n_nonmembers, MAX_AS_HIGH)) if limit < n_members else 0.0


def _first(maximum: int, holds: Callable[[int], bool]) -> int | None:
    """Return the smallest number from 1 to ``maximum`` for which it holds, by bisection; None if it never does."""
    if not holds(maximum):
        return None
    low, high = 0, maximum
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _tail(count: Ints | int, m: Ints | int, n: int, depth: Ints | int) -> Floats:
    """Return P(``count`` or more of m members stand above all but the ``depth`` highest of n non-members).

    Members and non-members are exchangeable and do not tie; then that is the probability of at most ``depth``
    non-members among the ``count + depth`` highest.
    """
    k, m, depth = np.broadcast_arrays(np.maximum(count, 0), m, depth)
    i = np.arange(MAX_AS_HIGH + 1)[:, None]  # non-members among the highest
    draws = k.ravel() + depth.ravel()
    n_inside = draws - i
    is_possible = (i <= depth.ravel()) & (i <= n) & (n_inside >= 0) & (n_inside <= m.ravel())
    log = (
        _log_choose(n, i) + _log_choose(m.ravel(), np.clip(n_inside, 0, m.ravel())) - _log_choose(m.ravel() + n, draws)
    )
    total = np.where(is_possible, np.exp(log), 0.0).sum(axis=0)
    return np.where(k.ravel() == 0, 1.0, np.minimum(total, 1.0)).reshape(k.shape)


def _log_choose(n: Ints | int, k: Ints) -> Floats:
    """Return the logarithm of a binomial coefficient; of impossible ones anything."""
    k = np.minimum(k, n)
    return special.gammaln(np.asarray(n) + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)
