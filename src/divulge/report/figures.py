"""Figures of a report as files, for slides and papers: its charts and its grids of dots, as SVG or PNG on white."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import markupsafe

from divulge import lazy, store
from divulge.errors import InputError
from divulge.report import html
from divulge.report.page import Chart, Collapsible, DotGrid, DotGrids, Page
from divulge.validation import check_choice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import vl_convert

    from divulge.report.page import Block
else:
    vl_convert = lazy.module("vl_convert")

Format: TypeAlias = Literal["svg", "png"]
WIDTH = 640  # of a chart, in pixels
_TITLE_COLUMNS, _NOTE_COLUMNS = 78, 100  # characters of a line as wide as a chart
_SCALE = 2.0  # pixels of a PNG for each of the figure's
_MAX_SLUG = 60
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Figure(NamedTuple):
    """One picture of a page: its title, what is drawn, and for the dots of a verdict its tone, which colours them."""

    title: str
    drawing: Chart | Sequence[DotGrid]
    tone: str = ""


def write(page: Page, folder: Path, format: Format = "svg") -> list[Path]:  # noqa: A002  the option's name
    """Write every figure of ``page`` to a file of its own in ``folder``, in reading order, and return the paths.

    A file's name begins with its number, and says what it shows.

    Args:
        page: the report.
        folder: made if it is not there; files of the same names are replaced.
        format: "svg" or "png".

    Raises:
        divulge.InputError: a page without figures; a folder that cannot be written, or that holds other files of this
            format, which could be taken for figures of this report.
        divulge.MissingExtraError: a chart, or a PNG, and the extra ``figures`` is not installed.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> page = Page("churn-model", "Nothing leaks.", "clear", (), pictures=[DotGrid("1 of 100", 1, 100)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path.name for path in write(page, Path(folder))]
        ['01-no-leak-found.svg']
    """
    check_choice(format, "format", ("svg", "png"))
    figures = list_figures(page)
    if not figures:
        raise InputError("--format: this report has no figures")
    names = [f"{number:02d}-{_slug(figure.title)}.{format}" for number, figure in enumerate(figures, start=1)]
    drawings = [render(figure) for figure in figures]
    contents = [drawing.encode() if format == "svg" else _to_png(drawing) for drawing in drawings]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = sorted({path.name for path in folder.glob(f"*.{format}")} - set(names))
    except OSError as error:
        raise InputError(f"--to: {folder} cannot be written ({error.strerror or error})") from None
    if others:
        raise InputError(f"--to: {folder} holds other figures, such as {others[0]}; name another folder")
    for name, content in zip(names, contents, strict=True):
        store.write_bytes(folder / name, content)
    return [folder / name for name in names]


def list_figures(page: Page) -> list[Figure]:
    """Return the figures of a page in reading order: the dots of its verdict, then those of its sections.

    Examples:
        >>> list_figures(Page("churn-model", "Nothing leaks.", "clear", ()))
        []
    """
    heading = page.heading or html.HEADINGS[page.tone].words
    figures = [Figure(heading, page.pictures, page.tone)] if page.pictures else []
    for section in page.ordered_sections:
        figures += _figures_of(section.blocks, section.title)
    return figures


def _figures_of(blocks: Sequence[Block], title: str) -> Iterator[Figure]:
    for block in blocks:
        if isinstance(block, Chart):
            yield Figure(block.title or title, block)
        elif isinstance(block, DotGrids):
            yield Figure(title, block.dots)
        elif isinstance(block, Collapsible):
            yield from _figures_of(block.blocks, block.title)


def render(figure: Figure) -> str:
    """Return a figure as an SVG document, in the light colours of the page.

    Raises:
        divulge.MissingExtraError: a chart, and the extra ``figures`` is not installed.

    Examples:
        >>> render(Figure("Leak", [DotGrid("<7> of 100", 7, 100)])).count("&lt;7&gt;")
        1
    """
    if isinstance(figure.drawing, Chart):
        return _draw_chart(figure.title, figure.drawing)
    return _draw_dots(figure.drawing, figure.tone)


def _to_png(drawing: str) -> bytes:
    return vl_convert.svg_to_png(drawing, scale=_SCALE)


def _slug(title: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return words[:_MAX_SLUG].rstrip("-") or "figure"


def _draw_chart(title: str, chart: Chart) -> str:
    """Draw a chart as the page does, with its title and its note, since a file stands by itself."""
    spec: dict[str, Any] = json.loads(html.chart_json(chart))
    note = chart.note
    focus = next((each["value"] for each in spec.get("params", ()) if each["name"] == "focus"), None)
    if focus is not None and set(_legend_labels(spec)) - {focus}:
        _show_legends(spec, is_dashed=any("strokeDash" in channels for channels in _encodings(spec)))
        note = f"{note} The interval shown is that of {focus}.".strip()
    spec = _replace_odd_characters(spec) | {"width": WIDTH}
    spec["title"] = {
        "text": _wrap(title, _TITLE_COLUMNS),
        "subtitle": _wrap(note, _NOTE_COLUMNS),
        "anchor": "start",
        "frame": "group",
        "offset": 12,
    }
    return vl_convert.vegalite_to_svg(json.dumps(spec), config=_look(spec), allowed_base_urls=[])


def _encodings(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield channel → encoding of a chart and of each of its layers."""
    yield node.get("encoding", {})
    for layer in node.get("layer", ()):
        yield from _encodings(layer)


def _show_legends(spec: dict[str, Any], *, is_dashed: bool) -> None:
    """Give back the legends that the page draws by itself, so that its reader can choose among them."""
    for channels in _encodings(spec):
        for channel in {"color", "shape", "strokeDash"} & set(channels):
            channels[channel]["legend"] = {"symbolType": "stroke", "symbolSize": 400} if is_dashed else {}


def _replace_odd_characters(value: Any) -> Any:
    """Return a specification without characters that no XML document may hold, whatever a class or file is called."""
    if isinstance(value, str):
        return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {_replace_odd_characters(key): _replace_odd_characters(part) for key, part in value.items()}
    return [_replace_odd_characters(part) for part in value] if isinstance(value, list) else value


def _look(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of the page's charts, with the light colours in the place of their names."""
    colours = _colours()
    text = re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], html.asset("charts.json"))
    look: dict[str, Any] = json.loads(text)
    longest = max((len(name) for name in _legend_labels(spec)), default=0)
    look |= {
        "background": colours["raised"],
        "padding": 16,
        "axisX": {"tickCount": round(WIDTH / 90)},
        "title": {
            "color": colours["ink"], "subtitleColor": colours["quiet"], "fontSize": 15, "subtitleFontSize": 12,
            "subtitlePadding": 6, "subtitleLineHeight": 16, "lineHeight": 19,
        },
    }  # fmt: skip
    look["axis"]["labelLimit"] = WIDTH // 3
    look["legend"] |= {"columns": max(1, int(WIDTH / (60 + 6.8 * longest))), "labelLimit": WIDTH - 60}
    return look


