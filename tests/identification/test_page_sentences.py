"""Every sentence of the report of an identification, in each of its readings."""

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
from divulge.report import html
from divulge.report.markdown import render
from divulge.report.page import MARKS, Collapsible, Paragraph
from divulge.report.run_kinds import build_page
from divulge.report.sections import ADVICE_TITLE
from divulge.results import ControlResult, IdentificationSummary, RealisedOutcome
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


def paragraphs(rendered, title):
    blocks = next(section for section in rendered.sections if section.title == title).blocks
    return [block.text for block in blocks if isinstance(block, Paragraph)]


def control(name="exchangeability", state="passed", half=0.05, *, conclusive=True, p_value=None):
    p = {"passed": 0.4, "doubtful": 0.001, "failed": 0.001}[state] if p_value is None else p_value
    area = None if half is None else Estimate(0.5, 0.5 - half, 0.5 + half, 0.95, "")
    return ControlResult(name, p, 0.05, f"{name} observed", area, conclusive, state)


def test_the_finding_comes_first_in_every_standing(run):
    count = run[1].selected
    for standing, selected in itertools.product(("holds", "doubtful", "void"), (0, count)):
        summary = changed(run, standing=standing, selected=selected, warnings=("why",), controls=(control(),))
        text, tone = identification_page.verdict(summary)
        identified = f"{count} of 150 documents are identified as training data"
        finding = (
            f"{identified}. If the comparison is fair, lists made in this way have at most 20 % wrong entries "
            f"on average. This one list may have more, and no single entry is proven. The other "
            f"{150 - count} may have been used, too."
        )
        nothing = (
            "None of 150 documents could be shown to have been used for training, at a false discovery rate of 20 %."
        )
        if standing == "void":
            assert (text, tone) == (
                f"{selected} of 150 documents stand out, and nothing is claimed about them. Why.",
                "void",
            )
        elif standing == "doubtful":  # and no control is: the method's own caution
            assert text == (
                f"{finding} In doubt: Why."
                if selected
                else f"{nothing} That does not show that none was used. In doubt: Why."
            )
            assert tone == "doubt"
        elif selected:
            assert text.startswith(f"{finding} These figures rest on ")
            assert tone == "leak"
        else:
            assert (text, tone) == (f"{nothing} That does not show that none was used.", "plain")
    sentence = identification_page.verdict(changed(run, selected=1, controls=(control(),)))[0]
    assert sentence.startswith("1 of 150 documents is identified as training data. ")


@pytest.mark.parametrize("blind_state", ["passed", "doubtful"])
def test_the_headline_is_in_doubt_where_no_nonmembers_were_compared_or_documents_differ_from_them(run, blind_state):
    blind_control = control("blind text", blind_state, conclusive=False)
    standing = {"passed": "holds", "doubtful": "doubtful"}[blind_state]

    def tone(*compared):
        return identification_page.verdict(changed(run, standing=standing, controls=(*compared, blind_control)))

    assert tone(control())[1] == {"passed": "leak", "doubtful": "doubt"}[blind_state]
    assert ("in more than the model's scores (blind text)" in tone(control())[0]) == (blind_state == "doubtful")
    assert tone() == (tone()[0], "doubt")
    assert "whether the comparison is fair was not tested" in tone()[0]
    assert "too few unused documents" in tone(control(half=0.2))[0]
    assert tone(control(half=0.2))[1] == "doubt"
    assert tone(control(half=None))[1] == "doubt"  # written before its AUC was
    failed = changed(run, standing="void", controls=(control(state="failed"), blind_control), warnings=("why",))
    assert identification_page.verdict(failed)[1] == "void"
    assert "Both sets of unused documents do not score alike" in identification_page.verdict(failed)[0]


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


