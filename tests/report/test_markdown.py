"""The page as Markdown."""

from divulge.report import markdown
from divulge.report.page import Exhibit, Gallery, Page, Section, Table


def test_all_words_of_the_sample_are_there_in_order(page):
    lines = markdown.render(page)
    places = [lines.index(word) for word in (page.title, page.verdict, "Seed: 7", *(s.title for s in page.sections))]
    assert places == sorted(places)
    assert lines.count("(chart: see the HTML report)") == 8
    assert "doc-00017, p = 0.0003 | The quick brown fox" in lines


def test_tables_are_aligned_and_bars_in_cells_escaped():
    page = Page("t", "v", "plain", (Section("s", (Table(("attack", "AUC"), [("a|b", "0.5")]),)),))
    assert "| attack | AUC |\n|--------|-----|\n| a\\|b   | 0.5 |" in markdown.render(page)


def test_no_record_commands_the_terminal():
    evil = "\x1b[2J\x1b]0;owned\x07\u202eabc\r\nnext"
    page = Page(evil, evil, "leak", (Section(evil, (Gallery((Exhibit(evil, text=evil),)),)),), {evil: evil})
    text = markdown.render(page)
    assert not set(text) & set("\x1b\x07\u202e\r")
    assert "abc next" in text
    text.encode()
