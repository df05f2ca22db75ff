"""Knockoffs: the selection in loops, and the test of symmetry by scipy and enumeration."""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import divulge as dv
from knockoffs import select_by_knockoffs, symmetry_control


def naive(originals, knockoffs, level):
    """The smallest t among the sizes of the differences with (1 + #{W ≤ -t}) / #{W ≥ t} ≤ level."""
    differences = [a - b for a, b in zip(originals, knockoffs, strict=True)]
    for t in sorted({abs(w) for w in differences if w}):
        above = sum(w >= t for w in differences)
        if above and (1 + sum(w <= -t for w in differences)) / above <= level:
            return [w >= t for w in differences], t
    return [False] * len(differences), np.inf


@pytest.mark.parametrize("level", [0.1, 0.3])
def test_the_selection_is_that_of_the_definition(level):
    rng = np.random.default_rng(0)
    for shift in (0.0, 1.0, 3.0):
        for _ in range(20):
            originals, knockoffs = (rng.normal(size=40) + shift).round(1), rng.normal(size=40).round(1)
            selected, threshold = select_by_knockoffs(originals, knockoffs, fdr=level)
            expected, expected_threshold = naive(originals, knockoffs, level)
            assert (selected.tolist(), threshold) == (expected, pytest.approx(expected_threshold))


def test_symmetry_is_the_sign_test_and_wilcoxons_each_at_half_the_level():
    rng = np.random.default_rng(1)
    for shift in (0.0, 0.2, 0.6):
        originals, knockoffs = rng.normal(shift, 1, 60), rng.normal(size=60)
        originals[:5] = knockoffs[:5]
        w = (originals - knockoffs)[5:]
        signs = stats.binom.cdf(min((w > 0).sum(), (w < 0).sum()), 55, 0.5) * 2
        ranks = stats.rankdata(abs(w))[w > 0].sum()
        z = (ranks - 55 * 56 / 4) / np.sqrt(55 * 56 * 111 / 24)
        result = symmetry_control(originals, knockoffs)
        assert result.p_value == pytest.approx(min(2 * min(signs, 2 * stats.norm.sf(abs(z))), 1), rel=1e-6)
        assert result.passed == (result.p_value > 0.05)
    assert symmetry_control([1.0, 2.0], [1.0, 2.0]).p_value == 1.0
    with pytest.raises(dv.InputError, match="knockoffs"):
        symmetry_control([1.0], [1.0, 2.0])


def test_knockoffs_fail_when_paraphrases_read_worse_and_the_symmetry_test_says_so():
    rng = np.random.default_rng(7)
    false, fired = [], 0
    for _ in range(30):
        original = rng.normal(size=200)  # no member at all
        paraphrase = original - rng.normal(1.2, 1, 200)
        chosen, _ = select_by_knockoffs(original, paraphrase, fdr=0.1)
        false.append(float(chosen.any()))
        fired += not symmetry_control(original, paraphrase).passed
    assert np.mean(false) > 0.9
    assert fired == 30
    alarms = sum(not symmetry_control(rng.normal(size=60), rng.normal(size=60)).passed for _ in range(300))
    assert alarms <= 30


def test_knockoffs_hold_when_differences_are_symmetric():
    rng = np.random.default_rng(9)
    false = []
    for _ in range(200):
        difference = np.append(rng.normal(3, 1, 50), rng.normal(size=100))
        chosen, _ = select_by_knockoffs(difference, np.zeros(150), fdr=0.2)
        false.append(chosen[50:].sum() / max(chosen.sum(), 1))
    assert np.mean(false) <= 0.2 + 4 * np.std(false) / np.sqrt(200)


@pytest.mark.skipif("DIVULGE_DATA" not in os.environ, reason="DIVULGE_DATA names no folder of data")
def test_knockoffs_fail_on_real_paraphrases():
    table = pl.read_parquet(Path(os.environ["DIVULGE_DATA"]) / "tofu_llama2_phi_scores.parquet")
    for _, run in table.filter(pl.col("trained_on") == "retain90").group_by(
        "model", "weight_decay", maintain_order=True
    ):
        forget = run.filter(pl.col("split") == "forget")
        nonmember_scores, paraphrases = -forget["loss"].to_numpy(), -forget["paraphrase_loss"].to_numpy()
        selected, _ = select_by_knockoffs(nonmember_scores[:150], paraphrases[:150], fdr=0.1)
        assert selected.sum() > 50  # of no members at all
        assert not symmetry_control(nonmember_scores[150:], paraphrases[150:]).passed
