"""Pages of an identification: which conditions are met, which documents are listed, and how far doubt reaches."""

import dataclasses
import itertools

import numpy as np
import polars as pl
import pytest

from divulge import results
from divulge.identification import case_file, finished_run, from_tables, identification_page
from divulge.identification.decision import Policy
from divulge.identification.score_adjustment import KNOWN_MEMBERS
from divulge.identification.score_tables import Columns, Score
from divulge.report.page import Collapsible
from divulge.report.run_kinds import build_page
from divulge.report.sections import ADVICE_TITLE
from divulge.results import ControlResult, IdentificationSummary
from divulge.types import Estimate

LEAST_COUNT = 90


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("identified"), np.random.default_rng(0)
    loss = np.r_[rng.normal(0, 1, LEAST_COUNT), rng.normal(4, 1, 60)]
    pl.DataFrame({"loss": loss}).write_csv(folder / "judged.csv")
    pl.DataFrame({"loss": rng.normal(4, 1, 400)}).write_csv(folder / "known.csv")
    plan = from_tables.DecisionPlan(Columns((Score("loss", -1),)), Policy(0.2))
    from_tables.run([folder / "judged.csv"], [folder / "known.csv"], folder / "run", plan)
    return folder / "run", results.read_summary(folder / "run", IdentificationSummary), loss


def changed(run, **changes):
    standing = changes.pop("standing", "holds")
    scores = changes.pop("scores", None)
    guarantee = dataclasses.replace(run[1].guarantee, standing=standing)
    settings = run[1].settings if scores is None else run[1].settings.model_copy(update={"scores": scores})
    plain = {"guarantee": guarantee, "settings": settings, "warnings": (), "why": "", "members": 0}
    return dataclasses.replace(run[1], **plain | changes)


def page(run, documents=None, **changes):
    shown_run = identification_page.IdentificationRun(changed(run, **changes), run[0], documents or {})
    return build_page(from_tables.IDENTIFICATION, shown_run)


def control(name="exchangeability", state="passed", half=0.05, *, conclusive=True, p_value=None):
    p = {"passed": 0.4, "doubtful": 0.001, "failed": 0.001}[state] if p_value is None else p_value
    area = None if half is None else Estimate(0.5, 0.5 - half, 0.5 + half, 0.95, "")
    return ControlResult(name, p, 0.05, f"{name} observed", area, conclusive, state)


def test_a_condition_is_met_only_where_its_test_could_have_found_something(run):
    def marks(*controls, **changes):
        return {c.title.split(" ")[0]: c.mark for c in case_file.conditions(changed(run, controls=controls, **changes))}

    for half, mark in ((0.05, "met"), (0.149, "met"), (0.15, "open"), (0.4, "open"), (None, "open")):
        assert marks(control(half=half), control("low end", half=None))["Do"] == mark
        assert marks(control("blind text", half=half, conclusive=False))["Were"] == "open"
        (text,) = [
            c
            for c in case_file.conditions(changed(run, controls=(control("blind text", half=half, conclusive=False),)))
            if "texts" in c.title
        ]
        assert text.mark == mark
    assert marks(control("low end", half=None))["Do"] == "open"  # it can refute and not fulfil
    assert marks(control(), control("low end", "failed", half=None))["Do"] == "not met"
    assert marks(control(state="failed"), control("low end", half=None))["Do"] == "not met"
    assert marks()["Do"] == "open"
    for m, n, mark in ((150, 400, "met"), (8, 400, "open"), (150, 9, "open")):
        low = control("low scores", half=None, conclusive=False)
        (condition,) = [
            c
            for c in case_file.conditions(changed(run, controls=(low,), candidates=m, calibration=n))
            if "low scores" in c.title
        ]
        assert condition.mark == mark
    doubtful = case_file.conditions(
        changed(run, controls=(control("low scores", "doubtful", half=None, conclusive=False),))
    )
    assert {c.mark for c in doubtful} == {"open"}
    conditions = case_file.conditions(changed(run, controls=(control(KNOWN_MEMBERS, half=None, conclusive=False),)))
    assert {c.mark for c in conditions} == {"open"}


