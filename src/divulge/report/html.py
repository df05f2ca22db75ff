"""A page into one HTML file that needs nothing but itself: no network, no server, no JavaScript to be read."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import markupsafe

from divulge import store
from divulge.report import in_words, views
from divulge.report.glossary import Glossary
from divulge.report.page import HEADINGS, Chart, Dial, Page, Table
from divulge.validation import check_choice

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNIT = re.compile(r"(?<=\d) (?=%)")
_STYLES = ("style.css", "blocks.css", "print.css")


def write(page: Page, path: Path | str) -> None:
    """Write ``render(page)`` to ``path``, whole or not at all.

    Raises:
        divulge.InputError: as ``render``.
    """
    store.write_text(Path(path), render(page))


def render(page: Page) -> str:
    """The page as one HTML document; the same page gives the same bytes.

    All text is escaped. The document forbids itself, by a content security policy, every connection and every
    script but its own: the charting library (bundled whole), the few lines that draw the charts, and those that sort
    tables and move sliders.

    Raises:
        divulge.InputError: a chart with NaN, infinity or values that are not JSON, or with data from elsewhere;
            an unknown tone; a table row with too many or too few cells.

    Examples:
        >>> "<h1>churn-model</h1>" in render(Page("churn-model", "Nothing leaks.", "clear", ()))
        True
    """
    tone, icon = HEADINGS[check_choice(page.tone, "tone", HEADINGS)]
    blocks = [block for section in page.sections for block in section.blocks]
    style = "".join(_asset(name) for name in _STYLES)
    scripts = [_script(_asset("page.js"))] if views.holds(blocks, (Chart, Dial, Table)) else []
    if views.holds(blocks, Chart):
        scripts += [_script(_asset("vega.js")), _script(_asset("charts.js"))]
    heading, glossary = page.heading or tone, Glossary()
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_together
    )
    environment.filters["terms"] = lambda text: _trusted(_UNIT.sub("\N{NO-BREAK SPACE}", glossary.marked(text)))
    document = environment.from_string(_asset("page.html.j2")).render(
        page=page,
        tone=heading,
        statement=in_words.capital(page.verdict.removeprefix(f"{heading}: ")),
        icon=icon,
        pictures=views.pictures(page.pictures),
        sections=[{"title": section.title, "blocks": list(views.views(section.blocks))} for section in page.sections],
        glossary=glossary,
        style=_trusted(style),
        scripts=[_trusted(script) for script in scripts],
        policy=_policy(style, scripts),
    )
    # Half a surrogate pair (from a damaged file name, say) cannot be written as UTF-8.
    return document.encode("utf-8", "replace").decode()


def _together(value: object) -> object:
    """Text whose numbers keep their unit on the same line; what is trusted as it is stays as it is."""
    return _UNIT.sub("\N{NO-BREAK SPACE}", value) if type(value) is str else value


def _policy(style: str, scripts: Sequence[str]) -> str:
    allowed = " ".join(_hash(script) for script in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _script(text: str) -> str:
    """Our own JavaScript, with nothing in it that would end its element early."""
    return re.sub(r"</(?=script)", r"<\\/", text, flags=re.IGNORECASE)


def _trusted(text: str) -> markupsafe.Markup:
    return markupsafe.Markup(text)  # noqa: S704  written by this package, never from outside


@cache
def _asset(name: str) -> str:
    return resources.files("divulge.report").joinpath(name).read_text(encoding="utf-8")
