"""The bounds of the false discovery proportion hold together at their confidence, whatever members and scores are.

A run counts as a miss where any of its bounds fails. Of 80 sound runs at confidence ``c``, more than the limit below
miss with probability 1e-6 at most (binomial), in any of the 60 cells of this file with 6e-5. At 95 % a share of 25 %
is noticed with 90 %. `tests/decisions/test_fdp.py` counts all orders of small sets.
"""

import numpy as np
import pytest
from scipy.stats import binom

from divulge.decisions import fdp
from divulge.decisions.counts import Counts, ranks

RUNS = 80
CONFIDENCES = (0.8, 0.95)
SHAPES = {
    "continuous": np.asarray,
    "rounded": np.round,
    "two values": lambda x: (x > 1).astype(float),
    "mostly zero": lambda x: np.where(x < 1.5, 0.0, x),
    "constant": np.zeros_like,
}
MEMBERS = {
    "higher": lambda rng, count: rng.normal(2, 1, count),
    "unlike": lambda rng, count: rng.choice([-6.0, 3.0], count) + rng.normal(0, 0.1, count),
}


def missed(calibration, scores, member, confidence):
    """Whether any bound fails, with ties broken in the non-members' favour."""
    counts = Counts.empty(calibration).add(scores)
    bounds = np.asarray(fdp.envelope_from_counts(counts, confidence=confidence))
    order = np.lexsort((member, -scores))
    assert np.all(np.diff(ranks(scores, counts.calibration)[order]) >= 0)
    return np.any(np.cumsum(~member[order]) > bounds * np.arange(1, len(scores) + 1) + 1e-9)


@pytest.mark.parametrize(
    ("n", "m", "name"),
    [
        (20, 200, "continuous"),
        (100, 10, "continuous"),
        (200, 200, "continuous"),
        (200, 200, "rounded"),
        (20, 200, "rounded"),
        (100, 10, "two values"),
        (20, 200, "two values"),
        (20, 5, "mostly zero"),
        (200, 200, "mostly zero"),
        (20, 5, "constant"),
    ],
)
def test_all_bounds_hold_together(n, m, name):
    rng, shape = np.random.default_rng([n, m]), SHAPES[name]
    for share, alternative in ((0.0, "higher"), (0.5, "higher"), (0.9, "unlike")):
        members = round(share * m)
        member = np.arange(m) < members
        for confidence in CONFIDENCES:
            misses = 0
            for _ in range(RUNS):
                scores = shape(np.append(MEMBERS[alternative](rng, members), rng.normal(size=m - members)))
                misses += missed(shape(rng.normal(size=n)), scores, member, confidence)
            assert misses <= binom.isf(1e-6, RUNS, 1 - confidence), (share, alternative, confidence)
