"""Summaries that somebody forged."""

import pytest

from run_directories import forge, write_extraction


@pytest.mark.parametrize("shared", [[1, 1, 2, 0], [1, 1, 0, -1], [-1, 0, -1, 0], [1, 2], "all"])
def test_counts_that_cannot_be_are_refused_by_name(tmp_path, divulge, shared):
    write_extraction(tmp_path / "run")
    forge(tmp_path / "run", "summary.json", lambda summary: summary.update(shared=shared))
    code, _, err = divulge("report", tmp_path / "run")
    assert code == 2
    assert "shared" in err
    assert len(err.splitlines()) == 1
