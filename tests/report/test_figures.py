"""`divulge report RUN --format svg` and `png`: the figures of a page as files that stand by themselves."""

import re
import sys
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

import divulge as dv
from divulge.report import Bullet, BulletList, Collapsible, DotGrid, charts, figures
from divulge.report.page import Chart, Page, Section
from divulge.types import Estimate
from run_directories import write_audit

EVIL = "</svg><script>alert(1)</script> \"'& \x00\x0b\ufffe\u2028 𝕏"
SVG = "{http://www.w3.org/2000/svg}"


def interval(value):
    return Estimate(value, value - 0.1, value + 0.1, 0.95, "delong")


def page_of(*blocks, **options):
    return Page("title", "verdict", "leak", (Section("section", blocks),), **options)


def parse(path):
    """A file's root and its words; whoever wrote it may have declared no document type, and no script."""
    root = ET.fromstring(path.read_bytes())
    assert root.tag == f"{SVG}svg"
    assert not list(root.iter(f"{SVG}script"))
    words = " ".join(piece for element in root.iter(f"{SVG}text") for piece in element.itertext())
    return root, re.sub(r"\s+", " ", words)


def test_every_chart_and_every_grid_of_dots_is_a_file_in_reading_order(page, tmp_path):
    pytest.importorskip("vl_convert")
    paths = figures.write(page, tmp_path / "out", "svg")
    count = sum(isinstance(block, Chart) for section in page.sections for block in section.blocks)
    assert [path.name[:3] for path in paths] == [f"{number:02d}-" for number in range(1, count + 3)]
    assert paths[0].name == "01-leak-found.svg"
    assert paths[1].name == "02-detection-at-small-false-positive-rates.svg"
    for path in paths:
        root, words = parse(path)
        assert words
        assert len(list(root.iter(f"{SVG}path"))) > 1
        assert "var(--" not in path.read_text("utf-8")
    _, words = parse(paths[1])
    for name in ("LOSS", "RMIA γ = 2", "quantile regression", "true positive rate"):  # the legend, which a page draws
        assert name in words
    assert "The interval shown is that of RMIA γ = 2." in words


def test_a_png_shows_what_the_svg_does_on_white(page, tmp_path):
    pytest.importorskip("vl_convert")
    page = replace(page, sections=page.sections[:1])
    paths = figures.write(page, tmp_path / "out", "png")
    assert paths == figures.write(page, tmp_path / "out", "png"), "its own figures are written again"
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        with Image.open(path) as image:
            assert min(image.size) > 200
            assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
            assert len(image.getcolors(image.width * image.height)) > 20  # ink, and no blank sheet


def test_dots_need_no_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    page = page_of(pictures=[DotGrid(f"7 of 100 {EVIL}", 7, 100, 3, 12), DotGrid("1 of 1,000", 1, 1000, chance=True)])
    (path,) = figures.write(page, tmp_path / "dots")
    root, words = parse(path)
    assert len(list(root.iter(f"{SVG}path"))) == 5 + 2
    assert "</svg><script>alert (1)</script>" in words  # broken at the end of a line
    assert "rings: possibly" in words.lower()


def test_what_stands_in_a_chart_is_text_whatever_it_holds(tmp_path):
    pytest.importorskip("vl_convert")
    spec = charts.class_lanes({EVIL: {EVIL: interval(0.6)}, "b": {EVIL: interval(0.7)}}, focus=EVIL, quantity=EVIL)
    (path,) = figures.write(page_of(Collapsible(EVIL, [Chart(spec, EVIL, EVIL)])), tmp_path / "out")
    assert re.fullmatch(r"01-[a-z0-9-]+\.svg", path.name)
    _, words = parse(path)
    assert words.count("alert(1)") >= 4
    assert "𝕏" in words


def test_a_chart_without_the_extra_says_what_to_install_and_leaves_nothing(tmp_path, divulge, monkeypatch):
    run = tmp_path / "run"
    write_audit(run)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    for name in ("svg", "png"):
        code, _, error = divulge("report", run, "--format", name)
        assert code == 2
        hint = "it comes with the extra 'figures': pip install '.[figures]' in a clone of Divulge"
        assert error == f"divulge: vl_convert is not installed; {hint}\n"
        assert not (run / "figures").exists()


def test_a_page_without_figures_and_a_folder_with_others_are_refused(tmp_path):
    with pytest.raises(dv.InputError, match="this report has no figures"):
        figures.write(page_of(BulletList((Bullet("a", "b"),))), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    page = page_of(pictures=[DotGrid("7 of 100", 7, 100)])
    (tmp_path / "99-of-another-report.svg").write_text("<svg/>")
    with pytest.raises(dv.InputError, match=r"99-of-another-report\.svg"):
        figures.write(page, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["99-of-another-report.svg"]
    with pytest.raises(dv.InputError, match="cannot be written"):
        figures.write(page, tmp_path / "99-of-another-report.svg" / "below")


def test_a_command_writes_the_figures_into_the_run_or_beside_it(tmp_path, divulge):
    pytest.importorskip("vl_convert")
    write_audit(tmp_path / "run")
    assert divulge("report", tmp_path / "run", "--format", "png")[0] == 0
    names = sorted(path.name for path in (tmp_path / "run" / "figures").iterdir())
    assert names[:2] == ["01-leak-found.png", "02-roc-all-candidates.png"]
    assert divulge("report", tmp_path / "run", "--format", "svg", "--to", tmp_path / "out")[0] == 0
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == [name.removesuffix(".png") for name in names]
    code, _, error = divulge("report", tmp_path / "run", "--one-page", "--format", "svg")
    assert (code, "html, pdf" in error) == (2, True)
