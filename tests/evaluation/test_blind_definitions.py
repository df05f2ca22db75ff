"""Differences, adjusted scores and levels of the blind baseline, against their definitions."""

import math

import numpy as np
import pytest
from scipy import stats

from divulge.errors import InputError
from divulge.evaluation import blind


def naive_differences(x, inside, names, classes):
    """Distances in standard errors of a rank sum (with ties), or of a difference of two shares at the pooled rate."""
    m, n = inside.sum(), (~inside).sum()
    found = []
    for name, column in zip(names, x.T, strict=True):
        above = np.mean([(a > b) + (a == b) / 2 for a in column[inside] for b in column[~inside]])
        ties = np.unique(column, return_counts=True)[1]
        variance = (m + n + 1 - (ties**3 - ties).sum() / ((m + n) * (m + n - 1))) / (12 * m * n)
        word = "larger" if above > 0.5 else "smaller"
        distance = abs(above - 0.5) / math.sqrt(variance)
        found.append((distance, f"{name} is {word} among the members (AUC {max(above, 1 - above):.2f})"))
    for value in sorted(set(classes)):
        a, b = (classes[inside] == value).mean(), (classes[~inside] == value).mean()
        pooled = (classes == value).mean()
        spread = math.sqrt(pooled * (1 - pooled) * (1 / m + 1 / n))
        text = f"class {value} is {a:.1%} of the members and {b:.1%} of the non-members".replace("%", " %")
        found.append((abs(a - b) / spread, text))
    limit = stats.norm.isf(0.005 / len(found))
    return [text for distance, text in sorted(found, key=lambda pair: -pair[0]) if distance > limit]


def test_differences_are_named_by_rank_sums_and_shares_the_clearest_first():
    rng = np.random.default_rng(16)
    inside = np.arange(120) < 50
    x = rng.normal(size=(120, 4)).round(1)
    x[inside, 1] += 1.6
    x[inside, 3] += 0.9
    x[inside, 2] -= 1.0
    labels = np.where(rng.random(120) < np.where(inside, 0.7, 0.2), 4, rng.integers(0, 2, 120))
    names = [f"column {i} (counted from 0)" for i in range(4)]
    expected = naive_differences(x, inside, names, labels)
    assert len(expected) > 3
    assert list(blind.differences(x, inside, labels, max_differences=9)) == expected
    assert list(blind.differences(x, inside, labels)) == expected[:3]
    reals = naive_differences(np.column_stack([x, x[:, 1] * 2]), inside, [*names, "y"], np.zeros(0))
    assert set(blind.differences(x, inside, x[:, 1] * 2, max_differences=9)) == set(reals)
    assert blind.differences(np.ones((120, 2)), inside, np.zeros(120, int)) == ()


@pytest.mark.parametrize("n", [19, 20])
def test_few_scores_are_normal_scores_of_their_ranks(n):
    rng = np.random.default_rng(18)
    x = np.arange(float(n))[:, None]
    values = x[:, 0] + 0.01 * rng.normal(size=n)
    (found,) = blind.adjust_scores({"a": values}, x, None).values()
    normal = stats.norm.ppf((stats.rankdata(values) - 0.5) / n)
    if n < 20:
        np.testing.assert_allclose(found, normal)
    else:
        assert (found**2).sum() < 0.7 * (normal**2).sum()


@pytest.mark.parametrize("shifted", ["records", "features", "nothing"])
def test_records_and_features_are_tested_at_half_the_level_each(shifted):
    rng = np.random.default_rng(20)
    member = np.arange(30) < 15
    x, features = rng.normal(size=(30, 2)), rng.normal(size=(30, 1))
    x[member] += 3 * (shifted == "records")
    features[member] += 3 * (shifted == "features")
    alone = blind.baseline_with_features(x, None, None, member, seed=2)
    assert alone == blind.baseline(x[member], x[~member], 2, false_alarm=0.01)
    found = blind.baseline_with_features(x, None, features, member, seed=2)
    halves = [blind.baseline(part[member], part[~member], 2, false_alarm=0.005) for part in (x, features)]
    by_features = halves[1].p_value < halves[0].p_value
    worse = halves[by_features]
    assert (found.p_value, found.confounded, found.auc) == (min(1, 2 * worse.p_value), worse.confounded, worse.auc)
    assert found.detectable == worse.detectable
    assert found.false_alarm == 0.01
    assert found.method.startswith(worse.method)
    source = "of the given features," if by_features else "of records,"
    assert source in found.method
    if shifted != "nothing":
        assert (shifted == "features") is bool(by_features)
        assert found.p_value == pytest.approx(2 / 200)


@pytest.mark.parametrize(("level", "fewest"), [(0.01, 99), (0.03, 33), (0.05, 19), (0.3, 3)])
def test_a_level_needs_enough_permutations(level, fewest):
    x = np.random.default_rng(21).normal(size=(20, 1))
    with pytest.raises(InputError, match=f"permutations: must be at least {fewest}, got {fewest - 1}"):
        blind.baseline(x[:10], x[10:], false_alarm=level, permutations=fewest - 1)
    found = blind.baseline(x[:10], x[10:] + 9, false_alarm=level, permutations=fewest)
    assert (found.p_value, found.confounded, found.records) == (1 / (1 + fewest), 1 / (1 + fewest) <= level, 20)
    assert f"kernel ridge of 20 records, linear and radial ridge of 20, 5 folds; {fewest} permutations" == found.method
    with pytest.raises(InputError, match="max_records: must be at least 20"):
        blind.baseline(x[:10], x[10:], max_records=19)
    with pytest.raises(InputError, match="x_nonmembers: at least 10 records are needed, got 9"):
        blind.baseline(x[:11], x[11:])


@pytest.mark.parametrize("side", [True, False])
def test_labels_that_are_surer_on_one_side_are_the_evidence_that_is_named(side):
    rng = np.random.default_rng(22)
    x = rng.normal(size=(160, 1))
    inside = np.arange(160) < 80
    labels = (x[:, 0] > 0).astype(int)
    y = np.where((inside == side) & (rng.random(160) < 0.5), 1 - labels, labels)
    found = blind.baseline(
        x[inside], x[~inside], y_members=y[inside], y_nonmembers=y[~inside], permutations=19, false_alarm=0.05
    )
    assert found.confounded
    assert found.method.endswith("19 permutations; most telling is how badly labels are predicted from the records")
    assert found.auc.low > 0.6
