"""The report in a real browser: it draws, it asks the network for nothing, it fits, it prints."""

import numpy as np
import pytest

from divulge.report import (
    Bullet,
    BulletList,
    Collapsible,
    DotGrid,
    DotGrids,
    Link,
    Slider,
    SliderPosition,
    charts,
    html,
    thumbnail,
)
from divulge.report.charts import Curve
from divulge.report.page import Chart, Exhibit, Gallery, Page, Paragraph, Section, Table

pytestmark = pytest.mark.browser

EVIL = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>\"'`&amp;{{7*7}}\u202e\u2028😈"
)
LONG = "id" * 400


@pytest.fixture(scope="module")
def file(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    html.write(page, path)
    return path.as_uri()


@pytest.fixture
def visit(chromium):
    """Open an address and wait until all charts stand; what the browser complained of and asked for is kept."""
    tabs = []

    def go(uri, width=1200, scheme="light", **options):
        tab = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        tabs.append(tab)
        tab.complaints, tab.asked = [], []
        tab.on("console", lambda message: tab.complaints.append(message.text))
        tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.on("request", lambda request: tab.asked.append(request.url))
        tab.goto(uri)
        if options.get("java_script_enabled", True) and tab.locator(".plot").count():
            tab.wait_for_function("document.documentElement.dataset.drawn === 'yes'", timeout=60_000)
        return tab

    yield go
    for tab in tabs:
        tab.close()


def overflow(tab):
    return tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_every_chart_is_drawn_without_a_complaint_or_a_connection(visit, file, page):
    tab = visit(file)
    count = sum(isinstance(block, Chart) for section in page.sections for block in section.blocks)
    boxes = tab.evaluate(
        "[...document.querySelectorAll('.plot svg')]"
        ".map(e => [e.clientWidth, e.clientHeight, e.querySelectorAll('path').length])"
    )
    assert len(boxes) == count
    assert all(width > 400 and height > 100 and paths > 10 for width, height, paths in boxes)
    assert tab.complaints == []
    assert tab.asked == [file]


@pytest.mark.parametrize("width", [360, 768])
def test_a_narrow_page_never_scrolls_sideways(visit, file, width):
    tab = visit(file, width=width)
    assert overflow(tab) == 0
    for figure in tab.locator("details").all():
        figure.evaluate("e => e.open = true")
    assert overflow(tab) == 0
    for selector in (".plot svg", ".dots svg", ".stacked td"):
        right = (
            f"[...document.querySelectorAll('{selector}')].every(e => e.getBoundingClientRect().right <= innerWidth)"
        )
        assert tab.evaluate(right), selector


def test_charts_follow_the_width_of_the_window(visit, file):
    tab = visit(file)
    tab.set_viewport_size({"width": 360, "height": 800})
    tab.wait_for_function("[...document.querySelectorAll('.plot svg')].every(e => e.clientWidth < 360)")
    assert overflow(tab) == 0
    assert tab.complaints == []


def colours(tab):
    return tab.evaluate(
        """[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
            getComputedStyle(document.querySelector('.plot svg .role-axis-label text')).fill,
            getComputedStyle(document.querySelector('.plot svg .mark-line path')).stroke]"""
    )


def test_dark_mode_reaches_text_axes_and_curves_and_follows_a_change(visit, file):
    light, tab = colours(visit(file)), visit(file, scheme="dark")
    dark = colours(tab)
    assert all(a != b for a, b in zip(light, dark, strict=True))
    tab.emulate_media(color_scheme="light")
    assert colours(tab) == light
    assert "none" not in light + dark


def test_print_is_light_whole_and_not_empty(visit, file):
    tab = visit(file, scheme="dark")
    printed = tab.pdf()
    assert printed.startswith(b"%PDF")
    assert len(printed) > 20_000
    tab.emulate_media(media="print")
    background, ink, axis, _ = colours(tab)
    assert max(map(int, ink[4:-1].split(","))) < 100
    assert background == "rgb(255, 255, 255)"
    assert tab.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert max(map(int, axis[4:-1].split(","))) < 130
    assert tab.evaluate("getComputedStyle(document.querySelector('figure.chart')).breakInside") == "avoid"
    assert not tab.locator("details").first.is_visible()


def test_what_is_folded_is_drawn_for_paper_and_follows_the_width_once_it_is_opened(visit, tmp_path):
    chart = Chart(charts.lines({"a": Curve([0.0, 1.0], [0.2, 0.7])}, x="x", y="y"), "folded")
    inner = Collapsible("deeper", (chart,))
    page = Page("t", "v", "leak", (Section("s", (chart, Collapsible("more", (chart, inner)))),))
    html.write(page, tmp_path / "folded.html")
    tab = visit((tmp_path / "folded.html").as_uri())
    tab.wait_for_function("document.querySelectorAll('.plot svg').length === 3")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")
    assert all(plot.bounding_box()["height"] > 200 for plot in tab.locator(".plot svg").all())
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    tab.emulate_media(media="screen")
    assert not tab.locator("details.fold").first.evaluate("e => e.open")
    tab.set_viewport_size({"width": 400, "height": 800})
    for fold in tab.locator("details.fold > summary").all():
        fold.click()
    tab.wait_for_function("[...document.querySelectorAll('.plot svg')].every(e => e.clientWidth < 400)")
    assert tab.complaints == []


def test_on_a_narrow_page_a_digest_breaks_and_no_short_word_does(visit, tmp_path):
    table = Table(
        ("what", "value"), (("transformers", "9f" * 32), ("processors", "Linux-6.18.44-x86_64-with-glibc2.36"))
    )
    html.write(Page("t", "v", "plain", (Section("s", (table,)),)), tmp_path / "long.html")
    tab = visit((tmp_path / "long.html").as_uri(), width=400)
    assert tab.locator(".scroll").evaluate("e => e.scrollWidth - e.clientWidth") == 0
    lines = "e => { const r = new Range(); r.selectNodeContents(e); return r.getClientRects().length; }"
    assert [tab.locator("td:first-child").nth(row).evaluate(lines) for row in range(2)] == [1, 1]


def test_on_a_narrow_page_a_table_that_fits_stays_one_that_can_be_sorted(visit, tmp_path):
    short = Table(("row", "truly a", "score"), [("222", "member", "4.25"), ("36", "member", "4.2")] * 2, sortable=True)
    wide = Table(("recipe", "claim", "AUC"), [("loss", "all candidates are exchangeable " * 2, "0.6")])
    html.write(Page("t", "v", "plain", (Section("s", (short, wide)),)), tmp_path / "tables.html")
    tab = visit((tmp_path / "tables.html").as_uri(), width=360)
    assert tab.locator("table.stacked").count() == 1
    assert tab.locator(".sort").first.is_visible()
    assert tab.locator(".scroll").first.evaluate("e => e.scrollWidth - e.clientWidth") == 0


def test_without_javascript_words_tables_and_figures_are_there(visit, file):
    tab = visit(file, java_script_enabled=False)
    text = tab.locator("body").inner_text()
    assert "Membership leaks. RMIA finds 13.0\N{NO-BREAK SPACE}%" in text
    assert "0.771 [0.752, 0.790]" in text
    assert "drawn by JavaScript; its figures are in the table below" in text
    tab.locator("summary").first.click()
    assert tab.locator("details table").first.is_visible()


def test_every_chart_has_words_and_every_table_can_be_reached_by_keyboard(visit, file):
    tab = visit(file)
    assert all(len(plot.get_attribute("aria-label")) > 20 for plot in tab.locator(".plot").all())
    assert all(plot.get_attribute("role") == "img" for plot in tab.locator(".plot").all())
    assert all(frame.get_attribute("tabindex") == "0" for frame in tab.locator(".scroll").all())
    assert tab.locator("nav li").count() == 6
    assert tab.locator("h1").count() == 1


def test_a_table_is_sorted_by_keyboard_and_says_so(visit, file):
    tab = visit(file)
    tab.locator("details.fold summary").click()
    table = tab.locator("details.fold table.sortable")
    head = table.locator("th").nth(1)
    head.locator("button.sort").focus()
    for direction, order in (("descending", ["rmia", "lira", "loss"]), ("ascending", ["loss", "lira", "rmia"])):
        tab.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == direction
        assert table.locator("tbody td:first-child").all_text_contents() == order


def test_a_slider_moves_by_keyboard_and_says_what_holds_at_its_place(visit, file):
    tab = visit(file)
    slider = tab.get_by_label("false-positive rate")
    slider.focus()
    assert tab.locator(".stops li.chosen .said").inner_text() == "6 of 100 are recognised."
    tab.keyboard.press("ArrowRight")
    assert tab.locator(".stops > li:visible .said").all_inner_texts() == ["9 of 100 are recognised."]
    assert slider.get_attribute("aria-valuetext") == "3\N{NO-BREAK SPACE}%: 9 of 100 are recognised."


def test_series_can_be_hidden_and_another_band_shown(visit, file):
    expect = pytest.importorskip("playwright.sync_api").expect
    tab = visit(file)
    figure = tab.locator("figure.chart", has=tab.locator(".series")).first
    lines, band = figure.locator(".mark-line path"), figure.locator(".mark-area path")
    count, before = lines.count(), band.get_attribute("d")
    assert band.count() == 1
    figure.locator(".series input").first.uncheck()
    expect(lines).to_have_count(count - 1)
    figure.locator(".series input").first.check()
    expect(lines).to_have_count(count)
    figure.locator(".series select").select_option("LOSS")
    expect(band).not_to_have_attribute("d", before)
    expect(band).to_have_count(1)
    assert tab.complaints == []


def test_a_term_explains_itself_by_keyboard(visit, file):
    tab = visit(file)
    term = tab.locator("main button.term", has_text="AUC").first
    term.focus()
    tab.keyboard.press("Enter")
    explanation = tab.locator(".meaning:popover-open")
    assert "Guessing: 0.5" in explanation.inner_text()
    tab.keyboard.press("Escape")
    assert explanation.count() == 0


def hostile_page():
    curve = Curve([0, 0.01, 1], [0.1, 0.2, 1])
    picture = thumbnail(np.zeros((4, 4)))
    blocks = (
        Paragraph(EVIL),
        Table((EVIL, LONG, "number"), [(EVIL, LONG, "1"), (LONG, EVIL, "2")], EVIL, EVIL),
        Chart(charts.roc({EVIL: curve, LONG: curve}), EVIL, EVIL),
        Chart(charts.scatter({EVIL: ([1.0, 2.0], [1.0, 2.0])}, x=EVIL, y=EVIL, horizontal={EVIL: 1.0}), LONG, LONG),
        Gallery((Exhibit(EVIL, picture, EVIL), Exhibit(LONG, text=EVIL), Exhibit(LONG, text=LONG)), EVIL, EVIL),
        Slider(
            EVIL,
            [SliderPosition(EVIL, LONG, (DotGrid(EVIL, 1, 2),)), SliderPosition(LONG, EVIL)],
            title=EVIL,
            note=LONG,
        ),
        BulletList((Bullet(EVIL, LONG, EVIL), Bullet(LONG, EVIL, LONG)), EVIL, EVIL),
        Collapsible(EVIL, (Link("javascript:hacked=3//" + EVIL, EVIL, LONG), DotGrids((DotGrid(EVIL, 1, 2),), EVIL))),
    )
    sections = [Section(EVIL, blocks)] * 4 + [Section(LONG, ())]
    page_texts = {"heading": EVIL, "pictures": (DotGrid(EVIL, 1, 2, 0, 2),), "details": (EVIL, LONG)}
    return Page(EVIL, EVIL + LONG, "void", sections, {EVIL: LONG, LONG: EVIL}, **page_texts)


def test_hostile_text_stays_text(visit, tmp_path):
    html.write(hostile_page(), tmp_path / "hostile.html")
    tab = visit((tmp_path / "hostile.html").as_uri(), width=360)
    assert tab.evaluate("window.hacked") is None
    assert tab.complaints == []
    assert len(tab.asked) == 1
    assert tab.locator("img[onerror], img[src=x]").count() == 0
    assert tab.locator(".prose").first.text_content().replace("\N{NO-BREAK SPACE}", " ") == EVIL
    assert tab.locator("blockquote").first.text_content() == EVIL
    assert tab.locator(".plot svg").count() == 8
    assert overflow(tab) == 0


def test_a_tooltip_shows_hostile_names_as_text(visit, tmp_path):
    html.write(hostile_page(), tmp_path / "hostile.html")
    tab = visit((tmp_path / "hostile.html").as_uri())
    point = tab.locator(".mark-symbol.role-mark path").last
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    tooltip = tab.locator("#vg-tooltip-element.visible")
    tooltip.wait_for(timeout=60_000)
    assert "<script>window.hacked" in tooltip.text_content()
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("#vg-tooltip-element img").count() == 0
    assert tab.complaints == []


def test_a_script_from_elsewhere_is_refused_by_the_policy(visit, page, tmp_path):
    document = html.render(page).replace("</main>", "<script>window.hacked = 1</script></main>")
    (tmp_path / "tampered.html").write_text(document)
    tab = visit((tmp_path / "tampered.html").as_uri())
    assert tab.evaluate("window.hacked") is None
    assert any("Content Security Policy" in complaint for complaint in tab.complaints)
