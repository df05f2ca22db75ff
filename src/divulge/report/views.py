"""The blocks of a page as what its template shows: tables with their columns of numbers, charts with their figures."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import markupsafe

from divulge.errors import InputError
from divulge.report import dots
from divulge.report.page import Chart, Dial, Fold, Gallery, Link, Paragraph, Pictures, Points, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from divulge.report.dots import Dots
    from divulge.report.page import Block, Exhibit

TABLE_ROWS = 240
SORTED = 3  # rows from which on a table can be sorted
WIDE = 7  # columns, above which cells may break on paper
LONG = 24  # characters of a word, above which it may be broken on paper
STACKED = 3  # columns from which on a narrow page shows each row as a list
LISTED = 100  # rows up to which it does
# Digits, signs, intervals, powers and units of no letters; "nan" and a lone dash count, words do not.
NUMBER = re.compile(r"[\s\d.,:;+\-−–—±≤≥<>=≈~%×∞eE^\[\]()/·…¹²³⁰⁴-⁹⁻]*|nan|inf|-inf")


def views(blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    """Each block as its template reads it.

    Raises:
        divulge.InputError: see `divulge.report.html.render`.
    """
    for block in blocks:
        view = _VIEWS.get(type(block))
        if view is None:
            raise InputError(f"blocks: {type(block).__name__} is not a block of a page")
        yield {"kind": type(block).__name__.lower(), "title": "", "note": ""} | view(block)


def pictures(grids: Sequence[Dots]) -> list[tuple[str, markupsafe.Markup, bool]]:
    """Caption and drawing of each grid of dots, and whether it shows an interval."""
    return [(one.caption, markupsafe.Markup(dots.svg(one)), one.high is not None) for one in grids]  # noqa: S704  drawn here


def holds(blocks: Sequence[Block], wanted: type[Block] | tuple[type[Block], ...]) -> bool:
    """Whether a block of a kind stands among ``blocks``, or folded within them."""
    return any(
        isinstance(block, wanted) or (isinstance(block, Fold) and holds(block.blocks, wanted)) for block in blocks
    )


def _dial(dial: Dial) -> dict[str, Any]:
    if not 0 <= dial.start < len(dial.stops):
        raise InputError(f"dial {dial.title!r}: start must be one of its {len(dial.stops)} stops, got {dial.start}")
    stops = [{"label": stop.label, "words": stop.words, "dots": pictures(stop.dots)} for stop in dial.stops]
    return _named(dial) | {"label": dial.label, "stops": stops, "start": dial.start}


def _named(block: Table | Gallery | Points | Dial) -> dict[str, Any]:
    return {"title": block.title, "note": block.note}


def _table(table: Table) -> dict[str, Any]:
    for i, row in enumerate(table.rows):
        if len(row) != len(table.columns):
            raise InputError(
                f"table {table.title!r}: row {i} has {len(row)} cells, but there are {len(table.columns)} columns"
            )
    numeric = [_numeric([str(row[j]) for row in table.rows]) for j in range(len(table.columns))]
    kinds = {
        "wide": len(table.columns) > WIDE,
        "long": any(len(word) > LONG for row in table.rows for cell in row for word in str(cell).split()),
        "sortable": table.sortable and len(table.rows) >= SORTED,
        "stacked": len(table.columns) >= STACKED and len(table.rows) <= LISTED,
    }
    return {
        "columns": list(zip(table.columns, numeric, strict=True)),
        "rows": table.rows,
        "numeric": numeric,
        "classes": " ".join(name for name, holds in kinds.items() if holds),
        "stacked": kinds["stacked"],
    }


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
        "title": chart.title,
        "note": chart.note,
        "alternative": ". ".join(part.rstrip(".") for part in (chart.title, chart.note) if part) or "chart",
        "spec": markupsafe.Markup(_json(spec, chart.title)),  # noqa: S704  escaped by _json
        "tables": tables,
    }


def _json(spec: Mapping[str, Any], title: str) -> str:
    """JSON that may stand inside a script element, whatever its strings hold."""
    try:
        text = json.dumps(spec, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError) as error:
        raise InputError(f"chart {title!r}: the specification is not plain, finite JSON ({error})") from None
    # Vega writes titles into expressions, where these two would end a line within a string.
    text = text.replace("\u2028", " ").replace("\u2029", " ")
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _datasets(node: Any, title: str) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Every data set of a specification that is meant to be read, under its name, in drawing order."""
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


_VIEWS: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    Paragraph: lambda block: {"text": block.text},
    Table: lambda block: _named(block) | {"table": _table(block)},
    Chart: _chart,
    Gallery: lambda block: _named(block) | {"exhibits": [_exhibit(exhibit) for exhibit in block.exhibits]},
    Pictures: lambda block: {"dots": pictures(block.dots), "note": block.note},
    Points: lambda block: _named(block) | {"points": block.points},
    # Always a place below this page, whatever its name looks like.
    Link: lambda block: {"link": block, "place": f"./{quote(block.file)}"},
    Dial: _dial,
    Fold: lambda block: {"title": block.title, "blocks": list(views(block.blocks))},
}
