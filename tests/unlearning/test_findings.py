"""Answers on one request from scores: who never saw the records is not accused, who still knows them not acquitted."""

import numpy as np
import pytest
from scipy import stats

from divulge.unlearning.finding import (
    NO_DIFFERENCE,
    OVERDONE,
    REMEMBERED,
    TOO_LITTLE,
    compare_with_controls,
    decide_request,
)

RULES = {"margin": 0.05, "confidence": 0.95, "fdr": 0.05, "at_random": False, "alike": True}
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


@pytest.mark.parametrize("controls", [2, 6])
@pytest.mark.parametrize("sizes", [(15, 40), (200, 400)])
@pytest.mark.parametrize(
    ("shape", "spread", "shift"),
    [("normal", 0.0, 0.0), ("normal", 0.3, 1.5), ("skewed", 0.05, 1.0), ("ties", 0.1, 0.0)],
)
def test_models_that_never_saw_the_records_are_seldom_accused(controls, sizes, shape, spread, shift):
    rng = np.random.default_rng([controls, *sizes])
    forgotten = np.arange(sum(sizes)) < sizes[0]
    answers = []
    for _ in range(RUNS):
        scores = draw_models(rng, controls + 1, forgotten, shape=shape, spread=spread, shift=shift)
        answers.append(decide(scores, forgotten).answer)
    accused = answers.count(REMEMBERED) + answers.count(OVERDONE)
    # 16 cells: at a rate of 5 % all of them pass with a probability of 98 %. benchmarks/erasure.py has more of them.
    assert stats.binomtest(accused, RUNS, 0.05, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize("controls", [5])
@pytest.mark.parametrize(("spread", "shift"), [(0.0, 0.0), (0.1, -1.0)])
def test_a_difference_of_the_margin_is_seldom_acquitted(controls, spread, shift):
    rng = np.random.default_rng(controls)
    forgotten = np.arange(1200) < 400
    acquitted = 0
    for _ in range(RUNS):
        scores = draw_models(rng, controls + 1, forgotten, spread=spread, shift=shift)
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
    scores = draw_models(rng, 9, forgotten, shift=-1.5)
    finding = decide(scores, forgotten)
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
    one = decide(scores, forgotten)
    assert "training noise is not included" in one.reason
    assert one.training_noise is None
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


@pytest.mark.parametrize("true_share", [0.0, 0.3, 1.0])
def test_the_share_still_remembered_lies_in_its_interval(true_share):
    rng = np.random.default_rng(12)
    forgotten = np.arange(1500) < 500
    held = 0
    for _ in range(10):
        scores = draw_models(rng, 7, forgotten)
        before = scores[6] + 5 * forgotten
        after = scores[:6].copy()
        after[0, : int(500 * true_share)] += 5
        share = decide(after, forgotten, before).share
        held += share.low <= true_share <= share.high
    assert held >= 8  # 95 % each: fewer in 1 of 80 tries


def test_a_smaller_margin_is_harder_to_keep():
    rng = np.random.default_rng(13)
    forgotten = np.arange(1500) < 500
    scores = draw_models(rng, 9, forgotten)
    assert decide(scores, forgotten).answer == NO_DIFFERENCE
    assert decide(scores, forgotten, margin=0.005).answer == TOO_LITTLE


def test_a_margin_that_the_model_before_would_pass_acquits_nobody():
    rng = np.random.default_rng(14)
    forgotten = np.arange(6000) < 3000
    scores = draw_models(rng, 10, forgotten)
    before = scores[9] + 0.25 * forgotten
    assert decide(scores[:9], forgotten).answer == NO_DIFFERENCE
    finding = decide(scores[:9], forgotten, before)
    assert (finding.answer, "would let pass" in finding.reason) == (TOO_LITTLE, True)