def _legend_labels(spec: dict[str, Any]) -> Iterator[str]:
    for channels in _encodings(spec):
        for channel in {"color", "shape", "strokeDash"} & set(channels):
            yield from map(str, channels[channel].get("scale", {}).get("domain", ()))


def _colours() -> dict[str, str]:
    """Return the light colours of the page by name: those that stand first in its style sheet."""
    return dict(reversed(re.findall(r"--([\w-]+): (#\w{6})", html.asset("style.css"))))


_CAPTION_COLUMNS, _KEY_COLUMNS = 28, 34  # characters of a line below one grid of dots, and of the key for each
_LINE, _GAP, _MARGIN = 18, 44, 20  # pixels: a line of text, between grids, around all


def _draw_dots(grids: Sequence[DotGrid], tone: str) -> str:
    """Draw grids of dots side by side, each with its caption, and below them what the dots mean."""
    colours = _colours()
    drawings = [html.draw_dots(grid) for grid in grids]
    widths = [176 if drawing.columns <= 20 else 320 for drawing in drawings]
    top = max(width * drawing.rows / drawing.columns for width, drawing in zip(widths, drawings, strict=True))
    parts, left, lowest = [], _MARGIN, 0
    for grid, drawing, width in zip(grids, drawings, widths, strict=True):
        full = colours["quiet"] if grid.chance else colours.get(tone, colours["accent"])
        strokes = {
            "rest": (colours["line"], 3.4),
            "ring": (full, 6.6),
            "hole": (colours["raised"], 4),
            "likely": (_mix(full, colours["raised"]), 6.6),
            "sure": (full, 6.6),
        }
        paths = "".join(
            f'<path fill="none" stroke-linecap="round" stroke="{strokes[kind][0]}" stroke-width="{strokes[kind][1]}" '
            f'd="{path}"/>'
            for kind, path in drawing.paths.items()
        )
        parts.append(
            f'<g transform="translate({left} {_MARGIN}) scale({width / drawing.columns / 10:.6g})">{paths}</g>'
        )
        lines = _wrap(grid.caption, _CAPTION_COLUMNS)
        parts += [_text(line, left, _MARGIN + top + 24 + _LINE * i) for i, line in enumerate(lines)]
        left, lowest = left + width + _GAP, max(lowest, len(lines))
    height = _MARGIN + top + 24 + _LINE * lowest
    key = _wrap(html.KEY_OF_DOTS, _KEY_COLUMNS * len(grids)) if any(grid.high is not None for grid in grids) else []
    parts += [_text(line, _MARGIN, height + _LINE * i, colours["quiet"], 12) for i, line in enumerate(key, start=1)]
    width, height = left - _GAP + _MARGIN, height + (_LINE * (len(key) + 1) if key else 0)
    font = json.loads(html.asset("charts.json"))["font"].replace("'", "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:g}" '
        f'viewBox="0 0 {width} {height:g}" font-family="{font}" font-size="14" fill="{colours["ink"]}">'
        f'<rect width="100%" height="100%" fill="{colours["raised"]}"/>{"".join(parts)}</svg>\n'
    )


def _wrap(text: str, columns: int) -> list[str]:
    """Return the lines of a text; a number stays with its unit, and none has a character that XML forbids."""
    clean = _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", html.keep_quantities(text))
    return textwrap.wrap(clean, columns)


def _text(line: str, x: float, y: float, colour: str = "", size: float = 14) -> str:
    fill = f' fill="{colour}"' if colour else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size:g}"{fill}>{markupsafe.escape(line)}</text>'


def _mix(colour: str, paper: str) -> str:
    """Return a colour nearer to the paper, of dots that are likely and not sure."""
    parts = (round(0.62 * int(colour[i : i + 2], 16) + 0.38 * int(paper[i : i + 2], 16)) for i in range(1, 7, 2))
    return "#" + "".join(f"{part:02x}" for part in parts)
