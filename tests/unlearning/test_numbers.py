"""Numbers of an answer on an erasure, against definitions given again."""

import numpy as np
import pytest
from scipy import stats

from divulge.evaluation import erasure
from divulge.evaluation.comparison import paired_difference
from divulge.statistics import auc
from divulge.unlearning import finding


@pytest.mark.parametrize(
    ("spread", "records", "gap"), [(0.0, 40, 0.0), (2.0, 400, 0.5), (0.3, 60, 3.0), (0.5, 30, -4.0)]
)
@pytest.mark.parametrize("k", [2, 7])
def test_the_difference_reaches_as_far_as_the_wider_of_trainings_and_records(spread, records, gap, k):
    rng = np.random.default_rng([records, k])
    forgotten = np.arange(records) < records // 3
    scores = rng.normal(size=(k + 1, records)) + spread * rng.normal(size=(k + 1, 1)) * forgotten
    scores[0] += gap * forgotten
    estimate, smallest = finding.compare_with_controls(scores[0], scores[1:], forgotten, 0.9)
    aucs = [auc(row, forgotten).value for row in scores[1:]]
    paired = paired_difference(scores[0], scores[1:].mean(axis=0), forgotten, "auc", 0.9)
    step = np.std(aucs, ddof=1) * np.sqrt(1 + 1 / k)
    trainings = stats.t.ppf(0.95, k - 1) * step
    over_records = max(paired.high - paired.value, paired.value - paired.low)
    value = auc(scores[0], forgotten).value - np.mean(aucs)
    assert estimate.value == pytest.approx(value)
    assert estimate.low == pytest.approx(max(value - max(trainings, over_records), -1))
    assert estimate.high == pytest.approx(min(value + max(trainings, over_records), 1))
    seen = (trainings + stats.t.ppf(0.8, k - 1) * step, over_records * (1 + stats.norm.ppf(0.8) / stats.norm.ppf(0.95)))
    assert smallest == pytest.approx(min(max(seen), 1.0))
    assert estimate.confidence == 0.9


def test_never_used_records_that_score_all_alike_leave_the_share_unknown():
    forgotten = np.arange(60) < 20
    told = finding.estimate_share(
        np.where(forgotten, 1.0, 0.5), np.zeros((1, 60)), forgotten, None, 0.95, is_alike=True, is_remembered=False
    )
    assert (told.value, told.low, told.high) == (0.0, 0.0, 1.0)
    assert told.method.startswith("unknown")


# --- the finer comparison, `divulge.evaluation.erasure`


FORGOTTEN = np.arange(50) < 20


@pytest.mark.parametrize("exchangeable", [False, True])
@pytest.mark.parametrize("rows", [2, 5])
def test_the_comparison_of_spreads_is_that_of_distances(rows, exchangeable):
    rng = np.random.default_rng(rows)
    scores = rng.normal(size=(rows, 50)) * np.where(FORGOTTEN, 1.6, 1.0)
    found = erasure.compare_spread(scores, FORGOTTEN, 0.9, exchangeable)
    away = [np.abs(row - np.median(row[~FORGOTTEN])) for row in scores]
    single = auc(away[0], FORGOTTEN, 0.9)
    if rows == 2:
        paired = paired_difference(away[0], away[1], FORGOTTEN, "auc", 0.9)
        expected = (paired.value, paired.low, paired.high)
    elif exchangeable:
        expected = (single.value - 0.5, single.low - 0.5, single.high - 0.5)
    else:
        k = rows - 1
        aucs = [auc(each, FORGOTTEN).value for each in away[1:]]
        noise = np.std(aucs, ddof=1) / (np.sqrt(1 - 1 / (k - 1) ** 2) if k > 2 else 1)
        reach = stats.t.ppf(0.95, k - 1) * noise * np.sqrt(1 + 1 / k)
        value = single.value - np.mean(aucs)
        low, high = max(reach, single.value - single.low), max(reach, single.high - single.value)
        expected = (value, max(value - low, -1), min(value + high, 1))
    assert (found.value, found.low, found.high) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(2))
def test_ranks_are_matched_as_counting_says_and_no_increasing_map_changes_them(seed):
    rng = np.random.default_rng(seed)
    row, base = rng.integers(0, 9, 40).astype(float), rng.normal(size=40)
    used = np.arange(40) >= 15
    row[[2, 20]] = np.nan
    row[:15] = np.clip(row[:15], np.nanmin(row[15:]), np.nanmax(row[15:]))
    known = [i for i in range(40) if used[i] and not np.isnan(row[i])]
    values = sorted(base[known])
    found = erasure.match_ranks(row, base, used)
    for i in range(40):
        if np.isnan(row[i]):
            assert np.isnan(found[i])
            continue
        lower, equal = (sum(test(row[j]) for j in known) for test in (row[i].__gt__, row[i].__eq__))
        place = min(max(lower + (equal - 1) / 2, 0), len(known) - 1)
        below = values[int(np.floor(place))], values[int(np.ceil(place))]
        assert found[i] == pytest.approx(below[0] + (place % 1) * (below[1] - below[0]), abs=1e-12)
    np.testing.assert_allclose(erasure.match_ranks(np.exp(row / 3), base, used), found, rtol=1e-12)


def test_beyond_all_records_scores_go_on_as_the_outermost_tenth_does():
    base = np.arange(20.0)
    row = 3 * base
    used = np.arange(20) < 10
    np.testing.assert_allclose(erasure.match_ranks(row, base, used), base)
    assert erasure.match_ranks(np.minimum(row, 24.0) + 50 * (row == 30), base, used)[10] == 9.0  # a tie has no width
    far = erasure.match_ranks(np.where(used, 1e-300 * base, 1e300), base, used)
    assert np.isfinite(far).all()
    assert far[10] > 1e5
