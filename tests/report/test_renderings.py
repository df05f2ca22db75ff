"""A page's parts in HTML, Markdown, SVG and on one sheet, at the limits where they change."""

import re
from html import unescape

import pytest

from divulge import InputError
from divulge.report import html, markdown, notebook
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


def test_a_document_is_shown_as_it_is():
    assert unescape(html.render(page_of(Paragraph("5 % of ε")))).count("5\N{NO-BREAK SPACE}% of") == 1
