"""Pairs of runs on the same records, to try the interval of their difference on."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from divulge import statistics
from divulge.evaluation import comparison


def rates(first_rate, second_rate, agree=1.0):
    """Zeros and ones of two rates; with ``agree`` = 1 the rarer ones are ones in both runs."""

    def draw(rng, size):
        shared = rng.random(size)
        return shared < first_rate, np.where(rng.random(size) < agree, shared, rng.random(size)) < second_rate

    return draw


def zeros(share, distance, *, same):
    """Zeros among correlated normal scores, of the same records in both runs or not."""

    def draw(rng, size):
        base = rng.normal(size=size)
        zero = rng.random(size) < share
        zero_in_second = zero if same else rng.random(size) < share
        return np.where(zero, 0, base + distance), np.where(zero_in_second, 0, base + 0.5 * rng.normal(size=size))

    return draw


def normal(first_shift, second_shift, noise, *, step=0.0, lost=0.0):
    """Correlated normal scores, rounded to ``step``; a share ``lost`` of the records ranks last in the second run."""

    def draw(rng, size):
        base = rng.normal(size=size)
        a, b = base + first_shift, base + second_shift + noise * rng.normal(size=size)
        b = np.where(rng.random(size) < lost, b - 20, b)
        return (np.round(a / step), np.round(b / step)) if step else (a, b)

    return draw


CONTINUOUS = {
    f"continuous, {a} and {b}, noise {noise}": (normal(a, b, noise), normal(0, 0, noise))
    for a, b, noise in ((0, 0, 1), (1, 0, 0.5), (1, 0.5, 0.5), (2, 0, 0.5), (2.5, 2, 0.5), (4, 3.5, 0.3), (0, 0, 0.1))
}
PAIRS = (
    {f"two-valued, rate {p}, apart": (rates(p, p, 0.0),) * 2 for p in (0.5, 0.1, 0.02, 0.002)}
    | {f"two-valued, rate {p}, agreeing": (rates(p, p, 0.9),) * 2 for p in (0.5, 0.1, 0.02, 0.002)}
    | {"two-valued, .3 and .1, non-members .05": (rates(0.3, 0.1), rates(0.05, 0.05))}
    | {"two-valued, .5 and constant": (rates(0.5, 0.0), rates(0.01, 0.0))}
    | {"identical": (normal(1, 1, 0.0), normal(0, 0, 0.0)), "both constant": (rates(0.0, 0.0),) * 2}
    | {f"zeros, {z:.0%}, {name}": (zeros(z, 2, same=same), zeros(z, 0, same=same))
       for z in (0.8, 0.98) for name, same in (("the same", True), ("others", False))}
    | {f"a share of {lost} lost": (normal(1, 1, 0.0, lost=lost), normal(0, 0, 0.0)) for lost in (0.002, 0.02, 0.1)}
    | {f"rounded, {a} and {b}": (normal(a, b, 0.3, step=1.0), normal(0, 0, 0.3, step=1.0)) for a, b in ((0, 0), (2, 1))}
    | CONTINUOUS
)  # fmt: skip


def true_difference(pair):
    """From a million records a side: off by a fourteenth of a standard error at 5,000 a side, which can cost .01."""
    rng = np.random.default_rng(99)
    members, nonmembers = (draw(rng, 1_000_000) for draw in pair)
    values = []
    for inside, outside in zip(members, nonmembers, strict=True):
        ordered, inside = np.sort(outside.astype(float)), inside.astype(float)
        values.append(sum(np.searchsorted(ordered, inside, side).mean() for side in ("left", "right")) / 2e6)
    return values[0] - values[1]


def placed(inside, outside):
    """Placements of many tables at once, members ``[draws, m]`` and non-members ``[draws, n]``, by mid-ranks."""
    m, n = inside.shape[1], outside.shape[1]
    rank = rankdata(np.hstack([inside, outside]), axis=1)
    below, beneath = rank[:, :m] - rankdata(inside, axis=1), rank[:, m:] - rankdata(outside, axis=1)
    parts = below / n, 1 - beneath / m
    return statistics.Placements(*(statistics.Side(part, np.ones_like(part)) for part in parts))


def areas(rng, pair, m, n, draws, error):
    """Both runs of many tables, as `comparison.difference_bounds` takes them."""
    members, nonmembers = pair[0](rng, (draws, m)), pair[1](rng, (draws, n))
    results = [placed(a, b) for a, b in zip(members, nonmembers, strict=True)]
    return [comparison.Area(run, *statistics.auc_bounds(run, error)) for run in results]
