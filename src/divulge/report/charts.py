"""Vega-Lite specifications of every chart in a report: plain dicts with their data inside.

A specification names roles (first series, reference line), never colours: the page gives it light, dark and
printed colours, and a notebook shows it in Vega's own. Data sets are named, for the page prints each as a table
beside its chart; those whose names begin with ``_`` (lines that only guide the eye) are left out there.

No series is told apart by colour alone: lines also differ in their dashes, points in their shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np

from divulge import lazy
from divulge.errors import InputError
from divulge.validation import check_array, check_choice, check_integer, check_number, check_vector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import altair as alt

    from divulge.types import Estimate, Floats, Ints
else:
    alt = lazy.module("altair")  # a quarter of the time that importing an audit takes

T = TypeVar("T")
Row: TypeAlias = dict[str, Any]
Spec: TypeAlias = dict[str, Any]
# Altair's decorators hide the types of what its charts return.
Layer: TypeAlias = Any
Interpolate: TypeAlias = Literal["linear", "step-after"]

CURVE_POINTS = 300
ALL_POINTS = 1500
"""Most points of all curves of a chart together, so that a page stays small however many there are."""
_MIN_CURVE_POINTS = 25
CLOUD_POINTS = 1500
MAX_LANES = 30
LANE, TALLEST = 26, 900  # pixels: the height of a lane, and of a chart whose lanes hold several series
_ABOVE_ONE = 1.03  # the upper end of an axis of shares, so that a line at 1 does not lie on the edge
_DIGITS = 8  # significant digits of a number in a chart
_RATE_DIGITS = 6
_MILLION = 1e6  # above which the places of a logarithmic axis are written as powers of ten
DOMINANT_BIN_SHARE = 0.4  # share of a group in one bin from which on a histogram has a square-root scale
_FAR_OUT = 1.5  # of the width of the middle 99.8 % of all values, from which on a histogram leaves the outermost out
_DASHES = ([1, 0], [6, 3], [2, 2], [10, 3, 2, 3], [10, 4], [4, 1, 1, 1], [1, 3], [14, 3, 2, 3, 2, 3])
_SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left")
# The page lets its reader hide series and choose the one whose band or whiskers are shown.
_VISIBLE = "indexof(hidden, datum.series) < 0"
_FOCUSED = "datum.series === focus"


def roc(curves: Mapping[str, Curve], *, focus: str | None = None) -> Spec:
    """ROC curves on logarithmic axes, where small false positive rates can be read (Carlini et al. 2022).

    Each curve is thinned to at most 300 of its own points (1,500 of all curves), evenly spaced in log FPR: the points
    at the left end all stay, and between points the line keeps the last rate that was reached, so thinning never
    flatters an attack. A logarithmic axis has no zero: a TPR reached at FPR 0 is drawn at the left border (tooltip and
    table say 0).

    Args:
        curves: attack → ``Curve(fpr, tpr, low, high)``, with rates in [0, 1].
        focus: the attack whose band is shown until the reader chooses another; all bands when None.

    Raises:
        divulge.InputError: no curve, a rate outside [0, 1], or an unknown ``focus``.

    Examples:
        >>> spec = roc({"LiRA": Curve([0, 0.001, 1], [0.1, 0.2, 1])})
        >>> spec["layer"][1]["data"]["values"][0]
        {'series': 'LiRA', 'x': 0.0, 'y': 0.1}
    """
    checked = _check_rates(curves)
    if focus is not None:
        check_choice(focus, "focus", checked)
    floor = axis_floor(np.concatenate([curve.x for curve in checked.values()]))
    thin = {name: thin_curve(curve, floor, _points_per_curve(len(checked))) for name, curve in checked.items()}
    x, y = "false positive rate", "true positive rate"
    return _log_log_chart(thin, floor, x, y, interpolate="step-after", points=False, focus=focus)


def calibration(curves: Mapping[str, Curve]) -> Spec:
    """Draw observed over expected false positive rates, on logarithmic axes; above the diagonal a promise is broken.

    Args:
        curves: name → ``Curve(expected, observed, low, high)``, with rates in [0, 1].

    Raises:
        divulge.InputError: no curve, or a rate outside [0, 1].

    Examples:
        >>> calibration({"conformal": Curve([0.01, 0.1], [0.012, 0.098])})["layer"][1]["data"]["name"]
        'curves'
    """
    checked = _check_rates(curves)
    floor = axis_floor(np.concatenate([np.r_[curve.x, curve.y] for curve in checked.values()]))
    x, y = "expected false positive rate", "observed false positive rate"
    return _log_log_chart(checked, floor, x, y, interpolate="linear", points=True)


def lines(
    curves: Mapping[str, Curve],
    *,
    x: str,
    y: str,
    reference: float | None = None,
    log_x: bool = False,
    whole: bool = False,
) -> Spec:
    """Curves with their bands: AUC by known share of a record, recovered labels over queries.

    Args:
        curves: series → curve; long ones are thinned to 300 points, or to 1,500 of all.
        x: title of the horizontal axis.
        y: title of the vertical axis.
        reference: a value of ``y`` to compare with (chance, a limit), drawn as a dashed line.
        log_x: logarithmic horizontal axis.
        whole: whether the vertical axis shows all shares from 0 to 1, not only those that are reached.

    Raises:
        divulge.InputError: no curve, or ``x`` ≤ 0 on a logarithmic axis.

    Examples:
        >>> spec = lines({"RMIA": Curve([0.25, 1.0], [0.6, 0.8])}, x="known share", y="AUC", reference=0.5)
        >>> spec["layer"][1]["data"]["values"]
        [{'series': 'RMIA', 'x': 0.25, 'y': 0.6}, {'series': 'RMIA', 'x': 1.0, 'y': 0.8}]
    """
    for name, curve in _check_groups(curves, "curves").items():
        if log_x and curve.x[0] <= 0:
            raise InputError(f"curves[{name!r}].x: must be above 0 on a logarithmic axis, got {curve.x[0]:g}")
    thin = {
        name: curve.take(evenly_spaced(len(curve.x), _points_per_curve(len(curves)))) for name, curve in curves.items()
    }
    points = max(len(curve.x) for curve in thin.values()) <= 40
    scale = alt.Scale(type="log", nice=False) if log_x else alt.Scale(zero=False, nice=False)
    across: Row = {"title": x, "scale": scale}
    if log_x and max(float(curve.x[-1]) for curve in curves.values()) > _MILLION:
        across["axis"] = alt.Axis(format=".0e")
    elif not log_x and all((curve.x % 1 == 0).all() for curve in curves.values()):
        across["axis"] = alt.Axis(tickMinStep=1)  # counts: no ticks between them
    heights = np.concatenate([curve.y for curve in thin.values()])
    # A scale of its own would put zero in the middle.
    is_whole = whole or {0.0} == set(heights)
    up: Row = {
        "title": y,
        "scale": alt.Scale(domain=[0, _ABOVE_ONE], nice=False) if is_whole else alt.Scale(zero=False),
    }
    guides = [] if reference is None else [_guide_lines({"": reference}, "y", y)]
    return _finish(alt.layer(*guides, _curve_layers(thin, across, up, "linear", points=points)), height=320)


def bars(
    names: Sequence[str],
    estimates: Sequence[Estimate],
    *,
    quantity: str,
    unseen: Sequence[bool] | None = None,
    reference: float | None = None,
) -> Spec:
    """Draw one horizontal bar per class or group, in the given order, with its interval as a whisker.

    Args:
        names: name of each group, no two the same.
        estimates: its value and interval.
        quantity: what the bars measure ("TPR at FPR 0.1 %").
        unseen: True where the auditor had no record of the class; told apart by colour and by shape.
        reference: a value to compare with, drawn as a dashed line.

    Raises:
        divulge.InputError: no or repeated names, lengths that differ, NaN or infinity in an estimate.

    Examples:
        >>> from divulge.types import Estimate
        >>> spec = bars(["ship"], [Estimate(0.2, 0.1, 0.3, 0.95, "clopper-pearson")], quantity="TPR", unseen=[True])
        >>> spec["data"]["values"]
        [{'name': 'ship', 'value': 0.2, 'low': 0.1, 'high': 0.3, 'kind': 'unseen class'}]
    """
    rows = _estimate_rows(names, estimates)
    colour: Row = {}
    mark: Row = {}
    if unseen is not None:
        if len(unseen) != len(rows):
            raise InputError(f"unseen: {len(rows)} values are needed (one per name), got {len(unseen)}")
        rows = [row | {"kind": "unseen class" if new else "seen class"} for row, new in zip(rows, unseen, strict=True)]
        colour, mark = (_group_encoding("kind", ("seen class", "unseen class"), shape=shape) for shape in (False, True))
    across: Row = {"title": quantity}
    base: Layer = alt.Chart().encode(y=_lane_axis(rows), tooltip=_tooltip(rows[0]))
    layers = [
        base.mark_bar(height={"band": 0.6}, opacity=0.4).encode(x=alt.X("value:Q", **across), **colour),
        base.mark_rule(strokeWidth=1.5, style="whisker").encode(x=alt.X("low:Q", **across), x2=alt.X2("high:Q")),
        base.mark_point(filled=True, size=90, opacity=1).encode(x=alt.X("value:Q", **across), **mark),
    ]
    return _finish_lanes(alt.layer(*layers, data=_named_data("groups", rows)), len(rows), quantity, reference)


def intervals(
    estimates: Mapping[str, Estimate],
    *,
    quantity: str,
    reference: float | None = None,
    unit: Literal["", "%", "points"] = "",
) -> Spec:
    """Draw a dot and its interval for each attack, below one another.

    Args:
        estimates: attack → value and interval.
        quantity: what is measured ("AUC").
        reference: a value to compare with (½ for an AUC: guessing), drawn as a dashed line.
        unit: of shares and their differences, which tables show in hundredths; empty for what is no share.

    Raises:
        divulge.InputError: no estimate, or NaN or infinity in one.

    Examples:
        >>> from divulge.types import Estimate
        >>> spec = intervals({"LOSS": Estimate(0.6, 0.58, 0.62, 0.95, "delong")}, quantity="AUC", reference=0.5)
        >>> spec["layer"][0]["data"]["values"]
        [{'name': 'LOSS', 'value': 0.6, 'low': 0.58, 'high': 0.62}]
    """
    shown = [_in_percent(estimate) if unit else estimate for estimate in estimates.values()]
    rows = _estimate_rows(list(estimates), shown)
    across: Row = {"title": f"{quantity}, {unit}" if unit else quantity, "scale": alt.Scale(zero=False)}
    base: Layer = alt.Chart().encode(y=_lane_axis(rows), tooltip=_tooltip(rows[0]))
    ends = [base.mark_tick(thickness=2, size=9).encode(x=alt.X(f"{end}:Q", **across)) for end in ("low", "high")]
    whisker = base.mark_rule(strokeWidth=2, style="interval").encode(x=alt.X("low:Q", **across), x2=alt.X2("high:Q"))
    dot = base.mark_point(filled=True, size=80, opacity=1).encode(x=alt.X("value:Q", **across))
    return _finish_lanes(
        alt.layer(whisker, *ends, dot, data=_named_data("estimates", rows)), len(rows), quantity, reference
    )


def trade_off(
    choices: Mapping[str, tuple[Estimate, Estimate]],
    *,
    x: str,
    y: str,
    reference: float | None = None,
    percent: bool = False,
) -> Spec:
    """Draw what each choice costs and what it gains: a dot with an interval in both directions.

    Args:
        choices: name → (estimate across, estimate upwards).
        x: title of the horizontal axis ("accuracy").
        y: title of the vertical axis ("AUC of loss").
        reference: a value of ``y`` to compare with (½ for an AUC: guessing), drawn as a dashed line.
        percent: whether the values across are shares, which tables show in per cent.

    Raises:
        divulge.InputError: no choice, or NaN or infinity in an estimate.

    Examples:
        >>> from divulge.types import Estimate
        >>> accuracy, leak = Estimate(0.8, 0.75, 0.85, 0.95, "exact"), Estimate(0.6, 0.58, 0.62, 0.95, "delong")
        >>> spec = trade_off({"as it is": (accuracy, leak)}, x="accuracy", y="AUC", reference=0.5, percent=True)
        >>> spec["layer"][0]["data"]["values"]
        [{'choice': 'as it is', 'x': 80.0, 'x_low': 75.0, 'x_high': 85.0, 'y': 0.6, 'y_low': 0.58, 'y_high': 0.62}]
    """
    across = [_in_percent(cost) if percent else cost for cost, _ in choices.values()]
    sides = zip(
        _estimate_rows(list(choices), across),
        _estimate_rows(list(choices), [gain for _, gain in choices.values()]),
        strict=True,
    )
    rows: list[Row] = [
        {"choice": cost["name"]}
        | {f"x{end}": cost[key] for end, key in (("", "value"), ("_low", "low"), ("_high", "high"))}
        | {f"y{end}": gain[key] for end, key in (("", "value"), ("_low", "low"), ("_high", "high"))}
        for cost, gain in sides
    ]
    across_axis: Row = {"title": f"{x}, %" if percent else x, "scale": alt.Scale(zero=False, padding=16)}
    up_axis: Row = {"title": y, "scale": alt.Scale(zero=False, padding=16)}
    base: Layer = alt.Chart().encode(tooltip=_tooltip(rows[0]))
    bare = base.encode(**_group_encoding("choice", choices))
    whiskers = [
        bare.mark_rule(strokeWidth=1.5, style="interval").encode(
            x=alt.X("x_low:Q", **across_axis), x2=alt.X2("x_high:Q"), y=alt.Y("y:Q", **up_axis)
        ),
        bare.mark_rule(strokeWidth=1.5, style="interval").encode(
            x=alt.X("x:Q", **across_axis), y=alt.Y("y_low:Q", **up_axis), y2=alt.Y2("y_high:Q")
        ),
    ]
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=alt.X("x:Q", **across_axis),
        y=alt.Y("y:Q", **up_axis),
        **_group_encoding("choice", choices, shape=True),
    )
    guides = [] if reference is None else [_guide_lines({"guessing": reference}, "y", y)]
    drawn = alt.layer(*whiskers, dots, data=_named_data("choices", rows))
    return _finish(alt.layer(drawn, *guides), height=340)


def _in_percent(share: Estimate) -> Estimate:
    return replace(share, value=100 * share.value, low=100 * share.low, high=100 * share.high)


def class_lanes(
    series: Mapping[str, Mapping[str, Estimate]], *, focus: str, quantity: str, reference: float | None = None
) -> Spec:
    """Draw a dot for each series in each lane, one below another, with whiskers on those of ``focus``.

    A reader may choose another focus.

    Of more than 30 lanes those are shown in which ``focus`` is largest, in their own order.

    Args:
        series: recipe → class → value and interval.
        focus: the series whose intervals are shown first.
        quantity: what is measured ("AUC").
        reference: a value to compare with, drawn as a dashed line.

    Raises:
        divulge.InputError: no series, an unknown ``focus``, or one without lanes; NaN or infinity in an estimate.

    Examples:
        >>> from divulge.types import Estimate
        >>> one = {"class 3": Estimate(0.6, 0.5, 0.7, 0.95, "delong")}
        >>> spec = class_lanes({"lira": one, "loss": one}, focus="lira", quantity="AUC")
        >>> spec["params"][0]
        {'name': 'focus', 'value': 'lira'}
    """
    check_choice(focus, "focus", _check_groups(series, "series"))
    lanes = _select_lanes(series[focus])
    rows: list[Row] = []
    for name, estimates in series.items():
        present = {lane: estimates[lane] for lane in lanes if lane in estimates}
        if present:
            rows += [{"series": name} | row for row in _estimate_rows(list(present), list(present.values()))]
    across: Row = {"title": quantity, "scale": alt.Scale(zero=False)}
    edges = alt.Axis(grid=len(series) > 1, tickBand="extent")
    base: Layer = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=list(lanes), scale=alt.Scale(padding=0), axis=edges),
        # Points at the same place would hide one another.
        yOffset=alt.YOffset("series:N", scale=alt.Scale(domain=[str(name) for name in series])),
        tooltip=_tooltips("series:N", "name:N", "value:Q", "low:Q", "high:Q"),
    )
    visible = base.transform_filter(_VISIBLE)
    whisker = visible.transform_filter(_FOCUSED).mark_rule(strokeWidth=2)
    whisker = whisker.encode(x=alt.X("low:Q", **across), x2=alt.X2("high:Q"), **_coloured(series))
    dot = visible.mark_point(filled=True, size=80, opacity=1)
    dot = dot.encode(x=alt.X("value:Q", **across), **_coloured(series, shape=True))
    chart = alt.layer(whisker, dot, data=_named_data("estimates", rows))
    return _add_focus(
        _finish_lanes(chart, len(lanes), quantity, reference, _lane_height(len(lanes), len(series))), focus
    )


def _lane_height(n_lanes: int, n_series: int) -> int:
    """Return the height of a lane with room for each series, as long as the chart fits a screen."""
    return max(LANE, min(13 * n_series, TALLEST // n_lanes))


def _select_lanes(estimates: Mapping[str, Estimate]) -> list[str]:
    if not estimates:
        raise InputError("series: the one in focus has no lanes")
    largest = sorted(estimates, key=lambda name: -estimates[name].value)[:MAX_LANES]
    return [name for name in estimates if name in set(largest)]


def _coloured(series: Mapping[str, object], *, shape: bool = False) -> Row:
    return _group_encoding("series", series, shape=shape, legend=False)


def histogram(groups: Mapping[str, object], *, quantity: str = "score", bins: int = 50) -> Spec:
    """Draw histograms of several groups: the share of each group in each of common bins.

    The bins span all values, or, where the outermost lie far out, the middle 99.8 %: what lies outside is then counted
    in the first and the last bin, as the axis says.

    Args:
        groups: name → values ``[n]`` ("members", "non-members").
        quantity: what is counted.
        bins: number of bins.

    Raises:
        divulge.InputError: no group, an empty group, NaN or infinity.

    Examples:
        >>> spec = histogram({"members": [1.0, 2.0], "non-members": [0.0, 0.0]}, bins=2)
        >>> [row["share"] for row in spec["data"]["values"] if row["group"] == "members"]
        [0.0, 1.0, 1.0]
    """
    bins = check_integer(bins, "bins", minimum=1)
    values = {name: check_vector(group, f"groups[{name!r}]") for name, group in _check_groups(groups, "groups").items()}
    together = np.concatenate(list(values.values()))
    least, low, high, most = np.quantile(together, [0, 0.001, 0.999, 1])
    if most - least <= _FAR_OUT * (high - low):
        low, high = least, most
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    n_beyond = int(((together < low) | (together > high)).sum())
    edges = np.linspace(low, high, bins + 1)
    rows: list[Row] = []
    for name, group in values.items():
        share = np.histogram(np.clip(group, low, high), edges)[0] / len(group)
        # The last step reaches the last edge only if its height stands there once more.
        heights = zip(edges, np.r_[share, share[-1]], strict=True)
        rows += [{"group": str(name), "from": _shorten(edge), "share": _shorten(height)} for edge, height in heights]
    # One bar that holds nearly all would flatten the others to nothing.
    tall = max(row["share"] for row in rows) > DOMINANT_BIN_SHARE
    scale: Row = {"scale": alt.Scale(type="sqrt")} if tall else {}
    beyond = f"{quantity} ({n_beyond:,} beyond the ends, counted in the outermost bins)"
    ends: Row = {"axis": alt.Axis(title=beyond)} if n_beyond else {}
    base: Layer = alt.Chart().encode(
        x=alt.X("from:Q", title=quantity, scale=alt.Scale(nice=False, zero=False), **ends),
        y=alt.Y("share:Q", title=f"share of the group{', square-root scale' if tall else ''}", stack=None, **scale),
        tooltip=[alt.Tooltip("group:N"), alt.Tooltip("from:Q", title=quantity), alt.Tooltip("share:Q")],
    )
    shade = base.mark_area(interpolate="step-after", opacity=0.22).encode(
        **_group_encoding("group", groups, key="line")
    )
    outline = base.mark_line(interpolate="step-after", strokeWidth=1.6).encode(
        **_group_encoding("group", groups, dash=True, key="line")
    )
    return _finish(alt.layer(shade, outline, data=_named_data("shares", rows)), height=280)


def scatter(
    groups: Mapping[str, tuple[object, object]],
    *,
    x: str,
    y: str,
    vertical: Mapping[str, float] | None = None,
    horizontal: Mapping[str, float] | None = None,
) -> Spec:
    """Draw points of several groups and lines to compare them with: |Φ(x)| of members and fresh points at the margin.

    Of more than 1,500 points as many are drawn, an equal share of each group, evenly spaced in the order of ``x``.

    Args:
        groups: name → (x ``[n]``, y ``[n]``).
        x: title of the horizontal axis.
        y: title of the vertical axis.
        vertical: name → value of ``x`` where a dashed line stands.
        horizontal: name → value of ``y`` where a dashed line lies.

    Raises:
        divulge.InputError: no group, lengths that differ, NaN or infinity.

    Examples:
        >>> spec = scatter({"member": ([1.0], [2.0])}, x="margin", y="|Φ|", horizontal={"margin": 2.0})
        >>> spec["layer"][0]["data"]["values"]
        [{'group': 'member', 'x': 1.0, 'y': 2.0}]
    """
    rows: list[Row] = []
    for name, (x_values, y_values) in _check_groups(groups, "groups").items():
        across = check_vector(x_values, f"groups[{name!r}][0]")
        up = check_vector(y_values, f"groups[{name!r}][1]", length=len(across))
        thinned = np.argsort(across, kind="stable")[evenly_spaced(len(across), CLOUD_POINTS // len(groups))]
        rows += [{"group": str(name), "x": _shorten(across[i]), "y": _shorten(up[i])} for i in thinned]
    points: Layer = alt.Chart(_named_data("points", rows)).mark_point(filled=True, opacity=0.7, size=38)
    points = points.encode(
        x=alt.X("x:Q", title=x, scale=alt.Scale(zero=False)),
        y=alt.Y("y:Q", title=y, scale=alt.Scale(zero=False)),
        tooltip=[alt.Tooltip("group:N"), alt.Tooltip("x:Q", title=x), alt.Tooltip("y:Q", title=y)],
        **_group_encoding("group", groups, shape=True),
    )
    guides = [_guide_lines(vertical, "x", x)] if vertical is not None else []
    guides += [_guide_lines(horizontal, "y", y)] if horizontal is not None else []
    return _finish(alt.layer(points, *guides), height=340)


def network(
    x: object,
    phi: object,
    *,
    break_points: object,
    margin: float,
    crossings: object = (),
    candidates: object = (),
    truth: object = (),
) -> Spec:
    """Draw a univariate network: its function, its break-points, the margin lines, and the points read off it.

    Args:
        x: inputs ``[n]``, in increasing order.
        phi: the network's output there, ``[n]``.
        break_points: inputs ``[k]`` at which a neuron switches.
        margin: training points lie on the outputs ±margin.
        crossings: inputs at which the output crosses the margin.
        candidates: inputs that the weights give away.
        truth: the training inputs, where they are known.

    Raises:
        divulge.InputError: lengths that differ, a decreasing ``x``, NaN or infinity.

    Examples:
        >>> spec = network([0.0, 1.0], [-1.0, 1.0], break_points=[0.5], margin=1.0, candidates=[1.0])
        >>> spec["layer"][2]["data"]["values"]
        [{'what': 'break-point', 'x': 0.5, 'y': 0.0}, {'what': 'candidate', 'x': 1.0, 'y': 1.0}]
    """
    curve = Curve(x, phi)
    across = alt.X("x:Q", title="x", scale=alt.Scale(zero=False, nice=False))
    up = alt.Y("y:Q", title="Φ(x)", scale=alt.Scale(padding=16))  # room for the names of the margin's lines
    function = [row | {"what": "Φ"} for row in _curve_rows(curve.take(evenly_spaced(len(curve.x), 2 * CURVE_POINTS)))]
    shapes = {
        "break-point": "M0,-1L0,1",
        "crossing": "M-1,0L1,0",
        "candidate": "circle",
        "training point": "M-0.7,-0.7L0.7,0.7M-0.7,0.7L0.7,-0.7",
    }
    places = {"break-point": break_points, "crossing": crossings, "candidate": candidates, "training point": truth}
    rows = [
        {"what": mark, "x": _shorten(position), "y": _shorten(np.interp(position, curve.x, curve.y))}
        for mark, inputs in places.items()
        for position in np.sort(check_array(inputs, mark), axis=None)
    ]
    shapes = {mark: shape for mark, shape in shapes.items() if any(row["what"] == mark for row in rows)}
    points: Layer = alt.Chart(_named_data("points", rows)).mark_point(strokeWidth=2, opacity=1, size=160)
    points = points.encode(
        x=across,
        y=up,
        tooltip=_tooltips("what:N", "x:Q", "y:Q"),
        color=_group_encoding("what", shapes)["color"],
        shape=alt.Shape("what:N", title=None, scale=alt.Scale(domain=list(shapes), range=list(shapes.values()))),
    )
    line: Layer = alt.Chart(_named_data("function", function))
    line = line.mark_line(strokeWidth=1.8, style="function").encode(x=across, y=up)
    guides = _guide_lines({f"+{margin:g}": margin, f"−{margin:g}": -margin}, "y", "Φ(x)")
    return _finish(alt.layer(guides, line, points), height=340)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """``y`` over ``x``, both ``[n]``, with a confidence band ``low`` to ``high`` where there is one.

    Raises:
        divulge.InputError: NaN or infinity, lengths that differ, a decreasing ``x``, or half a band.

    Examples:
        >>> Curve([0.0, 0.5, 1.0], [0.2, 0.7, 1.0]).x
        array([0. , 0.5, 1. ])
    """

    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None

    def __init__(self, x: object, y: object, low: object = None, high: object = None) -> None:
        along = check_vector(x, "x")
        if (np.diff(along) < 0).any():
            raise InputError(
                f"x: must not decrease along a curve, but does after entry {int(np.argmax(np.diff(along) < 0))}"
            )
        if (low is None) != (high is None):
            raise InputError("low, high: a band needs both of its ends, got one")
        object.__setattr__(self, "x", along)
        object.__setattr__(self, "y", check_vector(y, "y", length=len(along)))
        object.__setattr__(self, "low", None if low is None else check_vector(low, "low", length=len(along)))
        object.__setattr__(self, "high", None if high is None else check_vector(high, "high", length=len(along)))

    def take(self, index: Ints | slice) -> Curve:
        """Return the points at ``index``."""
        if self.low is None or self.high is None:
            return Curve(self.x[index], self.y[index])
        return Curve(self.x[index], self.y[index], self.low[index], self.high[index])


def _check_rates(curves: Mapping[str, Curve]) -> Mapping[str, Curve]:
    """Return ``curves`` if every rate lies in [0, 1]."""
    for name, curve in _check_groups(curves, "curves").items():
        for part in (curve.x, curve.y, curve.low, curve.high):
            if part is not None and (part.min() < 0 or part.max() > 1):
                raise InputError(f"curves[{name!r}]: rates must lie in [0, 1], got {part.min():g} to {part.max():g}")
    return curves


def axis_floor(rates: Floats) -> float:
    """Return the lower end of a logarithmic axis: half of the least positive rate, at least 1e-6."""
    positive = rates[rates > 0]
    return float(np.clip(positive.min() / 2, 1e-6, 0.1)) if positive.size else 0.1


def _points_per_curve(count: int) -> int:
    """Return the maximal number of points of each curve."""
    return min(CURVE_POINTS, max(_MIN_CURVE_POINTS, ALL_POINTS // count))


def thin_curve(curve: Curve, floor: float, max_points: int = CURVE_POINTS) -> Curve:
    """Return the last point at or before each place of a logarithmic grid, and the last point of all."""
    grid = np.r_[0.0, np.geomspace(floor, 1.0, max_points - 2)]
    reached = np.searchsorted(curve.x, grid, side="right") - 1
    return curve.take(np.unique(np.r_[np.maximum(reached, 0), len(curve.x) - 1]))


def evenly_spaced(count: int, max_points: int) -> Ints:
    """Return at most ``max_points`` of the positions ``0..count-1``, evenly spaced, both ends kept."""
    return np.arange(count) if count <= max_points else np.linspace(0, count - 1, max_points).round().astype(np.int64)


def _curve_rows(curve: Curve, digits: int = _DIGITS) -> list[dict[str, Any]]:
    """Return the points of a curve as one dict each."""
    columns = {"x": curve.x, "y": curve.y, "low": curve.low, "high": curve.high}
    present = {name: column for name, column in columns.items() if column is not None}
    return [{name: _shorten(column[i], digits) for name, column in present.items()} for i in range(len(curve.x))]


def _shorten(value: float, digits: int = _DIGITS) -> float:
    """Round to eight digits: more than a chart shows, and half the bytes."""
    return float(f"{value:.{digits}g}")


def _check_groups(groups: Mapping[str, T], name: str) -> Mapping[str, T]:
    """Return ``groups`` if there is any."""
    if not groups:
        raise InputError(f"{name}: at least 1 entry is needed, got 0")
    return groups


def _log_log_chart(
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
    ends: Layer = alt.Chart(_named_data("_diagonal", [{"x": floor, "y": floor, "x2": 1, "y2": 1}]))
    diagonal = ends.mark_rule(style="reference", strokeDash=[4, 4])
    diagonal = diagonal.encode(x=alt.X("x:Q", **across), y=alt.Y("y:Q", **up), x2=alt.X2("x2:Q"), y2=alt.Y2("y2:Q"))
    chosen = focus is not None
    lines = _curve_layers(curves, across, up, interpolate, points=points, chosen=chosen, digits=_RATE_DIGITS)
    spec = _finish(alt.layer(diagonal, lines), height=420 if focus is None else 340)
    return spec if focus is None else _add_focus(spec, focus)


def _add_focus(spec: Spec, focus: str) -> Spec:
    """Return a chart whose reader may hide series and choose the one in focus."""
    return spec | {"params": [{"name": "focus", "value": focus}, {"name": "hidden", "value": []}]}


def _curve_layers(
    curves: Mapping[str, Curve],
    across: Row,
    up: Row,
    interpolate: Interpolate,
    *,
    points: bool,
    chosen: bool = False,
    digits: int = _DIGITS,
) -> Layer:
    """Return bands, lines and, where asked for, points, of one data set. ``chosen``: one band at a time."""
    rows = [{"series": str(name)} | row for name, curve in curves.items() for row in _curve_rows(curve, digits)]
    banded = any(curve.low is not None for curve in curves.values())
    places = [alt.Tooltip("x:Q", title=across["title"]), alt.Tooltip("y:Q", title=up["title"])]
    tooltip = [alt.Tooltip("series:N"), *places, *(_tooltips("low:Q", "high:Q") if banded else [])]
    base: Layer = alt.Chart().encode(x=alt.X("x:Q", **across), tooltip=tooltip)
    base = base.transform_filter(_VISIBLE) if chosen else base
    y = alt.Y("y:Q", **up)
    colour = _group_encoding("series", curves, key="line", legend=not chosen)
    dashed = _group_encoding("series", curves, dash=True, key="line", legend=not chosen)
    layers = [base.mark_line(interpolate=interpolate, strokeWidth=2).encode(y=y, **dashed)]
    if banded:
        area = (base.transform_filter(_FOCUSED) if chosen else base).mark_area(interpolate=interpolate, opacity=0.16)
        layers.insert(0, area.encode(y=alt.Y("low:Q", **up), y2=alt.Y2("high:Q"), **colour))
    if points:
        dots = base.mark_point(filled=True, size=45, opacity=1)
        layers.append(dots.encode(y=y, **colour))
    return alt.layer(*layers, data=_named_data("curves", rows))


def _guide_lines(places: Mapping[str, float], channel: Literal["x", "y"], title: str) -> Layer:
    """Draw dashed lines across the plot, each with its name at its end."""
    rows = [{"label": str(label), "at": _shorten(check_number(position, label))} for label, position in places.items()]
    encoding = {"x": alt.X("at:Q", title=title), "y": alt.Y("at:Q", title=title)}[channel]
    base: Layer = alt.Chart().encode(encoding)
    rule = base.mark_rule(style="reference", strokeDash=[4, 4])
    if channel == "x":
        text = base.mark_text(style="guide", align="left", dx=4).encode(text=alt.Text("label:N"), y=alt.value(8))
    else:
        text = base.mark_text(style="guide", align="left", dy=-6).encode(text=alt.Text("label:N"), x=alt.value(4))
    return alt.layer(rule, text, data=_named_data("_guides", rows))


def _lane_axis(rows: Sequence[Row]) -> alt.Y:
    """Return a vertical axis with one lane per row, in the order of the rows."""
    return alt.Y("name:N", title=None, sort=[row["name"] for row in rows])


def _finish_lanes(chart: Layer, count: int, quantity: str, reference: float | None, height: int = LANE) -> Spec:
    """Return a chart of lanes, with a reference line where there is one."""
    layers = [chart] if reference is None else [chart, _guide_lines({"": reference}, "x", quantity)]
    return _finish(alt.layer(*layers), height=height * count)


def _tooltip(row: Row) -> list[alt.Tooltip]:
    """Return a tooltip that shows everything in ``row``."""
    return _tooltips(*(f"{name}:{'N' if isinstance(value, str) else 'Q'}" for name, value in row.items()))


def _tooltips(*fields: str) -> list[alt.Tooltip]:
    """Return these fields as channels: of each that is a text, Altair looks through all its classes for one."""
    return [alt.Tooltip(field) for field in fields]


def _group_encoding(
    field: str,
    names: Iterable[str],
    *,
    shape: bool = False,
    dash: bool = False,
    key: Literal["symbol", "line"] = "symbol",
    legend: bool = True,
) -> Row:
    """Return encodings that tell groups apart, by colour and by shape or dash; ``key`` is what the legend shows."""
    domain = [str(name) for name in names]
    # Layers that share a legend must describe it alike.
    described = alt.Legend(symbolType="stroke", symbolSize=400) if key == "line" else alt.Legend()
    shared: Row = {"title": None, "legend": described if legend else None}
    encoding: Row = {"color": alt.Color(f"{field}:N", scale=alt.Scale(domain=domain), **shared)}
    if shape:
        scale = alt.Scale(domain=domain, range=_cycle(_SHAPES, len(domain)))
        encoding["shape"] = alt.Shape(f"{field}:N", scale=scale, **shared)
    if dash:
        scale = alt.Scale(domain=domain, range=_cycle(_DASHES, len(domain)))
        encoding["strokeDash"] = alt.StrokeDash(f"{field}:N", scale=scale, **shared)
    return encoding


def _cycle(items: Sequence[Any], count: int) -> list[Any]:
    """Return the first ``count`` items; after the last comes the second, so that no two share place and colour."""
    return [items[(i + i // len(items)) % len(items)] for i in range(count)]


def _named_data(name: str, rows: Sequence[Row]) -> alt.InlineData:
    """Rows under the name that their printed table bears."""
    return alt.InlineData(values=tuple(rows), name=name)  # a list would be copied, row by row, with every layer


def _finish(chart: Layer, *, height: int) -> Spec:
    """Return the specification of a chart that fills the width of its place.

    It is not held against Vega-Lite's schema again, of which its parts are checked as they are made.
    """
    return chart.properties(
        width="container", height=height, autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
    ).to_dict(validate=False)


def _estimate_rows(names: Sequence[str], estimates: Sequence[Estimate]) -> list[Row]:
    """Return one row per estimate: name, value and both ends."""
    if not len(names) or len(names) != len(estimates):
        raise InputError(f"estimates: one per name is needed, got {len(estimates)} for {len(names)} names")
    repeated = [name for name in set(names) if list(names).count(name) > 1]
    if repeated:
        raise InputError(f"names: must be unique, {min(repeated)!r} occurs more than once")
    rows = []
    for name, estimate in zip(names, estimates, strict=True):
        ends = check_vector([estimate.value, estimate.low, estimate.high], f"estimate of {name!r}")
        rows.append({"name": str(name)} | dict(zip(("value", "low", "high"), map(_shorten, ends), strict=True)))
    return rows
