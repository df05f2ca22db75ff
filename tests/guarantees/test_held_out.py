"""Three sets: non-members and population that were both held out are hardly ever said to differ, trained ones are.

Each test states its chance of failing although all is well.
"""

import numpy as np
import pytest
from scipy.stats import binom

from divulge.decisions import usage
from divulge.decisions.counts import Counts
from divulge.evaluation.held_out import SetScores, comparable_rows, compare_held_out, excludes_chance
from score_audits import SCORE_SHAPES


def is_accused(scores):
    return any(map(excludes_chance, compare_held_out(scores).values()))


@pytest.mark.parametrize("shape", SCORE_SHAPES)
def test_sets_that_were_held_out_are_accused_in_at_most_one_of_a_thousand_audits(shape):
    """1,000 audits in six shapes; chance of failing below 1e-4 a shape."""
    rng, accused, draws = np.random.default_rng(0), 0, 56
    for n, k in ((1, 40), (12, 300), (250, 60)):  # tiny and lopsided
        for recipes in (1, 4):
            for _ in range(draws // 2):
                values = SCORE_SHAPES[shape](rng, (recipes, 5 + n + k))
                accused += is_accused({str(i): SetScores(*np.split(row, [5, 5 + n])) for i, row in enumerate(values)})
    assert accused <= binom.isf(1e-4, 3 * draws, 0.001)


def test_equal_records_count_once_and_copies_of_members_accuse_nobody():
    """Certain: of forty groups of ten equal records, twenty a side, one score a group."""
    rng, accused = np.random.default_rng(0), 0
    for _ in range(100):
        groups = np.r_[np.arange(5), np.repeat(np.arange(5, 45), 10), np.arange(5)]
        scores = np.append(np.full(5, 9.0), rng.normal(size=40))[
            groups
        ]  # the model knows its members, and their copies
        rows = {"members": np.arange(5), "nonmembers": np.r_[5:205, 405:410], "population": np.arange(205, 405)}
        kept = comparable_rows(rows, groups, None)
        accused += is_accused({"loss": SetScores(**{name: scores[part] for name, part in kept.items()})})
    assert accused <= binom.isf(1e-4, 100, 0.001)


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
