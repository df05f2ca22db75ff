"""Every sentence of an erasure check's report, in each of its readings."""

import re
from pathlib import Path

import numpy as np
import pytest

import divulge as dv
from divulge.report.markdown import render
from divulge.report.page import Table
from divulge.unlearning import erasure_page

IDS = [f"{i:03d}" for i in range(600)]
MOVED = np.arange(600) < 300


def table(shift=0.0, seed=0, *, both_ways=False, correct=False):
    noise = np.random.default_rng(seed).normal(size=600)
    difficulty = 3 * np.random.default_rng(99).normal(size=600)
    signs = np.where(np.arange(600) % 2, 1, -1) if both_ways else 1
    columns = {"id": IDS, "score": difficulty + noise + shift * MOVED * signs}
    return columns | ({"correct": (noise > -shift).astype(int)} if correct else {})


CONTROLS = [table(seed=seed) for seed in range(10, 18)]
READINGS = {
    "remembered": {"after": table(4, 1)},
    "moved both ways": {"after": table(3, 1, both_ways=True)},
    "forgotten": {"after": table(0, 2)},
    "overdone": {"after": table(-4, 1)},
    "constant": {"after": {"id": IDS, "score": np.zeros(600)}},
    "no control": {"after": table(4, 1), "retrained": []},
    "one control": {"after": table(4, 1), "retrained": CONTROLS[:1]},
    "two controls": {"after": table(0, 2), "retrained": CONTROLS[:2]},
    "copies": {"after": table(0, 2), "retrained": [*CONTROLS[:5], CONTROLS[0]]},
    "nothing done": {"after": table(4, 0)},
    "no model before": {"after": table(0, 2), "before": None},
    "accuracy": {"after": table(4, 1, correct=True), "before": table(4, 0, correct=True)},
    "two requests": {"after": table(4, 1), "forget": {"a": IDS[:150], "b": IDS[150:300]}},
    "references": {"after": table(0, 2), "retrained": [], "references": CONTROLS},
    "both": {"after": table(0, 2), "retrained": CONTROLS[:4], "references": CONTROLS[4:]},
}


@pytest.fixture(scope="module")
def pages():
    pages_by_name = {}
    for name, changes in READINGS.items():
        sets = {"forget": IDS[:300], "never": IDS[300:], "margin": 0.1}
        arguments = {"before": table(4, 0), "retrained": CONTROLS} | sets | changes
        result = dv.forget(arguments.pop("before"), arguments.pop("after"), **arguments)
        pages_by_name[name] = (result, result.page(), render(result.page()))
    return pages_by_name


# Of the first sentence where it holds, and of the second where it does not.
SENTENCES = [
    (
        "Still remembered",
        ["remembered", "moved both ways", "one control", "nothing done", "two requests"],
        ["forgotten"],
    ),
    (
        "with models that never saw either, the level to compare with, in",
        ["remembered", "overdone"],
        ["moved both ways", "forgotten", "one control"],
    ),
    ("their scores vary more than under models that never saw", ["moved both ways"], ["remembered", "forgotten"]),
    ("No difference from a model that never saw them", ["forgotten", "references", "both"], ["remembered", "overdone"]),
    ("would have been found in 4 of 5 checks", ["forgotten"], ["remembered", "overdone", "constant", "no control"]),
    ("Overdone", ["overdone"], ["remembered", "forgotten"]),
    ("Too little data to say", ["constant", "no control", "two controls"], ["remembered", "forgotten"]),
    ("the model after the erasure scores all records alike", ["constant"], ["forgotten"]),
    ("No model that never saw the records was given", ["no control"], ["one control", "forgotten"]),
    ("without one an AUC says nothing", ["no control"], ["one control"]),
    ("training noise is not included", ["no control", "one control"], ["two controls", "forgotten"]),
    ("how much these differ among themselves is taken into account", ["two controls", "forgotten"], ["one control"]),
    ("2 models that never saw the records; 4 or more are recommended", ["two controls"], ["one control", "forgotten"]),
    ("score every record as another one does, and were left out", ["copies"], ["forgotten"]),
    ("both models score every record alike: nothing was done", ["nothing done"], ["remembered"]),
    ("the models differ", ["remembered"], ["nothing done", "no model before"]),
    ("Not known: the model before the erasure was not given", ["no model before"], ["forgotten"]),
    ("No single record is shown to be remembered", ["forgotten", "overdone"], ["remembered", "moved both ways"]),
    ("are expected to be wrong", ["remembered"], ["forgotten"]),
    ("they lie further from it, higher or lower, than under these models", ["forgotten", "remembered"], ["no control"]),
    ("Between trainings the AUC itself varies by", ["forgotten"], ["one control", "no control"]),
    ("| accuracy |", ["accuracy"], ["remembered"]),
    ("2 requests", ["two requests"], ["remembered"]),
    ("8 retrained models", ["forgotten"], ["references", "both", "no control"]),
    ("8 reference models", ["references"], ["forgotten", "both"]),
    ("8 retrained and reference models", ["both"], ["forgotten", "references"]),
    ("Train more models without the records", ["no control", "two controls"], ["remembered", "forgotten", "constant"]),
    ("Compare more records", ["constant"], ["two controls", "forgotten"]),
    ("Train again without the records", ["remembered", "overdone"], ["forgotten", "constant"]),
    ("stand out more than under models that never saw them", ["remembered"], ["forgotten", "overdone", "constant"]),
    ("stand out no more than under models that never saw them", ["forgotten"], ["remembered", "overdone"]),
    ("Scores do not show everything", ["remembered", "forgotten", "no control"], []),
]


