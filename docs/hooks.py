"""Hooks of mkdocs: the gallery's sample reports are made while the pages are, and the search finds tasks first."""

from __future__ import annotations

import os
import re
import runpy
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from mkdocs.structure.files import File

from divulge import report, runs

ROOT = Path(__file__).parents[1]
GALLERY = "gallery.md"
_DATE = "1767225600"  # of every sample report, so that two builds of the same clone are the same

# How much a word counts that is found on a page, by where the page is; the first that fits. On a page on a task it
# counts more than where the same word is looked up, and that more than where it was measured. The words that people
# type, and a page does not say itself, stand at its head as `tags`.
BOOSTS = (
    ("annex/", 0.2),
    ("sources/", 0.2),
    ("reference/python/", 0.1),
    ("reference/", 0.6),
    ("methods/", 0.6),
    ("architecture.md", 0.1),
    ("peers.md", 0.5),
    ("", 2),
)


def on_files(files: Any, config: Any) -> Any:
    """Add the sample reports, and the first figure of each."""
    for name, (page, document) in samples().items():
        files.append(File.generated(config, f"gallery/{name}.html", content=document))
        for figure in report.figures.list_figures(page)[:1]:
            files.append(File.generated(config, f"gallery/{name}.svg", content=report.figures.render(figure)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Say how much the page counts in the search; in the gallery, put each report's verdict where it is quoted."""
    place = page.file.src_uri
    page.meta.setdefault("search", {"boost": next(boost for start, boost in BOOSTS if place.startswith(start))})
    if place != GALLERY:
        return markdown
    return re.sub(r"^\{\{ (\w+) \}\}$", lambda found: _quote(samples()[found[1]][0]), markdown, flags=re.M)


@cache
def samples() -> dict[str, tuple[report.Page, str]]:
    """Return the page and the document of every sample: ``examples/gallery.py`` writes the runs."""
    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"SOURCE_DATE_EPOCH": _DATE, "HF_HUB_OFFLINE": "1"}),
    ):
        for write in runpy.run_path(str(ROOT / "examples" / "gallery.py"))["SAMPLES"]:
            place = Path(folder) / write.__name__
            write(place)
            page = _without_times(runs.load_page(place))
            found[write.__name__] = page, report.html.render(page)
    return found


def _without_times(page: report.Page) -> report.Page:
    """Return a page without the seconds that each step took, the only thing that differs from build to build."""
    sections = [
        replace(section, blocks=[block for block in section.blocks if getattr(block, "title", "") != "Time"])
        for section in page.sections
    ]
    return replace(page, sections=sections)


def _quote(page: report.Page) -> str:
    words = re.sub(r"([\\*_<>`])", r"\\\1", page.headed_verdict)
    return f"> {words}"
