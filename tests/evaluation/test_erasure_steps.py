"""Every step of the test of an erasure, and every reading of its answer."""

import math

import numpy as np
import pytest
from scipy import stats

from divulge.errors import InputError
from divulge.evaluation import auc, erasure, paired_difference
from divulge.types import Estimate

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


def others_mean(controls, i=None):
    """The mean of the controls, or of all but one, that never saw a record."""
    kept = controls if i is None else np.delete(controls, i, axis=0)
    return np.nanmean(kept, axis=0)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("controls", [1, 2, 5])
def test_scores_are_relative_to_the_mean_of_the_other_controls_that_never_saw_the_record(controls, missing):
    if controls < 5 and missing:
        return
    scores, rows = draw(controls, missing=missing)
    found = erasure._relative_scores(scores, rows)
    np.testing.assert_allclose(found[0], scores - others_mean(rows))
    for i in range(controls):
        # A single control stands for itself.
        np.testing.assert_allclose(found[1 + i], rows[i] - (others_mean(rows, i) if controls > 1 else rows[i]))
    assert found.shape == (controls + 1, 12)


def slope(row, base, used):
    known = used & ~np.isnan(row)
    x = base[known] - base[known].mean()
    return (x @ row[known]) / (x @ x)


@pytest.mark.parametrize("missing", [False, True])
def test_a_slope_is_fitted_among_the_records_used(missing):
    (scores, rows), used = draw(5, 30, missing=missing), np.arange(30) >= 12
    found = erasure._relative_scores(scores, rows, regress_on=used)
    for i in range(6):
        row, base = (scores, others_mean(rows)) if i == 0 else (rows[i - 1], others_mean(rows, i - 1))
        np.testing.assert_allclose(found[i], row - slope(row, base, used) * base)


def test_a_slope_is_one_where_nothing_varies_and_of_large_scores_too():
    row, base = np.arange(4.0), np.full(4, 3.0)
    assert erasure._slope(row, base, np.ones(4, bool)) == 1
    assert erasure._slope(row, np.arange(4.0), np.zeros(4, bool)) == 1
    assert erasure._slope(np.full(4, np.nan), np.arange(4.0), np.ones(4, bool)) == 1
    large = np.array([1e200, 2e200, 4e200, 5e200])
    assert erasure._slope(3 * large, large, np.ones(4, bool)) == pytest.approx(3)


def test_differences_that_are_rounding_alone_are_none():
    controls = np.array([[1.0, 1e6], [1.0, 1e6]])
    for offset, is_rounding in ((5e-7, True), (1e-5, False)):
        found = erasure._relative_scores(np.array([1.5, 1e6 + offset]), controls)
        assert found[0, 0] == 0.5
        assert (found[0, 1] == 0) == is_rounding


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


def test_quartiles_that_coincide_count_as_one_apart():
    rows = np.array([[0.0, 1, 2, 3, 4, 99], [5.0, 5, 5, 5, 5, 0], [np.nan, 0, 4, 8, 12, 0]])
    used = np.arange(6) < 5
    np.testing.assert_allclose(erasure._quartile_ranges(rows, used).ravel(), [2.0, 1.0, 6.0])


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


@pytest.mark.parametrize("models", [2, 4])
@pytest.mark.parametrize("exchangeable", [False, True])
def test_p_values_are_shares_of_records_that_score_as_high(models, exchangeable):
    rng = np.random.default_rng(models)
    rows = rng.normal(size=(models, 12)).round(1)
    rows[1:, 2] = np.nan
    found = erasure._p_values(rows, MASK, exchangeable)
    for p_value, score in zip(found, rows[0, MASK], strict=True):
        never = list(rows[0, ~MASK])
        expected = (1 + sum(x >= score for x in never)) / (1 + len(never))
        if models > 2 and not exchangeable:
            under = [x for x in rows[1:, MASK].ravel() if not np.isnan(x)]
            expected = max(expected, (1 + sum(x >= score for x in under)) / (1 + len(under)))
        assert p_value == pytest.approx(expected)


@pytest.mark.parametrize("fdr", [0.0, 0.05, 0.2, 0.5])
def test_benjamini_and_hochberg_select_up_to_the_last_that_reaches_its_line(fdr):
    for p_values in ([0.01, 0.04, 0.03, 0.9, 0.2], [0.05], [0.2, 0.4, 0.6], [0.01, 0.3, 0.3, 0.5]):
        ordered = sorted(p_values)
        last = [p for rank, p in enumerate(ordered, start=1) if p <= fdr * rank / len(ordered)]
        expected = [bool(last) and p <= max(last) for p in p_values]
        assert erasure._benjamini_hochberg(np.array(p_values), fdr).tolist() == expected


