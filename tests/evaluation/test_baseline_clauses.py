"""Every clause by which an attack is judged against a blind score: what is said, and just when."""

import math

import numpy as np
import pytest
from scipy import stats

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


@pytest.mark.parametrize(
    ("changes", "is_beyond"),
    [
        ({}, False),
        ({"auc": (0.5, 0.6)}, False),
        ({"auc": (0.501, 0.6)}, True),
        ({"auc": (0.4, 0.5)}, False),
        ({"auc": (0.4, 0.499)}, True),
        ({"rate": (0.01, 0.2)}, False),
        ({"rate": (0.011, 0.2)}, True),
        ({"epsilon": 0.001}, True),
    ],
)
def test_an_attack_is_beyond_chance_by_its_auc_either_way_a_tpr_or_epsilon(changes, is_beyond):
    found = attack(**changes)
    assert comparison._is_beyond_chance(found, [RATE]) is is_beyond
    found.attack["tpr@fpr=0.2"] = interval(0.2, 0.3)
    assert comparison._is_beyond_chance(found, [RATE, "tpr@fpr=0.2"]) is is_beyond


def conclude(*attacks, confounded=False):
    named = {f"attack {i}": each for i, each in enumerate(attacks)}
    return comparison._conclude(named, {"auc": interval(0.4, 0.6)}, confounded, [RATE])


def test_a_leak_is_told_of_the_attack_with_the_largest_lower_bound_by_its_clearest_statistic():
    weak, strong = attack(leak=True, gain=(0.1, 0.3)), attack(leak=True, gain=(0.2, 0.3))
    answer, text = conclude(weak, strong, attack(gain=(0.4, 0.5)))
    assert answer == "leak found"
    assert text == (
        "Leak found: attack 1 tells members from non-members better than the blind score does; the AUC is larger by "
        f"{interval(0.2, 0.3)}."
    )
    by_rate = attack(leak=True, gain=(0.05, 0.3), rate_gain=(0.06, 0.2))
    assert "; the TPR (fpr=0.01) is larger by 0.1300 [0.0600, 0.2000]." in conclude(by_rate)[1]
    turned = attack(leak=True, gain=(-0.3, -0.1), rate_gain=(0.06, 0.2), reversed_gain=(0.07, 0.2))
    assert "; the AUC of the reversed score is larger by 0.1350 [0.0700, 0.2000]." in conclude(turned)[1]
    level = attack(leak=True, gain=(0.07, 0.2), reversed_gain=(0.07, 0.3))
    assert "; the AUC is larger by" in conclude(level)[1]
    assert conclude(weak, turned, confounded=True)[0] == "leak found"
    # Of several leaks the advantage and the reversed score count as well.
    by_advantage = attack(leak=True, gain=(0.01, 0.3), advantage_gain=(0.2, 0.3))
    assert conclude(weak, by_advantage)[1].startswith("Leak found: attack 1 ")
    assert conclude(attack(leak=True, gain=(-0.3, -0.1), reversed_gain=(0.11, 0.3)), weak)[1].startswith(
        "Leak found: attack 0 "
    )


def test_without_a_leak_a_split_that_the_blind_score_tells_apart_is_confounded():
    closest = attack(gain=(-0.01, 0.3))
    assert conclude(attack(), closest, confounded=True) == (
        "split is confounded",
        "The split is confounded: the blind score, which never saw the model, tells members from non-members (AUC "
        f"{interval(0.4, 0.6)}), and no attack is shown to add to it (AUC of attack 1 less that of the blind score: "
        f"{interval(-0.01, 0.3)}). Nothing that attacks found can be attributed to the model.",
    )


