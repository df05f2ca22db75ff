"""What the charts are put together from: layers, guides and encodings in Altair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import altair as alt
import numpy as np

from divulge.errors import InputError
from divulge.report.curves import DIGITS, RATE_DIGITS, rows_of, short
from divulge.validation import check_number, check_vector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from divulge.report.curves import Curve
    from divulge.types import Estimate

Row: TypeAlias = dict[str, Any]
Spec: TypeAlias = dict[str, Any]
# Altair's decorators hide the types of what its charts return.
Layer: TypeAlias = Any
Interpolate: TypeAlias = Literal["linear", "step-after"]
Key: TypeAlias = Literal["symbol", "line"]

DASHES = ([1, 0], [6, 3], [2, 2], [10, 3, 2, 3], [10, 4], [4, 1, 1, 1], [1, 3], [14, 3, 2, 3, 2, 3])
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left")


# The page lets its reader hide series and choose the one whose band or whiskers are shown.
VISIBLE = "indexof(hidden, datum.series) < 0"
FOCUSED = "datum.series === focus"
NOT_FOCUSED = "datum.series !== focus"


def log_log(
    curves: Mapping[str, Curve],
    floor: float,
    x: str,
    y: str,
    *,
    interpolate: Interpolate,
    points: bool,
    focus: str | None = None,
) -> Spec:
    """Curves over logarithmic axes from ``floor`` to 1, with their diagonal; with ``focus``, that one's band alone."""
    axis = alt.Axis(values=[float(f"1e{power}") for power in range(int(np.ceil(np.log10(floor))), 1)], format="~g")
    # Clamping is what puts rates of 0 on the border.
    scale = alt.Scale(type="log", domain=[floor, 1], nice=False, clamp=True)
    across: Row = {"title": x, "scale": scale, "axis": axis}
    up: Row = {"title": y, "scale": scale, "axis": axis}
    ends: Layer = alt.Chart(data("_diagonal", [{"x": floor, "y": floor, "x2": 1, "y2": 1}]))
    diagonal = ends.mark_rule(style="reference", strokeDash=[4, 4])
    diagonal = diagonal.encode(x=alt.X("x:Q", **across), y=alt.Y("y:Q", **up), x2="x2:Q", y2="y2:Q")
    chosen = focus is not None
    lines = curve_layers(curves, across, up, interpolate, points=points, chosen=chosen, digits=RATE_DIGITS)
    spec = finished(alt.layer(diagonal, lines), height=420 if focus is None else 340)
    return spec if focus is None else focused(spec, focus)


def focused(spec: Spec, focus: str) -> Spec:
    """A chart whose reader may hide series and choose the one in focus."""
    return spec | {"params": [{"name": "focus", "value": focus}, {"name": "hidden", "value": []}]}


def curve_layers(
    curves: Mapping[str, Curve],
    across: Row,
    up: Row,
    interpolate: Interpolate,
    *,
    points: bool,
    chosen: bool = False,
    digits: int = DIGITS,
) -> Layer:
    """Bands, lines and, where asked for, points; one data set for all of them. ``chosen``: one band at a time."""
    rows = [{"series": str(name)} | row for name, curve in curves.items() for row in rows_of(curve, digits)]
    banded = any(curve.low is not None for curve in curves.values())
    shown = ["series:N", alt.Tooltip("x:Q", title=across["title"]), alt.Tooltip("y:Q", title=up["title"])]
    base: Layer = alt.Chart().encode(x=alt.X("x:Q", **across), tooltip=shown + (["low:Q", "high:Q"] if banded else []))
    base = base.transform_filter(VISIBLE) if chosen else base
    y = alt.Y("y:Q", **up)
    colour = apart("series", curves, key="line", legend=not chosen)
    dashed = apart("series", curves, dash=True, key="line", legend=not chosen)
    layers = [base.mark_line(interpolate=interpolate, strokeWidth=2).encode(y=y, **dashed)]
    if banded:
        area = (base.transform_filter(FOCUSED) if chosen else base).mark_area(interpolate=interpolate, opacity=0.16)
        layers.insert(0, area.encode(y=alt.Y("low:Q", **up), y2="high:Q", **colour))
    if points:
        dots = base.mark_point(filled=True, size=45, opacity=1)
        layers.append(dots.encode(y=y, **colour))
    return alt.layer(*layers, data=data("curves", rows))


