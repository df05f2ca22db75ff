"""Erasure: forgotten records against models that never saw them."""

import numpy as np
import pytest
from scipy import stats

import divulge as dv
from divulge.evaluation.erasure import erasure_test

FORGOTTEN = np.arange(400) < 150


def draw_scores(seed, models, effect=0.0):
    """Records of different difficulty; each model adds noise to a record, and an effect to all forgotten ones."""
    rng = np.random.default_rng(seed)
    difficulty = 3 * rng.normal(size=400)
    group_effects = effect * rng.normal(size=models)[:, None] * FORGOTTEN
    return difficulty + rng.normal(size=(models, 400)) + group_effects


def naive_auc(scores):
    inside, outside = scores[FORGOTTEN], scores[~FORGOTTEN]
    return np.mean([(a > b) + (a == b) / 2 for a in inside for b in outside])


def test_the_difference_is_that_of_naive_leave_one_out_aucs():
    scores = draw_scores(0, 5)
    result = erasure_test(scores[0], scores[1:], FORGOTTEN)
    controls = scores[1:]
    naive = [naive_auc(controls[j] - np.delete(controls, j, axis=0).mean(axis=0)) for j in range(4)]
    after = naive_auc(scores[0] - controls.mean(axis=0))
    np.testing.assert_allclose(result.controls, naive)
    assert result.difference.value == pytest.approx(after - np.mean(naive))
    assert result.after.value == pytest.approx(after)
    assert result.training_noise == pytest.approx(3 / 4 * np.std(naive, ddof=1))


def test_the_interval_is_students_for_one_further_training_where_trainings_differ():
    scores = draw_scores(1, 5, effect=2.0)
    result = erasure_test(scores[0], scores[1:], FORGOTTEN)
    half = stats.t.ppf(1 - 0.03 / 2, 3) * result.training_noise * np.sqrt(1 + 1 / 4)
    assert result.difference.high == pytest.approx(min(result.difference.value + half, 1))
    assert result.difference.confidence == pytest.approx(0.97)