def test_records_stand_out_below_where_more_do_so_beyond_the_outer_tenth_than_above():
    forgotten = np.arange(100) < 50
    flat = np.tile(np.linspace(-1, 1, 50), 2)

    def stands_out(high, low, controls_low=0):
        rows = np.tile(flat, (3, 1))
        rows[:, :50] = 0.0
        rows[0, :high], rows[0, 49 - low : 49] = 5.0, -5.0
        rows[1:, :controls_low] = -5.0
        return erasure._stand_out_below(rows, forgotten)

    assert stands_out(4, 9)
    assert not stands_out(4, 8)  # more than twice as many are needed
    assert not stands_out(9, 4)
    assert not stands_out(4, 9, controls_low=9)
    assert stands_out(0, 1)
    assert not stands_out(0, 0)


def interval(low, high, value=None):
    return Estimate((low + high) / 2 if value is None else value, low, high, 0.97, "by hand")


NONE = np.full(100, 0.5)
FEW = np.r_[np.full(3, 1e-5), np.full(97, 0.5)]

ONE = np.r_[1e-6, np.full(99, 0.5)]


def answer(**changes):
    arguments = {
        "p_high": NONE, "p_low": NONE, "differences": [interval(-0.02, 0.02)], "spreads": [interval(-0.02, 0.02)],
        "smallest_accused": 0.0, "one_training": False, "error": 0.05, "before_shows": True, "says_nothing": False,
        "margin": 0.05, "smallest": 0.04, "acquitting_differences": [interval(-0.02, 0.02)],
        "likely_spreads": [interval(-0.02, 0.02)], "p_values": [NONE, NONE], "mostly_lower": False,
    } | changes  # fmt: skip
    return erasure._answer(arguments.pop("p_high"), arguments.pop("p_low"), **arguments)


