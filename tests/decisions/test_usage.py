"""The estimated share of members."""

import numpy as np
import pytest

from divulge.decisions import usage
from divulge.decisions.counts import Counts
from divulge.errors import InputError


def estimates(share, signal, runs=80, n=500, m=1000, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        members = round(share * m)
        scores = np.append(rng.normal(signal, 1, members), rng.normal(size=m - members))
        yield usage.share(Counts.empty(rng.normal(size=n)).add(scores))


@pytest.mark.parametrize(("share", "signal"), [(0.0, 1.2), (0.3, 4.0), (0.7, 2.3), (1.0, 4.0)])
def test_lower_end_is_proven_and_interval_holds_the_truth(share, signal):
    result = list(estimates(share, signal))
    # At 97.5 % or more each, 72 of 80 fail with probability below 1e-3.
    assert sum(estimate.low <= share for estimate in result) >= 72
    if signal > 3:  # members then stay above the lowest tenth
        assert sum(estimate.low <= share <= estimate.high for estimate in result) >= 70


def test_estimate_is_near_the_truth_for_strong_signals():
    error = [abs(estimate.value - 0.5) for estimate in estimates(0.5, 4.0)]
    assert np.mean(error) < 0.03


def test_smallest_calibration_gives_an_interval():
    estimate = usage.share(Counts.empty([0.0]).add([1.0, 2.0]))
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


@pytest.mark.parametrize("shape", [np.round, lambda x: (x > 1).astype(float)], ids=["rounded", "two values"])
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_ties_among_low_scores_do_not_take_members_away(shape, share):
    """All members score above any non-member; 40 runs, of which the interval, at 95 %, misses more than 8 with 1e-4."""
    rng, n_covered = np.random.default_rng(4), 0
    for _ in range(40):
        count = round(share * 300)
        scores = shape(np.append(rng.normal(9, 1, count), rng.normal(size=300 - count)))
        estimate = usage.share(Counts.empty(shape(rng.normal(size=200))).add(scores))
        n_covered += estimate.low <= share <= estimate.high
    assert n_covered >= 32


def test_many_ties_leave_no_upper_end():
    estimate = usage.share(Counts.empty([0.0] * 90 + [1.0] * 10).add([0.0] * 40 + [1.0] * 60))
    assert estimate.high == 1.0
    assert "too many low scores tie" in estimate.method
    assert estimate.low > 0.1


def naive_share(candidates, calibration, members, threshold):
    """The share above one cut, corrected by the rates of both kinds there."""
    rate, caught = (np.mean(calibration > threshold)), np.mean(members > threshold)
    return (np.mean(candidates > threshold) - rate) / (caught - rate)


@pytest.mark.parametrize(("share", "signal"), [(0.0, 4.0), (0.3, 1.2), (0.7, 2.3), (1.0, 2.3)])
def test_known_members_give_a_better_share_than_one_cut_and_an_interval_that_holds(share, signal):
    rng = np.random.default_rng(1)
    ours, naive, n_covered = [], [], 0
    for _ in range(60):
        count = round(share * 300)
        scores = np.append(rng.normal(signal, 1, count), rng.normal(size=300 - count))
        calibration, members = rng.normal(size=150), rng.normal(signal, 1, 150)
        estimate = usage.share(Counts.empty(calibration).add(scores), members)
        ours.append(abs(estimate.value - share))
        naive.append(abs(np.clip(naive_share(scores, calibration, members, signal / 2), 0, 1) - share))
        n_covered += estimate.low <= share <= estimate.high
    assert np.mean(ours) <= np.mean(naive) * 1.25 + 0.003  # the naive cut here is the best there is
    assert n_covered >= 51  # at 95 % each, fewer have probability below 1e-4


def test_members_that_are_never_confused_are_counted_exactly():
    mixture = usage.mixture(Counts.empty(range(100)).add([*range(0, 100, 2), *range(200, 250)]), range(200, 300))
    assert mixture.value == pytest.approx(0.5, abs=0.01)
    assert mixture.low < 0.5 < mixture.high


def test_known_members_that_fit_no_share_leave_everything_open():
    mixture = usage.mixture(Counts.empty(range(200)).add([300.0] * 100 + [0.5] * 100), range(200, 300))
    assert (mixture.low, mixture.high) == (0.0, 1.0)
    assert "do not score like the known" in mixture.method


def test_members_that_score_as_others_do_tell_nothing():
    rng = np.random.default_rng(2)
    mixture = usage.mixture(Counts.empty(rng.normal(size=200)).add(rng.normal(size=200)), rng.normal(size=200))
    assert mixture.high - mixture.low > 0.4


def test_known_members_are_checked():
    with pytest.raises(InputError, match="members: 1 values are NaN"):
        usage.share(Counts.empty([0.0]).add([1.0]), [np.nan])


@pytest.mark.parametrize("members", [None, "half of them, far below"])
def test_more_low_scores_than_any_share_allows_leave_no_upper_end(members):
    rng = np.random.default_rng(0)
    shift = 0.0 if members is None else -4.0
    counts = Counts.empty(rng.normal(size=500)).add(np.append(rng.normal(shift, 1, 100), rng.normal(size=100)))
    estimate = usage.share(counts)
    assert (estimate.high == 1.0) == (members is not None)
    assert ("unknown" in estimate.method) == (members is not None)
