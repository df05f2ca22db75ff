"""Pages of fixed runs of every kind say what they said when that was last meant to change."""

import pytest

import run_directories
from recorded import recording


@pytest.fixture(scope="module", params=sorted(run_directories.WRITERS))
def pages(request, tmp_path_factory):
    return request.param, recording.pages(request.param, tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("name", [*recording.REPORTS, "gate", "gate.json"])
def test_a_page_says_what_is_recorded(pages, name):
    run_kind, page_texts = pages
    recorded = (recording.FOLDER / "pages" / run_kind / f"{name}.txt").read_text(encoding="utf-8")
    for line, (was, says) in enumerate(zip(recorded.splitlines(), page_texts[name].splitlines(), strict=False), 1):
        found = recording.difference(was, says, recording.TOLERANCE, f"{run_kind}, {name}, line {line}")
        assert not found, f"{found}; {recording.AGAIN}"
    assert len(recorded.splitlines()) == len(page_texts[name].splitlines()), recording.AGAIN
