"""The estimated share of members lies in its interval: few and many known members, weak and strong scores, ties.

The interval with known members, and the proven low end without, miss the share in at most 5 % of independent runs.
"""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from divulge.decisions import usage
from divulge.decisions.counts import Counts

SHAPES = (np.asarray, np.round, lambda x: (x > 1).astype(float), lambda x: np.where(x < 1.5, 0.0, x))
SIGNALS = (0.0, 0.5, 1.2, 4.0)
SHARES = (0.0, 0.3, 1.0)
RUNS = 16


@pytest.mark.parametrize(("k", "n", "m"), [(5, 5, 5), (5, 500, 500), (20, 20, 200), (60, 1000, 7)])
def test_intervals_hold_the_share(k, n, m):
    """16 runs of 48 cells: a cell fails by chance with 2e-5, the whole with 1e-4, all four tests together with .004."""
    rng = np.random.default_rng([k, n, m])
    misses = {}
    for shape, signal, share in itertools.product(SHAPES, SIGNALS, SHARES):
        members, missed = round(share * m), np.zeros(2)
        for _ in range(RUNS):
            scores = shape(np.append(rng.normal(signal, 1, members), rng.normal(size=m - members)))
            counts = Counts.empty(shape(rng.normal(size=n))).add(scores)
            estimate = usage.share(counts, shape(rng.normal(signal, 1, k)))
            share_alone = usage.share(counts)
            missed += not estimate.low <= members / m <= estimate.high, share_alone.low > members / m
        misses[SHAPES.index(shape), signal, share] = missed
    worst = max(misses, key=lambda cell: misses[cell].max())
    assert misses[worst].max() <= binom.isf(2e-5, RUNS, 0.05), (worst, misses[worst])
    assert np.all(sum(misses.values()) <= binom.isf(1e-4, RUNS * len(misses), 0.05)), sum(misses.values())
