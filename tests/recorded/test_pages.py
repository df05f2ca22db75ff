"""Pages of fixed runs of every kind say what they said when that was last meant to change."""

import pytest

import run_directories
from recorded import recording


@pytest.fixture(scope="module", params=sorted(run_directories.WRITERS))
def pages(request, tmp_path_factory):
    return request.param, recording.pages(request.param, tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("name", [*recording.REPORTS, "gate", "gate.json"])
def test_a_page_says_what_is_recorded(pages, name):
    kind, found = pages
    recorded = (recording.FOLDER / "pages" / kind / f"{name}.txt").read_text(encoding="utf-8")
    for line, (was, says) in enumerate(zip(recorded.splitlines(), found[name].splitlines(), strict=False), 1):
        assert not recording.difference(was, says, recording.TOLERANCE, f"{kind}, {name}, line {line}")
    assert len(recorded.splitlines()) == len(found[name].splitlines())