@pytest.mark.parametrize("models", [2, 3, 4, 6, 12])
@pytest.mark.parametrize("effect", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("at_random", [False, True])
def test_the_smallest_difference_seen_is_that_of_four_checks_in_five(models, effect, at_random):
    """Of both sources of noise the larger: the records (DeLong) and, unless forgotten at random, the trainings."""
    scores = draw_scores(models, models + 1, effect)
    result = erasure_test(scores[0], scores[1:], FORGOTTEN, at_random=at_random, confidence=0.9)
    error = 0.6 * 0.1
    within, low = result.after.value, result.after.low
    records = (within - low) * (stats.norm.ppf(1 - error / 2) + stats.norm.ppf(0.8)) / stats.norm.ppf(1 - error / 2)
    spread = result.training_noise * np.sqrt(1 + 1 / models)
    trainings = spread * (stats.t.ppf(1 - error / 2, models - 1) + stats.t.ppf(0.8, models - 1))
    is_random = result.difference.method.startswith("DeLong;")
    assert at_random or not is_random
    assert result.smallest_seen == pytest.approx(min(records if is_random else max(records, trainings), 1.0))
    reach = result.difference.high - result.difference.value
    if not is_random and result.difference.high < 1:
        assert reach >= stats.t.ppf(1 - error / 2, models - 1) * spread * (1 - 1e-9)
    assert result.difference.confidence == pytest.approx(1 - error)


def test_trainings_without_any_spread_do_not_make_the_interval_vanish():
    scores = draw_scores(2, 2)
    result = erasure_test(scores[0], np.stack([scores[1]] * 4), FORGOTTEN)
    assert result.training_noise == 0
    assert result.difference.high - result.difference.low > 0.1
    assert result.answer != "still remembered"


def test_a_memory_is_found_and_its_reverse_is_overdone():
    scores = draw_scores(3, 9)
    assert erasure_test(scores[0] + FORGOTTEN, scores[1:], FORGOTTEN).answer == "still remembered"
    assert erasure_test(scores[0] - FORGOTTEN, scores[1:], FORGOTTEN).answer.startswith("overdone")


def test_few_records_remembered_are_found_by_their_own_p_values():
    rng = np.random.default_rng(4)
    forgotten = np.arange(30_300) < 300
    scores = rng.normal(size=(5, len(forgotten)))
    scores[0, :6] += 20
    result = erasure_test(scores[0], scores[1:], forgotten, at_random=True)
    assert result.answer == "still remembered"
    assert result.reason.startswith("6 records")
    assert set(np.argsort(result.p_remembered)[:6]) == set(range(6))
    scores[0, :6] -= 40
    assert erasure_test(scores[0], scores[1:], forgotten, at_random=True).reason.startswith("6 records score lower")


def test_single_suspects_stop_an_acquittal():
    rng = np.random.default_rng(5)
    forgotten = np.arange(4000) < 1000
    scores = rng.normal(size=(9, len(forgotten)))
    clean = erasure_test(scores[0], scores[1:], forgotten, at_random=True)
    scores[0, :9] += 20
    result = erasure_test(scores[0], scores[1:], forgotten, at_random=True)
    assert clean.answer == "no difference from a model that never saw them"
    assert result.answer in ("too little data to say", "still remembered")
    assert result.answer == "still remembered" or "single records" in result.reason


def test_p_values_are_the_larger_of_both_nulls():
    scores = draw_scores(6, 4)
    result = erasure_test(scores[0], scores[1:], FORGOTTEN)
    controls = scores[1:]
    differences = scores[0] - controls.mean(axis=0)
    control_differences = np.stack([controls[j] - np.delete(controls, j, axis=0).mean(axis=0) for j in range(3)])
    for place in (0, 7, 149):
        against_never = (1 + np.sum(differences[~FORGOTTEN] >= differences[place])) / (250 + 1)
        against_controls = (1 + np.sum(control_differences[:, FORGOTTEN] >= differences[place])) / (450 + 1)
        assert result.p_remembered_by_scale[0][place] == pytest.approx(max(against_never, against_controls))
    assert np.all(result.p_remembered >= result.p_remembered_by_scale[0])


def test_a_single_control_leaves_training_noise_out_and_says_so():
    scores = draw_scores(7, 2)
    result = erasure_test(scores[0], scores[1:], FORGOTTEN)
    expected = dv.evaluation.paired_difference(scores[0], scores[1], FORGOTTEN, "auc", 0.97)
    assert (result.difference.low, result.difference.high) == (expected.low, expected.high)
    assert "a single control was given" in result.reason
    assert result.training_noise is None


def test_a_model_that_never_showed_the_records_says_nothing_of_their_erasure():
    rng = np.random.default_rng(8)
    forgotten = np.arange(6000) < 3000
    scores = rng.normal(size=(10, 6000))
    blank = erasure_test(scores[0], scores[2:], forgotten, before=scores[1], at_random=True)
    result = erasure_test(scores[0], scores[2:], forgotten, before=scores[1] + forgotten, at_random=True)
    assert blank.answer == "too little data to say"
    assert "before the erasure does not show" in blank.reason
    assert result.answer == "no difference from a model that never saw them"
    assert result.before.low > 0.7


def test_a_random_draw_that_the_controls_contradict_is_not_believed():
    rng = np.random.default_rng(9)
    forgotten = np.arange(2000) < 1000
    scores = rng.normal(size=(5, 2000)) + forgotten
    random = erasure_test(scores[0], scores[1:], forgotten, at_random=True)
    assert random.difference.method == erasure_test(scores[0], scores[1:], forgotten).difference.method
    even = erasure_test(scores[0] - forgotten, scores[1:] - forgotten, forgotten, at_random=True)
    assert even.difference.method.startswith("DeLong;")


def test_neither_the_order_of_records_nor_that_of_controls_matters():
    scores = draw_scores(11, 4)
    order = np.random.default_rng(0).permutation(400)
    result = erasure_test(scores[0], scores[1:], FORGOTTEN, before=scores[0] + FORGOTTEN)
    permuted = erasure_test(
        scores[0][order], scores[[3, 1, 2]][:, order], FORGOTTEN[order], before=(scores[0] + FORGOTTEN)[order]
    )
    assert permuted.answer == result.answer
    assert permuted.difference.low == pytest.approx(result.difference.low)
    assert np.sort(permuted.p_remembered) == pytest.approx(np.sort(result.p_remembered))


def test_constant_scores_say_nothing():
    flat = np.zeros((5, 400))
    result = erasure_test(flat[0], flat[1:], FORGOTTEN)
    assert (result.answer, result.reason) == (
        "too little data to say",
        "the model after the erasure scores all records alike",
    )


def test_the_very_scores_of_a_model_that_never_saw_the_records_are_no_difference():
    scores = np.random.default_rng(12).normal(size=(1, 4000))
    result = erasure_test(scores[0], np.repeat(scores, 3, axis=0), np.arange(4000) < 2000)
    assert result.answer == "no difference from a model that never saw them"
    assert result.difference.value == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"after": np.full(400, np.nan)}, "after"),
        ({"after": np.zeros(3)}, "forgotten"),
        ({"controls": np.zeros((0, 400))}, "controls"),
        ({"controls": np.zeros((2, 3))}, "controls: 400 columns"),
        ({"controls": np.zeros(400)}, "controls"),
        ({"forgotten": np.ones(400, bool)}, "forgotten: records of both kinds"),
        ({"forgotten": ~np.ones(400, bool)}, "no forgotten ones"),
        ({"before": np.zeros(3)}, "before"),
        ({"margin": 0}, "margin"),
        ({"margin": 1.5}, "margin"),
        ({"confidence": 1}, "confidence"),
        ({"at_random": "yes"}, "at_random"),
    ],
)
def test_bad_input_is_named(changes, message):
    arguments = {"after": np.arange(400.0), "controls": np.zeros((2, 400)), "forgotten": FORGOTTEN} | changes
    after, controls, forgotten = (arguments.pop(name) for name in ("after", "controls", "forgotten"))
    with pytest.raises(dv.InputError, match=message):
        erasure_test(after, controls, forgotten, **arguments)


