"""The estimated share of members."""

import numpy as np
import pytest

from divulge.decisions import usage
from divulge.decisions.counts import Counts


def estimates(share, signal, runs=80, n=500, m=1000, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        members = round(share * m)
        scores = np.append(rng.normal(signal, 1, members), rng.normal(size=m - members))
        yield usage.share(Counts.empty(rng.normal(size=n)).add(scores))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("signal", [1.2, 2.3, 4.0])
def test_lower_end_is_proven_and_interval_holds_the_truth(share, signal):
    found = list(estimates(share, signal))
    # At 97.5 % or more each, 72 of 80 fail with probability below 1e-3.
    assert sum(estimate.low <= share for estimate in found) >= 72
    if signal > 3:  # members then stay above the lowest tenth
        assert sum(estimate.low <= share <= estimate.high for estimate in found) >= 70


def test_estimate_is_near_the_truth_for_strong_signals():
    error = [abs(estimate.value - 0.5) for estimate in estimates(0.5, 4.0)]
    assert np.mean(error) < 0.03


def test_smallest_calibration_gives_an_interval():
    found = usage.share(Counts.empty([0.0]).add([1.0, 2.0]))
    assert 0 <= found.low <= found.value <= found.high <= 1