def guides(places: Mapping[str, float], channel: Literal["x", "y"], title: str) -> Layer:
    """Dashed lines across the plot, each with its name at its end."""
    rows = [{"label": str(label), "at": short(check_number(at, label))} for label, at in places.items()]
    where = {"x": alt.X("at:Q", title=title), "y": alt.Y("at:Q", title=title)}[channel]
    base: Layer = alt.Chart().encode(where)
    rule = base.mark_rule(style="reference", strokeDash=[4, 4])
    if channel == "x":
        text = base.mark_text(style="guide", align="left", dx=4).encode(text="label:N", y=alt.value(8))
    else:
        text = base.mark_text(style="guide", align="left", dy=-6).encode(text="label:N", x=alt.value(4))
    return alt.layer(rule, text, data=data("_guides", rows))


def lanes(rows: Sequence[Row]) -> alt.Y:
    """A vertical axis with one lane per row, in the order of the rows."""
    return alt.Y("name:N", title=None, sort=[row["name"] for row in rows])


def lanes_finished(chart: Layer, count: int, quantity: str, reference: float | None) -> Spec:
    """A chart of lanes, with a reference line where there is one."""
    layers = [chart] if reference is None else [chart, guides({"": reference}, "x", quantity)]
    return finished(alt.layer(*layers), height=26 * count)


def tips(row: Row) -> list[str]:
    """A tooltip that shows everything in ``row``."""
    return [f"{name}:{'N' if isinstance(value, str) else 'Q'}" for name, value in row.items()]


def apart(
    field: str,
    names: Iterable[str],
    *,
    shape: bool = False,
    dash: bool = False,
    key: Key = "symbol",
    legend: bool = True,
) -> Row:
    """Encodings that tell groups apart: by colour, and by shape or dash beside it; ``key`` is what the legend shows."""
    domain = [str(name) for name in names]
    # Layers that share a legend must describe it alike.
    described = alt.Legend(symbolType="stroke", symbolSize=400) if key == "line" else alt.Legend()
    shared: Row = {"title": None, "legend": described if legend else None}
    encoding: Row = {"color": alt.Color(f"{field}:N", scale=alt.Scale(domain=domain), **shared)}
    if shape:
        scale = alt.Scale(domain=domain, range=cycled(SHAPES, len(domain)))
        encoding["shape"] = alt.Shape(f"{field}:N", scale=scale, **shared)
    if dash:
        scale = alt.Scale(domain=domain, range=cycled(DASHES, len(domain)))
        encoding["strokeDash"] = alt.StrokeDash(f"{field}:N", scale=scale, **shared)
    return encoding


def cycled(items: Sequence[Any], count: int) -> list[Any]:
    """The first ``count`` items; after the last the second comes, so that no two share both their place and colour."""
    return [items[(i + i // len(items)) % len(items)] for i in range(count)]


def data(name: str, rows: Sequence[Row]) -> alt.InlineData:
    """Rows under the name that their printed table bears."""
    return alt.InlineData(values=list(rows), name=name)


def finished(chart: Layer, *, height: int) -> Spec:
    """The specification of a chart that fills the width of its place."""
    return chart.properties(
        width="container", height=height, autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
    ).to_dict()


def estimate_rows(names: Sequence[str], estimates: Sequence[Estimate]) -> list[Row]:
    """One row per estimate: name, value and both ends."""
    if not len(names) or len(names) != len(estimates):
        raise InputError(f"estimates: one per name is needed, got {len(estimates)} for {len(names)} names")
    repeated = [name for name in set(names) if list(names).count(name) > 1]
    if repeated:
        raise InputError(f"names: must be unique, {min(repeated)!r} occurs more than once")
    rows = []
    for name, estimate in zip(names, estimates, strict=True):
        ends = check_vector([estimate.value, estimate.low, estimate.high], f"estimate of {name!r}")
        rows.append({"name": str(name)} | dict(zip(("value", "low", "high"), map(short, ends), strict=True)))
    return rows
