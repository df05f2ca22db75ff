"""Render a page as one self-contained HTML file, readable without network, server or JavaScript, or as PDF."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import markupsafe

from divulge import lazy, store
from divulge.errors import InputError
from divulge.report import formatting
from divulge.report.page import (
    HEADINGS,
    MARKS,
    MAX_DOTS,
    BulletList,
    Chart,
    Collapsible,
    DotGrids,
    Gallery,
    Link,
    Page,
    Paragraph,
    Slider,
    Table,
)
from divulge.validation import check_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import CodeType

    import jinja2

    from divulge.report.page import Block, DotGrid, Exhibit
else:
    jinja2 = lazy.module("jinja2")

# Spaces at which no quantity may break: before "%", and around the sign of "p = 0.32".
_QUANTITY = re.compile(r"(?<=\d) (?=%)|(?<=[=≥≤<>≈]) (?=\S{1,12}(?!\S))|(?<![\w-])([\w().-]{1,12}) (?=[=≥≤<>≈] )")
_INNER_CAPITAL = re.compile(
    r"(?<=[a-z])(?=[A-Z][a-z])"
)  # a long name such as HistGradientBoostingClassifier breaks here
_STYLES = ("style.css", "blocks.css", "print.css")
TABLE_ROWS = 240
SORTED = 3  # rows from which on a table can be sorted
WIDE = 7  # columns, above which cells may break on paper
LONG = 24  # characters of a word, above which it may be broken on paper
STACKED = 3  # columns from which on a narrow page shows each row as a list
LISTED = 100  # rows up to which it does
FITTING = 40  # characters of a row, with the space between columns, that a narrow page has room for
# Digits, signs, intervals, powers and units of no letters; "nan" and a lone dash count, words do not.
NUMBER = re.compile(r"[\s\d.,:;+\-−–—±≤≥<>=≈~%×∞eE^\[\]()/·…¹²³⁰⁴-⁹⁻]*|nan|inf|-inf")
_DOTS_PER_ROW = {100: 10, 1_000: 50}
KEY_OF_DOTS = "Full dots: at least so many. With the faint dots: the best estimate. With the rings: possibly so many."
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_PATIENCE = 120  # seconds


def write(page: Page, path: Path | str) -> None:
    """Write ``render(page)`` to ``path``, whole or not at all.

    Raises:
        divulge.InputError: as ``render``.
    """
    store.write_text(Path(path), render(page))


def render(page: Page) -> str:
    """Render the page as one HTML document; the same page gives the same bytes.

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
    style = "".join(asset(name) for name in _STYLES)
    scripts = [_script(asset("page.js"))] if _contains(blocks, (Chart, Slider, Table)) else []
    if _contains(blocks, Chart):
        drawing = asset("charts.js").replace("LOOK", asset("charts.json").strip(), 1)
        scripts += [_script(asset("vega.js")), _script(drawing)]
    heading, glossary = page.heading or tone, Glossary()
    environment = _environment()
    mark = markupsafe.escape if page.compact else glossary.mark_terms
    environment.filters["terms"] = lambda text: mark(keep_quantities(str(text)))
    environment.filters["breakable"] = lambda text: _trusted(
        _INNER_CAPITAL.sub("<wbr>", str(markupsafe.escape(keep_quantities(str(text)))))
    )
    n_uses: Counter[str] = Counter()

    def label(title: str) -> str:
        """Return a name that no other table of the page has: who listens to it tells them apart by names alone."""
        name = title or "table"
        n_uses[name] += 1
        return name if title and n_uses[name] == 1 else f"{name} {n_uses[name]}"

    environment.filters["label"] = label
    template = jinja2.Template.from_code(environment, _compile_template(), environment.globals)
    document = template.render(
        page=page,
        tone=heading,
        statement=formatting.capitalize(page.verdict.removeprefix(f"{heading}: ")),
        icon=icon,
        pictures=_dot_grids(page.pictures),
        sections=[
            {"title": section.title, "blocks": list(_block_views(section.blocks)), "annex": section.annex}
            for section in page.ordered_sections
        ],
        marks=MARKS,
        key_of_dots=KEY_OF_DOTS,
        glossary=glossary,
        style=_trusted(style),
        scripts=[_trusted(script) for script in scripts],
        policy=_policy(style, scripts),
    )
    # Half a surrogate pair (from a damaged file name, say) cannot be written as UTF-8.
    return document.encode("utf-8", "replace").decode()


