"""Verdicts and gates on scores whose truth is known: how often they are wrong, over many draws.

Each test states its chance of failing although all is well.
"""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

import divulge as dv
from divulge.auditing.compare import compare, summarise_changes
from divulge.auditing.findings import realised_fpr
from divulge.auditing.gates import gate
from null_models import ANSWERS, INFORMED, audited
from score_audits import SCORE_SHAPES, null, scored, sizes

TIED = [score_kind for score_kind in SCORE_SHAPES if score_kind not in ("continuous", "two-valued, rate .02")]


def max_wrong(runs):
    """More than so many of ``runs`` are wrong with probability 0.1 % where 5 % may be."""
    return binom.isf(0.001, runs, 0.05)


def broken(audit, *policies):
    return any(ruling.state == "broken" for ruling in gate(audit, policies))


def test_eight_null_recipes_break_a_gate_and_make_a_leak_in_at_most_five_percent_of_runs():
    """Fails by chance in 0.2 % at the worst; with every interval at 95 % by itself, 18 % would be broken."""
    rng = np.random.default_rng(1)
    audits = [null(rng, "continuous", 60, 60, 8) for _ in range(80)]
    assert sum(broken(audit, "auc:0.5", "auc:0.51") for audit in audits) <= max_wrong(80)
    assert sum(audit.verdict.answer == "leak found" for audit in audits) <= max_wrong(80)


@pytest.mark.parametrize(("m", "n"), [(100, 10), (500, 120)])
def test_ties_neither_break_a_gate_nor_make_a_leak(m, n):
    """12 audits of each shape: together and alone a size fails by chance in 1 % at worst."""
    rng = np.random.default_rng(m)
    counts = np.zeros((len(TIED), 2), int)
    for row, score_kind in enumerate(TIED):
        for _ in range(12):
            audit = null(rng, score_kind, m, n, 4)
            is_broken = broken(audit, "auc:0.5", "tpr@fpr=0.1:0.1", "epsilon:0")
            counts[row] += is_broken, audit.verdict.answer == "leak found"
    assert counts.max() <= max_wrong(12), counts
    assert (counts.sum(axis=0) <= max_wrong(12 * len(TIED))).all(), counts


def test_honest_models_that_know_their_classes_are_cleared():
    """3 whole audits of each of 3 kinds: fails by chance in .1 % at the worst."""
    answers = [audited(answer, 200, 200, seed).verdict.answer for answer in INFORMED for seed in range(3)]
    assert answers.count("leak found") <= max_wrong(9)
    assert answers.count("no leak found") >= 6, answers


def test_a_model_that_was_trained_on_nothing_is_seldom_said_to_leak():
    """16 whole audits: fails by chance in .1 % at the worst; a rate of 45 % is noticed with 90 %.

    Smaller rates are seen by the tests of scores alone, which make hundreds of audits.
    """
    verdicts = [
        audited(answer, *((600, 80) if answer == "constant" else (200, 20)), seed, ["loss", "gap"]).verdict
        for answer in ANSWERS
        for seed in range(4)
    ]
    assert sum(verdict.answer == "leak found" for verdict in verdicts) <= max_wrong(16)


def test_no_recipe_above_its_limit_is_kept():
    """Eight recipes with an AUC of 0.6, held to a little less: 0.1 % at the worst, 18 % if each had its own 95 %."""
    rng = np.random.default_rng(2)
    members = sizes(300, 300)
    count = 0
    for _ in range(80):
        scores = rng.normal(size=(8, 600)) + 2**0.5 * ndtri(0.6) * members
        rulings = gate(scored({f"r{i}": row for i, row in enumerate(scores)}, members), "auc:0.599")
        count += any(ruling.state == "kept" for ruling in rulings)
    assert count <= max_wrong(80)


def test_tiny_sets_are_never_cleared_and_seldom_accused():
    """24 null audits of 2 recipes in each of 5 sizes, together and alone: fails by chance in 0.6 % at the worst."""
    rng, accused = np.random.default_rng(2), []
    for m, n in ((1, 1), (1, 300), (300, 1), (5, 5), (10, 40)):
        answers = [null(rng, "continuous", m, n, 2).verdict.answer for _ in range(24)]
        assert "no leak found" not in answers
        accused.append(answers.count("leak found"))
    assert max(accused) <= max_wrong(24)
    assert sum(accused) <= max_wrong(120)


@pytest.mark.parametrize(("m", "n"), [(60, 60), (400, 80)])
def test_the_smallest_leak_named_is_found_as_often_as_said(m, n):
    """100 leaking audits, 80 %, four standard errors; ε and TPR may find what the AUC does not, so one-sided."""
    rng = np.random.default_rng(3)
    members = sizes(m, n)
    detectable = null(rng, "continuous", m, n, 1).summary().smallest_detectable
    assert detectable.auc == dv.evaluation.smallest_detectable(m, n, 0.1, 1 - 0.9 * 0.05 / 3).auc
    shifts = 2**0.5 * ndtri(detectable.auc) * members
    score_rows = rng.normal(size=(100, m + n)) + shifts
    result = sum(scored({"r": row}, members, fpr=(0.1,)).verdict.answer == "leak found" for row in score_rows)
    assert result / 100 >= 0.8 - 4 * (0.16 / 100) ** 0.5


@pytest.mark.parametrize("score_kind", SCORE_SHAPES)
def test_a_false_positive_rate_that_is_kept_is_seldom_called_too_high(score_kind):
    """4 thresholds together raise a false alarm in 5 % of audits at most: 0.1 % a kind."""
    rng = np.random.default_rng(4)
    alarms = 0
    for _ in range(100):
        audit = null(rng, score_kind, 10, 400, 4)
        outcomes = [audit[name] for name in audit]
        alarms += any(
            realised_fpr(outcome.scores[~outcome.members], outcome.calibration, 0.1, tests=4).broken
            for outcome in outcomes
        )
    assert alarms <= max_wrong(100)


def compared(before_shift, after_shift, seed):
    """What a comparison of AUCs says of two runs whose members' scores are shifted by so much; the AUC is .5 at 0."""
    rng = np.random.default_rng(seed)
    members = np.arange(800) < 400
    noise = rng.normal(size=(2, 800))
    runs = [
        scored({"loss": row + shift * members}, members)
        for row, shift in zip(noise, (before_shift, after_shift), strict=True)
    ]
    area = compare(*runs)[0]
    return summarise_changes([area])[1], area


@pytest.mark.parametrize(
    ("before", "after", "tone"),
    [
        (0.6, 0.0, "clear"),
        (0.0, -0.6, "leak"),  # the members' losses are now higher: the score reversed finds them
        (0.3, -1.2, "leak"),
        (-1.2, 0.3, "clear"),
        (0.8, -0.8, "undecided"),
    ],
)
def test_a_score_that_turns_round_gives_away_no_less(before, after, tone):
    """10 comparisons a cell; with an AUC that counts as the less the lower it is, cells 2 to 4 are all wrong."""
    comparisons = [compared(before, after, seed) for seed in range(10)]
    assert sum(answer == tone for answer, _ in comparisons) >= 9
    wrong = {"clear": 1, "leak": -1}.get(tone)
    assert not any(change.direction == wrong for _, change in comparisons if wrong)
