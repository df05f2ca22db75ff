"""Answers on one request from scores: who never saw the records is not accused, who still knows them not acquitted."""

import numpy as np
import pytest
from scipy import stats

from divulge.errors import InputError
from divulge.unlearning.finding import (
    NO_DIFFERENCE,
    OVERDONE,
    REMEMBERED,
    TOO_LITTLE,
    compare_with_controls,
    decide_request,
)

RULES = {"margin": 0.05, "confidence": 0.95, "fdr": 0.05, "at_random": False, "is_alike": True}
RUNS = 25


def draw_models(rng, models, forgotten, *, shape="normal", spread=0.0, shift=0.0):
    """Models that never saw any record: difficulty is shared, noise is a training's own, and may move a whole group."""
    n = len(forgotten)
    noise = rng.normal(size=(models, n))
    if shape == "skewed":
        noise = rng.exponential(size=(models, n)) - 1
    difficulty = 3 * rng.normal(size=n) + shift * forgotten
    scores = difficulty + noise + spread * rng.normal(size=models)[:, None] * forgotten
    return scores.round(0) if shape == "ties" else scores


def decide(scores, forgotten, before=None, **changes):
    return decide_request("x", scores[0], scores[1:], forgotten, before=before, **RULES | changes).finding


def assert_seldom_accused(answers):
    accused = answers.count(REMEMBERED) + answers.count(OVERDONE)
    assert stats.binomtest(accused, RUNS, 0.05, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize(
    ("controls", "sizes", "shape", "spread", "shift"),
    [
        (2, (15, 40), "normal", 0.3, 1.5),
        (6, (200, 400), "normal", 0.0, 0.0),
        (2, (200, 400), "skewed", 0.05, 1.0),
        (6, (100, 200), "ties", 0.1, 0.0),
    ],
)
def test_models_that_never_saw_the_records_are_seldom_accused(controls, sizes, shape, spread, shift):
    rng = np.random.default_rng([controls, *sizes])
    forgotten = np.arange(sum(sizes)) < sizes[0]
    answers = []
    for _ in range(RUNS):
        scores = draw_models(rng, controls + 1, forgotten, shape=shape, spread=spread, shift=shift)
        answers.append(decide(scores, forgotten).answer)
    # 4 cells: at a rate of 5 % all of them pass with a probability of 99 %. benchmarks/erasure.py has more of them.
    assert_seldom_accused(answers)


def test_a_difference_of_the_margin_is_seldom_acquitted():
    rng = np.random.default_rng(5)
    forgotten = np.arange(1200) < 400
    acquitted = 0
    for _ in range(RUNS):
        scores = draw_models(rng, 6, forgotten, spread=0.1, shift=-1.0)
        scores[0] += 0.6 * forgotten  # more than the margin of plain AUC, whose spread over records is √10 · √2
        acquitted += decide(scores, forgotten).answer == NO_DIFFERENCE
    assert stats.binomtest(acquitted, RUNS, 0.05, alternative="greater").pvalue > 0.001


def test_exact_retraining_passes_and_what_is_still_known_does_not():
    rng = np.random.default_rng(5)
    forgotten = np.arange(1500) < 500
    scores = draw_models(rng, 10, forgotten)
    before = scores[9] + 4 * forgotten
    assert decide(scores[:9], forgotten, before).answer == NO_DIFFERENCE
    assert decide(np.r_[scores[:1] + 1.0 * forgotten, scores[1:9]], forgotten, before).answer == REMEMBERED
    assert decide(np.r_[scores[:1] - 1.0 * forgotten, scores[1:9]], forgotten, before).answer == OVERDONE
    never_shown = decide(scores[:9], forgotten, scores[9])
    assert never_shown.answer == TOO_LITTLE
    assert "before the erasure does not show" in never_shown.reason


def test_models_without_the_records_far_from_one_half_are_no_evidence():
    rng = np.random.default_rng(6)
    forgotten = np.arange(1500) < 500
    scores = draw_models(rng, 10, forgotten, shift=-1.5)
    finding = decide(scores[:9], forgotten, scores[9] + 4 * forgotten)
    assert finding.auc_after.high < 0.5
    assert finding.answer == NO_DIFFERENCE


def test_few_records_that_are_remembered_among_many_are_not_acquitted():
    rng = np.random.default_rng(7)
    forgotten = np.arange(1400) < 400
    scores = draw_models(rng, 9, forgotten)
    scores[0, :12] += 12
    finding = decide(scores, forgotten)
    assert finding.answer != NO_DIFFERENCE
    assert finding.remembered >= 10


def test_the_difference_is_that_of_plain_aucs_with_students_interval():
    rng = np.random.default_rng(8)
    forgotten = np.arange(120) < 40
    scores = draw_models(rng, 6, forgotten, spread=3.0)
    estimate, smallest = compare_with_controls(scores[0], scores[1:], forgotten, 0.95)

    def naive(row):
        return np.mean([(a > b) + (a == b) / 2 for a in row[forgotten] for b in row[~forgotten]])

    aucs = [naive(row) for row in scores[1:]]
    reach = stats.t.ppf(0.975, 4) * np.std(aucs, ddof=1) * np.sqrt(1 + 1 / 5)
    assert estimate.value == pytest.approx(naive(scores[0]) - np.mean(aucs))
    assert estimate.high - estimate.value == pytest.approx(reach)
    assert smallest > reach


def test_trainings_that_agree_in_everything_leave_an_interval():
    rng = np.random.default_rng(9)
    forgotten = np.arange(400) < 100
    twins = np.repeat(draw_models(rng, 1, forgotten), 5, axis=0)
    estimate, _ = compare_with_controls(twins[0], twins[1:], forgotten, 0.95)
    assert estimate.value == 0
    assert estimate.low < -0.005 < 0.005 < estimate.high


def test_one_control_says_that_training_noise_is_left_out_and_none_says_nothing():
    rng = np.random.default_rng(10)
    forgotten = np.arange(900) < 300
    scores = draw_models(rng, 2, forgotten)
    finding = decide(scores, forgotten)
    assert "training noise is not included" in finding.reason
    assert finding.training_noise is None
    none = decide(scores[:1] + 5 * forgotten, forgotten)
    assert none.answer == TOO_LITTLE
    assert "training noise is not included" in none.reason
    assert none.difference is None


def test_a_model_that_scores_all_records_alike_says_nothing():
    rng = np.random.default_rng(11)
    forgotten = np.arange(900) < 300
    scores = draw_models(rng, 6, forgotten)
    scores[0] = 1.0
    assert decide(scores, forgotten).answer != NO_DIFFERENCE


def test_the_share_still_remembered_lies_in_its_interval():
    true_share = 0.3
    rng = np.random.default_rng(12)
    forgotten = np.arange(1500) < 500
    n_covered = 0
    for _ in range(10):
        scores = draw_models(rng, 7, forgotten)
        before = scores[6] + 5 * forgotten
        after = scores[:6].copy()
        after[0, : int(500 * true_share)] += 5
        share = decide(after, forgotten, before).share
        n_covered += share.low <= true_share <= share.high
    assert n_covered >= 8  # 95 % each: fewer in 1 of 80 tries


def test_a_smaller_margin_is_harder_to_keep():
    rng = np.random.default_rng(13)
    forgotten = np.arange(1500) < 500
    scores = draw_models(rng, 10, forgotten)
    before = scores[9] + 4 * forgotten
    assert decide(scores[:9], forgotten, before).answer == NO_DIFFERENCE
    assert decide(scores[:9], forgotten, before, margin=0.005).answer == TOO_LITTLE


def test_a_margin_that_the_model_before_would_pass_acquits_nobody_who_kept_half():
    rng = np.random.default_rng(14)
    forgotten = np.arange(6000) < 3000
    scores = draw_models(rng, 10, forgotten)
    before = scores[9] + 0.25 * forgotten
    assert abs(decide(np.r_[before[None], scores[1:9]], forgotten).difference.value) < 0.05
    assert decide(scores[:9], forgotten, before).answer == NO_DIFFERENCE  # far less than half can be left
    for share_left in (0.125, 0.25):
        partly_forgotten = np.r_[scores[:1] + share_left * forgotten, scores[1:9]]
        assert decide(partly_forgotten, forgotten, before).answer != NO_DIFFERENCE


@pytest.mark.parametrize(("size", "shift"), [(300, 2.0), (1500, 1.0)])
def test_scores_that_moved_both_ways_are_no_clean_sheet(size, shift):
    # Random labels leave half of the records with their own class: the AUC of such a mixture stays where it was.
    rng = np.random.default_rng(15)
    forgotten = np.arange(2 * size) < size
    scores = draw_models(rng, 10, forgotten)
    before = scores[9] + 4 * forgotten
    scores[0] += shift * forgotten * np.where(np.arange(2 * size) % 2, 1, -1)
    finding = decide(scores[:9], forgotten, before)
    assert abs(finding.difference.value) < 0.03
    assert finding.answer == REMEMBERED
    assert finding.spread.low > 0


def test_scores_that_vary_less_than_those_of_other_models_are_overdone():
    rng = np.random.default_rng(16)
    forgotten = np.arange(1000) < 500
    scores = draw_models(rng, 10, forgotten)
    scores[0] = np.where(forgotten, scores[1:9].mean(axis=0) + 0.2 * rng.normal(size=1000), scores[0])
    finding = decide(scores[:9], forgotten, scores[9] + 4 * forgotten)
    assert finding.answer == OVERDONE
    assert "vary less" in finding.reason


def test_a_spread_that_differs_between_trainings_accuses_nobody():
    controls = 2
    rng = np.random.default_rng([17, controls])
    forgotten = np.arange(450) < 150
    answers = []
    for _ in range(RUNS):
        widths = np.exp(0.4 * rng.normal(size=(controls + 1, 1)))
        scores = 3 * rng.normal(size=450) + rng.normal(size=(controls + 1, 450)) * np.where(forgotten, widths, 1)
        answers.append(decide(scores, forgotten).answer)
    assert_seldom_accused(answers)


def test_copies_of_a_control_are_one_control():
    rng = np.random.default_rng(18)
    forgotten = np.arange(900) < 300
    scores = draw_models(rng, 6, forgotten)
    once, twice = decide(scores, forgotten), decide(np.r_[scores, scores[1:4], scores[1:2]], forgotten)
    assert once == twice
    with_one_control = decide(np.r_[scores[:1], np.repeat(scores[1:2], 8, axis=0)], forgotten)
    assert "training noise is not included" in with_one_control.reason
    assert len(with_one_control.controls) == 1


def test_half_of_what_a_model_hardly_showed_is_not_left_out():
    rng = np.random.default_rng(19)
    forgotten = np.arange(1200) < 400
    scores = draw_models(rng, 10, forgotten)
    weak = decide(scores[:9], forgotten, scores[9] + 0.4 * forgotten)
    assert (weak.answer, "may be left" in weak.reason) == (TOO_LITTLE, True)
    assert decide(scores[:9], forgotten, scores[9] + 4 * forgotten).answer == NO_DIFFERENCE


def test_a_constant_model_is_not_accused_where_others_rank_the_records_low():
    rng = np.random.default_rng(20)
    forgotten = np.arange(900) < 300
    scores = draw_models(rng, 9, forgotten, shift=-2.5)
    scores[0] = 0.5
    finding = decide(scores, forgotten)
    assert (finding.answer, "all records alike" in finding.reason) == (TOO_LITTLE, True)


@pytest.mark.parametrize("shape", ["ties", "skewed"])
def test_no_difference_never_stands_beside_a_share_above_0(shape):
    rng = np.random.default_rng(21)
    forgotten = np.arange(800) < 400
    for moved in np.linspace(0, 0.2, 6):
        scores = draw_models(rng, 10, forgotten, shape=shape)
        scores[0, : int(400 * moved)] += rng.choice([-3, 3], int(400 * moved))
        finding = decide(scores[:9], forgotten, scores[9] + 4 * forgotten)
        assert finding.answer != NO_DIFFERENCE or finding.share.low == 0


def test_without_the_model_before_nobody_is_acquitted():
    # Who leaves it out would be acquitted of what the model before showed too little of, or of controls that saw all.
    rng = np.random.default_rng(22)
    forgotten = np.arange(1500) < 500
    scores = draw_models(rng, 10, forgotten)
    before = scores[9] + 4 * forgotten
    assert decide(scores[:9], forgotten, before).answer == NO_DIFFERENCE
    without = decide(scores[:9], forgotten)
    assert (without.answer, "without the model before" in without.reason) == (TOO_LITTLE, True)
    assert abs(without.difference.value) < 0.05
    saw_them = scores + 4 * forgotten
    assert decide(saw_them[:9], forgotten).answer == TOO_LITTLE
    assert decide(saw_them[:9], forgotten, saw_them[9]).answer == TOO_LITTLE


def test_a_single_control_neither_acquits_nor_accuses_by_what_trainings_differ_by():
    rng = np.random.default_rng(23)
    forgotten = np.arange(700) < 300
    answers = []
    for _ in range(RUNS):
        scores = draw_models(rng, 3, forgotten, spread=0.3)
        answers.append(decide(scores[:2], forgotten, scores[2] + 3 * forgotten).answer)
    assert NO_DIFFERENCE not in answers
    assert_seldom_accused(answers)
    assert decide(np.stack([scores[2] + 3 * forgotten, scores[1]]), forgotten).answer == REMEMBERED


def test_controls_on_another_scale_accuse_nobody_of_how_hard_the_records_are():
    # Subtracting their mean leaves a fifth of the difficulty, by which the kinds of records differ.
    rng = np.random.default_rng(24)
    forgotten = np.arange(700) < 300
    answers = []
    for _ in range(RUNS):
        difficulty = 3 * rng.normal(size=700) - 1.5 * forgotten
        scores = difficulty + rng.normal(size=(10, 700))
        scores[0] -= 0.2 * difficulty
        answers.append(decide(scores[:9], forgotten, scores[9] + 3 * forgotten).answer)
    assert_seldom_accused(answers)


def test_scores_the_wrong_way_round_and_swapped_models_are_no_answer():
    rng = np.random.default_rng(25)
    forgotten = np.arange(1500) < 500
    scores = draw_models(rng, 10, forgotten)
    before = scores[9] + 3 * forgotten
    for after in (scores[0], before):
        finding = decide(-np.r_[after[None], scores[1:9]], forgotten, -before)
        assert (finding.answer, "wrong way round" in finding.reason) == (TOO_LITTLE, True)
    assert decide(np.r_[before[None], scores[1:9]], forgotten, scores[0]).answer == REMEMBERED


def draw_seen(rng, models, forgotten, *, effect=3.0, spread=0.0):
    """Reference models of an online audit, NaN where they were trained on the record, and two that saw none."""
    scores = draw_models(rng, models + 2, forgotten, spread=spread)
    saw = np.concatenate([np.stack([half, ~half]) for half in rng.random((models // 2, len(forgotten))) < 0.5])
    return scores[0], np.where(saw, np.nan, scores[1:-1]), scores[-1] + effect * forgotten, saw


def test_models_that_saw_half_of_the_records_each_are_controls_of_the_others():
    rng = np.random.default_rng([26, 4])
    forgotten = np.arange(700) < 300
    answers = []
    for _ in range(RUNS):
        after, unseen, before, _ = draw_seen(rng, 4, forgotten, spread=0.3)
        answers.append(decide(np.r_[after[None], unseen], forgotten, before).answer)
    assert_seldom_accused(answers)
    assert decide(np.r_[before[None], unseen], forgotten, before).answer == REMEMBERED


def test_controls_that_saw_a_record_need_two_others():
    rng = np.random.default_rng(27)
    forgotten = np.arange(700) < 300
    after, unseen, before, saw = draw_seen(rng, 2, forgotten)
    with pytest.raises(
        InputError, match="controls: each record needs 2 controls that were not trained on it, one has 1"
    ):
        decide(np.r_[after[None], unseen], forgotten, before)
    controls = draw_models(rng, 4, forgotten)
    controls[0, forgotten] = np.nan
    with pytest.raises(InputError, match="controls: control 0 has no score of a record of one kind"):
        decide(np.r_[after[None], controls], forgotten, before)
    assert saw.sum() == 700
