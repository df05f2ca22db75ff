"""The document as text: escaped, small, the same every time, and nothing in it that is not a number."""

import base64
import contextlib
import hashlib
import io
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import resources

import pytest

import divulge as dv
from divulge.report import html
from divulge.report.page import Chart, Exhibit, Gallery, Page, Paragraph, Section, Table

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)> \"'&"


def spec(**row):
    return {
        "data": {"name": "d", "values": [row]},
        "mark": "point",
        "encoding": {"x": {"field": "x", "title": "known"}},
    }


def one_section_page(*blocks, **options):
    return Page("title", "verdict", "plain", (Section("section", blocks),), **options)


class Elements(HTMLParser):
    def __init__(self, document):
        super().__init__()
        self.found = []
        self.feed(document)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_the_sample_is_below_two_megabytes_and_the_same_every_time(page):
    document = html.render(page)
    assert len(document.encode()) < 2_000_000
    assert html.render(page) == document


def test_other_processes_write_the_same_bytes(page):
    program = (
        "from divulge.report import html, charts\nfrom divulge.report.page import *\n"
        "c = charts.roc({'a': charts.Curve([0, .1, 1], [.1, .2, 1]), 'b': charts.Curve([0, 1], [0, 1])})\n"
        "import hashlib; print(hashlib.sha256(html.render(Page('t', 'v', 'leak', (Section('s', (Chart(c),)),)))"
        ".encode()).hexdigest())"
    )
    other = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()) as here:
        exec(program, {})
    assert other.stdout == here.getvalue()


def test_the_charting_library_is_what_its_licence_file_says():
    vl_convert = pytest.importorskip("vl_convert")
    shipped = resources.files("divulge.report")
    if (version := vl_convert.__version__).rsplit(".", 1)[0] not in shipped.joinpath("LICENSE.vega").read_text("utf-8"):
        pytest.skip(f"vl-convert {version} bundles other versions")
    assert shipped.joinpath("vega.js").read_bytes().decode() == vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;"
    )


def test_nothing_in_the_document_points_outside(page):
    for tag, attributes in Elements(html.render(page)).found:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:", "./")), (tag, name, value)
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)


def test_the_policy_names_exactly_the_scripts_and_styles_that_stand_in_the_document(page):
    document = html.render(page)
    policy = next(a["content"] for tag, a in Elements(document).found if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    inline = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", document, flags=re.DOTALL)
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in inline}
    assert len(inline) == 4
    assert hashes == set(re.findall(r"'sha256-[^']+'", policy))


def test_a_page_without_charts_carries_no_script():
    document = html.render(one_section_page(Paragraph("words")))
    assert "<script" not in document
    assert "script-src &#39;none&#39;" in document
    assert len(document) < 20_000


@pytest.mark.parametrize(
    "block",
    [
        Paragraph(EVIL),
        Table((EVIL,), [(EVIL,)], EVIL, EVIL),
        Chart(spec(x=EVIL), EVIL, EVIL),
        Gallery((Exhibit(EVIL, b"\x89PNG", EVIL), Exhibit(EVIL, text=EVIL)), EVIL, EVIL),
    ],
)
def test_text_is_escaped_in_every_block(block):
    page = Page(EVIL, EVIL, "leak", [Section(EVIL, (block,))] * 4, {EVIL: EVIL})
    elements = Elements(html.render(page)).found
    assert not any(attributes.get("src") == "x" or "onerror" in attributes for _, attributes in elements)
    own_scripts = {Chart: 4 + 3, Table: 1}.get(type(block), 0)
    assert sum(tag == "script" for tag, _ in elements) == own_scripts


def test_an_embedded_specification_reads_back_unchanged():
    document = html.render(one_section_page(Chart(spec(x=EVIL + "<!--😈\\u2028", y=0.1))))
    text = re.search(r'<script type="application/json" class="spec">(.*?)</script>', document, flags=re.DOTALL)[1]
    assert not set(text) & set("<>&")
    assert json.loads(text)["data"]["values"][0] == {"x": EVIL + "<!--😈\\u2028", "y": 0.1}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"bytes"])
