"""A page's parts in HTML, Markdown, SVG and on one sheet, at the limits where they change."""

import dataclasses
import re
from html import unescape
from types import SimpleNamespace

import pytest

from divulge import InputError
from divulge.report import html, markdown, notebook, one_page, sections
from divulge.report.page import (
    Bullet,
    BulletList,
    Chart,
    Collapsible,
    DotGrid,
    DotGrids,
    Exhibit,
    Gallery,
    Link,
    Page,
    Paragraph,
    Section,
    Slider,
    SliderPosition,
    Table,
)
from divulge.types import Estimate


def page_of(*blocks, title="s"):
    return Page("t", "v", "plain", (Section(title, blocks),))


@pytest.mark.parametrize(("start", "refused"), [(-1, True), (0, False), (1, False), (2, True)])
def test_a_slider_starts_at_one_of_its_stops(start, refused):
    dial = Slider("rate", [SliderPosition("1 %", "one"), SliderPosition("2 %", "two")], start=start, title="T")
    if refused:
        with pytest.raises(InputError, match=f"dial 'T': start must be one of its 2 stops, got {start}"):
            html.render(page_of(dial))
    else:
        assert "one" in html.render(page_of(dial))


def test_tables_of_one_name_are_told_apart_by_numbers():
    table = Table(("a", "b", "c"), [["1", "2", "3"]] * 3)
    document = html.render(page_of(*[dataclasses.replace(table, title=title) for title in ("T", "T", "", "")]))
    for name in ("T", "T 2", "table 1", "table 2"):
        assert f'"{name}"' in document
    assert '"T 1"' not in document
    assert '"T 3"' not in document


def test_terms_are_marked_once_in_each_section_and_listed_once():
    glossary = html.Glossary()
    first = str(glossary.mark_terms("AUC, the AUC, its FPR and divulge recipe; x.AUC AUC.x, non-members"))
    assert first.count("<button") == 3
    assert str(glossary.mark_terms("AUC")) == "AUC"
    glossary.begin()
    assert "<button" in str(glossary.mark_terms("AUC"))
    assert [term.name for _, term in glossary.marked_terms()] == ["AUC", "FPR (false-positive rate)", "members"]


def test_a_block_that_is_none_is_refused():
    with pytest.raises(InputError, match="blocks: str is not a block of a page"):
        html.render(page_of("text"))


def test_markdown_has_every_kind_of_block():
    page = page_of(
        Paragraph("words \n of  two"),
        Link("a/report.html", "unseen", "The same."),
        Link("b.html", "bare", ""),
        Gallery((Exhibit("cap", text="told"), Exhibit("", text="alone"), Exhibit("name", b"png")), "G", "noted"),
        DotGrids((DotGrid("half", 50, 100),)),
        BulletList((Bullet("A.", "b", "src"), Bullet("C.", "d")), "L"),
        Slider("rate", [SliderPosition("1 %", "one"), SliderPosition("2 %", "two")], start=0),
        Collapsible("fold", (Paragraph("inner"), Table(("x",), [("1",)], "tab", "note"))),
        Chart({}, "C", "drawn"),
    )
    assert markdown.render(page).split("\n\n")[2:] == [
        "## s",
        "words of two",
        "[unseen](a/report.html) The same.",
        "[bare](b.html)",
        "### G", "- cap | told\n- alone\n- name", "noted",
        "- half",
        "### L", "- A. b (src)\n- C. d",
        "- rate 1 %: one\n- rate 2 %: two",
        "### fold", "inner", "### tab", "| x   |\n|-----|\n| 1   |", "note",
        "### C", "(chart: see the HTML report)", "drawn\n",
    ]  # fmt: skip


