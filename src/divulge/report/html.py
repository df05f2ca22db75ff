"""A page into one HTML file that needs nothing but itself: no network, no server, no JavaScript to be read."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge import checks, lazy, store
from divulge.report.page import HEADINGS, Chart, Exhibit, Gallery, Page, Paragraph, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import jinja2
    import markupsafe
    import vl_convert

    from divulge.report.page import Block
else:
    jinja2 = lazy.module("jinja2")
    markupsafe = lazy.module("markupsafe")
    vl_convert = lazy.module("vl_convert")

TABLE_ROWS = 600
# Digits, signs, intervals, powers and units of no letters; "nan" and a lone dash count, words do not.
NUMBER = re.compile(r"[\s\d.,:;+\-−–—±≤≥<>=≈~%×∞eE^\[\]()/·…¹²³⁰⁴-⁹⁻]*|nan|inf|-inf")


def write(page: Page, path: Path | str) -> None:
    """Write ``render(page)`` to ``path``, whole or not at all.

    Raises:
        divulge.InputError: as ``render``.
    """
    store.write_text(Path(path), render(page))


def render(page: Page) -> str:
    """The page as one HTML document; the same page gives the same bytes.

    All text is escaped. The document forbids itself, by a content security policy, every connection and every
    script but its own two: the charting library (bundled whole) and the few lines that draw the charts.

    Raises:
        divulge.InputError: a chart with NaN, infinity or values that are not JSON, or with data from elsewhere;
            an unknown tone; a table row with too many or too few cells.

    Examples:
        >>> "<h1>churn-model</h1>" in render(Page("churn-model", "Nothing leaks.", "clear", ()))
        True
    """
    tone, icon = HEADINGS[checks.choice(page.tone, "tone", HEADINGS)]
    charted = any(isinstance(block, Chart) for section in page.sections for block in section.blocks)
    style = _asset("style.css")
    scripts = [_script(_library()), _script(_asset("charts.js"))] if charted else []
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    document = environment.from_string(_asset("page.html.j2")).render(
        page=page,
        tone=tone,
        icon=icon,
        sections=[{"title": section.title, "blocks": list(_views(section.blocks))} for section in page.sections],
        style=_trusted(style),
        scripts=[_trusted(script) for script in scripts],
        policy=_policy(style, scripts),
    )
    # Half a surrogate pair (from a damaged file name, say) cannot be written as UTF-8.
    return document.encode("utf-8", "replace").decode()


def _views(blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    for block in blocks:
        match block:
            case Paragraph():
                yield {"kind": "paragraph", "text": block.text}
            case Table():
                yield {"kind": "table", "table": _table(block), "title": block.title, "note": block.note}
            case Chart():
                yield _chart(block)
            case Gallery():
                exhibits = [_exhibit(exhibit) for exhibit in block.exhibits]
                yield {"kind": "gallery", "exhibits": exhibits, "title": block.title, "note": block.note}
            case _:
                raise checks.InputError(f"blocks: {type(block).__name__} is not a block of a page")


def _table(table: Table) -> dict[str, Any]:
    for i, row in enumerate(table.rows):
        if len(row) != len(table.columns):
            raise checks.InputError(
                f"table {table.title!r}: row {i} has {len(row)} cells, but there are {len(table.columns)} columns"
            )
    numeric = [_numeric([str(row[j]) for row in table.rows]) for j in range(len(table.columns))]
    return {"columns": list(zip(table.columns, numeric, strict=True)), "rows": table.rows, "numeric": numeric}


def _numeric(cells: Sequence[str]) -> bool:
    """Whether a column holds numbers: then it is set flush right."""
    return any(re.search(r"\d", cell) for cell in cells) and all(NUMBER.fullmatch(cell) for cell in cells)


def _exhibit(exhibit: Exhibit) -> dict[str, Any]:
    source = "" if exhibit.png is None else f"data:image/png;base64,{base64.b64encode(exhibit.png).decode()}"
    return {"caption": exhibit.caption, "source": source, "text": exhibit.text, "heat": exhibit.heat}


def _chart(chart: Chart) -> dict[str, Any]:
    spec = dict(chart.spec)
    # Options of the embedding page that a specification could bring along (themes, menus, outside scripts).
    spec.pop("usermeta", None)
    tables = [_data_table(name, rows, _titles(spec)) for name, rows in _datasets(spec, chart.title)]
    return {
        "kind": "chart",
        "title": chart.title,
        "note": chart.note,
        "alternative": ". ".join(part.rstrip(".") for part in (chart.title, chart.note) if part) or "chart",
        "spec": _trusted(_json(spec, chart.title)),
        "tables": tables,
    }


def _json(spec: Mapping[str, Any], title: str) -> str:
    """JSON that may stand inside a script element, whatever its strings hold."""
    try:
        text = json.dumps(spec, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError) as error:
        raise checks.InputError(f"chart {title!r}: the specification is not plain, finite JSON ({error})") from None
    # Vega writes titles into expressions, where these two would end a line within a string.
    text = text.replace("\u2028", " ").replace("\u2029", " ")
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _datasets(node: Any, title: str) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Every data set of a specification that is meant to be read, under its name, in drawing order."""
    if not isinstance(node, dict):
        return
    data = node.get("data", {})
    if "url" in data:
        raise checks.InputError(f"chart {title!r}: its data must stand inside the specification, not at a URL")
    values = data.get("values", node.get("datasets", {}).get(data.get("name"), ()))
    if values and isinstance(values, list) and not data.get("name", "").startswith("_"):
        yield data.get("name", "data"), values
    for key in ("layer", "hconcat", "vconcat", "concat"):
        for part in node.get(key, ()):
            yield from _datasets(part, title)


def _titles(node: Any) -> dict[str, str]:
    """Field → the title its axis, legend or tooltip bears."""
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
    shown = [*rows[:-1:step], rows[-1]]
    cells = [[_cell(row.get(field, "")) for field in fields] for row in shown]
    # The ends of a band share the axis of the value between them, and so its title.
    columns = [field if field in ("low", "high") else titles.get(field, field) for field in fields]
    note = f"{len(shown)} of {len(rows)} points, evenly spaced" if step > 1 else ""
    return {"name": name, "note": note, "table": _table(Table(columns, cells))}


def _cell(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


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
    return markupsafe.Markup(text)


@cache
def _library() -> str:
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


@cache
def _asset(name: str) -> str:
    return resources.files("divulge.report").joinpath(name).read_text(encoding="utf-8")