def test_values_that_are_not_plain_json_are_refused_with_the_name_of_the_chart(value):
    with pytest.raises(dv.InputError, match="chart 'ROC': the specification is not plain, finite JSON"):
        html.render(one_section_page(Chart(spec(x=value), "ROC")))


def test_data_from_elsewhere_is_refused():
    outside = {"layer": [{"mark": "point", "data": {"url": "https://example.org/data.csv"}}]}
    with pytest.raises(dv.InputError, match="must stand inside the specification"):
        html.render(one_section_page(Chart(outside, "ROC")))


def test_options_for_the_embedding_page_are_dropped():
    document = html.render(one_section_page(Chart(spec(x=1) | {"usermeta": {"embedOptions": {"actions": True}}})))
    assert "embedOptions" not in re.search(r'class="spec">(.*?)</script>', document)[1]


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(dv.InputError, match=r"table 'T': row 1 has 1 cells, but there are 2 columns"):
        html.render(one_section_page(Table(("a", "b"), [("1", "2"), ("3",)], "T")))


def test_an_unknown_tone_is_refused():
    with pytest.raises(dv.InputError, match="tone: 'leek' is unknown; did you mean 'leak'"):
        html.render(Page("t", "v", "leek", ()))


@pytest.mark.parametrize(
    ("cells", "numeric"),
    [
        (["0.771 [0.752, 0.790]", "—"], True),
        (["12.3 %", "≤ 0.1 %", "1.2e-05", "nan"], True),
        (["1", "none"], False),
        (["ship", "7"], False),
        (["—", ""], True),
        (["2031-05-04"], True),
    ],
)
def test_columns_of_numbers_are_flush_right(cells, numeric):
    document = html.render(one_section_page(Table(("column",), [(cell,) for cell in cells])))
    assert ('<td class="number">' in document) is numeric


def test_no_quantity_breaks_and_numbers_in_tables_bear_a_minus():
    table = Table(("ε ≥", "note"), [("-0.5 [-1, 1e-05]", "p = 0.32 at 5 %; min_impurity_decrease = -1")])
    document = html.render(one_section_page(table)).replace("\N{NO-BREAK SPACE}", "~")
    assert "−0.5 [−1, 1e-05]" in document
    assert "p~=~0.32 at 5~%; min_impurity_decrease =~-1" in document


def test_the_verdict_comes_before_everything_but_the_title_and_says_its_tone_in_words(page):
    document = html.render(page)
    assert document.index("<h1>") < document.index("Leak found") < document.index("Membership leaks.")
    assert document.index("Membership leaks.") < document.index("2031-05-04") < document.index("<h2")


def test_contents_are_listed_from_four_sections_on():
    sections = [Section(f"part {i}", ()) for i in range(4)]
    assert "<nav" not in html.render(Page("t", "v", "clear", sections[:3]))
    assert '<a href="#section-4">part 3</a>' in html.render(Page("t", "v", "clear", sections))


def test_long_data_are_thinned_in_the_table_beside_the_chart_and_it_says_so():
    rows = [{"x": i / 7} for i in range(3_000)]
    document = html.render(one_section_page(Chart({"data": {"name": "curve", "values": rows}, "mark": "line"})))
    assert "232 of 3000 points, evenly spaced" in document
    assert f">{2_999 / 7:.5g}<" in document


def test_guides_are_left_out_of_the_table_and_axis_titles_head_its_columns():
    layered = {"layer": [spec(x=1.5), {"data": {"name": "_guides", "values": [{"at": 3}]}, "mark": "rule"}]}
    document = html.render(one_section_page(Chart(layered)))
    assert "known</th>" in document
    assert ">at</th>" not in document


def test_a_report_replaces_a_report_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "report.html"
    html.write(one_section_page(Paragraph("first")), path)
    with pytest.raises(dv.InputError):
        html.write(one_section_page(Chart(spec(x=float("nan")))), path)
    assert "first" in path.read_text(encoding="utf-8")
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_half_a_surrogate_pair_does_not_stop_the_report(tmp_path):
    html.write(one_section_page(Paragraph("caf\udce9")), str(tmp_path / "report.html"))
    assert "caf?" in (tmp_path / "report.html").read_text(encoding="utf-8")