def test_a_card_has_the_sections_that_are_its_own_without_what_is_folded():
    blocks = (Table(("x",), [("1",)], "tab"), Collapsible("fold", (Paragraph("inner"),)), Paragraph("words"))
    page = Page(
        "t", "v", "plain",
        [Section("Evidence", blocks), Section("Other", [Paragraph("left out")]),
         Section(sections.DECISIONS_TITLE, [Table(("y",), [("2",)], "long"), Paragraph("warned of")]),
         Section(sections.FAIRNESS_TITLE, [Paragraph("another warning")]),
         Section(sections.ADVICE_TITLE, [Paragraph("do")])],
        {"seed": "0"}, details=("detail",),
    )  # fmt: skip
    text = markdown.card(page)
    assert f"### {sections.DECISIONS_TITLE}\n\nwarned of\n\n" in text
    assert "another warning" in text
    assert "long" not in text
    assert text.startswith("## Privacy: t\n\n**v**\n\ndetail\n\n- seed: 0\n\n### ")
    assert "### Evidence\n\n#### tab\n\n| x   |" in text
    assert "words" in text
    assert f"### {sections.ADVICE_TITLE}\n\ndo" in text
    assert "inner" not in text
    assert "left out" not in text
    assert text.endswith("Measured with Divulge.\n")
    assert "\n- " not in markdown.card(dataclasses.replace(page, facts={}))


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("reference", [0.5, 0.0])
def test_intervals_are_drawn_to_scale_in_a_notebook(n, reference):
    name = "x" * 21
    estimates = {
        name[i:]: Estimate(0.6 + i / 10, 0.55 + i / 10, 0.65 + i / 10, 0.95, "delong") for i in range(n)
    }  # fmt: skip
    svg = notebook.draw_intervals(estimates, "<AUC>", reference)
    ends = [reference, *(end for e in estimates.values() for end in (e.low, e.high))]
    low, high = min(ends), max(ends)
    margin = 0.05 * (high - low)

    def across(value):
        return str(round(150 + 330 * (value - (low - margin)) / ((high + margin) - (low - margin)), 1))

    assert re.findall(r'<circle cx="([\d.]+)" cy="(\d+)" r="4"', svg) == [
        (across(e.value), str(24 * i + 12)) for i, e in enumerate(estimates.values())
    ]
    drawn = re.findall(r'<line x1="([\d.]+)" x2="([\d.]+)" y1="(\d+)" y2="(\d+)"', svg)
    bottom = 24 * n + 4
    assert drawn == [
        (across(reference), across(reference), "0", str(bottom)),
        *((across(e.low), across(e.high), *[str(24 * i + 12)] * 2) for i, e in enumerate(estimates.values())),
    ]
    assert f'width="500" height="{24 * n + 48}"' in svg
    labels = re.findall(r'<text x="0" y="(\d+)" stroke="none">([^<]*)<', svg)
    assert labels == [(str(24 * i + 16), "x" * 19 + "…" if i == 0 else name[i:]) for i in range(n)]
    assert f'<text x="{across(reference)}" y="{bottom + 14}" text-anchor="middle" stroke="none">{reference:g}<' in svg
    assert f'<text x="480" y="{bottom + 30}" text-anchor="end" stroke="none">&lt;AUC&gt;<' in svg
    assert "&lt;AUC&gt;: " + name in svg


def test_intervals_of_one_value_stand_in_the_middle():
    svg = notebook.draw_intervals({"a": Estimate(0.5, 0.5, 0.5, 0.95, "m")}, "AUC", 0.5)
    assert re.findall(r'cx="([\d.]+)"', svg) == ["315.0"]


