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
from divulge.report.page import MARKS, Collapsible, Paragraph, Slider
from divulge.report.run_kinds import build_page
from divulge.report.sections import ADVICE_TITLE
from divulge.results import ControlResult, HeatStrip, IdentificationSummary, RealisedOutcome
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
    settings = run[1].settings if scores is None else dataclasses.replace(run[1].settings, scores=scores)
    return dataclasses.replace(run[1], **{"guarantee": guarantee, "settings": settings, "warnings": (), **changes})


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
        finding = (
            f"{count} of 150 documents are identified as training data; at most 20 % of these are expected to be false."
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
            assert text.startswith(f"{finding} Of the ")
            assert tone == "leak"
        else:
            assert (text, tone) == (f"{nothing} That does not show that none was used.", "plain")
    sentence = identification_page.verdict(changed(run, selected=1, controls=(control(),)))[0]
    assert sentence.startswith("1 of 150 documents is identified as training data;")


@pytest.mark.parametrize("blind_state", ["passed", "doubtful"])
def test_only_tests_of_known_nonmembers_put_the_headline_in_doubt(run, blind_state):
    blind_control = control("blind text", blind_state, conclusive=False)
    standing = {"passed": "holds", "doubtful": "doubtful"}[blind_state]

    def tone(*compared):
        return identification_page.verdict(changed(run, standing=standing, controls=(*compared, blind_control)))

    assert tone(control())[1] == "leak"
    assert tone() == (tone()[0], "doubt")
    assert "no test of unused documents against each other could run" in tone()[0]
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
        assert marks(control(half=half), control("low end", half=None))["Both"] == mark
        assert marks(control("blind text", half=half, conclusive=False))["The"] == "open"  # of three that begin alike
        (text,) = [
            c
            for c in case_file.conditions(changed(run, controls=(control("blind text", half=half, conclusive=False),)))
            if "texts" in c.title
        ]
        assert text.mark == mark
    assert marks(control("low end", half=None))["Both"] == "open"  # it can refute and not fulfil
    assert marks(control(), control("low end", "failed", half=None))["Both"] == "not met"
    assert marks(control(state="failed"), control("low end", half=None))["Both"] == "not met"
    assert marks()["Both"] == "open"
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
    assert text.endswith("Of the 4 conditions of this bound, 3 were tested and met, and 1 is open.")
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
    assert "✗ not met: Both" in render(page(run, standing="void", controls=(control(state="failed"),)))


def test_every_selected_document_is_listed_with_the_shift_that_it_survives(run):
    folder, summary, loss = run
    text = (folder / "selected.csv").read_bytes()
    assert text.startswith(b"\xef\xbb\xbf")  # a spreadsheet takes it for UTF-8
    listed = pl.read_csv(folder / "selected.csv")
    assert listed.columns == ["id", "loss", "p", "q", "survives_shift"]
    selection = pl.read_parquet(folder / "selection.parquet").filter("selected")
    assert sorted(listed["id"]) == sorted(selection["id"])
    assert listed["loss"].is_sorted()  # as the user's tables have it, best first
    assert np.allclose(listed["loss"], loss[listed["id"].to_numpy()])
    doubt = finished_run.run_sensitivity(summary, folder)
    for factor in (1.0, 1.1, 1.5, 2.0, 3.0):
        assert (listed["survives_shift"] * (1 + 1e-9) >= factor).sum() == doubt.count(factor)
    void = case_file.list_documents(changed(run, standing="void"), folder)
    assert void["survives_shift"].is_null().all()
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
    assert bool(rendered.pictures) == (standing != "void")
    for dots in rendered.pictures[1:]:
        assert (
            dots.caption
            == "Of 100 selected, at most 20 are not training data, on average, where the conditions are met"
        )
        assert (dots.value, dots.total) == (20, 100)
    share = next(name for name, _ in identification_page.facts(changed(run, standing=standing)) if "share of" in name)
    words = {"holds": "", "doubtful": " (as doubtful as the bound)", "void": " (void as the bound)"}[standing]
    assert share == f"share of members, estimated{words}"


def test_nothing_selected_shows_no_picture_and_no_advice(run):
    rendered = page(run, selected=0)
    assert rendered.heading == "Nothing identified"
    assert rendered.pictures == ()
    assert ADVICE_TITLE not in [section.title for section in rendered.sections]


def test_the_picture_counts_candidates_themselves_up_to_a_hundred(run):
    count = run[1].selected
    picture = page(run).pictures[0]
    assert picture.caption == f"{count} of 150 candidates are selected (drawn as {round(count / 1.5)} of 100)"
    assert (picture.value, picture.total) == (round(count / 1.5), 100)
    small_picture = identification_page._dot_pictures(changed(run, selected=30, candidates=60))[0]
    assert small_picture.caption == "30 of 60 candidates are selected"
    assert (small_picture.value, small_picture.total) == (30, 60)


def test_a_slider_shows_the_selection_at_each_level_and_marks_the_one_asked_for(run):
    folder, summary, _ = run
    q = pl.read_parquet(folder / "selection.parquet")["q"].to_numpy()
    (dial,) = identification_page._level_blocks(changed(run), folder)
    assert isinstance(dial, Slider)
    assert [stop.label for stop in dial.stops] == ["1 %", "2 %", "5 %", "10 %", "20 %"]
    assert dial.stops[dial.start].label == "20 %"
    for stop, level in zip(dial.stops, (0.01, 0.02, 0.05, 0.1, 0.2), strict=True):
        assert stop.words.startswith(
            f"{summary.selected if level == 0.2 else (q <= level).sum()} of 150 documents, of which"
        )
        assert stop.words.endswith("This bound was asked for.") == (level == 0.2)
    (doubtful,) = identification_page._level_blocks(changed(run, standing="doubtful"), folder)
    assert all(stop.words.startswith("If the assumption holds: ") for stop in doubtful.stops)


def test_scores_are_shown_as_their_user_named_them(run):
    folder, _, loss = run
    low, high, several = page(run), page(run, scores=("loss:high",)), page(run, scores=("loss:low", "perplexity:low"))
    assert "the model's scores of them (loss), and" in low.details[-1]
    assert "the model's scores of them (loss and perplexity), and" in several.details[-1]
    assert f"| {loss.min():.6g}" in render(low)
    assert f"| {-loss.min():.6g}" in render(high)
    facts = [
        dict(identification_page.facts(changed(run, scores=names))) for names in (None, ("loss:high",), ("a", "b"))
    ]
    assert "largest selected loss" in facts[0]
    assert "smallest selected loss" in facts[1]
    assert "smallest selected score" in facts[2]
    assert float(facts[0]["largest selected loss"]) == -float(facts[1]["smallest selected loss"])
    none = dict(identification_page.facts(changed(run, threshold=None)))
    assert none["largest selected loss"] == "–"
    notes = [
        identification_page._histogram(changed(run, scores=names), folder).note for names in (None, ("loss:high",))
    ]
    assert notes[0].startswith("Smaller values are more member-like")
    assert notes[1].startswith("Larger values are more member-like")


def test_what_came_true_is_a_fact_where_the_truth_is_known(run):
    share = Estimate(0.25, 0.1, 0.5, 0.95, "")
    shown_facts = dict(identification_page.facts(changed(run, truth=RealisedOutcome(10, 5, share, share, ""))))
    assert shown_facts["realised false discovery proportion"] == shown_facts["realised power"] == "0.250 [0.100, 0.500]"
    assert (
        not {"realised power", "realised false discovery proportion"}
        & dict(identification_page.facts(changed(run))).keys()
    )


def test_controls_say_how_they_ended(run):
    rows = identification_page._control_table(changed(run)).rows
    assert {row[1] for row in rows} <= {"passed", "doubtful", "FAILED"}
    failed = tuple(dataclasses.replace(control, state="failed") for control in run[1].controls)
    assert {row[1] for row in identification_page._control_table(changed(run, controls=failed)).rows} == {"FAILED"}


def test_the_method_is_named_with_what_was_asked_for(run):
    changed_run = changed(run)
    auto = dataclasses.replace(changed_run.settings, method="auto")
    same = dataclasses.replace(changed_run.settings, method=changed_run.used)
    for settings, method_name in ((auto, f"{changed_run.used} (auto)"), (same, changed_run.used)):
        decided = identification_page.IdentificationRun(dataclasses.replace(changed_run, settings=settings), run[0])
        assert identification_page.settings_facts(decided)["method"] == method_name


@pytest.mark.parametrize("count", [0, 1, 6, 7, 12])
def test_documents_are_shown_with_score_and_q_value_and_folded_beyond_six(run, count):
    chosen = case_file.selected_documents(run[1], run[0], max_rows=50).to_dicts()
    documents = {str(row["id"]): finished_run.Document(str(row["id"]), f"text {row['id']}") for row in chosen[:count]}
    blocks = identification_page._document_blocks(changed(run), chosen, documents)
    assert bool(blocks) == (count > 0)
    if not count:
        return
    easiest = chosen[0]
    assert blocks[0].exhibits[0].caption == f"{easiest['id']}: loss {easiest['score']:.4g}, q {easiest['q']:.3g}"
    assert blocks[0].exhibits[0].text == f"text {easiest['id']}"
    assert len(blocks[0].exhibits) == min(count, 6)
    assert [block.title for block in blocks[1:]] == ([f"{count - 6} more"] if count > 6 else [])
    assert "The deeper a token is marked" not in blocks[0].note


def test_what_tokens_are_marked_against_is_said_where_they_are(run):
    chosen = case_file.selected_documents(run[1], run[0], max_rows=50).to_dicts()
    plain = finished_run.Document(str(chosen[0]["id"]), "to be read")
    marked = finished_run.Document(str(chosen[1]["id"]), "to be read", HeatStrip((2, 5), (0.0, 3.0), "chance"))
    blocks = identification_page._document_blocks(changed(run), chosen, {plain.id: plain, marked.id: marked})
    assert "the likelier the model finds it than chance." in blocks[0].note


def test_a_dozen_selected_are_listed_and_more_are_folded(run):
    chosen = case_file.selected_documents(run[1], run[0], max_rows=50).to_dicts()
    assert len(chosen) == 50
    for count in (0, 12, 13):
        blocks = identification_page._row_blocks(changed(run), chosen[:count])
        assert [isinstance(block, Collapsible) for block in blocks] == ([] if not count else [False, count > 12])


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


def test_bounds_of_the_best_say_if_they_rest_on_a_doubted_assumption(run):
    bounds = {
        standing: finished_run.run_envelope(changed(run, standing=standing), run[0])
        for standing in ("holds", "doubtful", "void")
    }
    sentences = {standing: finished_run.describe_best(bound, 20) for standing, bound in bounds.items()}
    assert sentences["holds"].startswith("at most ")
    assert sentences["doubtful"] == f"if the assumption holds, {sentences['holds']}"
    assert sentences["void"] == "nothing is claimed about the 20 best candidates: the guarantee is void"
    dots = {standing: identification_page._member_dots(bound, 20) for standing, bound in bounds.items()}
    assert dots["void"] == ()
    assert dots["holds"][0].value == 20 - bounds["holds"].false(20)
    assert dots["doubtful"][0].caption.endswith(", if the assumption holds")
    assert not dots["holds"][0].caption.endswith("holds")