REMEMBERED = "still remembered"
OVERDONE = "overdone: they stand out the other way"
UNSURE = "too little data to say"
CLEAR = (
    "no difference from a model that never saw them",
    "the difference of AUC lies within ±0.05; one of 0.040 would have been found in 4 of 5 checks",
)
UP, DOWN = interval(0.01, 0.05, 0.03), interval(-0.05, -0.01, -0.03)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, CLEAR),
        ({"says_nothing": True, "differences": [UP]}, (UNSURE, "the model after the erasure scores all records alike")),
        ({"differences": [UP]}, (REMEMBERED, "the AUC is 0.030 above that of models that never saw the records")),
        ({"differences": [UP, UP]}, (REMEMBERED, "the AUC is 0.030 above that of models that never saw the records")),
        ({"differences": [UP, interval(-0.01, 0.02)]}, CLEAR),
        ({"differences": [interval(-0.01, 0.02), UP]}, CLEAR),
        ({"differences": [interval(0.0, 0.02)]}, CLEAR),
        ({"differences": [UP], "smallest_accused": 0.01}, CLEAR),
        (
            {"differences": [UP], "smallest_accused": 0.009},
            (REMEMBERED, "the AUC is 0.030 above that of models that never saw the records"),
        ),
        ({"differences": [DOWN]}, (OVERDONE, "the AUC is 0.030 below that of models that never saw the records")),
        ({"differences": [DOWN, interval(-0.02, 0.01)]}, CLEAR),
        ({"differences": [interval(-0.02, 0.0)]}, CLEAR),
        ({"differences": [DOWN], "smallest_accused": 0.01}, CLEAR),
        ({"differences": [DOWN, UP]}, CLEAR),
        ({"p_high": FEW}, (REMEMBERED, "3 records score higher than chance explains, though most do not")),
        ({"p_low": ONE}, (OVERDONE, "1 records score lower than chance explains, though most do not")),
        ({"p_high": ONE}, (REMEMBERED, "1 records score higher than chance explains, though most do not")),
        ({"p_values": [ONE]}, (UNSURE, "the AUC shows no difference, but 1 single records may stand out")),
        ({"p_low": FEW}, (OVERDONE, "3 records score lower than chance explains, though most do not")),
        (
            {"p_high": FEW, "differences": [DOWN]},
            (REMEMBERED, "3 records score higher than chance explains, though most do not"),
        ),
        (
            {"p_low": FEW, "differences": [DOWN]},
            (OVERDONE, "the AUC is 0.030 below that of models that never saw the records"),
        ),
        (
            {"spreads": [UP]},
            (
                REMEMBERED,
                "their scores vary more than under models that never saw the records: some are higher, others lower",
            ),
        ),
        (
            {"spreads": [UP], "mostly_lower": True},
            (
                OVERDONE,
                "their scores vary more than under models that never saw the records: some are higher, others lower",
            ),
        ),
        (
            {"spreads": [DOWN], "mostly_lower": True},
            (OVERDONE, "their scores vary less than under models that never saw the records"),
        ),
        ({"spreads": [UP, interval(-0.1, 0.1)]}, CLEAR),
        (
            {"before_shows": False},
            (UNSURE, "the model before the erasure does not show the records either, so nothing is learned"),
        ),
        (
            {"before_shows": False, "differences": [UP]},
            (REMEMBERED, "the AUC is 0.030 above that of models that never saw the records"),
        ),
        ({"one_training": True}, (UNSURE, "how far trainings differ takes two models that never saw the records")),
        (
            {"one_training": True, "p_high": FEW},
            (UNSURE, "how far trainings differ takes two models that never saw the records"),
        ),
        (
            {"acquitting_differences": [interval(-0.02, 0.05)]},
            (UNSURE, "the difference of AUC may be as large as 0.050"),
        ),
        (
            {"acquitting_differences": [interval(-0.05, 0.01)]},
            (UNSURE, "the difference of AUC may be as large as 0.050"),
        ),
        (
            {"acquitting_differences": [interval(-0.02, 0.02), interval(-0.07, 0.06)]},
            (UNSURE, "the difference of AUC may be as large as 0.070"),
        ),
        ({"acquitting_differences": [interval(-0.049, 0.049)]}, CLEAR),
        *(
            (
                {"likely_spreads": spreads},
                (
                    UNSURE,
                    "their scores may vary more, or less, than under models that never saw the records",
                ),
            )
            for spreads in (
                [interval(-0.05, 0.02)],
                [interval(-0.02, 0.05)],
                [interval(-0.02, 0.02), interval(-0.06, 0.02)],
            )
        ),
        ({"likely_spreads": [interval(-0.049, 0.049)]}, CLEAR),
        (
            {"p_values": [NONE, FEW]},
            (UNSURE, "the AUC shows no difference, but 3 single records may stand out"),
        ),
        (
            {"p_values": [FEW[::-1], FEW]},
            (UNSURE, "the AUC shows no difference, but 6 single records may stand out"),
        ),
    ],
)
def test_every_answer_is_given_just_where_its_reason_holds(changes, expected):
    assert answer(**changes) == expected


def test_single_records_accuse_at_a_tenth_of_the_error_and_stop_an_acquittal_at_all_of_it():
    """One of 100 records is selected at a level of 5 % up to a p-value of 1/2000."""
    for p_value, expected in ((0.00005, REMEMBERED), (0.00006, UNSURE), (0.0005, UNSURE), (0.00051, CLEAR[0])):
        single = np.r_[p_value, np.full(99, 0.5)]
        assert answer(p_high=single, p_values=[single])[0] == expected


@pytest.fixture
def record_arguments(monkeypatch):
    """What the answer is made of, beside the answer itself."""
    original, calls = erasure._answer, []

    def recording(p_high, p_low, **arguments):
        calls.append({"p_high": p_high, "p_low": p_low, **arguments})
        return original(p_high, p_low, **arguments)

    monkeypatch.setattr(erasure, "_answer", recording)
    return calls


def ends(estimates):
    return [(each.low, each.high) for each in estimates]


