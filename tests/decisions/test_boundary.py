"""The last candidate of a selection: how often it is a non-member."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

import divulge as dv
from divulge.decisions import fdr

RUNS = 400
SHAPES = {"continuous": np.asarray, "rounded": np.round, "two values": np.sign}


def last_is_nonmember(selection, scores, members):
    """Whether the last candidate selected is a non-member; of equal scores at the edge the drawn order decides."""
    if not selection.count:
        return False
    edge = np.flatnonzero(selection.selected & (scores == scores[selection.selected].min()))
    return np.mean(edge >= members)


def naive(candidates, calibration, slope):
    best, size = 0, 0
    for k, score in enumerate(sorted(candidates, reverse=True), start=1):
        gain = slope * k - 1 - sum(nonmember >= score for nonmember in calibration)
        if gain > best:
            best, size = gain, k
    return size


def test_of_equal_gains_the_smallest_selection_is_taken():
    rng = np.random.default_rng(0)
    for n, m, level in ((99, 8, 0.1), (99, 8, 0.3), (40, 4, 0.2), (500, 30, 0.2)):
        for _ in range(30):
            candidates, calibration = rng.normal(1.5, 1, m), rng.normal(size=n)
            selection = fdr.select_at_boundary(candidates, calibration, fdr=level)
            size = naive(candidates, calibration, int(level * (n + 1) / m + 1e-9))
            assert selection.count == size
            assert set(np.argsort(-candidates)[:size]) == set(np.flatnonzero(selection.selected))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("n", "m", "level"), [(99, 10, 0.1), (39, 4, 0.3)])
def test_the_last_candidate_is_rarely_a_non_member(shape, n, m, level):
    """By the share of non-members, as the proof has it. Each cell exceeds its limit with probability 1e-5 at most."""
    slope = int(level * (n + 1) / m + 1e-9)
    for share in (0.0, 0.5, 0.8):
        rng, members, wrong = np.random.default_rng([n, m, int(10 * share)]), round(share * m), 0.0
        for run in range(RUNS):
            samples = np.append(rng.normal(2, 1, members), rng.normal(size=m - members)), rng.normal(size=n)
            candidates, calibration = map(SHAPES[shape], samples)
            wrong += last_is_nonmember(
                fdr.select_at_boundary(candidates, calibration, fdr=level, seed=run), candidates, members
            )
        bound = slope * (m - members) / (n + 1)
        assert bound <= level
        assert wrong <= binom.isf(1e-6, RUNS, bound)


def test_every_order_of_few_scores():
    """The proof's claim: of ``n + 1`` places, ``slope`` at most make a candidate the last, whatever the others."""
    for slope, n, m in ((1, 4, 3), (2, 8, 3), (1, 6, 4)):
        level = slope * m / (n + 1)
        for other_candidates in itertools.combinations_with_replacement(range(n + 2), m - 1):
            # ``others`` lie in the gaps of n + 1 scores 1 … n + 1, each at its own height.
            heights = np.sort(np.array(other_candidates) + 0.5 + 0.01 * np.arange(m - 1))
            count = 0
            for rank in range(1, n + 2):
                calibration = np.delete(np.arange(1.0, n + 2), rank - 1)
                selection = fdr.select_at_boundary(np.append(heights, rank), calibration, fdr=level)
                count += bool(selection.selected[-1] and selection.threshold == rank)
            assert count <= slope


def test_rows_in_any_order_and_equal_scores():
    rng = np.random.default_rng(1)
    candidates, calibration = np.round(rng.normal(1.5, 1, 40), 1), np.round(rng.normal(size=900), 1)
    selection = fdr.select_at_boundary(candidates, calibration, fdr=0.2)
    turned = rng.permutation(40)
    two = fdr.select_at_boundary(candidates[turned], rng.permutation(calibration), fdr=0.2)
    assert sorted(candidates[selection.selected]) == sorted(candidates[turned][two.selected])
    assert selection.threshold == two.threshold
    assert selection.count > 0
    assert fdr.select_at_boundary(np.append(-50.0, np.full(9, -60.0)), np.arange(99.0), fdr=0.2).count == 0


def test_bad_input_is_named():
    with pytest.raises(dv.InputError, match=r"calibration: 98 scores are too few .* at least 99"):
        fdr.select_at_boundary(np.arange(10.0), np.arange(98.0), fdr=0.1)
    assert fdr.select_at_boundary(np.arange(200.0, 210.0), np.arange(99.0), fdr=0.1).count == 10
    for bad in ({"fdr": 0.0}, {"fdr": 1.0}, {"seed": -1}):
        with pytest.raises(dv.InputError, match=next(iter(bad))):
            fdr.select_at_boundary(np.arange(2.0), np.arange(99.0), **bad)
    with pytest.raises(dv.InputError, match="every score"):
        fdr.select_at_boundary(np.ones(2), np.ones(99))
