"""Attacks against a blind score: the tests among equals by hand, the gate, and what is refused."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import divulge as dv
from divulge.evaluation import against_baseline, auc, comparison, measure, paired_difference


def similar(blind):
    """Ten neighbours in the blind score at a time."""
    return (stats.rankdata(blind, method="ordinal") - 1) // 10


def van_elteren(scores, members, groups):
    """The stratified rank-sum test by its definition, with mid-ranks and weights 1 / (size + 1)."""
    total = expected = variance = 0.0
    for group in np.unique(groups):
        rows = groups == group
        ranks, inside = stats.rankdata(scores[rows]), members[rows]
        n, m = len(ranks), int(inside.sum())
        if m in (0, n):
            continue
        total += ranks[inside].sum() / (n + 1)
        expected += m / 2
        variance += m * (n - m) / n * ranks.var(ddof=1) / (n + 1) ** 2
    return 1.0 if variance == 0 else float(2 * stats.norm.sf(abs(total - expected) / math.sqrt(variance)))


def test_among_equals_is_van_elterens_test():
    rng = np.random.default_rng(0)
    for scores in (rng.normal(size=60), np.round(rng.normal(size=60)), np.zeros(60)):
        blind, members = rng.normal(size=60), rng.random(60) < 0.4
        groups = similar(blind)
        want = van_elteren(scores, members, groups)
        assert math.isclose(comparison.stratified_rank_test(scores, members, groups), want, rel_tol=1e-9)


def test_best_among_equals_counts_every_division():
    rng = np.random.default_rng(1)
    groups, scores = np.repeat([0.0, 1.0, 2.0], [4, 4, 3]), rng.permutation(11.0 * np.arange(11))
    for members in ([0, 1, 4, 8], [2, 3, 5, 6], [0, 8, 9, 10]):
        truth = np.isin(np.arange(11), members)
        best = scores > np.sort(scores)[::-1][3]
        inside = [np.flatnonzero(groups == group) for group in range(3)]
        divisions = [itertools.combinations(rows, int(truth[rows].sum())) for rows in inside]
        counts = [sum(best[list(rows)].sum() for rows in division) for division in itertools.product(*divisions)]
        want = np.mean(np.array(counts) >= (best & truth).sum())
        assert math.isclose(comparison.stratified_top_test(scores, truth, groups, 3 / 11), want, rel_tol=1e-9)


def less_parabola(values, blind):
    """Values less their fit by a parabola in the rank of the blind score, and the degrees of freedom left."""
    ranks = stats.rankdata(blind)
    columns = np.vander(ranks - ranks.mean(), 3)
    fit = columns @ np.linalg.lstsq(columns, values, rcond=1e-9)[0]
    return np.round(values - fit, 8), len(values) - np.linalg.matrix_rank(columns)


def adjusted_rank_sums(scores, members, groups, blind):
    """The test among similar records with the rest of the blind score taken out, group by group."""
    total = variance = freedom = 0.0
    for group in np.unique(groups):
        rows = groups == group
        inside = members[rows] * 1.0
        ranks, residual_df = less_parabola(stats.rankdata(scores[rows]), blind[rows])
        if inside.min() == inside.max() or not residual_df:
            continue
        inside, _ = less_parabola(inside, blind[rows])
        total += ranks @ inside / (len(ranks) + 1)
        variance += (ranks @ ranks) * (inside @ inside) / residual_df / (len(ranks) + 1) ** 2
        freedom += residual_df
    return 1.0 if variance == 0 else float(2 * stats.t.sf(abs(total) / math.sqrt(variance), freedom))


def test_among_similar_records_the_rest_of_the_blind_score_is_taken_out():
    rng = np.random.default_rng(8)
    for blind in (rng.normal(size=64), np.round(2 * rng.normal(size=64)), np.zeros(64)):
        groups, members = similar(blind), rng.random(64) < 0.4
        for scores in (rng.normal(size=64), np.round(rng.normal(size=64)), blind, blind**2, np.zeros(64)):
            want = adjusted_rank_sums(scores, members, groups, blind)
            result = comparison.adjusted_rank_test(scores, members, groups, blind)
            assert math.isclose(result, want, rel_tol=1e-6)
    assert comparison.adjusted_rank_test(blind, members, groups, blind) == 1.0


def test_best_among_similar_records_are_members_as_often_as_the_blind_score_says():
    rng = np.random.default_rng(9)
    blind, scores, members = rng.normal(size=43), rng.normal(size=43), rng.random(43) < 0.5
    groups = similar(blind)
    chance = np.empty(43)
    for group in np.unique(groups):
        rows = groups == group
        chance[rows] = np.clip(members[rows] - less_parabola(members[rows] * 1.0, blind[rows])[0], 0, 1)
    best = scores > np.sort(scores)[::-1][8]
    hits = (best & members).sum()
    want = sum(
        np.prod(np.where(case, chance[best], 1 - chance[best]))
        for case in itertools.product([True, False], repeat=8)
        if sum(case) >= hits
    )
    assert math.isclose(comparison.adjusted_top_test(scores, members, groups, blind, 0.2), want, rel_tol=1e-6)
    assert comparison.adjusted_top_test(np.zeros(43), members, groups, blind, 0.2) == 1.0


def test_measure_with_a_baseline_is_the_paired_difference():
    rng, members = np.random.default_rng(3), np.arange(300) < 150
    scores, blind = rng.normal(size=300) + members, rng.normal(size=300)
    for statistic in ("auc", "tpr@fpr=0.05", "advantage"):
        want = paired_difference(scores, blind, members, statistic)
        values = measure(scores, members, statistic, baseline=blind)
        assert values == want
        assert values.value == pytest.approx(
            measure(scores, members, statistic).value - measure(blind, members, statistic).value
        )
        assert values.low <= values.value <= values.high
    with pytest.raises(dv.InputError, match="'epsilon' from below only, so it has no difference from a baseline"):
        measure(scores, members, "epsilon", baseline=blind)


def test_gate_holds_the_difference_to_a_limit():
    rng, members = np.random.default_rng(4), np.arange(2000) < 1000
    noise, blind = rng.normal(size=2000), rng.normal(size=2000)
    fair = against_baseline(noise, blind, members)
    assert fair.answer == "no leak found"
    assert [fair.rule("auc", limit) for limit in (0.0, 0.01, 0.2)] == ["undecided", "undecided", "kept"]
    leak = against_baseline({"none": noise, "strong": noise + members}, blind, members)
    assert leak.answer == "leak found"
    assert "strong" in leak.text
    assert [leak.rule("auc", limit) for limit in (0.0, 0.1, 0.9)] == ["broken", "broken", "kept"]
    confounded = against_baseline(blind + members, blind + members, members)
    assert confounded.answer == "split is confounded"
    assert confounded.rule("auc", 0.5) == "undecided"  # never kept: an attack has no room to show anything
    with pytest.raises(dv.InputError, match="statistic"):
        fair.rule("epsilon", 0.1)


def test_attack_the_wrong_way_round_is_a_leak_all_the_same():
    rng, members = np.random.default_rng(5), np.arange(1000) < 500
    result = against_baseline(rng.normal(size=1000) - members, rng.normal(size=1000), members)
    assert result.answer == "leak found"
    assert "reversed" in result.text
    assert result.rule("auc", 0.1) == "broken"


def test_blind_score_the_wrong_way_round_is_turned():
    rng, members = np.random.default_rng(6), np.arange(1000) < 500
    blind = rng.normal(size=1000) + members
    result = against_baseline(blind, -blind, members)
    assert result.flipped
    assert result.blind["auc"] == auc(blind, members, result.each)
    assert result.attacks["attack"].difference["auc"].value == 0
    assert result.answer == "split is confounded"


def test_row_order_and_units_of_the_blind_score_change_nothing():
    rng, members = np.random.default_rng(7), np.arange(400) < 150
    blind = rng.normal(size=400) + members
    scores, order = np.round(blind + rng.normal(size=400), 1), rng.permutation(400)
    expected = against_baseline(scores, blind, members)
    repeat = against_baseline(scores[order], 1e9 * np.exp(blind[order]), members[order])
    assert (expected.answer, expected.text, expected.blind) == (repeat.answer, repeat.text, repeat.blind)
    assert dict(expected.attacks["attack"].p_values) == pytest.approx(dict(repeat.attacks["attack"].p_values))


@pytest.mark.parametrize(
    ("scores", "blind", "members", "message"),
    [
        ({}, [1.0, 2.0], [True, False], "scores: at least 1 attack"),
        ([1.0, 2.0], [1.0], [True, False], "members: 1 values are needed"),
        ({"a": [1.0]}, [1.0, 2.0], [True, False], r"members: 1 values are needed|scores\['a'\]"),
        ([1.0, 2.0], [1.0, np.nan], [True, False], "baseline"),
        ([np.inf, 2.0], [1.0, 2.0], [True, False], "scores"),
        ([1.0, 2.0], [1.0, 2.0], [True, True], "at least 1 member and 1 non-member"),
    ],
)
def test_bad_input_is_refused_by_name(scores, blind, members, message):
    with pytest.raises(dv.InputError, match=message):
        against_baseline(scores, blind, members)