@pytest.mark.parametrize("at_random", [False, True])
@pytest.mark.parametrize("controls", [1, 2, 3, 5])
@pytest.mark.parametrize("confidence", [0.95, 0.4])
def test_accusing_takes_all_scales_and_acquitting_none(record_arguments, controls, at_random, confidence):
    scores, rows = draw(controls, 60, seed=controls)
    mask = np.arange(60) < 25
    error = 1 - confidence
    found = erasure.erasure_test(scores, rows, mask, at_random=at_random, margin=0.2, confidence=confidence)
    (used,) = record_arguments
    relative = erasure._relative_scores(scores, rows)
    adjusted = erasure._relative_scores(scores, rows, regress_on=~mask)
    ranked = erasure._relative_scores(scores, rows, rank_among=~mask)
    scales = [relative, adjusted, ranked]
    accusing = scales[:2] if at_random else scales
    share = 1 - 0.6 * error

    def difference(scale):
        return erasure._difference_from_controls(
            auc(scale[0], mask, share), erasure.control_auc_values(scale[1:], mask), at_random
        )

    if controls == 1:
        paired = paired_difference(scores, rows[0], mask, "auc", share)
        expected = [(paired.low, paired.high)]
        assert ends(used["differences"]) == expected
        if at_random:
            lesser = [auc(scale[0], mask, share) for scale in scales]
            expected += [(each.low - 0.5, each.high - 0.5) for each in lesser]
        assert ends(used["acquitting_differences"]) == expected
        half = max(paired.value - paired.low, paired.high - paired.value)
        smallest = half * (1 + stats.norm.ppf(0.8) / stats.norm.ppf(1 - 0.6 * error / 2))
        assert found.training_noise is None
        assert found.reason.endswith("; a single control was given, so the spread between trainings is not included")
    else:
        expected = [difference(scale)[0] for scale in scales]
        assert ends(used["acquitting_differences"]) == ends(expected)
        assert ends(used["differences"]) == ends(expected[: len(accusing)])
        _, noise, smallest = difference(relative)
        assert found.training_noise == noise
        assert "a single control" not in found.reason
    assert (used["smallest"], found.smallest_seen) == pytest.approx((smallest, min(smallest, 1)))
    assert used["smallest_accused"] == (0.2 if controls == 1 else 0)
    assert used["one_training"] == (controls == 1 and not at_random)
    assert (used["before_shows"], used["says_nothing"], used["margin"]) == (True, False, 0.2)
    assert used["error"] == pytest.approx(error)

    plain = relative if controls > 2 else np.vstack([scores, rows])
    wide = 1 - 0.2 * error
    spreads = [plain, *(accusing[1:] if controls > 2 else [])]
    assert ends(used["spreads"]) == ends(erasure.compare_spread(each, mask, wide, at_random) for each in spreads)
    likely = [plain]
    if error < 0.5:
        if controls > 1:
            likely += scales
        elif at_random:
            likely += [scale[:1] for scale in scales]
        level = 1 - 2 * error
    else:
        level = wide
    assert ends(used["likely_spreads"]) == ends(erasure.compare_spread(each, mask, level, at_random) for each in likely)
    for sign, p_values in ((1, used["p_high"]), (-1, used["p_low"])):
        largest = np.max([erasure._p_values(sign * scale, mask, at_random) for scale in accusing], axis=0)
        np.testing.assert_array_equal(p_values, largest)
    spread = adjusted / erasure._quartile_ranges(adjusted, ~mask)
    single = [
        erasure._p_values(sign * scale, mask, at_random) for sign in (1, -1) for scale in (relative, spread, ranked)
    ]
    np.testing.assert_array_equal(used["p_values"], single)
    np.testing.assert_array_equal(found.p_remembered_by_scale, single[:3])
    assert found.largest_left == max(high for _, high in ends(used["acquitting_differences"]))
    assert used["mostly_lower"] == erasure._stand_out_below(plain, mask)


@pytest.mark.parametrize("controls", [1, 3])
@pytest.mark.parametrize("shift", [0.0, 3.0, -3.0])
def test_the_model_before_shows_the_records_where_its_difference_is_above_zero(record_arguments, controls, shift):
    scores, rows = draw(controls, 60, seed=9)
    mask = np.arange(60) < 25
    found = erasure.erasure_test(scores, rows, mask, before=scores + shift * mask)
    assert record_arguments[0]["before_shows"] == (shift > 0)
    relative = erasure._relative_scores(scores + shift * mask, rows)[0]
    assert found.before == auc(relative, mask, 0.97)
    assert erasure.erasure_test(np.zeros(60), rows, mask).reason.startswith("the model after the erasure scores all")


@pytest.mark.parametrize("shift", [-1.5, 0.0, 1.5])
def test_controls_that_tell_the_kinds_apart_contradict_a_random_draw(record_arguments, shift):
    scores, rows = draw(4, 80, seed=3)
    mask = np.arange(80) < 40
    rows = rows + shift * mask
    erasure.erasure_test(scores, rows, mask, at_random=True, confidence=0.9)
    told = auc(rows.mean(axis=0), mask, 1 - 0.1 / 5)
    contradicted = told.low > 0.5 or told.high < 0.5
    assert contradicted == (shift != 0)
    assert len(record_arguments[0]["differences"]) == (3 if contradicted else 2)
