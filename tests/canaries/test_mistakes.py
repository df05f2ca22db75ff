"""DP-SGD that keeps its claim, and every classic mistake that breaks it. The whole table: `benchmarks/dp_audit.py`."""

import pytest
from scipy.stats import binom

from broken_training import MISTAKES, RIGHT


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_flagged(mistake):
    loop = MISTAKES[mistake]
    assert loop.bound(500, seed=1) > loop.claim.epsilon


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_loop_is_flagged_in_at_most_5_percent_of_games(name):
    """30 games of 100 canaries at a claim that is exactly true; 1e-4 to fail in a true world."""
    loop = RIGHT[name]
    flagged = sum(loop.bound(100, seed) > loop.claim.epsilon for seed in range(30))
    assert flagged <= binom.isf(1e-4, 30, 0.05)


@pytest.mark.parametrize("name", ["the mean of the batch is clipped", "noise is divided by the batch size twice"])
def test_the_worst_mistakes_are_flagged_without_assuming_anything(name):
    loop = MISTAKES[name]
    assert loop.bound(2000, seed=2, family=False) > loop.claim.epsilon
