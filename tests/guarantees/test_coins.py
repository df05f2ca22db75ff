"""Bounds from one run rest on fair coins: how often fair ones are refused, and what unfair ones prove of nothing."""

import numpy as np
import pytest

import divulge as dv
from divulge.evaluation import epsilon_one_run
from divulge.evaluation.epsilon import require_fair_coins


def is_refused(members, sides):
    try:
        require_fair_coins(members, sides)
    except dv.InputError:
        return True
    return False


@pytest.mark.parametrize("n", [10, 100, 1000])
@pytest.mark.parametrize(("sides", "most"), [("both", 0), ("in", 8)])
def test_fair_coins_are_seldom_refused(sides, most, n):
    """2,000 games; where all guesses say "member" 2 are refused on average at most, and 9 have a chance of .0002."""
    rng = np.random.default_rng(n)
    assert sum(is_refused(rng.random(n) < 0.5, sides) for _ in range(2000)) <= most


@pytest.mark.parametrize("sides", ["both", "in"])
def test_a_model_that_knows_nothing_spends_nothing_although_more_records_were_used_than_not(sides):
    """Six of ten of 400 records are members, and scores are noise: a bound or a refusal.

    At a level of 1e-9, as for both sides, each of these audits proves an ε where all guesses say "member".
    """
    n_proven = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        members = rng.permutation(400) < 240
        if is_refused(members, sides):
            with pytest.raises(dv.InputError, match="240 of 400 is no draw of fair coins"):
                epsilon_one_run(rng.normal(size=400), members, sides=sides)
        else:
            n_proven += epsilon_one_run(rng.normal(size=400), members, sides=sides).low > 0
    assert n_proven <= 12  # 13 of 100 have a chance of .001 where 5 % may be
