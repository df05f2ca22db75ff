"""What a comparison finds; what an identification shows; answers to regulators; a histogram with a tower."""

import numpy as np
import polars as pl
import pytest

from divulge.auditing import compare
from divulge.auditing.compare import Difference
from divulge.identification import finished_run, from_tables
from divulge.identification.decision import Policy
from divulge.identification.score_tables import Columns, Score
from divulge.report import charts, markdown
from divulge.report.markdown import render
from divulge.report.page import Collapsible
from divulge.report.sections import NOT_EVALUABLE, RegulatorAnswers, regulator_section
from divulge.types import Estimate
from score_audits import scored, sizes


def changed(recipe, low, high):
    middle = (low + high) / 2
    before, after = Estimate(0.7, 0.6, 0.8, 0.95, ""), Estimate(0.7 + middle, 0.5, 0.9, 0.95, "")
    return Difference(recipe, "auc", before, after, Estimate(middle, low, high, 0.95, ""))


@pytest.mark.parametrize(
    ("changes", "tone", "words"),
    [
        ([("a", -0.2, -0.1), ("b", -0.1, 0.1)], "clear", "gives away less: AUC of a fell from 0.700 to 0.550"),
        ([("a", 0.1, 0.2), ("b", -0.1, 0.1)], "leak", "gives away more: AUC of a rose from 0.700 to 0.850"),
        ([("a", -0.2, -0.1), ("b", 0.1, 0.3)], "doubt", "less by some measures and more by others"),
        ([("a", -0.1, 0.0), ("b", 0.0, 0.0)], "undecided", "No difference could be shown"),
    ],
)
def test_a_comparison_says_what_it_found_and_no_more(changes, tone, words):
    text, found_tone = compare.summarise_changes([changed(*change) for change in changes])
    assert found_tone == tone
    assert words in text
    assert "Of 2 comparisons" in text


def test_verdicts_that_differ_are_no_improvement_where_no_difference_is_shown():
    """An AUC that is just shown to be above one half, and one that just is not."""
    members, rng = sizes(300, 300), np.random.default_rng(1)
    before, after = (scored({"loss": rng.normal(size=600) + step * members}, members) for step in (0.35, 0.2))
    assert (before.verdict.answer, after.verdict.answer) == ("leak found", "no leak found")
    compared = compare.Comparison.from_runs({"before": before, "after": after})
    heading, words, _ = compare.judge_ending(compared.changes["after"], after, before)
    assert heading == "No difference could be shown"
    assert "The verdicts differ (before: leak found; after: no leak found), but that is no improvement" in words
    backwards = compare.Comparison.from_runs({"before": after, "after": before})
    _, words, _ = compare.judge_ending(backwards.changes["after"], before, after)
    assert "that is no deterioration that was shown" in words
    alike = compare.Comparison.from_runs({"before": before, "after": before})
    assert "The verdicts differ" not in compare.judge_ending(alike.changes["after"], before, before)[1]


def test_the_changes_of_a_run_and_itself_are_none_and_their_intervals_hold_together():
    rng, members = np.random.default_rng(0), sizes(100, 100)
    audit = scored({"loss": rng.normal(size=200) + members, "lira": rng.normal(size=200)}, members)
    compared = compare.Comparison.from_runs({"before": audit, "after": audit})
    changes = compared.changes["after"]
    assert {round(change.change.confidence, 6) for change in changes} == {round(1 - 0.05 / len(changes), 6)}
    text = render(compare.comparison_page(compared))
    assert "No difference could be shown" in text
    assert audit.verdict.plain in text


@pytest.fixture(scope="module", params=[True, False], ids=["texts", "no texts"])
def identified(request, tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("documents"), np.random.default_rng(0)
    loss = np.r_[rng.normal(0, 1, 60), rng.normal(4, 1, 90)]
    texts = [f"secret number {i}" for i in range(150)]
    pl.DataFrame({"loss": loss, "text": texts}).write_csv(folder / "judged.csv")
    known_table = {"loss": rng.normal(4, 1, 400), "text": [f"known number {i}" for i in range(400)]}
    pl.DataFrame(known_table).write_csv(folder / "known.csv")
    columns = Columns((Score("loss", -1),), text="text")
    plan = from_tables.DecisionPlan(columns, Policy(0.2), show_records=request.param)
    from_tables.run([folder / "judged.csv"], [folder / "known.csv"], folder / "run", plan)
    return folder / "run", loss, request.param


def test_an_identification_shows_documents_only_where_it_may_and_scores_as_the_user_named_them(identified):
    run, loss, may = identified
    text = markdown.render(from_tables.IDENTIFICATION.load_page(run))
    best = int(np.argmin(loss))
    assert (f"secret number {best}" in text) is may
    assert (run / "exhibits.json").exists() is may
    assert any("secret number" in file.read_text() for file in run.glob("*.json")) is may
    assert f"| {loss[best]:.6g}" in text
    assert "largest selected score (loss)" in text
    assert "20 %" in text


def test_documents_of_a_damaged_run_are_refused_by_name(identified):
    run, _, may = identified
    if may:
        finished_run.read_documents(run)
        (run / "exhibits.json").write_text('[{"id": 3}]')
        with pytest.raises(Exception, match=r"exhibits\.json"):
            finished_run.read_documents(run)


def test_what_a_run_cannot_answer_is_not_evaluable():
    section = regulator_section(RegulatorAnswers(means="none."))
    answers = [
        row[1]
        for fold in section.blocks
        if isinstance(fold, Collapsible)
        for block in fold.blocks
        for row in block.rows
    ]
    assert sum(answer == NOT_EVALUABLE for answer in answers) == 7
    assert not any("None" in answer for answer in answers)


def test_a_tower_in_a_histogram_leaves_the_others_to_be_seen():
    spread = {"spread": np.linspace(0, 1, 100)}
    tower = {"tower": np.r_[np.zeros(98), 0.5, 1.0], **spread}
    for groups, scale_type in ((spread, None), (tower, "sqrt")):
        y_encoding = charts.histogram(groups)["layer"][0]["encoding"]["y"]
        assert y_encoding.get("scale", {}).get("type") == scale_type


def test_a_comparison_tells_of_the_strongest_attack_and_not_of_the_largest_change():
    weak = Difference(
        "weak", "auc", *(Estimate(v, v - 0.1, v, 0.95, "") for v in (0.8, 0.5)), Estimate(-0.3, -0.4, -0.2, 0.95, "")
    )
    best = Difference(
        "best", "auc", *(Estimate(v, v - 0.1, v, 0.95, "") for v in (0.9, 0.7)), Estimate(-0.2, -0.3, -0.1, 0.95, "")
    )
    rare = Difference(
        "best",
        "tpr@fpr=0.01",
        *(Estimate(v, 0, 1, 0.95, "") for v in (0.95, 0.1)),
        Estimate(-0.85, -0.9, -0.8, 0.95, ""),
    )
    assert "AUC of best fell from 0.900 to 0.700" in compare.summarise_changes([weak, best, rare])[0]


def test_a_finding_answers_a_regulator_in_a_sentence_that_stands_alone():
    answers = RegulatorAnswers(
        "asking.", extraction="Nothing was given back.", queries="The same.", epsilon="At least 3."
    )
    assert "this report names is examined and documented here. Nothing was given back. Others" in str(
        regulator_section(answers)
    )
    canary_answers = RegulatorAnswers("canaries.", epsilon="At least 3.")
    assert "this report names is examined and documented here. On ε: At least 3. Others" in str(
        regulator_section(canary_answers)
    )