@pytest.mark.parametrize(("sentence", "present", "absent"), SENTENCES)
def test_a_sentence_stands_where_it_holds_and_nowhere_else(pages, sentence, present, absent):
    for name in present:
        assert sentence in pages[name][2], name
    for name in absent:
        assert sentence not in pages[name][2], name


def test_numbers_of_the_page_are_those_of_the_findings(pages):
    for result, page, text in pages.values():
        assert page.verdict == result.verdict.text
        for shown_finding in result.findings:
            assert f"{shown_finding.auc_after.value:.3f}" in text
            if len(shown_finding.controls) > 1:
                assert f"{min(shown_finding.controls):.3f} to {max(shown_finding.controls):.3f}" in text
        listed = sum(len(ids) for ids in result.remembered.values())
        assert listed == sum(finding.remembered for finding in result.findings)
        if listed:
            assert re.search(rf"\b{listed} records? on the list", text)


def test_a_listed_record_stands_beside_what_models_gave_it(pages):
    """Its scores before and after, and the mean under the models that never saw it; a dash where there is none."""
    for name in ("remembered", "no model before", "two requests", "nothing done", "moved both ways"):
        result, page, _ = pages[name]
        tables = [block for section in page.sections for block in section.blocks if isinstance(block, Table)]
        listed = next((each.rows for each in tables if "never saw it" in each.columns), [])
        assert len(listed) == min(sum(map(len, result.remembered.values())), 20 * max(len(result.remembered), 1))
        assert listed or name == "no model before"
        before, after = ({"id": IDS, "score": np.full(600, np.nan)}, READINGS[name]["after"])
        before = table(4, 0) if READINGS[name].get("before", before) is not None else None
        never = np.mean([control["score"] for control in CONTROLS], axis=0)
        for record, request, *figures in listed:
            row = IDS.index(record)
            assert record in result.remembered[request]
            expected = ["–" if before is None else before["score"][row], after["score"][row], never[row]]
            assert figures == [each if isinstance(each, str) else f"{each:.3g}" for each in expected]


def test_tones_follow_the_answers(pages):
    tones = {result.verdict.answer.split(":")[0]: page.tone for result, page, _ in pages.values()}
    assert tones == {
        "still remembered": "leak", "no difference from a model that never saw them": "clear", "overdone": "doubt",
        "too little data to say": "undecided",
    }  # fmt: skip


def test_every_picture_and_notebook_is_drawn(pages):
    for name, (result, page, _) in pages.items():
        charts = [chart for section in page.sections for chart in section.blocks if hasattr(chart, "title")]
        assert charts, name
        assert result.verdict.text.split(".")[0][:20] in result._repr_html_()
    assert erasure_page.REQUEST_COLUMNS[0] == "request"


def test_the_example_of_the_documentation_runs(capsys):
    page = Path(__file__).parents[2] / "docs" / "erasure.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    exec(compile("\n".join(blocks), str(page), "exec"), {})
    assert capsys.readouterr().out.startswith("still remembered\n")
