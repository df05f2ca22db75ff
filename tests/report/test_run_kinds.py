"""A new kind of run costs a summary, a function for its sections, and one registration."""

import json
from dataclasses import dataclass, field
from typing import Literal

import pytest

import divulge as dv
from divulge import results, runs
from divulge.report.page import Section, Table
from divulge.report.run_kinds import RunKind, SummaryRun, build_page, write_run
from divulge.report.sections import PROVENANCE_TITLE
from divulge.run_directory import RunDirectory
from divulge.types import Tone
from divulge.viewing import Shelf
from run_directories import WRITERS


@dataclass(frozen=True, slots=True, kw_only=True)
class ToySummary(results.Summary):
    """What a toy run found."""

    kind: Literal["toy"] = field(default="toy", repr=False)
    verdict: str
    tone: Tone
    scores: tuple[float, ...]


def toy_sections(run):
    rows = [[str(i), f"{score:g}"] for i, score in enumerate(run.summary.scores)]
    return [Section("Evidence", [Table(["record", "score"], rows)]), Section("Empty", [])]


TOY = RunKind(name="toy", title="A toy", summary_type=ToySummary, sections=toy_sections)


@pytest.fixture
def toy_run(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "RUN_KINDS", dict(runs.RUN_KINDS))
    monkeypatch.setattr("divulge.viewing.shelf.RUN_KINDS", runs.RUN_KINDS)
    runs.register(TOY)
    summary = ToySummary(verdict="Two toys leak. More below.", tone="leak", scores=(0.5, 2.5))
    with RunDirectory(tmp_path / "run").writing("toy", "key") as draft:
        write_run(draft, TOY, SummaryRun(summary))
    return tmp_path / "run"


def test_a_registered_kind_is_read_back_reported_in_every_format_and_viewed(divulge, toy_run, tmp_path):
    loaded = runs.load_run(toy_run)
    assert loaded.summary.scores == (0.5, 2.5)
    html_before = (toy_run / "report.html").read_text()
    assert "<h1>A toy</h1>" in html_before
    assert "Two toys leak." in html_before
    assert '<td class="number">2.5</td>' in html_before
    assert divulge("report", toy_run)[0] == 0
    assert (toy_run / "report.html").read_text() == html_before
    assert divulge("report", toy_run, "--format", "md", "--to", tmp_path / "card.md")[0] == 0
    card = (tmp_path / "card.md").read_text()
    assert "## Privacy: A toy" in card
    assert "| 1      | 2.5   |" in card
    assert divulge("report", toy_run, "--format", "json", "--to", tmp_path / "toy.json")[0] == 0
    written = json.loads((tmp_path / "toy.json").read_text())
    assert written["results"] == json.loads((toy_run / "summary.json").read_text())
    assert written["provenance"]["command"] == ""
    (entry,) = Shelf((tmp_path,)).entries()
    assert (entry.kind, entry.tone, entry.first_sentence) == ("toy", "leak", "Two toys leak.")
    assert entry.has_report
    assert "Two toys leak." in entry.render_report()


def test_sections_without_content_are_left_out_and_provenance_comes_last(toy_run):
    titles = [section.title for section in runs.load_page(toy_run).sections]
    assert titles == ["Evidence", PROVENANCE_TITLE]
    unrecorded = build_page(TOY, runs.load_run(toy_run))
    assert "date" not in unrecorded.facts
    assert "date" in runs.load_page(toy_run).facts


def test_a_kind_without_records_says_so_and_an_unknown_one_is_named(divulge, toy_run, tmp_path):
    code, _, err = divulge("report", toy_run, "--format", "csv")
    assert code == 2
    assert "a run of kind 'toy' keeps no records, so it is no table" in err
    with RunDirectory(tmp_path / "other").writing("other", "key") as draft:
        draft.write_json("summary", {})
    with pytest.raises(dv.InputError, match="a run of kind 'other' has no report"):
        runs.load_run(tmp_path / "other")


def test_a_name_is_registered_once(toy_run):
    runs.register(TOY)
    with pytest.raises(dv.InputError, match="'toy' is registered already"):
        runs.register(RunKind(name="toy", title="Another", summary_type=ToySummary, sections=toy_sections))


@pytest.mark.parametrize("policy", ["auc:0.5", "nothing"])
def test_a_study_without_limits_is_held_to_none(tmp_path, policy):
    WRITERS["trade-off"](tmp_path / "run")
    with pytest.raises(dv.InputError, match="policy: a result of kind 'trade-off' cannot be held to limits"):
        runs.RUN_KINDS["trade-off"].load(tmp_path / "run").result.gate(policy)
    with pytest.raises(dv.InputError, match="run: a policy can hold an audit"):
        dv.gate(tmp_path / "run", policy)
