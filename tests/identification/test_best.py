"""What is known of the best candidates of a finished run."""

import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge.decisions import fdp
from divulge.identification import envelope, finished_run, identification_page, sensitivity
from divulge.identification import from_tables as runs
from divulge.identification.decision import Policy
from divulge.identification.score_tables import Columns, Score


@pytest.fixture
def run(tables):
    plan = runs.DecisionPlan(Columns((Score("loss", -1),), id="id"), Policy(0.1))
    runs.run([tables / "candidates.parquet"], [tables / "calibration.jsonl"], tables / "out", plan)
    return tables / "out"


def test_a_run_keeps_what_its_scores_say(run, scores):
    candidates, calibration = scores
    assert np.array_equal(np.asarray(envelope(run)), np.asarray(fdp.envelope(-calibration, -candidates)))
    assert envelope(run, confidence=0.8).confidence == 0.8


def test_the_command_says_how_many_of_the_best_can_be_false(run, divulge):
    bounds = envelope(run)
    before = (run / "summary.json").read_bytes()
    code, out, _ = divulge("decide", run, "--top", 250)
    assert code == 0
    assert f"at most {bounds.false(250)} of the 250 best" in " ".join(out.split())
    content = json.loads(divulge("decide", run, "--top", 250, "--json")[1])
    assert (content["top"], content["false"], content["confidence"]) == (250, bounds.false(250), 0.95)
    assert (run / "summary.json").read_bytes() == before
    for arguments, option in ((("--top", 1001), "--top"), (("--top", 5, "--fdr", 0.1), "--top")):
        code, _, errors = divulge("decide", run, *arguments)
        assert code == 2
        assert option in errors


def test_the_report_shows_the_curve(run):
    text = (run / "report.html").read_text()
    assert "How many of the best can be non-members" in text
    largest = envelope(run).largest(0.3)
    assert largest > 100
    assert f">{largest}<" in text


def test_bounds_stand_as_the_selection_does(tables):
    """A holdout that is unlike the calibration voids both."""
    moved = pl.DataFrame({"loss": np.random.default_rng(2).normal(-1.0, 1, 400)})
    moved.write_parquet(tables / "holdout.parquet")
    plan = runs.DecisionPlan(Columns((Score("loss", -1),), id="id"), Policy(0.1))
    paths = [tables / "candidates.parquet"], [tables / "calibration.jsonl"]
    summary = runs.run(*paths, tables / "out", plan, holdout=[tables / "holdout.parquet"])
    assert summary.guarantee.standing == "void"
    bounds = envelope(tables / "out")
    assert not bounds.guarantee.says
    assert "nothing is claimed" in finished_run.describe_best(bounds, 10)
    assert identification_page.envelope_blocks(summary, tables / "out") == []
    doubtful = replace(summary, guarantee=replace(summary.guarantee, standing="doubtful"))
    assert finished_run.describe_best(finished_run.run_envelope(doubtful, tables / "out"), 10).startswith(
        "if the assumption holds"
    )
    assert identification_page.envelope_blocks(doubtful, tables / "out")
    assert identification_page.sensitivity_blocks(doubtful, tables / "out")
    assert identification_page.sensitivity_blocks(summary, tables / "out") == []


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(dv.InputError):
        envelope(tmp_path)


def test_a_run_says_how_much_doubt_its_selection_survives(run, scores, divulge):
    candidates, calibration = scores
    from_scores = dv.decisions.fdr.sensitivity(-candidates, -calibration, fdr=0.1)
    assert np.array_equal(sensitivity(run).gammas, np.sort(from_scores.gammas)[::-1])
    words = re.sub("<[^>]+>", "", (run / "report.html").read_text()).replace("\N{NO-BREAK SPACE}", " ")
    assert f"Of the selection, {from_scores}." in words
    out = " ".join(divulge("decide", run, "--fdr", "0.2")[1].split())
    stands = dv.decisions.fdr.sensitivity(-candidates, -calibration, fdr=0.2)
    assert f"likelier, or less likely, to have any score, {stands}." in out