@pytest.mark.parametrize(
    ("tone", "colour", "sign"),
    [
        ("leak", "#d0473c", "▲"), ("clear", "#2f8f68", "✓"), ("doubt", "#b07a1e", "?"), ("void", "#c9355f", "✗"),
        ("plain", "#7d8794", "–"), ("undecided", "#7d8794", "–"),
    ],
)  # fmt: skip
def test_a_notebook_shows_tone_verdict_details_table_and_note(tone, colour, sign):
    bare = notebook.render("<h>", "<t>", tone)
    assert bare == (
        f'<div style="max-width:60em;padding:.2em 1em;border-left:5px solid {colour}"><p><strong style="color:{colour}'
        f'">{sign} &lt;h&gt;</strong><br>&lt;t&gt;</p></div>'
    )
    full = notebook.render(
        "h", "t", tone, details=["<d>"], columns=["<c>"], rows=[["<1>"], [2]], picture="<svg/>", note="<n>"
    )
    assert full.endswith(
        "<details><summary>What this rests on</summary><p>&lt;d&gt;</p></details><svg/><table><thead><tr>"
        '<th scope="col">&lt;c&gt;</th></tr></thead><tbody><tr><td>&lt;1&gt;</td></tr><tr><td>2</td></tr></tbody>'
        "</table><p><small>&lt;n&gt;</small></p></div>"
    )


def source(i):
    return SimpleNamespace(role=f"role {9 - i}", name=f"n{i}", digest=f"d{i}")


def test_one_sheet_has_few_rows_points_and_blocks_of_the_sections_that_matter():
    table = Table(("a",), [(str(i),) for i in range(9)], "T", "note")
    bullets = BulletList([Bullet(f"{i}", "t" * 500, "src") for i in range(4)], "L", "note")
    page = Page(
        "t", "v", "plain",
        [
            Section("Evidence", [Collapsible("f", [table]), table, bullets]),
            Section("Warnings", [Paragraph("w1"), bullets, Paragraph("w3")]),
            Section("Other", [Paragraph("o")]),
            Section("Selection", [Chart({})]),
        ],
        details=["a", "b", "c"], pictures=(DotGrid("half", 50, 100),),
    )  # fmt: skip
    sheet = one_page.one_page(page)
    assert [section.title for section in sheet.sections] == [
        "Evidence", "Warnings", "What this does not show", "Where this comes from", "For the file",
    ]  # fmt: skip
    (evidence,) = sheet.sections[0].blocks
    assert (list(evidence.rows), evidence.note, evidence.sortable) == ([[str(i)] for i in range(8)], "", False)
    first, listed = sheet.sections[1].blocks
    assert first == Paragraph("w1")
    assert [point.title for point in listed.points] == ["0", "1", "2"]
    assert all(len(point.text) < 430 for point in listed.points)
    assert (list(sheet.details), sheet.pictures, sheet.compact) == (["a", "b"], (), True)


ANSWERS = {"extraction": "X.", "queries": "Q.", "epsilon": "E."}


def test_advice_is_that_of_the_kind_of_model():
    def advice(**kind):
        ((line,), (points,)) = sections.membership_advice(**kind)
        return line.text, points

    (line, general), (_, documents) = advice(), advice(documents=True)
    own, forest = advice(model="RandomForestClassifier")
    assert general.points[0].title == "Regularise more strongly."
    assert "regularise more strongly; or train with differential privacy" in line
    assert documents.points[0].title == "Train for fewer epochs."
    assert forest.points[0].title.startswith("Ask for more records in a leaf")
    assert forest.points[-1] == general.points[-1]
    assert "divulge defend PLAN tries such settings on this model" in own
    assert "divulge defend" not in line
    # The figures are measured on other models, and do not stand in the line.
    assert "AUC" not in line + own


def test_an_adapter_is_not_told_to_become_one():
    (line,), (points,) = sections.membership_advice(documents=True, adapter=True)
    assert "adapter" not in line.text
    assert [point.title for point in points.points] == ["Train for fewer epochs."]


def reconstruction(candidates, break_points=(), rules=None, proven=None):
    n = len(candidates)
    return SimpleNamespace(
        candidates=candidates, break_points=break_points, margin=1.0, rules=rules or [()] * n,
        proven=proven or [False] * n, labels=[1.0] * n, multipliers=[0.5] * n, guarantee="holds", guaranteed=0,
    )  # fmt: skip


def test_a_document_is_shown_as_it_is():
    assert unescape(html.render(page_of(Paragraph("5 % of ε")))).count("5\N{NO-BREAK SPACE}% of") == 1