def test_every_selected_document_is_listed_with_the_shift_that_it_survives(run):
    folder, summary, loss = run
    text = (folder / "selected.csv").read_bytes()
    assert text.startswith(b"\xef\xbb\xbf")  # a spreadsheet takes it for UTF-8
    listed = pl.read_csv(folder / "selected.csv")
    assert listed.columns == ["id", "loss", "p", "q", "survives_shift", "guarantee"]
    assert set(listed["guarantee"]) == {"doubtful"}  # no second set of unused documents was compared
    selection = pl.read_parquet(folder / "selection.parquet").filter("selected")
    assert sorted(listed["id"]) == sorted(selection["id"])
    assert listed["loss"].is_sorted()  # as the user's tables have it, best first
    assert np.allclose(listed["loss"], loss[listed["id"].to_numpy()])
    doubt = finished_run.run_sensitivity(summary, folder)
    for factor in (1.0, 1.1, 1.5, 2.0, 3.0):
        assert (listed["survives_shift"] * (1 + 1e-9) >= factor).sum() == doubt.count(factor)
    void = case_file.list_documents(changed(run, standing="void"), folder)
    assert void["survives_shift"].is_null().all()
    assert set(void["guarantee"]) == {"void"}
    assert len(case_file.list_documents(summary, folder, max_rows=3)) == 3
    assert "score" in case_file.list_documents(changed(run, scores=("id:high",)), folder).columns
    shifts = {row[0]: row[3] for row in listed_rows(page(run))}
    assert len(shifts) == summary.selected
    for name, survives in listed.select("id", "survives_shift").iter_rows():
        assert float(shifts[str(name)].removeprefix("× ")) <= survives + 1e-9


def listed_rows(rendered):
    blocks = next(section for section in rendered.sections if section.title.startswith("Every document")).blocks
    (table,) = blocks[1].blocks if isinstance(blocks[1], Collapsible) else blocks[1:]
    return table.rows


def test_nothing_selected_shows_no_picture_and_no_advice(run):
    rendered = page(run, selected=0)
    assert rendered.heading == "Nothing identified"
    assert rendered.pictures == ()
    assert ADVICE_TITLE not in [section.title for section in rendered.sections]


def test_the_best_rows_are_those_with_the_highest_scores_and_ties_go_by_id(tmp_path):
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {"id": rng.permutation(300), "score": rng.integers(0, 9, 300) * 1.0, "selected": rng.random(300) < 0.5}
    )
    table.write_parquet(tmp_path / "selection.parquet")
    for chosen, count in itertools.product((False, True), (1, 40, 400)):
        rows = table.filter(pl.col("selected")) if chosen else table
        expected = rows.sort(["score", "id"], descending=[True, False]).head(count).select("id", "score").to_dicts()
        highest = finished_run.highest_rows(tmp_path / "selection.parquet", ["id", "score"], count, selected=chosen)
        assert highest == expected
    every = finished_run.every_nth_row(tmp_path / "selection.parquet", ["id"], 7)
    assert every["id"].to_list() == table["id"].to_list()[::7]


def test_doubt_is_measured_only_where_something_is_selected_and_claimed(run):
    changed_run = changed(run)
    blocks = identification_page.sensitivity_blocks(changed_run, run[0])
    counts = [int(count) for _, count in blocks[1].rows]
    assert [gamma for gamma, _ in blocks[1].rows] == ["1", "1.1", "1.25", "1.5", "2", "3", "5"]
    assert counts[0] == changed_run.selected
    assert counts == sorted(counts, reverse=True)
    assert identification_page.sensitivity_blocks(changed(run, selected=0), run[0]) == []
    assert identification_page.sensitivity_blocks(changed(run, standing="void"), run[0]) == []
    assert identification_page.sensitivity_blocks(changed(run, standing="doubtful"), run[0]) != []
