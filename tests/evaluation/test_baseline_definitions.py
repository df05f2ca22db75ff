"""Attacks against a blind score: rulings, leaks and differences by their definitions."""

import math

import numpy as np
import pytest

from divulge import statistics
from divulge.errors import InputError
from divulge.evaluation import advantage, against_baseline, comparison, epsilon_lower_bound, paired_difference
from divulge.evaluation.comparison import AttackDifference, BaselineComparison
from divulge.types import Estimate

RATE = "tpr@fpr=0.01"


def interval(low, high, value=None):
    return Estimate((low + high) / 2 if value is None else value, low, high, 0.95, "by hand")


def attack(
    *, auc=(0.4, 0.6), rate=(0.0, 0.1), epsilon=0.0, gain=(-0.1, 0.1), reversed_gain=(-0.1, 0.1),
    advantage_gain=(-0.5, 0.5), rate_gain=(-0.05, 0.05), leak=False,
):  # fmt: skip
    return AttackDifference(
        {"auc": interval(*auc), RATE: interval(*rate), "epsilon": interval(epsilon, math.inf, epsilon)},
        {"auc": interval(*gain), "advantage": interval(*advantage_gain), RATE: interval(*rate_gain)},
        interval(*reversed_gain), {}, leak,
    )  # fmt: skip


def compared(*attacks, confounded=False):
    named = {f"attack {i}": each for i, each in enumerate(attacks)}
    return BaselineComparison("no leak found", "", {}, 0.5, confounded, False, named, 0.95, 0.99)


@pytest.mark.parametrize(
    ("attacks", "statistic", "limit", "confounded", "ruling"),
    [
        ([{}], "auc", 0.1, False, "kept"),
        ([{}], "auc", 0.1, True, "undecided"),
        ([{}], "auc", 0.099, False, "undecided"),
        ([{"reversed_gain": (-0.1, 0.2)}], "auc", 0.1, False, "undecided"),
        ([{"reversed_gain": (-0.1, 0.7)}], "advantage", 0.5, False, "kept"),
        ([{"gain": (0.1, 0.2), "leak": True}], "auc", 0.1, False, "undecided"),
        ([{"gain": (0.11, 0.2), "leak": True}], "auc", 0.1, False, "broken"),
        ([{"gain": (0.11, 0.2), "leak": False}], "auc", 0.1, False, "undecided"),
        ([{}, {"gain": (0.11, 0.2), "leak": True}], "auc", 0.1, False, "broken"),
        ([{"reversed_gain": (0.11, 0.2), "leak": True}], "auc", 0.1, False, "broken"),
        ([{"reversed_gain": (0.7, 0.8), "leak": True}], "advantage", 0.5, False, "kept"),
        ([{"rate_gain": (0.02, 0.05), "leak": True}], RATE, 0.01, False, "broken"),
        ([{}], RATE, 0.05, False, "kept"),
    ],
)
def test_a_limit_is_broken_by_an_interval_above_it_and_kept_where_all_lie_within(
    attacks, statistic, limit, confounded, ruling
):
    result = compared(*(attack(**each) for each in attacks), confounded=confounded)
    assert result.rule(statistic, limit) == ruling


@pytest.mark.parametrize("limit", [-0.01, 1.01, math.nan])
def test_a_limit_is_a_difference_from_zero_to_one(limit):
    for end in (0.0, 1.0):
        assert compared(attack()).rule("auc", end) == ("kept" if end else "undecided")
    with pytest.raises(InputError, match="limit"):
        compared(attack()).rule("auc", limit)


def test_a_rate_is_compared_once_and_only_where_so_many_nonmembers_resolve_it():
    rng = np.random.default_rng(1)
    scores, blind = rng.normal(size=(2, 149))
    for others, rates in ((99, ["tpr@fpr=0.01", "tpr@fpr=0.1"]), (98, ["tpr@fpr=0.1"])):
        truth = np.arange(149) >= others
        result = against_baseline(scores, blind, truth, fpr=[0.01, 0.1, 0.1], confidence=0.9)
        assert list(result.attacks["attack"].p_values) == ["auc", *rates]
        assert list(result.blind) == ["auc", "advantage", *rates, "epsilon"]
        assert result.each == pytest.approx(1 - 0.1 / (1 + len(rates)))
        assert [each.confidence for each in result.blind.values()] == pytest.approx([result.each] * len(result.blind))


def early_members(rng):
    blind = rng.normal(size=3000)
    blind[:60] = 10.0  # of 1,500 members a few stand first; the whole differs hardly
    return blind


