"""Models that never saw the records are called otherwise in at most 5 % of checks, whatever the trainings do."""

import numpy as np
import pytest
from scipy import stats

from divulge.evaluation.erasure import erasure_test
from divulge.unlearning.finding import decide_request

RUNS = 100


def draw_models(rng, models, forgotten, effect, shape):
    n = len(forgotten)
    noise = rng.exponential(size=(models, n)) - 1 if shape == "skewed records" else rng.normal(size=(models, n))
    scale = np.exp(0.3 * rng.normal(size=models))[:, None] if shape == "scaled models" else 1.0
    difficulty = 3 * rng.normal(size=n) + (1.5 * forgotten if shape != "alike" else 0.0)
    return difficulty * scale + noise + effect * rng.normal(size=models)[:, None] * forgotten


@pytest.mark.parametrize("controls", [2, 4, 8])
@pytest.mark.parametrize("sizes", [(20, 60), (300, 1000)])
@pytest.mark.parametrize(
    ("shape", "effect"),
    [("alike", 0.0), ("alike", 0.1), ("another difficulty", 0.3), ("skewed records", 0.05), ("scaled models", 0.0)],
)
def test_twins_that_never_saw_the_records_are_not_accused(controls, sizes, shape, effect):
    rng = np.random.default_rng([controls, *sizes])
    forgotten = np.arange(sum(sizes)) < sizes[0]
    accused = 0
    for _ in range(RUNS):
        scores = draw_models(rng, controls + 1, forgotten, effect, shape)
        accused += erasure_test(scores[0], scores[1:], forgotten).answer.startswith(("still", "overdone"))
    assert stats.binomtest(accused, RUNS, 0.05, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize("controls", [2, 8])
@pytest.mark.parametrize("sizes", [(20, 60), (1000, 2000)])
def test_a_random_draw_needs_no_spread_of_trainings(controls, sizes):
    rng = np.random.default_rng([controls, *sizes, 1])
    forgotten = np.arange(sum(sizes)) < sizes[0]
    answers = []
    for _ in range(RUNS):
        scores = draw_models(rng, controls + 1, forgotten, 0.0, "alike")
        answers.append(erasure_test(scores[0], scores[1:], forgotten, at_random=True).answer.split()[0])
    accused = RUNS - answers.count("too") - answers.count("no")
    assert stats.binomtest(accused, RUNS, 0.05, alternative="greater").pvalue > 0.001
    # 300 and 1,000 records are acquitted in a fifth of checks, these in nine of ten.
    assert sizes[0] < 1000 or answers.count("no") > 3 * RUNS / 4


@pytest.mark.parametrize("shape", ["alike", "another difficulty"])
def test_what_stands_beyond_the_margin_is_seldom_acquitted(shape):
    rng = np.random.default_rng(3)
    forgotten = np.arange(1300) < 300
    acquitted = 0
    for _ in range(RUNS):
        scores = draw_models(rng, 9, forgotten, 0.02, shape)
        scores[0] += 0.19 * forgotten  # an AUC of .05 above that of models that never saw the records
        acquitted += erasure_test(scores[0], scores[1:], forgotten).answer.startswith("no")
    assert stats.binomtest(acquitted, RUNS, 0.02, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize(("controls", "min_share"), [(8, 0.6), (16, 0.8)])
def test_enough_controls_acquit_where_the_records_are_those_of_certain_people(controls, min_share):
    rng = np.random.default_rng([controls, 4])
    forgotten = np.arange(3000) < 1000
    acquitted = 0
    for _ in range(RUNS // 2):
        scores = draw_models(rng, controls + 1, forgotten, 0.0, "another difficulty")
        acquitted += erasure_test(scores[0], scores[1:], forgotten).answer.startswith("no")
    # Nine of ten and all were acquitted in 20 checks of another seed.
    assert acquitted > min_share * (RUNS // 2)


STRETCHES = {"as they are": lambda x: x, "times .75": lambda x: 0.75 * x, "bent": lambda x: 2 * np.sinh(x / 3)}


@pytest.mark.parametrize("stretch", STRETCHES)
def test_a_few_remembered_records_are_not_hidden_by_another_scale_of_the_scores(stretch):
    """Of 1,000 records 3 % are remembered whole; a change of scale acquitted up to 10 of 12 models before."""
    rng = np.random.default_rng(0)
    forgotten = np.arange(3000) < 1000
    answers = {0: [], 30: []}
    for n_remembered in list(answers) * 12:
        difficulty = 3 * rng.normal(size=3000)
        scores = difficulty + rng.normal(size=(10, 3000))
        scores[0] += 4 * (np.arange(3000) < n_remembered)
        before = scores[9] + 4 * forgotten
        decided = decide_request(
            "all", STRETCHES[stretch](scores[0]), scores[1:9], forgotten, before=before, margin=0.05, confidence=0.95,
            fdr=0.1, at_random=False, is_alike=True,
        )  # fmt: skip
        answers[n_remembered].append(decided.finding.answer.split()[0])
    assert answers[30].count("no") <= 2
    assert answers[0].count("no") >= 10
