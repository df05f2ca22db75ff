"""Negative controls: their false alarms stay below their level, and they fire where they must."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from divulge.decisions import controls, fdr, pooled_scores
from divulge.decisions.counts import Counts
from divulge.errors import InputError

DATA = os.environ.get("DIVULGE_DATA")


def alarms(control, runs, seed):
    rng = np.random.default_rng(seed)
    return np.mean([not control(rng).passed for _ in range(runs)])


def test_exchangeability_finds_shift_and_spread():
    rng = np.random.default_rng(1)
    calibration = rng.normal(size=400)
    assert controls.exchangeability(calibration, rng.normal(0.5, 1, 200)).state == "failed"
    assert controls.exchangeability(calibration, rng.normal(0, 2, 200)).state == "failed"
    assert controls.exchangeability(np.round(calibration), np.round(rng.normal(0.5, 1, 200))).state == "failed"
    # Candidates hold members, which may be what differs.
    assert controls.clean_model(calibration, rng.normal(0.5, 1, 200)).state == "doubtful"
    assert controls.low_scores(calibration, rng.normal(-0.5, 1, 200)).state == "doubtful"


def test_exchangeability_of_several_signals_is_that_of_the_most_striking_one():
    rng = np.random.default_rng(13)
    calibration, nonmembers = rng.normal(size=(200, 3)), rng.normal(size=(100, 3)) + [0, 0.4, 0]
    each = [controls.exchangeability(calibration[:, i], nonmembers[:, i]).p_value for i in range(3)]
    control = controls.exchangeability(calibration, nonmembers)
    assert control.p_value == 3 * min(each) == 3 * each[1]
    assert "(signal 2 of 3)" in control.says


@pytest.mark.parametrize(
    ("calibration", "nonmembers", "message"),
    [
        (np.ones((4, 2)), np.ones(4), "holdout: the same signals"),
        (np.ones((4, 2)), np.ones((4, 3)), "holdout: the same signals"),
        (np.ones((4, 2, 2)), np.ones((4, 2, 2)), "calibration: one or two dimensions"),
        (np.ones(4), "garbage", "holdout: numbers"),
        (np.ones(4), [np.nan], "holdout: 1 values are NaN"),
    ],
)
def test_exchangeability_refuses_what_cannot_be_compared(calibration, nonmembers, message):
    with pytest.raises(InputError, match=message):
        controls.exchangeability(calibration, nonmembers)


@pytest.mark.parametrize(("n", "m"), [(10, 30), (500, 300)])
def test_low_scores_seldom_raises_a_false_alarm_whatever_the_members_score(n, m):
    def control(rng):
        return controls.low_scores(rng.normal(size=n), np.append(rng.normal(size=m), rng.normal(3, 1, m // 2)))

    assert alarms(control, 400, 2) <= 37 / 400
    assert alarms(lambda rng: controls.low_scores(rng.normal(size=n), rng.normal(size=m)), 400, 2) <= 37 / 400


WORDS = np.array(["the", "a", "model", "data", "king", "queen", "green", "blue", "runs", "of", "train", "paper"])


def texts(rng, count, tilt=None):
    return [" ".join(rng.choice(WORDS, 12, p=tilt)) for _ in range(count)]


def test_blind_text_seldom_raises_a_false_alarm():
    # 5 % of 16 is 1; more than 4 has probability 1e-3.
    rate = alarms(lambda rng: controls.blind_text(texts(rng, 40), texts(rng, 30), seed=int(rng.integers(99))), 16, 4)
    assert rate <= 4 / 16


def test_blind_text_finds_other_words_and_other_years():
    rng = np.random.default_rng(5)
    tilt = np.linspace(1, 3, len(WORDS))
    assert not controls.blind_text(texts(rng, 200), texts(rng, 200, tilt / tilt.sum())).passed
    years = [[f"on day {rng.integers(30)} of {year}" for _ in range(60)] for year in (2019, 2024)]
    assert not controls.blind_text(*years).passed


def test_blind_text_does_not_mind_repeats():
    rng = np.random.default_rng(6)
    same = texts(rng, 30)
    assert controls.blind_text(same * 5, same * 5).passed


@pytest.mark.parametrize("bad", [["a"] * 3, "a long string", [1] * 20])
def test_blind_text_refuses_what_is_no_set_of_texts(bad):
    with pytest.raises(InputError, match="cal_texts"):
        controls.blind_text(bad, ["b"] * 20)


@pytest.mark.skipif(DATA is None, reason="DIVULGE_DATA names no folder of data")
def test_blind_text_tells_published_benchmarks_apart():
    with gzip.open(Path(DATA) / "blind_mia_texts.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    sides = [[row["text"] for row in rows if row["set"] == "gutenberg" and row["member"] == side] for side in (0, 1)]
    result = controls.blind_text(*sides)
    assert result.state == "doubtful"
    assert result.auc.low > 0.92
    # Halves of one side cannot be told apart.
    assert controls.blind_text(sides[0][::2], sides[0][1::2]).passed


def test_adadetect_learns_which_signal_counts_and_keeps_the_bound():
    rng = np.random.default_rng(10)
    false, power = [], []
    for run in range(25):
        members = np.column_stack([rng.normal(-2.5, 1, 60), rng.normal(size=(60, 2))])
        candidates = np.concatenate([members, rng.normal(size=(140, 3))])
        candidate_scores, calibration_scores = pooled_scores.adadetect_scores(
            candidates, rng.normal(size=(400, 3)), seed=run
        )
        chosen = (
            candidate_scores
            > fdr.decide(Counts.empty(calibration_scores).add(candidate_scores), fdr=0.1, method="bh").threshold
        )
        false.append(chosen[60:].sum() / max(chosen.sum(), 1))
        power.append(chosen[:60].mean())
    assert np.mean(false) <= 0.1 + 4 * np.std(false) / np.sqrt(25)
    assert np.mean(power) > 0.4


def test_adadetect_treats_calibration_and_candidates_alike():
    rng = np.random.default_rng(11)
    candidates, calibration = rng.normal(size=(50, 2)), rng.normal(size=(40, 2))
    order = rng.permutation(50)
    candidate_scores, calibration_scores = pooled_scores.adadetect_scores(candidates, calibration, seed=3)
    candidates_permuted, calibration_permuted = pooled_scores.adadetect_scores(candidates[order], calibration, seed=3)
    assert np.array_equal(candidate_scores[order], candidates_permuted)
    assert np.array_equal(calibration_scores, calibration_permuted)


def test_samples_as_alike_as_can_be_pass_without_a_word():
    """SciPy warns of 30 against 30 scores that alternate; warnings are errors here."""
    for n in (10, 30, 31, 200):
        control = controls.exchangeability(np.arange(n) + 0.5, np.arange(n, dtype=float))
        assert control.passed
        assert control.p_value == 1.0