def _environment() -> jinja2.Environment:
    """Return what all pages have in common; the filters of a page know the page, and are its own."""
    return jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # What is trusted, and documents that are quoted, stay as they are.
        finalize=lambda value: keep_quantities(value) if type(value) is str else value,
    )


@cache
def _compile_template() -> CodeType:
    """Return the template of all pages, which takes a sixth of a page's time to compile."""

    def refuse(text: str) -> str:
        raise LookupError(text)  # so that nothing is filtered before there is a page

    environment = _environment()
    environment.filters |= dict.fromkeys(("terms", "breakable", "label"), refuse)
    return environment.compile(asset("page.html.j2"))


def keep_quantities(text: str) -> str:
    r"""Return ``text`` with spaces that do not break inside its quantities.

    Examples:
        >>> keep_quantities("5 % at p = 0.32").split(" ")
        ['5\xa0%', 'at', 'p\xa0=\xa00.32']
    """
    return _QUANTITY.sub(lambda found: f"{found[1] or ''}\N{NO-BREAK SPACE}", text)


def _policy(style: str, scripts: Sequence[str]) -> str:
    allowed = " ".join(_hash(script) for script in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _script(text: str) -> str:
    """Return our own JavaScript, with nothing in it that would end its element early."""
    return re.sub(r"</(?=script)", r"<\\/", text, flags=re.IGNORECASE)


def _trusted(text: str) -> markupsafe.Markup:
    return markupsafe.Markup(text)  # noqa: S704  written by this package, never from outside


@cache
def asset(name: str) -> str:
    """Return the text of a file of this package: a style sheet, a script, the look of charts."""
    return resources.files("divulge.report").joinpath(name).read_text(encoding="utf-8")


def _block_views(blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    """Return each block as its template reads it.

    Raises:
        divulge.InputError: see `divulge.report.html.render`.
    """
    for block in blocks:
        view = _VIEWS.get(type(block))
        if view is None:
            raise InputError(f"blocks: {type(block).__name__} is not a block of a page")
        yield {"kind": type(block).__name__.lower(), "title": "", "note": ""} | view(block)


def _dot_grids(grids: Sequence[DotGrid]) -> list[tuple[str, markupsafe.Markup, bool]]:
    """Return caption and drawing of each grid of dots, and whether it shows an interval."""
    return [(grid.caption, markupsafe.Markup(_svg(grid)), grid.high is not None) for grid in grids]  # noqa: S704  drawn here


def _contains(blocks: Sequence[Block], block_type: type[Block] | tuple[type[Block], ...]) -> bool:
    """Check whether ``blocks``, or the folded blocks inside them, contain a block of a type."""
    return any(
        isinstance(block, block_type) or (isinstance(block, Collapsible) and _contains(block.blocks, block_type))
        for block in blocks
    )


def _slider_data(dial: Slider) -> dict[str, Any]:
    if not 0 <= dial.start < len(dial.stops):
        raise InputError(f"dial {dial.title!r}: start must be one of its {len(dial.stops)} stops, got {dial.start}")
    stops = [{"label": stop.label, "words": stop.words, "dots": _dot_grids(stop.dots)} for stop in dial.stops]
    return _title_and_note(dial) | {"kind": "dial", "label": dial.label, "stops": stops, "start": dial.start}


def _title_and_note(block: Table | Gallery | BulletList | Slider) -> dict[str, Any]:
    return {"title": block.title, "note": block.note}


def _table(table: Table) -> dict[str, Any]:
    for i, row in enumerate(table.rows):
        if len(row) != len(table.columns):
            raise InputError(
                f"table {table.title!r}: row {i} has {len(row)} cells, but there are {len(table.columns)} columns"
            )
    numeric = [_numeric([str(row[j]) for row in table.rows]) for j in range(len(table.columns))]
    rows = [
        [_signed(str(cell)) if is_number else str(cell) for cell, is_number in zip(row, numeric, strict=True)]
        for row in table.rows
    ]
    is_sortable = table.sortable and len(rows) >= SORTED
    css_classes = {
        "wide": len(table.columns) > WIDE,
        "sortable": is_sortable,
        "stacked": len(table.columns) >= STACKED
        and len(rows) <= LISTED
        and _width(table.columns, rows, is_sortable=is_sortable) > FITTING,
    }
    return {
        "columns": list(zip(table.columns, numeric, strict=True)),
        "rows": [
            [(cell, _cell_class(cell, is_number)) for cell, is_number in zip(row, numeric, strict=True)] for row in rows
        ],
        "classes": " ".join(name for name, holds in css_classes.items() if holds),
        "stacked": css_classes["stacked"],
    }


def _numeric(cells: Sequence[str]) -> bool:
    """Check whether a column holds numbers, or dashes where numbers would stand, and is therefore aligned right."""
    return any(re.search(r"[\d–—]", cell) for cell in cells) and all(NUMBER.fullmatch(cell) for cell in cells)


def _signed(number: str) -> str:
    """Return a number with a minus as the axes of charts have it."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "\N{MINUS SIGN}", number)


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]], *, is_sortable: bool) -> int:
    """Return how many characters wide a table is whose names of columns wrap, and whose cells do not."""
    heads = [max(map(len, name.split()), default=0) + 3 * is_sortable for name in columns]
    cells = [max((len(row[j]) for row in rows), default=0) for j in range(len(columns))]
    return sum(map(max, heads, cells)) + 2 * (len(columns) - 1)


def _cell_class(cell: str, is_number: bool) -> str:
    if is_number:
        return "number"
    return "long" if any(len(word) > LONG for word in cell.split()) else ""


def _exhibit(exhibit: Exhibit) -> dict[str, Any]:
    source = "" if exhibit.png is None else f"data:image/png;base64,{base64.b64encode(exhibit.png).decode()}"
    return {"caption": exhibit.caption, "source": source, "text": exhibit.text, "heat": exhibit.heat}


def _chart(chart: Chart) -> dict[str, Any]:
    spec = dict(chart.spec)
    tables = [_data_table(name, rows, _titles(spec)) for name, rows in _datasets(spec, chart.title)]
    return {
        "title": chart.title,
        "note": chart.note,
        "alternative": ". ".join(part.rstrip(".") for part in (chart.title, chart.note) if part) or "chart",
        "spec": markupsafe.Markup(chart_json(chart)),  # noqa: S704  escaped by chart_json
        "tables": tables,
    }


def chart_json(chart: Chart) -> str:
    r"""Return the specification of a chart as JSON that may stand inside a script element, whatever its strings hold.

    Raises:
        divulge.InputError: values that are not plain, finite JSON.

    Examples:
        >>> chart_json(Chart({"mark": "</script>"}))
        '{"mark":"\\u003c/script\\u003e"}'
    """
    # Options of the embedding page that a specification could bring along (themes, menus, outside scripts).
    spec = {key: part for key, part in chart.spec.items() if key != "usermeta"}
    try:
        text = json.dumps(spec, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError) as error:
        raise InputError(f"chart {chart.title!r}: the specification is not plain, finite JSON ({error})") from None
    # Vega writes titles into expressions, where these two would end a line within a string.
    text = text.replace("\u2028", " ").replace("\u2029", " ")
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _datasets(node: Any, title: str) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Return every data set of a specification that is meant to be read, under its name, in drawing order."""
    if not isinstance(node, dict):
        return
    data = node.get("data", {})
    if "url" in data:
        raise InputError(f"chart {title!r}: its data must stand inside the specification, not at a URL")
    values = data.get("values", node.get("datasets", {}).get(data.get("name"), ()))
    if values and isinstance(values, list) and not data.get("name", "").startswith("_"):
        yield data.get("name", "data"), values
    for key in ("layer", "hconcat", "vconcat", "concat"):
        for part in node.get(key, ()):
            yield from _datasets(part, title)


def _titles(node: Any) -> dict[str, str]:
    """Return a mapping, field → the title its axis, legend or tooltip bears."""
    titles: dict[str, str] = {}
    for part in node.get("layer", ()):
        titles |= _titles(part)
    for channel in node.get("encoding", {}).values():
        if isinstance(channel, dict) and channel.get("title") and "field" in channel:
            titles.setdefault(channel["field"], str(channel["title"]))
    return titles


def _data_table(name: str, rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> dict[str, Any]:
    fields = list(dict.fromkeys(field for row in rows for field in row))
    step = max(1, -(-len(rows) // TABLE_ROWS))
    sample = [*rows[:-1:step], rows[-1]]
    cells = [[_cell(row.get(field, "")) for field in fields] for row in sample]
    # The ends of a band share the axis of the value between them, and so its title.
    ends = {field: field.rpartition("_")[2] for field in fields}
    columns = [ends[field] if ends[field] in ("low", "high") else titles.get(field, field) for field in fields]
    note = f"{len(sample)} of {len(rows)} points, evenly spaced" if step > 1 else ""
    return {"name": name, "note": note, "table": _table(Table(columns, cells))}


def _cell(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


class DotDrawing(NamedTuple):
    """A grid of dots as paths: dots across and down, and for each kind of dot the path of all of its dots.

    Dots are 10 apart, so that the grid is ``10 * columns`` wide.
    """

    columns: int
    rows: int
    paths: Mapping[str, str]


def draw_dots(dots: DotGrid) -> DotDrawing:
    """Return the paths of a grid; each kind of dot is one, so that a thousand dots take a few kilobytes.

    Kinds: ``rest``, ``ring`` with its ``hole``, ``likely``, ``sure``; in the order in which they are drawn.

    Examples:
        >>> from divulge.report.page import DotGrid
        >>> list(draw_dots(DotGrid("1 of 2", 1, 2)).paths)
        ['rest', 'sure']
    """
    across = _DOTS_PER_ROW.get(dots.total, max(10, round(dots.total**0.5)))
    low = dots.value if dots.low is None else dots.low
    high = dots.value if dots.high is None else dots.high
    kinds = {
        "rest": range(high, dots.total),
        "ring": range(dots.value, high),
        "hole": range(dots.value, high),
        "likely": range(low, dots.value),
        "sure": range(min(low, dots.value)),
    }
    paths = {kind: _points(places, across) for kind, places in kinds.items() if len(places)}
    return DotDrawing(across, -(-dots.total // across), paths)


def _svg(dots: DotGrid) -> str:
    """Draw a grid of dots as an inline element; colours come from the page."""
    drawing = draw_dots(dots)
    paths = "".join(f'<path class="{kind}" d="{path}"/>' for kind, path in drawing.paths.items())
    grid_classes = " ".join(
        name for name, applies in (("many", dots.total == MAX_DOTS), ("chance", dots.chance)) if applies
    )
    class_attribute = f' class="{grid_classes}"' if grid_classes else ""
    box = f"0 0 {10 * drawing.columns} {10 * drawing.rows}"
    return f'<svg{class_attribute} viewBox="{box}" aria-hidden="true" focusable="false">{paths}</svg>'


def _points(places: Iterable[int], across: int) -> str:
    # Lines of no length at all turn oval on paper.
    return "".join(f"M{10 * (i % across) + 5} {10 * (i // across) + 5}h.01" for i in places)


def write_pdf(document: Path, path: Path) -> None:
    """Print the HTML file ``document`` to ``path``.

    Raises:
        divulge.InputError: no browser is installed, or it could not print.
    """
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise InputError(
            "--format pdf: a Chromium is needed (none of chromium, google-chrome, msedge is on the path); or open "
            f"{document.name} in any browser and print it: the page has a layout for paper"
        )
    with tempfile.TemporaryDirectory(prefix="divulge-pdf-") as folder:
        pdf = Path(folder) / "report.pdf"
        command = [browser, *_flags(), f"--user-data-dir={folder}/profile", f"--print-to-pdf={pdf}"]
        try:
            subprocess.run([*command, document.resolve().as_uri()], capture_output=True, check=True, timeout=_PATIENCE)  # noqa: S603 - our own words
            content = pdf.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise InputError(f"--format pdf: {browser} could not print ({type(error).__name__})") from None
    store.write_bytes(path, content)


def _flags() -> list[str]:
    flags = ["--headless", "--disable-gpu", "--no-pdf-header-footer", "--no-first-run", "--virtual-time-budget=20000"]
    # Chromium refuses to start its sandbox for root; the page is our own file and may connect to nothing.
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [*flags, "--no-sandbox"] if root else flags


_VIEWS: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    Paragraph: lambda block: {"text": block.text},
    Table: lambda block: _title_and_note(block) | {"table": _table(block)},
    Chart: _chart,
    Gallery: lambda block: _title_and_note(block) | {"exhibits": [_exhibit(exhibit) for exhibit in block.exhibits]},
    DotGrids: lambda block: {"kind": "pictures", "dots": _dot_grids(block.dots), "note": block.note},
    BulletList: lambda block: _title_and_note(block) | {"kind": "points", "points": block.points},
    # Always a place below this page, whatever its name looks like.
    Link: lambda block: {"link": block, "place": f"./{quote(block.file)}"},
    Slider: _slider_data,
    Collapsible: lambda block: {"kind": "fold", "title": block.title, "blocks": list(_block_views(block.blocks))},
}


class Term(NamedTuple):
    """A word as people say it, how it is written in reports, and what it means."""

    name: str
    written: str
    meaning: str


TERMS = (
    Term(
        "AUC", "AUC", "How often the attack tells a training record from another one, shown one of each. Guessing: 0.5."
    ),
    Term(
        "TPR (true-positive rate)",
        r"TPR|true positive rate",
        "Of the training records, the share that the attack recognises as such.",
    ),
    Term(
        "FPR (false-positive rate)",
        r"FPRs?|false[- ]positive rate",
        "Of the records that were not used for training, the share that is wrongly called training records.",
    ),
    Term(
        "FDR (false discovery rate)",
        r"FDR|false discovery rate",
        "Of the records that are called training records, the share that is not, on average over repetitions.",
    ),
    Term(
        "false discovery proportion",
        r"false discovery proportion",
        "Of the records called training records in this one run, the share that is not.",
    ),
    Term(
        "advantage",
        r"advantage",
        "The largest difference of true- and false-positive rate over all thresholds. Guessing: 0.",
    ),
    Term(
        "ε (epsilon)",
        r"ε",
        "A bound of differential privacy: with ε, one record changes the odds of any output by a factor of at most "
        "exp(ε). A lower bound says that no smaller ε is true of this training.",
    ),
    Term("δ (delta)", r"δ", "The probability with which a bound of differential privacy may fail."),
    Term(
        "interval",
        r"9\d(?:\.\d+)?\s% intervals?|intervals?",
        "The range that holds the true value in the stated share of repetitions, over new records drawn alike.",
    ),
    Term("recipe", r"recipes?", "An attack together with what it reads of the model."),
    Term(
        "calibration",
        r"calibration records?|calibration scores?|calibration set|calibration",
        "Records that are known not to have been used. Nothing learns from them; they show how high records score by "
        "chance.",
    ),
    Term(
        "reference model",
        r"reference models?",
        "A model of the same kind that the attacker trains on other data, to see what is usual.",
    ),
    Term(
        "exchangeable",
        r"exchangeable|exchangeability",
        "Alike in every way that matters: in which of the sets a record stands is pure chance.",
    ),
    Term(
        "members",
        r"non-members?|members?",
        "Members are the records that the model was trained on, or the release made from; non-members were not used.",
    ),
    Term("ROC", r"ROC", "True-positive rate over false-positive rate, for every threshold of the score."),
    Term(
        "confounded",
        r"confounded",
        "Members and non-members differ in more than their use, so that no number shows what the model leaks.",
    ),
    Term(
        "p-value",
        r"p-values?",
        "How often chance alone shows as much: of one record, how often one that was not used scores at least as high.",
    ),
    Term(
        "q-value",
        r"q-values?",
        "The smallest false discovery rate at which this record would be selected.",
    ),
    Term(
        "canary",
        r"canar(?:y|ies)",
        "A record made for the test, put into the training data or left out by the toss of a coin.",
    ),
    Term(
        "Γ (gamma)",
        r"Γ",
        "How many times likelier, or less likely, a score may be among unused candidates than in the calibration.",
    ),
    Term(
        "margin",
        r"margin",
        "How far outputs lie on the right side; training pushes those of its records to the same value.",
    ),
    Term("digest", r"digests?", "A checksum (BLAKE2 or SHA-256) that changes if a single byte of the data does."),
    Term("seed", r"seeds?", "The number from which all random draws of the run follow; the same seed repeats them."),
    Term(
        "multi-accuracy violation",
        r"multi-accuracy violation",
        "How far a threshold's error depends on what records look like; 0 where a rate carries over to others.",
    ),
    Term(
        "realised power",
        r"realised power",
        "Of the members among the candidates, the share that was selected in this run.",
    ),
    Term("hinge", r"hinge", "How far the model's answer for the true class lies above that for any other."),
    Term(
        "scaled logit",
        r"scaled[- ]logit",
        "The logarithm of the odds that the model gives the true class.",
    ),
    Term("unseen classes", r"unseen class(?:es)?", "Classes of which the attacker holds no records."),
)
_ANY = "|".join(f"(?P<t{i}>{term.written})" for i, term in enumerate(TERMS))
# Not inside a dotted name or the name of a command.
_EVERY = re.compile(rf"(?<![\w-])(?<!divulge )(?<!\w\.)(?:{_ANY})(?![\w-]|\.\w)")


_BUTTON = '<button type="button" class="term" popovertarget="term-{}">{}</button>'


@dataclass(slots=True)
class Glossary:
    """The terms of one page: marked where they first stand in each section, explained at its end.

    Examples:
        >>> glossary = Glossary()
        >>> str(glossary.mark_terms("<AUC>"))
        '&lt;<button type="button" class="term" popovertarget="term-0">AUC</button>&gt;'
        >>> glossary.marked_terms()[0][1].name
        'AUC'
    """

    _pages: set[int] = field(default_factory=set)
    _section: set[int] = field(default_factory=set)

    def begin(self) -> str:
        """Begin a section, in which every term is marked once more."""
        self._section.clear()
        return ""

    def mark_terms(self, text: object) -> markupsafe.Markup:
        """Return ``text``, escaped, each term that this section has not shown yet a button that explains it."""
        parts, end, full_text = [], 0, str(text)
        button = markupsafe.Markup(_BUTTON)  # noqa: S704  our own constant
        for place in _EVERY.finditer(full_text):
            number = int(str(place.lastgroup)[1:])
            if number in self._section:
                continue
            self._section.add(number)
            self._pages.add(number)
            parts += [markupsafe.escape(full_text[end : place.start()]), button.format(number, place[0])]
            end = place.end()
        return markupsafe.Markup("").join([*parts, markupsafe.escape(full_text[end:])])

    def marked_terms(self) -> list[tuple[int, Term]]:
        """Return every term that was marked, in the order of the glossary."""
        return [(number, TERMS[number]) for number in sorted(self._pages)]
