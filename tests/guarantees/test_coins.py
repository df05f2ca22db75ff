"""Bounds from one run rest on fair coins: how often fair ones are refused, and what unfair ones prove of nothing."""

import numpy as np
import pytest

import divulge as dv
from divulge.evaluation import GaussianMechanism, epsilon_one_run, smallest_violation
from divulge.evaluation.epsilon import require_fair_coins
from divulge.evaluation.families import largest


def is_refused(members):
    try:
        require_fair_coins(members)
    except dv.InputError:
        return True
    return False


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_fair_coins_are_never_refused(n):
    """2,000 games, each refused with a chance below 1e-9."""
    rng = np.random.default_rng(n)
    assert not any(is_refused(rng.random(n) < 0.5) for _ in range(2000))


def test_memberships_that_no_fair_coins_give_are_refused():
    with pytest.raises(dv.InputError, match="300 of 400 is no draw of fair coins"):
        epsilon_one_run(np.arange(400.0), np.arange(400) < 300)


@pytest.mark.parametrize(
    ("sides", "share", "ties"),
    [
        ("in", 0.45, False),
        ("in", 0.5, True),
        ("in", 0.55, False),
        ("in", 0.58, True),
        ("both", 0.5, False),
        ("both", 0.55, True),
    ],
)
def test_a_model_that_knows_nothing_spends_nothing_whatever_share_of_records_was_used(sides, share, ties):
    """200 games of 400 records whose scores are noise; 5 % may prove an ε above 0, and 21 of 200 have a chance of .001.

    With a share of .55 an ε was "proven" in 59 of 200 where all guesses say "member", before guesses that are right by
    the share alone counted as wrong. Ties at the top leave guesses of "non-member" alone.
    """
    n_proven = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        members, scores = rng.random(400) < share, rng.normal(size=400)
        n_proven += epsilon_one_run(np.minimum(scores, 0.0) if ties else scores, members, sides=sides).low > 0
    assert n_proven <= 20


@pytest.mark.parametrize(("epsilon", "share"), [(0.3, 0.53), (1.0, 0.5), (2.0, 0.55)])
def test_a_signal_of_members_alone_proves_no_more_than_it_spends(epsilon, share):
    """200 games of 400 records: a member is marked with a chance of .5, others e^ε times less often."""
    n_wrong = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        members = rng.random(400) < share
        marked = rng.random(400) < np.where(members, 0.5, 0.5 * np.exp(-epsilon))
        n_wrong += epsilon_one_run(marked + rng.random(400) / 2, members, sides="in", guesses=100).low > epsilon
    assert n_wrong <= 20


@pytest.mark.parametrize(("n", "claimed"), [(100, 0.5), (400, 2.0)])
def test_a_violation_that_is_said_to_be_seen_in_80_percent_is_seen_where_all_guesses_say_member(n, claimed):
    """200 games of the Gaussian mechanism that is named; fewer than 142 of 200 have a chance of .001 at 80 %."""
    named = smallest_violation(n, claimed, 1e-5, sides="in")
    strength = largest(lambda strength: GaussianMechanism().epsilon(strength, 1e-5) <= named.epsilon)
    seen = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        members = rng.random(n) < 0.5
        seen += epsilon_one_run(rng.normal(size=n) + strength * members, members, 1e-5, sides="in").low > claimed
    assert seen >= 142


def test_the_method_says_what_is_counted_as_wrong():
    methods = {
        sides: epsilon_one_run(np.arange(100.0), np.arange(100) % 2 == 0, sides=sides).method
        for sides in ("in", "both")
    }
    assert "less the guesses that the share of members makes right" in methods["in"]
    assert "share" not in methods["both"]


def test_calling_every_record_a_member_proves_nothing():
    members = np.random.default_rng(0).random(400) < 0.55
    assert epsilon_one_run(np.arange(400.0), members, sides="in", guesses=400).low == 0
    assert smallest_violation(8, 0.1, 1e-5, sides="in") is None  # too few for half of them to be guessed
