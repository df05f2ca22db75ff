"""No order of the rows changes a selection: permuted input gives permuted output, bit for bit."""

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import divulge as dv
from divulge.identification import from_tables as runs
from divulge.identification.decision import Policy
from divulge.identification.score_tables import Columns, Score

# Ties, zeros of both signs, and digits enough to show the last bit.
VALUES = st.one_of(st.sampled_from([-0.0, 0.0, 1.0, 2.0]), st.floats(-5, 5, allow_subnormal=False))
TEXTS = ["a king of old", "a queen", "the green paper of 1999", "blue data", "in 2024 a model runs", "words and words"]


def table(rows, columns):
    return st.lists(st.lists(VALUES, min_size=columns, max_size=columns), min_size=rows, max_size=rows).map(np.array)


def bits(values):
    return np.asarray(values).tobytes()


def compare(selection, permuted, order):
    assert bits(selection.selected[order]) == bits(permuted.selected)
    assert bits(selection.p_values[order]) == bits(permuted.p_values)
    assert (selection.threshold, selection.usage, selection.guarantee, selection.warnings) == (
        permuted.threshold,
        permuted.usage,
        permuted.guarantee,
        permuted.warnings,
    )


@pytest.mark.parametrize("method", ["auto", "storey"])
@given(candidates=table(9, 2), calibration=table(24, 2), members=table(5, 1), seed=st.integers(0, 99))
@settings(max_examples=8, deadline=None)
def test_one_score(method, candidates, calibration, members, seed):
    rng = np.random.default_rng(seed)
    candidate_order, calibration_order, holdout_order, taught = (rng.permutation(size) for size in (9, 24, 11, 5))
    if len({*candidates[:, 0], *calibration[:, 0]}) == 1:
        return
    holdout = calibration[:11, 1]

    def select(a, b, c, d):
        return dv.identify(
            candidates[a, 0],
            calibration[b, 0],
            fdr=0.3,
            method=method,
            holdout=holdout[c],
            members=members[d, 0],
        )

    expected = select(np.arange(9), np.arange(24), np.arange(11), np.arange(5))
    compare(expected, select(candidate_order, calibration_order, holdout_order, taught), candidate_order)


@given(candidates=table(12, 2), calibration=table(30, 2), seed=st.integers(0, 99))
@settings(max_examples=8, deadline=None)
def test_several_signals(candidates, calibration, seed):
    rng = np.random.default_rng(seed)
    candidate_order, calibration_order, holdout_order = (rng.permutation(size) for size in (12, 30, 9))
    if len(np.unique(np.concatenate([candidates, calibration]), axis=0)) == 1:
        return
    holdout = calibration[:9] * 0.5
    expected = dv.identify(candidates, calibration, fdr=0.3, holdout=holdout, seed=seed)
    permuted = dv.identify(
        candidates[candidate_order],
        calibration[calibration_order],
        fdr=0.3,
        holdout=holdout[holdout_order],
        seed=seed,
    )
    compare(expected, permuted, candidate_order)


def test_texts():
    rng = np.random.default_rng(1)
    scores, calibration = rng.normal(1, 1, 40), rng.normal(size=60)
    words = [f"{TEXTS[i]} {i}" for i in rng.integers(0, 6, 100)]
    words = [f"{word} {i}" for i, word in enumerate(words)]
    candidate_order, unseen = rng.permutation(40), rng.permutation(60)
    expected = dv.identify(scores, calibration, candidate_texts=words[:40], calibration_texts=words[40:])
    permuted = dv.identify(
        scores[candidate_order],
        calibration[unseen],
        candidate_texts=[words[i] for i in candidate_order],
        calibration_texts=[words[40 + i] for i in unseen],
    )
    compare(expected, permuted, candidate_order)


def test_files(tmp_path, monkeypatch):
    """Texts are sampled, ids and scores tie, and everything the report lists is the same."""
    monkeypatch.setattr(runs, "_TEXTS", 40)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    rng = np.random.default_rng(2)

    def frame(name, count, shift):
        a = np.round(rng.normal(shift, 1, count), 1)
        return pl.DataFrame(
            {
                "id": [f"{name}{i}" for i in range(count)],
                "a": a,
                "b": a + rng.normal(size=count),
                "text": [f"{TEXTS[rng.integers(6)]} {name} {i}" for i in range(count)],
            }
        )

    files = {"candidates": frame("c", 300, 1.0), "calibration": frame("u", 200, 0.0), "holdout": frame("h", 60, 0.0)}
    plan = runs.DecisionPlan(Columns((Score("a"), Score("b")), id="id", text="text"), Policy(0.2))
    summaries, reports, selections = [], [], []
    for shuffled in (False, True):
        folder = tmp_path / str(shuffled)
        folder.mkdir()
        for name, full_table in files.items():
            full_table.sample(fraction=1.0, shuffle=shuffled, seed=3).write_parquet(folder / f"{name}.parquet")
        candidate_files, calibration, holdout_files = ([folder / f"{name}.parquet"] for name in files)
        summaries.append(runs.run(candidate_files, calibration, folder / "out", plan, holdout=holdout_files))
        report = (folder / "out" / "report.html").read_text()
        reports.append(re.sub(r'data-label="(bytes|digest)">[^<]*', "", report))  # of the files, which do differ
        selections.append(pl.read_parquet(folder / "out" / "selection.parquet").drop("row").sort("id"))
    assert summaries[0] == summaries[1]
    assert selections[0].equals(selections[1])
    assert reports[0] == reports[1]
