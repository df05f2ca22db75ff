"""A page's parts in HTML, Markdown, SVG and on one sheet, at the limits where they change."""

import dataclasses
import re
from html import unescape
from types import SimpleNamespace

import numpy as np
import pytest

from divulge import InputError
from divulge.report import html, markdown, notebook, one_page, sections, weights_page
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


@pytest.mark.parametrize(("total", "across"), [(100, 10), (1000, 50), (4, 10), (121, 11), (144, 12), (103, 10)])
def test_dots_stand_in_rows_and_all_are_drawn(total, across):
    svg = html._svg(DotGrid("c", 1, total))
    rows = -(-total // across)
    assert f'viewBox="0 0 {10 * across} {10 * rows}"' in svg
    places = [(int(x), int(y)) for x, y in re.findall(r"M(\d+) (\d+)h0", svg)]
    assert sorted(places) == sorted((10 * (i % across) + 5, 10 * (i // across) + 5) for i in range(total))


@pytest.mark.parametrize(
    ("value", "low", "high", "counts"),
    [
        (5, 3, 8, {"rest": 92, "ring": 3, "hole": 3, "likely": 2, "sure": 3}),
        (5, None, None, {"rest": 95, "sure": 5}),
        (5, 5, 5, {"rest": 95, "sure": 5}),
        (0, 0, 2, {"rest": 98, "ring": 2, "hole": 2}),
        (100, 90, 100, {"likely": 10, "sure": 90}),
        (2, 4, 8, {"rest": 92, "ring": 6, "hole": 6, "sure": 2}),
    ],
)
def test_dots_are_sure_likely_possible_or_the_rest(value, low, high, counts):
    svg = html._svg(DotGrid("c", value, 100, low, high))
    paths = re.findall(r'<path class="(\w+)" d="([^"]*)"', svg)
    assert {name: drawn.count("M") for name, drawn in paths} == counts


@pytest.mark.parametrize(
    ("total", "chance", "attribute"),
    [
        (999, False, "<svg viewBox"),
        (1000, False, '<svg class="many" '),
        (100, True, '<svg class="chance" '),
        (1000, True, '<svg class="many chance" '),
    ],
)
def test_a_thousand_dots_and_guesses_have_a_look_of_their_own(total, chance, attribute):
    assert html._svg(DotGrid("c", 1, total, chance=chance)).startswith(attribute)


@pytest.mark.parametrize(("start", "refused"), [(-1, True), (0, False), (1, False), (2, True)])
def test_a_slider_starts_at_one_of_its_stops(start, refused):
    dial = Slider("rate", [SliderPosition("1 %", "one"), SliderPosition("2 %", "two")], start=start, title="T")
    if refused:
        with pytest.raises(InputError, match=f"dial 'T': start must be one of its 2 stops, got {start}"):
            html.render(page_of(dial))
    else:
        assert "one" in html.render(page_of(dial))


@pytest.mark.parametrize(("n_rows", "shown"), [(1, 1), (2, 2), (240, 240), (241, 121), (480, 240), (481, 161)])
def test_the_table_of_a_chart_has_at_most_240_rows_and_ends_with_the_last(n_rows, shown):
    rows = [{"x": i} for i in range(n_rows)]
    table = html._data_table("d", rows, {})
    step = -(-n_rows // 240)
    expected = [i for i in range(n_rows - 1) if i % step == 0] + [n_rows - 1]
    assert [row[0] for row in table["table"]["rows"]] == [str(i) for i in expected]
    assert len(expected) in (shown, shown + 1)
    assert table["note"] == ("" if n_rows <= 240 else f"{len(expected)} of {n_rows} points, evenly spaced")


def test_columns_of_a_charts_table_have_the_titles_of_its_axes_and_its_bands_their_ends():
    rows = [{"x": 0.1234567, "low": 1, "x_high": 2, "series": "a"}, {"y": None}]
    table = html._data_table("d", rows, {"x": "known share", "low": "AUC", "x_high": "share", "series": "attack"})
    assert [title for title, _ in table["table"]["columns"]] == ["known share", "low", "high", "attack", "y"]
    assert table["table"]["rows"] == [["0.12346", "1", "2", "a", ""], ["", "", "", "", "None"]]


def test_titles_of_a_chart_are_those_of_its_first_layer_with_one():
    spec = {
        "layer": [{"encoding": {"x": {"field": "x", "title": "inner"}, "y": {"field": "y"}, "color": "red"}}],
        "encoding": {"x": {"field": "x", "title": "outer"}, "y": {"field": "y", "title": "up"}, "y2": {"title": "no"}},
    }
    assert html._titles(spec) == {"x": "inner", "y": "up"}


def test_data_sets_are_read_from_every_part_but_guides_and_empty_ones():
    def part(name, values):
        return {"data": {"name": name, "values": values}}

    spec = part("top", [1]) | {
        "layer": [part("a", [2]), part("_guide", [3]), part("none", [])],
        "hconcat": [part("b", [4])],
        "vconcat": [part("c", [5])],
        "concat": [part("d", [6]), {"data": {"values": [7]}}, {"data": {"name": "e"}, "datasets": {"e": [8]}}, "text"],
    }
    assert list(html._datasets(spec, "T")) == [
        ("top", [1]), ("a", [2]), ("b", [4]), ("c", [5]), ("d", [6]), ("data", [7]), ("e", [8]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("title", "note", "alternative"),
    [("T.", "N.", "T. N"), ("T", "", "T"), ("", "N", "N"), ("", "", "chart")],
)
def test_a_chart_is_told_by_title_and_note(title, note, alternative):
    assert html._chart(Chart({"mark": "point"}, title, note))["alternative"] == alternative


@pytest.mark.parametrize(
    "block", [Chart({"mark": "point"}), Slider("r", [SliderPosition("a", "b")]), Table(("a",), [])]
)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_scripts_come_with_the_blocks_that_need_them_however_deep(block, depth):
    for _ in range(depth):
        block = Collapsible("more", (Paragraph("first"), block))
    assert html._contains([Paragraph("p"), block], (Chart, Slider, Table))
    assert not html._contains([Paragraph("p"), block], Gallery)


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


def test_the_data_of_a_chart_cannot_end_its_element():
    text = html._json({"a": "</script>&\u2028\u2029ü"}, "T")
    assert not set(text) & set("<>&\u2028\u2029")
    assert "ü" in text
    assert html._script("a</script>b</SCRIPT>c</p>") == "a<\\/script>b<\\/SCRIPT>c</p>"


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


@pytest.mark.parametrize(("length", "is_cut"), [(419, False), (420, False), (421, True)])
def test_a_text_on_one_sheet_has_at_most_420_characters(length, is_cut):
    text = ("word " * 100)[: length - 1] + "x"
    found = one_page._shorten(text)
    assert found == (f"{text[:420].rsplit(' ', 1)[0]} …" if is_cut else text)


def source(i):
    return SimpleNamespace(role=f"role {9 - i}", name=f"n{i}", digest=f"d{i}")


@pytest.mark.parametrize("n", [0, 8, 9, 11])
def test_one_sheet_lists_at_most_eight_files_by_role(n):
    environment = SimpleNamespace(divulge="1.2")
    origin = SimpleNamespace(command="", environment=environment, sources=[source(i) for i in range(n)])
    (section,) = one_page._origin_sections(origin)
    rows = section.blocks[0].rows
    assert rows[:2] == [("command", "used from Python"), ("divulge", "1.2")]
    ordered = sorted((source(i) for i in range(n)), key=lambda each: each.role)[:8]
    assert rows[2:10] == [(f"{each.role}: {each.name}", f"SHA-256 {each.digest}") for each in ordered]
    assert rows[10:] == ([(f"and {n - 8} more", "in provenance.json")] if n > 8 else [])
    assert "Neither date" in one_page._origin_sections(None)[0].blocks[0].text


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


@pytest.mark.parametrize(
    ("given", "finding"),
    [
        (("extraction", "queries", "epsilon"), "X."), (("queries", "epsilon"), "Q."), (("epsilon",), "On ε: E."),
        ((), sections.NOT_EVALUABLE),
    ],
)  # fmt: skip
def test_regulators_get_the_answers_that_the_run_gives(given, finding):
    answers = sections.RegulatorAnswers("means.", **{name: ANSWERS[name] for name in given})
    assert sections._finding(answers) == finding
    european, american, private, owasp, _ = sections.regulator_section(answers).blocks
    rows = [row[1] for block in (european, american, private, owasp) for row in block.blocks[0].rows]
    missing = sections.NOT_EVALUABLE
    assert rows[0] == ("X." if "extraction" in given else missing)
    assert rows[1] == ("Q." if "queries" in given else missing)
    assert finding in rows[4]
    assert rows[6] == ("E." if "epsilon" in given else missing)
    assert (rows[7], rows[8], rows[9]) == (missing, missing, missing)


def test_advice_is_that_of_the_kind_of_model():
    general, documents = sections.membership_advice()[0], sections.membership_advice(documents=True)[0]
    forest = sections.membership_advice(model="RandomForestClassifier")[0]
    assert general.points[0].title == "Regularise more strongly."
    assert documents.points[0].title == "Train for fewer epochs."
    assert forest.points[0].title.startswith("Ask for more records in a leaf")
    assert forest.points[-1] == general.points[-1]
    assert forest.note.startswith("divulge defend measures such settings")
    assert not general.note.startswith("divulge defend")


def reconstruction(candidates, break_points=(), rules=None, proven=None):
    n = len(candidates)
    return SimpleNamespace(
        candidates=candidates, break_points=break_points, margin=1.0, rules=rules or [()] * n,
        proven=proven or [False] * n, labels=[1.0] * n, multipliers=[0.5] * n, guarantee="holds", guaranteed=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("candidates", "bends", "truth", "low", "high"),
    [
        ([0.0, 2.0], [0.5, 2.3, 2.31, -0.3, -0.31], None, 0.0, 2.0),
        ([0.0, 0.5], [], None, 0.0, 0.5),
        ([1.0], [3.0], None, 1.0, 3.0),
        ([1.0], [9.0], [0.0], 0.0, 1.0),
    ],
)
def test_a_network_is_drawn_around_its_points(candidates, bends, truth, low, high):
    """With 15 % beyond either end, at least 0.15; break-points further away are left out."""
    reach = 0.15 * max(high - low, 1.0)
    asked = []

    def line(inputs):
        asked.append(inputs[:, 0])
        return inputs[:, 0]

    spec = weights_page._network(
        reconstruction(candidates, bends, rules=[("crossing",)] + [("bend",)] * (len(candidates) - 1)),
        line, None if truth is None else np.array(truth),
    )  # fmt: skip
    (inputs,) = asked
    assert (inputs.min(), inputs.max()) == pytest.approx((low - reach, high + reach))
    visible = {bend for bend in bends if low - reach - 1e-9 <= bend <= high + reach + 1e-9}
    points = spec["layer"][2]["data"]["values"]
    assert {row["x"] for row in points if row["what"] == "break-point"} == visible
    assert [row["x"] for row in points if row["what"] == "crossing"] == candidates[:1]
    assert len(inputs) >= 400
    assert set(candidates) <= set(inputs.tolist())


@pytest.mark.parametrize("n", [0, 12, 13, 200, 201])
def test_called_records_are_folded_beyond_a_dozen_and_cut_beyond_two_hundred(n):
    called = [SimpleNamespace(id=f"r{i}", output=1.0, score=0.5, rules=("a", "b")) for i in range(n)]
    blocks = weights_page._called_records(SimpleNamespace(called=called, signal="margin-abs"))
    if not n:
        assert blocks == []
        return
    table = blocks[0].blocks[0] if n > 12 else blocks[0]
    assert isinstance(blocks[0], Collapsible) == (n > 12)
    assert len(table.rows) == min(n, 200)
    assert table.rows[0] == ["r0", "1", "0.5", "a, b"]
    assert table.note == ("The first 200 of 201; `--selection` writes them all." if n > 200 else "")


def test_known_points_lie_within_the_farthest_nearest_distance():
    summary = reconstruction([0.0, 1.0])
    (told,) = weights_page._known_points(summary, np.array([0.1, 0.75]))
    assert told.text == ("2 training points are known, and marked. Each lies within 0.25 of a point that was read off.")
    for candidates, truth in (([0.0], None), ([0.0], np.array([])), ([], np.array([1.0]))):
        assert weights_page._known_points(reconstruction(candidates), truth) == []


@pytest.mark.parametrize(
    ("tone", "name", "proven", "selected", "is_drawn"),
    [
        ("leak", "FDR 0.05", True, (1, 2), True), ("plain", "FDR 0.05", True, (1, 2), False),
        ("leak", "FPR 0.05", True, (1, 2), False), ("leak", "FDR 0.05", False, (1, 2), False),
        ("leak", "FDR 0.05", True, (), False),
    ],
)  # fmt: skip
def test_recognised_candidates_are_drawn_where_a_bounded_share_is_proven(tone, name, proven, selected, is_drawn):
    rule = SimpleNamespace(proven=proven, selected=selected)
    grids = weights_page._pictures(SimpleNamespace(tone=tone, decisions={name: rule}, candidates=10))
    assert len(grids) == is_drawn


def test_a_document_is_shown_as_it_is():
    assert unescape(html.render(page_of(Paragraph("5 % of ε")))).count("5\N{NO-BREAK SPACE}% of") == 1