def test_how_documents_were_collected_is_open_whatever_was_tested(run):
    best = (
        control(),
        control("low end", half=None),
        *(control(n, half=0.01, conclusive=False) for n in ("blind text", "low scores")),
    )
    listed = case_file.conditions(changed(run, controls=best))
    assert [c.mark for c in listed] == ["met", "met", "met", "open"]
    assert "No test can show this" in listed[-1].text
    text = identification_page.verdict(changed(run, controls=best))[0]
    assert text.endswith(
        "These figures rest on 4 conditions: 3 were tested and met, and 1 is open. "
        "Were the unused documents collected in the same way as those in question?"
    )
    failed = case_file.conditions(changed(run, controls=(*best[2:], control(state="failed"))))
    assert [c.mark for c in failed] == ["not met", "met", "met", "open"]


def test_the_reason_of_a_doubt_follows_the_finding_and_is_said_once(run):
    for standing in ("doubtful", "void"):
        rendered = page(
            run, standing=standing, warnings=("the first reason", "the second reason"), controls=(control(),)
        )
        assert "reason" not in rendered.verdict
        assert rendered.details[0].removeprefix("In doubt: ") == "The first reason."
        assert paragraphs(rendered, "Selection")[-1] == "The second reason."
    holding = page(run, warnings=("the first reason", "the second reason"), controls=(control(),))
    assert paragraphs(holding, "Selection") == ["The first reason.", "The second reason."]
    bare = page(run, standing="void")
    assert bare.verdict.endswith("nothing is claimed about them.")


def test_marks_are_read_aloud_and_printed(run):
    rendered = page(run, controls=(control(), control("blind text", "doubtful", conclusive=False)))
    html_text, markdown_text = html.render(rendered), render(rendered)
    for mark, sign in MARKS.items():
        if mark != "not met":
            assert (
                f'<span class="sign" aria-hidden="true">{sign}</span> <span class="unseen">{mark}:</span>' in html_text
            )
            assert f"- {sign} {mark}: " in markdown_text
    assert "✗ not met: Do both" in render(page(run, standing="void", controls=(control(state="failed"),)))


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


@pytest.mark.parametrize("standing", ["holds", "doubtful", "void"])
def test_advice_pictures_levels_and_headings_stand_as_the_guarantee_does(run, standing):
    rendered = page(run, standing=standing, warnings=("why",))
    titles = [section.title for section in rendered.sections]
    assert (ADVICE_TITLE in titles) == (standing == "holds")
    assert ("What another bound would have selected" in titles) == (standing != "void")
    assert ("How much doubt the selection survives" in titles) == (standing != "void")
    assert ("How many of the best can be non-members" in titles) == (standing != "void")
    headings = {"holds": "Training data identified, in doubt", "doubtful": "Training data identified, in doubt"}
    assert rendered.heading == headings.get(standing, "Guarantee void")  # no second set was there
    assert len(rendered.pictures) == (standing != "void")
    share = next(name for name, _ in identification_page.facts(changed(run, standing=standing)) if "share of" in name)
    words = {"holds": "", "doubtful": " (as doubtful as the bound)", "void": " (void as the bound)"}[standing]
    assert share == f"share of members, estimated{words}"


def test_nothing_selected_shows_no_picture_and_no_advice(run):
    rendered = page(run, selected=0)
    assert rendered.heading == "Nothing identified"
    assert rendered.pictures == ()
    assert ADVICE_TITLE not in [section.title for section in rendered.sections]


def test_what_came_true_is_a_fact_where_the_truth_is_known(run):
    share = Estimate(0.25, 0.1, 0.5, 0.95, "")
    shown_facts = dict(identification_page.facts(changed(run, truth=RealisedOutcome(10, 5, share, share, ""))))
    assert shown_facts["realised false discovery proportion"] == shown_facts["realised power"] == "0.250 [0.100, 0.500]"
    assert (
        not {"realised power", "realised false discovery proportion"}
        & dict(identification_page.facts(changed(run))).keys()
    )


def test_the_method_is_named_with_what_was_asked_for(run):
    changed_run = changed(run)
    auto = changed_run.settings.model_copy(update={"method": "auto"})
    same = changed_run.settings.model_copy(update={"method": changed_run.used})
    for settings, method_name in ((auto, f"{changed_run.used} (auto)"), (same, changed_run.used)):
        decided = identification_page.IdentificationRun(dataclasses.replace(changed_run, settings=settings), run[0])
        assert dict(identification_page.facts(decided.summary))["method"] == method_name


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
