"""Subgroups, single records, decisions, and what could have been seen."""

import numpy as np
import pytest
from scipy.special import ndtri

import divulge as dv


def test_rates_count_what_they_say():
    selected = np.array([True] * 30 + [False] * 70 + [True] * 10 + [False] * 90)
    members = np.arange(200) < 100
    rates = dv.evaluation.rates(selected, members)
    assert (rates.tpr.value, rates.fpr.value) == (0.3, 0.1)
    assert (rates.precision.value, rates.accuracy.value) == (0.75, 0.6)
    nothing = dv.evaluation.rates(np.zeros(3, bool), np.zeros(3, bool))
    assert nothing.tpr is None
    assert nothing.precision is None
    with pytest.raises(dv.InputError, match="members: 200 values are needed"):
        dv.evaluation.rates(selected, members[1:])


def test_subgroups_share_one_threshold_and_partition_the_table():
    rng = np.random.default_rng(0)
    members, groups = np.arange(3000) < 1500, rng.choice(["a", "b", "c"], 3000)
    values = rng.normal(size=3000) + members * (groups == "b") * 2.0
    rows = dv.evaluation.subgroups(values, members, groups, fpr=0.05)
    assert [row.group for row in rows] == ["a", "b", "c"]
    assert sum(row.members for row in rows) == 1500
    overall_tpr = dv.evaluation.tpr_at_fpr(values, members, 0.05).value
    assert sum(row.tpr.value * row.members for row in rows) / 1500 == pytest.approx(overall_tpr)
    assert rows[1].auc.low > 0.5
    assert rows[1].tpr.low > rows[0].tpr.high
    simultaneous_rows = dv.evaluation.subgroups(values, members, groups, fpr=0.05, simultaneous=True)
    assert simultaneous_rows[0].auc.high > rows[0].auc.high
    assert simultaneous_rows[0].auc.confidence == pytest.approx(1 - 0.05 / 3)


def test_a_group_without_members_has_no_tpr():
    rows = dv.evaluation.subgroups(np.arange(6.0), np.arange(6) > 3, [0, 0, 0, 1, 1, 1], fpr=0.5)
    assert rows[0].group == 0
    assert rows[0].tpr is None
    assert rows[0].auc is None
    assert rows[0].fpr is not None
    group_rows = dv.evaluation.subgroups(np.arange(6.0), np.arange(6) > 3, np.array(list("aaabbb"), object), fpr=0.5)
    assert [row.group for row in group_rows] == ["a", "b"]
    with pytest.raises(dv.InputError, match="groups: 6 values are needed"):
        dv.evaluation.subgroups(np.arange(6.0), np.arange(6) > 3, [0, 1], fpr=0.5)


def test_most_exposed_are_members_only_in_an_order_that_rows_do_not_change():
    rng = np.random.default_rng(1)
    values, members, ids = rng.integers(0, 5, 50).astype(float), rng.random(50) < 0.5, np.arange(100, 150)
    ranking = dv.evaluation.most_exposed(values, members, ids, k=7)
    expected = sorted((-v, i) for v, i in zip(values[members], ids[members], strict=True))[:7]
    assert [(-e.score, e.id) for e in ranking] == expected
    order = rng.permutation(50)
    assert dv.evaluation.most_exposed(values[order], members[order], ids[order], k=7) == ranking
    top = ranking[0]
    assert top.nonmembers_as_high.value == (values[~members] >= top.score).mean()
    assert len(dv.evaluation.most_exposed(values, members, k=1000)) == members.sum()
    words = np.array([f"r{i}" for i in ids], object)
    assert [e.id for e in dv.evaluation.most_exposed(values, members, words, k=7)] == [f"r{e.id}" for e in ranking]


def test_the_smallest_detectable_leak_is_detected_as_often_as_promised():
    """Power 80 %, 400 draws, four standard errors."""
    rng = np.random.default_rng(2)
    m, n, level = 300, 400, 0.05
    result = dv.evaluation.smallest_detectable(m, n, level)
    members = np.arange(m + n) < m
    detected = np.zeros((400, 2), bool)
    for i in range(400):
        noise = rng.normal(size=m + n)
        auc = dv.evaluation.auc(noise + members * 2**0.5 * ndtri(result.auc), members)
        tpr = dv.evaluation.tpr_at_fpr(noise + members * (ndtri(result.tpr) - ndtri(level)), members, level)
        detected[i] = auc.low > 0.5, tpr.low > level
    np.testing.assert_allclose(detected.mean(0), 0.8, atol=4 * (0.16 / 400) ** 0.5)


def test_tiny_sets_can_see_nothing():
    result = dv.evaluation.smallest_detectable(3, 3, 0.3)
    assert result.auc is None
    assert result.tpr is None
    assert str(result) == "no AUC, no TPR at FPR 0.3 (power 80%)"
    large = dv.evaluation.smallest_detectable(20_000, 20_000, 0.001)
    assert 0.5 < large.auc < 0.51
    assert 0.001 < large.tpr < 0.01
