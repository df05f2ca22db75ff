"""What the test of an erasure takes of its controls, and spreads and ranks by their definitions."""

import math

import numpy as np
import pytest
from scipy import stats

from divulge.errors import InputError
from divulge.evaluation import auc, erasure, paired_difference

MASK = np.arange(12) < 5


def draw(controls, n=12, seed=0, missing=False):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(controls + 1, n)) + rng.normal(size=n)
    if missing:
        seen = np.array([rng.permutation(controls) < controls - 2 for _ in range(n)]).T
        scores[1:][seen] = np.nan
    return scores[0], scores[1:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.__setitem__((0, 0), np.inf), "controls: finite scores are needed"),
        (lambda x: x.__setitem__((slice(0, 2), 3), np.nan), "each record needs 2 controls .* one has 1"),
        (lambda x: x.__setitem__((slice(0, 3), 3), np.nan), "each record needs 2 controls .* one has 0"),
        (lambda x: x.__setitem__((1, MASK), np.nan), "control 1 has no score of a record of one kind"),
        (lambda x: x.__setitem__((2, ~MASK), np.nan), "control 2 has no score of a record of one kind"),
        (lambda x: x.__setitem__((0, slice(1, 12)), np.nan), "control 0 has no score of a record of one kind"),
        (lambda x: x.__setitem__((0, slice(1, 11)), np.nan), None),
        (lambda x: x.__setitem__((1, 3), np.nan), None),
    ],
)
def test_controls_have_scores_of_both_kinds_and_each_record_two_of_them(change, message):
    scores = draw(3)[1]
    change(scores)
    if message is None:
        np.testing.assert_array_equal(erasure.check_control_scores(scores, MASK), scores)
    else:
        with pytest.raises(InputError, match=message):
            erasure.check_control_scores(scores, MASK)


def test_one_control_may_lack_no_score():
    scores = draw(1)[1]
    assert erasure.check_control_scores(scores, MASK).shape == (1, 12)
    scores[0, 0] = np.nan
    with pytest.raises(InputError, match="one has 0"):
        erasure.check_control_scores(scores, MASK)


def naive_match(value, row, base):
    """Interpolate ranks; beyond all records, distances count in proportion to the widths of the outermost tenths."""
    row, base = sorted(row), sorted(base)
    n, tenth = len(row), len(row) // 10
    below, above = sum(x < value for x in row), sum(x <= value for x in row)
    rank = min(max((below + above - 1) / 2, 0), n - 1)
    found = float(np.interp(rank, range(n), base))
    if value > row[-1] and row[-1] > row[n - 1 - tenth]:
        found += (value - row[-1]) / (row[-1] - row[n - 1 - tenth]) * (base[-1] - base[n - 1 - tenth])
    if value < row[0] and row[tenth] > row[0]:
        found -= (row[0] - value) / (row[tenth] - row[0]) * (base[tenth] - base[0])
    return found


@pytest.mark.parametrize("n", [1, 9, 10, 19, 20, 45])
def test_scores_take_the_values_of_their_ranks_and_beyond_them_those_of_the_outermost_tenth(n):
    rng = np.random.default_rng(n)
    row, base = rng.normal(size=n + 7).round(1), rng.exponential(size=n + 7)
    row[-7:] = [-9, -4.5, 0.05, 7, 12, row[0], row[1]]
    used = np.arange(n + 7) < n
    found = erasure.match_ranks(row, base, used)
    expected = [naive_match(value, row[:n], base[:n]) for value in row]
    np.testing.assert_allclose(found, expected)


def test_missing_scores_stay_missing_and_none_known_leaves_all_as_they_are():
    row, base, used = np.array([1.0, np.nan, 3.0]), np.arange(3.0), np.array([False, True, False])
    assert erasure.match_ranks(row, base, used) is row
    found = erasure.match_ranks(row, 10 * base, np.ones(3, bool))
    assert np.isnan(found).tolist() == [False, True, False]
    assert found[[0, 2]].tolist() == [0.0, 20.0]
    far = erasure.match_ranks(np.r_[np.arange(20.0), 1e300], np.arange(21.0), np.arange(21) < 20)
    assert far[-1] == 19 + 2e6  # a million widths of the outermost tenth


@pytest.mark.parametrize("exchangeable", [False, True])
@pytest.mark.parametrize("confidence", [0.9, 0.999])
@pytest.mark.parametrize("controls", [1, 2, 3, 6])
def test_spreads_are_compared_by_distances_from_the_median_of_never_used_records(controls, exchangeable, confidence):
    rng = np.random.default_rng(controls)
    forgotten = np.arange(80) < 30
    rows = rng.normal(size=(controls + 1, 80))
    distances = [np.abs(row - np.median(row[~forgotten])) for row in rows]
    found = erasure.compare_spread(rows, forgotten, confidence, exchangeable)
    if controls == 1:
        paired = paired_difference(*distances, forgotten, "auc", confidence)
        assert (found.value, found.low, found.high) == (paired.value, paired.low, paired.high)
        assert found.method == erasure.WITHOUT_TRAINING_NOISE
        return
    first = auc(distances[0], forgotten, confidence)
    if exchangeable:
        ends = (first.value - 0.5, first.low - 0.5, first.high - 0.5)
        assert (found.value, found.low, found.high) == ends
        assert found.method == erasure.RANDOM_DRAW
        return
    controls_aucs = [auc(each, forgotten).value for each in distances[1:]]
    correction = 1 - (1 / (controls - 1) ** 2 if controls > 2 else 0)
    noise = np.std(controls_aucs, ddof=1) / math.sqrt(correction) * math.sqrt(1 + 1 / controls)
    reach = stats.t.ppf((1 + confidence) / 2, controls - 1) * noise
    value = first.value - np.mean(controls_aucs)
    assert found.value == pytest.approx(value)
    assert found.low == pytest.approx(max(value - max(reach, first.value - first.low), -1))
    assert found.high == pytest.approx(min(value + max(reach, first.high - first.value), 1))
    assert (found.confidence, found.method) == (confidence, erasure.WITH_TRAINING_NOISE)
    default = erasure.compare_spread(rows, forgotten, confidence)
    assert (default.low, default.high) == (found.low, found.high)


def ends(estimates):
    return [(each.low, each.high) for each in estimates]