@pytest.mark.parametrize(
    ("blind", "clause"),
    [
        (lambda rng, truth: rng.normal(size=3000), None),
        (lambda rng, truth: rng.normal(size=3000) * np.where(truth, 0.7, 1.0), "distribution"),
        (lambda rng, truth: rng.normal(size=3000) + 0.3 * truth, "auc"),
        (lambda rng, truth: rng.normal(size=3000) - 0.3 * truth, "flipped"),
        (lambda rng, truth: early_members(rng), "early"),
    ],
)
def test_a_split_is_confounded_by_any_way_in_which_the_blind_score_tells_members(blind, clause):
    rng = np.random.default_rng(2)
    truth = np.arange(3000) < 1500
    values = blind(rng, truth)
    result = against_baseline(rng.normal(size=3000), values, truth, fpr=[0.01])
    p_value = statistics.two_sample_p_value(values[~truth], values[truth])
    assert result.blind_p_value == p_value
    area = statistics.auc(values, truth, 1 - 0.05 / 4)
    found = {
        "distribution": p_value <= 0.025,
        "auc": area.low > 0.5,
        "flipped": area.high < 0.5,
        "early": comparison.measure(values, truth, RATE, 1 - 0.05 / 4).low > 0.01,
    }
    assert clause is None or found[clause]
    assert result.confounded == any(found.values())
    assert result.flipped == found["flipped"]
    if clause in (None, "distribution", "early"):
        assert [name for name, holds in found.items() if holds] == ([clause] if clause else [])


def test_a_difference_of_advantages_takes_two_intervals_at_half_the_error():
    rng = np.random.default_rng(3)
    truth = np.arange(400) < 150
    a, b = rng.normal(size=400) + truth, rng.normal(size=400) + 0.3 * truth
    found = paired_difference(a, b, truth, "advantage", 0.9)
    first, second = advantage(a, truth, 0.95), advantage(b, truth, 0.95)
    assert (found.value, found.low, found.high) == pytest.approx(
        (first.value - second.value, first.low - second.high, first.high - second.low)
    )
    assert (found.confidence, found.method) == (pytest.approx(0.9), comparison.SEPARATE)
    with pytest.raises(InputError, match="'auc', 'advantage' or 'tpr@fpr=…'"):
        comparison.measure(a, truth, "epsilon", baseline=b)
    assert comparison.measure(a, truth, "epsilon", 0.9) == epsilon_lower_bound(a, truth, confidence=0.9)


@pytest.mark.parametrize(
    ("members", "others", "constant"),
    [
        ([3, 1, 4, 2], [0.5, 2.5, 1.5], False), ([2.7], [0, 1, 2], False), ([5, 6], [1, 2, 3], False),
        ([3, 1, 4, 2], [0.5, 2.5, 1.5], True),
    ],
)  # fmt: skip
def test_a_difference_of_aucs_combines_two_intervals_by_their_correlation(members, others, constant):
    """Zou & Donner 2008; the correlation is 0 where a variance is unknown."""
    rng = np.random.default_rng(4)
    truth = np.arange(len(members) + len(others)) < len(members)
    a = np.array([*members, *others], float)
    b = 0 * a if constant else rng.permutation(a)
    placed = [statistics.placements_per_record(*statistics.placements_from_scores(x, truth), truth) for x in (a, b)]
    ends = [statistics.auc(x, truth, 0.9) for x in (a, b)]
    (v1, w1), (v2, w2), (v12, w12) = (
        statistics.placement_covariance(placed[i], placed[j], 0.5) for i, j in ((0, 0), (1, 1), (0, 1))
    )
    known = np.isfinite(v1 + w1 + v2 + w2) and v1 + w1 > 0 and v2 + w2 > 0
    correlation = (v12 + w12) / math.sqrt((v1 + w1) * (v2 + w2)) if known else 0.0
    found = paired_difference(a, b, truth, "auc", 0.9)
    for first, second, sign, gap, end in (
        (ends[0], ends[1], 1, placed[1] - placed[0], found.low),
        (ends[1], ends[0], -1, placed[0] - placed[1], -found.high),
    ):
        down, up = first.value - first.low, second.high - second.value
        reach = math.sqrt(max(down**2 + up**2 - 2 * correlation * down * up, 0.0))
        furthest = statistics.widen_for_ties(np.array(float(gap.value) + reach), gap, gap.repeated, 1.0, 0.05)
        assert sign * (ends[0].value - ends[1].value) == pytest.approx(-float(gap.value))
        assert end == pytest.approx(-min(float(furthest), 1.0))
