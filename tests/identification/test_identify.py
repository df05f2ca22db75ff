"""`dv.identify` on arrays: methods, controls, warnings, real scores."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import divulge as dv
from divulge.identification import realised

DATA = os.environ.get("DIVULGE_DATA")


def split(rng, members=100, nonmembers=100, n_calibration=200, signal=3.0, shift=0.0):
    scores = np.append(rng.normal(signal, 1, members), rng.normal(shift, 1, nonmembers))
    return scores, rng.normal(size=n_calibration)


@pytest.mark.parametrize("method", ["bh", "ptdi", "storey", "auto"])
def test_every_method_gives_a_whole_selection(method):
    selection = dv.identify(*split(np.random.default_rng(0)), fdr=0.1, method=method)
    assert selection.selected.dtype == bool
    assert selection.p_values.shape == (200,)
    assert selection.threshold == pytest.approx(split(np.random.default_rng(0))[0][selection.selected].min())
    assert selection.guarantee.level == 0.1
    assert selection.usage.low <= 0.5 <= selection.usage.high


def test_auto_takes_storey_when_controls_pass_and_says_so():
    candidates, calibration = split(np.random.default_rng(1))
    selection = dv.identify(candidates, calibration, fdr=0.1)
    assert np.array_equal(selection.selected, dv.identify(candidates, calibration, fdr=0.1, method="storey").selected)
    assert any("auto chose storey" in warning for warning in selection.warnings)
    assert any("is your assumption" in warning for warning in selection.warnings)


def test_auto_takes_adaptive_where_a_holdout_was_compared():
    rng = np.random.default_rng(11)
    candidates, calibration = split(rng, 200, 300, 500, signal=1.2)
    holdout = rng.normal(size=200)

    def used(*scores, **options):
        selection = dv.identify(*scores, fdr=0.1, **options)
        return next(w.split()[2].rstrip(",") for w in selection.warnings if w.startswith("auto chose")), selection

    name, auto_selection = used(candidates, calibration, holdout=holdout)
    assert name == "adaptive"
    assert np.array_equal(
        auto_selection.selected, dv.identify(candidates, calibration, fdr=0.1, method="adaptive").selected
    )
    assert used(candidates, calibration)[0] == "storey"  # a shift would hurt adaptive more, and nobody looked for one
    assert used(candidates, calibration, holdout=holdout + 1)[0] == "bh"


def test_odd_documents_in_the_calibration_void_the_guarantee():
    """Garbage among known non-members gathers where "adaptive" counts; the bulk of the scores does not show it."""
    rng = np.random.default_rng(12)
    calibration = np.append(rng.normal(size=480), rng.normal(-9, 0.1, 20))
    candidates = np.append(rng.normal(1, 1, 100), rng.normal(size=300))
    selection = dv.identify(candidates, calibration, fdr=0.1, holdout=rng.normal(size=500))
    assert selection.guarantee.standing == "void"
    assert "low end FAILED" in selection.warnings[0]
    assert any("auto chose bh, not adaptive" in warning for warning in selection.warnings)


def test_a_failed_control_voids_the_guarantee_and_auto_falls_back_to_bh():
    rng = np.random.default_rng(2)
    candidates, calibration = split(rng)
    selection = dv.identify(candidates, calibration, fdr=0.1, holdout=rng.normal(0.7, 1, 200))
    assert selection.guarantee.standing == "void"
    assert selection.warnings[0].startswith("the guarantee is void: exchangeability FAILED")
    assert any("auto chose bh, not adaptive" in warning for warning in selection.warnings)
    assert np.array_equal(selection.selected, dv.identify(candidates, calibration, fdr=0.1, method="bh").selected)


NEW, OLD = ([f"in {year} the {i} of may" for i in range(200)] for year in (2024, 1999))


def test_texts_of_another_time_raise_doubt_that_only_non_members_can_settle():
    """Members may be what differs, so the claim stands as doubtful; known non-members who differ void it."""
    rng = np.random.default_rng(3)
    candidates, calibration = split(rng)
    texts = {"candidate_texts": NEW, "calibration_texts": OLD}
    selection = dv.identify(candidates, calibration, fdr=0.1, **texts)
    assert selection.guarantee.standing == "doubtful"
    assert str(selection.guarantee).startswith("DOUBTFUL: FDR ≤ 0.1, only if ")
    first_warning = selection.warnings[0]
    assert first_warning.startswith("the guarantee is in doubt: blind text (p = ")
    assert "the bound holds if the non-members among the candidates do not differ" in first_warning
    assert first_warning.endswith("a holdout of other non-members, drawn as the candidates were, would settle it")
    assert any("auto chose bh, not" in warning for warning in selection.warnings)
    similar = dv.identify(candidates, calibration, fdr=0.1, holdout=rng.normal(size=200), **texts)
    assert similar.guarantee.standing == "doubtful"
    assert similar.warnings[0].endswith(
        "the holdout does not, which settles it if it was drawn as those non-members were"
    )
    different = dv.identify(candidates, calibration, fdr=0.1, holdout=rng.normal(1, 1, 200), **texts)
    assert different.guarantee.standing == "void"
    assert different.warnings[0].startswith("the guarantee is void: exchangeability FAILED")
    assert any(warning.startswith("blind text raises doubt") for warning in different.warnings)


def test_a_text_among_both_candidates_and_calibration_is_refused():
    candidates, calibration = split(np.random.default_rng(3))
    with pytest.raises(dv.InputError, match=r"1 row \(7; counted from 0\) are also among the calibration texts"):
        dv.identify(candidates, calibration, candidate_texts=[*NEW[:7], OLD[3], *NEW[8:]], calibration_texts=OLD)


def test_scores_the_wrong_way_round_are_noticed():
    candidates, calibration = split(np.random.default_rng(4))
    truth = np.arange(200) < 100
    selection = dv.identify(-candidates, -calibration, truth=truth)
    assert selection.guarantee.standing == "doubtful"
    assert selection.warnings[0].startswith("the guarantee is in doubt: low scores")
    assert any("wrong way round" in warning for warning in selection.warnings)
    assert not any("wrong way round" in w for w in dv.identify(candidates, calibration, truth=truth).warnings)


@pytest.mark.parametrize("moved", [[0], [2], [0, 1, 2]])
def test_a_holdout_is_compared_on_every_signal_and_on_what_is_made_of_them(moved):
    rng = np.random.default_rng(11)
    candidates, calibration, holdout = (rng.normal(size=(n, 3)) for n in (300, 400, 200))
    candidates[:100, 1] += 4
    sound = dv.identify(candidates, calibration, fdr=0.1, holdout=holdout)
    assert sound.guarantee.standing == "holds"
    assert not any("is your assumption" in warning for warning in sound.warnings)
    assert np.array_equal(sound.selected, dv.identify(candidates, calibration, fdr=0.1).selected)
    holdout[:, moved] += 0.8
    for method in ("auto", "adadetect"):
        selection = dv.identify(candidates, calibration, fdr=0.1, holdout=holdout, method=method)
        assert selection.guarantee.standing == "void"
        assert selection.warnings[0].startswith("the guarantee is void: exchangeability FAILED")


def test_known_members_sharpen_the_share_and_change_nothing_else():
    rng = np.random.default_rng(10)
    candidates, calibration = split(rng)
    without_members = dv.identify(candidates, calibration, fdr=0.1)
    taught = dv.identify(candidates, calibration, fdr=0.1, members=rng.normal(3, 1, 200))
    assert np.array_equal(without_members.selected, taught.selected)
    assert taught.usage.low <= 0.5 <= taught.usage.high
    assert taught.usage.high - taught.usage.low < without_members.usage.high - without_members.usage.low


def test_where_nothing_is_selected_no_share_of_it_is_false():
    """The false discovery proportion counts as 0 there, and as known in [0, 1] only."""
    fdp, power = realised(np.zeros(4, bool), np.array([True, False, True, False]))
    assert (fdp.value, fdp.low, fdp.high) == (0.0, 0.0, 1.0)
    assert power.value == 0


def test_several_signals_are_learned_from():
    rng = np.random.default_rng(6)
    noise = rng.normal(size=(300, 3))
    noise[:100, 1] += 4
    calibration = rng.normal(size=(400, 3))
    selection = dv.identify(noise, calibration, fdr=0.1)
    fdp, power = realised(selection.selected, np.arange(300) < 100)
    assert any("auto chose adadetect" in warning for warning in selection.warnings)
    assert power.value > 0.7
    assert fdp.low <= 0.1
    repeat = dv.identify(noise, calibration, fdr=0.1, method="adadetect", seed=0)
    assert np.array_equal(selection.selected, repeat.selected)


def test_adadetect_with_too_little_left_selects_nothing_and_says_why():
    rng = np.random.default_rng(7)
    selection = dv.identify(rng.normal(size=(30, 2)), rng.normal(size=(20, 2)), fdr=0.05, method="adadetect")
    assert selection.count == 0
    assert any("remain after learning" in warning for warning in selection.warnings)


TWO, TALL = np.arange(6.0).reshape(3, 2), np.arange(100.0).reshape(50, 2)


def test_texts_are_known_by_their_places_and_by_no_index():
    rng = np.random.default_rng(8)
    scores, calibration = np.append(rng.normal(3, 1, 40), rng.normal(size=60)), rng.normal(size=300)
    texts = [f"text {row}" for row in range(99)] + ["text 0"]
    other_texts = [f"other {row}" for row in range(300)]
    expected = dv.identify(scores, calibration, candidate_texts=texts, calibration_texts=other_texts)
    series = pd.Series(texts, index=np.arange(100)[::-1])
    selection = dv.identify(
        scores, calibration, candidate_texts=series, calibration_texts=pd.Series(other_texts, index=range(7, 307))
    )
    assert selection.selected.tolist() == expected.selected.tolist()
    assert selection.warnings == expected.warnings


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1.0], np.arange(50)), {"candidate_texts": [["a"]], "calibration_texts": ["c"] * 50}, "texts: texts are"),
        (([1.0], np.arange(50)), {"candidate_texts": ["a"], "calibration_texts": [None] * 50}, "texts: texts are"),
        (([1.0], np.arange(50)), {"candidate_texts": "a", "calibration_texts": ["c"] * 50}, "a list is needed"),
        (([1.0, np.nan, np.inf], [0.0]), {}, r"candidates: NaN or infinite scores in 2 rows \(1, 2; counted from 0\)"),
        (([1.0], [np.nan]), {}, r"calibration: NaN or infinite scores in 1 row \(0; counted from 0\)"),
        (([1.0], []), {}, "calibration: at least 1 entry"),
        (([1.0, 2.0], np.arange(10)), {}, "at least 19 are needed"),
        ((np.ones(5), np.ones(50)), {}, "they cannot tell anything apart"),
        (([1.0], np.arange(50)), {"method": "stor"}, "did you mean 'storey'"),
        (([1.0], np.arange(50)), {"method": "adadetect"}, "at least two signals"),
        ((np.ones((3, 2)), np.ones((50, 2))), {"method": "bh"}, "uses one score"),
        ((np.ones((3, 2)), np.ones((50, 3))), {}, "the same signals"),
        ((np.ones((3, 2)), np.ones((50, 2))), {"members": [1.0]}, "members: the share is estimated from one"),
        (([1.0], np.arange(50)), {"fdr": 0}, "fdr: must lie in"),
        (([1.0], np.arange(50)), {"candidate_texts": ["a", "b"], "calibration_texts": ["c"] * 50}, "1 texts"),
        (([1.0], np.arange(50)), {"candidate_texts": ["a"]}, "calibration_texts: the texts of both sides"),
        (([1.0], np.arange(50)), {"calibration_texts": ["a"] * 50}, "candidate_texts: the texts of both sides"),
        (([1.0], np.arange(50)), {"holdout": "garbage"}, "holdout: numbers are needed"),
        (([1.0], np.arange(50)), {"holdout": []}, "holdout: at least 1 entry"),
        (([1.0], np.arange(50)), {"holdout": np.ones((4, 2))}, "holdout: the same signals"),
        ((TWO, TALL), {"holdout": "garbage"}, "holdout: numbers are needed"),
        ((TWO, TALL), {"holdout": np.ones(50)}, "holdout: the same signals"),
        ((TWO, TALL), {"holdout": np.ones((50, 3))}, "holdout: the same signals"),
        ((TWO, TALL), {"holdout": [[1.0, np.nan]]}, r"holdout: NaN or infinite scores in 1 row \(0; counted from 0\)"),
        ((np.ones((3, 0)), np.ones((50, 0))), {}, "candidates: one or two dimensions"),
    ],
)
def test_bad_input_is_named(arguments, options, message):
    with pytest.raises(dv.InputError, match=message):
        dv.identify(*arguments, **options)


def runs():
    table = pl.read_parquet(Path(DATA) / "tofu_llama2_phi_scores.parquet").filter(pl.col("trained_on") == "retain90")
    for _, run in table.group_by("model", "weight_decay", maintain_order=True):
        yield {name: run.filter(pl.col("split") == name) for name in ("retain", "forget", "world_fact")}


@pytest.mark.skipif(DATA is None, reason="DIVULGE_DATA names no folder of data")
@pytest.mark.parametrize("method", ["bh", "storey"])
def test_bound_holds_on_fine_tuned_models_with_known_membership(method):
    rng = np.random.default_rng(9)
    false, power = [], []
    for run in runs():
        members, nonmembers = -run["retain"]["loss"].to_numpy(), -run["forget"]["loss"].to_numpy()
        for _ in range(25):
            shuffled = rng.permutation(nonmembers)
            candidates = np.append(rng.choice(members, 150, replace=False), shuffled[:150])
            selection = dv.identify(candidates, shuffled[150:], fdr=0.1, method=method)
            fdp, strength = realised(selection.selected, np.arange(300) < 150)
            false.append(fdp.value)
            power.append(strength.value)
    assert np.mean(false) <= 0.1 + 4 * np.std(false) / np.sqrt(len(false))
    assert np.mean(power) > 0.9


@pytest.mark.skipif(DATA is None, reason="DIVULGE_DATA names no folder of data")
def test_calibration_of_another_kind_is_caught():
    for run in runs():
        nonmembers, facts = -run["forget"]["loss"].to_numpy(), -run["world_fact"]["loss"].to_numpy()
        assert not dv.decisions.controls.exchangeability(facts, nonmembers).passed
