"""Runs of earlier releases, which say nothing of passages of both sets, and summaries that somebody forged."""

import json

import pytest

import divulge as dv
from run_directories import forge, write_extraction


def test_a_run_without_the_key_is_read_as_before(tmp_path, divulge):
    write_extraction(tmp_path / "run")
    before = dv.load(tmp_path / "run").verdict
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["shared"] is None
    forge(tmp_path / "run", "summary.json", lambda summary: summary.pop("shared"))
    assert dv.load(tmp_path / "run").verdict == before
    assert divulge("report", tmp_path / "run")[0] == 0


@pytest.mark.parametrize("shared", [[1, 1, 2, 0], [1, 1, 0, -1], [-1, 0, -1, 0], [1, 2], "all"])
def test_counts_that_cannot_be_are_refused_by_name(tmp_path, divulge, shared):
    write_extraction(tmp_path / "run")
    forge(tmp_path / "run", "summary.json", lambda summary: summary.update(shared=shared))
    code, _, err = divulge("report", tmp_path / "run")
    assert code == 2
    assert "shared" in err
    assert len(err.splitlines()) == 1
