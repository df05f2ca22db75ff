"""Lower bounds on ε: right under no leakage, sharp under leakage."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

import divulge as dv
from divulge.evaluation import epsilon

STRATEGIES = [*epsilon.STRATEGIES, "one run"]


def bound(strategy, values, members, seed, delta=0.0):
    if strategy == "one run":
        return dv.evaluation.epsilon_one_run(values, members, delta).low
    return dv.evaluation.epsilon_lower_bound(values, members, delta, strategy=strategy, seed=seed).low


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bounds_stay_below_the_true_epsilon(strategy):
    """Randomised response at ε = 1 with blurred answers; wrong in at most 5 % of 300 runs."""
    rng = np.random.default_rng(14)
    wrong, bounds = 0, []
    for i in range(300):
        members = rng.random(400) < 0.5
        guesses = np.where(rng.random(400) < math.e / (1 + math.e), members, ~members)
        bounds.append(bound(strategy, guesses + 0.1 * rng.random(400), members, i))
        wrong += bounds[-1] > 1
    assert wrong / 300 <= 0.05 + 4 * (0.05 * 0.95 / 300) ** 0.5
    assert np.mean(bounds) > 0.3


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_delta_is_paid_for(strategy):
    """A mechanism that gives away 5 % of members and nothing else is (0, 0.05)-DP."""
    rng = np.random.default_rng(15)
    wrong = 0
    for i in range(200):
        members = rng.random(600) < 0.5
        values = np.where(members & (rng.random(600) < 0.05), 10.0, rng.normal(size=600))
        wrong += bound(strategy, values, members, i, delta=0.05) > 0
    assert wrong / 200 <= 0.05 + 4 * (0.05 * 0.95 / 200) ** 0.5


def test_golden_perfect_separation():
    members = np.arange(2000) < 1000
    bound = dv.evaluation.epsilon_lower_bound(members.astype(float), members)
    # 20 thresholds, two bounds each: (1 - u)/u with u = 1 - (α/40)^(1/1000).
    u = 1 - (0.05 / 40) ** (1 / 1000)
    assert bound.low == bound.value == pytest.approx(math.log((1 - u) / u))
    assert bound.high == math.inf


def test_leaks_at_the_lower_end_count_too():
    rng = np.random.default_rng(16)
    members = np.arange(2000) < 1000
    values = np.where(~members & (rng.random(2000) < 0.3), -10.0, rng.normal(size=2000))
    assert dv.evaluation.epsilon_lower_bound(values, members).low > 2.5


def test_strategies_agree_on_what_is_there():
    rng = np.random.default_rng(17)
    members = np.arange(4000) < 2000
    values = rng.normal(size=4000) + 2 * members
    best = np.log(ndtr(2 - 3) / ndtr(-3.0))
    for strategy in epsilon.STRATEGIES:
        assert 1.5 < dv.evaluation.epsilon_lower_bound(values, members, strategy=strategy).low < best + 1.5


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("epsilon_lower_bound", {"delta": 1.0}, "delta: must lie"),
        ("epsilon_lower_bound", {"delta": -0.1}, "delta: must lie"),
        ("epsilon_lower_bound", {"strategy": "splits"}, "did you mean 'split'"),
        ("epsilon_one_run", {"guesses": 0}, "guesses: must be at least 1"),
        ("epsilon_one_run", {"guesses": 9}, "guesses: must be at most 4"),
    ],
)
def test_bad_input_is_named(name, kwargs, message):
    with pytest.raises(dv.InputError, match=message):
        getattr(dv.evaluation, name)([1.0, 2.0, 3.0, 4.0], [True, False, True, False], **kwargs)


def test_any_bound_above_zero_says_whose_it_is():
    members = np.arange(400) < 200
    for turned, says in ((1, "sure members"), (-1, "sure non-members")):
        # Twenty-six records of one kind lie beyond all others, and nothing else differs.
        beyond = np.r_[np.arange(26) + 1000, np.arange(174), np.arange(200) + 0.5]
        values = beyond if turned > 0 else -beyond[::-1]
        bound = dv.evaluation.epsilon_lower_bound(values, members)
        assert 0 < bound.low < 1
        assert says in bound.method