@pytest.mark.parametrize("controls", [1, 2, 3, 6])
def test_the_spread_is_that_of_distances_from_the_median_of_never_used_records(controls):
    rng = np.random.default_rng(12)
    forgotten = np.arange(500) < 200
    scores = rng.normal(size=(controls + 1, 500))
    plain = erasure_test(scores[0], scores[1:], forgotten)
    assert plain.spread.low < 0 < plain.spread.high
    wider = erasure_test(np.where(forgotten, 3 * scores[0], scores[0]), scores[1:], forgotten)
    assert wider.spread.value > 0.15
    if controls > 2:
        reference_means = [
            scores[1:].mean(axis=0),
            *(np.delete(scores[1:], i, axis=0).mean(axis=0) for i in range(controls)),
        ]
        distances = [row - reference_mean for row, reference_mean in zip(scores, reference_means, strict=True)]
        distances = [np.abs(row - np.median(row[~forgotten])) for row in distances]
        aucs = [dv.evaluation.auc(row, forgotten).value for row in distances]
        assert plain.spread.value == pytest.approx(aucs[0] - np.mean(aucs[1:]))


@pytest.mark.parametrize("controls", [3, 8])
def test_random_labels_move_scores_both_ways_and_are_found(controls):
    rng = np.random.default_rng(13)
    forgotten = np.arange(3000) < 1500
    scores = rng.normal(size=(controls + 1, 3000))
    scores[0] += 1.5 * forgotten * rng.choice([-1, 1], 3000)
    result = erasure_test(scores[0], scores[1:], forgotten)
    assert abs(result.difference.value) < 0.04
    assert (result.answer, "vary more" in result.reason) == ("still remembered", True)


def test_with_one_control_the_smallest_difference_seen_follows_the_longer_side_of_the_interval():
    scores = FORGOTTEN * 2.0 + np.random.default_rng(3).normal(size=400)
    control = FORGOTTEN * -1.5 + np.random.default_rng(4).normal(size=400)
    result = erasure_test(scores, control[None], FORGOTTEN, confidence=0.9)
    below, above = result.difference.value - result.difference.low, result.difference.high - result.difference.value
    assert below != pytest.approx(above, rel=1e-3)
    error = 0.6 * 0.1
    expected = max(below, above) * (1 + stats.norm.ppf(0.8) / stats.norm.ppf(1 - error / 2))
    assert result.smallest_seen == pytest.approx(min(expected, 1.0))