@pytest.mark.parametrize(
    ("attacks", "answer", "words"),
    [
        ([{}], "no leak found", "exceeds the blind score's by more than 0.100."),
        ([{"gain": (-0.1, 0.25)}], "no leak found", "by more than 0.250."),
        ([{"gain": (-0.1, 0.251)}], "too little data to say", "may exceed the blind score's by 0.251; 0.25, halfway"),
        ([{"reversed_gain": (-0.1, 0.26)}], "too little data to say", "by 0.260; 0.25, halfway"),
        ([{}, {"gain": (-0.1, 0.3)}], "too little data to say", "by 0.300; 0.25, halfway"),
        ([{"gain": (-0.1, 0.3)}, {}], "too little data to say", "by 0.300; 0.25, halfway"),
        ([{}, {"epsilon": 0.1}], "too little data to say", "does better than guessing, but not surely better"),
        ([{"auc": (0.51, 0.6)}, {}], "too little data to say", "AUC of attack 0 less that of the blind score"),
    ],
)
def test_no_leak_is_found_only_where_no_attack_beats_chance_or_could_gain_a_quarter(attacks, answer, words):
    found, text = conclude(*(attack(**each) for each in attacks))
    assert found == answer
    assert words in text


def compared(*attacks, confounded=False):
    named = {f"attack {i}": each for i, each in enumerate(attacks)}
    return BaselineComparison("no leak found", "", {}, 0.5, confounded, False, named, 0.95, 0.99)


