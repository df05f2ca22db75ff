"""Three sets: non-members and population that were both held out are hardly ever said to differ, trained ones are.

Each test states its chance of failing although all is well.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from divulge import identify
from divulge.auditing.compare import Comparison, judge_ending
from divulge.auditing.gates import gate
from divulge.decisions import usage
from divulge.decisions.counts import Counts
from divulge.evaluation.held_out import (
    SetScores,
    comparable_rows,
    compare_held_out,
    excludes_chance,
    find_hidden_leaks,
    rank_held_out,
)
from divulge.results import CheckFinding
from divulge.types import Estimate
from score_audits import SCORE_SHAPES, scored, sizes


def is_accused(scores):
    return any(map(excludes_chance, compare_held_out(scores).values()))


def is_stopped(scores):
    return is_accused(scores) or bool(find_hidden_leaks(scores))


def draw_sets(rng, shape, recipes, n, k):
    """Scores of 5 members, ``n`` non-members and a population of ``k``, all alike."""
    values = SCORE_SHAPES[shape](rng, (recipes, 5 + n + k))
    return {str(i): SetScores(*np.split(row, [5, 5 + n])) for i, row in enumerate(values)}


def test_held_out_sets_of_models_that_leak_nothing_stop_at_most_one_of_five_hundred_audits():
    """456 audits, of two rules of .1 % each; chance of failing below 1e-4. Tied scores stop hardly any."""
    rng = np.random.default_rng(0)
    stopped = [
        is_stopped(draw_sets(rng, shape, recipes, n, k))
        for shape in SCORE_SHAPES
        for n, k in ((1, 40), (12, 300), (250, 60))  # tiny and lopsided
        for recipes in (1, 4)
        for _ in range(30 if shape in ("continuous", "rounded") else 4)
    ]
    assert sum(stopped) <= binom.isf(1e-4, len(stopped), 0.002)


def test_few_held_out_records_are_ranked_above_others_at_most_once_in_two_thousand_audits():
    """720 audits, of one rule of .05 %; chance of failing below 1e-4. Tied scores and pairs are hardly ever accused."""
    rng = np.random.default_rng(1)
    accused = [
        bool(rank_held_out(draw_sets(rng, shape, 3, n, k)))
        for shape in SCORE_SHAPES
        for n, k in ((2, 30), (8, 16), (15, 30), (40, 90))
        for _ in range(90 if shape in ("continuous", "rounded") and n > 2 else 10)
    ]
    assert sum(accused) <= binom.isf(1e-4, len(accused), 0.0005)


def test_equal_records_count_once_and_copies_of_members_accuse_nobody():
    """Certain: of forty groups of ten equal records, twenty a side, one score a group."""
    rng, accused = np.random.default_rng(0), 0
    for _ in range(40):
        groups = np.r_[np.arange(5), np.repeat(np.arange(5, 45), 10), np.arange(5)]
        scores = np.append(np.full(5, 9.0), rng.normal(size=40))[
            groups
        ]  # the model knows its members, and their copies
        rows = {"members": np.arange(5), "nonmembers": np.r_[5:205, 405:410], "population": np.arange(205, 405)}
        kept = comparable_rows(rows, groups, None)
        accused += is_accused({"loss": SetScores(**{name: scores[part] for name, part in kept.items()})})
    assert accused <= binom.isf(1e-4, 40, 0.001)


def test_classes_that_the_population_lacks_accuse_nobody():
    """Certain: scores are those of the class."""
    labels = np.r_[np.arange(10), np.repeat(np.arange(10), 20), np.repeat(np.arange(6), 30)]
    rows = {"members": np.arange(10), "nonmembers": np.arange(10, 210), "population": np.arange(210, 390)}
    kept = comparable_rows(rows, np.arange(390), labels, unseen_classes=(9,))
    assert not is_accused({"loss": SetScores(**{name: 1.0 * labels[part] for name, part in kept.items()})})
    assert set(labels[kept["nonmembers"]]) == set(range(6))


@pytest.mark.parametrize(("share", "found"), [(0.2, 20), (0.5, 60), (1.0, 60)])
def test_non_members_that_were_trained_on_are_seen_and_counted(share, found):
    """Members of AUC .86 among 300 non-members and 400 of the population; chance of failing below 1e-4."""
    rng, accused, covered = np.random.default_rng(0), 0, 0
    for _ in range(60):
        used = rng.random(300) < share
        members, population = rng.normal(1.5, 1, 300), rng.normal(size=400)
        sets = SetScores(members, rng.normal(1.5 * used, 1), population)
        accused += is_accused({"loss": sets})
        estimate = usage.mixture(Counts.empty(population).add(sets.nonmembers), members)
        covered += estimate.low <= used.mean() <= estimate.high
    assert accused >= found
    assert covered >= binom.ppf(1e-4, 60, 0.95)


def test_a_weak_leak_that_non_members_hide_is_seen_by_the_population():
    """AUC .6, all of 200 non-members trained on, 400 of the population; chance of failing below 1e-4."""
    rng = np.random.default_rng(0)
    draws = [SetScores(*rng.normal(0.36, 1, (2, 200)), rng.normal(size=400)) for _ in range(60)]
    assert sum(is_stopped({"loss": sets}) for sets in draws) >= 45


def found(effect, **more):
    run = scored({"loss": np.random.default_rng(3).normal(size=1000)}, sizes(500, 500))
    finding = CheckFinding("held-out records", effect, "Non-members score like training data.", **more)
    return replace(run, about=replace(run.about, findings=(finding,)))


@pytest.mark.parametrize(
    ("effect", "states"),
    [
        ("none", ["kept", "kept", "kept"]),
        ("unsure", ["undecided", "kept", "kept"]),
        ("not cleared", ["undecided", "undecided", "undecided"]),
    ],
)
def test_limits_are_held_against_the_larger_of_both_comparisons_and_by_none_that_may_hide_a_leak(effect, states):
    run = found(effect, member_auc=None if effect == "none" else Estimate(0.6, 0.52, 0.68, 0.95, "delong"))
    assert (run.verdict.answer == "no leak found") == (effect == "none")
    assert [ruling.state for ruling in gate(run, ["auc:0.65", "auc:0.7", "tpr@fpr=0.05:0.2"])] == states


@pytest.mark.parametrize(("effect", "tpr"), [("unsure", "kept"), ("not cleared", "undecided")])
def test_beside_a_leak_limits_are_held_against_the_larger_of_both_comparisons(effect, tpr):
    area = Estimate(0.66, 0.62, 0.7, 0.95, "delong")
    run = found(effect, member_auc=area)
    run = replace(run, scores={"loss": run.scores["loss"] + 0.3 * run.members})
    assert run.verdict.answer == "leak found"
    rulings = gate(run, ["auc:0.69", "auc:0.7", "tpr@fpr=0.05:0.3"])
    assert [ruling.state for ruling in rulings] == ["undecided", "kept", tpr]


def test_what_is_unchecked_is_said_and_changes_nothing_else():
    run = found("not checked")
    assert run.verdict.answer == "no leak found"
    assert "score like training data" in run.verdict.text
    assert gate(run, "auc:0.65").state == "kept"


def test_a_population_that_was_trained_on_calibrates_no_decision():
    decision = found("not cleared", trained_on="population")["loss"].selection(fpr=0.1)
    assert decision.guarantee.standing == "void"
    assert sum("score like training data" in warning for warning in decision.warnings) == 1


def test_a_fall_against_non_members_that_were_trained_on_is_no_evidence_for_a_defence():
    after = found("leak", trained_on="nonmembers")
    before = replace(
        after, scores={"loss": after.scores["loss"] + 2 * after.members}, about=replace(after.about, findings=())
    )
    compared = Comparison.from_runs({"before": before, "after": after})
    heading, words, _ = judge_ending(compared.changes["after"], after)
    assert "Less is given away" not in heading
    assert "cannot be told" in words


def test_a_calibration_that_scores_like_known_members_is_said():
    rng = np.random.default_rng(0)
    candidates, members = rng.normal(size=300), rng.normal(2, 1, 100)
    warned = [
        any("known members" in warning for warning in identify(candidates, calibration, members=members).warnings)
        for calibration in (rng.normal(2, 1, 300), rng.normal(size=300))
    ]
    assert warned == [True, False]