@pytest.mark.parametrize(
    ("attacks", "statistic", "limit", "confounded", "ruling"),
    [
        ([{}], "auc", 0.1, False, "kept"),
        ([{}], "auc", 0.1, True, "undecided"),
        ([{}], "auc", 0.099, False, "undecided"),
        ([{}, {"gain": (-0.1, 0.2)}], "auc", 0.1, False, "undecided"),
        ([{"reversed_gain": (-0.1, 0.2)}], "auc", 0.1, False, "undecided"),
        ([{"reversed_gain": (-0.1, 0.7)}], "advantage", 0.5, False, "kept"),
        ([{"gain": (0.1, 0.2), "leak": True}], "auc", 0.1, False, "undecided"),
        ([{"gain": (0.11, 0.2), "leak": True}], "auc", 0.1, False, "broken"),
        ([{"gain": (0.11, 0.2), "leak": True}], "auc", 0.1, True, "broken"),
        ([{"gain": (0.11, 0.2), "leak": False}], "auc", 0.1, False, "undecided"),
        ([{}, {"gain": (0.11, 0.2), "leak": True}], "auc", 0.1, False, "broken"),
        ([{"leak": True}, {"gain": (0.11, 0.2)}], "auc", 0.1, False, "undecided"),
        ([{"reversed_gain": (0.1, 0.2), "leak": True}], "auc", 0.1, False, "undecided"),
        ([{"reversed_gain": (0.11, 0.2), "leak": True}], "auc", 0.1, False, "broken"),
        ([{"reversed_gain": (0.11, 0.2), "leak": False}], "auc", 0.1, False, "undecided"),
        ([{"reversed_gain": (0.7, 0.8), "leak": True}], "advantage", 0.5, False, "kept"),
        ([{}, {"reversed_gain": (0.11, 0.2), "leak": True}], "auc", 0.1, False, "broken"),
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


def leaks(result, rates):
    """The definition: a difference above zero that is also shown among records of similar blind score."""
    error = 1 - result.each
    return {
        name: (each.p_values["auc"] <= error and max(each.difference["auc"].low, each.reversed_difference.low) > 0)
        or any(each.p_values[rate] <= error and each.difference[rate].low > 0 for rate in rates)
        for name, each in result.attacks.items()
    }


def test_a_leak_takes_the_difference_and_similar_records_of_one_statistic():
    rng = np.random.default_rng(0)
    truth = np.arange(1200) < 500
    noise = rng.normal(size=1200)
    early = rng.normal(size=1200)
    early[:200] += 6.0
    attacks = {
        "noise": rng.normal(size=1200),
        "strong": rng.normal(size=1200) + 2 * truth,
        "turned": rng.normal(size=1200) - 3 * truth,
    }
    badly_ordered = -np.abs(noise + np.where(truth, rng.choice([-2.0, 2.0], 1200), 0.0))
    for blind, scores, levels, expected in (
        (noise + 0.7 * truth, attacks, [0.05], [False, True, True]),
        (np.exp(badly_ordered), {"better use": -badly_ordered}, [0.01, 0.05], [False]),
        (noise + 0.7 * truth, {"early": early}, [0.05], [True]),
    ):
        rates = [f"tpr@fpr={level}" for level in levels]
        result = against_baseline(scores, blind, truth, fpr=levels)
        assert {name: each.leak for name, each in result.attacks.items()} == leaks(result, rates)
        assert [each.leak for each in result.attacks.values()] == expected
        assert result.each == pytest.approx(1 - 0.05 / (len(scores) * (1 + len(rates))))
        used = -blind if result.flipped else blind
        groups = comparison._similar_record_groups(used)
        for name, values in scores.items():
            found = result.attacks[name]
            assert found.p_values["auc"] == max(
                comparison.stratified_rank_test(values, truth, groups),
                comparison.adjusted_rank_test(values, truth, groups, used),
            )
            for rate, share in zip(rates, levels, strict=True):
                assert found.p_values[rate] == max(
                    comparison.stratified_top_test(values, truth, groups, share),
                    comparison.adjusted_top_test(values, truth, groups, used, share),
                )
            assert found.reversed_difference == paired_difference(-values, used, truth, "auc", result.each)
    gain = found.difference
    assert gain["auc"].low < 0 < gain["tpr@fpr=0.05"].low


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


def test_groups_of_any_size_are_compared_within_and_those_of_one_kind_left_out():
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(14), [1, 2, 3, 4, 5, 6, 7, 8, 3, 4, 5, 6, 1, 9])
    blind, scores = groups + rng.random(len(groups)), rng.normal(size=len(groups)).round(1)
    truth = rng.random(len(groups)) < 0.5
    truth[groups == 7], truth[groups == 6] = True, False
    total = variance = freedom = rank_total = rank_variance = 0.0
    for group in range(14):
        rows = groups == group
        n, inside = int(rows.sum()), truth[rows] * 1.0
        if inside.min() == inside.max():
            continue
        ranks = stats.rankdata(scores[rows])
        rank_total += ((ranks - (n + 1) / 2) * inside).sum() / (n + 1)
        rank_variance += inside.sum() * (n - inside.sum()) / n * ranks.var(ddof=1) / (n + 1) ** 2
        powers = np.vander(stats.rankdata(blind[rows]) - (n + 1) / 2, 3)
        hat = powers @ np.linalg.pinv(powers, rcond=1e-9)
        left = n - np.linalg.matrix_rank(powers)
        if left:
            x, y = (values - hat @ values for values in (ranks, inside))
            total += x @ y / (n + 1)
            variance += (x @ x) * (y @ y) / left / (n + 1) ** 2
            freedom += left
    assert comparison.stratified_rank_test(scores, truth, groups) == pytest.approx(
        2 * stats.norm.sf(abs(rank_total) / math.sqrt(rank_variance))
    )
    assert comparison.adjusted_rank_test(scores, truth, groups, blind) == pytest.approx(
        2 * stats.t.sf(abs(total) / math.sqrt(variance), freedom), rel=1e-6
    )


def test_a_group_of_one_kind_says_nothing_of_its_best():
    scores, groups = np.arange(12.0), np.repeat([0, 1, 2], 4)
    certain = np.repeat([False, False, True], 4)
    assert comparison.stratified_top_test(scores, certain, groups, 0.25) == 1.0
    assert comparison.stratified_rank_test(scores, certain, groups) == 1.0
    assert comparison.adjusted_rank_test(scores, certain, groups, scores) == 1.0
    # Of the five best, four are of a group of members alone; one of four of the other group is a member.
    mixed = np.r_[np.zeros(4, bool), [False, False, False, True], np.ones(4, bool)]
    assert comparison.stratified_top_test(scores, mixed, groups, 5 / 12) == pytest.approx(1 / 4)
    missed = np.r_[np.zeros(4, bool), [True, False, False, False], np.ones(4, bool)]
    assert comparison.stratified_top_test(scores, missed, groups, 5 / 12) == pytest.approx(1.0)


def test_the_normal_law_of_many_groups_has_the_moments_of_the_exact_one(monkeypatch):
    rng = np.random.default_rng(6)
    groups, truth = np.repeat(np.arange(40), 6), rng.random(240) < 0.4
    scores = rng.normal(size=240) + 0.3 * truth
    best = comparison._select_best(scores, 0.3)
    assert best.sum() == 72
    mean = variance = hits = informative = 0.0
    for group in range(40):
        inside, first = truth[groups == group], best[groups == group]
        n, m, k = 6, int(inside.sum()), int(first.sum())
        if m in (0, n) or not k:
            continue
        law = stats.hypergeom(n, m, k)
        mean, variance, hits = mean + law.mean(), variance + law.var(), hits + (inside & first).sum()
        informative += 1
    monkeypatch.setattr(comparison, "_MAX_EXACT_GROUPS", informative)
    exact = comparison.stratified_top_test(scores, truth, groups, 0.3)
    monkeypatch.setattr(comparison, "_MAX_EXACT_GROUPS", informative - 1)
    found = comparison.stratified_top_test(scores, truth, groups, 0.3)
    assert found == pytest.approx(stats.norm.sf((hits - 0.5 - mean) / math.sqrt(variance)))
    assert exact != found
    assert exact == pytest.approx(found, abs=0.02)

    residuals, _ = comparison._relative_to_parabolas(truth[:, None] * 1.0, groups, np.full(40, 6), scores)
    chances = np.clip(truth - residuals[:, 0], 0, 1)[best]
    for limit in (72, 71):
        monkeypatch.setattr(comparison, "_MAX_EXACT_GROUPS", limit)
        p_value = comparison.adjusted_top_test(scores, truth, groups, scores, 0.3)
        spread = math.sqrt((chances * (1 - chances)).sum())
        normal = stats.norm.sf(((best & truth).sum() - 0.5 - chances.sum()) / spread)
        assert (p_value == pytest.approx(normal)) == (limit == 71)


def test_the_best_share_is_rounded_down_and_leaves_out_those_that_tie_with_the_next():
    scores = np.array([5.0, 3.0, 3.0, 2.0, 1.0, 1.0])
    assert np.flatnonzero(comparison._select_best(scores, 0.2)).tolist() == [0]
    assert np.flatnonzero(comparison._select_best(scores, 2.9 / 6)).tolist() == [0]
    assert np.flatnonzero(comparison._select_best(scores, 3 / 6)).tolist() == [0, 1, 2]
    assert np.flatnonzero(comparison._select_best(scores, 0.1)).tolist() == []
    assert np.flatnonzero(comparison._select_best(scores, 1.0)).tolist() == [0, 1, 2, 3]
    assert np.flatnonzero(comparison._select_best(scores[:4], 1.0)).tolist() == [0, 1, 2]
    groups = comparison._similar_record_groups(np.arange(25.0))
    assert np.bincount(groups.astype(int)).tolist() == [10, 10, 5]
    assert len(set(comparison._similar_record_groups(np.repeat([0.0, 1.0], [13, 40])))) == 2
    # Two that tie for the tenth and the eleventh place are of the second group.
    tied = np.r_[np.arange(9.0), 9.0, 9.0, np.arange(10.0, 19.0)]
    assert np.bincount(comparison._similar_record_groups(tied).astype(int)).tolist() == [9, 11]
